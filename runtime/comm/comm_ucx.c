/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in for UCX. Messages are tagged ones of UCP: a receive names one tag of 64 bits, which
 * is a keyed hash of sender, receiver, channel and sync point. All channels share a worker. Whoever
 * does not know the key cannot send a message that this rank would take. */
#include "runtime/base/status.h"
#include "runtime/comm/comm_ucx_plugin.h"

#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucp/api/ucp.h>

_Static_assert((int)HD_UCX_KEY == crypto_shorthash_KEYBYTES, "a key of SipHash");
_Static_assert(sizeof(ucp_tag_t) == crypto_shorthash_BYTES, "a tag is a hash");

struct peer {
    void *address;     /* of its worker */
    ucp_ep_h endpoint; /* NULL: nothing was sent to it yet */
    ucs_status_t lost; /* UCS_OK: it is not */
};

struct message {
    int rank;
    bool out;
    int64_t bytes;
    void *request; /* NULL: it has ended */
};

/* This is what the links of all channels share. */
struct ucx {
    struct hd_ucx_options options;
    pthread_mutex_t lock; /* held in each call of UCX */
    int users;            /* links that are open */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address; /* of this rank's worker */
    size_t address_bytes;
    struct peer *peers; /* [ranks] */
};

struct ucx_links {
    struct hd_links links;
    struct ucx *ucx;
    int channel;
    struct message *messages;
    int n, capacity;
    int lost; /* rank to which the connection failed; -1: none */
    char error[HD_LINKS_TEXT];
};

static struct ucx_links *of(struct hd_links *links)
{
    return (struct ucx_links *)links;
}

static int lost(struct ucx_links *links, int rank, const char *why)
{
    links->lost = rank;
    snprintf(links->error, sizeof links->error, "%s", why);
    return HD_ERR_PEER;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* -- Starting ---------------------------------------------------------------------------------- */

static ucp_tag_t make_tag(const struct ucx_links *links, int from, int to, int tag)
{
    const int32_t words[] = {from, to, links->channel, tag};
    ucp_tag_t hash;
    crypto_shorthash((unsigned char *)&hash, (const unsigned char *)words, sizeof words,
                     links->ucx->options.key);
    return hash;
}

static void note_loss(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    (void)endpoint;
    ((struct peer *)arg)->lost = status;
}

static int connect_peer(struct ucx_links *links, int rank)
{
    struct peer *peer = &links->ucx->peers[rank];
    if (peer->endpoint)
        return HD_OK;
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = peer->address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = note_loss, .arg = peer}};
    const ucs_status_t status = ucp_ep_create(links->ucx->worker, &params, &peer->endpoint);
    return status == UCS_OK ? HD_OK
           : status == UCS_ERR_UNREACHABLE
               ? lost(links, rank,
                      "no transport of UCX leads there; without RDMA runtime.transport is tcp")
               : lost(links, rank, ucs_status_string(status));
}

static void *start_receive(struct ucx_links *links, int tag, const struct hd_comm_transfer *t,
                           ucp_tag_recv_info_t *info)
{
    const ucp_request_param_t params = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO,
                                        .recv_info.tag_info = info};
    return ucp_tag_recv_nbx(links->ucx->worker, t->data, (size_t)t->bytes,
                            make_tag(links, t->rank, links->ucx->options.rank, tag), UINT64_MAX,
                            &params);
}

static void *start_send(struct ucx_links *links, int tag, const struct hd_comm_transfer *t)
{
    const ucp_request_param_t params = {.op_attr_mask = 0};
    return ucp_tag_send_nbx(links->ucx->peers[t->rank].endpoint, t->data, (size_t)t->bytes,
                            make_tag(links, links->ucx->options.rank, t->rank, tag), &params);
}

/* Says whether a message has ended well; `received` are the bytes of one that came in. */
static int check_end(struct ucx_links *links, const struct message *message, ucs_status_t status,
                     size_t received)
{
    if (status == UCS_ERR_MESSAGE_TRUNCATED ||
        (status == UCS_OK && !message->out && (int64_t)received != message->bytes))
        return lost(links, message->rank, "it sent another message than this rank expected");
    return status == UCS_OK ? HD_OK : lost(links, message->rank, ucs_status_string(status));
}

static int start_one(struct ucx_links *links, int tag, const struct hd_comm_transfer *t)
{
    struct message *message = &links->messages[links->n];
    ucp_tag_recv_info_t info = {.length = (size_t)t->bytes};
    *message = (struct message){.rank = t->rank, .out = t->out, .bytes = t->bytes};
    if (t->out)
        HD_TRY(connect_peer(links, t->rank));
    void *request = t->out ? start_send(links, tag, t) : start_receive(links, tag, t, &info);
    if (!UCS_PTR_IS_PTR(request))
        HD_TRY(check_end(links, message, UCS_PTR_STATUS(request), info.length));
    else
        message->request = request;
    links->n++;
    return HD_OK;
}

