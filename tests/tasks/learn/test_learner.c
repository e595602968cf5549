/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad, the mean over shards, adam, copy and their types, without an executor. Microbatches
 * are added in one tree, so neither the distribution of samples over shards nor the cut of
 * parameters in buckets changes a bit. */
#include "runtime/base/hash.h"
#include "runtime/base/tree.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/adam_state.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/scalars.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/tasks/values.h"

#include <math.h>

enum { SAMPLES = 32 };

/* Every test runs with each of these. */
static const struct net {
    const char *shape, *hidden, *precision;
    double rounding; /* of a gradient that is summed in another order */
} nets[] = {
    {"policy.model.obs_shape=4", "policy.model.encoder_hidden_size_list=[96,80]",
     "runtime.precision=f32", 1e-6},
    {"policy.model.obs_shape=[2,36,40]", "policy.model.encoder_hidden_size_list=[16,16,32,48]",
     "runtime.precision=f32", 1e-5},
    {"policy.model.obs_shape=[2,36,40]", "policy.model.encoder_hidden_size_list=[16,16,32,48]",
     "runtime.precision=bf16", 1e-2},
};
enum { NETS = sizeof nets / sizeof *nets };

/* The last one is in bf16. */
static int count_nets(void)
{
    return bf16_here() ? NETS : NETS - 1;
}
static const struct net *net = nets;
static const char *on_nan = "runtime.on_nan=stop";

/* The values of the learner of one shard. */
struct learner {
    struct hd_setup setup;
    struct value policy, target, batch, stats, grad, mean;
};

static void open_of(struct value *value, const struct hd_setup *setup, const struct hd_type *type,
                    const char *name, const struct value *of, double bucket_mb)
{
    bool shard = strcmp(name, "grad") == 0;
    *value = (struct value){.spec = {.name = name,
                                     .type = type,
                                     .placement = shard ? HD_SHARD : HD_GLOBAL,
                                     .of = of ? &of->spec : NULL,
                                     .location = setup->location,
                                     .bucket_mb = bucket_mb,
                                     .buckets = 1,
                                     .partials = 1}};
    ck_assert_int_eq(type->resolve(&value->spec, setup), HD_OK);
    value_init(value, setup, 0);
}

static void learner_open(struct learner *l, int batch, int micro, double bucket_mb)
{
    char batch_set[64], micro_set[64];
    snprintf(batch_set, sizeof batch_set, "policy.learn.batch_size=%d", batch);
    snprintf(micro_set, sizeof micro_set, "policy.learn.microbatch=%d", micro);
    const char *const sets[] = {batch_set,   micro_set,      net->shape,
                                net->hidden, net->precision, on_nan};
    l->setup = setup_open(sets, 6);
    open_of(&l->policy, &l->setup, &hd_type_params, "policy", NULL, bucket_mb);
    open_of(&l->target, &l->setup, &hd_type_params, "target", NULL, bucket_mb);
    open_of(&l->grad, &l->setup, &hd_type_grad, "grad", &l->policy, 0);
    open_of(&l->mean, &l->setup, &hd_type_grad, "mean_grad", &l->policy, 0);
    value_open(&l->batch, &l->setup, &hd_type_batch, "batch", NULL);
    l->stats = (struct value){.spec = {.name = "stats", .type = &hd_type_scalars, .buckets = 1}};
    struct value *values[MAX_PORTS] = {&l->policy, &l->target, &l->batch, &l->stats, &l->grad};
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_loss_grad, &l->setup, values, specs);
    ck_assert_int_eq(hd_verb_loss_grad.declare(&step), HD_OK);
    value_init(&l->stats, &l->setup, 0);
    for (int64_t i = 0; i < l->target.spec.elements; i++)
        ((float *)l->target.data)[i] *= 0.5f;
    hd_net_refresh(hd_params_get_net(&l->target.spec), l->target.data, 0, l->target.spec.elements);
}

