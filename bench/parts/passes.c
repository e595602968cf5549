/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the passes through a net: one that acts, or one forward and backward as in an update.
 * Rows of recurrent nets are sequences of STEPS, 1 by default. */
#include "bench/parts/nets.h"
#include "bench/parts/parts.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

struct passes {
    struct hd_net *net;
    int64_t rows;
    struct hd_net_sequences sequences;
    void *params, *obs, *work, *scratch;
    float *q, *dq, *grad;
};

static void act(void *arg)
{
    const struct passes *p = arg;
    hd_net_forward(p->net,
                   &(struct hd_net_pass){.params = p->params,
                                         .obs = p->obs,
                                         .rows = p->rows,
                                         .sequences = &p->sequences,
                                         .work = p->work},
                   p->q);
}

static void update(void *arg)
{
    const struct passes *p = arg;
    act(arg);
    for (int stage = 0; stage < hd_net_count_stages(p->net); stage++)
        hd_net_backward(p->net, p->params, p->rows, p->rows, p->work, p->dq, p->scratch, stage,
                        p->grad);
}

static int allocate(struct passes *p)
{
    const struct hd_net *net = p->net;
    const int64_t rows = p->rows, steps = p->sequences.steps;
    const int64_t outputs = rows * hd_net_count_outputs(net);
    const int64_t states = rows / steps * hd_net_count_state(net);
    float *state = hd_alloc(states, 4);
    p->params = hd_alloc(hd_net_get_params_bytes(net), 1);
    p->obs = hd_alloc(rows * hd_net_get_obs_bytes(net), 1);
    p->work = hd_alloc(hd_net_get_forward_bytes(net, rows, steps), 1);
    p->scratch = hd_alloc(hd_net_get_backward_bytes(net, rows, steps), 1);
    p->q = hd_alloc(outputs, 4), p->dq = hd_alloc(outputs, 4);
    p->grad = hd_alloc(hd_net_count_params(net), 4);
    p->sequences.state = p->sequences.next_state = state;
    return state && p->params && p->obs && p->work && p->scratch && p->q && p->dq && p->grad
               ? HD_OK
               : HD_ERR_NOMEM;
}

static int fill(const struct passes *p)
{
    struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    HD_TRY(hd_net_init(p->net, &rng, p->params));
    for (int64_t i = 0; i < p->rows * hd_net_count_obs(p->net); i++)
        if (hd_net_has_u8_obs(p->net))
            ((uint8_t *)p->obs)[i] = (uint8_t)hd_rng_draw_below(&rng, (uint32_t)i, 256);
        else
            ((float *)p->obs)[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i);
    for (int64_t i = 0; i < p->rows * hd_net_count_outputs(p->net); i++)
        p->dq[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i) - 0.5f;
    return HD_OK;
}

/* Memory is released by the end of the process. */
static int measure(int argc, char **argv)
{
    struct passes p = {.rows = hd_part_parse_number(argc, argv, 3, 256),
                       .sequences = {.steps = hd_part_parse_number(argc, argv, 4, 1)}};
    const bool acts = argc > 2 && strcmp(argv[2], "act") == 0;
    if (argc < 3 || p.rows == 0 || p.sequences.steps == 0 || p.rows % p.sequences.steps != 0 ||
        (!acts && strcmp(argv[2], "update") != 0))
        return HD_ERR_INPUT;
    const int status = hd_bench_net_create(argv[0], argv[1], &p.net);
    if (status == HD_ERR_INPUT)
        fprintf(stderr, "no net %s in %s\n", argv[0], argv[1]);
    HD_TRY(status);
    HD_TRY(hd_net_prepare(p.net, p.rows, acts ? 0 : p.rows));
    HD_TRY(allocate(&p));
    HD_TRY(fill(&p));
    hd_part_report(NULL, 1e3 * hd_part_measure_seconds(acts ? act : update, &p), "ms");
    return HD_OK;
}

const struct hd_bench_part hd_part_passes = {
    HD_BENCH_NETS " f32|bf16 act|update [ROWS [STEPS]]",
    "one pass through a net, one thread, forward alone or forward and backward", measure};
