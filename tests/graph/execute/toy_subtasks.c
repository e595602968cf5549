/* SPDX-License-Identifier: Apache-2.0 */
/* Toy verbs in subtasks: partials written by items and stages, a use of their mean in slices, and a
 * body of several calls. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/toy.h"
#include "tests/graph/execute/toy_gpu.h"

#include <string.h>

enum { INTS = HD_TOY_INTS, FLOATS = HD_TOY_FLOATS };

/* -- Type sums: partials of floats and a weight per bucket ------------------------------------- */

static int64_t padded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t partial_bytes(const struct hd_spec *spec)
{
    return padded(FLOATS * (int64_t)sizeof(float)) + padded(spec->buckets * (int64_t)sizeof(float));
}

static float *partial_floats(const struct hd_spec *spec, const void *data, int64_t partial)
{
    return (float *)((char *)data + partial * partial_bytes(spec));
}

static float *partial_weights(const struct hd_spec *spec, const void *data, int64_t partial)
{
    return (float *)((char *)partial_floats(spec, data, partial) +
                     padded(FLOATS * (int64_t)sizeof(float)));
}

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->elements = FLOATS;
    spec->buckets = spec->bucket_mb > 0 ? (int)spec->bucket_mb : 1;
    spec->partials = spec->placement == HD_SHARD
                         ? 1 + (int64_t)((hd_hash_text(spec->name) + setup->seed) % 3)
                         : 1;
    spec->bytes = spec->partials * partial_bytes(spec);
    return HD_OK;
}

static int init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard, void *data)
{
    uint64_t name = hd_hash_text(spec->name) + setup->seed;
    for (int64_t partial = 0; partial < spec->partials; partial++) {
        for (int i = 0; i < FLOATS; i++)
            partial_floats(spec, data, partial)[i] =
                (float)(hd_hash_mix(name, (uint64_t)((shard * 8 + partial) * FLOATS + i)) % 1000) *
                0.001f;
        for (int bucket = 0; bucket < spec->buckets; bucket++)
            partial_weights(spec, data, partial)[bucket] = (float)(1 + partial);
    }
    return HD_OK;
}

static int64_t vector_bytes(const struct hd_spec *spec, int bucket)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return (hi - lo + 1) * (int64_t)sizeof(float);
}

/* Adds partials [first, first + n) element by element, in other code than the runtime's. */
static float add_partials(const float *partial, int64_t stride, int64_t n)
{
    if (n == 1)
        return *partial;
    float left = add_partials(partial, stride, n / 2);
    return left + add_partials(partial + n / 2 * stride, stride, n - n / 2);
}

static void pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    int64_t lo, hi, stride = partial_bytes(spec) / (int64_t)sizeof(float);
    float *sum = vector;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        sum[i - lo] = add_partials(partial_floats(spec, data, 0) + i, stride, spec->partials);
    sum[hi - lo] = add_partials(partial_weights(spec, data, 0) + bucket, stride, spec->partials);
}

static void combine(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                    const void *other)
{
    (void)how;
    for (int64_t i = 0; i < vector_bytes(spec, bucket) / (int64_t)sizeof(float); i++)
        ((float *)into)[i] += ((const float *)other)[i];
}

static void unpack(const struct hd_spec *spec, int bucket, enum hd_combine how, const void *vector,
                   void *data)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    const float *sum = vector;
    const float divisor = how == HD_MEAN && sum[hi - lo] > 0 ? sum[hi - lo] : 1;
    for (int64_t i = lo; i < hi; i++)
        partial_floats(spec, data, 0)[i] = sum[i - lo] / divisor;
    partial_weights(spec, data, 0)[bucket] = sum[hi - lo];
}

static float weight(const struct hd_spec *spec, int bucket, const void *data, int64_t partial)
{
    return partial_weights(spec, data, partial)[bucket];
}

/* The value has one partial. */
static int64_t get_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi, int i,
                              int64_t *at_p)
{
    const char *start = NULL;
    const float *at =
        i == 0 ? partial_floats(spec, start, 0) + lo : partial_weights(spec, start, 0) + bucket;
    *at_p = (const char *)at - start;
    return i == 0 ? (hi - lo) * (int64_t)sizeof(float) : i == 1 ? (int64_t)sizeof(float) : -1;
}

