/* SPDX-License-Identifier: Apache-2.0 */
/* Type `scalars`: named statistics. A field keeps its last `window` entries, each a value with a
 * weight, and says how entries, and shards, combine. A collective's result has the same fields with
 * a window of one. Fields are declared by the verb that writes or updates the value. */
#ifndef HD_TASKS_TYPES_OUTPUT_SCALARS_H
#define HD_TASKS_TYPES_OUTPUT_SCALARS_H

#include "tasks/registry.h"

struct hd_scalar_field {
    const char *name; /* outlives the spec */
    enum hd_combine how;
    int window; /* entries kept, >= 1 */
};

extern const struct hd_type hd_type_scalars;

/* Gives `spec` its fields, to be called from a verb's `declare`: does nothing when spec is NULL or
 * has these fields already; other fields are a mistake. `component` (outlives the spec) names the
 * part of the program in logs: "learner". */
int hd_scalars_declare(const struct hd_setup *setup, struct hd_spec *spec, const char *component,
                       const struct hd_scalar_field *fields, int n);

/* Gives `to` the fields of `from` with a window of one, as a collective does. */
int hd_scalars_declare_like(const struct hd_setup *setup, struct hd_spec *to,
                            const struct hd_spec *from);

/* Appends an entry to a field; weight >= 0. */
void hd_scalars_push(const struct hd_spec *spec, void *data, int field, double value,
                     double weight);

/* From a verb's `prepare`: the field of the value at one of its ports, -1 where none is connected.
 * A value without such a field is a mistake. */
int hd_scalars_find(const struct hd_setup *setup, const struct hd_port *ports, int port,
                    const char *name, int *field_p);

/* The component given at declaration. */
const char *hd_scalars_get_component(const struct hd_spec *spec);

#endif
