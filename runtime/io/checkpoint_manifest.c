/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a checkpoint: its entries for files and journals, and its own hash. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint_internal.h"
#include "runtime/io/files.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Paths ------------------------------------------------------------------------------------- */

char *hd_checkpoint_format_path(const char *state, int64_t iteration, const char *suffix)
{
    return hd_format("%s/iteration_%" PRId64 "%s", state, iteration, suffix);
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int hd_checkpoint_list_iterations(const char *state, int64_t **iterations_p)
{
    int64_t *list = NULL, capacity = 0;
    int n = 0;
    DIR *folder = opendir(state);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        int64_t iteration;
        int used = 0;
        if (sscanf(entry->d_name, "iteration_%" SCNd64 "%n", &iteration, &used) != 1 ||
            entry->d_name[used] != '\0')
            continue;
        if (hd_grow((void **)&list, &capacity, n + 1, sizeof *list) != HD_OK) {
            n = -1;
            break;
        }
        list[n++] = iteration;
    }
    if (folder)
        closedir(folder);
    if (n <= 0) {
        hd_free(list);
        return n;
    }
    qsort(list, (size_t)n, sizeof *list, ascending);
    *iterations_p = list;
    return n;
}

char *hd_checkpoint_format_list_path(const struct hd_checkpoint_writer *c, int rank)
{
    return hd_format("%s/iteration_%" PRId64 ".part/.rank%d", c->state, c->iteration, rank);
}

/* -- Hashes ------------------------------------------------------------------------------------ */

json_t *hd_checkpoint_format_hash(uint64_t hash)
{
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

uint64_t hd_checkpoint_hash_manifest(json_t *manifest)
{
    json_t *bare = json_copy(manifest);
    json_object_del(bare, "hash");
    char *text = json_dumps(bare, JSON_COMPACT | JSON_SORT_KEYS);
    const uint64_t hash = text ? hd_hash_text(text) : 0;
    free(text);
    json_decref(bare);
    return hash;
}

/* -- What a rank has written ------------------------------------------------------------------- */

/* Lists a journal's blocks by runs that follow one another in one file: [first block, blocks,
 * iteration of the file, offset in it]. */
static json_t *list_runs(const struct journal *journal)
{
    json_t *runs = json_array();
    for (int64_t first = 0, end; first < journal->n; first = end) {
        const struct block *at = &journal->pending[first];
        for (end = first + 1;
             end < journal->n && journal->pending[end].iteration == at->iteration &&
             journal->pending[end].at == at->at + (end - first) * (int64_t)HD_JOURNAL_BLOCK;)
            end++;
        json_array_append_new(runs, json_pack("[I, I, I, I]", (json_int_t)first,
                                              (json_int_t)(end - first), (json_int_t)at->iteration,
                                              (json_int_t)at->at));
    }
    return runs;
}

json_t *hd_checkpoint_list_files(const struct hd_checkpoint_writer *c)
{
    json_t *files = json_object(), *journals = json_object(), *journal_files = json_object();
    for (int64_t i = 0; i < c->n_files; i++) {
        const struct file *file = &c->files[i];
        char name[256];
        snprintf(name, sizeof name, file->journal ? "%s.%" PRId64 : "%s", file->name, c->iteration);
        json_object_set_new(
            file->journal ? journal_files : files, name,
            json_pack("{s:I, s:o}", "bytes", (json_int_t)file->bytes, "hash",
                      hd_checkpoint_format_hash(hd_hash_bytes(file->data, (size_t)file->bytes))));
    }
    for (int64_t i = 0; i < c->n_journals; i++) {
        const struct journal *journal = &c->journals[i];
        if (journal->begun)
            json_object_set_new(journals, journal->name,
                                json_pack("{s:I, s:o}", "bytes", (json_int_t)journal->bytes,
                                          "blocks", list_runs(journal)));
    }
    return json_pack("{s:o, s:o, s:o}", "files", files, "journals", journals, "journal_files",
                     journal_files);
}

int hd_checkpoint_write_json(const char *path, json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_SORT_KEYS);
    int status = text ? hd_file_write_atomic(path, text, (int64_t)strlen(text)) : HD_ERR_NOMEM;
    free(text);
    return status;
}

/* -- The manifest of all ranks ----------------------------------------------------------------- */

void hd_checkpoint_add_journal_files(const char *state, int64_t iteration, json_t *needed)
{
    char *path = hd_checkpoint_format_path(state, iteration, "/manifest.json");
    json_t *manifest = path ? json_load_file(path, 0, NULL) : NULL;
    json_object_update(needed, json_object_get(manifest, "journal_files"));
    json_decref(manifest);
    hd_free(path);
}

/* Adds what earlier manifests say of the earlier checkpoints' journal files that this one names. */
static void add_older_journals(const struct hd_checkpoint_writer *c, json_t *manifest)
{
    json_t *known = json_object(), *now = json_object_get(manifest, "journal_files");
    int64_t *iterations;
    const int n = hd_checkpoint_list_iterations(c->state, &iterations);
    for (int i = 0; i < n; i++)
        hd_checkpoint_add_journal_files(c->state, iterations[i], known);
    if (n > 0)
        hd_free(iterations);
    const char *name;
    json_t *journal, *run;
    size_t at;
    json_object_foreach(json_object_get(manifest, "journals"), name, journal)
    {
        json_array_foreach(json_object_get(journal, "blocks"), at, run)
        {
            char file[256];
            snprintf(file, sizeof file, "%s.%" JSON_INTEGER_FORMAT, name,
                     json_integer_value(json_array_get(run, 2)));
            if (!json_object_get(now, file))
                json_object_set(now, file, json_object_get(known, file));
        }
    }
    json_decref(known);
}

int hd_checkpoint_write_manifest(const struct hd_checkpoint_writer *c, json_t *manifest)
{
    char *path = hd_checkpoint_format_path(c->state, c->iteration, ".part/manifest.json");
    json_object_set_new(manifest, "format", json_string("heddle checkpoint 1"));
    json_object_set_new(manifest, "iteration", json_integer(c->iteration));
    json_object_set(manifest, "metadata", c->metadata);
    add_older_journals(c, manifest);
    json_object_set_new(manifest, "hash",
                        hd_checkpoint_format_hash(hd_checkpoint_hash_manifest(manifest)));
    int status = path ? hd_checkpoint_write_json(path, manifest) : HD_ERR_NOMEM;
    hd_free(path);
    return status;
}
