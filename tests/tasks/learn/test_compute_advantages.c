/* SPDX-License-Identifier: Apache-2.0 */
/* compute_advantages (docs/di-engine.md 3.4) against a naive pass over each fragment, which
 * computes the value of every sample's next observation. */
#include "kernels/net/obs_norm.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/check_close.h"
#include "tests/tasks/collect/on_policy.h"

enum { MAX_STEPS = 256 };

static const struct {
    const char *net[5];
    double rounding; /* of a row's value when other rows go beside it */
} nets[] = {
    {{"policy.model.encoder_hidden_size_list=[24,16]", "runtime.precision=f32"}, 1e-6},
    {{"env.frame_stack=3", "policy.model.obs_shape=12",
      "policy.model.encoder_hidden_size_list=[24,16]"},
     1e-6},
    {{"env={type: blink, options: {longest: 12}}", "env.frame_stack=2",
      "policy.model.obs_shape=[2,36,40]", "policy.model.action_shape=3",
      "policy.model.encoder_hidden_size_list=[16,16,32,48]"},
     1e-6},
    {{"env={type: blink, options: {longest: 12}}", "policy.model.obs_shape=[1,36,40]",
      "policy.model.action_shape=3", "policy.model.encoder_hidden_size_list=[16,16,32,48]",
      "runtime.precision=bf16"},
     2e-2},
};
enum { NETS = sizeof nets / sizeof *nets };

/* The last one is in bf16. */
static int count_nets(void)
{
    return bf16_here() ? NETS : NETS - 1;
}

static const struct advantages_case {
    int n_sample, envs, groups;
    bool segment_at_done, value_norm, obs_norm;
} cases[] = {
    {64, 4, 1, true, true, false},  {64, 4, 2, true, true, true},  {60, 4, 2, false, false, false},
    {50, 4, 1, true, false, false}, {45, 6, 3, true, true, false}, {9, 4, 1, false, true, true},
    {3, 4, 1, true, true, false},   {1, 1, 1, true, true, false},  {90, 2, 2, true, true, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static void add_moments(struct value *value, uint64_t seed, float low, float high)
{
    enum { ROWS = 6 };
    const int64_t n = hd_moments_count_elements(&value->spec);
    struct hd_rng rng = hd_rng_make(seed, 4, 3, 2, 1);
    float *x = hd_alloc(ROWS * n, sizeof *x);
    void *other = hd_alloc(1, (size_t)value->spec.bytes);
    for (int64_t i = 0; i < ROWS * n; i++)
        x[i] = low + (high - low) * (float)hd_rng_draw_uniform(&rng, (uint32_t)i);
    hd_moments_compute(x, ROWS, n, hd_moments_get(&value->spec, other));
    hd_moments_join(&value->spec, value->data, other);
    hd_free(other);
    hd_free(x);
}

static void open_case(struct world *w, const struct advantages_case *c, int net, int microbatch)
{
    char text[5][64];
    const char *sets[16] = {text[0],
                            text[1],
                            text[2],
                            text[3],
                            text[4],
                            c->value_norm ? "policy.learn.value_norm=true"
                                          : "policy.learn.value_norm=false",
                            "policy.collect.discount_factor=0.9",
                            "policy.collect.gae_lambda=0.8"};
    int n = 8;
    snprintf(text[0], sizeof text[0], "policy.collect.n_sample=%d", c->n_sample);
    snprintf(text[1], sizeof text[1], "env.collector_env_num=%d", c->envs);
    snprintf(text[2], sizeof text[2], "policy.collect.env_groups=%d", c->groups);
    snprintf(text[3], sizeof text[3], "policy.collect.segment_at_done=%s",
             c->segment_at_done ? "true" : "false");
    snprintf(text[4], sizeof text[4], "policy.learn.microbatch=%d", microbatch);
    for (int i = 0; i < 5 && nets[net].net[i]; i++)
        sets[n++] = nets[net].net[i];
    *w = (struct world){.plays = true, .normalised = c->obs_norm, .shard = 1};
    world_open(w, sets, n);
    add_moments(&w->v[SCALE], 1, -3, 5);
    add_moments(&w->v[OBS_NORM], 2, 0, net < 2 ? 1 : 255);
    for (int64_t iteration = 0; iteration < 3; iteration++)
        world_collect(w, iteration); /* the third collect starts in the middle of episodes */
}

/* -- Against a naive pass ---------------------------------------------------------------------- */

/* Returns the value of the observation before a step, or after it, computed alone. */
static double value_of(const struct world *w, const struct hd_trajectories *t, int64_t step,
                       int ahead)
{
    const struct hd_net *net = hd_params_get_net(&w->v[POLICY].spec);
    const struct hd_view view = {.spec = &w->v[OBS_NORM].spec,
                                 .data = w->normalised ? w->v[OBS_NORM].data : NULL};
    struct hd_obs_norm norm;
    float out[8];
    void *obs = hd_alloc(1, (size_t)hd_net_get_obs_bytes(net));
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, 1));
    hd_trajectories_copy_obs(hd_trajectories_get_shape(&w->v[TRAJECTORIES].spec), t, step, ahead,
                             obs);
    hd_net_forward(net, w->v[POLICY].data, hd_moments_get_obs_norm(&view, &norm), obs, 1, work,
                   out);
    hd_free(obs);
    hd_free(work);
    return out[hd_net_count_outputs(net) - 1];
}

