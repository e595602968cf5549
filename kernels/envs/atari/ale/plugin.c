/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The plug-in `atari`: groups of ALE's games behind kernels/envs/env.h. */
#include "kernels/envs/atari/ale/emulator.h"
#include "kernels/envs/atari/ale/games.h"
#include "kernels/envs/atari/atari.h"
#include "kernels/envs/env.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct group {
    int64_t envs;
    char game[64];
    int actions;
    struct hd_atari_rules rules;
    struct hd_emulator **emulator; /* [envs] */
    struct hd_atari *env;          /* [envs] */
    uint8_t *last;                 /* [envs][height][width] */
};

/* The header of a saved state; the emulator's state follows. */
struct header {
    char game[64];
    int64_t emulator_bytes;
    struct hd_atari_state state;
};

__attribute__((format(printf, 2, 3))) static int refuse(char *message, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(message, HD_ENV_MESSAGE, format, list);
    va_end(list);
    return -1;
}

/* -- Options ----------------------------------------------------------------------------------- */

static int read_number(const struct hd_env_option *option, int high, int *value_p, char *message)
{
    char *end;
    long value = strtol(option->value, &end, 10);
    if (end == option->value || *end || value < 0 || value > high)
        return refuse(message, "env.options.%s must be a whole number from 0 to %d, not '%.40s'",
                      option->name, high, option->value);
    *value_p = (int)value;
    return 0;
}

static int read_bool(const struct hd_env_option *option, bool *value_p, char *message)
{
    bool yes = strcmp(option->value, "true") == 0;
    if (!yes && strcmp(option->value, "false") != 0)
        return refuse(message, "env.options.%s must be true or false, not '%.40s'", option->name,
                      option->value);
    *value_p = yes;
    return 0;
}

static int read_option(const struct hd_env_option *option, struct hd_atari_rules *rules,
                       char *message)
{
    if (strcmp(option->name, "noops") == 0)
        return read_number(option, 1000, &rules->noops, message);
    if (strcmp(option->name, "background") == 0)
        return read_number(option, 255, &rules->background, message);
    if (strcmp(option->name, "episodic_life") == 0)
        return read_bool(option, &rules->episodic_life, message);
    if (strcmp(option->name, "clip_reward") == 0)
        return read_bool(option, &rules->clip_reward, message);
    return refuse(message,
                  "env.options.%.60s is unknown to atari, which has noops, background, "
                  "episodic_life and clip_reward",
                  option->name);
}

static int read_rules(const struct hd_env_settings *settings, struct hd_atari_rules *rules,
                      char *message)
{
    rules->console = &hd_emulator_console;
    rules->noops = rules->background = -1;
    rules->episodic_life = rules->clip_reward = !settings->evaluator;
    for (int i = 0; i < settings->n_options; i++)
        if (read_option(&settings->options[i], rules, message) != 0)
            return -1;
    return 0;
}

/* -- Groups ------------------------------------------------------------------------------------ */

/* Finds the ROM of the game in the folder atari_roms beside this plug-in. */
static int find_rom(const char *env_id, char path[PATH_MAX], char *message)
{
    Dl_info info;
    char folder[PATH_MAX];
    if (!dladdr((const void *)&hd_env_plugin, &info) || !info.dli_fname)
        return refuse(message, "the Atari plug-in cannot find its own path");
    const char *slash = strrchr(info.dli_fname, '/');
    int length = slash ? (int)(slash - info.dli_fname) : 1;
    snprintf(folder, sizeof folder, "%.*s/atari_roms", length, slash ? info.dli_fname : ".");
    return hd_game_find(env_id, folder, path, PATH_MAX, message, HD_ENV_MESSAGE);
}

static void destroy(void *data)
{
    struct group *group = data;
    if (!group)
        return;
    for (int64_t i = 0; group->emulator && i < group->envs; i++)
        hd_emulator_close(group->emulator[i]);
    free(group->emulator);
    free(group->env);
    free(group->last);
    free(group);
}

static int open_emulators(struct group *group, const char *rom, char *message)
{
    struct hd_game game = {0};
    for (int64_t i = 0; i < group->envs; i++) {
        group->emulator[i] = hd_emulator_open(rom, &game, message, HD_ENV_MESSAGE);
        if (!group->emulator[i])
            return -1;
    }
    if (game.height < HD_WARP_SIZE || game.height > HD_WARP_MAX || game.width < HD_WARP_SIZE ||
        game.width > HD_WARP_MAX)
        return refuse(message, "%s has a screen of %d x %d, which cannot be made 84 x 84", rom,
                      game.height, game.width);
    size_t screen = (size_t)game.height * (size_t)game.width;
    group->last = calloc((size_t)group->envs, screen);
    if (!group->last)
        return refuse(message, "no memory for %lld Atari envs", (long long)group->envs);
    group->actions = game.actions;
    group->rules.fire = game.fire;
    hd_warp_init(&group->rules.warp, game.height, game.width);
    hd_warp_palette_init(&group->rules.palette, game.rgb);
    for (int64_t i = 0; i < group->envs; i++)
        hd_atari_init(&group->env[i], &group->rules, group->emulator[i],
                      group->last + (size_t)i * screen);
    return 0;
}

