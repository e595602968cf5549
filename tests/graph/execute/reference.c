/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/graph/execute/reference.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITERATIONS_MAX = 1000, STEPS_MAX = 256 };

struct content {
    void *now[64]; /* by shard */
    int64_t version;
    int64_t attributes[4];
    void *starts[ITERATIONS_MAX][64];
    int64_t start_versions[ITERATIONS_MAX];
};

struct hd_reference {
    struct hd_graph *graph;
    struct content *contents; /* by value */
    int64_t counters[16];
    int64_t due[STEPS_MAX];
    int64_t last_read[STEPS_MAX][HD_PORTS_MAX];
    int64_t repeat_index;
    const char *reason;
};

static int64_t instances_of(const struct hd_reference *r, int value)
{
    return r->graph->values[value].spec.placement == HD_SHARD ? r->graph->shards : 1;
}

static const struct hd_spec *spec_of(const struct hd_reference *r, int value)
{
    return &r->graph->values[value].spec;
}

/* A read sees content and version. */
static void *look(const struct hd_reference *r, const struct hd_ref *ref, int64_t shard,
                  int64_t *version_p)
{
    struct content *content = &r->contents[ref->value];
    int64_t at = spec_of(r, ref->value)->placement == HD_SHARD ? shard : 0;
    if (ref->lag == 0) {
        *version_p = content->version;
        return content->now[at];
    }
    int64_t start = r->counters[0] - ref->lag;
    if (start < 0)
        start = 0;
    *version_p = content->start_versions[start];
    return content->starts[start][at];
}

static bool new_reads(const struct hd_reference *r, const struct hd_step *step)
{
    for (int i = 0; i < step->n_refs; i++) {
        int64_t version;
        if (step->refs[i].value == HD_NO_VALUE || step->refs[i].mode != HD_READ)
            continue;
        look(r, &step->refs[i], 0, &version);
        if (version != r->last_read[step->index][i])
            return true;
    }
    return false;
}

struct names {
    const struct hd_reference *r;
    const struct hd_step *step;
};

static bool read_slot(void *arg, int slot, double *value_p)
{
    const struct names *names = arg;
    const struct hd_slot *is = &names->r->graph->slots[slot];
    if (is->kind == HD_SLOT_COUNTER)
        *value_p = (double)names->r->counters[is->index];
    else if (is->kind == HD_SLOT_ATTRIBUTE)
        *value_p = (double)names->r->contents[is->value].attributes[is->index];
    else {
        const struct hd_ref *ref = NULL;
        for (int i = 0; i < names->step->n_refs; i++)
            if (names->step->refs[i].value == is->value)
                ref = &names->step->refs[i];
        int64_t version;
        const void *data = look(names->r, ref, 0, &version);
        const struct hd_spec *spec = spec_of(names->r, is->value);
        if (spec->type->none && version == 0)
            return false;
        *value_p = spec->type->field(spec, data, is->index);
        return !isnan(*value_p);
    }
    return true;
}

static bool holds(const struct hd_reference *r, const struct hd_step *step,
                  const struct hd_expr *expr)
{
    struct names names = {r, step};
    double value;
    return hd_expr_evaluate(expr, read_slot, &names, &value) && value != 0;
}

static void note_reads(struct hd_reference *r, const struct hd_step *step)
{
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode == HD_READ)
            look(r, &step->refs[i], 0, &r->last_read[step->index][i]);
}

static void call(int (*body)(struct hd_context *, const struct hd_view *, const void *),
                 struct hd_context *context, const struct hd_view *views, const void *args)
{
    int status;
    context->again = false;
    while ((status = body(context, views, args)) == HD_AGAIN)
        context->again = true;
    ck_assert_msg(status == HD_OK, "%s", context->message);
}

