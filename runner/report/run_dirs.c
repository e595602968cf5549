/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/run_dirs.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

/* Takes the path over. */
static int add(struct hd_run_dirs *dirs, char *path)
{
    if (path && dirs->n < HD_DIRS_MAX) {
        dirs->paths[dirs->n++] = path;
        return HD_OK;
    }
    hd_free(path);
    return path ? hd_fail(HD_ERR_INPUT, "there are more than %d run directories", HD_DIRS_MAX)
                : HD_ERR_NOMEM;
}

static bool is_run(const char *dir)
{
    char *path = hd_format("%s/total_config.yaml", dir);
    const bool found = path && access(path, F_OK) == 0;
    hd_free(path);
    return found;
}

static int add_run_of(struct hd_run_dirs *dirs, const char *folder, const char *name)
{
    char *path = name[0] == '.' ? NULL : hd_format("%s/%s", folder, name);
    if (path && is_run(path))
        return add(dirs, path);
    hd_free(path);
    return HD_OK;
}

/* Adds the runs in a folder, or, without any, the folder: it is told of when it is read. */
static int add_folder(struct hd_run_dirs *dirs, const char *folder)
{
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, NULL, versionsort), before = dirs->n;
    int status = HD_OK;
    for (int i = 0; i < n; i++) {
        if (status == HD_OK)
            status = add_run_of(dirs, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (status == HD_OK && dirs->n == before)
        status = add(dirs, hd_strdup(folder));
    return status;
}

int hd_run_dirs_find(const char *const *given, int n, struct hd_run_dirs *dirs_p)
{
    for (int i = 0; i < n; i++)
        HD_TRY(is_run(given[i]) ? add(dirs_p, hd_strdup(given[i])) : add_folder(dirs_p, given[i]));
    return HD_OK;
}

void hd_run_dirs_release(struct hd_run_dirs *dirs)
{
    for (int i = 0; i < dirs->n; i++)
        hd_free(dirs->paths[i]);
    dirs->n = 0;
}
