/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `record`: plays envs of role collector and records their transitions in rounds, each of
 * which continues where the last one ended. The action of each env is the policy's greedy one or,
 * with probability `epsilon`, a random one. One call plays one step of all envs, so that long
 * rounds can be interrupted.
 *
 * Items of the step's stream, for step t over E envs: 2 (t E + e) is the coin of env e, and 2 (t E
 * + e) + 1 its random action. */
#include "kernels/act/draw.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/collect/stepper.h"
#include "tasks/types/base/policy_net.h"
#include "tasks/types/data/transition_log.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/moments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { POLICY, ENVS, TRANSITION_LOG, NORM, BATCH_NORM_STATS };

static const struct hd_port ports[] = {
    [POLICY] = {"policy", "params", .mode = HD_READ},
    [ENVS] = {"envs", "envs", .mode = HD_UPDATE},
    [TRANSITION_LOG] = {"transition_log", "transition_log", .mode = HD_WRITE},
    [NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true},
    [BATCH_NORM_STATS] = {"batch_norm_stats", "batch_norm_stats", .mode = HD_READ,
                          .optional = true},
    {0},
};

static const struct hd_option options[] = {
    {"transitions", NULL, true}, {"epsilon", NULL, true}, {0}};

struct args {
    double epsilon;
    int64_t scratch;
};

static int wrong_number(const struct hd_setup *setup, const char *name, const char *range)
{
    return hd_diag_add_error(setup->diag, hd_node_get(setup->options, name)->location,
                             "%s: expected %s, found '%s'", name, range,
                             hd_setup_get_option(setup, name));
}

static int record_declare(const struct hd_setup *setup)
{
    enum { TRANSITIONS_MAX = 1000000000, ROUND_BYTES = 16 << 20 };
    const char *text = hd_setup_get_option(setup, "transitions");
    char *end;
    errno = 0;
    long long transitions = strtoll(text, &end, 10);
    if (errno || end == text || *end || transitions < 1 || transitions > TRANSITIONS_MAX)
        return wrong_number(setup, "transitions", "an integer from 1 to 10^9");
    HD_TRY(hd_moments_declare_obs(setup, setup->specs[NORM]));
    return hd_transition_log_declare(setup, setup->specs[TRANSITION_LOG], transitions, ROUND_BYTES);
}

static int record_prepare(const struct hd_setup *setup, void **args_p)
{
    HD_TRY(hd_envs_check_role(setup->specs[ENVS], setup, false));
    const char *text = hd_setup_get_option(setup, "epsilon");
    char *end;
    double epsilon = strtod(text, &end);
    if (end == text || *end || !(epsilon >= 0 && epsilon <= 1))
        return wrong_number(setup, "epsilon", "a number from 0 to 1");
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->epsilon = epsilon;
    HD_TRY(hd_policy_net_check(setup, hd_params_get_net(setup->specs[POLICY])));
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[POLICY], BATCH_NORM_STATS));
    return hd_stepper_prepare(hd_envs_get_shape(setup->specs[ENVS]),
                              hd_params_get_net(setup->specs[POLICY]), &args->scratch);
}

static int64_t record_scratch(const void *args)
{
    return ((const struct args *)args)->scratch;
}

/* A round in progress. One call leaves everything for the next in the envs and the transition log.
 */
struct recorder {
    struct hd_context *context;
    const struct hd_view *views;
    const struct hd_envs_shape *shape;
    double epsilon;
    struct hd_envs envs;
    struct hd_stepper stepper;
    struct hd_transition_log to;
    int64_t steps;
};

static char *frame_at(const struct recorder *r, int64_t i)
{
    return r->to.frame + i * r->shape->obs.frame_bytes;
}

static int32_t *get_obs_frames(const struct recorder *r, int64_t env)
{
    return r->to.present + env * r->shape->obs.stack;
}

/* Starts an episode of env `env`, whose first frame stands in for those before it. */
static int start(struct recorder *r, int64_t env)
{
    const int64_t frame = (*r->to.n_frames)++;
    for (int64_t k = 0; k < r->shape->obs.stack; k++)
        get_obs_frames(r, env)[k] = (int32_t)frame;
    return hd_stepper_start_next(r->shape, &r->envs, env, env, frame_at(r, frame), r->context);
}

/* Makes the observation in which the last round left env `env` the first frames of this round. */
static void carry_over_obs(struct recorder *r, int64_t env)
{
    const struct hd_obs_shape *obs = &r->shape->obs;
    const int64_t first = *r->to.n_frames;
    memcpy(frame_at(r, first), r->envs.obs + env * obs->obs_bytes, (size_t)obs->obs_bytes);
    for (int64_t k = 0; k < obs->stack; k++)
        get_obs_frames(r, env)[k] = (int32_t)(first + k);
    *r->to.n_frames += obs->stack;
}

