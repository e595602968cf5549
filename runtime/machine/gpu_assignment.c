/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/gpu_assignment.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdlib.h>

struct hd_gpu_view hd_gpus_view(const struct hd_gpu *gpus, int n_gpus)
{
    struct hd_gpu_view view = {.n = n_gpus};
    for (int i = 0; i < n_gpus; i++)
        view.shown = hd_hash_mix(view.shown, gpus[i].id);
    return view;
}

struct hd_gpu_group hd_gpus_find_group(const struct hd_gpu_view *views, int ranks, int rank)
{
    struct hd_gpu_group group = {0};
    for (int i = 0; i < ranks; i++)
        if (views[i].shown == views[rank].shown && views[i].n == views[rank].n) {
            group.rank += i < rank;
            group.ranks++;
        }
    return group;
}

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

static int check_map(int n_gpus, const struct hd_gpu_request *request)
{
    const int per_rank = request->per_rank, *map = request->map;
    if (request->n_map != per_rank * request->ranks)
        return hd_fail(HD_ERR_INPUT,
                       "cuda_devices lists %d GPU%s for %d rank%s that CUDA shows the same: list "
                       "%s for every rank",
                       request->n_map, plural(request->n_map), request->ranks,
                       plural(request->ranks),
                       per_rank > 1 ? "all the GPUs that it drives" : "one");
    for (int i = 0; i < request->n_map; i++)
        if (map[i] < 0 || map[i] >= n_gpus)
            return hd_fail(HD_ERR_INPUT,
                           "cuda_devices gives local rank %d GPU %d, but CUDA shows it %d GPU%s, "
                           "counted from 0",
                           i / per_rank, map[i], n_gpus, plural(n_gpus));
    for (int i = 0; i < request->n_map; i++)
        for (int k = i - i % per_rank; k < i; k++)
            if (map[i] == map[k])
                return hd_fail(HD_ERR_INPUT,
                               "cuda_devices gives GPU %d to local rank %d more than once", map[i],
                               i / per_rank);
    return HD_OK;
}

static int check_number(int n_gpus, const struct hd_gpu_request *request)
{
    const int ranks = request->ranks, per_rank = request->per_rank;
    if (per_rank * ranks <= n_gpus || per_rank == 1)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT,
                   "%d rank%s of %d GPUs each, but CUDA shows %s %d GPU%s: start fewer ranks, or "
                   "give each fewer GPUs",
                   ranks, plural(ranks), per_rank, ranks == 1 ? "it" : "them", n_gpus,
                   plural(n_gpus));
}

/* Returns GPU `i` of rank `rank`. */
static int choose_gpu(const struct hd_gpu_request *request, const int *order, int n_gpus, int rank,
                      int i)
{
    if (request->map)
        return request->map[rank * request->per_rank + i];
    if (request->per_rank * request->ranks > n_gpus)
        return order[(int)((long long)rank * n_gpus / request->ranks)];
    return order[rank * request->per_rank + i];
}

int hd_gpus_assign(const struct hd_gpu *gpus, int n_gpus, const struct hd_gpu_request *request,
                   int rank, struct hd_gpu_share *share_p)
{
    int order[HD_GPUS_MAX];
    struct hd_gpu_share share = {.n = request->per_rank};
    if (n_gpus < 1)
        return hd_fail(HD_ERR_INPUT, "CUDA shows no GPU on this host");
    HD_TRY(request->map ? check_map(n_gpus, request) : check_number(n_gpus, request));
    order_gpus(gpus, n_gpus, order);
    for (int i = 0; i < share.n; i++)
        share.devices[i] = choose_gpu(request, order, n_gpus, rank, i);
    *share_p = share;
    return HD_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

int hd_gpus_count_sharing(uint64_t *ids, int64_t n)
{
    int most = 0, same = 0;
    qsort(ids, (size_t)n, sizeof *ids, compare_ids);
    for (int64_t i = 0; i < n; i++) {
        same = i > 0 && ids[i] == ids[i - 1] ? same + 1 : 1;
        most = same > most ? same : most;
    }
    return most;
}
