/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the launcher: exit codes, one message that names the cause, environment, restarts. Ranks
 * are shell scripts, or this program where the rendezvous takes part. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/runtime/launch/launch_fixture.h"

/* -- Ends -------------------------------------------------------------------------------------- */

TEST(all_is_well)
{
    options.nproc_per_node = 3;
    ASSERT_CODE(launch("exit 0"), 0);
    ck_assert_int_eq(count("error"), 0);
    options.nproc_per_node = 1;
    ASSERT_CODE(launch("exit 0"), 0);
    ASSERT_CODE(launch("exit 4"), 4);
    ASSERT_SAYS("failed with exit code 4\n");
}

TEST(stopped_ranks_are_no_failure)
{
    ASSERT_CODE(launch("exit 75"), 75);
    ASSERT_CODE(launch("exit $((75 * RANK))"), 75);
    ck_assert_int_eq(count("error"), 0);
}

/* One rank was asked to stop while it started: the others wait for it, or have lost it. */
TEST(a_signal_to_one_rank_stops_all)
{
    static const char *const scripts[] = {
        "[ $RANK = 1 ] && exit 75; trap 'exit 75' TERM; sleep 30 & wait",
        "[ $RANK = 1 ] && exit 75; sleep 0.2; exit 76",
        "[ $RANK = 0 ] && exit 76; sleep 0.2; exit 75",
        "[ $RANK = 1 ] && exit 75; exec sleep 30", /* which has not caught SIGTERM yet */
    };
    options.max_restarts = 1;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        ASSERT_CODE(launch(scripts[i]), 75);
        ck_assert_int_lt(took_ms, PATIENCE * 1500);
        ck_assert_msg(count("error") == 0 && count("restart") == 0, "%s", output);
    }
    options.max_restarts = 0;
    ASSERT_CODE(launch("[ $RANK = 0 ] && exit 3; sleep 0.1; exit 75"), 3);
}

TEST(a_failure_stops_the_others)
{
    ASSERT_CODE(launch("echo $$ >pid.$RANK; [ $RANK = 1 ] && exit 5; exec sleep 300"), 5);
    char pid[32], text[128];
    read_file("pid.1", pid, sizeof pid);
    snprintf(text, sizeof text, "rank 1 (pid %d) failed with exit code 5; stopping the others\n",
             atoi(pid));
    ASSERT_SAYS(text);
    ck_assert_int_eq(count("error"), 1);
    ck_assert_int_lt(took_ms, PATIENCE * 1400);
    assert_nobody_left(2);
}

TEST(a_killed_rank_is_named)
{
    ASSERT_CODE(launch("[ $RANK = 0 ] && kill -9 $$; exec sleep 300"), 1);
    ASSERT_SAYS("rank 0 (pid ");
    ASSERT_SAYS("was killed by signal 9 (Killed); stopping the others\n");
    ck_assert_int_eq(count("error"), 1);
    ck_assert_int_lt(took_ms, PATIENCE * 1000);
}

/* A rank that lost a peer is not the cause; a killed one is a more likely cause than one that
 * failed. */
TEST(the_cause_is_named)
{
    options.nproc_per_node = 3;
    ASSERT_CODE(launch("case $RANK in 0) exit 76;; 1) sleep 0.1; exit 3;; 2) exit 76;; esac"), 3);
    ASSERT_SAYS("rank 1 (pid ");
    ASSERT_SAYS("failed with exit code 3");
    ASSERT_CODE(launch("case $RANK in 0) exit 1;; 1) exit 76;; 2) sleep 0.1; kill -11 $$;; esac"),
                1);
    ASSERT_SAYS("rank 2 (pid ");
    ASSERT_SAYS("killed by signal 11 (Segmentation fault)");
    ck_assert_int_eq(count("error"), 1);
    ASSERT_CODE(launch("[ $RANK = 1 ] || exit 76; sleep 0.8; exit 3"), 3); /* a slow end */
    ASSERT_SAYS("rank 1 (pid ");
    ASSERT_SAYS("failed with exit code 3");
    ck_assert_int_eq(count("error"), 1);
    ASSERT_CODE(launch("exit 76"), 1);
    ASSERT_SAYS("lost a rank that this launcher does not run");
}

TEST(who_does_not_stop_is_killed)
{
    ASSERT_CODE(launch("echo $$ >pid.$RANK; [ $RANK = 1 ] && exit 1; trap '' TERM INT;"
                       "while :; do sleep 0.05; done"),
                1);
    ASSERT_SAYS("killing 1 rank that did not stop");
    ck_assert_int_ge(took_ms, 1500);
    ck_assert_int_lt(took_ms, PATIENCE * 3000);
    assert_nobody_left(2);
}

TEST(a_program_that_is_not_there)
{
    options.program = "/no/such/program";
    ASSERT_CODE(launch("exit 0"), 127);
    ASSERT_SAYS("failed with exit code 127");
}

