/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in `gymnasium`: envs of Python behind kernels/envs/env.h. Worker processes start when an
 * env is first reset, stepped or drawn; what the run file declares is known before. A saved state
 * is the seed of the episode and the actions since, which a worker replays when the env is next
 * needed; or a pickle of the env. */
#include "kernels/envs/gymnasium/describe.h"
#include "kernels/envs/gymnasium/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum phase {
    FRESH,   /* never reset */
    STARTED, /* reset with another agent of its parallel env; its own reset is to come */
    LIVE,
    LOADED /* the worker's env is still another */
};

/* The head of a saved state; actions or a pickle follow. */
struct head {
    uint64_t seed;
    int64_t steps; /* of the episode; -1: never reset */
    uint64_t obs_hash;
    double rewards; /* of the episode, added */
    int64_t count;  /* bytes of a pickle */
};

struct episode {
    struct head head; /* obs_hash and count: of a loaded state */
    enum phase phase;
    int64_t announced; /* a number of the next episode; 0: its seed is not known */
    uint64_t next_seed;
};

struct group {
    struct hd_bridge_seat seat;
    struct hd_bridge_workers *workers; /* the team's */
    const struct hd_bridge_options *options;
    int64_t first, envs; /* of the team's */
    int64_t n_loaded, n_announced;
    struct episode *episode; /* [envs] */
    char *body;              /* [envs][body_bytes]: actions since the reset, or a loaded pickle */
    char *action;            /* [envs][action_bytes], of the last step */
    bool stepping;           /* a step has begun: */
    struct hd_bridge_wait wait;
};

/* -- Groups ------------------------------------------------------------------------------------ */

static bool keeps_pickles(const struct group *group)
{
    return group->options->pickle_bytes > 0;
}

static bool is_shared(const struct group *group)
{
    return group->seat.team->seats > 1;
}

static int64_t count_agents(const struct group *group)
{
    return hd_bridge_count_agents(&group->workers->header.description);
}

/* Returns the first agent of the parallel env of an env. */
static int64_t find_first(const struct group *group, int64_t env)
{
    return env - env % count_agents(group);
}

static int64_t action_bytes(const struct group *group)
{
    return group->workers->header.description.action_dims * 4;
}

static int64_t frame_bytes(const struct group *group)
{
    return group->workers->header.frame_bytes;
}

/* Returns the most bytes that follow the head of a saved state. */
static int64_t body_bytes(const struct group *group)
{
    return group->workers->header.body_bytes;
}

static char *get_body(const struct group *group, int64_t env)
{
    return group->body + env * body_bytes(group);
}

static struct hd_bridge_result *get_result(const struct group *group, int64_t env)
{
    return hd_bridge_workers_get_result(group->workers, group->first + env);
}

static struct hd_bridge_input *get_input(const struct group *group, int64_t env)
{
    return hd_bridge_workers_get_input(group->workers, group->first + env);
}

