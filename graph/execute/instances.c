/* SPDX-License-Identifier: Apache-2.0 */
/* Called when an executor is created, and by the submitter for each step that writes a value. */
#include "graph/execute/instances.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Memory ------------------------------------------------------------------------------------ */

/* Returns the GPU of instance i of a replica. */
static int get_device(const struct hd_instances *instances, int replica, int i)
{
    const int value = (int)(instances->planned - instances->plan->values);
    const int home = hd_plan_get_replica_home(instances->plan, value, replica, i);
    return hd_session_get_options(instances->session)->devices[home - 1];
}

static bool is_recorded(const struct hd_instances *instances)
{
    return hd_session_get_options(instances->session)->recorder != NULL;
}

static bool is_shared(const struct hd_instances *instances, int slot)
{
    return instances->planned->shared != HD_NOT_SHARED && slot < instances->planned->buffers;
}

/* Host memory that GPUs copy from and to all the time. */
static bool is_pinned(const struct hd_instances *instances, int slot)
{
    return !is_shared(instances, slot) && (instances->planned->residence == HD_PINNED ||
                                           instances->planned->residence == HD_ON_BOTH);
}

/* Then the zeroed memory of every replica holds the initial version. */
static bool starts_as_zeros(const struct hd_spec *spec)
{
    return !spec->type->init && !spec->init && !spec->type->device;
}

/* Returns zeroed memory for instance i in slot `slot`: on its GPU, in the area that all ranks see,
 * or allocated for it alone. */
static void *make_memory(const struct hd_instances *instances, int slot, int replica, int i)
{
    const struct hd_plan_value *plan = instances->planned;
    const struct hd_spec *spec = &instances->value->spec;
    if (is_recorded(instances) && !is_shared(instances, slot))
        return hd_alloc(1, 1); /* nobody touches it */
    if (replica > 0)
        return hd_device_alloc(get_device(instances, replica, i), hd_value_get_device_bytes(spec));
    if (!is_shared(instances, slot))
        return is_pinned(instances, slot) ? hd_pinned_alloc(spec->bytes) : hd_alloc(spec->bytes, 1);
    const int64_t at = slot * (int64_t)plan->instances + i;
    char *memory = hd_session_get_area(instances->session) + plan->shared +
                   at * hd_plan_round_to_pages(spec->bytes);
    return is_recorded(instances) ? memory : memset(memory, 0, (size_t)spec->bytes);
}

static void free_memory(const struct hd_instances *instances, int slot, int replica, int i,
                        void *memory)
{
    if (is_recorded(instances) && !is_shared(instances, slot))
        hd_free(memory);
    else if (replica > 0)
        hd_device_free(get_device(instances, replica, i), memory);
    else if (is_pinned(instances, slot))
        hd_pinned_free(memory);
    else if (!is_shared(instances, slot))
        hd_free(memory);
}

/* Gives instance i of a slot its initial version. Floats that stand somewhere already are copied,
 * because the initial parameters of a net take long to compute. */
static int init_memory(const struct hd_instances *instances, const struct hd_setup *setup,
                       const struct hd_instances *first, int slot, int i, void *memory)
{
    const struct hd_spec *spec = &instances->value->spec;
    const struct hd_instances *from = slot > 0 ? instances : first;
    const void *initial =
        from ? from->version_slots[0].replicas[0].memory[from->planned->instances > 1 ? i : 0].data
             : NULL;
    if (initial && spec->type->flat) {
        memcpy(memory, initial, (size_t)spec->bytes);
        return HD_OK;
    }
    HD_TRY(hd_value_init(spec, setup, instances->planned->first + i, memory));
    return slot == 0 && initial ? hd_value_snapshot(spec, memory, initial) : HD_OK;
}

static bool is_alias(const struct hd_instances *instances)
{
    return instances->planned->alias != HD_NO_VALUE;
}

static int create_replica(struct hd_instances *instances, const struct hd_setup *setup,
                          const struct hd_instances *first, int slot, int replica)
{
    struct hd_replica *made = &instances->version_slots[slot].replicas[replica];
    const struct hd_spec *spec = &instances->value->spec;
    if (is_alias(instances)) {
        *made = first->version_slots[0].replicas[replica];
        return HD_OK;
    }
    made->version = replica == 0 || starts_as_zeros(spec) ? 0 : -1;
    made->memory = hd_alloc(instances->planned->instances, sizeof *made->memory);
    if (!made->memory)
        return HD_ERR_NOMEM;
    for (int i = 0; i < instances->planned->instances; i++) {
        struct hd_memory *memory = &made->memory[i];
        memory->data = make_memory(instances, slot, replica, i);
        if (!memory->data) {
            hd_plan_report_no_memory(instances->value, spec->bytes);
            return HD_ERR_NOMEM;
        }
        if (replica == 0 && !is_recorded(instances))
            HD_TRY(init_memory(instances, setup, first, slot, i, memory->data));
        HD_TRY(
            hd_buffer_create(instances->session, spec->buckets, spec->partials, &memory->buffer));
    }
    return HD_OK;
}

static int create_slot(struct hd_instances *instances, const struct hd_setup *setup,
                       const struct hd_instances *first, int number)
{
    struct hd_version_slot *slot = &instances->version_slots[number];
    slot->replicas = hd_alloc(instances->planned->homes, sizeof *slot->replicas);
    if (!slot->replicas)
        return HD_ERR_NOMEM;
    for (int replica = 0; replica < instances->planned->homes; replica++)
        HD_TRY(create_replica(instances, setup, first, number, replica));
    return HD_OK;
}

