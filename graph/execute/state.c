/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a run at the start of an iteration, or at the stop step that ended it
 * (hd_binder.place), as checkpoints hold it: the content of the values that somebody may still
 * read, and what the submitter counts and remembers. All of it is a function of the program, not of
 * ranks, windows, buffers or GPUs, so a run with another number of ranks may go on from it. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/collective/sharded_update.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOURNAL_BYTES = 4 << 20, /* plain values from this size on are written as journals */
    NO_STOP = -1             /* the state is that between two iterations */
};

static bool is_kept(const struct hd_binder *binder, int value)
{
    return binder->plan->values[value].storage != HD_STORE_NOTHING &&
           !binder->plan->values[value].transient;
}

/* Returns the iteration that the state is said to be of, by which lags are counted: the next one,
 * if the present one is under way. */
static int64_t get_iteration(const struct hd_binder *binder)
{
    return hd_binder_get_iteration(binder) + (binder->place > 0);
}

/* Returns the largest k for which an iteration may still read x@-k; the present one, if it is under
 * way, may read from one iteration further back than the next. */
static int count_lags(const struct hd_binder *binder, int value)
{
    const int planned = binder->plan->values[value].lag, lag = planned + (binder->place > 0);
    const int64_t before = get_iteration(binder);
    return planned == 0 ? 0 : before < lag ? (int)before : lag;
}

/* Returns the slot of x@-k, or of x for k = 0. */
static struct hd_version_slot *get_slot(const struct hd_binder *binder, int value, int k)
{
    return hd_instances_get_slot(&binder->instances[value], k > 0 ? HD_FROM_LAG : HD_FROM_CURRENT,
                                 k, get_iteration(binder));
}

/* Returns a name like "replay.3" or "policy@-1", which the caller frees, or NULL without memory. */
static char *make_name(const struct hd_binder *binder, int value, int instance, int k)
{
    const struct hd_spec *spec = &binder->plan->graph->values[value].spec;
    char shard[32] = "", lag[32] = "";
    if (spec->placement == HD_SHARD)
        snprintf(shard, sizeof shard, ".%" PRId64, binder->plan->values[value].first + instance);
    if (k > 0)
        snprintf(lag, sizeof lag, "@-%d", k);
    return hd_format("%s%s%s", spec->name, shard, lag);
}

/* -- Saving ------------------------------------------------------------------------------------ */

static int save_instance(struct hd_checkpoint_writer *checkpoints, const struct hd_spec *spec,
                         const char *name, const void *data)
{
    if (!spec->type->save && spec->bytes >= JOURNAL_BYTES)
        return hd_checkpoint_writer_add_journal(checkpoints, name, data, spec->bytes);
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file)
        return HD_ERR_NOMEM;
    int status = hd_value_save(spec, data, file);
    if (fclose(file) != 0 && status == HD_OK)
        status = HD_ERR_NOMEM;
    if (status != HD_OK) {
        free(text);
        return status;
    }
    return hd_checkpoint_writer_add(checkpoints, name, text, (int64_t)bytes);
}

/* Saves the slice that a rank has of a sharded value, as "optimizer:2.8192-12288". */
static int save_slice(struct hd_checkpoint_writer *checkpoints, const struct hd_spec *spec,
                      int bucket, int64_t lo, int64_t hi, const char *data)
{
    int64_t total = 0, at, bytes;
    for (int i = 0; (bytes = hd_value_get_byte_range(spec, bucket, lo, hi, i, &at)) >= 0; i++)
        total += bytes;
    char *copy = malloc((size_t)total);
    char *name = hd_format("%s:%d.%" PRId64 "-%" PRId64, spec->name, bucket, lo, hi);
    int status = copy && name ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        total = 0;
        for (int i = 0; (bytes = hd_value_get_byte_range(spec, bucket, lo, hi, i, &at)) >= 0; i++) {
            memcpy(copy + total, data + at, (size_t)bytes);
            total += bytes;
        }
        status = hd_checkpoint_writer_add(checkpoints, name, copy, total);
    } else {
        free(copy);
    }
    hd_free(name);
    return status;
}

