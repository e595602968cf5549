/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in for tests: an env that keeps a book of what it shows and is given. Observations are
 * drawn from the seed of the episode and from actions, and so are rewards; episodes have 3 to 11
 * steps, and some of them are cut by a time limit. Options: `log`, a folder where each group writes
 * a file, with the seed of its first reset as name and a line of JSON for each reset and each step;
 * `reals: true` for actions of two real numbers instead of one of three choices. */
#include "kernels/envs/env.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBS = 3, CHOICES = 3, DIMS = 2 };

struct episode {
    uint64_t seed;
    int64_t step;
    float obs[OBS];
    float unused;
};

struct group {
    int64_t envs;
    bool reals;
    char *folder; /* NULL: keeps no book */
    FILE *book;   /* NULL until the first reset */
    struct episode episodes[];
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9E3779B97F4A7C15u + b + 1;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void show(struct episode *episode, float action, float *obs)
{
    for (int i = 0; i < OBS; i++) {
        const uint64_t draw = mix(episode->seed, (uint64_t)(episode->step * OBS + i));
        episode->obs[i] = (float)(draw >> 40) / 8388608 - 1 + action / (float)(4 + i);
    }
    memcpy(obs, episode->obs, sizeof episode->obs);
}

static void destroy(void *memory)
{
    struct group *group = memory;
    if (group->book)
        fclose(group->book);
    free(group->folder);
    free(group);
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    struct group *group =
        calloc(1, sizeof *group + (size_t)settings->envs * sizeof(struct episode));
    if (!group) {
        snprintf(message, HD_ENV_MESSAGE, "no memory");
        return -1;
    }
    group->envs = settings->envs;
    for (int i = 0; i < settings->n_options; i++)
        if (strcmp(settings->options[i].name, "log") == 0)
            group->folder = strdup(settings->options[i].value);
        else
            group->reals = strcmp(settings->options[i].value, "true") == 0;
    *spec_p = (struct hd_env_spec){.element = HD_ENV_F32, .dims = 1, .shape = {OBS}};
    if (group->reals)
        spec_p->actions = (struct hd_env_actions){
            .kind = HD_ENV_BOX, .dims = DIMS, .low = {-1, -1}, .high = {1, 1}};
    else
        spec_p->actions =
            (struct hd_env_actions){.kind = HD_ENV_DISCRETE, .dims = 1, .n = {CHOICES}};
    *group_p = group;
    return 0;
}

static int reset(void *memory, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    if (group->folder && !group->book) {
        snprintf(message, HD_ENV_MESSAGE, "%s/%" PRIu64, group->folder, seed);
        if (!(group->book = fopen(message, "w")))
            return -1;
        setvbuf(group->book, NULL, _IOLBF, BUFSIZ);
    }
    struct episode *episode = &group->episodes[env];
    *episode = (struct episode){.seed = seed};
    show(episode, 0, obs);
    if (group->book)
        fprintf(group->book, "{\"env\": %" PRId64 ", \"obs\": [%.9g, %.9g, %.9g]}\n", env,
                episode->obs[0], episode->obs[1], episode->obs[2]);
    return 0;
}

/* Writes what one env was given, and showed then, as a member of the step's list. */
static void note(const struct group *group, int64_t env, const void *actions,
                 const struct hd_env_outcome *outcome)
{
    const float *obs = group->episodes[env].obs, *real = (const float *)actions + env * DIMS;
    if (!group->book)
        return;
    fprintf(group->book, env == 0 ? "[[" : ", [");
    if (group->reals)
        fprintf(group->book, "[%.9g, %.9g]", real[0], real[1]);
    else
        fprintf(group->book, "%d", ((const int32_t *)actions)[env]);
    fprintf(group->book, ", %.9g, %d, %d, [%.9g, %.9g, %.9g]]%s", outcome->reward[env],
            outcome->done[env], outcome->truncated[env], obs[0], obs[1], obs[2],
            env + 1 == group->envs ? "]\n" : "");
}

static int step(void *memory, const void *actions, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    struct group *group = memory;
    (void)message;
    for (int64_t env = 0; env < group->envs; env++) {
        struct episode *episode = &group->episodes[env];
        const int64_t length = 3 + (int64_t)(mix(episode->seed, 1) % 9);
        const int32_t choice = ((const int32_t *)actions)[group->reals ? 0 : env];
        const float *real = (const float *)actions + env * DIMS;
        const float action = group->reals ? real[0] - real[1] / 2 : (float)choice - 1;
        outcome->reward[env] =
            group->reals ? real[0] * episode->obs[0] - real[1] * real[1] / 2 : episode->obs[choice];
        outcome->done[env] = ++episode->step == length;
        outcome->truncated[env] = outcome->done[env] && mix(episode->seed, 2) % 2 == 0;
        show(episode, action, (float *)outcome->obs + env * OBS);
        note(group, env, actions, outcome);
    }
    return 0;
}

static int64_t state_bytes(const void *group)
{
    (void)group;
    return sizeof(struct episode);
}

static int save(const void *group, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    (void)message;
    memcpy(state, &((const struct group *)group)->episodes[env], sizeof(struct episode));
    return 0;
}

static int load(void *group, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    (void)message;
    memcpy(&((struct group *)group)->episodes[env], state, sizeof(struct episode));
    return 0;
}

const struct hd_env *hd_env_plugin(void)
{
    static const struct hd_env ledger = {
        .abi = HD_ENV_ABI,
        .name = "ledger",
        .create = create,
        .destroy = destroy,
        .reset = reset,
        .step = step,
        .state_bytes = state_bytes,
        .save = save,
        .load = load,
    };
    return &ledger;
}
