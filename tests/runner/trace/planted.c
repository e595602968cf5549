/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runner/trace/planted.h"

#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

struct planting {
    const struct planted *tasks;
    int n, workers, iterations, ranks;
    double length_us, ahead_us;
};

/* Each iteration has its tasks, and a wait of the submitter for all of them. */
static int get_number(const struct planting *planting, int iteration, int task)
{
    return 1 + iteration * (planting->n + 1) + task;
}

static double get_begin(const struct planting *planting, int rank, int iteration)
{
    return 1000 + iteration * planting->length_us + rank * planting->ahead_us;
}

static void write_events(const struct planting *planting, int rank, FILE *file)
{
    fprintf(file, "{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d}", rank);
    for (int lane = 0; lane <= planting->workers; lane++)
        fprintf(file,
                ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
                "{\"name\":\"%s\"}}",
                rank, lane, lane < planting->workers ? "worker" : "collectives");
    for (int i = 0; i < planting->iterations; i++)
        for (int k = 0; k < planting->n; k++)
            fprintf(file,
                    ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
                    "\"dur\":%.3f,\"args\":{\"iteration\":%d,\"shard\":0,\"part\":0,\"item\":0,"
                    "\"stage\":0,\"task\":%d,\"fused\":0}}",
                    planting->tasks[k].name, rank, planting->tasks[k].lane,
                    get_begin(planting, rank, i) + planting->tasks[k].begin,
                    planting->tasks[k].length, i, get_number(planting, i, k));
}

static void write_tasks(const struct planting *planting, int rank, FILE *file)
{
    fputs("\n],\n\"iterations\":[", file);
    for (int i = 0; i <= planting->iterations; i++)
        fprintf(file, "%s\n[%d,%d,%d,%d,%.3f]", i > 0 ? "," : "", rank, i,
                get_number(planting, i, 0), i + 1, get_begin(planting, rank, i));
    fputs("\n],\n\"tasks\":[", file);
    for (int i = 0; i <= planting->iterations; i++) {
        const double at = get_begin(planting, rank, i);
        for (int k = 0; k < planting->n && i < planting->iterations; k++) {
            const struct planted *task = &planting->tasks[k];
            const int number = get_number(planting, i, k);
            fprintf(file, "%s\n[%d,%d,\"%s\",%d,0,%d,0,0,0,0,0,0,0,%d,%d,%d,%lld,%lld,%.3f,[",
                    i + k > 0 ? "," : "", rank, number, task->name,
                    task->lane == planting->workers ? HD_SUBMITTED_SYNC : HD_SUBMITTED_TASK, i, i,
                    1 - rank, 2 * (planting->ranks - 1), (long long)task->bytes,
                    (long long)task->bytes, at);
            if (task->before > 0)
                fprintf(file, "%d", number - task->before);
            fputs("]]", file);
        }
        if (i == planting->iterations)
            break;
        fprintf(file, ",\n[%d,%d,\"wait\",2,0,0,-1,0,0,0,0,0,0,0,0,0,0,0,%.3f,[", rank,
                get_number(planting, i, planting->n), at);
        for (int k = 0; k < planting->n; k++)
            fprintf(file, "%s%d", k > 0 ? "," : "", get_number(planting, i, k));
        fputs("]]", file);
    }
    fputs("\n]}\n", file);
}

static int get(void *arg, int rank, char **text_p)
{
    size_t bytes;
    FILE *file = open_memstream(text_p, &bytes);
    write_events(arg, rank, file);
    write_tasks(arg, rank, file);
    fclose(file);
    return HD_OK;
}

struct hd_trace_file *planted_read(const struct planted *tasks, int n, int workers, int iterations,
                                   double length_us, int ranks, double ahead_us)
{
    struct planting planting = {tasks, n, workers, iterations, ranks, length_us, ahead_us};
    const struct hd_comm_hosts hosts = {ranks, 1};
    struct hd_trace_file *trace;
    ck_assert_int_eq(hd_trace_file_join(ranks, &hosts, 0, get, &planting, &trace), HD_OK);
    return trace;
}
