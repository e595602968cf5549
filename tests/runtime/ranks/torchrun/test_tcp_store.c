/* SPDX-License-Identifier: Apache-2.0 */
/* The client of torchrun's store, against a server that answers what it was told: the bytes of both
 * versions of the protocol, and answers that no store gives. tests/launchers has real stores. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous.h"
#include "runtime/ranks/torchrun/agent_store.h"
#include "runtime/ranks/torchrun/tcp_store.h"
#include "tests/harness/check.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define U64(low) low "\0\0\0\0\0\0\0"
#define PROBES "\0\xce\xf7\x85\x3c\7\7\7\7"
#define COUNTS U64("\1") U64("\1") U64("\1") U64("\1")

enum { CONNECTIONS = 2, RECEIVED = 2048, SHORT_MS = 300, LONG_MS = 20000 };

static struct connection {
    const char *answer; /* what the server sends, whatever it is asked */
    size_t bytes;
    bool closes; /* and then it ends the connection */
    char received[RECEIVED];
    size_t n_received;
} connections[CONNECTIONS];

static int listen_fd, port;
static pthread_t server;
static char last[1024];

static void keep_log(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    snprintf(last, sizeof last, "%s", line);
}

static void serve(struct connection *connection, int fd)
{
    ssize_t n = 1;
    send(fd, connection->answer, connection->bytes, MSG_NOSIGNAL);
    if (connection->closes)
        shutdown(fd, SHUT_WR);
    while (n > 0 && connection->n_received < RECEIVED) {
        n = recv(fd, connection->received + connection->n_received,
                 RECEIVED - connection->n_received, 0);
        connection->n_received += n > 0 ? (size_t)n : 0;
    }
    close(fd);
}

static void *serve_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < CONNECTIONS && connections[i].answer; i++) {
        int fd = accept(listen_fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        serve(&connections[i], fd);
    }
    return NULL;
}

static void start_server(void)
{
    hd_log_set_sink(keep_log, NULL);
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", 0, true, &listen_fd, &port), HD_OK);
    ck_assert_int_eq(pthread_create(&server, NULL, serve_all, NULL), 0);
}

static void stop_server(void)
{
    shutdown(listen_fd, SHUT_RDWR);
    pthread_join(server, NULL);
    close(listen_fd);
}

static int64_t in_ms(int64_t ms)
{
    return hd_clock_get_ns() + ms * 1000000;
}

static void answer(int i, const char *bytes, size_t n, bool closes)
{
    connections[i] = (struct connection){.answer = bytes, .bytes = n, .closes = closes};
}

#define ANSWER(i, text, closes) answer(i, text, sizeof(text) - 1, closes)

static void expect_received(int i, const char *bytes, size_t n)
{
    ck_assert_uint_eq(connections[i].n_received, n);
    ck_assert_mem_eq(connections[i].received, bytes, n);
}

#define EXPECT_RECEIVED(i, text) expect_received(i, text, sizeof(text) - 1)

/* -- The two protocols ------------------------------------------------------------------------- */

TEST(speaks_with_stores_that_validate)
{
    struct hd_tcp_store store;
    char value[HD_TCP_STORE_TEXT] = "";
    ANSWER(0, COUNTS "\0\0" U64("\3") "10 ", false);
    start_server();
    ck_assert_int_eq(hd_tcp_store_open("127.0.0.1", port, in_ms(LONG_MS), &store), HD_OK);
    ck_assert_int_eq(hd_tcp_store_set(&store, "key", "10 ", in_ms(LONG_MS)), HD_OK);
    ck_assert_int_eq(hd_tcp_store_get(&store, "key", value, in_ms(LONG_MS)), HD_OK);
    hd_tcp_store_close(&store);
    stop_server();
    ck_assert_str_eq(value, "10 ");
    EXPECT_RECEIVED(0, PROBES "\1" U64("\3") "key" U64(
                           "\3") "10 "
                                 "\6" U64("\1") U64("\3") "key"
                                                          "\6" U64("\1")
                                                              U64("\3") "key"
                                                                        "\3" U64("\3") "key");
}

