/* SPDX-License-Identifier: Apache-2.0 */
/* Makes StarPU's tasks, and turns accesses into its handles and modes. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"

#include <stdlib.h>

struct handle_list {
    int n;
    starpu_data_handle_t *handles;
    enum starpu_data_access_mode *modes;
};

static enum starpu_data_access_mode starpu_mode(enum hd_mode mode)
{
    return mode == HD_READ ? STARPU_R : mode == HD_WRITE ? STARPU_W : STARPU_RW;
}

/* A handle may stand only once in a task: the stronger access wins. */
static void add_handle(struct handle_list *list, starpu_data_handle_t handle,
                       enum starpu_data_access_mode mode)
{
    for (int i = 0; i < list->n; i++)
        if (list->handles[i] == handle) {
            list->modes[i] |= mode;
            return;
        }
    list->handles[list->n] = handle;
    list->modes[list->n++] = mode;
}

static int64_t count_handles(const struct hd_access *accesses, int n)
{
    int64_t needed = 1; /* one for a token */
    for (int i = 0; i < n; i++)
        if (accesses[i].buffer)
            needed += (accesses[i].bucket == HD_ALL_BUCKETS ? accesses[i].buffer->buckets : 1) *
                      (accesses[i].partial == HD_ALL_PARTIALS ? accesses[i].buffer->partials : 1);
    return needed;
}

static void add_access(struct handle_list *list, const struct hd_access *access)
{
    const struct hd_buffer *buffer = access->buffer;
    if (!buffer)
        return;
    int bucket = access->bucket == HD_ALL_BUCKETS ? 0 : access->bucket;
    int buckets = access->bucket == HD_ALL_BUCKETS ? buffer->buckets : bucket + 1;
    int64_t partial = access->partial == HD_ALL_PARTIALS ? 0 : access->partial;
    int64_t partials = access->partial == HD_ALL_PARTIALS ? buffer->partials : partial + 1;
    for (int p = bucket; p < buckets; p++)
        for (int64_t l = partial; l < partials; l++)
            add_handle(list, buffer->handles[p * buffer->partials + l], starpu_mode(access->mode));
}

static int set_handles(struct starpu_task *starpu, const struct hd_access *accesses, int n,
                       starpu_data_handle_t token)
{
    struct handle_list list = {.handles = starpu->handles, .modes = starpu->modes};
    int64_t needed = count_handles(accesses, n);
    if (needed > STARPU_NMAXBUFS) { /* StarPU frees these with the task */
        list.handles = starpu->dyn_handles = malloc((size_t)needed * sizeof *list.handles);
        list.modes = starpu->dyn_modes = malloc((size_t)needed * sizeof *list.modes);
        if (!list.handles || !list.modes)
            return hd_fail(HD_ERR_NOMEM, "no memory for the handles of task %s", starpu->name);
    }
    for (int i = 0; i < n; i++)
        add_access(&list, &accesses[i]);
    if (token)
        add_handle(&list, token, STARPU_RW);
    starpu->nbuffers = list.n;
    return HD_OK;
}

struct starpu_task *hd_starpu_make(const char *name, const struct hd_access *accesses, int n,
                                   starpu_data_handle_t token, void (*ended)(void *arg), void *arg)
{
    struct starpu_task *starpu = starpu_task_create();
    starpu->name = name;
    starpu->callback_func = ended;
    starpu->callback_arg = arg;
    if (set_handles(starpu, accesses, n, token) == HD_OK)
        return starpu;
    starpu->destroy = 0;
    starpu_task_destroy(starpu);
    return NULL;
}
