/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `collect`: plays a shard's envs, all stepping together, until n_sample transitions are made
 * (docs/di-engine.md 4, off-policy). Fragments that are unfinished then go on in the next collect;
 * what is done with samples beyond n_sample says policy.collect.surplus.
 *
 * It is one task, which gives its worker up while envs step in other processes. With a GPU and
 * policy.collect.overlap_act_step there are two tasks for each step: in one the GPU acts, in the
 * other a CPU steps. Frames go to the GPU as they are shown, and actions come back.
 *
 * Items of the step's stream, for forward pass f over E envs: f (E + 1) is the coin that decides
 * between greedy and random actions for all envs at once (docs/di-engine.md 2.7), and f (E + 1) + 1
 * + e is the random action of env e.
 *
 * A policy whose numbers are squashed (sac) draws its actions instead, at first uniformly
 * (policy.random_collect_size). Number d of env e in steps k policy.collect.noise_repeat and after
 * of an episode is item e dims + d of a stream of its own at (shard, episode, k). */
#include "kernels/act/exploration.h"
#include "kernels/learn/losses/dqn_loss.h"
#include "kernels/replay/nstep.h"
#include "kernels/rollout/frame_upload.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/arena.h"
#include "tasks/base/builtin.h"
#include "tasks/collect/episodes.h"
#include "tasks/collect/reward_stats.h"
#include "tasks/collect/stepper.h"
#include "tasks/types/base/policy_net.h"
#include "tasks/types/collect/surplus.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/moments.h"

#include <string.h>

enum { POLICY, TOTALS, ENVS, COUNTERS, EPISODES, TRANSITION_BLOCK, NORM, REWARD_STATS };

static const struct hd_port ports[] = {
    [POLICY] = {"policy", "params", .mode = HD_READ, .scope = HD_SCOPE_ALL},
    [TOTALS] = {"totals", "env_counters", .mode = HD_READ, .scope = HD_SCOPE_ALL},
    [ENVS] = {"envs", "envs", .mode = HD_UPDATE, .scope = HD_SCOPE_ALL},
    [COUNTERS] = {"counters", "env_counters", .mode = HD_UPDATE, .scope = HD_SCOPE_FINISH},
    [EPISODES] = {"episodes", "scalars", .mode = HD_UPDATE, .none = true, .scope = HD_SCOPE_ALL},
    [TRANSITION_BLOCK] = {"transitions", "transition_block", .mode = HD_WRITE,
                          .scope = HD_SCOPE_ALL},
    [NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true, .scope = HD_SCOPE_ALL},
    [REWARD_STATS] = {"reward_stats", "moments", .mode = HD_WRITE, .optional = true,
                      .scope = HD_SCOPE_FINISH},
    {0},
};

struct args {
    int64_t n_sample, scratch;
    const struct hd_net *net;
    const struct hd_envs_shape *envs;
    int64_t steps; /* most steps of a collect */
    bool overlap_act_step, corrects_tail;
    bool takes_turns; /* another env is the first in each collect */
    double gamma;
    struct hd_epsilon epsilon;
    bool bootstraps;      /* ends by time limits are no terminal states */
    int64_t random_size;  /* samples of a shard by random actions, before a squashed policy acts */
    int64_t noise_repeat; /* steps of an episode with the same noise */
};

static const struct hd_field fields[] = {
    HD_FIELD(struct args, overlap_act_step, "policy.collect.overlap_act_step"),
    HD_FIELD(struct args, n_sample, "policy.collect.n_sample"),
    HD_FIELD(struct args, gamma, "policy.discount_factor"),
    {0},
};

/* The last samples of a fragment have fewer rewards than others, if those have several. */
static const struct hd_field nstep_fields[] = {
    HD_FIELD_IS(struct args, corrects_tail, "policy.nstep_tail", "corrected"),
    {0},
};

static const struct hd_field choice_fields[] = {
    HD_FIELD_IS(struct args, epsilon.linear, "policy.other.eps.type", "linear"),
    HD_FIELD(struct args, epsilon.start, "policy.other.eps.start"),
    HD_FIELD(struct args, epsilon.end, "policy.other.eps.end"),
    HD_FIELD(struct args, epsilon.decay, "policy.other.eps.decay"),
    {0},
};

