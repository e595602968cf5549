/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/play.h"

#include "kernels/greedy.h"
#include "runtime/base/status.h"
#include "tasks/arena.h"

/* Returns the bytes; memory NULL: only counts. */
static int64_t lay_out(const struct hd_envs_shape *shape, const struct hd_net *net, void *memory,
                       struct hd_play *play)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->envs, obs = n * shape->obs_size;
    play->obs = hd_arena_take(&arena, obs, sizeof *play->obs);
    play->action = hd_arena_take(&arena, n, sizeof *play->action);
    play->outcome.obs = hd_arena_take(&arena, obs, sizeof *play->obs);
    play->outcome.reward = hd_arena_take(&arena, n, sizeof *play->outcome.reward);
    play->outcome.done = hd_arena_take(&arena, n, sizeof *play->outcome.done);
    play->outcome.truncated = hd_arena_take(&arena, n, sizeof *play->outcome.truncated);
    play->greedy = hd_arena_take(&arena, hd_greedy_bytes(net, n), 1);
    return arena.used;
}

int64_t hd_play_bytes(const struct hd_envs_shape *shape, const struct hd_net *net)
{
    struct hd_play unused;
    return lay_out(shape, net, NULL, &unused);
}

struct hd_play hd_play_at(const struct hd_envs_shape *shape, const struct hd_net *net,
                          void *scratch)
{
    struct hd_play play;
    lay_out(shape, net, scratch, &play);
    return play;
}

void hd_play_greedy(const struct hd_play *play, const struct hd_envs_shape *shape,
                    const struct hd_envs *envs, const struct hd_net *net, const float *params)
{
    hd_envs_present(shape, envs, play->obs);
    hd_greedy(net, params, play->obs, shape->envs, play->greedy, play->action);
}

int hd_play_step(const struct hd_play *play, const struct hd_envs_shape *shape,
                 struct hd_envs *envs, char message[HD_ENV_MESSAGE])
{
    if (shape->env->step(*envs->group, play->action, &play->outcome, message) != 0)
        return HD_ERR_TASK;
    for (int64_t i = 0; i < shape->envs; i++) {
        envs->episode_return[i] += (double)play->outcome.reward[i];
        envs->episode_steps[i]++;
    }
    return HD_OK;
}
