/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the threads of a kernel's blocks, block after block, as fibres. A fibre runs threads one
 * after the other until one waits for others; the next fibre goes on with those not yet started.
 * So kernels without barriers never switch stacks. What is undefined on a GPU ends the program. */
#include "tests/emulation/kernel.hpp"
#include "tests/emulation/races.hpp"

#include <algorithm>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace
{

const hd_emulated_kernel *kernel;

} // namespace

void emulation::die_in_kernel(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulation: kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", kernel->name,
            blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

namespace
{

using emulation::die_in_kernel;

enum { WARP = 32, STACK = 256 << 10 };

/* A stack and where its execution stands. */
struct Fibre {
    char *stack = nullptr;
    size_t bytes = STACK;
    void *at[5]; /* of __builtin_setjmp */
    void *fake_stack = nullptr;
};

const char TILES[] = "mma.sync"; /* the exchange that multiplies */

enum State { NOT_STARTED, READY, AT_BARRIER, IN_WARP, FINISHED };

struct Thread {
    State state = NOT_STARTED;
    Fibre *fibre = nullptr;
    /* Its part in an exchange of the warp. */
    const char *what;
    unsigned mask;
    int source;
    uint64_t value;
    bool predicate;
    hd_emulated_exchanged result;
};

std::vector<Thread> threads; /* of the running block */
unsigned n_threads, n_started, n_finished, n_at_barrier, n_in_warps;
int n_true, barrier_result;
Thread *current;
Fibre scheduler;
/* Never destroyed: its fibres are no leak. */
std::vector<Fibre *> &idle = *new std::vector<Fibre *>;
std::vector<uint32_t> order, block_order; /* of the block's threads, of the blocks */
uint64_t n_orders;                        /* that threads have run in */

/* -- Switching --------------------------------------------------------------------------------- */

/* The builtins save what the caller of a function may expect to be kept, and call no system. They
 * must not meet in one function. */
[[noreturn]] __attribute__((noinline, no_sanitize("address"))) void leap(Fibre *to)
{
    __builtin_longjmp(to->at, 1);
}

__attribute__((noinline, no_sanitize("address"))) void jump(Fibre *from, Fibre *to)
{
    if (__builtin_setjmp(from->at) == 0)
        leap(to);
}

void before_switch(Fibre *from, Fibre *to)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->bytes);
#else
    (void)from, (void)to;
#endif
}

void after_switch(Fibre *now)
{
#ifdef __SANITIZE_ADDRESS__
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(now->fake_stack, &bottom, &bytes);
    if (now != &scheduler) { /* It came from the scheduler, whose stack is thereby known. */
        scheduler.stack = (char *)bottom;
        scheduler.bytes = bytes;
    }
#else
    (void)now;
#endif
}

void switch_to(Fibre *from, Fibre *to)
{
    before_switch(from, to);
    jump(from, to);
    after_switch(from);
}

/* The lanes of the warp of threads [first, first + 32). */
unsigned lanes_of(unsigned first)
{
    return std::min(n_threads - first, (unsigned)WARP);
}

unsigned number_of(const Thread *thread)
{
    return (unsigned)(thread - threads.data());
}

