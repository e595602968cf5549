/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/collect/surplus.h"

#include "runtime/base/status.h"

#include <string.h>

#define KEY "policy.collect.surplus"

int64_t hd_fragment_count(int64_t n_sample, int64_t envs)
{
    return (n_sample + envs - 1) / envs;
}

int64_t hd_fragment_read(const struct hd_config *config)
{
    return hd_fragment_count(hd_config_get_int(config, "policy.collect.n_sample"),
                             hd_config_get_int(config, "env.collector_env_num"));
}

int64_t hd_surplus_count(const struct hd_config *config)
{
    return hd_fragment_read(config) * hd_config_get_int(config, "env.collector_env_num") -
           hd_config_get_int(config, "policy.collect.n_sample");
}

enum hd_surplus hd_surplus_read(const struct hd_config *config, bool cuts)
{
    if (hd_surplus_count(config) == 0 && (hd_fragment_read(config) == 1 || !cuts))
        return HD_SURPLUS_FIRST;
    const char *surplus = hd_config_get_text(config, KEY);
    return strcmp(surplus, "keep") == 0    ? HD_SURPLUS_KEEP
           : strcmp(surplus, "turns") == 0 ? HD_SURPLUS_TURNS
                                           : HD_SURPLUS_FIRST;
}

int hd_surplus_check_turns(const struct hd_setup *setup, bool cuts, bool *takes_turns_p)
{
    const enum hd_surplus surplus = hd_surplus_read(setup->config, cuts);
    if (surplus == HD_SURPLUS_KEEP)
        return hd_diag_add_error(setup->diag, hd_config_locate(setup->config, KEY, setup->location),
                                 KEY ": keep: samples of an earlier policy are of no use to %s",
                                 hd_config_get_text(setup->config, "policy.type"));
    *takes_turns_p = surplus == HD_SURPLUS_TURNS;
    return HD_OK;
}

int64_t hd_surplus_find_turn(int64_t iteration, int64_t n_sample, int64_t envs)
{
    const int64_t served = hd_fragment_count(n_sample, hd_fragment_count(n_sample, envs));
    return iteration * (served < envs ? served : 1) % envs;
}

void hd_surplus_hand_over(void *waiting, int64_t made, int64_t n, int64_t bytes, void *transitions)
{
    const size_t given = (size_t)(n * bytes), left = (size_t)((made - n) * bytes);
    memcpy(transitions, waiting, given);
    memmove(waiting, (char *)waiting + given, left);
    memset((char *)waiting + left, 0, given);
}