/* -- Environment and options ------------------------------------------------------------------- */

#define SHOW                                                                                       \
    "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $NODE_RANK $MASTER_ADDR "    \
    "$HD_SUPERVISED $OMP_NUM_THREADS ${HD_RENDEZVOUS_FD:-none} >env.$LOCAL_RANK;"                  \
    "echo $MASTER_PORT >port.$LOCAL_RANK"

TEST(torchruns_variables)
{
    char text[256], port[2][16];
    int a, b;
    setenv("HD_RENDEZVOUS_FD", "99", 1); /* a launcher inside a rank of another one */
    ASSERT_CODE(launch(SHOW), 0);
    read_file("env.0", text, sizeof text);
    ck_assert_int_eq(sscanf(text, "0 2 0 2 0 0 127.0.0.1 1 1 %d", &a), 1);
    ck_assert_int_ge(a, 3);
    read_file("env.1", text, sizeof text);
    ck_assert_str_eq(text, "1 2 1 2 0 0 127.0.0.1 1 1 none\n");
    read_file("port.0", port[0], 16);
    read_file("port.1", port[1], 16);
    ck_assert_str_eq(port[0], port[1]);
    ck_assert_int_gt(atoi(port[0]), 0);
    options.nnodes = 3;
    options.node_rank = 2;
    options.master_addr = "node0.example.org";
    ASSERT_CODE(launch(SHOW), 0);
    read_file("env.1", text, sizeof text);
    ck_assert_str_eq(text, "5 6 1 2 2 2 node0.example.org 1 1 none\n");
    read_file("port.1", port[1], 16);
    ck_assert_int_eq(atoi(port[1]), HD_PORT_DEFAULT);
    options.nnodes = 1;
    options.node_rank = 0;
    options.standalone = true;
    options.master_port = 1;
    ASSERT_CODE(launch(SHOW), 0);
    read_file("port.1", port[1], 16);
    b = atoi(port[1]);
    ck_assert(b > 1);
}

TEST(only_rank_0_holds_the_port)
{
    ASSERT_CODE(launch("ls -l /proc/self/fd >fds.$RANK"), 0);
    char text[4096];
    read_file("fds.0", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "socket:"));
    read_file("fds.1", text, sizeof text);
    ck_assert_ptr_null(strstr(text, "socket:"));
}

TEST(taken_port)
{
    int fd, port;
    char text[64];
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", 0, true, &fd, &port), HD_OK);
    options.master_port = port;
    ASSERT_CODE(launch("touch started"), 1);
    snprintf(text, sizeof text, "port %d on this host is taken", port);
    ASSERT_SAYS(text);
    ck_assert(!exists("started"));
    close(fd);
    ASSERT_CODE(launch("touch started"), 0);
}

TEST(bad_options)
{
    const struct hd_launch_options good = options;
    struct {
        struct hd_launch_options options;
        const char *part;
    } cases[] = {
        {good, "--nproc-per-node 0"}, {good, "--nproc-per-node 5000"},
        {good, "--nnodes 0"},         {good, "--node-rank 1: expected a number from 0 to 0"},
        {good, "--node-rank -1"},     {good, "--master-port 65536"},
        {good, "--max-restarts -1"},  {good, "--standalone is for one node"},
        {good, "needs --master-addr"}};
    cases[0].options.nproc_per_node = 0;
    cases[1].options.nproc_per_node = 5000;
    cases[2].options.nnodes = 0;
    cases[3].options.node_rank = 1;
    cases[4].options.node_rank = -1;
    cases[5].options.master_port = 65536;
    cases[6].options.max_restarts = -1;
    cases[7].options.standalone = true;
    cases[7].options.nnodes = 2;
    cases[8].options.nnodes = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options = cases[i].options;
        ASSERT_CODE(launch("touch started"), 2);
        ASSERT_SAYS(cases[i].part);
    }
    ck_assert(!exists("started"));
}

/* -- Restarts ---------------------------------------------------------------------------------- */

TEST(restarts)
{
    options.max_restarts = 2;
    ASSERT_CODE(launch("echo x >>runs.$RANK; [ $RANK = 0 ] && exec sleep 1; "
                       "[ $(wc -l <runs.1) = 3 ]"),
                0);
    ASSERT_SAYS("restart 1 of 2 in 0.5 s: all ranks begin again from the start");
    ASSERT_SAYS("restart 2 of 2 in 1.0 s");
    options.max_restarts = 1;
    ASSERT_CODE(launch("exit 9"), 9);
    ck_assert_int_eq(count("failed with exit code 9"), 2);
    ASSERT_CODE(launch("exit 2"), 2); /* bad input stays bad */
    ck_assert_int_eq(count("restart"), 0);
    ASSERT_CODE(launch("exit 75"), 75);
    ck_assert_int_eq(count("restart"), 0);
}

static char *const *go_on(void *arg, const char *dir, bool *from_checkpoint_p)
{
    static char *again[] = {"sh", "-c", "echo again >>runs.$RANK", NULL};
    *from_checkpoint_p = strcmp(dir, arg) == 0;
    return again;
}

