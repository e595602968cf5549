/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/base/gpus.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/nccl/comm_nccl.h"
#include "runtime/engine/session.h"
#include "runtime/machine/gpu_arch.h"
#include "runtime/ranks/rendezvous.h"

#include <string.h>

/* Returns the GPUs of each rank where `sharing` of them divide `found`: a rank has no use for more
 * than it has shards. */
static int count_requested(const struct hd_run_spec *run_spec, int ranks, int sharing, int found)
{
    const int shards = (int)(run_spec->shards / ranks);
    int n = found / sharing > 0 ? found / sharing : found > 0;
    if (run_spec->settings.gpus > 0)
        n = run_spec->settings.gpus;
    return n < shards ? n : shards;
}

struct hd_plan_gpus hd_gpus_plan(const struct hd_run_spec *run_spec, int ranks)
{
    if (run_spec->settings.disables_gpus || !hd_plan_can_use_gpus(run_spec->graph))
        return (struct hd_plan_gpus){0};
    const int found = hd_session_supports_devices() ? hd_device_count() : 0;
    const int n = count_requested(
        run_spec, ranks, ranks, run_spec->settings.requires_gpus && found < ranks ? ranks : found);
    return (struct hd_plan_gpus){.n = n, .device_comm = ranks > 1 && n > 0};
}

static int fail_without_gpus(void)
{
    if (!hd_session_supports_devices())
        return hd_fail(HD_ERR_INPUT,
                       "policy.cuda is true, but this program was built without CUDA, "
                       "or with a StarPU without it (scripts/setup --cuda builds "
                       "both)");
    return hd_fail(HD_ERR_INPUT, "policy.cuda is true, but this machine has no GPU that CUDA can "
                                 "use (policy.cuda: auto takes what there is)");
}

/* Reads the user's map of GPUs; *n_p is 0 without one. */
static int read_map(const struct hd_run_spec *run_spec, int map[HD_GPUS_MAX], int *n_p)
{
    int64_t n;
    const int64_t *devices = hd_config_get_ints(run_spec->config, "runtime.cuda_devices", &n);
    const bool none = n == 1 && devices[0] < 0;
    if (n > HD_GPUS_MAX)
        return hd_fail(HD_ERR_INPUT, "runtime.cuda_devices: a machine has at most %d GPUs",
                       HD_GPUS_MAX);
    for (int64_t i = 0; i < n; i++)
        map[i] = (int)devices[i];
    *n_p = none ? 0 : (int)n;
    return HD_OK;
}

static bool is_mapped(const int *map, int n_map, int device)
{
    bool found = n_map == 0;
    for (int i = 0; i < n_map; i++)
        found = found || map[i] == device;
    return found;
}

/* -- Of one rank ------------------------------------------------------------------------------- */

/* Uses no GPU where this build has no kernels for one of those that may be used. */
static int check_arch(const struct hd_run_spec *run_spec, struct hd_gpus *gpus)
{
    char text[HD_GPU_ARCH_BYTES];
    int n_map, map[HD_GPUS_MAX];
    HD_TRY(read_map(run_spec, map, &n_map));
    for (int i = 0; i < gpus->n_found; i++) {
        if (!is_mapped(map, n_map, i) || hd_gpu_arch_check(i, text))
            continue;
        if (run_spec->settings.requires_gpus)
            return hd_fail(HD_ERR_INPUT, "policy.cuda is true, but %s", text);
        hd_log(HD_LOG_WARN, "no GPU is used: %s", text);
        gpus->n_found = 0;
    }
    return HD_OK;
}

int hd_gpus_find(const struct hd_run_spec *run_spec, const struct hd_topology *topology,
                 const struct hd_world *world, struct hd_gpus *gpus_p)
{
    *gpus_p = (struct hd_gpus){0};
    if (run_spec->settings.disables_gpus)
        return HD_OK;
    if (!hd_session_supports_devices() || hd_device_count() == 0)
        return run_spec->settings.requires_gpus ? fail_without_gpus() : HD_OK;
    if (!hd_plan_can_use_gpus(run_spec->graph)) {
        if (world->rank == 0)
            hd_log(HD_LOG_INFO, "no GPU is used: this graph's gradients are computed on CPUs only");
        return HD_OK;
    }
    gpus_p->n_found = hd_gpus_list(topology, gpus_p->found);
    return check_arch(run_spec, gpus_p);
}

/* -- Of all ranks ------------------------------------------------------------------------------ */

