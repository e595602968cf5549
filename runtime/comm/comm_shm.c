/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory of a host: its first rank makes an anonymous file (memfd), the others open it
 * through /proc/<pid>/fd. It has no name that could be left behind and does not count against the
 * size of /dev/shm, which containers keep small. */
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first rank of a host tells the others where its segment is; bytes 0: it has none. */
struct offer {
    int32_t pid, fd;
    int64_t bytes;
    uint64_t token;
};

/* The first rank seals the size: a peer that shrank the file would kill the others by SIGBUS. */
static int make(struct hd_comm *comm, int *fd_p, struct offer *offer, char *text)
{
    int fd = memfd_create("heddle", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, comm->segment_bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        hd_comm_map(comm, fd) != HD_OK) {
        snprintf(text, HD_RENDEZVOUS_TEXT, "cannot make %lld bytes of shared memory: %s",
                 (long long)comm->segment_bytes, strerror(errno));
        if (fd >= 0)
            close(fd);
        return HD_ERR_SYSTEM;
    }
    comm->header->token = hd_hash_mix((uint64_t)hd_clock_get_wall_ns(), (uint64_t)getpid());
    *offer = (struct offer){getpid(), fd, comm->segment_bytes, comm->header->token};
    *fd_p = fd;
    return HD_OK;
}

/* The other ranks open the file. In another pid namespace its path leads nowhere or to another
 * program's file. */
static int take(struct hd_comm *comm, const struct offer *offer, char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", offer->pid, offer->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat info;
    bool same = fd >= 0 && fstat(fd, &info) == 0 && info.st_size == offer->bytes &&
                offer->bytes == comm->segment_bytes && hd_comm_map(comm, fd) == HD_OK;
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (same && comm->header->token == offer->token)
        return HD_OK;
    snprintf(text, HD_RENDEZVOUS_TEXT,
             "cannot open the shared memory of rank %d at %s (%s); the ranks of a host must share "
             "its process ids and its user (containers: --pid=host, or all ranks in one container)",
             hd_comm_get_first_rank(comm), path, fd < 0 ? strerror(error) : "it is something else");
    return HD_ERR_SYSTEM;
}

/* The offer of this host, among those of all ranks. */
struct search {
    int rank;
    struct offer offer;
};

static int find_offer(void *arg, int rank, const void *data, int64_t bytes)
{
    struct search *search = arg;
    if (bytes != sizeof search->offer)
        return hd_fail(HD_ERR_PEER, "rank %d offers shared memory in %lld bytes", rank,
                       (long long)bytes);
    if (rank == search->rank)
        memcpy(&search->offer, data, sizeof search->offer);
    return HD_OK;
}

int hd_comm_shm_open(struct hd_comm *comm, struct hd_rendezvous *rendezvous)
{
    char text[HD_RENDEZVOUS_TEXT] = "";
    struct offer own = {0};
    struct search search = {.rank = hd_comm_get_first_rank(comm)};
    const bool first = comm->rank == search.rank;
    int fd = -1;
    int status = first ? make(comm, &fd, &own, text) : HD_OK;
    int told = hd_rendezvous_gather_all(rendezvous, &own, sizeof own, find_offer, &search);
    if (told == HD_OK && !first && search.offer.bytes > 0)
        status = take(comm, &search.offer, text);
    if (told == HD_OK)
        told = hd_rendezvous_agree(rendezvous, status, text);
    if (fd >= 0)
        close(fd); /* all have it mapped, or nobody needs it */
    if (told != HD_OK && comm->header)
        hd_comm_unmap(comm);
    return told;
}
