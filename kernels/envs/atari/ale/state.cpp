// SPDX-License-Identifier: GPL-2.0-only
// Part of the Atari plug-in, which contains ALE and is under its licence (see emulator.cpp).
//
// ALE's own cloneState leaves out what a continuation can depend on: where the TIA's object masks
// point, the pictures (a frame that ends early shows the rest of an older one), and what the rules
// of some games remember. Compiled with -fno-access-control to reach that.
#include "kernels/envs/atari/ale/state.hpp"

#include "ale/emucore/CartDPC.hxx"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/System.hxx"
#include "ale/emucore/TIA.hxx"
#include "ale/games/supported/ChopperCommand.hpp"
#include "ale/games/supported/Hangman.hpp"
#include "ale/games/supported/MiniatureGolf.hpp"
#include "ale/games/supported/VideoCube.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>

using ale::stella::TIA;

namespace
{

enum { PICTURE = 160 * 300, MASKS = 6, RULES = 5 };

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
    if (place.offset < 0 || static_cast<size_t>(place.offset) >= range.bytes)
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

// Returns the chip of Pitfall II, or null.
ale::stella::CartridgeDPC *chip(ale::ALEInterface &ale)
{
    ale::stella::System &system = ale.theOSystem->console().system();
    for (uint32_t i = 0; i < system.myNumberOfDevices; i++)
        if (auto *dpc = dynamic_cast<ale::stella::CartridgeDPC *>(system.myDevices[i]))
            return dpc;
    return nullptr;
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
    if (auto *dpc = chip(ale))
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
    if (auto *dpc = chip(ale))
        dpc->myFractionalClocks = rest.fraction;
}
