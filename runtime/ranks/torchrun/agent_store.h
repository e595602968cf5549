/* SPDX-License-Identifier: Apache-2.0 */
/* Tells ranks that torchrun started where rank 0 is. MASTER_ADDR:MASTER_PORT may be a store that
 * torchrun's agent keeps (TORCHELASTIC_USE_AGENT_STORE=True); rank 0 then listens at a port of its
 * own and tells it there. Thread safe. */
#ifndef HD_RUNTIME_RANKS_TORCHRUN_AGENT_STORE_H
#define HD_RUNTIME_RANKS_TORCHRUN_AGENT_STORE_H

#include "runtime/ranks/world.h"

/* Does nothing when world->store_key is "". Rank 0 opens the socket at which the others find it
 * (world->rendezvous_fd) and tells the store: at 127.0.0.1 when all ranks are on this host, else at
 * the address by which this host reaches the store. The others wait until it has done so. Both
 * store where rank 0 listens in world->master_addr and world->master_port. Returns HD_OK,
 * HD_ERR_SYSTEM (logged) when the store does not answer, or the ranks have waited as long as they
 * wait for one another; or HD_ERR_INPUT (logged). */
int hd_agent_store_exchange_address(struct hd_world *world);

#endif
