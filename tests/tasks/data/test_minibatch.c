/* SPDX-License-Identifier: Apache-2.0 */
/* shuffle and sample_minibatch: which samples make which minibatch (docs/di-engine.md 3.5), their
 * rows, and the contribution of rows that hold none. */
#include "tests/kernels/common/check_close.h"
#include "tests/tasks/on_policy.h"

/* Opens a shard and collects n samples for batches of b. */
static void open_sized(struct world *w, int n, int b)
{
    world_set(w, "policy.collect.n_sample=%d; policy.learn.batch_size=%d; env.collector_env_num=2",
              n, b);
    world_add(w, &collect, NULL);
    open_on_policy(w);
    world_run(w, &collect, 0);
    world_run(w, &compute_advantages, 0);
}

/* -- Permutations ------------------------------------------------------------------------------ */

static const int32_t *permutation_of(const struct world *w)
{
    return ((const struct hd_permutation *)world_get(w, "permutation")->data)->sample;
}

static void run_shuffle(struct world *w, int64_t iteration, int64_t repeat_index)
{
    struct hd_context where = world_at(w, &shuffle, iteration);
    where.rng = hd_rng_make(where.seed, 77, where.shard, iteration, repeat_index);
    world_run_at(w, &shuffle, where);
}

TEST(permutations_are_complete_and_all_differ)
{
    enum { N = 50, PLACES = 4 * 3 * 3 };
    static int32_t permutations[PLACES][N];
    int place = 0;
    for (int64_t shard = 0; shard < 4; shard++) {
        struct world *w = make_on_policy(shard);
        world_set(w, "policy.collect.n_sample=50");
        world_open(w, &shuffle, NULL);
        for (int64_t iteration = 0; iteration < 3; iteration++)
            for (int64_t repeat_index = 0; repeat_index < 3; repeat_index++, place++) {
                bool seen[N] = {false};
                run_shuffle(w, iteration, repeat_index);
                memcpy(permutations[place], permutation_of(w), sizeof permutations[place]);
                for (int i = 0; i < N; i++) {
                    ck_assert(permutations[place][i] >= 0 && permutations[place][i] < N);
                    ck_assert(!seen[permutations[place][i]]);
                    seen[permutations[place][i]] = true;
                }
                for (int other = 0; other < place; other++)
                    ck_assert(memcmp(permutations[other], permutations[place],
                                     sizeof permutations[place]) != 0);
                run_shuffle(w, iteration, repeat_index);
                ck_assert_mem_eq(permutations[place], permutation_of(w),
                                 sizeof permutations[place]);
            }
    }
}

/* Each of the 24 permutations of four samples is as frequent as the others. */
TEST(all_permutations_are_equally_likely)
{
    enum { DRAWS = 24000 };
    struct world *w = make_on_policy(0);
    int times[256] = {0}, kinds = 0;
    double chi2 = 0;
    world_set(w, "policy.collect.n_sample=4");
    world_open(w, &shuffle, NULL);
    for (int i = 0; i < DRAWS; i++) {
        run_shuffle(w, i, 0);
        const int32_t *o = permutation_of(w);
        times[o[0] + 4 * o[1] + 16 * o[2] + 64 * o[3]]++;
    }
    for (int i = 0; i < 256; i++)
        if (times[i] > 0) {
            kinds++;
            chi2 += (times[i] - DRAWS / 24) * (times[i] - DRAWS / 24) / (DRAWS / 24.0);
        }
    ck_assert_int_eq(kinds, 24);
    ck_assert_double_lt(chi2, 50); /* 23 degrees of freedom: one in 1000 lies beyond */
}

/* -- Ranges ------------------------------------------------------------------------------------ */

struct range_case {
    int n, b, accumulate;
    bool exact;
    int count, ranges[8][2]; /* of the permutation */
};

static const struct range_case range_cases[] = {
    {10, 4, 1, false, 3, {{0, 4}, {4, 8}, {6, 10}}},
    {10, 4, 1, true, 3, {{0, 4}, {4, 8}, {8, 10}}},
    {12, 4, 1, false, 3, {{0, 4}, {4, 8}, {8, 12}}},
    {12, 4, 1, true, 3, {{0, 4}, {4, 8}, {8, 12}}},
    {10, 16, 1, false, 1, {{4, 10}}}, /* DI-engine's negative index */
    {10, 16, 1, true, 1, {{0, 10}}},
    {10, 19, 1, false, 1, {{1, 10}}},
    {10, 20, 1, false, 1, {{0, 10}}},
    {10, 50, 1, false, 1, {{0, 10}}},
    {10, 10, 1, false, 1, {{0, 10}}},
    {10, 11, 1, false, 1, {{9, 10}}},
    {10, 9, 1, true, 2, {{0, 9}, {9, 10}}},
    {10, 1, 1, false, 10, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}}},
    {16, 2, 4, false, 2, {{0, 8}, {8, 16}}}, /* a minibatch is four batches */
    {18, 2, 4, false, 3, {{0, 8}, {8, 16}, {10, 18}}},
    {18, 2, 4, true, 3, {{0, 8}, {8, 16}, {16, 18}}},
};
enum { RANGE_CASES = sizeof range_cases / sizeof *range_cases };

