/* SPDX-License-Identifier: Apache-2.0 */
/* Loads any bytes as the saved state of an environment of Gymnasium, which starts no Python: what
 * is taken is saved as it was loaded, and the environments beside it keep their states. */
#include "kernels/envs/env.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { ENVS = 3, KINDS = 4, OPTIONS = 5 };

/* What the run file declares, so that Python need not be asked. */
static const struct hd_env_option kinds[KINDS][OPTIONS] = {
    {{"obs_shape", "3"}, {"actions", "4"}, {"max_episode_steps", "5"}, {"save", "actions"}},
    {{"obs_shape", "3"}, {"actions", "[3, 2]"}, {"max_episode_steps", "4"}, {"save", "actions"}},
    {{"obs_shape", "[6, 5]"},
     {"box", "2"},
     {"low", "-1"},
     {"high", "[1, .inf]"},
     {"max_episode_steps", "3"}},
    {{"obs_shape", "3"}, {"actions", "2"}, {"save", "pickle"}, {"pickle_bytes", "64"}}};

static void *groups[KINDS];
static char message[HD_ENV_MESSAGE];

static void *make_group(const struct hd_env *env, int kind)
{
    struct hd_env_settings settings = {.envs = ENVS, .env_id = "Any-v0", .options = kinds[kind]};
    while (settings.n_options < OPTIONS && kinds[kind][settings.n_options].name)
        settings.n_options++;
    struct hd_env_spec spec;
    void *group = NULL;
    const int status = env->create(&settings, &spec, &group, message);
    fuzz_check(status == 0, message);
    return group;
}

static char *save(const struct hd_env *env, const void *group, int64_t number)
{
    char *state = malloc((size_t)env->state_bytes(group));
    fuzz_check(state != NULL, "memory");
    fuzz_check(env->save(group, number, state, message) == 0, message);
    return state;
}

static void check_others(const struct hd_env *env, const void *group, char *const *before,
                         int64_t loaded)
{
    for (int64_t i = 0; i < ENVS; i++) {
        char *after = save(env, group, i);
        fuzz_check(i == loaded || memcmp(after, before[i], (size_t)env->state_bytes(group)) == 0,
                   "another environment keeps its state");
        free(after);
    }
}

/* Choices reach Python as indices. They are the last of a state, with zeros where there are none.
 */
static void check_choices(int kind, const char *state, size_t size)
{
    static const int32_t n[2][2] = {{4, 4}, {3, 2}};
    enum { CHOICES = 8 }; /* of kind 1; kind 0 has fewer */
    const int count = kind == 0 ? 5 : CHOICES;
    int32_t choice[CHOICES];
    if (kind > 1)
        return;
    memcpy(choice, state + size - (size_t)count * sizeof *choice, (size_t)count * sizeof *choice);
    for (int i = 0; i < count; i++)
        fuzz_check(choice[i] >= 0 && choice[i] < n[kind][i % 2], "a choice that is one");
}

/* Loads a state, and what is saved then once more. */
static void load(const struct hd_env *env, int kind, int64_t number, const char *state)
{
    void *group = groups[kind];
    if (env->load(group, number, state, message) != 0) {
        fuzz_check(strstr(message, "is not a saved state") != NULL, message);
        return;
    }
    char *first = save(env, group, number);
    fuzz_check(env->load(group, number, first, message) == 0, "what is saved can be loaded");
    check_choices(kind, first, (size_t)env->state_bytes(group));
    char *second = save(env, group, number);
    fuzz_check(memcmp(first, second, (size_t)env->state_bytes(group)) == 0, "the same state");
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct hd_env *env = hd_env_plugin();
    if (bytes < 1)
        return 0;
    const int kind = data[0] % KINDS;
    const int64_t number = data[0] / KINDS % ENVS;
    if (!groups[kind])
        groups[kind] = make_group(env, kind);
    const size_t size = (size_t)env->state_bytes(groups[kind]);
    char *state = calloc(1, size), *before[ENVS];
    fuzz_check(state != NULL, "memory");
    memcpy(state, data + 1, bytes - 1 < size ? bytes - 1 : size);
    for (int64_t i = 0; i < ENVS; i++)
        before[i] = save(env, groups[kind], i);
    load(env, kind, number, state);
    check_others(env, groups[kind], before, number);
    for (int64_t i = 0; i < ENVS; i++)
        free(before[i]);
    free(state);
    return 0;
}
