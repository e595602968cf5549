/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks get GPUs of their own near their cores while there are enough; invalid maps are refused
 * with what to do; the version of NCCL decides about ranks that share a GPU. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/machine/gpu_assignment.h"
#include "runtime/machine/gpu_path.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last[1024];

static void keep_log(enum hd_log_level level, const char *line, void *arg)
{
    (void)arg;
    ck_assert_int_eq(level, HD_LOG_ERROR);
    snprintf(last, sizeof last, "%s", line + strlen("error: "));
}

static void setup(void)
{
    last[0] = '\0';
    hd_log_set_sink(keep_log, NULL);
}

/* Makes GPUs by the first core next to them, -1 where that is not known. */
static int make_gpus(struct hd_gpu *gpus, const int *cores, int n)
{
    for (int i = 0; i < n; i++)
        gpus[i] = (struct hd_gpu){.id = (uint64_t)i, .core = cores ? cores[i] : -1};
    return n;
}

/* Returns the GPUs of every local rank: "0 1|2 3". */
static const char *format_assignment(const struct hd_gpu *gpus, int n,
                                     const struct hd_gpu_request *request)
{
    static char text[256];
    size_t used = 0;
    text[0] = '\0';
    for (int rank = 0; rank < request->ranks; rank++) {
        struct hd_gpu_share share = {.n = -1};
        if (hd_gpus_assign(gpus, n, request, rank, &share) != HD_OK) {
            ck_assert_int_eq(share.n, -1);
            return last;
        }
        for (int i = 0; i < share.n; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d",
                                     i > 0      ? " "
                                     : rank > 0 ? "|"
                                                : "",
                                     share.devices[i]);
    }
    return text;
}

/* `expected` is an assignment, or '!' and what the message has to name. */
static void check_assignment(const char *found, const char *expected)
{
    if (expected[0] == '!')
        check_names(found, expected + 1);
    else
        ck_assert_str_eq(found, expected);
}

FIXTURE(setup, NULL)

TEST(ranks_get_blocks)
{
    static const struct {
        int gpus, ranks, per_rank;
        const char *expected;
    } cases[] = {
        {1, 1, 1, "0"},
        {8, 1, 8, "0 1 2 3 4 5 6 7"},
        {8, 1, 1, "0"},
        {8, 2, 4, "0 1 2 3|4 5 6 7"},
        {8, 3, 2, "0 1|2 3|4 5"},
        {8, 4, 1, "0|1|2|3"},
        {4, 4, 1, "0|1|2|3"},
        {1, 2, 1, "0|0"},
        {2, 4, 1, "0|0|1|1"},
        {2, 3, 1, "0|0|1"},
        {4, 2, 1, "0|1"},
        {4, 3, 2, "!3 ranks of 2 GPUs|shows them 4 GPUs"},
        {1, 1, 2, "!1 rank of 2 GPUs|shows it 1 GPU"},
        {0, 1, 1, "!no GPU"},
    };
    struct hd_gpu gpus[HD_GPUS_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct hd_gpu_request request = {.ranks = cases[i].ranks,
                                               .per_rank = cases[i].per_rank};
        make_gpus(gpus, NULL, cases[i].gpus);
        check_assignment(format_assignment(gpus, cases[i].gpus, &request), cases[i].expected);
    }
}

/* Ranks get the GPUs in the order of their cores, because they get blocks of cores in order. */
TEST(gpus_are_near)
{
    static const int crossed[] = {32, 0, 32, 0}, one_unknown[] = {32, 0, -1, 0};
    struct hd_gpu gpus[HD_GPUS_MAX];
    struct hd_gpu_request request = {.ranks = 4, .per_rank = 1};
    make_gpus(gpus, crossed, 4);
    ck_assert_str_eq(format_assignment(gpus, 4, &request), "1|3|0|2");
    request = (struct hd_gpu_request){.ranks = 2, .per_rank = 2};
    ck_assert_str_eq(format_assignment(gpus, 4, &request), "1 3|0 2");
    request.per_rank = 1;
    ck_assert_str_eq(format_assignment(gpus, 4, &request), "1|3");
    request.ranks = 8;
    ck_assert_str_eq(format_assignment(gpus, 4, &request), "1|1|3|3|0|0|2|2");
    make_gpus(gpus, one_unknown, 4);
    request.ranks = 4;
    ck_assert_str_eq(format_assignment(gpus, 4, &request), "0|1|2|3");
}

