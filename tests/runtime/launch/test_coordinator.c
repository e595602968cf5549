/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's rounds, as launchers without ranks see them. */
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/launch/coordinator.h"
#include "runtime/launch/membership.h"
#include "runtime/ranks/pending.h"
#include "runtime/ranks/rendezvous.h"
#include "tests/harness/check.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hd_launch_options options;
static uint8_t secret[HD_SECRET_BYTES];
static struct hd_membership own, others[2];
static int coordinator;

static void setup(void)
{
    hd_secret_draw(secret);
    options = (struct hd_launch_options){.nproc_per_node = 2,
                                         .nnodes_min = 1,
                                         .nnodes = 2,
                                         .master_addr = "127.0.0.1",
                                         .heartbeat_timeout_s = 1,
                                         .config_hash = 7,
                                         .shards = 4,
                                         .secret = secret};
}

static void start(void)
{
    int fd;
    own = others[0] = others[1] = (struct hd_membership){.coordinator.fd = -1};
    for (int i = 0; i < 2; i++)
        hd_secret_draw(others[i].id);
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", 0, true, &fd, &options.master_port), HD_OK);
    ck_assert_int_eq(hd_coordinator_start(&options, fd, &own.coordinator.fd, &coordinator), HD_OK);
    close(fd);
    hd_launcher_make_key(secret, own.coordinator.out.key);
    own.coordinator.reader.key = own.coordinator.out;
    own.coordinator.reader.keyed = true;
    hd_connection_start(&own.coordinator);
}

static const char *join(struct hd_membership *membership)
{
    return hd_membership_join(membership, &options, hd_clock_get_ns() + 2000000000);
}

/* The coordinator has ended after its own launcher has. */
static void finish(void)
{
    int status;
    hd_connection_close(&own.coordinator);
    for (int i = 0; i < 2; i++)
        hd_connection_close(&others[i].coordinator);
    ck_assert_int_eq(waitpid(coordinator, &status, 0), coordinator);
    ck_assert_int_eq(status, 0);
}

static void attend_all(void)
{
    hd_membership_attend(&own);
    for (int i = 0; i < 2; i++)
        hd_membership_attend(&others[i]);
    usleep(10000);
}

#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        const int64_t limit_ns_ = hd_clock_get_ns() + 8000000000;                                  \
        while (!(condition) && hd_clock_get_ns() < limit_ns_)                                      \
            attend_all();                                                                          \
        ck_assert_msg(condition, "never came: %s", #condition);                                    \
    } while (0)

/* Takes the next round, of so many nodes; the launcher is the node_rank-th of them. */
static void take_round(struct hd_membership *membership, int number, int nnodes, int node_rank)
{
    AWAIT(membership->has_round);
    membership->has_round = false;
    ck_assert_int_eq(membership->round.number, number);
    ck_assert_int_eq(membership->round.nnodes, nnodes);
    ck_assert_int_eq(membership->round.node_rank, node_rank);
}

static void take_stop(struct hd_membership *membership, int number)
{
    AWAIT(membership->stop_signal != 0);
    ck_assert_int_eq(membership->stop_signal, number);
    membership->stop_signal = 0;
}

static void tell_port(int port)
{
    hd_connection_send(&own.coordinator, HD_WIRE_LISTENS, port, NULL, 0);
}

/* Starts a round of two nodes. */
static void start_pair(void)
{
    start();
    ck_assert_ptr_null(join(&others[0]));
    take_round(&own, 1, 2, 0);
    ck_assert_int_eq(own.round.port, 0);
    attend_all();
    ck_assert(!others[0].has_round); /* the port is not known */
    tell_port(4711);
    take_round(&others[0], 1, 2, 1);
    ck_assert_int_eq(others[0].round.port, 4711);
    ck_assert_int_eq(memcmp(own.round.nonce, others[0].round.nonce, HD_WIRE_KEY), 0);
}

FIXTURE(setup, NULL)

