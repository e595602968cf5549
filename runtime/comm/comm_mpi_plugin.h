/* SPDX-License-Identifier: Apache-2.0 */
/* What the plug-in exports, as one symbol `hd_mpi_plugin`. It needs nothing of the program's, so it
 * is told nothing but this. Functions return 0, or a status with a sentence in text[bytes]. */
#ifndef HD_RUNTIME_COMM_COMM_MPI_PLUGIN_H
#define HD_RUNTIME_COMM_COMM_MPI_PLUGIN_H

#include "runtime/comm/comm_links.h"

enum { HD_MPI_ABI = 1 };

struct hd_mpi_plugin {
    int abi;
    int (*version)(char *text, int64_t bytes);
    int (*start)(int *rank_p, int *ranks_p, char *text, int64_t bytes);
    int (*broadcast)(void *data, int64_t bytes, char *text, int64_t text_bytes); /* of rank 0 */
    int (*links)(struct hd_links **links_p, char *text, int64_t bytes);
    void (*stop)(void);
};

#endif
