/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* play PLUGIN ENVS STEPS ENV_ID ...: random actions through the plug-in, as training plays; prints
 * agent steps a second of CPU time, game by game. What it runs is what a profile-guided build is
 * tuned for. */
#include "kernels/envs/atari.h"
#include "kernels/envs/env.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static char message[HD_ENV_MESSAGE];

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "play: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static void play(const struct hd_env *env, const char *env_id, int64_t envs, int64_t steps)
{
    struct hd_env_settings settings = {.envs = envs, .env_id = env_id};
    struct hd_env_spec spec;
    void *group;
    if (env->create(&settings, &spec, &group, message) != 0)
        fail(env_id, message);
    uint8_t *obs = malloc((size_t)envs * HD_ATARI_FRAME);
    int32_t *action = calloc((size_t)envs, sizeof *action);
    struct hd_env_outcome outcome = {.obs = obs,
                                     .reward = calloc((size_t)envs, sizeof(float)),
                                     .done = calloc((size_t)envs, sizeof(bool)),
                                     .truncated = calloc((size_t)envs, sizeof(bool))};
    if (!obs || !action || !outcome.reward || !outcome.done || !outcome.truncated)
        fail(env_id, "no memory");
    for (int64_t i = 0; i < envs; i++)
        outcome.done[i] = true;
    uint64_t state = 1, episodes = 0;
    double start = now();
    for (int64_t t = 0; t < steps; t++) {
        for (int64_t i = 0; i < envs; i++) {
            if (outcome.done[i] &&
                env->reset(group, i, episodes++, obs + i * HD_ATARI_FRAME, message) != 0)
                fail(env_id, message);
            action[i] = (int32_t)(draw(&state) % (uint32_t)spec.actions);
        }
        if (env->step(group, action, &outcome, message) != 0)
            fail(env_id, message);
    }
    double seconds = now() - start;
    printf("%-36s %8.0f agent steps/s\n", env_id, (double)(steps * envs) / seconds);
    free(obs);
    free(action);
    free(outcome.reward);
    free(outcome.done);
    free(outcome.truncated);
    env->destroy(group);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: play PLUGIN ENVS STEPS ENV_ID ...\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    const struct hd_env *(*get)(void);
    if (!library)
        fail(argv[1], dlerror());
    *(void **)&get = dlsym(library, "hd_env_plugin");
    if (!get)
        fail(argv[1], "no plug-in");
    for (int i = 4; i < argc; i++)
        play(get(), argv[i], strtoll(argv[2], NULL, 10), strtoll(argv[3], NULL, 10));
    return EXIT_SUCCESS;
}