int hd_instances_create(struct hd_session *session, const struct hd_setup *setup,
                        const struct hd_plan *plan, int value, const struct hd_instances *first,
                        struct hd_instances *instances)
{
    const struct hd_plan_value *planned = &plan->values[value];
    *instances = (struct hd_instances){.session = session,
                                       .value = &plan->graph->values[value],
                                       .planned = planned,
                                       .plan = plan,
                                       .background = -1};
    int n_slots = planned->buffers + planned->lagged.buffers + planned->background.buffers;
    instances->version_slots = hd_alloc(n_slots, sizeof *instances->version_slots);
    instances->starts = hd_alloc(planned->lag + 1, sizeof *instances->starts);
    if (!instances->version_slots || !instances->starts)
        return HD_ERR_NOMEM;
    instances->n_version_slots = n_slots;
    for (int i = 0; i < n_slots; i++)
        HD_TRY(create_slot(instances, setup, first, i));
    /* Snapshots hold nothing yet. */
    for (int i = planned->buffers; i < n_slots; i++) {
        instances->version_slots[i].version = -1;
        for (int replica = 0; replica < planned->homes; replica++)
            instances->version_slots[i].replicas[replica].version = -1;
    }
    return HD_OK;
}

static void destroy_replica(struct hd_instances *instances, int slot, int replica)
{
    struct hd_memory *memory = instances->version_slots[slot].replicas[replica].memory;
    for (int i = 0; memory && i < instances->planned->instances; i++) {
        hd_buffer_destroy(memory[i].buffer);
        if (replica == 0 && memory[i].data && !is_recorded(instances))
            hd_value_fini(&instances->value->spec, memory[i].data);
        free_memory(instances, slot, replica, i, memory[i].data);
    }
    hd_free(memory);
}

void hd_instances_destroy(struct hd_instances *instances)
{
    for (int r = 0; r < instances->n_version_slots; r++) {
        for (int replica = 0; !is_alias(instances) && instances->version_slots[r].replicas &&
                              replica < instances->planned->homes;
             replica++)
            destroy_replica(instances, r, replica);
        hd_free(instances->version_slots[r].replicas);
    }
    hd_free(instances->version_slots);
    hd_free(instances->starts);
    *instances = (struct hd_instances){0};
}

/* -- Versions ---------------------------------------------------------------------------------- */

/* The version at the start of iteration 0 stands for those of all iterations before it. */
static int get_start_index(const struct hd_instances *instances, int64_t iteration)
{
    return (int)((iteration > 0 ? iteration : 0) % (instances->planned->lag + 1));
}

/* Returns whether a slot holds the version at the start of one of the iterations [from, to]. */
static bool is_start(const struct hd_instances *instances, int slot, int64_t from, int64_t to)
{
    for (int64_t i = from > 0 ? from : 0; i <= to; i++)
        if (instances->starts[get_start_index(instances, i)] == slot)
            return true;
    return false;
}

/* Returns the next of slots [begin, begin + count) after `after` that no lagged reader may still
 * ask for. The plan has made one more than readers can need. */
static int find_free_slot(const struct hd_instances *instances, int begin, int count, int after,
                          int64_t from, int64_t to)
{
    int slot = after;
    do {
        slot = begin + (slot - begin + 1) % count;
    } while (instances->planned->lag > 0 && is_start(instances, slot, from, to));
    return slot;
}

struct hd_version_slot *hd_instances_rotate(struct hd_instances *instances, int64_t iteration)
{
    if (instances->planned->buffers > 1)
        instances->current =
            find_free_slot(instances, 0, instances->planned->buffers, instances->current,
                           iteration - instances->planned->lag, iteration);
    return &instances->version_slots[instances->current];
}

struct hd_version_slot *hd_instances_start_iteration(struct hd_instances *instances,
                                                     int64_t iteration)
{
    const struct hd_plan_value *plan = instances->planned;
    if (plan->lag == 0)
        return NULL;
    int *start = &instances->starts[get_start_index(instances, iteration)];
    int newest = instances->starts[get_start_index(instances, iteration - 1)];
    if (plan->lagged.buffers == 0) {
        *start = instances->current;
        return NULL;
    }
    if (iteration > 0 && instances->version_slots[newest].version == instances->version) {
        *start = newest;
        return NULL;
    }
    *start = iteration == 0 ? plan->buffers
                            : find_free_slot(instances, plan->buffers, plan->lagged.buffers, newest,
                                             iteration - plan->lag, iteration - 1);
    instances->version_slots[*start].version = instances->version;
    return &instances->version_slots[*start];
}

void hd_instances_set_start(struct hd_instances *instances, int64_t iteration, int slot)
{
    instances->starts[get_start_index(instances, iteration)] = slot;
}

struct hd_version_slot *hd_instances_start_background(struct hd_instances *instances)
{
    int begin = instances->planned->buffers + instances->planned->lagged.buffers;
    if (instances->background >= 0 &&
        instances->version_slots[instances->background].version == instances->version)
        return NULL;
    instances->background =
        instances->background < 0
            ? begin
            : begin + (instances->background - begin + 1) % instances->planned->background.buffers;
    instances->version_slots[instances->background].version = instances->version;
    return &instances->version_slots[instances->background];
}

struct hd_version_slot *hd_instances_get_slot(const struct hd_instances *instances,
                                              enum hd_source source, int lag, int64_t iteration)
{
    switch (source) {
    case HD_FROM_LAG:
        return &instances
                    ->version_slots[instances->starts[get_start_index(instances, iteration - lag)]];
    case HD_FROM_BACKGROUND:
        return &instances->version_slots[instances->background];
    case HD_FROM_CURRENT:
        break;
    }
    return &instances->version_slots[instances->current];
}
