/* SPDX-License-Identifier: Apache-2.0 */
/* A toy by items that writes no flat value: rows of integers, of which an item has one to itself
 * from stage to stage. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tests/graph/toy.h"

enum { INTS = HD_TOY_INTS };
enum { A, EVERY, FROM, STATE, TO, TALLY };

static const struct hd_port ports[] = {
    [A] = {.name = "a", .mode = HD_READ, .none = true},
    [EVERY] = {.name = "every", .mode = HD_READ, .none = true, .span = HD_SPAN_EVERY},
    [FROM] =
        {.name = "from", .type = "rows", .mode = HD_READ, .optional = true, .span = HD_SPAN_ITEM},
    [STATE] = {.name = "state", .type = "rows", .mode = HD_UPDATE, .span = HD_SPAN_ITEM},
    [TO] = {.name = "to", .type = "rows", .mode = HD_WRITE, .optional = true, .span = HD_SPAN_ITEM},
    [TALLY] = {.name = "tally",
               .type = "ints",
               .mode = HD_UPDATE,
               .optional = true,
               .span = HD_SPAN_LAST},
    {0},
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    static const int stages[] = {1, 2, 3, 5};
    struct hd_pieces *pieces = hd_alloc(1, sizeof *pieces);
    if (!pieces)
        return HD_ERR_NOMEM;
    const uint64_t kind = hd_hash_mix(setup->seed, 6);
    *pieces = (struct hd_pieces){.items = setup->specs[STATE]->leaves,
                                 .stages = stages[kind % 4],
                                 .work_bytes = sizeof(uint64_t),
                                 .finish_last = kind / 4 % 2};
    *args_p = pieces;
    return HD_OK;
}

static void pieces(const void *args, struct hd_pieces *pieces_p)
{
    *pieces_p = *(const struct hd_pieces *)args;
}

static int64_t *row_of(const struct hd_view *view, int64_t leaf)
{
    return view->data ? (int64_t *)view->data + leaf * INTS : NULL;
}

static void stir(int64_t *at, uint64_t with)
{
    *at = (int64_t)(hd_hash_mix((uint64_t)*at, with) % 1000);
}

/* What is written is whole after stage 0, and changed by the others. */
static int weave(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    uint64_t *work = context->work;
    const int64_t *from = row_of(&views[FROM], context->item);
    int64_t *state = row_of(&views[STATE], context->item), *to = row_of(&views[TO], context->item);
    if (context->stage == 0)
        *work = hd_rng_u64(&context->rng, (uint32_t)context->item);
    for (int i = 0; i < INTS && context->stage == 0; i++) {
        *work = hd_hash_mix(*work, (uint64_t)hd_toy_element(&views[A], i));
        if (to)
            to[i] = i;
    }
    for (int i = 0; i < INTS; i++) {
        *work = hd_hash_mix(*work, (uint64_t)hd_toy_element(&views[EVERY], i));
        stir(&state[i], *work + (uint64_t)(from ? from[i] : 0));
        if (to)
            stir(&to[i], *work);
    }
    return HD_OK;
}

static int finish(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t *tally = views[TALLY].data;
    for (int64_t item = 0; item < context->items; item++) {
        const uint64_t *work = context->works[item];
        stir(row_of(&views[STATE], item), *work);
        if (tally)
            stir(&tally[item % INTS], *work);
        if (views[TO].data)
            stir(row_of(&views[TO], item), (uint64_t)*row_of(&views[STATE], item));
    }
    return HD_OK;
}

const struct hd_verb hd_toy_weave = {.name = "weave",
                                     .ports = ports,
                                     .prepare = prepare,
                                     .pieces = pieces,
                                     .body = weave,
                                     .finish = finish};