void go_on_as(Thread *thread)
{
    const unsigned i = number_of(thread);
    current = thread;
    emulation::continue_as(i, thread->fibre->stack, thread->fibre->bytes);
    threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

void release_warp(unsigned first);

void finish(Thread *thread)
{
    thread->state = FINISHED;
    n_finished++;
    if (n_at_barrier > 0)
        die_in_kernel("has ended while others wait in __syncthreads()");
    if (n_in_warps > 0)
        release_warp(number_of(thread) / WARP * WARP);
}

/* A fibre starts threads while there are any, then waits for the next block. */
void fibre_main(unsigned low, unsigned high)
{
    Fibre *self = (Fibre *)((uintptr_t)high << 32 | low);
    after_switch(self);
    for (;;) {
        while (n_started < n_threads) {
            Thread *thread = &threads[order[n_started++]];
            thread->fibre = self;
            go_on_as(thread);
            thread->state = READY;
            kernel->thread();
            finish(current);
        }
        idle.push_back(self);
        switch_to(self, &scheduler);
    }
}

/* Makes a fibre and lets it start threads, the only time that it is entered from outside. */
__attribute__((noinline)) void start_fibre()
{
    const long page = sysconf(_SC_PAGESIZE);
    Fibre *fibre = new Fibre;
    char *mapping = (char *)mmap(nullptr, page + STACK, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED || mprotect(mapping, page, PROT_NONE) != 0)
        die_in_kernel("no memory for a stack");
    fibre->stack = mapping + page;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = fibre->stack;
    context.uc_stack.ss_size = fibre->bytes;
    context.uc_link = nullptr;
    makecontext(&context, (void (*)())fibre_main, 2, (unsigned)(uintptr_t)fibre,
                (unsigned)((uintptr_t)fibre >> 32));
    before_switch(&scheduler, fibre);
    if (__builtin_setjmp(scheduler.at) == 0)
        setcontext(&context);
    after_switch(&scheduler);
}

/* The running thread gives way until somebody has made it READY. */
void wait_as(State state)
{
    Thread *thread = current;
    thread->state = state;
    switch_to(thread->fibre, &scheduler);
}

/* -- Blocks ------------------------------------------------------------------------------------ */

[[noreturn]] void die_of_deadlock()
{
    for (Thread &thread : threads) {
        if (thread.state == FINISHED)
            continue;
        go_on_as(&thread);
        if (thread.state == AT_BARRIER)
            die_in_kernel(
                "waits in __syncthreads() for ever: some of the block's threads do not come");
        die_in_kernel("waits in %s(0x%08x) for ever: some of these lanes do not come", thread.what,
                      thread.mask);
    }
    abort();
}

void run_block()
{
    threads.assign(n_threads, Thread());
    hd_emulated_put_in_order(order, n_threads, n_orders++);
    n_started = n_finished = n_at_barrier = n_in_warps = n_true = 0;
    emulation::begin_block(n_threads);
    while (n_started < n_threads) {
        if (idle.empty()) {
            start_fibre();
            continue;
        }
        Fibre *fibre = idle.back();
        idle.pop_back();
        switch_to(&scheduler, fibre);
    }
    while (n_finished < n_threads) {
        bool moved = false;
        if (hd_emulated_order_is_random()) /* another one in each interval between barriers */
            hd_emulated_put_in_order(order, n_threads, n_orders++);
        for (unsigned i = 0; i < n_threads; i++) {
            Thread *thread = &threads[order[i]];
            if (thread->state != READY)
                continue;
            moved = true;
            go_on_as(thread);
            switch_to(&scheduler, thread->fibre);
        }
        if (!moved)
            die_of_deadlock();
    }
}

/* -- Warps ------------------------------------------------------------------------------------- */

/* Whether all lanes of the mask that still run have come; then they are made ready. */
void complete(Thread *warp, unsigned n_lanes, unsigned mask, const char *what)
{
    uint32_t ballot = 0;
    for (unsigned l = 0; l < n_lanes; l++) {
        if (!(mask >> l & 1) || warp[l].state == FINISHED)
            continue;
        if (warp[l].state != IN_WARP || warp[l].mask != mask || strcmp(warp[l].what, what))
            return;
        ballot |= (uint32_t)warp[l].predicate << l;
    }
    const auto takes_part = [&](int lane) {
        return lane >= 0 && lane < (int)n_lanes && mask >> lane & 1 && warp[lane].state != FINISHED;
    };
    for (unsigned l = 0; l < n_lanes; l++)
        if (takes_part((int)l)) {
            const int source = warp[l].source;
            warp[l].result = {takes_part(source) ? warp[source].value : UINT64_MAX, ballot};
        }
    for (unsigned l = 0; l < n_lanes; l++)
        if (takes_part((int)l)) {
            warp[l].state = READY;
            n_in_warps--;
        }
}

/* After a lane of the warp has ended. */
void release_warp(unsigned first)
{
    const unsigned n_lanes = lanes_of(first);
    Thread *warp = &threads[first];
    for (unsigned l = 0; l < n_lanes; l++)
        if (warp[l].state == IN_WARP && !strcmp(warp[l].what, TILES))
            die_in_kernel("has ended while lanes of its warp multiply tiles");
        else if (warp[l].state == IN_WARP)
            complete(warp, n_lanes, warp[l].mask, warp[l].what);
}

/* Lets the running lane come to an exchange. Returns whether it was the last one. */
bool come(const char *what, unsigned mask, int source, uint64_t value, bool predicate)
{
    Thread *self = current;
    const unsigned first = number_of(self) / WARP * WARP;
    if (!(mask >> (number_of(self) - first) & 1))
        die_in_kernel("calls %s(0x%08x), a mask without its lane", what, mask);
    self->what = what;
    self->mask = mask;
    self->source = source;
    self->value = value;
    self->predicate = predicate;
    self->state = IN_WARP;
    n_in_warps++;
    complete(&threads[first], lanes_of(first), mask, what);
    return self->state != IN_WARP;
}

/* All lanes of the running one's warp have come. */
void compute_tiles()
{
    const Thread *warp = &threads[number_of(current) / WARP * WARP];
    const hd_emulated_tiles *lanes[WARP];
    for (unsigned l = 0; l < WARP; l++)
        lanes[l] = (const hd_emulated_tiles *)(uintptr_t)warp[l].value;
    hd_emulated_compute_tiles(lanes);
}

} // namespace

