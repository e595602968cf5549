/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `update_priorities`: gives the transitions of a batch the priorities that follow from their
 * errors, in the order of rows (docs/di-engine.md 2.9). Transitions that have left the replay since
 * they were drawn, and errors that are not finite, change nothing. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/priorities.h"
#include "tasks/types/data/td_errors.h"
#include "tasks/types/learn/learn.h"

#include <math.h>

enum { BATCH, TD_ERRORS, PRIORITIES };

static const struct hd_port ports[] = {
    [BATCH] = {"batch", "batch", .mode = HD_READ},
    [TD_ERRORS] = {"td_errors", "td_errors", .mode = HD_READ},
    [PRIORITIES] = {"priorities", "priorities", .mode = HD_UPDATE},
    {0},
};

struct args {
    struct hd_learn_shape batch;
};

static int update_priorities_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->batch = hd_learn_shape_read(setup->config);
    return hd_priorities_check_use(setup, setup->specs[PRIORITIES], "priorities");
}

static int update_priorities_body(struct hd_context *context, const struct hd_view *views,
                                  const void *args)
{
    (void)context, (void)args;
    const struct hd_view *batch = &views[BATCH], *errors = &views[TD_ERRORS];
    const struct hd_batch_draws draws = hd_batch_get_draws(batch->spec, batch->data);
    const int64_t used = *hd_batch_get_use(batch->spec, batch->data).used;
    for (int64_t row = 0; row < used; row++) {
        const float error = *hd_td_errors_get(errors->spec, errors->data, row);
        if (isfinite(error))
            hd_priorities_set(hd_priorities_get_shape(views[PRIORITIES].spec),
                              views[PRIORITIES].data, draws.number[row], error);
    }
    return HD_OK;
}

#if HD_CUDA
static bool supports(const void *memory)
{
    return ((const struct args *)memory)->batch.rows <= HD_PRIORITIES_ROWS;
}

static int update_priorities_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                         const void *memory)
{
    const struct hd_learn_shape *shape = &((const struct args *)memory)->batch;
    const struct hd_view *batch = &views[BATCH], *errors = &views[TD_ERRORS];
    const float *first = hd_td_errors_get(errors->spec, errors->data, 0);
    const struct hd_priorities_errors from = {
        .errors = first,
        .rows = shape->rows,
        .micro = shape->micro,
        .ld = hd_td_errors_get(errors->spec, errors->data, shape->micro) - first,
        .number = hd_batch_get_draws(batch->spec, batch->data).number,
        .used = hd_batch_get_use(batch->spec, batch->data).used};
    return hd_priorities_set_cuda(hd_priorities_get_shape(views[PRIORITIES].spec),
                                  views[PRIORITIES].data, &from, context->stream);
}

static const struct hd_gpu_verb on_gpu = {
    .body = update_priorities_body_on_gpu, .supports = supports, .graph_capturable = true};
#endif

const struct hd_verb hd_verb_update_priorities = {
    .name = "update_priorities",
    .stream_id = 0x5d2e9b7140c8a36f,
    .ports = ports,
    .prepare = update_priorities_prepare,
    .body = update_priorities_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "gives the transitions of a batch the priorities that follow from their errors",
};
