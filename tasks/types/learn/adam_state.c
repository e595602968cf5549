/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/adam_state.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/params.h"

enum { COUNTS = sizeof(struct hd_adam_counts) };

static int64_t floats_bytes(const struct hd_spec *spec)
{
    return hd_align_up(spec->elements * (int64_t)sizeof(float));
}

static int adam_state_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(hd_params_resolve_floats(spec, setup));
    spec->bytes = 2 * floats_bytes(spec) + hd_align_up(spec->buckets * COUNTS);
    return HD_OK;
}

struct hd_adam_state hd_adam_state_lay_out(const struct hd_spec *spec, void *data)
{
    char *at = data;
    int64_t bytes = floats_bytes(spec);
    return (struct hd_adam_state){(float *)at, (float *)(at + bytes),
                                  (struct hd_adam_counts *)(at + 2 * bytes)};
}

static int64_t get_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi, int i,
                              int64_t *at_p)
{
    *at_p = i * floats_bytes(spec) + (i < 2 ? lo * (int64_t)sizeof(float) : bucket * COUNTS);
    return i < 2 ? (hi - lo) * (int64_t)sizeof(float) : i == 2 ? COUNTS : -1;
}

static uint64_t adam_state_hash(const struct hd_spec *spec, const void *data)
{
    struct hd_adam_state moments = hd_adam_state_lay_out(spec, (void *)data);
    uint64_t hash = hd_hash_floats(0, moments.first, spec->elements);
    hash = hd_hash_floats(hash, moments.second, spec->elements);
    hash = hd_hash_mix(hash, (uint64_t)moments.counts->updates);
    hash = hd_hash_mix(hash, (uint64_t)moments.counts->skipped);
    return hd_hash_mix(hash, (uint64_t)moments.counts->in_a_row);
}

static int adam_state_check(const struct hd_spec *spec, const void *data,
                            char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_adam_state state = hd_adam_state_lay_out(spec, (void *)data);
    return hd_numbers_check_i64(message, "updates", &state.counts->updates,
                                spec->buckets * COUNTS / (int64_t)sizeof(int64_t), 0, HD_COUNT_MAX);
}

static const char *adam_state_field_name(const struct hd_spec *spec, int field)
{
    (void)spec;
    return field == 0 ? "skipped" : NULL;
}

static double adam_state_field(const struct hd_spec *spec, const void *data, int field)
{
    (void)field;
    return (double)hd_adam_state_lay_out(spec, (void *)data).counts->skipped;
}

const struct hd_type hd_type_adam_state = {
    .name = "adam_state",
    .used_by_updates = true,
    .size_key = "policy.model.encoder_hidden_size_list",
    .flat = true,
    .resolve = adam_state_resolve,
    .get_byte_range = get_byte_range,
    .check = adam_state_check,
    .hash = adam_state_hash,
    .field_name = adam_state_field_name,
    .field = adam_state_field,
};
