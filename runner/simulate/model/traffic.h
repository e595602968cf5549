/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic of a sync point at which every rank exchanges messages with its partners on all other
 * hosts. Instead of each message, simulations send few flows that put the same bytes on the link of
 * every host, in each direction: at most two for each rank, where there are as many messages as
 * hosts. One thread makes it. */
#pragma once

#include <stdint.h>

enum { HD_NO_FLOW = -1 };

struct hd_flow {
    int from, to; /* ranks */
    int next;     /* flow of the same sender; HD_NO_FLOW: it is the last */
    int64_t bytes;
};

struct hd_traffic {
    struct hd_flow *flows; /* [n] */
    int n;
    int64_t capacity;
    int *first; /* [ranks]: flow of each rank, which has at least one, perhaps without bytes */
};

/* Plans the traffic between `hosts` > 1 hosts with `ranks` ranks each: out[r] and in[r], r < hosts
 * * ranks, are the bytes that rank r sends and receives; among the partners of a rank and itself,
 * both sums are equal (what one exceeds the other by goes nowhere), and no rank's bytes are more
 * than those of all others together. `shift`, 1
 * to hosts - 1: equal bytes travel from each host to the one so many further on.
 * hd_traffic_release releases the result. Returns HD_OK or HD_ERR_NOMEM. */
int hd_traffic_plan(int hosts, int ranks, const int64_t *out, const int64_t *in, int shift,
                    struct hd_traffic *traffic_p);
void hd_traffic_release(struct hd_traffic *traffic);
