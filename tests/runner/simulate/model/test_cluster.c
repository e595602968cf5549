/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks on two hosts whose times were worked out by hand, on a network of a fixed latency. */
#include "runner/simulate/model/cluster.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <string.h>

/* -- A network --------------------------------------------------------------------------------- */

enum { EVENTS_MAX = 64 };

static const double latency_s = 0.5;

static struct event {
    double at;
    void (*call)(void *arg, int64_t what);
    void *arg;
    int64_t what;
} events[EVENTS_MAX];
static int n_events;
static double now_s;

static void call_at(double time, void (*call)(void *, int64_t), void *arg, int64_t what)
{
    ck_assert_int_lt(n_events, EVENTS_MAX);
    events[n_events++] = (struct event){time, call, arg, what};
}

static void send(int from, int to, double bytes, void (*call)(void *, int64_t), void *arg,
                 int64_t what)
{
    ck_assert_int_ne(from, to);
    ck_assert(bytes > 0);
    call_at(now_s + latency_s, call, arg, what);
}

static double get_now(void)
{
    return now_s;
}

static void run(void)
{
    while (n_events > 0) {
        int first = 0;
        for (int i = 1; i < n_events; i++)
            if (events[i].at < events[first].at)
                first = i;
        const struct event event = events[first];
        memmove(events + first, events + first + 1, (size_t)(--n_events - first) * sizeof *events);
        now_s = event.at;
        event.call(event.arg, event.what);
    }
}

static const struct hd_network network = {call_at, send, get_now, run};

/* -- What the ranks submit: first, an exchange, second ----------------------------------------- */

static char *names[] = {"first", "exchange", "second", "wait"};
static struct hd_submitted nodes[] = {
    {.kind = HD_SUBMITTED_TASK, .name = 0, .after = 0},
    {.kind = HD_SUBMITTED_SYNC, .name = 1, .before = 1, .after = 1, .sequence = 1},
    {.kind = HD_SUBMITTED_TASK, .name = 2, .before = 1, .after = 2},
    {.kind = HD_SUBMITTED_WAIT, .name = 3, .before = 1, .after = 3},
    {.after = 3}};
static int after[] = {1, 2, 3};
static struct hd_iteration_mark marks[] = {{.node = 0}, {.node = 4, .updates = 1}};
static const struct hd_submission submission = {.nodes = nodes,
                                                .n_nodes = 4,
                                                .n_syncs = 1,
                                                .after = after,
                                                .names = names,
                                                .n_names = 4,
                                                .marks = marks,
                                                .n_marks = 2,
                                                .last_sequence = 1,
                                                .channels = 1};

static struct hd_task_times times[] = {
    {.name = "first", .tenths = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {.name = "second", .tenths = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}}};

static struct hd_cluster_result simulate_moving(const struct hd_submission *submitted,
                                                double byte_s, int64_t bytes, double scale,
                                                int n_times, int expected)
{
    struct hd_peer_bytes exchange = {.messages = 2, .out_bytes = bytes, .in_bytes = bytes};
    const struct hd_peers both = {.list = &exchange, .n = 1};
    const struct hd_submission *const submissions[] = {submitted, submitted};
    const struct hd_peers *const exchanges[] = {&both, &both};
    const struct hd_calibration calibration = {
        .bytes_per_s = 1, .times = times, .n_times = n_times};
    const struct hd_cluster cluster = {.network = &network,
                                       .ranks = 2,
                                       .workers = 1,
                                       .hosts = {2, 1},
                                       .submissions = submissions,
                                       .exchanges = exchanges,
                                       .calibration = &calibration,
                                       .scale = scale,
                                       .byte_s = byte_s,
                                       .traced = -1};
    struct hd_cluster_result result = {0};
    now_s = 0;
    ck_assert_int_eq(hd_cluster_simulate(&cluster, &result), expected);
    return result;
}

static struct hd_cluster_result simulate(int64_t bytes, double scale, int n_times, int expected)
{
    return simulate_moving(&submission, 0, bytes, scale, n_times, expected);
}

static void check_result(const struct hd_cluster_result *result, double tasks_s)
{
    ck_assert_double_eq_tol(result->seconds, tasks_s + latency_s, 1e-12);
    ck_assert_double_eq_tol(result->exposed_s, latency_s, 1e-12);
    ck_assert_double_eq_tol(result->busy_s, tasks_s, 1e-12);
    ck_assert_int_eq(result->updates, 1);
}

TEST(adds_up_tasks_and_messages)
{
    const struct hd_cluster_result result = simulate(1000, 1, 2, HD_OK);
    check_result(&result, 3);
    ck_assert_int_eq(result.n_path, 3);
    ck_assert_str_eq(result.path[0].name, "second");
    ck_assert_str_eq(result.path[2].name, "exchange");
    ck_assert(result.path[2].message);
    ck_assert_double_eq_tol(result.path[2].seconds, latency_s, 1e-12);
}

TEST(long_messages_wait_for_both)
{
    const struct hd_cluster_result result = simulate(1 << 20, 1, 2, HD_OK);
    check_result(&result, 3);
    ck_assert_double_eq(result.sent_bytes, 2 << 20);
}

TEST(scales_tasks_alone)
{
    const struct hd_cluster_result result = simulate(1000, 4, 2, HD_OK);
    check_result(&result, 12);
}

TEST(idle_workers_move_bytes)
{
    struct hd_cluster_result result = simulate_moving(&submission, 0.4e-3, 1000, 1, 2, HD_OK);
    check_result(&result, 3); /* within the latency */
    result = simulate_moving(&submission, 0.8e-3, 1000, 1, 2, HD_OK);
    ck_assert_double_eq_tol(result.seconds, 3.8, 1e-12);
    ck_assert_double_eq_tol(result.exposed_s, 0.8, 1e-12);
    ck_assert_double_eq_tol(result.busy_s, 3, 1e-12);
}

