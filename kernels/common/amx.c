/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/amx.h"

#ifdef HD_AMX

#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool ready;

/* Linux grants the tile registers only to processes that request_tiles for them. */
static void request_tiles(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned eax, ebx, ecx, edx;
    ready = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && edx & AMX_BF16 && edx & AMX_TILE &&
            syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

bool hd_amx_is_ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, request_tiles);
    return ready;
}

#else

bool hd_amx_is_ready(void)
{
    return false;
}

#endif
