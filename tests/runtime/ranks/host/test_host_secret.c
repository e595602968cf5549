/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one host share a secret that rank 0 draws. Nobody else can read it, or be taken for rank
 * 0: not another user, nor what an earlier run has left. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/host/host_secret.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static char last[2048], tmp[64], folder[128];
static struct hd_world worlds[2];

static void keep_log(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    snprintf(last, sizeof last, "%s", line);
}

static void setup(void)
{
    hd_log_set_sink(keep_log, NULL);
    strcpy(tmp, "/tmp/heddle-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(tmp));
    chmod(tmp, 0755);
    setenv("TMPDIR", tmp, 1);
    setenv("HD_RENDEZVOUS_TIMEOUT_S", "1", 1);
    snprintf(folder, sizeof folder, "%s/heddle-%u", tmp, (unsigned)geteuid());
    for (int r = 0; r < 2; r++)
        worlds[r] = (struct hd_world){
            .rank = r, .world = 2, .local_rank = r, .local_world = 2, .master_port = 29500};
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", tmp);
    ck_assert_int_eq(system(command), 0);
}

FIXTURE(setup, teardown)

static int share(int rank, struct hd_host_secret *shared)
{
    worlds[rank].has_secret = false;
    return hd_host_secret_share(&worlds[rank], shared);
}

static void check_equal(void)
{
    ck_assert(worlds[0].has_secret && worlds[1].has_secret);
    ck_assert_mem_eq(worlds[0].secret, worlds[1].secret, HD_SECRET_BYTES);
}

/* Returns how many files are in the folder, and stores the path of one. */
static int list(char path_p[512])
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            snprintf(path_p, 512, "%s/%s", folder, entry->d_name);
            n++;
        }
    closedir(dir);
    return n;
}

TEST(rank_0_shares_its_secret)
{
    struct hd_host_secret shared[2];
    struct stat info;
    char path[512];
    ck_assert_int_eq(share(0, &shared[0]), HD_OK);
    ck_assert_int_eq(list(path), 1);
    ck_assert(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
    ck_assert(stat(folder, &info) == 0 && (info.st_mode & 0777) == 0700);
    ck_assert_int_eq(share(1, &shared[1]), HD_OK);
    check_equal();
    hd_host_secret_remove(&shared[1]);
    ck_assert_int_eq(list(path), 1);
    hd_host_secret_remove(&shared[0]);
    ck_assert_int_eq(list(path), 0);
}

/* Also for a rank 0 whose predecessor was killed and has left its file. */
TEST(others_wait_for_rank_0)
{
    struct hd_host_secret shared;
    char path[512];
    fflush(NULL);
    for (int round = 0; round < 2; round++) {
        const pid_t pid = fork();
        if (pid == 0) {
            usleep(100000 * (unsigned)round);
            share(0, &shared);
            usleep(300000);
            _exit(0);
        }
        ck_assert_int_eq(share(1, &shared), HD_OK);
        ck_assert_int_eq(ranks_wait(pid), 0);
        ck_assert_int_eq(list(path), 1);
    }
    ck_assert_int_eq(share(1, &shared), HD_ERR_SYSTEM);
    check_names(last, "rank 1 has found no secret of rank 0 in|within 1 s|HEDDLE_SECRET");
    ck_assert_int_eq(share(0, &shared), HD_OK);
    ck_assert_int_eq(share(1, &shared), HD_OK);
    check_equal();
}

TEST(runs_do_not_mix)
{
    struct hd_host_secret shared[2], other;
    ck_assert_int_eq(share(0, &shared[0]), HD_OK);
    const struct hd_world first = worlds[0];
    ck_assert_int_eq(share(0, &other), HD_ERR_SYSTEM);
    check_names(last, "rank 0 of another run|29500|MASTER_PORT");
    worlds[0] = first;
    worlds[1].master_port = 29501;
    ck_assert_int_eq(share(1, &shared[1]), HD_ERR_SYSTEM);
    worlds[1].master_port = 29500;
    strcpy(worlds[1].store_key, "heddle/other");
    ck_assert_int_eq(share(1, &shared[1]), HD_ERR_SYSTEM);
    worlds[1].store_key[0] = '\0';
    ck_assert_int_eq(share(1, &shared[1]), HD_OK);
    check_equal();
}

/* Another user joins with the name and the folder that the run's ranks have. */
static int be_another_user(void)
{
    struct hd_host_secret shared;
    char path[512];
    struct stat info;
    ck_assert_int_eq(list(path), 1);
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    if (open(path, O_RDONLY) >= 0 || stat(path, &info) == 0 || unlink(path) == 0)
        return 2;
    return share(1, &shared) == HD_OK ? 3 : 0;
}

TEST(another_user_reads_nothing)
{
    struct hd_host_secret shared;
    if (geteuid() != 0) {
        test_leave_out("only root can be two users");
        return;
    }
    ck_assert_int_eq(share(0, &shared), HD_OK);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(be_another_user());
    ck_assert_int_eq(ranks_wait(pid), 0);
}

/* What others have made in advance: the folder, a link in its place, an open one, a file. */
TEST(what_others_made_is_refused, .runs = 4)
{
    struct hd_host_secret shared;
    char other[128];
    snprintf(other, sizeof other, "%s/other", tmp);
    ck_assert_int_eq(mkdir(_i == 1 ? other : folder, _i == 2 ? 0777 : 0700), 0);
    if (_i == 0 && geteuid() != 0)
        return;
    if (_i == 0)
        ck_assert_int_eq(chown(folder, 65534, 65534), 0);
    if (_i == 1)
        ck_assert_int_eq(symlink(other, folder), 0);
    if (_i == 2)
        ck_assert_int_eq(chmod(folder, 0777), 0);
    if (_i == 3)
        ck_assert(rmdir(folder) == 0 && close(creat(folder, 0600)) == 0);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(share(r, &shared), HD_ERR_INPUT);
        check_names(last, "is not a directory of this user|TMPDIR");
        ck_assert_ptr_nonnull(strstr(last, folder));
    }
}

/* A file that is open to others is none of rank 0. */
TEST(an_open_file_is_not_read)
{
    struct hd_host_secret shared[2];
    char path[512];
    ck_assert_int_eq(share(0, &shared[0]), HD_OK);
    ck_assert_int_eq(list(path), 1);
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_int_eq(share(1, &shared[1]), HD_ERR_SYSTEM);
}
