// SPDX-License-Identifier: GPL-2.0-only
// Part of the Atari plug-in, which contains ALE and is under its licence (see emulator.cpp).
//
// ALE's own cloneState leaves out what a continuation can depend on: where the TIA's object masks
// point, the pictures (a frame that ends early shows the rest of an older one), and what the rules
// of some games remember. Compiled with -fno-access-control to reach that.
#include "kernels/envs/atari/ale/state.hpp"

#include "ale/emucore/CartDPC.hxx"
#include "ale/emucore/CartE0.hxx"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/System.hxx"
#include "ale/emucore/TIA.hxx"
#include "ale/games/supported/ChopperCommand.hpp"
#include "ale/games/supported/Hangman.hpp"
#include "ale/games/supported/MiniatureGolf.hpp"
#include "ale/games/supported/VideoCube.hpp"
#include "kernels/envs/atari/ale/check.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>

using ale::stella::CartridgeDPC;
using ale::stella::CartridgeE0;
using ale::stella::TIA;

namespace
{

enum { WIDTH = 160, PICTURE = WIDTH * 300, MASKS = 6, RULES = 5 };

// A pointer into one of the TIA's tables, stored as numbers.
struct Place {
    int32_t table, offset;
};

struct Rest {
    Place mask[MASKS];
    int32_t drawn; // pixels of the current picture
    int32_t partial, greyed;
    int32_t rules[RULES];
    double fraction; // of a clock, in the chip of Pitfall II
    uint8_t picture[2][PICTURE];
};

struct Range {
    const uint8_t *begin;
    size_t bytes;
};

template <typename T> Range range_of(const T &table)
{
    return {reinterpret_cast<const uint8_t *>(&table), sizeof table};
}

Range table(int32_t i)
{
    switch (i) {
    case 0:
        return range_of(TIA::ourBallMaskTable);
    case 1:
        return range_of(TIA::ourMissleMaskTable);
    case 2:
        return range_of(TIA::ourPlayerMaskTable);
    case 3:
        return range_of(TIA::ourDisabledMaskTable);
    case 4:
        return range_of(TIA::ourPlayfieldTable);
    default:
        throw std::runtime_error("a mask lies in no table");
    }
}

Place place_of(const void *pointer)
{
    const uint8_t *at = static_cast<const uint8_t *>(pointer);
    for (int32_t i = 0;; i++) {
        Range range = table(i);
        if (at >= range.begin && at < range.begin + range.bytes)
            return {i, static_cast<int32_t>(at - range.begin)};
    }
}

template <typename T> void set_place(const T *&pointer, Place place)
{
    Range range = table(place.table);
    size_t offset = static_cast<size_t>(static_cast<uint32_t>(place.offset));
    if (offset % sizeof(T) != 0 || offset + WIDTH * sizeof(T) > range.bytes)
        throw std::runtime_error("a mask lies outside its table");
    pointer = reinterpret_cast<const T *>(range.begin + place.offset);
}

void save_picture(const TIA &tia, Rest &rest)
{
    const void *const mask[MASKS] = {tia.myCurrentBLMask, tia.myCurrentM0Mask, tia.myCurrentM1Mask,
                                     tia.myCurrentP0Mask, tia.myCurrentP1Mask, tia.myCurrentPFMask};
    for (int i = 0; i < MASKS; i++)
        rest.mask[i] = place_of(mask[i]);
    rest.drawn = static_cast<int32_t>(tia.myFramePointer - tia.myCurrentFrameBuffer);
    rest.partial = tia.myPartialFrameFlag;
    rest.greyed = tia.myFrameGreyed;
    std::memcpy(rest.picture[0], tia.myCurrentFrameBuffer, PICTURE);
    std::memcpy(rest.picture[1], tia.myPreviousFrameBuffer, PICTURE);
}

void load_picture(TIA &tia, const Rest &rest)
{
    if (rest.drawn < 0 || rest.drawn > PICTURE)
        throw std::runtime_error("a picture ends outside its buffer");
    set_place(tia.myCurrentBLMask, rest.mask[0]);
    set_place(tia.myCurrentM0Mask, rest.mask[1]);
    set_place(tia.myCurrentM1Mask, rest.mask[2]);
    set_place(tia.myCurrentP0Mask, rest.mask[3]);
    set_place(tia.myCurrentP1Mask, rest.mask[4]);
    set_place(tia.myCurrentPFMask, rest.mask[5]);
    tia.myFramePointer = tia.myCurrentFrameBuffer + rest.drawn;
    tia.myPartialFrameFlag = rest.partial;
    tia.myFrameGreyed = rest.greyed;
    std::memcpy(tia.myCurrentFrameBuffer, rest.picture[0], PICTURE);
    std::memcpy(tia.myPreviousFrameBuffer, rest.picture[1], PICTURE);
}

// Visits the fields that a game's own saveState forgets, or writes in another form than it reads.
template <typename F> void visit_forgotten(ale::RomSettings *rules, F f)
{
    if (auto game = dynamic_cast<ale::ChopperCommandSettings *>(rules)) {
        f(0, game->m_is_started);
    } else if (auto game = dynamic_cast<ale::MiniatureGolfSettings *>(rules)) {
        f(0, game->m_levelNumber);
        f(1, game->m_levelPar);
        f(2, game->m_hits);
        f(3, game->m_leftStatus);
        f(4, game->m_hitsAtStartOfLevel);
    } else if (auto game = dynamic_cast<ale::HangmanSettings *>(rules)) {
        f(0, game->m_timerArray[0]);
        f(1, game->m_timerArray[1]);
    } else if (auto game = dynamic_cast<ale::VideoCubeSettings *>(rules)) {
        f(0, game->m_timerArray[0]);
        f(1, game->m_timerArray[1]);
    }
}

// Returns the cartridge if it is one of this type, or null.
template <typename T> T *cartridge(ale::ALEInterface &ale)
{
    ale::stella::System &system = ale.theOSystem->console().system();
    for (uint32_t i = 0; i < system.myNumberOfDevices; i++)
        if (auto *found = dynamic_cast<T *>(system.myDevices[i]))
            return found;
    return nullptr;
}

// ALE loads which slices of the ROM are mapped and forgets to map them.
void map_slices(CartridgeE0 &cartridge)
{
    const uint16_t *slice = cartridge.myCurrentSlice;
    if (slice[0] > 7 || slice[1] > 7 || slice[2] > 7 || slice[3] != 7)
        throw std::runtime_error("a saved state has a slice that its cartridge has not");
    cartridge.segmentZero(slice[0]);
    cartridge.segmentOne(slice[1]);
    cartridge.segmentTwo(slice[2]);
}

TIA &tia(ale::ALEInterface &ale)
{
    return static_cast<TIA &>(ale.theOSystem->console().mediaSource());
}

} // namespace

