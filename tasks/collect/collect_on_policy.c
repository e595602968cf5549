/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `collect_on_policy`: plays a shard's envs with actions sampled from the policy until
 * n_sample samples are made (docs/di-engine.md 3.3 and 4). The steps of an env become samples in
 * fragments: a fragment is complete when it has n_sample / envs steps or its episode ends
 * (policy.collect.segment_at_done). The next collect starts with the envs where they are and empty
 * fragments.
 *
 * An item is an environment group with its share of n_sample. It is one task, or with
 * policy.collect.overlap_act_step two tasks for each step, one that acts and one that steps, so
 * that one group acts while another steps. Tasks of steps that a group does not need do nothing. A
 * GPU acts for half of the groups at a time, while CPUs step the other half group by group.
 * Without it, envs that a GPU can step are played there by one task, from which only counters and
 * ended episodes return to the host.
 *
 * Item f E + e of the step's stream samples the action of the shard's env e of E in step f; actions
 * of D numbers are sampled by items (f E + e) D to (f E + e) D + D - 1. GPUs sample only single
 * choices. */
#include "kernels/act/categorical.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "tasks/base/arena.h"
#include "tasks/base/builtin.h"
#include "tasks/collect/episodes.h"
#include "tasks/collect/play_on_gpu.h"
#include "tasks/collect/reward_stats.h"
#include "tasks/collect/stepper.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/policy_net.h"
#include "tasks/types/collect/surplus.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/moments.h"

#include <float.h>
#include <string.h>

enum { POLICY, NORM, ENVS, COUNTERS, EPISODES, TRAJECTORIES, REWARD_STATS };

static const struct hd_port ports[] = {
    [POLICY] = {"policy", "params", .mode = HD_READ, .scope = HD_SCOPE_ALL},
    [NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true, .scope = HD_SCOPE_ALL},
    [ENVS] = {"envs", "envs", .mode = HD_UPDATE, .scope = HD_SCOPE_ITEM},
    [COUNTERS] = {"counters", "env_counters", .mode = HD_UPDATE, .scope = HD_SCOPE_FINISH},
    [EPISODES] = {"episodes", "scalars", .mode = HD_UPDATE, .none = true, .scope = HD_SCOPE_FINISH},
    [TRAJECTORIES] = {"trajectories", "trajectories", .mode = HD_WRITE, .scope = HD_SCOPE_ITEM},
    [REWARD_STATS] = {"reward_stats", "moments", .mode = HD_WRITE, .optional = true,
                      .scope = HD_SCOPE_FINISH},
    {0},
};

struct args {
    const struct hd_net *net;
    const struct hd_envs_shape *envs;
    struct hd_envs_shape acting; /* of the groups for which a GPU acts at a time */
    const struct hd_spec *trajectories;
    int64_t scratch, groups, joint_groups, steps;
    double gamma;
    bool overlap_act_step;
    bool takes_turns;  /* another env of a group is the first in each collect */
    bool steps_on_gpu; /* where GPUs take part */
};

static int collect_on_policy_declare(const struct hd_setup *setup)
{
    HD_TRY(hd_moments_declare_norms(setup, setup->specs[NORM], setup->specs[REWARD_STATS]));
    return hd_episodes_declare(setup, setup->specs[EPISODES]);
}

static int collect_on_policy_prepare(const struct hd_setup *setup, void **args_p)
{
    const struct hd_spec *envs = setup->specs[ENVS];
    const struct hd_net *net = hd_params_get_net(setup->specs[POLICY]);
    HD_TRY(hd_envs_check_role(envs, setup, false));
    HD_TRY(
        hd_policy_check_on_policy(setup, "collect_on_policy samples from the logits of an actor"));
    HD_TRY(hd_policy_net_check(setup, net));
    HD_TRY(hd_moments_check_norms(setup, ports, NORM, REWARD_STATS));
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[POLICY], HD_NO_BATCH_NORM_STATS));
    args->net = net;
    args->envs = hd_envs_get_shape(envs);
    args->groups = envs->partials;
    args->overlap_act_step = hd_config_get_bool(setup->config, "policy.collect.overlap_act_step");
    const int64_t parts =
        args->overlap_act_step ? hd_config_get_int(setup->config, "policy.collect.act_parts") : 1;
    args->joint_groups = (args->groups + parts - 1) / parts;
    args->acting = *args->envs;
    args->acting.envs *= args->joint_groups;
    args->trajectories = setup->specs[TRAJECTORIES];
    args->steps = hd_trajectories_get_shape(args->trajectories)->steps;
    args->gamma = hd_config_get_real(setup->config, "policy.collect.discount_factor");
    HD_TRY(hd_surplus_check_turns(
        setup, hd_trajectories_get_shape(args->trajectories)->segment_at_done, &args->takes_turns));
    args->steps_on_gpu = args->envs->on_gpu && !args->overlap_act_step &&
                         !args->envs->follows_returns && !args->takes_turns &&
                         !hd_trajectories_get_shape(args->trajectories)->segment_at_done;
    return hd_stepper_prepare(hd_envs_get_shape(envs), net, &args->scratch);
}

