/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_internal.h"
#include "runtime/comm/comm_links.h"

static int allocate(int rank, int world, const struct hd_comm_hosts *hosts,
                    const struct hd_comm_sizes *sizes, struct hd_comm **comm_p)
{
    struct hd_comm *comm = hd_alloc(1, sizeof *comm);
    if (!comm)
        return HD_ERR_NOMEM;
    comm->rank = rank;
    comm->world = world;
    comm->hosts = *hosts;
    int status = hd_comm_set_sizes(comm, sizes);
    if (status != HD_OK) {
        hd_free(comm);
        return status;
    }
    *comm_p = comm;
    return HD_OK;
}

static int finish(struct hd_comm *comm, int status, struct hd_comm **comm_p)
{
    if (status != HD_OK) {
        hd_free(comm);
        return status;
    }
    hd_comm_touch_area(comm);
    *comm_p = comm;
    return HD_OK;
}

int hd_comm_create(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                   const struct hd_comm_sizes *sizes, struct hd_comm **comm_p)
{
    struct hd_comm *comm;
    const struct hd_comm_hosts one = {1, world->world};
    HD_TRY(allocate(world->rank, world->world, &one, sizes, &comm));
    return finish(comm,
                  world->world == 1 ? hd_comm_self_open(comm) : hd_comm_shm_open(comm, rendezvous),
                  comm_p);
}

int hd_comm_create_message_passing(const struct hd_world *world, const struct hd_comm_hosts *hosts,
                                   struct hd_rendezvous *rendezvous, struct hd_links *const *links,
                                   const struct hd_comm_sizes *sizes, struct hd_comm **comm_p)
{
    struct hd_comm *comm;
    int status = allocate(world->rank, world->world, hosts, sizes, &comm);
    if (status != HD_OK) {
        hd_links_close(links, sizes->channels, false);
        return status;
    }
    return finish(comm, hd_comm_message_open(comm, rendezvous, links), comm_p);
}

int hd_comm_create_alone(int rank, int world, const struct hd_comm_hosts *hosts,
                         const struct hd_comm_sizes *sizes, struct hd_comm **comm_p)
{
    struct hd_comm *comm;
    HD_TRY(allocate(rank, world, hosts, sizes, &comm));
    const int status = hd_comm_self_open(comm);
    if (status != HD_OK) {
        hd_free(comm);
        return status;
    }
    *comm_p = comm;
    return HD_OK;
}