/* Runs stages [from, to) of all items, one item after another: items must not see one another. */
static void run_items(const struct hd_step *step, struct hd_context *context,
                      const struct hd_view *views, void **work_buffers, void **headers, int from,
                      int to)
{
    for (context->item = 0; context->item < context->items; context->item++) {
        context->work = work_buffers[context->item];
        context->header = headers[context->item];
        for (context->stage = from; context->stage < to; context->stage++)
            call(step->verb->body, context, views, step->args);
    }
    context->item = context->stage = 0;
    context->work = context->header = NULL;
}

static void run_subtasks(const struct hd_step *step, struct hd_context *context,
                         const struct hd_view *views)
{
    struct hd_subtasks subtasks = {.items = 1, .stages = 1};
    if (step->verb->get_subtasks)
        step->verb->get_subtasks(step->args, &subtasks);
    const int header = subtasks.finish_last ? subtasks.stages : 1;
    void **work_buffers = hd_alloc(subtasks.items, sizeof *work_buffers);
    void **headers = hd_alloc(subtasks.items, sizeof *headers);
    for (int64_t i = 0; i < subtasks.items; i++) {
        work_buffers[i] = hd_alloc(subtasks.work_bytes, 1);
        headers[i] = hd_alloc(subtasks.header_bytes, 1);
    }
    context->items = subtasks.items;
    run_items(step, context, views, work_buffers, headers, 0, header);
    if (step->verb->finish) {
        context->work_buffers = work_buffers;
        context->headers = headers;
        call(step->verb->finish, context, views, step->args);
        context->work_buffers = context->headers = NULL;
    }
    run_items(step, context, views, work_buffers, headers, header, subtasks.stages);
    for (int64_t i = 0; i < subtasks.items; i++) {
        hd_free(work_buffers[i]);
        hd_free(headers[i]);
    }
    hd_free(work_buffers);
    hd_free(headers);
}

static int get_buckets(const struct hd_reference *r, const struct hd_step *step)
{
    for (int i = 0; step->verb->by_bucket && i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode != HD_READ)
            return spec_of(r, step->refs[i].value)->buckets;
    return 1;
}

static struct hd_context context_of(const struct hd_reference *r, const struct hd_step *step,
                                    int64_t shard)
{
    static char scratch[1 << 20], message[HD_MESSAGE_BYTES];
    return (struct hd_context){
        .rng = hd_rng_make(r->graph->seed, step->stream, shard < 0 ? 0 : shard, r->counters[0],
                           r->repeat_index),
        .seed = r->graph->seed,
        .iteration = r->counters[0],
        .repeat_index = r->repeat_index,
        .shard = shard,
        .shards = r->graph->shards,
        .ranks = 1,
        .n_views = step->n_refs,
        .scratch = scratch,
        .message = message,
    };
}

static void view(struct hd_reference *r, const struct hd_step *step, int64_t shard, int bucket,
                 struct hd_view views[HD_PORTS_MAX])
{
    for (int i = 0; i < step->n_refs; i++) {
        views[i] = (struct hd_view){0};
        if (step->refs[i].value == HD_NO_VALUE)
            continue;
        views[i].spec = spec_of(r, step->refs[i].value);
        views[i].data = look(r, &step->refs[i], shard, &views[i].version);
        views[i].bucket = bucket;
    }
}

static void run_body(struct hd_reference *r, const struct hd_step *step, int64_t shard)
{
    struct hd_view views[HD_PORTS_MAX];
    struct hd_context context = context_of(r, step, shard);
    for (int bucket = 0; bucket < get_buckets(r, step); bucket++) {
        view(r, step, shard, bucket, views);
        run_subtasks(step, &context, views);
    }
}

/* -- Steps that add up over shards between their stages ---------------------------------------- */

enum { POOL_MAX = 256, ITEMS_MAX = 8, SHARDS_MAX = 8 };

struct pooled_step {
    struct hd_context contexts[SHARDS_MAX];
    struct hd_view views[SHARDS_MAX][HD_PORTS_MAX];
    void *work_buffers[SHARDS_MAX][ITEMS_MAX];
    double numbers[SHARDS_MAX][ITEMS_MAX][POOL_MAX], sums[POOL_MAX];
};

