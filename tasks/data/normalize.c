/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `normalize_rewards`: divides the rewards of trajectories by the deviation of discounted
 * returns, in place. Batches of a replay, which holds what the environment gave, are normalised
 * when they are drawn (sample_replay). */
#include "tasks/data/normalize.h"

#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/output/moments.h"

enum { NORM, TRAJECTORIES };

static const struct hd_port ports[] = {
    [NORM] = {"reward_norm", "moments", .mode = HD_READ},
    [TRAJECTORIES] = {"trajectories", "trajectories", .mode = HD_UPDATE},
    {0},
};

void hd_normalize_obs(const struct hd_view *view, int64_t rows, int64_t elements, float *obs)
{
    struct hd_obs_norm storage;
    const struct hd_obs_norm *norm = hd_moments_get_obs_norm(view, &storage);
    for (int64_t r = 0; norm && r < rows; r++, obs += elements)
        for (int64_t j = 0; j < elements; j++)
            obs[j] = hd_obs_normalise(norm, j, obs[j]);
}

void hd_normalize_rewards(const struct hd_view *norm, int64_t n, float *reward)
{
    if (!norm->data)
        return;
    const double deviation = hd_moments_get_deviation(norm->spec, norm->data);
    const float clip = hd_moments_get_clip(norm->spec);
    for (int64_t i = 0; i < n; i++) {
        const float scaled = (float)((double)reward[i] / deviation);
        reward[i] = scaled > clip ? clip : scaled < -clip ? -clip : scaled;
    }
}

static int normalize_rewards_declare(const struct hd_setup *setup)
{
    return hd_moments_declare_number(setup, setup->specs[NORM], true);
}

/* Each env of a group has made the same steps. */
static int normalize_rewards_body(struct hd_context *context, const struct hd_view *views,
                                  const void *args)
{
    (void)context, (void)args;
    const struct hd_view *of = &views[TRAJECTORIES];
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(of->spec);
    for (int64_t group = 0; group < of->spec->partials; group++) {
        const struct hd_trajectories t = hd_trajectories_get(of->spec, of->data, group);
        for (int64_t env = 0; env < shape->envs; env++)
            hd_normalize_rewards(&views[NORM], *t.forward, t.reward + env * shape->steps);
    }
    return HD_OK;
}

const struct hd_verb hd_verb_normalize_rewards = {
    .name = "normalize_rewards",
    .stream_id = 0x7d1e3c60f8a95b24,
    .ports = ports,
    .declare = normalize_rewards_declare,
    .body = normalize_rewards_body,
    .help = "divides the rewards of trajectories by the deviation of discounted returns",
};
