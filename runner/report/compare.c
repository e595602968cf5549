/* SPDX-License-Identifier: Apache-2.0 */
/* runner compare: several runs over each other, as text, as JSON and as a page. */
#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runner/report/compare_text.h"
#include "runner/report/groups.h"
#include "runner/report/page.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdio.h>

struct comparison {
    struct hd_runs runs;
    json_t *differences;
    json_t *groups; /* NULL: not asked for */
};

static json_t *or_null(json_t *json)
{
    return json ? json_incref(json) : json_null();
}

static int read_runs(struct hd_runs *runs, const struct hd_options *options)
{
    runs->list = hd_alloc(options->n_dirs, sizeof *runs->list);
    runs->outcomes = hd_alloc(options->n_dirs, sizeof *runs->outcomes);
    if (!runs->list || !runs->outcomes)
        return HD_ERR_NOMEM;
    for (; runs->n < options->n_dirs; runs->n++) {
        HD_TRY(hd_history_read(options->dirs[runs->n], &runs->list[runs->n]));
        runs->outcomes[runs->n] = hd_outcome_read(&runs->list[runs->n]);
    }
    return HD_OK;
}

static int print_json(const struct comparison *comparison)
{
    json_t *list = json_array();
    for (int r = 0; r < comparison->runs.n; r++) {
        json_t *run = hd_outcome_build_json(&comparison->runs.outcomes[r]);
        json_object_set_new(run, "dir", json_string(comparison->runs.list[r].dir));
        json_object_set_new(run, "seed",
                            json_string(hd_history_get_key(&comparison->runs.list[r], "seed")));
        json_array_append_new(list, run);
    }
    json_t *json =
        json_pack("{s:s, s:o, s:O, s:o}", "version", HD_VERSION, "runs", list, "differences",
                  comparison->differences, "grouping", or_null(comparison->groups));
    if (!json)
        return HD_ERR_NOMEM;
    json_dumpf(json, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(json);
    return HD_OK;
}

static int write_page(struct comparison *comparison, const char *out)
{
    json_t *list = json_array();
    for (int r = 0; r < comparison->runs.n; r++) {
        json_t *run = hd_history_build_json(&comparison->runs.list[r], false, comparison->runs.n);
        json_object_set_new(run, "outcome", hd_outcome_build_json(&comparison->runs.outcomes[r]));
        json_array_append_new(list, run);
    }
    HD_TRY(hd_page_write(out, json_pack("{s:s, s:s, s:O, s:o, s:o}", "kind", "compare", "version",
                                        HD_VERSION, "differences", comparison->differences,
                                        "grouping", or_null(comparison->groups), "runs", list)));
    hd_log(HD_LOG_INFO, "%s", out);
    return HD_OK;
}

static int compare(struct comparison *comparison, const struct hd_options *options)
{
    HD_TRY(read_runs(&comparison->runs, options));
    comparison->differences = hd_differences_build_json(&comparison->runs);
    if (options->group_by.n > 0)
        HD_TRY(hd_groups_build_json(&comparison->runs, comparison->differences, &options->group_by,
                                    &comparison->groups));
    if (options->as_json)
        HD_TRY(print_json(comparison));
    else if (comparison->groups)
        hd_compare_print_groups(&comparison->runs, comparison->groups);
    else
        hd_compare_print_runs(&comparison->runs, comparison->differences);
    if (options->as_json && !options->out)
        return HD_OK;
    return write_page(comparison, options->out ? options->out : "compare.html");
}

int hd_command_compare(struct hd_options *options)
{
    struct comparison comparison = {0};
    int status = compare(&comparison, options);
    for (int r = 0; r < comparison.runs.n; r++)
        hd_history_release(&comparison.runs.list[r]);
    hd_free(comparison.runs.list);
    hd_free(comparison.runs.outcomes);
    json_decref(comparison.differences);
    json_decref(comparison.groups);
    return hd_status_get_exit_code(status);
}
