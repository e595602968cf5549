/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad of nets with batch norm: gradients and running statistics depend neither on how samples
 * are distributed over shards and microbatches nor on rows that are not used, and combinations that
 * are not supported are refused. */
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/values.h"

#include <math.h>
#include <stdlib.h>

enum { POLICY, TARGET, BATCH, STATS, GRAD, OBS_NORM, BATCH_NORM_STATS, N_VALUES };
enum { OBS = 4, ACTIONS = 2, MOST_SHARDS = 4, MOST_ITEMS = 4, MOST_SUMS = 64 };

/* The learner of one shard. */
struct shard {
    struct value batch, stats, grad, state, *ports[MAX_PORTS];
    void *work_buffers[MOST_ITEMS], *headers[MOST_ITEMS];
};

struct world {
    struct hd_setup setup;
    struct hd_document *document;
    struct value policy;
    int shards;
    int64_t rows, micro, items;
    struct shard shard[MOST_SHARDS];
    void *args;
};

static void open_of(struct world *w, struct value *value, const struct hd_type *type,
                    enum hd_placement placement)
{
    *value = (struct value){.spec = {.name = type->name,
                                     .type = type,
                                     .placement = placement,
                                     .of = &w->policy.spec,
                                     .location = w->setup.location,
                                     .buckets = 1,
                                     .partials = 1}};
    ck_assert_int_eq(type->resolve(&value->spec, &w->setup), HD_OK);
    value_init(value, &w->setup, 0);
}

static void open_shard(struct world *w, struct shard *s)
{
    struct hd_spec *specs[MAX_PORTS];
    memset(s, 0, sizeof *s);
    value_open(&s->batch, &w->setup, &hd_type_batch, "batch", NULL);
    open_of(w, &s->grad, &hd_type_grad, HD_SHARD);
    open_of(w, &s->state, &hd_type_batch_norm_stats, HD_SHARD);
    s->stats = (struct value){.spec = {.name = "stats", .type = &hd_type_scalars}};
    s->ports[POLICY] = &w->policy;
    s->ports[BATCH] = &s->batch;
    s->ports[STATS] = &s->stats;
    s->ports[GRAD] = &s->grad;
    s->ports[BATCH_NORM_STATS] = &s->state;
    struct hd_setup step = step_setup(&hd_verb_loss_grad, &w->setup, s->ports, specs);
    ck_assert_int_eq(hd_verb_loss_grad.declare(&step), HD_OK);
    value_init(&s->stats, &w->setup, 0);
    memset(s->grad.data, 0xFF, (size_t)s->grad.spec.bytes);
}

static struct hd_node *loss_option(struct hd_document *document, const char *loss)
{
    const struct hd_source_location location = {"graph.yaml", 1, 1};
    struct hd_node *map = hd_node_create_map(document, location);
    hd_node_put(document, map, "loss", hd_node_create_scalar(document, location, loss));
    return map;
}

static void world_open(struct world *w, int shards, int64_t rows, int64_t micro)
{
    char batch[64], microbatch[64];
    snprintf(batch, sizeof batch, "policy.learn.batch_size=%lld", (long long)rows);
    snprintf(microbatch, sizeof microbatch, "policy.learn.microbatch=%lld", (long long)micro);
    const char *const sets[] = {"policy.type=bc", "policy.model.norm=sync_batch_norm", batch,
                                microbatch};
    *w = (struct world){
        .setup = setup_open(sets, 4), .shards = shards, .rows = rows, .micro = micro};
    w->items = rows / micro;
    w->setup.shards = shards;
    ck_assert_int_eq(hd_document_create(&w->document), HD_OK);
    w->setup.options = loss_option(w->document, "bc");
    value_resolve_at(&w->policy, &w->setup, &hd_type_params, "policy", NULL, HD_GLOBAL);
    value_init(&w->policy, &w->setup, 0);
    for (int s = 0; s < shards; s++)
        open_shard(w, &w->shard[s]);
    w->args = prepare(&hd_verb_loss_grad, &w->setup, w->shard[0].ports);
}

static void world_close(struct world *w)
{
    unprepare(&hd_verb_loss_grad, w->args);
    for (int s = 0; s < w->shards; s++) {
        value_close(&w->shard[s].state);
        value_close(&w->shard[s].stats);
        value_close(&w->shard[s].grad);
        value_close(&w->shard[s].batch);
    }
    value_close(&w->policy);
    hd_document_destroy(w->document);
    setup_close(&w->setup);
}

