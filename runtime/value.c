/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/value.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdarg.h>
#include <string.h>

const char *const hd_combine_names[] = {
    [HD_SUM] = "sum", [HD_MEAN] = "mean", [HD_MAX] = "max", [HD_MIN] = "min", NULL};

int hd_value_init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                  void *data)
{
    return spec->type->init ? spec->type->init(spec, setup, shard, data) : HD_OK;
}

void hd_value_fini(const struct hd_spec *spec, void *data)
{
    if (spec->type->fini)
        spec->type->fini(spec, data);
}

int hd_value_snapshot(const struct hd_spec *spec, void *dst, const void *src)
{
    if (spec->type->snapshot)
        return spec->type->snapshot(spec, dst, src);
    memcpy(dst, src, (size_t)spec->bytes);
    return HD_OK;
}

int hd_value_copy_range(const struct hd_spec *spec, int64_t lo, int64_t hi, void *dst,
                        const void *src)
{
    if (spec->type->copy_range)
        return spec->type->copy_range(spec, lo, hi, dst, src);
    if (dst != src)
        memcpy((float *)dst + lo, (const float *)src + lo, (size_t)(hi - lo) * sizeof(float));
    return HD_OK;
}

int64_t hd_value_get_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi,
                                int i, int64_t *at_p)
{
    if (spec->type->get_byte_range)
        return spec->type->get_byte_range(spec, bucket, lo, hi, i, at_p);
    *at_p = lo * (int64_t)sizeof(float);
    return i == 0 ? (hi - lo) * (int64_t)sizeof(float) : -1;
}

int hd_value_save(const struct hd_spec *spec, const void *data, FILE *file)
{
    if (spec->type->save)
        return spec->type->save(spec, data, file);
    return hd_value_write(spec, data, (size_t)spec->bytes, file);
}

int hd_value_load(const struct hd_spec *spec, void *data, FILE *file)
{
    if (spec->type->load)
        return spec->type->load(spec, data, file);
    return hd_value_read(spec, data, (size_t)spec->bytes, file);
}

int hd_value_check(const struct hd_spec *spec, const void *data, char message[HD_NUMBERS_MESSAGE])
{
    return spec->type->check ? spec->type->check(spec, data, message) : HD_OK;
}

int hd_value_accept(const struct hd_spec *spec, const void *data, char message[HD_NUMBERS_MESSAGE])
{
    (void)spec, (void)data, (void)message;
    return HD_OK;
}

int hd_value_write(const struct hd_spec *spec, const void *data, size_t bytes, FILE *file)
{
    if (fwrite(data, 1, bytes, file) != bytes)
        return hd_fail(HD_ERR_SYSTEM, "value '%s' cannot be saved: %m", spec->name);
    return HD_OK;
}

int hd_value_read(const struct hd_spec *spec, void *data, size_t bytes, FILE *file)
{
    if (fread(data, 1, bytes, file) != bytes)
        return hd_fail(HD_ERR_FORMAT, "value '%s' cannot be loaded: the file is too short",
                       spec->name);
    return HD_OK;
}

int64_t hd_value_get_vector_bytes(const struct hd_spec *spec, int bucket)
{
    (void)bucket;
    return spec->bytes;
}

void hd_value_pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    (void)bucket;
    memcpy(vector, data, (size_t)spec->bytes);
}

uint64_t hd_value_hash(const struct hd_spec *spec, const void *data)
{
    if (spec->type->hash)
        return spec->type->hash(spec, data);
    if (spec->type->flat)
        return hd_hash_floats(0, data, spec->elements);
    return hd_hash_bytes(data, (size_t)spec->bytes);
}

int hd_value_find_field(const struct hd_spec *spec, const char *name)
{
    if (!spec->type->field_name)
        return -1;
    const char *known;
    for (int i = 0; (known = spec->type->field_name(spec, i)); i++)
        if (strcmp(known, name) == 0)
            return i;
    return -1;
}

void hd_spec_get_bucket(const struct hd_spec *spec, int bucket, int64_t *lo_p, int64_t *hi_p)
{
    int64_t blocks = (spec->elements + HD_BLOCK - 1) / HD_BLOCK;
    int64_t stride = (blocks + spec->buckets - 1) / spec->buckets * HD_BLOCK;
    int64_t lo = stride * bucket, hi = lo + stride;
    *lo_p = lo < spec->elements ? lo : spec->elements;
    *hi_p = hi < spec->elements ? hi : spec->elements;
}

const char *hd_shard_describe(int64_t shard, char text[HD_SHARD_TEXT])
{
    snprintf(text, HD_SHARD_TEXT, shard < 0 ? "" : " (shard %lld)", (long long)shard);
    return text;
}

int hd_body_fail(struct hd_context *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(context->message, HD_MESSAGE_BYTES, format, args);
    va_end(args);
    return HD_ERR_TASK;
}

int64_t hd_value_get_device_bytes(const struct hd_spec *spec)
{
    return spec->type->device ? spec->type->device->bytes(spec) : spec->bytes;
}

int64_t hd_value_get_common_bytes(const struct hd_spec *spec)
{
    return spec->type->device ? spec->type->device->common(spec) : spec->bytes;
}
