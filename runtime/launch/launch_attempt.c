/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/status.h"
#include "runtime/launch/launch_internal.h"
#include "runtime/ranks/rendezvous.h"

#include <signal.h>
#include <unistd.h>

/* Listens for rank 0 of this node, which has others to meet, and stores the port. */
static int listen_for_root(struct hd_launch *launch, int *port_p)
{
    const struct hd_launch_options *options = &launch->options;
    if (options->node_rank != 0 || hd_launch_get_world(launch) == 1)
        return HD_OK;
    return hd_rendezvous_listen(options->master_addr, *port_p, options->nnodes == 1,
                                &launch->listen_fd, port_p);
}

int hd_launch_attempt(struct hd_launch *launch)
{
    int port = launch->options.master_port;
    launch->listen_fd = launch->cause = -1;
    launch->n_running = 0;
    launch->stopping = launch->killing = false;
    launch->report_ns = launch->kill_ns = 0;
    int status = listen_for_root(launch, &port);
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    status = hd_launch_start_ranks(launch, port > 0 ? port : HD_PORT_DEFAULT);
    if (launch->listen_fd >= 0) /* rank 0 has inherited it */
        close(launch->listen_fd);
    if (status != HD_OK)
        hd_launch_request_stop(launch, SIGTERM);
    const int code = hd_launch_supervise(launch);
    hd_launch_read_dir(launch);
    return status == HD_OK ? code : hd_status_get_exit_code(status);
}