static int64_t collect_on_policy_scratch(const void *args)
{
    return ((const struct args *)args)->scratch;
}

static void collect_on_policy_get_subtasks(const void *memory, struct hd_subtasks *subtasks_p)
{
    const struct args *args = memory;
    *subtasks_p = (struct hd_subtasks){.items = args->groups,
                                       .stages = args->overlap_act_step ? 2 * (int)args->steps : 1,
                                       .finish_last = true,
                                       .waits = hd_stepper_waits(args->envs)};
}

/* A collect of one group in progress. One task leaves everything for the next in the values of its
 * group. */
struct collector {
    struct hd_context *context;
    const struct hd_view *views;
    const struct hd_envs_shape *shape;
    const struct hd_trajectories_shape *to;
    const struct hd_net *net;
    double gamma;
    struct hd_envs envs;
    struct hd_trajectories t;
    struct hd_frame_upload show; /* its frames */
    struct hd_stepper stepper;
    int64_t first; /* number of the group's first env in the shard */
    int64_t turn;  /* the env of the group whose samples come first */
    bool stepping; /* an earlier call has begun a step */
};

static int start(struct collector *c, int64_t env, void *frame)
{
    return hd_stepper_start_next(c->shape, &c->envs, env, c->first + env, frame, c->context);
}

/* Empties the group, starts the envs that never were, and keeps the frames that they show. */
static int begin(struct collector *c)
{
    hd_reward_stats_begin(c->shape, &c->envs);
    hd_trajectories_clear(c->views[TRAJECTORIES].spec, c->views[TRAJECTORIES].data,
                          c->context->item);
    for (int64_t env = 0; env < c->shape->envs; env++) {
        if (c->envs.shown[env] == 0)
            HD_TRY(start(c, env, c->stepper.outcome.obs));
        hd_frame_upload_add_obs(&c->show, env, c->envs.obs + env * c->shape->obs.obs_bytes);
    }
    return HD_OK;
}

static bool is_complete(const struct collector *c)
{
    return *c->t.made >= c->to->samples;
}

/* Returns the place of the action with which the present step of an env begins. */
static union hd_action_number *get_action(const struct collector *c, int64_t env)
{
    const int64_t step = env * c->to->steps + *c->t.forward;
    return c->t.action + step * c->to->actions.dims;
}

/* Records the observation, its logits and its value with which a step of an env begins. */
static void record_outputs(struct collector *c, int64_t env, const float *logit, float value)
{
    const int64_t logits = c->to->logits, step = env * c->to->steps + *c->t.forward;
    memcpy(c->t.logit + step * logits, logit, (size_t)logits * sizeof *logit);
    c->t.value[step] = value;
    c->t.frame[step] = (int32_t)(c->t.shown[env] - 1);
    c->t.frame_age[step] = (int32_t)c->t.age[env];
}

/* Keeps the states with which a sequence begins. */
static void record_states(struct collector *c)
{
    const struct hd_sequences *sequences = &c->to->sequences;
    if (*c->t.forward % sequences->steps != 0)
        return;
    for (int64_t env = 0; env < c->shape->envs; env++)
        memcpy(hd_trajectories_get_state(c->to, &c->t, env, *c->t.forward / sequences->steps),
               c->envs.state + env * sequences->state,
               (size_t)sequences->state * sizeof *c->t.state);
}

