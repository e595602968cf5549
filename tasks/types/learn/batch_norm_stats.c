/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/batch_norm_stats.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/params.h"

#include <math.h>

/* An instance is the number of batches, then the running statistics. */
enum { FLOATS_AT = HD_ALIGNMENT };

float *hd_batch_norm_stats_get_running(void *data)
{
    return data ? (float *)((char *)data + FLOATS_AT) : NULL;
}

int64_t *hd_batch_norm_stats_get_batches(void *data)
{
    return data;
}

int hd_batch_norm_stats_check(const struct hd_setup *setup, const struct hd_spec *params, int port)
{
    if (hd_net_count_levels(hd_params_get_net(params)) == 0 ||
        (port != HD_NO_BATCH_NORM_STATS && setup->specs[port]))
        return HD_OK;
    return hd_diag_add_error(setup->diag, setup->location,
                             port == HD_NO_BATCH_NORM_STATS
                                 ? "%s takes no nets with batch norm (policy.model.norm)"
                                 : "%s needs a value of type batch_norm_stats for batch norm "
                                   "(policy.model.norm), as graphs/bc_norm.yaml has one",
                             setup->verb);
}

static int batch_norm_stats_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(hd_params_check_of(spec, setup));
    const struct hd_net *net = hd_params_get_net(spec); /* NULL: its mistake has been told */
    const int64_t floats = net ? hd_net_count_running(net) : 0;
    spec->bytes = FLOATS_AT + hd_align_up(floats * (int64_t)sizeof(float));
    return HD_OK;
}

static int batch_norm_stats_init(const struct hd_spec *spec, const struct hd_setup *setup,
                                 int64_t shard, void *data)
{
    (void)setup, (void)shard;
    hd_net_init_running(hd_params_get_net(spec), hd_batch_norm_stats_get_running(data));
    return HD_OK;
}

static int batch_norm_stats_check(const struct hd_spec *spec, const void *data,
                                  char message[HD_NUMBERS_MESSAGE])
{
    const int64_t n = hd_net_count_running(hd_params_get_net(spec));
    HD_TRY(hd_number_check(message, "batches", -1, *hd_batch_norm_stats_get_batches((void *)data),
                           0, HD_COUNT_MAX));
    return hd_numbers_check_f32(message, "running", hd_batch_norm_stats_get_running((void *)data),
                                n, -INFINITY);
}

const struct hd_type hd_type_batch_norm_stats = {
    .name = "batch_norm_stats",
    .resolve = batch_norm_stats_resolve,
    .init = batch_norm_stats_init,
    .check = batch_norm_stats_check,
};