TEST(speaks_with_stores_that_do_not)
{
    struct hd_tcp_store store;
    ANSWER(0, "", true);
    ANSWER(1, "\0", false);
    start_server();
    ck_assert_int_eq(hd_tcp_store_open("127.0.0.1", port, in_ms(LONG_MS), &store), HD_OK);
    ck_assert_int_eq(hd_tcp_store_set(&store, "key", "10 ", in_ms(LONG_MS)), HD_OK);
    hd_tcp_store_close(&store);
    stop_server();
    EXPECT_RECEIVED(0, PROBES);
    EXPECT_RECEIVED(1, "\0" U64("\3") "key" U64("\3") "10 "
                                                      "\5" U64("\1") U64("\3") "key");
}

/* -- Answers that no store gives --------------------------------------------------------------- */

struct strange {
    const char *bytes;
    size_t n;
    bool closes;
    const char *message;
};

#define STRANGE(text, closes, message)                                                             \
    {                                                                                              \
        text, sizeof(text) - 1, closes, message                                                    \
    }

static const struct strange answers[] = {
    STRANGE("", false, "not answer"),
    STRANGE("HTTP/1.1 400", false, "not answer"),
    STRANGE(COUNTS, false, "in time"),
    STRANGE(COUNTS "\1", false, "in time"),
    STRANGE(COUNTS "\0", true, "closed the connection"),
    STRANGE(COUNTS "\0\377\377\377\377\377\377\377\377", false, "18446744073709551615 bytes"),
    STRANGE(COUNTS "\0\0\2\0\0\0\0\0\0", false, "512 bytes"),
    STRANGE(COUNTS "\0" U64("\5") "127.", false, "in time"),
    STRANGE(COUNTS "\0" U64("\5") "1\0332\0333", false, "no text"),
    STRANGE(COUNTS "\0" U64("\5") "1\0002 3", false, "no text"),
    STRANGE(COUNTS "\0" U64("\5") "alone", false, "found 'alone'"),
    STRANGE(COUNTS "\0" U64("\7") "a 70000", false, "found 'a 70000'"),
    STRANGE(COUNTS "\0" U64("\5") "a 1 b", false, "found 'a 1 b'"),
};

TEST(bounds_what_it_is_told, .runs = COUNT(answers))
{
    const struct strange *strange = &answers[_i];
    answer(0, strange->bytes, strange->n, strange->closes);
    start_server();
    struct hd_world world = {.world = 2, .rank = 1, .master_port = port};
    strcpy(world.master_addr, "127.0.0.1");
    strcpy(world.store_key, "heddle/run");
    ck_assert_int_eq(hd_agent_store_look_up(&world, in_ms(SHORT_MS), &world), HD_ERR_SYSTEM);
    stop_server();
    ck_assert_msg(strstr(last, strange->message), "%s", last);
}

TEST(names_a_store_that_is_gone)
{
    struct hd_tcp_store store;
    start_server();
    stop_server();
    ck_assert_int_eq(hd_tcp_store_open("127.0.0.1", port, in_ms(SHORT_MS), &store), HD_ERR_SYSTEM);
    ck_assert_msg(strstr(last, "cannot be reached: Connection refused"), "%s", last);
}

/* -- What the ranks say there ------------------------------------------------------------------ */

TEST(publishes_where_rank_0_listens)
{
    static const char expected[] = "127.0.0.1 ";
    ANSWER(0, COUNTS "\0", false);
    start_server();
    struct hd_world world = {.world = 2, .local_world = 2, .master_port = port};
    strcpy(world.master_addr, "localhost");
    strcpy(world.store_key, "k");
    ck_assert_int_eq(hd_agent_store_publish(&world), HD_OK);
    stop_server();
    int listening = 0;
    socklen_t flag = sizeof listening;
    ck_assert_int_eq(getsockopt(world.rendezvous_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &flag),
                     0);
    ck_assert_int_eq(listening, 1);
    close(world.rendezvous_fd);
    ck_assert_int_ne(world.master_port, port);
    const char *told = connections[0].received + sizeof(PROBES) - 1 + 1 + 8 + 1 + 8;
    ck_assert_mem_eq(told, expected, strlen(expected));
}
