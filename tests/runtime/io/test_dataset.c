/* SPDX-License-Identifier: Apache-2.0 */
/* A data set reads back as it was written; damage is refused with its file and cause; a folder
 * appears whole or not at all. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/dataset.h"
#include "tests/harness/check.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 5, K = 2 };

static char folder[] = "/tmp/heddle-ds-XXXXXX";
static char said[4096];

static void listen(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    snprintf(said, sizeof said, "%s", line);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    hd_log_set_sink(listen, NULL);
}

static void teardown(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
}

/* Returns a path in the folder, one of a few static ones. */
static const char *in(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* The parts of a file that a test may spoil before it is written. */
struct recorded {
    struct hd_dataset_info info;
    uint8_t bytes[4 * 6];
    float floats[4 * 6];
    int32_t obs[N * K], next_obs[N * K], action[N], env[N], episode[N];
    float reward[N];
    uint8_t done[N], truncated[N];
};

static struct recorded record(bool u8)
{
    struct recorded r = {.info = {.env_type = "toy",
                                  .env_id = "A-v1",
                                  .u8 = u8,
                                  .dims = 2,
                                  .shape = {2, 3},
                                  .stack = K,
                                  .action_dims = 1,
                                  .actions = {3},
                                  .transitions = 2 * N,
                                  .seed = UINT64_MAX,
                                  .policy = 0xfedcba9876543210,
                                  .epsilon = .1}};
    for (int i = 0; i < 24; i++) {
        r.bytes[i] = (uint8_t)(i * 11);
        r.floats[i] = (float)i / 3;
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < K; k++) {
            r.obs[i * K + k] = (i + k) % 4;
            r.next_obs[i * K + k] = (i + k + 1) % 4;
        }
        r.action[i] = i % 3;
        r.reward[i] = -(float)i;
        r.env[i] = i / 2;
        r.episode[i] = 7 * i;
        r.done[i] = i == 3;
        r.truncated[i] = i == 4;
    }
    return r;
}

static struct hd_dataset_rows rows_of(const struct recorded *r)
{
    return (struct hd_dataset_rows){.transitions = N,
                                    .frames = 4,
                                    .frame = r->info.u8 ? (const void *)r->bytes : r->floats,
                                    .obs = r->obs,
                                    .next_obs = r->next_obs,
                                    .action = r->action,
                                    .env = r->env,
                                    .episode = r->episode,
                                    .reward = r->reward,
                                    .done = r->done,
                                    .truncated = r->truncated};
}

static void write_two(const struct recorded *a, const struct recorded *b, const char *dir)
{
    struct hd_dataset_writer *writer;
    const struct hd_dataset_rows first = rows_of(a), second = rows_of(b);
    ck_assert_int_eq(hd_dataset_create(dir, &a->info, 2, &writer), HD_OK);
    ck_assert_int_eq(hd_dataset_write(writer, &first), HD_OK);
    ck_assert_int_eq(hd_dataset_write(writer, &second), HD_OK);
    ck_assert_int_eq(hd_dataset_publish(writer), HD_OK);
    hd_dataset_destroy(writer);
}

static void check_rows(const struct recorded *r, const struct hd_dataset_rows *rows)
{
    ck_assert_int_eq(rows->transitions, N);
    ck_assert_int_eq(rows->frames, 4);
    if (r->info.u8)
        ck_assert_mem_eq(rows->frame, r->bytes, sizeof r->bytes);
    else
        ck_assert_mem_eq(rows->frame, r->floats, sizeof r->floats);
    ck_assert_mem_eq(rows->obs, r->obs, sizeof r->obs);
    ck_assert_mem_eq(rows->next_obs, r->next_obs, sizeof r->next_obs);
    ck_assert_mem_eq(rows->action, r->action, sizeof r->action);
    ck_assert_mem_eq(rows->env, r->env, sizeof r->env);
    ck_assert_mem_eq(rows->episode, r->episode, sizeof r->episode);
    ck_assert_mem_eq(rows->reward, r->reward, sizeof r->reward);
    ck_assert_mem_eq(rows->done, r->done, sizeof r->done);
    ck_assert_mem_eq(rows->truncated, r->truncated, sizeof r->truncated);
}

/* Actions of two numbers. */
struct pairs {
    int32_t choice[2 * N];
    float real[2 * N];
};

