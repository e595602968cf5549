/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of several hosts. At every sync point each two partners exchange at least one message, an
 * empty one if nothing else is to be sent, and each rank of a host records in the memory that they
 * share which of its partners have arrived. So passing it means what it means on one host: all
 * ranks have arrived, and their data are here. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_internal.h"
#include "runtime/comm/comm_links.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* A message under way. */
struct message {
    int rank;
    int64_t seq;
    bool out;
};

/* The messages of a channel. */
struct hd_channel_messages {
    struct hd_links *links;
    pthread_mutex_t lock;
    struct message *messages; /* [n], as the links number them */
    bool *done;               /* [n] */
    int n;
    int64_t messages_capacity, done_capacity;
    int64_t posted;
    char name[HD_COMM_NAME];
    int64_t *reached; /* [world]: scratch of note_arrivals */
};

struct hd_message_passing {
    char (*places)[HD_LINKS_PLACE];    /* [hosts]: of this rank's partners */
    atomic_int_fast64_t broken_ns;     /* when the first links failed; 0: none has */
    _Atomic(struct hd_links *) broken; /* these */
};

/* The rendezvous, which watches the ranks, knows the cause better, so it may tell it first. */
static void fail_when_broken(struct hd_comm *comm)
{
    enum { PATIENCE_S = 2 };
    struct hd_message_passing *state = comm->message_passing;
    const int64_t broken_ns = atomic_load(&state->broken_ns);
    if (broken_ns == 0 || hd_clock_get_ns() - broken_ns <= PATIENCE_S * 1000000000LL)
        return;
    char why[HD_RENDEZVOUS_TEXT], text[HD_RENDEZVOUS_TEXT];
    hd_links_describe_error(comm, atomic_load(&state->broken), state->places, "broke", why);
    snprintf(text, sizeof text, "rank %d failed: %.*s", comm->rank, HD_RENDEZVOUS_TEXT - 32, why);
    hd_comm_abort(comm, &(struct hd_comm_failure){comm->rank, HD_ERR_SYSTEM, text});
}

static void check(struct hd_channel *channel, int status)
{
    struct hd_message_passing *state = channel->comm->message_passing;
    struct hd_links *none = NULL;
    if (status != HD_OK &&
        atomic_compare_exchange_strong(&state->broken, &none, channel->messages->links))
        atomic_store(&state->broken_ns, hd_clock_get_ns());
}

/* After a failure the links are not called any more: some would end the process because a peer is
 * gone. */
static bool usable(struct hd_comm *comm)
{
    return !atomic_load_explicit(&comm->message_passing->broken, memory_order_relaxed) &&
           !hd_comm_is_aborted(comm);
}

/* -- Posting ----------------------------------------------------------------------------------- */

static int reserve(struct hd_channel_messages *state)
{
    HD_TRY(hd_grow((void **)&state->messages, &state->messages_capacity, state->n + 1,
                   sizeof *state->messages));
    return hd_grow((void **)&state->done, &state->done_capacity, state->n + 1, sizeof *state->done);
}

static int tag_of(int64_t seq)
{
    return (int)(seq % HD_LINKS_TAGS);
}

static int start(struct hd_channel *channel, int64_t seq, const struct hd_comm_transfer *transfer)
{
    struct hd_channel_messages *state = channel->messages;
    HD_TRY(reserve(state));
    HD_TRY(state->links->ops->start(state->links, tag_of(seq), transfer, 1));
    state->done[state->n] = false;
    state->messages[state->n++] = (struct message){transfer->rank, seq, transfer->out};
    if (transfer->out)
        atomic_fetch_add_explicit(&channel->comm->header->sent_bytes, transfer->bytes,
                                  memory_order_relaxed);
    return HD_OK;
}

