/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of the plug-in and a worker process. The plug-in calls the first two; heddle_gymnasium.py
 * calls the others through ctypes, because one call of C costs less than the same system calls from
 * Python.
 */
#ifndef HD_KERNELS_ENVS_GYMNASIUM_TURN_H
#define HD_KERNELS_ENVS_GYMNASIUM_TURN_H

#include "kernels/envs/gymnasium/shared.h"

/* Gives the turn to the worker, which sees all that was written before. */
void hd_turn_give(struct hd_bridge_control *control);

/* Waits up to `seconds` for the worker to give the turn back. Returns whether it did. */
bool hd_turn_await(struct hd_bridge_control *control, double seconds);

/* Gives the turn to the plug-in and waits for the next one. Returns its command. */
__attribute__((visibility("default"))) int hd_gymnasium_next(struct hd_bridge_control *control);

/* Starts a thread that ends the process group as soon as the other end of the pipe `fd` is closed,
 * whatever Python does. Returns 0, or an errno. */
__attribute__((visibility("default"))) int hd_gymnasium_watch(int fd);

#endif
