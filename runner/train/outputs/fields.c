/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/outputs/fields.h"

#include <math.h>
#include <string.h>

double hd_fields_read(const struct hd_train *train, const char *value, const char *field)
{
    const struct hd_graph *graph = train->run_spec.graph;
    int index = hd_graph_find_value(graph, value);
    if (index == HD_NO_VALUE || hd_executor_get_data(train->executor, index, 0) == NULL)
        return NAN;
    const struct hd_spec *spec = &graph->values[index].spec;
    int at = hd_value_find_field(spec, field);
    if (at < 0 || (spec->type->none && hd_executor_get_version(train->executor, index) == 0))
        return NAN;
    return spec->type->field(spec, hd_executor_get_data(train->executor, index, 0), at);
}

double hd_fields_count_env_steps(const struct hd_train *train)
{
    double env_steps = hd_fields_read(train, "totals", "env_step");
    return isnan(env_steps) ? 0 : env_steps;
}

int64_t hd_fields_count_skipped(const struct hd_train *train)
{
    const struct hd_graph *graph = train->run_spec.graph;
    int64_t skipped = 0;
    for (int i = 0; i < graph->n_values; i++) {
        const struct hd_spec *spec = &graph->values[i].spec;
        const double n = strcmp(spec->type->name, "adam_state") == 0
                             ? hd_fields_read(train, spec->name, "skipped")
                             : NAN;
        skipped += isnan(n) ? 0 : (int64_t)n;
    }
    return skipped;
}