static const struct hd_field squashed_fields[] = {
    HD_FIELD(struct args, random_size, "policy.random_collect_size"),
    HD_FIELD(struct args, noise_repeat, "policy.collect.noise_repeat"),
    {0},
};

/* A random constant that no verb has as its stream_id. */
static const uint64_t NOISE_STREAM = 0xb7046e5f12cd983a;

static int collect_declare(const struct hd_setup *setup)
{
    HD_TRY(hd_moments_declare_norms(setup, setup->specs[NORM], setup->specs[REWARD_STATS]));
    return hd_episodes_declare(setup, setup->specs[EPISODES]);
}

static bool bootstraps(const struct hd_config *config, const struct hd_outputs *outputs)
{
    const char *truncation = hd_config_get_text(config, "policy.collect.truncation");
    return strcmp(truncation, "auto") == 0 ? outputs->squashed
                                           : strcmp(truncation, "bootstrap") == 0;
}

static int collect_prepare(const struct hd_setup *setup, void **args_p)
{
    const struct hd_config *config = setup->config;
    const struct hd_spec *envs = setup->specs[ENVS];
    HD_TRY(hd_envs_check_role(envs, setup, false));
    if (envs->partials > 1)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "%s steps all envs together: policy.collect.env_groups must be 1",
                                 setup->verb);
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    const struct hd_net *net = hd_params_get_net(setup->specs[POLICY]);
    const struct hd_transition_block_shape *block =
        hd_transition_block_get_shape(setup->specs[TRANSITION_BLOCK]);
    const struct hd_outputs *outputs = hd_envs_get_shape(envs)->outputs;
    if (hd_envs_get_shape(envs)->frame.actions.kind != HD_ENV_DISCRETE && !outputs->squashed)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "%s explores by one choice for each step, which env.type %s does "
                                 "not take",
                                 setup->verb, hd_envs_get_shape(envs)->env->name);
    HD_TRY(hd_policy_net_check(setup, net));
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[POLICY], HD_NO_BATCH_NORM_STATS));
    HD_TRY(hd_moments_check_norms(setup, ports, NORM, REWARD_STATS));
    HD_TRY(hd_stepper_prepare(hd_envs_get_shape(envs), net, &args->scratch));
    args->net = net;
    args->envs = hd_envs_get_shape(envs);
    args->steps = 2 * block->fragment - 1;
    hd_config_read(config, fields, args);
    hd_config_read(config, outputs->squashed ? squashed_fields : choice_fields, args);
    if (block->nstep > 1)
        hd_config_read(config, nstep_fields, args);
    args->takes_turns = hd_surplus_read(config, true) == HD_SURPLUS_TURNS;
    args->bootstraps = bootstraps(config, outputs);
    return HD_OK;
}

static int64_t collect_scratch(const void *args)
{
    return ((const struct args *)args)->scratch;
}

/* The header of the item: it keeps what one task of a collect leaves for the next, and the actions
 * that the GPU chose. */
struct header {
    int64_t *forwards, *made, *ended; /* [1] each: steps of all envs, samples with those that had
                                         waited, ended episodes */
    int32_t *action;                  /* [E] */
    struct hd_frame_upload show;      /* current observations, only where a GPU acts */
};

/* The GPU needs only the frames of each env's current observation. */
static void lay_out_show(const struct args *args, struct hd_arena *arena,
                         struct hd_frame_upload *show)
{
    const struct hd_obs_shape *obs = &args->envs->obs;
    const int64_t envs = args->envs->envs;
    *show = (struct hd_frame_upload){
        .envs = envs, .frames = obs->stack, .stack = obs->stack, .frame_bytes = obs->frame_bytes};
    show->host_frames = hd_arena_take(arena, envs, (size_t)obs->obs_bytes);
    show->shown = hd_arena_take(arena, envs, sizeof *show->shown);
    show->age = hd_arena_take(arena, envs, sizeof *show->age);
    show->here = hd_arena_take(arena, envs, sizeof *show->here);
}

static int64_t lay_out_header(const struct args *args, bool gpu, void *memory,
                              struct header *header)
{
    struct hd_arena arena = {.memory = memory};
    header->forwards = hd_arena_take(&arena, 1, sizeof *header->forwards);
    header->made = hd_arena_take(&arena, 1, sizeof *header->made);
    header->ended = hd_arena_take(&arena, 1, sizeof *header->ended);
    header->action = hd_arena_take(&arena, args->envs->envs, sizeof *header->action);
    if (gpu)
        lay_out_show(args, &arena, &header->show);
    return arena.used;
}

