/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/logbook.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/files.h"
#include "runtime/io/tensorboard.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COMPONENTS_MAX = 8, KEYS_MAX = 32, NAME_BYTES = 32, PAIRS_PER_ROW = 4 };

struct hd_logbook {
    char *directory;
    struct hd_tensorboard *board;
    struct {
        char name[NAME_BYTES];
        FILE *file;
    } texts[COMPONENTS_MAX];
    int n_texts;
    struct {
        char key[NAME_BYTES];
        double value;
    } previous[KEYS_MAX];
    int n_previous;
    pthread_mutex_t lock; /* of progress */
    struct hd_progress progress;
};

static int make_board(const char *directory, const json_t *state, struct hd_tensorboard **board_p)
{
    const char *name = json_string_value(json_object_get(state, "board"));
    if (!name)
        return hd_tensorboard_create(directory, board_p);
    return hd_tensorboard_open(directory, name,
                               json_integer_value(json_object_get(state, "board_bytes")), board_p);
}

static int open_board(struct hd_logbook *book, const json_t *state)
{
    char *directory = hd_format("%s/log/serial", book->directory);
    char *inside = directory ? hd_format("%s/", directory) : NULL;
    int status = inside ? hd_path_make_parents(inside) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = make_board(directory, state, &book->board);
    hd_free(inside);
    hd_free(directory);
    return status;
}

/* -- Text logs --------------------------------------------------------------------------------- */

static FILE *open_text(struct hd_logbook *book, const char *component, const char *mode)
{
    if (book->n_texts == COMPONENTS_MAX)
        return NULL;
    char *path = hd_format("%s/log/%s/%s_logger.txt", book->directory, component, component);
    FILE *file = path && hd_path_make_parents(path) == HD_OK ? fopen(path, mode) : NULL;
    if (path && !file)
        hd_log(HD_LOG_ERROR, "%s cannot be made: %m", path);
    hd_free(path);
    if (!file)
        return NULL;
    snprintf(book->texts[book->n_texts].name, NAME_BYTES, "%s", component);
    return book->texts[book->n_texts++].file = file;
}

static FILE *text_of(struct hd_logbook *book, const char *component)
{
    for (int i = 0; i < book->n_texts; i++)
        if (strcmp(book->texts[i].name, component) == 0)
            return book->texts[i].file;
    return open_text(book, component, "w");
}

/* -- State for checkpoints --------------------------------------------------------------------- */

/* Writes a double as exact text, because JSON knows no NaN. */
static json_t *text_of_double(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%a", value);
    return json_string(text);
}

static double double_of_text(const json_t *text)
{
    return json_is_string(text) ? strtod(json_string_value(text), NULL) : NAN;
}

json_t *hd_logbook_get_state(struct hd_logbook *book)
{
    json_t *texts = json_object(), *previous = json_object();
    const struct hd_progress progress = hd_logbook_get_progress(book);
    for (int i = 0; i < book->n_texts; i++)
        json_object_set_new(texts, book->texts[i].name, json_integer(ftell(book->texts[i].file)));
    for (int i = 0; i < book->n_previous; i++)
        json_object_set_new(previous, book->previous[i].key,
                            text_of_double(book->previous[i].value));
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:I}", "board",
                     hd_tensorboard_get_name(book->board), "board_bytes",
                     (json_int_t)hd_tensorboard_get_length(book->board), "texts", texts, "previous",
                     previous, "eval_mean", text_of_double(progress.eval_mean), "best",
                     text_of_double(progress.best), "env_step", (json_int_t)progress.env_step);
}

static int restore(struct hd_logbook *book, const json_t *state)
{
    const char *name;
    json_t *value;
    if (!state)
        return HD_OK;
    json_object_foreach(json_object_get(state, "texts"), name, value)
    {
        FILE *file = open_text(book, name, "a");
        if (!file || ftruncate(fileno(file), json_integer_value(value)) != 0)
            return hd_fail(HD_ERR_SYSTEM, "the %s log cannot be continued: %m", name);
        fseek(file, 0, SEEK_END);
    }
    json_object_foreach(json_object_get(state, "previous"), name, value)
        hd_logbook_replace_value(book, name, double_of_text(value));
    book->progress = (struct hd_progress){double_of_text(json_object_get(state, "eval_mean")),
                                          double_of_text(json_object_get(state, "best")),
                                          json_integer_value(json_object_get(state, "env_step"))};
    return HD_OK;
}

int hd_logbook_create(const char *directory, const json_t *state, struct hd_logbook **book_p)
{
    struct hd_logbook *book = hd_alloc(1, sizeof *book);
    if (!book)
        return HD_ERR_NOMEM;
    pthread_mutex_init(&book->lock, NULL);
    book->progress = (struct hd_progress){NAN, NAN, 0};
    book->directory = hd_strdup(directory);
    int status = book->directory ? open_board(book, state) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = restore(book, state);
    if (status != HD_OK) {
        hd_logbook_destroy(book);
        return status;
    }
    *book_p = book;
    return HD_OK;
}

