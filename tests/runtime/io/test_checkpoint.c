/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint reads back what was added; damage is found and named; a failure leaves the earlier
 * checkpoints as they are. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"
#include "tests/harness/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

enum { RANKS = 3 };

static struct hd_checkpoint_writer *writers[RANKS]; /* of ranks in this process */
static atomic_int warnings, messages;
static char warning[1024];

/* Passes a message to the writer that another process would have. */
static int send_message(void *arg, int rank, const void *data, int64_t bytes)
{
    const int *from = arg;
    hd_checkpoint_writer_receive(writers[rank], *from, data, bytes);
    messages++;
    return HD_OK;
}

static struct hd_checkpoint_writer *create_rank(int rank, int ranks, int64_t from, double timeout_s)
{
    static int numbers[RANKS] = {0, 1, 2};
    const struct hd_checkpoint_writer_options options = {.dir = folder,
                                                         .rank = rank,
                                                         .ranks = ranks,
                                                         .keep = 2,
                                                         .from = from,
                                                         .timeout_s = timeout_s,
                                                         .send = send_message,
                                                         .arg = &numbers[rank]};
    struct hd_checkpoint_writer *checkpoints;
    ck_assert_int_eq(hd_checkpoint_writer_create(&options, &checkpoints), HD_OK);
    return checkpoints;
}

static struct hd_checkpoint_writer *create(int64_t from)
{
    return create_rank(0, 1, from, 60);
}

static void keep_lines(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    strncat(arg, line, 1000);
}

static void keep_warning(enum hd_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level == HD_LOG_WARN && warnings++ == 0)
        snprintf(warning, sizeof warning, "%s", line);
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
    ck_assert_int_eq(hd_checkpoint_read(checkpoint, "text", HD_NO_JOURNAL, &data, &bytes), HD_OK);
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
    ck_assert_int_eq(hd_checkpoint_read(checkpoint, "large", LARGE, &data, &bytes), HD_OK);
    ck_assert_int_eq(bytes, LARGE);
    ck_assert_mem_eq(data, large, LARGE);
    hd_free(data);
    ck_assert_int_eq(hd_checkpoint_read(checkpoint, "large", LARGE + 1, &data, &bytes),
                     HD_ERR_FORMAT);
    ck_assert_int_eq(hd_checkpoint_read(checkpoint, "large", HD_NO_JOURNAL, &data, &bytes),
                     HD_ERR_FORMAT);
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

FIXTURE(setup, teardown)

TEST(none_at_all)
{
    struct hd_checkpoint *checkpoint;
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_OK);
    ck_assert_ptr_null(checkpoint);
}

/* Two series take turns: a checkpoint holds the blocks that changed since the last one of its
 * series, and shares no file with the one before it. */
TEST(journals)
{
    struct hd_checkpoint_writer *checkpoints = create(-1);
    ck_assert(write_one(checkpoints, 10));
    ck_assert_int_eq(size_of("journal/large.10"), LARGE);
    large[65536] ^= 1;
    ck_assert(write_one(checkpoints, 20));
    ck_assert_int_eq(size_of("journal/large.20"), LARGE);
    large[LARGE - 1] ^= 1;
    ck_assert(write_one(checkpoints, 30));
    ck_assert_int_eq(size_of("journal/large.30"), 65536 + 1000);
    assert_newest(30);
    assert_large();
    ck_assert(write_one(checkpoints, 40));
    ck_assert_int_eq(size_of("journal/large.40"), 1000);
    ck_assert(write_one(checkpoints, 50)); /* nothing new */
    ck_assert_int_eq(size_of("journal/large.50"), -1);
    assert_newest(50);
    assert_large();
    ck_assert_int_eq(size_of("iteration_30/text"), -1);
    ck_assert_int_eq(size_of("latest/text"), 5);
    memset(large, 3, LARGE);
    ck_assert(write_one(checkpoints, 60));
    ck_assert_int_eq(size_of("journal/large.20"), -1);
    ck_assert_int_gt(size_of("journal/large.10"), 0); /* iteration 50 needs it */
    ck_assert(write_one(checkpoints, 70));
    ck_assert_int_eq(size_of("journal/large.10"), -1);
    ck_assert_int_eq(size_of("journal/large.30"), -1);
    assert_large();
    hd_checkpoint_writer_destroy(checkpoints);
}

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