static int start_all(struct ucx_links *links, int tag, const struct hd_comm_transfer *transfers,
                     int n)
{
    if (links->n + n > links->capacity) {
        const int capacity = 2 * (links->n + n);
        struct message *messages = realloc(links->messages, (size_t)capacity * sizeof *messages);
        if (!messages) {
            snprintf(links->error, sizeof links->error, "no memory for %d messages", capacity);
            return HD_ERR_NOMEM;
        }
        links->messages = messages;
        links->capacity = capacity;
    }
    for (int i = 0; i < n; i++)
        HD_TRY(start_one(links, tag, &transfers[i]));
    return HD_OK;
}

static int comm_ucx_start(struct hd_links *base, int tag, const struct hd_comm_transfer *transfers,
                          int n)
{
    struct ucx_links *links = of(base);
    pthread_mutex_lock(&links->ucx->lock);
    const int status = start_all(links, tag, transfers, n);
    pthread_mutex_unlock(&links->ucx->lock);
    return status;
}

/* -- Progress ---------------------------------------------------------------------------------- */

/* A long message goes over a socket in many segments, and each call transfers a few of them. */
static void progress_worker(struct ucx *ucx)
{
    enum { CALLS = 64 };
    for (int call = 0; call < CALLS && ucp_worker_progress(ucx->worker) > 0; call++)
        ;
}

static int look_at(struct ucx_links *links, struct message *message)
{
    ucp_tag_recv_info_t info = {0};
    const ucs_status_t status = message->out ? ucp_request_check_status(message->request)
                                             : ucp_tag_recv_request_test(message->request, &info);
    const ucs_status_t peer = links->ucx->peers[message->rank].lost;
    if (status == UCS_INPROGRESS)
        return peer == UCS_OK ? HD_OK : lost(links, message->rank, ucs_status_string(peer));
    ucp_request_free(message->request);
    message->request = NULL;
    return check_end(links, message, status, info.length);
}

static int look_at_all(struct ucx_links *links, bool *done)
{
    for (int i = 0; i < links->n; i++) {
        if (links->messages[i].request)
            HD_TRY(look_at(links, &links->messages[i]));
        done[i] = !links->messages[i].request;
    }
    return HD_OK;
}

/* Another channel's call makes progress for all. */
static int comm_ucx_progress(struct hd_links *base, bool *done)
{
    struct ucx_links *links = of(base);
    if (pthread_mutex_trylock(&links->ucx->lock) != 0)
        return HD_OK;
    progress_worker(links->ucx);
    const int status = look_at_all(links, done);
    pthread_mutex_unlock(&links->ucx->lock);
    return status;
}

static int arm(struct hd_links *base, struct pollfd *polls, int capacity)
{
    struct ucx *ucx = of(base)->ucx;
    (void)capacity;
    polls[0] = (struct pollfd){.events = POLLIN};
    pthread_mutex_lock(&ucx->lock);
    const bool armed = ucp_worker_get_efd(ucx->worker, &polls[0].fd) == UCS_OK &&
                       ucp_worker_arm(ucx->worker) == UCS_OK;
    pthread_mutex_unlock(&ucx->lock);
    return armed ? 1 : -1;
}

static void comm_ucx_reset(struct hd_links *base)
{
    of(base)->n = 0;
}

static bool probe(struct hd_links *base, int rank, int tag)
{
    struct ucx_links *links = of(base);
    ucp_tag_recv_info_t info;
    pthread_mutex_lock(&links->ucx->lock);
    progress_worker(links->ucx);
    const bool found =
        ucp_tag_probe_nb(links->ucx->worker, make_tag(links, rank, links->ucx->options.rank, tag),
                         UINT64_MAX, 0, &info) != NULL;
    pthread_mutex_unlock(&links->ucx->lock);
    return found;
}

static const char *error(struct hd_links *base, int *rank_p)
{
    *rank_p = of(base)->lost;
    return of(base)->error;
}

/* -- The end ----------------------------------------------------------------------------------- */

/* Drives a request to its end, for a limited time: the peer may be gone. */
static void finish_request(struct ucx *ucx, void *request)
{
    enum { PATIENCE_S = 2 };
    const int64_t deadline_ns = now_ns() + PATIENCE_S * INT64_C(1000000000);
    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && now_ns() < deadline_ns)
        ucp_worker_progress(ucx->worker);
    ucp_request_free(request);
}

static void close_endpoints(struct ucx *ucx)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    for (int rank = 0; rank < ucx->options.ranks; rank++)
        if (ucx->peers[rank].endpoint)
            finish_request(ucx, ucp_ep_close_nbx(ucx->peers[rank].endpoint, &force));
}

