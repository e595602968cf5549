/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/collect/reward_stats.h"

#include "kernels/common/moments.h"
#include "tasks/types/output/moments.h"

void hd_reward_stats_begin(const struct hd_envs_shape *shape, const struct hd_envs *envs)
{
    if (shape->follows_returns)
        *envs->returns = (struct hd_env_returns){0};
}

static void add(struct hd_env_returns *returns, double discounted)
{
    const double share = 1 / ++returns->count;
    hd_moments_merge_one(&returns->mean, &returns->squares, discounted, 0, share,
                         (returns->count - 1) * share);
}

void hd_reward_stats_add(const struct hd_envs_shape *shape, const struct hd_envs *envs,
                         const struct hd_env_outcome *outcome, double gamma)
{
    for (int64_t env = 0; shape->follows_returns && env < *envs->count; env++) {
        const double discounted = gamma * envs->discounted[env] + (double)outcome->reward[env];
        add(envs->returns, discounted);
        envs->discounted[env] = outcome->done[env] ? 0 : discounted;
    }
}

void hd_reward_stats_gather(const struct hd_view *envs, const struct hd_view *stats)
{
    if (!stats->data)
        return;
    const struct hd_moments all = hd_moments_get(stats->spec, stats->data);
    *all.count = *all.mean = *all.squares = 0;
    for (int64_t group = 0; group < envs->spec->partials; group++) {
        struct hd_env_returns *returns = hd_envs_get(envs->spec, envs->data, group).returns;
        hd_moments_merge(
            all, (struct hd_moments){&returns->count, &returns->mean, &returns->squares}, 1);
    }
}
