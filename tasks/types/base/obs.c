/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/obs.h"

#include <stdio.h>

struct hd_obs_shape hd_obs_shape_read(const struct hd_config *config)
{
    int64_t dimensions, elements = 1;
    const int64_t *obs_shape = hd_config_get_ints(config, "policy.model.obs_shape", &dimensions);
    for (int64_t i = 0; i < dimensions; i++)
        elements *= obs_shape[i];
    struct hd_obs_shape shape = {.u8 = dimensions == 3,
                                 .stack = hd_config_get_int(config, "env.frame_stack")};
    shape.frame_bytes = elements / shape.stack * (shape.u8 ? 1 : (int64_t)sizeof(float));
    shape.obs_bytes = shape.frame_bytes * shape.stack;
    return shape;
}

const char *hd_obs_shape_write(const int64_t *shape, int64_t n, char text[HD_OBS_SHAPE_TEXT])
{
    int at = snprintf(text, HD_OBS_SHAPE_TEXT, "[");
    for (int64_t i = 0; i < n && at < HD_OBS_SHAPE_TEXT; i++)
        at += snprintf(text + at, (size_t)(HD_OBS_SHAPE_TEXT - at), "%lld%s", (long long)shape[i],
                       i + 1 < n ? ", " : "]");
    return text;
}

struct hd_tensor_data hd_obs_make_tensor(const char *name, const void *obs, int64_t rows,
                                         int64_t obs_bytes, bool u8)
{
    const int64_t bytes = u8 ? 1 : (int64_t)sizeof(float);
    return (struct hd_tensor_data){
        name, obs, 2, {rows, obs_bytes / bytes}, u8 ? HD_DTYPE_U8 : HD_DTYPE_F32};
}