/* Standardises in double: mean 0 and deviation 1 over the rows that count, by PyTorch's definition.
 */
static void standardise(const struct hd_advantages *advantages, const int32_t *sample, int n,
                        double *wanted)
{
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++)
        mean += (double)advantages->advantage[sample[i]] / n;
    for (int i = 0; i < n; i++)
        squares += pow((double)advantages->advantage[sample[i]] - mean, 2);
    for (int i = 0; i < n; i++)
        wanted[i] = n < 2 ? 0
                          : ((double)advantages->advantage[sample[i]] - mean) /
                                (sqrt(squares / (n - 1)) + 1e-8);
}

static void check_row(const struct world *w, int64_t row, int64_t sample)
{
    const struct hd_trajectories_shape *shape =
        hd_trajectories_get_shape(&world_get(w, "trajectories")->spec);
    const struct hd_trajectories t =
        hd_trajectories_get(INSTANCE(w, "trajectories"), sample / shape->samples);
    const struct hd_minibatch batch = get_minibatch(w);
    const struct hd_advantages advantages = get_advantages(w);
    const int64_t step = t.row[sample % shape->samples], bytes = shape->obs.obs_bytes;
    unsigned char obs[4096];
    hd_trajectories_copy_obs(shape, &t, step, 0, obs);
    ck_assert_mem_eq(batch.obs + row * bytes, obs, (size_t)bytes);
    ck_assert_mem_eq(batch.logit + row * shape->logits, t.logit + step * shape->logits,
                     (size_t)shape->logits * sizeof(float));
    ck_assert_int_eq(batch.action[row].choice, t.action[step].choice);
    ck_assert(batch.target[row] == advantages.target[sample]);
    ck_assert(batch.value[row] == advantages.value[sample]);
}

TEST(minibatches_are_ranges_of_the_permutation, .runs = 2 * RANGE_CASES)
{
    const struct range_case *c = &range_cases[_i % RANGE_CASES];
    /* A minibatch of one sample cannot be standardised. */
    const bool single = c->ranges[0][1] - c->ranges[0][0] == 1;
    const bool normal = _i < RANGE_CASES && !single;
    struct world *w = make_on_policy(0);
    world_set(w, "policy.learn.accumulate=%d; policy.learn.minibatch_tail=%s", c->accumulate,
              c->exact ? "short" : "overlap");
    world_set(w, "policy.learn.adv_norm=%s; policy.collect.env_groups=%d",
              normal ? "true" : "false", c->n % 2 == 0 ? 2 : 1);
    open_sized(w, c->n, c->b);
    run_shuffle(w, 3, 1);
    for (int i = 0; i < c->count; i++) {
        world_run(w, &sample_minibatch, 0);
        const struct hd_minibatch batch = get_minibatch(w);
        if (i >= 8)
            continue;
        const int lo = c->ranges[i][0], used = c->ranges[i][1] - lo;
        const int32_t *sample = permutation_of(w) + lo;
        double wanted[64];
        const struct hd_advantages advantages = get_advantages(w);
        standardise(&advantages, sample, used, wanted);
        ck_assert_int_eq(*batch.used, used);
        for (int row = 0; row < hd_minibatch_get_shape(&world_get(w, "batch")->spec)->rows; row++) {
            check_row(w, row, sample[row < used ? row : 0]);
            if (row < used && normal)
                CHECK_CLOSE(batch.advantage[row], wanted[row], 1.0, 1e-5, "advantage");
            else if (row < used)
                ck_assert(batch.advantage[row] == advantages.advantage[sample[row]]);
            ck_assert(isfinite(batch.advantage[row]));
        }
    }
    /* No more than that. */
    const char *message = world_fail(w, &sample_minibatch, 0);
    ck_assert_msg(strstr(message, "'permutation'"), "%s", message);
}