struct naive_rows {
    double advantage[MAX_STEPS], target[MAX_STEPS], value[MAX_STEPS];
    double mean, squares; /* of the returns in units of rewards */
};

/* DI-engine's loop over the samples of one group after another, from the last to the first. */
static void naive_advantages(const struct world *w, const struct advantages_case *c,
                             struct naive_rows *rows)
{
    const struct hd_spec *spec = &w->v[TRAJECTORIES].spec;
    const int quota = c->n_sample / c->groups;
    const double gamma = 0.9, lambda = 0.8;
    const double unit = c->value_norm ? world_field(w, SCALE, "std") : 1;
    double returns[MAX_STEPS];
    rows->mean = rows->squares = 0;
    for (int g = 0; g < c->groups; g++) {
        const struct hd_trajectories t = hd_trajectories_get(spec, w->v[TRAJECTORIES].data, g);
        double advantage = 0;
        for (int i = quota - 1; i >= 0; i--) {
            const int64_t step = t.row[i], at = g * quota + i;
            const double v = value_of(w, &t, step, 0) * unit;
            const double next = value_of(w, &t, step, 1) * unit;
            const double done = (double)t.done[step];
            /* Steps of a fragment follow one another; the quota ends the last one. */
            const bool ends =
                i + 1 == quota || done != 0 || t.row[i + 1] != step + 1 || t.end[i] != 0;
            const double delta = (double)t.reward[step] + gamma * next * (1 - done) - v;
            advantage = delta + gamma * lambda * (ends ? 0 : advantage);
            returns[at] = v + advantage;
            rows->advantage[at] = advantage;
            rows->target[at] = returns[at] / unit;
            rows->value[at] = v / unit;
        }
    }
    for (int i = 0; i < c->n_sample; i++)
        rows->mean += returns[i] / c->n_sample;
    for (int i = 0; i < c->n_sample; i++)
        rows->squares += (returns[i] - rows->mean) * (returns[i] - rows->mean);
}

TEST(advantages_are_those_of_a_naive_pass, .runs = count_nets() * CASES)
{
    const struct advantages_case *c = &cases[_i % CASES];
    const int net = _i / CASES;
    const double off = 20 * nets[net].rounding; /* sums over fragments */
    struct world w;
    struct naive_rows rows;
    open_case(&w, c, net, 0);
    world_compute_advantages(&w);
    naive_advantages(&w, c, &rows);
    const struct hd_advantages found = world_rows(&w);
    for (int i = 0; i < c->n_sample; i++) {
        CHECK_CLOSE(found.value[i], rows.value[i], 1.0, nets[net].rounding, "value");
        CHECK_CLOSE(found.advantage[i], rows.advantage[i], 1.0, off, "advantage");
        CHECK_CLOSE(found.target[i], rows.target[i], 1.0, off, "target");
    }
    const struct hd_moments of = hd_moments_get(&w.v[RETURNS].spec, w.v[RETURNS].data);
    ck_assert_double_eq(*of.count, c->n_sample);
    CHECK_CLOSE(*of.mean, rows.mean, 1.0, off, "mean");
    CHECK_CLOSE(*of.squares, rows.squares, c->n_sample, 20 * off, "squares");
    world_close(&w);
}

/* Without running statistics values count as they are, whatever value_norm says. */
TEST(values_without_a_scale)
{
    static const struct advantages_case c = {64, 4, 1, true, false, false};
    struct world w;
    float value[64];
    open_case(&w, &c, 0, 0);
    world_compute_advantages(&w);
    memcpy(value, world_rows(&w).value, sizeof value);
    const uint64_t hash = value_hash(&w.v[ADVANTAGES]);
    world_run(&w, &hd_verb_compute_advantages,
              (int[]){POLICY, TRAJECTORIES, NONE, NONE, ADVANTAGES, NONE, N_VALUES},
              world_at(&w, 0, 0));
    ck_assert_uint_eq(value_hash(&w.v[ADVANTAGES]), hash);
    ck_assert_mem_eq(world_rows(&w).value, value, sizeof value);
    world_close(&w);
}

/* -- Blocks ------------------------------------------------------------------------------------ */

/* A block is a microbatch. The order in which blocks run changes no bit; their length changes only
 * the rounding of convolutions. */
TEST(blocks, .runs = count_nets())
{
    static const struct advantages_case c = {60, 4, 2, true, true, true};
    static const int microbatches[] = {60, 1, 7, 20, 64};
    struct naive_rows whole;
    struct world w;
    for (int i = 0; i < 5; i++) {
        uint64_t hash[2];
        open_case(&w, &c, _i, microbatches[i]);
        for (int order = 0; order < 2; order++) {
            first_item_first = order;
            world_compute_advantages(&w);
            hash[order] = value_hash(&w.v[ADVANTAGES]) ^ value_hash(&w.v[RETURNS]);
        }
        ck_assert_uint_eq(hash[0], hash[1]);
        const struct hd_advantages found = world_rows(&w);
        for (int j = 0; j < c.n_sample; j++) {
            if (i == 0) {
                whole.value[j] = (double)found.value[j];
                whole.target[j] = (double)found.target[j];
            }
            CHECK_CLOSE(found.value[j], whole.value[j], 1.0, nets[_i].rounding, "value");
            CHECK_CLOSE(found.target[j], whole.target[j], 1.0, 20 * nets[_i].rounding, "target");
            if (_i < 2)
                ck_assert(found.target[j] == (float)whole.target[j]); /* dense nets: by bits */
        }
        world_close(&w);
    }
}
