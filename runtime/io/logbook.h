/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's logs of a run as DI-engine lays them out: TensorBoard events in log/serial, one text log
 * per component in log/<component>/<component>_logger.txt. One writer at a time (tasks that log run
 * one after another); the progress may be read by another thread meanwhile. */
#ifndef HD_RUNTIME_IO_LOGBOOK_H
#define HD_RUNTIME_IO_LOGBOOK_H

#include <stdbool.h>
#include <stdint.h>

struct hd_logbook;
struct json_t; /* jansson's */

/* Opens the logs below a run directory; with `state`, to go on where hd_logbook_get_state was
 * called: what was logged since is cut off. Released by hd_logbook_destroy (accepts NULL), which
 * flushes. Errors: HD_ERR_SYSTEM, HD_ERR_NOMEM (logged). */
int hd_logbook_create(const char *directory, const struct json_t *state,
                      struct hd_logbook **book_p);
void hd_logbook_destroy(struct hd_logbook *book);

/* The lengths of all files, and what else is needed to go on from here, owned by the caller; NULL:
 * no memory. No task that logs may be running. */
struct json_t *hd_logbook_get_state(struct hd_logbook *book);

/* The run directory. Borrowed. Thread safe. */
const char *hd_logbook_get_dir(const struct hd_logbook *book);

struct hd_log_item {
    const char *name;
    double value;
    bool iter_only; /* only <component>_iter/<name> */
};

/* Writes items[n] of a component: tags <component>_iter/<name> at x = train_iter and
 * <component>_step/<name> at x = env_step, and a table headed by `title` in the text log. Errors:
 * HD_ERR_SYSTEM (logged once). */
int hd_logbook_write_table(struct hd_logbook *book, const char *component, const char *title,
                           int64_t train_iter, int64_t env_step, const struct hd_log_item *items,
                           int n);

/* Writes a line of printf form to a component's text log. */
int hd_logbook_write_line(struct hd_logbook *book, const char *component, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The value given for `key` the last time (0 at first), remembering `now`: for counts and times
 * since the last log. */
double hd_logbook_replace_value(struct hd_logbook *book, const char *key, double now);

/* What a progress line shows. Thread safe. */
struct hd_progress {
    double eval_mean, best; /* mean return of the newest and of the best evaluation; NaN: none */
    int64_t env_step;
};
struct hd_progress hd_logbook_get_progress(struct hd_logbook *book);
void hd_logbook_set_progress(struct hd_logbook *book, struct hd_progress progress);

#endif
