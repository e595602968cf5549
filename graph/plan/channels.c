/* SPDX-License-Identifier: Apache-2.0 */
/* Called once after a plan is made. Exchanges of one channel follow one another in the order of the
 * plan, which is the same on all ranks. A rank comes to the exchange of the lowest number that is
 * not over on all ranks, on whatever channel, since all that it depends on comes before it: so some
 * exchange can always go on, and there is no deadlock. */
#include "graph/plan/plan_internal.h"
#include "runtime/comm/comm.h"

struct assignment {
    struct hd_plan *plan;
    int lanes;   /* channels of buckets */
    int buckets; /* that were distributed so far */
    int next;    /* channel of the next other collective */
};

/* Channels come again where there are not enough. */
static int take_channel(struct assignment *assignment)
{
    const int channel = assignment->next++;
    if (assignment->plan->channels < assignment->next)
        assignment->plan->channels = assignment->next;
    if (assignment->next == HD_CHANNELS_MAX)
        assignment->next = assignment->lanes;
    return channel;
}

/* Returns how many buckets a collective exchanges one by one; 0: it is none. */
static int count_buckets(const struct hd_plan *plan, const struct hd_op *op)
{
    if (op->kind != HD_OP_STEP)
        return 0;
    if (op->lowering == HD_LOWERING_SHARDED_UPDATE)
        return plan->graph->values[op->mean->step->refs[0].value].spec.buckets;
    const bool reduces = hd_op_is_collective(op) && op->step->verb->kind == HD_VERB_COLLECTIVE;
    return reduces ? plan->graph->values[op->step->refs[0].value].spec.buckets : 0;
}

/* Returns whether the buckets of an op take turns. */
static bool takes_turns(const struct hd_op *op, int buckets)
{
    return buckets > 1 || (op->kind == HD_OP_STEP && op->lowering == HD_LOWERING_SHARDED_UPDATE);
}

/* On one host a bucket is packed and added up while others wait. Between hosts buckets that are
 * sent at the same time share the cable, so that all arrive late. */
static int choose_most(int open_exchanges, bool one_host)
{
    enum { ON_ONE_HOST = 4, BETWEEN_HOSTS = 1 };
    if (open_exchanges > 0)
        return open_exchanges;
    return one_host ? ON_ONE_HOST : BETWEEN_HOSTS;
}

/* Returns how many buckets of an op there are at most, or `limit` if that is less. */
static int count_lanes(const struct hd_plan *plan, int limit)
{
    int most = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const int buckets = count_buckets(plan, &plan->ops[i]);
        if (takes_turns(&plan->ops[i], buckets) && buckets > most)
            most = buckets;
    }
    return most < limit ? most : limit;
}

static void assign(struct assignment *assignment, struct hd_op *op, int compare_channel)
{
    const int buckets = count_buckets(assignment->plan, op);
    if (takes_turns(op, buckets)) {
        op->channels = (struct hd_channels){0, assignment->lanes, assignment->buckets};
        assignment->buckets = (assignment->buckets + buckets) % assignment->lanes;
    } else if (op->kind == HD_OP_COMPARE) {
        op->channels = (struct hd_channels){compare_channel, 1, 0};
    } else if (hd_op_is_collective(op) || op->cross_shard_sums) {
        op->channels = (struct hd_channels){take_channel(assignment), 1, 0};
    }
}

void hd_plan_assign_channels(struct hd_plan *plan, int open_exchanges, bool one_host)
{
    const int lanes = count_lanes(plan, choose_most(open_exchanges, one_host));
    struct assignment assignment = {plan, lanes, 0, lanes};
    if (plan->ranks == 1 || open_exchanges == 1)
        return;
    plan->request_channel = take_channel(&assignment);
    const int compare_channel = take_channel(&assignment);
    for (int i = 0; i < plan->n_ops; i++)
        assign(&assignment, &plan->ops[i], compare_channel);
}