static void move(const char *from, const char *to)
{
    char old[256];
    snprintf(old, sizeof old, "%s", path_of(from));
    ck_assert_int_eq(rename(old, path_of(to)), 0);
}

/* After a flipped bit, with a file that is cut short or missing, with a damaged list, or in the
 * place of another, the checkpoint before is opened. */
TEST(damage, .runs = 10)
{
    struct hd_checkpoint_writer *checkpoints = create(-1);
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
    case 6:
        move("iteration_20", "iteration_30");
        break;
    case 8:
        ck_assert_int_eq(unlink(path_of("iteration_20/text")), 0);
        ck_assert_int_eq(mkfifo(path_of("iteration_20/text"), 0600), 0);
        break;
    case 9:
        ck_assert_int_eq(unlink(path_of("iteration_20/manifest.json")), 0);
        ck_assert_int_eq(mkfifo(path_of("iteration_20/manifest.json"), 0600), 0);
        break;
    case 7: /* all that the newer one has of the large value */
        flip("journal/large.20", 0);
        flip("journal/large.20", LARGE - 1);
        break;
    }
    assert_newest(10);
    flip("journal/large.10", 65536);
    struct hd_checkpoint *checkpoint;
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_ERR_FORMAT);
    hd_checkpoint_writer_destroy(checkpoints);
}

/* A new writer removes what a run that died left, and puts aside what is newer than the point to
 * continue from; what people keep beside it stays. */
TEST(going_on)
{
    static const char *const theirs[] = {"iteration_20.backup", "iteration_20 (good)",
                                         "iteration_020", "iteration_+30.part",
                                         "iteration_9.part2"};
    struct hd_checkpoint_writer *checkpoints = create(-1);
    ck_assert(write_one(checkpoints, 10));
    ck_assert(write_one(checkpoints, 20));
    hd_checkpoint_writer_destroy(checkpoints);
    ck_assert_int_eq(mkdir(path_of("iteration_30.part"), 0777), 0);
    for (size_t i = 0; i < COUNT(theirs); i++)
        ck_assert_int_eq(mkdir(path_of(theirs[i]), 0777), 0);
    ck_assert_int_eq(symlink("iteration_10", path_of("iteration_40")), 0);
    ck_assert_int_eq(symlink("iteration_10", path_of("iteration_50.part")), 0);
    checkpoints = create(10);
    ck_assert_int_eq(size_of("iteration_30.part"), -1);
    assert_newest(10);
    ck_assert(write_one(checkpoints, 20));
    assert_newest(20);
    assert_large();
    for (int64_t i = 60; i < 100; i += 10)
        ck_assert(write_one(checkpoints, i));
    hd_checkpoint_writer_destroy(checkpoints);
    for (size_t i = 0; i < COUNT(theirs); i++)
        ck_assert_msg(size_of(theirs[i]) >= 0, "%s is gone", theirs[i]);
    ck_assert_int_ge(size_of("iteration_20.damaged"), 0);
    char target[32];
    ck_assert_int_gt(readlink(path_of("iteration_40"), target, sizeof target), 0);
    ck_assert_int_gt(readlink(path_of("iteration_50.part"), target, sizeof target), 0);
    checkpoints = create(90);
    ck_assert(write_one(checkpoints, 100));
    ck_assert_int_ge(size_of("iteration_20.damaged"), 0);
    hd_checkpoint_writer_destroy(checkpoints);
}

