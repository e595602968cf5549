/* SPDX-License-Identifier: Apache-2.0 */
/* The worker processes of a group and the block of memory that they share with it. Functions return
 * 0, or -1 with a sentence in `message`; after a failure of a worker, only release remains. One
 * thread at a time for one group of workers. */
#ifndef HD_KERNELS_ENVS_GYMNASIUM_WORKERS_H
#define HD_KERNELS_ENVS_GYMNASIUM_WORKERS_H

#include "kernels/envs/gymnasium/options.h"

#include <sys/types.h>

struct hd_bridge_worker {
    pid_t pid;  /* 0: it does not run; also the number of its process group */
    int alive;  /* our end of a pipe: the kernel closes it when this process ends */
    int status; /* of waitpid, once it has ended */
};

struct hd_bridge_workers {
    const struct hd_bridge_options *options;
    int memory; /* descriptor of the block */
    int64_t block_bytes;
    struct hd_bridge_header *block;
    struct hd_bridge_worker *worker; /* [block->workers] */
    bool started;                    /* processes were started */
    bool ready;                      /* and all have made their envs */
    bool failed;
};

/* Lays out the block of `envs` envs as described, without starting anything; description NULL: for
 * one worker that only describes an env. `options` outlives the workers. On errors, too, release
 * has to follow. */
int hd_bridge_workers_init(const struct hd_bridge_options *options,
                           const struct hd_bridge_description *description, int64_t envs,
                           struct hd_bridge_workers *workers_p, char message[HD_ENV_MESSAGE]);

/* Starts the processes if they do not run, and waits until they have made their envs. Returns 0, or
 * -1 on error with a sentence in `message`. */
int hd_bridge_workers_start(struct hd_bridge_workers *workers, char message[HD_ENV_MESSAGE]);

/* Lets envs close, ends the processes with all that they started, and releases everything. */
void hd_bridge_workers_release(struct hd_bridge_workers *workers);

/* Returns the control of a worker. */
struct hd_bridge_control *hd_bridge_workers_get_control(const struct hd_bridge_workers *workers,
                                                        int64_t worker);

/* Returns the worker of env `env`; a worker has envs that follow each other, and all agents of a
 * parallel env. */
int64_t hd_bridge_workers_find(const struct hd_bridge_workers *workers, int64_t env);

/* Returns what lies at an offset of the block. */
void *hd_bridge_workers_get(const struct hd_bridge_workers *workers, int64_t offset);

/* Gives a command to a worker. */
void hd_bridge_workers_give(struct hd_bridge_workers *workers, int64_t worker, int command);

/* Waits until all workers have done their commands. Returns 0, or -1 on error with a sentence in
 * `message`, about the first worker that failed: what Python raised, that the process ended, or
 * that the time was over; and in *env_p the env that the worker was at, or -1. Python has written
 * its traceback to stderr. */
int hd_bridge_workers_await(struct hd_bridge_workers *workers, int64_t *env_p,
                            char message[HD_ENV_MESSAGE]);

#endif
