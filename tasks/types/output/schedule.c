/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/output/schedule.h"

#include "runtime/base/status.h"
#include "tasks/types/output/scalars.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 64 };
static const double PI = 3.14159265358979323846;

const char *const hd_scheduled_names[HD_SCHEDULED] = {"learning_rate", "learning_rate_q",
                                                      "clip_ratio", "entropy_weight"};

/* Writes the path of a key below policy.learn. */
static const char *name_key(const char *prefix, const char *name, char path[PATH])
{
    snprintf(path, PATH, "policy.learn.%s%s", prefix, name);
    return path;
}

double hd_schedule_compute(const struct hd_schedule *schedule, double share)
{
    int i = 1;
    while (i < schedule->n && share >= schedule->share[i])
        i++;
    if (i == schedule->n)
        return schedule->value[i - 1];
    const double q =
        (share - schedule->share[i - 1]) / (schedule->share[i] - schedule->share[i - 1]);
    const double from = schedule->value[i - 1], to = schedule->value[i];
    return schedule->cosine ? to + (from - to) * (1 + cos(PI * q)) / 2 : (1 - q) * from + q * to;
}

/* -- Reading ----------------------------------------------------------------------------------- */

/* A schedule in the run file. */
struct reader {
    struct hd_diag *diag;
    const char *path;
    const struct hd_node *map;
    double most; /* largest number */
};

static int refuse(const struct reader *reader, const struct hd_node *node, const char *field,
                  const char *expected)
{
    const char *found = node->kind == HD_NODE_SCALAR ? node->text
                        : node->kind == HD_NODE_LIST ? "a list"
                                                     : "a map";
    return hd_diag_add_error(reader->diag, node->location, "%s%s: expected %s, found %.60s",
                             reader->path, field, expected, found);
}

static int read_number(const struct reader *reader, const struct hd_node *node, const char *field,
                       double low, double high, double *number_p)
{
    char expected[64];
    if (hd_node_is_decimal(node)) {
        *number_p = strtod(node->text, NULL);
        if (*number_p >= low && *number_p <= high)
            return HD_OK;
    }
    snprintf(expected, sizeof expected, "a number in [%g, %g]", low, high);
    return refuse(reader, node, field, expected);
}

static int check_fields(const struct reader *reader, const char *type, const char *allowed)
{
    for (int64_t i = 0; i < reader->map->count; i++)
        if (!hd_names_contain(allowed, reader->map->keys[i]->text))
            return hd_diag_add_error(reader->diag, reader->map->keys[i]->location,
                                     "%s: type %s has no field '%.60s' (it has %s)", reader->path,
                                     type, reader->map->keys[i]->text, allowed);
    return HD_OK;
}

/* Reads the one point to which a line or half a wave leads. */
static int read_end(const struct reader *reader, struct hd_schedule *schedule)
{
    const struct hd_node *end = hd_node_get(reader->map, "end"),
                         *until = hd_node_get(reader->map, "until");
    HD_TRY(check_fields(reader, schedule->cosine ? "cosine" : "linear", "type|end|until"));
    if (!end)
        return hd_diag_add_error(reader->diag, reader->map->location,
                                 "%s needs its field end, the number at the end", reader->path);
    schedule->n = 2;
    schedule->share[1] = 1;
    HD_TRY(read_number(reader, end, ".end", 0, reader->most, &schedule->value[1]));
    return until ? read_number(reader, until, ".until", 1e-9, 1, &schedule->share[1]) : HD_OK;
}

static int read_point(const struct reader *reader, const struct hd_node *point,
                      struct hd_schedule *schedule)
{
    const int i = schedule->n;
    if (point->kind != HD_NODE_LIST || point->count != 2)
        return refuse(reader, point, ".points", "a pair [share of the total, number]");
    HD_TRY(read_number(reader, point->items[0], ".points", schedule->share[i - 1], 1,
                       &schedule->share[i]));
    HD_TRY(read_number(reader, point->items[1], ".points", 0, reader->most, &schedule->value[i]));
    schedule->n++;
    return HD_OK;
}

static int read_points(const struct reader *reader, struct hd_schedule *schedule)
{
    const struct hd_node *points = hd_node_get(reader->map, "points");
    HD_TRY(check_fields(reader, "piecewise", "type|points"));
    if (!points || points->kind != HD_NODE_LIST || points->count == 0 ||
        points->count >= HD_SCHEDULE_POINTS)
        return hd_diag_add_error(reader->diag, points ? points->location : reader->map->location,
                                 "%s needs its field points, a list of 1 to %d pairs [share of "
                                 "the total, number]",
                                 reader->path, HD_SCHEDULE_POINTS - 1);
    schedule->n = 1;
    for (int64_t i = 0; i < points->count; i++)
        HD_TRY(read_point(reader, points->items[i], schedule));
    return HD_OK;
}

