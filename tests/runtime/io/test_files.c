/* SPDX-License-Identifier: Apache-2.0 */
/* Tests run directories and whole files. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/logbook.h"
#include "tests/harness/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Stands before the C library's: a file system without unnamed files, as NFS is one. */
static bool no_unnamed_files;

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0666;
    va_end(rest);
    if (no_unnamed_files && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return openat(AT_FDCWD, path, flags, mode);
}

static char top[] = "/tmp/heddle-files-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", top);
    ck_assert_int_eq(system(command), 0);
    strcpy(top + strlen(top) - 6, "XXXXXX");
}

static char *inside(const char *name)
{
    return hd_format("%s/%s", top, name);
}

FIXTURE(setup, teardown)

TEST(a_run_gets_a_directory_of_its_own)
{
    static const char *const wanted[] = {"runs/a", "runs/a_1", "runs/a_2"};
    char *name = inside("runs/a");
    for (int i = 0; i < 3; i++) {
        char *directory, *expected = inside(wanted[i]);
        ck_assert_int_eq(hd_rundir_create(name, false, &directory), HD_OK);
        ck_assert_str_eq(directory, expected);
        hd_free(directory);
        hd_free(expected);
    }
    hd_free(name);
}

TEST(an_exact_directory_must_be_empty)
{
    char *name = inside("exact"), *directory, *file = inside("exact/file");
    ck_assert_int_eq(hd_rundir_create(name, true, &directory), HD_OK);
    hd_free(directory);
    ck_assert_int_eq(hd_rundir_create(name, true, &directory), HD_OK);
    hd_free(directory);
    ck_assert_int_eq(hd_file_write_atomic(file, "x", 1), HD_OK);
    ck_assert_int_eq(hd_rundir_create(name, true, &directory), HD_ERR_INPUT);
    ck_assert_int_eq(hd_rundir_create(file, true, &directory), HD_ERR_INPUT);
    hd_free(file);
    hd_free(name);
}

TEST(names_end_without_slashes)
{
    static const char *const wanted[] = {"s/", "s//", "s"}, *const made[] = {"s", "s_1", "s_2"};
    char *directory = NULL;
    for (int i = 0; i < 3; i++) {
        char *name = inside(wanted[i]), *expected = inside(made[i]);
        ck_assert_int_eq(hd_rundir_create(name, false, &directory), HD_OK);
        ck_assert_str_eq(directory, expected);
        hd_free(directory);
        hd_free(expected);
        hd_free(name);
    }
    char *name = inside("exact/");
    ck_assert_int_eq(hd_rundir_create(name, true, &directory), HD_OK);
    ck_assert_int_eq(directory[strlen(directory) - 1], 't');
    hd_free(directory);
    hd_free(name);
    directory = NULL;
    ck_assert_int_eq(hd_rundir_create("", true, &directory), HD_ERR_INPUT);
    ck_assert_int_eq(hd_rundir_create("", false, &directory), HD_ERR_INPUT);
    ck_assert_int_eq(hd_rundir_create("/", true, &directory), HD_ERR_INPUT);
    ck_assert_ptr_null(directory);
}

TEST(racing_runs_get_different_directories)
{
    enum { RACERS = 8 };
    char *name = inside("race");
    for (int i = 0; i < RACERS; i++)
        if (fork() == 0) {
            char *directory;
            _exit(hd_rundir_create(name, false, &directory) == HD_OK ? 0 : 1);
        }
    int status, failed = 0, made = 0;
    while (wait(&status) > 0)
        failed += status != 0;
    DIR *list = opendir(top);
    const struct dirent *entry;
    while ((entry = readdir(list)))
        made += strncmp(entry->d_name, "race", 4) == 0;
    closedir(list);
    ck_assert_int_eq(failed, 0);
    ck_assert_int_eq(made, RACERS);
    hd_free(name);
}

TEST(a_file_is_replaced_wholly_or_not_at_all)
{
    char *name = inside("deep/er/file"), back[16] = "";
    ck_assert_int_eq(hd_file_write_atomic(name, "old", 3), HD_OK);
    signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {4, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &small);
    ck_assert_int_eq(hd_file_write_atomic(name, "much longer", 11), HD_ERR_SYSTEM);
    const struct rlimit large = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &large);
    FILE *file = fopen(name, "r");
    ck_assert_ptr_nonnull(fgets(back, sizeof back, file));
    fclose(file);
    ck_assert_str_eq(back, "old");
    char *folder = inside("deep/er");
    DIR *list = opendir(folder);
    int entries = 0;
    while (readdir(list))
        entries++;
    closedir(list);
    ck_assert_int_eq(entries, 3); /* ".", ".." and the file: nothing is left beside it */
    hd_free(folder);
    hd_free(name);
}

