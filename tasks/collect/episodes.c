/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/collect/episodes.h"

#include "tasks/types/output/scalars.h"

/* Statistics of the last WINDOW episodes of each shard, named as in DI-engine's logs. The mean
 * square serves to compute the deviation over all shards. */
enum { RETURN_MEAN, RETURN_SQUARE, RETURN_MAX, RETURN_MIN, LENGTH, N_FIELDS };
enum { WINDOW = 20 };

static const struct hd_scalar_field fields[] = {
    [RETURN_MEAN] = {"reward_mean", HD_MEAN, WINDOW},
    [RETURN_SQUARE] = {"reward_square", HD_MEAN, WINDOW},
    [RETURN_MAX] = {"reward_max", HD_MAX, WINDOW},
    [RETURN_MIN] = {"reward_min", HD_MIN, WINDOW},
    [LENGTH] = {"avg_envstep_per_episode", HD_MEAN, WINDOW},
};

int hd_episodes_declare(const struct hd_setup *setup, struct hd_spec *spec)
{
    return hd_scalars_declare(setup, spec, "collector", fields, N_FIELDS);
}

void hd_episodes_push(const struct hd_view *episodes, double episode_return, double steps)
{
    const double values[N_FIELDS] = {
        [RETURN_MEAN] = episode_return,
        [RETURN_SQUARE] = episode_return * episode_return,
        [RETURN_MAX] = episode_return,
        [RETURN_MIN] = episode_return,
        [LENGTH] = steps,
    };
    for (int i = 0; i < N_FIELDS; i++)
        hd_scalars_push(episodes->spec, episodes->data, i, values[i], 1);
}

void hd_episodes_push_all(const struct hd_view *episodes, const struct hd_trajectories *t,
                          const struct hd_trajectories_shape *shape,
                          struct hd_env_counters *counters)
{
    for (int64_t i = 0; i < *t->ended; i++)
        hd_episodes_push(episodes, t->ended_return[i], t->ended_steps[i]);
    const int64_t steps = *t->forward * shape->envs;
    counters->env_step += steps;
    counters->episode += *t->ended;
    counters->sample += *t->made;
    counters->dropped += steps - shape->samples;
}
