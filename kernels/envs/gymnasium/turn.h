/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of the plug-in and a worker process. The plug-in calls all but the last;
 * heddle_gymnasium.py calls the last through ctypes, because one call of C costs less than the same
 * system calls from Python. Thread safe for different controls. */
#pragma once

#include "kernels/envs/gymnasium/shared.h"

/* Gives the turn of a control to its worker, which sees all that was written before. */
void hd_turn_give(struct hd_bridge_calls *calls, struct hd_bridge_control *control);

/* Returns whether a worker has the turn. */
bool hd_turn_is_given(const struct hd_bridge_control *control);

/* Waits up to `seconds`, 0: not at all, until the turn is given back. Returns whether it is so. */
bool hd_turn_await(struct hd_bridge_control *control, double seconds);

/* Returns whether the worker is done with a control whose turn is back. Where it is not, something
 * has written over the control. */
bool hd_turn_is_done(const struct hd_bridge_control *control);

/* Gives the turn of control `last` of a worker's controls[n] back to the plug-in and waits for the
 * next turn of any of them, from the one after `last` on. Returns its index. */
__attribute__((visibility("default"))) int hd_gymnasium_next(struct hd_bridge_calls *calls,
                                                             struct hd_bridge_control *controls,
                                                             int n, int last);
