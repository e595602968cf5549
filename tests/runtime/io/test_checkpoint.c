/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint reads back what was added; damage is found and named; a failure leaves the earlier
 * checkpoints as they are. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { LARGE = 5 * 65536 + 1000 };

static char folder[] = "/tmp/heddle-checkpoint-XXXXXX";
static unsigned char large[LARGE];

static void setup(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int i = 0; i < LARGE; i++)
        large[i] = (unsigned char)(i * 7 + i / 251);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static struct hd_checkpoint_writer *create(int rank, int ranks, int64_t from)
{
    struct hd_checkpoint_writer *checkpoints;
    ck_assert_int_eq(hd_checkpoint_writer_create(folder, rank, ranks, 2, from, &checkpoints),
                     HD_OK);
    return checkpoints;
}

static void add_text(struct hd_checkpoint_writer *checkpoints, const char *name, const char *text)
{
    ck_assert_int_eq(
        hd_checkpoint_writer_add(checkpoints, name, strdup(text), (int64_t)strlen(text)), HD_OK);
}

/* Writes a checkpoint with a text that names it and the large value. */
static bool write_one(struct hd_checkpoint_writer *checkpoints, int64_t iteration)
{
    char text[32];
    snprintf(text, sizeof text, "of %lld", (long long)iteration);
    ck_assert_int_eq(hd_checkpoint_writer_begin(checkpoints, iteration), HD_OK);
    add_text(checkpoints, "text", text);
    ck_assert_int_eq(hd_checkpoint_writer_add_journal(checkpoints, "large", large, LARGE), HD_OK);
    hd_checkpoint_writer_submit(checkpoints, json_pack("{s:I}", "at", (json_int_t)iteration));
    return hd_checkpoint_writer_wait(checkpoints);
}

static void assert_newest(int64_t iteration)
{
    struct hd_checkpoint *checkpoint;
    void *data;
    int64_t bytes;
    char text[32];
    snprintf(text, sizeof text, "of %lld", (long long)iteration);
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_OK);
    ck_assert_ptr_nonnull(checkpoint);
    ck_assert_int_eq(hd_checkpoint_get_iteration(checkpoint), iteration);
    ck_assert_int_eq(
        json_integer_value(json_object_get(hd_checkpoint_get_metadata(checkpoint), "at")),
        iteration);
    ck_assert_int_eq(hd_checkpoint_read(checkpoint, "text", &data, &bytes), HD_OK);
    ck_assert_int_eq(bytes, (int64_t)strlen(text));
    ck_assert_mem_eq(data, text, strlen(text));
    hd_free(data);
    hd_checkpoint_close(checkpoint);
}

static void assert_large(void)
{
    struct hd_checkpoint *checkpoint;
    void *data;
    int64_t bytes;
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_OK);
    ck_assert_int_eq(hd_checkpoint_read(checkpoint, "large", &data, &bytes), HD_OK);
    ck_assert_int_eq(bytes, LARGE);
    ck_assert_mem_eq(data, large, LARGE);
    hd_free(data);
    hd_checkpoint_close(checkpoint);
}

static char *path_of(const char *below)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/ckpt/state/%s", folder, below);
    return path;
}

static int64_t size_of(const char *below)
{
    struct stat about;
    return stat(path_of(below), &about) == 0 ? about.st_size : -1;
}

START_TEST(none_at_all)
{
    struct hd_checkpoint *checkpoint;
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_OK);
    ck_assert_ptr_null(checkpoint);
}
END_TEST

/* Later checkpoints hold the blocks that changed; the newest two are kept, with what they need. */
START_TEST(journals)
{
    struct hd_checkpoint_writer *checkpoints = create(0, 1, -1);
    ck_assert(write_one(checkpoints, 10));
    ck_assert_int_eq(size_of("journal/large.10"), LARGE);
    large[65536] ^= 1;
    large[LARGE - 1] ^= 1;
    ck_assert(write_one(checkpoints, 20));
    ck_assert_int_eq(size_of("journal/large.20"), 65536 + 1000);
    assert_newest(20);
    assert_large();
    ck_assert(write_one(checkpoints, 30)); /* nothing new */
    ck_assert_int_eq(size_of("journal/large.30"), -1);
    assert_newest(30);
    assert_large();
    ck_assert_int_eq(size_of("iteration_10/text"), -1);
    ck_assert_int_eq(size_of("latest/text"), 5);
    memset(large, 3, LARGE);
    ck_assert(write_one(checkpoints, 40));
    ck_assert_int_gt(size_of("journal/large.10"), 0); /* iteration 30 needs it */
    ck_assert(write_one(checkpoints, 50));
    ck_assert_int_eq(size_of("journal/large.10"), -1);
    ck_assert_int_eq(size_of("journal/large.20"), -1);
    assert_large();
    hd_checkpoint_writer_destroy(checkpoints);
}
END_TEST

