/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/temperature.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>

static int temperature_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    double *alpha = hd_alloc(1, sizeof *alpha);
    if (!alpha)
        return HD_ERR_NOMEM;
    *alpha = hd_config_get_real(setup->config, "policy.learn.alpha");
    spec->shape = alpha;
    spec->bytes = sizeof(struct hd_temperature);
    return HD_OK;
}

static int temperature_init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                            void *data)
{
    (void)setup, (void)shard;
    struct hd_temperature *temperature = data;
    temperature->log_alpha = (float)log(*(const double *)spec->shape);
    return HD_OK;
}

float hd_temperature_get(const void *data)
{
    return expf(((const struct hd_temperature *)data)->log_alpha);
}

static int temperature_check(const struct hd_spec *spec, const void *data,
                             char message[HD_NUMBERS_MESSAGE])
{
    (void)spec;
    const struct hd_temperature *temperature = data;
    HD_TRY(hd_numbers_check_f32(message, "log_alpha", &temperature->log_alpha, 1, -INFINITY));
    return hd_number_check(message, "updates", -1, temperature->updates, 0, HD_COUNT_MAX);
}

static const char *temperature_field_name(const struct hd_spec *spec, int field)
{
    (void)spec;
    return field == 0 ? "alpha" : NULL;
}

static double temperature_field(const struct hd_spec *spec, const void *data, int number)
{
    (void)spec, (void)number;
    return (double)hd_temperature_get(data);
}

const struct hd_type hd_type_temperature = {
    .name = "temperature",
    .resolve = temperature_resolve,
    .init = temperature_init,
    .check = temperature_check,
    .field_name = temperature_field_name,
    .field = temperature_field,
};
