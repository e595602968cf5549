/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a checkpoint of any bytes, cut at lines "%%%": a manifest, the file "a" and the journal
 * file "j.1"; first as it is, then with correct hashes, version and iteration, so that wrong ones
 * do not hide other faults. What opens has names, and what is named has as many bytes as the
 * manifest says. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/io/checkpoint/checkpoint_internal.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PARTS = 3, NAMES_MAX = 16, JOURNAL_MAX = 1 << 20 };

/* Returns what the manifest says of a journal's length, as a reader knows it from the value. */
static int64_t journal_bytes(const json_t *manifest, const char *name)
{
    const json_t *journal = json_object_get(json_object_get(manifest, "journals"), name);
    const json_int_t bytes = json_integer_value(json_object_get(journal, "bytes"));
    return journal && bytes <= JOURNAL_MAX ? bytes : HD_NO_JOURNAL;
}

static void read_all(const json_t *manifest)
{
    struct hd_checkpoint *checkpoint;
    const char *name;
    if (hd_checkpoint_open(fuzz_path(""), &checkpoint) != HD_OK)
        return;
    hd_checkpoint_get_metadata(checkpoint);
    fuzz_check(hd_checkpoint_get_iteration(checkpoint) == 1, "the iteration");
    for (int i = 0; i < NAMES_MAX && (name = hd_checkpoint_find_name(checkpoint, "", i)); i++) {
        void *data = NULL;
        int64_t bytes;
        if (hd_checkpoint_read(checkpoint, name, journal_bytes(manifest, name), &data, &bytes) !=
            HD_OK)
            continue;
        fuzz_check(data != NULL, "what is named is there");
        fuzz_touch(data, (size_t)bytes);
        hd_free(data);
    }
    hd_checkpoint_close(checkpoint);
}

/* Corrects the length and hash of a file that the manifest has. */
static void describe(json_t *files, const char *name, struct fuzz_part content)
{
    json_t *about = json_object_get(files, name);
    if (!about)
        return;
    json_object_set_new(about, "bytes", json_integer((json_int_t)content.bytes));
    json_object_set_new(about, "hash",
                        hd_checkpoint_format_hash(hd_hash_bytes(content.data, content.bytes)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const folders[] = {"ckpt", "ckpt/state", "ckpt/state/iteration_1",
                                          "ckpt/state/journal"};
    static const char manifest[] = "ckpt/state/iteration_1/manifest.json";
    struct fuzz_part parts[PARTS] = {{data, 0}, {data, 0}, {data, 0}};
    for (int i = 0; i < (int)(sizeof folders / sizeof *folders); i++)
        mkdir(fuzz_path(folders[i]), 0700);
    fuzz_split(data, bytes, PARTS, parts);
    fuzz_write(manifest, parts[0]);
    fuzz_write("ckpt/state/iteration_1/a", parts[1]);
    fuzz_write("ckpt/state/journal/j.1", parts[2]);
    json_t *json = json_loadb((const char *)parts[0].data, parts[0].bytes, 0, NULL);
    read_all(json);
    if (json_is_object(json)) {
        describe(json_object_get(json, "files"), "a", parts[1]);
        describe(json_object_get(json, "journal_files"), "j.1", parts[2]);
        json_object_set_new(json, "format", json_string(HD_CHECKPOINT_FORMAT));
        json_object_set_new(json, "iteration", json_integer(1));
        json_object_set_new(json, "hash",
                            hd_checkpoint_format_hash(hd_checkpoint_hash_manifest(json)));
        char *text = json_dumps(json, JSON_COMPACT);
        if (text)
            fuzz_write(manifest, (struct fuzz_part){(const uint8_t *)text, strlen(text)});
        free(text);
        read_all(json);
    }
    json_decref(json);
    return 0;
}
