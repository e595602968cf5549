/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/golden.h"

#include "tests/harness/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Files ------------------------------------------------------------------------------------- */

/* clang-format off */
#define FILES(X)                                                                                   \
    X(atari_traces) X(cartpole_traces) X(classic_traces) X(dqn_cartpole) X(dqn_pong)               \
    X(ppo_actions) X(ppo_cartpole) X(ppo_continuous) X(ppo_pong) X(ppo_recurrent) X(sac) X(updates)
/* clang-format on */

/* CMake says where the files are. */
#define EMBED(name)                                                                                \
    __asm__(".pushsection .rodata\ngolden_" #name ":\n.incbin \"" GOLDEN_DIR "/" #name             \
            ".json\"\n.byte 0\n.popsection\n");                                                    \
    extern const char golden_##name[] __attribute__((visibility("hidden")));
FILES(EMBED)

#define ENTRY(name) {#name, golden_##name},
const struct golden_file golden_files[] = {FILES(ENTRY){NULL, NULL}};

static void give_up(struct golden of, const char *path, const char *how)
{
    fprintf(stderr, "tests/golden/%s.json: %s %s\n", of.file, path, how);
    ck_abort_msg("tests/golden/%s.json: %s %s", of.file, path, how);
}

uint32_t golden_crc32(const void *bytes, size_t n)
{
    static uint32_t table[256];
    const uint8_t *byte = bytes;
    for (uint32_t i = 0; i < 256 && !table[255]; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0xEDB88320u : table[i] >> 1;
    }
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++)
        crc = table[(crc ^ byte[i]) & 255] ^ crc >> 8;
    return ~crc;
}

bool golden_is_whole(const char *text)
{
    const char *rest = text + strcspn(text, "\n");
    char first[32];
    rest += *rest != '\0';
    snprintf(first, sizeof first, "{\"crc32\": \"%08x\",\n", golden_crc32(rest, strlen(rest)));
    return strncmp(text, first, strlen(first)) == 0;
}

struct golden golden_open(const char *name)
{
    static json_t *parsed[COUNT(golden_files)];
    int i = 0;
    while (golden_files[i].name && strcmp(golden_files[i].name, name) != 0)
        i++;
    const char *text = golden_files[i].text;
    if (!parsed[i] && text && golden_is_whole(text))
        parsed[i] = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const struct golden file = {name, parsed[i]};
    if (!parsed[i])
        give_up(file, "the file", "is missing, or was changed by hand: its CRC-32 is wrong");
    return file;
}

/* -- Values ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 0))) static struct golden
find(struct golden of, const char *format, va_list arguments)
{
    char path[128], keys[128], *rest = keys, *key;
    vsnprintf(path, sizeof path, format, arguments);
    strcpy(keys, path);
    while (of.json && (key = strsep(&rest, "/")))
        of.json = json_is_array(of.json) ? json_array_get(of.json, strtoul(key, NULL, 10))
                                         : json_object_get(of.json, key);
    if (!of.json)
        give_up(of, path, "is missing");
    return of;
}

struct golden golden_get(struct golden of, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    const struct golden value = find(of, path, arguments);
    va_end(arguments);
    return value;
}

int golden_count(struct golden of, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    const struct golden list = find(of, path, arguments);
    va_end(arguments);
    if (!json_is_array(list.json))
        give_up(list, path, "is no list");
    return (int)json_array_size(list.json);
}

double golden_number(struct golden of, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    const struct golden number = find(of, path, arguments);
    va_end(arguments);
    if (!json_is_number(number.json))
        give_up(number, path, "is no number");
    return json_number_value(number.json);
}

const char *golden_text(struct golden of, const char *path, ...)
{
    va_list arguments;
    va_start(arguments, path);
    const struct golden text = find(of, path, arguments);
    va_end(arguments);
    if (!json_is_string(text.json))
        give_up(text, path, "is no text");
    return json_string_value(text.json);
}

void golden_read(struct golden of, const char *key, int n, double *numbers)
{
    if (golden_count(of, "%s", key) != n)
        give_up(of, key, "has another length");
    for (int i = 0; i < n; i++)
        numbers[i] = golden_number(of, "%s/%d", key, i);
}
