/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/output/scalars.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

/* An instance is an int64_t count of pushes for each field, then the rings of all fields, one after
 * another. */
struct shape {
    const char *component;
    int n;
    struct ring_field {
        struct hd_scalar_field declared;
        int64_t first; /* index of its ring's first entry */
    } fields[];
};

static int64_t *pushes(void *data)
{
    return data;
}

static const struct hd_scalar *ring(const struct shape *shape, const void *data, int field)
{
    const char *rings = (const char *)data + (size_t)shape->n * sizeof(int64_t);
    return (const struct hd_scalar *)rings + shape->fields[field].first;
}

static bool same_fields(const struct shape *shape, const struct hd_scalar_field *fields, int n)
{
    if (shape->n != n)
        return false;
    for (int i = 0; i < n; i++) {
        const struct hd_scalar_field *declared = &shape->fields[i].declared;
        if (strcmp(declared->name, fields[i].name) != 0 || declared->how != fields[i].how ||
            declared->window != fields[i].window)
            return false;
    }
    return true;
}

int hd_scalars_declare(const struct hd_setup *setup, struct hd_spec *spec, const char *component,
                       const struct hd_scalar_field *fields, int n)
{
    if (!spec)
        return HD_OK;
    if (spec->shape) {
        if (same_fields(spec->shape, fields, n))
            return HD_OK;
        return hd_diag_add_error(setup->diag, setup->location,
                                 "value '%s' already has other fields, from component '%s'",
                                 spec->name, hd_scalars_get_component(spec));
    }
    struct shape *shape = hd_alloc(1, sizeof *shape + (size_t)n * sizeof shape->fields[0]);
    if (!shape)
        return HD_ERR_NOMEM;
    shape->component = component;
    shape->n = n;
    int64_t entries = 0;
    for (int i = 0; i < n; i++) {
        shape->fields[i] = (struct ring_field){.declared = fields[i], .first = entries};
        entries += fields[i].window;
    }
    spec->shape = shape;
    spec->bytes = n * (int64_t)sizeof(int64_t) + entries * (int64_t)sizeof(struct hd_scalar);
    return HD_OK;
}

int hd_scalars_declare_like(const struct hd_setup *setup, struct hd_spec *to,
                            const struct hd_spec *from)
{
    const struct shape *shape = from->shape;
    if (!shape)
        return HD_OK;
    struct hd_scalar_field *fields = hd_alloc(shape->n, sizeof *fields);
    if (!fields)
        return HD_ERR_NOMEM;
    for (int i = 0; i < shape->n; i++) {
        fields[i] = shape->fields[i].declared;
        fields[i].window = 1;
    }
    int status = hd_scalars_declare(setup, to, shape->component, fields, shape->n);
    hd_free(fields);
    return status;
}

int hd_scalars_find(const struct hd_setup *setup, const struct hd_port *ports, int port,
                    const char *name, int *field_p)
{
    const struct hd_spec *spec = setup->specs[port];
    *field_p = spec ? hd_value_find_field(spec, name) : -1;
    if (!spec || *field_p >= 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, setup->location,
                             "%s reads %s from port '%s', but '%s' has none", setup->verb, name,
                             ports[port].name, spec->name);
}

void hd_scalars_push(const struct hd_spec *spec, void *data, int field, double value, double weight)
{
    const struct shape *shape = spec->shape;
    int64_t *count = &pushes(data)[field];
    struct hd_scalar *entries = (struct hd_scalar *)ring(shape, data, field);
    entries[*count % shape->fields[field].declared.window] = (struct hd_scalar){value, weight};
    (*count)++;
}

struct hd_scalar_slot hd_scalars_get_slot(const struct hd_spec *spec, void *data, int field)
{
    return (struct hd_scalar_slot){&pushes(data)[field],
                                   (struct hd_scalar *)ring(spec->shape, data, field)};
}

const char *hd_scalars_get_component(const struct hd_spec *spec)
{
    const struct shape *shape = spec->shape;
    return shape ? shape->component : "none";
}