static float *weight_of(const struct hd_spec *spec, int bucket, void *data)
{
    return partial_weights(spec, data, 0) + bucket;
}

static const struct hd_reduction reduction = {
    .bytes = vector_bytes,
    .pack = pack,
    .combine = combine,
    .unpack = unpack,
    .hows = 1 << HD_SUM | 1 << HD_MEAN,
    .count = weight_of,
#if HD_CUDA
    .reduce_on_gpu = hd_toy_reduce,
    .add_on_gpu = hd_toy_add,
#endif
};

const struct hd_type hd_toy_sums = {.name = "sums",
                                    .flat = true,
                                    .resolve = resolve,
                                    .init = init,
                                    .get_byte_range = get_byte_range,
                                    .reduction = &reduction,
                                    .weight = weight};

/* -- Type residual: what the rounding of sums took --------------------------------------------- */

static int resolve_residual(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->elements = FLOATS;
    spec->buckets = spec->bucket_mb > 0 ? (int)spec->bucket_mb : 1;
    spec->bytes = padded(FLOATS * (int64_t)sizeof(float));
    return HD_OK;
}

const struct hd_type hd_toy_residual = {
    .name = "residual", .flat = true, .used_by_updates = true, .resolve = resolve_residual};

/* -- Verb spread ------------------------------------------------------------------------------- */

enum { A, B, TO, TALLY };

static const struct hd_port spread_ports[] = {
    [A] = {"a", NULL, .mode = HD_READ, .none = true},
    [B] = {"b", NULL, .mode = HD_READ, .none = true, .scope = HD_SCOPE_STAGE_RANGE},
    [TO] = {"to", "sums", .mode = HD_WRITE},
    [TALLY] = {"tally", "ints", .mode = HD_UPDATE, .optional = true, .scope = HD_SCOPE_FINISH},
    {0},
};

/* A graph's `spread` is cut in one stage; in a forward stage and two of backward that meet in the
 * middle of a bucket; or in these with a stage between them that writes nothing. */
struct cut {
    struct hd_subtasks subtasks;
    bool forward;
    int64_t middle;
};

struct work {
    uint64_t header; /* stage 0's, read by a finish after it */
    uint64_t state;  /* every stage's, read by a finish after all */
};

static int prepare_spread(const struct hd_setup *setup, void **args_p)
{
    static const int stages[] = {1, 3, 4, 2};
    struct cut *cut = hd_alloc(1, sizeof *cut);
    if (!cut)
        return HD_ERR_NOMEM;
    uint64_t kind = hd_hash_mix(setup->seed, 5);
    cut->subtasks = (struct hd_subtasks){.items = setup->specs[TO]->partials,
                                         .stages = stages[kind % 4],
                                         .work_bytes = sizeof(struct work),
                                         .finish_last = kind % 3 == 0};
    cut->middle = (int64_t)(kind / 4 % FLOATS);
    *args_p = cut;
    return HD_OK;
}

static void get_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    *subtasks_p = ((const struct cut *)args)->subtasks;
}

static void stage_range(const void *args, int stage, int64_t *lo_p, int64_t *hi_p)
{
    const struct cut *cut = args;
    const int stages = cut->subtasks.stages;
    *lo_p = stage == stages - 1 && stage > 0 && stages != 2 ? cut->middle : 0;
    *hi_p = stage == stages - 1 ? FLOATS : stage == 1 ? cut->middle : 0;
    if (stage == 2 && stages == 4)
        *lo_p = *hi_p = cut->middle;
}

