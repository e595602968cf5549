/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator of a job whose nodes come and go: a process beside the launcher of the master's
 * node. Launchers join it (membership.h), and it makes rounds: all ranks of a round start together
 * and end together. A node that joins or leaves ends a round, and so does a rank that fails; the
 * next round goes on from the newest checkpoint, with as many nodes as the run's shards allow. */
#ifndef HD_RUNTIME_LAUNCH_COORDINATOR_H
#define HD_RUNTIME_LAUNCH_COORDINATOR_H

#include "runtime/launch/launch_options.h"

/* Starts the coordinator, which listens on listen_fd, as a child of this process; options->secret
 * is not NULL. Stores a connection to it, by which this process is the launcher of node 0, and its
 * process id. It exits soon after the job has ended, or that connection has. Returns
 * HD_OK or HD_ERR_SYSTEM (logged). To be called by a process with one thread. */
int hd_coordinator_start(const struct hd_launch_options *options, int listen_fd, int *fd_p,
                         int *pid_p);

/* Returns how many of `present` nodes with nproc_per_node ranks each a round may have, from min to
 * max: the most that the run's shards can be divided among. Returns 0 when there are none. */
int hd_coordinator_count_nodes(int present, int min, int max, int nproc_per_node, int64_t shards);

#endif
