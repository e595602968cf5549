/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad of nets with batch norm: gradients and running statistics depend neither on how samples
 * are distributed over shards and microbatches nor on rows that are not used, and combinations that
 * are not supported are refused. */
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/grad.h"
#include "tests/tasks/world.h"

#include <math.h>

enum { OBS = 4, ACTIONS = 2, MOST_SHARDS = 4, MOST_ITEMS = 4, MOST_SUMS = 64 };

static const struct step loss_grad = {&hd_verb_loss_grad, "stats batch_norm_stats", "{loss: bc}"};

/* The learners of all shards. */
struct group {
    int shards;
    int64_t rows, items;
    struct world *world[MOST_SHARDS];
    void *args, *work_buffers[MOST_SHARDS][MOST_ITEMS], *headers[MOST_SHARDS][MOST_ITEMS];
};

static void group_open(struct group *g, int shards, int rows, int micro)
{
    *g = (struct group){.shards = shards, .rows = rows, .items = rows / micro};
    for (int s = 0; s < shards; s++) {
        struct world *w = g->world[s] = world_make(s, shards);
        world_set(w,
                  "policy.type=bc; policy.model.norm=sync_batch_norm; "
                  "policy.learn.batch_size=%d; policy.learn.microbatch=%d",
                  rows, micro);
        world_declare(w, (struct hd_spec){.name = "batch", .type = &hd_type_batch}, NULL);
        world_open(w, &loss_grad, NULL);
        memset(world_get(w, "grad")->data, 0xFF, (size_t)world_get(w, "grad")->spec.bytes);
    }
    g->args = world_prepare(g->world[0], &loss_grad);
}

static void group_close(struct group *g)
{
    world_release(&loss_grad, g->args);
}

static const struct value *get_state(const struct group *g, int s)
{
    return world_get(g->world[s], "batch_norm_stats");
}

/* -- Samples: number n of all is row n % rows of shard n / rows -------------------------------- */

static void set_row(struct group *g, int64_t n, uint64_t stream, int64_t draw)
{
    const struct hd_transitions rows = hd_batch_get_rows(INSTANCE(g->world[n / g->rows], "batch"));
    const int64_t row = n % g->rows;
    struct hd_rng rng = hd_rng_make(3, stream, draw, 0, 0);
    for (int64_t j = 0; j < OBS; j++)
        ((float *)rows.obs)[row * OBS + j] = 3 * (float)hd_rng_draw_uniform(&rng, (uint32_t)j) - 1;
    rows.action[row].choice = (int32_t)hd_rng_draw_below(&rng, 20, ACTIONS);
}

/* The first `used` rows of every shard count. */
static void fill(struct group *g, int64_t used)
{
    for (int s = 0; s < g->shards; s++) {
        const struct hd_batch_use use = hd_batch_get_use(INSTANCE(g->world[s], "batch"));
        *use.used = used;
        for (int64_t b = 0; b < g->rows; b++) {
            use.weight[b] = b < used;
            set_row(g, s * g->rows + b, 1, s * g->rows + b);
        }
    }
}

/* -- What an executor does --------------------------------------------------------------------- */

/* Runs a stage partial by partial of all shards, and adds its cross-shard sums in the tree. */
struct cross_shard_sums {
    double partial[MOST_SHARDS * MOST_ITEMS][MOST_SUMS], sum[MOST_SUMS];
};

static double tree(const struct cross_shard_sums *cross_shard_sums, int64_t i, int64_t lo,
                   int64_t n)
{
    if (n == 1)
        return cross_shard_sums->partial[lo][i];
    double left = tree(cross_shard_sums, i, lo, n / 2);
    return left + tree(cross_shard_sums, i, lo + n / 2, n - n / 2);
}

static void add_up(struct cross_shard_sums *cross_shard_sums, int64_t partials, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        cross_shard_sums->sum[i] = tree(cross_shard_sums, i, 0, partials);
}

/* A task sees only the values that its stage may touch. */
static void view(struct group *g, int s, int stage, int stages, bool finish, struct hd_view *views)
{
    const struct hd_verb *verb = &hd_verb_loss_grad;
    world_view(g->world[s], &loss_grad, 0, views);
    for (int i = 0; verb->ports[i].name; i++) {
        const enum hd_access_scope scope = verb->get_scope(g->args, i);
        int64_t lo = 0, hi = 0;
        if (!views[i].data)
            continue;
        if (!finish)
            verb->stage_range(g->args, stage, &lo, &hi);
        bool sees = scope == HD_SCOPE_ALL || (scope == HD_SCOPE_FINISH && finish);
        sees |= scope == HD_SCOPE_FIRST_STAGE && stage == 0 && !finish;
        sees |= scope == HD_SCOPE_STAGE_RANGE && !finish && (stage == 0 || lo < hi);
        ck_assert_int_eq(lo < hi, !finish && stage == stages - 1);
        if (!sees)
            views[i].data = NULL;
    }
}

