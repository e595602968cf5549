/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/learn/losses/loss.h"

#include <string.h>

#define ADDRESS(name, ...) &hd_loss_##name
#define COMMA ,
static const struct hd_loss *const losses[] = {HD_POLICIES(ADDRESS, COMMA),
                                               HD_OTHER_LOSSES(ADDRESS, COMMA)};

const struct hd_loss *hd_loss_find(const struct hd_setup *setup)
{
    const char *name = hd_setup_get_option(setup, "loss");
    for (int i = 0; i < (int)(sizeof losses / sizeof *losses); i++)
        if (name && strcmp(losses[i]->name, name) == 0)
            return losses[i];
    return &hd_loss_dqn; /* only tests leave the option out */
}