TEST(number_of_nodes)
{
    ck_assert_int_eq(hd_coordinator_count_nodes(3, 1, 4, 1, 4), 2); /* of 3, 4 shards allow 2 */
    ck_assert_int_eq(hd_coordinator_count_nodes(3, 3, 4, 1, 4), 0);
    ck_assert_int_eq(hd_coordinator_count_nodes(9, 1, 4, 1, 4), 4);
    ck_assert_int_eq(hd_coordinator_count_nodes(3, 1, 4, 2, 4), 2);
    ck_assert_int_eq(hd_coordinator_count_nodes(3, 1, 4, 2, 6), 3);
    ck_assert_int_eq(hd_coordinator_count_nodes(0, 1, 4, 2, 4), 0);
}

TEST(all_end_together)
{
    start_pair();
    hd_membership_report(&own, 0, "dir", "");
    hd_membership_report(&others[0], 0, "dir", "");
    AWAIT(own.has_ended && others[0].has_ended);
    ck_assert_int_eq(own.code, 0);
    ck_assert_int_eq(others[0].code, 0);
    finish();
}

/* A node that joins ends the round by SIGTERM, and hears of the run's directory. */
TEST(a_node_joins)
{
    start();
    take_round(&own, 1, 1, 0);
    ck_assert_ptr_null(join(&others[0]));
    take_round(&others[0], 1, 1, HD_NODE_SPARE);
    take_stop(&own, SIGTERM);
    hd_membership_report(&own, 75, "the/run", "");
    take_round(&own, 2, 2, 0);
    tell_port(1);
    take_round(&others[0], 2, 2, 1);
    ck_assert_str_eq(others[0].round.dir, "the/run");
    finish();
}

/* A node leaves in order; a spare one takes its place. */
TEST(a_node_leaves)
{
    start_pair();
    ck_assert_ptr_null(join(&others[1]));
    take_round(&others[1], 1, 2, HD_NODE_SPARE);
    hd_connection_send(&others[0].coordinator, HD_WIRE_BYE, SIGTERM, NULL, 0);
    take_stop(&own, SIGTERM);
    hd_membership_report(&others[0], 75, "", "");
    hd_membership_report(&own, 75, "", "");
    hd_connection_close(&others[0].coordinator);
    take_round(&own, 2, 2, 0);
    tell_port(2);
    take_round(&others[1], 2, 2, 1);
    finish();
}

/* What is left of a round that lost a node ends at once, and is no failure. */
TEST(a_node_is_lost)
{
    start_pair();
    hd_membership_report(&own, HD_EXIT_PEER, "", "lost a rank");
    take_stop(&others[0], SIGKILL);
    hd_connection_close(&others[0].coordinator);
    take_round(&own, 2, 1, 0);
    ck_assert(!own.has_ended);
    finish();
}

/* The network was out for so short a time that no launcher was missed: no failure, either. */
TEST(ranks_lose_each_other)
{
    start_pair();
    hd_membership_report(&own, HD_EXIT_PEER, "", "lost a rank");
    take_stop(&others[0], SIGKILL);
    hd_membership_report(&others[0], HD_EXIT_PEER, "", "lost a rank");
    take_round(&own, 2, 2, 0);
    tell_port(2);
    take_round(&others[0], 2, 2, 1);
    finish();
}

TEST(a_silent_node_is_lost)
{
    start_pair();
    const int64_t begin_ns = hd_clock_get_ns();
    struct hd_membership silent = others[0];
    others[0].coordinator.fd = -1; /* nobody attends to it */
    take_stop(&own, SIGKILL);
    const int64_t took_ms = (hd_clock_get_ns() - begin_ns) / 1000000;
    ck_assert_msg(took_ms >= 1000, "lost after %d ms",
                  (int)took_ms); /* its own launcher is first */
    hd_membership_report(&own, 75, "", "");
    take_round(&own, 2, 1, 0);
    hd_connection_close(&silent.coordinator);
    finish();
}

/* A launcher that comes again counts once. */
TEST(a_node_joins_again)
{
    start_pair();
    others[1] = others[0];
    ck_assert_ptr_null(join(&others[1]));
    take_round(&others[1], 1, 2, HD_NODE_SPARE);
    take_stop(&own, SIGKILL);
    AWAIT(others[0].coordinator.fd < 0);
    hd_membership_report(&own, 75, "", "");
    take_round(&own, 2, 2, 0);
    tell_port(3);
    take_round(&others[1], 2, 2, 1);
    finish();
}

