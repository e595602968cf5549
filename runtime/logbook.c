/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/logbook.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/files.h"
#include "runtime/tensorboard.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

static int open_board(struct hd_logbook *book)
{
    char *directory = hd_format("%s/log/serial", book->directory);
    char *inside = directory ? hd_format("%s/", directory) : NULL;
    int status = inside ? hd_make_parents(inside) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_tensorboard_create(directory, &book->board);
    hd_free(inside);
    hd_free(directory);
    return status;
}

int hd_logbook_create(const char *directory, struct hd_logbook **book_p)
{
    struct hd_logbook *book = hd_alloc(1, sizeof *book);
    if (!book)
        return HD_ERR_NOMEM;
    pthread_mutex_init(&book->lock, NULL);
    book->progress = (struct hd_progress){NAN, NAN, 0};
    book->directory = hd_strdup(directory);
    int status = book->directory ? open_board(book) : HD_ERR_NOMEM;
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

const char *hd_logbook_dir(const struct hd_logbook *book)
{
    return book->directory;
}

/* -- Text logs ----------------------------------------------------------------------------------
 */

static FILE *text_of(struct hd_logbook *book, const char *component)
{
    for (int i = 0; i < book->n_texts; i++)
        if (strcmp(book->texts[i].name, component) == 0)
            return book->texts[i].file;
    if (book->n_texts == COMPONENTS_MAX)
        return NULL;
    char *path = hd_format("%s/log/%s/%s_logger.txt", book->directory, component, component);
    FILE *file = path && hd_make_parents(path) == HD_OK ? fopen(path, "w") : NULL;
    if (path && !file)
        hd_log(HD_LOG_ERROR, "%s cannot be made: %m", path);
    hd_free(path);
    if (!file)
        return NULL;
    snprintf(book->texts[book->n_texts].name, NAME_BYTES, "%s", component);
    return book->texts[book->n_texts++].file = file;
}

/* The only wall-clock text of these files: at the start of each line, in brackets. */
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

static void print_table(FILE *file, const struct hd_logged *items, int n)
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

int hd_logbook_line(struct hd_logbook *book, const char *component, const char *format, ...)
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

/* -- Tables -------------------------------------------------------------------------------------
 */

static int write_scalars(struct hd_logbook *book, const char *component, int64_t train_iter,
                         int64_t env_step, const struct hd_logged *items, int n)
{
    double wall_s = (double)hd_clock_wall_ns() * 1e-9;
    char tag[128];
    for (int i = 0; i < n; i++) {
        snprintf(tag, sizeof tag, "%s_iter/%s", component, items[i].name);
        HD_TRY(hd_tensorboard_scalar(book->board, tag, train_iter, wall_s, items[i].value));
        if (items[i].iter_only)
            continue;
        snprintf(tag, sizeof tag, "%s_step/%s", component, items[i].name);
        HD_TRY(hd_tensorboard_scalar(book->board, tag, env_step, wall_s, items[i].value));
    }
    return hd_tensorboard_flush(book->board);
}

int hd_logbook_table(struct hd_logbook *book, const char *component, const char *title,
                     int64_t train_iter, int64_t env_step, const struct hd_logged *items, int n)
{
    FILE *file = text_of(book, component);
    if (!file)
        return HD_ERR_SYSTEM;
    HD_TRY(hd_logbook_line(book, component, "%s", title));
    print_table(file, items, n);
    if (fflush(file) != 0)
        return hd_fail(HD_ERR_SYSTEM, "the %s log cannot be written: %m", component);
    return write_scalars(book, component, train_iter, env_step, items, n);
}

double hd_logbook_previous(struct hd_logbook *book, const char *key, double now)
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

struct hd_progress hd_logbook_progress(struct hd_logbook *book)
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
