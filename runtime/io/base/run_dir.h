/* SPDX-License-Identifier: Apache-2.0 */
/* Says what stands where in a run directory. Links inside it are not followed. Thread safe. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Refuses a run directory of which a folder, log or ckpt for instance, is a link or no folder, as a
 * run would then read and write elsewhere. Returns HD_OK or HD_ERR_INPUT (logged). */
int hd_run_dir_check(const char *dir);

/* Refuses, besides, logs that a run cannot continue in place: one that is a link, no file, or has
 * another name that the cut would change, too. Changes nothing. Returns HD_OK, HD_ERR_INPUT or, for
 * a folder that cannot be read, HD_ERR_SYSTEM (both logged). */
int hd_run_dir_check_logs(const char *dir);

/* Finds the effective config of a run, and its weights: those that a run which has ended names as
 * its best, else those of the best evaluation, else of the last iteration that was saved. With
 * weights_p NULL it finds the config alone. The paths are freed with hd_free. Returns HD_OK,
 * HD_ERR_INPUT (logged: there is no such file), what hd_run_dir_read_result does, or HD_ERR_NOMEM.
 */
int hd_run_dir_find_policy(const char *dir, char **config_p, char **weights_p);

/* Reads result.json of a run, to be released by json_decref; NULL: there is none. Returns HD_OK,
 * HD_ERR_INPUT when it cannot be read or HD_ERR_FORMAT when it is no object (both logged), or
 * HD_ERR_NOMEM. */
int hd_run_dir_read_result(const char *dir, json_t **result_p);

/* Returns the updates of the last iteration of which a run directory has weights beside the best
 * ones; -1: none. */
int64_t hd_run_dir_find_last(const char *dir);

/* Reads the number of a name "iteration_<n><suffix>", as the program writes it. Returns whether it
 * is one. */
bool hd_run_dir_parse_name(const char *name, const char *suffix, int64_t *number_p);

/* Returns whether an open folder has an entry of a type, S_IFREG or S_IFDIR. */
bool hd_run_dir_has(int folder, const char *name, mode_t type);
