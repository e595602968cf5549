/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 joins the ranks' lists to a manifest and makes the checkpoint visible. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint_internal.h"
#include "runtime/io/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* -- The ranks' lists -------------------------------------------------------------------------- */

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

/* -- The folder -------------------------------------------------------------------------------- */

/* Replaces the link by a rename, so that there always is one. */
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
        status = hd_checkpoint_write_manifest(c, manifest);
    if (culprit < 0 && status == HD_OK)
        status = make_visible(c);
    json_decref(manifest);
    if (culprit < 0 && status == HD_OK) {
        link_latest(c);
        hd_checkpoint_remove_old(c);
        return true;
    }
    hd_checkpoint_remove_iteration(c->state, c->iteration, ".part");
    if (!atomic_load(&c->abandoned))
        hd_log(HD_LOG_WARN,
               "the checkpoint of iteration %" PRId64
               " could not be written by rank %d; training continues, earlier checkpoints are kept",
               c->iteration, culprit < 0 ? 0 : culprit);
    return false;
}
