/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/history/history.h"

#include "runner/base/config_leaves.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *path_in(const struct hd_history *history, const char *name)
{
    return hd_format("%s/%s", history->dir, name);
}

/* Returns the path of a file of the directory, freed with hd_free; NULL if there is none. */
static char *find_file(const struct hd_history *history, const char *name)
{
    char *path = path_in(history, name);
    if (path && access(path, F_OK) == 0)
        return path;
    hd_free(path);
    return NULL;
}

/* -- The config -------------------------------------------------------------------------------- */

static int read_config(struct hd_history *history)
{
    struct stat about;
    int64_t bytes;
    if (stat(history->dir, &about) != 0)
        return hd_fail(HD_ERR_INPUT, "%s: %s", history->dir, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return hd_fail(HD_ERR_INPUT, "%s is a file, not the directory of a run", history->dir);
    char *path = find_file(history, "total_config.yaml");
    if (!path)
        return hd_fail(HD_ERR_INPUT,
                       "%s is not the directory of a run: there is no total_config.yaml in it",
                       history->dir);
    int status = hd_file_read(path, HD_INPUT_RUN, &history->config_text, &bytes);
    if (status == HD_OK)
        status = hd_config_list_leaves(path, history->config_text, bytes, history->config);
    hd_free(path);
    return status;
}

/* -- What the run wrote about itself ----------------------------------------------------------- */

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Begins a new part of the run: earlier samples of later updates are of work that was lost. */
static void begin_part(struct hd_history *history, json_t *start, double *offset_s)
{
    const double update = number(start, "update");
    size_t n = json_array_size(history->samples);
    if (n > 0)
        *offset_s = number(json_array_get(history->samples, n - 1), "s");
    while (n > 0 && number(json_array_get(history->samples, n - 1), "update") > update)
        json_array_remove(history->samples, --n);
    json_decref(history->start);
    json_decref(history->end);
    history->start = json_incref(start);
    history->end = NULL;
    history->starts++;
    json_object_set_new(start, "offset_s", json_real(*offset_s));
}

static void take_line(struct hd_history *history, json_t *line, double *offset_s, json_t *parts)
{
    json_t *start = json_object_get(line, "start"), *end = json_object_get(line, "end");
    if (json_is_object(start)) {
        begin_part(history, start, offset_s);
        json_array_append(parts, start);
    } else if (json_is_object(end)) {
        json_decref(history->end);
        history->end = json_incref(end);
    } else if (json_is_number(json_object_get(line, "s"))) {
        json_object_set_new(line, "s", json_real(number(line, "s") + *offset_s));
        json_array_append(history->samples, line);
    }
}

/* The last line may be cut: the run may have been killed in it. */
static int take_lines(struct hd_history *history, const char *path, char *content, json_t *parts)
{
    double offset_s = 0;
    int64_t number_of = 1;
    char *end;
    for (char *line = content; (end = strchr(line, '\n')); line = end + 1, number_of++) {
        json_error_t error;
        json_t *json = json_loadb(line, (size_t)(end - line), 0, &error);
        if (!json_is_object(json)) {
            json_decref(json);
            return hd_fail(HD_ERR_FORMAT, "%s:%lld: %s", path, (long long)number_of, error.text);
        }
        take_line(history, json, &offset_s, parts);
        json_decref(json);
    }
    return HD_OK;
}

static int read_metrics(struct hd_history *history, json_t *parts)
{
    char *content, *path = find_file(history, "log/metrics.jsonl");
    if (!path)
        return HD_OK;
    int status = hd_file_read(path, HD_INPUT_RUN, &content, NULL);
    if (status == HD_OK) {
        status = take_lines(history, path, content, parts);
        hd_free(content);
    }
    hd_free(path);
    return status;
}

/* Wall-clock time becomes time of training: since the start, without the pauses between parts. */
static void count_seconds(struct hd_history *history, const json_t *parts)
{
    double first = 0;
    for (int t = 0; t < history->curves.n_tables; t++) {
        const struct hd_table *table = &history->curves.tables[t];
        if (table->n_rows > 0 && (first == 0 || table->rows[0][HD_CURVES_WALL] < first))
            first = table->rows[0][HD_CURVES_WALL];
    }
    for (int t = 0; t < history->curves.n_tables; t++)
        for (int64_t i = 0; i < history->curves.tables[t].n_rows; i++) {
            double *wall = &history->curves.tables[t].rows[i][HD_CURVES_WALL];
            size_t part = json_array_size(parts);
            while (part > 1 && number(json_array_get(parts, part - 1), "time") > *wall)
                part--;
            const json_t *start = json_array_get(parts, part > 0 ? part - 1 : 0);
            const double seconds = *wall - (start ? number(start, "time") : first);
            *wall = (seconds > 0 ? seconds : 0) + (start ? number(start, "offset_s") : 0);
        }
}

static int read_trace(struct hd_history *history)
{
    char *path = find_file(history, "trace.json");
    int status = path ? hd_trace_file_read(path, &history->trace) : HD_OK;
    hd_free(path);
    return status;
}

int hd_history_read(const char *dir, struct hd_history *history_p)
{
    struct hd_history history = {.dir = dir, .config = json_array(), .samples = json_array()};
    json_t *parts = json_array();
    int status = read_config(&history);
    if (status == HD_OK)
        status = hd_run_dir_check(dir);
    if (status == HD_OK)
        status = hd_run_dir_read_result(dir, &history.result);
    if (status == HD_OK)
        status = read_metrics(&history, parts);
    if (status == HD_OK)
        status = hd_curves_read(dir, &history.curves);
    if (status == HD_OK)
        status = read_trace(&history);
    if (status == HD_OK)
        count_seconds(&history, parts);
    json_decref(parts);
    if (status == HD_OK)
        *history_p = history;
    else
        hd_history_release(&history);
    return status;
}

int hd_history_open(const char *path, struct hd_history *history_p)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return hd_history_read(path, history_p);
    struct hd_history history = {.dir = path, .config = json_array(), .samples = json_array()};
    const int status = hd_trace_file_read(path, &history.trace);
    if (status == HD_OK)
        *history_p = history;
    else
        hd_history_release(&history);
    return status;
}

void hd_history_release(struct hd_history *history)
{
    json_decref(history->config);
    json_decref(history->result);
    json_decref(history->start);
    json_decref(history->end);
    json_decref(history->samples);
    hd_curves_release(&history->curves);
    hd_trace_file_release(history->trace);
    hd_free(history->config_text);
    *history = (struct hd_history){0};
}

const char *hd_history_get_key(const struct hd_history *history, const char *path)
{
    const char *text = hd_config_find_leaf(history->config, path);
    return text ? text : "";
}
