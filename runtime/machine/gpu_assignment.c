/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/gpu_assignment.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* Sorts the GPUs' numbers by their nearest cores; keeps CUDA's order when a core is unknown. */
static void order_gpus(const struct hd_gpu *gpus, int n, int *order)
{
    bool known = true;
    for (int i = 0; i < n; i++) {
        order[i] = i;
        known = known && gpus[i].core >= 0;
    }
    for (int i = 1; i < n && known; i++)
        for (int k = i; k > 0 && gpus[order[k]].core < gpus[order[k - 1]].core; k--) {
            int other = order[k];
            order[k] = order[k - 1];
            order[k - 1] = other;
        }
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static int check_map(int n_gpus, const struct hd_gpu_request *request, int per_rank)
{
    if (per_rank < 1 || request->n_map != per_rank * request->local_world)
        return hd_fail(HD_ERR_INPUT,
                       "cuda_devices lists %d GPU%s for %d rank%s on this host: list %s for every "
                       "rank",
                       request->n_map, plural(request->n_map), request->local_world,
                       plural(request->local_world),
                       request->per_rank > 1 ? "all the GPUs that it drives" : "one");
    for (int i = 0; i < request->n_map; i++)
        if (request->map[i] < 0 || request->map[i] >= n_gpus)
            return hd_fail(HD_ERR_INPUT,
                           "cuda_devices gives local rank %d GPU %d, but CUDA shows %d GPU%s on "
                           "this host, counted from 0",
                           i / per_rank, request->map[i], n_gpus, plural(n_gpus));
    for (int i = 0; i < request->n_map; i++)
        for (int k = 0; k < i; k++) {
            const int one = k / per_rank, other = i / per_rank;
            if (request->map[i] != request->map[k])
                continue;
            if (one == other)
                return hd_fail(HD_ERR_INPUT,
                               "cuda_devices gives GPU %d to local rank %d more than once",
                               request->map[i], one);
            if (!request->may_share)
                return hd_fail(HD_ERR_INPUT,
                               "cuda_devices gives GPU %d to local ranks %d and %d: give each its "
                               "own, or allow them to share",
                               request->map[i], one, other);
        }
    return HD_OK;
}

static int check_number(int n_gpus, const struct hd_gpu_request *request, int per_rank)
{
    const int ranks = request->local_world;
    if (per_rank * ranks <= n_gpus || (per_rank == 1 && request->may_share))
        return HD_OK;
    if (per_rank == 1)
        return hd_fail(HD_ERR_INPUT,
                       "%d ranks on this host, but CUDA shows %d GPU%s: start %d rank%s, or allow "
                       "ranks to share a GPU",
                       ranks, n_gpus, plural(n_gpus), n_gpus, plural(n_gpus));
    return hd_fail(HD_ERR_INPUT,
                   "%d rank%s of %d GPUs each on this host, but CUDA shows %d GPU%s: start fewer "
                   "ranks, or give each fewer GPUs",
                   ranks, plural(ranks), per_rank, n_gpus, plural(n_gpus));
}

/* Returns GPU `i` of the `per_rank` GPUs of local rank `rank`. */
static int choose_gpu(const struct hd_gpu_request *request, const int *order, int n_gpus,
                      int per_rank, int rank, int i)
{
    if (request->map)
        return request->map[rank * per_rank + i];
    if (per_rank * request->local_world > n_gpus)
        return order[(int)((long long)rank * n_gpus / request->local_world)];
    return order[rank * per_rank + i];
}

int hd_gpus_assign(const struct hd_gpu *gpus, int n_gpus, const struct hd_gpu_request *request,
                   int local_rank, struct hd_gpu_share *share_p)
{
    int order[HD_GPUS_MAX], ranks_on[HD_GPUS_MAX] = {0};
    struct hd_gpu_share share = {0};
    if (n_gpus < 1)
        return hd_fail(HD_ERR_INPUT, "CUDA shows no GPU on this host");
    int per_rank = request->per_rank;
    if (per_rank == 0)
        per_rank = (request->map ? request->n_map : n_gpus) / request->local_world;
    if (per_rank == 0 && !request->map)
        per_rank = 1;
    if (request->map)
        HD_TRY(check_map(n_gpus, request, per_rank));
    else
        HD_TRY(check_number(n_gpus, request, per_rank));
    order_gpus(gpus, n_gpus, order);
    for (int rank = 0; rank < request->local_world; rank++)
        for (int i = 0; i < per_rank; i++) {
            const int device = choose_gpu(request, order, n_gpus, per_rank, rank, i);
            if (rank == local_rank)
                share.devices[share.n++] = device;
            if (++ranks_on[device] > share.ranks_on_gpu)
                share.ranks_on_gpu = ranks_on[device];
        }
    *share_p = share;
    return HD_OK;
}
