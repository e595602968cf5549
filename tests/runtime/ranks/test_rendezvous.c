/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous joins the right ranks, refuses the wrong ones with one text and survives unknown
 * peers; the watch names the rank that is lost. */
#include "runtime/ranks/wire.h"
#include "tests/runtime/ranks/join.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

/* -- Rendezvous -------------------------------------------------------------------------------- */

static int body_exchange(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct hd_rendezvous *rendezvous = NULL;
    int status = join_rendezvous(world, &rendezvous);
    for (int i = 0; i < 50 && status == HD_OK; i++) {
        int numbers[16] = {0};
        for (int k = 0; k < 16 && world->rank == 0; k++)
            numbers[k] = 100 * i + k;
        status = hd_rendezvous_broadcast(rendezvous, numbers, sizeof numbers);
        for (int k = 0; k < 16 && status == HD_OK; k++)
            status = numbers[k] == 100 * i + k ? HD_OK : HD_ERR_FORMAT;
        if (status == HD_OK)
            status = hd_rendezvous_agree(rendezvous, HD_OK, "");
    }
    hd_rendezvous_destroy(rendezvous);
    return -status;
}

FIXTURE(setup, NULL)

TEST(ranks_join_and_broadcast)
{
    for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
        run(ranks, body_exchange, (int[]){0, 0, 0, 0});
}

TEST(one_rank_needs_nothing)
{
    struct hd_world world = ranks_world(1);
    struct hd_rendezvous *rendezvous = (void *)1;
    int number = 5;
    ck_assert_int_eq(
        hd_rendezvous_create(&(struct hd_rendezvous_options){.world = &world}, &rendezvous), HD_OK);
    ck_assert_ptr_null(rendezvous);
    ck_assert_int_eq(hd_rendezvous_broadcast(rendezvous, &number, sizeof number), HD_OK);
    ck_assert_int_eq(hd_rendezvous_watch(rendezvous, &(struct hd_rendezvous_watch_options){0}),
                     HD_OK);
    hd_rendezvous_fail(rendezvous, HD_ERR_TASK, "x");
    hd_rendezvous_destroy(rendezvous);
}

TEST(other_config_is_refused)
{
    plan.options[2].config_hash = 8;
    run(3, body_join, (int[]){-HD_ERR_INPUT, -HD_ERR_INPUT, -HD_ERR_INPUT});
    for (int r = 0; r < 3; r++)
        ASSERT_SAYS(r, "configuration of rank 2");
}

/* The first key whose hash differs, with the values on both ranks. */
TEST(config_difference_is_named)
{
    plan.options[0].config = "seed\t01\t7\nlr\t02\t1e-3\nbatch\t03\t64\ngraph\t04\t\n";
    plan.options[1].config = "seed\t01\t7.0\nlr\t02\t0.001\nbatch\t05\t32\033[1m\ngraph\t05\t\n";
    plan.options[1].config_hash = 8;
    run(3, body_join, (int[]){-HD_ERR_INPUT, -HD_ERR_INPUT, -HD_ERR_INPUT});
    for (int r = 0; r < 3; r++) {
        ASSERT_SAYS(r, "configuration of rank 1|batch is 32 [1m on rank 1 (on ");
        ASSERT_SAYS(r, "but 64 on rank 0 (on ");
    }
    plan.options[1].config = "seed\t01\t7\nlr\t02\t1e-3\nbatch\t03\t64\ngraph\t05\t\n";
    run(2, body_join, (int[]){-HD_ERR_INPUT, -HD_ERR_INPUT});
    ASSERT_SAYS(1, "graph differs between rank 1 (on ");
}

/* Texts of a rank that knows the secret and is still hostile. */
TEST(odd_configs_are_survived)
{
    static const char *const odd[] = {"",         "\n\n",     "batch", "batch\t", "batch\t\t\t\t",
                                      "\t\t\n\t", "batch\t03"};
    plan.options[0].config = "batch\t03\t64\nx\n\ty";
    plan.options[1].config_hash = 8;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        plan.options[1].config = odd[i];
        run(2, body_join, (int[]){-HD_ERR_INPUT, -HD_ERR_INPUT});
        ASSERT_SAYS(0, "configuration of rank 1");
    }
}

