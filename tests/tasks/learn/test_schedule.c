/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that change while a run learns: against the formulas of CleanRL, Stable-Baselines3,
 * PyTorch and RLlib, and what steps make of them. */
#include "runtime/base/hash.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/schedule.h"
#include "tests/tasks/on_policy.h"

#include <math.h>

#define KEY "policy.learn.schedule."
#define RATE KEY "learning_rate={type: linear, end: 0}"

static const struct step compute = {.verb = &hd_verb_compute_schedule, .ports = "totals"},
                         compute_updates = {.verb = &hd_verb_compute_schedule},
                         scheduled_adam = {.verb = &hd_verb_adam, .ports = "grad_norm schedule"},
                         scheduled_loss = {&hd_verb_loss_grad, "stats schedule", "{loss: ppo}"};

/* -- Courses ----------------------------------------------------------------------------------- */

static struct world *open_totals(const char *sets)
{
    struct world *w = world_make(-1, 2);
    world_set(w, "policy.learn.learning_rate=3e-4; %s", sets);
    world_open(w, &compute, NULL);
    return w;
}

static double get_after(struct world *w, int64_t env_steps)
{
    ((struct hd_env_counters *)world_get(w, "totals")->data)->env_step = env_steps;
    world_run(w, &compute, 0);
    return world_field(w, "schedule", "learning_rate");
}

/* cleanrl/ppo.py: frac = 1.0 - (iteration - 1.0) / args.num_iterations; lrnow = frac * lr. */
TEST(linear_is_cleanrl_to_the_bit)
{
    for (int64_t iterations = 1; iterations < 1000; iterations += 97) {
        struct world *w = open_totals(RATE);
        world_close(w);
        char sets[160];
        snprintf(sets, sizeof sets, RATE "; " KEY "total=%lld", (long long)iterations * 512);
        w = open_totals(sets);
        for (int64_t iteration = 1; iteration <= iterations; iteration++) {
            const double frac = 1.0 - ((double)iteration - 1.0) / (double)iterations;
            ck_assert(get_after(w, (iteration - 1) * 512) == frac * 3e-4);
        }
        ck_assert(get_after(w, iterations * 512) == 0);
        ck_assert(get_after(w, iterations * 9999) == 0);
        world_close(w);
    }
}

/* stable_baselines3.common.utils.get_linear_fn(start, end, end_fraction). */
static double compute_sb3(double progress_remaining, double start, double end, double end_fraction)
{
    return 1 - progress_remaining > end_fraction
               ? end
               : start + (1 - progress_remaining) * (end - start) / end_fraction;
}

TEST(linear_with_an_end_is_stable_baselines3)
{
    struct world *w =
        open_totals(KEY "learning_rate={type: linear, end: 1e-5, until: 0.8}; " KEY "total=1000");
    for (int i = 0; i <= 1200; i++) {
        const double expected = compute_sb3(1 - i / 1000., 3e-4, 1e-5, 0.8);
        ck_assert_double_eq_tol(get_after(w, i), expected, 1e-15);
    }
}

/* torch.optim.lr_scheduler.CosineAnnealingLR, in closed form. */
TEST(cosine_is_pytorch)
{
    struct world *w = open_totals(KEY "learning_rate={type: cosine, end: 1e-5}; " KEY "total=640");
    for (int i = 0; i <= 640; i++)
        ck_assert_double_eq_tol(get_after(w, i),
                                1e-5 + (3e-4 - 1e-5) * (1 + cos(M_PI * i / 640)) / 2, 1e-18);
    ck_assert(get_after(w, 0) == 3e-4 && get_after(w, 640) == 1e-5);
}

/* RLlib's lr_schedule: lines between points, and here jumps. */
TEST(piecewise_goes_through_its_points)
{
    static const double at[][2] = {{0, 3e-4},    {125, 2e-4},  {250, 1e-4}, {499, 1e-4},
                                   {500, 5e-5},  {750, 4e-5},  {999, 4e-5}, {1000, 4e-5},
                                   {5000, 4e-5}, {625, 4.5e-5}};
    struct world *w = open_totals(
        KEY "learning_rate={type: piecewise, points: [[0.25, 1e-4], [0.5, 1e-4], [0.5, 5e-5], "
            "[0.75, 4e-5]]}; " KEY "total=1000");
    for (int i = 0; i < COUNT(at); i++)
        ck_assert_double_eq_tol(get_after(w, (int64_t)at[i][0]), at[i][1], 1e-18);
}

TEST(updates_count_where_they_are_asked_for)
{
    struct world *w = world_make(-1, 2);
    world_set(w, "policy.learn.learning_rate=1; " RATE "; " KEY "total=8; " KEY "over=update");
    world_open(w, &compute_updates, NULL);
    w->update = 6;
    world_run(w, &compute_updates, 0);
    ck_assert(world_field(w, "schedule", "learning_rate") == 0.25);
}

/* -- Readers ----------------------------------------------------------------------------------- */

