/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to the other ranks: the rendezvous, the transport between CPUs (runtime.transport) and
 * a device comm between GPUs. All ranks call these functions in the same order, each by its main
 * thread. */
#pragma once

#include "graph/plan/plan.h"
#include "runner/train/base/gpus.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/ranks/rendezvous.h"

struct hd_ranks {
    struct hd_world world;
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_device_comm *device_comm; /* or NULL */
};

/* Finds rank 0 where a launcher does not say where it is, and joins the rendezvous; ranks of
 * another config_hash, made of the lines in config_text (hd_rendezvous_options), or of another
 * fingerprint if the config does not allow that, are refused. Errors: those of
 * hd_mpi_exchange_address, hd_host_secret_share, hd_agent_store_publish and hd_rendezvous_create.
 */
int hd_ranks_join(struct hd_ranks *ranks, const struct hd_settings *settings, uint64_t config_hash,
                  const char *config_text, const char *fingerprint);

/* Creates ranks->comm and, if the plan uses it, ranks->device_comm. Errors (logged): HD_ERR_INPUT
 * when the ranks are where this transport does not reach; those of hd_comm_create,
 * hd_mpi_exchange_address, hd_mpi_open_links, hd_ucx_open_links, hd_tcp_open_links and
 * hd_nccl_join. */
int hd_ranks_connect(struct hd_ranks *ranks, const struct hd_settings *settings,
                     const struct hd_plan *plan, const struct hd_gpus *gpus);

/* Releases all but what others were given. The session must be gone. */
void hd_ranks_leave(struct hd_ranks *ranks);
