/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks of this node with torchrun's environment variables and supervises them: when a
 * rank fails, the launcher names it and stops the others, and it leaves no process behind. To be
 * used by a process with one thread. */
#pragma once

#include "runtime/launch/launch_options.h"

/* Tells the launcher, if there is one, in which directory the run is. Called by the rank that is
 * the first of its node. */
void hd_launch_tell_dir(const char *dir);

/* Runs the ranks with rank_argv (NULL-ended, with argv[0]) until all have ended; the first
 * SIGINT, SIGTERM or SIGHUP is passed on to them, and sigterm_grace_s and 1.5 s later they are
 * killed. A second SIGINT is passed on, too, and leaves them 1.5 s; a third one kills at once.
 * Between two attempts there is a pause, which grows from 0.5 s to a minute and is short again
 * after an attempt that lasted a minute. Every rank is a process group of its own, killed as a
 * whole when the rank ends, and dies with the launcher. The calling process must have one thread
 * and no other children. Returns an exit code, no status; errors are logged: 0 when all ranks
 * returned 0, 75 when some of them returned 75 or were ended by SIGTERM or SIGHUP before they
 * caught any; else that of the first cause (1 for a signal); 130 after SIGINT; 1 after SIGTERM or
 * SIGHUP unless all ranks returned 0 or 75; 2 for bad options and 1 for a taken port (both before
 * anything starts).
 */
int hd_ranks_launch(const struct hd_launch_options *options, char *const rank_argv[]);
