/* SPDX-License-Identifier: Apache-2.0 */
/* loss_grad, the mean over shards, adam, copy and their types, without an executor. Microbatches
 * are added in one tree, so neither the distribution of samples over shards nor the cut of
 * parameters in buckets changes a bit. */
#include "runtime/base/hash.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/learn/adam_state.h"
#include "tasks/types/learn/grad.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/tasks/world.h"

#include <math.h>

enum { SAMPLES = 32 };

#define CONV "policy.model.obs_shape=[2,36,40]; policy.model.encoder_hidden_size_list=[16,16,32,48]"

/* Every test runs with each of these. */
static const struct net {
    const char *sets;
    double rounding; /* of a gradient that is summed in another order */
} nets[] = {
    {"policy.model.encoder_hidden_size_list=[96,80]", 1e-6},
    {CONV, 1e-5},
    {CONV "; runtime.precision=bf16", 1e-2},
};
enum { NETS = sizeof nets / sizeof *nets };

/* The last one is in bf16. */
static int count_nets(void)
{
    return bf16_here() ? NETS : NETS - 1;
}

static const struct net *net = nets;
static const char *on_nan = "stop";

static const struct step loss_grad = {.verb = &hd_verb_loss_grad, .ports = "target stats"},
                         mean = {.verb = &hd_verb_mean, .ports = "from=grad to=mean_grad"},
                         adam = {.verb = &hd_verb_adam},
                         copy = {.verb = &hd_verb_copy, .ports = "from=policy to=target"};

