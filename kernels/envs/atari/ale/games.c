/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "kernels/envs/atari/ale/games.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME = 64, NEAR = 3 };

static const char suffix[] = "NoFrameskip-v4";

/* Every run of letters begins with a capital, as in gym's registration of ALE's games. */
void hd_game_get_name(const char *rom, char *name, size_t bytes)
{
    size_t length = 0;
    bool inside = false;
    for (; *rom && length + 1 < bytes; rom++) {
        if (*rom != '_')
            name[length++] = inside ? *rom : (char)toupper((unsigned char)*rom);
        inside = isalpha((unsigned char)*rom);
    }
    name[length] = '\0';
}

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* Returns Levenshtein's distance, regardless of case; both strings are shorter than NAME. */
static int distance(const char *a, const char *b)
{
    int row[NAME];
    int n = (int)strlen(b);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int corner = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            bool same = tolower((unsigned char)a[i]) == tolower((unsigned char)b[j]);
            int changed = corner + !same;
            corner = row[j + 1];
            row[j + 1] = min(changed, 1 + min(corner, row[j]));
        }
    }
    return row[n];
}

/* The nearest games found so far, nearest first. */
struct near {
    char name[NEAR][NAME];
    int distance[NEAR], n;
};

static void keep_nearest(struct near *near, const char *name, int away)
{
    int place = near->n;
    while (place > 0 &&
           (near->distance[place - 1] > away ||
            (near->distance[place - 1] == away && strcmp(near->name[place - 1], name) > 0)))
        place--;
    if (place == NEAR)
        return;
    near->n = min(near->n + 1, NEAR);
    for (int i = near->n - 1; i > place; i--) {
        near->distance[i] = near->distance[i - 1];
        memcpy(near->name[i], near->name[i - 1], NAME);
    }
    near->distance[place] = away;
    snprintf(near->name[place], NAME, "%s", name);
}

/* Derives the name of a ROM from its file name; returns false for other files. */
static bool rom_of(const char *file, char rom[NAME])
{
    size_t length = strlen(file);
    if (length < 5 || length >= NAME || strcmp(file + length - 4, ".bin") != 0)
        return false;
    snprintf(rom, NAME, "%.*s", (int)(length - 4), file);
    return true;
}

static void say_near(const char *env_id, const struct near *near, char *message, size_t bytes)
{
    int length = snprintf(message, bytes, "there is no Atari game '%.64s'; ", env_id);
    length += snprintf(message + length, bytes - (size_t)length, "near are");
    for (int i = 0; i < near->n; i++)
        length += snprintf(message + length, bytes - (size_t)length, "%s %s%s", i ? "," : "",
                           near->name[i], suffix);
}

int hd_game_find(const char *env_id, const char *folder, char *path, size_t path_bytes,
                 char *message, size_t message_bytes)
{
    char game[NAME];
    size_t length = strlen(env_id), ending = sizeof suffix - 1;
    if (length <= ending || length - ending >= NAME ||
        strcmp(env_id + length - ending, suffix) != 0) {
        snprintf(message, message_bytes,
                 "env.env_id '%.64s' is not of the form <Game>%s, such as Pong%s", env_id, suffix,
                 suffix);
        return -1;
    }
    snprintf(game, sizeof game, "%.*s", (int)(length - ending), env_id);
    DIR *roms = opendir(folder);
    if (!roms) {
        snprintf(message, message_bytes, "no ROMs in %.300s: scripts/atari puts them there",
                 folder);
        return -1;
    }
    struct near near = {.n = 0};
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(roms)) != NULL) {
        char rom[NAME], name[NAME];
        if (!rom_of(entry->d_name, rom))
            continue;
        hd_game_get_name(rom, name, sizeof name);
        keep_nearest(&near, name, distance(game, name));
        found = strcmp(game, name) == 0;
        if (found)
            snprintf(path, path_bytes, "%s/%s", folder, entry->d_name);
    }
    closedir(roms);
    struct stat is;
    if (found && (stat(path, &is) != 0 || !S_ISREG(is.st_mode))) { /* a pipe would wait */
        snprintf(message, message_bytes, "the ROM %.300s is not a regular file", path);
        return -1;
    }
    if (found)
        return 0;
    say_near(env_id, &near, message, message_bytes);
    return -1;
}