static int save_slices(const struct hd_binder *binder, struct hd_checkpoint_writer *checkpoints,
                       int value, const void *data)
{
    const struct hd_plan *plan = binder->plan;
    const struct hd_spec *spec = &plan->graph->values[value].spec;
    for (int bucket = 0; bucket < spec->buckets; bucket++) {
        const struct hd_elements slice =
            hd_sharded_update_get_slice(binder->session, spec, bucket, plan->rank);
        if (slice.lo < slice.hi)
            HD_TRY(save_slice(checkpoints, spec, bucket, slice.lo, slice.hi, data));
    }
    return HD_OK;
}

static int save_slot(const struct hd_binder *binder, struct hd_checkpoint_writer *checkpoints,
                     int value, int k)
{
    const struct hd_plan *plan = binder->plan;
    const struct hd_spec *spec = &plan->graph->values[value].spec;
    const struct hd_replica *host = &get_slot(binder, value, k)->replicas[0];
    if (plan->values[value].storage == HD_STORE_SLICES)
        return save_slices(binder, checkpoints, value, host->memory[0].data);
    if (spec->placement == HD_GLOBAL && plan->rank != 0)
        return HD_OK;
    for (int i = 0; i < plan->values[value].instances; i++) {
        char *name = make_name(binder, value, i, k);
        int status =
            name ? save_instance(checkpoints, spec, name, host->memory[i].data) : HD_ERR_NOMEM;
        hd_free(name);
        HD_TRY(status);
    }
    return HD_OK;
}

/* Returns whether x@-k, or x, needs a file of its own. */
static bool has_file(const struct hd_binder *binder, int value, int k)
{
    return is_kept(binder, value) &&
           (k == 0 || get_slot(binder, value, k)->version != binder->instances[value].version);
}

static json_t *describe_value(const struct hd_binder *binder, int value)
{
    json_t *lags = json_array(), *attributes = json_array();
    for (int k = 1; k <= count_lags(binder, value); k++)
        json_array_append_new(lags, json_integer(get_slot(binder, value, k)->version));
    for (int i = 0; i < binder->plan->graph->values[value].n_attributes; i++)
        json_array_append_new(attributes, json_integer(binder->attributes[value][i]));
    return json_pack("{s:I, s:o, s:o}", "version", (json_int_t)binder->instances[value].version,
                     "lags", lags, "attributes", attributes);
}

/* Text holds a double to the bit, NaN too. */
static json_t *make_bits(double value)
{
    char text[32];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    snprintf(text, sizeof text, "%016" PRIx64, bits);
    return json_string(text);
}

static json_t *describe_step(const struct hd_binder *binder, const struct hd_step *step)
{
    const int n_slots = step->condition ? binder->plan->graph->n_slots : 0;
    json_t *reads = json_array(), *fields = json_array();
    for (int i = 0; i < step->n_refs; i++)
        json_array_append_new(reads, json_integer(binder->last_read[step->index][i]));
    for (int i = 0; i < n_slots; i++)
        json_array_append_new(fields, make_bits(binder->fields[step->index * n_slots + i]));
    return json_pack("{s:s, s:I, s:o, s:o}", "step", step->label ? step->label : "", "next_due",
                     (json_int_t)binder->next_due[step->index], "last_read", reads, "fields",
                     fields);
}

static json_t *describe(const struct hd_binder *binder)
{
    const struct hd_graph *graph = binder->plan->graph;
    json_t *values = json_object(), *counters = json_object(), *steps = json_array();
    for (int i = 0; i < graph->total_steps; i++)
        json_array_append_new(steps, describe_step(binder, graph->all_steps[i]));
    for (int i = 0; i < graph->n_values; i++)
        json_object_set_new(values, graph->values[i].spec.name, describe_value(binder, i));
    for (int i = 0; i < graph->n_counters; i++)
        json_object_set_new(counters, graph->counters[i], json_integer(binder->counters[i]));
    const int stop = binder->place > 0 ? binder->plan->ops[binder->place].step->index : NO_STOP;
    return json_pack("{s:I, s:i, s:I, s:o, s:o, s:o}", "shards", (json_int_t)graph->shards, "stop",
                     stop, "next_compare", (json_int_t)binder->next_compare, "counters", counters,
                     "values", values, "steps", steps);
}

