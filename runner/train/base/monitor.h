/* SPDX-License-Identifier: Apache-2.0 */
/* A thread beside the run that shows where it is when asked by SIGUSR1, looks for what ends the run
 * while the main thread is busy, stops a rank whose launcher has ended, and ends a process whose
 * main thread cannot: a task that does not return may be on it. Called by the main thread unless
 * stated otherwise. */
#pragma once

#include "runtime/engine/session.h"
#include "runtime/ranks/rendezvous.h"

#include <pthread.h>
#include <stdatomic.h>

struct hd_monitor {
    _Atomic(struct hd_session *) session; /* while other threads may look at it */
    pthread_mutex_t lock;                 /* held by the rendezvous's thread while it does */
    struct hd_rendezvous *rendezvous;     /* or NULL */
    int rank;
    int starter;                           /* hd_world.starter, whose end stops this rank; or 0 */
    void (*record)(void *arg, int status); /* called before it ends the process; or NULL */
    void *arg;
    pthread_t thread; /* while `started` */
    bool started;
    atomic_bool ends;
};

/* Blocks SIGUSR1 in the calling thread and in all that it makes later. */
void hd_monitor_prepare(void);

/* Starts the thread on monitor->session, which exists until hd_monitor_stop (which accepts a
 * monitor that never started). Errors: HD_ERR_SYSTEM (logged). */
int hd_monitor_start(struct hd_monitor *monitor, int rank, struct hd_rendezvous *rendezvous);
void hd_monitor_stop(struct hd_monitor *monitor);

/* Says that the main thread has left its tasks and ends the process by itself. */
void hd_monitor_note_end(struct hd_monitor *monitor);

/* Logs a line for each rank; rank 0 knows what the others last said. Called by any thread. */
void hd_monitor_show(const struct hd_monitor *monitor);

/* Returns how far this rank is (hd_session_count_progress). Called by the rendezvous's thread, also
 * before and after there is a session. */
int64_t hd_monitor_count_progress(struct hd_monitor *monitor);

/* Writes where this rank is to text[bytes]. Called by the rendezvous's thread, also before and
 * after there is a session. */
void hd_monitor_describe(struct hd_monitor *monitor, char *text, int64_t bytes);
