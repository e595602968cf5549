/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal as a screen of its own, without echo, whose keys are read one by one. Whatever ends
 * the process, but SIGKILL, gives the terminal back as it was. Called by the main thread only. */
#pragma once

enum { HD_TERMINAL_QUIT = 'q', HD_TERMINAL_CTRL_C = 3 };

struct hd_terminal_size {
    int columns, rows; /* of characters */
    int height, width; /* in pixels, as the terminal says; else of 20 x 10 for a character */
};

/* Takes over the terminal of stdin and stdout. hd_terminal_close, which may be called again, gives
 * it back. Returns HD_OK, or HD_ERR_INPUT (logged) when they are no terminal. */
int hd_terminal_open(void);
void hd_terminal_close(void);

/* Returns the present size: people change it. */
struct hd_terminal_size hd_terminal_get_size(void);

/* Waits for a key for at most `timeout_ms` and returns it; 0 when there was none, or a signal came.
 */
int hd_terminal_read_key(int timeout_ms);
