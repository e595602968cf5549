/* SPDX-License-Identifier: Apache-2.0 */
#include "infer/spaces_internal.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)HEDDLE_OBS_PARTS == HD_ENV_PARTS && (int)HEDDLE_PART_NAME == HD_ENV_PART_NAME &&
                   (int)HEDDLE_OBS_DIMS == HD_ENV_DIMS &&
                   (int)HEDDLE_ACTION_DIMS == HD_ENV_ACTION_DIMS,
               "the public sizes are those of kernels/envs/env.h");
_Static_assert((int)HEDDLE_DISCRETE == HD_ENV_DISCRETE &&
                   (int)HEDDLE_MULTI_DISCRETE == HD_ENV_MULTI_DISCRETE &&
                   (int)HEDDLE_BOX == HD_ENV_BOX && (int)HEDDLE_U8 == HD_ENV_U8,
               "the public kinds are those of kernels/envs/env.h");

int64_t hd_actions_get_number_bytes(const struct hd_env_actions *actions)
{
    return actions->kind == HD_ENV_BOX ? sizeof(float) : sizeof(int64_t);
}

struct heddle_actions hd_actions_publish(const struct hd_env_actions *actions)
{
    struct heddle_actions public = {.kind = (enum heddle_actions_kind)actions->kind,
                                    .dims = actions->dims};
    memcpy(public.n, actions->n, sizeof public.n);
    memcpy(public.low, actions->low, sizeof public.low);
    memcpy(public.high, actions->high, sizeof public.high);
    return public;
}

struct heddle_obs hd_obs_publish(const struct hd_obs_shape *obs)
{
    const struct hd_obs_part *only = &obs->part[0];
    struct heddle_obs public = {.element = obs->u8 ? HEDDLE_U8 : HEDDLE_F32, .dims = only->dims};
    memcpy(public.shape, only->shape, sizeof public.shape);
    return hd_obs_has_parts(obs) ? (struct heddle_obs){HEDDLE_U8, 1, {obs->obs_bytes}} : public;
}

struct heddle_obs_parts hd_obs_publish_parts(const struct hd_obs_shape *obs)
{
    struct heddle_obs_parts public = {.n = hd_obs_has_parts(obs) ? obs->n_parts : 0,
                                      .frames = obs->stack,
                                      .frame_bytes = obs->frame_bytes};
    for (int i = 0; i < public.n; i++) {
        const struct hd_obs_part *from = &obs->part[i];
        struct heddle_obs_part *to = &public.part[i];
        *to = (struct heddle_obs_part){.element = from->u8 ? HEDDLE_U8 : HEDDLE_F32,
                                       .dims = from->dims,
                                       .offset = from->offset};
        snprintf(to->name, sizeof to->name, "%s", from->name);
        memcpy(to->shape, from->shape, sizeof to->shape);
    }
    return public;
}

void hd_actions_give(const struct hd_env_actions *actions, const union hd_action_number *from,
                     int64_t n, void *to)
{
    if (actions->kind == HD_ENV_BOX)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = from[i].choice;
}

static int take_reals(const float *from, int64_t n, union hd_action_number *to)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(from[i]))
            return hd_fail(HD_ERR_INPUT, "action %" PRId64 " is %g, expected a finite number", i,
                           (double)from[i]);
        to[i].real = from[i];
    }
    return HD_OK;
}

int hd_actions_take(const struct hd_env_actions *actions, const void *from, int64_t rows,
                    union hd_action_number *to)
{
    const int64_t n = rows * actions->dims, *choices = from;
    if (actions->kind == HD_ENV_BOX)
        return take_reals(from, n, to);
    for (int64_t i = 0; i < n; i++) {
        const int64_t most = actions->n[i % actions->dims] - 1;
        if (choices[i] < 0 || choices[i] > most)
            return hd_fail(HD_ERR_INPUT,
                           "action %" PRId64 " is %" PRId64 ", expected 0 to %" PRId64, i,
                           choices[i], most);
        to[i].choice = (int32_t)choices[i];
    }
    return HD_OK;
}
