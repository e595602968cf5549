/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose memory is apart. At every sync point each two ranks exchange at least one message, an
 * empty one if nothing else moves between them, so that passing it means the same as with shared
 * memory: all ranks have arrived, and what they sent is here. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_links.h"
#include "runtime/comm/comm_segment.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A message under way. */
struct message {
    int rank;
    int64_t seq;
};

struct hd_comm_apart {
    struct hd_links *links;
    pthread_mutex_t lock;
    struct message *messages; /* [n], as the links number them */
    bool *over;               /* [n] */
    int n;
    int64_t messages_room, over_room;
    int64_t posted;
    char name[HD_COMM_NAME];
    int64_t *reached;  /* [world]: scratch of note_arrivals */
    int64_t broken_ns; /* when the links failed; 0: they have not */
};

static void free_apart(struct hd_comm_apart *apart)
{
    pthread_mutex_destroy(&apart->lock);
    hd_free(apart->messages);
    hd_free(apart->over);
    hd_free(apart->reached);
    hd_free(apart);
}

static int make_apart(struct hd_comm *comm, struct hd_links *links)
{
    struct hd_comm_apart *apart = hd_alloc(1, sizeof *apart);
    int64_t *reached = hd_alloc(comm->world, sizeof *reached);
    if (!apart || !reached) {
        hd_free(apart);
        hd_free(reached);
        return HD_ERR_NOMEM;
    }
    *apart = (struct hd_comm_apart){.links = links, .reached = reached};
    pthread_mutex_init(&apart->lock, NULL);
    comm->apart = apart;
    return HD_OK;
}

/* Pages of other ranks' buffers that nothing is received into cost nothing. */
int hd_comm_apart_open(struct hd_comm *comm, struct hd_links *links)
{
    int status = make_apart(comm, links);
    if (status == HD_OK)
        status = hd_comm_self_open(comm);
    if (status != HD_OK) {
        links->is->close(links, false);
        if (comm->apart)
            free_apart(comm->apart);
    }
    return status;
}

void hd_comm_apart_close(struct hd_comm *comm)
{
    struct hd_comm_apart *apart = comm->apart;
    bool orderly = apart->n == 0 && apart->broken_ns == 0 && !hd_comm_aborted(comm, NULL, NULL);
    apart->links->is->close(apart->links, orderly);
    free_apart(apart);
}

/* The cause is better known to whoever watches the ranks, so he may tell it first. */
static void fail_when_broken(struct hd_comm *comm)
{
    enum { PATIENCE_S = 2 };
    struct hd_comm_apart *apart = comm->apart;
    if (hd_clock_ns() - apart->broken_ns > PATIENCE_S * 1000000000LL)
        hd_comm_abort(comm, comm->rank, apart->links->is->error(apart->links));
}

static void check(struct hd_comm_apart *apart, int status)
{
    if (status != HD_OK && apart->broken_ns == 0)
        apart->broken_ns = hd_clock_ns();
}

/* After a failure nothing is asked of the links any more: some would end the process because a peer
 * is gone. */
static bool usable(struct hd_comm *comm)
{
    return comm->apart->broken_ns == 0 && !hd_comm_aborted(comm, NULL, NULL);
}

/* -- Posting --------------------------------------------------------------------------------------
 */

static int make_room(struct hd_comm_apart *apart)
{
    HD_TRY(hd_grow((void **)&apart->messages, &apart->messages_room, apart->n + 1,
                   sizeof *apart->messages));
    return hd_grow((void **)&apart->over, &apart->over_room, apart->n + 1, sizeof *apart->over);
}

static int tag_of(int64_t seq)
{
    return (int)(seq % HD_LINKS_TAGS);
}

static int start(struct hd_comm_apart *apart, int64_t seq, const struct hd_comm_move *move)
{
    HD_TRY(make_room(apart));
    HD_TRY(apart->links->is->start(apart->links, tag_of(seq), move, 1));
    apart->over[apart->n] = false;
    apart->messages[apart->n++] = (struct message){move->rank, seq};
    return HD_OK;
}

