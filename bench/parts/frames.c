/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the conversion of observations of 4 frames of 84 x 84 bytes to the first convolution's
 * input: divided by 255, and normalised. */
#include "kernels/net/frames.h"

#include "bench/parts/parts.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

struct conversion {
    struct hd_frames frames;
    const struct hd_obs_norm *norm;
    int64_t rows;
    uint8_t *obs;
    void *to;
};

static void convert(void *arg)
{
    const struct conversion *c = arg;
    hd_frames_convert_bytes(&c->frames, c->norm, c->rows, c->obs, c->to);
}

static void report(const struct conversion *c, const char *name)
{
    double seconds = hd_part_measure_seconds(convert, (void *)c);
    hd_part_report(name, 1e6 * seconds / (double)c->rows, "us");
}

/* Memory is released by the end of the process. */
static int measure(int argc, char **argv)
{
    enum { FRAMES = 4, SIDE = 84, OBS = FRAMES * SIDE * SIDE };
    const bool bf16 = argc > 0 && strcmp(argv[0], "bf16") == 0;
    struct conversion c = {.frames = {.channels = FRAMES,
                                      .height = SIDE,
                                      .width = SIDE,
                                      .block = 4,
                                      .layout = bf16 ? HD_NHWC : HD_NCHW16,
                                      .bf16 = bf16},
                           .rows = hd_part_parse_number(argc, argv, 1, 24)};
    if (argc == 0 || c.rows == 0 || (!bf16 && strcmp(argv[0], "f32") != 0))
        return HD_ERR_INPUT;
    float *scale = hd_alloc(OBS, sizeof *scale), *shift = hd_alloc(OBS, sizeof *shift);
    c.obs = hd_alloc(c.rows * OBS, 1);
    c.to = hd_alloc(c.rows * OBS, sizeof(float));
    if (!scale || !shift || !c.obs || !c.to)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < c.rows * OBS; i++)
        c.obs[i] = (uint8_t)(i * 31);
    for (int64_t j = 0; j < OBS; j++) {
        scale[j] = 1.0f / (float)(1 + j % 100);
        shift[j] = -100 * scale[j];
    }
    const struct hd_obs_norm norm = {scale, shift, 5};
    report(&c, "divided");
    c.norm = &norm;
    report(&c, "normalised");
    return HD_OK;
}

const struct hd_bench_part hd_part_frames = {"f32|bf16 [ROWS]",
                                             "bytes of frames as a net takes them", measure};
