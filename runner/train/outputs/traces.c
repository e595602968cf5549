/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/outputs/traces.h"

#include "runner/trace/write.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/trace.h"
#include "runtime/io/base/files.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char part_message[] = "trace";

int hd_traces_open(struct hd_train *train)
{
    const struct hd_world *world = &train->ranks.world;
    return train->options->trace
               ? hd_observer_create(train->run_spec.shards / world->world * world->rank,
                                    train->ranks.comm, &train->trace.observer)
               : HD_OK;
}

void hd_traces_close(struct hd_train *train)
{
    hd_observer_destroy(train->trace.observer);
    train->trace.observer = NULL;
}

void hd_traces_begin_iteration(struct hd_train *train)
{
    if (train->trace.observer &&
        hd_observer_begin_iteration(train->trace.observer,
                                    hd_executor_get_counter(train->executor, "iteration"),
                                    hd_executor_get_counter(train->executor, "update")) != HD_OK)
        hd_session_fail(train->session, HD_ERR_NOMEM, "no memory for the trace");
}

/* -- Parts ------------------------------------------------------------------------------------- */

/* Times are those of this rank's clock. */
static void write_part(const struct hd_train *train, FILE *file)
{
    const int rank = train->ranks.world.rank;
    hd_trace_write(hd_session_get_trace(train->session), file, rank, 0);
    fputs(",\n", file);
    hd_observer_write(train->trace.observer, rank, file);
    fputs("}\n", file);
}

static char *name_part(const struct hd_train *train, int rank)
{
    return hd_format("%s/trace.rank%d.json", train->dir, rank);
}

static int write_file(const char *path, int (*write)(const void *arg, FILE *file), const void *arg)
{
    struct hd_file_draft draft;
    HD_TRY(hd_file_draft_open(path, &draft));
    int status = write(arg, draft.file);
    if (status == HD_OK)
        status = hd_file_draft_publish(&draft);
    hd_file_draft_discard(&draft);
    return status;
}

static int write_own(const void *train, FILE *file)
{
    write_part(train, file);
    return HD_OK;
}

int hd_traces_leave_part(struct hd_train *train)
{
    if (!train->trace.observer)
        return HD_OK;
    char *path = name_part(train, train->ranks.world.rank);
    int status = path ? write_file(path, write_own, train) : HD_ERR_NOMEM;
    hd_free(path);
    if (status == HD_OK)
        hd_rendezvous_send_message(train->ranks.rendezvous, 0, part_message, sizeof part_message);
    return status;
}

bool hd_traces_receive(struct hd_train *train, const void *data, int64_t bytes)
{
    if (bytes != sizeof part_message || memcmp(data, part_message, sizeof part_message) != 0)
        return false;
    atomic_fetch_add(&train->trace.parts, 1);
    return true;
}

/* -- The whole --------------------------------------------------------------------------------- */

static int wait_for_parts(const struct hd_train *train)
{
    enum { LIMIT_S = 60, NAP_MS = 5 };
    const int64_t end_ns = hd_clock_get_ns() + LIMIT_S * 1000000000LL;
    while (train->trace.parts < train->ranks.world.world - 1) {
        if (train->lost_rank >= 0 || hd_clock_get_ns() > end_ns)
            return hd_fail(HD_ERR_PEER, "there is no trace: only %d of %d ranks left their part",
                           1 + train->trace.parts, train->ranks.world.world);
        nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
    }
    return HD_OK;
}

static int read_own(const struct hd_train *train, char **text_p)
{
    size_t bytes;
    FILE *memory = open_memstream(text_p, &bytes);
    if (memory)
        write_part(train, memory);
    if (memory && fclose(memory) == 0)
        return HD_OK;
    free(*text_p);
    return hd_fail(HD_ERR_NOMEM, "no memory for the trace");
}

static int read_part(void *arg, int rank, char **text_p)
{
    const struct hd_train *train = arg;
    *text_p = NULL;
    if (rank == train->ranks.world.rank)
        return read_own(train, text_p);
    char *path = name_part(train, rank);
    int status = path ? hd_file_read(path, HD_INPUT_RUN, text_p, NULL) : HD_ERR_NOMEM;
    if (status == HD_OK)
        unlink(path);
    hd_free(path);
    return status;
}

static int write_joined(const void *trace, FILE *file)
{
    return hd_trace_file_write_json(trace, file);
}

int hd_traces_write(struct hd_train *train)
{
    struct hd_trace_file *trace;
    const struct hd_comm *comm = train->ranks.comm;
    if (!train->trace.observer)
        return HD_OK;
    HD_TRY(wait_for_parts(train));
    const struct hd_comm_hosts hosts = {comm ? hd_comm_count_hosts(comm) : 1,
                                        comm ? hd_comm_count_host_ranks(comm)
                                             : train->ranks.world.world};
    char *path = hd_format("%s/trace.json", train->dir);
    int status = path ? hd_trace_file_join(train->ranks.world.world, &hosts, train->timing.train_ns,
                                           read_part, train, &trace)
                      : HD_ERR_NOMEM;
    if (status == HD_OK) {
        status = write_file(path, write_joined, trace);
        if (status == HD_OK && hd_bounds_find(trace, 0, &train->trace.bounds) != HD_OK)
            hd_log(HD_LOG_WARN, "the bounds of the rate are not known");
        hd_trace_file_release(trace);
    }
    hd_free(path);
    return status;
}