TEST(other_arithmetic_is_refused_unless_allowed)
{
    plan.options[1].fingerprint = "isa=avx512f; omp=1";
    run(2, body_join, (int[]){-HD_ERR_INPUT, -HD_ERR_INPUT});
    ASSERT_SAYS(0, "rank 1");
    ASSERT_SAYS(1, "(isa: avx512f against avx2)");
    plan.options[0].allow_fingerprint_mismatch = true;
    run(2, body_join, (int[]){0, 0});
}

TEST(other_world_is_refused)
{
    plan.sent_world[1] = 4;
    run(3, body_join, (int[]){-HD_ERR_INPUT, -HD_ERR_INPUT, -HD_ERR_INPUT});
    ASSERT_SAYS(1, "rank 1 (pid ");
    ASSERT_SAYS(2, "4 ranks|one of 3");
}

TEST(duplicate_rank_is_refused)
{
    plan.sent_rank[2] = 1;
    run(3, body_join, (int[]){-HD_ERR_INPUT, -HD_ERR_INPUT, -HD_ERR_INPUT});
    for (int r = 0; r < 3; r++)
        ASSERT_SAYS(r, "duplicate rank 1: pid ");
}

TEST(absent_rank_is_named)
{
    plan.sent_rank[1] = -1;
    plan.options[0].timeout_ns = 3000000000;
    run(3, body_join, (int[]){-HD_ERR_SYSTEM, 0, -HD_ERR_SYSTEM});
    ASSERT_SAYS(0, "rank 1 of 3|did not join within ");
    ASSERT_SAYS(2, "rank 1 of 3|did not join within ");
}

TEST(rank_0_out_of_reach)
{
    struct hd_world world = ranks_world(2);
    close(world.rendezvous_fd);
    world.rendezvous_fd = -1;
    world.rank = 1;
    plan.options[1].timeout_ns = 200000000;
    ck_assert_int_eq(body_join(&world, NULL), -HD_ERR_SYSTEM);
    ASSERT_SAYS(1, "rank 1 cannot reach rank 0 at 127.0.0.1 port ");
    ASSERT_SAYS(1, "Connection refused");
}

TEST(taken_port_is_named)
{
    int fd, other, port;
    char text[32];
    own_rank = 0;
    hd_log_set_sink(keep_log, NULL);
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", 0, true, &fd, &port), HD_OK);
    ck_assert_int_gt(port, 0);
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", port, true, &other, NULL), HD_ERR_SYSTEM);
    snprintf(text, sizeof text, "port %d ", port);
    ASSERT_SAYS(0, text);
    ASSERT_SAYS(0, "is taken");
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", port, false, &other, NULL), HD_ERR_SYSTEM);
    close(fd);
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", port, true, &fd, NULL), HD_OK);
    close(fd);
    ck_assert_int_eq(hd_rendezvous_listen("no such host.", 0, false, &fd, NULL), HD_OK);
    close(fd); /* on all interfaces the name of this host does not matter */
}

TEST(handed_down_socket_is_checked)
{
    struct hd_world world = ranks_world(2);
    close(world.rendezvous_fd);
    world.rendezvous_fd = open("/dev/null", O_RDONLY);
    ck_assert_int_eq(body_join(&world, NULL), -HD_ERR_INPUT);
    ASSERT_SAYS(0, "socket");
}

/* -- Unknown peers ----------------------------------------------------------------------------- */

/* Unknown peers send frames with one wrong field each, random bytes, a web request, or nothing. */
static void send_garbage(int port, unsigned seed)
{
    struct hd_frame frame = {HD_WIRE_MAGIC, HD_WIRE_VERSION, HD_WIRE_HELLO, 0, 0, {0}};
    struct hd_hello hello = {.rank = 1, .world = 2, .pid = 1};
    int fd = connect_to(port);
    srand(seed);
    switch (seed % 9) {
    case 0:
        send(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, MSG_NOSIGNAL);
        break;
    case 1: /* silent */
        return;
    case 2:
        for (size_t i = 0; i < sizeof frame; i++)
            ((char *)&frame)[i] = (char)rand();
        break;
    case 3:
        frame.bytes = UINT32_MAX;
        break;
    case 4:
        frame.version = 99;
        break;
    case 5: /* a hello without an end in its texts */
        frame.bytes = sizeof hello;
        memset(hello.fingerprint, 'x', sizeof hello.fingerprint);
        break;
    case 6:
        frame.bytes = sizeof hello;
        hello.rank = INT32_MIN;
        break;
    case 7:
        frame.bytes = sizeof hello;
        hello.host[0] = '\033';
        break;
    case 8:
        frame.kind = HD_WIRE_FAIL;
        frame.bytes = 100;
        break;
    }
    memcpy(frame.payload, &hello, sizeof hello);
    send(fd, &frame, seed % 2 ? sizeof frame : 700, MSG_NOSIGNAL);
    if (seed % 3)
        close(fd);
}