static void put_file(const char *name)
{
    FILE *file = fopen(path_of(name), "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
}

static struct hd_checkpoint_writer *create_run(const char *run, int64_t from)
{
    const struct hd_checkpoint_writer_options options = {
        .dir = folder, .ranks = 1, .keep = 2, .from = from, .timeout_s = 60, .run = run};
    struct hd_checkpoint_writer *checkpoints;
    ck_assert_int_eq(hd_checkpoint_writer_create(&options, &checkpoints), HD_OK);
    return checkpoints;
}

/* A checkpoint of another run, a folder that is none, and files beside ours are not removed. */
TEST(what_others_keep)
{
    static const char *const theirs[] = {"iteration_5/manifest.json", "iteration_3/notes",
                                         "iteration_10/notes", "journal/notes.7", "latest"};
    struct hd_checkpoint_writer *checkpoints = create_run("a", -1);
    ck_assert(write_one(checkpoints, 5));
    hd_checkpoint_writer_destroy(checkpoints);
    ck_assert_int_eq(mkdir(path_of("iteration_3"), 0777), 0);
    checkpoints = create_run("b", 5);
    ck_assert(write_one(checkpoints, 10));
    ck_assert_int_eq(unlink(path_of("latest")), 0);
    for (size_t i = 1; i < COUNT(theirs); i++)
        put_file(theirs[i]);
    for (int64_t i = 20; i < 60; i += 10)
        ck_assert(write_one(checkpoints, i));
    ck_assert_int_eq(symlink(".", path_of("iteration_60.part")), 0);
    ck_assert(!write_one(checkpoints, 60));
    hd_checkpoint_writer_destroy(checkpoints);
    for (size_t i = 0; i < COUNT(theirs); i++)
        ck_assert_msg(size_of(theirs[i]) >= 0, "%s is gone", theirs[i]);
    ck_assert_int_eq(size_of("iteration_10/manifest.json"), -1);
    ck_assert_int_eq(size_of("iteration_20"), -1);
    ck_assert_int_eq(size_of("text"), -1);
    assert_newest(50);
}

/* What cannot be read now may be good: no older one is opened in its place. */
TEST(unreadable, .runs = 4)
{
    static const char *const names[] = {"iteration_20/text", "iteration_20/manifest.json",
                                        "journal/large.20", ""};
    enum { NOBODY = 65534 };
    const bool root = geteuid() == 0; /* who may read everything */
    if (root)
        ck_assert(chown(folder, NOBODY, NOBODY) == 0 && seteuid(NOBODY) == 0);
    struct hd_checkpoint_writer *checkpoints = create(-1);
    ck_assert(write_one(checkpoints, 10));
    large[0] ^= 1;
    ck_assert(write_one(checkpoints, 20));
    hd_checkpoint_writer_destroy(checkpoints);
    ck_assert_int_eq(chmod(path_of(names[_i]), 0), 0);
    struct hd_checkpoint *checkpoint = NULL;
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_ERR_SYSTEM);
    ck_assert_ptr_null(checkpoint);
    ck_assert_int_eq(chmod(path_of(names[_i]), 0700), 0);
    assert_newest(20);
    if (root)
        ck_assert_int_eq(seteuid(0), 0);
}

static void assert_latest(const char *name)
{
    char target[64] = "";
    ck_assert_int_gt(readlink(path_of("latest"), target, sizeof target - 1), 0);
    ck_assert_str_eq(target, name);
}

/* A run that died between the rename of its last checkpoint and the link to it goes on from this
 * one, and may be asked for the same once more, before its first iteration. */
