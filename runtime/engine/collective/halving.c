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