/* Returns the learner of a shard. */
static struct world *open_learner(int64_t shard, int batch, int micro, double bucket_mb)
{
    struct world *w = world_make(shard, 2);
    world_set(w, "policy.learn.batch_size=%d; policy.learn.microbatch=%d; runtime.on_nan=%s; %s",
              batch, micro, on_nan, net->sets);
    w->bucket_mb = bucket_mb;
    world_declare(w, (struct hd_spec){.name = "batch", .type = &hd_type_batch}, NULL);
    world_open(w, &loss_grad, &mean, &adam, &copy, NULL);
    const struct value *target = world_get(w, "target");
    for (int64_t i = 0; i < target->spec.elements; i++)
        ((float *)target->data)[i] *= 0.5f;
    hd_net_refresh(world_net(w, "target"), target->data, 0, target->spec.elements);
    return w;
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
static void fill_batch(struct world *w, int first)
{
    const struct hd_transition_shape *shape = hd_batch_get_shape(&world_get(w, "batch")->spec);
    struct hd_transitions rows = hd_batch_get_rows(INSTANCE(w, "batch"));
    *hd_batch_get_use(INSTANCE(w, "batch")).used = shape->rows;
    for (int64_t b = 0; b < shape->rows; b++) {
        struct hd_rng rng = hd_rng_make(5, 6, first + b, 0, 0);
        fill_obs(&rng, 0, (char *)rows.obs + b * shape->obs_bytes, shape->obs_bytes);
        fill_obs(&rng, 10000, (char *)rows.next_obs + b * shape->obs_bytes, shape->obs_bytes);
        rows.action[b].choice = (int32_t)hd_rng_draw_below(&rng, 30000, 2);
        rows.reward[b] = (float)hd_rng_draw_uniform(&rng, 30001);
        rows.done[b] = (float)hd_rng_draw_below(&rng, 30002, 2);
    }
}

static void compute(struct world *w, int first)
{
    fill_batch(w, first);
    world_run(w, &loss_grad, 0);
}

/* -- Shards and microbatches ------------------------------------------------------------------- */

enum { SHARDS = 4 };

TEST(distributing_samples_over_shards_changes_no_bit, .runs = count_nets())
{
    net = &nets[_i];
    struct world *one = open_learner(0, SAMPLES, SAMPLES / SHARDS, 0), *four[SHARDS];
    compute(one, 0);
    worlds_combine(&one, 1, &mean);
    for (int s = 0; s < SHARDS; s++) {
        four[s] = open_learner(s, SAMPLES / SHARDS, 0, 0);
        compute(four[s], s * SAMPLES / SHARDS);
    }
    worlds_combine(four, SHARDS, &mean);
    ck_assert_uint_eq(value_hash(world_get(one, "mean_grad")),
                      value_hash(world_get(four[0], "mean_grad")));
    ck_assert(hd_grad_get_counts(INSTANCE(one, "mean_grad"), 0)[0] == SAMPLES);
}

TEST(microbatches_sum_to_the_batch_within_rounding, .runs = count_nets())
{
    net = &nets[_i];
    struct world *whole = open_learner(0, SAMPLES, 0, 0), *cut = open_learner(0, SAMPLES, 2, 0);
    compute(whole, 0);
    compute(cut, 0);
    ck_assert_int_eq(world_get(cut, "grad")->spec.partials, SAMPLES / 2);
    worlds_combine(&whole, 1, &mean);
    worlds_combine(&cut, 1, &mean);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < world_get(whole, "grad")->spec.elements; i++) {
        double a = ((float *)world_get(whole, "mean_grad")->data)[i];
        double b = ((float *)world_get(cut, "mean_grad")->data)[i];
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    ck_assert_double_gt(norm, 0);
    ck_assert_double_lt(sqrt(difference / norm), net->rounding);
}

TEST(an_empty_shard_contributes_nothing, .runs = count_nets())
{
    net = &nets[_i];
    struct world *both[] = {open_learner(0, 8, 0, 0), open_learner(1, 8, 0, 0)},
                 *alone = open_learner(0, 8, 0, 0);
    compute(both[0], 0);
    compute(alone, 0);
    worlds_combine(both, 2, &mean); /* the second gradient is still its zeros, of weight 0 */
    worlds_combine(&alone, 1, &mean);
    ck_assert_uint_eq(value_hash(world_get(both[0], "mean_grad")),
                      value_hash(world_get(alone, "mean_grad")));
}

/* -- Buckets ----------------------------------------------------------------------------------- */

/* Updates a bucket from the sum of the gradient's partials, in ranges of blocks. */
static void update_slices(struct world *w, const void *args, int bucket)
{
    const struct value *grad = world_get(w, "grad");
    struct hd_context context = world_at(w, &adam, 0);
    struct hd_view views[MAX_PORTS];
    int64_t bucket_lo, bucket_hi;
    float *sum = hd_alloc(1, (size_t)hd_type_grad.reduction->bytes(&grad->spec, bucket));
    hd_type_grad.reduction->pack(&grad->spec, bucket, grad->data, sum);
    world_view(w, &adam, bucket, views);
    views[0].data = NULL; /* mean_grad */
    hd_spec_get_bucket(&world_get(w, "policy")->spec, bucket, &bucket_lo, &bucket_hi);
    for (int64_t lo = bucket_lo, hi; lo < bucket_hi; lo = hi) {
        hi = lo + (lo % 3 + 1) * HD_BLOCK < bucket_hi ? lo + (lo % 3 + 1) * HD_BLOCK : bucket_hi;
        ck_assert_int_eq(hd_verb_adam.update_slice(&context, views, args, lo, hi,
                                                   sum + (lo - bucket_lo),
                                                   sum[bucket_hi - bucket_lo]),
                         HD_OK);
        context.again = true;
    }
    hd_free(sum);
}

/* Makes a step of Adam from the mean or, in slices, from one shard's gradient. */
static void update(struct world *w, bool slices)
{
    if (!slices) {
        world_run(w, &adam, 0);
        return;
    }
    void *args = world_prepare(w, &adam);
    for (int bucket = world_get(w, "policy")->spec.buckets - 1; bucket >= 0; bucket--)
        update_slices(w, args, bucket);
    world_release(&adam, args);
}

/* Makes three updates with the policy cut in buckets and returns the hash of the policy. */
static uint64_t train(double bucket_mb, bool slices, int *buckets_p)
{
    struct world *w = open_learner(0, SAMPLES, 8, bucket_mb);
    const struct value *policy = world_get(w, "policy"), *target = world_get(w, "target");
    for (int number = 0; number < 3; number++) {
        compute(w, number * SAMPLES);
        worlds_combine(&w, 1, &mean);
        update(w, slices);
        world_run(w, &copy, 0);
        value_save_load(world_get(w, "policy"));
        value_save_load(world_get(w, "grad"));
        value_save_load(world_get(w, "optimizer"));
        value_save_load(world_get(w, "stats"));
    }
    ck_assert_uint_eq(value_hash(policy), value_hash(target));
    ck_assert_mem_eq(policy->data, target->data, (size_t)policy->spec.bytes);
    *buckets_p = policy->spec.buckets;
    return value_hash(policy);
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
    struct world *w = open_learner(3, 8, 0, 0);
    w->update = 41;
    fill_batch(w, 0);
    ((float *)world_get(w, "policy")->data)[10] = NAN;
    check_names(world_fail(w, &loss_grad, 0), "update 42|shard 3");
}

static uint64_t hash_moments(const struct value *optimizer)
{
    const struct hd_adam_state state = hd_adam_state_lay_out(&optimizer->spec, optimizer->data);
    const uint64_t hash = hd_hash_floats(0, state.first, optimizer->spec.elements);
    return hd_hash_floats(hash, state.second, optimizer->spec.elements);
}

static void check_counts(const struct value *optimizer, struct hd_adam_counts expected)
{
    const struct hd_adam_state state = hd_adam_state_lay_out(&optimizer->spec, optimizer->data);
    for (int i = 0; i < optimizer->spec.buckets; i++)
        ck_assert_mem_eq(&state.counts[i], &expected, sizeof expected);
}

/* One of two shards has a loss that is not finite in one of its microbatches. */
TEST(a_loss_that_is_no_number_is_skipped, .runs = count_nets())
{
    net = &nets[_i];
    on_nan = "skip";
    struct world *both[] = {open_learner(0, 8, 4, 0.04), open_learner(1, 8, 4, 0.04)};
    const struct value *policies[2], *optimizers[2];
    for (int s = 0; s < 2; s++) {
        compute(both[s], 8 * s);
        policies[s] = world_get(both[s], "policy");
        optimizers[s] = world_get(both[s], "optimizer");
    }
    ck_assert_int_gt(policies[0]->spec.buckets, 1);
    worlds_combine(both, 2, &mean);
    update(both[0], false);
    const uint64_t policy = value_hash(policies[0]), moments = hash_moments(optimizers[0]);

    hd_batch_get_rows(INSTANCE(both[1], "batch")).reward[5] = INFINITY;
    world_run(both[1], &loss_grad, 0);
    worlds_combine(both, 2, &mean);
    update(both[0], false);
    ck_assert_uint_eq(value_hash(policies[0]), policy);
    ck_assert_uint_eq(hash_moments(optimizers[0]), moments);
    check_counts(optimizers[0], (struct hd_adam_counts){1, 1, 1});
    const uint64_t other = value_hash(policies[1]), untouched = hash_moments(optimizers[1]);
    update(both[1], true);
    ck_assert_uint_eq(value_hash(policies[1]), other);
    ck_assert_uint_eq(hash_moments(optimizers[1]), untouched);
    check_counts(optimizers[1], (struct hd_adam_counts){0, 1, 1});

    compute(both[1], 8);
    worlds_combine(both, 2, &mean);
    update(both[0], false);
    ck_assert_uint_ne(value_hash(policies[0]), policy);
    check_counts(optimizers[0], (struct hd_adam_counts){2, 1, 0});
    on_nan = "stop";
}

static uint64_t hash_params(const char *name, uint64_t seed)
{
    struct world *w = world_make(0, 2);
    w->setup.seed = seed;
    world_declare(w, (struct hd_spec){.name = name, .type = &hd_type_params}, NULL);
    world_open(w, NULL);
    return value_hash(world_get(w, name));
}

/* Values of other names, as twin critics, start differently. */
TEST(all_shards_and_runs_of_a_seed_start_alike, .runs = 2)
{
    const char *name = _i ? "critic" : "policy";
    ck_assert_uint_eq(hash_params(name, 1), hash_params(name, 1));
    ck_assert_uint_ne(hash_params(name, 1), hash_params("other", 1));
    ck_assert_uint_ne(hash_params(name, 1), hash_params(name, 2));
}
