/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank this process is, from the environment that torchrun, Kubernetes and `runner launch`
 * set. */
#ifndef HD_RUNTIME_WORLD_H
#define HD_RUNTIME_WORLD_H

#include <stdbool.h>

enum {
    HD_WORLD_MAX = 4096, /* most ranks of a run */
    HD_ADDR_BYTES = 256  /* a host name or address with its zero */
};

struct hd_world {
    int rank, world;             /* 0 <= rank < world */
    int local_rank, local_world; /* the same among the ranks of this host */
    char master_addr[HD_ADDR_BYTES];
    int master_port; /* where rank 0 listens; 0 when world == 1 */
    int store_fd;    /* rank 0: a socket listening there, handed down by the launcher; else -1 */
    bool supervised; /* a launcher of ours watches this process and names the cause of an end */
};

/* Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, HD_STORE_FD and
 * HD_SUPERVISED. With none of the first six set this is rank 0 of 1. Both LOCAL_ variables may be
 * missing: then all ranks are on this host when MASTER_ADDR is a loopback address, else this rank
 * is alone on it.
 * Errors: HD_ERR_INPUT (logged) for a value that is no number or out of range, or missing. */
int hd_world_read(struct hd_world *world_p);

/* Whether `address` means this host by the loopback device: localhost, 127.x.y.z or ::1. */
bool hd_address_is_loopback(const char *address);

#endif
