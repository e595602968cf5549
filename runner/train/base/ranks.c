/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/base/ranks.h"

#include "graph/execute/execute.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_mpi.h"
#include "runtime/comm/comm_tcp.h"
#include "runtime/comm/comm_ucx.h"
#include "runtime/comm/nccl/comm_nccl.h"
#include "runtime/ranks/host/host_secret.h"
#include "runtime/ranks/torchrun/agent_store.h"

#include <stdlib.h>
#include <string.h>

static bool is_requested(const struct hd_settings *settings, const char *name)
{
    return strcmp(settings->transport, name) == 0;
}

/* Returns whether MPI can start: an srun that offers what its ranks need says so. */
static bool may_use_mpi(const struct hd_world *world)
{
    return world->launcher == HD_LAUNCHER_MPIRUN ||
           (world->launcher == HD_LAUNCHER_SRUN && (getenv("PMIX_RANK") || getenv("PMI_RANK")));
}

static bool uses_mpi(const struct hd_ranks *ranks, const struct hd_settings *settings)
{
    return is_requested(settings, "mpi") ||
           (is_requested(settings, "auto") && may_use_mpi(&ranks->world));
}

static int meet(struct hd_ranks *ranks, const struct hd_settings *settings, uint64_t config_hash,
                const char *config_text, const char *fingerprint)
{
    struct hd_world *world = &ranks->world;
    if (world->store_key[0] && world->rank == 0)
        HD_TRY(hd_agent_store_publish(world));
    const struct hd_rendezvous_options options = {
        .world = world,
        .find_root = world->store_key[0] ? hd_agent_store_look_up : NULL,
        .config_hash = config_hash,
        .config = config_text,
        .fingerprint = fingerprint,
        .allow_fingerprint_mismatch = settings->allow_fingerprint_mismatch,
        .link_timeout_s = settings->link_timeout_s,
    };
    HD_TRY(hd_rendezvous_create(&options, &ranks->rendezvous));
    hd_rendezvous_get_root(ranks->rendezvous, world);
    return HD_OK;
}

int hd_ranks_join(struct hd_ranks *ranks, const struct hd_settings *settings, uint64_t config_hash,
                  const char *config_text, const char *fingerprint)
{
    struct hd_host_secret shared = {.folder = -1, .fd = -1};
    if (ranks->world.launcher == HD_LAUNCHER_MPIRUN)
        HD_TRY(hd_mpi_exchange_address(&ranks->world));
    if (ranks->world.shares_secret)
        HD_TRY(hd_host_secret_share(&ranks->world, &shared));
    const int status = meet(ranks, settings, config_hash, config_text, fingerprint);
    hd_host_secret_remove(&shared);
    return status;
}

/* Logs on rank 0 alone what all ranks know. */
static int refuse(const struct hd_ranks *ranks, const char *text)
{
    return ranks->world.rank == 0 ? hd_fail(HD_ERR_INPUT, "%s", text) : HD_ERR_INPUT;
}

/* Finds which ranks share memory; all ranks find the same. */
static int find_hosts(const struct hd_ranks *ranks, const struct hd_settings *settings,
                      struct hd_comm_hosts *hosts_p)
{
    const struct hd_world *world = &ranks->world;
    const bool shm = is_requested(settings, "shm"), chosen = shm || is_requested(settings, "auto");
    if (is_requested(settings, "mpi") && world->launcher == HD_LAUNCHER_ENV && world->world > 1)
        return refuse(ranks, "runtime.transport is mpi, whose ranks mpirun or srun start: 'mpirun "
                             "-n RANKS runner run ...'; tcp needs neither");
    HD_TRY(hd_comm_find_hosts(world, ranks->rendezvous, !chosen, hosts_p));
    if (shm && hosts_p->n > 1)
        return refuse(ranks, "runtime.transport is shm, but the ranks cannot open each other's "
                             "memory: they have to be on one host, with the same user and process "
                             "ids (containers: --pid=host, or all ranks in one container); "
                             "runtime.transport: auto finds what joins them");
    return HD_OK;
}

static int join_mpi(struct hd_ranks *ranks, int channels, struct hd_links **links_p)
{
    if (ranks->world.launcher == HD_LAUNCHER_SRUN)
        HD_TRY(hd_mpi_exchange_address(&ranks->world));
    return hd_mpi_open_links(channels, links_p);
}

static int open_links(struct hd_ranks *ranks, const struct hd_settings *settings,
                      const struct hd_comm_hosts *hosts, int channels, struct hd_links **links_p)
{
    const struct hd_tcp_options tcp = {settings->link_timeout_s, settings->link_hash};
    const bool mpi = uses_mpi(ranks, settings);
    bool rdma = is_requested(settings, "ucx");
    if (is_requested(settings, "auto") && !mpi)
        HD_TRY(hd_ucx_find_rdma(ranks->rendezvous, &rdma));
    const char *transport = rdma ? "UCX" : "TCP";
    if (ranks->world.rank == 0)
        hd_log(HD_LOG_INFO, "ranks share memory in %d groups of %d, and %s joins the groups",
               hosts->n, hosts->ranks, mpi ? "MPI" : transport);
    if (mpi)
        return join_mpi(ranks, channels, links_p);
    return rdma ? hd_ucx_open_links(&ranks->world, ranks->rendezvous, channels, links_p)
                : hd_tcp_open_links(&ranks->world, hosts, ranks->rendezvous, &tcp, channels,
                                    links_p);
}

static int open_transport(struct hd_ranks *ranks, const struct hd_settings *settings,
                          const struct hd_plan *plan)
{
    const struct hd_world *world = &ranks->world;
    const struct hd_comm_sizes sizes = {.channels = plan->channels,
                                        .buffer_bytes = hd_plan_get_payload_bytes(plan),
                                        .area_bytes = plan->shared_bytes};
    struct hd_comm_hosts hosts;
    struct hd_links *links[HD_CHANNELS_MAX];
    HD_TRY(find_hosts(ranks, settings, &hosts));
    if (hosts.n == 1 || !uses_mpi(ranks, settings))
        hd_mpi_leave(); /* it has named the ranks, and that was all */
    if (hosts.n == 1)
        return hd_comm_create(world, ranks->rendezvous, &sizes, &ranks->comm);
    HD_TRY(open_links(ranks, settings, &hosts, sizes.channels, links));
    return hd_comm_create_message_passing(world, &hosts, ranks->rendezvous, links, &sizes,
                                          &ranks->comm);
}

int hd_ranks_connect(struct hd_ranks *ranks, const struct hd_settings *settings,
                     const struct hd_plan *plan, const struct hd_gpus *gpus)
{
    HD_TRY(open_transport(ranks, settings, plan));
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
