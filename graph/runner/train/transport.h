/* SPDX-License-Identifier: Apache-2.0 */
/* Which way the ranks' CPUs exchange (runtime.transport). */
#ifndef HD_GRAPH_RUNNER_TRAIN_TRANSPORT_H
#define HD_GRAPH_RUNNER_TRAIN_TRANSPORT_H

#include "graph/runner/train/train.h"

/* Before the rendezvous: finds rank 0 where a launcher does not say where it is, and opens the
 * socket at which other hosts' ranks find this one. Errors: those of hd_mpi_exchange_address,
 * hd_rendezvous_listen.
 */
int hd_transport_prepare(struct hd_train *train);

/* After it, on all ranks at its place among broadcasts: creates train->comm. Errors (logged):
 * HD_ERR_INPUT when the ranks are where this transport does not reach, those of hd_comm_create,
 * hd_mpi_exchange_address, hd_mpi_open_links and hd_tcp_open_links. */
int hd_transport_open(struct hd_train *train);

#endif