int hd_executor_save(struct hd_executor *executor, struct hd_checkpoint_writer *checkpoints,
                     json_t **state_p)
{
    struct hd_binder *binder = &executor->binder;
    const int n = binder->plan->graph->n_values;
    for (int value = 0; value < n; value++)
        for (int k = 0; k <= count_lags(binder, value); k++)
            if (has_file(binder, value, k))
                HD_TRY(hd_transfer_version(binder, value, get_slot(binder, value, k), 0));
    HD_TRY(hd_session_drain(binder->session));
    HD_TRY(hd_checkpoint_writer_begin(checkpoints, get_iteration(binder)));
    for (int value = 0; value < n; value++)
        for (int k = 0; k <= count_lags(binder, value); k++)
            if (has_file(binder, value, k))
                HD_TRY(save_slot(binder, checkpoints, value, k));
    *state_p = describe(binder);
    return HD_OK;
}

/* -- Restoring --------------------------------------------------------------------------------- */

static int missing(const char *what)
{
    return hd_fail(HD_ERR_FORMAT, "the checkpoint does not say what %s is", what);
}

/* Reads a whole number that is within [min, max]; `name` is for messages. */
static int read_number(const json_t *json, const char *name, int64_t min, int64_t max,
                       int64_t *number_p)
{
    char message[HD_NUMBERS_MESSAGE];
    if (!json_is_integer(json))
        return missing(name);
    if (hd_number_check(message, name, -1, json_integer_value(json), min, max) != HD_OK)
        return hd_fail(HD_ERR_FORMAT, "the checkpoint is of no run: %s", message);
    *number_p = json_integer_value(json);
    return HD_OK;
}

static int get_count(const json_t *object, const char *key, int64_t *number_p)
{
    return read_number(json_object_get(object, key), key, 0, HD_COUNT_MAX, number_p);
}

static int load_instance(const struct hd_spec *spec, void *to, void *data, int64_t bytes)
{
    if (!spec->type->load && bytes != spec->bytes)
        return hd_fail(HD_ERR_FORMAT, "value '%s' cannot be loaded: it has %lld bytes, not %lld",
                       spec->name, (long long)bytes, (long long)spec->bytes);
    if (!spec->type->load) {
        memcpy(to, data, (size_t)bytes);
        return HD_OK;
    }
    FILE *file = bytes > 0 ? fmemopen(data, (size_t)bytes, "r") : NULL;
    if (!file)
        return hd_fail(HD_ERR_FORMAT, "value '%s' cannot be loaded: its file is empty", spec->name);
    int status = hd_value_load(spec, to, file);
    if (status == HD_OK && fgetc(file) != EOF)
        status =
            hd_fail(HD_ERR_FORMAT, "value '%s' cannot be loaded: the file is too long", spec->name);
    fclose(file);
    return status;
}

static int check_instance(const struct hd_spec *spec, const struct hd_checkpoint *checkpoint,
                          const char *name, const void *data)
{
    char message[HD_NUMBERS_MESSAGE];
    if (hd_value_check(spec, data, message) == HD_OK)
        return HD_OK;
    return hd_fail(HD_ERR_FORMAT,
                   "'%s' in the checkpoint of iteration %" PRId64 " is of no run: %s", name,
                   hd_checkpoint_get_iteration(checkpoint), message);
}

static int put_slice(const struct hd_spec *spec, const char *name, char *to, const char *data,
                     int64_t bytes, int64_t *elements_p)
{
    int64_t lo, hi, bucket_lo, bucket_hi, at, length, used = 0;
    int bucket;
    if (sscanf(name + strlen(spec->name), ":%d.%" SCNd64 "-%" SCNd64, &bucket, &lo, &hi) != 3 ||
        bucket < 0 || bucket >= spec->buckets)
        return missing(name);
    hd_spec_get_bucket(spec, bucket, &bucket_lo, &bucket_hi);
    if (lo < bucket_lo || hi > bucket_hi || lo >= hi)
        return missing(name);
    for (int i = 0; (length = hd_value_get_byte_range(spec, bucket, lo, hi, i, &at)) >= 0; i++) {
        if (length > bytes - used)
            return missing(name);
        memcpy(to + at, data + used, (size_t)length);
        used += length;
    }
    *elements_p += hi - lo;
    return HD_OK;
}

static int load_slices(const struct hd_checkpoint *checkpoint, const struct hd_spec *spec, void *to)
{
    int64_t elements = 0;
    char *prefix = hd_format("%s:", spec->name);
    int status = prefix ? HD_OK : HD_ERR_NOMEM;
    const char *name;
    for (int i = 0; status == HD_OK && (name = hd_checkpoint_find_name(checkpoint, prefix, i));
         i++) {
        void *data = NULL;
        int64_t bytes;
        status = hd_checkpoint_read(checkpoint, name, HD_NO_JOURNAL, &data, &bytes);
        if (status == HD_OK)
            status = put_slice(spec, name, to, data, bytes, &elements);
        hd_free(data);
    }
    hd_free(prefix);
    if (status == HD_OK && elements != spec->elements)
        status = missing(spec->name);
    return status;
}