TEST(not_linked)
{
    struct hd_checkpoint_writer *checkpoints = create(-1);
    ck_assert(write_one(checkpoints, 10));
    ck_assert(write_one(checkpoints, 20));
    hd_checkpoint_writer_destroy(checkpoints);
    ck_assert_int_eq(unlink(path_of("latest")), 0);
    ck_assert_int_eq(symlink("iteration_10", path_of("latest")), 0);
    warnings = 0;
    hd_log_set_sink(keep_warning, NULL);
    checkpoints = create(20);
    assert_latest("iteration_20");
    ck_assert(write_one(checkpoints, 20));
    assert_newest(20);
    assert_large();
    ck_assert(write_one(checkpoints, 30));
    assert_latest("iteration_30");
    assert_newest(30);
    assert_large();
    hd_checkpoint_writer_destroy(checkpoints);
    hd_log_set_sink(NULL, NULL);
    ck_assert_int_eq(warnings, 0);
}

/* Imitates a full disk by a limit on the size of files. */
TEST(full_disk)
{
    struct hd_checkpoint_writer *checkpoints = create(-1);
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

static void create_ranks(double timeout_s)
{
    warnings = 0;
    hd_log_set_sink(keep_warning, NULL);
    for (int rank = 0; rank < RANKS; rank++)
        writers[rank] = create_rank(rank, RANKS, -1, timeout_s);
}

static void destroy_ranks(void)
{
    for (int rank = RANKS - 1; rank >= 0; rank--)
        hd_checkpoint_writer_wait(writers[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        hd_checkpoint_writer_destroy(writers[rank]);
    hd_log_set_sink(NULL, NULL);
}

/* Hands over a rank's files; `shard` is the name of one that is not rank 0's. */
static void hand_over(int rank, int64_t iteration, const char *shard)
{
    char name[32], text[32];
    snprintf(text, sizeof text, "of %lld", (long long)iteration);
    ck_assert_int_eq(hd_checkpoint_writer_begin(writers[rank], iteration), HD_OK);
    if (rank == 0)
        add_text(writers[rank], "text", text);
    add_text(writers[rank], shard, "of a rank");
    snprintf(name, sizeof name, "large.%d", rank);
    ck_assert_int_eq(hd_checkpoint_writer_add_journal(writers[rank], name, large, LARGE), HD_OK);
    hd_checkpoint_writer_submit(writers[rank],
                                rank == 0 ? json_pack("{s:I}", "at", (json_int_t)iteration) : NULL);
}

/* Returns how many ranks say that the checkpoint of an iteration is written; rank `failing`'s
 * cannot be. */
static int write_ranks(int64_t iteration, int failing)
{
    static const char *const shards[] = {"shard.0", "shard.1", "shard.2"};
    int written = 0;
    for (int rank = 0; rank < RANKS; rank++)
        hand_over(rank, iteration, rank == failing ? "/" : shards[rank]);
    for (int rank = 0; rank < RANKS; rank++)
        written += hd_checkpoint_writer_wait(writers[rank]);
    return written;
}

/* One of three ranks fails at iteration 20: all give that checkpoint up, with one warning that
 * names the rank, the file and the cause. */
TEST(ranks_together, .runs = RANKS)
{
    create_ranks(60);
    ck_assert_int_eq(write_ranks(10, -1), RANKS);
    large[10] ^= 1;
    ck_assert_int_eq(write_ranks(20, _i), 0);
    char culprit[16];
    snprintf(culprit, sizeof culprit, "by rank %d: ", _i);
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, culprit));
    ck_assert_ptr_nonnull(strstr(warning, "iteration_20.part//"));
    ck_assert_ptr_nonnull(strstr(warning, "directory"));
    ck_assert_int_eq(size_of("iteration_20.part"), -1);
    ck_assert_int_eq(size_of("journal/large.1.20"), -1);
    large[20] ^= 1;
    ck_assert_int_eq(write_ranks(30, -1), RANKS);
    destroy_ranks();
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
        ck_assert_int_eq(hd_checkpoint_read(checkpoint, name, LARGE, &data, &bytes), HD_OK);
        ck_assert_mem_eq(data, large, LARGE);
        hd_free(data);
    }
    hd_checkpoint_close(checkpoint);
}

