/* SPDX-License-Identifier: Apache-2.0 */
/* Removes checkpoints that are not kept, and what was left unfinished. */
#include "runtime/base/alloc.h"
#include "runtime/io/base/files.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hd_checkpoint_remove_iteration(const char *state, int64_t iteration, const char *suffix)
{
    char *path = hd_checkpoint_format_path(state, iteration, suffix);
    if (path)
        hd_folder_remove(path);
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

void hd_checkpoint_remove_old(const struct hd_checkpoint_writer *c)
{
    int64_t *iterations;
    const int n = hd_checkpoint_list_iterations(c->state, &iterations);
    json_t *needed = json_object();
    for (int i = 0; i < n; i++)
        if (i < n - c->options.keep)
            hd_checkpoint_remove_iteration(c->state, iterations[i], "");
        else
            hd_checkpoint_add_journal_files(c->state, iterations[i], needed);
    if (n > 0) {
        remove_journals(c, needed);
        hd_free(iterations);
    }
    json_decref(needed);
}

void hd_checkpoint_remove_unfinished(const struct hd_checkpoint_writer *c, int64_t from)
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
            hd_folder_remove(path);
        hd_free(path);
    }
    if (folder)
        closedir(folder);
}