static int write_pairs(const struct recorded *r, const struct pairs *pairs, const char *dir,
                       struct hd_dataset **dataset_p)
{
    struct hd_dataset_writer *writer;
    struct hd_dataset_rows rows = rows_of(r);
    rows.action = r->info.continuous ? (const void *)pairs->real : pairs->choice;
    ck_assert_int_eq(hd_dataset_create(dir, &r->info, 1, &writer), HD_OK);
    ck_assert_int_eq(hd_dataset_write(writer, &rows), HD_OK);
    ck_assert_int_eq(hd_dataset_publish(writer), HD_OK);
    hd_dataset_destroy(writer);
    return hd_dataset_open(dir, dataset_p);
}

FIXTURE(setup, teardown)

TEST(actions_of_several_numbers, .runs = 2)
{
    struct recorded r = record(true);
    struct pairs pairs;
    struct hd_dataset *dataset;
    r.info.transitions = N;
    r.info.continuous = _i == 1;
    r.info.action_dims = 2;
    r.info.actions[0] = r.info.continuous ? 0 : 3;
    r.info.actions[1] = r.info.continuous ? 0 : 2;
    for (int i = 0; i < 2 * N; i++) {
        pairs.choice[i] = i % 2 ? i / 2 % 2 : i / 2 % 3;
        pairs.real[i] = (float)i / 7 - 1;
    }
    ck_assert_int_eq(write_pairs(&r, &pairs, in("pairs"), &dataset), HD_OK);
    const struct hd_dataset_info *info = hd_dataset_get_info(dataset);
    ck_assert(info->continuous == r.info.continuous && info->action_dims == 2);
    ck_assert_mem_eq(info->actions, r.info.actions, sizeof info->actions);
    ck_assert_mem_eq(hd_dataset_find(dataset, 0)->action,
                     info->continuous ? (const void *)pairs.real : pairs.choice,
                     sizeof pairs.choice);
    hd_dataset_close(dataset);
    pairs.choice[3] = 2; /* the second number of an action is 0 or 1 */
    pairs.real[3] = NAN;
    ck_assert_int_eq(write_pairs(&r, &pairs, in("spoilt"), &dataset), HD_ERR_FORMAT);
}

static void check_spoilt(const struct recorded *r, const char *dir, const char *names)
{
    char message[512];
    struct hd_dataset *dataset;
    struct hd_dataset_writer *writer;
    const struct hd_dataset_rows rows = rows_of(r);
    ck_assert_int_eq(hd_dataset_create(dir, &r->info, 1, &writer), HD_OK);
    ck_assert_int_eq(hd_dataset_write(writer, &rows), HD_OK);
    ck_assert_int_eq(hd_dataset_publish(writer), HD_OK);
    hd_dataset_destroy(writer);
    ck_assert_int_eq(hd_dataset_open(dir, &dataset), HD_ERR_FORMAT);
    hd_log_get_last_error(message, sizeof message);
    check_names(message, "transitions-00001-of-00001.safetensors");
    check_names(message, names);
}

TEST(numbers_that_are_not_finite_are_told_with_their_row)
{
    struct recorded r = record(false);
    r.info.transitions = N;
    r.reward[2] = NAN;
    check_spoilt(&r, in("rewards"), "row 2|'reward'");
    r.reward[2] = 0;
    r.floats[7] = INFINITY; /* a frame has six numbers */
    check_spoilt(&r, in("frames"), "row 1|'frames'");
}