TEST(failures_are_counted)
{
    options.max_restarts = 1;
    start_pair();
    for (int round = 2; round <= 3; round++) {
        hd_membership_report(&others[0], 9, "", "rank 3 failed");
        take_stop(&own, SIGKILL);
        hd_membership_report(&own, 75, "", "");
        if (round == 3)
            break;
        take_round(&own, round, 2, 0);
        tell_port(round);
        take_round(&others[0], round, 2, 1);
    }
    AWAIT(own.has_ended && others[0].has_ended);
    ck_assert_int_eq(own.code, 9);
    ck_assert_int_eq(others[0].code, 9);
    ck_assert_ptr_nonnull(strstr(others[0].why, "rank 3 failed on "));
    finish();
}

/* Bad input stays bad, whatever the number of restarts. */
TEST(bad_input_ends_the_job)
{
    options.max_restarts = 9;
    start();
    take_round(&own, 1, 1, 0);
    hd_membership_report(&own, 2, "", "bad");
    AWAIT(own.has_ended);
    ck_assert_int_eq(own.code, 2);
    finish();
}

TEST(the_master_leaves)
{
    start_pair();
    hd_connection_send(&own.coordinator, HD_WIRE_BYE, SIGTERM, NULL, 0);
    take_stop(&others[0], SIGTERM);
    hd_membership_report(&others[0], 75, "", "");
    hd_membership_report(&own, 75, "", "");
    AWAIT(others[0].has_ended);
    ck_assert_int_eq(others[0].code, 75);
    finish();
    start_pair();
    hd_connection_close(&own.coordinator);
    AWAIT(others[0].has_ended);
    ck_assert_int_eq(others[0].code, 1);
    finish();
}

/* Who does not fit hears why; who does not know the secret hears nothing. */
TEST(strange_launchers)
{
    start();
    take_round(&own, 1, 1, 0);
    const struct hd_launch_options good = options;
    uint8_t other_secret[HD_SECRET_BYTES] = {1};
    struct {
        struct hd_launch_options options;
        const char *part;
    } cases[] = {{good, "--nproc-per-node is 3"},
                 {good, "--nnodes is 1:5"},
                 {good, "the configuration on"},
                 {good, "computes differently"}};
    cases[0].options.nproc_per_node = 3;
    cases[1].options.nnodes = 5;
    cases[2].options.config_hash = 8;
    cases[3].options.fingerprint = "exe=other";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options = cases[i].options;
        others[0].has_ended = false;
        ck_assert_ptr_null(join(&others[0]));
        AWAIT(others[0].has_ended);
        ck_assert_int_eq(others[0].code, 2);
        ck_assert_msg(strstr(others[0].why, cases[i].part) != NULL, "%s", others[0].why);
    }
    options = good;
    options.secret = other_secret;
    ck_assert_ptr_nonnull(strstr(join(&others[0]), "does not know the run's secret"));
    ck_assert(!own.has_round && own.stop_signal == 0);
    finish();
}

/* Connections that say nothing keep nobody out. */
TEST(silent_connections)
{
    int fds[HD_PENDING_MAX + 20];
    const char *why;
    start();
    take_round(&own, 1, 1, 0);
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        fds[i] = hd_rendezvous_connect_once("127.0.0.1", options.master_port, 2000, &why);
    ck_assert_ptr_null(join(&others[0]));
    take_stop(&own, SIGTERM);
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    finish();
}

/* A launcher whose frames make no sense is lost, and nothing else is. */
TEST(senseless_frames)
{
    static const struct {
        enum hd_wire_kind kind;
        int number, bytes;
    } cases[] = {
        {HD_WIRE_LISTENS, 80, 0}, {HD_WIRE_ENDED, 0, 3}, {HD_WIRE_GO, 0, 0}, {HD_WIRE_ROUND, 0, 8}};
    start();
    take_round(&own, 1, 1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_ptr_null(join(&others[0]));
        hd_connection_send(&others[0].coordinator, cases[i].kind, cases[i].number, "12345678",
                           (size_t)cases[i].bytes);
        AWAIT(others[0].coordinator.fd < 0);
    }
    ck_assert_int_ge(own.coordinator.fd, 0);
    finish();
}
