/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/shadow.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <string.h>

enum { ROW = HD_BF16_UNIT / 2 };

/* Either every unit of two rows of 16 floats becomes 32 consecutive elements, as pairs of the rows,
 * or each element has an index of its own. */
struct hd_shadow {
    int64_t elements;
    int32_t *unit;    /* [elements / 32], or NULL */
    int32_t *element; /* [elements], or NULL */
};

static bool is_pairs(const int32_t *place)
{
    for (int i = 0; i < ROW; i++)
        if (place[0] < 0 || place[i] != place[0] + 2 * i || place[ROW + i] != place[0] + 2 * i + 1)
            return false;
    return true;
}

static bool all_pairs(const int32_t *place, int64_t elements)
{
    for (int64_t i = 0; i + HD_BF16_UNIT <= elements; i += HD_BF16_UNIT)
        if (!is_pairs(place + i))
            return false;
    return elements % HD_BF16_UNIT == 0;
}

int hd_shadow_create(const int32_t *place, int64_t elements, struct hd_shadow **shadow_p)
{
    struct hd_shadow *shadow = hd_alloc(1, sizeof *shadow);
    bool pairs = all_pairs(place, elements);
    int64_t step = pairs ? HD_BF16_UNIT : 1;
    int32_t *table = hd_alloc(elements / step, sizeof *table);
    if (!shadow || !table) {
        hd_free(shadow);
        hd_free(table);
        return HD_ERR_NOMEM;
    }
    for (int64_t i = 0; i < elements / step; i++)
        table[i] = place[i * step];
    *shadow = (struct hd_shadow){elements, pairs ? table : NULL, pairs ? NULL : table};
    *shadow_p = shadow;
    return HD_OK;
}

void hd_shadow_destroy(struct hd_shadow *shadow)
{
    if (!shadow)
        return;
    hd_free(shadow->unit);
    hd_free(shadow->element);
    hd_free(shadow);
}

void hd_shadow_refresh(const struct hd_shadow *shadow, const float *floats, int64_t lo, int64_t hi,
                       hd_bf16 *to)
{
    if (shadow && shadow->element) {
        for (int64_t i = lo; i < hi; i++)
            if (shadow->element[i] >= 0)
                to[shadow->element[i]] = hd_bf16_from_float(floats[i]);
        return;
    }
    for (int64_t i = lo; i < hi; i += HD_BF16_UNIT)
        hd_bf16_pair(floats + i, floats + i + ROW,
                     to + (shadow ? shadow->unit[i / HD_BF16_UNIT] : i));
}
