/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of operands, added in the tree as the operands are. */
#include "runtime/engine/collective/collective_internal.h"

static float add_partials(const struct hd_spec *spec, int bucket, const void *instance, int64_t lo,
                          int64_t n)
{
    if (n == 1)
        return spec->type->weight(spec, bucket, instance, lo);
    const float left = add_partials(spec, bucket, instance, lo, n / 2);
    return left + add_partials(spec, bucket, instance, lo + n / 2, n - n / 2);
}

float hd_weights_add(const struct hd_spec *spec, int bucket, const void *const *instances,
                     int64_t n)
{
    if (n == 1)
        return add_partials(spec, bucket, instances[0], 0, spec->partials);
    const float left = hd_weights_add(spec, bucket, instances, n / 2);
    return left + hd_weights_add(spec, bucket, instances + n / 2, n - n / 2);
}
