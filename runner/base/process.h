/* SPDX-License-Identifier: Apache-2.0 */
/* The surroundings of the process: descriptors, limits, and a standard output that may be full.
 * Called by the main thread. */
#pragma once

/* Opens /dev/null where descriptor 0, 1 or 2 is closed, as cron and daemons leave them, so that no
 * other file gets their number. Comes before anything else is opened. */
void hd_process_open_standard_descriptors(void);

/* Gives stdout, unless it is a terminal, a buffer that holds what most commands print, so that it
 * is hd_process_end that writes it and learns why that fails. */
void hd_process_buffer_output(void);

enum { HD_COMMAND_BYTES = 8192 };

/* Stores the command line as typed, quoted for a shell and cut to fit: that of the launcher, where
 * one started this process. */
void hd_process_get_command(char text_p[HD_COMMAND_BYTES]);

/* Hands the command line on to the ranks that this process starts. */
void hd_process_export_command(void);

/* Returns HD_OK, or HD_ERR_INPUT (logged) when the limits on the stack or on open files are lower
 * than the libraries below this program cope with. */
int hd_process_check_limits(void);

/* Writes what stdout still holds and returns the exit code: `code`, or that of HD_ERR_SYSTEM if
 * `code` is 0 and not everything could be written, which is logged unless the reader of a pipe has
 * left. */
int hd_process_end(int code);