TEST(unknown_peers_are_dropped)
{
    struct hd_world world = ranks_world(2);
    int listen_fd = dup(world.rendezvous_fd);
    pid_t pids[2];
    for (unsigned seed = 0; seed < 100; seed++) /* they come first … */
        send_garbage(world.master_port, seed);
    plan.options[1].timeout_ns = TIMEOUT_MS * 1000000LL;
    ranks_start(&world, pids, body_join, NULL);
    for (unsigned seed = 0; seed < 100; seed++) /* … and meanwhile */
        send_garbage(world.master_port, seed);
    ck_assert_msg(ranks_wait(pids[0]) == 0, "rank 0: %s", seen->log[0]);
    ck_assert_msg(ranks_wait(pids[1]) == 0, "rank 1: %s", seen->log[1]);
    close(listen_fd);
}

/* Valid frames with some bits flipped, cut and split anywhere: never more than a frame is read, and
 * what passes for a hello has every field in range. */
TEST(no_bytes_confuse_a_frame_reader)
{
    unsigned seed = 1;
    int passed = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct hd_frame frame = {HD_WIRE_MAGIC, HD_WIRE_VERSION, HD_WIRE_HELLO, 0, 0, {0}};
        struct hd_hello hello = {.rank = 1, .world = 2, .pid = 1, .host = "a", .boot_id = "b"};
        frame.bytes = sizeof hello;
        memcpy(frame.payload, &hello, sizeof hello);
        for (int flips = rand_r(&seed) % 4; flips > 0; flips--) {
            int where = rand_r(&seed) % (rand_r(&seed) % 2 ? 40 : (int)sizeof frame);
            ((char *)&frame)[where] ^= (char)(1 << rand_r(&seed) % 8);
        }
        size_t bytes =
            (size_t)rand_r(&seed) % 8 ? HD_WIRE_HEADER + sizeof hello + HD_WIRE_TAG : 777;
        struct hd_frame_reader reader = {0};
        enum hd_frame_state state = HD_FRAME_INCOMPLETE;
        for (size_t at = 0, n; at < bytes && state == HD_FRAME_INCOMPLETE; at += n) {
            n = 1 + (size_t)rand_r(&seed) % (bytes - at);
            ck_assert_int_eq(send(pair[0], (char *)&frame + at, n, 0), n);
            state = hd_frame_reader_read(&reader, pair[1]);
        }
        close(pair[0]);
        if (state == HD_FRAME_INCOMPLETE)
            state = hd_frame_reader_read(&reader, pair[1]);
        ck_assert_int_ne(state, HD_FRAME_INCOMPLETE);
        if (state == HD_FRAME_COMPLETE &&
            hd_hello_read(reader.frame.payload, reader.frame.bytes, &hello)) {
            ck_assert(hello.rank >= 1 && hello.rank < hello.world && hello.world <= HD_WORLD_MAX);
            ck_assert_uint_lt(strnlen(hello.fingerprint, HD_FINGERPRINT_BYTES),
                              HD_FINGERPRINT_BYTES);
            passed++;
        } else {
            refused++;
        }
        if (state == HD_FRAME_COMPLETE)
            ck_assert_uint_lt(strlen(hd_frame_get_text(&reader.frame)), HD_WIRE_PAYLOAD);
        close(pair[1]);
    }
    ck_assert_int_gt(passed, 1000);
    ck_assert_int_gt(refused, 1000);
}