static void collect_get_subtasks(const void *args, struct hd_subtasks *subtasks_p)
{
    struct header unused;
    *subtasks_p =
        (struct hd_subtasks){.items = 1,
                             .stages = 1,
                             .header_bytes = lay_out_header(args, false, NULL, &unused),
                             .waits = hd_stepper_waits(((const struct args *)args)->envs)};
}

/* A collect in progress. */
struct collector {
    struct hd_context *context;
    const struct hd_view *views;
    const struct args *args;
    const struct hd_envs_shape *shape;
    const struct hd_net *net;
    const struct hd_obs_norm *norm; /* NULL: observations are not normalised */
    double epsilon;
    bool random; /* a squashed policy does not act yet */
    struct hd_envs envs;
    struct hd_stepper stepper;
    struct hd_transition_block block;
    int64_t nstep;
    int64_t turn;  /* the env whose samples come first */
    bool stepping; /* an earlier call has begun a step */
    struct header header;
};

/* Returns the memory for the next frame of the transition block, which env `env` will show. */
static void *next_frame(struct collector *c, int64_t env)
{
    int64_t i = (*c->block.n_frames)++;
    c->block.env[i] = (int32_t)env;
    return c->block.frames + i * c->shape->obs.frame_bytes;
}

static int start(struct collector *c, int64_t env)
{
    return hd_stepper_start_next(c->shape, &c->envs, env, env, next_frame(c, env), c->context);
}

/* Empties the transition block and starts the envs that have never been started. */
static int begin(struct collector *c)
{
    const struct hd_transition_block_shape *shape =
        hd_transition_block_get_shape(c->views[TRANSITION_BLOCK].spec);
    hd_transition_block_clear(shape, c->views[TRANSITION_BLOCK].data);
    hd_reward_stats_begin(c->shape, &c->envs);
    *c->header.forwards = *c->header.ended = 0;
    *c->header.made = c->shape->surplus > 0 ? *c->envs.n_surplus : 0;
    for (int64_t env = 0; env < shape->envs; env++) {
        c->block.first[env] = c->envs.shown[env];
        if (c->envs.shown[env] == 0)
            HD_TRY(start(c, env));
    }
    return HD_OK;
}

/* Returns the item of the stream that is the coin of a step. Below, is_greedy says whether it
 * decides that all envs act by the policy. */
static uint32_t coin_of(const struct hd_envs_shape *shape, int64_t forwards)
{
    return (uint32_t)(forwards * (shape->envs + 1));
}

static bool is_greedy(const struct hd_context *context, uint32_t coin, double epsilon)
{
    return hd_rng_draw_uniform(&context->rng, coin) > epsilon;
}

static void choose_actions(const struct collector *c)
{
    const int64_t n = c->shape->envs;
    const uint32_t coin = coin_of(c->shape, *c->header.forwards);
    const bool greedy = is_greedy(c->context, coin, c->epsilon);
    if (greedy && c->context->gpu)
        memcpy(c->stepper.action, c->header.action, (size_t)n * sizeof *c->header.action);
    else if (greedy)
        hd_stepper_choose_greedy(&c->stepper, c->shape, &c->envs, c->net, c->views[POLICY].data,
                                 c->norm);
    for (int64_t i = 0; i < n && !greedy; i++)
        hd_stepper_choose_randomly(&c->stepper, c->shape, i, &c->context->rng,
                                   coin + 1 + (uint32_t)i);
}

/* Draws actions of squashed numbers. */
static void draw_actions(const struct collector *c)
{
    const int dims = c->shape->frame.actions.dims;
    const int64_t outputs = hd_net_count_outputs(c->net);
    if (!c->random)
        hd_stepper_forward(&c->stepper, c->shape, &c->envs, c->net, c->views[POLICY].data, c->norm);
    for (int64_t env = 0; env < c->shape->envs; env++) {
        const struct hd_rng rng =
            hd_rng_make(c->context->seed, NOISE_STREAM, c->context->shard, c->envs.episode[env],
                        c->envs.episode_steps[env] / c->args->noise_repeat);
        const uint32_t first = (uint32_t)(env * dims);
        if (c->random)
            hd_stepper_choose_randomly(&c->stepper, c->shape, env, &rng, first);
        else
            c->shape->outputs->draw(&c->shape->frame.actions, c->stepper.outputs + env * outputs,
                                    &rng, first, c->stepper.action + env * dims);
    }
}

