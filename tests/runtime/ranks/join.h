/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that join a rendezvous, as its tests want them: one process each, whose last log lines and
 * losses the test reads. */
#pragma once

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <arpa/inet.h>
#include <stdatomic.h>

enum { MAX_RANKS = 4, TIMEOUT_MS = 5000 };

/* Results of the ranks, which the test reads. */
static struct seen {
    char log[MAX_RANKS][1024]; /* the last line logged */
    char lost[MAX_RANKS][HD_RENDEZVOUS_TEXT];
    int lost_rank[MAX_RANKS], lost_status[MAX_RANKS];
    atomic_int lost_calls[MAX_RANKS]; /* counted last */
    int64_t lost_ns[MAX_RANKS];
    atomic_int up;
    atomic_int attacked; /* the attacks are over */
} * seen;

static struct plan {
    struct hd_rendezvous_options options[MAX_RANKS];
    int sent_rank[MAX_RANKS]; /* -1: do not come at all */
    int sent_world[MAX_RANKS];
} plan;

static int own_rank;

static inline void keep_log(enum hd_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level <= HD_LOG_WARN)
        snprintf(seen->log[own_rank], sizeof seen->log[0], "%s", line);
}

static inline void setup(void)
{
    seen = share_memory(sizeof *seen);
    for (int r = 0; r < MAX_RANKS; r++) {
        plan.options[r] = (struct hd_rendezvous_options){.config_hash = 7,
                                                         .fingerprint = "isa=avx2; omp=1",
                                                         .timeout_ns = TIMEOUT_MS * 1000000LL};
        plan.sent_rank[r] = r;
        plan.sent_world[r] = 0;
    }
}

static inline int join_rendezvous(const struct hd_world *world, struct hd_rendezvous **rendezvous_p)
{
    own_rank = world->rank;
    hd_log_set_sink(keep_log, NULL);
    struct hd_world own = *world;
    struct hd_rendezvous_options options = plan.options[world->rank];
    if (plan.sent_rank[world->rank] < 0)
        _exit(0);
    own.rank = plan.sent_rank[world->rank];
    if (plan.sent_world[world->rank] > 0)
        own.world = plan.sent_world[world->rank];
    options.world = &own;
    return hd_rendezvous_create(&options, rendezvous_p);
}

static inline int body_join(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct hd_rendezvous *rendezvous = NULL;
    int status = join_rendezvous(world, &rendezvous);
    hd_rendezvous_destroy(rendezvous);
    return -status;
}

static inline void run(int ranks, int (*body)(const struct hd_world *, void *), const int *codes)
{
    struct hd_world world = ranks_world(ranks);
    pid_t pids[MAX_RANKS];
    ranks_start(&world, pids, body, NULL);
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(ranks_wait(pids[r]) == codes[r], "rank %d: %s", r, seen->log[r]);
}

#define ASSERT_SAYS(rank, names) check_names(seen->log[rank], names)

static inline int connect_to(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}
