/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/warm_start.h"

#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"
#include "tasks/types/base/policy_arrays.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHAPE_TEXT = 96, HASH_TEXT = 17 };

static const char *get(const struct hd_spec *spec, const char *field)
{
    const struct hd_node *node = hd_node_get(spec->start, field);
    return node ? node->text : NULL;
}

static bool skips(const struct hd_spec *spec)
{
    const char *mismatch = get(spec, "mismatch");
    return mismatch && strcmp(mismatch, "skip") == 0;
}

int hd_warm_start_check(const struct hd_spec *spec, struct hd_diag *diag)
{
    const struct hd_node *mismatch = hd_node_get(spec->start, "mismatch");
    for (int64_t i = 0; i < spec->start->count; i++)
        if (!hd_names_contain("file|mismatch|hash", spec->start->keys[i]->text) ||
            spec->start->items[i]->kind != HD_NODE_SCALAR)
            return hd_diag_add_error(diag, spec->start->keys[i]->location,
                                     "init: expected {file: FILE, mismatch: error|skip}, found "
                                     "'%.60s'",
                                     spec->start->keys[i]->text);
    if (!hd_node_get(spec->start, "file"))
        return hd_diag_add_error(diag, spec->start->location,
                                 "init: expected the name of a value, or {file: FILE}");
    if (mismatch && !hd_names_contain("error|skip", mismatch->text))
        return hd_diag_add_error(diag, mismatch->location,
                                 "init: mismatch: expected error or skip, found %.60s",
                                 mismatch->text);
    if (spec->init)
        return hd_diag_add_error(diag, spec->start->location, "init: two beginnings");
    return HD_OK;
}

/* -- Names and shapes -------------------------------------------------------------------------- */

static bool has(const struct hd_safetensors *file, const char *name)
{
    for (int64_t i = 0; i < hd_safetensors_count(file); i++)
        if (strcmp(hd_safetensors_get_name(file, i), name) == 0)
            return true;
    return false;
}

/* Writes "[64, 4]", with the type of elements unless they are floats. */
static void describe(int dims, const int64_t *shape, enum hd_dtype dtype, char text[SHAPE_TEXT])
{
    int at = snprintf(text, SHAPE_TEXT, "[");
    for (int i = 0; i < dims; i++)
        at += snprintf(text + at, (size_t)(SHAPE_TEXT - at), "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(text + at, (size_t)(SHAPE_TEXT - at), "]%s",
             dtype == HD_DTYPE_F32 ? "" : " of another type than f32");
}

static void describe_stored(const struct hd_safetensors *file, const char *name,
                            char text[SHAPE_TEXT])
{
    int64_t shape[HD_TENSOR_DIMS];
    enum hd_dtype dtype = HD_DTYPE_F32;
    int dims = 0;
    hd_safetensors_get_shape(file, name, shape, &dims);
    hd_safetensors_get_dtype(file, name, &dtype);
    describe(dims, shape, dtype, text);
}

enum fate { TAKEN, ABSENT, MISMATCH };

static enum fate judge(const struct hd_safetensors *file, const struct hd_tensor *tensor,
                       char here[SHAPE_TEXT], char there[SHAPE_TEXT])
{
    describe(tensor->dims, tensor->shape, HD_DTYPE_F32, here);
    if (!has(file, tensor->name))
        return ABSENT;
    describe_stored(file, tensor->name, there);
    return strcmp(here, there) == 0 ? TAKEN : MISMATCH;
}

/* -- Telling ----------------------------------------------------------------------------------- */

static void tell_unused(const struct hd_safetensors *file, const struct hd_net *net)
{
    char shape[SHAPE_TEXT];
    for (int64_t i = 0; i < hd_safetensors_count(file); i++) {
        const char *name = hd_safetensors_get_name(file, i);
        describe_stored(file, name, shape);
        if (!hd_weights_has_place(net, name))
            hd_log(HD_LOG_INFO, "  unused   %s %s: the net has no such tensor", name, shape);
    }
    if (has(file, hd_obs_scale_name))
        hd_log(HD_LOG_WARN,
               "the weights were learned from normalised observations, whose "
               "statistics (%s) are not taken",
               hd_obs_scale_name);
}

