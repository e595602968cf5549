/* SPDX-License-Identifier: Apache-2.0 */
/* Distributes the samples of a data set to shards, epoch by epoch, like torch.utils.data's
 * DistributedSampler but as a pure function. The permutation of an epoch is extended or cut to a
 * multiple of the number of shards S, and entry p goes to shard p mod S. The permutation is our own
 * (Philox), not torch's. It is never written down: any entry is computed at once, and nothing has
 * to be kept. Thread safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The treatment of a permutation that the shards do not divide. */
enum hd_sampler_tail {
    HD_TAIL_PAD,   /* it is extended by its own first entries, repeatedly if needed: drop_last=False
                    */
    HD_TAIL_DROP,  /* its end is dropped: drop_last=True */
    HD_TAIL_UNEVEN /* the first shards get one sample more, as with torch's Join */
};

struct hd_sampler {
    uint64_t seed;
    int64_t samples; /* samples of the data set, 0 … 2^62 */
    int64_t shards;  /* S >= 1 */
    bool shuffle;    /* true: each epoch has its own permutation; false: always 0, 1, 2, … */
    enum hd_sampler_tail tail;
};

/* Returns the length of a shard's list, which is the same in every epoch. */
int64_t hd_sampler_count(const struct hd_sampler *sampler, int64_t shard);

/* Returns the length of the longest list of any shard. */
int64_t hd_sampler_count_max(const struct hd_sampler *sampler);

/* Returns entry i of the list of `shard` in `epoch` (from 0): the index of a sample. *padding_p, if
 * not NULL, becomes true if the entry is padding, whose sample is on another list already. Epochs
 * count modulo 2^32. */
int64_t hd_sampler_get(const struct hd_sampler *sampler, int64_t epoch, int64_t shard, int64_t i,
                       bool *padding_p);