static double add_items(const struct pooled_step *p, int64_t shard, int64_t lo, int64_t hi, int n)
{
    if (hi - lo == 1)
        return p->numbers[shard][lo][n];
    const int64_t middle = lo + (hi - lo) / 2;
    const double left = add_items(p, shard, lo, middle, n);
    return left + add_items(p, shard, middle, hi, n);
}

static double add_shards(const struct pooled_step *p, int64_t items, int64_t lo, int64_t hi, int n)
{
    if (hi - lo == 1)
        return add_items(p, lo, 0, items, n);
    const int64_t middle = lo + (hi - lo) / 2;
    const double left = add_shards(p, items, lo, middle, n);
    return left + add_shards(p, items, middle, hi, n);
}

static void run_shard_stage(struct pooled_step *p, const struct hd_step *step, int64_t shard,
                            const struct hd_subtasks *subtasks, int stage)
{
    struct hd_context *context = &p->contexts[shard];
    for (int64_t item = 0; item < subtasks->items; item++) {
        context->item = item;
        context->stage = stage;
        context->work = p->work_buffers[shard][item];
        context->partial_sums =
            step->verb->count_cross_shard_sums(step->args, stage) ? p->numbers[shard][item] : NULL;
        context->cross_shard_sums =
            stage > 0 && step->verb->count_cross_shard_sums(step->args, stage - 1) ? p->sums : NULL;
        call(step->verb->body, context, p->views[shard], step->args);
    }
    context->item = context->stage = 0;
    context->work = context->partial_sums = NULL;
    context->cross_shard_sums = NULL;
    if (step->verb->finish && stage == (subtasks->finish_last ? subtasks->stages - 1 : 0)) {
        context->work_buffers = p->work_buffers[shard];
        call(step->verb->finish, context, p->views[shard], step->args);
        context->work_buffers = NULL;
    }
}

static void run_pooled(struct hd_reference *r, const struct hd_step *step)
{
    struct hd_subtasks subtasks;
    struct pooled_step *p = hd_alloc(1, sizeof *p);
    step->verb->get_subtasks(step->args, &subtasks);
    ck_assert_int_le(subtasks.items, ITEMS_MAX);
    ck_assert_int_le(r->graph->shards, SHARDS_MAX);
    for (int64_t s = 0; s < r->graph->shards; s++) {
        p->contexts[s] = context_of(r, step, s);
        p->contexts[s].items = subtasks.items;
        view(r, step, s, 0, p->views[s]);
        for (int64_t i = 0; i < subtasks.items; i++)
            p->work_buffers[s][i] = hd_alloc(subtasks.work_bytes, 1);
    }
    for (int stage = 0; stage < subtasks.stages; stage++) {
        for (int64_t s = 0; s < r->graph->shards; s++)
            run_shard_stage(p, step, s, &subtasks, stage);
        for (int n = 0; n < step->verb->count_cross_shard_sums(step->args, stage); n++)
            p->sums[n] = add_shards(p, subtasks.items, 0, r->graph->shards, n);
    }
    for (int64_t s = 0; s < r->graph->shards; s++)
        for (int64_t i = 0; i < subtasks.items; i++)
            hd_free(p->work_buffers[s][i]);
    hd_free(p);
}

/* -- Steps ------------------------------------------------------------------------------------- */

/* Rounds floats block by block, if a mean does so. */
static void round_blocks(const struct hd_step *step, float *floats, int64_t n)
{
    const struct hd_rounding *rounding = step->args;
    char rounded[5 * HD_BLOCK];
    for (int64_t at = 0; rounding && at < n; at += HD_BLOCK) {
        const int64_t left = n - at < HD_BLOCK ? n - at : HD_BLOCK;
        rounding->encode(floats + at, left, rounded);
        rounding->decode(rounded, left, floats + at);
    }
}