static int begin(struct recorder *r)
{
    *r->to.played = *r->to.n_frames = *r->to.episodes = 0;
    *r->to.returns = 0;
    for (int64_t env = 0; env < r->shape->envs; env++) {
        if (r->envs.shown[env] == 0)
            HD_TRY(start(r, env));
        else
            carry_over_obs(r, env);
    }
    return HD_OK;
}

static void choose_actions(const struct recorder *r)
{
    const struct hd_rng *rng = &r->context->rng;
    struct hd_obs_norm norm;
    hd_stepper_choose_greedy(&r->stepper, r->shape, &r->envs,
                             hd_params_get_net(r->views[POLICY].spec), r->views[POLICY].data,
                             hd_moments_get_obs_norm(&r->views[NORM], &norm));
    for (int64_t env = 0; env < r->shape->envs && r->epsilon > 0; env++) {
        const uint32_t coin =
            (uint32_t)((1 + r->shape->frame.actions.dims) * (*r->to.played * r->shape->envs + env));
        if (hd_rng_draw_uniform(rng, coin) < r->epsilon)
            hd_stepper_choose_randomly(&r->stepper, r->shape, env, rng, coin + 1);
    }
}

/* Writes the last step of env `env`, which led to frame `frame`, to row `row`. */
static void write_row(const struct recorder *r, int64_t env, int64_t row, int64_t frame)
{
    const int64_t stack = r->shape->obs.stack, dims = r->shape->frame.actions.dims;
    const size_t bytes = (size_t)stack * sizeof(int32_t);
    int32_t *present = get_obs_frames(r, env);
    memcpy(r->to.obs + row * stack, present, bytes);
    memmove(present, present + 1, bytes - sizeof *present);
    present[stack - 1] = (int32_t)frame;
    memcpy(r->to.next_obs + row * stack, present, bytes);
    memcpy(r->to.action + row * dims, r->stepper.taken + env * dims,
           (size_t)dims * sizeof *r->to.action);
    r->to.reward[row] = r->stepper.outcome.reward[env];
    r->to.done[row] = r->stepper.outcome.done[env];
    r->to.truncated[row] = r->stepper.outcome.truncated[env];
    r->to.episode[row] = (int32_t)r->envs.episode[env];
}

/* Steps all envs once, which write their frames into the transition log. */
static int step(struct recorder *r)
{
    const int64_t first = *r->to.n_frames, envs = r->shape->envs;
    choose_actions(r);
    r->stepper.outcome.obs = frame_at(r, first);
    *r->to.n_frames += envs;
    HD_TRY(hd_stepper_step(&r->stepper, r->shape, &r->envs, r->context));
    for (int64_t env = 0; env < envs; env++) {
        write_row(r, env, env * r->steps + *r->to.played, first + env);
        if (!r->stepper.outcome.done[env])
            continue;
        ++*r->to.episodes;
        *r->to.returns += r->envs.episode_return[env];
        r->envs.episode[env]++;
        HD_TRY(start(r, env));
    }
    ++*r->to.played;
    return HD_OK;
}

static int record_body(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    const struct hd_transition_log_shape *shape =
        hd_transition_log_get_shape(views[TRANSITION_LOG].spec);
    struct recorder r = {
        .context = context,
        .views = views,
        .shape = hd_envs_get_shape(views[ENVS].spec),
        .epsilon = args->epsilon,
        .envs = hd_envs_get(views[ENVS].spec, views[ENVS].data, 0),
        .to = hd_transition_log_get(shape, views[TRANSITION_LOG].data),
        .steps = shape->steps,
    };
    r.stepper = hd_stepper_get(r.shape, hd_params_get_net(views[POLICY].spec), context->scratch);
    r.stepper.running = hd_batch_norm_stats_get_running(views[BATCH_NORM_STATS].data);
    if (!context->again)
        HD_TRY(begin(&r));
    HD_TRY(step(&r));
    return *r.to.played < shape->steps ? HD_AGAIN : HD_OK;
}

const struct hd_verb hd_verb_record = {
    .name = "record",
    .stream_id = 0x5071f2d417f91bab,
    .ports = ports,
    .options = options,
    .declare = record_declare,
    .prepare = record_prepare,
    .scratch = record_scratch,
    .body = record_body,
    .help = "plays environments and records all their transitions",
};
