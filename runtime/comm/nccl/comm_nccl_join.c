/* SPDX-License-Identifier: Apache-2.0 */
#if HD_CUDA
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/nccl/comm_nccl_internal.h"
#include "runtime/machine/gpu_path.h"

#include <stdio.h>
#include <string.h>

static int check_options(const struct hd_nccl_options *options)
{
    if (options->ranks < 1 || options->ranks > HD_DEVICE_COMM_RANKS_MAX || options->rank < 0 ||
        options->rank >= options->ranks || options->n_devices < 1 ||
        options->n_devices > HD_DEVICE_COMM_RANKS_MAX)
        return HD_ERR_INPUT;
    return HD_OK;
}

/* Puts its sentence into why[HD_DEVICE_COMM_MESSAGE_BYTES] instead of the log. */
static int open_comm(const struct hd_nccl_options *options, const unsigned char *id,
                     struct hd_nccl **nccl_p, char *why)
{
    struct hd_nccl *nccl = hd_alloc(1, sizeof *nccl);
    if (!nccl) {
        snprintf(why, HD_DEVICE_COMM_MESSAGE_BYTES, "no memory for a communicator");
        return HD_ERR_NOMEM;
    }
    pthread_mutex_init(&nccl->lock, NULL);
    nccl->base = (struct hd_device_comm){.ops = &hd_nccl_ops, .comm = options->comm};
    if (options->comm)
        nccl->base.channel = hd_comm_get_channel(options->comm, 0);
    nccl->options = *options;
    memcpy(nccl->devices, options->devices, (size_t)options->n_devices * sizeof *nccl->devices);
    nccl->options.devices = nccl->devices;
    int status = hd_nccl_connect(nccl, id);
    if (status != HD_OK) {
        snprintf(why, HD_DEVICE_COMM_MESSAGE_BYTES, "%s", nccl->why);
        hd_nccl_destroy(&nccl->base);
        return status;
    }
    *nccl_p = nccl;
    return HD_OK;
}

/* Finds failures that can be known before anybody waits for this rank. */
static int prepare(const struct hd_nccl_options *options, char *why)
{
    const char *missing = hd_nccl_load();
    if (missing) {
        snprintf(why, HD_DEVICE_COMM_MESSAGE_BYTES, "%s", missing);
        return HD_ERR_UNSUPPORTED;
    }
    if (check_options(options) == HD_OK)
        return HD_OK;
    snprintf(why, HD_DEVICE_COMM_MESSAGE_BYTES, "NCCL for rank %d of %d (at most %d) with %d GPUs",
             options->rank, options->ranks, HD_DEVICE_COMM_RANKS_MAX, options->n_devices);
    return HD_ERR_INPUT;
}

/* Rank 0 tells its version too, as NCCL talks to its own version only. */
struct offer {
    unsigned char id[HD_NCCL_ID_BYTES];
    int32_t version; /* 0: rank 0 has failed */
};

static int compare_versions(const struct hd_nccl_options *options, int version, char *why)
{
    if (version == hd_nccl_get_loaded_version())
        return HD_OK;
    char local[HD_NCCL_VERSION_BYTES], other[HD_NCCL_VERSION_BYTES];
    hd_nccl_format_version(hd_nccl_get_loaded_version(), local);
    hd_nccl_format_version(version, other);
    snprintf(why, HD_DEVICE_COMM_MESSAGE_BYTES, "rank %d has NCCL %s, rank 0 has %s", options->rank,
             local, other);
    return HD_ERR_INPUT;
}

int hd_nccl_join(const struct hd_nccl_options *options, struct hd_rendezvous *rendezvous,
                 struct hd_device_comm **device_comm_p)
{
    char why[HD_DEVICE_COMM_MESSAGE_BYTES] = "";
    struct offer offer = {.version = 0};
    struct hd_nccl *nccl = NULL;
    int status = prepare(options, why);
    if (status == HD_OK && options->rank == 0)
        status = hd_nccl_make_id(offer.id, why);
    if (status == HD_OK && options->rank == 0)
        offer.version = hd_nccl_get_loaded_version();
    HD_TRY(hd_rendezvous_broadcast(rendezvous, &offer, sizeof offer));
    if (status == HD_OK && offer.version != 0)
        status = compare_versions(options, offer.version, why);
    HD_TRY(hd_rendezvous_agree(rendezvous, status, why));
    status = open_comm(options, offer.id, &nccl, why);
    status = hd_rendezvous_agree(rendezvous, status, why);
    if (status != HD_OK) {
        if (nccl) {
            hd_nccl_abort(&nccl->base);
            hd_nccl_destroy(&nccl->base);
        }
        return status;
    }
    *device_comm_p = &nccl->base;
    return HD_OK;
}
#endif
