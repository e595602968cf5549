/* SPDX-License-Identifier: Apache-2.0 */
/* A call from outside: while it is under way its thread computes as in the program `runner`, and
 * errors that are logged become the caller's message. For the thread that makes the call. */
#pragma once

#include "runtime/base/config/diag.h"

#include <stddef.h>
#include <stdint.h>

/* A call under way. */
struct hd_call {
    char *message; /* [HEDDLE_MESSAGE] of the caller, or NULL */
    size_t used;
    int errors; /* that were logged or reported */
    uint64_t float_mode;
    int team;
    struct hd_call *outer;
};

/* Begins a call, whose errors of hd_fail go to `message`. hd_call_end returns `status`, or
 * HD_ERR_TASK in place of HD_OK if there were errors: passes of a net return no status. */
void hd_call_begin(struct hd_call *call, char *message);
int hd_call_end(struct hd_call *call, int status);

/* Adds all mistakes to the message of the present call. */
void hd_call_report(const struct hd_diag *diag);
