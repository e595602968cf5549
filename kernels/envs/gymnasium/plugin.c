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
};

struct group {
    struct hd_bridge_seat seat;
    struct hd_bridge_workers *workers; /* the team's */
    const struct hd_bridge_options *options;
    int64_t first, envs; /* of the team's block */
    int64_t n_loaded;
    struct episode *episode; /* [envs] */
};

/* -- Groups ------------------------------------------------------------------------------------ */

static void destroy(void *memory)
{
    struct group *group = memory;
    if (!group)
        return;
    hd_bridge_seat_leave(&group->seat);
    free(group->episode);
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
    if (!group->episode)
        return hd_bridge_refuse(message, "out of memory");
    for (int64_t i = 0; i < settings->envs; i++)
        group->episode[i].head.steps = -1;
    *spec_p = hd_bridge_make_spec(&group->workers->block->description);
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
    return hd_bridge_count_agents(&group->workers->block->description);
}

/* Returns the first agent of the parallel env of an env. */
static int64_t find_first(const struct group *group, int64_t env)
{
    return env - env % count_agents(group);
}

static int64_t action_bytes(const struct group *group)
{
    return group->workers->block->description.action_dims * 4;
}

static void *get_row(const struct group *group, int64_t offset, int64_t env, int64_t bytes)
{
    return (char *)hd_bridge_workers_get(group->workers, offset) + (group->first + env) * bytes;
}

static char *get_history(const struct group *group, int64_t env)
{
    const struct hd_bridge_header *block = group->workers->block;
    return get_row(group, block->history, env, block->description.limit * action_bytes(group));
}

/* Returns where the block says how far the next episode of the env is. */
static uint8_t *get_next(const struct group *group, int64_t env)
{
    return get_row(group, group->workers->block->next, env, 1);
}

/* FNV-1a over what an env shows: tells a replay that went another way. */
static uint64_t hash_obs(const struct group *group, int64_t env)
{
    const struct hd_bridge_header *block = group->workers->block;
    const uint8_t *obs = get_row(group, block->obs, env, block->frame_bytes);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < block->frame_bytes; i++)
        hash = (hash ^ obs[i]) * UINT64_C(0x100000001b3);
    return hash;
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

/* Names an env of the block (struct hd_bridge_user). */
static void name(const void *memory, int64_t env, char *message)
{
    const struct group *group = memory;
    name_env(group, env < 0 ? env : env - group->first, message);
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
    const float *reward = get_row(group, group->workers->block->reward, env, sizeof *reward);
    return !keeps_pickles(group) && *reward != (float)group->episode[env].head.rewards;
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

/* Brings a worker's env to the state that was loaded. */
static int renew(struct group *group, int64_t env, char *message)
{
    const int64_t first = find_first(group, env);
    const struct head *head = &group->episode[first].head;
    const bool pickles = keeps_pickles(group);
    if (group->episode[env].phase != LOADED)
        return 0;
    if (start_workers(group, message) != 0 || check_together(group, first, message) != 0 ||
        order(group, first, pickles ? HD_BRIDGE_LOAD : HD_BRIDGE_REPLAY,
              pickles ? head->count : head->steps, message) != 0)
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
    const struct hd_bridge_header *block = group->workers->block;
    const uint64_t *next_seed = get_row(group, block->next_seed, env, sizeof *next_seed);
    if (*get_next(group, env) != HD_BRIDGE_STARTED || *next_seed != seed)
        return false;
    memcpy(get_row(group, block->obs, env, block->frame_bytes),
           get_row(group, block->next_obs, env, block->frame_bytes), (size_t)block->frame_bytes);
    return true;
}

/* Starts an episode of an env, and of all agents of its parallel env. */
static int start(struct group *group, int64_t env, uint64_t seed, char *message)
{
    const int64_t first = find_first(group, env), end = first + count_agents(group);
    if (start_workers(group, message) != 0)
        return -1;
    for (int64_t i = first; i < end; i++) {
        group->n_loaded -= group->episode[i].phase == LOADED;
        group->episode[i] = (struct episode){.head.seed = seed};
    }
    if (!take_next(group, env, seed) && order(group, env, HD_BRIDGE_RESET, 0, message) != 0)
        return -1;
    *get_next(group, env) = HD_BRIDGE_UNKNOWN;
    for (int64_t i = first; i < end; i++)
        group->episode[i].phase = STARTED;
    return 0;
}

static int reset(void *memory, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    const struct hd_bridge_header *block = group->workers->block;
    if (group->episode[env].phase != STARTED && start(group, env, seed, message) != 0)
        return -1;
    group->episode[env].phase = LIVE;
    memcpy(obs, get_row(group, block->obs, env, block->frame_bytes), (size_t)block->frame_bytes);
    return 0;
}

/* An env that is kept as a pickle, or drawn, stays in its last state until it is reset, and so does
 * a parallel env, whose agents have a seed each. */
static void announce(void *memory, int64_t env, uint64_t seed)
{
    const struct group *group = memory;
    const struct hd_bridge_header *block = group->workers->block;
    if (keeps_pickles(group) || block->description.height > 0 || block->description.agents > 0)
        return;
    *(uint64_t *)get_row(group, block->next_seed, env, sizeof seed) = seed;
    *get_next(group, env) = HD_BRIDGE_ANNOUNCED;
}

/* -- Step -------------------------------------------------------------------------------------- */

/* Counts the step that comes, and keeps its action. */
static int keep_action(struct group *group, int64_t env, const char *action, char *message)
{
    struct episode *episode = &group->episode[env];
    const int64_t bytes = action_bytes(group), limit = group->workers->block->description.limit;
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
        memcpy(get_history(group, env) + episode->head.steps * bytes, action + env * bytes,
               (size_t)bytes);
    }
    episode->head.steps++;
    return 0;
}