static void act(struct collector *c)
{
    const int64_t outputs = hd_net_count_outputs(c->net);
    const int64_t all = c->shape->total, forward = *c->t.forward;
    struct hd_obs_norm norm;
    if (c->to->sequences.state > 0)
        record_states(c);
    hd_stepper_forward(&c->stepper, c->shape, &c->envs, c->net, c->views[POLICY].data,
                       hd_moments_get_obs_norm(&c->views[NORM], &norm));
    for (int64_t env = 0; env < c->shape->envs; env++) {
        const float *logit = c->stepper.outputs + env * outputs;
        const uint32_t item = (uint32_t)(forward * all + c->first + env);
        const struct hd_env_actions *actions = &c->to->actions;
        record_outputs(c, env, logit, logit[outputs - 1]);
        c->shape->outputs->draw(actions, logit, &c->context->rng, item * (uint32_t)actions->dims,
                                get_action(c, env));
    }
}

/* Turns a completed fragment of an env into samples, as far as its group needs more. */
static void emit_samples(struct collector *c, int64_t env)
{
    const int64_t length = c->t.pending[env], remaining = c->to->samples - *c->t.made;
    const int64_t first = env * c->to->steps + *c->t.forward + 1 - length;
    for (int64_t i = 0; i < length && i < remaining; i++) {
        const int64_t sample = *c->t.made + i, step = first + i;
        c->t.row[sample] = (int32_t)step;
        c->t.end[sample] = i + 1 == length || i + 1 == remaining || c->t.done[step] != 0;
    }
    *c->t.made += length;
    c->t.pending[env] = 0;
}

static int end_episode(struct collector *c, int64_t env)
{
    const int64_t i = (*c->t.ended)++;
    c->t.ended_return[i] = c->envs.episode_return[env];
    c->t.ended_steps[i] = (double)c->envs.episode_steps[env];
    c->envs.episode[env]++;
    return start(c, env, hd_frame_upload_next(&c->show, env, true));
}

/* Records the frame, reward and end with which a step of an env ends. */
static void record_outcome(struct collector *c, int64_t env)
{
    const int64_t bytes = c->shape->obs.frame_bytes, step = env * c->to->steps + *c->t.forward;
    memcpy(hd_frame_upload_next(&c->show, env, false),
           (const char *)c->stepper.outcome.obs + env * bytes, (size_t)bytes);
    c->t.reward[step] = c->stepper.outcome.reward[env];
    c->t.done[step] = c->stepper.outcome.done[env];
    c->t.pending[env]++;
}

static int begin_step(struct collector *c)
{
    const int64_t dims = c->to->actions.dims;
    for (int64_t env = 0; env < c->shape->envs; env++)
        memcpy(c->stepper.action + env * dims, get_action(c, env),
               (size_t)dims * sizeof *c->stepper.action);
    return hd_stepper_begin_step(&c->stepper, c->shape, &c->envs, c->context);
}

/* Steps all envs once, or ends the step of an earlier call. */
static int step(struct collector *c)
{
    if (!c->stepping)
        HD_TRY(begin_step(c));
    c->stepping = false;
    HD_TRY(hd_stepper_end_step(&c->stepper, c->shape, &c->envs, c->context));
    hd_reward_stats_add(c->shape, &c->envs, &c->stepper.outcome, c->gamma);
    for (int64_t i = 0; i < c->shape->envs; i++) {
        const int64_t env = (c->turn + i) % c->shape->envs;
        const bool done = c->stepper.outcome.done[env];
        record_outcome(c, env);
        if ((done && c->to->segment_at_done) || c->t.pending[env] == c->to->fragment)
            emit_samples(c, env);
        if (done)
            HD_TRY(end_episode(c, env));
    }
    ++*c->t.forward;
    return HD_OK;
}

/* Runs a stage of an item; even stages act and odd ones step. */
static int play_stage(struct collector *c, int stage)
{
    if (stage == 0)
        HD_TRY(begin(c));
    if (is_complete(c))
        return HD_OK;
    if (stage % 2 == 1)
        return step(c);
    act(c);
    return HD_OK;
}

static int play_all(struct collector *c)
{
    if (!c->stepping)
        HD_TRY(begin(c));
    while (!is_complete(c)) {
        if (!c->stepping)
            act(c);
        HD_TRY(step(c));
    }
    return HD_OK;
}

/* -- With a GPU that acts ---------------------------------------------------------------------- */
/* Stage 0 begins, on a CPU; then the GPU acts and a CPU steps in turns, and the last stage, the
 * GPU's, fetches what it has not seen yet. The group on either side is complete then. Of what envs
 * show each frame goes to the GPU once; logits and actions come back in the items' headers. */

