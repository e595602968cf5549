/* SPDX-License-Identifier: Apache-2.0 */
/* The state of environments in a buffer of the caller: a header, and for each environment its
 * episode, its frames and what it saves itself. */
#include "infer/call_internal.h"
#include "infer/envs_internal.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <string.h>

/* Equal for environments that can load each other's states. */
struct header {
    uint64_t format, type; /* a hash of what follows this header, and of the environment's name */
    int64_t envs, obs_bytes, own_bytes;
};

struct episode {
    uint64_t seed;
    int64_t episode, steps;
    uint64_t flags;
};

enum { SEEDED = 1, STARTED = 2, ENDED = 4 };

static struct header describe(const struct heddle_envs *envs)
{
    return (struct header){.format = hd_hash_text("heddle envs: episode, frames, state"),
                           .type = hd_hash_text(envs->env->name),
                           .envs = envs->spec.envs,
                           .obs_bytes = envs->obs_bytes,
                           .own_bytes = envs->env->state_bytes(envs->ones[0].group)};
}

static int64_t count_bytes(const struct header *header)
{
    const int64_t each = (int64_t)sizeof(struct episode) + header->obs_bytes + header->own_bytes;
    return (int64_t)sizeof *header + header->envs * each;
}

int64_t heddle_envs_get_state_bytes(const struct heddle_envs *envs)
{
    const struct header header = describe(envs);
    return count_bytes(&header);
}

static int refuse(const struct heddle_envs *envs, int status, int64_t i, const char *what,
                  const char *message)
{
    return hd_fail(status, "environment %s, number %" PRId64 ", %s: %s", envs->env->name, i, what,
                   message);
}

static int save(const struct heddle_envs *envs, char *state)
{
    const struct header header = describe(envs);
    memcpy(state, &header, sizeof header);
    state += sizeof header;
    for (int64_t i = 0; i < header.envs; i++) {
        const struct hd_one_env *one = &envs->ones[i];
        char message[HD_ENV_MESSAGE] = "";
        const struct episode episode = {.seed = one->seed,
                                        .episode = one->episode,
                                        .steps = one->steps,
                                        .flags = (one->seeded ? SEEDED : 0u) |
                                                 (one->started ? STARTED : 0u) |
                                                 (one->ended ? ENDED : 0u)};
        memcpy(state, &episode, sizeof episode);
        state += sizeof episode;
        memcpy(state, envs->obs + i * header.obs_bytes, (size_t)header.obs_bytes);
        state += header.obs_bytes;
        if (envs->env->save(one->group, 0, state, message) != 0)
            return refuse(envs, HD_ERR_TASK, i, "save", message);
        state += header.own_bytes;
    }
    return HD_OK;
}

int heddle_envs_save(const struct heddle_envs *envs, void *state, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, save(envs, state));
}

static int check_header(const struct heddle_envs *envs, const char *state, int64_t bytes)
{
    const struct header header = describe(envs);
    if (bytes != count_bytes(&header) || memcmp(state, &header, sizeof header) != 0)
        return hd_fail(HD_ERR_FORMAT,
                       "these %" PRId64 " bytes are not a saved state of %" PRId64
                       " environments %s of these settings",
                       bytes, header.envs, envs->env->name);
    return HD_OK;
}

static int load_one(struct heddle_envs *envs, int64_t i, const char *state)
{
    char message[HD_ENV_MESSAGE] = "";
    struct hd_one_env *one = &envs->ones[i];
    struct episode episode;
    memcpy(&episode, state, sizeof episode);
    state += sizeof episode;
    if (episode.episode < 0 || episode.steps < 0 || episode.flags > (SEEDED | STARTED | ENDED))
        return refuse(envs, HD_ERR_FORMAT, i, "load", "what is not a saved state");
    if (envs->env->load(one->group, 0, state + envs->obs_bytes, message) != 0)
        return refuse(envs, HD_ERR_FORMAT, i, "load", message);
    memcpy(envs->obs + i * envs->obs_bytes, state, (size_t)envs->obs_bytes);
    one->seed = episode.seed;
    one->episode = episode.episode;
    one->steps = episode.steps;
    one->seeded = episode.flags & SEEDED;
    one->started = episode.flags & STARTED;
    one->ended = episode.flags & ENDED;
    return HD_OK;
}

static int load(struct heddle_envs *envs, const char *state, int64_t bytes)
{
    HD_TRY(check_header(envs, state, bytes));
    const int64_t each = (bytes - (int64_t)sizeof(struct header)) / envs->spec.envs;
    state += sizeof(struct header);
    for (int64_t i = 0; i < envs->spec.envs; i++)
        envs->ones[i].started = false;
    for (int64_t i = 0; i < envs->spec.envs; i++)
        HD_TRY(load_one(envs, i, state + i * each));
    return HD_OK;
}

int heddle_envs_load(struct heddle_envs *envs, const void *state, int64_t bytes, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, load(envs, state, bytes));
}
