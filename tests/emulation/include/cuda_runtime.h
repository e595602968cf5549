/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for CUDA's header of this name where a .cu file is compiled as C++ for the host. */
#ifndef HD_TESTS_EMULATION_INCLUDE_CUDA_RUNTIME_H
#define HD_TESTS_EMULATION_INCLUDE_CUDA_RUNTIME_H

#ifdef __cplusplus
#include "tests/emulation/language.hpp"
#endif

#endif