static const struct hd_node *peek(const struct hd_config *config, int i)
{
    char path[PATH];
    const struct hd_node *map =
        hd_config_peek_node(config, name_key("schedule.", hd_scheduled_names[i], path));
    return map && map->count > 0 ? map : NULL;
}

int hd_schedule_read(const struct hd_config *config, int i, struct hd_diag *diag,
                     struct hd_schedule *schedule_p)
{
    char path[PATH], key[PATH];
    const struct reader reader = {
        .diag = diag,
        .path = name_key("schedule.", hd_scheduled_names[i], path),
        .map = peek(config, i),
        .most = strncmp(hd_scheduled_names[i], "learning_rate", 13) == 0 ? 1e3 : 1e6};
    *schedule_p = (struct hd_schedule){0};
    if (!reader.map)
        return HD_OK;
    const struct hd_node *type = hd_node_get(reader.map, "type");
    const char *text = type && type->kind == HD_NODE_SCALAR ? type->text : "";
    schedule_p->value[0] = hd_config_get_real(config, name_key("", hd_scheduled_names[i], key));
    schedule_p->cosine = strcmp(text, "cosine") == 0;
    if (schedule_p->cosine || strcmp(text, "linear") == 0)
        return read_end(&reader, schedule_p);
    if (strcmp(text, "piecewise") == 0)
        return read_points(&reader, schedule_p);
    return refuse(&reader, type ? type : reader.map, ".type", "linear, cosine or piecewise");
}

int hd_schedule_resolve(struct hd_config *config, struct hd_diag *diag, bool *limited_p)
{
    const struct hd_node *schedule = NULL;
    for (int i = 0; i < HD_SCHEDULED && !schedule; i++)
        schedule = peek(config, i);
    *limited_p = schedule && hd_config_get_word(config, "policy.learn.schedule.total");
    if (!*limited_p)
        return HD_OK;
    const bool updates =
        strcmp(hd_config_get_text(config, "policy.learn.schedule.over"), "update") == 0;
    const char *limit = updates ? "max_train_iter" : "max_env_step";
    const struct hd_node *given = hd_config_get_node(config, limit);
    if (!given)
        return hd_diag_add_error(
            diag, schedule->location,
            "policy.learn.schedule.total: auto is the limit %s, which the run does not have: give "
            "one of them, or policy.learn.schedule.over: %s with %s",
            limit, updates ? "env_step" : "update", updates ? "max_env_step" : "max_train_iter");
    return hd_config_override(config, "policy.learn.schedule.total", given->text);
}

/* -- Readers ----------------------------------------------------------------------------------- */

int hd_scheduled_prepare(const struct hd_setup *setup, int port, const char *name,
                         struct hd_scheduled *scheduled_p)
{
    char key[PATH], path[PATH];
    const struct hd_spec *spec = setup->specs[port];
    const double constant = hd_config_get_real(setup->config, name_key("", name, key));
    const struct hd_node *map =
        hd_config_get_node(setup->config, name_key("schedule.", name, path));
    *scheduled_p = (struct hd_scheduled){.constant = constant, .port = -1, .field = -1};
    if (!map || map->count == 0)
        return HD_OK;
    scheduled_p->field = spec ? hd_value_find_field(spec, name) : -1;
    scheduled_p->port = port;
    if (scheduled_p->field >= 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, setup->location,
                             "%s needs the result of a step compute_schedule under `reads` (port "
                             "'schedule')",
                             path);
}

double hd_scheduled_get(const struct hd_scheduled *scheduled, const struct hd_view *views)
{
    const struct hd_view *view = scheduled->port < 0 ? NULL : &views[scheduled->port];
    const double number = view && view->data
                              ? view->spec->type->field(view->spec, view->data, scheduled->field)
                              : NAN;
    return isnan(number) ? scheduled->constant : number;
}

const struct hd_scalar *hd_scheduled_find_entry(const struct hd_scheduled *scheduled,
                                                const struct hd_view *views)
{
    const struct hd_view *view = scheduled->port < 0 ? NULL : &views[scheduled->port];
    return view && view->data ? hd_scalars_get_slot(view->spec, view->data, scheduled->field).entry
                              : NULL;
}