/* A rank tries until its time is over: rank 0 may still come. */
TEST(an_unknown_peer_as_rank_0)
{
    struct hd_world world = ranks_world(2);
    plan.options[1].timeout_ns = 500000000;
    pid_t pid = fork();
    if (pid == 0) {
        world.rank = 1;
        _exit(body_join(&world, NULL));
    }
    while (seen->log[1][0] == '\0') {
        struct pollfd one = {.fd = world.rendezvous_fd, .events = POLLIN};
        int fd = poll(&one, 1, 10) == 1 ? accept(world.rendezvous_fd, NULL, NULL) : -1;
        if (fd >= 0)
            send(fd, "220 smtp.example.org ESMTP\r\n", 28, MSG_NOSIGNAL);
    }
    ck_assert_int_eq(ranks_wait(pid), -HD_ERR_SYSTEM);
    ASSERT_SAYS(1, "secret");
}

/* -- Watch ------------------------------------------------------------------------------------- */

static void note_lost(void *arg, int rank, int status, const char *text)
{
    (void)arg;
    seen->lost_ns[own_rank] = hd_clock_get_ns();
    seen->lost_rank[own_rank] = rank;
    seen->lost_status[own_rank] = status;
    snprintf(seen->lost[own_rank], HD_RENDEZVOUS_TEXT, "%s", text);
    seen->lost_calls[own_rank]++;
}

/* Who fails (-1: nobody), and whether it only tells of another rank that failed. */
struct failing {
    int rank;
    bool passes_on;
};

/* Joins; then a rank fails (or waits to be killed), and the others wait to be told. */
static int body_watch(const struct hd_world *world, void *arg)
{
    struct hd_rendezvous *rendezvous = NULL;
    const struct failing *failing = arg;
    if (join_rendezvous(world, &rendezvous) != HD_OK ||
        hd_rendezvous_watch(rendezvous,
                            &(struct hd_rendezvous_watch_options){.on_lost = note_lost}) != HD_OK)
        return 1;
    atomic_fetch_add(&seen->up, 1);
    if (world->rank == failing->rank) {
        while (atomic_load(&seen->up) < world->world)
            usleep(1000);
        if (failing->passes_on)
            hd_rendezvous_pass_on(rendezvous, 3, HD_ERR_TASK, "rank 3 failed: it fell over");
        else
            hd_rendezvous_fail(rendezvous, HD_ERR_SYSTEM, "no space\tleft in /tmp");
        hd_rendezvous_destroy(rendezvous);
        return 5;
    }
    for (int i = 0; i < 3000 && seen->lost_calls[world->rank] == 0; i++)
        usleep(1000);
    hd_rendezvous_destroy(rendezvous);
    return seen->lost_calls[world->rank];
}

TEST(dead_peer_is_named_to_all_soon)
{
    for (int victim = 0; victim < 3; victim++) {
        memset(seen, 0, sizeof *seen);
        struct failing nobody = {.rank = -1};
        struct hd_world world = ranks_world(3);
        pid_t pids[3];
        ranks_start(&world, pids, body_watch, &nobody);
        while (atomic_load(&seen->up) < 3)
            usleep(1000);
        int64_t killed_ns = hd_clock_get_ns();
        kill(pids[victim], SIGKILL);
        for (int r = 0; r < 3; r++)
            ck_assert_int_eq(ranks_wait(pids[r]), r == victim ? 256 + SIGKILL : 1);
        char text[64];
        snprintf(text, sizeof text, victim == 0 ? "rank 0 died" : "rank %d (pid %d on ", victim,
                 pids[victim]);
        for (int r = 0; r < 3; r++) {
            if (r == victim)
                continue;
            ck_assert_int_eq(seen->lost_rank[r], victim);
            ck_assert_int_eq(seen->lost_status[r], HD_ERR_PEER);
            ck_assert_ptr_eq(strstr(seen->lost[r], text), seen->lost[r]);
            ck_assert_int_lt(seen->lost_ns[r] - killed_ns, 10000000000); /* usually less than 1 s */
        }
    }
}

TEST(failure_carries_its_cause)
{
    for (int failing = 0; failing < 3; failing++) {
        memset(seen, 0, sizeof *seen);
        struct failing one = {.rank = failing};
        struct hd_world world = ranks_world(3);
        pid_t pids[3];
        ranks_start(&world, pids, body_watch, &one);
        char text[64];
        snprintf(text, sizeof text, "rank %d failed: no space left in /tmp", failing);
        for (int r = 0; r < 3; r++) {
            ck_assert_int_eq(ranks_wait(pids[r]), r == failing ? 5 : 1);
            ck_assert_int_eq(seen->lost_calls[r], r == failing ? 0 : 1);
            if (r != failing && failing != 0) {
                ck_assert_str_eq(seen->lost[r], text);
                ck_assert_int_eq(seen->lost_status[r], r == 0 ? HD_ERR_SYSTEM : HD_ERR_PEER);
            }
        }
    }
}

