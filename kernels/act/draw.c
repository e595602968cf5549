/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/act/draw.h"

#include "kernels/act/categorical.h"
#include "kernels/act/gaussian.h"
#include "kernels/common/argmax.h"
#include "kernels/common/normal.h"

#include <math.h>

void hd_act_greedily(const struct hd_env_actions *actions, int64_t n, const float *out,
                     union hd_action_number *action)
{
    (void)n;
    for (int d = 0; d < actions->dims; d++) {
        if (actions->kind == HD_ENV_BOX) {
            action[d].real = out[d];
            continue;
        }
        action[d].choice = (int32_t)hd_argmax(out, actions->n[d]);
        out += actions->n[d];
    }
}

void hd_act_by_mean(const struct hd_env_actions *actions, int64_t n, const float *out,
                    union hd_action_number *action)
{
    const int64_t each = n / actions->n[0];
    action->choice = (int32_t)hd_argmax_sum(out, actions->n[0], each);
}

static void draw_choices(const struct hd_env_actions *actions, const float *out,
                         const struct hd_rng *rng, uint32_t first, union hd_action_number *action)
{
    for (int d = 0; d < actions->dims; out += actions->n[d++]) {
        const double u = hd_rng_draw_uniform(rng, first + (uint32_t)d);
        action[d].choice = (int32_t)hd_categorical_draw(out, actions->n[d], u);
    }
}

void hd_act_by_draw(const struct hd_env_actions *actions, const float *out,
                    const struct hd_rng *rng, uint32_t first, union hd_action_number *action)
{
    if (actions->kind != HD_ENV_BOX) {
        draw_choices(actions, out, rng, first, action);
        return;
    }
    for (int d = 0; d < actions->dims; d++)
        action[d].real = hd_gaussian_draw(out[d], out[actions->dims + d],
                                          hd_normal_draw(rng, first + (uint32_t)d));
}

static float bound(float limit, float otherwise)
{
    return isfinite(limit) ? limit : otherwise;
}

void hd_act_randomly(const struct hd_env_actions *actions, const struct hd_rng *rng, uint32_t first,
                     union hd_action_number *action)
{
    for (int d = 0; d < actions->dims; d++) {
        const uint32_t item = first + (uint32_t)d;
        if (actions->kind != HD_ENV_BOX) {
            action[d].choice = (int32_t)hd_rng_draw_below(rng, item, actions->n[d]);
            continue;
        }
        const float low = bound(actions->low[d], -1), high = bound(actions->high[d], 1);
        action[d].real = low + (high - low) * (float)hd_rng_draw_uniform(rng, item);
    }
}

void hd_act_squashed_greedily(const struct hd_env_actions *actions, int64_t n, const float *out,
                              union hd_action_number *action)
{
    (void)n;
    for (int d = 0; d < actions->dims; d++)
        action[d].real = tanhf(out[d]);
}

void hd_act_squashed_by_draw(const struct hd_env_actions *actions, const float *out,
                             const struct hd_rng *rng, uint32_t first,
                             union hd_action_number *action)
{
    for (int d = 0; d < actions->dims; d++)
        action[d].real = hd_squashed_draw(out[d], out[actions->dims + d],
                                          hd_normal_draw(rng, first + (uint32_t)d))
                             .action;
}

void hd_act_squashed_randomly(int dims, const struct hd_rng *rng, uint32_t first,
                              union hd_action_number *action)
{
    for (int d = 0; d < dims; d++)
        action[d].real = 2 * (float)hd_rng_draw_uniform(rng, first + (uint32_t)d) - 1;
}

void hd_act_scale(const struct hd_env_actions *actions, const union hd_action_number *unit,
                  union hd_action_number *action)
{
    for (int d = 0; d < actions->dims; d++) {
        const float low = bound(actions->low[d], -1), high = bound(actions->high[d], 1);
        action[d].real = low + (high - low) * 0.5f * (unit[d].real + 1);
    }
}
