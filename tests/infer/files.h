/* SPDX-License-Identifier: Apache-2.0 */
/* Run directories as a training run leaves them, written without the library under test. */
#pragma once

#include <stdint.h>

/* A tensor [rows][columns], or [rows] if columns is 0, of a file's n. */
struct tensor {
    const char *name;
    int64_t rows, columns;
};

/* Returns the element of a tensor that a file holds: small numbers that repeat nowhere soon. */
float get_element(int tensor, int64_t i);

/* Makes a new empty folder, and removes one with all in it. */
void make_folder(char path[256]);
void remove_folder(const char *path);

/* Writes a file of a run directory, with its folders. */
void write_text(const char *run, const char *name, const char *text);
void write_weights(const char *run, const char *name, const struct tensor *tensors, int n);

/* Cuts a file of a run directory to `bytes`. */
void cut_file(const char *run, const char *name, int64_t bytes);
