/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/output/eval_result.h"

#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {"mean",     "std",   "max",      "min",
                                    "episodes", "steps", "env_step", "train_iter"};
enum { FIELDS = sizeof names / sizeof names[0] };

static int eval_result_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    int64_t episodes = hd_config_get_int(setup->config, "env.n_evaluator_episode");
    spec->bytes = (int64_t)sizeof(struct hd_eval_result) + episodes * (int64_t)sizeof(double);
    return HD_OK;
}

void hd_eval_result_summarise(struct hd_eval_result *result)
{
    const int64_t n = result->episodes;
    double sum = 0, squares = 0;
    result->max = -INFINITY;
    result->min = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        sum += result->returns[i];
        result->max = fmax(result->max, result->returns[i]);
        result->min = fmin(result->min, result->returns[i]);
    }
    result->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (result->returns[i] - result->mean) * (result->returns[i] - result->mean);
    result->std = sqrt(squares / (double)n);
}

bool hd_eval_result_is_better(double mean, int64_t update, double best_mean, int64_t best_update)
{
    return isnan(best_mean) || mean > best_mean || (best_update == 0 && update > 0);
}

/* -- Results of shards: each has the returns of its own episodes, zeros for the others' -------- */

static void eval_result_combine(const struct hd_spec *spec, int bucket, enum hd_combine how,
                                void *into, const void *other)
{
    (void)spec, (void)bucket, (void)how;
    struct hd_eval_result *sum = into;
    const struct hd_eval_result *added = other;
    sum->steps += added->steps;
    for (int64_t i = 0; i < sum->episodes; i++)
        sum->returns[i] += added->returns[i];
}

static void eval_result_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                               const void *vector, void *data)
{
    (void)bucket, (void)how;
    memcpy(data, vector, (size_t)spec->bytes);
    hd_eval_result_summarise(data);
}

/* The result of no evaluation is all zeros. */
static int eval_result_check(const struct hd_spec *spec, const void *data,
                             char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_eval_result *result = data;
    const int64_t episodes =
        (spec->bytes - (int64_t)sizeof *result) / (int64_t)sizeof *result->returns;
    if (result->episodes != 0)
        HD_TRY(hd_number_check(message, "episodes", -1, result->episodes, episodes, episodes));
    HD_TRY(hd_number_check(message, "steps", -1, result->steps, 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "env_step", -1, result->env_step, 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "train_iter", -1, result->train_iter, 0, HD_COUNT_MAX));
    const double summary[] = {result->mean, result->std, result->max, result->min};
    HD_TRY(hd_numbers_check_f64(message, "mean, std, max, min", summary, 4, -INFINITY));
    return hd_numbers_check_f64(message, "returns", result->returns, episodes, -INFINITY);
}

static const char *eval_result_field_name(const struct hd_spec *spec, int field)
{
    (void)spec;
    return field < FIELDS ? names[field] : NULL;
}

static double eval_result_field(const struct hd_spec *spec, const void *data, int index)
{
    (void)spec;
    const struct hd_eval_result *result = data;
    const double fields[FIELDS] = {
        result->mean,
        result->std,
        result->max,
        result->min,
        (double)result->episodes,
        (double)result->steps,
        (double)result->env_step,
        (double)result->train_iter,
    };
    return fields[index];
}

static const struct hd_reduction reduction = {
    .bytes = hd_value_get_vector_bytes,
    .pack = hd_value_pack,
    .combine = eval_result_combine,
    .unpack = eval_result_unpack,
    .hows = 1 << HD_SUM,
};

const struct hd_type hd_type_eval_result = {
    .name = "eval_result",
    .used_by_updates = true,
    .none = true,
    .resolve = eval_result_resolve,
    .check = eval_result_check,
    .reduction = &reduction,
    .field_name = eval_result_field_name,
    .field = eval_result_field,
};