static void learner_close(struct learner *l)
{
    value_close(&l->mean);
    value_close(&l->grad);
    value_close(&l->stats);
    value_close(&l->batch);
    value_close(&l->target);
    value_close(&l->policy);
    setup_close(&l->setup);
}

/* Fills with bytes, or with numbers from 0 to 1. */
static void fill_obs(const struct hd_rng *rng, uint32_t item, void *obs, int64_t bytes)
{
    for (int64_t i = 0; i < bytes && net != nets; i++)
        ((uint8_t *)obs)[i] = (uint8_t)(256 * hd_rng_draw_uniform(rng, item + (uint32_t)i));
    for (int64_t i = 0; i < bytes / (int64_t)sizeof(float) && net == nets; i++)
        ((float *)obs)[i] = (float)hd_rng_draw_uniform(rng, item + (uint32_t)i);
}

/* Samples [first, first + batch) of one fixed list. */
static void fill_batch(struct learner *l, int first)
{
    const struct hd_transition_shape *shape = hd_batch_get_shape(&l->batch.spec);
    struct hd_transitions rows = hd_batch_get_rows(&l->batch.spec, l->batch.data);
    *hd_batch_get_use(&l->batch.spec, l->batch.data).used = shape->rows;
    for (int64_t b = 0; b < shape->rows; b++) {
        struct hd_rng rng = hd_rng_make(5, 6, first + b, 0, 0);
        fill_obs(&rng, 0, (char *)rows.obs + b * shape->obs_bytes, shape->obs_bytes);
        fill_obs(&rng, 10000, (char *)rows.next_obs + b * shape->obs_bytes, shape->obs_bytes);
        rows.action[b].choice = (int32_t)hd_rng_draw_below(&rng, 30000, 2);
        rows.reward[b] = (float)hd_rng_draw_uniform(&rng, 30001);
        rows.done[b] = (float)hd_rng_draw_below(&rng, 30002, 2);
    }
}

static void compute(struct learner *l, int first)
{
    struct value *values[MAX_PORTS] = {&l->policy, &l->target, &l->batch, &l->stats, &l->grad};
    struct hd_context where = at(&l->setup, 0, 0);
    fill_batch(l, first);
    run(&hd_verb_loss_grad, &l->setup, values, &where);
}

/* -- Shards and microbatches ------------------------------------------------------------------- */

enum { SHARDS = 4, VECTOR_BYTES = 1 << 20 };

struct reduce {
    struct learner *shards;
    int bucket;
    char levels[4][VECTOR_BYTES];
};

static void *partial(void *arg, int64_t i, int level)
{
    struct reduce *reduce = arg;
    const struct value *grad = &reduce->shards[i].grad;
    grad->spec.type->reduction->pack(&grad->spec, reduce->bucket, grad->data,
                                     reduce->levels[level]);
    return reduce->levels[level];
}

static void *add(void *arg, int level, void *left, void *right)
{
    struct reduce *reduce = arg;
    (void)level;
    const struct hd_spec *spec = &reduce->shards[0].grad.spec;
    spec->type->reduction->combine(spec, reduce->bucket, HD_MEAN, left, right);
    return left;
}

/* Computes the mean over the shards in that of the first. */
static void mean_of(struct learner *shards, int n)
{
    static struct reduce reduce;
    reduce.shards = shards;
    const struct hd_spec *spec = &shards[0].grad.spec;
    for (reduce.bucket = 0; reduce.bucket < spec->buckets; reduce.bucket++) {
        const void *sum = hd_tree_reduce(0, n, partial, add, &reduce);
        spec->type->reduction->unpack(&shards[0].mean.spec, reduce.bucket, HD_MEAN, sum,
                                      shards[0].mean.data);
    }
}

