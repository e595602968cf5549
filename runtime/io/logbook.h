/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's logs of a run in DI-engine's layout: TensorBoard events in log/serial, one text log per
 * component in log/<component>/<component>_logger.txt. One thread at a time writes (tasks that log
 * run one after another); another thread may read the progress meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hd_logbook;
struct json_t; /* jansson's */

/* Opens the logs below a run directory. With `state`, they continue where hd_logbook_get_state was
 * called, and what was logged since is cut off. Files that cannot be written are told and kept in
 * memory (runtime/io/append.h). Returns HD_OK, HD_ERR_FORMAT for a state that none wrote, or
 * HD_ERR_NOMEM (all logged). hd_logbook_destroy (accepts NULL) flushes and releases. */
int hd_logbook_create(const char *directory, const struct json_t *state,
                      struct hd_logbook **book_p);
void hd_logbook_destroy(struct hd_logbook *book);

/* Returns the lengths of all files and what else hd_logbook_create needs to continue, owned by the
 * caller; NULL without memory. No task that logs may be running. */
struct json_t *hd_logbook_get_state(struct hd_logbook *book);

/* Returns the run directory. Borrowed. Thread safe. */
const char *hd_logbook_get_dir(const struct hd_logbook *book);

/* Returns the name of the event file, which no other run has and which stays when the run goes on.
 * Borrowed. Thread safe. */
const char *hd_logbook_get_name(const struct hd_logbook *book);

/* Keeps copies of what files of weights say of their policy and of its origins (NULL: nothing),
 * before any task runs. Returns HD_OK or HD_ERR_NOMEM. The others return them, or NULL. Borrowed.
 * Thread safe. */
int hd_logbook_set_policy(struct hd_logbook *book, const char *policy, const char *origins);
const char *hd_logbook_get_policy(const struct hd_logbook *book);
const char *hd_logbook_get_origins(const struct hd_logbook *book);

struct hd_log_item {
    const char *name;
    double value;
    bool iter_only; /* only <component>_iter/<name> */
};

/* Writes items[n] of a component: tags <component>_iter/<name> at x = train_iter and
 * <component>_step/<name> at x = env_step, and a table headed by `title` in the text log. Returns
 * HD_OK or HD_ERR_NOMEM. */
int hd_logbook_write_table(struct hd_logbook *book, const char *component, const char *title,
                           int64_t train_iter, int64_t env_step, const struct hd_log_item *items,
                           int n);

/* Writes a line formatted as by printf to a component's text log. Returns HD_OK or HD_ERR_NOMEM. */
int hd_logbook_write_line(struct hd_logbook *book, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Replace a file by data[bytes], wholly or not at all. If it cannot be written, they warn, keep it
 * in memory, and try again at each table and at the end (runtime/io/late_files.h); a spare file is
 * given up before others. `book` is a logbook (struct hd_file_put). Return HD_OK. */
int hd_logbook_put_file(void *book, const char *path, const void *data, int64_t bytes);
int hd_logbook_put_spare_file(void *book, const char *path, const void *data, int64_t bytes);

/* Remembers `now` for `key` and returns the value that was remembered before (0 at first): for
 * counts and times since the last log. */
double hd_logbook_replace_value(struct hd_logbook *book, const char *key, double now);

/* The content of the progress line; both functions are thread safe. */
struct hd_progress {
    double eval_mean, best; /* mean return of the newest and of the best evaluation; NaN: none */
    int64_t best_update;    /* after so many updates */
    int64_t env_step;
};
struct hd_progress hd_logbook_get_progress(struct hd_logbook *book);
void hd_logbook_set_progress(struct hd_logbook *book, struct hd_progress progress);
