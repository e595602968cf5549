/* SPDX-License-Identifier: Apache-2.0 */
/* Square windows over the images of a layer's input, [row][channel][y][x]. */
#ifndef HD_KERNELS_NET_LAYERS_GPU_WINDOWS_INTERNAL_CUH
#define HD_KERNELS_NET_LAYERS_GPU_WINDOWS_INTERNAL_CUH

#include "kernels/net/layers/gpu/launch_internal.cuh"

struct hd_layer_windows {
    int32_t channels, height, width, kernel, stride, padding;
    int32_t out_height, out_width;

    __device__ bool is_inside(int32_t y, int32_t x) const
    {
        return y >= 0 && y < height && x >= 0 && x < width;
    }
};

static inline struct hd_layer_windows
hd_layer_make_windows(const struct hd_layer *layer, int64_t kernel, int64_t stride, int64_t padding)
{
    return {(int32_t)layer->in.size[0],
            (int32_t)layer->in.size[1],
            (int32_t)layer->in.size[2],
            (int32_t)kernel,
            (int32_t)stride,
            (int32_t)padding,
            (int32_t)layer->out.size[1],
            (int32_t)layer->out.size[2]};
}

/* The pixel of an image, of which number i of an array of images is one. */
struct hd_layer_pixel {
    int32_t x, y;
    uint32_t image; /* row * channels + channel */
};

static inline __device__ struct hd_layer_pixel hd_layer_find_pixel(uint32_t i, int32_t height,
                                                                   int32_t width)
{
    const uint32_t line = i / (uint32_t)width;
    return {(int32_t)(i % (uint32_t)width), (int32_t)(line % (uint32_t)height),
            line / (uint32_t)height};
}

/* Calls visit(oy, ox) for the windows that a pixel lies in, in their order. */
template <class Visit>
static inline __device__ void hd_layer_visit_windows(const struct hd_layer_windows &w, int32_t y,
                                                     int32_t x, const Visit &visit)
{
    const int32_t top = y + w.padding, left = x + w.padding;
    const int32_t first_y = top < w.kernel ? 0 : (top - w.kernel) / w.stride + 1;
    const int32_t first_x = left < w.kernel ? 0 : (left - w.kernel) / w.stride + 1;
    for (int32_t oy = first_y; oy < w.out_height && oy * w.stride <= top; oy++)
        for (int32_t ox = first_x; ox < w.out_width && ox * w.stride <= left; ox++)
            visit(oy, ox);
}

#endif
