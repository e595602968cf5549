/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run directory that make a policy. Thread safe. */
#ifndef HD_RUNTIME_IO_BASE_RUN_DIR_H
#define HD_RUNTIME_IO_BASE_RUN_DIR_H

#include <stdint.h>

/* Finds the effective config of a run, and its weights: those that a run which has ended names as
 * its best, else those of the best evaluation, else of the last iteration that was saved. With
 * weights_p NULL it finds the config alone. The paths are freed with hd_free. Returns HD_OK,
 * HD_ERR_INPUT (logged: there is no such file) or HD_ERR_NOMEM. */
int hd_run_dir_find_policy(const char *dir, char **config_p, char **weights_p);

/* Returns the updates of the last iteration of which a run directory has weights beside the best
 * ones; -1: none. */
int64_t hd_run_dir_find_last(const char *dir);

#endif