TEST(maps_are_checked)
{
    static const struct {
        int gpus, ranks, per_rank, n;
        int map[4];
        const char *expected;
    } cases[] = {
        {4, 2, 1, 2, {3, 1}, "3|1"},
        {4, 2, 2, 4, {3, 1, 0, 2}, "3 1|0 2"},
        {2, 2, 1, 2, {1, 1}, "1|1"},
        {4, 2, 1, 2, {0, 4}, "!cuda_devices|rank 1 GPU 4|shows it 4 GPUs"},
        {1, 1, 1, 1, {-1}, "!cuda_devices|rank 0 GPU -1|shows it 1 GPU"},
        {4, 2, 2, 4, {0, 0, 1, 2}, "!cuda_devices|GPU 0|rank 0|once"},
        {4, 2, 1, 3, {0, 1, 2}, "!cuda_devices|3 GPUs for 2 ranks"},
        {4, 4, 1, 1, {0}, "!cuda_devices|1 GPU for 4 ranks"},
        {4, 2, 2, 2, {0, 1}, "!cuda_devices|2 GPUs for 2 ranks|all the GPUs"},
    };
    struct hd_gpu gpus[HD_GPUS_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct hd_gpu_request request = {.ranks = cases[i].ranks,
                                               .per_rank = cases[i].per_rank,
                                               .map = cases[i].map,
                                               .n_map = cases[i].n};
        make_gpus(gpus, NULL, cases[i].gpus);
        check_assignment(format_assignment(gpus, cases[i].gpus, &request), cases[i].expected);
    }
}

/* Ranks that a launcher gives GPUs of their own do not divide them with others. */
TEST(ranks_with_the_same_gpus_divide_them)
{
    static const struct {
        const char *shown; /* one letter for each GPU of a rank, a comma after each rank */
        const char *expected;
    } cases[] = {
        {"ab,ab,ab,", "0 of 3,1 of 3,2 of 3,"},
        {"a,b,c,d,", "0 of 1,0 of 1,0 of 1,0 of 1,"},
        {"ab,cd,ab,cd,", "0 of 2,0 of 2,1 of 2,1 of 2,"},
        {"ab,ba,a,", "0 of 1,0 of 1,0 of 1,"},
        {",a,,", "0 of 2,0 of 1,1 of 2,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hd_gpu_view views[8];
        struct hd_gpu gpus[HD_GPUS_MAX];
        char text[128] = "";
        int ranks = 0, n = 0;
        for (const char *c = cases[i].shown; *c; c++) {
            if (*c == ',')
                views[ranks++] = hd_gpus_view(gpus, n);
            else
                gpus[n] = (struct hd_gpu){.id = (uint64_t)*c};
            n = *c == ',' ? 0 : n + 1;
        }
        for (int rank = 0; rank < ranks; rank++) {
            const struct hd_gpu_group group = hd_gpus_find_group(views, ranks, rank);
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%d of %d,", group.rank, group.ranks);
        }
        ck_assert_str_eq(text, cases[i].expected);
    }
}

TEST(sharing_is_counted)
{
    uint64_t own[] = {7, 3, 9, 1}, shared[] = {7, 3, 7, 1, 3, 7}, one[] = {0};
    ck_assert_int_eq(hd_gpus_count_sharing(own, 4), 1);
    ck_assert_int_eq(hd_gpus_count_sharing(shared, 6), 3);
    ck_assert_int_eq(hd_gpus_count_sharing(one, 1), 1);
}

TEST(versions_decide_about_sharing)
{
    static const struct {
        int ranks, version, status;
        enum hd_gpu_path path;
        const char *names;
    } cases[] = {
        {1, 22809, HD_OK, HD_GPU_PATH_NCCL, ""},
        {1, 23007, HD_OK, HD_GPU_PATH_NCCL, ""},
        {2, 23000, HD_OK, HD_GPU_PATH_NCCL_SHARED, "2 ranks|2.30.0|NCCL_MULTI_RANK_GPU_ENABLE=1"},
        {2, 23203, HD_OK, HD_GPU_PATH_NCCL_SHARED, "2 ranks|2.32.3|NCCL_MULTI_RANK_GPU_ENABLE=1"},
        {2, 22999, HD_OK, HD_GPU_PATH_HOST, "2 ranks|2.29.99|2.30|host memory"},
        {4, 22809, HD_OK, HD_GPU_PATH_HOST, "4 ranks|2.28.9|2.30|host memory"},
        {3, 23007, HD_ERR_INPUT, HD_GPU_PATH_NCCL, "3 ranks|2.30.7|2 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum hd_gpu_path path = HD_GPU_PATH_NCCL;
        char text[HD_GPU_TEXT_BYTES];
        ck_assert_int_eq(
            hd_gpu_path_choose(cases[i].ranks, cases[i].version, &path, text, sizeof text),
            cases[i].status);
        ck_assert_int_eq(path, cases[i].path);
        ck_assert_int_eq(text[0] != '\0', cases[i].names[0] != '\0');
        check_names(text, cases[i].names);
    }
}

TEST(nccl_is_told)
{
    setenv("NCCL_NVLS_ENABLE", "1", 1);
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    hd_nccl_share_gpus();
    ck_assert_str_eq(getenv("NCCL_NVLS_ENABLE"), "0");
    ck_assert_str_eq(getenv("NCCL_MULTI_RANK_GPU_ENABLE"), "1");
}
