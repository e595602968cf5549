/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which convolutions the AMX kernels can compute, and where their weights lie. */
#include "kernels/common/amx.h"
#include "kernels/conv/conv_amx_internal.h"

enum { BLOCK = 16 /* channels */ };

bool hd_conv_amx_supports_forward(const struct hd_conv_fields *f)
{
    return f->kernel * f->in_channels % 32 == 0;
}

bool hd_conv_amx_supports(const struct hd_conv_fields *f)
{
    return hd_amx_is_ready() && f->bf16 && f->input == HD_NHWC && f->in_channels % 16 == 0 &&
           f->out_channels % 16 == 0 && f->kernel % f->stride == 0 && f->padding == 0;
}

int64_t hd_conv_amx_count_shadow(const struct hd_conv_fields *f)
{
    return f->out_channels * f->in_channels * f->kernel * f->kernel;
}

/* The shadow is [16 outputs][row of the kernel][step][16 pairs of inputs][16 outputs][2], a step
 * being 32 numbers of a row. */
void hd_conv_amx_map_shadow(const struct hd_conv_fields *f, int32_t *place)
{
    const int64_t in = f->in_channels, kernel = f->kernel, out_size = in * kernel * kernel * BLOCK;
    for (int64_t i = 0; i < hd_conv_amx_count_shadow(f); i++) {
        const int64_t o = i % BLOCK, c = i / BLOCK % BLOCK, block = i / (BLOCK * BLOCK);
        const int64_t x = block % kernel, y = block / kernel % kernel;
        const int64_t in_block = block / (kernel * kernel) % (in / BLOCK);
        const int64_t out_block = block / (kernel * kernel) / (in / BLOCK);
        const int64_t at = (y * kernel + x) * in + in_block * BLOCK + c; /* within the sum */
        place[i] = (int32_t)(out_block * out_size + at / 2 * 2 * BLOCK + o * 2 + at % 2);
    }
}