static int make(struct group *group, const struct hd_env_settings *settings, char *message)
{
    char rom[PATH_MAX];
    if (read_rules(settings, &group->rules, message) != 0 ||
        find_rom(settings->env_id, rom, message) != 0)
        return -1;
    snprintf(group->game, sizeof group->game, "%s", settings->env_id);
    group->envs = settings->envs;
    group->emulator = calloc((size_t)group->envs, sizeof(struct hd_emulator *));
    group->env = calloc((size_t)group->envs, sizeof *group->env);
    if (!group->emulator || !group->env)
        return refuse(message, "no memory for %lld Atari envs", (long long)group->envs);
    return open_emulators(group, rom, message);
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return refuse(message, "no memory for %lld Atari envs", (long long)settings->envs);
    if (make(group, settings, message) != 0) {
        destroy(group);
        return -1;
    }
    *spec_p = (struct hd_env_spec){
        .element = HD_ENV_U8,
        .dims = 2,
        .shape = {HD_WARP_SIZE, HD_WARP_SIZE},
        .actions = {.kind = HD_ENV_DISCRETE, .dims = 1, .n = {group->actions}}};
    *group_p = group;
    return 0;
}

/* -- Playing ----------------------------------------------------------------------------------- */

static int check(const struct group *group, int64_t env, const char *what, char *message)
{
    const char *error = hd_emulator_get_error(group->emulator[env]);
    if (!error)
        return 0;
    return refuse(message, "%s: env %lld failed to %s after %lld frames: %s", group->game,
                  (long long)env, what, (long long)group->env[env].state.frames, error);
}

static int reset(void *data, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE])
{
    struct group *group = data;
    hd_atari_reset(&group->env[env], seed, obs);
    return check(group, env, "reset", message);
}

static int step(void *data, const void *actions, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    struct group *group = data;
    const int32_t *action = actions;
    uint8_t *frame = outcome->obs;
    for (int64_t i = 0; i < group->envs; i++, frame += HD_ATARI_FRAME) {
        if (action[i] < 0 || action[i] >= group->actions)
            return refuse(message, "%s: env %lld has no action %d", group->game, (long long)i,
                          action[i]);
        struct hd_atari_end end = hd_atari_step(&group->env[i], action[i], frame);
        outcome->reward[i] = end.reward;
        outcome->done[i] = end.done;
        outcome->truncated[i] = end.truncated;
        if (check(group, i, "step", message) != 0)
            return -1;
    }
    return 0;
}

/* -- State ------------------------------------------------------------------------------------- */

static int64_t state_bytes(const void *data)
{
    const struct group *group = data;
    return (int64_t)sizeof(struct header) + hd_emulator_get_state_bytes(group->emulator[0]);
}

static struct header make_header(const struct group *group, int64_t env)
{
    struct header header;
    memset(&header, 0, sizeof header);
    memcpy(header.game, group->game, strlen(group->game));
    header.emulator_bytes = hd_emulator_get_state_bytes(group->emulator[env]);
    header.state = group->env[env].state;
    return header;
}

static int save(const void *data, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    const struct group *group = data;
    struct header header = make_header(group, env);
    memcpy(state, &header, sizeof header);
    hd_emulator_save(group->emulator[env], (uint8_t *)state + sizeof header);
    return check(group, env, "save", message);
}

static int load(void *data, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    struct group *group = data;
    struct header header, wanted = make_header(group, env);
    memcpy(&header, state, sizeof header);
    if (memcmp(header.game, wanted.game, sizeof header.game) != 0 ||
        header.emulator_bytes != wanted.emulator_bytes || !hd_atari_is_state(&header.state))
        return refuse(message, "%s: env %lld cannot load what is not a saved state of this game",
                      group->game, (long long)env);
    hd_emulator_load(group->emulator[env], (const uint8_t *)state + sizeof header);
    group->env[env].state = header.state;
    return check(group, env, "load", message);
}

/* -- Identity ---------------------------------------------------------------------------------- */

static int identify(const struct hd_env_settings *settings, char message[HD_ENV_MESSAGE])
{
    char rom[PATH_MAX], hash[HD_ROM_HASH];
    if (find_rom(settings->env_id, rom, message) != 0)
        return -1;
    if (!hd_emulator_hash_rom(rom, hash))
        return refuse(message, "%.300s cannot be read", rom);
    snprintf(message, HD_ENV_MESSAGE, "ROM %s", hash);
    return 0;
}

static const struct hd_env atari = {
    .abi = HD_ENV_ABI,
    .name = "atari",
    .create = create,
    .destroy = destroy,
    .reset = reset,
    .step = step,
    .state_bytes = state_bytes,
    .save = save,
    .load = load,
    .identify = identify,
};

const struct hd_env *hd_env_plugin(void)
{
    return &atari;
}
