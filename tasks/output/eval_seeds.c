/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/output/eval_seeds.h"

#include <string.h>

struct hd_eval_seeds hd_eval_seeds_read(const struct hd_config *config)
{
    struct hd_eval_seeds seeds = {.episodes = hd_config_get_int(config, "env.n_evaluator_episode"),
                                  .envs = hd_config_get_int(config, "env.evaluator_env_num")};
    seeds.of_episodes = seeds.episodes <= seeds.envs || /* env and episode are the same number */
                        strcmp(hd_config_get_text(config, "policy.eval.seeds"), "episode") == 0;
    return seeds;
}

int64_t hd_eval_seeds_get_first(const struct hd_eval_seeds *seeds, int64_t env)
{
    const int64_t each = seeds->episodes / seeds->envs, more = seeds->episodes % seeds->envs;
    return env * each + (env < more ? env : more);
}

uint64_t hd_eval_seeds_get(const struct hd_eval_seeds *seeds, uint64_t seed, int64_t env,
                           int64_t episode)
{
    return seed + (uint64_t)(seeds->of_episodes ? episode : env);
}
