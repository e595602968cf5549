/* SPDX-License-Identifier: Apache-2.0 */
/* MPI joins ranks of several hosts under mpirun or srun. It is a plug-in (heddle_mpi.so, built
 * where there is an MPI) that is loaded when a run is under mpirun or srun, so other runs neither
 * need an MPI nor pay for its start.
 *
 * One thread at a time may make these calls. Links are closed before `leave`. */
#pragma once

#include "runtime/comm/comm_links.h"

/* Starts MPI, which must have as many ranks as *world in the same order. Under mpirun, rank 0
 * then listens at a free port and all are told where: completes master_addr, master_port and
 * rendezvous_fd. Returns HD_OK, or (logged) HD_ERR_UNSUPPORTED without MPI, HD_ERR_SYSTEM,
 * HD_ERR_INPUT when MPI knows other ranks, HD_ERR_PEER. */
int hd_mpi_exchange_address(struct hd_world *world);

/* Opens links_p[channels] by MPI, after hd_mpi_exchange_address. Their close releases them. Returns
 * HD_OK, HD_ERR_PEER or HD_ERR_NOMEM (logged). */
int hd_mpi_open_links(int channels, struct hd_links **links_p);

/* Ends MPI in order, on all ranks; does nothing if it was not started. A rank that fails does not
 * call it, as MPI would wait for the others. */
void hd_mpi_leave(void);