hd_emulated_exchanged hd_emulated_exchange(const char *what, unsigned mask, int source,
                                           uint64_t value, bool predicate)
{
    Thread *self = current;
    if (!come(what, mask, source, value, predicate))
        wait_as(IN_WARP);
    return self->result;
}

void hd_emulated_multiply_tiles(int n, const uint32_t *a, const uint2 *b, float *c)
{
    const hd_emulated_tiles tiles = {n, a, b, c};
    const unsigned first = number_of(current) / WARP * WARP;
    for (unsigned l = 0; l < WARP; l++)
        if (lanes_of(first) < WARP || threads[first + l].state == FINISHED)
            die_in_kernel("multiplies tiles without all lanes of its warp");
    if (come(TILES, UINT32_MAX, 0, (uint64_t)(uintptr_t)&tiles, false))
        compute_tiles();
    else
        wait_as(IN_WARP);
}

int hd_emulated_barrier(const char *place, bool predicate)
{
    if (hd_emulated_leaves_out(place))
        return 0;
    if (n_finished > 0)
        die_in_kernel("is in __syncthreads(), which others have not reached before they ended");
    n_true += predicate;
    if (++n_at_barrier < n_threads) {
        wait_as(AT_BARRIER);
        return barrier_result;
    }
    barrier_result = n_true;
    n_at_barrier = n_true = 0;
    emulation::pass_barrier();
    go_on_as(current);
    for (Thread &thread : threads)
        thread.state = READY;
    return barrier_result;
}

/* -- Shared memory ----------------------------------------------------------------------------- */

static char *shared_begin, *shared_end;

void hd_emulated_shared_at(char *begin, char *end)
{
    shared_begin = begin;
    shared_end = end;
}

/* Notes the kernel's name in the file HD_EMULATED_KERNELS. */
static void note_name()
{
    static const char *const path = getenv("HD_EMULATED_KERNELS");
    static FILE *const file = path ? fopen(path, "a") : nullptr;
    if (!file)
        return;
    fprintf(file, "%s\n", kernel->name);
    fflush(file);
}

void hd_emulated_run(const hd_emulated_kernel &it)
{
    kernel = &it;
    note_name();
    gridDim = it.grid;
    blockDim = it.block;
    n_threads = it.block.x * it.block.y * it.block.z;
    emulation::begin_launch();
    hd_emulated_put_in_order(block_order, (size_t)gridDim.x * gridDim.y * gridDim.z, n_orders++);
    for (uint32_t at : block_order) {
        blockIdx = {at % gridDim.x, at / gridDim.x % gridDim.y, at / gridDim.x / gridDim.y};
        if (shared_end > shared_begin)
            memset(shared_begin, 0xFF, (size_t)(shared_end - shared_begin));
        run_block();
    }
    emulation::end_launch();
}
