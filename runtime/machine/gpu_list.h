/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the GPUs of this host without creating a CUDA context: on a GPU that another rank drives, a
 * context would cost hundreds of megabytes. One thread at a time. */
#pragma once

#include <stdint.h>

struct hd_topology;

enum {
    HD_GPUS_MAX = 64,    /* most GPUs of a host */
    HD_BUS_ID_BYTES = 16 /* "0000:3b:00.0" */
};

/* A GPU of this host. CUDA numbers it by its index in the list. */
struct hd_gpu {
    uint64_t id; /* tells it, or a part of it that MIG makes, from all others of all hosts */
    char bus_id[HD_BUS_ID_BYTES];
    int core; /* hwloc's logical index of the first core next to it; -1: not known */
};

/* Lists the GPUs that CUDA shows to this process (hd_device_count) in gpus_p[HD_GPUS_MAX] and
 * returns their number; it cannot fail. `topology` tells which cores are near them; NULL leaves
 * all cores unknown. */
int hd_gpus_list(const struct hd_topology *topology, struct hd_gpu *gpus_p);
