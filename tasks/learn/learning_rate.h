/* SPDX-License-Identifier: Apache-2.0 */
/* The learning rate of an update, for verbs with optional ports `learning_rate` and `schedule`, and
 * perhaps an option `learning_rate`: a number, or a key of the config after `$`. Thread safe. */
#pragma once

#include "tasks/types/output/schedule.h"

/* Reads the option, or without it the number policy.learn.<name>, and finds where it changes, from
 * a verb's `prepare`: where it has a schedule, at port `schedule`, else where `adapt_lr` has
 * written it, at port `rate`. Returns HD_OK, or HD_ERR_INPUT (in setup->diag) when the option is no
 * such thing, a port's value has no learning rate, or both would change it. */
int hd_learning_rate_prepare(const struct hd_setup *setup, const struct hd_port *ports, int rate,
                             int schedule, const char *name, struct hd_scheduled *scheduled_p);
