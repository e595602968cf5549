/* SPDX-License-Identifier: Apache-2.0 */
/* A run's secret is read from a descriptor, a file or the environment, and its absence and every
 * file that others may read are refused with what to do. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/world.h"
#include "tests/harness/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT "0123456789abcdef0123456789abcdef"

static char last[2048], path[64];

static void keep_log(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    snprintf(last, sizeof last, "%s", line);
}

static void setup(void)
{
    hd_log_set_sink(keep_log, NULL);
    unsetenv("HD_SECRET_FD");
    unsetenv("HEDDLE_SECRET");
    unsetenv("HEDDLE_SECRET_FILE");
    strcpy(path, "/tmp/heddle-test-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    last[0] = '\0';
}

static void teardown(void)
{
    unlink(path);
}

static void write_file(const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

static int read_secret(const char *file, uint8_t secret[HD_SECRET_BYTES])
{
    bool found = false;
    const int status = hd_secret_read(file, &found, secret);
    ck_assert(found == (status == HD_OK));
    return status;
}

FIXTURE(setup, teardown)

TEST(drawn_secrets_differ)
{
    uint8_t a[HD_SECRET_BYTES] = {0}, b[HD_SECRET_BYTES] = {0};
    hd_secret_draw(a);
    hd_secret_draw(b);
    ck_assert_mem_ne(a, b, sizeof a);
}

TEST(file_and_variable_are_one_secret)
{
    uint8_t by_text[HD_SECRET_BYTES], by_file[HD_SECRET_BYTES], by_name[HD_SECRET_BYTES],
        other[HD_SECRET_BYTES];
    write_file(TEXT "\n", strlen(TEXT) + 1);
    ck_assert_int_eq(read_secret(path, by_file), HD_OK);
    setenv("HEDDLE_SECRET_FILE", path, 1);
    ck_assert_int_eq(read_secret(NULL, by_name), HD_OK);
    setenv("HEDDLE_SECRET", TEXT, 1);
    ck_assert_int_eq(read_secret(NULL, by_text), HD_OK);
    ck_assert_mem_eq(by_text, by_file, sizeof by_text);
    ck_assert_mem_eq(by_text, by_name, sizeof by_text);
    setenv("HEDDLE_SECRET", TEXT "!", 1);
    ck_assert_int_eq(read_secret(NULL, other), HD_OK);
    ck_assert_mem_ne(by_text, other, sizeof by_text);
}

TEST(descriptor_comes_first_and_is_read_by_all)
{
    uint8_t drawn[HD_SECRET_BYTES], read[HD_SECRET_BYTES];
    char number[16];
    int fd;
    setenv("HEDDLE_SECRET", TEXT, 1);
    hd_secret_draw(drawn);
    ck_assert_int_eq(hd_secret_share(drawn, &fd), HD_OK);
    for (int rank = 0; rank < 3; rank++) {
        snprintf(number, sizeof number, "%d", dup(fd)); /* as after a fork: one offset for all */
        setenv("HD_SECRET_FD", number, 1);
        ck_assert_int_eq(read_secret(NULL, read), HD_OK);
        ck_assert_mem_eq(read, drawn, sizeof drawn);
        ck_assert_ptr_null(getenv("HD_SECRET_FD"));
        ck_assert_int_ne(fcntl(atoi(number), F_GETFD), 0);
    }
    close(fd);
    setenv("HD_SECRET_FD", "1000000", 1);
    ck_assert_int_eq(read_secret(NULL, read), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(last, "HD_SECRET_FD=1000000"));
}

