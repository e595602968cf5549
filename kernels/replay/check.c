/* SPDX-License-Identifier: Apache-2.0 */
/* Checks rings and transitions that were read from files. */
#include "kernels/replay/replay_internal.h"
#include "runtime/base/status.h"

#include <math.h>

int hd_transition_check(const struct hd_transition *transition, int64_t i, int64_t nstep,
                        int64_t stack, int64_t envs, const struct hd_env_actions *actions,
                        char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_transition *t = transition;
    const int64_t before = t->age < stack - 1 ? t->age : stack - 1;
    HD_TRY(hd_number_check(message, "env of transition", i, t->env, 0, envs - 1));
    HD_TRY(hd_number_check(message, "age of transition", i, t->age, 0, INT32_MAX - nstep));
    HD_TRY(hd_number_check(message, "frame of transition", i, t->frame, before, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "ahead of transition", i, t->ahead, 0, nstep));
    HD_TRY(hd_actions_check(actions, hd_transition_get_action(t, nstep), 1, message));
    HD_TRY(hd_numbers_check_f32(message, "done of a transition", &t->done, 1, 0));
    HD_TRY(hd_numbers_check_f32(message, "value_gamma of a transition", &t->value_gamma, 1,
                                -INFINITY));
    return hd_numbers_check_f32(message, "reward of a transition", t->reward, nstep, -INFINITY);
}

/* A transition that the ring holds must have its frames there. */
static int check_held(const struct hd_replay_shape *shape, const struct hd_env_actions *actions,
                      const struct hd_replay_ring *ring, int64_t number,
                      char message[HD_NUMBERS_MESSAGE])
{
    const int64_t at = number % shape->capacity;
    const struct hd_transition *t =
        hd_transition_get(ring->transitions, shape->nstep, shape->dims, at);
    HD_TRY(hd_transition_check(t, at, shape->nstep, shape->stack, shape->envs, actions, message));
    const int64_t shown = ring->shown[t->env], oldest = shown - shape->frames;
    HD_TRY(hd_number_check(message, "oldest frame of transition", at,
                           hd_replay_find_oldest(shape, t->frame, t->age), oldest > 0 ? oldest : 0,
                           shown - 1));
    return hd_number_check(message, "newest frame of transition", at, t->frame + t->ahead, 0,
                           shown - 1);
}

int hd_replay_check(const struct hd_replay_shape *shape, const struct hd_env_actions *actions,
                    const void *memory, char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_replay_ring ring = hd_replay_ring_lay_out(shape, memory);
    const int64_t added = ring.header->added, gone = added - shape->capacity;
    HD_TRY(hd_number_check(message, "added", -1, added, 0, HD_COUNT_MAX));
    HD_TRY(hd_number_check(message, "lost", -1, ring.header->lost, gone > 0 ? gone : 0, added));
    HD_TRY(hd_numbers_check_i64(message, "shown", ring.shown, shape->envs, 0, HD_COUNT_MAX));
    HD_TRY(
        hd_numbers_check_i64(message, "users", ring.users, shape->envs * shape->frames, 0, added));
    for (int64_t number = ring.header->lost; number < added; number++)
        HD_TRY(check_held(shape, actions, &ring, number, message));
    return HD_OK;
}
