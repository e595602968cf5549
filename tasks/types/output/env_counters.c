/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/output/env_counters.h"

#include "runtime/base/status.h"

#include <string.h>

static const char *const names[] = {"env_step", "episode", "sample", "dropped"};
enum { FIELDS = sizeof names / sizeof names[0] };

static int env_counters_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->bytes = sizeof(struct hd_env_counters);
    return HD_OK;
}

static void env_counters_combine(const struct hd_spec *spec, int bucket, enum hd_combine how,
                                 void *into, const void *other)
{
    (void)spec, (void)bucket, (void)how;
    struct hd_env_counters *sum = into;
    const struct hd_env_counters *added = other;
    sum->env_step += added->env_step;
    sum->episode += added->episode;
    sum->sample += added->sample;
    sum->dropped += added->dropped;
}

static void env_counters_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                                const void *vector, void *data)
{
    (void)bucket, (void)how;
    memcpy(data, vector, (size_t)spec->bytes);
}

static const char *env_counters_field_name(const struct hd_spec *spec, int field)
{
    (void)spec;
    return field < FIELDS ? names[field] : NULL;
}

static double env_counters_field(const struct hd_spec *spec, const void *data, int index)
{
    (void)spec;
    const struct hd_env_counters *counters = data;
    const int64_t fields[FIELDS] = {counters->env_step, counters->episode, counters->sample,
                                    counters->dropped};
    return (double)fields[index];
}

static int env_counters_check(const struct hd_spec *spec, const void *data,
                              char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_env_counters *counters = data;
    (void)spec;
    HD_TRY(hd_number_check(message, "env_step", -1, counters->env_step, 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "episode", -1, counters->episode, 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "sample", -1, counters->sample, 0, HD_COUNT_MAX));
    return hd_number_check(message, "dropped", -1, counters->dropped, 0, HD_COUNT_MAX);
}

static const struct hd_reduction reduction = {
    .bytes = hd_value_get_vector_bytes,
    .pack = hd_value_pack,
    .combine = env_counters_combine,
    .unpack = env_counters_unpack,
    .hows = 1 << HD_SUM,
};

const struct hd_type hd_type_env_counters = {
    .name = "env_counters",
    .given = true,
    .pinned = true,
    .resolve = env_counters_resolve,
    .check = env_counters_check,
    .reduction = &reduction,
    .field_name = env_counters_field_name,
    .field = env_counters_field,
};
