/* SPDX-License-Identifier: Apache-2.0 */
/* UCX joins ranks of several hosts by RDMA. Its own variables (UCX_TLS, UCX_NET_DEVICES, …) work,
 * and may let it use TCP, whose ports know no secret. It is a plug-in (heddle_ucx.so, built where
 * there is a UCX) that is loaded when links are opened. One thread at a time. */
#pragma once

#include "runtime/comm/comm_links.h"

/* Finds whether all ranks have RDMA devices and UCX, on all ranks at one place among the
 * rendezvous's broadcasts. Returns the errors of hd_rendezvous_gather_all. */
int hd_ucx_find_rdma(struct hd_rendezvous *rendezvous, bool *all_p);

/* Opens links_p[channels] between all ranks, on all of them at its place among the rendezvous's
 * broadcasts. Two ranks connect when they first send each other something. Only messages whose tag
 * shows that their sender knows the run's secret are received; what they hold carries no hash. The
 * links' close releases them. Returns HD_OK, or (logged) HD_ERR_UNSUPPORTED without UCX,
 * HD_ERR_SYSTEM, HD_ERR_PEER, HD_ERR_NOMEM, and the errors of hd_rendezvous_agree. */
int hd_ucx_open_links(const struct hd_world *world, struct hd_rendezvous *rendezvous, int channels,
                      struct hd_links **links_p);
