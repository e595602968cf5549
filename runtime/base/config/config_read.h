/* SPDX-License-Identifier: Apache-2.0 */
/* Reads several keys of a configuration into a struct. */
#pragma once

#include "runtime/base/config/config.h"

#include <stddef.h>

/* A member of a struct and the key whose value it takes. */
struct hd_field {
    const char *path;
    enum {
        HD_FIELD_INT,
        HD_FIELD_INT64,
        HD_FIELD_FLOAT,
        HD_FIELD_DOUBLE,
        HD_FIELD_BOOL,
        HD_FIELD_TEXT
    } kind;
    size_t offset;
    const char *word; /* of a bool: whether the key, a CHOICE, is this word; NULL: a BOOL key */
};

/* clang-format off */
#define HD_FIELD_KIND_(member)                                                                     \
    _Generic(member, int: HD_FIELD_INT, int64_t: HD_FIELD_INT64, float: HD_FIELD_FLOAT,            \
             double: HD_FIELD_DOUBLE, bool: HD_FIELD_BOOL, const char *: HD_FIELD_TEXT)
/* clang-format on */

/* A row for a member of struct `type`: an integer for an INT key (0 for a word like auto), a float
 * or double for a REAL one, a bool for a BOOL one, or a text. */
#define HD_FIELD(type, member, path_)                                                              \
    {                                                                                              \
        .path = (path_), .offset = offsetof(type, member),                                         \
        .kind = HD_FIELD_KIND_(((type *)0)->member)                                                \
    }

/* A row for a bool: whether the choice of a key is `word_`. */
#define HD_FIELD_IS(type, member, path_, word_)                                                    \
    {                                                                                              \
        .path = (path_), .offset = offsetof(type, member), .kind = HD_FIELD_BOOL, .word = (word_)  \
    }

/* Sets the members fields[] (ended by path NULL) of the struct at `to`; texts are borrowed from the
 * config. Keys that the schema does not have, or of another kind, are programming errors, which
 * abort. Thread safe, as the config is. */
void hd_config_read(const struct hd_config *config, const struct hd_field *fields, void *to);
