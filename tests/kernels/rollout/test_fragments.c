/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a collect of envs that step at once, against lists of each env's own that are
 * appended one after another; on a GPU every byte against the CPU's. */
#include "kernels/act/categorical.h"
#include "kernels/rollout/fragments_internal.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/device.h"

#include <string.h>

struct shape {
    int64_t envs, steps, samples, actions, ld;
    double ends; /* how often */
};

static const struct shape shapes[] = {
    {3, 40, 120, 3, 4, 0.1},  {4, 7, 25, 6, 7, 0.3},  {1, 1, 1, 2, 2, 1},    {5, 1, 2, 18, 19, 0.5},
    {70, 9, 630, 6, 7, 0.05}, {300, 2, 599, 2, 3, 1}, {2, 300, 600, 4, 4, 0}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Arrays one after the other in one block, so that blocks can be compared. */
struct arrays {
    char *memory;
    int64_t bytes;
    struct hd_fragments fragments;
};

static void *take(struct arrays *a, int64_t count, size_t size)
{
    char *array = a->memory ? a->memory + a->bytes : NULL;
    a->bytes += (count * (int64_t)size + 63) / 64 * 64;
    return array;
}

static struct arrays lay_out(const struct shape *is, void *memory)
{
    struct arrays a = {.memory = memory};
    struct hd_fragments *c = &a.fragments;
    const int64_t steps = is->envs * is->steps;
    *c = (struct hd_fragments){
        .envs = is->envs, .steps = is->steps, .samples = is->samples, .actions = is->actions};
    c->logit = take(&a, steps * is->actions, sizeof *c->logit);
    c->value = take(&a, steps, sizeof *c->value);
    c->action = take(&a, steps, sizeof *c->action);
    c->row = take(&a, is->samples, sizeof *c->row);
    c->end = take(&a, is->samples, sizeof *c->end);
    c->made = take(&a, 1, sizeof *c->made);
    c->forward = take(&a, 1, sizeof *c->forward);
    c->ended = take(&a, 1, sizeof *c->ended);
    c->ended_return = take(&a, steps, sizeof *c->ended_return);
    c->ended_steps = take(&a, steps, sizeof *c->ended_steps);
    return a;
}

/* The envs' records and the net's outputs: output[T][E][ld]. */
struct played {
    float *done, *output;
    double *ended_return;
    int64_t *ended_steps;
    struct hd_rng rng;
};

static double fill(int64_t stream, int64_t i)
{
    const struct hd_rng rng = hd_rng_make(6, 7, stream, 0, 0);
    return hd_rng_draw_uniform(&rng, (uint32_t)i);
}

static struct played play(const struct shape *is)
{
    const int64_t steps = is->envs * is->steps, outputs = steps * is->ld;
    struct played p = {.rng = hd_rng_make(1, 2, 3, 4, 5)};
    p.done = test_alloc(steps, sizeof *p.done);
    p.output = test_alloc(outputs, sizeof *p.output);
    p.ended_return = test_alloc(steps, sizeof *p.ended_return);
    p.ended_steps = test_alloc(steps, sizeof *p.ended_steps);
    for (int64_t i = 0; i < steps; i++) {
        p.done[i] = fill(1, i) < is->ends;
        p.ended_return[i] = floor(42 * fill(2, i)) - 21;
        p.ended_steps[i] = (int64_t)(1000 * fill(3, i));
    }
    for (int64_t i = 0; i < outputs; i++)
        p.output[i] = (float)(6 * fill(4, i) - 3);
    return p;
}

static uint32_t first_of(const struct shape *is, int64_t t)
{
    return (uint32_t)(t * is->envs);
}

/* -- What a GPU does, on the CPU -------------------------------------------------------------- */

static void draw_actions(const struct hd_fragments *fragments, const float *output, int64_t ld,
                         const struct hd_rng *rng, uint32_t first, int64_t t)
{
    for (int64_t env = 0; env < fragments->envs; env++)
        hd_fragments_draw_action(fragments, output, ld, rng, first, env, t);
}

static void complete(const struct hd_fragments *fragments, const struct hd_fragment_ends *ends)
{
    const int64_t steps = fragments->envs * fragments->steps;
    for (int64_t i = 0; i < fragments->samples; i++)
        hd_fragments_note_sample(fragments, ends->done, i);
    *fragments->made = steps;
    *fragments->forward = fragments->steps;
    *fragments->ended = 0;
    for (int64_t k = 0; k < steps; k++) {
        const int64_t step = hd_fragments_find_in_time(fragments, k);
        if (ends->done[step] != 0)
            hd_fragments_note_end(fragments, ends, step, (*fragments->ended)++);
    }
}

static void note(const struct shape *is, const struct played *p,
                 const struct hd_fragments *fragments)
{
    const struct hd_fragment_ends ends = {p->done, p->ended_return, p->ended_steps};
    for (int64_t t = 0; t < is->steps; t++)
        draw_actions(fragments, p->output + t * is->envs * is->ld, is->ld, &p->rng, first_of(is, t),
                     t);
    complete(fragments, &ends);
}

static void check_draws(const struct shape *is, const struct played *p,
                        const struct hd_fragments *c)
{
    for (int64_t t = 0; t < is->steps; t++)
        for (int64_t e = 0; e < is->envs; e++) {
            const float *logit = p->output + (t * is->envs + e) * is->ld;
            const int64_t step = e * is->steps + t;
            const double u = hd_rng_draw_uniform(&p->rng, (uint32_t)(t * is->envs + e));
            ck_assert_int_eq(c->action[step], hd_categorical_draw(logit, is->actions, u));
            ck_assert(c->value[step] == logit[is->ld - 1]);
            ck_assert_mem_eq(c->logit + step * is->actions, logit,
                             (size_t)is->actions * sizeof *logit);
        }
}

/* In the last step each env in turn hands over its steps, until there are enough. */
static void check_samples(const struct shape *is, const struct played *p,
                          const struct hd_fragments *c)
{
    int64_t sample = 0;
    for (int64_t e = 0; e < is->envs; e++)
        for (int64_t t = 0; t < is->steps && sample < is->samples; t++, sample++) {
            const int64_t step = e * is->steps + t;
            const bool ends = t == is->steps - 1 || sample == is->samples - 1 || p->done[step] != 0;
            ck_assert_int_eq(c->row[sample], step);
            ck_assert(c->end[sample] == (ends ? 1.0f : 0.0f));
        }
    ck_assert_int_eq(sample, is->samples);
    ck_assert_int_eq(*c->made, is->envs * is->steps);
    ck_assert_int_eq(*c->forward, is->steps);
}

static void check_ends(const struct shape *is, const struct played *p, const struct hd_fragments *c)
{
    int64_t n = 0;
    for (int64_t t = 0; t < is->steps; t++)
        for (int64_t e = 0; e < is->envs; e++) {
            const int64_t step = e * is->steps + t;
            if (p->done[step] == 0)
                continue;
            ck_assert_double_eq(c->ended_return[n], p->ended_return[step]);
            ck_assert_double_eq(c->ended_steps[n++], (double)p->ended_steps[step]);
        }
    ck_assert_int_eq(*c->ended, n);
}

TEST(test_fragments, .runs = SHAPES)
{
    const struct shape *is = &shapes[_i];
    const struct played p = play(is);
    struct arrays a = lay_out(is, NULL);
    a = lay_out(is, test_alloc(a.bytes, 1));
    note(is, &p, &a.fragments);
    check_draws(is, &p, &a.fragments);
    check_samples(is, &p, &a.fragments);
    check_ends(is, &p, &a.fragments);
}

#if HD_CUDA
/* Actions are the CPU's unless a draw is within 1e-14 of a boundary. */
TEST(test_fragments_cuda, .runs = SHAPES, .cuda = true)
{
    const struct shape *is = &shapes[_i];
    const struct played p = play(is);
    const int64_t steps = is->envs * is->steps, bytes = lay_out(is, NULL).bytes;
    const struct arrays host = lay_out(is, test_alloc(bytes, 1));
    const struct arrays device = lay_out(is, device_make(NULL, bytes));
    const float *output = device_make(p.output, steps * is->ld * (int64_t)sizeof *output);
    const struct hd_fragment_ends ends = {
        device_make(p.done, steps * (int64_t)sizeof *p.done),
        device_make(p.ended_return, steps * (int64_t)sizeof *p.ended_return),
        device_make(p.ended_steps, steps * (int64_t)sizeof *p.ended_steps)};
    struct hd_rng *rng = device_shared(sizeof *rng);
    char *found = test_alloc(bytes, 1);
    *rng = p.rng;
    note(is, &p, &host.fragments);
    ck_assert_int_eq(hd_fragments_clear_cuda(device.memory, bytes, device_stream()), HD_OK);
    for (int64_t t = 0; t < is->steps; t++)
        ck_assert_int_eq(hd_fragments_draw_actions_cuda(&device.fragments,
                                                        output + t * is->envs * is->ld, is->ld, rng,
                                                        first_of(is, t), t, device_stream()),
                         HD_OK);
    ck_assert_int_eq(hd_fragments_complete_cuda(&device.fragments, &ends, device_stream()), HD_OK);
    device_get(found, device.memory, bytes);
    ck_assert_mem_eq(found, host.memory, (size_t)bytes);
}
#endif