std::string heddle::save_state(ale::ALEInterface &ale)
{
    Rest rest;
    std::memset(&rest, 0, sizeof rest);
    save_picture(tia(ale), rest);
    visit_forgotten(ale.romSettings.get(), [&](int i, auto &field) { rest.rules[i] = field; });
    if (auto *dpc = cartridge<CartridgeDPC>(ale))
        rest.fraction = dpc->myFractionalClocks;
    // Leaves out the generator of sticky actions, which are off.
    return std::string(reinterpret_cast<const char *>(&rest), sizeof rest) +
           ale.cloneState(false).serialize();
}

void heddle::load_state(ale::ALEInterface &ale, const std::string &state)
{
    Rest rest;
    if (state.size() < sizeof rest)
        throw std::runtime_error("a saved state is too short");
    std::memcpy(&rest, state.data(), sizeof rest);
    ale.restoreState(ale::ALEState(state.substr(sizeof rest)));
    load_picture(tia(ale), rest);
    visit_forgotten(ale.romSettings.get(), [&](int i, auto &field) { field = rest.rules[i]; });
    if (auto *dpc = cartridge<CartridgeDPC>(ale))
        dpc->myFractionalClocks = rest.fraction;
    if (auto *e0 = cartridge<CartridgeE0>(ale))
        map_slices(*e0);
}

void heddle::load_untrusted_state(ale::ALEInterface &ale, const std::string &state,
                                  const std::string &start)
{
    check_layout(state.substr(sizeof(Rest)), start.substr(sizeof(Rest)));
    load_state(ale, state);
    check_ranges(ale);
}
