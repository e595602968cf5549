/* SPDX-License-Identifier: Apache-2.0 */
/* Worker processes and the block of memory that they share with groups of envs. Functions return 0,
 * or -1 with a sentence in `message`; after a failure of a worker, only release remains. Thread
 * safe for different controls, from the start on. */
#ifndef HD_KERNELS_ENVS_GYMNASIUM_WORKERS_H
#define HD_KERNELS_ENVS_GYMNASIUM_WORKERS_H

#include "kernels/envs/gymnasium/options.h"

#include <pthread.h>
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
    pthread_mutex_t lock;            /* of what follows, and of the processes */
    bool ready;                      /* the processes run, and have made their envs */
    char cause[HD_ENV_MESSAGE];      /* of a failure; "" before */
};

/* Who asks workers: names, in a sentence about a failure, the env of the block that it is about, or
 * none (-1). */
struct hd_bridge_user {
    void (*name)(const void *group, int64_t env, char message[HD_ENV_MESSAGE]);
    const void *group;
};

/* Lays out the block of `envs` envs as described, with `controls` of them for each worker, without
 * starting anything; description NULL: for one worker that only describes an env. `options`
 * outlives the workers. On errors, too, release has to follow. */
int hd_bridge_workers_init(const struct hd_bridge_options *options,
                           const struct hd_bridge_description *description, int64_t envs,
                           int64_t controls, struct hd_bridge_workers *workers_p,
                           char message[HD_ENV_MESSAGE]);

/* Starts the processes if they do not run; _start also waits until they have made their envs.
 * Return 0, or -1 on error with a sentence in `message`. */
int hd_bridge_workers_launch(struct hd_bridge_workers *workers, char message[HD_ENV_MESSAGE]);
int hd_bridge_workers_start(struct hd_bridge_workers *workers, const struct hd_bridge_user *user,
                            char message[HD_ENV_MESSAGE]);

/* Lets envs close, ends the processes with all that they started, and releases everything. */
void hd_bridge_workers_release(struct hd_bridge_workers *workers);

/* Returns a control. */
struct hd_bridge_control *hd_bridge_workers_get_control(const struct hd_bridge_workers *workers,
                                                        int64_t number);

/* Returns the worker of env `env`; a worker has envs that follow each other, and all agents of a
 * parallel env. */
int64_t hd_bridge_workers_find(const struct hd_bridge_workers *workers, int64_t env);

/* Returns what lies at an offset of the block. */
void *hd_bridge_workers_get(const struct hd_bridge_workers *workers, int64_t offset);

/* Gives a command to the worker of a control. */
void hd_bridge_workers_give(struct hd_bridge_workers *workers, int64_t control, int command);

/* Waits until the commands of n controls, from `first` on, are done. Returns 0, or -1 on error with
 * a sentence in `message`, about the first worker that failed: what Python raised, that the process
 * ended, or that the time was over; it names the env that the worker was at. Python has written its
 * traceback to stderr. A worker that goes on with other commands is in time. */
int hd_bridge_workers_await(struct hd_bridge_workers *workers, int64_t first, int64_t n,
                            const struct hd_bridge_user *user, char message[HD_ENV_MESSAGE]);

#endif
