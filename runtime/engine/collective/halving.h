/* SPDX-License-Identifier: Apache-2.0 */
/* This says which rank adds which slice of a long vector, and how H hosts, a power of two, bring
 * the slices together in log2 H rounds of one message of each rank: by recursive halving and
 * doubling (Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005).
 *
 * A vector has as many slices as there are ranks. The ranks of number l on all hosts share slices
 * [l H, (l + 1) H), and exchange messages with each other alone. In round k = 0, 1, …, log2 H - 1
 * of the reduce-scatter the ranks of hosts h and h xor 2^k are paired: bit k of h tells which half
 * of its slices a rank keeps; it sends its sums of the other half and adds what it receives to its
 * own. The all-gather goes back, k = log2 H - 1, …, 1, 0: a rank sends all slices that it has whole
 * and receives as many. A host sends 2 (H - 1) / H of a vector in all, as it would directly, but in
 * 2 log2 H messages instead of 2 (H - 1).
 *
 * The nearest hosts come first, so that after round k a sum is that of an aligned block of 2^(k+1)
 * hosts, a node of the tree: its order is that of a single rank (a + b is b + a). The first bit of
 * h then decides about the largest half, so a rank ends with slice l H + h', where h' has the bits
 * of h in reverse, and its slices are a range at all times. This is the rank's slice also where
 * hosts exchange directly, so that ownership does not depend on the way; where H is no power of
 * two, h' is h, and on a single host slice l is rank l's.
 *
 * Thread safe; nothing fails. */
#pragma once

#include "runtime/comm/comm.h"

/* A range of slices, by their numbers, and one of elements of a vector. */
struct hd_slices {
    int lo, hi;
};
struct hd_elements {
    int64_t lo, hi;
};

/* Returns log2 H; 0 where H is no power of two. */
int hd_halving_count_rounds(const struct hd_comm *comm);

/* Returns the rank with which this one is paired in round k. */
int hd_halving_get_pair(const struct hd_comm *comm, int k);

/* Returns the slices that `rank` keeps after k rounds of the reduce-scatter: before the first all
 * those of its number, after the last its own. */
struct hd_slices hd_halving_get_slices(const struct hd_comm *comm, int rank, int k);

/* Returns the slice whose sum `rank` has in the end. */
int hd_halving_get_slice(const struct hd_comm *comm, int rank);

/* An exchange is with the pair of round k, or, for this in place of k, with all partners at once.
 * Return whether this rank takes part in one with its partner on a host, and the slices that `rank`
 * keeps in it. */
enum { HD_ALL_PARTNERS = -1 };
bool hd_halving_meets(const struct hd_comm *comm, int host, int k);
struct hd_slices hd_halving_get_kept(const struct hd_comm *comm, int rank, int k);

/* Returns the elements of slices of a vector [lo, hi), of which there are n: whole units of `unit`
 * elements, as even as can be. */
struct hd_elements hd_halving_cut(int64_t lo, int64_t hi, int64_t unit, struct hd_slices slices,
                                  int n);

/* Returns the transfer of floats of a vector to a rank (out) or from it. */
struct hd_comm_transfer hd_halving_make_transfer(int rank, bool out, void *vector,
                                                 struct hd_elements floats);
