/* SPDX-License-Identifier: Apache-2.0 */
/* Tells ranks that torchrun started where rank 0 is. MASTER_ADDR:MASTER_PORT may be a store that
 * torchrun's agent keeps (TORCHELASTIC_USE_AGENT_STORE=True); rank 0 then listens at a port of its
 * own and tells it there. Thread safe. */
#pragma once

#include "runtime/ranks/world.h"

/* Rank 0: opens the socket at which the others find it (world->rendezvous_fd) and tells the store:
 * at 127.0.0.1 when all ranks are on this host, else at the address by which this host reaches the
 * store. Stores this address and port in world->master_addr and world->master_port. Returns HD_OK,
 * or HD_ERR_SYSTEM or HD_ERR_INPUT (logged). */
int hd_agent_store_publish(struct hd_world *world);

/* The others: waits until rank 0 has told the store where it listens, at most until deadline_ns (of
 * hd_clock_get_ns), and stores that in root->master_addr and root->master_port; `world` names the
 * store. It may be what a rank 0 of an earlier attempt said, which another call then finds
 * replaced. Returns HD_OK or HD_ERR_SYSTEM (logged). */
int hd_agent_store_look_up(const struct hd_world *world, int64_t deadline_ns,
                           struct hd_world *root);
