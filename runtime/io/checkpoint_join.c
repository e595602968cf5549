/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's part of a checkpoint: the ranks' lists become a manifest, the folder gets its name, and
 * what is not needed any more goes. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint_internal.h"
#include "runtime/io/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- The ranks' lists -----------------------------------------------------------------------------
 */

char *hd_checkpoint_format_list_path(const struct hd_checkpoint_writer *c, int rank)
{
    return hd_format("%s/iteration_%" PRId64 ".part/.rank%d", c->state, c->iteration, rank);
}

int hd_checkpoint_write_json(const char *path, json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_SORT_KEYS);
    int status = text ? hd_file_write_atomic(path, text, (int64_t)strlen(text)) : HD_ERR_NOMEM;
    free(text);
    return status;
}

static json_t *wait_for_list(const struct hd_checkpoint_writer *c, int rank)
{
    char *path = hd_checkpoint_format_list_path(c, rank);
    json_t *list = NULL;
    while (path && !(list = json_load_file(path, 0, NULL)) && access(path, F_OK) != 0 &&
           !atomic_load(&c->abandoned))
        usleep(HD_CHECKPOINT_POLL_US);
    if (path)
        unlink(path);
    hd_free(path);
    return list;
}

/* -- Clearing away --------------------------------------------------------------------------------
 */

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char *inside = hd_format("%s/%s", path, entry->d_name);
        if (inside && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(inside);
        hd_free(inside);
    }
    if (folder)
        closedir(folder);
    rmdir(path);
}

static void remove_iteration(const char *state, int64_t iteration, const char *suffix)
{
    char *path = hd_checkpoint_format_path(state, iteration, suffix);
    if (path)
        remove_folder(path);
    hd_free(path);
}

/* Adds the journal files that the checkpoint of an iteration needs. */
static void add_needed_journals(const char *state, int64_t iteration, json_t *needed)
{
    char *path = hd_checkpoint_format_path(state, iteration, "/manifest.json");
    json_t *manifest = path ? json_load_file(path, 0, NULL) : NULL;
    json_object_update(needed, json_object_get(manifest, "journal_files"));
    json_decref(manifest);
    hd_free(path);
}

static void remove_journals(const struct hd_checkpoint_writer *c, json_t *needed)
{
    char *folder_path = hd_format("%s/journal", c->state);
    DIR *folder = folder_path ? opendir(folder_path) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || !dot || json_object_get(needed, entry->d_name) ||
            strtoll(dot + 1, NULL, 10) > c->iteration)
            continue;
        char *path = hd_format("%s/%s", folder_path, entry->d_name);
        if (path)
            unlink(path);
        hd_free(path);
    }
    if (folder)
        closedir(folder);
    hd_free(folder_path);
}

/* Checkpoints beyond the newest, and the journal files that only these needed. */
static void remove_old(const struct hd_checkpoint_writer *c)
{
    int64_t *iterations;
    const int n = hd_checkpoint_list_iterations(c->state, &iterations);
    json_t *needed = json_object();
    for (int i = 0; i < n; i++)
        if (i < n - c->keep)
            remove_iteration(c->state, iterations[i], "");
        else
            add_needed_journals(c->state, iterations[i], needed);
    if (n > 0) {
        remove_journals(c, needed);
        hd_free(iterations);
    }
    json_decref(needed);
}

void hd_checkpoint_clear_unfinished(struct hd_checkpoint_writer *c, int64_t from)
{
    DIR *folder = opendir(c->state);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char *path = hd_format("%s/%s", c->state, entry->d_name);
        const size_t length = strlen(entry->d_name);
        int64_t iteration;
        if (!path || sscanf(entry->d_name, "iteration_%" SCNd64, &iteration) != 1)
            ;
        else if ((length > 5 && strcmp(entry->d_name + length - 5, ".part") == 0) ||
                 iteration > from)
            remove_folder(path);
        hd_free(path);
    }
    if (folder)
        closedir(folder);
}

/* -- Rank 0 joins the lists -----------------------------------------------------------------------
 */

