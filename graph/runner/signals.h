/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and SIGTERM: while a run starts, which may mean waiting for other ranks, they end the
 * process at once. Later the first one asks for an orderly end, and a second one ends it at once.
 * The first SIGTERM of all asks for a checkpoint before, where there are any. The main thread calls
 * these functions; any thread may read the flags. */
#ifndef HD_GRAPH_RUNNER_SIGNALS_H
#define HD_GRAPH_RUNNER_SIGNALS_H

#include <stdatomic.h>

/* The signal that asks for an end; 0: none so far. */
extern atomic_int hd_interrupted;

/* 1 once SIGTERM has asked for a checkpoint and an end. */
extern atomic_int hd_asked_to_stop;

/* Catches both from now on; from `hd_signals_set_started` on, an orderly end is possible. SIGTERM
 * then leaves sigterm_grace_s seconds for a checkpoint; 0: there are none. */
void hd_signals_catch(void);
void hd_signals_set_started(int sigterm_grace_s);

#endif