void hd_logbook_destroy(struct hd_logbook *book)
{
    if (!book)
        return;
    for (int i = 0; i < book->n_texts; i++)
        if (fclose(book->texts[i].file) != 0)
            hd_log(HD_LOG_ERROR, "the %s log cannot be written: %m", book->texts[i].name);
    hd_tensorboard_destroy(book->board);
    pthread_mutex_destroy(&book->lock);
    hd_free(book->directory);
    hd_free(book);
}

const char *hd_logbook_get_dir(const struct hd_logbook *book)
{
    return book->directory;
}

/* Prints the time in brackets at the start of a line: nothing else in these files is wall-clock
 * text. */
static void print_time(FILE *file)
{
    char text[32];
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(text, sizeof text, "%m-%d %H:%M:%S", &parts);
    fprintf(file, "[%s] ", text);
}

static void print_rule(FILE *file, int pairs)
{
    for (int i = 0; i < pairs; i++)
        fprintf(file, "+------------------------------+-----------------");
    fprintf(file, "+\n");
}

static void print_table(FILE *file, const struct hd_log_item *items, int n)
{
    for (int first = 0; first < n; first += PAIRS_PER_ROW) {
        int pairs = n - first < PAIRS_PER_ROW ? n - first : PAIRS_PER_ROW;
        print_rule(file, pairs);
        for (int i = first; i < first + pairs; i++)
            fprintf(file, "| %-28s | %15.6f ", items[i].name, items[i].value);
        fprintf(file, "|\n");
    }
    print_rule(file, n < PAIRS_PER_ROW ? n : PAIRS_PER_ROW);
}

int hd_logbook_write_line(struct hd_logbook *book, const char *component, const char *format, ...)
{
    FILE *file = text_of(book, component);
    if (!file)
        return HD_ERR_SYSTEM;
    va_list args;
    va_start(args, format);
    print_time(file);
    vfprintf(file, format, args);
    fputc('\n', file);
    va_end(args);
    return fflush(file) == 0 ? HD_OK : HD_ERR_SYSTEM;
}

/* -- Tables ------------------------------------------------------------------------------------ */

static int write_scalars(struct hd_logbook *book, const char *component, int64_t train_iter,
                         int64_t env_step, const struct hd_log_item *items, int n)
{
    double wall_s = (double)hd_clock_get_wall_ns() * 1e-9;
    char tag[128];
    for (int i = 0; i < n; i++) {
        snprintf(tag, sizeof tag, "%s_iter/%s", component, items[i].name);
        HD_TRY(hd_tensorboard_add_scalar(book->board, tag, train_iter, wall_s, items[i].value));
        if (items[i].iter_only)
            continue;
        snprintf(tag, sizeof tag, "%s_step/%s", component, items[i].name);
        HD_TRY(hd_tensorboard_add_scalar(book->board, tag, env_step, wall_s, items[i].value));
    }
    return hd_tensorboard_flush(book->board);
}

int hd_logbook_write_table(struct hd_logbook *book, const char *component, const char *title,
                           int64_t train_iter, int64_t env_step, const struct hd_log_item *items,
                           int n)
{
    FILE *file = text_of(book, component);
    if (!file)
        return HD_ERR_SYSTEM;
    HD_TRY(hd_logbook_write_line(book, component, "%s", title));
    print_table(file, items, n);
    if (fflush(file) != 0)
        return hd_fail(HD_ERR_SYSTEM, "the %s log cannot be written: %m", component);
    return write_scalars(book, component, train_iter, env_step, items, n);
}

double hd_logbook_replace_value(struct hd_logbook *book, const char *key, double now)
{
    int i = 0;
    while (i < book->n_previous && strcmp(book->previous[i].key, key) != 0)
        i++;
    if (i == KEYS_MAX)
        return 0;
    if (i == book->n_previous)
        snprintf(book->previous[book->n_previous++].key, NAME_BYTES, "%s", key);
    double before = book->previous[i].value;
    book->previous[i].value = now;
    return before;
}

struct hd_progress hd_logbook_get_progress(struct hd_logbook *book)
{
    pthread_mutex_lock(&book->lock);
    struct hd_progress progress = book->progress;
    pthread_mutex_unlock(&book->lock);
    return progress;
}

void hd_logbook_set_progress(struct hd_logbook *book, struct hd_progress progress)
{
    pthread_mutex_lock(&book->lock);
    book->progress = progress;
    pthread_mutex_unlock(&book->lock);
}
