/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/base/gpus.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/nccl/comm_nccl.h"
#include "runtime/engine/session.h"
#include "runtime/machine/gpu_arch.h"

#include <string.h>

/* Returns the GPUs of each rank if `found` are there: a rank has no use for more than it has
 * shards.
 */
static int count_requested(const struct hd_run_spec *run_spec, int ranks, int found)
{
    const int shards = (int)(run_spec->shards / ranks);
    int n = found / ranks > 0 ? found / ranks : found > 0;
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
        run_spec, ranks, run_spec->settings.requires_gpus && found < ranks ? ranks : found);
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

/* Lets several ranks exchange by NCCL where it can be had, or else by the host's memory. */
static int choose_path(const struct hd_world *world, bool fast, struct hd_gpus *gpus)
{
    enum hd_gpu_path path = HD_GPU_PATH_HOST;
    char text[HD_GPU_TEXT_BYTES] = "";
    int version;
    gpus->plan.device_comm = false;
    if (world->world == 1)
        return HD_OK;
    if (hd_nccl_get_version(&version) != HD_OK) {
        hd_log(HD_LOG_INFO, "gradients travel between GPUs by the host's memory");
        return HD_OK;
    }
    if (hd_gpu_path_choose(gpus->share.ranks_on_gpu, version, &path, text, sizeof text) != HD_OK)
        return hd_fail(HD_ERR_INPUT, "%s", text);
    if (text[0])
        hd_log(HD_LOG_INFO, "%s", text);
    if (path == HD_GPU_PATH_NCCL_SHARED)
        hd_nccl_share_gpus();
    gpus->plan.device_comm = path != HD_GPU_PATH_HOST;
    if (gpus->plan.device_comm && fast)
        hd_log(HD_LOG_INFO, "gradients are added in NCCL's own order (runtime.reduction: nccl): "
                            "results depend on the number of ranks and on NCCL");
    return HD_OK;
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

/* Checks that this build's kernels run on the GPUs of all ranks of this host, so that all ranks
 * decide alike. Logs a failure where GPUs are required, and else a warning. */
static int check_arch(const struct hd_run_spec *run_spec, const struct hd_gpu *gpus, int found,
                      const struct hd_gpu_request *request, struct hd_gpus *gpus_p)
{
    char text[HD_GPU_ARCH_BYTES];
    struct hd_gpu_share share;
    for (int rank = 0; rank < request->local_world; rank++) {
        HD_TRY(hd_gpus_assign(gpus, found, request, rank, &share));
        for (int i = 0; i < share.n; i++) {
            if (hd_gpu_arch_check(share.devices[i], text))
                continue;
            if (run_spec->settings.requires_gpus)
                return hd_fail(HD_ERR_INPUT, "policy.cuda is true, but %s", text);
            hd_log(HD_LOG_WARN, "no GPU is used: %s", text);
            gpus_p->plan.n = 0;
            return HD_OK;
        }
    }
    return HD_OK;
}

int hd_gpus_choose(const struct hd_run_spec *run_spec, const struct hd_topology *topology,
                   const struct hd_world *world, struct hd_gpus *gpus_p)
{
    struct hd_gpu gpus[HD_GPUS_MAX];
    *gpus_p = (struct hd_gpus){0};
    if (run_spec->settings.disables_gpus)
        return HD_OK;
    const int found = hd_session_supports_devices() ? hd_gpus_list(topology, gpus) : 0;
    int n_map = 0, map[HD_GPUS_MAX];
    gpus_p->plan.n = count_requested(run_spec, world->local_world, found);
    HD_TRY(read_map(run_spec, map, &n_map));
    if (n_map > 0)
        gpus_p->plan.n = n_map / world->local_world > 0 ? n_map / world->local_world : 1;
    if (found == 0) {
        gpus_p->plan.n = 0;
        return run_spec->settings.requires_gpus ? fail_without_gpus() : HD_OK;
    }
    if (!hd_plan_can_use_gpus(run_spec->graph)) {
        gpus_p->plan.n = 0;
        if (world->rank == 0)
            hd_log(HD_LOG_INFO, "no GPU is used: this graph's gradients are computed on CPUs only");
        return HD_OK;
    }
    const struct hd_gpu_request request = {
        .local_world = world->local_world,
        .per_rank = gpus_p->plan.n,
        .map = n_map > 0 ? map : NULL,
        .n_map = n_map,
        .may_share = true,
    };
    HD_TRY(hd_gpus_assign(gpus, found, &request, world->local_rank, &gpus_p->share));
    HD_TRY(check_arch(run_spec, gpus, found, &request, gpus_p));
    if (gpus_p->plan.n == 0)
        return HD_OK;
    for (int i = 0; i < gpus_p->share.n; i++)
        gpus_p->cores[i] = gpus[gpus_p->share.devices[i]].core;
    return choose_path(world, run_spec->settings.library_order, gpus_p);
}
