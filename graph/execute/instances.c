/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/execute/instances.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Memory ---------------------------------------------------------------------------------------
 */

/* The GPU of instance i of copies number `copy`. */
static int device_of(struct hd_session *session, const struct hd_instances *instances, int copy,
                     int i)
{
    const int value = (int)(instances->plan - instances->whole->values);
    return hd_session_device(session, hd_plan_home_of_copy(instances->whole, value, copy, i));
}

static bool in_area(const struct hd_instances *instances, int row)
{
    return instances->plan->shared != HD_NOT_SHARED && row < instances->plan->buffers;
}

/* Host memory that GPUs copy from and to all the time. */
static bool is_pinned(const struct hd_instances *instances)
{
    return instances->plan->pinned ||
           (instances->plan->homes > 1 && !instances->plan->on_gpus_only);
}

/* Zeros on either side are the same version. */
static bool starts_as_zeros(const struct hd_spec *spec)
{
    return !spec->type->init && !spec->init && !spec->type->device;
}

/* Zeroed memory of instance i in row `row`: on its GPU, in the area that all ranks see, or of its
 * own. */
static void *make_memory(struct hd_session *session, const struct hd_instances *instances, int row,
                         int copy, int i)
{
    const struct hd_plan_value *plan = instances->plan;
    const struct hd_spec *spec = &instances->value->spec;
    if (copy > 0)
        return hd_device_alloc(device_of(session, instances, copy, i), hd_value_device_bytes(spec));
    if (!in_area(instances, row))
        return is_pinned(instances) ? hd_pinned_alloc(spec->bytes) : hd_alloc(spec->bytes, 1);
    const int64_t at = row * (int64_t)plan->instances + i;
    return memset(hd_session_area(session) + plan->shared + at * hd_plan_shared_bytes(spec->bytes),
                  0, (size_t)spec->bytes);
}

static void free_memory(struct hd_session *session, const struct hd_instances *instances, int row,
                        int copy, int i, void *memory)
{
    if (copy > 0)
        hd_device_free(device_of(session, instances, copy, i), memory);
    else if (!in_area(instances, row) && is_pinned(instances))
        hd_pinned_free(memory);
    else if (!in_area(instances, row))
        hd_free(memory);
}

static int create_copies(struct hd_session *session, const struct hd_setup *setup,
                         struct hd_instances *instances, int row, int copy)
{
    struct hd_copies *copies = &instances->rows[row].copies[copy];
    const struct hd_spec *spec = &instances->value->spec;
    const int n = instances->plan->instances;
    copies->version = copy == 0 || starts_as_zeros(spec) ? 0 : -1;
    copies->data = hd_alloc(n, sizeof *copies->data);
    copies->buffers = hd_alloc(n, sizeof *copies->buffers);
    if (!copies->data || !copies->buffers)
        return HD_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        copies->data[i] = make_memory(session, instances, row, copy, i);
        if (!copies->data[i])
            return HD_ERR_NOMEM;
        if (copy == 0)
            HD_TRY(hd_value_init(spec, setup, instances->plan->first + i, copies->data[i]));
        HD_TRY(hd_buffer_create(session, spec->buckets, spec->partials, &copies->buffers[i]));
    }
    return HD_OK;
}

static int create_row(struct hd_session *session, const struct hd_setup *setup,
                      struct hd_instances *instances, int number)
{
    struct hd_row *row = &instances->rows[number];
    row->distributed_version = -1;
    row->copies = hd_alloc(instances->plan->homes, sizeof *row->copies);
    if (!row->copies)
        return HD_ERR_NOMEM;
    for (int copy = 0; copy < instances->plan->homes; copy++)
        HD_TRY(create_copies(session, setup, instances, number, copy));
    return HD_OK;
}

static int copy_first(const struct hd_instances *first, struct hd_instances *instances)
{
    const struct hd_copies *to = instances->rows[0].copies, *from = first->rows[0].copies;
    for (int i = 0; i < instances->plan->instances; i++)
        HD_TRY(hd_value_snapshot(&instances->value->spec, to->data[i],
                                 from->data[first->plan->instances > 1 ? i : 0]));
    return HD_OK;
}

int hd_instances_create(struct hd_session *session, const struct hd_setup *setup,
                        const struct hd_plan *plan, int value, const struct hd_instances *first,
                        struct hd_instances *instances)
{
    const struct hd_plan_value *is = &plan->values[value];
    *instances = (struct hd_instances){
        .value = &plan->graph->values[value], .plan = is, .whole = plan, .background = -1};
    int n_rows = is->buffers + is->lag_snapshots + is->background_snapshots;
    instances->rows = hd_alloc(n_rows, sizeof *instances->rows);
    instances->starts = hd_alloc(is->lag + 1, sizeof *instances->starts);
    if (!instances->rows || !instances->starts)
        return HD_ERR_NOMEM;
    instances->n_rows = n_rows;
    for (int i = 0; i < n_rows; i++)
        HD_TRY(create_row(session, setup, instances, i));
    /* Copies hold nothing yet. */
    for (int i = is->buffers; i < n_rows; i++) {
        instances->rows[i].version = -1;
        for (int copy = 0; copy < is->homes; copy++)
            instances->rows[i].copies[copy].version = -1;
    }
    return first ? copy_first(first, instances) : HD_OK;
}

