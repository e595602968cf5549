/* SPDX-License-Identifier: Apache-2.0 */
/* Called by a worker whose body has failed. */
#include "runner/train/failed.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { FILES_MAX = 16 };

static int write_file(const char *path, const struct hd_context *context,
                      const struct hd_tensor_data *tensors, int64_t n, const char *why)
{
    static const char *const keys[] = {"why", "update", "iteration", "shard"};
    char update[32], iteration[32], shard[32];
    snprintf(update, sizeof update, "%" PRId64, context->update + 1);
    snprintf(iteration, sizeof iteration, "%" PRId64, context->iteration);
    snprintf(shard, sizeof shard, "%" PRId64, context->shard);
    const char *const values[] = {why, update, iteration, shard};
    return hd_safetensors_write(path, tensors, n, keys, values, 4);
}

/* Writes one file at a time, since several items of a step may find the same. */
void hd_failed_batch_write(const struct hd_context *context, const struct hd_view *views,
                           const char *why)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int files;
    const char *dir = context->dump_arg;
    struct hd_tensor_data tensors[HD_TENSORS_MAX];
    int64_t n = 0;
    for (int i = 0; i < context->n_views && n == 0; i++)
        if (views[i].spec && views[i].data && views[i].spec->type->tensors)
            n = views[i].spec->type->tensors(views[i].spec, views[i].data, tensors);
    char *path = hd_format("%s/failed/update_%" PRId64 "_shard_%" PRId64 ".safetensors", dir,
                           context->update + 1, context->shard);
    pthread_mutex_lock(&lock);
    if (path && n > 0 && files < FILES_MAX && access(path, F_OK) != 0 &&
        write_file(path, context, tensors, n, why) == HD_OK) {
        files++;
        hd_log(HD_LOG_WARN, "the batch is kept in %s", path);
    }
    pthread_mutex_unlock(&lock);
    hd_free(path);
}
