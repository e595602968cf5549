/* SPDX-License-Identifier: Apache-2.0 */
/* Takes any text, cut at lines "%%%", for a run file, a graph file and a strategy file: reads and
 * checks them as `runner` does, plans every rank, and reads the effective config back as an equal
 * one. Besides libFuzzer's mutations of bytes, a scalar becomes a list, a map or nothing: the bytes
 * that open and close it are far apart, so that mutations of bytes seldom hit both. */
#include "runner/base/run_spec.h"
#include "runtime/base/status.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 3, RANKS = 2 };
static const char *const names[FILES] = {"run.yaml", "graph.yaml", "strategy.yaml"};

static void plan(struct hd_run_spec *run_spec)
{
    char *text;
    size_t length;
    for (int rank = 0; rank < RANKS; rank++) {
        struct hd_plan *plan;
        if (hd_plan_create(run_spec->graph, rank, RANKS, NULL,
                           run_spec->settings.param_check_interval, &plan) != HD_OK)
            continue;
        FILE *file = open_memstream(&text, &length);
        hd_plan_dump(plan, file);
        hd_plan_dump_dot(plan, file);
        fclose(file);
        free(text);
        hd_plan_destroy(plan);
    }
}

/* Writes the config as total_config.yaml, and reads it back. */
static void read_back(const struct hd_run_spec *run_spec)
{
    struct hd_run_spec again;
    struct hd_options options = {.config = fuzz_path("total.yaml")};
    FILE *file = fopen(options.config, "w");
    fuzz_check(file && hd_config_dump(run_spec->config, NULL, 0, file) == HD_OK,
               "the config can be written");
    fclose(file);
    fuzz_check(hd_run_spec_load(&options, RANKS, &again) == HD_OK, "and read again");
    fuzz_check(hd_run_spec_hash(run_spec) == hd_run_spec_hash(&again), "to an equal one");
    hd_run_spec_release(&again);
}

/* -- Mutations --------------------------------------------------------------------------------- */

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max, unsigned seed);

static bool is_in_scalar(uint8_t c)
{
    return c > ' ' && !strchr(",:[]{}#", c);
}

/* Returns the end of the scalar that follows the first ": " at or behind data[*begin_p], which
 * becomes its begin; 0: there is none. */
static size_t find_scalar(const uint8_t *data, size_t bytes, size_t *begin_p)
{
    size_t begin = *begin_p;
    while (begin + 2 < bytes &&
           (data[begin] != ':' || data[begin + 1] != ' ' || !is_in_scalar(data[begin + 2])))
        begin++;
    if (begin + 2 >= bytes)
        return 0;
    *begin_p = begin += 2;
    while (begin < bytes && is_in_scalar(data[begin]))
        begin++;
    return begin;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max, unsigned seed)
{
    static const char *const around[][2] = {{"[", "]"}, {"{a: ", "}"}, {"[", ", b]"}, {"", ""}};
    const char *const *wrap = around[seed / 4 % 4];
    const size_t open = strlen(wrap[0]), close = strlen(wrap[1]);
    size_t begin = bytes ? seed / 16 % bytes : 0;
    const size_t end = find_scalar(data, bytes, &begin);
    if (seed % 4 || end == 0 || bytes + open + close > max)
        return LLVMFuzzerMutate(data, bytes, max);
    const size_t kept = open ? end - begin : 0;
    memmove(data + begin + open + kept + close, data + end, bytes - end);
    memmove(data + begin + open, data + begin, kept);
    memcpy(data + begin, wrap[0], open);
    memcpy(data + begin + open + kept, wrap[1], close);
    return bytes - (end - begin) + open + kept + close;
}

/* -- One input --------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_part parts[FILES];
    int n = fuzz_split(data, bytes, FILES, parts);
    for (int i = 0; i < FILES; i++)
        if (i < n)
            fuzz_write(names[i], parts[i]);
        else
            unlink(fuzz_path(names[i]));
    struct hd_options options = {.config = fuzz_path(names[0])};
    struct hd_run_spec run_spec;
    if (hd_run_spec_load(&options, RANKS, &run_spec) != HD_OK)
        return 0;
    plan(&run_spec);
    read_back(&run_spec);
    hd_run_spec_release(&run_spec);
    return 0;
}
