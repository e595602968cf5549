/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in exports one symbol, `hd_mpi_plugin`, and uses no symbols of the program. Functions
 * return HD_OK, or a status with a sentence in text[bytes]. One thread at a time, but links of
 * several channels may be used at once. */
#pragma once

#include "runtime/comm/comm_links.h"

enum { HD_MPI_ABI = 1 };

struct hd_mpi_plugin {
    int abi;
    int (*start)(int *rank_p, int *ranks_p, char *text, int64_t bytes);
    int (*broadcast)(void *data, int64_t bytes, char *text, int64_t text_bytes); /* of rank 0 */
    int (*links)(struct hd_links **links_p, char *text, int64_t bytes);
    void (*stop)(void);
};