/* -- Samples: number n of all is row n % rows of shard n / rows -------------------------------- */

static struct hd_transitions rows_of(struct world *w, int s)
{
    return hd_batch_get_rows(&w->shard[s].batch.spec, w->shard[s].batch.data);
}

static void set_row(struct world *w, int64_t n, uint64_t stream, int64_t draw)
{
    const struct hd_transitions rows = rows_of(w, (int)(n / w->rows));
    const int64_t row = n % w->rows;
    struct hd_rng rng = hd_rng_make(3, stream, draw, 0, 0);
    for (int64_t j = 0; j < OBS; j++)
        ((float *)rows.obs)[row * OBS + j] = 3 * (float)hd_rng_draw_uniform(&rng, (uint32_t)j) - 1;
    rows.action[row].choice = (int32_t)hd_rng_draw_below(&rng, 20, ACTIONS);
}

/* The first `used` rows of every shard count. */
static void fill(struct world *w, int64_t used)
{
    for (int s = 0; s < w->shards; s++) {
        const struct hd_batch_use use =
            hd_batch_get_use(&w->shard[s].batch.spec, w->shard[s].batch.data);
        *use.used = used;
        for (int64_t b = 0; b < w->rows; b++) {
            use.weight[b] = b < used;
            set_row(w, s * w->rows + b, 1, s * w->rows + b);
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
static void views_of(struct world *w, int s, int stage, int stages, bool finish,
                     struct hd_view *views)
{
    const struct hd_verb *verb = &hd_verb_loss_grad;
    memset(views, 0, MAX_PORTS * sizeof *views);
    for (int i = 0; i < count_ports(verb); i++) {
        const struct value *value = w->shard[s].ports[i];
        const enum hd_access_scope scope = verb->get_scope(w->args, i);
        int64_t lo = 0, hi = 0;
        if (!value)
            continue;
        if (!finish)
            verb->stage_range(w->args, stage, &lo, &hi);
        bool sees = scope == HD_SCOPE_ALL || (scope == HD_SCOPE_FINISH && finish);
        sees |= scope == HD_SCOPE_FIRST_STAGE && stage == 0 && !finish;
        sees |= scope == HD_SCOPE_STAGE_RANGE && !finish && (stage == 0 || lo < hi);
        ck_assert_int_eq(lo < hi, !finish && stage == stages - 1);
        views[i] = (struct hd_view){.data = sees ? value->data : NULL, .spec = &value->spec};
    }
}

static void learn(struct world *w)
{
    static struct cross_shard_sums cross_shard_sums[2];
    const struct hd_verb *verb = &hd_verb_loss_grad;
    char message[HD_MESSAGE_BYTES] = "";
    struct hd_subtasks subtasks;
    struct hd_view views[MAX_PORTS];
    verb->get_subtasks(w->args, &subtasks);
    ck_assert(subtasks.finish_last && subtasks.items == w->items);
    struct hd_context context = at(&w->setup, 0, 0);
    context.scratch = hd_alloc(verb->scratch ? verb->scratch(w->args) : 0, 1);
    context.message = message;
    context.items = w->items;
    for (context.stage = 0; context.stage < subtasks.stages; context.stage++) {
        struct cross_shard_sums *to = &cross_shard_sums[context.stage % 2],
                                *from = &cross_shard_sums[1 - context.stage % 2];
        const int64_t n = verb->count_cross_shard_sums(w->args, context.stage);
        ck_assert_int_le(n, MOST_SUMS);
        ck_assert_int_eq(n > 0, context.stage + 1 < subtasks.stages);
        for (int s = w->shards - 1; s >= 0; s--)
            for (context.item = 0; context.item < w->items; context.item++) {
                struct shard *shard = &w->shard[s];
                if (context.stage == 0)
                    shard->work_buffers[context.item] = hd_alloc(subtasks.work_bytes, 1);
                if (context.stage == 0)
                    memset(shard->work_buffers[context.item], 0xFF, (size_t)subtasks.work_bytes);
                if (context.stage == 0)
                    shard->headers[context.item] = hd_alloc(subtasks.header_bytes, 1);
                context.shard = s;
                context.work = shard->work_buffers[context.item];
                context.header = shard->headers[context.item];
                context.partial_sums = n > 0 ? to->partial[s * w->items + context.item] : NULL;
                context.cross_shard_sums = context.stage > 0 ? from->sum : NULL;
                views_of(w, s, context.stage, subtasks.stages, false, views);
                ck_assert_int_eq(verb->body(&context, views, w->args), HD_OK);
            }
        add_up(to, w->shards * w->items, n);
    }
    context.work = context.header = NULL;
    context.partial_sums = NULL;
    context.cross_shard_sums = NULL;
    for (int s = 0; s < w->shards; s++) {
        context.shard = s;
        context.work_buffers = w->shard[s].work_buffers;
        context.headers = w->shard[s].headers;
        views_of(w, s, subtasks.stages - 1, subtasks.stages, true, views);
        ck_assert_msg(verb->finish(&context, views, w->args) == HD_OK, "%s", message);
        for (int64_t i = 0; i < w->items; i++)
            hd_free(w->shard[s].work_buffers[i]), hd_free(w->shard[s].headers[i]);
    }
    hd_free(context.scratch);
}

/* Returns the gradient of partial n of all shards, and in *count_p its number of samples. */
static const float *partial(struct world *w, int64_t n, float *count_p)
{
    struct value *grad = &w->shard[n / w->items].grad;
    *count_p = hd_grad_get_counts(&grad->spec, grad->data, n % w->items)[0];
    return hd_grad_get_partial(&grad->spec, grad->data, n % w->items);
}

/* -- Tests ------------------------------------------------------------------------------------- */

/* Partials and running statistics of two worlds with equally many partials are bitwise identical.
 */
static void check_same(struct world *a, struct world *b)
{
    const size_t bytes = (size_t)a->policy.spec.elements * sizeof(float);
    for (int64_t n = 0; n < a->shards * a->items; n++) {
        float counts[2];
        ck_assert_mem_eq(partial(a, n, &counts[0]), partial(b, n, &counts[1]), bytes);
        ck_assert(counts[0] == counts[1]);
    }
    for (int s = 0; s < a->shards; s++)
        ck_assert_uint_eq(value_hash(&a->shard[s].state), value_hash(&b->shard[0].state));
    for (int s = 0; s < b->shards; s++)
        ck_assert_uint_eq(value_hash(&b->shard[s].state), value_hash(&b->shard[0].state));
}

TEST(samples_may_be_distributed_over_shards_and_microbatches, .runs = 3)
{
    static const int shards[] = {1, 2, 4};
    struct world one, other;
    world_open(&one, 1, 20, 5);
    world_open(&other, shards[_i], 20 / shards[_i], 5);
    for (int update = 0; update < 3; update++) {
        fill(&one, 20);
        fill(&other, 20 / shards[_i]);
        learn(&one);
        learn(&other);
        check_same(&one, &other);
    }
    ck_assert_int_eq(*hd_batch_norm_stats_get_batches(one.shard[0].state.data), 3);
    value_save_load(&one.shard[0].state);
    world_close(&other);
    world_close(&one);
}

/* One shard with 2 B samples equals two with B up to rounding; statistics of each shard alone would
 * differ. */
TEST(two_shards_are_one_of_twice_the_batch)
{
    struct world one, two;
    world_open(&one, 1, 24, 24);
    world_open(&two, 2, 12, 12);
    fill(&one, 24);
    fill(&two, 12);
    learn(&one);
    learn(&two);
    float count;
    const float *sum = partial(&one, 0, &count), *a = partial(&two, 0, &count),
                *b = partial(&two, 1, &count);
    double off = 0, norm = 0;
    for (int64_t j = 0; j < one.policy.spec.elements; j++) {
        off += pow((double)a[j] + (double)b[j] - (double)sum[j], 2);
        norm += pow((double)sum[j], 2);
    }
    ck_assert_msg(sqrt(off / norm) < 2e-6, "off by %.1e", sqrt(off / norm));
    world_close(&two);
    world_open(&two, 1, 12, 12);
    fill(&two, 12);
    learn(&two);
    ck_assert_uint_ne(value_hash(&two.shard[0].state), value_hash(&one.shard[0].state));
    world_close(&two);
    world_close(&one);
}

/* Two microbatches of 6 rows on each of two shards: the second one is short, or has none. */
TEST(rows_that_are_not_used_change_nothing, .runs = 13)
{
    struct world a, b;
    world_open(&a, 2, 12, 6);
    world_open(&b, 2, 12, 6);
    fill(&a, _i);
    fill(&b, _i);
    for (int s = 0; s < 2; s++)
        for (int64_t row = _i; row < 12; row++)
            set_row(&b, s * 12 + row, 2, row);
    learn(&a);
    learn(&b);
    check_same(&a, &b);
    ck_assert_int_eq(*hd_batch_norm_stats_get_batches(a.shard[1].state.data), _i > 0);
    for (int64_t n = 0; n < 4; n++) {
        float count;
        const float *floats = partial(&a, n, &count);
        const int64_t left = _i - n % 2 * 6, rows = left < 0 ? 0 : left < 6 ? left : 6;
        double norm = 0;
        for (int64_t j = 0; j < a.policy.spec.elements; j++)
            norm += fabs((double)floats[j]);
        ck_assert(count == (float)rows);
        ck_assert_msg((norm > 0) == (rows > 0), "norm %g of %lld rows", norm, (long long)rows);
    }
    if (_i == 0)
        ck_assert(hd_batch_norm_stats_get_running(a.shard[0].state.data)[0] == 0);
    world_close(&b);
    world_close(&a);
}

/* One sample is on one shard and none on the other: PyTorch refuses such a batch. */
TEST(a_single_sample_is_no_accident)
{
    struct world w;
    world_open(&w, 2, 4, 4);
    fill(&w, 1);
    *hd_batch_get_use(&w.shard[1].batch.spec, w.shard[1].batch.data).used = 0;
    const uint64_t before = value_hash(&w.shard[0].state);
    learn(&w);
    for (int64_t n = 0; n < 2; n++) {
        float count;
        const float *floats = partial(&w, n, &count);
        for (int64_t j = 0; j < w.policy.spec.elements; j++)
            ck_assert(isfinite(floats[j]));
    }
    ck_assert_uint_eq(value_hash(&w.shard[0].state), before);
    ck_assert_uint_eq(value_hash(&w.shard[1].state), before);
    world_close(&w);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

static void refused(const char *const *sets, int n, const char *loss, const char *words)
{
    struct world w = {.setup = setup_open(sets, n)};
    struct hd_spec *specs[MAX_PORTS];
    struct value target;
    void *args = NULL;
    ck_assert_int_eq(hd_document_create(&w.document), HD_OK);
    w.setup.options = loss_option(w.document, loss);
    value_resolve_at(&w.policy, &w.setup, &hd_type_params, "policy", NULL, HD_GLOBAL);
    value_resolve_at(&target, &w.setup, &hd_type_params, "target", NULL, HD_GLOBAL);
    struct shard *s = &w.shard[0];
    open_shard(&w, s);
    s->ports[TARGET] = strcmp(loss, "dqn") == 0 ? &target : NULL;
    s->ports[BATCH_NORM_STATS] = strcmp(loss, "dqn") == 0 ? &s->state : NULL;
    struct hd_setup step = step_setup(&hd_verb_loss_grad, &w.setup, s->ports, specs);
    ck_assert_int_eq(hd_verb_loss_grad.prepare(&step, &args), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(w.setup.diag), 1);
    ck_assert_msg(strstr(hd_diag_get_line(w.setup.diag, 0), words) != NULL, "%s",
                  hd_diag_get_line(w.setup.diag, 0));
    unprepare(&hd_verb_loss_grad, args);
    value_close(&s->state);
    value_close(&s->stats);
    value_close(&s->grad);
    value_close(&s->batch);
    value_close(&target);
    value_close(&w.policy);
    hd_document_destroy(w.document);
    setup_close(&w.setup);
}

TEST(nets_that_a_verb_cannot_train_are_refused)
{
    static const char *const bc[] = {"policy.type=bc", "policy.model.norm=sync_batch_norm"};
    static const char *const dqn[] = {"policy.model.norm=sync_batch_norm"};
    refused(bc, 2, "bc", "batch_norm_stats");
    refused(dqn, 1, "dqn", "more than once");
}
