/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/conv/isa.h"

enum hd_isa hd_isa_get(void)
{
#if defined __AMX_BF16__ && defined __AVX512BF16__
    return HD_ISA_V4_AMX;
#elif defined __AVX512BF16__
    return HD_ISA_V4_BF16;
#elif defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512DQ__ && defined __AVX512VL__
    return HD_ISA_V4;
#elif defined __AVX2__ && defined __FMA__
    return HD_ISA_V3;
#elif defined __SSE4_2__
    return HD_ISA_V2;
#else
    return HD_ISA_V1;
#endif
}

const char *hd_isa_get_name(void)
{
    static const char *const names[] = {[HD_ISA_V1] = "x86-64",
                                        [HD_ISA_V2] = "x86-64-v2",
                                        [HD_ISA_V3] = "x86-64-v3",
                                        [HD_ISA_V4] = "x86-64-v4",
                                        [HD_ISA_V4_BF16] = "x86-64-v4-bf16",
                                        [HD_ISA_V4_AMX] = "x86-64-v4-amx"};
    return names[hd_isa_get()];
}
