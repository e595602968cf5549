/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask for an end: Ctrl-C, SIGTERM and SIGHUP. While a run starts, which may mean
 * waiting for other ranks, they end the process at once. Later the first one asks for a checkpoint
 * and an end; when neither has come within the grace time, the run ends without. SIGTERM and SIGHUP
 * change nothing then, because schedulers send them to a process and again to its group; Ctrl-C
 * ends the run at once. The main thread calls these functions unless stated otherwise; any thread
 * may read the flags. */
#pragma once

#include <stdatomic.h>

/* The signal because of which the run is to end at once; 0: none so far. */
extern atomic_int hd_interrupted;

/* The signal that asks for a checkpoint and an end; 0: none so far. */
extern atomic_int hd_asked_to_stop;

/* Catches them from now on, but leaves a SIGHUP alone that is ignored, as under nohup; from
 * `hd_signals_set_started` on, an orderly end is possible. The first one then leaves
 * sigterm_grace_s seconds for a checkpoint; 0: there are none. */
void hd_signals_catch(void);
void hd_signals_set_started(int sigterm_grace_s);

/* Logs once that a signal asks for an end and what happens now; nothing while none does. Called by
 * any thread. */
void hd_signals_announce(void);