/* Rounds the sum of a shard, and takes from its residual and leaves there what that loses. */
static void round_leaf(const struct hd_reference *r, const struct hd_step *step, int bucket,
                       int64_t shard, float *sum)
{
    int64_t lo, hi, version;
    hd_spec_get_bucket(spec_of(r, step->refs[0].value), bucket, &lo, &hi);
    const bool feeds_back = step->n_refs > 2 && step->refs[2].value != HD_NO_VALUE;
    float *residual = feeds_back ? (float *)look(r, &step->refs[2], shard, &version) + lo : NULL;
    for (int64_t i = 0; feeds_back && i < hi - lo; i++)
        residual[i] = sum[i] += residual[i];
    round_blocks(step, sum, hi - lo);
    for (int64_t i = 0; feeds_back && i < hi - lo; i++)
        residual[i] -= sum[i];
}

static int64_t count_floats(const struct hd_spec *spec, int bucket)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return hi - lo;
}

/* Returns the instances [lo, hi) combined in the midpoint tree, as a new vector. */
static void *reduce(const struct hd_reference *r, const struct hd_step *step, int bucket,
                    int64_t lo, int64_t hi)
{
    const struct hd_spec *spec = spec_of(r, step->refs[0].value);
    const struct hd_reduction *reduction = spec->type->reduction;
    if (hi - lo == 1) {
        int64_t version;
        void *vector = hd_alloc(reduction->bytes(spec, bucket), 1);
        reduction->pack(spec, bucket, look(r, &step->refs[0], lo, &version), vector);
        if (step->args)
            round_leaf(r, step, bucket, lo, vector);
        return vector;
    }
    int64_t middle = lo + (hi - lo) / 2;
    void *left = reduce(r, step, bucket, lo, middle), *right = reduce(r, step, bucket, middle, hi);
    reduction->combine(spec, bucket, step->combine, left, right);
    round_blocks(step, left, count_floats(spec, bucket));
    hd_free(right);
    return left;
}

static void run_collective(struct hd_reference *r, const struct hd_step *step)
{
    if (step->verb->kind == HD_VERB_BARRIER)
        return;
    const struct hd_spec *from = spec_of(r, step->refs[0].value);
    const struct hd_spec *to = spec_of(r, step->refs[1].value);
    void *out = r->contents[step->refs[1].value].now[0];
    int64_t version;
    if (step->verb->kind == HD_VERB_BROADCAST) {
        memcpy(out, look(r, &step->refs[0], 0, &version), (size_t)to->bytes);
        return;
    }
    for (int bucket = 0; bucket < from->buckets; bucket++) {
        void *vector = reduce(r, step, bucket, 0, r->graph->shards);
        from->type->reduction->unpack(to, bucket, step->combine, vector, out);
        if (step->args) {
            int64_t lo, hi;
            hd_spec_get_bucket(to, bucket, &lo, &hi);
            round_blocks(step, (float *)out + lo, hi - lo);
        }
        hd_free(vector);
    }
}

static void finish(struct hd_reference *r, const struct hd_step *step)
{
    note_reads(r, step);
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode != HD_READ)
            r->contents[step->refs[i].value].version++;
    for (const struct hd_counted_attribute *count = step->verb->counted; count && count->attribute;
         count++) {
        int64_t *size = &r->contents[step->refs[count->port].value].attributes[0];
        *size = count->next(step->args, size);
    }
    if (step->every)
        r->due[step->index] = r->counters[step->every_counter] + step->every;
    if (step->counts != HD_NO_COUNTER)
        r->counters[step->counts]++;
}

static bool run_steps(struct hd_reference *r, struct hd_step *steps, int n);

