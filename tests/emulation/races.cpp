/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the races of kernels that are compiled with -fsanitize=thread. The compiler then calls a
 * function before each access to memory; these functions are here, in place of ThreadSanitizer's
 * library. Threads of a block are ordered by __syncthreads() alone, and blocks of a launch by
 * nothing. Two accesses to a byte that nothing orders, one of which writes, end the program, in
 * whatever order they happened. */
#include "tests/emulation/races.hpp"

#include "tests/emulation/runtime.hpp"

#include <execinfo.h>
#include <map>
#include <memory>

namespace
{

/* A thread's stretch between two barriers has a number: the threads of an interval have successive
 * ones, and numbers grow from interval to interval and from block to block of a launch. A byte
 * knows the stretches that wrote and read it last (0: none). */
struct Byte {
    uint32_t writer;
    uint32_t reader : 30;
    uint32_t by_several : 1; /* other threads have read it in the interval of the last reader */
    uint32_t by_others : 1;  /* other blocks have read it before the one of the last reader */
};

const uintptr_t PAGE = 4096;
const uint32_t MOST_STRETCHES = 1u << 30;

struct Page {
    bool is_shared; /* memory that each block has for itself */
    Byte bytes[PAGE];
};

std::map<uintptr_t, std::unique_ptr<Page>> pages; /* of this launch */
uintptr_t recent_number;
Page *recent; /* where the last access was */

uint32_t n_threads, block_begin, interval_begin, interval_end, self;
uintptr_t stack_begin, stack_bytes;

/* Launches and other threads of the host run functions of the same files. */
__attribute__((tls_model("initial-exec"))) thread_local bool in_kernel;

void open_page(uintptr_t at)
{
    std::unique_ptr<Page> &page = pages[recent_number = at / PAGE];
    bool fits;
    if (!page) {
        page.reset(new Page());
        page->is_shared = emulation::place((void *)at, 1, &fits) == emulation::PAGEABLE;
    }
    recent = page.get();
}

/* Whether nothing orders that stretch and what the running thread does now. */
bool is_unordered(uint32_t stretch)
{
    if (stretch >= interval_begin)
        return stretch != self;
    return stretch > 0 && stretch < block_begin && !recent->is_shared;
}

/* The same for all that have read the byte. */
bool is_read_unordered(const Byte &byte)
{
    return is_unordered(byte.reader) || (byte.by_several && byte.reader >= interval_begin) ||
           (byte.by_others && !recent->is_shared);
}

[[noreturn]] void report(uintptr_t at, const char *what, const char *other, uint32_t stretch,
                         void *code)
{
    const char *memory = recent->is_shared ? "shared" : "global";
    const char *who =
        stretch < block_begin ? "another block" : "another thread, with no barrier between,";
    char **symbol = backtrace_symbols(&code, 1);
    emulation::die_in_kernel("race: %s a byte of %s memory at %p that %s %s, at %s", what, memory,
                             (void *)at, who, other, symbol ? symbol[0] : "?");
}

void note_read(Byte &byte, uintptr_t at, void *code)
{
    if (is_unordered(byte.writer))
        report(at, "reads", "writes", byte.writer, code);
    if (byte.reader == self)
        return;
    byte.by_several = byte.reader >= interval_begin;
    byte.by_others |= byte.reader > 0 && byte.reader < block_begin;
    byte.reader = self;
}

void note_write(Byte &byte, uintptr_t at, void *code)
{
    if (is_unordered(byte.writer))
        report(at, "writes", "writes", byte.writer, code);
    if (is_read_unordered(byte))
        report(at, "writes", "reads", byte.reader, code);
    byte.writer = self;
}

/* Has the compiler make a function of each kind of access. */
template <bool WRITES> inline void access(void *address, size_t bytes, void *code)
{
    const uintptr_t begin = (uintptr_t)address;
    if (!in_kernel || begin - stack_begin < stack_bytes)
        return;
    for (uintptr_t at = begin; at < begin + bytes; at++) {
        if (!recent || recent_number != at / PAGE)
            open_page(at);
        Byte &byte = recent->bytes[at % PAGE];
        WRITES ? note_write(byte, at, code) : note_read(byte, at, code);
    }
}

} // namespace

/* -- What the kernel does ---------------------------------------------------------------------- */

void emulation::begin_launch()
{
    interval_end = 1;
    in_kernel = true;
}

void emulation::end_launch()
{
    in_kernel = false;
    pages.clear();
    recent = nullptr;
}

void emulation::begin_block(unsigned threads)
{
    n_threads = threads;
    block_begin = interval_end;
    pass_barrier();
}

void emulation::pass_barrier()
{
    interval_begin = interval_end;
    interval_end += n_threads;
    if (interval_end > MOST_STRETCHES)
        die_in_kernel("too many threads and barriers for the race detector to number");
}

void emulation::continue_as(unsigned thread, const char *stack, size_t bytes)
{
    self = interval_begin + thread;
    stack_begin = (uintptr_t)stack;
    stack_bytes = bytes;
}

/* -- What the compiler calls ------------------------------------------------------------------- */

#define ACCESS(bytes)                                                                              \
    extern "C" void __tsan_read##bytes(void *address)                                              \
    {                                                                                              \
        access<false>(address, bytes, __builtin_return_address(0));                                \
    }                                                                                              \
    extern "C" void __tsan_write##bytes(void *address)                                             \
    {                                                                                              \
        access<true>(address, bytes, __builtin_return_address(0));                                 \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

extern "C" void __tsan_read_range(void *address, long bytes)
{
    access<false>(address, (size_t)bytes, __builtin_return_address(0));
}

extern "C" void __tsan_write_range(void *address, long bytes)
{
    access<true>(address, (size_t)bytes, __builtin_return_address(0));
}

extern "C" void __tsan_init()
{
}