/* FNV-1a over what an env shows: tells a replay that went another way. */
static uint64_t hash_obs(const struct group *group, int64_t env)
{
    const uint8_t *obs = (const uint8_t *)get_result(group, env)->frames;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < frame_bytes(group); i++)
        hash = (hash ^ obs[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool await_step(void *memory, double seconds);

static void destroy(void *memory)
{
    const double close_s = 1;
    struct group *group = memory;
    if (!group)
        return;
    if (group->stepping)
        await_step(group, close_s);
    hd_bridge_seat_leave(&group->seat);
    free(group->episode);
    free(group->body);
    free(group->action);
    free(group);
}

static int make(struct group *group, const struct hd_env_settings *settings,
                struct hd_env_spec *spec_p, char *message)
{
    if (hd_bridge_seat_take(settings, &group->seat, message) != 0)
        return -1;
    group->workers = &group->seat.team->workers;
    group->options = &group->seat.team->options;
    group->envs = settings->envs;
    group->first = group->seat.number * group->envs;
    group->episode = calloc((size_t)settings->envs, sizeof *group->episode);
    group->body = calloc((size_t)settings->envs, (size_t)body_bytes(group) + 1);
    group->action = calloc((size_t)settings->envs, (size_t)action_bytes(group));
    if (!group->episode || !group->body || !group->action)
        return hd_bridge_refuse(message, "out of memory");
    for (int64_t i = 0; i < settings->envs; i++)
        group->episode[i].head.steps = -1;
    *spec_p = hd_bridge_make_spec(&group->workers->header.description);
    return 0;
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return hd_bridge_refuse(message, "out of memory");
    if (make(group, settings, spec_p, message) != 0) {
        destroy(group);
        return -1;
    }
    *group_p = group;
    return 0;
}

/* -- Commands for one env ---------------------------------------------------------------------- */

/* Adds to a worker's message which env it is about; of a parallel env, which envs its agents are.
 */
static int name_env(const struct group *group, int64_t env, char *message)
{
    char why[HD_ENV_MESSAGE];
    snprintf(why, sizeof why, "%s", message);
    if (env < 0)
        return hd_bridge_refuse(message, "%s: %.400s", group->options->env_id, why);
    const struct head *head = &group->episode[env].head;
    const long long first = find_first(group, env), last = first + count_agents(group) - 1;
    char where[64];
    if (last == first)
        snprintf(where, sizeof where, "env %lld", first);
    else
        snprintf(where, sizeof where, "envs %lld to %lld", first, last);
    return hd_bridge_refuse(
        message, "%s: %s, step %lld from seed %llu: %.360s", group->options->env_id, where,
        (long long)(head->steps < 0 ? 0 : head->steps), (unsigned long long)head->seed, why);
}

/* Names an env of the workers (struct hd_bridge_user). */
static void name(const void *memory, int64_t env, char *message)
{
    const struct group *group = memory;
    const bool ours = env >= group->first && env - group->first < group->envs;
    name_env(group, ours ? env - group->first : -1, message);
}

static struct hd_bridge_user make_user(const struct group *group)
{
    return (struct hd_bridge_user){name, group};
}

static int start_workers(struct group *group, char *message)
{
    const int64_t agents = count_agents(group);
    const struct hd_bridge_user user = make_user(group);
    if (group->envs % agents == 0)
        return hd_bridge_team_start(group->seat.team, &user, message);
    hd_bridge_refuse(message, "%lld agents play together, which %lld envs cannot be",
                     (long long)agents, (long long)group->envs);
    return name_env(group, -1, message);
}

/* Groups that share a worker have a control each, a group alone has one for each worker. */
static int64_t find_control(const struct group *group, int64_t env)
{
    return is_shared(group) ? group->seat.number : hd_bridge_workers_find(group->workers, env);
}

/* Has the worker of an env execute a command on it. */
static int order(struct group *group, int64_t env, int command, int64_t count, char *message)
{
    const struct hd_bridge_user user = make_user(group);
    if (start_workers(group, message) != 0)
        return -1;
    const int64_t number = find_control(group, env);
    struct hd_bridge_control *control = hd_bridge_workers_get_control(group->workers, number);
    control->env = group->first + env;
    control->seed = group->episode[env].head.seed;
    control->count = count;
    control->at = (int32_t)control->env;
    hd_bridge_workers_give(group->workers, number, command);
    return hd_bridge_workers_await(group->workers, number, 1, &user, message);
}

/* Agents of a parallel env can only go on where they were together. */
static int check_together(const struct group *group, int64_t first, char *message)
{
    const struct episode *one = &group->episode[first];
    for (int64_t i = 1; i < count_agents(group); i++)
        if (one[i].phase != one->phase || one[i].head.seed != one->head.seed ||
            one[i].head.steps != one->head.steps) {
            hd_bridge_refuse(message, "the states of its agents are not of the same step");
            return name_env(group, first, message);
        }
    return 0;
}

/* Tells whether a replay gave other rewards; it leaves their sum in the place of a reward. A
 * wrapper may remember what earlier episodes gave, and show the same observations. */
static bool earned_otherwise(const struct group *group, int64_t env)
{
    return !keeps_pickles(group) &&
           get_result(group, env)->reward != (float)group->episode[env].head.rewards;
}

/* Takes an env as LIVE that shows what it did when it was saved. */
static int accept(struct group *group, int64_t env, char *message)
{
    struct episode *episode = &group->episode[env];
    if (earned_otherwise(group, env)) {
        hd_bridge_refuse(message, "the same actions from the same seed gave other rewards: the env "
                                  "keeps something from earlier episodes or draws from elsewhere "
                                  "(save: pickle may help)");
        return name_env(group, env, message);
    }
    if (hash_obs(group, env) != episode->head.obs_hash) {
        hd_bridge_refuse(message, "%s",
                         keeps_pickles(group)
                             ? "its pickle shows another observation than the env did"
                             : "the same actions from the same seed led elsewhere: the env "
                               "keeps something from earlier episodes or draws from elsewhere "
                               "(save: pickle may help)");
        return name_env(group, env, message);
    }
    episode->phase = LIVE;
    group->n_loaded--;
    return 0;
}

/* Hands the worker of a parallel env what `count` says of its agents' bodies: actions or, of the
 * first, bytes. */
static void give_bodies(struct group *group, int64_t first, int64_t count)
{
    const bool pickles = keeps_pickles(group);
    char *body = hd_bridge_workers_get_body(group->workers, find_control(group, first));
    for (int64_t i = 0; i < (pickles ? 1 : count_agents(group)); i++)
        memcpy(body + i * body_bytes(group), get_body(group, first + i),
               (size_t)(pickles ? count : count * action_bytes(group)));
}

/* Brings a worker's env to the state that was loaded. */
static int renew(struct group *group, int64_t env, char *message)
{
    const int64_t first = find_first(group, env);
    const struct head *head = &group->episode[first].head;
    const int64_t count = keeps_pickles(group) ? head->count : head->steps;
    if (group->episode[env].phase != LOADED)
        return 0;
    if (start_workers(group, message) != 0 || check_together(group, first, message) != 0)
        return -1;
    give_bodies(group, first, count);
    if (order(group, first, keeps_pickles(group) ? HD_BRIDGE_LOAD : HD_BRIDGE_REPLAY, count,
              message) != 0)
        return -1;
    for (int64_t i = first; i < first + count_agents(group); i++)
        if (accept(group, i, message) != 0)
            return -1;
    return 0;
}

static int renew_all(struct group *group, char *message)
{
    for (int64_t i = 0; group->n_loaded > 0 && i < group->envs; i++)
        if (renew(group, i, message) != 0)
            return -1;
    return 0;
}

/* Shows the episode that the env's worker has started already; returns whether it has, from that
 * seed. */
static bool take_next(struct group *group, int64_t env, uint64_t seed)
{
    const struct episode *episode = &group->episode[env];
    struct hd_bridge_result *result = get_result(group, env);
    if (episode->announced == 0 || result->started != episode->announced ||
        episode->next_seed != seed)
        return false;
    memcpy(result->frames, result->frames + frame_bytes(group), (size_t)frame_bytes(group));
    return true;
}

/* Starts an episode of an env, and of all agents of its parallel env. */
static int start(struct group *group, int64_t env, uint64_t seed, char *message)
{
    const int64_t first = find_first(group, env), end = first + count_agents(group);
    if (start_workers(group, message) != 0)
        return -1;
    const bool taken = take_next(group, env, seed);
    for (int64_t i = first; i < end; i++) {
        group->n_loaded -= group->episode[i].phase == LOADED;
        group->episode[i] = (struct episode){.head.seed = seed};
        get_input(group, i)->announced = 0;
    }
    if (!taken && order(group, env, HD_BRIDGE_RESET, 0, message) != 0)
        return -1;
    for (int64_t i = first; i < end; i++)
        group->episode[i].phase = STARTED;
    return 0;
}

static int reset(void *memory, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    if (group->episode[env].phase != STARTED && start(group, env, seed, message) != 0)
        return -1;
    group->episode[env].phase = LIVE;
    memcpy(obs, get_result(group, env)->frames, (size_t)frame_bytes(group));
    return 0;
}

/* An env that is kept as a pickle, or drawn, stays in its last state until it is reset, and so does
 * a parallel env, whose agents have a seed each. */
static void announce(void *memory, int64_t env, uint64_t seed)
{
    struct group *group = memory;
    const struct hd_bridge_description *description = &group->workers->header.description;
    if (keeps_pickles(group) || description->height > 0 || description->agents > 0)
        return;
    struct hd_bridge_input *input = get_input(group, env);
    group->episode[env].announced = input->announced = ++group->n_announced;
    group->episode[env].next_seed = input->next_seed = seed;
}

/* -- Step -------------------------------------------------------------------------------------- */

/* Counts the step that comes, and keeps its action. */
static int keep_action(struct group *group, int64_t env, const char *action, char *message)
{
    struct episode *episode = &group->episode[env];
    const int64_t bytes = action_bytes(group), limit = group->workers->header.description.limit;
    if (episode->phase == FRESH || episode->phase == STARTED) {
        hd_bridge_refuse(message, "it must be reset before the first step");
        return name_env(group, env, message);
    }
    if (!keeps_pickles(group)) {
        if (episode->head.steps >= limit) {
            hd_bridge_refuse(message,
                             "an episode has more than its %lld steps: set "
                             "env.options.max_episode_steps",
                             (long long)limit);
            return name_env(group, env, message);
        }
        memcpy(get_body(group, env) + episode->head.steps * bytes, action + env * bytes,
               (size_t)bytes);
    }
    memcpy(get_input(group, env)->action, action + env * bytes, (size_t)bytes);
    memcpy(group->action + env * bytes, action + env * bytes, (size_t)bytes);
    episode->head.steps++;
    return 0;
}

/* Returns whether a worker that steps several groups took the action that is given: it may have
 * waited while an env of another group was stepped. */
static bool took(const struct group *group, int64_t env)
{
    const char *taken = get_result(group, env)->frames + 2 * frame_bytes(group);
    const int64_t bytes = action_bytes(group);
    return !is_shared(group) || memcmp(taken, group->action + env * bytes, (size_t)bytes) == 0;
}

/* Takes what a step of an env has led to. */
static int show(struct group *group, int64_t env, const struct hd_env_outcome *outcome,
                char *message)
{
    const struct hd_bridge_result *result = get_result(group, env);
    const uint8_t done = result->done, truncated = result->truncated;
    if (done > 1 || truncated > 1 || !took(group, env)) {
        hd_bridge_refuse(message, "its worker process has written over the memory of the step "
                                  "(native code of an env?)");
        return name_env(group, env, message);
    }
    outcome->reward[env] = result->reward;
    outcome->done[env] = done;
    outcome->truncated[env] = truncated;
    memcpy((char *)outcome->obs + env * frame_bytes(group), result->frames,
           (size_t)frame_bytes(group));
    group->episode[env].head.rewards += outcome->reward[env];
    return 0;
}

/* A worker of one group steps all its envs; one of several steps those of the group. */
static void give_step(struct group *group, int64_t number)
{
    struct hd_bridge_control *control = hd_bridge_workers_get_control(group->workers, number);
    control->env = group->first;
    control->count = is_shared(group) ? group->envs : 0;
    hd_bridge_workers_give(group->workers, number, HD_BRIDGE_STEP);
}

static int begin_step(void *memory, const void *action, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    if (start_workers(group, message) != 0 || renew_all(group, message) != 0)
        return -1;
    for (int64_t i = 0; i < group->envs; i++)
        if (keep_action(group, i, action, message) != 0)
            return -1;
    const int64_t number = find_control(group, 0), n = group->workers->n;
    for (int64_t w = 0; w < n; w++)
        give_step(group, number + w);
    group->wait = hd_bridge_workers_begin_wait(group->workers, number, n);
    group->stepping = true;
    return 0;
}

static bool await_step(void *memory, double seconds)
{
    struct group *group = memory;
    const struct hd_bridge_user user = make_user(group);
    return hd_bridge_workers_wait(group->workers, &group->wait, seconds, &user);
}

static int end_step(void *memory, const struct hd_env_outcome *outcome,
                    char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    const struct hd_bridge_user user = make_user(group);
    group->stepping = false;
    if (hd_bridge_workers_end_wait(group->workers, &group->wait, &user, message) != 0)
        return -1;
    for (int64_t i = 0; i < group->envs; i++)
        if (show(group, i, outcome, message) != 0)
            return -1;
    return 0;
}

static int step(void *memory, const void *action, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    const double turn_s = 1;
    if (begin_step(memory, action, message) != 0)
        return -1;
    while (!await_step(memory, turn_s))
        ;
    return end_step(memory, outcome, message);
}

/* -- States ------------------------------------------------------------------------------------ */

static int64_t state_bytes(const void *memory)
{
    return (int64_t)sizeof(struct head) + body_bytes(memory);
}

static int64_t count_body(const struct group *group, const struct head *head)
{
    return keeps_pickles(group) ? head->count
           : head->steps > 0    ? head->steps * action_bytes(group)
                                : 0;
}

/* Has the worker of an env pickle it. */
static int save_pickle(struct group *group, int64_t env, struct head *head, const char **body_p,
                       char *message)
{
    if (order(group, env, HD_BRIDGE_SAVE, 0, message) != 0)
        return -1;
    const int64_t number = find_control(group, env);
    head->count = hd_bridge_workers_get_control(group->workers, number)->count;
    *body_p = hd_bridge_workers_get_body(group->workers, number);
    if (head->count >= 0 && head->count <= body_bytes(group))
        return 0;
    hd_bridge_refuse(message, "its worker process says that its pickle has %lld bytes",
                     (long long)head->count);
    return name_env(group, env, message);
}

static int save(const void *memory, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    /* A pickle is written by the worker, to memory that is the group's alone. */
    struct group *group = (struct group *)memory;
    struct head head = group->episode[env].head;
    const char *from = get_body(group, env);
    const bool live = group->episode[env].phase == LIVE;
    /* The pickle of a parallel env is kept by its first agent. */
    if (live && keeps_pickles(group) && env == find_first(group, env) &&
        save_pickle(group, env, &head, &from, message) != 0)
        return -1;
    if (live)
        head.obs_hash = hash_obs(group, env);
    const int64_t used = count_body(group, &head);
    char *body = (char *)state + sizeof head;
    memcpy(state, &head, sizeof head);
    memcpy(body, from, (size_t)used);
    memset(body + used, 0, (size_t)(body_bytes(group) - used));
    return 0;
}

static bool is_head(const struct group *group, const struct head *head)
{
    const int64_t limit = group->workers->header.description.limit;
    if (keeps_pickles(group))
        return head->steps >= -1 && head->count >= 0 && head->count <= group->options->pickle_bytes;
    return head->steps >= -1 && head->steps <= limit && head->count == 0;
}

/* Actions of a file reach Python as indices, so that they are checked. */
static bool are_actions(const struct group *group, const char *body, int64_t steps)
{
    const struct hd_bridge_description *d = &group->workers->header.description;
    for (int64_t i = 0; d->kind != HD_ENV_BOX && i < steps * d->action_dims; i++) {
        int32_t choice;
        memcpy(&choice, body + i * 4, sizeof choice);
        if (choice < 0 || choice >= d->n[i % d->action_dims])
            return false;
    }
    return true;
}

static int load(void *memory, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    struct episode *episode = &group->episode[env];
    const char *body = (const char *)state + sizeof(struct head);
    struct head head;
    memcpy(&head, state, sizeof head);
    if (!is_head(group, &head) || (!keeps_pickles(group) && !are_actions(group, body, head.steps)))
        return hd_bridge_refuse(message, "%s: env %lld cannot load what is not a saved state of it",
                                group->options->env_id, (long long)env);
    memcpy(get_body(group, env), body, (size_t)count_body(group, &head));
    if (episode->announced > 0)
        get_input(group, env)->announced = 0;
    group->n_loaded -= episode->phase == LOADED;
    *episode = (struct episode){.head = head, .phase = head.steps < 0 ? FRESH : LOADED};
    group->n_loaded += episode->phase == LOADED;
    return 0;
}

static int render(const void *memory, int64_t env, uint8_t *rgb, char message[HD_ENV_MESSAGE])
{
    struct group *group = (struct group *)memory; /* as `save` */
    const struct hd_bridge_description *description = &group->workers->header.description;
    if (renew(group, env, message) != 0 || order(group, env, HD_BRIDGE_RENDER, 0, message) != 0)
        return -1;
    memcpy(rgb, hd_bridge_workers_get_picture(group->workers, find_control(group, env)),
           (size_t)(description->height * description->width * 3));
    return 0;
}

static int identify(const struct hd_env_settings *settings, char message[HD_ENV_MESSAGE])
{
    struct hd_bridge_options options;
    int status = hd_bridge_options_read(settings, &options, message);
    if (status == 0)
        status = hd_bridge_identify(&options, message);
    hd_bridge_options_release(&options);
    return status;
}

static const struct hd_env gymnasium = {
    .abi = HD_ENV_ABI,
    .name = "gymnasium",
    .create = create,
    .destroy = destroy,
    .reset = reset,
    .step = step,
    .state_bytes = state_bytes,
    .save = save,
    .load = load,
    .render = render,
    .announce = announce,
    .identify = identify,
    .begin_step = begin_step,
    .await_step = await_step,
    .end_step = end_step,
};

const struct hd_env *hd_env_plugin(void)
{
    return &gymnasium;
}
