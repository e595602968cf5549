/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/critic.h"

#include "runtime/base/status.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/learn/params.h"

int hd_critic_check(const struct hd_setup *setup, const struct hd_spec *critic)
{
    const struct hd_net *net = hd_params_get_net(critic);
    const struct hd_source_location location =
        hd_config_locate(setup->config, "policy.critic", setup->location);
    const int64_t obs = hd_obs_shape_read(setup->config).part[0].shape[0];
    const int64_t dims = hd_actions_read(setup->config).dims;
    if (hd_net_count_obs(net) != obs + dims || hd_net_count_outputs(net) != 1)
        return hd_diag_add_error(setup->diag, location,
                                 "%s: the net of '%s' takes [%lld] and yields [%lld], but critics "
                                 "take [%lld], an observation of [%lld] joined with an action of "
                                 "[%lld] (input: [obs, action]), and yield [1]",
                                 setup->verb, critic->name, (long long)hd_net_count_obs(net),
                                 (long long)hd_net_count_outputs(net), (long long)(obs + dims),
                                 (long long)obs, (long long)dims);
    if (!hd_net_has_obs_gradient(net))
        return hd_diag_add_error(setup->diag, location,
                                 "%s: the net of '%s' has an embedding or batch norm, but critics "
                                 "must be differentiable by actions, one row at a time",
                                 setup->verb, critic->name);
    return HD_OK;
}