/* Lets several ranks exchange by NCCL where it can be had, or else by the host's memory. */
static int choose_path(int ranks_on_gpu, int rank, bool fast, struct hd_plan_gpus *plan)
{
    enum hd_gpu_path path = HD_GPU_PATH_HOST;
    char text[HD_GPU_TEXT_BYTES] = "";
    int version;
    if (hd_nccl_get_version(&version) != HD_OK) {
        hd_log(HD_LOG_INFO, "gradients travel between GPUs by the host's memory");
        return HD_OK;
    }
    const int status = hd_gpu_path_choose(ranks_on_gpu, version, &path, text, sizeof text);
    if (status != HD_OK)
        return rank == 0 ? hd_fail(status, "%s", text) : status;
    if (text[0])
        hd_log(HD_LOG_INFO, "%s", text);
    if (path == HD_GPU_PATH_NCCL_SHARED)
        hd_nccl_share_gpus();
    plan->device_comm = path != HD_GPU_PATH_HOST;
    if (plan->device_comm && fast)
        hd_log(HD_LOG_INFO, "gradients are added in NCCL's own order (runtime.reduction: nccl): "
                            "results depend on the number of ranks and on NCCL");
    return HD_OK;
}

/* A table with a row of so many bytes for each rank. */
struct table {
    char *rows;
    int64_t bytes;
};

static int take_row(void *arg, int rank, const void *data, int64_t bytes)
{
    const struct table *table = arg;
    memcpy(table->rows + rank * table->bytes, data, (size_t)bytes);
    return HD_OK;
}

/* Makes a table of what ranks say, equal on all; table->rows are the caller's, to hd_free. */
static int gather(const struct hd_world *world, struct hd_rendezvous *rendezvous, const void *own,
                  struct table *table)
{
    table->rows = hd_alloc(world->world, (size_t)table->bytes);
    if (!table->rows)
        return HD_ERR_NOMEM;
    if (!rendezvous)
        return take_row(table, 0, own, table->bytes);
    return hd_rendezvous_gather_all(rendezvous, own, table->bytes, take_row, table);
}

/* Returns how many GPUs each rank gets: as many as the one that can have fewest. */
static int count_of_each(const struct hd_run_spec *run_spec, const struct hd_world *world,
                         const struct hd_gpu_view *views, int n_map)
{
    int least = HD_GPUS_MAX;
    for (int rank = 0; rank < world->world; rank++) {
        const int sharing = hd_gpus_find_group(views, world->world, rank).ranks;
        int n = count_requested(run_spec, world->world, sharing, (int)views[rank].n);
        if (n_map > 0)
            n = n_map / sharing > 0 ? n_map / sharing : 1;
        if (views[rank].n == 0)
            n = 0;
        least = n < least ? n : least;
    }
    return least;
}

/* Chooses this rank's GPUs, of those that it divides with the ranks that are shown the same. */
static int choose_share(const struct hd_run_spec *run_spec, const struct hd_world *world,
                        const struct hd_gpu_view *views, struct hd_gpus *gpus)
{
    int n_map, map[HD_GPUS_MAX];
    const struct hd_gpu_group group = hd_gpus_find_group(views, world->world, world->rank);
    HD_TRY(read_map(run_spec, map, &n_map));
    gpus->plan.n = count_of_each(run_spec, world, views, n_map);
    if (gpus->plan.n == 0 && gpus->n_found > 0)
        hd_log(HD_LOG_WARN, "no GPU is used: another rank has none");
    if (gpus->plan.n == 0)
        return HD_OK;
    const struct hd_gpu_request request = {
        .ranks = group.ranks,
        .per_rank = gpus->plan.n,
        .map = n_map > 0 ? map : NULL,
        .n_map = n_map,
    };
    return hd_gpus_assign(gpus->found, gpus->n_found, &request, group.rank, &gpus->share);
}

/* Ranks share a GPU that they call by one id. */
static int join_gpus(const struct hd_run_spec *run_spec, const struct hd_world *world,
                     struct hd_rendezvous *rendezvous, struct hd_gpus *gpus)
{
    uint64_t own[HD_GPUS_MAX];
    struct table ids = {.bytes = gpus->plan.n * (int64_t)sizeof *own};
    for (int i = 0; i < gpus->plan.n; i++)
        own[i] = gpus->found[gpus->share.devices[i]].id;
    int status = gather(world, rendezvous, own, &ids);
    if (status == HD_OK)
        status = choose_path(
            hd_gpus_count_sharing((uint64_t *)ids.rows, (int64_t)world->world * gpus->plan.n),
            world->rank, run_spec->settings.library_order, &gpus->plan);
    hd_free(ids.rows);
    return status;
}

int hd_gpus_choose(const struct hd_run_spec *run_spec, const struct hd_world *world,
                   struct hd_rendezvous *rendezvous, struct hd_gpus *gpus)
{
    const struct hd_gpu_view own = hd_gpus_view(gpus->found, gpus->n_found);
    struct table views = {.bytes = sizeof own};
    if (run_spec->settings.disables_gpus)
        return HD_OK;
    int status = gather(world, rendezvous, &own, &views);
    if (status == HD_OK)
        status = choose_share(run_spec, world, (const struct hd_gpu_view *)views.rows, gpus);
    hd_free(views.rows);
    if (status == HD_OK && gpus->plan.n > 0 && world->world > 1)
        status = join_gpus(run_spec, world, rendezvous, gpus);
    return status;
}