/* Returns a hash of the parameters after an update. */
static uint64_t learn_once(const char *sets, bool scheduled)
{
    struct world *w = make_on_policy(0);
    world_set(w, "policy.collect.n_sample=32; policy.learn.batch_size=32; %s", sets);
    if (scheduled)
        world_add(w, &compute, NULL);
    world_add(w, &collect, &compute_advantages, &shuffle, &sample_minibatch, NULL);
    if (scheduled)
        world_add(w, &scheduled_loss, &mean_grad, &scheduled_adam, NULL);
    open_on_policy(w);
    if (scheduled) {
        ((struct hd_env_counters *)world_get(w, "totals")->data)->env_step = 512;
        world_run(w, &compute, 0);
    }
    world_run(w, &collect, 0);
    world_run(w, &compute_advantages, 0);
    for (int epoch = 0; epoch < 3; epoch++) {
        world_run(w, &shuffle, epoch);
        world_run(w, &sample_minibatch, epoch);
        world_run(w, scheduled ? &scheduled_loss : &loss_grad, epoch);
        worlds_combine(&w, 1, &mean_grad);
        world_run(w, &grad_norm, 0);
        world_run(w, scheduled ? &scheduled_adam : &adam, 0);
    }
    const struct value *policy = world_get(w, "policy");
    const uint64_t hash = hd_value_hash(&policy->spec, policy->data);
    const double total = world_field(w, "stats", "total_loss_avg");
    world_close(w);
    return hd_hash_mix(hash, hd_hash_bytes(&total, sizeof total));
}

/* Half way, what is scheduled is what the run file would say: parameters and the logged loss. */
TEST(steps_learn_by_the_numbers_of_now)
{
    static const char half[] = KEY "total=1024; ";
    static const struct {
        const char *constant, *scheduled;
    } cases[] = {
        {"policy.learn.learning_rate=0.125",
         "policy.learn.learning_rate=0.25; " KEY "learning_rate={type: linear, end: 0}"},
        {"policy.learn.learning_rate=0.1; policy.learn.clip_ratio=0.0625",
         "policy.learn.learning_rate=0.1; policy.learn.clip_ratio=0.125; " KEY
         "clip_ratio={type: linear, end: 0}"},
        {"policy.learn.entropy_weight=0.75",
         "policy.learn.entropy_weight=0.5; " KEY "entropy_weight={type: cosine, end: 1}"},
    };
    uint64_t hashes[COUNT(cases)];
    for (int i = 0; i < COUNT(cases); i++) {
        char sets[320];
        snprintf(sets, sizeof sets, "%s%s", half, cases[i].scheduled);
        hashes[i] = learn_once(sets, true);
        ck_assert_uint_eq(hashes[i], learn_once(cases[i].constant, false));
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(hashes[i], hashes[k]);
    }
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

TEST(mistakes)
{
    static const struct {
        const char *sets;
        struct step step;
        const char *names;
    } mistakes[] = {
        {KEY "learning_rate={type: line, end: 0}", compute, "linear, cosine or piecewise"},
        {KEY "learning_rate={end: 0}", compute, "linear, cosine or piecewise"},
        {KEY "learning_rate={type: linear}", compute, "needs its field end"},
        {KEY "learning_rate={type: linear, end: -1}", compute, "a number in [0, 1000], found -1"},
        {KEY "learning_rate={type: linear, end: [0]}", compute, "found a list"},
        {KEY "learning_rate={type: cosine, end: 0, until: 2}", compute, "until: expected"},
        {KEY "learning_rate={type: linear, end: 0, from: 1}", compute, "no field 'from'"},
        {KEY "learning_rate={type: piecewise}", compute, "needs its field points"},
        {KEY "learning_rate={type: piecewise, points: [[0.5, 1], [0.4, 2]]}", compute,
         "a number in [0.5, 1], found 0.4"},
        {KEY "learning_rate={type: piecewise, points: [1, 2]}", compute, "a pair"},
        {RATE, compute_updates, "counts updates"},
        {RATE, adam, "step compute_schedule under `reads`"},
        {KEY "clip_ratio={type: linear, end: 0}", loss_grad, "schedule.clip_ratio needs"},
        {RATE "; policy.learn.lr_scheduler.type=kl", scheduled_adam, "leave one of them out"},
    };
    for (int i = 0; i < COUNT(mistakes); i++) {
        struct world *w = make_on_policy(0);
        world_set(w, KEY "total=10; %s", mistakes[i].sets);
        if (mistakes[i].step.verb == &hd_verb_compute_schedule) {
            world_declare(w, (struct hd_spec){.name = "totals", .type = &hd_type_env_counters},
                          NULL);
            world_declare(w, (struct hd_spec){.name = "schedule", .type = &hd_type_scalars}, NULL);
        } else {
            world_add(w, &compute, &collect, NULL);
            open_on_policy(w);
        }
        const char *line = world_mistake(w, &mistakes[i].step);
        ck_assert_msg(strstr(line, mistakes[i].names), "%s", line);
    }
}
