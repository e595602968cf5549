/* SPDX-License-Identifier: Apache-2.0 */
/* Names the key by which the configs of two ranks differ. */
#include "runtime/ranks/rendezvous_internal.h"

#include <stdio.h>
#include <string.h>

/* A line "key<TAB>hash<TAB>value" of a text, borrowed from it. */
struct line {
    const char *start;
    int key, hash, value; /* bytes; the hash and the value come behind tabs */
};

/* Reads the line at `text`. Returns the next one, or NULL at the end. */
static const char *read_line(const char *text, struct line *line_p)
{
    if (!*text)
        return NULL;
    const int bytes = (int)strcspn(text, "\n");
    const int key = (int)strcspn(text, "\t\n");
    const int hash = key < bytes ? (int)strcspn(text + key + 1, "\t\n") : 0;
    const int value = bytes - key - hash - 2;
    *line_p = (struct line){text, key, hash, value > 0 ? value : 0};
    return text + bytes + (text[bytes] == '\n');
}

static bool find_key(const char *text, const struct line *key, struct line *found_p)
{
    while ((text = read_line(text, found_p)))
        if (found_p->key == key->key && memcmp(found_p->start, key->start, (size_t)key->key) == 0)
            return true;
    return false;
}

static bool is_same(const struct line *a, const struct line *b)
{
    return a->hash == b->hash &&
           memcmp(a->start + a->key, b->start + b->key, (size_t)a->hash + 1) == 0;
}

static const char *get_value(const struct line *line)
{
    return line->start + line->key + line->hash + 2;
}

/* Long values are cut; those without a text, such as graphs, only differ. */
static void describe(const struct line *mine, const struct hd_hello *me, const struct line *theirs,
                     const struct hd_hello *them, char *text)
{
    enum { BYTES = HD_RENDEZVOUS_TEXT / 2, SHOWN = 40 };
    const int my_bytes = mine->value < SHOWN ? mine->value : SHOWN,
              their_bytes = theirs->value < SHOWN ? theirs->value : SHOWN;
    if (mine->value == 0 || theirs->value == 0)
        snprintf(text, BYTES, "%.*s differs between rank %d (on %.32s) and rank %d (on %.32s)",
                 mine->key, mine->start, them->rank, them->host, me->rank, me->host);
    else
        snprintf(text, BYTES, "%.*s is %.*s on rank %d (on %.32s), but %.*s on rank %d (on %.32s)",
                 mine->key, mine->start, their_bytes, get_value(theirs), them->rank, them->host,
                 my_bytes, get_value(mine), me->rank, me->host);
    for (char *c = text; *c; c++) /* it came by the network and goes to terminals */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
}

void hd_rendezvous_describe_difference(const char *mine, const struct hd_hello *me,
                                       const char *theirs, const struct hd_hello *them,
                                       char text[HD_RENDEZVOUS_TEXT / 2])
{
    struct line line, other;
    while ((mine = read_line(mine, &line)))
        if (find_key(theirs, &line, &other) && !is_same(&line, &other)) {
            describe(&line, me, &other, them, text);
            return;
        }
}
