/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/simulate/model/traffic.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* A rank of each host, which are partners. */
struct partners {
    struct hd_traffic *traffic;
    int hosts, ranks, local, shift;
};

static int get_rank(const struct partners *partners, int host)
{
    return host % partners->hosts * partners->ranks + partners->local;
}

static int add_flow(struct hd_traffic *traffic, int from, int to, int64_t bytes)
{
    HD_TRY(hd_grow((void **)&traffic->flows, &traffic->capacity, traffic->n + 1,
                   sizeof *traffic->flows));
    traffic->flows[traffic->n] = (struct hd_flow){from, to, traffic->first[from], bytes};
    traffic->first[from] = traffic->n++;
    return HD_OK;
}

/* Goes through the senders and the receivers once: the next sender fills up the next receiver. */
static int match(const struct partners *partners, const int64_t *out, const int64_t *in)
{
    const int hosts = partners->hosts, shift = partners->shift;
    int64_t to_send = out[get_rank(partners, 0)], to_receive = in[get_rank(partners, shift)];
    for (int sender = 0, receiver = 0; sender < hosts && receiver < hosts;) {
        const int64_t bytes = to_send < to_receive ? to_send : to_receive;
        if (bytes > 0)
            HD_TRY(add_flow(partners->traffic, get_rank(partners, sender),
                            get_rank(partners, receiver + shift), bytes));
        to_send -= bytes;
        to_receive -= bytes;
        if (to_send == 0)
            to_send = ++sender < hosts ? out[get_rank(partners, sender)] : 0;
        else
            to_receive = ++receiver < hosts ? in[get_rank(partners, receiver + shift)] : 0;
    }
    return HD_OK;
}

/* A rank does not send to itself but to the receivers of others, which send theirs to it. */
static int mend(struct hd_traffic *traffic, int flow, int other_flow)
{
    struct hd_flow *own = &traffic->flows[flow], *other = &traffic->flows[other_flow];
    const int self = own->to, from = other->from, to = other->to;
    const int64_t bytes = own->bytes < other->bytes ? own->bytes : other->bytes;
    if (from == self || to == self || bytes == 0)
        return HD_OK;
    own->bytes -= bytes;
    other->bytes -= bytes;
    HD_TRY(add_flow(traffic, self, to, bytes));
    return add_flow(traffic, from, self, bytes);
}

static int mend_all(struct hd_traffic *traffic, int begin)
{
    const int end = traffic->n;
    for (int i = begin; i < end; i++)
        for (int k = begin; traffic->flows[i].from == traffic->flows[i].to && k < traffic->n &&
                            traffic->flows[i].bytes > 0;
             k++)
            HD_TRY(mend(traffic, i, k));
    return HD_OK;
}

/* Takes out flows without bytes, and adds one to each rank that is left without any. */
static int tidy(const struct partners *partners)
{
    struct hd_traffic *traffic = partners->traffic;
    for (int host = 0; host < partners->hosts; host++) {
        const int rank = get_rank(partners, host);
        for (int *at = &traffic->first[rank]; *at != HD_NO_FLOW;)
            if (traffic->flows[*at].bytes == 0)
                *at = traffic->flows[*at].next;
            else
                at = &traffic->flows[*at].next;
        if (traffic->first[rank] == HD_NO_FLOW)
            HD_TRY(add_flow(traffic, rank, get_rank(partners, host + partners->shift), 0));
    }
    return HD_OK;
}

static int plan(int hosts, int ranks, const int64_t *out, const int64_t *in, int shift,
                struct hd_traffic *traffic)
{
    traffic->first = hd_alloc((int64_t)hosts * ranks, sizeof *traffic->first);
    if (!traffic->first)
        return HD_ERR_NOMEM;
    for (int rank = 0; rank < hosts * ranks; rank++)
        traffic->first[rank] = HD_NO_FLOW;
    for (int local = 0; local < ranks; local++) {
        const struct partners partners = {traffic, hosts, ranks, local, shift};
        const int begin = traffic->n;
        HD_TRY(match(&partners, out, in));
        HD_TRY(mend_all(traffic, begin));
        HD_TRY(tidy(&partners));
    }
    return HD_OK;
}

int hd_traffic_plan(int hosts, int ranks, const int64_t *out, const int64_t *in, int shift,
                    struct hd_traffic *traffic_p)
{
    struct hd_traffic traffic = {0};
    const int status = plan(hosts, ranks, out, in, shift, &traffic);
    if (status == HD_OK)
        *traffic_p = traffic;
    else
        hd_traffic_release(&traffic);
    return status;
}

void hd_traffic_release(struct hd_traffic *traffic)
{
    hd_free(traffic->flows);
    hd_free(traffic->first);
    *traffic = (struct hd_traffic){0};
}