TEST(open_files_are_refused)
{
    uint8_t secret[HD_SECRET_BYTES];
    static const mode_t modes[] = {0640, 0604, 0660, 0601};
    write_file(TEXT, strlen(TEXT));
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        ck_assert_int_eq(chmod(path, modes[i]), 0);
        ck_assert_int_eq(read_secret(path, secret), HD_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(last, "chmod 600 /tmp/heddle-test-"));
    }
    ck_assert_int_eq(chmod(path, 0400), 0);
    ck_assert_int_eq(read_secret(path, secret), HD_OK);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(path, 65534, 65534), 0);
        ck_assert_int_eq(read_secret(path, secret), HD_ERR_INPUT);
        ck_assert_ptr_nonnull(strstr(last, "belongs to user 65534, expected user 0"));
    }
    ck_assert_int_eq(read_secret("/dev/null", secret), HD_ERR_INPUT);
    ck_assert_int_eq(read_secret("/nowhere", secret), HD_ERR_INPUT);
    check_names(last, "/nowhere |No such file");
}

TEST(sizes_are_bounded)
{
    uint8_t secret[HD_SECRET_BYTES];
    static char large[HD_SECRET_FILE_MAX + 1];
    setenv("HEDDLE_SECRET", "swordfish", 1);
    ck_assert_int_eq(read_secret(NULL, secret), HD_ERR_INPUT);
    check_names(last, "HEDDLE_SECRET|9 bytes|32");
    memcpy(large, TEXT, strlen(TEXT));
    write_file(large, HD_SECRET_FILE_MAX);
    ck_assert_int_eq(read_secret(path, secret), HD_OK);
    write_file(large, sizeof large);
    ck_assert_int_eq(read_secret(path, secret), HD_ERR_INPUT);
    write_file(large, 31);
    ck_assert_int_eq(read_secret(path, secret), HD_ERR_INPUT);
}

TEST(guessable_bytes_are_refused)
{
    uint8_t secret[HD_SECRET_BYTES];
    static const char zeros[HD_SECRET_TEXT_MIN];
    write_file(zeros, sizeof zeros);
    ck_assert_int_eq(read_secret(path, secret), HD_ERR_INPUT);
    check_names(last, "/tmp/heddle-test-|1 different bytes|/dev/urandom");
    setenv("HEDDLE_SECRET", "abcdeabcdeabcdeabcdeabcdeabcdeabcde", 1);
    ck_assert_int_eq(read_secret(NULL, secret), HD_ERR_INPUT);
    check_names(last, "HEDDLE_SECRET|5 different bytes");
    setenv("HEDDLE_SECRET", "abcdefabcdefabcdefabcdefabcdefabcdef", 1);
    ck_assert_int_eq(read_secret(NULL, secret), HD_OK);
}

TEST(several_ranks_need_one)
{
    struct hd_world world = {.world = 1};
    ck_assert_int_eq(hd_world_read_secret(&world, NULL, false), HD_OK);
    world.world = 2;
    ck_assert_int_eq(hd_world_read_secret(&world, NULL, false), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(last, "export HEDDLE_SECRET=$(head -c 32 /dev/urandom | base64)"));
    ck_assert_ptr_nonnull(strstr(last, "on several nodes"));
    last[0] = '\0';
    world.local_rank = 1; /* one line a host */
    ck_assert_int_eq(hd_world_read_secret(&world, NULL, false), HD_ERR_INPUT);
    ck_assert_str_eq(last, "");
    world.local_rank = 0;
    ck_assert_int_eq(hd_world_read_secret(&world, NULL, true), HD_OK);
    ck_assert_ptr_nonnull(strstr(last, "--insecure"));
    ck_assert(!world.has_secret);
    setenv("HEDDLE_SECRET", TEXT, 1);
    ck_assert_int_eq(hd_world_read_secret(&world, NULL, true), HD_OK);
    ck_assert(world.has_secret);
    unsetenv("HEDDLE_SECRET");
    world = (struct hd_world){.world = 2, .launcher = HD_LAUNCHER_MPIRUN};
    ck_assert_int_eq(hd_world_read_secret(&world, NULL, false), HD_OK);
    world = (struct hd_world){.world = 2, .local_world = 2};
    ck_assert_int_eq(hd_world_read_secret(&world, NULL, false), HD_OK);
    ck_assert(world.shares_secret);
}
