/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of the plug-in and a worker process. The plug-in calls the first two; heddle_gymnasium.py
 * calls the others through ctypes, because one call of C costs less than the same system calls from
 * Python.
 */
#ifndef HD_KERNELS_ENVS_GYMNASIUM_TURN_H
#define HD_KERNELS_ENVS_GYMNASIUM_TURN_H

#include "kernels/envs/gymnasium/shared.h"

/* Gives the turn to a worker, which sees all that was written before, and counts it as busy. */
void hd_turn_give(_Atomic uint32_t *busy, struct hd_bridge_control *control);

/* Returns whether a worker has the turn. */
bool hd_turn_is_given(const struct hd_bridge_control *control);

/* Waits up to `seconds` until no worker is busy. Returns whether it is so. */
bool hd_turn_await(_Atomic uint32_t *busy, double seconds);

/* Gives the turn back to the plug-in and waits for the next one. Returns its command. */
__attribute__((visibility("default"))) int hd_gymnasium_next(_Atomic uint32_t *busy,
                                                             struct hd_bridge_control *control);

/* Starts a thread that ends the process group as soon as the other end of the pipe `fd` is closed,
 * whatever Python does. Returns 0, or an errno. */
__attribute__((visibility("default"))) int hd_gymnasium_watch(int fd);

#endif