static int start_segments(struct hd_channel *channel, int64_t seq, struct hd_comm_transfer transfer)
{
    while (transfer.bytes > HD_LINKS_MESSAGE_BYTES) {
        struct hd_comm_transfer segment = transfer;
        segment.bytes = HD_LINKS_MESSAGE_BYTES;
        HD_TRY(start(channel, seq, &segment));
        transfer.data = (char *)transfer.data + segment.bytes;
        transfer.bytes -= segment.bytes;
    }
    return start(channel, seq, &transfer);
}

/* Starts the messages to rank `rank`, or from it: an empty one if there are no others. */
static int start_with(struct hd_channel *channel, int64_t seq, int rank, bool out,
                      const struct hd_comm_transfer *transfers, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++)
        if (transfers[i].rank == rank && transfers[i].out == out && transfers[i].bytes > 0) {
            HD_TRY(start_segments(channel, seq, transfers[i]));
            any = true;
        }
    const struct hd_comm_transfer empty = {.rank = rank, .out = out};
    return any ? HD_OK : start(channel, seq, &empty);
}

/* Receives are started first, so that data find their destination when they come. Each rank begins
 * with the next host, so that not all send to the same one at once. */
static int start_all(struct hd_channel *channel, int64_t seq,
                     const struct hd_comm_transfer *transfers, int n)
{
    const struct hd_comm *comm = channel->comm;
    for (int out = 0; out < 2; out++)
        for (int i = 1; i < comm->hosts.n; i++) {
            const int host = hd_comm_get_host(comm) + (out ? i : comm->hosts.n - i);
            HD_TRY(start_with(channel, seq, hd_comm_get_partner(comm, host % comm->hosts.n), out,
                              transfers, n));
        }
    return HD_OK;
}

static void post(struct hd_channel *channel, int64_t seq, const char *name,
                 const struct hd_comm_transfer *transfers, int n)
{
    struct hd_channel_messages *state = channel->messages;
    pthread_mutex_lock(&state->lock);
    state->posted = seq;
    snprintf(state->name, sizeof state->name, "%s", name);
    if (usable(channel->comm))
        check(channel, start_all(channel, seq, transfers, n));
    pthread_mutex_unlock(&state->lock);
}

static void post_pairs(struct hd_channel *channel, int64_t seq, const char *name,
                       const struct hd_comm_transfer *transfers, int n)
{
    struct hd_channel_messages *state = channel->messages;
    int status = HD_OK;
    pthread_mutex_lock(&state->lock);
    snprintf(state->name, sizeof state->name, "%s", name);
    for (int out = 0; out < 2 && usable(channel->comm); out++)
        for (int i = 0; i < n && status == HD_OK; i++)
            if (transfers[i].out == out && transfers[i].bytes > 0)
                status = start_segments(channel, seq, transfers[i]);
    check(channel, status);
    pthread_mutex_unlock(&state->lock);
}

/* -- Progress ---------------------------------------------------------------------------------- */

static void note_arrival(struct hd_channel *channel, int rank, int64_t seq)
{
    if (atomic_load_explicit(&channel->lines[rank].arrived, memory_order_relaxed) < seq)
        hd_channel_record_arrival(channel, rank, seq, channel->messages->name);
}

/* A partner has reached the number before that of its first unfinished message, and that of a pair
 * for which its data are here. */
static void note_arrivals(struct hd_channel *channel)
{
    struct hd_comm *comm = channel->comm;
    struct hd_channel_messages *state = channel->messages;
    bool all = true;
    for (int host = 0; host < comm->hosts.n; host++)
        state->reached[hd_comm_get_partner(comm, host)] = state->posted;
    for (int i = state->n - 1; i >= 0; i--)
        if (!state->done[i] && state->messages[i].seq > state->posted) {
            all = false; /* of a pair, which tells nothing of other numbers */
        } else if (!state->done[i]) {
            state->reached[state->messages[i].rank] = state->messages[i].seq - 1;
            all = false;
        } else if (state->messages[i].seq > state->posted && !state->messages[i].out) {
            note_arrival(channel, state->messages[i].rank, state->messages[i].seq);
        }
    for (int host = 0; host < comm->hosts.n; host++) {
        const int rank = hd_comm_get_partner(comm, host);
        if (rank != comm->rank)
            note_arrival(channel, rank, state->reached[rank]);
    }
    if (!all)
        return;
    state->links->ops->reset(state->links);
    state->n = 0;
}