TEST(moving_bytes_delays_the_task_that_runs)
{
    struct hd_submitted beside[] = {nodes[0], nodes[1], nodes[2], nodes[3], nodes[4]};
    int edges[] = {1, 2, 3, 3}; /* second does not wait for the exchange */
    beside[1].after = 2;
    beside[2].after = 3;
    beside[3].before = 2;
    beside[3].after = beside[4].after = 4;
    struct hd_submission overlapping = submission;
    overlapping.nodes = beside;
    overlapping.after = edges;
    const struct hd_cluster_result result =
        simulate_moving(&overlapping, 0.8e-3, 1000, 1, 2, HD_OK);
    ck_assert_double_eq_tol(result.seconds, 3.8, 1e-12);
    ck_assert_double_eq_tol(result.exposed_s, 0, 1e-12);
    ck_assert_double_eq_tol(result.busy_s, 3.8, 1e-12);
}

TEST(refuses_unknown_tasks)
{
    simulate(1000, 1, 1, HD_ERR_INPUT);
}

/* -- A GPU: first on the host, second and a copy on the GPU -------------------------------------
 */

TEST(a_gpu_works_beside_the_worker)
{
    enum { COPIED = 6 };
    struct hd_submitted list[] = {
        {.kind = HD_SUBMITTED_TASK, .name = 0, .after = 0},
        {.kind = HD_SUBMITTED_TASK, .name = 2, .shard = -1, .home = 1, .after = 1},
        {.kind = HD_SUBMITTED_TASK, .name = 2, .shard = -1, .home = 1, .after = 2},
        {.kind = HD_SUBMITTED_TASK,
         .name = 1,
         .home = 1,
         .copies = true,
         .volume = 2 * COPIED,
         .after = 3},
        {.kind = HD_SUBMITTED_WAIT, .name = 3, .before = 4, .after = 4},
        {.after = 4}};
    int all[] = {4, 4, 4, 4};
    struct hd_iteration_mark both[] = {{.node = 0}, {.node = 5, .updates = 1}};
    struct hd_task_times known[] = {times[0], times[1]};
    known[1].mean = 2;
    known[1].each = 3;
    const struct hd_submission local = {.nodes = list,
                                        .n_nodes = 5,
                                        .after = all,
                                        .names = names,
                                        .n_names = 4,
                                        .marks = both,
                                        .n_marks = 2,
                                        .channels = 1};
    const struct hd_peers none = {0};
    const struct hd_submission *const submissions[] = {&local};
    const struct hd_peers *const exchanges[] = {&none};
    const struct hd_calibration calibration = {.bytes_per_s = 1, .times = known, .n_times = 2};
    const struct hd_cluster cluster = {.network = &network,
                                       .ranks = 1,
                                       .workers = 1,
                                       .hosts = {1, 1},
                                       .submissions = submissions,
                                       .exchanges = exchanges,
                                       .calibration = &calibration,
                                       .scale = 1,
                                       .gpus = 1,
                                       .gpu_speedup = 4,
                                       .gpu_bytes_per_s = 3,
                                       .traced = -1};
    struct hd_cluster_result result = {0};
    now_s = 0;
    ck_assert_int_eq(hd_cluster_simulate(&cluster, &result), HD_OK);
    /* Three tasks of 2 s on the host are 1.5 s on the GPU, in two tasks here; the copy takes 2 s.
     */
    ck_assert_double_eq_tol(result.gpu_busy_s, 1.5 + 2, 1e-12);
    ck_assert_double_eq_tol(result.busy_s, 1, 1e-12);
    ck_assert_double_eq_tol(result.seconds, 3.5, 1e-12);
}

/* A wait that passes at once has waited for its submission alone, and not for the task before it,
 * which the more urgent one behind it holds up on the only worker. */
TEST(a_path_goes_back_over_waits_that_passed)
{
    static struct hd_submitted urgent[] = {
        {.kind = HD_SUBMITTED_TASK, .name = 0, .after = 0},
        {.kind = HD_SUBMITTED_WAIT, .name = 3, .after = 1},
        {.kind = HD_SUBMITTED_TASK, .name = 2, .priority = 1, .after = 1},
        {.kind = HD_SUBMITTED_WAIT, .name = 3, .before = 2, .after = 2},
        {.after = 2}};
    static int last[] = {3, 3};
    struct hd_submission alone = submission;
    alone.nodes = urgent;
    alone.n_syncs = 0;
    alone.after = last;
    const struct hd_submission *const submissions[] = {&alone};
    const struct hd_peers none = {0}, *const exchanges[] = {&none};
    const struct hd_calibration calibration = {.submit_s = 0.25, .times = times, .n_times = 2};
    const struct hd_cluster cluster = {.network = &network,
                                       .ranks = 1,
                                       .workers = 1,
                                       .hosts = {1, 1},
                                       .submissions = submissions,
                                       .exchanges = exchanges,
                                       .calibration = &calibration,
                                       .scale = 1,
                                       .traced = -1};
    struct hd_cluster_result result = {0};
    now_s = 0;
    ck_assert_int_eq(hd_cluster_simulate(&cluster, &result), HD_OK);
    ck_assert_int_eq(result.n_path, 3);
    ck_assert_str_eq(result.path[0].name, "second");
    ck_assert_double_eq_tol(result.path[0].seconds, 2, 1e-12);
    ck_assert_str_eq(result.path[1].name, "first");
    ck_assert_double_eq_tol(result.path[1].seconds, 1, 1e-12);
    ck_assert_str_eq(result.path[2].name, "submission");
    ck_assert_double_eq_tol(result.path[2].seconds, 0.5, 1e-12);
}
