/* SPDX-License-Identifier: Apache-2.0 */
/* The codelets: one for each verb, with its performance model where models are on. A model tells
 * times apart by the shapes of a task, since handles have no size here. */
#include "runtime/base/alloc.h"
#include "runtime/engine/submit_internal.h"
#include "runtime/engine/tsan_internal.h"

#include <starpu_hash.h>
#include <stdio.h>

/* Handles stand for memory that StarPU does not own, so it need not bring them to where a task
 * runs. Told so, it creates no event each time a handle is next used on the other side. It takes
 * one entry for each handle of a task; the second form is for tasks with more. */
#ifdef STARPU_SPECIFIC_NODE_NONE
enum { HANDLES_MAX = 4096 };
static int no_nodes[HANDLES_MAX] = {[0 ... HANDLES_MAX - 1] = STARPU_SPECIFIC_NODE_NONE};
static void do_without_nodes(struct starpu_codelet *form)
{
    form->specific_nodes = 1;
    form->dyn_nodes = no_nodes;
}
#else
enum { HANDLES_MAX = 0 };
static void do_without_nodes(struct starpu_codelet *form)
{
    (void)form;
}
#endif

enum { SYMBOL_BYTES = 64 };

struct hd_codelet {
    struct hd_codelet *next;
    const char *verb;
    char symbol[SYMBOL_BYTES]; /* which StarPU names the model's file by */
    struct starpu_perfmodel model;
    struct starpu_codelet forms[2];
};

/* -- What StarPU calls ------------------------------------------------------------------------- */

static void run_task(void *buffers[], void *arg)
{
    (void)buffers;
    struct hd_task_record *record = arg;
    hd_tsan_acquire(record);
    hd_tsan_begin(starpu_task_get_current());
    record->status =
        hd_session_execute(record->session, hd_session_get_lane(record->session), &record->task);
    hd_tsan_end(starpu_task_get_current());
    hd_tsan_release(record);
}

/* The task has ended when the work on the worker's stream has. */
static void launch_task(void *buffers[], void *arg)
{
    (void)buffers;
    struct hd_task_record *record = arg;
    hd_session_bind_gpu_worker(record->session, record->task.home);
    hd_session_launch_gpu_task(record->session, record, hd_session_get_local_stream());
}

/* -- Models ------------------------------------------------------------------------------------ */

/* Returns the bytes of a view that a task works on, as far as its spec says. */
static int64_t count_bytes(const struct hd_view *view)
{
    int64_t lo, hi;
    if (!view->spec || view->spec->buckets <= 1)
        return view->spec ? view->spec->bytes : 0;
    hd_spec_get_bucket(view->spec, view->bucket, &lo, &hi);
    return (hi - lo) * (int64_t)sizeof(float);
}

static size_t get_size(struct starpu_task *starpu, unsigned implementation)
{
    const struct hd_task_record *record = starpu->cl_arg;
    (void)implementation;
    int64_t bytes = record->task.volume;
    for (int i = 0; i < record->task.n; i++)
        bytes += count_bytes(&record->task.views[i]);
    return (size_t)bytes;
}

/* Schedulers ask for it, on any thread. */
static uint32_t get_footprint(struct starpu_task *starpu)
{
    uint32_t footprint = 0;
    hd_tsan_acquire(starpu->cl_arg);
    for (const struct hd_task_record *record = starpu->cl_arg; record; record = record->fused) {
        const struct hd_task *task = &record->task;
        const struct hd_context *context = &task->context;
        const int64_t shape[] = {context->stage,
                                 context->items,
                                 context->joint_items,
                                 context->hi - context->lo,
                                 context->work_buffers != NULL,
                                 task->volume};
        footprint = starpu_hash_crc32c_be_n(shape, sizeof shape, footprint);
        for (int i = 0; i < task->n; i++) {
            const int64_t bytes = count_bytes(&task->views[i]);
            footprint = starpu_hash_crc32c_be_n(&bytes, sizeof bytes, footprint);
        }
    }
    hd_tsan_release(starpu->cl_arg);
    return footprint;
}

/* -- Codelets ---------------------------------------------------------------------------------- */

/* A name of fused tasks has dots, after which StarPU expects the name of a machine. */
static void write_symbol(const char *verb, char symbol[SYMBOL_BYTES])
{
    snprintf(symbol, SYMBOL_BYTES, "%s", verb);
    for (char *at = symbol; *at; at++)
        if (*at == '.')
            *at = '-';
}

static struct hd_codelet *make(const char *verb, bool with_model)
{
    struct hd_codelet *codelet = hd_alloc(1, sizeof *codelet);
    if (!codelet)
        return NULL;
    codelet->verb = verb;
    write_symbol(verb, codelet->symbol);
    codelet->model = (struct starpu_perfmodel){.type = STARPU_HISTORY_BASED,
                                               .symbol = codelet->symbol,
                                               .size_base = get_size,
                                               .footprint = get_footprint};
    for (int i = 0; i < 2; i++)
        codelet->forms[i] = (struct starpu_codelet){.cpu_funcs = {run_task},
                                                    .cuda_funcs = {launch_task},
                                                    .cuda_flags = {STARPU_CUDA_ASYNC},
                                                    .nbuffers = STARPU_VARIABLE_NBUFFERS,
                                                    .name = codelet->symbol,
                                                    .model = with_model ? &codelet->model : NULL};
    do_without_nodes(&codelet->forms[0]);
    return codelet;
}

struct hd_codelet *hd_codelet_find(struct hd_session *session, const char *verb)
{
    struct hd_codelet *codelet = session->starpu.codelets;
    while (codelet && codelet->verb != verb)
        codelet = codelet->next;
    if (codelet)
        return codelet;
    codelet = make(verb, session->starpu.models);
    if (!codelet)
        return NULL;
    codelet->next = session->starpu.codelets;
    return session->starpu.codelets = codelet;
}

/* The plan decides which processor a task is for, as its bits depend on that. */
void hd_codelet_apply(const struct hd_session *session, struct hd_codelet *codelet, int home,
                      struct starpu_task *starpu)
{
    starpu->cl = &codelet->forms[starpu->nbuffers > HANDLES_MAX];
    starpu->where = home == HD_HOST ? STARPU_CPU : STARPU_CUDA;
    if (home == HD_HOST)
        return;
    starpu->execute_on_a_specific_worker = 1;
    starpu->workerid = (unsigned)session->gpus[home - 1].worker;
}

void hd_session_free_codelets(struct hd_session *session)
{
    struct hd_codelet *codelet;
    while ((codelet = session->starpu.codelets)) {
        session->starpu.codelets = codelet->next;
        hd_free(codelet);
    }
}
