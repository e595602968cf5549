/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the fuzz targets share. A target is tests/fuzz/fuzz_<name>.c with libFuzzer's
 * entry point, corpus/<name>/ and perhaps <name>.dict; it aborts on what must never happen. The log
 * is silent, a single allocation has at most 64 MiB, and each process has a folder for its files.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry point. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A part of an input. */
struct fuzz_part {
    const uint8_t *data;
    size_t bytes;
};

/* Cuts an input at lines that are "%%%", into at most `most` parts; returns how many. */
int fuzz_split(const uint8_t *data, size_t bytes, int max, struct fuzz_part *parts);

/* Returns the path of a file in the process's folder, one of a few static ones. "" is the folder.
 */
const char *fuzz_path(const char *name);

/* Writes a file in the process's folder. */
void fuzz_write(const char *name, struct fuzz_part content);

/* Reads all of data[bytes], for the sanitizers. */
void fuzz_touch(const void *data, size_t bytes);

/* Aborts with a message unless `holds`. */
void fuzz_check(int holds, const char *what);
