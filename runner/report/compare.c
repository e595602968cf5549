/* SPDX-License-Identifier: Apache-2.0 */
/* runner compare: several runs over each other, as text, as JSON and as a page. */
#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runner/report/compare_text.h"
#include "runner/report/groups.h"
#include "runner/report/live.h"
#include "runner/report/page.h"
#include "runner/report/run_dirs.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdio.h>

struct comparison {
    struct hd_run_dirs dirs;
    struct hd_runs runs;
    json_t *differences;
    json_t *groups; /* NULL: not asked for */
};

static json_t *or_null(json_t *json)
{
    return json ? json_incref(json) : json_null();
}

static int read_runs(struct comparison *comparison)
{
    struct hd_runs *runs = &comparison->runs;
    const struct hd_run_dirs *dirs = &comparison->dirs;
    runs->list = hd_alloc(dirs->n, sizeof *runs->list);
    runs->outcomes = hd_alloc(dirs->n, sizeof *runs->outcomes);
    if (!runs->list || !runs->outcomes)
        return HD_ERR_NOMEM;
    for (; runs->n < dirs->n; runs->n++) {
        HD_TRY(hd_history_read(dirs->paths[runs->n], &runs->list[runs->n]));
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

static int build_page(const struct comparison *comparison, json_t **data_p)
{
    json_t *list = json_array();
    for (int r = 0; r < comparison->runs.n; r++) {
        json_t *run = hd_history_build_json(&comparison->runs.list[r], false, comparison->runs.n);
        json_object_set_new(run, "outcome", hd_outcome_build_json(&comparison->runs.outcomes[r]));
        json_array_append_new(list, run);
    }
    *data_p = json_pack("{s:s, s:s, s:O, s:o, s:o}", "kind", "compare", "version", HD_VERSION,
                        "differences", comparison->differences, "grouping",
                        or_null(comparison->groups), "runs", list);
    return *data_p ? HD_OK : HD_ERR_NOMEM;
}

static int read_all(struct comparison *comparison, const struct hd_options *options)
{
    HD_TRY(hd_run_dirs_find(options->dirs, options->n_dirs, &comparison->dirs));
    HD_TRY(read_runs(comparison));
    comparison->differences = hd_differences_build_json(&comparison->runs);
    if (options->group_by.n > 0)
        HD_TRY(hd_groups_build_json(&comparison->runs, comparison->differences, &options->group_by,
                                    &comparison->groups));
    return HD_OK;
}

static void release(struct comparison *comparison)
{
    for (int r = 0; r < comparison->runs.n; r++)
        hd_history_release(&comparison->runs.list[r]);
    hd_free(comparison->runs.list);
    hd_free(comparison->runs.outcomes);
    json_decref(comparison->differences);
    json_decref(comparison->groups);
    hd_run_dirs_release(&comparison->dirs);
}

static int write_page(const struct comparison *comparison, const char *out)
{
    json_t *data;
    HD_TRY(build_page(comparison, &data));
    HD_TRY(hd_page_write(out, data));
    hd_log(HD_LOG_INFO, "%s", out);
    return HD_OK;
}

static int compare(struct comparison *comparison, const struct hd_options *options)
{
    HD_TRY(read_all(comparison, options));
    if (comparison->runs.n < 2)
        return hd_fail(HD_ERR_INPUT,
                       "missing run directory: found %s alone, and a comparison is "
                       "of two or more",
                       comparison->dirs.paths[0]);
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

/* Reads all anew: there may be more runs by now. */
static int build_live(void *options, json_t **data_p)
{
    struct comparison comparison = {0};
    int status = read_all(&comparison, options);
    if (status == HD_OK)
        status = build_page(&comparison, data_p);
    release(&comparison);
    return status;
}

static uint64_t hash_files(void *arg)
{
    const struct hd_options *options = arg;
    struct hd_run_dirs dirs = {0};
    uint64_t hash = 0;
    if (hd_run_dirs_find(options->dirs, options->n_dirs, &dirs) == HD_OK)
        for (int i = 0; i < dirs.n; i++)
            hash = hd_hash_mix(hash, hd_live_hash_run(dirs.paths[i]));
    hd_run_dirs_release(&dirs);
    return hash;
}

int hd_command_compare(struct hd_options *options)
{
    if (options->http >= 0) {
        const struct hd_live live = {build_live, hash_files, options};
        return hd_status_get_exit_code(hd_live_serve(&live, options->http));
    }
    struct comparison comparison = {0};
    const int status = compare(&comparison, options);
    release(&comparison);
    return hd_status_get_exit_code(status);
}
