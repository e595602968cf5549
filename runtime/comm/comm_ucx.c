/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in for UCX. Messages are tagged ones of UCP: a receive names one tag of 64 bits, which
 * is a keyed hash of sender, receiver and sync point. Whoever does not know the key cannot send a
 * message that this rank would take. */
#include "runtime/base/status.h"
#include "runtime/comm/comm_ucx_plugin.h"

#include <poll.h>
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

struct ucx_links {
    struct hd_links links;
    struct hd_ucx_options options;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address; /* of this rank's worker */
    size_t address_bytes;
    struct peer *peers; /* [ranks] */
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
    const int32_t words[] = {from, to, tag};
    ucp_tag_t hash;
    crypto_shorthash((unsigned char *)&hash, (const unsigned char *)words, sizeof words,
                     links->options.key);
    return hash;
}

static void note_loss(void *arg, ucp_ep_h endpoint, ucs_status_t status)
{
    (void)endpoint;
    ((struct peer *)arg)->lost = status;
}

static int connect_peer(struct ucx_links *links, int rank)
{
    struct peer *peer = &links->peers[rank];
    if (peer->endpoint)
        return HD_OK;
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .address = peer->address,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                    .err_handler = {.cb = note_loss, .arg = peer}};
    const ucs_status_t status = ucp_ep_create(links->worker, &params, &peer->endpoint);
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
    return ucp_tag_recv_nbx(links->worker, t->data, (size_t)t->bytes,
                            make_tag(links, t->rank, links->options.rank, tag), UINT64_MAX,
                            &params);
}

static void *start_send(struct ucx_links *links, int tag, const struct hd_comm_transfer *t)
{
    const ucp_request_param_t params = {.op_attr_mask = 0};
    return ucp_tag_send_nbx(links->peers[t->rank].endpoint, t->data, (size_t)t->bytes,
                            make_tag(links, links->options.rank, t->rank, tag), &params);
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

static int comm_ucx_start(struct hd_links *base, int tag, const struct hd_comm_transfer *transfers,
                          int n)
{
    struct ucx_links *links = of(base);
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

/* -- Progress ---------------------------------------------------------------------------------- */

/* A long message goes over a socket in many segments, and each call transfers a few of them. */
static void progress_worker(struct ucx_links *links)
{
    enum { CALLS = 64 };
    for (int call = 0; call < CALLS && ucp_worker_progress(links->worker) > 0; call++)
        ;
}

static int look_at(struct ucx_links *links, struct message *message)
{
    ucp_tag_recv_info_t info = {0};
    const ucs_status_t status = message->out ? ucp_request_check_status(message->request)
                                             : ucp_tag_recv_request_test(message->request, &info);
    const ucs_status_t peer = links->peers[message->rank].lost;
    if (status == UCS_INPROGRESS)
        return peer == UCS_OK ? HD_OK : lost(links, message->rank, ucs_status_string(peer));
    ucp_request_free(message->request);
    message->request = NULL;
    return check_end(links, message, status, info.length);
}

static int comm_ucx_progress(struct hd_links *base, bool *done)
{
    struct ucx_links *links = of(base);
    progress_worker(links);
    for (int i = 0; i < links->n; i++) {
        if (links->messages[i].request)
            HD_TRY(look_at(links, &links->messages[i]));
        done[i] = !links->messages[i].request;
    }
    return HD_OK;
}

static int arm(struct hd_links *base, struct pollfd *polls, int capacity)
{
    struct ucx_links *links = of(base);
    (void)capacity;
    polls[0] = (struct pollfd){.events = POLLIN};
    return ucp_worker_get_efd(links->worker, &polls[0].fd) == UCS_OK &&
                   ucp_worker_arm(links->worker) == UCS_OK
               ? 1
               : -1;
}

static void comm_ucx_reset(struct hd_links *base)
{
    of(base)->n = 0;
}

static bool probe(struct hd_links *base, int rank, int tag)
{
    struct ucx_links *links = of(base);
    ucp_tag_recv_info_t info;
    progress_worker(links);
    return ucp_tag_probe_nb(links->worker, make_tag(links, rank, links->options.rank, tag),
                            UINT64_MAX, 0, &info) != NULL;
}

static const char *error(struct hd_links *base, int *rank_p)
{
    *rank_p = of(base)->lost;
    return of(base)->error;
}

/* -- The end ----------------------------------------------------------------------------------- */

/* Drives a request to its end, for a limited time: the peer may be gone. */
static void finish_request(struct ucx_links *links, void *request)
{
    enum { PATIENCE_S = 2 };
    const int64_t deadline_ns = now_ns() + PATIENCE_S * INT64_C(1000000000);
    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && now_ns() < deadline_ns)
        ucp_worker_progress(links->worker);
    ucp_request_free(request);
}

static void close_endpoints(struct ucx_links *links)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    for (int rank = 0; rank < links->options.ranks; rank++)
        if (links->peers[rank].endpoint)
            finish_request(links, ucp_ep_close_nbx(links->peers[rank].endpoint, &force));
}