struct header {
    float *logit;           /* [E][actions] */
    int32_t *action;        /* [E] */
    int64_t *here;          /* [E]: frames that the GPU has */
    struct hd_draws *draws; /* of the next actions */
};

static int64_t lay_out_header(const struct args *args, void *memory, struct header *header)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t envs = args->envs->envs;
    header->logit =
        hd_arena_take(&arena, envs * hd_net_count_actions(args->net), sizeof *header->logit);
    header->action = hd_arena_take(&arena, envs, sizeof *header->action);
    header->here = hd_arena_take(&arena, envs, sizeof *header->here);
    header->draws = hd_arena_take(&arena, 1, sizeof *header->draws);
    return arena.used;
}

/* Records the actions that the GPU chose, as `act` does those of a CPU. No step on a CPU reads the
 * values, which a GPU computes again: the number would end a run. */
static void record_gpu_actions(struct collector *c, const struct header *header)
{
    for (int64_t env = 0; env < c->shape->envs; env++) {
        record_outputs(c, env, header->logit + env * c->to->logits, FLT_MAX);
        get_action(c, env)->choice = header->action[env];
    }
}

static int play_step_beside_gpu(struct collector *c, const struct header *header)
{
    if (c->context->stage == 0) {
        memset(header->here, 0, (size_t)c->shape->envs * sizeof *header->here);
        return begin(c);
    }
    if (is_complete(c))
        return HD_OK;
    if (!c->stepping)
        record_gpu_actions(c, header);
    return step(c);
}

/* Says which numbers the GPU draws next, so that what it does then depends on addresses alone. */
static int play_beside_gpu(struct collector *c, const struct header *header)
{
    HD_TRY(play_step_beside_gpu(c, header));
    *header->draws =
        (struct hd_draws){c->context->rng, (uint32_t)(*c->t.forward * c->shape->total + c->first)};
    return HD_OK;
}

/* The GPU plays the whole collect next. */
static int begin_on_gpu(const struct hd_context *context, const struct args *args)
{
    struct hd_play_header header;
    hd_play_header_lay_out(args->trajectories, context->header, &header);
    *header.rng = context->rng;
    return HD_OK;
}

static int collect_on_policy_body(struct hd_context *context, const struct hd_view *views,
                                  const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *envs = &views[ENVS], *to = &views[TRAJECTORIES];
    if (context->gpu && args->steps_on_gpu)
        return begin_on_gpu(context, args);
    struct collector c = {
        .context = context,
        .views = views,
        .shape = args->envs,
        .to = hd_trajectories_get_shape(to->spec),
        .net = args->net,
        .gamma = args->gamma,
        .envs = hd_envs_get(envs->spec, envs->data, context->item),
        .t = hd_trajectories_get(to->spec, to->data, context->item),
        .stepping = context->again,
    };
    c.show = hd_trajectories_get_show(c.to, &c.t);
    if (args->takes_turns)
        c.turn = hd_surplus_find_turn(context->iteration, c.to->samples, c.shape->envs);
    c.first = hd_envs_get_first(c.shape, context->shard, context->item);
    c.stepper = hd_stepper_get(c.shape, c.net, context->scratch);
    if (context->gpu) {
        struct header header;
        lay_out_header(args, context->header, &header);
        return play_beside_gpu(&c, &header);
    }
    return args->overlap_act_step ? play_stage(&c, context->stage) : play_all(&c);
}

#if HD_CUDA
static bool collect_on_policy_supports_gpu(const void *memory)
{
    const struct args *args = memory;
    return args->envs->frame.actions.kind == HD_ENV_DISCRETE &&
           (args->overlap_act_step || args->steps_on_gpu);
}

static int last_stage(const struct args *args)
{
    return 2 * (int)args->steps + 1;
}

static bool stage_on_gpu(const void *args, int stage)
{
    (void)args;
    return hd_stepper_is_gpu_stage(stage);
}

