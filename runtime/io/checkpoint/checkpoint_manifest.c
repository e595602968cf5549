/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a checkpoint: its entries for files and journals, and its own hash. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/io/base/json_file.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

bool hd_checkpoint_parse_entry(int folder, const char *name, const char *suffix,
                               int64_t *iteration_p)
{
    return hd_run_dir_parse_name(name, suffix, iteration_p) &&
           hd_run_dir_has(folder, name, S_IFDIR);
}

/* Returns whether the name is that of a checkpoint; errno tells of one that cannot be looked at. */
static bool is_checkpoint(DIR *folder, const char *name, int64_t *iteration_p)
{
    errno = 0;
    return hd_checkpoint_parse_entry(dirfd(folder), name, "", iteration_p);
}

static int list_names(DIR *folder, int64_t **list_p, int *n_p)
{
    int64_t capacity = 0, iteration;
    const struct dirent *entry;
    for (errno = 0; (entry = readdir(folder)); errno = 0) {
        if (is_checkpoint(folder, entry->d_name, &iteration)) {
            HD_TRY(hd_grow((void **)list_p, &capacity, *n_p + 1, sizeof **list_p));
            (*list_p)[(*n_p)++] = iteration;
        } else if (errno == EIO || errno == ESTALE || errno == EACCES) {
            return HD_ERR_SYSTEM;
        }
    }
    return errno == 0 ? HD_OK : HD_ERR_SYSTEM;
}

