/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to people: one line each on stderr, prefixed with the rank when there are several.
 * All functions are thread safe; a line is written by one system call. */
#ifndef HD_RUNTIME_BASE_LOG_H
#define HD_RUNTIME_BASE_LOG_H

#include <stdarg.h>

enum hd_log_level { HD_LOG_ERROR, HD_LOG_WARN, HD_LOG_INFO, HD_LOG_DEBUG };

/* A sink receives complete lines without the newline; NULL restores stderr. */
void hd_log_set_sink(void (*sink)(enum hd_log_level level, const char *line, void *arg), void *arg);

/* Messages above this level are dropped; the default is HD_LOG_INFO. */
void hd_log_set_level(enum hd_log_level level);

/* rank of world: ranks other than 0 drop INFO and below; rank < 0 means "not a rank". */
void hd_log_set_rank(int rank, int world);

/* Writes one message of printf form. */
void hd_log(enum hd_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Logs at level ERROR and returns `status`, so that an error path is one statement. */
int hd_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces the single progress line of a terminal; the next message moves it out of the way.
 * `line` NULL ends the progress line (newline). Does nothing when stderr is not a terminal. */
void hd_log_show_progress(const char *line);

#endif
