/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/log.h"
#include "runtime/base/numbers.h"
#include "runtime/base/status.h"
#include "runtime/io/log_state_internal.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int refuse(const char *why)
{
    return hd_fail(HD_ERR_FORMAT, "the checkpoint is of no run: %s", why);
}

static bool is_text(const json_t *json)
{
    return json_is_string(json);
}

static bool is_length(const json_t *json)
{
    return json_is_integer(json) && json_integer_value(json) >= 0 &&
           json_integer_value(json) <= HD_COUNT_MAX;
}

static bool is_file_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

static double read_double(const json_t *text)
{
    return json_is_string(text) ? strtod(json_string_value(text), NULL) : NAN;
}

/* Checks a map of names, of which each value is `valid`. */
static int check_map(const json_t *map, const char *what, bool (*valid)(const json_t *json))
{
    const char *name;
    json_t *value;
    if (!json_is_object(map))
        return refuse(what);
    json_object_foreach((json_t *)map, name, value) {
        if (!is_file_name(name) || !valid(value))
            return refuse(what);
    }
    return HD_OK;
}

int hd_log_state_read(const json_t *saved, struct hd_log_state *state_p)
{
    struct hd_log_state state = {.eval_mean = NAN, .best = NAN};
    if (!saved) {
        *state_p = state;
        return HD_OK;
    }
    state.board = json_string_value(json_object_get(saved, "board"));
    if (!state.board || !is_file_name(state.board) ||
        strncmp(state.board, "events.out.tfevents.", 20) != 0)
        return refuse("its log 'board' is no event file");
    if (!is_length(json_object_get(saved, "board_bytes")))
        return refuse("board_bytes of its log is no length");
    HD_TRY(check_map(json_object_get(saved, "texts"), "its text logs are none", is_length));
    HD_TRY(check_map(json_object_get(saved, "previous"), "'previous' of its log", is_text));
    state.board_bytes = json_integer_value(json_object_get(saved, "board_bytes"));
    state.texts = json_object_get(saved, "texts");
    state.previous = json_object_get(saved, "previous");
    state.eval_mean = read_double(json_object_get(saved, "eval_mean"));
    state.best = read_double(json_object_get(saved, "best"));
    state.best_update = json_integer_value(json_object_get(saved, "best_update"));
    state.env_step = json_integer_value(json_object_get(saved, "env_step"));
    *state_p = state;
    return HD_OK;
}