/* A rank that says nothing costs its checkpoint, after a time, and not the run. */
TEST(silent_rank)
{
    create_ranks(0.2);
    hand_over(0, 10, "shard.0");
    hand_over(1, 10, "shard.1");
    ck_assert(!hd_checkpoint_writer_wait(writers[0]));
    ck_assert(!hd_checkpoint_writer_wait(writers[1]));
    ck_assert_int_eq(warnings, 1);
    check_names(warning, "by rank 2: |0 s");
    hand_over(2, 10, "shard.2");
    ck_assert(!hd_checkpoint_writer_wait(writers[2]));
    ck_assert_int_eq(size_of("iteration_10"), -1);
    destroy_ranks();
}

/* A rank that waits for rank 0 leaves when rank 0 is lost. */
TEST(no_answer)
{
    create_ranks(30);
    hand_over(1, 10, "shard.1");
    ck_assert(!hd_checkpoint_writer_is_idle(writers[1]));
    hd_checkpoint_writer_abandon(writers[1]);
    ck_assert(!hd_checkpoint_writer_wait(writers[1]));
    ck_assert_int_eq(warnings, 0);
    destroy_ranks();
}

/* A rank that writes into another folder than rank 0, because the ranks share none. */
TEST(unshared_folder)
{
    create_ranks(60);
    messages = 0;
    hand_over(1, 10, "shard.1");
    while (messages == 0) /* it reports what it has written */
        usleep(1000);
    ck_assert_int_eq(unlink(path_of("iteration_10.part/shard.1")), 0);
    hand_over(2, 10, "shard.2");
    hand_over(0, 10, "shard.0");
    ck_assert(!hd_checkpoint_writer_wait(writers[0]));
    ck_assert_ptr_nonnull(strstr(warning, "by rank 1: "));
    ck_assert_ptr_nonnull(strstr(warning, "run directory"));
    destroy_ranks();
}

/* Nonsense in place of messages changes nothing. */
TEST(nonsense)
{
    static const char *const texts[] = {"",
                                        "[1]",
                                        "{",
                                        "{\"iteration\": \"10\"}",
                                        "{\"iteration\": 10}",
                                        "{\"iteration\": 10, \"why\": 3}"};
    create_ranks(0.3);
    hand_over(0, 10, "shard.0");
    hand_over(2, 10, "shard.2");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        hd_checkpoint_writer_receive(writers[0], 1, texts[i], (int64_t)strlen(texts[i]));
    ck_assert(!hd_checkpoint_writer_wait(writers[0]));
    check_names(warning, "by rank 1: |say");
    hd_checkpoint_writer_receive(NULL, 1, "{}", 2);
    destroy_ranks();
}

/* A manifest of another version is named as such. */
TEST(another_version)
{
    struct hd_checkpoint_writer *checkpoints = create(-1);
    ck_assert(write_one(checkpoints, 10));
    hd_checkpoint_writer_destroy(checkpoints);
    json_t *manifest = json_load_file(path_of("iteration_10/manifest.json"), 0, NULL);
    json_object_set_new(manifest, "format", json_string("heddle checkpoint 1"));
    json_object_set_new(manifest, "hash",
                        hd_checkpoint_format_hash(hd_checkpoint_hash_manifest(manifest)));
    ck_assert_int_eq(json_dump_file(manifest, path_of("iteration_10/manifest.json"), 0), 0);
    json_decref(manifest);
    struct hd_checkpoint *checkpoint;
    static char lines[2048];
    lines[0] = '\0';
    hd_log_set_sink(keep_lines, lines);
    ck_assert_int_eq(hd_checkpoint_open(folder, &checkpoint), HD_ERR_FORMAT);
    hd_log_set_sink(NULL, NULL);
    ck_assert_ptr_nonnull(strstr(lines, "is of format 'heddle checkpoint 1'; this program reads"));
}