/* Appends the actions to the fragments, where they outlast this call. */
static void append_actions(const struct collector *c)
{
    const int64_t dims = c->shape->frame.actions.dims;
    for (int64_t env = 0; env < c->shape->envs; env++)
        memcpy(c->envs.action + (env * c->shape->fragment + c->envs.pending[env]) * dims,
               c->stepper.action + env * dims, (size_t)dims * sizeof *c->envs.action);
}

/* Appends the env's step to its fragment and returns the fragment as it is then. */
static struct hd_fragment append_step(struct collector *c, int64_t env)
{
    const int64_t first = env * c->shape->fragment, step = c->envs.pending[env]++;
    const int64_t dims = c->shape->frame.actions.dims;
    c->envs.reward[first + step] = c->stepper.outcome.reward[env];
    return (struct hd_fragment){
        .length = step + 1,
        .frame = c->envs.shown[env] - 1 - (step + 1),
        .age = c->envs.episode_steps[env] - (step + 1),
        .env = (int32_t)env,
        .dims = dims,
        .action = c->envs.action + first * dims,
        .reward = c->envs.reward + first,
        .done = c->stepper.outcome.done[env] &&
                !(c->args->bootstraps && c->stepper.outcome.truncated[env]),
    };
}

/* Turns a completed fragment into samples, as far as there is room: for n_sample in the transition
 * block, or for those that wait as well beside the envs. */
static void emit_samples(struct collector *c, const struct hd_fragment *fragment)
{
    const bool waits = c->shape->surplus > 0;
    const int64_t remaining = (waits ? c->shape->surplus : c->args->n_sample) - *c->header.made;
    const enum hd_nstep_tail tail =
        c->args->corrects_tail ? HD_NSTEP_CORRECTED : HD_NSTEP_DI_ENGINE;
    if (remaining > 0)
        hd_nstep_assemble(fragment, c->args->gamma, tail, c->nstep,
                          fragment->length < remaining ? fragment->length : remaining,
                          hd_transition_get(waits ? c->envs.surplus : c->block.transitions,
                                            c->nstep, c->shape->frame.actions.dims,
                                            *c->header.made));
    *c->header.made += fragment->length;
    c->envs.pending[fragment->env] = 0;
}

/* Gives n_sample samples to the transition block, if they are not there already. */
static void hand_over(const struct collector *c)
{
    const int64_t n = c->args->n_sample, made = *c->header.made;
    if (c->shape->surplus == 0)
        return;
    hd_surplus_hand_over(c->envs.surplus, made, n,
                         hd_transition_get_bytes(c->nstep, c->shape->frame.actions.dims),
                         c->block.transitions);
    *c->envs.n_surplus = made - n;
}

static int end_episode(struct collector *c, int64_t env)
{
    hd_episodes_push(&c->views[EPISODES], c->envs.episode_return[env],
                     (double)c->envs.episode_steps[env]);
    c->envs.episode[env]++;
    ++*c->header.ended;
    return start(c, env);
}

static int begin_step(struct collector *c)
{
    if (c->shape->outputs->squashed)
        draw_actions(c);
    else
        choose_actions(c);
    append_actions(c);
    return hd_stepper_begin_step(&c->stepper, c->shape, &c->envs, c->context);
}

/* Steps all envs once, or ends the step of an earlier call. They write their frames into the
 * transition block. */
static int collect_step(struct collector *c)
{
    if (!c->stepping)
        HD_TRY(begin_step(c));
    c->stepping = false;
    c->stepper.outcome.obs = next_frame(c, 0);
    for (int64_t env = 1; env < c->shape->envs; env++)
        next_frame(c, env);
    HD_TRY(hd_stepper_end_step(&c->stepper, c->shape, &c->envs, c->context));
    hd_reward_stats_add(c->shape, &c->envs, &c->stepper.outcome, c->args->gamma);
    for (int64_t i = 0; i < c->shape->envs; i++) {
        const int64_t env = (c->turn + i) % c->shape->envs;
        const struct hd_fragment fragment = append_step(c, env);
        const bool ended = c->stepper.outcome.done[env];
        if (ended || fragment.length == c->shape->fragment)
            emit_samples(c, &fragment);
        if (ended)
            HD_TRY(end_episode(c, env));
    }
    ++*c->header.forwards;
    return HD_OK;
}