/* The ceil(N / (B accumulate)) minibatches that a graph takes are all that there are. */
TEST(graphs_take_all_minibatches)
{
    for (int n = 1; n <= 40; n++)
        for (int b = 1; b <= 45; b++)
            for (int exact = 0; exact < 2; exact++) {
                struct world *w = world_make(0, 2);
                world_set(w, "policy.collect.n_sample=%d; policy.learn.batch_size=%d", n, b);
                world_set(w, "policy.learn.minibatch_tail=%s", exact ? "short" : "overlap");
                world_open(w, NULL);
                const struct hd_minibatch_split shape = hd_minibatch_split_read(w->setup.config);
                int64_t lo, hi, end = 0, covered = 0;
                ck_assert_int_eq(shape.count, (n + b - 1) / b);
                for (int64_t i = 0; i < shape.count; i++) {
                    hd_minibatch_split_get_range(&shape, i, &lo, &hi);
                    ck_assert(0 <= lo && lo < hi && hi <= n && hi - lo <= shape.rows);
                    ck_assert(!exact || lo == end);
                    covered += hi - (lo > end ? lo : end);
                    end = hi;
                }
                ck_assert_int_eq(end, n);
                ck_assert(covered == n || (!exact && b > n));
                world_close(w);
            }
}

/* -- Rows that hold no sample ------------------------------------------------------------------ */

static const char *const nets[] = {
    "policy.model.encoder_hidden_size_list=[24,16]",
    "env={type: blink, options: {longest: 5}}; policy.model.obs_shape=[1,36,40]; "
    "policy.model.action_shape=3; policy.model.encoder_hidden_size_list=[8,8,16]",
};

/* The gradient and statistics of the last, short minibatch are those of its samples alone: the
 * content of other rows changes no bit, and microbatches without a sample weigh nothing. */
TEST(rows_without_a_sample_contribute_nothing, .runs = COUNT(nets))
{
    enum { N = 18, B = 16, USED = 2 };
    uint64_t grad[2], stats[2];
    for (int rubbish = 0; rubbish < 2; rubbish++) {
        struct world *w = make_on_policy(0);
        world_set(w, "policy.learn.minibatch_tail=short; policy.learn.microbatch=4; "
                     "policy.learn.adv_norm=false");
        world_set(w, "%s", nets[_i]);
        open_sized(w, N, B);
        run_shuffle(w, 0, 0);
        world_run(w, &sample_minibatch, 0);
        world_run(w, &sample_minibatch, 0);
        const struct hd_minibatch batch = get_minibatch(w);
        const int64_t bytes =
            hd_trajectories_get_shape(&world_get(w, "trajectories")->spec)->obs.obs_bytes;
        ck_assert_int_eq(*batch.used, USED);
        for (int row = USED; row < B && rubbish; row++) {
            memset(batch.obs + row * bytes, 0x3E, (size_t)bytes);
            batch.advantage[row] = 1e30f;
            batch.target[row] = NAN;
            batch.value[row] = -INFINITY;
            batch.action[row].choice = 1;
        }
        world_run(w, &loss_grad, 0);
        for (int partial = 0; partial < 4; partial++) {
            const float rows = hd_grad_get_counts(INSTANCE(w, "grad"), partial)[0];
            ck_assert(rows == (partial == 0 ? USED : 0));
            const float *sums = hd_grad_get_partial(INSTANCE(w, "grad"), partial);
            double max = 0;
            for (int64_t i = 0; i < world_get(w, "grad")->spec.elements; i++)
                max = fmax(max, fabs((double)sums[i]));
            ck_assert(partial == 0 ? max > 0 : max == 0);
        }
        worlds_combine(&w, 1, &mean_grad);
        ck_assert(hd_grad_get_counts(INSTANCE(w, "mean_grad"), 0)[0] == USED);
        const double a = (double)batch.advantage[0], b = (double)batch.advantage[1];
        ck_assert_double_eq_tol(world_field(w, "stats", "adv_mean_avg"), (a + b) / USED, 1e-12);
        ck_assert_double_eq(world_field(w, "stats", "adv_max_avg"), fmax(a, b));
        ck_assert(isfinite(world_field(w, "stats", "total_loss_avg")));
        grad[rubbish] = value_hash(world_get(w, "mean_grad"));
        stats[rubbish] = value_hash(world_get(w, "stats"));
    }
    ck_assert_uint_eq(grad[0], grad[1]);
    ck_assert_uint_eq(stats[0], stats[1]);
}

/* The learning rate in the statistics is the one that adam uses. */
TEST(the_logged_learning_rate_is_the_adapted_one)
{
    struct world *w = make_on_policy(0);
    world_set(w, "policy.learn.learning_rate=0.5");
    open_sized(w, 8, 8);
    run_shuffle(w, 0, 0);
    world_run(w, &sample_minibatch, 0);
    world_run(w, &loss_grad, 0);
    ck_assert_double_eq(world_field(w, "stats", "cur_lr_avg"), 0.5);
    world_run(w, &loss_grad_at_rate, 0);
    ck_assert_double_eq(world_field(w, "stats", "cur_lr_avg"), 0.5);
    hd_scalars_push(INSTANCE(w, "learning_rate"), 0, 0.25, 1);
    world_run(w, &loss_grad_at_rate, 0);
    ck_assert_double_eq_tol(world_field(w, "stats", "cur_lr_avg"), 1.25 / 3, 1e-15);
}
