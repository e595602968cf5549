/* SPDX-License-Identifier: Apache-2.0 */
/* A toy verb by items that writes no flat value: an item has a row of integers to itself from stage
 * to stage; between stages shards add numbers up. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tests/graph/execute/toy.h"

#include <string.h>

enum { INTS = HD_TOY_INTS };
enum { A, EVERY, FROM, STATE, TO, TALLY };

static const struct hd_port ports[] = {
    [A] = {"a", NULL, .mode = HD_READ, .none = true},
    [EVERY] = {"every", NULL, .mode = HD_READ, .none = true, .scope = HD_SCOPE_ALL},
    [FROM] = {"from", "rows", .mode = HD_READ, .optional = true, .scope = HD_SCOPE_ITEM},
    [STATE] = {"state", "rows", .mode = HD_UPDATE, .scope = HD_SCOPE_ITEM},
    [TO] = {"to", "rows", .mode = HD_WRITE, .optional = true, .scope = HD_SCOPE_ITEM},
    [TALLY] = {"tally", "ints", .mode = HD_UPDATE, .optional = true, .scope = HD_SCOPE_FINISH},
    {0},
};

/* Shards add up over all of them after every other stage but the last, a few numbers or many. */
enum { STAGES_MAX = 5, FEW = 3, MANY = 200 };
struct cut {
    struct hd_subtasks subtasks;
    int64_t sums[STAGES_MAX];
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    static const int stages[] = {1, 2, 3, STAGES_MAX};
    struct cut *cut = hd_alloc(1, sizeof *cut);
    if (!cut)
        return HD_ERR_NOMEM;
    const uint64_t kind = hd_hash_mix(setup->seed, 6);
    const bool cross_shard_sums = setup->specs[STATE]->placement == HD_SHARD && kind / 8 % 3 > 0;
    cut->subtasks = (struct hd_subtasks){.items = setup->specs[STATE]->partials,
                                         .stages = stages[kind % 4],
                                         .work_bytes = sizeof(uint64_t),
                                         .finish_last = kind / 4 % 2};
    for (int stage = 0; stage < cut->subtasks.stages - 1; stage++)
        cut->sums[stage] = !cross_shard_sums || (kind / 16 + (uint64_t)stage) % 3 == 0 ? 0
                           : stage == 1                                                ? MANY
                                                                                       : FEW;
    *args_p = cut;
    return HD_OK;
}

static void get_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    *subtasks_p = ((const struct cut *)args)->subtasks;
}

static int64_t count_cross_shard_sums(const void *args, int stage)
{
    return ((const struct cut *)args)->sums[stage];
}

/* The numbers are fractions, so that the order of addition shows. */
static int leave_numbers(struct hd_context *context, int64_t n, uint64_t work)
{
    if (!context->partial_sums != (n == 0))
        return hd_body_fail(context, "stage %d adds up %lld numbers: %p", context->stage,
                            (long long)n, (void *)context->partial_sums);
    for (int64_t i = 0; i < n; i++)
        context->partial_sums[i] = (double)(hd_hash_mix(work, (uint64_t)i) % 1000003) / 7;
    return HD_OK;
}

static int take_sums(struct hd_context *context, int64_t n, uint64_t *work)
{
    if (!context->cross_shard_sums != (n == 0))
        return hd_body_fail(context, "stage %d takes %lld sums: %p", context->stage, (long long)n,
                            (const void *)context->cross_shard_sums);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &context->cross_shard_sums[i], sizeof bits);
        *work = hd_hash_mix(*work, bits);
    }
    return HD_OK;
}

static int64_t *row_of(const struct hd_view *view, int64_t partial)
{
    return view->data ? (int64_t *)view->data + partial * INTS : NULL;
}

static void stir(int64_t *at, uint64_t with)
{
    *at = (int64_t)(hd_hash_mix((uint64_t)*at, with) % 1000);
}

/* Stage 0 writes the row whole, the later stages change it. */
static int weave(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct cut *cut = args;
    uint64_t *work = context->work;
    const int64_t *from = row_of(&views[FROM], context->item);
    int64_t *state = row_of(&views[STATE], context->item), *to = row_of(&views[TO], context->item);
    if (context->stage == 0)
        *work = hd_rng_draw_u64(&context->rng, (uint32_t)context->item);
    for (int i = 0; i < INTS && context->stage == 0; i++) {
        *work = hd_hash_mix(*work, (uint64_t)hd_toy_element(&views[A], i));
        if (to)
            to[i] = i;
    }
    HD_TRY(take_sums(context, context->stage > 0 ? cut->sums[context->stage - 1] : 0, work));
    for (int i = 0; i < INTS; i++) {
        *work = hd_hash_mix(*work, (uint64_t)hd_toy_element(&views[EVERY], i));
        stir(&state[i], *work + (uint64_t)(from ? from[i] : 0));
        if (to)
            stir(&to[i], *work);
    }
    return leave_numbers(context, cut->sums[context->stage], *work);
}

static int finish(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t *tally = views[TALLY].data;
    for (int64_t item = 0; item < context->items; item++) {
        const uint64_t *work = context->work_buffers[item];
        stir(row_of(&views[STATE], item), *work + (uint64_t)hd_toy_element(&views[EVERY], 1));
        if (tally)
            stir(&tally[item % INTS], *work);
        if (views[TO].data)
            stir(row_of(&views[TO], item), (uint64_t)*row_of(&views[STATE], item));
    }
    return HD_OK;
}

const struct hd_verb hd_toy_weave = {.name = "weave",
                                     .stream_id = 6,
                                     .ports = ports,
                                     .prepare = prepare,
                                     .get_subtasks = get_subtasks,
                                     .count_cross_shard_sums = count_cross_shard_sums,
                                     .body = weave,
                                     .finish = finish};
