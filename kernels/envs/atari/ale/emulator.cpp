// SPDX-License-Identifier: GPL-2.0-only
// A C interface to the Arcade Learning Environment (Bellemare et al., 2013; Farama Foundation),
// which is under the GNU General Public License, version 2, and so is this file and the plug-in
// that it becomes part of. That plug-in is built separately and never linked into the program.
// Compiled with -fno-access-control.
#include "kernels/envs/atari/ale/emulator.h"

#include "ale/common/ColourPalette.hpp"
#include "ale/emucore/Console.hxx"
#include "ale/emucore/MD5.hxx"
#include "ale/emucore/MediaSrc.hxx"
#include "ale/emucore/System.hxx"
#include "kernels/envs/atari/ale/processor.hpp"
#include "kernels/envs/atari/ale/state.hpp"

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

namespace
{

// What a console that loads a ROM emulates 188 frames to find out: whether the game is for NTSC or
// PAL televisions, and its state at the start.
struct Start {
    std::string format, state;
};

std::map<std::string, Start> starts; // by ROM
std::mutex starts_lock;

// Does what ALEInterface::loadROM does, without its reset, and with the faster processor.
void load_rom(ale::ALEInterface &ale, const char *rom)
{
    ale::ALEInterface::loadSettings(rom, ale.theOSystem);
    const std::string md5 = ale.theOSystem->console().properties().get(ale::stella::Cartridge_MD5);
    ale.romSettings.reset(ale::buildRomRLWrapper(rom, md5));
    ale.romSettings->modifyEnvironmentSettings(ale.theOSystem->settings());
    ale.environment.reset(new ale::StellaEnvironment(ale.theOSystem.get(), ale.romSettings.get()));
    ale.max_num_frames = ale.theOSystem->settings().getInt("max_num_frames_per_episode");
    heddle::replace_processor(ale);
}

// Loads the ROM, and returns the state at the start of its game, in which the console then is.
std::string load_start(ale::ALEInterface &ale, const char *rom)
{
    const std::lock_guard<std::mutex> guard(starts_lock);
    const auto known = starts.find(rom);
    if (known != starts.end()) {
        ale.theOSystem->settings().setInternal("format", known->second.format);
        load_rom(ale, rom);
        heddle::load_state(ale, known->second.state);
        return known->second.state;
    }
    load_rom(ale, rom);
    ale.environment->reset();
    ale.reset_game();
    return (starts[rom] = {ale.theOSystem->console().getFormat(), heddle::save_state(ale)}).state;
}

} // namespace

struct hd_emulator {
    ale::ALEInterface ale;
    ale::ActionVect actions;
    std::string start; // state at the game's start
    std::string error;

    void open(const char *rom)
    {
        // loadROM would end the process.
        if (!ale::ALEInterface::isSupportedROM(rom))
            throw std::runtime_error("ALE has no rules for a single player of this ROM");
        ale.setFloat("repeat_action_probability", 0);
        ale.setInt("random_seed", 0);
        ale.setBool("color_averaging", false);
        start = load_start(ale, rom);
        actions = ale.getMinimalActionSet();
    }

    hd_game describe() const
    {
        hd_game game{};
        const ale::ALEScreen &screen = ale.getScreen();
        game.height = static_cast<int>(screen.height());
        game.width = static_cast<int>(screen.width());
        game.actions = static_cast<int>(actions.size());
        game.fire = -1;
        for (int i = 0; i < game.actions; i++)
            if (actions[static_cast<size_t>(i)] == ale::PLAYER_A_FIRE)
                game.fire = i;
        for (int i = 0; i < 256; i++)
            game.rgb[i] = ale.theOSystem->colourPalette().getRGB(i);
        return game;
    }
};

