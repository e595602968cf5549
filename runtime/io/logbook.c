/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/logbook.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/append.h"
#include "runtime/io/late_files.h"
#include "runtime/io/log_state_internal.h"
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
    char *policy, *origins; /* or NULL */
    struct hd_tensorboard *board;
    struct {
        char name[NAME_BYTES];
        struct hd_appender *file;
    } texts[COMPONENTS_MAX];
    int n_texts;
    struct hd_late_files late;
    struct {
        char key[NAME_BYTES];
        double value;
    } previous[KEYS_MAX];
    int n_previous;
    pthread_mutex_t lock; /* of progress */
    struct hd_progress progress;
};

static int open_board(struct hd_logbook *book, const struct hd_log_state *state)
{
    char *directory = hd_format("%s/log/serial", book->directory);
    int status = HD_ERR_NOMEM;
    if (directory && state->board)
        status = hd_tensorboard_open(directory, state->board, state->board_bytes, &book->board);
    else if (directory)
        status = hd_tensorboard_create(directory, &book->board);
    hd_free(directory);
    return status;
}

/* -- Text logs --------------------------------------------------------------------------------- */

/* Opens a component's text log after its first `keep` bytes. Returns NULL without memory. */
static struct hd_appender *open_text(struct hd_logbook *book, const char *component, int64_t keep)
{
    struct hd_appender **file = &book->texts[book->n_texts].file;
    if (book->n_texts == COMPONENTS_MAX)
        return NULL;
    char *path = hd_format("%s/log/%s/%s_logger.txt", book->directory, component, component);
    const int status = path ? hd_appender_create(path, keep, file) : HD_ERR_NOMEM;
    hd_free(path);
    if (status != HD_OK)
        return NULL;
    snprintf(book->texts[book->n_texts].name, NAME_BYTES, "%s", component);
    return book->texts[book->n_texts++].file;
}

static struct hd_appender *text_of(struct hd_logbook *book, const char *component)
{
    for (int i = 0; i < book->n_texts; i++)
        if (strcmp(book->texts[i].name, component) == 0)
            return book->texts[i].file;
    return open_text(book, component, 0);
}

/* -- Files that wait for room ------------------------------------------------------------------ */

int hd_logbook_put_file(void *book, const char *path, const void *data, int64_t bytes)
{
    hd_late_files_put(&((struct hd_logbook *)book)->late, path, data, bytes, false);
    return HD_OK;
}

int hd_logbook_put_spare_file(void *book, const char *path, const void *data, int64_t bytes)
{
    hd_late_files_put(&((struct hd_logbook *)book)->late, path, data, bytes, true);
    return HD_OK;
}

/* -- State for checkpoints --------------------------------------------------------------------- */

/* Writes a double as exact text, because JSON knows no NaN. */
static json_t *text_of_double(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%a", value);
    return json_string(text);
}

json_t *hd_logbook_get_state(struct hd_logbook *book)
{
    json_t *texts = json_object(), *previous = json_object();
    const struct hd_progress progress = hd_logbook_get_progress(book);
    for (int i = 0; i < book->n_texts; i++)
        json_object_set_new(texts, book->texts[i].name,
                            json_integer(hd_appender_get_length(book->texts[i].file)));
    for (int i = 0; i < book->n_previous; i++)
        json_object_set_new(previous, book->previous[i].key,
                            text_of_double(book->previous[i].value));
    return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:I, s:I}", "board",
                     hd_tensorboard_get_name(book->board), "board_bytes",
                     (json_int_t)hd_tensorboard_get_length(book->board), "texts", texts, "previous",
                     previous, "eval_mean", text_of_double(progress.eval_mean), "best",
                     text_of_double(progress.best), "best_update", (json_int_t)progress.best_update,
                     "env_step", (json_int_t)progress.env_step);
}

static int restore(struct hd_logbook *book, const struct hd_log_state *state)
{
    const char *name;
    json_t *value;
    json_object_foreach(state->texts, name, value) {
        if (!open_text(book, name, json_integer_value(value)))
            return HD_ERR_NOMEM;
    }
    json_object_foreach(state->previous, name, value)
        hd_logbook_replace_value(book, name, strtod(json_string_value(value), NULL));
    book->progress = (struct hd_progress){.eval_mean = state->eval_mean,
                                          .best = state->best,
                                          .best_update = state->best_update,
                                          .env_step = state->env_step};
    return HD_OK;
}

int hd_logbook_create(const char *directory, const json_t *saved, struct hd_logbook **book_p)
{
    struct hd_log_state state;
    HD_TRY(hd_log_state_read(saved, &state));
    struct hd_logbook *book = hd_alloc(1, sizeof *book);
    if (!book)
        return HD_ERR_NOMEM;
    pthread_mutex_init(&book->lock, NULL);
    book->directory = hd_strdup(directory);
    int status = book->directory ? open_board(book, &state) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = restore(book, &state);
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
    hd_late_files_end(&book->late);
    for (int i = 0; i < book->n_texts; i++)
        hd_appender_destroy(book->texts[i].file);
    hd_tensorboard_destroy(book->board);
    pthread_mutex_destroy(&book->lock);
    hd_free(book->policy);
    hd_free(book->origins);
    hd_free(book->directory);
    hd_free(book);
}

const char *hd_logbook_get_dir(const struct hd_logbook *book)
{
    return book->directory;
}

const char *hd_logbook_get_name(const struct hd_logbook *book)
{
    return hd_tensorboard_get_name(book->board);
}

int hd_logbook_set_policy(struct hd_logbook *book, const char *policy, const char *origins)
{
    book->policy = hd_strdup(policy);
    book->origins = origins ? hd_strdup(origins) : NULL;
    return book->policy && (book->origins || !origins) ? HD_OK : HD_ERR_NOMEM;
}

const char *hd_logbook_get_policy(const struct hd_logbook *book)
{
    return book->policy;
}

const char *hd_logbook_get_origins(const struct hd_logbook *book)
{
    return book->origins;
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

/* A record of a text log, which is written in memory first. */
struct record {
    char *text;
    size_t bytes;
    FILE *file;
};

static bool begin_record(struct record *record)
{
    *record = (struct record){0};
    record->file = open_memstream(&record->text, &record->bytes);
    return record->file != NULL;
}

static int end_record(struct record *record, struct hd_logbook *book, const char *component)
{
    const bool whole = fclose(record->file) == 0;
    struct hd_appender *text = whole ? text_of(book, component) : NULL;
    if (text) {
        hd_appender_add(text, record->text, (int64_t)record->bytes);
        hd_appender_flush(text);
    }
    free(record->text);
    return text ? HD_OK : HD_ERR_NOMEM;
}

int hd_logbook_write_line(struct hd_logbook *book, const char *component, const char *format, ...)
{
    struct record record;
    if (!begin_record(&record))
        return HD_ERR_NOMEM;
    va_list args;
    va_start(args, format);
    print_time(record.file);
    vfprintf(record.file, format, args);
    fputc('\n', record.file);
    va_end(args);
    return end_record(&record, book, component);
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
    hd_tensorboard_flush(book->board);
    return HD_OK;
}

int hd_logbook_write_table(struct hd_logbook *book, const char *component, const char *title,
                           int64_t train_iter, int64_t env_step, const struct hd_log_item *items,
                           int n)
{
    struct record record;
    hd_late_files_write(&book->late);
    if (!begin_record(&record))
        return HD_ERR_NOMEM;
    print_time(record.file);
    fprintf(record.file, "%s\n", title);
    print_table(record.file, items, n);
    HD_TRY(end_record(&record, book, component));
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
