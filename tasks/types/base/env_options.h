/* SPDX-License-Identifier: Apache-2.0 */
/* The options that a run file gives to its environment. Thread safe on different settings. */
#pragma once

#include "kernels/envs/env.h"
#include "runtime/base/config/config.h"

/* Makes the paths in env.options of Gymnasium's envs (`path`, `python`) absolute, so that the
 * effective config means the same wherever it lies: relative ones are relative to the run file that
 * says them, or, of a --set, to the working directory. A `python` without a slash is a folder or
 * program there if there is one, else left for PATH. Returns HD_OK, HD_ERR_NOMEM or HD_ERR_SYSTEM
 * (logged: there is no such folder), or HD_ERR_INPUT after adding to `diag` words among arguments
 * that some readers of YAML take for booleans and others for texts. */
int hd_env_options_resolve(struct hd_config *config, struct hd_diag *diag);

/* Returns whether the environment of a config is code that is loaded, a plug-in. */
bool hd_env_is_plugin(const struct hd_config *config);

/* Sets settings->env_id, and fills settings->options from env.options: scalars as they are written,
 * maps and lists as JSON, and so what belongs to a map ("kwargs.size"). What the maps `collector`
 * and `evaluator` in it hold is for envs of that side, by settings->evaluator, in place of common
 * options of the same name; kwargs lie over the common ones. Texts and names are borrowed from the
 * config. Returns HD_OK or HD_ERR_NOMEM (logged). hd_env_options_release releases the options, also
 * after an error. */
int hd_env_options_read(const struct hd_config *config, struct hd_env_settings *settings);
void hd_env_options_release(struct hd_env_settings *settings);

/* Writes the options as "name: value, ...", by name, to text[bytes], which may be too short for
 * all; those that say where code lies, or how frames are drawn, do not count. */
void hd_env_options_format(const struct hd_env_settings *settings, char *text, size_t bytes);

/* Finds the environment of the run file and makes a group of one env of it, with settings->options,
 * for what is known of it then: its spec, and in *state_bytes_p (NULL: nobody asks) the bytes of an
 * env's saved state. Returns HD_OK, or HD_ERR_INPUT after adding an error to `diag`, with the place
 * of env.type or else `location`. */
int hd_env_probe(const struct hd_config *config, const struct hd_env_settings *settings,
                 struct hd_source_location location, struct hd_diag *diag,
                 const struct hd_env **env_p, struct hd_env_spec *spec_p, int64_t *state_bytes_p);
