/* SPDX-License-Identifier: Apache-2.0 */
/* Few flows put as many bytes on every link as all messages do. */
#include "runner/simulate/model/traffic.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <stdbool.h>

enum { HOSTS_MAX = 16, RANKS_MAX = 4, ALL_MAX = HOSTS_MAX * RANKS_MAX };

struct bytes {
    int64_t out[ALL_MAX], in[ALL_MAX];
};

/* The messages of a slice for each rank, some of which are empty: to all partners, or from them. */
static struct bytes exchange_slices(int hosts, int ranks, bool gather, int share)
{
    struct bytes bytes = {0};
    for (int r = 0; r < hosts * ranks; r++)
        for (int host = 0; host < hosts; host++) {
            const int partner = host * ranks + r % ranks;
            const uint64_t random = hd_hash_mix((uint64_t)hosts, (uint64_t)partner);
            const int64_t slice = (int)(random % 100) < share ? (int64_t)(random >> 40) : 0;
            if (partner == r)
                continue;
            *(gather ? &bytes.in[r] : &bytes.out[r]) += slice;
            *(gather ? &bytes.out[partner] : &bytes.in[partner]) += slice;
        }
    return bytes;
}

static void check(int hosts, int ranks, int shift, const struct bytes *bytes)
{
    struct hd_traffic traffic;
    struct bytes seen = {0};
    int flows = 0;
    ck_assert_int_eq(hd_traffic_plan(hosts, ranks, bytes->out, bytes->in, shift, &traffic), HD_OK);
    for (int r = 0; r < hosts * ranks; r++) {
        ck_assert_int_ne(traffic.first[r], HD_NO_FLOW);
        for (int i = traffic.first[r]; i != HD_NO_FLOW; i = traffic.flows[i].next) {
            const struct hd_flow *flow = &traffic.flows[i];
            ck_assert_int_eq(flow->from, r);
            ck_assert_int_ne(flow->to, r);
            ck_assert_int_eq(flow->to % ranks, r % ranks);
            seen.out[r] += flow->bytes;
            seen.in[flow->to] += flow->bytes;
            flows++;
        }
    }
    ck_assert_int_le(flows, 4 * hosts * ranks);
    ck_assert_mem_eq(seen.out, bytes->out, sizeof seen.out);
    ck_assert_mem_eq(seen.in, bytes->in, sizeof seen.in);
    hd_traffic_release(&traffic);
}

TEST(every_link_carries_its_bytes)
{
    for (int hosts = 2; hosts <= HOSTS_MAX; hosts++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
            for (int shift = 1; shift < hosts; shift++)
                for (int share = 10; share <= 100; share += 30) {
                    const struct bytes scatter = exchange_slices(hosts, ranks, false, share),
                                       gather = exchange_slices(hosts, ranks, true, share);
                    check(hosts, ranks, shift, &scatter);
                    check(hosts, ranks, shift, &gather);
                }
}

TEST(equal_bytes_take_one_flow_each)
{
    enum { HOSTS = 5, SHIFT = 2 };
    struct hd_traffic traffic;
    struct bytes bytes = {0};
    for (int r = 0; r < HOSTS; r++)
        bytes.out[r] = bytes.in[r] = 7;
    ck_assert_int_eq(hd_traffic_plan(HOSTS, 1, bytes.out, bytes.in, SHIFT, &traffic), HD_OK);
    for (int r = 0; r < HOSTS; r++) {
        const struct hd_flow *flow = &traffic.flows[traffic.first[r]];
        ck_assert_int_eq(flow->to, (r + SHIFT) % HOSTS);
        ck_assert_int_eq(flow->bytes, 7);
        ck_assert_int_eq(flow->next, HD_NO_FLOW);
    }
    hd_traffic_release(&traffic);
}