/* Adds `other` to `into`: pairs of a combined value (weighted for MEAN) and a total weight. */
static void combine_entry(enum hd_combine how, struct hd_scalar *into, struct hd_scalar other)
{
    if (other.weight == 0)
        return;
    if (how == HD_SUM || how == HD_MEAN)
        into->value += other.value;
    else if (into->weight == 0)
        into->value = other.value;
    else
        into->value =
            how == HD_MAX ? fmax(into->value, other.value) : fmin(into->value, other.value);
    into->weight += other.weight;
}

/* Returns the entries of a field as one pair, adding from the oldest on. */
static struct hd_scalar reduce_window(const struct shape *shape, const void *data, int field)
{
    const struct hd_scalar *entries = ring(shape, data, field);
    int64_t count = ((const int64_t *)data)[field], window = shape->fields[field].declared.window;
    enum hd_combine how = shape->fields[field].declared.how;
    struct hd_scalar sum = {0};
    for (int64_t i = count > window ? count - window : 0; i < count; i++) {
        struct hd_scalar entry = entries[i % window];
        if (how == HD_MEAN)
            entry.value *= entry.weight;
        combine_entry(how, &sum, entry);
    }
    return sum;
}

static int64_t vector_bytes(const struct hd_spec *spec, int bucket)
{
    (void)bucket;
    return ((const struct shape *)spec->shape)->n * (int64_t)sizeof(struct hd_scalar);
}

static void scalars_pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    (void)bucket;
    const struct shape *shape = spec->shape;
    for (int i = 0; i < shape->n; i++)
        ((struct hd_scalar *)vector)[i] = reduce_window(shape, data, i);
}

/* Each field combines as it was declared to, whichever verb asks. */
static void scalars_combine(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                            const void *other)
{
    (void)bucket, (void)how;
    const struct shape *shape = spec->shape;
    for (int i = 0; i < shape->n; i++)
        combine_entry(shape->fields[i].declared.how, (struct hd_scalar *)into + i,
                      ((const struct hd_scalar *)other)[i]);
}

static void scalars_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                           const void *vector, void *data)
{
    (void)bucket, (void)how;
    const struct shape *shape = spec->shape;
    memset(data, 0, (size_t)spec->bytes);
    for (int i = 0; i < shape->n; i++) {
        struct hd_scalar entry = ((const struct hd_scalar *)vector)[i];
        if (shape->fields[i].declared.how == HD_MEAN && entry.weight > 0)
            entry.value /= entry.weight;
        if (entry.weight > 0)
            hd_scalars_push(spec, data, i, entry.value, entry.weight);
    }
}

static const char *scalars_field_name(const struct hd_spec *spec, int field)
{
    const struct shape *shape = spec->shape;
    return shape && field < shape->n ? shape->fields[field].declared.name : NULL;
}

/* Returns NaN while the field has no weight: the value is none. */
static double scalars_field(const struct hd_spec *spec, const void *data, int index)
{
    const struct shape *shape = spec->shape;
    struct hd_scalar sum = reduce_window(shape, data, index);
    if (sum.weight == 0)
        return NAN;
    return shape->fields[index].declared.how == HD_MEAN ? sum.value / sum.weight : sum.value;
}

/* The values of entries are statistics of losses, which may be anything. */
static int scalars_check(const struct hd_spec *spec, const void *data,
                         char message[HD_NUMBERS_MESSAGE])
{
    const struct shape *shape = spec->shape;
    HD_TRY(hd_numbers_check_i64(message, "pushes", data, shape->n, 0, HD_COUNT_MAX));
    for (int i = 0; i < shape->n; i++)
        for (int at = 0; at < shape->fields[i].declared.window; at++)
            HD_TRY(hd_numbers_check_f64(message, "weight", &ring(shape, data, i)[at].weight, 1, 0));
    return HD_OK;
}

static const struct hd_reduction reduction = {
    .bytes = vector_bytes,
    .pack = scalars_pack,
    .combine = scalars_combine,
    .unpack = scalars_unpack,
    .hows = 1 << HD_MEAN,
};

const struct hd_type hd_type_scalars = {
    .name = "scalars",
    .none = true,
    .pinned = true,
    .check = scalars_check,
    .reduction = &reduction,
    .field_name = scalars_field_name,
    .field = scalars_field,
};
