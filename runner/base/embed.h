/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a file of the source tree into the program. */
#pragma once

/* Declares name[], the bytes of the file at `path`, a literal, and a zero behind them. CMake says
 * where the file is, and that the object depends on it. */
#define HD_EMBED(name, path)                                                                       \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.popsection\n");     \
    extern const char name[] __attribute__((visibility("hidden")))
