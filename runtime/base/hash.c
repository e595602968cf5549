/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/hash.h"

#include "runtime/base/input/input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

uint64_t hd_hash_bytes(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

uint64_t hd_hash_text(const char *text)
{
    return XXH3_64bits(text, strlen(text));
}

bool hd_hash_file(const char *path, uint64_t *hash_p)
{
    char block[1 << 14], why[HD_INPUT_WHY];
    uint64_t hash = 0;
    FILE *file = hd_input_open_stream(path, HD_INPUT_NAMED, why);
    if (!file)
        return false;
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        hash = hd_hash_mix(hash, hd_hash_bytes(block, n));
    const int problem = ferror(file) ? errno : 0;
    fclose(file);
    errno = problem;
    if (problem == 0)
        *hash_p = hash;
    return problem == 0;
}

uint64_t hd_hash_floats(uint64_t hash, const float *data, int64_t n)
{
    for (int64_t i = 0; i < n; i += HD_BLOCK) {
        int64_t count = n - i < HD_BLOCK ? n - i : HD_BLOCK;
        hash = hd_hash_mix(hash, XXH3_64bits(data + i, (size_t)count * sizeof *data));
    }
    return hash;
}
