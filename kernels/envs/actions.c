/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/actions.h"

#include "runtime/base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool hd_actions_are_equal(const struct hd_env_actions *a, const struct hd_env_actions *b)
{
    return a->kind == b->kind && a->dims == b->dims &&
           (a->kind == HD_ENV_BOX || memcmp(a->n, b->n, (size_t)a->dims * sizeof *a->n) == 0);
}

int64_t hd_actions_count_logits(const struct hd_env_actions *actions)
{
    int64_t logits = 0;
    for (int i = 0; i < actions->dims; i++)
        logits += actions->kind == HD_ENV_BOX ? 2 : actions->n[i];
    return logits;
}

const char *hd_actions_describe(const struct hd_env_actions *actions, char text[HD_ACTIONS_TEXT])
{
    if (actions->kind == HD_ENV_DISCRETE)
        snprintf(text, HD_ACTIONS_TEXT, "%lld actions", (long long)actions->n[0]);
    else if (actions->kind == HD_ENV_BOX)
        snprintf(text, HD_ACTIONS_TEXT, "actions of %d real number%s", actions->dims,
                 actions->dims == 1 ? "" : "s");
    else
        for (int i = 0, at = 0; i < actions->dims && at < HD_ACTIONS_TEXT; i++)
            at += snprintf(text + at, (size_t)(HD_ACTIONS_TEXT - at), "%s%lld%s",
                           i ? ", " : "actions of [", (long long)actions->n[i],
                           i + 1 == actions->dims ? "]" : "");
    return text;
}

int hd_actions_check(const struct hd_env_actions *actions, const union hd_action_number *action,
                     int64_t n, char message[HD_NUMBERS_MESSAGE])
{
    if (actions->kind == HD_ENV_BOX)
        return hd_numbers_check_f32(message, "action", &action->real, n * actions->dims, -INFINITY);
    for (int64_t i = 0; i < n * actions->dims; i++)
        HD_TRY(hd_number_check(message, "action", i, action[i].choice, 0,
                               actions->n[i % actions->dims] - 1));
    return HD_OK;
}
