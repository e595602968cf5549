/* SPDX-License-Identifier: Apache-2.0 */
/* A worker process of the Gymnasium bridge and all processes that its envs start, also those in
 * sessions of their own, end with the program that started it. heddle_gymnasium.py calls this
 * through ctypes. */
#pragma once

/* Takes what fork() has returned, in a process with one thread. Returns in the worker, which then
 * leads a process group of its own. The process that has forked never returns: it waits until the
 * worker ends, the other end of the pipe `alive` is closed, or SIGTERM comes, ends all descendants,
 * and exits as the worker has. It passes SIGUSR1 on to the worker. */
__attribute__((visibility("default"))) void hd_gymnasium_keep(int forked, int alive);
