/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/server/server.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 16, REQUEST_BYTES = 4096, REQUEST_S = 10 };

struct client {
    int fd; /* -1: free */
    char request[REQUEST_BYTES];
    size_t received;
    char *answer; /* what is being sent; NULL: nothing */
    size_t bytes, sent;
    bool answered, streams; /* the request is complete; it asks for all events to come */
    int64_t shown;          /* the number of the last event that it was sent */
    int64_t since_ns;       /* when it came; of a stream, when it last took something */
};

struct hd_server {
    int fd, port;
    const char *page;
    struct client clients[CLIENTS_MAX];
    int64_t shown; /* events so far */
    char *event, *png;
    size_t png_bytes;
};

/* -- Start and end ----------------------------------------------------------------------------- */

static int listen_at(struct hd_server *server, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->fd < 0)
        return hd_fail(HD_ERR_SYSTEM, "no socket for a page: %m");
    setsockopt(server->fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(server->fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(server->fd, CLIENTS_MAX) != 0 ||
        getsockname(server->fd, (struct sockaddr *)&address, &length) != 0)
        return hd_fail(HD_ERR_INPUT, "--http: nothing can listen at port %d: %m", port);
    server->port = ntohs(address.sin_port);
    return HD_OK;
}

int hd_server_open(int port, const char *page, struct hd_server **server_p)
{
    struct hd_server *server = hd_alloc(1, sizeof *server);
    if (!server)
        return HD_ERR_NOMEM;
    server->fd = -1;
    server->page = page;
    for (int i = 0; i < CLIENTS_MAX; i++)
        server->clients[i].fd = -1;
    const int status = listen_at(server, port);
    if (status != HD_OK) {
        hd_server_close(server);
        return status;
    }
    hd_log(HD_LOG_INFO, "http://127.0.0.1:%d/ shows it; Ctrl-C ends it", server->port);
    *server_p = server;
    return HD_OK;
}

static void drop(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    hd_free(client->answer);
    *client = (struct client){.fd = -1};
}

void hd_server_close(struct hd_server *server)
{
    if (!server)
        return;
    for (int i = 0; i < CLIENTS_MAX; i++)
        drop(&server->clients[i]);
    if (server->fd >= 0)
        close(server->fd);
    hd_free(server->png);
    hd_free(server->event);
    hd_free(server);
}

/* -- What is shown ----------------------------------------------------------------------------- */

int hd_server_publish(struct hd_server *server, const char *json)
{
    char *event = hd_format("data: %s\n\n", json);
    if (!event)
        return HD_ERR_NOMEM;
    hd_free(server->event);
    server->event = event;
    server->shown++;
    return HD_OK;
}

int hd_server_set_picture(struct hd_server *server, const char *png, size_t bytes)
{
    char *copy = hd_alloc((int64_t)bytes, 1);
    if (!copy)
        return HD_ERR_NOMEM;
    memcpy(copy, png, bytes);
    hd_free(server->png);
    server->png = copy;
    server->png_bytes = bytes;
    return HD_OK;
}

/* -- Answers ----------------------------------------------------------------------------------- */

/* Begins to send a head and a body. Without memory the client is dropped. */
static void answer(struct client *client, const char *status, const char *type, const char *more,
                   const char *body, size_t bytes)
{
    char *head = hd_format("HTTP/1.1 %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n"
                           "X-Content-Type-Options: nosniff\r\nConnection: close\r\n%s\r\n",
                           status, type, more);
    const size_t head_bytes = head ? strlen(head) : 0;
    client->answer = head ? hd_alloc((int64_t)(head_bytes + bytes), 1) : NULL;
    client->answered = true;
    client->sent = 0;
    client->bytes = client->answer ? head_bytes + bytes : 0;
    if (client->answer) {
        memcpy(client->answer, head, head_bytes);
        memcpy(client->answer + head_bytes, body, bytes);
    }
    hd_free(head);
}

static void refuse(struct client *client, const char *status)
{
    answer(client, status, "text/plain", "", status, strlen(status));
}

static bool is_this_host(const struct hd_server *server, const char *name, size_t length)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    char wanted[32];
    for (int i = 0; i < 2; i++) {
        snprintf(wanted, sizeof wanted, "%s:%d", hosts[i], server->port);
        if (strlen(wanted) == length && strncasecmp(name, wanted, length) == 0)
            return true;
    }
    return false;
}

/* Returns whether a request was made to this host, in each of its lines that name one: a name of
 * elsewhere may lead here as well. */
static bool names_this_host(const struct hd_server *server, const char *request)
{
    static const char start[] = "\r\nHost:";
    const char *line = strcasestr(request, start);
    bool named = line;
    for (; line && named; line = strcasestr(line, start)) {
        line += strlen(start);
        line += strspn(line, " \t");
        named = is_this_host(server, line, strcspn(line, " \t\r"));
    }
    return named;
}

