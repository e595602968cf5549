/* SPDX-License-Identifier: Apache-2.0 */
/* Turns libyaml's errors into mistakes with locations. */
#include "runtime/base/config/yaml_internal.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

struct hd_source_location hd_yaml_locate(const struct hd_yaml_source *source, yaml_mark_t mark)
{
    struct hd_source_location location = source->origin;
    if (source->inside_line) {
        location.column += (int)mark.index;
    } else {
        location.line = (int)mark.line + 1;
        location.column = (int)mark.column + 1;
    }
    return location;
}

static bool continues_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* libyaml gives an offset in bytes, not a mark, for what its reader rejects. */
static yaml_mark_t find_byte(const struct hd_yaml_source *source, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < source->bytes; i++) {
        if (source->text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else {
            mark.column += !continues_character(source->text[i]);
        }
        mark.index += !continues_character(source->text[i]);
    }
    return mark;
}

static int reject_bytes(const struct hd_yaml_source *source, const yaml_parser_t *yaml)
{
    struct hd_source_location location =
        hd_yaml_locate(source, find_byte(source, yaml->problem_offset));
    if (!strncmp(yaml->problem, "control", 7))
        return hd_diag_add_error(source->diag, location,
                                 "the control character 0x%02x; expected text",
                                 (unsigned)yaml->problem_value);
    return hd_diag_add_error(source->diag, location,
                             "bytes that are not UTF-8; expected UTF-8 text");
}

static bool starts_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* Says libyaml's terse problems in words for the person who wrote the file; returns others as they
 * are. */
static const char *find_explanation(const yaml_parser_t *yaml)
{
    static const char *const sentences[][2] = {
        {"mapping values are not allowed",
         "a ':' that starts a map where none can stand; check the indentation, or quote the text"},
        {"could not find expected ':'", "expected ':' after this key"},
        {"did not find expected key", "expected a key at the indentation of its siblings"},
        {"did not find expected '-'", "expected '- ' at the indentation of its siblings"},
        {"did not find expected ',' or ']'", "expected ',' or ']'"},
        {"did not find expected ',' or '}'", "expected ',' or '}'"},
        {"found unexpected end of stream", "the text ends inside quotes"},
        {"found unknown escape character", "an unknown escape; use single quotes for plain '\\'"},
        {"did not find expected node content", "expected a value"},
        {"did not find expected <document start>", "expected the end of the file"},
        {"block sequence entries are not allowed", "a '- ' where no list can start"},
        {"found a tab character", "a tab; indent with spaces"},
    };
    const char *problem = yaml->problem ? yaml->problem : "malformed";
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (starts_with(problem, sentences[i][0]))
            return sentences[i][1];
    return problem;
}

static int reject_character(const struct hd_yaml_source *source, const yaml_parser_t *yaml,
                            struct hd_source_location location)
{
    char c = 0;
    for (size_t i = 0, index = 0; i < source->bytes && !c; i++)
        if (!continues_character(source->text[i]) && index++ == yaml->problem_mark.index)
            c = source->text[i];
    if (c == '\t')
        return hd_diag_add_error(source->diag, location, "a tab; indent with spaces");
    return hd_diag_add_error(source->diag, location,
                             "nothing can start with '%c'; put the text in quotes", c);
}

int hd_yaml_explain(const struct hd_yaml_source *source, const yaml_parser_t *yaml)
{
    if (yaml->error == YAML_MEMORY_ERROR)
        return hd_fail(HD_ERR_NOMEM, "no memory to parse %s", source->origin.file);
    if (yaml->error == YAML_READER_ERROR)
        return reject_bytes(source, yaml);
    struct hd_source_location location = hd_yaml_locate(source, yaml->problem_mark);
    if (yaml->problem && starts_with(yaml->problem, "found character that cannot start"))
        return reject_character(source, yaml, location);
    const char *words = find_explanation(yaml);
    struct hd_source_location start = hd_yaml_locate(source, yaml->context_mark);
    if (!yaml->context || (start.line == location.line && start.column == location.column))
        return hd_diag_add_error(source->diag, location, "%s", words);
    return hd_diag_add_error(source->diag, location, "%s (%s that starts at %d:%d)", words,
                             yaml->context, start.line, start.column);
}
