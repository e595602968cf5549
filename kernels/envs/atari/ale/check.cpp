// SPDX-License-Identifier: GPL-2.0-only
// Part of the Atari plug-in, which contains ALE and is under its licence (see emulator.cpp).
// Compiled with -fno-access-control.
#include "kernels/envs/atari/ale/check.hpp"

#include "ale/emucore/CartDPC.hxx"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/M6532.hxx"
#include "ale/emucore/Serializer.hxx"
#include "ale/emucore/System.hxx"
#include "ale/emucore/TIA.hxx"

#include <cstdint>
#include <cstring>
#include <stdexcept>

using namespace ale::stella;

namespace
{

void require(bool holds, const char *message)
{
    if (!holds)
        throw std::runtime_error(message);
}

// -- Layout ---------------------------------------------------------------------------------------

// What a device, by its name, saves: i a number, b a boolean, s a text that never changes, n a
// count that never changes, * and + as many numbers or booleans as that count says.
struct Layout {
    const char *name, *fields;
};

const Layout console_devices[] = {
    {"System", "is"}, // cycles, and a generator that only a reset draws from
    {"M6502Low", "iiiiiibbbbbbbi"},
    {"M6532", "n*iiiibii"},
    {"TIA", "iiiiiiiiiiiiiiiiiiibbiiiiibbbbiiiiibbbbbiiiiiiiiibbibi"},
    {"TIASound", "iiiiiii"},
};

// The cartridges of the games that ALE has rules for.
const Layout cartridges[] = {
    {"Cartridge2K", ""},      {"Cartridge4K", ""},   {"CartridgeFE", ""},
    {"CartridgeF8", "i"},     {"CartridgeF6", "i"},  {"CartridgeF8SC", "in*"},
    {"CartridgeF6SC", "in*"}, {"CartridgeE0", "n*"}, {"CartridgeDPC", "in*n*n*n*n+iii"},
};

// Goes through a state and one of the same layout that can be trusted.
class Walk
{
  public:
    Walk(const std::string &state, const std::string &trusted) : state(state), trusted(trusted)
    {
        require(state.size() == trusted.size(), "a saved state has another size");
    }

    void skip(size_t words)
    {
        at += words * 4;
        require(at <= trusted.size(), "a saved state has more fields than this game");
    }

    // A count or length, the same in both.
    size_t count()
    {
        uint32_t mine = 0, other = 0;
        size_t here = at;
        skip(1);
        std::memcpy(&mine, &trusted[here], 4);
        std::memcpy(&other, &state[here], 4);
        require(mine == other, "a saved state has other counts than this game");
        return mine;
    }

    std::string text()
    {
        size_t bytes = count(), here = at;
        require(bytes <= trusted.size() - here, "a saved state has more fields than this game");
        at += bytes;
        require(state.compare(here, bytes, trusted, here, bytes) == 0,
                "a saved state has other names than this game");
        return trusted.substr(here, bytes);
    }

    void boolean()
    {
        uint32_t value = 0;
        size_t here = at;
        skip(1);
        std::memcpy(&value, &state[here], 4);
        require(value == Serializer::TruePattern || value == Serializer::FalsePattern,
                "a boolean of a saved state is neither true nor false");
    }

    void fields(const char *field)
    {
        size_t n = 0;
        for (; *field; field++) {
            if (*field == 'i')
                skip(1);
            else if (*field == 'b')
                boolean();
            else if (*field == 's')
                text();
            else if (*field == 'n')
                n = count();
            else if (*field == '*')
                skip(n);
            else
                for (; n > 0; n--)
                    boolean();
        }
    }

    // Goes to the last word before `rest` words at the end.
    void leave(size_t rest)
    {
        require(at + (rest + 1) * 4 <= trusted.size(),
                "a saved state has more fields than this game");
        at = trusted.size() - (rest + 1) * 4;
    }