TEST(what_is_written_reads_back, .runs = 2)
{
    const bool u8 = _i;
    struct recorded a = record(u8), b = a;
    b.reward[2] = 100;
    write_two(&a, &b, in("deep/er/set/"));
    struct hd_dataset *dataset;
    ck_assert_int_eq(hd_dataset_open(in("deep/er/set"), &dataset), HD_OK);
    const struct hd_dataset_info *info = hd_dataset_get_info(dataset);
    ck_assert_str_eq(info->env_type, "toy");
    ck_assert_str_eq(info->env_id, "A-v1");
    ck_assert(info->u8 == u8 && info->dims == 2 && info->shape[0] == 2 && info->shape[1] == 3);
    ck_assert(info->stack == K && info->actions[0] == 3 && info->transitions == 2 * N);
    ck_assert(info->seed == a.info.seed && info->policy == a.info.policy);
    ck_assert_double_eq(info->epsilon, .1);
    ck_assert_int_eq(hd_dataset_get_frame_bytes(info), u8 ? 6 : 24);
    for (int i = 0; i < 2 * N; i++) {
        const struct hd_dataset_rows *rows = hd_dataset_find(dataset, i);
        ck_assert_int_eq(rows->first, i < N ? 0 : N);
        check_rows(i < N ? &a : &b, rows);
    }
    uint64_t hash = hd_dataset_get_hash(dataset);
    hd_dataset_close(dataset);
    write_two(&a, &a, in("other"));
    ck_assert_int_eq(hd_dataset_open(in("other"), &dataset), HD_OK);
    ck_assert(hd_dataset_get_hash(dataset) != hash);
    hd_dataset_close(dataset);
    hd_dataset_close(NULL);
}

static int entries(const char *path)
{
    DIR *directory = opendir(path);
    int n = 0;
    while (readdir(directory))
        n++;
    closedir(directory);
    return n - 2;
}

TEST(all_or_nothing)
{
    struct recorded a = record(true);
    struct hd_dataset_rows rows = rows_of(&a);
    struct hd_dataset_writer *writer = NULL;
    ck_assert_int_eq(hd_dataset_create(in("set"), &a.info, 2, &writer), HD_OK);
    ck_assert_int_eq(hd_dataset_write(writer, &rows), HD_OK);
    ck_assert_int_ne(access(in("set"), F_OK), 0);
    ck_assert_int_eq(entries(folder), 1);
    ck_assert_int_eq(hd_dataset_publish(writer), HD_ERR_INPUT);
    hd_dataset_destroy(writer);
    ck_assert_int_eq(entries(folder), 0);
    hd_dataset_destroy(NULL);

    writer = NULL;
    ck_assert_int_eq(mkdir(in("empty"), 0777), 0);
    write_two(&a, &a, in("empty"));
    ck_assert_int_eq(entries(in("empty")), 2);
    ck_assert_int_eq(hd_dataset_create(in("empty"), &a.info, 2, &writer), HD_ERR_INPUT);
    ck_assert(strstr(said, "/empty exists"));
    ck_assert_ptr_null(writer);
    ck_assert_int_eq(entries(in("empty")), 2);
    ck_assert_int_eq(entries(folder), 1);
}

#define FIRST "set/transitions-00001-of-00002.safetensors"
#define SECOND "set/transitions-00002-of-00002.safetensors"

static void refused(int status, const char *file, const char *names)
{
    struct hd_dataset *dataset = NULL;
    ck_assert_int_eq(hd_dataset_open(in("set"), &dataset), status);
    ck_assert_ptr_null(dataset);
    check_names(said, in(file));
    check_names(said, names);
}

TEST(missing_files_are_named)
{
    struct recorded a = record(true);
    refused(HD_ERR_INPUT, "set", "opened");
    ck_assert_int_eq(mkdir(in("set"), 0777), 0);
    refused(HD_ERR_INPUT, "set", "data set");
    ck_assert_int_eq(rmdir(in("set")), 0);
    write_two(&a, &a, in("set"));
    ck_assert_int_eq(unlink(in(FIRST)), 0);
    refused(HD_ERR_INPUT, FIRST, "missing|1 of|2 files");
    ck_assert_int_eq(rename(in(SECOND), in("set/transitions-00001-of-00001.safetensors")), 0);
    refused(HD_ERR_FORMAT, "set/transitions-00001-of-00001.safetensors", "transition 5");
    FILE *other = fopen(in(SECOND), "w");
    fclose(other);
    refused(HD_ERR_FORMAT, "set", "several");
}

/* A name that speaks of millions of files costs no memory for them. */
TEST(a_boast_is_refused_at_once)
{
    ck_assert_int_eq(mkdir(in("set"), 0777), 0);
    fclose(fopen(in("set/transitions-00001-of-9000000000000000.safetensors"), "w"));
    refused(HD_ERR_INPUT, "set/transitions-00002-of-9000000000000000.safetensors",
            "missing|1 of|9000000000000000 files");
}

