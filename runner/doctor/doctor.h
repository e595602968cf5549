/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of `runner doctor`. The main thread makes them. */
#pragma once

#include "runtime/machine/machine.h"
#include "runtime/machine/topology.h"

#include <limits.h>
#include <stdbool.h>

enum { HD_MEAN_SIZES = 3, HD_ADVICE_MAX = 24, HD_ADVICE_BYTES = 320 };

/* A mean over the ranks as an exchange of gradients does it on shared memory: every rank writes its
 * operand, adds its slice of all operands in tree order, and copies the other slices of the result.
 */
struct hd_mean_test {
    bool passed;
    char problem[HD_ADVICE_BYTES]; /* "" when it passed */
    int ranks;
    double seconds;   /* it took */
    double latency_s; /* of a mean of one cache line */
    struct {
        int64_t bytes;
        int64_t count;
        double seconds_each; /* on average */
    } sizes[HD_MEAN_SIZES];
};

/* Lets `ranks` processes on this machine, bound as ranks are, compute means for about two seconds,
 * and checks every result. Call with one thread and no other children. */
void hd_mean_test_run(int ranks, struct hd_mean_test *test_p);

/* A Python for envs of Gymnasium. */
struct hd_python {
    char path[PATH_MAX];
    char python[32], gymnasium[32]; /* versions; "": it has no Gymnasium, or does not run */
};

/* Asks the Python of scripts/gymnasium, else $HEDDLE_PYTHON, else the first python3 in PATH, for
 * its versions. */
void hd_python_find(struct hd_python *python_p);

/* The findings of a trial of a GPU, or of several together. */
struct hd_gpu_test {
    bool tried;                              /* false: the build has no kernels for it */
    char problem[HD_ADVICE_BYTES];           /* "" when all went well */
    double seconds;                          /* that the runs took */
    double to_bytes_per_s, from_bytes_per_s; /* of copies from and to pinned memory; 0: none */
};

/* Trains twice on a GPU (CUDA's number), which has to end in the same bits; or on the first n GPUs
 * together, a rank each. Each run is a process of its own, so that a GPU that allows one process
 * is free for it: call before anything in this process uses a GPU. At most four minutes. */
void hd_gpu_test_run(int device, struct hd_gpu_test *test_p);
void hd_gpu_test_run_ranks(int n, struct hd_gpu_test *test_p);

/* Measures copies to a GPU and back, and compares what came back. */
void hd_gpu_test_copies(int device, struct hd_gpu_test *test);

struct hd_checkup {
    int ranks;
    struct hd_machine machine;
    struct hd_core_share *shares; /* [ranks] */
    int n_gpus;                   /* that CUDA shows this process */
    int gpus_seen;                /* that NVIDIA's kernel module knows */
    struct hd_gpu_test *gpus;     /* [n_gpus] */
    struct hd_gpu_test all_gpus;  /* together, where there are several */
    struct hd_python python;
    struct hd_mean_test mean;
};

enum hd_advice_level { HD_ADVICE_BROKEN, HD_ADVICE_RECOMMENDED, HD_ADVICE_NOTE };

struct hd_advice {
    enum hd_advice_level level;
    char text[HD_ADVICE_BYTES]; /* what is, and what to do */
};

/* Stores what is wrong or worth knowing, most important first, and returns how many pieces of
 * advice that is; there are no errors. Reads the environment. */
int hd_checkup_advise(const struct hd_checkup *checkup, struct hd_advice advice_p[HD_ADVICE_MAX]);
