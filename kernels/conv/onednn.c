/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/conv/isa.h"
#include "kernels/conv/onednn_internal.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static dnnl_engine_t engine;
static dnnl_status_t engine_status;

/* oneDNN's own variable goes before. */
static void limit_isa(void)
{
    static const dnnl_cpu_isa_t best[] = {[HD_ISA_V1] = dnnl_cpu_isa_sse41,
                                          [HD_ISA_V2] = dnnl_cpu_isa_sse41,
                                          [HD_ISA_V3] = dnnl_cpu_isa_avx2,
                                          [HD_ISA_V4] = dnnl_cpu_isa_avx512_core,
                                          [HD_ISA_V4_BF16] = dnnl_cpu_isa_avx512_core_bf16,
                                          [HD_ISA_V4_AMX] = dnnl_cpu_isa_avx512_core_amx};
    if (!getenv("ONEDNN_MAX_CPU_ISA") && !getenv("DNNL_MAX_CPU_ISA"))
        dnnl_set_max_cpu_isa(best[hd_isa_get()]);
}

void hd_dnnl_limit_isa(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, limit_isa);
}

static void make_engine(void)
{
    hd_dnnl_limit_isa();
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

dnnl_engine_t hd_dnnl_get_engine(void)
{
    return engine;
}

/* OpenMP gets a team of one thread for every caller, whatever OMP_NUM_THREADS says. */
int hd_dnnl_enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Thread_local bool alone;
    pthread_once(&once, make_engine);
    if (!alone)
        omp_set_num_threads(1);
    alone = true;
    return engine_status == dnnl_success
               ? HD_OK
               : hd_fail(HD_ERR_UNSUPPORTED, "oneDNN finds no CPU engine (status %d)",
                         engine_status);
}

int hd_dnnl_report_refusal(const char *what)
{
    return hd_fail(HD_ERR_UNSUPPORTED, "oneDNN %d.%d refuses a %s", DNNL_VERSION_MAJOR,
                   DNNL_VERSION_MINOR, what);
}

dnnl_primitive_attr_t hd_dnnl_get_attr(bool relu)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success)
        return NULL;
    bool made =
        dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success;
    if (made && relu)
        made = dnnl_post_ops_create(&ops) == dnnl_success &&
               hd_dnnl_append_relu(ops) == dnnl_success &&
               dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (!made) {
        dnnl_primitive_attr_destroy(attr);
        return NULL;
    }
    return attr;
}

void hd_dnnl_op_release(struct hd_dnnl_op *op)
{
    if (op->primitive)
        dnnl_primitive_destroy(op->primitive);
    for (int i = 0; i < op->n; i++)
        hd_dnnl_md_free(op->md[i]);
    *op = (struct hd_dnnl_op){0};
}

static const struct {
    int arg;
    dnnl_query_t query;
} known_args[] = {
    {DNNL_ARG_SRC, dnnl_query_src_md},
    {DNNL_ARG_DST, dnnl_query_dst_md},
    {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
    {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md},
    {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md},
    {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md},
    {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md},
};

hd_dnnl_const_md hd_dnnl_pd_get_md(hd_dnnl_pd pd, int arg)
{
    int index = arg == DNNL_ARG_BIAS || arg == DNNL_ARG_DIFF_BIAS;
    int base = arg == DNNL_ARG_BIAS        ? DNNL_ARG_WEIGHTS
               : arg == DNNL_ARG_DIFF_BIAS ? DNNL_ARG_DIFF_WEIGHTS
                                           : arg;
    for (size_t i = 0; i < sizeof known_args / sizeof *known_args; i++)
        if (known_args[i].arg == base)
            return dnnl_primitive_desc_query_md(pd, known_args[i].query, index);
    return NULL;
}

int64_t hd_dnnl_md_get_bytes(hd_dnnl_const_md md)
{
    return (int64_t)dnnl_memory_desc_get_size(md);
}

int hd_dnnl_op_create(dnnl_primitive_desc_t pd, const int *args, struct hd_dnnl_op *op_p)
{
    struct hd_dnnl_op op = {0};
    const char *name = "";
    bool made = dnnl_primitive_create(&op.primitive, pd) == dnnl_success;
    for (; made && args[op.n]; op.n++)
        made = (op.md[op.n] = hd_dnnl_md_copy(hd_dnnl_pd_get_md(pd, op.arg[op.n] = args[op.n]))) !=
               NULL;
    if (made) {
        op.arg[op.n] = DNNL_ARG_SCRATCHPAD;
        made = (op.md[op.n] = hd_dnnl_md_copy(hd_dnnl_pd_get_md(pd, DNNL_ARG_SCRATCHPAD))) != NULL;
        op.n++;
    }
    if (dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success)
        snprintf(op.name, sizeof op.name, "%s", name);
    dnnl_primitive_desc_destroy(pd);
    if (!made) {
        hd_dnnl_op_release(&op);
        return hd_dnnl_report_refusal("primitive");
    }
    *op_p = op;
    return HD_OK;
}

/* Memory objects are made for each call: they cost a fraction of a microsecond and must not be
 * shared between threads. */
int hd_dnnl_op_run(const struct hd_dnnl_op *op, void *const *handles)
{
    dnnl_exec_arg_t args[HD_DNNL_ARGS];
    dnnl_stream_t stream = NULL;
    int n = 0;
    bool done = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) == dnnl_success;
    for (; done && n < op->n; n++) {
        args[n].arg = op->arg[n];
        done = dnnl_memory_create(&args[n].memory, op->md[n], engine, handles[n]) == dnnl_success;
    }
    done = done && dnnl_primitive_execute(op->primitive, stream, n, args) == dnnl_success &&
           dnnl_stream_wait(stream) == dnnl_success;
    for (int i = 0; i < n; i++)
        dnnl_memory_destroy(args[i].memory);
    if (stream)
        dnnl_stream_destroy(stream);
    return done ? HD_OK : hd_fail(HD_ERR_TASK, "oneDNN could not run %s", op->name);
}

int hd_dnnl_reorder(hd_dnnl_const_md from, hd_dnnl_const_md to, struct hd_dnnl_op *op_p)
{
    static const int args[] = {DNNL_ARG_FROM, DNNL_ARG_TO, 0};
    dnnl_primitive_attr_t attr = hd_dnnl_get_attr(false);
    dnnl_primitive_desc_t pd = NULL;
    if (attr)
        dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return pd ? hd_dnnl_op_create(pd, args, op_p) : hd_dnnl_report_refusal("reorder");
}