static void destroy_copies(struct hd_session *session, struct hd_instances *instances, int row,
                           int copy)
{
    struct hd_copies *copies = &instances->rows[row].copies[copy];
    for (int i = 0; i < instances->plan->instances; i++) {
        if (copies->buffers)
            hd_buffer_destroy(copies->buffers[i]);
        if (copy == 0 && copies->data && copies->data[i])
            hd_value_fini(&instances->value->spec, copies->data[i]);
        if (copies->data)
            free_memory(session, instances, row, copy, i, copies->data[i]);
    }
    hd_free(copies->buffers);
    hd_free(copies->data);
}

void hd_instances_destroy(struct hd_session *session, struct hd_instances *instances)
{
    for (int r = 0; r < instances->n_rows; r++) {
        for (int copy = 0; instances->rows[r].copies && copy < instances->plan->homes; copy++)
            destroy_copies(session, instances, r, copy);
        hd_free(instances->rows[r].copies);
    }
    hd_free(instances->rows);
    hd_free(instances->starts);
    *instances = (struct hd_instances){0};
}

/* -- Versions -------------------------------------------------------------------------------------
 */

/* Before iteration 0 everything stood at its initial version, which is the one at its start. */
static int start_slot(const struct hd_instances *instances, int64_t iteration)
{
    return (int)((iteration > 0 ? iteration : 0) % (instances->plan->lag + 1));
}

/* Whether a row holds the version at the start of one of the iterations [from, to]. */
static bool is_start(const struct hd_instances *instances, int row, int64_t from, int64_t to)
{
    for (int64_t i = from > 0 ? from : 0; i <= to; i++)
        if (instances->starts[start_slot(instances, i)] == row)
            return true;
    return false;
}

/* The next of rows [begin, begin + count) after `after` that no lagged reader may still ask for:
 * the plan made one more than they can need. */
static int free_row(const struct hd_instances *instances, int begin, int count, int after,
                    int64_t from, int64_t to)
{
    int row = after;
    do {
        row = begin + (row - begin + 1) % count;
    } while (instances->plan->lag > 0 && is_start(instances, row, from, to));
    return row;
}

struct hd_row *hd_instances_rotate(struct hd_instances *instances, int64_t iteration)
{
    if (instances->plan->buffers > 1)
        instances->current = free_row(instances, 0, instances->plan->buffers, instances->current,
                                      iteration - instances->plan->lag, iteration);
    return &instances->rows[instances->current];
}

struct hd_row *hd_instances_start(struct hd_instances *instances, int64_t iteration)
{
    const struct hd_plan_value *plan = instances->plan;
    if (plan->lag == 0)
        return NULL;
    int *start = &instances->starts[start_slot(instances, iteration)];
    int newest = instances->starts[start_slot(instances, iteration - 1)];
    if (plan->lag_snapshots == 0) {
        *start = instances->current;
        return NULL;
    }
    if (iteration > 0 && instances->rows[newest].version == instances->version) {
        *start = newest;
        return NULL;
    }
    *start = iteration == 0 ? plan->buffers
                            : free_row(instances, plan->buffers, plan->lag_snapshots, newest,
                                       iteration - plan->lag, iteration - 1);
    instances->rows[*start].version = instances->version;
    return &instances->rows[*start];
}

void hd_instances_set_start(struct hd_instances *instances, int64_t iteration, int row)
{
    instances->starts[start_slot(instances, iteration)] = row;
}

struct hd_row *hd_instances_start_background(struct hd_instances *instances)
{
    int begin = instances->plan->buffers + instances->plan->lag_snapshots;
    if (instances->background >= 0 &&
        instances->rows[instances->background].version == instances->version)
        return NULL;
    instances->background =
        instances->background < 0
            ? begin
            : begin + (instances->background - begin + 1) % instances->plan->background_snapshots;
    instances->rows[instances->background].version = instances->version;
    return &instances->rows[instances->background];
}

struct hd_row *hd_instances_read(const struct hd_instances *instances, enum hd_source source,
                                 int lag, int64_t iteration)
{
    switch (source) {
    case HD_FROM_LAG:
        return &instances->rows[instances->starts[start_slot(instances, iteration - lag)]];
    case HD_FROM_BACKGROUND:
        return &instances->rows[instances->background];
    case HD_FROM_CURRENT:
        break;
    }
    return &instances->rows[instances->current];
}