static void answer_path(const struct hd_server *server, struct client *client, const char *path,
                        size_t length)
{
    static const char policy[] = "Content-Security-Policy: default-src 'none'; img-src data:; "
                                 "connect-src 'self'; style-src 'unsafe-inline'; "
                                 "script-src 'unsafe-inline'\r\n";
    if (length == 1)
        answer(client, "200 OK", "text/html; charset=utf-8", policy, server->page,
               strlen(server->page));
    else if (length == 7 && strncmp(path, "/events", length) == 0) {
        client->streams = true;
        answer(client, "200 OK", "text/event-stream", "", "", 0);
    } else if (length == 12 && strncmp(path, "/picture.png", length) == 0 && server->png)
        answer(client, "200 OK", "image/png", "", server->png, server->png_bytes);
    else
        refuse(client, "404 Not Found");
}

/* Answers a request whose head is there: GET, a path, and a host. */
static void answer_request(const struct hd_server *server, struct client *client)
{
    const char *request = client->request, *path = request + strlen("GET ");
    if (!names_this_host(server, request))
        refuse(client, "403 Forbidden");
    else if (strncmp(request, "GET /", 5) != 0)
        refuse(client, "405 Method Not Allowed");
    else
        answer_path(server, client, path, strcspn(path, " ?\r"));
}

static void receive(const struct hd_server *server, struct client *client)
{
    char unread[256];
    const size_t room = REQUEST_BYTES - 1 - client->received;
    const ssize_t n = client->answered
                          ? recv(client->fd, unread, sizeof unread, 0)
                          : recv(client->fd, client->request + client->received, room, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(client);
        return;
    }
    if (client->answered)
        return;
    client->received += (size_t)n;
    if (strstr(client->request, "\r\n\r\n"))
        answer_request(server, client);
    else if (client->received == REQUEST_BYTES - 1)
        refuse(client, "431 Request Header Fields Too Large");
}

/* Gives a client that streams and has nothing to send the newest event, if that is a new one. */
static void give_event(const struct hd_server *server, struct client *client)
{
    if (!client->streams || client->answer || client->shown == server->shown)
        return;
    client->answer = hd_strdup(server->event);
    client->bytes = client->answer ? strlen(client->answer) : 0;
    client->sent = 0;
    client->shown = server->shown;
}

static void send_some(struct client *client)
{
    const ssize_t n =
        send(client->fd, client->answer + client->sent, client->bytes - client->sent, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    client->sent += n > 0 ? (size_t)n : 0;
    if (client->streams)
        client->since_ns = hd_clock_get_ns();
    if (n < 0 || (client->sent == client->bytes && !client->streams)) {
        drop(client);
    } else if (client->sent == client->bytes) {
        hd_free(client->answer);
        client->answer = NULL;
    }
}

/* -- Connections ------------------------------------------------------------------------------- */

/* Returns a place for a new client: one that is free, or that of the stream which has taken nothing
 * for longest. Returns NULL where there is neither: other clients are gone soon. */
static struct client *find_place(struct hd_server *server)
{
    struct client *oldest = NULL;
    for (struct client *client = server->clients; client < server->clients + CLIENTS_MAX;
         client++) {
        if (client->fd < 0)
            return client;
        if (client->streams && (!oldest || client->since_ns < oldest->since_ns))
            oldest = client;
    }
    return oldest;
}

static void take_client(struct hd_server *server)
{
    const int fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct client *client = find_place(server);
    if (fd < 0)
        return;
    if (!client) {
        close(fd);
        return;
    }
    drop(client);
    *client = (struct client){.fd = fd, .since_ns = hd_clock_get_ns()};
}

static bool is_late(const struct client *client, int64_t now_ns)
{
    return client->fd >= 0 && !client->streams &&
           now_ns - client->since_ns > REQUEST_S * INT64_C(1000000000);
}

static void serve_client(const struct hd_server *server, struct client *client, int events)
{
    if (events & (POLLIN | POLLHUP | POLLERR))
        receive(server, client);
    if (client->fd >= 0 && client->answered && !client->answer && !client->streams)
        drop(client); /* there was no memory */
    if (client->fd >= 0 && client->answer)
        send_some(client);
}

/* Waits once. Returns false at a signal. */
static bool serve_once(struct hd_server *server, int timeout_ms)
{
    struct pollfd polls[CLIENTS_MAX + 1];
    const int64_t now_ns = hd_clock_get_ns();
    for (int i = 0; i < CLIENTS_MAX; i++) {
        struct client *client = &server->clients[i];
        if (is_late(client, now_ns))
            drop(client);
        give_event(server, client);
        polls[i] = (struct pollfd){.fd = client->fd,
                                   .events = (short)(POLLIN | (client->answer ? POLLOUT : 0))};
    }
    polls[CLIENTS_MAX] = (struct pollfd){.fd = server->fd, .events = POLLIN};
    const int ready = poll(polls, CLIENTS_MAX + 1, timeout_ms);
    for (int i = 0; ready > 0 && i < CLIENTS_MAX; i++)
        if (polls[i].fd >= 0 && polls[i].revents)
            serve_client(server, &server->clients[i], polls[i].revents);
    if (ready > 0 && polls[CLIENTS_MAX].revents)
        take_client(server);
    return ready >= 0;
}

void hd_server_serve(struct hd_server *server, int timeout_ms)
{
    const int64_t end_ns = hd_clock_get_ns() + timeout_ms * INT64_C(1000000);
    int64_t left_ns = end_ns - hd_clock_get_ns();
    while (serve_once(server, left_ns > 0 ? (int)(left_ns / 1000000) : 0) && left_ns > 0)
        left_ns = end_ns - hd_clock_get_ns();
}
