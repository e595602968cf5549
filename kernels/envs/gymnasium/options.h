/* SPDX-License-Identifier: Apache-2.0 */
/* env.options of the Gymnasium bridge. Thread safe. */
#pragma once

#include "kernels/envs/gymnasium/shared.h"

#include <limits.h>

struct hd_bridge_options {
    char env_id[128];
    char python[PATH_MAX]; /* a program or a folder with bin/python; "": the default */
    int64_t workers;
    double timeout_s;
    int64_t pickle_bytes; /* 0: states are seeds and actions */
    bool declared;        /* the run file says what the spaces are */
    struct hd_bridge_description declaration;
    bool declares_low, declares_high;
    int n_low, n_high; /* numbers in the lists; 0: one number */
    char **argument;   /* [n_arguments] "name=value" for heddle_gymnasium.py, and a final NULL */
    int n_arguments;
};

/* Reads the settings. hd_bridge_options_release releases them, also after an error: returns 0, or
 * -1 with a sentence in `message`. */
int hd_bridge_options_read(const struct hd_env_settings *settings,
                           struct hd_bridge_options *options_p, char message[HD_ENV_MESSAGE]);
void hd_bridge_options_release(struct hd_bridge_options *options);

/* Returns all settings that Python sees as one text, to be freed; NULL without memory. */
char *hd_bridge_options_join(const struct hd_bridge_options *options);

/* Writes a sentence to `message` and returns -1. */
__attribute__((format(printf, 2, 3))) int hd_bridge_refuse(char message[HD_ENV_MESSAGE],
                                                           const char *format, ...);
