/* SPDX-License-Identifier: Apache-2.0 */
/* Finds which ranks share memory, from what launchers say of their nodes. */
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"
#include "runtime/machine/topology.h"

#include <string.h>

/* A rank says this of its node: its first rank, how many there are, and the kernel under them. */
struct place {
    int32_t first, ranks;
    uint64_t kernel;
};

struct search {
    struct place first; /* of the first rank of the node that is being looked at */
    int ranks;          /* on each host, as rank 0 has it */
    bool fits;
};

/* Ranks come in order. All nodes must have as many as rank 0's, in order. */
static int look_at(void *arg, int rank, const void *data, int64_t bytes)
{
    struct search *search = arg;
    struct place place;
    if (bytes != sizeof place)
        return hd_fail(HD_ERR_PEER, "rank %d describes its node in %lld bytes", rank,
                       (long long)bytes);
    memcpy(&place, data, sizeof place);
    if (rank == 0)
        search->ranks = place.ranks;
    if (place.first == rank)
        search->first = place;
    search->fits = search->fits && place.first == rank - rank % search->ranks &&
                   place.ranks == search->ranks && place.kernel == search->first.kernel;
    return HD_OK;
}

static struct place describe(const struct hd_world *world)
{
    char boot_id[HD_BOOT_BYTES];
    hd_host_get_boot_id(boot_id);
    return (struct place){world->rank - world->local_rank, world->local_world,
                          hd_hash_text(boot_id)};
}

struct hd_comm_hosts hd_comm_fit_hosts(int world, int ranks)
{
    const bool fits =
        ranks > 0 && world % ranks == 0 && hd_tree_is_block_allowed(world, world / ranks);
    return fits ? (struct hd_comm_hosts){world / ranks, ranks} : (struct hd_comm_hosts){world, 1};
}

int hd_comm_find_hosts(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                       struct hd_comm_hosts *hosts_p)
{
    const struct place own = describe(world);
    struct search search = {.ranks = 1, .fits = true};
    *hosts_p = (struct hd_comm_hosts){1, world->world};
    if (world->world == 1)
        return HD_OK;
    HD_TRY(hd_rendezvous_gather_all(rendezvous, &own, sizeof own, look_at, &search));
    *hosts_p = hd_comm_fit_hosts(world->world, search.fits ? search.ranks : 0);
    return HD_OK;
}
