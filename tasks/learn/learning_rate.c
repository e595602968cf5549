/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/learn/learning_rate.h"

#include "runtime/base/status.h"
#include "tasks/types/output/scalars.h"

#include <math.h>
#include <stdlib.h>

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

int hd_learning_rate_prepare(const struct hd_setup *setup, const struct hd_port *ports, int port,
                             const char *key, struct hd_learning_rate *rate_p)
{
    const struct hd_node *option = hd_node_get(setup->options, "learning_rate");
    rate_p->first = hd_config_get_real(setup->config, key);
    if (option)
        HD_TRY(read_option(setup, option, &rate_p->first));
    return hd_scalars_find(setup, ports, port, "learning_rate", &rate_p->field);
}

double hd_learning_rate_get(const struct hd_learning_rate *rate, const struct hd_view *view)
{
    const double adapted =
        view->data ? view->spec->type->field(view->spec, view->data, rate->field) : NAN;
    return isnan(adapted) ? rate->first : adapted;
}