static int load_slot(struct hd_binder *binder, const struct hd_checkpoint *checkpoint, int value,
                     int k, struct hd_version_slot *slot)
{
    const struct hd_spec *spec = &binder->plan->graph->values[value].spec;
    for (int i = 0; i < binder->plan->values[value].instances; i++) {
        void *data = NULL;
        int64_t bytes;
        char *name = make_name(binder, value, i, k);
        int status =
            name ? hd_checkpoint_read(checkpoint, name,
                                      spec->type->load ? HD_NO_JOURNAL : spec->bytes, &data, &bytes)
                 : HD_ERR_NOMEM;
        if (status == HD_OK && data)
            status = load_instance(spec, slot->replicas[0].memory[i].data, data, bytes);
        else if (status == HD_OK && spec->type->flat && k == 0)
            status = load_slices(checkpoint, spec, slot->replicas[0].memory[i].data);
        else if (status == HD_OK)
            status = missing(name);
        if (status == HD_OK)
            status = check_instance(spec, checkpoint, name, slot->replicas[0].memory[i].data);
        hd_free(data);
        hd_free(name);
        HD_TRY(status);
    }
    return HD_OK;
}

static void hold(const struct hd_instances *instances, struct hd_version_slot *slot,
                 int64_t version)
{
    slot->version = slot->replicas[0].version = version;
    for (int replica = 1; replica < instances->planned->homes; replica++)
        slot->replicas[replica].version = -1;
}

/* Returns a slot that holds the version, else slot *next_p, which then is taken. */
static struct hd_version_slot *find_slot(struct hd_instances *instances, int first, int64_t version,
                                         int *next_p, bool *new_p)
{
    *new_p = false;
    for (int i = first; i < *next_p; i++)
        if (instances->version_slots[i].version == version)
            return &instances->version_slots[i];
    *new_p = true;
    struct hd_version_slot *slot = &instances->version_slots[(*next_p)++];
    hold(instances, slot, version);
    return slot;
}

static int copy_current(struct hd_instances *instances, struct hd_version_slot *slot)
{
    for (int i = 0; i < instances->planned->instances; i++)
        HD_TRY(hd_value_snapshot(&instances->value->spec, slot->replicas[0].memory[i].data,
                                 instances->version_slots[0].replicas[0].memory[i].data));
    return HD_OK;
}

/* Lagged versions are in the rotation, or in snapshots. */
static int restore_lags(struct hd_binder *binder, const struct hd_checkpoint *checkpoint, int value,
                        const json_t *lags)
{
    struct hd_instances *instances = &binder->instances[value];
    const struct hd_plan_value *plan = instances->planned;
    const int first = plan->lagged.buffers > 0 ? plan->buffers : 0;
    int next = plan->lagged.buffers > 0 ? plan->buffers : 1;
    for (int k = 1; k <= count_lags(binder, value); k++) {
        int64_t version = 0;
        bool is_new;
        HD_TRY(read_number(json_array_get(lags, (size_t)k - 1), instances->value->spec.name, 0,
                           instances->version, &version));
        struct hd_version_slot *slot = find_slot(instances, first, version, &next, &is_new);
        if (is_new && is_kept(binder, value))
            HD_TRY(slot->version == instances->version
                       ? copy_current(instances, slot)
                       : load_slot(binder, checkpoint, value, k, slot));
        hd_instances_set_start(instances, get_iteration(binder) - k,
                               (int)(slot - instances->version_slots));
    }
    return HD_OK;
}