static void free_links(struct ucx_links *links)
{
    for (int rank = 0; links->peers && rank < links->options.ranks; rank++)
        free(links->peers[rank].address);
    if (links->address)
        ucp_worker_release_address(links->worker, links->address);
    if (links->worker)
        ucp_worker_destroy(links->worker);
    if (links->context)
        ucp_cleanup(links->context);
    free(links->peers);
    free(links->messages);
    free(links);
}

/* A message that was sent may still wait in UCX's own buffers. */
static void close_links(struct hd_links *base, bool orderly)
{
    struct ucx_links *links = of(base);
    const ucp_request_param_t params = {.op_attr_mask = 0};
    for (int i = 0; i < links->n; i++)
        if (links->messages[i].request) {
            ucp_request_cancel(links->worker, links->messages[i].request);
            ucp_request_free(links->messages[i].request);
        }
    if (orderly)
        finish_request(links, ucp_worker_flush_nbx(links->worker, &params));
    close_endpoints(links);
    free_links(links);
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
static ucs_status_t make_context(struct ucx_links *links)
{
    const ucp_params_t params = {.field_mask =
                                     UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
                                 .estimated_num_eps = (size_t)links->options.ranks};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    if (!getenv("UCX_TLS"))
        status = ucp_config_modify(config, "TLS", "^sm,tcp");
    if (status == UCS_OK)
        status = ucp_init(&params, config, &links->context);
    ucp_config_release(config);
    return status;
}

/* Calls follow one another, but come from any worker. */
static ucs_status_t make_worker(struct ucx_links *links)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t status = ucp_worker_create(links->context, &params, &links->worker);
    return status == UCS_OK
               ? ucp_worker_get_address(links->worker, &links->address, &links->address_bytes)
               : status;
}

static int open_links(const struct hd_ucx_options *options, struct hd_links **links_p, char *text,
                      int64_t bytes)
{
    struct ucx_links *links = calloc(1, sizeof *links);
    struct peer *peers = calloc((size_t)options->ranks, sizeof *peers);
    if (!links || !peers) {
        free(links);
        free(peers);
        snprintf(text, (size_t)bytes, "no memory");
        return HD_ERR_NOMEM;
    }
    *links = (struct ucx_links){.links = {&ops}, .options = *options, .peers = peers, .lost = -1};
    ucs_status_t status = make_context(links);
    if (status == UCS_OK)
        status = make_worker(links);
    if (status != UCS_OK) {
        snprintf(text, (size_t)bytes,
                 "UCX cannot start: %s (without RDMA runtime.transport is tcp)",
                 ucs_status_string(status));
        free_links(links);
        return HD_ERR_SYSTEM;
    }
    *links_p = &links->links;
    return HD_OK;
}

static const void *get_address(struct hd_links *base, int64_t *bytes_p)
{
    *bytes_p = (int64_t)of(base)->address_bytes;
    return of(base)->address;
}

static int set_address(struct hd_links *base, int rank, const void *address, int64_t bytes)
{
    struct peer *peer = &of(base)->peers[rank];
    peer->address = malloc((size_t)bytes);
    if (!peer->address)
        return HD_ERR_NOMEM;
    memcpy(peer->address, address, (size_t)bytes);
    return HD_OK;
}

extern const struct hd_ucx_plugin hd_ucx_plugin;
const struct hd_ucx_plugin hd_ucx_plugin = {
    .abi = HD_UCX_ABI, .open = open_links, .get_address = get_address, .set_address = set_address};
