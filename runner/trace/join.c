/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the parts of a trace that ranks have left. */
#include "runner/trace/trace_file_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>

static int read_parts(struct hd_trace_file *trace, int (*get)(void *arg, int rank, char **text_p),
                      void *arg)
{
    for (int rank = 0; rank < trace->ranks; rank++) {
        char *text;
        char path[32];
        snprintf(path, sizeof path, "the part of rank %d", rank);
        HD_TRY(get(arg, rank, &text));
        const int status = hd_trace_read_lines(trace, path, text);
        hd_free(text);
        HD_TRY(status);
    }
    return HD_OK;
}

int hd_trace_file_join(int ranks, const struct hd_comm_hosts *hosts, int64_t origin_ns,
                       int (*get)(void *arg, int rank, char **text_p), void *arg,
                       struct hd_trace_file **trace_p)
{
    struct hd_trace_file *trace = hd_alloc(1, sizeof *trace);
    if (!trace)
        return HD_ERR_NOMEM;
    trace->ranks = ranks;
    trace->hosts = *hosts;
    int status = read_parts(trace, get, arg);
    if (status == HD_OK) {
        hd_trace_shift(trace, 0, ranks, (double)origin_ns * -1e-3);
        status = hd_trace_file_align_clocks(trace);
    }
    if (status != HD_OK) {
        hd_trace_file_release(trace);
        return status;
    }
    hd_trace_complete(trace);
    *trace_p = trace;
    return HD_OK;
}