static int restore_value(struct hd_binder *binder, const struct hd_checkpoint *checkpoint,
                         int value, const json_t *values)
{
    struct hd_instances *instances = &binder->instances[value];
    const char *name = instances->value->spec.name;
    const json_t *saved = json_object_get(values, name);
    if (!saved)
        return missing(name);
    HD_TRY(get_count(saved, "version", &instances->version));
    instances->current = 0;
    for (int i = 0; i < instances->n_version_slots; i++)
        hold(instances, &instances->version_slots[i], -1);
    hold(instances, &instances->version_slots[0], instances->version);
    for (int i = 0; i < instances->value->n_attributes; i++)
        HD_TRY(read_number(json_array_get(json_object_get(saved, "attributes"), (size_t)i), name, 0,
                           HD_COUNT_MAX, &binder->attributes[value][i]));
    if (is_kept(binder, value))
        HD_TRY(load_slot(binder, checkpoint, value, 0, &instances->version_slots[0]));
    return restore_lags(binder, checkpoint, value, json_object_get(saved, "lags"));
}

static double get_double(const json_t *bits)
{
    const char *text = json_string_value(bits);
    const uint64_t number = text ? strtoull(text, NULL, 16) : 0;
    double value;
    memcpy(&value, &number, sizeof value);
    return value;
}

static int restore_step(struct hd_binder *binder, const struct hd_step *step, const json_t *saved)
{
    const int n_slots = step->condition ? binder->plan->graph->n_slots : 0;
    const char *label = json_string_value(json_object_get(saved, "step"));
    if (!label || strcmp(label, step->label ? step->label : "") != 0)
        return missing(step->label);
    /* A step is due again at most `every` counts from now, or was never due. */
    const int64_t next = step->every > 0 ? binder->counters[step->every_counter] + step->every : 0;
    HD_TRY(read_number(json_object_get(saved, "next_due"), "next_due", 0,
                       next > step->first ? next : step->first, &binder->next_due[step->index]));
    for (int i = 0; i < step->n_refs; i++) {
        const int value = step->refs[i].value;
        HD_TRY(read_number(json_array_get(json_object_get(saved, "last_read"), (size_t)i),
                           "last_read", -1,
                           value == HD_NO_VALUE ? 0 : binder->instances[value].version,
                           &binder->last_read[step->index][i]));
    }
    for (int i = 0; i < n_slots; i++)
        binder->fields[step->index * n_slots + i] =
            get_double(json_array_get(json_object_get(saved, "fields"), (size_t)i));
    return HD_OK;
}

/* Finds the stop step at which the iteration goes on, if it was under way. */
static int restore_place(struct hd_binder *binder, const json_t *state)
{
    const struct hd_plan *plan = binder->plan;
    int64_t stop = NO_STOP;
    HD_TRY(read_number(json_object_get(state, "stop"), "stop", NO_STOP,
                       plan->graph->total_steps - 1, &stop));
    binder->place = 0;
    while (stop != NO_STOP && binder->place < plan->n_ops &&
           (plan->ops[binder->place].kind != HD_OP_STEP ||
            plan->ops[binder->place].step->index != stop))
        binder->place++;
    if (binder->place < plan->n_ops &&
        (stop == NO_STOP || hd_plan_can_resume_at(plan, binder->place)))
        return HD_OK;
    binder->place = 0;
    return missing("stop");
}

int hd_executor_restore(struct hd_executor *executor, const struct hd_checkpoint *checkpoint,
                        const json_t *state)
{
    struct hd_binder *binder = &executor->binder;
    const struct hd_graph *graph = binder->plan->graph;
    const json_t *steps = json_object_get(state, "steps");
    int64_t shards = 0;
    HD_TRY(get_count(state, "shards", &shards));
    if (shards != graph->shards)
        return hd_fail(HD_ERR_INPUT, "the checkpoint is of %lld shards, not %lld",
                       (long long)shards, (long long)graph->shards);
    for (int i = 0; i < graph->n_counters; i++)
        HD_TRY(get_count(json_object_get(state, "counters"), graph->counters[i],
                         &binder->counters[i]));
    HD_TRY(restore_place(binder, state));
    if (get_iteration(binder) != hd_checkpoint_get_iteration(checkpoint))
        return hd_fail(HD_ERR_FORMAT, "the checkpoint of iteration %" PRId64 " counts %" PRId64,
                       hd_checkpoint_get_iteration(checkpoint), get_iteration(binder));
    HD_TRY(get_count(state, "next_compare", &binder->next_compare));
    for (int i = 0; i < graph->n_values; i++)
        HD_TRY(restore_value(binder, checkpoint, i, json_object_get(state, "values")));
    for (int i = 0; i < graph->total_steps; i++)
        HD_TRY(restore_step(binder, graph->all_steps[i], json_array_get(steps, (size_t)i)));
    return HD_OK;
}
