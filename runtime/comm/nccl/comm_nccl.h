/* SPDX-License-Identifier: Apache-2.0 */
/* A device comm by NCCL, on a stream of its own. libnccl.so.2 is loaded when it is first asked for,
 * so programs without GPU ranks do without it; a build without CUDA returns HD_ERR_UNSUPPORTED.
 * One thread at a time. */
#pragma once

#include "runtime/comm/device_comm.h"
#include "runtime/ranks/rendezvous.h"

enum { HD_NCCL_OLDEST = 21800 }; /* 2.18: the first whose non-blocking communicators are complete */

struct hd_nccl_options {
    int rank, ranks;
    const int *devices; /* CUDA's numbers of this rank's GPUs; [0] takes part. Read at creation */
    int n_devices;
    int64_t timeout_ns;   /* for all to join; 0: 40 s, less than the rendezvous's patience */
    struct hd_comm *comm; /* as in struct hd_device_comm */
};

/* Loads the library and stores its version, 22809 for 2.28.9. Returns HD_OK, or HD_ERR_UNSUPPORTED
 * (logged) when there is none, or an older one than HD_NCCL_OLDEST. */
int hd_nccl_get_version(int *version_p);

/* Joins the other ranks, on all ranks at its place among the rendezvous's broadcasts, polling until
 * all are there. The environment that NCCL reads (hd_nccl_share_gpus) is set before. All ranks
 * succeed or all fail, with one sentence. Released by hd_device_comm_destroy. Returns HD_OK, or
 * (logged) HD_ERR_UNSUPPORTED, HD_ERR_INPUT for other versions or too many ranks, HD_ERR_DEVICE for
 * an error of CUDA or NCCL, HD_ERR_PEER when not all joined in time, and the errors of
 * hd_rendezvous_agree. */
int hd_nccl_join(const struct hd_nccl_options *options, struct hd_rendezvous *rendezvous,
                 struct hd_device_comm **device_comm_p);
