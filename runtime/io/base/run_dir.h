/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run directory that make a policy. Thread safe. */
#ifndef HD_RUNTIME_IO_BASE_RUN_DIR_H
#define HD_RUNTIME_IO_BASE_RUN_DIR_H

/* Finds the effective config of a run, and its weights: those of the best evaluation, else of the
 * last iteration that was saved. With weights_p NULL it finds the config alone. The paths are freed
 * with hd_free. Returns HD_OK, HD_ERR_INPUT (logged: there is no such file) or HD_ERR_NOMEM. */
int hd_run_dir_find_policy(const char *dir, char **config_p, char **weights_p);

#endif
