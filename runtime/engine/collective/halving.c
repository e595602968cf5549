/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/collective/halving.h"

int hd_halving_count_rounds(const struct hd_comm *comm)
{
    const int hosts = hd_comm_count_hosts(comm);
    int rounds = 0;
    while (2 << rounds <= hosts)
        rounds++;
    return 1 << rounds == hosts ? rounds : 0;
}

int hd_halving_get_pair(const struct hd_comm *comm, int k)
{
    return hd_comm_get_partner(comm, hd_comm_get_host(comm) ^ 1 << k);
}

struct hd_slices hd_halving_get_slices(const struct hd_comm *comm, int rank, int k)
{
    const int hosts = hd_comm_count_hosts(comm), ranks = hd_comm_count_host_ranks(comm);
    const int host = rank / ranks;
    int lo = rank % ranks * hosts, n = hosts;
    for (int bit = 0; bit < k; bit++) {
        n /= 2;
        lo += (host >> bit & 1) * n;
    }
    return (struct hd_slices){lo, lo + n};
}

int hd_halving_get_slice(const struct hd_comm *comm, int rank)
{
    const int rounds = hd_halving_count_rounds(comm);
    const int host = rank / hd_comm_count_host_ranks(comm);
    return hd_halving_get_slices(comm, rank, rounds).lo + (rounds == 0 ? host : 0);
}

bool hd_halving_meets(const struct hd_comm *comm, int host, int k)
{
    const int own = hd_comm_get_host(comm);
    return k == HD_ALL_PARTNERS ? host != own : host == (own ^ 1 << k);
}

struct hd_slices hd_halving_get_kept(const struct hd_comm *comm, int rank, int k)
{
    const int slice = hd_halving_get_slice(comm, rank);
    return k == HD_ALL_PARTNERS ? (struct hd_slices){slice, slice + 1}
                                : hd_halving_get_slices(comm, rank, k + 1);
}

struct hd_elements hd_halving_cut(int64_t lo, int64_t hi, int64_t unit, struct hd_slices slices,
                                  int n)
{
    const int64_t units = (hi - lo + unit - 1) / unit;
    const int64_t from = lo + units * slices.lo / n * unit, to = lo + units * slices.hi / n * unit;
    return (struct hd_elements){from < hi ? from : hi, to < hi ? to : hi};
}

struct hd_comm_transfer hd_halving_make_transfer(int rank, bool out, void *vector,
                                                 struct hd_elements floats)
{
    return (struct hd_comm_transfer){rank, out, (float *)vector + floats.lo,
                                     (floats.hi - floats.lo) * (int64_t)sizeof(float)};
}
