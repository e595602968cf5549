/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction set that the kernels are compiled for: the best of CMakeLists.txt's that they may
 * use. Thread safe. */
#pragma once

enum hd_isa { HD_ISA_V1, HD_ISA_V2, HD_ISA_V3, HD_ISA_V4, HD_ISA_V4_BF16, HD_ISA_V4_AMX };

/* Returns it. */
enum hd_isa hd_isa_get(void);

/* Returns its name, a constant: "x86-64-v4-bf16". */
const char *hd_isa_get_name(void);
