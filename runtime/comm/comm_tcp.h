/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over TCP connections between all ranks, for hosts that know of each other only by
 * MASTER_ADDR. The kernel sends what it has buffered by itself, and the rest goes at calls of
 * progress. One thread at a time. */
#ifndef HD_RUNTIME_COMM_COMM_TCP_H
#define HD_RUNTIME_COMM_COMM_TCP_H

#include "runtime/comm/comm_links.h"

/* Connects all ranks, on all of them at its place among the rendezvous's broadcasts. The rendezvous
 * has listened for it (has_links of hd_rendezvous_options). What the ranks send each other over the
 * links carries no tags: who they are is checked when they connect. The links' close releases them.
 * Returns HD_OK, or (logged) HD_ERR_SYSTEM, HD_ERR_PEER, HD_ERR_NOMEM, and the errors of
 * hd_rendezvous_agree. */
int hd_tcp_open_links(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                      struct hd_links **links_p);

#endif