namespace
{

// No exception passes into C: the emulator keeps its message and stops.
template <typename F> bool guarded(hd_emulator *emulator, F f)
{
    if (!emulator->error.empty())
        return false;
    try {
        f();
        return true;
    } catch (const std::exception &problem) {
        emulator->error = problem.what();
    } catch (const char *problem) {
        emulator->error = problem;
    } catch (...) {
        emulator->error = "ALE threw an unknown exception";
    }
    return false;
}

hd_emulator *emulator_of(void *console)
{
    return static_cast<hd_emulator *>(console);
}

const hd_emulator *emulator_of(const void *console)
{
    return static_cast<const hd_emulator *>(console);
}

// An ALE reset takes 64 frames and would depend on the game before; this is 300 times cheaper.
void reset(void *console)
{
    hd_emulator *emulator = emulator_of(console);
    guarded(emulator, [&] { heddle::load_state(emulator->ale, emulator->start); });
}

// Does what ALEInterface::act does for one frame, without sticky actions and without copies of
// screen, RAM and sound that nobody reads.
int play_frame(ale::ALEInterface &ale, ale::Action action)
{
    ale::StellaEnvironment &env = *ale.environment;
    if (env.isTerminal())
        return 0;
    ale::stella::Event *event = ale.theOSystem->event();
    if (env.m_use_paddles)
        env.m_state.applyActionPaddles(event, action, 1, ale::PLAYER_B_NOOP, 0);
    else
        env.m_state.applyActionJoysticks(event, action, ale::PLAYER_B_NOOP);
    ale::stella::Console &machine = ale.theOSystem->console();
    machine.mediaSource().update();
    ale.romSettings->step(machine.system());
    env.m_state.incrementFrame();
    machine.system().peek(0xFF); // the last byte of RAM stays on the data bus
    return ale.romSettings->getReward();
}

int act(void *console, int action)
{
    hd_emulator *emulator = emulator_of(console);
    int reward = 0;
    guarded(emulator, [&] {
        ale::Action button = action == HD_ATARI_NOOP
                                 ? ale::PLAYER_A_NOOP
                                 : emulator->actions[static_cast<size_t>(action)];
        reward = play_frame(emulator->ale, button);
    });
    return reward;
}

bool game_over(const void *console)
{
    return !emulator_of(console)->error.empty() || emulator_of(console)->ale.game_over(false);
}

int lives(const void *console)
{
    return emulator_of(console)->ale.romSettings->lives();
}

const uint8_t *screen(const void *console)
{
    return emulator_of(console)->ale.theOSystem->console().mediaSource().currentFrameBuffer();
}

} // namespace

const hd_atari_console hd_emulator_console = {reset, act, game_over, lives, screen};

bool hd_emulator_hash_rom(const char *rom, char hash_p[HD_ROM_HASH])
{
    std::FILE *file = std::fopen(rom, "rb");
    if (!file)
        return false;
    std::string content;
    for (int byte; (byte = std::fgetc(file)) != EOF;)
        content += static_cast<char>(byte);
    const bool whole = !std::ferror(file);
    std::fclose(file);
    const std::string hash = ale::stella::MD5(reinterpret_cast<const uint8_t *>(content.data()),
                                              static_cast<uint32_t>(content.size()));
    std::snprintf(hash_p, HD_ROM_HASH, "%s", hash.c_str());
    return whole;
}

hd_emulator *hd_emulator_open(const char *rom, hd_game *game_p, char *message, size_t bytes)
{
    ale::Logger::setMode(ale::Logger::Error);
    hd_emulator *emulator = nullptr;
    try {
        emulator = new hd_emulator;
    } catch (...) {
        std::snprintf(message, bytes, "no memory for an Atari console");
        return nullptr;
    }
    if (guarded(emulator, [&] {
            emulator->open(rom);
            *game_p = emulator->describe();
        }))
        return emulator;
    std::snprintf(message, bytes, "%s cannot be played: %s", rom, emulator->error.c_str());
    delete emulator;
    return nullptr;
}

void hd_emulator_close(hd_emulator *emulator)
{
    delete emulator;
}

const char *hd_emulator_get_error(const hd_emulator *emulator)
{
    return emulator->error.empty() ? nullptr : emulator->error.c_str();
}

int64_t hd_emulator_get_state_bytes(const hd_emulator *emulator)
{
    return static_cast<int64_t>(emulator->start.size());
}

bool hd_emulator_save(hd_emulator *emulator, void *state)
{
    return guarded(emulator, [&] {
        std::string saved = heddle::save_state(emulator->ale);
        if (saved.size() != emulator->start.size())
            throw std::runtime_error("the size of its state changed");
        std::memcpy(state, saved.data(), saved.size());
    });
}

bool hd_emulator_load(hd_emulator *emulator, const void *state)
{
    return guarded(emulator, [&] {
        std::string saved(static_cast<const char *>(state), emulator->start.size());
        heddle::load_untrusted_state(emulator->ale, saved, emulator->start);
    });
}
