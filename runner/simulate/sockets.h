/* SPDX-License-Identifier: Apache-2.0 */
/* Measures what sockets cost a processor. One thread. */
#pragma once

/* Stores how many bytes a second one processor both sends and receives over TCP within this host,
 * from memory to memory that no cache holds. Returns HD_OK, HD_ERR_NOMEM or HD_ERR_SYSTEM (logged).
 */
int hd_sockets_measure(double *bytes_per_s_p);
