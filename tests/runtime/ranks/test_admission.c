/* SPDX-License-Identifier: Apache-2.0 */
/* Who may join: ranks that know the secret of the run and belong to its user, and nobody else. */
#include "runtime/ranks/handshake.h"
#include "runtime/ranks/peer.h"
#include "tests/runtime/ranks/join.h"

#include <poll.h>
#include <sys/resource.h>

enum { ANSWER_MS = 20000 }; /* an answer takes less than a millisecond on a quiet machine */

/* Joins as a rank that has another secret, or none. */
static int body_other_secret(const struct hd_world *world, void *arg)
{
    struct hd_world own = *world;
    const int *impostor = arg;
    if (world->rank == *impostor)
        memset(own.secret, 0, sizeof own.secret);
    return body_join(&own, NULL);
}

FIXTURE(setup, NULL)

TEST(other_secret_is_refused)
{
    for (int r = 0; r < 2; r++)
        plan.options[r].timeout_ns = 700000000;
    for (int impostor = 0; impostor < 2; impostor++) {
        struct hd_world world = ranks_world(2);
        pid_t pids[2];
        ranks_start(&world, pids, body_other_secret, &impostor);
        for (int r = 0; r < 2; r++)
            ck_assert_int_eq(ranks_wait(pids[r]), -HD_ERR_SYSTEM);
        ASSERT_SAYS(0, "rank 1 of 2|did not join within ");
        ASSERT_SAYS(1, "secret");
    }
}

/* Returns once the test has made its attacks. */
static void wait_for_attacks(void)
{
    for (int ms = 0; !atomic_load(&seen->attacked) && ms < 60000; ms++)
        usleep(1000);
}

/* Rank 1 comes after the attacks. */
static int body_late(const struct hd_world *world, void *arg)
{
    if (world->rank == 1)
        wait_for_attacks();
    return body_join(world, arg);
}

static void receive(int fd, enum hd_wire_kind kind, struct hd_frame *frame)
{
    struct hd_frame_reader reader = {0};
    ck_assert_int_eq(hd_frame_reader_wait(&reader, fd, hd_clock_get_ns() + ANSWER_MS * 1000000LL),
                     HD_FRAME_COMPLETE);
    ck_assert_int_eq(reader.frame.kind, kind);
    *frame = reader.frame;
}

