/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of this process and of what it has started. One thread at a time. */
#ifndef HD_RUNNER_CHECK_MEMORY_H
#define HD_RUNNER_CHECK_MEMORY_H

#include <stdint.h>

/* Returns the resident bytes of this process and of its children; 0: not known. */
int64_t hd_memory_count_resident(void);

#endif
