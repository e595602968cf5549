// SPDX-License-Identifier: GPL-2.0-only
// Part of the Atari plug-in, which contains ALE and is under its licence (see emulator.cpp).
//
// M6502Low keeps its registers in bytes of memory, and a byte that is stored may be any other byte:
// a compiler must read them, and the tables of the bus, again after every store. Here they are
// local variables with the same names, so that ALE's own instructions (M6502Low.ins) are executed
// on them. Compiled with -fno-access-control.
#include "kernels/envs/atari/ale/processor.hpp"

#include "ale/emucore/Console.hxx"
#include "ale/emucore/M6502Low.hxx"
#include "ale/emucore/System.hxx"

#include <cstdint>

#define HD_INLINE __attribute__((always_inline))

using ale::stella::M6502Low;
using ale::stella::System;

namespace
{

// The state of a running processor that devices may read or change.
struct Shared {
    uint32_t cycles;
    uint8_t status, bus;
};

class Processor final : public M6502Low
{
  public:
    explicit Processor(const M6502Low &other) : M6502Low(other)
    {
    }
    bool execute(uint32_t number) override;

  private:
    void run(uint32_t *number_p);

    void publish(Shared shared, bool reads)
    {
        mySystem->myCycles = shared.cycles;
        mySystem->myDataBusState = shared.bus;
        myExecutionStatus = shared.status;
        myLastAccessWasRead = reads;
    }

    Shared shared() const
    {
        return {mySystem->myCycles, myExecutionStatus, mySystem->myDataBusState};
    }

    // Accesses devices; other accesses are to memory.
    __attribute__((noinline)) Shared peek_device(uint16_t address, Shared before)
    {
        publish(before, myLastAccessWasRead);
        mySystem->peek(address);
        return shared();
    }

    __attribute__((noinline)) Shared poke_device(uint16_t address, uint8_t value, Shared before,
                                                 bool reads)
    {
        publish(before, reads);
        mySystem->poke(address, value);
        return shared();
    }
};

// Replaces mySystem for the instructions.
struct Clock {
    uint32_t &cycles;
    HD_INLINE void incrementCycles(uint32_t n)
    {
        cycles += n;
    }
};

// Executes instructions until `number` are done or something sets the execution status.
void Processor::run(uint32_t *number_p)
{
    uint8_t A = this->A, X = this->X, Y = this->Y, SP = this->SP, IR = this->IR;
    uint16_t PC = this->PC;
    bool N = this->N, V = this->V, B = this->B, D = this->D, I = this->I, notZ = this->notZ,
         C = this->C, reads = myLastAccessWasRead;
    uint32_t number = *number_p, cycles = mySystem->myCycles;
    uint8_t status = myExecutionStatus, bus = mySystem->myDataBusState;
    const System::PageAccess *const pages = mySystem->myPageAccessTable;
    constexpr uint32_t mySystemCyclesPerProcessorCycle = 1;

    auto adopt = [&](Shared seen) HD_INLINE {
        cycles = seen.cycles;
        status = seen.status;
        bus = seen.bus;
    };
    auto peek = [&](uint16_t address) HD_INLINE -> uint8_t {
        const uint8_t *memory =
            pages[(address & System::myAddressMask) >> System::myPageSize].directPeekBase;
        if (__builtin_expect(memory != nullptr, 1))
            bus = memory[address & System::myPageMask];
        else
            adopt(peek_device(address, {cycles, status, bus}));
        reads = true;
        return bus;
    };
    auto poke = [&](uint16_t address, uint8_t value) HD_INLINE {
        uint8_t *memory =
            pages[(address & System::myAddressMask) >> System::myPageSize].directPokeBase;
        if (memory) {
            memory[address & System::myPageMask] = value;
            bus = value;
        } else {
            adopt(poke_device(address, value, {cycles, status, bus}, reads));
        }
        reads = false;
    };
    struct {
        bool &N, &V, &B, &D, &I, &notZ, &C;
        HD_INLINE uint8_t operator()() const
        {
            return static_cast<uint8_t>(0x20 | N << 7 | V << 6 | B << 4 | D << 3 | I << 2 |
                                        !notZ << 1 | C);
        }
        HD_INLINE void operator()(uint8_t ps) const
        {
            N = ps & 0x80;
            V = ps & 0x40;
            B = true; // always, in a 6507
            D = ps & 0x08;
            I = ps & 0x04;
            notZ = !(ps & 0x02);
            C = ps & 0x01;
        }
    } PS{N, V, B, D, I, notZ, C};
    Clock clock{cycles}, *const mySystem = &clock;

    for (; !status && number != 0; --number) {
        uint16_t operandAddress = 0;
        uint8_t operand = 0;
        IR = peek(PC++);
        cycles += ourInstructionProcessorCycleTable[IR];
        switch (IR) {
#include "ale/emucore/M6502Low.ins"
        default:
            status |= FatalErrorBit;
        }
    }

    this->A = A;
    this->X = X;
    this->Y = Y;
    this->SP = SP;
    this->IR = IR;
    this->PC = PC;
    this->N = N;
    this->V = V;
    this->B = B;
    this->D = D;
    this->I = I;
    this->notZ = notZ;
    this->C = C;
    publish({cycles, status, bus}, reads);
    *number_p = number;
}

bool Processor::execute(uint32_t number)
{
    myExecutionStatus &= FatalErrorBit;
    for (;;) {
        run(&number);
        if (myExecutionStatus & (MaskableInterruptBit | NonmaskableInterruptBit))
            interruptHandler();
        if (myExecutionStatus & StopExecutionBit)
            return true;
        if (myExecutionStatus & FatalErrorBit)
            return false;
        if (number == 0)
            return true;
    }
}

} // namespace

void heddle::replace_processor(ale::ALEInterface &ale)
{
    System &system = ale.theOSystem->console().system();
    auto *low = dynamic_cast<M6502Low *>(system.myM6502);
    if (!low)
        return;
    system.myM6502 = new Processor(*low);
    delete low;
}
