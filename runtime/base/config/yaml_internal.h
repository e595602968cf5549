/* SPDX-License-Identifier: Apache-2.0 */
/* Turns libyaml's marks and errors into locations and mistakes in the parsed text. One thread at a
 * time uses a source. */
#pragma once

#include "runtime/base/config/yaml.h"

#include <stddef.h>
#include <yaml.h>

/* The text[bytes] that is parsed. */
struct hd_yaml_source {
    const char *text;
    size_t bytes;
    struct hd_source_location origin;
    bool inside_line; /* locations are `origin` moved on by characters; else origin.file's own */
    struct hd_diag *diag;
};

/* Returns the location of a mark. */
struct hd_source_location hd_yaml_locate(const struct hd_yaml_source *source, yaml_mark_t mark);

/* Adds libyaml's error as one mistake. Returns HD_ERR_INPUT, or HD_ERR_NOMEM (logged). */
int hd_yaml_explain(const struct hd_yaml_source *source, const yaml_parser_t *yaml);
