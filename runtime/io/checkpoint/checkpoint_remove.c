/* SPDX-License-Identifier: Apache-2.0 */
/* Removes checkpoints that are not kept, and what was left unfinished. Whatever else somebody keeps
 * in the folders stays as it is, and links are not followed. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
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

/* Removes the files that a manifest names, itself as the last, and their folder unless somebody has
 * put something else into it. */
static void remove_checkpoint(const char *state, int64_t iteration, json_t *manifest)
{
    char *path = hd_checkpoint_format_path(state, iteration, "");
    const int folder = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    const char *name;
    json_t *about;
    json_object_foreach(json_object_get(manifest, "files"), name, about) {
        if (folder >= 0 && !strchr(name, '/'))
            unlinkat(folder, name, 0);
    }
    if (folder >= 0) {
        unlinkat(folder, "manifest.json", 0);
        close(folder);
        rmdir(path);
    }
    hd_free(path);
}

/* Returns the iteration of a journal file, <journal>.<iteration>, or -1: it is none of ours. */
static int64_t parse_journal_file(int folder, const char *name, json_t *journals)
{
    char journal[256], *end;
    const char *dot = strrchr(name, '.');
    if (!dot || dot[1] < '0' || dot[1] > '9')
        return -1;
    const int64_t iteration = strtoll(dot + 1, &end, 10);
    snprintf(journal, sizeof journal, "%.*s", (int)(dot - name), name);
    return *end == '\0' && json_object_get(journals, journal) &&
                   hd_run_dir_has(folder, name, S_IFREG)
               ? iteration
               : -1;
}

static void remove_journals(const struct hd_checkpoint_writer *c, json_t *journals, json_t *needed)
{
    char *path = hd_format("%s/journal", c->state);
    DIR *folder = path ? opendir(path) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const int64_t iteration = parse_journal_file(dirfd(folder), entry->d_name, journals);
        if (iteration >= 0 && iteration <= c->iteration && !json_object_get(needed, entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
    hd_free(path);
}

static bool is_ours(const struct hd_checkpoint_writer *c, const json_t *manifest)
{
    const char *run = json_string_value(json_object_get(manifest, "run"));
    return !run || !c->run || strcmp(run, c->run) == 0;
}

/* Goes through the checkpoints from the newest on, of which list[n] are the iterations. Returns
 * whether all that may be ours can be read: else the journals that they need are not known. */
static bool remove_iterations(const struct hd_checkpoint_writer *c, const int64_t *list, int n,
                              json_t *journals, json_t *needed)
{
    bool readable = true;
    char why[HD_FILE_WHY];
    for (int kept = 0; n-- > 0;) {
        json_t *manifest = NULL;
        if (list[n] > c->iteration) /* not this run's */
            continue;
        const int status = hd_checkpoint_read_manifest(c->state, list[n], &manifest, why);
        readable = readable && (status == HD_OK || status == HD_ERR_FORMAT);
        if (status == HD_OK && is_ours(c, manifest) && kept++ >= c->options.keep) {
            remove_checkpoint(c->state, list[n], manifest);
        } else if (status == HD_OK) {
            json_object_update(journals, json_object_get(manifest, "journals"));
            json_object_update(needed, json_object_get(manifest, "journal_files"));
        }
        json_decref(manifest);
    }
    return readable;
}

void hd_checkpoint_remove_old(const struct hd_checkpoint_writer *c)
{
    int64_t *iterations = NULL;
    int n = 0;
    char why[HD_FILE_WHY];
    if (hd_checkpoint_list_iterations(c->state, &iterations, &n, why) != HD_OK)
        return; /* the next checkpoint removes them */
    json_t *journals = json_object(), *needed = json_object();
    if (remove_iterations(c, iterations, n, journals, needed))
        remove_journals(c, journals, needed);
    hd_free(iterations);
    json_decref(journals);
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
