/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/learn/learning_rate.h"

#include "runtime/base/status.h"
#include "tasks/types/output/scalars.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_option(const struct hd_setup *setup, const struct hd_node *node, double *rate_p)
{
    const char *nearest = NULL;
    char *end;
    *rate_p = strtod(node->text, &end);
    if (node->text[0] == '$'
            ? hd_config_find_number(setup->config, node->text + 1, rate_p, &nearest)
            : end != node->text && !*end && *rate_p >= 0 && isfinite(*rate_p))
        return HD_OK;
    return hd_diag_add_error(setup->diag, node->location,
                             "learning_rate: expected a number or a key "
                             "($policy.learn.learning_rate), found %.60s%s%s",
                             node->text, nearest ? "; is it $" : "", nearest ? nearest : "");
}

/* Returns the number that may have a schedule which a step's option names, or NULL. */
static const char *find_name(const char *option)
{
    static const char prefix[] = "$policy.learn.";
    for (int i = 0; i < HD_SCHEDULED; i++)
        if (strncmp(option, prefix, sizeof prefix - 1) == 0 &&
            strcmp(option + sizeof prefix - 1, hd_scheduled_names[i]) == 0)
            return hd_scheduled_names[i];
    return NULL;
}

static int check_alone(const struct hd_setup *setup)
{
    static const char scheduler[] = "policy.learn.lr_scheduler.type";
    if (strcmp(hd_config_get_text(setup->config, scheduler), "kl") != 0)
        return HD_OK;
    return hd_diag_add_error(
        setup->diag, hd_config_locate(setup->config, scheduler, setup->location),
        "%s: kl adapts the learning rate, and policy.learn.schedule has another course for it: "
        "leave one of them out",
        scheduler);
}

int hd_learning_rate_prepare(const struct hd_setup *setup, const struct hd_port *ports, int rate,
                             int schedule, const char *name, struct hd_scheduled *scheduled_p)
{
    const struct hd_node *option = hd_node_get(setup->options, "learning_rate");
    struct hd_scheduled found = {.port = -1, .field = -1};
    name = option ? find_name(option->text) : name;
    if (name)
        HD_TRY(hd_scheduled_prepare(setup, schedule, name, &found));
    if (option)
        HD_TRY(read_option(setup, option, &found.constant));
    if (found.port >= 0) {
        HD_TRY(check_alone(setup));
    } else if (setup->specs[rate]) {
        found.port = rate;
        HD_TRY(hd_scalars_find(setup, ports, rate, "learning_rate", &found.field));
    }
    *scheduled_p = found;
    return HD_OK;
}
