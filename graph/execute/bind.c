/* SPDX-License-Identifier: Apache-2.0 */
/* Called by the submitter: hd_binder_bind for each task or instance that it submits, the rest
 * before and after each step. */
#include "graph/execute/bind.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>

/* -- Making and releasing ---------------------------------------------------------------------- */

static int create_instances(struct hd_binder *binder)
{
    const struct hd_graph *graph = binder->plan->graph;
    const struct hd_setup setup = {
        .config = graph->config, .shards = graph->shards, .seed = graph->seed};
    for (int i = 0; i < graph->n_values; i++) {
        const struct hd_instances *first = NULL;
        for (int j = 0; j < i; j++)
            if (&graph->values[j].spec == graph->values[i].spec.init ||
                j == binder->plan->values[i].alias)
                first = &binder->instances[j];
        HD_TRY(hd_instances_create(binder->session, &setup, binder->plan, i, first,
                                   &binder->instances[i]));
    }
    return HD_OK;
}

/* A stop step has seen nothing yet, not even initial versions. */
static void init_step(struct hd_binder *binder, const struct hd_step *step)
{
    const int n_slots = binder->plan->graph->n_slots;
    binder->next_due[step->index] = step->first;
    for (int i = 0; step->condition && i < HD_PORTS_MAX; i++)
        binder->last_read[step->index][i] = -1;
    for (int i = 0; i < n_slots; i++)
        binder->fields[step->index * n_slots + i] = NAN;
}

int hd_binder_create(struct hd_plan *plan, struct hd_session *session, int window,
                     struct hd_binder *binder)
{
    const struct hd_graph *graph = plan->graph;
    binder->plan = plan;
    binder->session = session;
    binder->window = window;
    binder->instances = hd_alloc(graph->n_values, sizeof *binder->instances);
    binder->counters = hd_alloc(graph->n_counters, sizeof *binder->counters);
    binder->last_read = hd_alloc(graph->total_steps, sizeof *binder->last_read);
    binder->attributes = hd_alloc(graph->n_values, sizeof *binder->attributes);
    binder->next_due = hd_alloc(graph->total_steps, sizeof *binder->next_due);
    binder->fields = hd_alloc(graph->total_steps * (int64_t)graph->n_slots, sizeof(double));
    if (!binder->instances || !binder->counters || !binder->last_read || !binder->attributes ||
        !binder->next_due || !binder->fields)
        return HD_ERR_NOMEM;
    binder->next_compare = plan->param_check_interval;
    for (int i = 0; i < graph->total_steps; i++)
        init_step(binder, graph->all_steps[i]);
    return create_instances(binder);
}

void hd_binder_destroy(struct hd_binder *binder)
{
    for (int i = 0; binder->instances && i < binder->plan->graph->n_values; i++)
        hd_instances_destroy(&binder->instances[i]);
    hd_free(binder->instances);
    hd_free(binder->counters);
    hd_free(binder->last_read);
    hd_free(binder->attributes);
    hd_free(binder->next_due);
    hd_free(binder->fields);
}

/* -- Versions ---------------------------------------------------------------------------------- */

struct hd_task_group *hd_binder_get_task_group(struct hd_binder *binder)
{
    return &binder->task_groups[hd_binder_get_iteration(binder) % binder->window];
}

static bool is_group_empty(void *arg)
{
    return atomic_load(&((struct hd_task_group *)arg)->pending) == 0;
}

int hd_binder_wait(struct hd_binder *binder, struct hd_task_group *group)
{
    struct hd_recorder *recorder = hd_session_get_options(binder->session)->recorder;
    if (recorder)
        return recorder->wait(recorder, group);
    HD_TRY(hd_session_observe_wait(binder->session, group));
    return hd_session_wait(binder->session, is_group_empty, group);
}