TEST(what_a_dead_process_left_is_in_no_ones_way)
{
    char *name = inside("file"), *left = hd_format("%s.%d.tmp", name, (int)getpid());
    FILE *file = fopen(left, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(hd_file_write_atomic(name, "new", 3), HD_OK);
    ck_assert_int_ne(access(left, F_OK), 0);
    ck_assert_int_eq(access(name, F_OK), 0);
    hd_free(left);
    hd_free(name);
}

/* Where files without names do not exist, the name in between may be somebody's link. */
TEST(a_link_in_the_way_is_not_followed)
{
    char *path = inside("file"), *victim = inside("victim"), *content;
    char *beside = hd_format("%s.%d.tmp", path, (int)getpid());
    ck_assert_int_eq(hd_file_write_atomic(victim, "mine", 4), HD_OK);
    ck_assert_int_eq(symlink(victim, beside), 0);
    no_unnamed_files = true;
    ck_assert_int_eq(hd_file_write_atomic(path, "yours", 5), HD_OK);
    no_unnamed_files = false;
    ck_assert_int_eq(hd_file_read(victim, HD_INPUT_RUN, &content, NULL), HD_OK);
    ck_assert_str_eq(content, "mine");
    hd_free(content);
    ck_assert_int_eq(hd_file_read(path, HD_INPUT_RUN, &content, NULL), HD_OK);
    ck_assert_str_eq(content, "yours");
    hd_free(content);
    hd_free(beside);
    hd_free(victim);
    hd_free(path);
}

/* On file systems with and without unnamed files. */
TEST(a_draft_appears_when_it_is_published)
{
    char *path = hd_format("%s/sub/draft", top), content[8];
    for (int round = 0; round < 4; round++) {
        struct hd_file_draft draft;
        no_unnamed_files = round % 2;
        ck_assert_int_eq(hd_file_draft_open(path, &draft), HD_OK);
        ck_assert_int_gt(fprintf(draft.file, "new %d", round), 0);
        if (round < 2) { /* one that nobody wanted */
            hd_file_draft_discard(&draft);
            char *folder = hd_format("%s/sub", top);
            ck_assert(hd_folder_is_empty(folder));
            hd_free(folder);
            continue;
        }
        ck_assert_int_eq(access(path, F_OK), round == 2 ? -1 : 0);
        ck_assert_int_eq(hd_file_draft_publish(&draft), HD_OK);
        hd_file_draft_discard(&draft);
        FILE *file = fopen(path, "r");
        ck_assert_ptr_nonnull(fgets(content, sizeof content, file));
        fclose(file);
        ck_assert_int_eq(content[4], '0' + round);
    }
    no_unnamed_files = false;
    struct hd_file_draft never;
    ck_assert_int_eq(hd_file_draft_open("/proc/draft", &never), HD_ERR_SYSTEM);
    hd_free(path);
}

TEST(a_logbook_keeps_what_it_is_told)
{
    struct hd_logbook *book;
    const struct hd_log_item items[] = {{"one", 1.5, false},
                                        {"two", 2.25, true},
                                        {"three", 3, false},
                                        {"four", 4, false},
                                        {"five", 5, false}};
    ck_assert_int_eq(hd_logbook_create(top, NULL, &book), HD_OK);
    ck_assert_str_eq(hd_logbook_get_dir(book), top);
    ck_assert(isnan(hd_logbook_get_progress(book).eval_mean));
    hd_logbook_set_progress(book, (struct hd_progress){3, 4, 6, 5});
    ck_assert_int_eq(hd_logbook_get_progress(book).env_step, 5);
    ck_assert_double_eq(hd_logbook_replace_value(book, "key", 7), 0);
    ck_assert_double_eq(hd_logbook_replace_value(book, "key", 9), 7);
    ck_assert_double_eq(hd_logbook_replace_value(book, "other", 1), 0);
    ck_assert_int_eq(hd_logbook_write_table(book, "learner", "title", 100, 200, items, 5), HD_OK);
    ck_assert_int_eq(hd_logbook_write_line(book, "learner", "line %d", 42), HD_OK);
    hd_logbook_destroy(book);
    char *name = inside("log/learner/learner_logger.txt"), text[4096] = "";
    FILE *file = fopen(name, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, file), 0);
    fclose(file);
    hd_free(name);
    ck_assert(strstr(text, "title") && strstr(text, "line 42") && strstr(text, "2.250000") &&
              strstr(text, "five"));
}
