/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/yaml.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

/* True when a text may stand without quotes in every context. It need not be true of all such
 * texts: quotes do no harm. */
static bool is_unquotable(const char *text)
{
    unsigned char first = (unsigned char)text[0], second = first ? (unsigned char)text[1] : 0;
    bool signed_number = (first == '-' || first == '+' || first == '.') &&
                         (isdigit(second) || second == '.' || isalpha(second));
    if (!isalnum(first) && !(first && strchr("_/$(~", first)) && !signed_number)
        return false;
    for (const char *c = text; *c; c++) {
        bool inner_colon = *c == ':' && (isalnum((unsigned char)c[1]) || c[1] == '/');
        if (!isalnum((unsigned char)*c) && !strchr("_-+./$@()<>=!*~^;|& ", *c) && !inner_colon)
            return false;
    }
    return text[strlen(text) - 1] != ' ' && strcmp(text, "...");
}

/* Decodes one UTF-8 character; returns its bytes, or 0 when there is none. */
static int decode(const char *text, uint32_t *code_p)
{
    const unsigned char *c = (const unsigned char *)text;
    int bytes = c[0] < 0x80 ? 1 : c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : c[0] >= 0xC0 ? 2 : 0;
    if (bytes <= 1) {
        *code_p = c[0];
        return bytes;
    }
    uint32_t code = c[0] & (0xFFu >> (bytes + 1));
    for (int i = 1; i < bytes; i++) {
        if ((c[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (c[i] & 0x3Fu);
    }
    *code_p = code;
    return bytes;
}

/* Characters that YAML forbids or takes for line breaks. */
static bool needs_escape(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029 ||
           code == 0xFEFF || (code >= 0xFFFE && code <= 0xFFFF);
}

static void write_quoted(const char *text, FILE *file)
{
    putc('"', file);
    while (*text) {
        uint32_t code;
        int bytes = decode(text, &code);
        if (bytes == 0)
            fprintf(file, "\\x%02X", (unsigned char)*text);
        else if (code == '"' || code == '\\')
            fprintf(file, "\\%c", (char)code);
        else if (code == '\n')
            fputs("\\n", file);
        else if (code == '\t')
            fputs("\\t", file);
        else if (needs_escape(code))
            fprintf(file, "\\u%04X", (unsigned)code);
        else
            fwrite(text, 1, (size_t)bytes, file);
        text += bytes ? bytes : 1;
    }
    putc('"', file);
}

static void write_scalar(const struct hd_node *node, FILE *file)
{
    if (node->quoted || (node->text[0] && !is_unquotable(node->text)))
        write_quoted(node->text, file);
    else
        fputs(node->text, file);
}

static bool is_nothing(const struct hd_node *node)
{
    return node->kind == HD_NODE_SCALAR && !node->quoted && !node->text[0];
}

/* Leaves stand on one line, where neither "nothing" nor comments of items have room. */
static bool is_leaf(const struct hd_node *node)
{
    for (int64_t i = 0; i < node->count; i++) {
        const struct hd_node *item = node->items[i];
        if (item->kind != HD_NODE_SCALAR || is_nothing(item) || item->comment)
            return false;
    }
    return true;
}

static void write_leaf(const struct hd_node *node, FILE *file)
{
    if (node->kind == HD_NODE_SCALAR) {
        write_scalar(node, file);
        return;
    }
    bool is_map = node->kind == HD_NODE_MAP;
    putc(is_map ? '{' : '[', file);
    for (int64_t i = 0; i < node->count; i++) {
        if (i > 0)
            fputs(", ", file);
        if (is_map) {
            write_scalar(node->keys[i], file);
            fputs(": ", file);
        }
        write_scalar(node->items[i], file);
    }
    putc(is_map ? '}' : ']', file);
}

static void end_line(const struct hd_node *node, FILE *file)
{
    if (node->comment)
        fprintf(file, "  # %s", node->comment);
    putc('\n', file);
}

static void write_block(const struct hd_node *node, int indent, bool inside_line, FILE *file);

/* Writes what follows "key:" or "-" of an entry that is indented by `indent`. */
static void write_value(const struct hd_node *node, int indent, bool in_list, FILE *file)
{
    if (is_nothing(node)) {
        end_line(node, file);
    } else if (is_leaf(node)) {
        putc(' ', file);
        write_leaf(node, file);
        end_line(node, file);
    } else if (in_list) {
        putc(' ', file);
        write_block(node, indent + 2, true, file);
    } else {
        end_line(node, file);
        write_block(node, indent + 2, false, file);
    }
}

/* `inside_line`: the first entry stands behind the "- " of a list that holds this node. */
static void write_block(const struct hd_node *node, int indent, bool inside_line, FILE *file)
{
    bool is_map = node->kind == HD_NODE_MAP;
    for (int64_t i = 0; i < node->count; i++) {
        if (i > 0 || !inside_line)
            fprintf(file, "%*s", indent, "");
        if (is_map)
            write_scalar(node->keys[i], file);
        putc(is_map ? ':' : '-', file);
        write_value(node->items[i], indent, !is_map, file);
    }
}

int hd_node_dump(const struct hd_node *node, FILE *file)
{
    if (is_nothing(node)) {
        fputs("---\n", file);
    } else if (is_leaf(node)) {
        write_leaf(node, file);
        end_line(node, file);
    } else {
        write_block(node, 0, false, file);
    }
    return ferror(file) ? HD_ERR_SYSTEM : HD_OK;
}