/* All acts are the same work; a group that is complete before others loses what is drawn for it. */
static int get_graph(const struct hd_context *context, const struct hd_view *views,
                     const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *to = &views[TRAJECTORIES];
    const int64_t samples = hd_trajectories_get_shape(args->trajectories)->samples;
    enum { ACT, COPY_REST };
    if (args->steps_on_gpu)
        return ACT;
    if (context->stage == last_stage(args))
        return COPY_REST;
    for (int64_t i = 0; i < context->joint_items; i++)
        if (*hd_trajectories_get(to->spec, to->host, context->item + i).made < samples)
            return ACT;
    return HD_NO_GRAPH;
}

static bool touches(const void *args, int port, bool gpu)
{
    if (((const struct args *)args)->steps_on_gpu)
        return gpu == (port != COUNTERS && port != EPISODES);
    if (port == TRAJECTORIES)
        return true;
    return gpu == (port == POLICY || port == NORM);
}

static int64_t scratch_on_gpu(const void *memory)
{
    const struct args *args = memory;
    return args->steps_on_gpu ? hd_play_on_gpu_get_scratch(args->net, args->trajectories) : 0;
}

static void get_subtasks_on_gpu(const void *memory, struct hd_subtasks *subtasks_p)
{
    const struct args *args = memory;
    struct hd_gpu_stepper stepper;
    struct hd_play_header play;
    struct header header;
    if (args->steps_on_gpu) {
        *subtasks_p = (struct hd_subtasks){
            .items = 1,
            .stages = 2,
            .header_bytes = hd_play_header_lay_out(args->trajectories, NULL, &play),
            .finish_last = true};
        return;
    }
    *subtasks_p = (struct hd_subtasks){
        .items = args->groups,
        .stages = last_stage(args) + 1,
        .work_bytes = hd_gpu_stepper_lay_out(&args->acting, args->net, NULL, &stepper),
        .header_bytes = lay_out_header(args, NULL, &header),
        .finish_last = true,
        .joint_items = args->joint_groups,
        .waits = hd_stepper_waits(args->envs)};
}

static int collect_on_policy_ready_on_gpu(const void *memory)
{
    const struct args *args = memory;
    return hd_net_prepare_cuda(args->net, args->steps_on_gpu ? args->envs->envs : args->acting.envs,
                               0);
}

/* Copies a group's last frames and all that precedes its frames to the GPU; it is small. */
static int copy_rest_to_gpu(const struct hd_context *context, const struct hd_view *to,
                            int64_t group, const struct hd_frame_upload *show)
{
    HD_TRY(hd_frame_upload_run_cuda(show, 1, NULL, context->stream));
    const struct hd_trajectories host = hd_trajectories_get(to->spec, to->host, group);
    const struct hd_trajectories here = hd_trajectories_get(to->spec, to->data, group);
    return hd_device_copy(here.made, host.made, hd_trajectories_count_header_bytes(to->spec),
                          context->stream);
}

/* A group of which a GPU knows the frames that it has been sent. */
struct actor {
    struct header header;
    struct hd_frame_upload show;
};

static struct actor make_actor(const struct hd_context *context, const struct hd_view *to,
                               const struct args *args, int64_t group)
{
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(to->spec);
    const struct hd_trajectories host = hd_trajectories_get(to->spec, to->host, group);
    struct actor actor = {.show = hd_trajectories_get_show(shape, &host)};
    lay_out_header(args, context->headers[group], &actor.header);
    actor.show.here = actor.header.here;
    actor.show.frames_here = hd_trajectories_get(to->spec, to->data, group).frames;
    return actor;
}

/* Sends what groups show to their places among the observations. */
static int upload(const struct hd_context *context, const struct hd_view *to,
                  const struct args *args, const struct hd_gpu_stepper *stepper)
{
    const int64_t bytes = args->envs->envs * args->envs->obs.obs_bytes;
    struct hd_frame_upload shows[HD_FRAME_UPLOADS];
    for (int64_t first = 0, n; first < context->joint_items; first += n) {
        const int64_t left = context->joint_items - first;
        n = left < HD_FRAME_UPLOADS ? left : HD_FRAME_UPLOADS;
        for (int64_t i = 0; i < n; i++)
            shows[i] = make_actor(context, to, args, context->item + first + i).show;
        HD_TRY(hd_frame_upload_run_cuda(shows, n, stepper->obs + first * bytes, context->stream));
    }
    return HD_OK;
}

