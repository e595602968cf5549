/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/config_read.h"

#include <string.h>

static bool read_bool(const struct hd_config *config, const struct hd_field *field)
{
    return field->word ? strcmp(hd_config_get_text(config, field->path), field->word) == 0
                       : hd_config_get_bool(config, field->path);
}

/* A key that takes a word takes no 0. */
static int64_t read_int(const struct hd_config *config, const struct hd_field *field)
{
    return hd_config_get_word(config, field->path) ? 0 : hd_config_get_int(config, field->path);
}

void hd_config_read(const struct hd_config *config, const struct hd_field *fields, void *to)
{
    for (const struct hd_field *field = fields; field->path; field++) {
        void *member = (char *)to + field->offset;
        switch (field->kind) {
        case HD_FIELD_INT:
            *(int *)member = (int)read_int(config, field);
            break;
        case HD_FIELD_INT64:
            *(int64_t *)member = read_int(config, field);
            break;
        case HD_FIELD_FLOAT:
            *(float *)member = (float)hd_config_get_real(config, field->path);
            break;
        case HD_FIELD_DOUBLE:
            *(double *)member = hd_config_get_real(config, field->path);
            break;
        case HD_FIELD_BOOL:
            *(bool *)member = read_bool(config, field);
            break;
        case HD_FIELD_TEXT:
            *(const char **)member = hd_config_get_text(config, field->path);
            break;
        }
    }
}
