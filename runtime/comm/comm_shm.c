/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory of a host: its first rank makes a file in memory, and the others map it. */
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
    struct hd_comm_file file;
    int64_t bytes;
};

/* The first rank seals the size: a peer that shrank the file would kill the others by SIGBUS. */
static int make(struct hd_comm *comm, struct offer *offer, char *text)
{
    const int fd = hd_comm_file_create(&offer->file);
    if (fd < 0 || ftruncate(fd, comm->segment_bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        hd_comm_map(comm, fd) != HD_OK) {
        snprintf(text, HD_RENDEZVOUS_TEXT, "cannot make %lld bytes of shared memory: %s",
                 (long long)comm->segment_bytes, strerror(errno));
        return HD_ERR_SYSTEM;
    }
    offer->bytes = comm->segment_bytes;
    return HD_OK;
}

/* The other ranks of the host map it. */
static int take(struct hd_comm *comm, const struct offer *offer, char *text)
{
    struct stat info;
    const int fd = hd_comm_file_open(&offer->file);
    const bool same = fd >= 0 && fstat(fd, &info) == 0 && info.st_size == offer->bytes &&
                      offer->bytes == comm->segment_bytes && hd_comm_map(comm, fd) == HD_OK;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (same)
        return HD_OK;
    snprintf(text, HD_RENDEZVOUS_TEXT, "cannot map the shared memory of rank %d: %s",
             hd_comm_get_first_rank(comm), strerror(error));
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
    struct offer own = {.file.fd = -1};
    struct search search = {.rank = hd_comm_get_first_rank(comm)};
    const bool first = comm->rank == search.rank;
    int status = first ? make(comm, &own, text) : HD_OK;
    int told = hd_rendezvous_gather_all(rendezvous, &own, sizeof own, find_offer, &search);
    if (told == HD_OK && !first && search.offer.bytes > 0)
        status = take(comm, &search.offer, text);
    if (told == HD_OK)
        told = hd_rendezvous_agree(rendezvous, status, text);
    if (own.file.fd >= 0)
        close(own.file.fd); /* all have it mapped, or nobody needs it */
    if (told != HD_OK && comm->header)
        hd_comm_unmap(comm);
    return told;
}
