/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a TCP connection, as far as the system tells. Thread safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Stores the user who owns the other end of a connection within this host (and its network
 * namespace). Returns false for one of another host, and where the kernel does not tell. */
bool hd_peer_get_uid(int fd, uint32_t *uid_p);

/* Returns whether the other end is known to belong to a user who is neither this one nor root. */
bool hd_peer_is_foreign(int fd);

/* Counts a connection that was no rank's, and logs the first with its address, its user where that
 * is known, and why it is dropped ("it ..."). */
void hd_peer_report_unknown(int fd, const char *why, int *count);
