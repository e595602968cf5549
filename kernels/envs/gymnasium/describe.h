/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what envs of Gymnasium are: the run file declares it, or Python is asked, once for all
 * groups of the same settings. Thread safe. */
#pragma once

#include "kernels/envs/gymnasium/options.h"

/* Describes the envs that the options name. Returns 0, or -1 with a sentence in `message`: an
 * option is wrong, Python fails, or the envs have spaces that this bridge does not carry. */
int hd_bridge_describe(const struct hd_bridge_options *options,
                       struct hd_bridge_description *description_p, char message[HD_ENV_MESSAGE]);

/* Returns the same in the words of kernels/envs/env.h. */
struct hd_env_spec hd_bridge_make_spec(const struct hd_bridge_description *description);

/* Writes which code Python runs for such envs, in a few words, to `message`. Starts Python if it
 * was not asked yet. Returns 0, or -1 on error with a sentence in `message`. Thread safe. */
int hd_bridge_identify(const struct hd_bridge_options *options, char message[HD_ENV_MESSAGE]);
