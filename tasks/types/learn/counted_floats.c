/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/counted_floats.h"

int64_t hd_counted_floats_get_bytes(const struct hd_spec *spec, int bucket)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return (hi - lo + 1) * (int64_t)sizeof(float);
}

void hd_counted_floats_add(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                           const void *other)
{
    (void)how;
    int64_t n = hd_counted_floats_get_bytes(spec, bucket) / (int64_t)sizeof(float);
    float *restrict sum = into;
    const float *restrict operand = other;
    for (int64_t i = 0; i < n; i++)
        sum[i] += operand[i];
}

float hd_counted_floats_divide(const struct hd_spec *spec, int bucket, enum hd_combine how,
                               const void *vector, void *data)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    const float *restrict sum = vector;
    float *restrict to = (float *)data + lo;
    float count = sum[hi - lo];
    float divisor = how == HD_MEAN && count > 0 ? count : 1;
    for (int64_t i = 0; i < hi - lo; i++)
        to[i] = sum[i] / divisor;
    return count;
}
