/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of the way in which hosts exchange vectors: by the time that each takes. */
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/collective_internal.h"
#include "runtime/engine/collective/halving.h"

#include <math.h>

/* Estimates the seconds that a way takes. All hosts send at once; whatever does not depend on the
 * way is left out, such as packing. The constants are those of an ordinary cluster; what matters is
 * how they compare:
 *   sync_s     a sync point: ranks and their workers do not arrive at once, and a message needs so
 *              long to the other host (20 µs)
 *   message_s  each message that a rank sends and receives there, for the transport's work
 *   step_s     a task that adds, from when it is ready to its end, or a sync point on the host
 *   byte_s     a byte on a host's link: 10 Gbit/s, which others use as well
 * Directly a rank has H - 1 messages at each sync point. In rounds it has one, but passes log2 H
 * sync points, or twice as many. */
static double estimate(enum hd_message_way way, const struct hd_comm *comm, double bytes)
{
    static const double sync_s = 30e-6, message_s = 5e-6, step_s = 20e-6, byte_s = 2e-9;
    const double hosts = hd_comm_count_hosts(comm), ranks = hd_comm_count_host_ranks(comm);
    const double rounds = hd_halving_count_rounds(comm), local_s = ranks > 1 ? step_s : 0;
    const double sliced_s = 2 * (hosts - 1) / hosts * bytes * byte_s;
    switch (way) {
    case HD_MESSAGE_ALL:
        return sync_s + (hosts - 1) * (message_s + ranks * bytes * byte_s);
    case HD_MESSAGE_SLICES:
        return local_s + step_s + 2 * (sync_s + (hosts - 1) * message_s) + sliced_s;
    case HD_MESSAGE_PAIRS:
        return 2 * local_s + rounds * (sync_s + message_s + step_s + bytes * byte_s);
    case HD_MESSAGE_HALVES:
        return 2 * local_s + rounds * (2 * (sync_s + message_s) + step_s) + sliced_s;
    }
    return 0;
}

/* Vectors of types with a weight are floats that are added one by one, so they can be cut, by cache
 * lines; those that are rounded by blocks. */
int64_t hd_message_get_unit_bytes(const struct hd_collective *c)
{
    enum { LINE_BYTES = 64 };
    return c->rounding ? hd_rounded_get_unit_bytes(c) : LINE_BYTES;
}

static bool may_slice(const struct hd_comm *comm, const struct hd_collective *c)
{
    return c->kind == HD_COLLECTIVE_REDUCE && c->in_spec->type->flat && c->in_spec->type->weight &&
           hd_collective_get_payload_bytes(c) >=
               hd_message_get_unit_bytes(c) * hd_comm_count_ranks(comm);
}

enum hd_message_way hd_message_choose(const struct hd_session_options *options,
                                      const struct hd_collective *c)
{
    const struct hd_comm *comm = options->comm;
    const double bytes = (double)hd_collective_get_payload_bytes(c);
    const bool slices = may_slice(comm, c);
    const bool pairs = c->kind == HD_COLLECTIVE_REDUCE && hd_halving_count_rounds(comm) > 0 &&
                       options->exchange != HD_EXCHANGE_DIRECT;
    const bool allowed[] = {true, slices, pairs, pairs && slices};
    enum hd_message_way best = HD_MESSAGE_ALL;
    double best_s = INFINITY;
    if (hd_comm_count_hosts(comm) == 1)
        return HD_MESSAGE_ALL;
    if (pairs && options->exchange != HD_EXCHANGE_AUTO)
        return slices && options->exchange == HD_EXCHANGE_HALVES ? HD_MESSAGE_HALVES
                                                                 : HD_MESSAGE_PAIRS;
    for (int i = HD_MESSAGE_ALL; i <= (int)HD_MESSAGE_HALVES; i++) {
        const double seconds = estimate((enum hd_message_way)i, comm, bytes);
        if (allowed[i] && seconds < best_s) {
            best = (enum hd_message_way)i;
            best_s = seconds;
        }
    }
    return best;
}

enum hd_message_way hd_message_choose_update(const struct hd_session_options *options, double bytes)
{
    const struct hd_comm *comm = options->comm;
    if (hd_halving_count_rounds(comm) < 2 || options->exchange == HD_EXCHANGE_DIRECT)
        return HD_MESSAGE_SLICES;
    return options->exchange != HD_EXCHANGE_AUTO || estimate(HD_MESSAGE_HALVES, comm, bytes) <
                                                        estimate(HD_MESSAGE_SLICES, comm, bytes)
               ? HD_MESSAGE_HALVES
               : HD_MESSAGE_SLICES;
}