/* Returns true when the run is over. */
static bool run_step(struct hd_reference *r, struct hd_step *step)
{
    if (step->when && !holds(r, step, step->when))
        return false;
    if (!step->verb) {
        int64_t outer = r->repeat_index;
        for (int64_t i = 0; i < step->times; i++) {
            r->repeat_index = outer * step->times + i;
            if (run_steps(r, step->steps, step->n_steps))
                return true;
        }
        r->repeat_index = outer;
        return false;
    }
    bool collective =
        step->verb->kind == HD_VERB_COLLECTIVE || step->verb->kind == HD_VERB_BROADCAST;
    if (step->every ? r->counters[step->every_counter] < r->due[step->index]
                    : collective && !new_reads(r, step))
        return false;
    bool over = step->verb->kind == HD_VERB_STOP && holds(r, step, step->condition);
    r->reason = over ? step->reason : r->reason;
    if (step->verb->kind == HD_VERB_STOP)
        ;
    else if (step->verb->kind != HD_VERB_TASK)
        run_collective(r, step);
    else if (step->placement != HD_SHARD)
        run_body(r, step, -1);
    else if (step->verb->count_cross_shard_sums)
        run_pooled(r, step);
    else
        for (int64_t s = 0; s < r->graph->shards; s++)
            run_body(r, step, s);
    finish(r, step);
    return over;
}

static bool run_steps(struct hd_reference *r, struct hd_step *steps, int n)
{
    for (int i = 0; i < n; i++)
        if (run_step(r, &steps[i]))
            return true;
    return false;
}

static void keep_starts(struct hd_reference *r)
{
    for (int v = 0; v < r->graph->n_values; v++) {
        struct content *content = &r->contents[v];
        content->start_versions[r->counters[0]] = content->version;
        for (int64_t s = 0; s < instances_of(r, v); s++) {
            void *copy = hd_alloc(spec_of(r, v)->bytes, 1);
            memcpy(copy, content->now[s], (size_t)spec_of(r, v)->bytes);
            content->starts[r->counters[0]][s] = copy;
        }
    }
}

static void init_values(struct hd_reference *r)
{
    struct hd_setup setup = {
        .config = r->graph->config, .shards = r->graph->shards, .seed = r->graph->seed};
    for (int v = 0; v < r->graph->n_values; v++) {
        const struct hd_spec *spec = spec_of(r, v);
        for (int64_t s = 0; s < instances_of(r, v); s++) {
            void *data = r->contents[v].now[s] = hd_alloc(spec->bytes, 1);
            ck_assert_int_eq(hd_value_init(spec, &setup, s, data), HD_OK);
            if (spec->init) {
                int other = hd_graph_find_value(r->graph, spec->init->name);
                memcpy(data, r->contents[other].now[instances_of(r, other) > 1 ? s : 0],
                       (size_t)spec->bytes);
            }
        }
    }
}

struct hd_reference *hd_reference_run(struct hd_graph *graph)
{
    struct hd_reference *r = hd_alloc(1, sizeof *r);
    r->graph = graph;
    r->contents = hd_alloc(graph->n_values, sizeof *r->contents);
    for (int i = 0; i < graph->total_steps; i++)
        r->due[i] = graph->all_steps[i]->first;
    init_values(r);
    bool over = false;
    for (; !over; r->counters[0]++) {
        ck_assert_int_lt(r->counters[0], ITERATIONS_MAX);
        keep_starts(r);
        over = run_steps(r, graph->steps, graph->n_steps);
    }
    return r;
}

void hd_reference_destroy(struct hd_reference *r)
{
    for (int v = 0; v < r->graph->n_values; v++)
        for (int64_t s = 0; s < instances_of(r, v); s++) {
            hd_free(r->contents[v].now[s]);
            for (int64_t i = 0; i < r->counters[0]; i++)
                hd_free(r->contents[v].starts[i][s]);
        }
    hd_free(r->contents);
    hd_free(r);
}

const void *hd_reference_data(const struct hd_reference *r, int value, int64_t shard)
{
    return r->contents[value].now[shard];
}

int64_t hd_reference_version(const struct hd_reference *r, int value)
{
    return r->contents[value].version;
}

int64_t hd_reference_iterations(const struct hd_reference *r)
{
    return r->counters[0];
}

const char *hd_reference_reason(const struct hd_reference *r)
{
    return r->reason;
}
