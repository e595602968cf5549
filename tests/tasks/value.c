/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tasks/world.h"

enum { GUARD_BYTES = 64, GUARD = 0xA5 };

void *guarded_alloc(int64_t bytes)
{
    char *memory = hd_alloc(1, (size_t)bytes + GUARD_BYTES);
    ck_assert_ptr_nonnull(memory);
    memset(memory + bytes, GUARD, GUARD_BYTES);
    return memory;
}

void guarded_free(void *memory, int64_t bytes)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        ck_assert_uint_eq(((unsigned char *)memory)[bytes + i], GUARD);
    hd_free(memory);
}

void value_init(struct value *value, const struct hd_setup *setup, int64_t shard)
{
    value->data = guarded_alloc(value->spec.bytes);
    ck_assert_int_eq(hd_value_init(&value->spec, setup, shard, value->data), HD_OK);
}

void value_fini(struct value *value)
{
    hd_value_fini(&value->spec, value->data);
    guarded_free(value->data, value->spec.bytes);
}

void value_release(struct value *value)
{
    if (value->data)
        value_fini(value);
    if (value->spec.type->release)
        value->spec.type->release(&value->spec);
    else
        hd_free(value->spec.shape);
}

void value_clear(struct value *value)
{
    memset(value->data, 0, (size_t)value->spec.bytes);
}

uint64_t value_hash(const struct value *value)
{
    return hd_value_hash(&value->spec, value->data);
}

void value_save_load(struct value *value)
{
    struct value copy = {.spec = value->spec, .data = guarded_alloc(value->spec.bytes)};
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(hd_value_save(&value->spec, value->data, file), HD_OK);
    rewind(file);
    ck_assert_int_eq(hd_value_load(&copy.spec, copy.data, file), HD_OK);
    ck_assert_int_eq(fgetc(file), EOF);
    fclose(file);
    ck_assert_uint_eq(value_hash(&copy), value_hash(value));
    value_fini(value);
    value->data = copy.data;
}
