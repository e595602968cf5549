/* SPDX-License-Identifier: Apache-2.0 */
/* The sequences from which a recurrent net learns, as the run file describes them: an env's steps
 * of a collect, policy.collect.unroll_len at a time. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

struct hd_sequences {
    int64_t state; /* floats of the net's state; 0: the net is not recurrent */
    int64_t steps; /* of a sequence; 1 if the net is not recurrent */
};

/* Returns what the run file says, which hd_sequences_check may refuse. */
struct hd_sequences hd_sequences_read(const struct hd_config *config);

/* Checks that a net with the recurrent layer `layer` can learn as the run file says: on-policy,
 * from whole sequences. Returns HD_OK, or HD_ERR_INPUT after adding the mistake to setup->diag. */
int hd_sequences_check(const struct hd_setup *setup, const struct hd_node *layer);
