/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, and the conventions of every header in this project.
 *
 * Functions return 0 (HD_OK) or a negative enum hd_status; outputs come last, end in _p, and are
 * untouched on failure. Pointers are borrowed and calls are not thread safe unless a comment says
 * otherwise. The place that first knows of an error logs it, once; callers pass the code up. */
#pragma once

#include <stdbool.h>

/* X(name, value, exit code of the program, sentence) */
#define HD_STATUS_MAP(X)                                                                           \
    X(OK, 0, 0, "success")                                                                         \
    X(ERR_INPUT, -1, 2, "bad input")                                                               \
    X(ERR_NOMEM, -2, 1, "out of memory")                                                           \
    X(ERR_SYSTEM, -3, 1, "an operating system call failed")                                        \
    X(ERR_FORMAT, -4, 2, "a file is malformed")                                                    \
    X(ERR_UNSUPPORTED, -5, 2, "not supported by this build or machine")                            \
    X(ERR_TASK, -6, 1, "a task failed")                                                            \
    X(ERR_PEER, -7, 1, "another rank failed")                                                      \
    X(ERR_WATCHDOG, -8, 3, "nothing finished for too long")                                        \
    X(ERR_DIVERGED, -9, 4, "ranks hold different parameters")                                      \
    X(ERR_STOPPED, -10, 75, "stopped, can be resumed")                                             \
    X(ERR_INTERRUPTED, -11, 130, "interrupted")                                                    \
    X(ERR_DEVICE, -12, 1, "a GPU failed")

enum hd_status {
#define HD_STATUS_ENUM(name, value, exit_code, text) HD_##name = (value),
    HD_STATUS_MAP(HD_STATUS_ENUM)
#undef HD_STATUS_ENUM
        HD_AGAIN = 1, /* no error: a task body has more to do and wants to be called again */
    HD_WAITS = 2      /* likewise, once what context->ready waits for is there */
};

/* Returns the sentence for a status; never NULL. Thread safe. */
const char *hd_status_get_text(int status);

/* Returns the program's exit code for a status (README.md has the table). Thread safe. */
int hd_status_get_exit_code(int status);

/* Returns whether a status is that of a stop by a signal. Thread safe. */
bool hd_status_is_stop(int status);

/* Returns from the calling function when an expression fails. */
#define HD_TRY(expression)                                                                         \
    do {                                                                                           \
        int hd_try_status_ = (expression);                                                         \
        if (hd_try_status_ != HD_OK)                                                               \
            return hd_try_status_;                                                                 \
    } while (0)

/* Stores the status of an expression and goes to a clean-up label when it fails. */
#define HD_TRY_GOTO(expression, status, label)                                                     \
    do {                                                                                           \
        (status) = (expression);                                                                   \
        if ((status) != HD_OK)                                                                     \
            goto label;                                                                            \
    } while (0)
