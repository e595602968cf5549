/* SPDX-License-Identifier: Apache-2.0 */
/* The first convolution from the bytes of observations themselves, which it keeps in the place of
 * its input. */
#include "kernels/net/list/gpu/on_gpu_internal.h"

static struct hd_gpu_first_conv make_first_conv(const struct gpu_impl *impl, int64_t rows)
{
    return (struct hd_gpu_first_conv){.window = impl->window, .rows = rows, .out = impl->out};
}

static int64_t count_direct_kept(const struct gpu_impl *impl, int64_t rows)
{
    (void)rows;
    return hd_gpu_first_conv_count_norm(&impl->window) * (int64_t)sizeof(float);
}

static int64_t count_direct_scratch(const struct gpu_impl *impl, int64_t rows)
{
    const struct hd_gpu_first_conv conv = make_first_conv(impl, rows);
    return hd_gpu_first_conv_count_partials(&conv) * (int64_t)sizeof(float);
}

static struct hd_gpu_kept_obs find_kept(const struct gpu_pass *pass, const struct op *op)
{
    return (struct hd_gpu_kept_obs){.bytes = hd_gpu_get_value(pass, op->in, 0),
                                    .norm = hd_gpu_get_kept(pass, op)};
}

static bool takes_any_obs(const struct gpu_impl *impl, int64_t rows)
{
    (void)impl;
    (void)rows;
    return true;
}

static int direct_forward(const struct gpu_pass *pass, const struct op *op)
{
    const struct gpu_impl *impl = as_gpu(op);
    const struct hd_gpu_first_conv conv = make_first_conv(impl, pass->rows);
    const struct hd_gpu_kept_obs kept = find_kept(pass, op);
    HD_GPU_RUN(pass,
               hd_gpu_first_conv_forward(&conv, pass->obs, hd_gpu_get_shadow(pass, impl->weight),
                                         hd_gpu_get_shadow(pass, impl->bias),
                                         hd_gpu_get_value(pass, op->out, 0), &kept, pass->stream));
    return HD_OK;
}

static int direct_weights(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_first_conv conv = make_first_conv(as_gpu(op), pass->rows);
    const struct hd_gpu_kept_obs kept = find_kept(pass, op);
    HD_GPU_RUN(pass, hd_gpu_first_conv_gradient(
                         &conv, &kept, hd_gpu_get_delta(pass, op->out, 0), hd_gpu_get_scratch(pass),
                         pass->gradient + as_gpu(op)->gradient, pass->stream));
    return HD_OK;
}

const struct gpu_impl_type hd_gpu_direct = {.has_bias = true,
                                            .takes_raw_obs = takes_any_obs,
                                            .place = hd_gpu_place_product,
                                            .describe = hd_gpu_describe_product,
                                            .count_kept = count_direct_kept,
                                            .count_scratch = count_direct_scratch,
                                            .forward = direct_forward,
                                            .backward_weights = direct_weights};