TEST(truncated_files_are_named)
{
    struct recorded a = record(true);
    write_two(&a, &a, in("set"));
    struct stat about;
    ck_assert_int_eq(stat(in(SECOND), &about), 0);
    for (off_t left = about.st_size - 1; left >= 0; left -= 97) {
        ck_assert_int_eq(truncate(in(SECOND), left), 0);
        refused(HD_ERR_FORMAT, SECOND, "safetensors");
    }
}

TEST(numbers_out_of_range_are_told, .runs = 2)
{
    for (int what = 0; what < 5; what++) {
        struct recorded a = record(_i), bad = a;
        static const char *const causes[] = {"'obs' holds 4", "'obs' holds -1",
                                             "'next_obs' holds 1000000", "'action' holds 3",
                                             "'action' holds -2147483648"};
        int32_t *const places[] = {&bad.obs[3], &bad.obs[0], &bad.next_obs[9], &bad.action[4],
                                   &bad.action[0]};
        static const int32_t numbers[] = {4, -1, 1000000, 3, INT32_MIN};
        *places[what] = numbers[what];
        write_two(&a, &bad, in("set"));
        refused(HD_ERR_FORMAT, SECOND, causes[what]);
        ck_assert_int_eq(unlink(in(FIRST)), 0);
        ck_assert_int_eq(unlink(in(SECOND)), 0);
        ck_assert_int_eq(rmdir(in("set")), 0);
    }
}

/* Flips bit `bit` of the file, counted from its end. */
static void flip(const char *path, int64_t bit)
{
    FILE *file = fopen(path, "r+b");
    ck_assert_int_eq(fseek(file, -1 - (long)(bit / 8), SEEK_END), 0);
    const int byte = fgetc(file) ^ 1 << bit % 8;
    ck_assert_int_eq(fseek(file, -1, SEEK_CUR), 0);
    ck_assert_int_eq(fputc(byte, file), byte);
    ck_assert_int_eq(fclose(file), 0);
}

/* Whichever bit of the data changes, the file is told with both hashes, or with what is out of
 * range. */
TEST(damaged_data_are_told, .runs = 2)
{
    const struct recorded a = record(_i);
    const int64_t bytes = (_i ? 24 : 96) + N * (2 * K + 3) * 4 + N * 4 + 2 * N;
    struct hd_dataset *dataset;
    write_two(&a, &a, in("set"));
    for (int64_t bit = 0; bit < 8 * bytes; bit++) {
        flip(in(SECOND), bit);
        ck_assert_int_eq(hd_dataset_open(in("set"), &dataset), HD_ERR_FORMAT);
        ck_assert_msg(strstr(said, in(SECOND)) &&
                          (strstr(said, "damaged") || strstr(said, "tensor '")),
                      "bit %d: %s", (int)bit, said);
        flip(in(SECOND), bit);
        said[0] = '\0';
        ck_assert_int_eq(hd_dataset_open(in("set"), &dataset), HD_OK);
        hd_dataset_close(dataset);
    }
}

/* A file of another data set replaces one. */
TEST(unknown_peers_are_told)
{
    struct recorded a = record(true), other = a;
    other.info.env_id = "B-v1";
    write_two(&other, &other, in("other"));
    write_two(&a, &a, in("set"));
    ck_assert_int_eq(rename(in("other/transitions-00002-of-00002.safetensors"), in(SECOND)), 0);
    refused(HD_ERR_FORMAT, SECOND, "another data set");
    const float one = 1;
    const struct hd_tensor_data tensor = {"w", &one, 1, {1}, HD_DTYPE_F32};
    ck_assert_int_eq(hd_safetensors_write(in(FIRST), &tensor, 1, NULL, NULL, 0), HD_OK);
    refused(HD_ERR_FORMAT, FIRST, "no 'format'");
    const char *keys[] = {"format", "version"}, *values[] = {"heddle.transitions", "2"};
    ck_assert_int_eq(hd_safetensors_write(in(FIRST), &tensor, 1, keys, values, 2), HD_OK);
    refused(HD_ERR_FORMAT, FIRST, "version 2; this program reads");
    values[1] = "x";
    ck_assert_int_eq(hd_safetensors_write(in(FIRST), &tensor, 1, keys, values, 2), HD_OK);
    refused(HD_ERR_FORMAT, FIRST, "version 'x'");
}