static int start_pieces(struct hd_comm_apart *apart, int64_t seq, struct hd_comm_move move)
{
    while (move.bytes > HD_LINKS_MOVE_BYTES) {
        struct hd_comm_move piece = move;
        piece.bytes = HD_LINKS_MOVE_BYTES;
        HD_TRY(start(apart, seq, &piece));
        move.data = (char *)move.data + piece.bytes;
        move.bytes -= piece.bytes;
    }
    return start(apart, seq, &move);
}

/* What rank `rank` gets, or gives; an empty message if nothing. */
static int start_with(struct hd_comm_apart *apart, int64_t seq, int rank, bool out,
                      const struct hd_comm_move *moves, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++)
        if (moves[i].rank == rank && moves[i].out == out && moves[i].bytes > 0) {
            HD_TRY(start_pieces(apart, seq, moves[i]));
            any = true;
        }
    const struct hd_comm_move empty = {.rank = rank, .out = out};
    return any ? HD_OK : start(apart, seq, &empty);
}

/* Receiving first: what comes finds its place. Each rank begins with its next neighbour, so that
 * not all send to the same one at once. */
static int start_all(struct hd_comm *comm, int64_t seq, const struct hd_comm_move *moves, int n)
{
    for (int out = 0; out < 2; out++)
        for (int i = 1; i < comm->world; i++) {
            const int step = out ? i : comm->world - i;
            HD_TRY(start_with(comm->apart, seq, (comm->rank + step) % comm->world, out, moves, n));
        }
    return HD_OK;
}

void hd_comm_apart_post(struct hd_comm *comm, int64_t seq, const char *name,
                        const struct hd_comm_move *moves, int n)
{
    struct hd_comm_apart *apart = comm->apart;
    pthread_mutex_lock(&apart->lock);
    apart->posted = seq;
    snprintf(apart->name, sizeof apart->name, "%s", name);
    if (usable(comm))
        check(apart, start_all(comm, seq, moves, n));
    pthread_mutex_unlock(&apart->lock);
}

/* -- Progress -------------------------------------------------------------------------------------
 */

/* A rank has reached what lies before its first message that is not over. */
static void note_arrivals(struct hd_comm *comm)
{
    struct hd_comm_apart *apart = comm->apart;
    bool all = true;
    for (int rank = 0; rank < comm->world; rank++)
        apart->reached[rank] = apart->posted;
    for (int i = apart->n - 1; i >= 0; i--)
        if (!apart->over[i]) {
            apart->reached[apart->messages[i].rank] = apart->messages[i].seq - 1;
            all = false;
        }
    for (int rank = 0; rank < comm->world; rank++) {
        const int64_t reached = apart->reached[rank];
        if (rank != comm->rank &&
            atomic_load_explicit(&comm->head->lines[rank].arrived, memory_order_relaxed) < reached)
            hd_comm_mark(comm, rank, reached, apart->name);
    }
    if (!all)
        return;
    apart->links->is->forget(apart->links);
    apart->n = 0;
}

void hd_comm_apart_progress(struct hd_comm *comm)
{
    struct hd_comm_apart *apart = comm->apart;
    if (pthread_mutex_trylock(&apart->lock) != 0)
        return;
    if (apart->n > 0 && usable(comm)) {
        int status = apart->links->is->progress(apart->links, apart->over);
        check(apart, status);
        if (status == HD_OK)
            note_arrivals(comm);
    }
    if (apart->broken_ns > 0)
        fail_when_broken(comm);
    pthread_mutex_unlock(&apart->lock);
}

bool hd_comm_apart_ahead(struct hd_comm *comm, int rank, int64_t *seq_p)
{
    struct hd_comm_apart *apart = comm->apart;
    bool ahead = false;
    if (rank == comm->rank || pthread_mutex_trylock(&apart->lock) != 0)
        return false;
    *seq_p = apart->posted + 1;
    /* What is not over would be first in line. */
    if (apart->n == 0 && apart->links->is->waiting && usable(comm))
        ahead = apart->links->is->waiting(apart->links, rank, tag_of(*seq_p));
    pthread_mutex_unlock(&apart->lock);
    return ahead;
}
