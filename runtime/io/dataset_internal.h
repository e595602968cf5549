/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of files that the writer and the reader of data sets share. Thread safe. */
#pragma once

#include "runtime/io/dataset.h"

#include <stddef.h>

#define HD_DATASET_FORMAT "heddle.transitions"

enum { HD_DATASET_VERSION = 1, HD_DATASET_COLUMNS = 8 };

/* A tensor of a file with a row per transition. */
struct hd_dataset_column {
    const char *name;
    enum hd_dtype dtype;
    bool stacked; /* [T][K]; else [T]; of actions as below */
    size_t at;    /* offset of the array's pointer in struct hd_dataset_rows */
};

/* Columns of four bytes an element come before those of one, so that all are aligned. */
extern const struct hd_dataset_column hd_dataset_columns[HD_DATASET_COLUMNS];

/* Return the type of the numbers of actions, and the dimensions of the tensor of so many, whose
 * shape is written to shape_p. */
enum hd_dtype hd_dataset_get_action_dtype(const struct hd_dataset_info *info);
int hd_dataset_get_action_shape(const struct hd_dataset_info *info, int64_t transitions,
                                int64_t shape_p[2]);

/* Returns the hash of a file's data, which its metadata hold. */
uint64_t hd_dataset_hash_rows(const struct hd_dataset_info *info,
                              const struct hd_dataset_rows *rows);

/* Returns the path of file `number`, from 1, of `files`, to be freed with hd_free; NULL (logged)
 * without memory. */
char *hd_dataset_format_path(const char *dir, int64_t number, int64_t files);
