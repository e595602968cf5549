/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which ranks share memory: each tries to open a file of the others. Ranks under one kernel
 * may be in containers, which have process ids and users of their own. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm_internal.h"

#include <string.h>
#include <unistd.h>

/* A rank shows this to the others. */
struct probe {
    struct hd_comm_file file;
    int32_t node; /* the first rank of its launcher's node; -1: the node does not matter */
};

struct trial {
    struct probe own;
    int32_t first; /* the lowest rank whose file this rank opens; its own at the latest */
};

static bool opens(const struct hd_comm_file *file)
{
    const int fd = hd_comm_file_open(file);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Ranks come in order. */
static int try_to_open(void *arg, int rank, const void *data, int64_t bytes)
{
    struct trial *trial = arg;
    struct probe probe;
    if (bytes != sizeof probe)
        return hd_fail(HD_ERR_PEER, "rank %d shows its memory in %lld bytes", rank,
                       (long long)bytes);
    memcpy(&probe, data, sizeof probe);
    if (rank < trial->first && probe.node == trial->own.node && opens(&probe.file))
        trial->first = rank;
    return HD_OK;
}

struct search {
    int first; /* of the host that is being looked at */
    int ranks; /* on the first host; 0: it has not ended */
    bool fits; /* so far, all hosts have as many ranks, in order */
};

static void end_host(struct search *search, int end)
{
    const int ranks = end - search->first;
    search->fits = search->fits && (search->ranks == 0 || ranks == search->ranks);
    search->ranks = search->ranks == 0 ? ranks : search->ranks;
}

/* A rank that opens no file of a lower one is the first of a host. */
static int look_at(void *arg, int rank, const void *data, int64_t bytes)
{
    struct search *search = arg;
    int32_t first;
    if (bytes != sizeof first)
        return hd_fail(HD_ERR_PEER, "rank %d names its host in %lld bytes", rank, (long long)bytes);
    memcpy(&first, data, sizeof first);
    if (first == rank && rank > 0) {
        end_host(search, rank);
        search->first = rank;
    }
    search->fits = search->fits && first == search->first;
    return HD_OK;
}

struct hd_comm_hosts hd_comm_fit_hosts(int world, int ranks)
{
    const bool fits =
        ranks > 0 && world % ranks == 0 && hd_tree_is_block_allowed(world, world / ranks);
    return fits ? (struct hd_comm_hosts){world / ranks, ranks} : (struct hd_comm_hosts){world, 1};
}

/* The files of all ranks stay open until all have tried. */
static int search_hosts(struct trial *trial, struct hd_rendezvous *rendezvous,
                        struct search *search)
{
    HD_TRY(
        hd_rendezvous_gather_all(rendezvous, &trial->own, sizeof trial->own, try_to_open, trial));
    return hd_rendezvous_gather_all(rendezvous, &trial->first, sizeof trial->first, look_at,
                                    search);
}

int hd_comm_find_hosts(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                       bool within_nodes, struct hd_comm_hosts *hosts_p)
{
    struct trial trial = {.own.node = within_nodes ? world->rank - world->local_rank : -1,
                          .first = world->rank};
    struct search search = {.fits = true};
    *hosts_p = (struct hd_comm_hosts){1, world->world};
    if (world->world == 1)
        return HD_OK;
    const int fd = hd_comm_file_create(&trial.own.file);
    const int status = search_hosts(&trial, rendezvous, &search);
    if (fd >= 0)
        close(fd);
    HD_TRY(status);
    end_host(&search, world->world);
    *hosts_p = hd_comm_fit_hosts(world->world, search.fits ? search.ranks : 0);
    return HD_OK;
}
