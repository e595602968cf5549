/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from the environment which rank this process is: from the variables that torchrun,
 * Kubernetes and `runner launch` set, or from those of Open MPI's mpirun or SLURM's srun. Thread
 * safe as long as no thread changes the environment. */
#pragma once

#include "runtime/ranks/secret.h"

#include <stdbool.h>

enum {
    HD_WORLD_MAX = 4096, /* most ranks of a run */
    HD_ADDR_BYTES = 256, /* a host name or address with its zero */
    HD_KEY_BYTES = 256   /* a key of torchrun's store with its zero */
};

enum hd_launcher {
    HD_LAUNCHER_ENV,    /* RANK and WORLD_SIZE; or a single rank */
    HD_LAUNCHER_MPIRUN, /* rank 0's address is not known before hd_mpi_exchange_address */
    HD_LAUNCHER_SRUN
};

struct hd_world {
    enum hd_launcher launcher;
    int rank, world;             /* 0 <= rank < world */
    int local_rank, local_world; /* the same among the ranks of this host */
    char master_addr[HD_ADDR_BYTES];
    int master_port;   /* where rank 0 listens; 0 when world == 1, or not known yet */
    int rendezvous_fd; /* rank 0: a socket listening there, inherited from the launcher; else -1 */
    bool supervised;   /* `runner launch` watches this process and names the cause of its end */
    int starter;     /* process of torchrun, mpirun or srun that started this one; 0: of nobody's */
    bool has_secret; /* else under mpirun: rank 0 will draw one; or nobody is to know one */
    bool shares_secret; /* all ranks are on this host: rank 0 will draw one (host_secret.h) */
    uint8_t secret[HD_SECRET_BYTES]; /* of all ranks; zeros if there is none */
    char store_key[HD_KEY_BYTES]; /* "", or a store of torchrun's agent listens at master_addr and
                                     master_port: the key under which rank 0 says where it is */
};

/* Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, HD_RENDEZVOUS_FD
 * and HD_SUPERVISED, and of torchrun TORCHELASTIC_USE_AGENT_STORE and _RUN_ID. Both
 * LOCAL_ variables may be missing: then all ranks are on this host when MASTER_ADDR is a loopback
 * address, else this rank is alone on it. With none of the first four set, the variables of mpirun
 * count (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE), then those of srun (SLURM_PROCID,
 * _NTASKS, _LOCALID, _NODEID, _STEP_TASKS_PER_NODE); MASTER_ADDR and MASTER_PORT, where not set,
 * are then the first node of SLURM_STEP_NODELIST and a number made from the job's. With none of all
 * these this is rank 0 of 1. Returns HD_OK, or HD_ERR_INPUT (logged) for a value that is no number,
 * out of range or missing.
 */
int hd_world_read(struct hd_world *world_p);

/* Reads the secret of a world of several ranks, from `file` or as hd_secret_read finds it. Without
 * one, ranks of mpirun and ranks that are all on this host go on, as rank 0 draws one for them
 * (hd_mpi_exchange_address, hd_host_secret_share), and so do all when `insecure` lets anybody join,
 * with a warning. Returns HD_OK, or HD_ERR_INPUT (logged once a host), which says what to add. */
int hd_world_read_secret(struct hd_world *world, const char *file, bool insecure);

/* Reads the number of this node (SLURM_NODEID) and the name of the first node, where rank 0 is, for
 * a launcher that srun started once a node. Returns false when srun did not start this process. */
bool hd_world_read_slurm_node(int *node_rank_p, char master_addr_p[HD_ADDR_BYTES]);

/* Stores the address of rank 0's host that a user gives as `text`, without the brackets of
 * "[fd88::1]"; `from` names the variable or option. Returns HD_OK, or HD_ERR_INPUT (logged) for one
 * that is empty or too long, and for 0.0.0.0 and ::, to which nobody can connect. */
int hd_address_read(const char *from, const char *text, char address_p[HD_ADDR_BYTES]);

/* Returns whether `address` is this host's loopback device: localhost, 127.x.y.z or ::1. */
bool hd_address_is_loopback(const char *address);

/* Returns whether `address` means all addresses of a host: 0.0.0.0 or ::, however written. */
bool hd_address_is_unspecified(const char *address);