static bool is_complete(const struct collector *c)
{
    return *c->header.made >= c->args->n_sample;
}

/* Gives the GPU the current observations, with which a collect begins. */
static void push_current_obs(const struct collector *c)
{
    const struct hd_frame_upload *show = &c->header.show;
    for (int64_t env = 0; env < c->shape->envs; env++) {
        show->shown[env] = show->here[env] = 0;
        hd_frame_upload_add_obs(show, env, c->envs.obs + env * c->shape->obs.obs_bytes);
    }
}

/* Gives the GPU the last frame of each env after a step. */
static void push_last_frames(const struct collector *c)
{
    const int64_t bytes = c->shape->obs.frame_bytes;
    const char *end = c->envs.obs;
    for (int64_t env = 0; env < c->shape->envs; env++) {
        end += c->shape->obs.obs_bytes;
        memcpy(hd_frame_upload_next(&c->header.show, env, c->envs.episode_steps[env] == 0),
               end - bytes, (size_t)bytes);
    }
}

static int get_last_stage(const struct args *args)
{
    return 2 * (int)args->steps;
}

static int play_beside_gpu(struct collector *c)
{
    if (c->context->stage == 0) {
        HD_TRY(begin(c));
        push_current_obs(c);
    } else if (!is_complete(c)) {
        HD_TRY(collect_step(c));
        push_last_frames(c);
    }
    if (c->context->stage == get_last_stage(c->args))
        hand_over(c);
    return HD_OK;
}

static int play_all(struct collector *c)
{
    if (!c->stepping)
        HD_TRY(begin(c));
    while (!is_complete(c))
        HD_TRY(collect_step(c));
    hand_over(c);
    return HD_OK;
}

static double epsilon_now(const struct args *args, const struct hd_view *views)
{
    const struct hd_env_counters *totals = views[TOTALS].data;
    return hd_epsilon_compute(&args->epsilon, (double)totals->env_step);
}

/* Shards collect equally many samples. */
static bool is_random(const struct hd_context *context, const struct args *args,
                      const struct hd_view *views)
{
    const struct hd_env_counters *totals = views[TOTALS].data;
    return totals->sample < args->random_size * context->shards;
}

static int collect_body(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    const struct args *args = memory;
    const struct hd_transition_block_shape *block =
        hd_transition_block_get_shape(views[TRANSITION_BLOCK].spec);
    struct hd_obs_norm norm;
    struct collector c = {
        .context = context,
        .views = views,
        .args = args,
        .shape = args->envs,
        .net = args->net,
        .norm = hd_moments_get_obs_norm(&views[NORM], &norm),
        .epsilon = epsilon_now(args, views),
        .random = is_random(context, args, views),
        .envs = hd_envs_get(views[ENVS].spec, views[ENVS].data, 0),
        .block = hd_transition_block_get(block, views[TRANSITION_BLOCK].data),
        .nstep = block->nstep,
        .turn = args->takes_turns
                    ? hd_surplus_find_turn(context->iteration, args->n_sample, args->envs->envs)
                    : 0,
        .stepping = context->again,
    };
    c.stepper = hd_stepper_get(c.shape, c.net, context->scratch);
    lay_out_header(args, context->gpu, context->header, &c.header);
    return context->gpu ? play_beside_gpu(&c) : play_all(&c);
}

static int collect_finish(struct hd_context *context, const struct hd_view *views,
                          const void *memory)
{
    const struct args *args = memory;
    struct hd_env_counters *counters = views[COUNTERS].data;
    struct header header;
    const bool waits = args->envs->surplus > 0;
    lay_out_header(args, context->gpu, context->headers[0], &header);
    counters->env_step += *header.forwards * args->envs->envs;
    counters->episode += *header.ended;
    counters->sample += waits ? args->n_sample : *header.made;
    counters->dropped += waits ? 0 : *header.made - args->n_sample;
    hd_reward_stats_gather(&views[ENVS], &views[REWARD_STATS]);
    return HD_OK;
}