TEST(distributing_samples_over_shards_changes_no_bit, .runs = count_nets())
{
    net = &nets[_i];
    static struct learner one, four[SHARDS];
    learner_open(&one, SAMPLES, SAMPLES / SHARDS, 0);
    compute(&one, 0);
    mean_of(&one, 1);
    for (int s = 0; s < SHARDS; s++) {
        learner_open(&four[s], SAMPLES / SHARDS, 0, 0);
        compute(&four[s], s * SAMPLES / SHARDS);
    }
    mean_of(four, SHARDS);
    ck_assert_uint_eq(value_hash(&one.mean), value_hash(&four[0].mean));
    ck_assert(hd_grad_get_counts(&one.mean.spec, one.mean.data, 0)[0] == SAMPLES);
    learner_close(&one);
    for (int s = 0; s < SHARDS; s++)
        learner_close(&four[s]);
}

TEST(microbatches_sum_to_the_batch_within_rounding, .runs = count_nets())
{
    net = &nets[_i];
    static struct learner whole, cut;
    learner_open(&whole, SAMPLES, 0, 0);
    learner_open(&cut, SAMPLES, 2, 0);
    compute(&whole, 0);
    compute(&cut, 0);
    ck_assert_int_eq(cut.grad.spec.partials, SAMPLES / 2);
    mean_of(&whole, 1);
    mean_of(&cut, 1);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < whole.grad.spec.elements; i++) {
        double a = ((float *)whole.mean.data)[i], b = ((float *)cut.mean.data)[i];
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    ck_assert_double_gt(norm, 0);
    ck_assert_double_lt(sqrt(difference / norm), net->rounding);
    learner_close(&whole);
    learner_close(&cut);
}

TEST(an_empty_shard_contributes_nothing, .runs = count_nets())
{
    net = &nets[_i];
    static struct learner both[2], alone;
    learner_open(&both[0], 8, 0, 0);
    learner_open(&both[1], 8, 0, 0);
    learner_open(&alone, 8, 0, 0);
    compute(&both[0], 0);
    compute(&alone, 0);
    mean_of(both, 2); /* the second shard's gradient is still its zeros, of weight 0 */
    mean_of(&alone, 1);
    ck_assert_uint_eq(value_hash(&both[0].mean), value_hash(&alone.mean));
    learner_close(&both[0]);
    learner_close(&both[1]);
    learner_close(&alone);
}

/* -- Buckets ----------------------------------------------------------------------------------- */

/* Makes a step of Adam from the mean, or from the sum of the gradient's partials in ranges of
 * blocks. */
static void step(struct learner *l, struct hd_context *context, const struct hd_view *views,
                 const void *args, bool slices)
{
    static struct reduce reduce;
    int64_t bucket_lo, bucket_hi;
    if (!slices) {
        ck_assert_int_eq(hd_verb_adam.body(context, views, args), HD_OK);
        return;
    }
    struct hd_view blind[MAX_PORTS] = {views[0], views[1], views[2]};
    blind[0].data = NULL;
    reduce.shards = l;
    reduce.bucket = views[0].bucket;
    const float *sum = partial(&reduce, 0, 0);
    hd_spec_get_bucket(&l->policy.spec, reduce.bucket, &bucket_lo, &bucket_hi);
    for (int64_t lo = bucket_lo, hi; lo < bucket_hi; lo = hi) {
        hi = lo + (lo % 3 + 1) * HD_BLOCK < bucket_hi ? lo + (lo % 3 + 1) * HD_BLOCK : bucket_hi;
        ck_assert_int_eq(hd_verb_adam.update_slice(context, blind, args, lo, hi,
                                                   sum + (lo - bucket_lo),
                                                   sum[bucket_hi - bucket_lo]),
                         HD_OK);
        context->again = true;
    }
}