static int draw_actions(const struct hd_context *context, const struct args *args,
                        const struct hd_gpu_stepper *stepper)
{
    const int64_t envs = args->envs->envs, outputs = hd_net_count_outputs(args->net);
    struct hd_categorical_group groups[HD_CATEGORICAL_GROUPS];
    for (int64_t first = 0, n; first < context->joint_items; first += n) {
        const int64_t left = context->joint_items - first;
        n = left < HD_CATEGORICAL_GROUPS ? left : HD_CATEGORICAL_GROUPS;
        for (int64_t i = 0; i < n; i++) {
            struct header header;
            lay_out_header(args, context->headers[context->item + first + i], &header);
            groups[i] = (struct hd_categorical_group){header.draws, header.action, header.logit};
        }
        HD_TRY(hd_categorical_draw_cuda(stepper->out + first * envs * outputs, outputs,
                                        hd_net_count_actions(args->net), envs, groups, n,
                                        context->stream));
    }
    return HD_OK;
}

static int copy_rests(const struct hd_context *context, const struct hd_view *to,
                      const struct args *args)
{
    for (int64_t i = 0; i < context->joint_items; i++) {
        const struct actor actor = make_actor(context, to, args, context->item + i);
        HD_TRY(copy_rest_to_gpu(context, to, context->item + i, &actor.show));
    }
    return HD_OK;
}

/* Acts for some groups in one pass, of as many rows as any groups need. */
static int act_on_gpu(struct hd_context *context, const struct hd_view *views,
                      const struct args *args)
{
    const struct hd_view *to = &views[TRAJECTORIES];
    struct hd_gpu_stepper stepper;
    struct hd_obs_norm norm;
    if (context->stage == last_stage(args))
        return copy_rests(context, to, args);
    hd_gpu_stepper_lay_out(&args->acting, args->net, context->work, &stepper);
    HD_TRY(upload(context, to, args, &stepper));
    HD_TRY(hd_gpu_stepper_forward(&stepper, &args->acting, args->net, views[POLICY].data,
                                  hd_moments_get_obs_norm(&views[NORM], &norm), context->stream));
    return draw_actions(context, args, &stepper);
}

static int collect_on_policy_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                         const void *memory)
{
    const struct args *args = memory;
    if (!args->steps_on_gpu)
        return act_on_gpu(context, views, args);
    const struct hd_play_on_gpu play = {.net = args->net,
                                        .policy = &views[POLICY],
                                        .obs_norm = &views[NORM],
                                        .envs = &views[ENVS],
                                        .trajectories = &views[TRAJECTORIES]};
    return hd_play_on_gpu(&play, context);
}

static const struct hd_gpu_verb on_gpu = {
    .body = collect_on_policy_body_on_gpu,
    .supports = collect_on_policy_supports_gpu,
    .stage = stage_on_gpu,
    .touches = touches,
    .get_subtasks = get_subtasks_on_gpu,
    .scratch = scratch_on_gpu,
    .graph_capturable = true,
    .get_graph = get_graph,
    .ready = collect_on_policy_ready_on_gpu,
};
#endif

/* Adds what all groups did to counters and statistics, in the order of groups. */
static int collect_on_policy_finish(struct hd_context *context, const struct hd_view *views,
                                    const void *memory)
{
    const struct args *args = memory;
    const struct hd_spec *spec = args->trajectories;
    struct hd_play_header header;
    void *data = views[TRAJECTORIES].data;
    if (context->gpu && args->steps_on_gpu) {
        hd_play_header_lay_out(spec, context->headers[0], &header);
        data = header.counters;
    }
    for (int64_t group = 0; group < spec->partials; group++) {
        const struct hd_trajectories t = hd_trajectories_get(spec, data, group);
        hd_episodes_push_all(&views[EPISODES], &t, hd_trajectories_get_shape(spec),
                             views[COUNTERS].data);
    }
    hd_reward_stats_gather(&views[ENVS], &views[REWARD_STATS]);
    return HD_OK;
}

const struct hd_verb hd_verb_collect_on_policy = {
    .name = "collect_on_policy",
    .stream_id = 0x87bfe050ae054a9b,
    .ports = ports,
    .declare = collect_on_policy_declare,
    .prepare = collect_on_policy_prepare,
    .scratch = collect_on_policy_scratch,
    .body = collect_on_policy_body,
    .get_subtasks = collect_on_policy_get_subtasks,
    .finish = collect_on_policy_finish,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "plays the environments with actions sampled from the policy until n_sample samples "
            "are made",
};
