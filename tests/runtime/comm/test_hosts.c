/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks find out by trying which of them share memory: all of a host, those of a node, and, in
 * containers with process ids of their own, each by itself. */
#include "tests/runtime/comm/ranks.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

enum { RANKS = 4 };

static struct {
    int per_node;      /* ranks of a node, as a launcher says it */
    bool within_nodes; /* asked for */
    int contained;     /* ranks from this one on are in containers of their own */
    struct hd_comm_hosts expected;
} given;

static int find_hosts(const struct hd_world *world)
{
    const struct hd_rendezvous_options options = {
        .world = world, .fingerprint = "f", .timeout_ns = 20000000000};
    struct hd_rendezvous *rendezvous;
    struct hd_comm_hosts hosts;
    HD_TRY(hd_rendezvous_create(&options, &rendezvous));
    const int status = hd_comm_find_hosts(world, rendezvous, given.within_nodes, &hosts);
    hd_rendezvous_destroy(rendezvous);
    HD_TRY(status);
    if (hosts.n != given.expected.n || hosts.ranks != given.expected.ranks)
        fprintf(stderr, "rank %d finds %d hosts of %d ranks\n", world->rank, hosts.n, hosts.ranks);
    return hosts.n == given.expected.n && hosts.ranks == given.expected.ranks ? 0 : 1;
}

/* Runs in a container with process ids of its own. */
static int find_hosts_contained(const struct hd_world *world)
{
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("proc", "/proc", "proc", 0, NULL) != 0)
        return errno;
    return find_hosts(world);
}

static int body(const struct hd_world *world, void *arg)
{
    struct hd_world own = *world;
    (void)arg;
    own.local_world = given.per_node;
    own.local_rank = world->rank % given.per_node;
    if (world->rank < given.contained)
        return find_hosts(&own);
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        return errno;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(find_hosts_contained(&own));
    return ranks_wait(pid);
}

TEST(ranks_of_a_host_share_memory)
{
    given.per_node = given.contained = RANKS;
    given.expected = (struct hd_comm_hosts){1, RANKS};
    ranks_run(RANKS, body, NULL, "one node");
    given.per_node = 2;
    ranks_run(RANKS, body, NULL, "two nodes on one host");
}

TEST(nodes_keep_apart_when_asked)
{
    given.per_node = 2;
    given.contained = RANKS;
    given.within_nodes = true;
    given.expected = (struct hd_comm_hosts){2, 2};
    ranks_run(RANKS, body, NULL, "two nodes");
}

TEST(containers_do_not_share_memory, .runs = 3)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 ||
              mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0);
    if (ranks_wait(pid) != 0) {
        test_leave_out("this user may make no pid namespaces, or the root is no mount point");
        return;
    }
    static const int contained[] = {0, 1, 3}; /* hosts of unequal numbers of ranks are given up */
    given.per_node = RANKS;
    given.contained = contained[_i];
    given.expected = (struct hd_comm_hosts){RANKS, 1};
    ranks_run(RANKS, body, NULL, "containers");
}