static void open_items(struct group *g, const struct hd_subtasks *subtasks)
{
    for (int s = 0; s < g->shards; s++)
        for (int64_t i = 0; i < g->items; i++) {
            g->work_buffers[s][i] = hd_alloc(subtasks->work_bytes, 1);
            memset(g->work_buffers[s][i], 0xFF, (size_t)subtasks->work_bytes);
            g->headers[s][i] = hd_alloc(subtasks->header_bytes, 1);
        }
}

static void finish(struct group *g, struct hd_context *context, int stages)
{
    struct hd_view views[MAX_PORTS];
    for (int s = 0; s < g->shards; s++) {
        context->shard = s;
        context->work_buffers = g->work_buffers[s];
        context->headers = g->headers[s];
        view(g, s, stages - 1, stages, true, views);
        ck_assert_msg(hd_verb_loss_grad.finish(context, views, g->args) == HD_OK, "%s",
                      context->message);
        for (int64_t i = 0; i < g->items; i++)
            hd_free(g->work_buffers[s][i]), hd_free(g->headers[s][i]);
    }
}

static void learn(struct group *g)
{
    static struct cross_shard_sums cross_shard_sums[2];
    const struct hd_verb *verb = &hd_verb_loss_grad;
    struct hd_subtasks subtasks;
    struct hd_view views[MAX_PORTS];
    verb->get_subtasks(g->args, &subtasks);
    ck_assert(subtasks.finish_last && subtasks.items == g->items);
    open_items(g, &subtasks);
    struct hd_context context = world_at(g->world[0], &loss_grad, 0);
    void *scratch = hd_alloc(verb->scratch(g->args), 1);
    context.items = g->items;
    for (context.stage = 0; context.stage < subtasks.stages; context.stage++) {
        struct cross_shard_sums *to = &cross_shard_sums[context.stage % 2],
                                *from = &cross_shard_sums[1 - context.stage % 2];
        const int64_t n = verb->count_cross_shard_sums(g->args, context.stage);
        ck_assert_int_le(n, MOST_SUMS);
        ck_assert_int_eq(n > 0, context.stage + 1 < subtasks.stages);
        for (int s = g->shards - 1; s >= 0; s--)
            for (context.item = 0; context.item < g->items; context.item++) {
                struct hd_context task = context;
                task.shard = s;
                task.scratch = scratch;
                task.work = g->work_buffers[s][context.item];
                task.header = g->headers[s][context.item];
                task.partial_sums = n > 0 ? to->partial[s * g->items + context.item] : NULL;
                task.cross_shard_sums = context.stage > 0 ? from->sum : NULL;
                view(g, s, context.stage, subtasks.stages, false, views);
                ck_assert_int_eq(verb->body(&task, views, g->args), HD_OK);
            }
        add_up(to, g->shards * g->items, n);
    }
    context.scratch = scratch;
    finish(g, &context, subtasks.stages);
    hd_free(scratch);
}

/* Returns the gradient of partial n of all shards, and in *count_p its number of samples. */
static const float *partial(struct group *g, int64_t n, float *count_p)
{
    const struct world *w = g->world[n / g->items];
    *count_p = hd_grad_get_counts(INSTANCE(w, "grad"), n % g->items)[0];
    return hd_grad_get_partial(INSTANCE(w, "grad"), n % g->items);
}

/* -- Tests ------------------------------------------------------------------------------------- */

/* Partials and running statistics of two worlds with equally many partials are bitwise identical.
 */
static void check_same(struct group *a, struct group *b)
{
    const size_t bytes = (size_t)world_get(a->world[0], "policy")->spec.elements * sizeof(float);
    for (int64_t n = 0; n < a->shards * a->items; n++) {
        float counts[2];
        ck_assert_mem_eq(partial(a, n, &counts[0]), partial(b, n, &counts[1]), bytes);
        ck_assert(counts[0] == counts[1]);
    }
    for (int s = 0; s < a->shards; s++)
        ck_assert_uint_eq(value_hash(get_state(a, s)), value_hash(get_state(b, 0)));
    for (int s = 0; s < b->shards; s++)
        ck_assert_uint_eq(value_hash(get_state(b, s)), value_hash(get_state(b, 0)));
}

