/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which convolutions the AMX kernels can compute. */
#include "kernels/common/amx.h"
#include "kernels/conv/conv_amx_internal.h"

bool hd_conv_amx_supports_forward(const struct hd_conv_fields *f)
{
    return f->kernel * f->in_channels % 32 == 0;
}

bool hd_conv_amx_supports(const struct hd_conv_fields *f)
{
    return hd_amx_is_ready() && f->bf16 && f->input == HD_NHWC && f->in_channels % 16 == 0 &&
           f->out_channels % 16 == 0 && f->kernel % f->stride == 0 && f->padding == 0;
}
