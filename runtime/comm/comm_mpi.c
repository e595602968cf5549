/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in heddle_mpi.so: the only file that sees mpi.h. Messages are MPI's non-blocking ones;
 * MPI makes progress in calls that test them, so nobody waits inside it. MPI's collectives are not
 * used to add, because they promise no order of sums. */
#include "runtime/base/status.h"
#include "runtime/comm/comm_mpi_plugin.h"

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mpi_links {
    struct hd_links links;
    MPI_Comm comm;         /* a duplicate of MPI_COMM_WORLD, for these messages alone */
    MPI_Request *requests; /* [n] */
    int *finished;         /* [n]: scratch of progress */
    int n, capacity;
    char error[HD_LINKS_TEXT];
};

/* Held in each call of MPI, which several channels make. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct mpi_links *of(struct hd_links *links)
{
    return (struct mpi_links *)links;
}

static int refuse(int code, const char *what, char *text, int64_t bytes)
{
    char why[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, why, &length);
    snprintf(text, (size_t)bytes, "MPI: %s: %s", what, why);
    return HD_ERR_PEER;
}

/* -- Messages ---------------------------------------------------------------------------------- */

static int reserve(struct mpi_links *links, int more)
{
    if (links->n + more <= links->capacity)
        return HD_OK;
    const int capacity = 2 * (links->n + more);
    MPI_Request *requests = realloc(links->requests, (size_t)capacity * sizeof(*requests));
    if (requests)
        links->requests = requests;
    int *finished = realloc(links->finished, (size_t)capacity * sizeof(*finished));
    if (finished)
        links->finished = finished;
    if (!requests || !finished) {
        snprintf(links->error, sizeof links->error, "no memory for %d messages", capacity);
        return HD_ERR_NOMEM;
    }
    links->capacity = capacity;
    return HD_OK;
}

static int start_all(struct mpi_links *links, int tag, const struct hd_comm_transfer *transfers,
                     int n)
{
    HD_TRY(reserve(links, n));
    for (int i = 0; i < n; i++) {
        const struct hd_comm_transfer *transfer = &transfers[i];
        MPI_Request *request = &links->requests[links->n];
        int code = transfer->out ? MPI_Isend(transfer->data, (int)transfer->bytes, MPI_BYTE,
                                             transfer->rank, tag, links->comm, request)
                                 : MPI_Irecv(transfer->data, (int)transfer->bytes, MPI_BYTE,
                                             transfer->rank, tag, links->comm, request);
        if (code != MPI_SUCCESS)
            return refuse(code, "a message cannot be started", links->error, sizeof links->error);
        links->n++;
    }
    return HD_OK;
}

static int comm_mpi_start(struct hd_links *base, int tag, const struct hd_comm_transfer *transfers,
                          int n)
{
    pthread_mutex_lock(&lock);
    const int status = start_all(of(base), tag, transfers, n);
    pthread_mutex_unlock(&lock);
    return status;
}

/* A long message goes over a socket in many segments, and each call transfers a few of them. */
static int test_some(struct mpi_links *links, bool *done)
{
    enum { CALLS = 8 };
    int n_finished = 0;
    for (int call = 0; call < CALLS && n_finished != MPI_UNDEFINED; call++) {
        int code = MPI_Testsome(links->n, links->requests, &n_finished, links->finished,
                                MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS)
            return refuse(code, "a message failed", links->error, sizeof links->error);
        for (int i = 0; n_finished != MPI_UNDEFINED && i < n_finished; i++)
            done[links->finished[i]] = true;
    }
    return HD_OK;
}

/* Another channel's call makes progress for all. */
static int comm_mpi_progress(struct hd_links *base, bool *done)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return HD_OK;
    const int status = test_some(of(base), done);
    pthread_mutex_unlock(&lock);
    return status;
}

static void comm_mpi_reset(struct hd_links *base)
{
    of(base)->n = 0;
}

static bool probe(struct hd_links *base, int rank, int tag)
{
    int flag = 0;
    pthread_mutex_lock(&lock);
    const int code = MPI_Iprobe(rank, tag, of(base)->comm, &flag, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&lock);
    return code == MPI_SUCCESS && flag;
}

static const char *error(struct hd_links *base, int *rank_p)
{
    *rank_p = -1;
    return of(base)->error;
}

/* Freeing a communicator waits for the others. */
static void close_links(struct hd_links *base, bool orderly)
{
    struct mpi_links *links = of(base);
    if (orderly)
        MPI_Comm_free(&links->comm);
    free(links->requests);
    free(links->finished);
    free(links);
}

static const struct hd_links_ops ops = {.start = comm_mpi_start,
                                        .progress = comm_mpi_progress,
                                        .reset = comm_mpi_reset,
                                        .probe = probe,
                                        .error = error,
                                        .close = close_links};

static int make_links(struct hd_links **links_p, char *text, int64_t bytes)
{
    struct mpi_links *links = calloc(1, sizeof *links);
    if (!links) {
        snprintf(text, (size_t)bytes, "no memory");
        return HD_ERR_NOMEM;
    }
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &links->comm);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(links->comm, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) {
        free(links);
        return refuse(code, "no communicator", text, bytes);
    }
    links->links.ops = &ops;
    *links_p = &links->links;
    return HD_OK;
}

/* -- MPI itself -------------------------------------------------------------------------------- */

/* Calls follow one another, but come from any worker. */
static int start_mpi(int *rank_p, int *ranks_p, char *text, int64_t bytes)
{
    int level;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS)
        return refuse(code, "it cannot start", text, bytes);
    if (level < MPI_THREAD_SERIALIZED) {
        snprintf(text, (size_t)bytes, "this MPI cannot be called from several threads");
        return HD_ERR_UNSUPPORTED;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, rank_p);
    MPI_Comm_size(MPI_COMM_WORLD, ranks_p);
    return HD_OK;
}

static int broadcast(void *data, int64_t bytes, char *text, int64_t text_bytes)
{
    int code = MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    return code == MPI_SUCCESS ? HD_OK : refuse(code, "no broadcast", text, text_bytes);
}

static void stop_mpi(void)
{
    MPI_Finalize();
}

extern const struct hd_mpi_plugin hd_mpi_plugin;
const struct hd_mpi_plugin hd_mpi_plugin = {.abi = HD_MPI_ABI,
                                            .start = start_mpi,
                                            .broadcast = broadcast,
                                            .links = make_links,
                                            .stop = stop_mpi};
