/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for people: one line each on stderr, prefixed with the rank when there are several
 * ranks. Thread safe: one system call writes a line. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hd_log_level { HD_LOG_ERROR, HD_LOG_WARN, HD_LOG_INFO, HD_LOG_DEBUG };

/* Sends all lines, without their newline, to `sink`, which is called under the log's lock; NULL
 * restores stderr. */
void hd_log_set_sink(void (*sink)(enum hd_log_level level, const char *line, void *arg), void *arg);

/* Drops messages above this level; the default is HD_LOG_INFO. */
void hd_log_set_level(enum hd_log_level level);

/* Sets the rank that messages name. Ranks above 0 drop INFO and DEBUG; rank < 0 means "not a rank".
 */
void hd_log_set_rank(int rank, int world);

/* Writes one message formatted as by printf. Keeps errno. */
void hd_log(enum hd_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Logs at level ERROR and returns `status`, so that an error path is one statement. Keeps errno. */
int hd_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Stores the last message of level ERROR, cut to fit; "": there was none. */
void hd_log_get_last_error(char *text, int64_t bytes);

/* Writes text[length] as a message's line from a signal handler that ends the process. */
void hd_log_write_last(const char *text, size_t length);

/* Returns whether stderr is a terminal on which a line can be replaced, which TERM=dumb denies. */
bool hd_log_can_show_progress(void);

/* Replaces the progress line of a terminal, cut to its width; the next message overwrites it.
 * `line`, in ASCII, NULL: ends the progress line with a newline. Does nothing elsewhere. */
void hd_log_show_progress(const char *line);
