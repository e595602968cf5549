/* SPDX-License-Identifier: Apache-2.0 */
/* Lists what `runner bench` compares: each strategy with each combination of the values of --grid.
 * One thread at a time. */
#pragma once

#include "runner/base/options.h"

#include <stdint.h>

enum { HD_CANDIDATES_MAX = 128 };

struct hd_candidate {
    char *name;           /* the strategy, and behind it KEY=VALUE of each key of the grid */
    const char *strategy; /* as --strategy takes it */
    char *sets[HD_NAMES_MAX];
    int n_sets;           /* of the grid */
    int lag;              /* the largest in its graph */
    int64_t unit;         /* updates of an iteration: whole ones are measured */
    uint64_t config_hash; /* of all of its config */
    uint64_t bits_hash;   /* of all that its bits may depend on (docs/determinism.md) */
};

struct hd_candidates {
    char *texts[HD_NAMES_MAX + 1]; /* the lists as given, cut */
    struct hd_candidate list[HD_CANDIDATES_MAX];
    int n;
    uint64_t base_hash; /* of the config as it is without any strategy or grid */
};

/* Lists the candidates of --strategies (NULL: all files in strategies/ beside the config, or else
 * the program's own; serial is the first) and --grid, and checks the config of each. Options that
 * are completed have limits of updates unless options->to_goal. hd_candidates_release releases the
 * list, also after an error. Errors (logged with their places): HD_ERR_INPUT, HD_ERR_NOMEM. */
int hd_candidates_list(const struct hd_options *options, struct hd_candidates *candidates);
void hd_candidates_release(struct hd_candidates *candidates);

/* Completes the options of a candidate's runs: those of `options`, its strategy and grid; a seed,
 * unless it is negative; and no limit but that of updates, one more than asked for, so that an
 * iteration begins when those have been made. hd_options_release releases them. Errors (logged):
 * HD_ERR_INPUT, HD_ERR_NOMEM. */
int hd_candidate_complete_options(const struct hd_candidate *candidate,
                                  const struct hd_options *options, int64_t seed,
                                  struct hd_options *run_options_p);
