/* SPDX-License-Identifier: Apache-2.0 */
/* TCP joins ranks of several hosts where there is neither mpirun nor RDMA. One thread at a time. */
#pragma once

#include "runtime/comm/comm_links.h"

struct hd_tcp_options {
    int timeout_s; /* a partner whose host acknowledges nothing for so long is lost; >= 6 */
    bool hash;     /* messages end in a keyed hash, as somebody may change them on their way */
};

/* Opens links_p[channels] between this rank and its partners on the other hosts, on all ranks at
 * one place among the rendezvous's broadcasts: for each channel, each connects to the partners
 * before it, at the address by which it and rank 0 reach each other, and both show that they know
 * the run's secret (handshake.h). Nothing listens any more when they are open. The links' close
 * releases them. Returns HD_OK, or (logged) HD_ERR_SYSTEM, HD_ERR_PEER, HD_ERR_NOMEM, and the
 * errors of hd_rendezvous_agree; the message names the ranks that do not reach each other and
 * where. */
int hd_tcp_open_links(const struct hd_world *world, const struct hd_comm_hosts *hosts,
                      struct hd_rendezvous *rendezvous, const struct hd_tcp_options *options,
                      int channels, struct hd_links **links_p);
