/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a rank in the checkpoint in progress: handed over, then written. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int hd_checkpoint_fail_nomem(struct hd_checkpoint_writer *c)
{
    snprintf(c->why, HD_FILE_WHY, "no memory for a copy of its values");
    return HD_ERR_NOMEM;
}

int hd_checkpoint_add_file(struct hd_checkpoint_writer *c, const char *name, void *data,
                           int64_t bytes, bool journal)
{
    if (c->skips) {
        free(data);
        return HD_OK;
    }
    int status = hd_grow((void **)&c->files, &c->files_capacity, c->n_files + 1, sizeof *c->files);
    char *name_copy = status == HD_OK ? hd_strdup(name) : NULL;
    if (!name_copy) {
        free(data);
        return hd_checkpoint_fail_nomem(c);
    }
    c->files[c->n_files++] = (struct file){name_copy, data, bytes, journal};
    return HD_OK;
}

int hd_checkpoint_writer_add(struct hd_checkpoint_writer *c, const char *name, void *data,
                             int64_t bytes)
{
    return hd_checkpoint_add_file(c, name, data, bytes, false);
}

char *hd_checkpoint_format_file(const struct hd_checkpoint_writer *c, const struct file *file)
{
    if (file->journal)
        return hd_format("%s/journal/%s.%" PRId64, c->state, file->name, c->iteration);
    return hd_format("%s/iteration_%" PRId64 ".part/%s", c->state, c->iteration, file->name);
}

/* Somebody may have put a link at the name of the folder, which would lead the files elsewhere. */
static void check_folder(struct hd_checkpoint_writer *c)
{
    struct stat is;
    char *path = hd_checkpoint_format_path(c->state, c->iteration, ".part");
    if (path && lstat(path, &is) == 0 && !S_ISDIR(is.st_mode))
        snprintf(c->why, HD_FILE_WHY, "%.512s is %s, expected a directory", path,
                 hd_input_get_kind(is.st_mode));
    hd_free(path);
}

void hd_checkpoint_write_files(struct hd_checkpoint_writer *c)
{
    bool journal = false;
    check_folder(c);
    for (int64_t i = 0; i < c->n_files && !c->why[0]; i++) {
        char *path = hd_checkpoint_format_file(c, &c->files[i]), why[HD_FILE_WHY] = "no memory";
        journal = journal || c->files[i].journal;
        if (!path || hd_file_try_write_atomic(path, c->files[i].data, c->files[i].bytes, why))
            memcpy(c->why, why, HD_FILE_WHY);
        hd_free(path);
    }
    char *folder = journal && !c->why[0] ? hd_format("%s/journal", c->state) : NULL;
    if (folder)
        hd_folder_sync(folder, c->why);
    hd_free(folder);
}

void hd_checkpoint_clear_files(struct hd_checkpoint_writer *c)
{
    for (int64_t i = 0; i < c->n_files; i++) {
        hd_free(c->files[i].name);
        free(c->files[i].data);
    }
    c->n_files = 0;
    json_decref(c->metadata);
    c->metadata = NULL;
}
