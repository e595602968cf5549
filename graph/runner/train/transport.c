/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/train/transport.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_mpi.h"
#include "runtime/comm/comm_tcp.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_requested(const struct hd_train *train, const char *name)
{
    return strcmp(hd_config_get_text(train->run_spec.config, "runtime.transport"), name) == 0;
}

/* An srun that offers MPI's ranks what they need to meet says so. */
static bool may_use_mpi(const struct hd_world *world)
{
    return world->launcher == HD_LAUNCHER_MPIRUN ||
           (world->launcher == HD_LAUNCHER_SRUN && (getenv("PMIX_RANK") || getenv("PMI_RANK")));
}

static bool may_use_tcp(const struct hd_train *train)
{
    return is_requested(train, "tcp") ||
           (is_requested(train, "auto") && !may_use_mpi(&train->world));
}

int hd_transport_prepare(struct hd_train *train)
{
    struct hd_world *world = &train->world;
    if (world->launcher == HD_LAUNCHER_MPIRUN)
        HD_TRY(hd_mpi_exchange_address(world));
    if (!may_use_tcp(train))
        return HD_OK;
    return hd_rendezvous_listen(world->master_addr, 0, hd_address_is_loopback(world->master_addr),
                                &train->links_fd, &train->links_port);
}

/* All ranks know, so one says it. */
static int refuse(const struct hd_train *train, const char *text)
{
    return train->world.rank == 0 ? hd_fail(HD_ERR_INPUT, "%s", text) : HD_ERR_INPUT;
}

/* All ranks are told the same, so all go the same way. */
static int is_shared(struct hd_train *train, bool *shared_p)
{
    bool one_host;
    HD_TRY(hd_rendezvous_check_one_host(train->rendezvous, &one_host));
    *shared_p = is_requested(train, "shm") || (is_requested(train, "auto") && one_host);
    if (*shared_p && !one_host)
        return refuse(train, "runtime.transport is shm, but the ranks are on several hosts; auto "
                             "finds what joins them");
    return HD_OK;
}

static int open_shared(struct hd_train *train)
{
    if (train->links_fd >= 0)
        close(train->links_fd);
    return hd_comm_create(&train->world, train->rendezvous, hd_plan_get_payload_bytes(train->plan),
                          train->plan->shared_bytes, &train->comm);
}

static int join_mpi(struct hd_train *train, struct hd_links **links_p)
{
    if (train->world.launcher == HD_LAUNCHER_ENV)
        return refuse(train, "runtime.transport is mpi, whose ranks mpirun or srun start: 'mpirun "
                             "-n RANKS runner run ...'; tcp needs neither");
    if (train->world.launcher == HD_LAUNCHER_SRUN)
        HD_TRY(hd_mpi_exchange_address(&train->world));
    return hd_mpi_open_links(links_p);
}

int hd_transport_open(struct hd_train *train)
{
    struct hd_links *links;
    bool shared;
    HD_TRY(is_shared(train, &shared));
    if (shared || may_use_tcp(train))
        hd_mpi_leave(); /* it has named the ranks, and that was all */
    if (shared)
        return open_shared(train);
    if (may_use_tcp(train))
        HD_TRY(hd_tcp_open_links(&train->world, train->rendezvous, train->links_fd, &links));
    else
        HD_TRY(join_mpi(train, &links));
    return hd_comm_create_message_passing(&train->world, links,
                                          hd_plan_get_payload_bytes(train->plan),
                                          train->plan->shared_bytes, &train->comm);
}
