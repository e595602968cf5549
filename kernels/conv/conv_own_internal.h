/* SPDX-License-Identifier: Apache-2.0 */
/* The passes that kernels of our own compute where oneDNN is slow. Thread safe on different memory;
 * a call computes on the calling thread. */
#pragma once

#include "kernels/conv/conv_fields.h"

/* One implementation of one pass: of the last three functions it has the one for its pass. */
struct hd_conv_own {
    const char *name;
    /* Returns the bytes of scratch of a pass whose parts have at most `max_batch` observations;
     * NULL: it needs none. Scratch keeps what `begin` or a gradient of weights puts there. */
    int64_t (*get_scratch_bytes)(const struct hd_conv_fields *fields, int64_t max_batch);
    /* Begin and end a pass, if not NULL: dweights has its final order only after the end. */
    void (*begin)(const struct hd_conv_fields *fields, const struct hd_conv_run *run);
    void (*end)(const struct hd_conv_fields *fields, const struct hd_conv_run *run);
    /* Compute a part like the functions of kernels/conv/conv.h with the corresponding names. */
    void (*forward)(const struct hd_conv_fields *fields, const struct hd_conv_run *run,
                    int64_t batch, const void *x, void *y);
    void (*backward_weights)(const struct hd_conv_fields *fields, const struct hd_conv_run *run,
                             int64_t batch, const void *x, const void *dy);
    void (*backward_data)(const struct hd_conv_fields *fields, const struct hd_conv_run *run,
                          int64_t batch, const void *dy, const void *y, void *dx);
};
