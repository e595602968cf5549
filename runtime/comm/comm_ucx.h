/* SPDX-License-Identifier: Apache-2.0 */
/* UCX joins ranks of several hosts that know of each other only by the rendezvous: by RDMA where
 * there is any, by TCP elsewhere; UCX chooses, and its own variables (UCX_TLS, UCX_NET_DEVICES, …)
 * work. It is a plug-in (heddle_ucx.so, built where there is a UCX) that is loaded when links are
 * opened. One thread at a time. */
#ifndef HD_RUNTIME_COMM_COMM_UCX_H
#define HD_RUNTIME_COMM_COMM_UCX_H

#include "runtime/comm/comm_links.h"

/* Opens links between all ranks, on all of them at its place among the rendezvous's broadcasts. Two
 * ranks connect when they first send each other something. UCX listens on the interface by which
 * this rank and rank 0 reach each other, unless UCX_NET_DEVICES names others. Only messages whose
 * tag shows that their sender knows the run's secret are received; what they hold carries no hash.
 * The links' close releases them. Returns HD_OK, or (logged) HD_ERR_UNSUPPORTED without UCX,
 * HD_ERR_SYSTEM, HD_ERR_PEER, HD_ERR_NOMEM, and the errors of hd_rendezvous_agree. */
int hd_ucx_open_links(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                      struct hd_links **links_p);

#endif