/* Every other partial has nothing to contribute: zeros of weight 0. */
static void write_range(struct hd_context *context, const struct hd_view *views, int64_t lo,
                        int64_t hi)
{
    const struct hd_view *to = &views[TO], *b = &views[B];
    const struct work *work = context->work;
    const bool empty = work->header % 2;
    float *floats = partial_floats(to->spec, to->data, context->item);
    for (int64_t i = lo; i < hi; i++) {
        float other = b->spec->type->flat ? ((const float *)b->data)[i] : 0.5f;
        floats[i] =
            empty ? 0 : (float)(hd_hash_mix(work->state, (uint64_t)i) % 997) * 0.01f + other;
    }
    for (int bucket = 0; bucket < to->spec->buckets; bucket++) {
        int64_t bucket_lo, bucket_hi;
        hd_spec_get_bucket(to->spec, bucket, &bucket_lo, &bucket_hi);
        if (bucket_lo >= lo && (bucket_lo < hi || hi == FLOATS)) /* the last may be empty */
            partial_weights(to->spec, to->data, context->item)[bucket] =
                empty ? 0 : (float)(1 + (work->state + (uint64_t)bucket) % 5);
    }
}

static int spread(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct cut *cut = args;
    struct work *work = context->work;
    int64_t lo, hi;
    if (context->stage == 0) {
        work->header = hd_rng_draw_u64(&context->rng, (uint32_t)context->item);
        for (int i = 0; i < INTS; i++)
            work->header = hd_hash_mix(work->header, (uint64_t)(hd_toy_element(&views[A], i) +
                                                                3 * hd_toy_element(&views[B], i)));
        work->state = work->header;
    }
    work->state = hd_hash_mix(work->state, (uint64_t)context->stage);
    if (cut->subtasks.stages == 1) {
        write_range(context, views, 0, FLOATS);
        return HD_OK;
    }
    stage_range(args, context->stage, &lo, &hi);
    if (lo < hi)
        write_range(context, views, lo, hi);
    return HD_OK;
}

static int finish_spread(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct cut *cut = args;
    int64_t *tally = views[TALLY].data;
    for (int64_t item = 0; tally && item < context->items; item++) {
        const struct work *work = context->work_buffers[item];
        int64_t *at = &tally[item % INTS];
        /* By address, so that no compiler reads both: the state may be under way. */
        const uint64_t *seen = cut->subtasks.finish_last ? &work->state : &work->header;
        *at = (int64_t)(hd_hash_mix((uint64_t)*at, *seen) % 1000);
    }
    return HD_OK;
}

const struct hd_verb hd_toy_spread = {.name = "spread",
                                      .stream_id = 7,
                                      .ports = spread_ports,
                                      .prepare = prepare_spread,
                                      .get_subtasks = get_subtasks,
                                      .stage_range = stage_range,
                                      .body = spread,
                                      .finish = finish_spread};

/* -- Verb fill: a spread in one task, on a GPU if there are any -------------------------------- */

static const struct hd_port fill_ports[] = {
    [A] = {"a", NULL, .mode = HD_READ, .none = true},
    [B] = {"b", NULL, .mode = HD_READ, .none = true},
    [TO] = {"to", "sums", .mode = HD_WRITE},
    {0},
};

static int fill(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    for (context->item = 0; context->item < views[TO].spec->partials; context->item++) {
        struct work work = {.header = hd_rng_draw_u64(&context->rng, (uint32_t)context->item)};
        for (int i = 0; i < INTS; i++)
            work.header = hd_hash_mix(work.header, (uint64_t)hd_toy_element(&views[A], i));
        work.state = work.header;
        context->work = &work;
        write_range(context, views, 0, FLOATS);
    }
    return HD_OK;
}

#if HD_CUDA
static int fill_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    return hd_toy_queue(context, views, args, fill_ports, false, fill);
}

static const struct hd_gpu_verb gpu_fill = {.body = fill_on_gpu};
#endif

const struct hd_verb hd_toy_fill = {
    .name = "fill", .stream_id = 8, .ports = fill_ports, .body = fill, .gpu = HD_ON_GPU(gpu_fill)};

/* -- Verb apply -------------------------------------------------------------------------------- */

enum { MEAN, CHANGED, STATE, HINT };

static const struct hd_port apply_ports[] = {
    [MEAN] = {"mean", "sums", .mode = HD_READ},
    [CHANGED] = {"to", "floats", .mode = HD_UPDATE},
    [STATE] = {"state", "floats", .mode = HD_UPDATE},
    [HINT] = {"hint", "ints", .mode = HD_READ, .optional = true},
    {0},
};

