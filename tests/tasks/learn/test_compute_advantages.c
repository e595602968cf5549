/* SPDX-License-Identifier: Apache-2.0 */
/* compute_advantages (docs/di-engine.md 3.4) against a naive pass over each fragment, which
 * computes the value of every sample's next observation. */
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/check_close.h"
#include "tests/tasks/on_policy.h"

enum { MAX_STEPS = 256 };

#define BLINK                                                                                      \
    "env={type: blink, options: {longest: 12}}; policy.model.action_shape=3; "                     \
    "policy.model.encoder_hidden_size_list=[16,16,32,48]; "
static const struct {
    const char *net;
    double rounding; /* of a row's value when other rows go beside it */
} nets[] = {
    {"policy.model.encoder_hidden_size_list=[24,16]", 1e-6},
    {"policy.model.encoder_hidden_size_list=[24,16]; env.frame_stack=3; policy.model.obs_shape=12",
     1e-6},
    {BLINK "env.frame_stack=2; policy.model.obs_shape=[2,36,40]", 1e-6},
    {BLINK "runtime.precision=bf16; policy.model.obs_shape=[1,36,40]", 2e-2},
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

static struct world *open_case(const struct advantages_case *c, int net, int microbatch)
{
    const struct step *collects = c->obs_norm ? &collect_normalised : &collect;
    struct world *w = make_on_policy(1);
    world_set(w, "policy.collect.n_sample=%d; env.collector_env_num=%d", c->n_sample, c->envs);
    world_set(w, "policy.collect.env_groups=%d; policy.collect.segment_at_done=%s", c->groups,
              c->segment_at_done ? "true" : "false");
    world_set(w, "policy.learn.microbatch=%d; policy.learn.value_norm=%s", microbatch,
              c->value_norm ? "true" : "false");
    world_set(w, "policy.collect.discount_factor=0.9; policy.collect.gae_lambda=0.8; %s",
              nets[net].net);
    world_open(w, collects, &compute_advantages_normalised, NULL);
    add_moments(world_get(w, "return_scale"), 1, -3, 5);
    add_moments(world_get(w, "obs_norm"), 2, 0, net < 2 ? 1 : 255);
    for (int64_t iteration = 0; iteration < 3; iteration++)
        world_run(w, collects, iteration); /* the third starts in the middle of episodes */
    return w;
}

static void run_advantages(struct world *w, const struct advantages_case *c)
{
    world_run(w, c->obs_norm ? &compute_advantages_normalised : &compute_advantages, 0);
}

/* -- Against a naive pass ---------------------------------------------------------------------- */

/* Returns the value of the observation before a step, or after it, computed alone. */
static double value_of(const struct world *w, const struct hd_trajectories *t, int64_t step,
                       int ahead, bool normalised)
{
    const struct hd_view view = {.spec = &world_get(w, "obs_norm")->spec,
                                 .data = normalised ? world_get(w, "obs_norm")->data : NULL};
    struct hd_obs_norm norm;
    float out[8], obs[2 * 36 * 40 / sizeof(float)];
    hd_trajectories_copy_obs(hd_trajectories_get_shape(&world_get(w, "trajectories")->spec), t,
                             step, ahead, obs);
    world_forward(w, "policy", hd_moments_get_obs_norm(&view, &norm), obs, 1, out);
    return out[hd_net_count_outputs(world_net(w, "policy")) - 1];
}

struct naive_rows {
    double advantage[MAX_STEPS], target[MAX_STEPS], value[MAX_STEPS];
    double mean, squares; /* of the returns in units of rewards */
};

/* DI-engine's loop over the samples of one group after another, from the last to the first. */
static void naive_advantages(const struct world *w, const struct advantages_case *c,
                             struct naive_rows *rows)
{
    const int quota = c->n_sample / c->groups;
    const double gamma = 0.9, lambda = 0.8;
    const double unit = c->value_norm ? world_field(w, "return_scale", "std") : 1;
    double returns[MAX_STEPS];
    rows->mean = rows->squares = 0;
    for (int g = 0; g < c->groups; g++) {
        const struct hd_trajectories t = hd_trajectories_get(INSTANCE(w, "trajectories"), g);
        double advantage = 0;
        for (int i = quota - 1; i >= 0; i--) {
            const int64_t step = t.row[i], at = g * quota + i;
            const double v = value_of(w, &t, step, 0, c->obs_norm) * unit;
            const double next = value_of(w, &t, step, 1, c->obs_norm) * unit;
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
    struct world *w = open_case(c, net, 0);
    struct naive_rows rows;
    run_advantages(w, c);
    naive_advantages(w, c, &rows);
    const struct hd_advantages found = get_advantages(w);
    for (int i = 0; i < c->n_sample; i++) {
        CHECK_CLOSE(found.value[i], rows.value[i], 1.0, nets[net].rounding, "value");
        CHECK_CLOSE(found.advantage[i], rows.advantage[i], 1.0, off, "advantage");
        CHECK_CLOSE(found.target[i], rows.target[i], 1.0, off, "target");
    }
    const struct hd_moments of = hd_moments_get(INSTANCE(w, "returns"));
    ck_assert_double_eq(*of.count, c->n_sample);
    CHECK_CLOSE(*of.mean, rows.mean, 1.0, off, "mean");
    CHECK_CLOSE(*of.squares, rows.squares, c->n_sample, 20 * off, "squares");
}

/* Without running statistics values count as they are, whatever value_norm says. */
TEST(values_without_a_scale)
{
    static const struct advantages_case c = {64, 4, 1, true, false, false};
    static const struct step without_scale = {.verb = &hd_verb_compute_advantages};
    struct world *w = open_case(&c, 0, 0);
    float value[64];
    run_advantages(w, &c);
    memcpy(value, get_advantages(w).value, sizeof value);
    const uint64_t hash = value_hash(world_get(w, "advantages"));
    world_run(w, &without_scale, 0);
    ck_assert_uint_eq(value_hash(world_get(w, "advantages")), hash);
    ck_assert_mem_eq(get_advantages(w).value, value, sizeof value);
}

/* -- Blocks ------------------------------------------------------------------------------------ */

/* A block is a microbatch. The order in which blocks run changes no bit; their length changes only
 * the rounding of convolutions. */
TEST(blocks, .runs = count_nets())
{
    static const struct advantages_case c = {60, 4, 2, true, true, true};
    static const int microbatches[] = {60, 1, 7, 20, 64};
    struct naive_rows whole;
    for (int i = 0; i < 5; i++) {
        uint64_t hash[2];
        struct world *w = open_case(&c, _i, microbatches[i]);
        for (int order = 0; order < 2; order++) {
            w->first_item_first = order;
            run_advantages(w, &c);
            hash[order] =
                value_hash(world_get(w, "advantages")) ^ value_hash(world_get(w, "returns"));
        }
        ck_assert_uint_eq(hash[0], hash[1]);
        const struct hd_advantages found = get_advantages(w);
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
    }
}
