/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/diag.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

enum {
    KEPT_MISTAKES = 1000, /* further ones are only counted */
    REPORTED_MISTAKES = 50,
    LINE_BYTES = 2048,
    NAME_LENGTH = 63 /* longer names are not compared */
};

struct mistake {
    char *line;         /* starts with the file's name */
    size_t file_length; /* of that name, which may be released before mistakes are reported */
    int row, column;
};

struct hd_diag {
    struct mistake *mistakes; /* in order of location */
    int64_t kept, capacity;
    int64_t lost; /* beyond KEPT_MISTAKES, or without memory to keep them */
};

int hd_diag_create(struct hd_diag **diag_p)
{
    struct hd_diag *diag = hd_alloc(1, sizeof *diag);
    if (!diag)
        return HD_ERR_NOMEM;
    *diag_p = diag;
    return HD_OK;
}

void hd_diag_destroy(struct hd_diag *diag)
{
    if (!diag)
        return;
    for (int64_t i = 0; i < diag->kept; i++)
        hd_free(diag->mistakes[i].line);
    hd_free(diag->mistakes);
    hd_free(diag);
}

static int compare_locations(const struct mistake *a, const struct mistake *b)
{
    size_t shared = a->file_length < b->file_length ? a->file_length : b->file_length;
    int order = memcmp(a->line, b->line, shared);
    if (order)
        return order;
    if (a->file_length != b->file_length)
        return a->file_length < b->file_length ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

/* Makes a mistake one line of bounded length, whatever it quotes from a file. */
static void bound_line(char line[LINE_BYTES], int length)
{
    if (length >= LINE_BYTES) {
        size_t end = LINE_BYTES - sizeof "...";
        while (end > 0 && ((unsigned char)line[end] & 0xC0) == 0x80)
            end--;
        strcpy(line + end, "...");
    }
    for (; *line; line++)
        if (iscntrl((unsigned char)*line))
            *line = '?';
}

/* Inserts a mistake in order of location and takes new.line over. */
static int insert(struct hd_diag *diag, struct mistake new)
{
    int64_t at = diag->kept;
    while (at > 0 && compare_locations(&diag->mistakes[at - 1], &new) > 0)
        at--;
    for (int64_t i = at; i > 0 && compare_locations(&diag->mistakes[i - 1], &new) == 0; i--)
        if (!strcmp(diag->mistakes[i - 1].line, new.line)) {
            hd_free(new.line);
            return HD_OK;
        }
    void *list = diag->mistakes;
    int status = hd_grow(&list, &diag->capacity, diag->kept + 1, sizeof new);
    diag->mistakes = list;
    if (status != HD_OK) {
        hd_free(new.line);
        return status;
    }
    memmove(&diag->mistakes[at + 1], &diag->mistakes[at], (size_t)(diag->kept - at) * sizeof new);
    diag->mistakes[at] = new;
    diag->kept++;
    return HD_OK;
}

int hd_diag_add_error(struct hd_diag *diag, struct hd_source_location location, const char *format,
                      ...)
{
    if (diag->kept >= KEPT_MISTAKES) {
        diag->lost++;
        return HD_ERR_INPUT;
    }
    char line[LINE_BYTES];
    int used = location.line > 0 ? snprintf(line, sizeof line, "%s:%d:%d: ", location.file,
                                            location.line, location.column)
                                 : snprintf(line, sizeof line, "%s: ", location.file);
    if (used < LINE_BYTES) {
        va_list args;
        va_start(args, format);
        used += vsnprintf(line + used, sizeof line - (size_t)used, format, args);
        va_end(args);
    }
    bound_line(line, used);
    struct mistake new = {.line = hd_strdup(line),
                          .file_length = strnlen(location.file, LINE_BYTES - 1),
                          .row = location.line,
                          .column = location.column};
    if (!new.line || insert(diag, new) != HD_OK)
        diag->lost++;
    return HD_ERR_INPUT;
}

int64_t hd_diag_count(const struct hd_diag *diag)
{
    return diag->kept + diag->lost;
}

int hd_diag_report(const struct hd_diag *diag)
{
    int64_t shown = diag->kept < REPORTED_MISTAKES ? diag->kept : REPORTED_MISTAKES;
    for (int64_t i = 0; i < shown; i++)
        hd_log(HD_LOG_ERROR, "%s", diag->mistakes[i].line);
    int64_t rest = hd_diag_count(diag) - shown;
    if (rest > 0)
        hd_log(HD_LOG_ERROR, "and %lld more mistakes", (long long)rest);
    return hd_diag_count(diag) > 0 ? HD_ERR_INPUT : HD_OK;
}

const char *hd_diag_get_line(const struct hd_diag *diag, int64_t i)
{
    return i >= 0 && i < diag->kept ? diag->mistakes[i].line : NULL;
}

bool hd_names_contain(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (const char *next = names;; next += strcspn(next, "|") + 1) {
        const size_t n = strcspn(next, "|");
        if (n == length && memcmp(next, name, n) == 0)
            return true;
        if (next[n] == '\0')
            return false;
    }
}

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* Counts insertions, deletions, replacements and swaps of neighbours (Damerau-Levenshtein, optimal
 * string alignment); upper and lower case are equal. Both lengths are at most NAME_LENGTH. */
static int edit_distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    int d[NAME_LENGTH + 1][NAME_LENGTH + 1];
    for (int i = 0; i <= n; i++)
        d[i][0] = i;
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++) {
            int ai = tolower((unsigned char)a[i - 1]), bj = tolower((unsigned char)b[j - 1]);
            d[i][j] = min(min(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (ai != bj));
            if (i > 1 && j > 1 && ai == tolower((unsigned char)b[j - 2]) &&
                bj == tolower((unsigned char)a[i - 2]))
                d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

const char *hd_find_nearest_name(const char *name, const char *const *names, int64_t count)
{
    size_t length = strnlen(name, NAME_LENGTH + 1);
    if (length == 0 || length > NAME_LENGTH)
        return NULL;
    const char *nearest = NULL;
    const int half = (int)length / 2, third = 1 + (int)length / 3;
    int best = 1 + min(half, third);
    for (int64_t i = 0; i < count; i++) {
        if (!names[i] || strnlen(names[i], NAME_LENGTH + 1) > NAME_LENGTH)
            continue;
        int distance = edit_distance(name, names[i]);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