/* A rank that leaves because another of its host failed says so before it closes its connections.
 */
TEST(failure_is_passed_on)
{
    for (int leaving = 0; leaving < 3; leaving++) {
        memset(seen, 0, sizeof *seen);
        struct failing one = {.rank = leaving, .passes_on = true};
        struct hd_world world = ranks_world(4);
        pid_t pids[4];
        ranks_start(&world, pids, body_watch, &one);
        for (int r = 0; r < 4; r++) {
            ck_assert_int_eq(ranks_wait(pids[r]), r == leaving ? 5 : 1);
            if (r == leaving)
                continue;
            ck_assert_int_eq(seen->lost_calls[r], 1);
            ck_assert_str_eq(seen->lost[r], "rank 3 failed: it fell over");
            ck_assert_int_eq(seen->lost_rank[r], leaving == 0 ? 3 : leaving);
            ck_assert_int_eq(seen->lost_status[r], r == 0 ? HD_ERR_TASK : HD_ERR_PEER);
        }
    }
}

/* Ranks end at different times, and no rank takes a goodbye for a death. The watch costs no time.
 */
static int body_leave(const struct hd_world *world, void *arg)
{
    struct hd_rendezvous *rendezvous = NULL;
    const int *first = arg;
    if (join_rendezvous(world, &rendezvous) != HD_OK ||
        hd_rendezvous_watch(rendezvous,
                            &(struct hd_rendezvous_watch_options){.on_lost = note_lost}) != HD_OK)
        return 1;
    int64_t cpu_ns = get_cpu_ns();
    usleep(world->rank == *first ? 50000 : 200000);
    cpu_ns = get_cpu_ns() - cpu_ns;
    hd_rendezvous_destroy(rendezvous);
    return seen->lost_calls[world->rank] != 0 || cpu_ns > 50000000;
}

TEST(a_goodbye_is_no_death)
{
    for (int first = 0; first < 3; first++) {
        struct hd_world world = ranks_world(3);
        pid_t pids[3];
        ranks_start(&world, pids, body_leave, &first);
        for (int r = 0; r < 3; r++)
            ck_assert_int_eq(ranks_wait(pids[r]), 0);
    }
}

static int body_agree(const struct hd_world *world, void *arg)
{
    struct hd_rendezvous *rendezvous = NULL;
    const int *against = arg;
    if (join_rendezvous(world, &rendezvous) != HD_OK)
        return 1;
    bool ok = world->rank != *against;
    int status =
        hd_rendezvous_agree(rendezvous, ok ? HD_OK : HD_ERR_NOMEM, ok ? "" : "no memory left");
    hd_rendezvous_destroy(rendezvous);
    return -status;
}

TEST(one_against_stops_all)
{
    for (int against = 0; against < 3; against++) {
        struct hd_world world = ranks_world(3);
        char text[64];
        pid_t pids[3];
        snprintf(text, sizeof text, "rank %d: no memory left", against);
        ranks_start(&world, pids, body_agree, &against);
        for (int r = 0; r < 3; r++) {
            ck_assert_int_eq(ranks_wait(pids[r]), -HD_ERR_NOMEM);
            ASSERT_SAYS(r, text);
        }
    }
}

/* Connects when all ranks have joined. Nobody listens any more. */
TEST(late_comer_is_told)
{
    int nobody = -1;
    struct hd_world world = ranks_world(2);
    pid_t pids[2];
    ranks_start(&world, pids, body_watch, &nobody);
    while (atomic_load(&seen->up) < 2)
        usleep(1000);
    world.rank = 1;
    world.rendezvous_fd = -1;
    plan.options[1].timeout_ns = 200000000;
    ck_assert_int_eq(body_join(&world, NULL), -HD_ERR_SYSTEM);
    ASSERT_SAYS(1, "joined");
    kill(pids[1], SIGKILL);
    ranks_wait(pids[1]);
    ck_assert_int_eq(ranks_wait(pids[0]), 1);
}