int hd_checkpoint_list_iterations(const char *state, int64_t **iterations_p, int *n_p,
                                  char why[HD_FILE_WHY])
{
    int64_t *list = NULL;
    int n = 0;
    const int fd = open(state, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    int status = folder ? list_names(folder, &list, &n) : errno == ENOENT ? HD_OK : HD_ERR_SYSTEM;
    if (status == HD_ERR_SYSTEM)
        snprintf(why, HD_FILE_WHY, "%.512s cannot be read: %s", state, strerror(errno));
    if (folder)
        closedir(folder);
    if (n > 0)
        qsort(list, (size_t)n, sizeof *list, ascending);
    if (status == HD_OK) {
        *iterations_p = list;
        *n_p = n;
    } else {
        hd_free(list);
    }
    return status;
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
    const struct block *blocks = journal->pending.blocks;
    for (int64_t first = 0, end; first < journal->n; first = end) {
        const struct block *at = &blocks[first];
        for (end = first + 1; end < journal->n && blocks[end].iteration == at->iteration &&
                              blocks[end].at == at->at + (end - first) * (int64_t)HD_JOURNAL_BLOCK;)
            end++;
        json_array_append_new(runs, json_pack("[I, I, I, I]", (json_int_t)first,
                                              (json_int_t)(end - first), (json_int_t)at->iteration,
                                              (json_int_t)at->at));
    }
    return runs;
}

static json_t *describe_file(const struct file *file)
{
    return json_pack("{s:I, s:o}", "bytes", (json_int_t)file->bytes, "hash",
                     hd_checkpoint_format_hash(hd_hash_bytes(file->data, (size_t)file->bytes)));
}

/* Remembers the entries of the files that the runs of a journal name: of the one written now, which
 * `fresh` has, and of those before it in the series. */
static void remember_files(const struct hd_checkpoint_writer *c, struct journal *journal,
                           const json_t *runs, const json_t *fresh)
{
    const json_t *before = journal->series[c->turn].files;
    json_t *run;
    size_t i;
    json_decref(journal->pending.files);
    journal->pending.files = json_object();
    json_array_foreach(runs, i, run) {
        char file[256];
        snprintf(file, sizeof file, "%s.%" JSON_INTEGER_FORMAT, journal->name,
                 json_integer_value(json_array_get(run, 2)));
        json_t *entry = json_object_get(fresh, file);
        json_object_set(journal->pending.files, file,
                        entry ? entry : json_object_get(before, file));
    }
}

static json_t *describe_journal(const struct hd_checkpoint_writer *c, struct journal *journal,
                                json_t *journal_files)
{
    json_t *runs = list_runs(journal);
    remember_files(c, journal, runs, journal_files);
    json_object_update(journal_files, journal->pending.files);
    return json_pack("{s:I, s:o}", "bytes", (json_int_t)journal->bytes, "blocks", runs);
}

json_t *hd_checkpoint_list_files(struct hd_checkpoint_writer *c)
{
    json_t *files = json_object(), *journals = json_object(), *journal_files = json_object();
    for (int64_t i = 0; i < c->n_files; i++) {
        const struct file *file = &c->files[i];
        char name[256];
        snprintf(name, sizeof name, file->journal ? "%s.%" PRId64 : "%s", file->name, c->iteration);
        json_object_set_new(file->journal ? journal_files : files, name, describe_file(file));
    }
    for (int64_t i = 0; i < c->n_journals; i++)
        if (c->journals[i].begun)
            json_object_set_new(journals, c->journals[i].name,
                                describe_journal(c, &c->journals[i], journal_files));
    return json_pack("{s:o, s:o, s:o}", "files", files, "journals", journals, "journal_files",
                     journal_files);
}

/* -- The manifest of all ranks ----------------------------------------------------------------- */

bool hd_checkpoint_is_damage(int error)
{
    return error == 0 || error == ENOENT || error == ENOTDIR || error == ELOOP || error == EISDIR ||
           error == EINVAL;
}

static bool has_right_hash(json_t *manifest)
{
    json_t *wanted = hd_checkpoint_format_hash(hd_checkpoint_hash_manifest(manifest));
    const bool right = json_is_object(manifest) &&
                       json_is_string(json_object_get(manifest, "format")) &&
                       json_equal(wanted, json_object_get(manifest, "hash")) &&
                       json_is_object(json_object_get(manifest, "files")) &&
                       json_is_object(json_object_get(manifest, "journals")) &&
                       json_is_object(json_object_get(manifest, "journal_files"));
    json_decref(wanted);
    return right;
}

int hd_checkpoint_read_manifest(const char *state, int64_t iteration, json_t **manifest_p,
                                char why[HD_FILE_WHY])
{
    char *path = hd_checkpoint_format_path(state, iteration, "/manifest.json");
    if (!path)
        return HD_ERR_NOMEM;
    json_t *manifest = hd_json_file_read(path, HD_INPUT_RUN, why);
    int status = manifest || hd_checkpoint_is_damage(errno) ? HD_OK : HD_ERR_SYSTEM;
    if (status == HD_OK && (!manifest || !has_right_hash(manifest))) {
        if (manifest)
            snprintf(why, HD_FILE_WHY, "%.512s is damaged: its content is not what was written",
                     path);
        status = HD_ERR_FORMAT;
    }
    hd_free(path);
    if (status == HD_OK)
        *manifest_p = manifest;
    else
        json_decref(manifest);
    return status;
}

int hd_checkpoint_write_manifest(const struct hd_checkpoint_writer *c, json_t *manifest,
                                 char why[HD_FILE_WHY])
{
    json_object_set_new(manifest, "format", json_string(HD_CHECKPOINT_FORMAT));
    json_object_set_new(manifest, "iteration", json_integer(c->iteration));
    json_object_set(manifest, "metadata", c->metadata);
    if (c->run)
        json_object_set_new(manifest, "run", json_string(c->run));
    json_object_set_new(manifest, "hash",
                        hd_checkpoint_format_hash(hd_checkpoint_hash_manifest(manifest)));
    char *path = hd_checkpoint_format_path(c->state, c->iteration, ".part/manifest.json");
    char *text = path ? json_dumps(manifest, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
    int status =
        text ? hd_file_try_write_atomic(path, text, (int64_t)strlen(text), why) : HD_ERR_NOMEM;
    if (!text)
        snprintf(why, HD_FILE_WHY, "no memory for its manifest");
    free(text);
    hd_free(path);
    return status;
}
