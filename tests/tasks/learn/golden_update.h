/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of what an update reports, and of the net after it, with golden numbers. One thread
 * at a time. */
#pragma once

#include "tests/kernels/net/golden_net.h"
#include "tests/tasks/world.h"

/* Checks the field `key`_avg of a value of the world with wanted.key. */
static inline void check_field(const struct world *w, const char *value, struct golden wanted,
                               const char *key, double tolerance)
{
    char name[32];
    snprintf(name, sizeof name, "%s_avg", key);
    CHECK_CLOSE(world_field(w, value, name), golden_number(wanted, "%s", key), 1.0, tolerance, key);
}

/* Checks all that an update of PPO with choices reports; `norm` is the tolerance of the
 * gradient's. */
static inline void check_ppo_update(const struct world *w, struct golden wanted, double tolerance,
                                    double norm)
{
    static const char *const fields[] = {"cur_lr",       "total_loss", "policy_loss", "value_loss",
                                         "entropy_loss", "adv_max",    "adv_mean",    "value_mean",
                                         "value_max",    "approx_kl",  "clipfrac"};
    for (int i = 0; i < COUNT(fields); i++)
        check_field(w, "stats", wanted, fields[i], tolerance);
    check_field(w, "grad_norm", wanted, "grad_norm", norm);
}

/* Checks the tensors of a net's parameters with the list wanted.key. */
static inline void check_net(const struct world *w, const char *net, struct golden wanted,
                             const char *key, double tolerance)
{
    check_tensors(world_net(w, net), world_get(w, net)->data, wanted, key, tolerance);
}