static void flip(const char *below, int64_t at)
{
    char byte;
    int fd = open(path_of(below), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 16;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* After a flipped bit, with a file that is cut short or missing, or with a damaged list, the
 * checkpoint before is opened. */
START_TEST(damage)
{
    struct hd_checkpoint_writer *checkpoints = create(0, 1, -1);
    ck_assert(write_one(checkpoints, 10));
    large[0] ^= 1;
    ck_assert(write_one(checkpoints, 20));
    switch (_i) {
    case 0:
        flip("iteration_20/text", 1);
        break;
    case 1:
        ck_assert_int_eq(truncate(path_of("iteration_20/text"), 2), 0);
        break;
    case 2:
        ck_assert_int_eq(unlink(path_of("iteration_20/text")), 0);
        break;
    case 3:
        flip("journal/large.20", 70);
        break;
    case 4:
        flip("iteration_20/manifest.json", size_of("iteration_20/manifest.json") / 2);
        break;
    case 5:
        ck_assert_int_eq(unlink(path_of("iteration_20/manifest.json")), 0);
        break;
    }
    assert_newest(10);
    flip("journal/large.10", 65536);
    struct hd_checkpoint *checkpoint;
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_ERR_FORMAT);
    hd_checkpoint_writer_destroy(checkpoints);
}
END_TEST

/* A new writer removes what a run that died left, and what it wrote after the point to continue
 * from. */
START_TEST(going_on)
{
    struct hd_checkpoint_writer *checkpoints = create(0, 1, -1);
    ck_assert(write_one(checkpoints, 10));
    ck_assert(write_one(checkpoints, 20));
    hd_checkpoint_writer_destroy(checkpoints);
    ck_assert_int_eq(mkdir(path_of("iteration_30.part"), 0777), 0);
    checkpoints = create(0, 1, 10);
    ck_assert_int_eq(size_of("iteration_30.part"), -1);
    assert_newest(10);
    ck_assert(write_one(checkpoints, 20));
    assert_newest(20);
    assert_large();
    hd_checkpoint_writer_destroy(checkpoints);
}
END_TEST

/* Imitates a full disk by a limit on the size of files. */
START_TEST(full_disk)
{
    struct hd_checkpoint_writer *checkpoints = create(0, 1, -1);
    ck_assert(write_one(checkpoints, 10));
    struct rlimit before, limit = {LARGE / 2, LARGE / 2};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit.rlim_max = before.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    memset(large, 5, LARGE);
    ck_assert(!write_one(checkpoints, 20));
    assert_newest(10);
    ck_assert_int_eq(size_of("iteration_20.part"), -1);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert(write_one(checkpoints, 30)); /* with what the failed one had */
    assert_newest(30);
    assert_large();
    hd_checkpoint_writer_destroy(checkpoints);
}
END_TEST

/* One of three ranks fails at iteration 20. */
static void rank_of_three(int rank)
{
    for (int64_t iteration = 10; iteration <= 30; iteration += 10) {
        static struct hd_checkpoint_writer *checkpoints;
        if (!checkpoints)
            checkpoints = create(rank, 3, -1);
        char name[32];
        ck_assert_int_eq(hd_checkpoint_writer_begin(checkpoints, iteration), HD_OK);
        if (rank == 0)
            add_text(checkpoints, "text", iteration == 10 ? "of 10" : "of 30");
        snprintf(name, sizeof name, "shard.%d", rank);

        add_text(checkpoints, rank == 1 && iteration == 20 ? "/" : name, "of a rank");
        snprintf(name, sizeof name, "large.%d", rank);
        ck_assert_int_eq(hd_checkpoint_writer_add_journal(checkpoints, name, large, LARGE), HD_OK);
        hd_checkpoint_writer_submit(
            checkpoints, rank == 0 ? json_pack("{s:I}", "at", (json_int_t)iteration) : NULL);
        ck_assert_int_eq(hd_checkpoint_writer_wait(checkpoints), iteration != 20);
        large[iteration] ^= 1;
        if (iteration == 30)
            hd_checkpoint_writer_destroy(checkpoints);
    }
}

START_TEST(ranks_together)
{
    pid_t pids[3];
    for (int rank = 0; rank < 3; rank++) {
        fflush(NULL);
        pids[rank] = fork();
        if (pids[rank] == 0) {
            rank_of_three(rank);
            _exit(0);
        }
    }
    for (int rank = 0; rank < 3; rank++)
        ck_assert_int_eq(ranks_wait(pids[rank]), 0);
    assert_newest(30);
    struct hd_checkpoint *checkpoint;
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_OK);
    int n = 0;
    for (const char *name; (name = hd_checkpoint_find_name(checkpoint, "shard.", n)); n++)
        ck_assert_int_eq(strlen(name), strlen("shard.0"));
    ck_assert_int_eq(n, 3);
    for (int rank = 0; rank < 3; rank++) {
        char name[32];
        void *data;
        int64_t bytes;
        snprintf(name, sizeof name, "large.%d", rank);
        ck_assert_int_eq(hd_checkpoint_read(checkpoint, name, &data, &bytes), HD_OK);
        large[10] ^= 1;
        large[20] ^= 1;
        ck_assert_mem_eq(data, large, LARGE);
        large[10] ^= 1;
        large[20] ^= 1;
        hd_free(data);
    }
    hd_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *cases = tcase_create("checkpoint");
    suite_add_tcase(suite, cases);
    tcase_set_timeout(cases, 30);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, none_at_all);
    tcase_add_test(cases, journals);
    tcase_add_loop_test(cases, damage, 0, 6);
    tcase_add_test(cases, going_on);
    tcase_add_test(cases, full_disk);
    tcase_add_test(cases, ranks_together);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