static void comm_message_progress(struct hd_channel *channel)
{
    struct hd_comm *comm = channel->comm;
    struct hd_channel_messages *state = channel->messages;
    if (pthread_mutex_trylock(&state->lock) != 0)
        return;
    if (state->n > 0 && usable(comm)) {
        int status = state->links->ops->progress(state->links, state->done);
        check(channel, status);
        if (status == HD_OK)
            note_arrivals(channel);
    }
    pthread_mutex_unlock(&state->lock);
    fail_when_broken(comm);
}

enum { POLLS = 256 };

/* Adds what a channel waits for to polls[n], and returns their number; -1: it has something to do
 * now, or nobody knows. */
static int arm(struct hd_channel *channel, struct pollfd *polls, int n)
{
    struct hd_channel_messages *state = channel->messages;
    const struct hd_links_ops *links = state->links->ops;
    int more = 0;
    if (n < 0 || !links->arm)
        return -1;
    pthread_mutex_lock(&state->lock);
    if (state->n > 0 && usable(channel->comm))
        more = links->arm(state->links, polls + n, POLLS - n);
    pthread_mutex_unlock(&state->lock);
    return more < 0 ? -1 : n + more;
}

static void wait_for_data(struct hd_comm *comm, int wake_fd, int64_t waited_ns)
{
    enum { LONGEST_MS = 1 };
    struct pollfd polls[POLLS];
    int n = 0;
    polls[n++] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
    for (int i = 0; i < comm->n_channels; i++)
        n = arm(&comm->channels[i], polls, n);
    if (n > 0)
        poll(polls, (nfds_t)n, LONGEST_MS);
    else if (!comm->channels[0].messages->links->ops->arm)
        hd_nap(waited_ns);
}

/* rank -1: any. */
static bool has_open_message(const struct hd_channel_messages *state, int rank, int64_t seq)
{
    for (int i = 0; i < state->n; i++)
        if (state->messages[i].seq == seq && !state->done[i] &&
            (rank == -1 || state->messages[i].rank == rank))
            return true;
    return false;
}

static bool test_pairs(struct hd_channel *channel, int64_t seq)
{
    struct hd_channel_messages *state = channel->messages;
    pthread_mutex_lock(&state->lock);
    const bool ended =
        !atomic_load(&channel->comm->message_passing->broken) && !has_open_message(state, -1, seq);
    pthread_mutex_unlock(&state->lock);
    return ended;
}

static bool is_awaited(struct hd_channel *channel, int rank, int64_t seq)
{
    struct hd_channel_messages *state = channel->messages;
    pthread_mutex_lock(&state->lock);
    const bool awaited = has_open_message(state, rank, seq);
    pthread_mutex_unlock(&state->lock);
    return awaited;
}

static bool is_ahead(struct hd_channel *channel, int rank, int64_t *seq_p)
{
    const struct hd_comm *comm = channel->comm;
    struct hd_channel_messages *state = channel->messages;
    bool ahead = false;
    const int host = rank / comm->hosts.ranks;
    if (host == hd_comm_get_host(comm) || rank != hd_comm_get_partner(comm, host) ||
        pthread_mutex_trylock(&state->lock) != 0)
        return false;
    *seq_p = 1 + atomic_load_explicit(&channel->lines[comm->rank].arrived, memory_order_relaxed);
    /* An unfinished message would be found instead. */
    if (state->n == 0 && state->links->ops->probe && usable(channel->comm))
        ahead = state->links->ops->probe(state->links, rank, tag_of(*seq_p));
    pthread_mutex_unlock(&state->lock);
    return ahead;
}

