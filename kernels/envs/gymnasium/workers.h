/* SPDX-License-Identifier: Apache-2.0 */
/* Worker processes, each with the block of memory that it shares with groups of envs. Functions
 * return 0, or -1 with a sentence in `message`; after a failure of a worker, only release remains.
 * Thread safe for different controls, from the start on. */
#pragma once

#include "kernels/envs/gymnasium/options.h"

#include <pthread.h>
#include <sys/types.h>

struct hd_bridge_worker {
    pid_t pid;   /* of its keeper (keep.h); 0: it does not run */
    int alive;   /* our end of a pipe: the kernel closes it when this process ends */
    int status;  /* of waitpid, once it has ended */
    int memory;  /* descriptor of the block until the worker has it, or -1 */
    void *block; /* [block_bytes], which envs may write over */
};

struct hd_bridge_workers {
    const struct hd_bridge_options *options;
    struct hd_bridge_header header; /* of each block; `envs` is the most of a worker */
    int64_t envs, n;                /* of all workers, and how many these are */
    int64_t block_bytes;
    struct hd_bridge_worker *worker; /* [n] */
    pthread_mutex_t lock;            /* of what follows, and of the processes */
    bool ready;                      /* the processes run, and have made their envs */
    char cause[HD_ENV_MESSAGE];      /* of a failure; "" before */
};

/* Who asks workers: names, in a sentence about a failure, the env of the workers that it is about.
 * The number comes from a worker: it may be none (-1), or anything. */
struct hd_bridge_user {
    void (*name)(const void *group, int64_t env, char message[HD_ENV_MESSAGE]);
    const void *group;
};

/* Lays out the blocks of `envs` envs as described, with `controls` of them for each worker, without
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

/* Returns a control, and its body and its picture. */
struct hd_bridge_control *hd_bridge_workers_get_control(const struct hd_bridge_workers *workers,
                                                        int64_t number);
char *hd_bridge_workers_get_body(const struct hd_bridge_workers *workers, int64_t control);
const char *hd_bridge_workers_get_picture(const struct hd_bridge_workers *workers, int64_t control);

/* Returns the records of an env. */
struct hd_bridge_input *hd_bridge_workers_get_input(const struct hd_bridge_workers *workers,
                                                    int64_t env);
struct hd_bridge_result *hd_bridge_workers_get_result(const struct hd_bridge_workers *workers,
                                                      int64_t env);

/* Returns the worker of env `env`; a worker has envs that follow each other, and all agents of a
 * parallel env. */
int64_t hd_bridge_workers_find(const struct hd_bridge_workers *workers, int64_t env);

/* Gives a command to the worker of a control. */
void hd_bridge_workers_give(struct hd_bridge_workers *workers, int64_t control, int command);

/* A wait for n commands, as far as it has come. */
struct hd_bridge_wait {
    int64_t first, next, end; /* controls: the turns of those before `next` are back */
    double since, looked;     /* when the next one's worker showed life, and was last looked at */
    uint32_t done;            /* calls of this worker by then */
    bool lost;                /* a worker is */
};

/* Begins a wait until the commands of n controls, from `first` on, are done. */
struct hd_bridge_wait hd_bridge_workers_begin_wait(const struct hd_bridge_workers *workers,
                                                   int64_t first, int64_t n);

/* Waits up to `seconds`, 0: not at all, and returns whether the wait is over: all commands are
 * done, or a worker is lost. Only a wait that lasts looks whether workers still live; a worker that
 * goes on with other commands is in time. */
bool hd_bridge_workers_wait(struct hd_bridge_workers *workers, struct hd_bridge_wait *wait,
                            double seconds, const struct hd_bridge_user *user);

/* Returns 0 after a wait that is over, or -1 on error with a sentence in `message`, about the first
 * worker that failed: what Python raised, that the process ended, that it has written over the
 * control, or that the time was over; it names the env that the worker was at. Python has written
 * its traceback to stderr. */
int hd_bridge_workers_end_wait(struct hd_bridge_workers *workers, const struct hd_bridge_wait *wait,
                               const struct hd_bridge_user *user, char message[HD_ENV_MESSAGE]);

/* Does the three. Returns 0, or -1 on error with a sentence in `message`. */
int hd_bridge_workers_await(struct hd_bridge_workers *workers, int64_t first, int64_t n,
                            const struct hd_bridge_user *user, char message[HD_ENV_MESSAGE]);
