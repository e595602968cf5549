/* SPDX-License-Identifier: Apache-2.0 */
/* HD_ON_GPU(table) is the address of a table of what runs on GPUs, NULL in builds without CUDA. */
#pragma once

#include <stddef.h>

#if HD_CUDA
#define HD_ON_GPU(table) (&(table))
#else
#define HD_ON_GPU(table) NULL
#endif
