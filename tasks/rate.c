/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/rate.h"

#include "runtime/base/status.h"

#include <math.h>

int hd_rate_prepare(const struct hd_setup *setup, int port, struct hd_rate *rate_p)
{
    const struct hd_spec *spec = setup->specs[port];
    rate_p->first = hd_config_real(setup->config, "policy.learn.learning_rate");
    rate_p->field = spec ? hd_value_field(spec, "learning_rate") : -1;
    if (!spec || rate_p->field >= 0)
        return HD_OK;
    return hd_diag_error(setup->diag, setup->mark,
                         "port 'rate' needs a learning_rate, which '%s' does not hold", spec->name);
}

double hd_rate_now(const struct hd_rate *rate, const struct hd_view *view)
{
    const double steered =
        view->data ? view->spec->type->field(view->spec, view->data, rate->field) : NAN;
    return isnan(steered) ? rate->first : steered;
}
