/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/env.h"

#include "kernels/envs/cartpole.h"

#include <stddef.h>
#include <string.h>

static const struct hd_env *const builtin[] = {&hd_env_cartpole};

const struct hd_env *hd_env_find(const char *name)
{
    for (size_t i = 0; i < sizeof builtin / sizeof builtin[0]; i++)
        if (strcmp(builtin[i]->name, name) == 0)
            return builtin[i];
    return NULL;
}
