/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/adam_state.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/params.h"

static int64_t floats_bytes(const struct hd_spec *spec)
{
    return hd_align_up(spec->elements * (int64_t)sizeof(float));
}

static int adam_state_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(hd_params_check_of(spec, setup));
    spec->elements = spec->of->elements;
    spec->buckets = spec->of->buckets;
    spec->bytes = 2 * floats_bytes(spec) + hd_align_up(spec->buckets * (int64_t)sizeof(int64_t));
    return HD_OK;
}

struct hd_adam_state hd_adam_state_lay_out(const struct hd_spec *spec, void *data)
{
    char *at = data;
    int64_t bytes = floats_bytes(spec);
    return (struct hd_adam_state){(float *)at, (float *)(at + bytes), (int64_t *)(at + 2 * bytes)};
}

static int64_t get_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi, int i,
                              int64_t *at_p)
{
    *at_p = i * floats_bytes(spec) +
            (i < 2 ? lo * (int64_t)sizeof(float) : bucket * (int64_t)sizeof(int64_t));
    return i < 2 ? (hi - lo) * (int64_t)sizeof(float) : i == 2 ? (int64_t)sizeof(int64_t) : -1;
}

static uint64_t adam_state_hash(const struct hd_spec *spec, const void *data)
{
    struct hd_adam_state moments = hd_adam_state_lay_out(spec, (void *)data);
    uint64_t hash = hd_hash_floats(0, moments.first, spec->elements);
    hash = hd_hash_floats(hash, moments.second, spec->elements);
    return hd_hash_mix(hash, (uint64_t)moments.updates[0]);
}

static int adam_state_check(const struct hd_spec *spec, const void *data,
                            char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_adam_state state = hd_adam_state_lay_out(spec, (void *)data);
    return hd_numbers_check_i64(message, "updates", state.updates, spec->buckets, 0, HD_COUNT_MAX);
}

const struct hd_type hd_type_adam_state = {
    .name = "adam_state",
    .size_key = "policy.model.encoder_hidden_size_list",
    .flat = true,
    .resolve = adam_state_resolve,
    .get_byte_range = get_byte_range,
    .check = adam_state_check,
    .hash = adam_state_hash,
};