static void show(const struct group *group, const struct hd_env_outcome *outcome)
{
    const struct hd_bridge_header *block = group->workers->block;
    const size_t n = (size_t)group->envs;
    memcpy(outcome->obs, get_row(group, block->obs, 0, block->frame_bytes),
           n * (size_t)block->frame_bytes);
    memcpy(outcome->reward, get_row(group, block->reward, 0, sizeof *outcome->reward),
           n * sizeof *outcome->reward);
    memcpy(outcome->done, get_row(group, block->done, 0, 1), n);
    memcpy(outcome->truncated, get_row(group, block->truncated, 0, 1), n);
}

/* A worker of one group steps all its envs; one of several steps those of the group. */
static void give_step(struct group *group, int64_t number)
{
    struct hd_bridge_control *control = hd_bridge_workers_get_control(group->workers, number);
    control->env = group->first;
    control->count = is_shared(group) ? group->envs : 0;
    hd_bridge_workers_give(group->workers, number, HD_BRIDGE_STEP);
}

static int step(void *memory, const void *action, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    const struct hd_bridge_header *block = group->workers->block;
    const struct hd_bridge_user user = make_user(group);
    if (start_workers(group, message) != 0 || renew_all(group, message) != 0)
        return -1;
    for (int64_t i = 0; i < group->envs; i++)
        if (keep_action(group, i, action, message) != 0)
            return -1;
    memcpy(get_row(group, block->action, 0, action_bytes(group)), action,
           (size_t)(group->envs * action_bytes(group)));
    const int64_t number = find_control(group, 0), n = block->workers;
    for (int64_t w = 0; w < n; w++)
        give_step(group, number + w);
    if (hd_bridge_workers_await(group->workers, number, n, &user, message) != 0)
        return -1;
    for (int64_t i = 0; i < group->envs; i++)
        group->episode[i].head.rewards +=
            *(const float *)get_row(group, block->reward, i, sizeof(float));
    show(group, outcome);
    return 0;
}

/* -- States ------------------------------------------------------------------------------------ */

/* Returns the most bytes that follow the head. */
static int64_t body_bytes(const struct group *group)
{
    return keeps_pickles(group) ? group->options->pickle_bytes
                                : group->workers->block->description.limit * action_bytes(group);
}

static int64_t state_bytes(const void *memory)
{
    return (int64_t)sizeof(struct head) + body_bytes(memory);
}

static char *get_body(const struct group *group, int64_t env)
{
    return keeps_pickles(group)
               ? get_row(group, group->workers->block->pickle, env, group->options->pickle_bytes)
               : get_history(group, env);
}

static int64_t count_body(const struct group *group, const struct head *head)
{
    return keeps_pickles(group) ? head->count
           : head->steps > 0    ? head->steps * action_bytes(group)
                                : 0;
}

static int renew_head(struct group *group, int64_t env, struct head *head, char *message)
{
    /* The pickle of a parallel env is kept by its first agent. */
    if (keeps_pickles(group) && env == find_first(group, env)) {
        if (order(group, env, HD_BRIDGE_SAVE, 0, message) != 0)
            return -1;
        head->count =
            hd_bridge_workers_get_control(group->workers, find_control(group, env))->count;
    }
    head->obs_hash = hash_obs(group, env);
    return 0;
}

static int save(const void *memory, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    /* A pickle is written by the worker, to memory that is the group's alone. */
    struct group *group = (struct group *)memory;
    struct head head = group->episode[env].head;
    if (group->episode[env].phase == LIVE && renew_head(group, env, &head, message) != 0)
        return -1;
    const int64_t used = count_body(group, &head);
    char *body = (char *)state + sizeof head;
    memcpy(state, &head, sizeof head);
    memcpy(body, get_body(group, env), (size_t)used);
    memset(body + used, 0, (size_t)(body_bytes(group) - used));
    return 0;
}

static bool is_head(const struct group *group, const struct head *head)
{
    const int64_t limit = group->workers->block->description.limit;
    if (keeps_pickles(group))
        return head->steps >= -1 && head->count >= 0 && head->count <= group->options->pickle_bytes;
    return head->steps >= -1 && head->steps <= limit && head->count == 0;
}

/* Actions of a file reach Python as indices, so that they are checked. */
static bool are_actions(const struct group *group, const char *body, int64_t steps)
{
    const struct hd_bridge_description *d = &group->workers->block->description;
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
    *get_next(group, env) = HD_BRIDGE_UNKNOWN;
    group->n_loaded -= episode->phase == LOADED;
    *episode = (struct episode){.head = head, .phase = head.steps < 0 ? FRESH : LOADED};
    group->n_loaded += episode->phase == LOADED;
    return 0;
}

static int render(const void *memory, int64_t env, uint8_t *rgb, char message[HD_ENV_MESSAGE])
{
    struct group *group = (struct group *)memory; /* as `save` */
    const struct hd_bridge_header *block = group->workers->block;
    if (renew(group, env, message) != 0 || order(group, env, HD_BRIDGE_RENDER, 0, message) != 0)
        return -1;
    const int64_t bytes = block->description.height * block->description.width * 3;
    const char *picture = hd_bridge_workers_get(group->workers, block->picture);
    memcpy(rgb, picture + find_control(group, env) * bytes, (size_t)bytes);
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
};

const struct hd_env *hd_env_plugin(void)
{
    return &gymnasium;
}
