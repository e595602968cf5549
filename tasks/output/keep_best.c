/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `keep_best`: keeps the policy with the best mean return of all evaluations, its result and
 * its normalisation of observations. The policy that the step reads must be the one that was
 * evaluated: a copy made for the evaluation, read with the same lag. */
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/output/eval_result.h"
#include "tasks/types/output/moments.h"

#include <string.h>

enum { EVALUATION, POLICY, BEST, BEST_EVALUATION, NORM, BEST_NORM };

static const struct hd_port ports[] = {
    [EVALUATION] = {"evaluation", "eval_result", .mode = HD_READ},
    [POLICY] = {"policy", "params", .mode = HD_READ},
    [BEST] = {"best", "params", .mode = HD_UPDATE},
    [BEST_EVALUATION] = {"best_evaluation", "eval_result", .mode = HD_UPDATE, .none = true},
    [NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true},
    [BEST_NORM] = {"best_norm", "moments", .mode = HD_UPDATE, .optional = true},
    {0},
};

static int keep_best_declare(const struct hd_setup *setup)
{
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[NORM]));
    return hd_moments_declare_obs(setup, setup->specs[BEST_NORM]);
}

static int keep_best_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    const struct hd_eval_result *result = views[EVALUATION].data;
    struct hd_eval_result *best = views[BEST_EVALUATION].data; /* episodes is 0 before the first */
    if (best->episodes > 0 &&
        !hd_eval_result_is_better(result->mean, result->train_iter, best->mean, best->train_iter))
        return HD_OK;
    memcpy(best, result, (size_t)views[EVALUATION].spec->bytes);
    if (views[NORM].data && views[BEST_NORM].data)
        HD_TRY(hd_value_snapshot(views[BEST_NORM].spec, views[BEST_NORM].data, views[NORM].data));
    return hd_value_snapshot(views[BEST].spec, views[BEST].data, views[POLICY].data);
}

const struct hd_verb hd_verb_keep_best = {
    .name = "keep_best",
    .stream_id = 0x5af16eb25f0f29f5,
    .ports = ports,
    .run_on_change = true,
    .declare = keep_best_declare,
    .body = keep_best_body,
    .help = "keeps the policy with the best evaluation, and its result",
};