#if HD_CUDA
/* -- With a GPU -------------------------------------------------------------------------------- */
/* Stage 0 begins, on a CPU; then the GPU acts and a CPU steps in turns. */

static bool collect_supports_gpu(const void *args)
{
    const struct args *collect = args;
    return collect->overlap_act_step && collect->envs->outputs->argmax;
}

static bool stage_on_gpu(const void *args, int stage)
{
    (void)args;
    return hd_stepper_is_gpu_stage(stage);
}

static bool touches(const void *args, int port, bool gpu)
{
    (void)args;
    return port == TOTALS || gpu == (port == POLICY || port == NORM);
}

struct work {
    struct hd_gpu_stepper stepper;
    char *frames; /* [E][stack][frame_bytes] */
};

static int64_t lay_out_work(const struct args *args, void *memory, struct work *work)
{
    struct hd_arena arena = {.memory = memory};
    arena.used = hd_gpu_stepper_lay_out(args->envs, args->net, memory, &work->stepper);
    work->frames = hd_arena_take(&arena, args->envs->envs, (size_t)args->envs->obs.obs_bytes);
    return arena.used;
}

static void get_subtasks_on_gpu(const void *memory, struct hd_subtasks *subtasks_p)
{
    const struct args *args = memory;
    struct work work;
    struct header header;
    *subtasks_p = (struct hd_subtasks){.items = 1,
                                       .stages = get_last_stage(args) + 1,
                                       .work_bytes = lay_out_work(args, NULL, &work),
                                       .header_bytes = lay_out_header(args, true, NULL, &header),
                                       .finish_last = true,
                                       .waits = hd_stepper_waits(args->envs)};
}

static int collect_ready_on_gpu(const void *memory)
{
    const struct args *args = memory;
    return hd_net_prepare_cuda(args->net, args->envs->envs, 0);
}

/* All acts are the same work. */
static int get_graph(const struct hd_context *context, const struct hd_view *views,
                     const void *memory)
{
    const struct args *args = memory;
    struct header header;
    enum { ACT };
    lay_out_header(args, true, context->header, &header);
    const uint32_t coin = coin_of(args->envs, *header.forwards);
    const bool acts =
        *header.made < args->n_sample && is_greedy(context, coin, epsilon_now(args, views));
    return acts ? ACT : HD_NO_GRAPH;
}

static int collect_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                               const void *memory)
{
    const struct args *args = memory;
    const struct hd_net *net = args->net;
    struct work work;
    struct header header;
    struct hd_obs_norm norm;
    lay_out_header(args, true, context->header, &header);
    lay_out_work(args, context->work, &work);
    header.show.frames_here = work.frames;
    HD_TRY(hd_frame_upload_run_cuda(&header.show, 1, work.stepper.obs, context->stream));
    HD_TRY(hd_gpu_stepper_forward(&work.stepper, args->envs, net, views[POLICY].data,
                                  hd_moments_get_obs_norm(&views[NORM], &norm), context->stream));
    return hd_argmax_cuda(work.stepper.out, hd_net_count_outputs(net), hd_net_count_actions(net),
                          args->envs->envs, header.action, context->stream);
}

static const struct hd_gpu_verb on_gpu = {
    .body = collect_body_on_gpu,
    .supports = collect_supports_gpu,
    .stage = stage_on_gpu,
    .touches = touches,
    .get_subtasks = get_subtasks_on_gpu,
    .graph_capturable = true,
    .get_graph = get_graph,
    .ready = collect_ready_on_gpu,
};
#endif

const struct hd_verb hd_verb_collect = {
    .name = "collect",
    .stream_id = 0x79b598d9ee8b50d0,
    .ports = ports,
    .declare = collect_declare,
    .prepare = collect_prepare,
    .scratch = collect_scratch,
    .body = collect_body,
    .get_subtasks = collect_get_subtasks,
    .finish = collect_finish,
    .gpu = HD_ON_GPU(on_gpu),
    .help =
        "plays the environments with epsilon-greedy actions, or with those that a squashed policy "
        "draws, until n_sample transitions are made",
};
