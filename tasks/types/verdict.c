/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/verdict.h"

#include "runtime/base/status.h"

static const char *const names[] = {"mean",     "std",   "max",      "min",
                                    "episodes", "steps", "env_step", "train_iter"};
enum { FIELDS = sizeof names / sizeof names[0] };

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    int64_t episodes = hd_config_int(setup->config, "env.n_evaluator_episode");
    spec->bytes = (int64_t)sizeof(struct hd_verdict) + episodes * (int64_t)sizeof(double);
    return HD_OK;
}

static const char *field_name(const struct hd_spec *spec, int field)
{
    (void)spec;
    return field < FIELDS ? names[field] : NULL;
}

static double field(const struct hd_spec *spec, const void *data, int index)
{
    (void)spec;
    const struct hd_verdict *verdict = data;
    const double fields[FIELDS] = {
        verdict->mean,
        verdict->std,
        verdict->max,
        verdict->min,
        (double)verdict->episodes,
        (double)verdict->steps,
        (double)verdict->env_step,
        (double)verdict->train_iter,
    };
    return fields[index];
}

const struct hd_type hd_type_verdict = {
    .name = "verdict",
    .none = true,
    .resolve = resolve,
    .field_name = field_name,
    .field = field,
};
