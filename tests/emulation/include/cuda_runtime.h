/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for CUDA's header of this name where a .cu file is compiled as C++ for the host. */
#pragma once

#ifdef __cplusplus
#include "tests/emulation/language.hpp"
#endif