struct hd_version_slot *hd_binder_get_slot(const struct hd_binder *binder, const struct hd_op *op,
                                           int i)
{
    const struct hd_ref *ref = &op->step->refs[i];
    return hd_instances_get_slot(&binder->instances[ref->value], op->sources[i], ref->lag,
                                 hd_binder_get_iteration(binder));
}

const struct hd_replica *hd_binder_get_replica(const struct hd_binder *binder,
                                               const struct hd_op *op, int i, int home)
{
    const int replica = hd_plan_get_replica(binder->plan, op->step->refs[i].value, home);
    return &hd_binder_get_slot(binder, op, i)->replicas[replica];
}

/* A snapshot for a background step is made only if the step is due, so this looks at the version
 * that would be copied. */
static int64_t get_read_version(const struct hd_binder *binder, const struct hd_op *op, int i)
{
    if (op->sources[i] == HD_FROM_BACKGROUND)
        return binder->instances[op->step->refs[i].value].version;
    return hd_binder_get_slot(binder, op, i)->version;
}

static bool is_fresh(const struct hd_binder *binder, const struct hd_op *op, int i)
{
    return get_read_version(binder, op, i) != binder->last_read[op->step->index][i];
}

static bool only_reads(const struct hd_ref *ref)
{
    return ref->value != HD_NO_VALUE && ref->mode == HD_READ;
}

bool hd_binder_has_fresh(const struct hd_binder *binder, const struct hd_op *op)
{
    for (int i = 0; i < op->step->n_refs; i++)
        if (only_reads(&op->step->refs[i]) && is_fresh(binder, op, i))
            return true;
    return false;
}

static bool is_none(const struct hd_binder *binder, const struct hd_op *op, int i)
{
    const struct hd_ref *ref = &op->step->refs[i];
    return binder->plan->graph->values[ref->value].spec.type->none &&
           (ref->mode == HD_READ ? get_read_version(binder, op, i)
                                 : binder->instances[ref->value].version) == 0;
}

int hd_binder_check_content(const struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    for (int i = 0; i < step->n_refs; i++) {
        const struct hd_ref *ref = &step->refs[i];
        if (ref->value == HD_NO_VALUE || ref->mode == HD_WRITE ||
            step->verb->ports[step->verb->many ? 0 : i].none || !is_none(binder, op, i))
            continue;
        const struct hd_source_location *at = &ref->location;
        const char *name = binder->plan->graph->values[ref->value].spec.name;
        hd_session_fail(binder->session, HD_ERR_INPUT,
                        "%s:%d:%d: '%s' has no content in iteration %lld, and %s requires it: give "
                        "%s a guard that waits for it",
                        at->file, at->line, at->column, name,
                        (long long)hd_binder_get_iteration(binder), step->label, step->label);
        return HD_ERR_INPUT;
    }
    return HD_OK;
}

void hd_binder_rotate_writes(struct hd_binder *binder, const struct hd_op *op)
{
    for (int i = 0; i < op->step->n_refs; i++)
        if (op->step->refs[i].value != HD_NO_VALUE && op->step->refs[i].mode == HD_WRITE)
            hd_instances_rotate(&binder->instances[op->step->refs[i].value],
                                hd_binder_get_iteration(binder));
}

/* Records which replicas hold the version that ref i has made. */
static void note_write(struct hd_binder *binder, const struct hd_op *op, int i)
{
    const struct hd_plan_value *value = &binder->plan->values[op->step->refs[i].value];
    struct hd_version_slot *slot = hd_binder_get_slot(binder, op, i);
    if (value->homes == 1 || hd_op_touches(op, i, false))
        slot->replicas[0].version = slot->version;
    if (value->homes > 1 && hd_op_touches(op, i, true))
        slot->replicas[1].version = slot->version;
}

