/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of docs/howto, which quotes the files beside this one. */
#pragma once

#include "runtime/comm/comm_links.h"
#include "tasks/base/registry.h"

enum { HD_SOCKET_RANKS = 8 };

/* verb.c: reads params `from`, updates params `to`, which stay within `limit` of them. */
extern const struct hd_verb hd_verb_keep_near;

/* transport.c: links over connected stream sockets, fds[r] leading to rank r. Takes the sockets
 * over. Returns HD_OK or HD_ERR_NOMEM. */
int hd_socket_links_open(int rank, int ranks, const int *fds, struct hd_links **links_p);
