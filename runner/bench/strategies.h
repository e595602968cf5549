/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies that a bench compares where none are named. Thread safe. */
#pragma once

#include "runner/base/run_spec.h"

/* Lists the strategies in strategies/ beside a config, or else the program's own, as "serial,A,B",
 * to be freed with hd_free; NULL (logged): there are none. A strategy that has a parameter which
 * the graph of run_spec lacks is left out (logged). */
char *hd_strategies_list(const char *config, const struct hd_run_spec *run_spec);
