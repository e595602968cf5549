/* SPDX-License-Identifier: Apache-2.0 */
/* Type `scalars`: named statistics. A field keeps its last `window` entries, each a value with a
 * weight, and says how entries, and the entries of shards, combine. The result of a collective has
 * the same fields with a window of one. The verb that changes a value declares its fields. Thread
 * safe for different instances. */
#pragma once

#include "kernels/common/scalar.h"
#include "tasks/base/registry.h"

struct hd_scalar_field {
    const char *name; /* outlives the spec */
    enum hd_combine how;
    int window; /* entries kept, >= 1 */
};

extern const struct hd_type hd_type_scalars;

/* Gives `spec` its fields, from a verb's `declare`. Does nothing when spec is NULL or has these
 * fields already. `component`, which outlives the spec, heads them in logs: "learner". Returns
 * HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT (in setup->diag) when spec has other fields. */
int hd_scalars_declare(const struct hd_setup *setup, struct hd_spec *spec, const char *component,
                       const struct hd_scalar_field *fields, int n);

/* Gives `to`, the result of a collective, the fields of `from` with a window of one. Returns a
 * status of hd_scalars_declare. */
int hd_scalars_declare_like(const struct hd_setup *setup, struct hd_spec *to,
                            const struct hd_spec *from);

/* Appends an entry of weight >= 0 to a field. */
void hd_scalars_push(const struct hd_spec *spec, void *data, int field, double value,
                     double weight);

/* Returns where a field with a window of one keeps its entry. */
struct hd_scalar_slot hd_scalars_get_slot(const struct hd_spec *spec, void *data, int field);

/* Finds the index of field `name` of the value at a port, from a verb's `prepare`; -1 when the port
 * is not connected. Returns HD_OK, or HD_ERR_INPUT (in setup->diag) when the value has no such
 * field. */
int hd_scalars_find(const struct hd_setup *setup, const struct hd_port *ports, int port,
                    const char *name, int *field_p);

/* Returns the component given at declaration, "none" before it. Static memory. */
const char *hd_scalars_get_component(const struct hd_spec *spec);