/* Whether the other end closes the connection without another word. */
static bool is_dropped(int fd)
{
    char byte;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return poll(&one, 1, ANSWER_MS) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

static size_t frame_size(const struct hd_frame *frame)
{
    return HD_WIRE_HEADER + frame->bytes + HD_WIRE_TAG;
}

/* Speaks the protocol perfectly, but for what it does not know. */
static void send_perfect_hello(int fd, const struct hd_hello *hello, const uint8_t key[HD_WIRE_KEY])
{
    struct hd_frame frame;
    uint8_t payload[HD_NONCE_BYTES + sizeof *hello];
    struct hd_wire_key own = {.count = 0};
    receive(fd, HD_WIRE_CHALLENGE, &frame);
    memcpy(own.key, key, sizeof own.key);
    hd_secret_draw(payload);
    memcpy(payload + HD_NONCE_BYTES, hello, sizeof *hello);
    ck_assert(hd_wire_send(fd, &own, HD_WIRE_HELLO, 0, payload, sizeof payload,
                           hd_clock_get_ns() + ANSWER_MS * 1000000LL));
}

TEST(perfect_speakers_without_the_secret_are_dropped)
{
    struct hd_world world = ranks_world(2);
    struct hd_hello hello = {
        .rank = 1, .world = 2, .pid = 17, .config_hash = 7, .fingerprint = "isa=avx2; omp=1"};
    uint8_t key[HD_WIRE_KEY], zeros[HD_SECRET_BYTES] = {0};
    pid_t pids[2];
    struct hd_frame challenge;
    int listen_fd = dup(world.rendezvous_fd);
    ranks_start(&world, pids, body_late, NULL);
    hd_host_get_boot_id(hello.boot_id);
    for (int attack = 0; attack < 4; attack++) {
        int fd = connect_to(world.master_port);
        hello.world = attack == 1 ? 3 : 2;
        hello.config_hash = attack == 2 ? 8 : 7;
        hd_handshake_make_key(zeros, "rendezvous", NULL, 0, key);
        if (attack < 3) {
            send_perfect_hello(fd, &hello, key);
        } else { /* the challenge sent back */
            receive(fd, HD_WIRE_CHALLENGE, &challenge);
            send(fd, &challenge, frame_size(&challenge), MSG_NOSIGNAL);
        }
        ck_assert_msg(is_dropped(fd), "attack %d", attack);
        close(fd);
    }
    atomic_store(&seen->attacked, 1);
    ck_assert_msg(ranks_wait(pids[0]) == 0, "rank 0: %s", seen->log[0]);
    ck_assert_msg(ranks_wait(pids[1]) == 0, "rank 1: %s", seen->log[1]);
    ASSERT_SAYS(0, "127.0.0.1 port ");
    ASSERT_SAYS(0, "secret");
    close(listen_fd);
}

/* Passes on what both ends say, and keeps rank 1's hello, which it sends again on a connection of
 * its own: the nonce is another. */
TEST(replayed_hello_is_dropped)
{
    struct hd_world world = ranks_world(3), front = ranks_world(2);
    char bytes[4096];
    pid_t pids[3];
    const int root_port = world.master_port;
    plan.sent_rank[2] = 2;
    for (int r = 0; r < 3; r++) { /* rank 1 meets this test in rank 0's place */
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        world.rank = world.local_rank = r;
        world.master_port = r == 1 ? front.master_port : root_port;
        if (r == 2)
            wait_for_attacks();
        _exit(body_join(&world, NULL));
    }
    int to_1 = accept(front.rendezvous_fd, NULL, NULL), to_0 = connect_to(root_port);
    struct hd_frame frame, hello;
    receive(to_0, HD_WIRE_CHALLENGE, &frame);
    send(to_1, &frame, frame_size(&frame), MSG_NOSIGNAL);
    receive(to_1, HD_WIRE_HELLO, &hello);
    int replay = connect_to(root_port);
    receive(replay, HD_WIRE_CHALLENGE, &frame);
    send(replay, &hello, frame_size(&hello), MSG_NOSIGNAL);
    ck_assert(is_dropped(replay));
    atomic_store(&seen->attacked, 1);
    send(to_0, &hello, frame_size(&hello), MSG_NOSIGNAL); /* the first one is still good */
    for (;;) {
        struct pollfd both[2] = {{.fd = to_0, .events = POLLIN}, {.fd = to_1, .events = POLLIN}};
        poll(both, 2, 5000);
        const int from = both[0].revents ? to_0 : to_1;
        const ssize_t n = recv(from, bytes, sizeof bytes, 0);
        if (n <= 0)
            break;
        send(from == to_0 ? to_1 : to_0, bytes, (size_t)n, MSG_NOSIGNAL);
    }
    close(to_0);
    close(to_1);
    for (int r = 0; r < 3; r++)
        ck_assert_msg(ranks_wait(pids[r]) == 0, "rank %d: %s", r, seen->log[r]);
    ASSERT_SAYS(0, "secret");
}

/* Frames between two ends, as somebody between them may change them. */
TEST(changed_frames_are_no_frames)
{
    enum { FRAMES = 3 };
    for (int change = 0; change < 6; change++) {
        struct hd_wire_key key = {.count = 0}, reading, other = {.count = 0};
        struct hd_frame_reader reader = {.keyed = true}, raw = {0};
        struct hd_frame frames[FRAMES];
        int pair[2], order[FRAMES] = {0, 1, 2};
        hd_secret_draw(key.key);
        hd_secret_draw(other.key);
        reading = key;
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        for (int i = 0; i < FRAMES; i++) {
            ck_assert(hd_wire_send(pair[0], &key, HD_WIRE_DATA, i, "data", 5,
                                   hd_clock_get_ns() + 1000000));
            ck_assert_int_eq(hd_frame_reader_read(&raw, pair[1]), HD_FRAME_COMPLETE);
            frames[i] = raw.frame;
        }
        reader.key = change == 5 ? other : reading; /* 5: another connection, or sent back */
        if (change == 1)                            /* replayed */
            order[1] = 0;
        else if (change == 2) /* left out */
            order[1] = 2;
        else if (change == 3) /* its number changed */
            frames[1].number ^= 1;
        else if (change == 4) /* its content changed */
            frames[1].payload[2] ^= 1;
        for (int i = 0; i < FRAMES; i++)
            send(pair[0], &frames[order[i]], frame_size(&frames[order[i]]), 0);
        const int good = change == 0 ? FRAMES : change == 5 ? 0 : 1;
        for (int i = 0; i < good; i++)
            ck_assert_int_eq(hd_frame_reader_read(&reader, pair[1]), HD_FRAME_COMPLETE);
        if (good < FRAMES)
            ck_assert_int_eq(hd_frame_reader_read(&reader, pair[1]), HD_FRAME_INVALID);
        close(pair[0]);
        close(pair[1]);
    }
}

TEST(other_users_are_dropped)
{
    enum { NOBODY = 65534 };
    if (geteuid() != 0)
        return;
    struct hd_world world = ranks_world(2);
    pid_t pids[2];
    int own_fd = connect_to(world.master_port);
    uint32_t uid = 1;
    int at_root = accept(world.rendezvous_fd, NULL, NULL);
    if (!hd_peer_get_uid(at_root, &uid))
        return; /* this kernel does not tell */
    ck_assert_uint_eq(uid, 0);
    ck_assert(!hd_peer_is_foreign(at_root));
    close(own_fd);
    close(at_root);
    int listen_fd = dup(world.rendezvous_fd);
    ranks_start(&world, pids, body_late, NULL);
    pid_t nobody = fork();
    if (nobody == 0) { /* knows the secret, and is dropped before it can say so */
        own_rank = 2;
        ck_assert_int_eq(setuid(NOBODY), 0);
        int fd = connect_to(world.master_port);
        _exit(is_dropped(fd) ? 0 : 1);
    }
    ck_assert_int_eq(ranks_wait(nobody), 0);
    atomic_store(&seen->attacked, 1);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(ranks_wait(pids[r]) == 0, "rank %d: %s", r, seen->log[r]);
    ASSERT_SAYS(0, "(user 65534): |another user");
    close(listen_fd);
}

/* Rank 0 has no descriptor left for the connections of others: it drops silent ones for rank 1, and
 * does not spin. */
enum { SILENT_MAX = 100 };

static int body_few_descriptors(const struct hd_world *world, void *arg)
{
    const int *fds = arg;
    if (world->rank != 0) {
        usleep(500000); /* in which rank 0 could spin */
        return body_join(world, NULL);
    }
    for (int i = 0; i < SILENT_MAX; i++)
        close(fds[i]);
    struct rlimit limit = {.rlim_cur = 24, .rlim_max = 24};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    const int64_t cpu_ns = get_cpu_ns();
    const int status = body_join(world, NULL);
    return status != 0 ? status : get_cpu_ns() - cpu_ns > 300000000 ? 1 : 0;
}

TEST(no_descriptors_left)
{
    struct hd_world world = ranks_world(2);
    pid_t pids[2];
    int fds[SILENT_MAX];
    for (int i = 0; i < SILENT_MAX; i++)
        fds[i] = connect_to(world.master_port);
    ranks_start(&world, pids, body_few_descriptors, fds);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(ranks_wait(pids[r]) == 0, "rank %d: %s", r, seen->log[r]);
    for (int i = 0; i < SILENT_MAX; i++)
        close(fds[i]);
}

TEST(two_thousand_silent_connections)
{
    enum { SILENT = 2000 };
    struct hd_world world = ranks_world(2);
    static int fds[SILENT];
    pid_t pids[2];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    const struct rlimit enough = {.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096,
                                  .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &enough);
    int n = 0;
    for (int r = 0; r < 2; r++)
        plan.options[r].timeout_ns = 60000000000; /* all of them are to be accepted before */
    ranks_start(&world, pids, body_late, NULL);
    for (; n < SILENT && n + 50 < (int)enough.rlim_cur; n++)
        fds[n] = connect_to(world.master_port);
    atomic_store(&seen->attacked, 1);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(ranks_wait(pids[r]) == 0, "rank %d: %s", r, seen->log[r]);
    while (n > 0)
        close(fds[--n]);
}
