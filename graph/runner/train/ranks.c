/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/train/ranks.h"

#include "graph/execute/execute.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_mpi.h"
#include "runtime/comm/comm_nccl.h"
#include "runtime/comm/comm_tcp.h"
#include "runtime/ranks/torchrun/agent_store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_requested(const struct hd_config *config, const char *name)
{
    return strcmp(hd_config_get_text(config, "runtime.transport"), name) == 0;
}

/* Returns whether MPI can start: an srun that offers what its ranks need says so. */
static bool may_use_mpi(const struct hd_world *world)
{
    return world->launcher == HD_LAUNCHER_MPIRUN ||
           (world->launcher == HD_LAUNCHER_SRUN && (getenv("PMIX_RANK") || getenv("PMI_RANK")));
}

static bool may_use_tcp(const struct hd_ranks *ranks, const struct hd_config *config)
{
    return is_requested(config, "tcp") ||
           (is_requested(config, "auto") && !may_use_mpi(&ranks->world));
}

int hd_ranks_join(struct hd_ranks *ranks, const struct hd_config *config, uint64_t config_hash,
                  const char *config_text, const char *fingerprint)
{
    struct hd_world *world = &ranks->world;
    if (world->launcher == HD_LAUNCHER_MPIRUN)
        HD_TRY(hd_mpi_exchange_address(world));
    if (world->store_key[0] && world->rank == 0)
        HD_TRY(hd_agent_store_publish(world));
    const struct hd_rendezvous_options options = {
        .world = world,
        .find_root = world->store_key[0] ? hd_agent_store_look_up : NULL,
        .config_hash = config_hash,
        .config = config_text,
        .fingerprint = fingerprint,
        .allow_fingerprint_mismatch =
            hd_config_get_bool(config, "runtime.allow_fingerprint_mismatch"),
        .has_links = may_use_tcp(ranks, config),
    };
    HD_TRY(hd_rendezvous_create(&options, &ranks->rendezvous));
    hd_rendezvous_get_root(ranks->rendezvous, world);
    return HD_OK;
}

/* Logs on rank 0 alone what all ranks know. */
static int refuse(const struct hd_ranks *ranks, const char *text)
{
    return ranks->world.rank == 0 ? hd_fail(HD_ERR_INPUT, "%s", text) : HD_ERR_INPUT;
}

/* Finds whether shared memory is the transport; all ranks find the same. */
static int is_shared(const struct hd_ranks *ranks, const struct hd_config *config, bool *shared_p)
{
    bool one_host;
    HD_TRY(hd_rendezvous_check_one_host(ranks->rendezvous, &one_host));
    *shared_p = is_requested(config, "shm") || (is_requested(config, "auto") && one_host);
    if (*shared_p && !one_host)
        return refuse(ranks, "runtime.transport is shm, but the ranks are on several hosts; auto "
                             "finds what joins them");
    return HD_OK;
}

static int open_shared(struct hd_ranks *ranks, const struct hd_plan *plan)
{
    const int listen_fd = hd_rendezvous_take_links_listener(ranks->rendezvous);
    if (listen_fd >= 0)
        close(listen_fd);
    return hd_comm_create(&ranks->world, ranks->rendezvous, hd_plan_get_payload_bytes(plan),
                          plan->shared_bytes, &ranks->comm);
}

static int join_mpi(struct hd_ranks *ranks, struct hd_links **links_p)
{
    if (ranks->world.launcher == HD_LAUNCHER_ENV)
        return refuse(ranks, "runtime.transport is mpi, whose ranks mpirun or srun start: 'mpirun "
                             "-n RANKS runner run ...'; tcp needs neither");
    if (ranks->world.launcher == HD_LAUNCHER_SRUN)
        HD_TRY(hd_mpi_exchange_address(&ranks->world));
    return hd_mpi_open_links(links_p);
}

static int open_transport(struct hd_ranks *ranks, const struct hd_config *config,
                          const struct hd_plan *plan)
{
    struct hd_links *links;
    bool shared;
    HD_TRY(is_shared(ranks, config, &shared));
    if (shared || may_use_tcp(ranks, config))
        hd_mpi_leave(); /* it has named the ranks, and that was all */
    if (shared)
        return open_shared(ranks, plan);
    if (may_use_tcp(ranks, config))
        HD_TRY(hd_tcp_open_links(&ranks->world, ranks->rendezvous, &links));
    else
        HD_TRY(join_mpi(ranks, &links));
    return hd_comm_create_message_passing(&ranks->world, links, hd_plan_get_payload_bytes(plan),
                                          plan->shared_bytes, &ranks->comm);
}

int hd_ranks_connect(struct hd_ranks *ranks, const struct hd_config *config,
                     const struct hd_plan *plan, const struct hd_gpus *gpus)
{
    HD_TRY(open_transport(ranks, config, plan));
    if (!plan->device_comm)
        return HD_OK;
    const struct hd_nccl_options nccl = {.rank = ranks->world.rank,
                                         .ranks = ranks->world.world,
                                         .devices = gpus->share.devices,
                                         .n_devices = gpus->share.n,
                                         .comm = ranks->comm};
    return hd_nccl_join(&nccl, ranks->rendezvous, &ranks->device_comm);
}

void hd_ranks_leave(struct hd_ranks *ranks)
{
    hd_device_comm_destroy(ranks->device_comm);
    hd_rendezvous_destroy(ranks->rendezvous);
    hd_comm_destroy(ranks->comm);
}