void hd_binder_note_accesses(struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    for (int i = 0; i < step->n_refs; i++)
        if (only_reads(&step->refs[i]))
            binder->last_read[step->index][i] = get_read_version(binder, op, i);
    for (int i = 0; i < step->n_refs; i++)
        if (hd_ref_changes(&step->refs[i])) {
            struct hd_instances *instances = &binder->instances[step->refs[i].value];
            instances->version_slots[instances->current].version = ++instances->version;
            note_write(binder, op, i);
        }
}

/* -- Tasks ------------------------------------------------------------------------------------- */

struct hd_context hd_binder_make_context(const struct hd_binder *binder, const struct hd_step *step,
                                         int64_t shard)
{
    const struct hd_plan *plan = binder->plan;
    const struct hd_graph *graph = plan->graph;
    const int64_t iteration = hd_binder_get_iteration(binder);
    const int update = plan->update_counter;
    return (struct hd_context){
        .rng = hd_rng_make(graph->seed, step ? step->stream : 0, shard < 0 ? 0 : shard, iteration,
                           binder->repeat_index),
        .seed = graph->seed,
        .iteration = iteration,
        .repeat_index = binder->repeat_index,
        .update = update == HD_NO_COUNTER ? 0 : binder->counters[update],
        .shard = shard,
        .shards = graph->shards,
        .rank = plan->rank,
        .ranks = plan->ranks,
    };
}

static void bind_ref(const struct hd_binder *binder, const struct hd_op *op, int i, int instance,
                     int bucket, int home, struct hd_view *view, struct hd_access *access)
{
    const struct hd_ref *ref = &op->step->refs[i];
    if (ref->value == HD_NO_VALUE) {
        *view = (struct hd_view){0};
        *access = (struct hd_access){0};
        return;
    }
    const struct hd_version_slot *slot = hd_binder_get_slot(binder, op, i);
    const struct hd_replica *replica = hd_binder_get_replica(binder, op, i, home);
    const int alias = binder->plan->values[ref->value].alias;
    const struct hd_spec *spec =
        &binder->plan->graph->values[alias == HD_NO_VALUE ? ref->value : alias].spec;
    const int at = spec->placement == HD_SHARD ? instance : 0;
    const bool by_bucket = op->buckets > 1 && spec->buckets == op->buckets;
    *view = (struct hd_view){.data = replica->memory[at].data,
                             .host = slot->replicas[0].memory[at].data,
                             .spec = spec,
                             .bucket = bucket,
                             .version = slot->version,
                             .fresh = is_fresh(binder, op, i)};
    *access = (struct hd_access){replica->memory[at].buffer, by_bucket ? bucket : HD_ALL_BUCKETS,
                                 HD_ALL_PARTIALS, ref->mode};
}

void hd_binder_bind(const struct hd_binder *binder, const struct hd_op *op, int instance,
                    int bucket, int home, struct hd_bound *bound_p)
{
    for (int i = 0; i < op->step->n_refs; i++)
        bind_ref(binder, op, i, instance, bucket, home, &bound_p->views[i], &bound_p->accesses[i]);
}

struct hd_task hd_binder_make_task(struct hd_binder *binder, const struct hd_op *op, int64_t shard)
{
    const struct hd_step *step = op->step;
    return (struct hd_task){
        .verb = step->verb->name,
        .name = step->label,
        .body = step->verb->body,
        .finish = step->verb->finish,
        .args = step->args,
        .context = hd_binder_make_context(binder, step, shard),
        .logs = step->verb->logs,
        .n = step->n_refs,
        .background = op->background,
        .group = op->background ? NULL : hd_binder_get_task_group(binder),
    };
}

void hd_binder_set_gpu_home(struct hd_task *task, const struct hd_op *op, int home, hd_body *body)
{
    const struct hd_gpu_verb *gpu = op->step->verb->gpu;
    task->home = home;
    task->body = body;
    task->graph_capturable = gpu->graph_capturable;
    task->get_graph = gpu->get_graph;
    task->set_inputs = gpu->set_inputs;
    task->input_bytes = gpu->input_bytes;
}
