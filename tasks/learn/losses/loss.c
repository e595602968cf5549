/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/learn/losses/loss.h"

#include <string.h>

static const struct hd_loss *const losses[] = {&hd_loss_dqn, &hd_loss_bc, &hd_loss_ppo};

const struct hd_loss *hd_loss_find(const struct hd_setup *setup)
{
    const char *name = hd_setup_get_option(setup, "loss");
    for (int i = 0; i < (int)(sizeof losses / sizeof *losses); i++)
        if (name && strcmp(losses[i]->name, name) == 0)
            return losses[i];
    return losses[0]; /* only tests leave the option out */
}
