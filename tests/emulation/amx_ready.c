/* SPDX-License-Identifier: Apache-2.0 */
/* In place of kernels/common/amx.c in programs on emulated tiles. */
#include "kernels/common/amx.h"

bool hd_amx_is_ready(void)
{
    return true;
}
