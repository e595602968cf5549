/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/base/run_dir.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

/* Returns the number of the last iteration of which `ckpt` has weights, or -1. */
static int64_t find_last_iteration(const char *ckpt)
{
    DIR *folder = opendir(ckpt);
    int64_t last = -1, number;
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (sscanf(entry->d_name, "iteration_%" SCNd64, &number) == 1 && number > last)
            last = number;
    if (folder)
        closedir(folder);
    return last;
}

/* Stores the path of the weights that a run has named as its best in result.json, if there are. */
static int find_named_weights(const char *dir, char **weights_p)
{
    char *path = hd_format("%s/result.json", dir);
    json_t *result = path ? json_load_file(path, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(result, "weights"));
    char *named = name ? hd_format("%s/%s", dir, name) : NULL;
    const int status = path && (named || !name) ? HD_OK : HD_ERR_NOMEM;
    if (named && access(named, F_OK) == 0)
        *weights_p = named;
    else
        hd_free(named);
    json_decref(result);
    hd_free(path);
    return status;
}

static int find_weights(const char *dir, char **weights_p)
{
    HD_TRY(find_named_weights(dir, weights_p));
    if (*weights_p)
        return HD_OK;
    char *best = hd_format("%s/ckpt/best/policy.safetensors", dir);
    char *ckpt = hd_format("%s/ckpt", dir);
    const int64_t last = ckpt ? find_last_iteration(ckpt) : -1;
    const bool has_best = best && access(best, F_OK) == 0;
    int status = best && ckpt ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK && !has_best && last < 0)
        status = hd_fail(HD_ERR_INPUT, "%s has no weights: there is no %s", dir, best);
    if (status == HD_OK)
        *weights_p = has_best
                         ? hd_strdup(best)
                         : hd_format("%s/iteration_%" PRId64 "/policy.safetensors", ckpt, last);
    hd_free(best);
    hd_free(ckpt);
    return status == HD_OK && !*weights_p ? HD_ERR_NOMEM : status;
}

int hd_run_dir_find_policy(const char *dir, char **config_p, char **weights_p)
{
    char *config = hd_format("%s/total_config.yaml", dir), *weights = NULL;
    int status = config ? HD_OK : HD_ERR_NOMEM;
    if (config && access(config, R_OK) != 0)
        status = hd_fail(HD_ERR_INPUT, "%s cannot be read: %m", config);
    if (status == HD_OK && weights_p)
        status = find_weights(dir, &weights);
    if (status != HD_OK) {
        hd_free(config);
        return status;
    }
    *config_p = config;
    if (weights_p)
        *weights_p = weights;
    return HD_OK;
}

int64_t hd_run_dir_find_last(const char *dir)
{
    char *ckpt = hd_format("%s/ckpt", dir);
    const int64_t last = ckpt ? find_last_iteration(ckpt) : -1;
    hd_free(ckpt);
    return last;
}
