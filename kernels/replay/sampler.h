/* SPDX-License-Identifier: Apache-2.0 */
/* How the samples of a data set are dealt to shards, epoch by epoch: torch.utils.data's
 * DistributedSampler as a pure function. The order of an epoch, filled up or cut to a multiple of
 * the shards, is dealt like cards: entry p goes to shard p mod S. The order is a permutation of our
 * own (Philox), not torch's; it is never written down, so any entry is found at once and nothing
 * has to be kept. Thread safe. */
#ifndef HD_KERNELS_REPLAY_SAMPLER_H
#define HD_KERNELS_REPLAY_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

/* What becomes of an order that the shards do not divide. */
enum hd_sampler_tail {
    HD_TAIL_PAD,   /* it is filled up with its own first entries, over and over: drop_last=False */
    HD_TAIL_DROP,  /* its end is dropped: drop_last=True */
    HD_TAIL_UNEVEN /* the first shards get one sample more, as under torch's Join */
};

struct hd_sampler {
    uint64_t seed;
    int64_t samples; /* of the data set, 0 … 2^62 */
    int64_t shards;  /* S >= 1 */
    bool shuffle;    /* each epoch in an order of its own; else always 0, 1, 2, … */
    enum hd_sampler_tail tail;
};

/* Length of a shard's list, the same in every epoch. */
int64_t hd_sampler_count(const struct hd_sampler *sampler, int64_t shard);

/* Length of the longest list of any shard. */
int64_t hd_sampler_count_max(const struct hd_sampler *sampler);

/* Entry i of the list of `shard` in `epoch` (from 0): a sample's index. *padding_p, if not NULL,
 * says whether it stands in for a missing one, so that it is on some list already. Epochs count
 * modulo 2^32. */
int64_t hd_sampler_get(const struct hd_sampler *sampler, int64_t epoch, int64_t shard, int64_t i,
                       bool *padding_p);

#endif