/* The journal files that the lists name; those of earlier checkpoints are in their manifests. */
static void add_older_journals(const struct hd_checkpoint_writer *c, json_t *manifest)
{
    json_t *known = json_object(), *now = json_object_get(manifest, "journal_files");
    int64_t *iterations;
    const int n = hd_checkpoint_list_iterations(c->state, &iterations);
    for (int i = 0; i < n; i++)
        add_needed_journals(c->state, iterations[i], known);
    if (n > 0)
        hd_free(iterations);
    const char *name;
    json_t *journal, *run;
    size_t at;
    json_object_foreach(json_object_get(manifest, "journals"), name, journal)
    {
        json_array_foreach(json_object_get(journal, "blocks"), at, run)
        {
            char file[256];
            snprintf(file, sizeof file, "%s.%" JSON_INTEGER_FORMAT, name,
                     json_integer_value(json_array_get(run, 2)));
            if (!json_object_get(now, file))
                json_object_set(now, file, json_object_get(known, file));
        }
    }
    json_decref(known);
}

static int write_manifest(const struct hd_checkpoint_writer *c, json_t *manifest)
{
    char *path = hd_checkpoint_format_path(c->state, c->iteration, ".part/manifest.json");
    json_object_set_new(manifest, "format", json_string("heddle checkpoint 1"));
    json_object_set_new(manifest, "iteration", json_integer(c->iteration));
    json_object_set(manifest, "head", c->metadata);
    add_older_journals(c, manifest);
    json_object_set_new(manifest, "hash",
                        hd_checkpoint_format_hash(hd_checkpoint_hash_manifest(manifest)));
    int status = path ? hd_checkpoint_write_json(path, manifest) : HD_ERR_NOMEM;
    hd_free(path);
    return status;
}

/* A link that is always there: the new one takes the old one's place. */
static void link_latest(const struct hd_checkpoint_writer *c)
{
    char *beside = hd_format("%s/.latest", c->state), *latest = hd_format("%s/latest", c->state);
    char *target = hd_format("iteration_%" PRId64, c->iteration);
    if (beside && latest && target) {
        unlink(beside);
        if (symlink(target, beside) == 0 && rename(beside, latest) != 0)
            unlink(beside);
    }
    hd_free(beside);
    hd_free(latest);
    hd_free(target);
}

static int sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error;
    }
    close(fd);
    return 0;
}

static int make_visible(const struct hd_checkpoint_writer *c)
{
    char *part = hd_checkpoint_format_path(c->state, c->iteration, ".part");
    char *whole = hd_checkpoint_format_path(c->state, c->iteration, "");
    int status = part && whole ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        int error = sync_folder(part);
        if (error == 0 && rename(part, whole) != 0)
            error = errno;
        if (error == 0)
            error = sync_folder(c->state);
        if (error != 0)
            status = hd_fail(HD_ERR_SYSTEM, "%s cannot be made: %s", whole, strerror(error));
    }
    hd_free(part);
    hd_free(whole);
    return status;
}

bool hd_checkpoint_join(const struct hd_checkpoint_writer *c, int status)
{
    json_t *manifest = status == HD_OK ? hd_checkpoint_list_files(c) : NULL;
    int culprit = status == HD_OK ? -1 : 0;
    for (int rank = 1; rank < c->ranks; rank++) {
        json_t *list = wait_for_list(c, rank), *part;
        const char *name;
        if (json_object_size(list) == 0 && culprit < 0)
            culprit = rank;
        json_object_foreach(list, name, part)
            json_object_update(json_object_get(manifest, name), part);
        json_decref(list);
    }
    if (culprit < 0)
        status = write_manifest(c, manifest);
    if (culprit < 0 && status == HD_OK)
        status = make_visible(c);
    json_decref(manifest);
    if (culprit < 0 && status == HD_OK) {
        link_latest(c);
        remove_old(c);
        return true;
    }
    remove_iteration(c->state, c->iteration, ".part");
    if (!atomic_load(&c->abandoned))
        hd_log(HD_LOG_WARN,
               "the checkpoint of iteration %" PRId64
               " could not be written by rank %d; training continues, earlier checkpoints are kept",
               c->iteration, culprit < 0 ? 0 : culprit);
    return false;
}
