/* SPDX-License-Identifier: Apache-2.0 */
/* Running statistics of observations and of returns, summed over shards and merged iteration by
 * iteration, against DI-engine's formula (docs/di-engine.md 3.4) over all samples; and the
 * normalisation that follows. */
#include "tests/kernels/common/device.h"
#include "tests/tasks/on_policy.h"

enum { SHARDS = 4, ITERATIONS = 3, ELEMENTS = 2 * 36 * 40, MOST_ROWS = SHARDS * 64 };

#define PICTURES                                                                                   \
    "env.type=blink; env.frame_stack=2; policy.model.obs_shape=[2,36,40]; "                        \
    "policy.model.action_shape=3; policy.model.encoder_hidden_size_list=[4,4,8]"

static const struct obs_case {
    const char *sets;
    int elements, samples, rows; /* of a shard */
    double first_scale, epsilon;
} cases[] = {
    {"policy.collect.n_sample=60; policy.collect.env_groups=2; policy.collect.obs_samples=60", 4,
     60, 60, 1, 1e-8},
    {"policy.collect.n_sample=50; policy.collect.obs_samples=7; env.frame_stack=2; "
     "policy.model.obs_shape=8",
     8, 50, 7, 1, 1e-8},
    {"policy.collect.n_sample=30; policy.collect.env_groups=2; "
     "policy.collect.obs_samples=256; " PICTURES,
     ELEMENTS, 30, 30, 1 / 255.0, 1},
    {"policy.collect.n_sample=64; policy.collect.obs_samples=9; " PICTURES, ELEMENTS, 64, 9,
     1 / 255.0, 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static void open_worlds(struct world *worlds[SHARDS], const struct obs_case *c)
{
    for (int s = 0; s < SHARDS; s++) {
        worlds[s] = make_on_policy(s);
        world_set(worlds[s], "env.collector_env_num=4; %s", c->sets);
        world_open(worlds[s], &collect_normalised, &compute_obs_stats, &sum_obs_stats,
                   &merge_obs_stats, &compute_advantages, &sum_returns, &merge_returns, NULL);
    }
}

/* DI-engine's RunningMeanStd, of one number. */
struct running {
    double count, mean, var;
};

static void update(struct running *r, const double *x, int n)
{
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / n;
    const double total = r->count + n, delta = mean - r->mean;
    r->mean += delta * n / total;
    r->var = (r->var * r->count + var * n + delta * delta * r->count * n / total) / total;
    r->count = total;
}

/* Element j of the observation of a sample of a shard. */
static double element(const struct world *w, int64_t sample, int j)
{
    const struct hd_trajectories_shape *shape =
        hd_trajectories_get_shape(&world_get(w, "trajectories")->spec);
    const struct hd_trajectories t =
        hd_trajectories_get(INSTANCE(w, "trajectories"), sample / shape->samples);
    static char obs[ELEMENTS * sizeof(float)];
    hd_trajectories_copy_obs(shape, &t, t.row[sample % shape->samples], 0, obs);
    return shape->obs.u8 ? (double)((uint8_t *)obs)[j] : (double)((float *)obs)[j];
}

/* Every 97th element of a picture stands for the others. */
static int stride_of(const struct obs_case *c)
{
    return c->elements == ELEMENTS ? 97 : 1;
}

static void update_naive(struct running *running, struct world *const *worlds,
                         const struct obs_case *c)
{
    for (int j = 0; j < c->elements; j += stride_of(c)) {
        double x[MOST_ROWS];
        int n = 0;
        for (int s = 0; s < SHARDS; s++)
            for (int i = 0; i < c->rows; i++)
                x[n++] = element(worlds[s], (int64_t)i * c->samples / c->rows, j);
        update(&running[j], x, n);
    }
}

static void collect_all(struct world *const *worlds, int64_t iteration)
{
    for (int s = 0; s < SHARDS; s++) {
        world_run(worlds[s], &collect_normalised, iteration);
        world_run(worlds[s], &compute_obs_stats, 0);
    }
    worlds_combine(worlds, SHARDS, &sum_obs_stats);
    for (int s = 0; s < SHARDS; s++)
        world_run(worlds[s], &merge_obs_stats, 0);
}

static void check_obs_norm(const struct world *w, const struct running *running,
                           const struct obs_case *c, bool first)
{
    const struct value *value = world_get(w, "obs_norm");
    const struct hd_view view = {.spec = &value->spec, .data = value->data};
    const struct hd_moments of = hd_moments_get(&value->spec, value->data);
    struct hd_obs_norm norm;
    ck_assert_ptr_eq(hd_moments_get_obs_norm(&view, &norm), &norm);
    ck_assert_int_eq(hd_moments_count_elements(&value->spec), c->elements);
    ck_assert(norm.limit == 10);
    for (int j = 0; j < c->elements; j += stride_of(c)) {
        const struct running *r = &running[j];
        const double scale = first ? c->first_scale : 1 / sqrt(r->var + c->epsilon);
        CHECK_CLOSE(norm.scale[j], scale, scale, 1e-6, "scale");
        CHECK_CLOSE(norm.shift[j], -r->mean * scale, 1 + fabs(r->mean * scale), 1e-6, "shift");
        if (first)
            continue;
        CHECK_CLOSE(of.mean[j], r->mean, 1 + fabs(r->mean), 1e-12, "mean");
        CHECK_CLOSE(of.squares[j] / *of.count, r->var, 1 + r->var, 1e-11, "variance");
        ck_assert_double_eq_tol(*of.count, r->count, 1e-9);
    }
}

TEST(observations, .runs = CASES)
{
    static struct running running[ELEMENTS];
    const struct obs_case *c = &cases[_i];
    struct world *worlds[SHARDS];
    open_worlds(worlds, c);
    for (int j = 0; j < c->elements; j++)
        running[j] = (struct running){1e-4, 0, 1};
    check_obs_norm(worlds[0], running, c, true);
    for (int64_t iteration = 0; iteration < ITERATIONS; iteration++) {
        collect_all(worlds, iteration);
        update_naive(running, worlds, c);
        for (int s = 0; s < SHARDS; s++) {
            value_save_load(world_get(worlds[s], "obs_norm"));
            check_obs_norm(worlds[s], running, c, false);
        }
        ck_assert_uint_eq(value_hash(world_get(worlds[0], "obs_norm")),
                          value_hash(world_get(worlds[3], "obs_norm")));
    }
}

/* Before there are samples, bytes are divided by 255 as without statistics. */
TEST(first_observations_enter_as_without_statistics, .runs = CASES)
{
    const struct obs_case *c = &cases[_i];
    struct world *worlds[SHARDS];
    open_worlds(worlds, c);
    const struct world *w = worlds[0];
    const struct hd_net *net = world_net(w, "policy");
    const struct value *obs_norm = world_get(w, "obs_norm");
    const struct hd_view view = {.spec = &obs_norm->spec, .data = obs_norm->data};
    void *obs = test_alloc(1, (size_t)hd_net_get_obs_bytes(net));
    struct hd_obs_norm norm;
    float row_major[8], scaled[8];
    for (int64_t i = 0; i < hd_net_count_obs(net); i++)
        if (hd_net_has_u8_obs(net))
            ((uint8_t *)obs)[i] = (uint8_t)(i * 37);
        else
            ((float *)obs)[i] = (float)i / 3 - 1;
    world_forward(w, "policy", NULL, obs, 1, row_major);
    world_forward(w, "policy", hd_moments_get_obs_norm(&view, &norm), obs, 1, scaled);
    for (int64_t i = 0; i < hd_net_count_outputs(net); i++)
        CHECK_CLOSE(scaled[i], row_major[i], 1.0, 1e-6, "output");
}

/* -- On a GPU ---------------------------------------------------------------------------------- */
/* What a CPU adds up and merges, by bytes, from the same samples. */

#if HD_CUDA

static void check_same_bytes(const struct value *wanted, const void *there)
{
    char *found = test_alloc(wanted->spec.bytes, 1);
    device_get(found, there, wanted->spec.bytes);
    ck_assert_mem_eq(found, wanted->data, (size_t)wanted->spec.bytes);
}

TEST(observations_cuda, .runs = CASES, .cuda = true)
{
    const struct obs_case *c = &cases[_i];
    struct world *worlds[SHARDS];
    void *seen[SHARDS];
    open_worlds(worlds, c);
    const struct value *of_shard = world_get(worlds[0], "obs_stats"),
                       *sum = world_get(worlds[0], "summed_obs_stats"),
                       *obs_norm = world_get(worlds[0], "obs_norm");
    const int64_t bytes = obs_norm->spec.bytes;
    void *summed = device_make(NULL, bytes), *norm = device_make(obs_norm->data, bytes);
    const struct hd_view views[] = {{.data = summed, .spec = &sum->spec},
                                    {.data = norm, .spec = &obs_norm->spec}};
    struct hd_context context = {.stream = device_stream()};
    for (int64_t iteration = 0; iteration < ITERATIONS; iteration++) {
        collect_all(worlds, iteration);
        for (int s = 0; s < SHARDS; s++)
            seen[s] = device_make(world_get(worlds[s], "obs_stats")->data, bytes);
        ck_assert_int_eq(hd_type_moments.reduction->reduce_on_gpu(
                             &of_shard->spec, 0, HD_SUM, SHARDS, (const void *const *)seen,
                             &sum->spec, summed, context.stream),
                         HD_OK);
        ck_assert_int_eq(hd_verb_merge_stats.gpu->body(&context, views, NULL), HD_OK);
        check_same_bytes(sum, summed);
        check_same_bytes(obs_norm, norm);
    }
}

#endif

/* -- Returns ----------------------------------------------------------------------------------- */

/* Over iterations of two epochs each, a shard without samples among the others. */
TEST(returns)
{
    enum { N = 40 };
    struct world *worlds[SHARDS];
    struct running running = {1e-4, 0, 1};
    open_worlds(worlds, &cases[0]);
    ck_assert_double_eq(world_field(worlds[0], "return_scale", "std"), sqrt(1 + 1e-8));
    for (int update_number = 0; update_number < 6; update_number++) {
        double all[SHARDS * N];
        int n = 0;
        for (int s = 0; s < SHARDS; s++) {
            struct hd_rng rng = hd_rng_make(3, 3, s, update_number, 0);
            float x[N];
            const int rows = s == update_number % SHARDS ? 0 : N;
            for (int i = 0; i < rows; i++)
                all[n++] = x[i] = (float)(10 * s + hd_rng_draw_uniform(&rng, (uint32_t)i));
            hd_moments_compute(x, rows, 1, hd_moments_get(INSTANCE(worlds[s], "returns")));
        }
        worlds_combine(worlds, SHARDS, &sum_returns);
        update(&running, all, n);
        for (int s = 0; s < SHARDS; s++) {
            const struct world *w = worlds[s];
            world_run(worlds[s], &merge_returns, 0);
            ck_assert_double_eq_tol(world_field(w, "return_scale", "count"), running.count, 1e-9);
            ck_assert_double_eq_tol(world_field(w, "return_scale", "mean"), running.mean, 1e-12);
            ck_assert_double_eq_tol(world_field(w, "return_scale", "std"), sqrt(running.var + 1e-8),
                                    1e-12);
        }
    }
}

/* Merging no samples leaves the running statistics as they are. */
TEST(no_samples_at_all)
{
    struct world *worlds[SHARDS];
    open_worlds(worlds, &cases[0]);
    for (int rows = 0; rows < 3; rows += 2) {
        const float x[] = {1, 3};
        const struct value *scale = world_get(worlds[0], "return_scale");
        const uint64_t hash = value_hash(scale);
        hd_moments_compute(x, rows, 1, hd_moments_get(INSTANCE(worlds[0], "returns")));
        worlds_combine(worlds, SHARDS, &sum_returns);
        world_run(worlds[0], &merge_returns, 0);
        ck_assert_int_eq(value_hash(scale) == hash, rows == 0);
    }
}

/* -- The learning rate ------------------------------------------------------------------------- */

static void push_kl(struct world *w, double kl)
{
    value_clear(world_get(w, "means"));
    if (!isnan(kl))
        hd_scalars_push(INSTANCE(w, "means"),
                        hd_value_find_field(&world_get(w, "means")->spec, "kl_avg"), kl, 1);
}

TEST(the_rate_follows_the_divergence)
{
    static const struct {
        const char *type;
        double kl, factor;
    } steps[] = {
        {"kl", 0.001, 2}, {"kl", 0.03, 0.5}, {"kl", 0.01, 1}, {"kl", NAN, 1},
        {"kl", 0.005, 1}, {"kl", 0.02, 1},   {"none", 0, 1},  {"none", 1, 1},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct world *w = make_on_policy(0);
        double rate = 0.001;
        world_set(w,
                  "policy.learn.lr_scheduler={type: %s, kl_low: 0.005, kl_high: 0.02, factor: 2, "
                  "min: 0.0003, max: 0.003}; policy.learn.learning_rate=0.001",
                  steps[i].type);
        open_on_policy(w);
        ck_assert(isnan(world_field(w, "learning_rate", "learning_rate")));
        for (int times = 0; times < 4; times++) {
            push_kl(w, steps[i].kl);
            world_run(w, &adapt_lr, times);
            rate = fmin(fmax(rate * steps[i].factor, 0.0003), 0.003);
            ck_assert_double_eq_tol(world_field(w, "learning_rate", "learning_rate"), rate, 1e-15);
        }
    }
}