/* Makes three updates with the policy cut in buckets and returns the hash of the policy. */
static uint64_t train(double bucket_mb, bool slices, int *buckets_p)
{
    static struct learner l;
    struct value optimizer;
    learner_open(&l, SAMPLES, 8, bucket_mb);
    open_of(&optimizer, &l.setup, &hd_type_adam_state, "optimizer", &l.policy, 0);
    struct value *adam[MAX_PORTS] = {&l.mean, &l.policy, &optimizer},
                 *copy[] = {&l.policy, &l.target};
    for (int update = 0; update < 3; update++) {
        compute(&l, update * SAMPLES);
        mean_of(&l, 1);
        void *args = prepare(&hd_verb_adam, &l.setup, adam);
        for (int bucket = l.policy.spec.buckets - 1; bucket >= 0; bucket--) {
            struct hd_view views[MAX_PORTS] = {{0}}, pair[2];
            char message[HD_MESSAGE_BYTES];
            struct hd_context context = at(&l.setup, -1, update);
            context.message = message;
            for (int i = 0; i < 3; i++)
                views[i] = (struct hd_view){
                    .data = adam[i]->data, .spec = &adam[i]->spec, .bucket = bucket};
            for (int i = 0; i < 2; i++)
                pair[i] = (struct hd_view){
                    .data = copy[i]->data, .spec = &copy[i]->spec, .bucket = bucket};
            step(&l, &context, views, args, slices);
            ck_assert_int_eq(hd_verb_copy.body(&context, pair, NULL), HD_OK);
        }
        unprepare(&hd_verb_adam, args);
        value_save_load(&l.policy);
        value_save_load(&l.grad);
        value_save_load(&optimizer);
        value_save_load(&l.stats);
    }
    ck_assert_uint_eq(value_hash(&l.policy), value_hash(&l.target));
    ck_assert(memcmp(l.policy.data, l.target.data, (size_t)l.policy.spec.bytes) == 0);
    uint64_t hash = value_hash(&l.policy);
    *buckets_p = l.policy.spec.buckets;
    value_close(&optimizer);
    learner_close(&l);
    return hash;
}

TEST(cutting_parameters_in_buckets_and_slices_changes_no_bit, .runs = count_nets())
{
    net = &nets[_i];
    int whole_parts, buckets;
    uint64_t whole = train(0, false, &whole_parts);
    ck_assert_int_eq(whole_parts, 1);
    ck_assert_uint_eq(train(25, false, &buckets), whole);
    ck_assert_int_eq(buckets, 1);
    ck_assert_uint_eq(train(0.001, false, &buckets), whole);
    ck_assert_int_gt(buckets, 3);
    ck_assert_uint_eq(train(0.04, false, &buckets), whole);
    ck_assert_int_gt(buckets, 1);
    ck_assert_uint_eq(train(0, true, &buckets), whole);
    ck_assert_uint_eq(train(0.04, true, &buckets), whole);
}

TEST(buckets_are_whole_blocks_that_cover_all)
{
    struct hd_spec spec = {.elements = 5 * HD_BLOCK + 1};
    for (spec.buckets = 1; spec.buckets <= 6; spec.buckets++) {
        int64_t end = 0;
        for (int bucket = 0; bucket < spec.buckets; bucket++) {
            int64_t lo, hi;
            hd_spec_get_bucket(&spec, bucket, &lo, &hi);
            ck_assert_int_eq(lo, end);
            ck_assert(lo % HD_BLOCK == 0 || lo == spec.elements);
            end = hi;
        }
        ck_assert_int_eq(end, spec.elements);
    }
}

TEST(a_loss_that_is_no_number_fails_the_task, .runs = count_nets())
{
    net = &nets[_i];
    static struct learner l;
    char message[HD_MESSAGE_BYTES] = "";
    learner_open(&l, 8, 0, 0);
    struct value *values[MAX_PORTS] = {&l.policy, &l.target, &l.batch, &l.stats, &l.grad};
    struct hd_context where = at(&l.setup, 3, 0);
    where.update = 41;
    fill_batch(&l, 0);
    ((float *)l.policy.data)[10] = NAN;
    void *args = prepare(&hd_verb_loss_grad, &l.setup, values);
    ck_assert_int_eq(run_body(&hd_verb_loss_grad, values, &where, args, message), HD_ERR_TASK);
    ck_assert(strstr(message, "update 42") && strstr(message, "shard 3"));
    unprepare(&hd_verb_loss_grad, args);
    learner_close(&l);
}

