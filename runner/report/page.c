/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/page.h"

#include "runner/base/embed.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

HD_EMBED(hd_page_frame, HD_PAGE_DIR "/"
                                    "page.html");
HD_EMBED(hd_page_style, HD_PAGE_DIR "/"
                                    "page.css");
HD_EMBED(hd_page_base, HD_PAGE_DIR "/"
                                   "base.js");
HD_EMBED(hd_page_scale, HD_PAGE_DIR "/"
                                    "scale.js");
HD_EMBED(hd_page_chart, HD_PAGE_DIR "/"
                                    "chart.js");
HD_EMBED(hd_page_timeline, HD_PAGE_DIR "/"
                                       "timeline.js");
HD_EMBED(hd_page_learning, HD_PAGE_DIR "/"
                                       "learning.js");
HD_EMBED(hd_page_times, HD_PAGE_DIR "/"
                                    "times.js");
HD_EMBED(hd_page_graph, HD_PAGE_DIR "/"
                                    "graph.js");
HD_EMBED(hd_page_report, HD_PAGE_DIR "/"
                                     "report.js");
HD_EMBED(hd_page_simulation, HD_PAGE_DIR "/"
                                         "simulation.js");
HD_EMBED(hd_page_groups, HD_PAGE_DIR "/"
                                     "groups.js");
HD_EMBED(hd_page_bench, HD_PAGE_DIR "/"
                                    "bench.js");
HD_EMBED(hd_page_compare, HD_PAGE_DIR "/"
                                      "compare.js");

/* Writes JSON inside of HTML: '<' occurs in texts only, and may not open or close anything there.
 */
static void write_data(const json_t *data, FILE *file)
{
    char *text = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(14));
    for (const char *at = text; at && *at;) {
        const size_t literal = strcspn(at, "<");
        fwrite(at, 1, literal, file);
        at += literal;
        if (*at == '<') {
            fputs("\\u003c", file);
            at++;
        }
    }
    free(text);
}

static void write_part(const char *name, const json_t *data, FILE *file)
{
    static const char *const scripts[] = {hd_page_base,     hd_page_scale,    hd_page_chart,
                                          hd_page_timeline, hd_page_learning, hd_page_times,
                                          hd_page_graph,    hd_page_report,   hd_page_simulation,
                                          hd_page_groups,   hd_page_bench,    hd_page_compare};
    if (strcmp(name, "style") == 0)
        fputs(hd_page_style, file);
    if (strcmp(name, "data") == 0)
        write_data(data, file);
    if (strcmp(name, "script") == 0)
        for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
            fputs(scripts[i], file);
}

/* The frame names its parts as @part@. */
static void write_frame(const json_t *data, FILE *file)
{
    char name[16];
    for (const char *at = hd_page_frame; *at;) {
        const size_t literal = strcspn(at, "@");
        fwrite(at, 1, literal, file);
        at += literal;
        int length = 0;
        if (*at && sscanf(at, "@%15[a-z]@%n", name, &length) == 1 && length > 0) {
            write_part(name, data, file);
            at += length;
        } else if (*at) {
            fputc(*at++, file);
        }
    }
}

int hd_page_build(json_t *data, char **text_p, size_t *bytes_p)
{
    *text_p = NULL;
    FILE *memory = data ? open_memstream(text_p, bytes_p) : NULL;
    if (memory)
        write_frame(data, memory);
    json_decref(data);
    if (memory && fclose(memory) == 0)
        return HD_OK;
    free(*text_p);
    *text_p = NULL;
    return hd_fail(HD_ERR_NOMEM, "no memory for a page");
}

int hd_page_write(const char *path, json_t *data)
{
    char *text;
    size_t bytes;
    HD_TRY(hd_page_build(data, &text, &bytes));
    const int status = hd_file_write_atomic(path, text, (int64_t)bytes);
    free(text);
    return status;
}
