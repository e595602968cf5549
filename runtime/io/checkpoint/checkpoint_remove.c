/* SPDX-License-Identifier: Apache-2.0 */
/* Removes checkpoints that are not kept, and what was left unfinished. Whatever else somebody keeps
 * in the folders stays as it is, and links are not followed. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hd_checkpoint_remove_iteration(const char *state, int64_t iteration, const char *suffix)
{
    char *path = hd_checkpoint_format_path(state, iteration, suffix);
    if (path)
        hd_folder_remove(path);
    hd_free(path);
}

/* Returns the iteration of a journal file, <journal>.<iteration>, or -1: it is none of ours. */
static int64_t parse_journal_file(int folder, const char *name)
{
    const char *dot = strrchr(name, '.');
    char *end;
    if (!dot || dot == name || dot[1] < '0' || dot[1] > '9')
        return -1;
    const int64_t iteration = strtoll(dot + 1, &end, 10);
    return *end == '\0' && hd_run_dir_has(folder, name, S_IFREG) ? iteration : -1;
}

static void remove_journals(const struct hd_checkpoint_writer *c, json_t *needed)
{
    char *path = hd_format("%s/journal", c->state);
    DIR *folder = path ? opendir(path) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const int64_t iteration = parse_journal_file(dirfd(folder), entry->d_name);
        if (iteration >= 0 && iteration <= c->iteration && !json_object_get(needed, entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
    hd_free(path);
}

void hd_checkpoint_remove_old(const struct hd_checkpoint_writer *c)
{
    int64_t *iterations;
    int n = hd_checkpoint_list_iterations(c->state, &iterations);
    if (n <= 0)
        return;
    while (n > 0 && iterations[n - 1] > c->iteration) /* not this run's */
        n--;
    json_t *needed = json_object();
    bool readable = true; /* all that are kept: else their journals are not known */
    for (int i = 0; i < n; i++)
        if (i < n - c->options.keep)
            hd_checkpoint_remove_iteration(c->state, iterations[i], "");
        else
            readable = hd_checkpoint_add_journal_files(c->state, iterations[i], needed) && readable;
    if (readable)
        remove_journals(c, needed);
    hd_free(iterations);
    json_decref(needed);
}

/* Gives a checkpoint that no run can go on from a name of its own. */
static void put_aside(int folder, const char *name)
{
    enum { TRIES = 1000 };
    char aside[320];
    for (int i = 1; i <= TRIES; i++) {
        snprintf(aside, sizeof aside, i == 1 ? "%s.damaged" : "%s.damaged-%d", name, i);
        if (faccessat(folder, aside, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
            break;
    }
    if (renameat(folder, name, folder, aside) == 0)
        hd_log(HD_LOG_WARN, "the damaged checkpoint %s is called %s now", name, aside);
    else
        hd_log(HD_LOG_WARN, "the damaged checkpoint %s cannot be put aside: %m", name);
}

void hd_checkpoint_clean_up(const struct hd_checkpoint_writer *c, int64_t from)
{
    DIR *folder = opendir(c->state);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        int64_t iteration;
        if (hd_checkpoint_parse_entry(dirfd(folder), entry->d_name, ".part", &iteration))
            hd_checkpoint_remove_iteration(c->state, iteration, ".part");
        else if (hd_checkpoint_parse_entry(dirfd(folder), entry->d_name, "", &iteration) &&
                 iteration > from)
            put_aside(dirfd(folder), entry->d_name);
    }
    if (folder)
        closedir(folder);
}