/* Updates all buckets, from the mean or, in slices, from one shard's gradient. */
static void update(struct learner *l, struct value *optimizer, bool slices)
{
    struct value *adam[MAX_PORTS] = {&l->mean, &l->policy, optimizer};
    void *args = prepare(&hd_verb_adam, &l->setup, adam);
    for (int bucket = 0; bucket < l->policy.spec.buckets; bucket++) {
        struct hd_view views[MAX_PORTS] = {{0}};
        struct hd_context context = at(&l->setup, -1, 0);
        for (int i = 0; i < 3; i++)
            views[i] =
                (struct hd_view){.data = adam[i]->data, .spec = &adam[i]->spec, .bucket = bucket};
        step(l, &context, views, args, slices);
    }
    unprepare(&hd_verb_adam, args);
}

/* One of two shards has a loss that is not finite in one of its microbatches. */
TEST(a_loss_that_is_no_number_is_skipped, .runs = count_nets())
{
    net = &nets[_i];
    on_nan = "runtime.on_nan=skip";
    static struct learner both[2];
    struct value optimizer, in_slices;
    for (int s = 0; s < 2; s++) {
        learner_open(&both[s], 8, 4, 0.04);
        compute(&both[s], 8 * s);
    }
    open_of(&optimizer, &both[0].setup, &hd_type_adam_state, "optimizer", &both[0].policy, 0);
    open_of(&in_slices, &both[1].setup, &hd_type_adam_state, "optimizer", &both[1].policy, 0);
    ck_assert_int_gt(both[0].policy.spec.buckets, 1);
    mean_of(both, 2);
    update(&both[0], &optimizer, false);
    const uint64_t policy = value_hash(&both[0].policy), moments = value_hash(&optimizer);

    struct value *values[MAX_PORTS] = {&both[1].policy, &both[1].target, &both[1].batch,
                                       &both[1].stats, &both[1].grad};
    struct hd_context where = at(&both[1].setup, 1, 0);
    hd_batch_get_rows(&both[1].batch.spec, both[1].batch.data).reward[5] = INFINITY;
    run(&hd_verb_loss_grad, &both[1].setup, values, &where);
    mean_of(both, 2);
    update(&both[0], &optimizer, false);
    ck_assert_uint_eq(value_hash(&both[0].policy), policy);
    ck_assert_uint_eq(value_hash(&optimizer), moments);
    const uint64_t other = value_hash(&both[1].policy), untouched = value_hash(&in_slices);
    update(&both[1], &in_slices, true);
    ck_assert_uint_eq(value_hash(&both[1].policy), other);
    ck_assert_uint_eq(value_hash(&in_slices), untouched);

    compute(&both[1], 8);
    mean_of(both, 2);
    update(&both[0], &optimizer, false);
    ck_assert_uint_ne(value_hash(&both[0].policy), policy);
    value_close(&optimizer);
    value_close(&in_slices);
    learner_close(&both[0]);
    learner_close(&both[1]);
    on_nan = "runtime.on_nan=stop";
}

/* Values of other names, as twin critics, start differently. */
TEST(all_shards_and_runs_of_a_seed_start_alike, .runs = 2)
{
    static const char *const names[] = {"policy", "critic"};
    struct hd_setup setup = setup_open(NULL, 0);
    struct value a, b;
    open_of(&a, &setup, &hd_type_params, names[_i], NULL, 0);
    open_of(&b, &setup, &hd_type_params, names[_i], NULL, 0);
    ck_assert_uint_eq(value_hash(&a), value_hash(&b));
    value_close(&b);
    open_of(&b, &setup, &hd_type_params, "other", NULL, 0);
    ck_assert_uint_ne(value_hash(&a), value_hash(&b));
    value_close(&b);
    setup.seed++;
    open_of(&b, &setup, &hd_type_params, names[_i], NULL, 0);
    ck_assert_uint_ne(value_hash(&a), value_hash(&b));
    value_close(&a);
    value_close(&b);
    setup_close(&setup);
}
