/* SPDX-License-Identifier: Apache-2.0 */
/* Options of torchrun that `runner launch` has not, for those who know torchrun's. Thread
 * safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns whether given[length], as typed, is the option `name` ("--node-rank"), whose words may be
 * joined by - or _, as torchrun allows. */
bool hd_torchrun_option_has_name(const char *name, const char *given, size_t length);

/* Returns HD_ERR_INPUT (logged: which options of torchrun are known, and what to use instead) when
 * `typed` is an option of torchrun, else HD_OK. */
int hd_torchrun_option_refuse(const char *typed);