static void apply_range(const struct hd_view *views, int64_t lo, int64_t hi, const float *sum,
                        float count)
{
    float *to = views[CHANGED].data, *state = views[STATE].data;
    float hint = views[HINT].data ? (float)hd_toy_element(&views[HINT], 2) * 1e-4f : 0;
    for (int64_t i = lo; i < hi; i++) {
        float mean = sum[i - lo] / (count > 0 ? count : 1);
        state[i] = 0.5f * state[i] + mean;
        to[i] = 0.75f * to[i] + 0.25f * state[i] + hint;
    }
}

static int apply(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    int64_t lo, hi;
    hd_spec_get_bucket(views[CHANGED].spec, views[CHANGED].bucket, &lo, &hi);
    apply_range(views, lo, hi, partial_floats(views[MEAN].spec, views[MEAN].data, 0) + lo, 1);
    return HD_OK;
}

static int apply_slice(struct hd_context *context, const struct hd_view *views, const void *args,
                       int64_t lo, int64_t hi, const float *sum, float count)
{
    (void)args;
    if (views[MEAN].data || (lo % HD_BLOCK != 0 && lo < hi))
        return hd_body_fail(context, "not a slice");
    apply_range(views, lo, hi, sum, count);
    return HD_OK;
}

#if HD_CUDA
static int apply_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    return hd_toy_queue(context, views, args, apply_ports, true, apply);
}

static const struct hd_gpu_verb gpu_apply = {.body = apply_on_gpu};
#endif

const struct hd_verb hd_toy_apply = {.name = "apply",
                                     .stream_id = 9,
                                     .ports = apply_ports,
                                     .by_bucket = true,
                                     .body = apply,
                                     .update_slice = apply_slice,
                                     .gpu = HD_ON_GPU(gpu_apply)};

/* -- Verb creep -------------------------------------------------------------------------------- */

static const struct hd_port creep_ports[] = {
    {"a", NULL, .mode = HD_READ, .none = true},
    {"to", "ints", .mode = HD_UPDATE},
    {0},
};

/* Does one element a call; the last element counts the calls. */
static int creep(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t *to = views[1].data, *at = &to[INTS - 1];
    if (!context->again)
        *at = 0;
    else if (*at == 0)
        return hd_body_fail(context, "called again before the first call");
    uint64_t mixed = hd_hash_mix((uint64_t)to[*at] + hd_rng_draw_u64(&context->rng, (uint32_t)*at),
                                 (uint64_t)hd_toy_element(&views[0], (int)*at));
    to[*at] = (int64_t)(mixed % 1000);
    return ++*at < INTS - 1 ? HD_AGAIN : HD_OK;
}

static void get_creep_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    (void)args;
    *subtasks_p = (struct hd_subtasks){.items = 1, .stages = 1};
}

#if HD_CUDA
static void get_creep_subtasks_on_gpu(const void *args, struct hd_subtasks *subtasks_p)
{
    get_creep_subtasks(args, subtasks_p);
    subtasks_p->header_bytes = sizeof(bool);
}

/* Leaves in the header whether there are more elements. */
static int creep_there(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const int status = creep(context, views, args);
    *(bool *)context->header = status == HD_AGAIN;
    return status == HD_AGAIN ? HD_OK : status;
}

static int creep_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    return hd_toy_queue(context, views, args, creep_ports, false, creep_there);
}

static bool creeps_on(const struct hd_context *context, const void *args)
{
    (void)args;
    return *(const bool *)context->header;
}

static const struct hd_gpu_verb gpu_creep = {
    .body = creep_on_gpu, .get_subtasks = get_creep_subtasks_on_gpu, .again = creeps_on};
#endif

const struct hd_verb hd_toy_creep = {.name = "creep",
                                     .stream_id = 10,
                                     .ports = creep_ports,
                                     .get_subtasks = get_creep_subtasks,
                                     .body = creep,
                                     .gpu = HD_ON_GPU(gpu_creep)};