static void free_ucx(struct ucx *ucx)
{
    for (int rank = 0; ucx->peers && rank < ucx->options.ranks; rank++)
        free(ucx->peers[rank].address);
    if (ucx->address)
        ucp_worker_release_address(ucx->worker, ucx->address);
    if (ucx->worker)
        ucp_worker_destroy(ucx->worker);
    if (ucx->context)
        ucp_cleanup(ucx->context);
    pthread_mutex_destroy(&ucx->lock);
    free(ucx->peers);
    free(ucx);
}

/* A message that was sent may still wait in UCX's own buffers. The last channel closes the
 * connections. */
static void close_links(struct hd_links *base, bool orderly)
{
    struct ucx_links *links = of(base);
    struct ucx *ucx = links->ucx;
    const ucp_request_param_t params = {.op_attr_mask = 0};
    for (int i = 0; i < links->n; i++)
        if (links->messages[i].request) {
            ucp_request_cancel(ucx->worker, links->messages[i].request);
            ucp_request_free(links->messages[i].request);
        }
    free(links->messages);
    free(links);
    if (--ucx->users > 0)
        return;
    if (orderly)
        finish_request(ucx, ucp_worker_flush_nbx(ucx->worker, &params));
    close_endpoints(ucx);
    free_ucx(ucx);
}

/* -- Opening ----------------------------------------------------------------------------------- */

static const struct hd_links_ops ops = {.start = comm_ucx_start,
                                        .progress = comm_ucx_progress,
                                        .arm = arm,
                                        .reset = comm_ucx_reset,
                                        .probe = probe,
                                        .error = error,
                                        .close = close_links};

/* Variables that the user set have the last word. Ranks of a host share memory without UCX, whose
 * own would take 4 MiB of each, and over TCP UCX would listen at a port that knows no secret. */
static ucs_status_t make_context(struct ucx *ucx)
{
    const ucp_params_t params = {.field_mask =
                                     UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                 .estimated_num_eps = (size_t)ucx->options.ranks};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    if (!getenv("UCX_TLS"))
        status = ucp_config_modify(config, "TLS", "^sm,tcp");
    if (status == UCS_OK)
        status = ucp_init(&params, config, &ucx->context);
    ucp_config_release(config);
    return status;
}

/* Calls follow one another, but come from any worker. */
static ucs_status_t make_worker(struct ucx *ucx)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t status = ucp_worker_create(ucx->context, &params, &ucx->worker);
    return status == UCS_OK
               ? ucp_worker_get_address(ucx->worker, &ucx->address, &ucx->address_bytes)
               : status;
}

static int refuse_memory(char *text, int64_t bytes)
{
    snprintf(text, (size_t)bytes, "no memory");
    return HD_ERR_NOMEM;
}

static int make_ucx(const struct hd_ucx_options *options, struct ucx **ucx_p, char *text,
                    int64_t bytes)
{
    struct ucx *ucx = calloc(1, sizeof *ucx);
    if (!ucx)
        return refuse_memory(text, bytes);
    ucx->options = *options;
    pthread_mutex_init(&ucx->lock, NULL);
    ucx->peers = calloc((size_t)options->ranks, sizeof *ucx->peers);
    ucs_status_t status = ucx->peers ? make_context(ucx) : UCS_ERR_NO_MEMORY;
    if (status == UCS_OK)
        status = make_worker(ucx);
    if (status != UCS_OK) {
        snprintf(text, (size_t)bytes,
                 "UCX cannot start: %s (without RDMA runtime.transport is tcp)",
                 ucs_status_string(status));
        free_ucx(ucx);
        return HD_ERR_SYSTEM;
    }
    *ucx_p = ucx;
    return HD_OK;
}

static int open_links(const struct hd_ucx_options *options, int channels, struct hd_links **links_p,
                      char *text, int64_t bytes)
{
    struct ucx *ucx;
    HD_TRY(make_ucx(options, &ucx, text, bytes));
    for (int i = 0; i < channels; i++) {
        struct ucx_links *links = calloc(1, sizeof *links);
        if (!links && i == 0)
            free_ucx(ucx);
        if (!links) /* the caller closes those that there are */
            return refuse_memory(text, bytes);
        *links = (struct ucx_links){.links = {&ops}, .ucx = ucx, .channel = i, .lost = -1};
        ucx->users++;
        links_p[i] = &links->links;
    }
    return HD_OK;
}

static const void *get_address(struct hd_links *base, int64_t *bytes_p)
{
    *bytes_p = (int64_t)of(base)->ucx->address_bytes;
    return of(base)->ucx->address;
}

static int set_address(struct hd_links *base, int rank, const void *address, int64_t bytes)
{
    struct peer *peer = &of(base)->ucx->peers[rank];
    peer->address = malloc((size_t)bytes);
    if (!peer->address)
        return HD_ERR_NOMEM;
    memcpy(peer->address, address, (size_t)bytes);
    return HD_OK;
}

extern const struct hd_ucx_plugin hd_ucx_plugin;
const struct hd_ucx_plugin hd_ucx_plugin = {
    .abi = HD_UCX_ABI, .open = open_links, .get_address = get_address, .set_address = set_address};
