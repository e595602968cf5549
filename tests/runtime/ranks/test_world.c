/* SPDX-License-Identifier: Apache-2.0 */
/* Tests all meaningful combinations of the variables of torchrun, mpirun and srun, and the messages
 * for those without a meaning. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/world.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last[1024];

static void keep_log(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    snprintf(last, sizeof last, "%s", line);
}

static void setup(void)
{
    hd_log_set_sink(keep_log, NULL);
    static const char *const names[] = {
        "RANK",        "WORLD_SIZE",       "LOCAL_RANK",    "LOCAL_WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "HD_RENDEZVOUS_FD", "HD_SUPERVISED", "GROUP_RANK"};
    static const char *const launchers[] = {"OMPI_COMM_WORLD_RANK",
                                            "OMPI_COMM_WORLD_SIZE",
                                            "OMPI_COMM_WORLD_LOCAL_RANK",
                                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                                            "SLURM_PROCID",
                                            "SLURM_NTASKS",
                                            "SLURM_LOCALID",
                                            "SLURM_NODEID",
                                            "SLURM_STEP_TASKS_PER_NODE",
                                            "SLURM_TASKS_PER_NODE",
                                            "SLURM_STEP_NODELIST",
                                            "SLURM_JOB_NODELIST",
                                            "SLURM_STEP_ID",
                                            "SLURM_JOB_ID",
                                            "TORCHELASTIC_USE_AGENT_STORE",
                                            "TORCHELASTIC_RUN_ID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        unsetenv(launchers[i]);
}

/* Reads the world from an environment: "RANK=1 WORLD_SIZE=2 …". */
static int read_world(const char *settings, struct hd_world *world)
{
    char text[2048], *rest = text;
    snprintf(text, sizeof text, "%s", settings);
    setup();
    for (char *one = strtok_r(rest, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(one, '=');
        *value = '\0';
        setenv(one, value + 1, 1);
    }
    return hd_world_read(world);
}

#define RENDEZVOUS " MASTER_ADDR=10.0.0.1 MASTER_PORT=29500"

FIXTURE(setup, NULL)

TEST(one_rank)
{
    struct hd_world world;
    ck_assert_int_eq(read_world("", &world), HD_OK);
    ck_assert(world.rank == 0 && world.world == 1 && world.local_world == 1);
    ck_assert_int_eq(world.rendezvous_fd, -1);
    ck_assert(!world.supervised);
    ck_assert_int_eq(read_world("RANK=0 WORLD_SIZE=1", &world), HD_OK);
    ck_assert_int_eq(read_world("MASTER_ADDR=x MASTER_PORT=1", &world), HD_OK);
    ck_assert_int_eq(world.world, 1);
}

TEST(several_ranks)
{
    struct hd_world world;
    ck_assert_int_eq(
        read_world("RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 HD_SUPERVISED=1"
                   " HD_RENDEZVOUS_FD=7" RENDEZVOUS,
                   &world),
        HD_OK);
    ck_assert(world.rank == 3 && world.world == 4 && world.local_rank == 1);
    ck_assert(world.local_world == 2 && world.master_port == 29500 && world.supervised);
    ck_assert_str_eq(world.master_addr, "10.0.0.1");
    ck_assert_int_eq(world.rendezvous_fd, -1); /* rank 0's alone */
    ck_assert_int_eq(read_world("RANK=0 WORLD_SIZE=4 HD_RENDEZVOUS_FD=7" RENDEZVOUS, &world),
                     HD_OK);
    ck_assert(world.rendezvous_fd == 7 && world.local_rank == 0 && world.local_world == 1);
    ck_assert_int_eq(read_world("RANK=2 WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=1", &world),
                     HD_OK);
    ck_assert(world.local_rank == 2 && world.local_world == 4);
}

TEST(addresses_may_have_brackets)
{
    struct hd_world world;
    ck_assert_int_eq(
        read_world("RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=[fd88::1%eth0]", &world), HD_OK);
    ck_assert_str_eq(world.master_addr, "fd88::1%eth0");
    ck_assert_int_eq(world.local_world, 1);
    ck_assert_int_eq(read_world("RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=[::1]", &world),
                     HD_OK);
    ck_assert_str_eq(world.master_addr, "::1");
    ck_assert_int_eq(world.local_world, 2); /* loopback */
}

#define WORKER "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2" RENDEZVOUS

TEST(stores_of_torchrun)
{
    struct hd_world world;
    ck_assert_int_eq(read_world(WORKER, &world), HD_OK);
    ck_assert_str_eq(world.store_key, "");
    ck_assert_int_eq(read_world(WORKER " TORCHELASTIC_USE_AGENT_STORE=False", &world), HD_OK);
    ck_assert_str_eq(world.store_key, "");
    ck_assert_int_eq(
        read_world(WORKER " TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=job", &world),
        HD_OK);
    ck_assert_str_eq(world.store_key, "heddle/job");
    ck_assert_int_eq(
        read_world(WORKER " TORCHELASTIC_USE_AGENT_STORE=True HD_SUPERVISED=1", &world), HD_OK);
    ck_assert_str_eq(world.store_key, ""); /* its launcher listens itself */
}

TEST(mistakes_are_named)
{
    static const char *const cases[][2] = {
        {"RANK=0", "WORLD_SIZE is"},
        {"WORLD_SIZE=2" RENDEZVOUS, "RANK is"},
        {"LOCAL_RANK=0", "RANK is"},
        {"RANK=0 WORLD_SIZE=2", "MASTER_ADDR is"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=x", "MASTER_PORT is"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0" RENDEZVOUS, "LOCAL_WORLD_SIZE is"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2" RENDEZVOUS, "LOCAL_RANK is"},
        {"RANK=2 WORLD_SIZE=2" RENDEZVOUS, "RANK=2|0 to 1"},
        {"RANK=-1 WORLD_SIZE=2" RENDEZVOUS, "RANK=-1"},
        {"RANK=x WORLD_SIZE=2" RENDEZVOUS, "RANK=x"},
        {"RANK=1x WORLD_SIZE=2" RENDEZVOUS, "RANK=1x"},
        {"RANK=0 WORLD_SIZE=0", "WORLD_SIZE=0"},
        {"RANK=0 WORLD_SIZE=99999999999999999999" RENDEZVOUS, "WORLD_SIZE=9999"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=x MASTER_PORT=0", "MASTER_PORT=0"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=x MASTER_PORT=65536", "MASTER_PORT=65536"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2" RENDEZVOUS, "LOCAL_RANK=2"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3" RENDEZVOUS, "LOCAL_WORLD_SIZE=3"},
        {"RANK=0 WORLD_SIZE=2 HD_RENDEZVOUS_FD=a" RENDEZVOUS, "HD_RENDEZVOUS_FD=a"},
        {"RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=0.0.0.0", "MASTER_ADDR is '0.0.0.0'"},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=0", "MASTER_ADDR is '0'"},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=[::]", "MASTER_ADDR is '[::]'"},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=::ffff:0.0.0.0", "::ffff:0.0.0.0"},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=[::1]:29500", "[::1]:29500|name or"},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=[]", "MASTER_ADDR is '[]'"},
        {"RANK=1 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=[", "MASTER_ADDR is '['"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hd_world world = {.rank = 77};
        ck_assert_msg(read_world(cases[i][0], &world) == HD_ERR_INPUT, "%s", cases[i][0]);
        check_names(last, cases[i][1]);
        ck_assert_int_eq(world.rank, 77);
    }
    char long_name[700];
    memset(long_name, 'x', sizeof long_name);
    memcpy(long_name, "RANK=0 WORLD_SIZE=2 MASTER_PORT=1 MASTER_ADDR=", 46);
    long_name[sizeof long_name - 1] = '\0';
    struct hd_world world;
    ck_assert_int_eq(read_world(long_name, &world), HD_ERR_INPUT);
}

#define MPIRUN                                                                                     \
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2"
#define SRUN                                                                                       \
    " SLURM_PROCID=5 SLURM_NTASKS=7 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_JOB_ID=77 "               \
    "SLURM_STEP_TASKS_PER_NODE=4,2,1 SLURM_STEP_NODELIST=gpu[07-08,11] SLURM_STEP_ID=0"

/* MPI will tell rank 0's address. */
TEST(ranks_of_mpirun)
{
    struct hd_world world;
    ck_assert_int_eq(read_world(MPIRUN, &world), HD_OK);
    ck_assert(world.launcher == HD_LAUNCHER_MPIRUN && world.rank == 3 && world.world == 4);
    ck_assert(world.local_rank == 1 && world.local_world == 2);
    ck_assert(world.master_port == 0 && world.master_addr[0] == '\0');
    ck_assert_int_eq(read_world(MPIRUN " MASTER_ADDR=10.0.0.9", &world), HD_OK);
    ck_assert_str_eq(world.master_addr, "10.0.0.9");
    /* RANK overrides the others, and srun may have started mpirun. */
    ck_assert_int_eq(read_world(MPIRUN " RANK=0 WORLD_SIZE=1", &world), HD_OK);
    ck_assert(world.launcher == HD_LAUNCHER_ENV && world.world == 1);
    ck_assert_int_eq(read_world(MPIRUN SRUN, &world), HD_OK);
    ck_assert(world.launcher == HD_LAUNCHER_MPIRUN && world.rank == 3);
    ck_assert_int_eq(read_world("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2", &world),
                     HD_ERR_INPUT);
    ck_assert(strstr(last, "OMPI_COMM_WORLD_LOCAL_SIZE is"));
}

TEST(ranks_of_srun)
{
    struct hd_world world, other;
    ck_assert_int_eq(read_world(SRUN, &world), HD_OK);
    ck_assert(world.launcher == HD_LAUNCHER_SRUN && world.rank == 5 && world.world == 7);
    ck_assert(world.local_rank == 1 && world.local_world == 2);
    ck_assert_str_eq(world.master_addr, "gpu07");
    ck_assert(world.master_port >= 20000 && world.master_port < 32000);
    ck_assert_int_eq(read_world(SRUN " SLURM_JOB_ID=78", &other), HD_OK);
    ck_assert_int_ne(world.master_port, other.master_port);
    ck_assert_int_eq(read_world(SRUN " MASTER_ADDR=head MASTER_PORT=1234", &world), HD_OK);
    ck_assert(strcmp(world.master_addr, "head") == 0 && world.master_port == 1234);
    /* The script of sbatch is no task, although it has a task's variables. */
    ck_assert_int_eq(read_world(SRUN " SLURM_STEP_ID=4294967291", &world), HD_OK);
    ck_assert(world.launcher == HD_LAUNCHER_ENV && world.world == 1);
    ck_assert_int_eq(read_world(SRUN " SLURM_LOCALID=2", &world), HD_ERR_INPUT);
    ck_assert_int_eq(read_world(SRUN " SLURM_STEP_TASKS_PER_NODE=7", &world), HD_ERR_INPUT);
    ck_assert(strstr(last, "node 1"));
    ck_assert_int_eq(read_world(SRUN " SLURM_STEP_TASKS_PER_NODE=3(x2),1", &world), HD_OK);
    ck_assert_int_eq(world.local_world, 3);
}

TEST(first_nodes_of_lists)
{
    static const char *const cases[][2] = {
        {"node7", "node7"},       {"a,b", "a"},
        {"n[3-5],m", "n3"},       {"n[003,009-012]", "n003"},
        {"r[1-2]c[4-7]", "r1c4"}, {"n[01-02].cluster", "n01.cluster"},
    };
    struct hd_world world;
    char address[HD_ADDR_BYTES], settings[1024];
    int node = -1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(settings, sizeof settings, "%s SLURM_STEP_NODELIST=%s", SRUN, cases[i][0]);
        ck_assert_int_eq(read_world(settings, &world), HD_OK);
        ck_assert_str_eq(world.master_addr, cases[i][1]);
        ck_assert(hd_world_read_slurm_node(&node, address) && node == 1);
        ck_assert_str_eq(address, cases[i][1]);
    }
    setup();
    ck_assert(!hd_world_read_slurm_node(&node, address));
}