  private:
    const std::string &state, &trusted;
    size_t at = 0;
};

const Layout &cartridge_named(const std::string &name)
{
    for (const Layout &cartridge : cartridges)
        if (name == cartridge.name)
            return cartridge;
    throw std::runtime_error("saved states with a " + name + " cannot be checked");
}

// -- Ranges ---------------------------------------------------------------------------------------

bool is_position(int x)
{
    return x >= 0 && x < 160;
}

// The picture of a frame that is not finished yet ends where the clocks say.
void check_clocks(const TIA &tia, uint32_t cycles)
{
    const int from = tia.myClockWhenFrameStarted, display = tia.myClockStartDisplay,
              drawn = tia.myClockAtLastUpdate - display;
    require(from > -228 && from <= 0 && cycles < UINT32_C(1) << 28 &&
                display == from + static_cast<int>(tia.myStartDisplayOffset) &&
                tia.myClockStopDisplay == from + static_cast<int>(tia.myStopDisplayOffset) &&
                drawn >= 0 && tia.myClockAtLastUpdate <= tia.myClockStopDisplay,
            "a saved state has clocks out of range");
    const int column = drawn % 228, left = tia.myClocksToEndOfScanLine;
    require(left == 228 - column || (left == 0 && column == 0),
            "a saved state has clocks out of range");
    require(tia.myFramePointer - tia.myCurrentFrameBuffer ==
                drawn / 228 * 160 + (column > 68 ? column - 68 : 0),
            "a saved state's picture ends elsewhere than its clocks say");
}

void check_tia(const TIA &tia, uint32_t cycles)
{
    require(is_position(tia.myPOSP0) && is_position(tia.myPOSP1) && is_position(tia.myPOSM0) &&
                is_position(tia.myPOSM1) && is_position(tia.myPOSBL),
            "a saved state has an object outside the screen");
    for (int motion : {tia.myHMP0, tia.myHMP1, tia.myHMM0, tia.myHMM1, tia.myHMBL})
        require(motion >= 0 && motion < 16, "a saved state has a motion out of range");
    if (tia.myPartialFrameFlag) // else the next frame sets its clocks
        check_clocks(tia, cycles);
}

void check_cartridge(Cartridge &cartridge)
{
    require(cartridge.bank() >= 0 && cartridge.bank() < cartridge.bankCount(),
            "a saved state has a bank that its cartridge has not");
    if (auto *dpc = dynamic_cast<CartridgeDPC *>(&cartridge)) {
        for (uint16_t counter : dpc->myCounters)
            require(counter < 2048, "a saved state has a counter out of range");
        require(dpc->myFractionalClocks >= 0 && dpc->myFractionalClocks < 1,
                "a saved state has a fraction out of range");
    }
}

} // namespace

void heddle::check_layout(const std::string &state, const std::string &start)
{
    Walk walk(state, start);
    walk.skip(6); // paddles, numbers of frames, mode, difficulty
    walk.count(); // bytes of what follows, up to the paddles' limits
    walk.text();  // hash of the ROM
    for (const Layout &device : console_devices) {
        require(walk.text() == device.name, "saved states of this build of ALE cannot be checked");
        walk.fields(device.fields);
    }
    walk.fields(cartridge_named(walk.text()).fields);
    walk.leave(2); // the rules' numbers: none of them finds memory
    walk.count();  // no generator of sticky actions
}

void heddle::check_ranges(ale::ALEInterface &ale)
{
    const System &system = ale.theOSystem->console().system();
    for (uint32_t i = 0; i < system.myNumberOfDevices; i++) {
        ale::stella::Device *device = system.myDevices[i];
        if (auto *tia = dynamic_cast<TIA *>(device))
            check_tia(*tia, system.myCycles);
        else if (auto *timer = dynamic_cast<M6532 *>(device))
            require(timer->myIntervalShift <= 10, "a saved state has a timer out of range");
        else if (auto *cartridge = dynamic_cast<Cartridge *>(device))
            check_cartridge(*cartridge);
    }
}
