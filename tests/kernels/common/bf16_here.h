/* SPDX-License-Identifier: Apache-2.0 */
/* Tells tests whether this machine computes convolutions in bf16. One thread at a time. */
#pragma once

#include "kernels/conv/conv.h"
#include "runtime/base/status.h"

#include <stdio.h>

/* Returns whether it does; if not, says so once, and tests then try f32 alone. */
static inline bool bf16_here(void)
{
    static int known;
    struct hd_conv *conv;
    const struct hd_conv_fields fields = {.in_channels = 16,
                                          .in_height = 4,
                                          .in_width = 4,
                                          .out_channels = 16,
                                          .kernel = 2,
                                          .stride = 1,
                                          .input = HD_NHWC,
                                          .bf16 = true};
    if (known == 0) {
        known = hd_conv_create(&fields, &conv) == HD_OK ? 1 : -1;
        if (known < 0)
            printf("no bf16 here: it is not tried\n");
        else
            hd_conv_destroy(conv);
    }
    return known > 0;
}

/* Returns how many precisions this machine computes convolutions in: f32, and perhaps bf16. */
static inline int count_precisions(void)
{
    return bf16_here() ? 2 : 1;
}