/* -- Start and stop ---------------------------------------------------------------------------- */

static void free_messages(struct hd_channel_messages *state)
{
    if (!state)
        return;
    pthread_mutex_destroy(&state->lock);
    hd_free(state->messages);
    hd_free(state->done);
    hd_free(state->reached);
    hd_free(state);
}

static void free_state(struct hd_comm *comm)
{
    for (int i = 0; i < comm->n_channels; i++)
        free_messages(comm->channels[i].messages);
    if (comm->message_passing)
        hd_free(comm->message_passing->places);
    hd_free(comm->message_passing);
}

static int make_messages(struct hd_comm *comm, struct hd_links *links,
                         struct hd_channel_messages **state_p)
{
    struct hd_channel_messages *state = hd_alloc(1, sizeof *state);
    if (!state)
        return HD_ERR_NOMEM;
    *state_p = state;
    *state = (struct hd_channel_messages){.links = links};
    pthread_mutex_init(&state->lock, NULL);
    state->reached = hd_alloc(comm->world, sizeof *state->reached);
    return state->reached ? HD_OK : HD_ERR_NOMEM;
}

static int make_state(struct hd_comm *comm, struct hd_links *const *links)
{
    struct hd_message_passing *state = hd_alloc(1, sizeof *state);
    if (!state)
        return HD_ERR_NOMEM;
    comm->message_passing = state;
    state->places = hd_alloc(comm->hosts.n, sizeof *state->places);
    if (!state->places)
        return HD_ERR_NOMEM;
    for (int i = 0; i < comm->n_channels; i++)
        HD_TRY(make_messages(comm, links[i], &comm->channels[i].messages));
    return HD_OK;
}

static void close_messages(struct hd_comm *comm)
{
    struct hd_links *links[HD_CHANNELS_MAX];
    bool orderly = usable(comm);
    for (int i = 0; i < comm->n_channels; i++) {
        links[i] = comm->channels[i].messages->links;
        orderly = orderly && comm->channels[i].messages->n == 0;
    }
    hd_links_close(links, comm->n_channels, orderly);
    free_state(comm);
    hd_comm_unmap(comm);
}

static const struct hd_comm_ops ops = {.post = post,
                                       .post_pairs = post_pairs,
                                       .test_pairs = test_pairs,
                                       .progress = comm_message_progress,
                                       .wait_for_data = wait_for_data,
                                       .is_awaited = is_awaited,
                                       .is_ahead = is_ahead,
                                       .close = close_messages};

/* Tries the links, before the run depends on them. */
static int try_links(struct hd_comm *comm, struct hd_rendezvous *rendezvous,
                     struct hd_links *const *links)
{
    char(*places)[HD_LINKS_PLACE] = comm->message_passing->places;
    char text[HD_RENDEZVOUS_TEXT] = "";
    int64_t timeout_ns;
    HD_TRY(hd_rendezvous_read_timeout(0, &timeout_ns));
    HD_TRY(hd_links_gather_places(comm, rendezvous, places));
    const int status = hd_links_try(comm, links, places, timeout_ns, text);
    return hd_rendezvous_agree(rendezvous, status, text);
}

/* Pages of other hosts' buffers that nothing is received into cost nothing. */
int hd_comm_message_open(struct hd_comm *comm, struct hd_rendezvous *rendezvous,
                         struct hd_links *const *links)
{
    int status = make_state(comm, links);
    if (status == HD_OK && rendezvous)
        status = try_links(comm, rendezvous, links);
    if (status == HD_OK)
        status =
            comm->hosts.ranks == 1 ? hd_comm_self_open(comm) : hd_comm_shm_open(comm, rendezvous);
    if (status == HD_OK) {
        comm->ops = &ops;
    } else {
        hd_links_close(links, comm->n_channels, false);
        free_state(comm);
    }
    return status;
}
