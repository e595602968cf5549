/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/transport.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm_mpi.h"

#include <string.h>

static bool chosen(const struct hd_train *train, const char *name)
{
    return strcmp(hd_config_text(train->job.config, "runtime.transport"), name) == 0;
}

int hd_transport_find_root(struct hd_train *train)
{
    return train->world.start == HD_START_MPIRUN ? hd_mpi_meet(&train->world) : HD_OK;
}

/* Every rank of a run is told the same, so all go the same way. */
static int is_shared(struct hd_train *train, bool *shared_p)
{
    bool one_host;
    HD_TRY(hd_store_one_host(train->store, &one_host));
    *shared_p = chosen(train, "shm") || (chosen(train, "auto") && one_host);
    if (*shared_p && !one_host)
        return hd_fail(HD_ERR_INPUT,
                       "runtime.transport is shm, but the ranks are on several hosts");
    if (!*shared_p && train->world.start == HD_START_ENV)
        return hd_fail(HD_ERR_INPUT,
                       "between hosts CPUs exchange by MPI, which ranks cannot join that are "
                       "started one by one: start all of them as 'mpirun -n %d runner run …' or "
                       "'srun -n %d runner run …'",
                       train->world.world, train->world.world);
    return HD_OK;
}

int hd_transport_open(struct hd_train *train)
{
    const int64_t payload = hd_plan_payload(train->plan), area = train->plan->shared_bytes;
    struct hd_links *links;
    bool shared;
    HD_TRY(is_shared(train, &shared));
    if (shared) {
        hd_mpi_leave();
        return hd_comm_create(&train->world, train->store, payload, area, &train->comm);
    }
    if (train->world.start == HD_START_SRUN)
        HD_TRY(hd_mpi_meet(&train->world));
    HD_TRY(hd_mpi_links(&links));
    return hd_comm_create_apart(&train->world, links, payload, area, &train->comm);
}
