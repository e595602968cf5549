/* SPDX-License-Identifier: Apache-2.0 */
/* MPI, which brings ranks of several hosts together under mpirun or srun. It is a plug-in
 * (heddle_mpi.so, built where there is an MPI) that is loaded when a run is under mpirun or srun,
 * so other runs neither need an MPI nor pay for its start.
 *
 * One thread at a time may make these calls. Links are closed before `leave`. */
#ifndef HD_RUNTIME_COMM_COMM_MPI_H
#define HD_RUNTIME_COMM_COMM_MPI_H

#include "runtime/comm/comm_links.h"

/* Name and version of the library, "Open MPI v4.1.4", into text[bytes]; starts nothing. Errors:
 * HD_ERR_UNSUPPORTED (silently) when there is no plug-in, or no MPI for it; then text says so. */
int hd_mpi_get_version(char *text, int64_t bytes);

/* Starts MPI, which must have as many ranks as *world in the same order. Under mpirun, rank 0
 * then listens at a free port and all are told where: completes master_addr, master_port and
 * rendezvous_fd. Errors: HD_ERR_UNSUPPORTED without MPI, HD_ERR_SYSTEM, HD_ERR_INPUT when MPI knows
 * of other ranks (logged). */
int hd_mpi_exchange_address(struct hd_world *world);

/* Messages by MPI, once met. Released by their close. Errors: HD_ERR_SYSTEM, HD_ERR_NOMEM (logged).
 */
int hd_mpi_open_links(struct hd_links **links_p);

/* Ends MPI in order, on all ranks; nothing if it was not started. A rank that fails leaves without
 * it: MPI would wait for the others. */
void hd_mpi_leave(void);

#endif