TEST(a_restart_may_go_on)
{
    options.max_restarts = 3;
    options.get_arguments = go_on;
    options.arg = "the/run";
    ASSERT_CODE(launch("echo first >>runs.$RANK; "
                       "[ $RANK = 0 ] && printf 'the/run\\0' >&$HD_DIR_FD; exit 9"),
                0);
    ASSERT_SAYS("restart 1 of 3 in 0.5 s: all ranks begin again from the newest good checkpoint");
    char text[64];
    read_file("runs.1", text, sizeof text);
    ck_assert_str_eq(text, "first\nagain\n");
}

TEST(who_fails_twice_is_left_out)
{
    options.nproc_per_node = 4;
    options.shards = 4;
    options.max_restarts = 5;
    ASSERT_CODE(launch("echo $WORLD_SIZE >>sizes.$RANK; [ $RANK = 3 ] && exit 9; "
                       "[ $WORLD_SIZE = 4 ] && exec sleep 1; exit 0"),
                0);
    ASSERT_SAYS("rank 3 failed twice in a row: continuing with 2 ranks");
    char text[64];
    read_file("sizes.0", text, sizeof text);
    ck_assert_str_eq(text, "4\n4\n2\n");
}

/* -- With the rendezvous ----------------------------------------------------------------------- */

static void leave(void *arg, int rank, int status, const char *text)
{
    (void)status;
    (void)arg;
    (void)rank;
    (void)text;
    _exit(HD_EXIT_PEER);
}

/* Runs as a rank: meets the others, then acts as `part` says. */
static int rank_main(const char *part)
{
    struct hd_world world;
    struct hd_rendezvous *rendezvous;
    if (hd_world_read(&world) != HD_OK)
        return 90;
    hd_log_set_rank(world.rank, world.world);
    bool other = strcmp(part, "other config") == 0 && world.rank == 2;
    struct hd_rendezvous_options with = {
        .world = &world, .fingerprint = "f", .one_host = true, .config_hash = other};
    int status = hd_rendezvous_create(&with, &rendezvous);
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    if (hd_rendezvous_watch(rendezvous,
                            &(struct hd_rendezvous_watch_options){
                                .on_lost = leave, .heartbeat_timeout_s = 1.5}) != HD_OK ||
        !world.supervised)
        return 91;
    usleep(20000);
    if (strcmp(part, "die") == 0 && world.rank == 1)
        raise(SIGKILL);
    if (strcmp(part, "freeze") == 0 && world.rank == 1)
        raise(SIGSTOP);
    if (strcmp(part, "fail") == 0 && world.rank == 1) {
        hd_rendezvous_fail(rendezvous, HD_ERR_SYSTEM, "disk full");
        hd_rendezvous_destroy(rendezvous);
        return hd_status_get_exit_code(hd_fail(HD_ERR_SYSTEM, "disk full"));
    }
    if (strcmp(part, "meet") != 0)
        sleep(30);
    hd_rendezvous_destroy(rendezvous);
    return 0;
}

/* glibc passes main's arguments to constructors. */
__attribute__((constructor)) static void act_as_rank(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "rank") == 0)
        exit(rank_main(argv[2]));
}

TEST(ranks_of_ours)
{
    options.program = self;
    options.nproc_per_node = 3;
    ASSERT_CODE(launch("meet"), 0);
    ck_assert_int_eq(count("error"), 0);
    ASSERT_CODE(launch("die"), 1);
    ASSERT_SAYS("error: rank 1 (pid ");
    ASSERT_SAYS("was killed by signal 9 (Killed)");
    ck_assert_int_eq(count("error"), 1);
    ck_assert_int_lt(took_ms, PATIENCE * 1000);
    ASSERT_CODE(launch("fail"), 1);
    ASSERT_SAYS("[rank 1] error: disk full");
    ASSERT_SAYS("error: rank 1 (pid ");
    ck_assert_int_eq(count("error"), 2);
    ASSERT_CODE(launch("freeze"), 1);
    ASSERT_SAYS("rank 1 has not answered for 1.");
    ASSERT_SAYS("error: rank 1 (pid ");
    ASSERT_SAYS(") does not exit, but others lost it; stopping all");
    ck_assert_int_lt(took_ms, PATIENCE * 8000);
    ASSERT_CODE(launch("other config"), 2);
    ASSERT_SAYS("the configuration of rank 2 is not that of rank 0");
}

TEST(ranks_of_ours_at_a_given_port)
{
    int fd;
    options.program = self;
    options.master_addr = "localhost";
    ck_assert_int_eq(hd_rendezvous_listen("127.0.0.1", 0, true, &fd, &options.master_port), HD_OK);
    close(fd);
    ASSERT_CODE(launch("meet"), 0);
    ASSERT_CODE(launch("meet"), 0); /* and again at once */
}
