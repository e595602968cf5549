/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `update_priorities`: gives the transitions of a batch the priorities that follow from their
 * errors, in the order of rows (docs/di-engine.md 2.9). Transitions that have left the replay since
 * they were drawn, and errors that are not finite, change nothing. */
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/priorities.h"
#include "tasks/types/data/td_errors.h"

#include <math.h>

enum { BATCH, TD_ERRORS, PRIORITIES };

static const struct hd_port ports[] = {
    [BATCH] = {"batch", "batch", .mode = HD_READ},
    [TD_ERRORS] = {"td_errors", "td_errors", .mode = HD_READ},
    [PRIORITIES] = {"priorities", "priorities", .mode = HD_UPDATE},
    {0},
};

static int update_priorities_prepare(const struct hd_setup *setup, void **args_p)
{
    (void)args_p;
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

const struct hd_verb hd_verb_update_priorities = {
    .name = "update_priorities",
    .stream_id = 0x5d2e9b7140c8a36f,
    .ports = ports,
    .prepare = update_priorities_prepare,
    .body = update_priorities_body,
    .help = "gives the transitions of a batch the priorities that follow from their errors",
};
