/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/learn/learning_rate.h"

#include "tasks/types/output/scalars.h"

#include <math.h>

int hd_learning_rate_prepare(const struct hd_setup *setup, const struct hd_port *ports, int port,
                             struct hd_learning_rate *rate_p)
{
    rate_p->first = hd_config_get_real(setup->config, "policy.learn.learning_rate");
    return hd_scalars_find(setup, ports, port, "learning_rate", &rate_p->field);
}

double hd_learning_rate_get(const struct hd_learning_rate *rate, const struct hd_view *view)
{
    const double adapted =
        view->data ? view->spec->type->field(view->spec, view->data, rate->field) : NAN;
    return isnan(adapted) ? rate->first : adapted;
}