TEST(samples_may_be_distributed_over_shards_and_microbatches, .runs = 3)
{
    static const int shards[] = {1, 2, 4};
    struct group one, other;
    group_open(&one, 1, 20, 5);
    group_open(&other, shards[_i], 20 / shards[_i], 5);
    for (int update = 0; update < 3; update++) {
        fill(&one, 20);
        fill(&other, 20 / shards[_i]);
        learn(&one);
        learn(&other);
        check_same(&one, &other);
    }
    ck_assert_int_eq(*hd_batch_norm_stats_get_batches(get_state(&one, 0)->data), 3);
    value_save_load(world_get(one.world[0], "batch_norm_stats"));
    group_close(&other);
    group_close(&one);
}

/* One shard with 2 B samples equals two with B up to rounding; statistics of each shard alone would
 * differ. */
TEST(two_shards_are_one_of_twice_the_batch)
{
    struct group one, two;
    group_open(&one, 1, 24, 24);
    group_open(&two, 2, 12, 12);
    fill(&one, 24);
    fill(&two, 12);
    learn(&one);
    learn(&two);
    float count;
    const float *sum = partial(&one, 0, &count), *a = partial(&two, 0, &count),
                *b = partial(&two, 1, &count);
    double off = 0, norm = 0;
    for (int64_t j = 0; j < world_get(one.world[0], "policy")->spec.elements; j++) {
        off += pow((double)a[j] + (double)b[j] - (double)sum[j], 2);
        norm += pow((double)sum[j], 2);
    }
    ck_assert_msg(sqrt(off / norm) < 2e-6, "off by %.1e", sqrt(off / norm));
    group_close(&two);
    group_open(&two, 1, 12, 12);
    fill(&two, 12);
    learn(&two);
    ck_assert_uint_ne(value_hash(get_state(&two, 0)), value_hash(get_state(&one, 0)));
    group_close(&two);
    group_close(&one);
}

/* Two microbatches of 6 rows on each of two shards: the second one is short, or has none. */
TEST(rows_that_are_not_used_change_nothing, .runs = 13)
{
    struct group a, b;
    group_open(&a, 2, 12, 6);
    group_open(&b, 2, 12, 6);
    fill(&a, _i);
    fill(&b, _i);
    for (int s = 0; s < 2; s++)
        for (int64_t row = _i; row < 12; row++)
            set_row(&b, s * 12 + row, 2, row);
    learn(&a);
    learn(&b);
    check_same(&a, &b);
    ck_assert_int_eq(*hd_batch_norm_stats_get_batches(get_state(&a, 1)->data), _i > 0);
    for (int64_t n = 0; n < 4; n++) {
        float count;
        const float *floats = partial(&a, n, &count);
        const int64_t left = _i - n % 2 * 6, rows = left < 0 ? 0 : left < 6 ? left : 6;
        double norm = 0;
        for (int64_t j = 0; j < world_get(a.world[0], "policy")->spec.elements; j++)
            norm += fabs((double)floats[j]);
        ck_assert(count == (float)rows);
        ck_assert_msg((norm > 0) == (rows > 0), "norm %g of %lld rows", norm, (long long)rows);
    }
    if (_i == 0)
        ck_assert(hd_batch_norm_stats_get_running(get_state(&a, 0)->data)[0] == 0);
    group_close(&b);
    group_close(&a);
}

/* One sample is on one shard and none on the other: PyTorch refuses such a batch. */
TEST(a_single_sample_is_no_accident)
{
    struct group w;
    group_open(&w, 2, 4, 4);
    fill(&w, 1);
    *hd_batch_get_use(INSTANCE(w.world[1], "batch")).used = 0;
    const uint64_t before = value_hash(get_state(&w, 0));
    learn(&w);
    for (int64_t n = 0; n < 2; n++) {
        float count;
        const float *floats = partial(&w, n, &count);
        for (int64_t j = 0; j < world_get(w.world[0], "policy")->spec.elements; j++)
            ck_assert(isfinite(floats[j]));
    }
    ck_assert_uint_eq(value_hash(get_state(&w, 0)), before);
    ck_assert_uint_eq(value_hash(get_state(&w, 1)), before);
    group_close(&w);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

TEST(nets_that_a_verb_cannot_train_are_refused)
{
    static const struct step steps[] = {
        {&hd_verb_loss_grad, "stats", "{loss: bc}"},
        {&hd_verb_loss_grad, "target stats batch_norm_stats", "{loss: dqn}"}};
    static const char *const types[] = {"bc", "dqn"}, *const names[] = {"batch_norm_stats", "dqn"};
    for (int i = 0; i < 2; i++) {
        struct world *w = world_make(0, 2);
        world_set(w, "policy.type=%s; policy.model.norm=sync_batch_norm", types[i]);
        world_declare(w, (struct hd_spec){.name = "batch", .type = &hd_type_batch}, NULL);
        world_open(w, &steps[i], NULL);
        check_names(world_mistake(w, &steps[i]), names[i]);
        ck_assert_int_eq(hd_diag_count(w->setup.diag), 1);
    }
}
