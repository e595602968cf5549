/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a subcommand of `runner`. One thread at a time. */
#pragma once

#include "runner/base/options/table.h"

#include <stdbool.h>

/* Reads the options of subcommand argv[0]. hd_options_release releases them. Returns HD_OK;
 * HD_ERR_INPUT or HD_ERR_NOMEM (logged); or 1 when --help or --version was given and answered. */
int hd_options_read(int argc, char **argv, struct hd_options *options_p);
void hd_options_release(struct hd_options *options);

/* Returns whether an argument of `runner launch` is an option that `runner run` does not have, and
 * whether the next argument is its value. */
bool hd_option_is_for_launcher(const char *argument, bool *takes_value_p);

/* Adds a `KEY=VALUE` as --set does, for an option, which messages name ("--seed"), or for none
 * (NULL). Takes the text, which is freed with hd_free (NULL counts as no memory). Returns HD_OK,
 * HD_ERR_INPUT or HD_ERR_NOMEM (logged). */
int hd_options_add_set(struct hd_options *options, char *text, const char *option);

/* Lets the config be looked at before it is trusted: refuses plug-ins from now on, unless
 * --allow-plugin or HEDDLE_ALLOW_PLUGIN=1 allows them. Cannot fail. */
void hd_options_refuse_plugins(struct hd_options *options);

/* Does what --strategy NAME does. Returns HD_OK, HD_ERR_INPUT or HD_ERR_NOMEM (logged). */
int hd_options_use_strategy(struct hd_options *options, const char *name);