/* Tells of each tensor, and counts those that are taken. */
static int count_taken(const struct hd_spec *spec, const struct hd_safetensors *file, bool tells,
                       struct hd_diag *diag, int *taken_p)
{
    const struct hd_net *net = spec->shape;
    char here[SHAPE_TEXT], there[SHAPE_TEXT];
    int status = HD_OK;
    for (int i = 0; i < hd_net_count_tensors(net); i++) {
        const char *name = hd_net_get_tensor(net, i)->name;
        const enum fate fate = judge(file, hd_net_get_tensor(net, i), here, there);
        *taken_p += fate == TAKEN;
        if (fate == MISMATCH && !skips(spec))
            status = hd_diag_add_error(
                diag, spec->start->location,
                "%s: tensor %s is %s in the file and %s in the net of '%s'; mismatch: skip "
                "(--skip-mismatch) leaves such tensors as they are drawn",
                get(spec, "file"), name, there, here, spec->name);
        if (tells && fate == TAKEN)
            hd_log(HD_LOG_INFO, "  taken    %s %s", name, here);
        else if (tells)
            hd_log(HD_LOG_INFO, "  drawn    %s %s: %s%s", name, here,
                   fate == ABSENT ? "the file has no such tensor" : there,
                   fate == ABSENT ? "" : " in the file");
    }
    if (tells)
        tell_unused(file, net);
    return status;
}

static int hash_file(const struct hd_spec *spec, struct hd_diag *diag, uint64_t *hash_p)
{
    const char *path = get(spec, "file"), *stated = get(spec, "hash");
    char hash[HASH_TEXT];
    if (!hd_hash_file(path, hash_p))
        return hd_diag_add_error(diag, spec->start->location, "%s cannot be read: %s", path,
                                 strerror(errno));
    snprintf(hash, sizeof hash, "%016" PRIx64, *hash_p);
    if (!stated || strcmp(stated, hash) == 0)
        return HD_OK;
    return hd_diag_add_error(diag, spec->start->location,
                             "%s is another file than that of `hash: %.16s`: its hash is %s", path,
                             stated, hash);
}

int hd_warm_start_inspect(const struct hd_spec *spec, bool tells, struct hd_diag *diag,
                          uint64_t *hash_p)
{
    const char *path = get(spec, "file");
    struct hd_safetensors *file;
    int taken = 0;
    HD_TRY(hash_file(spec, diag, hash_p));
    HD_TRY(hd_safetensors_open(path, &file));
    if (tells)
        hd_log(HD_LOG_INFO, "'%s' begins with %s (hash %016" PRIx64 "):", spec->name, path,
               *hash_p);
    int status = count_taken(spec, file, tells, diag, &taken);
    if (status == HD_OK && taken == 0)
        status = hd_diag_add_error(diag, spec->start->location,
                                   "%s has no tensor of the net of '%s', such as %s: nothing would "
                                   "be taken",
                                   path, spec->name, hd_net_get_tensor(spec->shape, 0)->name);
    hd_safetensors_close(file);
    return status;
}

/* -- Taking ------------------------------------------------------------------------------------ */

static int load(const struct hd_spec *spec, void *data, struct hd_diag *diag)
{
    const struct hd_net *net = spec->shape;
    struct hd_safetensors *file;
    char here[SHAPE_TEXT], there[SHAPE_TEXT];
    uint64_t hash;
    HD_TRY(hash_file(spec, diag, &hash));
    HD_TRY(hd_safetensors_open(get(spec, "file"), &file));
    int status = HD_OK;
    for (int i = 0; status == HD_OK && i < hd_net_count_tensors(net); i++)
        if (judge(file, hd_net_get_tensor(net, i), here, there) == TAKEN)
            status = hd_weights_import_tensor(file, net, i, data);
    if (status == HD_OK)
        hd_net_refresh(net, data, 0, hd_net_count_params(net));
    hd_safetensors_close(file);
    return status;
}

int hd_warm_start_load(const struct hd_spec *spec, void *data)
{
    struct hd_diag *diag;
    HD_TRY(hd_diag_create(&diag));
    const int status = load(spec, data, diag);
    hd_diag_report(diag);
    hd_diag_destroy(diag);
    return status;
}
