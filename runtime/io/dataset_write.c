/* SPDX-License-Identifier: Apache-2.0 */
/* Writes data sets: files go to a temporary folder, which is renamed when all are written. */
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/dataset_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct hd_dataset_writer {
    const struct hd_dataset_info *info;
    char *dir, *beside;
    int64_t files, written, first;
    bool made, published;
};

char *hd_dataset_format_path(const char *dir, int64_t number, int64_t files)
{
    return hd_format("%s/transitions-%05" PRId64 "-of-%05" PRId64 ".safetensors", dir, number,
                     files);
}

int64_t hd_dataset_get_frame_bytes(const struct hd_dataset_info *info)
{
    int64_t bytes = info->u8 ? 1 : (int64_t)sizeof(float);
    for (int i = 0; i < info->dims; i++)
        bytes *= info->shape[i];
    return bytes;
}

/* -- One file ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct hd_dataset_rows, field)
const struct hd_dataset_column hd_dataset_columns[] = {
    {"obs", HD_DTYPE_I32, true, AT(obs)},        {"next_obs", HD_DTYPE_I32, true, AT(next_obs)},
    {"action", HD_DTYPE_I32, false, AT(action)}, {"reward", HD_DTYPE_F32, false, AT(reward)},
    {"env", HD_DTYPE_I32, false, AT(env)},       {"episode", HD_DTYPE_I32, false, AT(episode)},
    {"done", HD_DTYPE_U8, false, AT(done)},      {"truncated", HD_DTYPE_U8, false, AT(truncated)},
};
#undef AT

enum { TENSORS = 1 + HD_DATASET_COLUMNS };

enum hd_dtype hd_dataset_get_action_dtype(const struct hd_dataset_info *info)
{
    return info->continuous ? HD_DTYPE_F32 : HD_DTYPE_I32;
}

int hd_dataset_get_action_shape(const struct hd_dataset_info *info, int64_t transitions,
                                int64_t shape_p[2])
{
    shape_p[0] = transitions;
    shape_p[1] = info->action_dims;
    return info->action_dims > 1 ? 2 : 1;
}

/* Writes "2" for a choice of two, "3 2" for two choices, "6" for six real numbers. */
static void format_actions(const struct hd_dataset_info *info, char *text, size_t bytes)
{
    if (info->continuous)
        snprintf(text, bytes, "%d", info->action_dims);
    for (int i = 0, at = 0; i < info->action_dims && !info->continuous; i++)
        at += snprintf(text + at, bytes - (size_t)at, "%s%" PRId64, i ? " " : "", info->actions[i]);
}

static struct hd_tensor_data frames_of(const struct hd_dataset_info *info,
                                       const struct hd_dataset_rows *rows)
{
    struct hd_tensor_data frames = {.name = "frames",
                                    .data = rows->frame,
                                    .dims = 1 + info->dims,
                                    .shape = {rows->frames},
                                    .dtype = info->u8 ? HD_DTYPE_U8 : HD_DTYPE_F32};
    memcpy(frames.shape + 1, info->shape, (size_t)info->dims * sizeof *info->shape);
    return frames;
}

static void describe_actions(const struct hd_dataset_info *info, struct hd_tensor_data *tensor)
{
    tensor->dtype = hd_dataset_get_action_dtype(info);
    tensor->dims = hd_dataset_get_action_shape(info, tensor->shape[0], tensor->shape);
}

/* Lists the tensors of a file, those of four bytes an element before those of one. */
static void fill_tensors(const struct hd_dataset_info *info, const struct hd_dataset_rows *rows,
                         struct hd_tensor_data tensors[TENSORS])
{
    tensors[info->u8 ? HD_DATASET_COLUMNS : 0] = frames_of(info, rows);
    for (int i = 0; i < HD_DATASET_COLUMNS; i++) {
        const struct hd_dataset_column *column = &hd_dataset_columns[i];
        struct hd_tensor_data *tensor = &tensors[i + !info->u8];
        *tensor = (struct hd_tensor_data){.name = column->name,
                                          .dims = 1 + column->stacked,
                                          .shape = {rows->transitions, info->stack},
                                          .dtype = column->dtype};
        if (column->at == offsetof(struct hd_dataset_rows, action))
            describe_actions(info, tensor);
        memcpy(&tensor->data, (const char *)rows + column->at, sizeof tensor->data);
    }
}

uint64_t hd_dataset_hash_rows(const struct hd_dataset_info *info,
                              const struct hd_dataset_rows *rows)
{
    struct hd_tensor_data tensors[TENSORS];
    uint64_t hash = 0;
    fill_tensors(info, rows, tensors);
    for (int i = 0; i < TENSORS; i++) {
        size_t bytes = tensors[i].dtype == HD_DTYPE_U8 ? 1 : 4;
        for (int j = 0; j < tensors[i].dims; j++)
            bytes *= (size_t)tensors[i].shape[j];
        hash = hd_hash_mix(hash, hd_hash_bytes(tensors[i].data, bytes));
    }
    return hash;
}

static int write_file(const struct hd_dataset_writer *writer, const struct hd_dataset_rows *rows,
                      const char *path)
{
    enum { NUMBERS = 8, TEXT = 32 };
    const struct hd_dataset_info *info = writer->info;
    struct hd_tensor_data tensors[TENSORS];
    char n[NUMBERS][TEXT], actions[HD_DATASET_ACTION_DIMS * TEXT];
    fill_tensors(info, rows, tensors);
    format_actions(info, actions, sizeof actions);
    snprintf(n[0], TEXT, "%d", HD_DATASET_VERSION);
    snprintf(n[1], TEXT, "%" PRId64, info->stack);
    snprintf(n[2], TEXT, "%" PRId64, info->transitions);
    snprintf(n[3], TEXT, "%" PRIu64, info->seed);
    snprintf(n[4], TEXT, "%016" PRIx64, info->policy);
    snprintf(n[5], TEXT, "%.17g", info->epsilon);
    snprintf(n[6], TEXT, "%" PRId64, writer->first);
    snprintf(n[7], TEXT, "%016" PRIx64, hd_dataset_hash_rows(info, rows));
    static const char *const keys[] = {"format",       "env_type",    "env_id",   "version",
                                       "action_space", "frame_stack", "actions",  "transitions",
                                       "seed",         "policy",      "epsilon",  "first",
                                       "hash",         "env_options", "obs_parts"};
    const char *const values[] = {HD_DATASET_FORMAT,
                                  info->env_type,
                                  info->env_id,
                                  n[0],
                                  info->continuous ? "continuous" : "discrete",
                                  n[1],
                                  actions,
                                  n[2],
                                  n[3],
                                  n[4],
                                  n[5],
                                  n[6],
                                  n[7],
                                  info->env_options,
                                  info->parts};
    const int n_keys =
        (int)(sizeof keys / sizeof *keys) - (!info->states_options ? 2 : !info->parts[0]);
    return hd_safetensors_write(path, tensors, TENSORS, keys, values, n_keys);
}

int hd_dataset_write(struct hd_dataset_writer *writer, const struct hd_dataset_rows *rows)
{
    char *path = hd_dataset_format_path(writer->beside, writer->written + 1, writer->files);
    if (!path)
        return HD_ERR_NOMEM;
    int status = write_file(writer, rows, path);
    hd_free(path);
    if (status != HD_OK)
        return status;
    writer->written++;
    writer->first += rows->transitions;
    return HD_OK;
}

/* -- The folder -------------------------------------------------------------------------------- */

static int begin(struct hd_dataset_writer *writer, const char *dir)
{
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/')
        length--;
    writer->dir = hd_format("%.*s", (int)length, dir);
    if (!writer->dir)
        return HD_ERR_NOMEM;
    writer->beside = hd_format("%s.%d.tmp", writer->dir, (int)getpid());
    if (!writer->beside)
        return HD_ERR_NOMEM;
    HD_TRY(hd_path_check_unused(writer->dir)); /* an error now rather than after all was recorded */
    HD_TRY(hd_path_make_parents(writer->beside));
    if (mkdir(writer->beside, 0777) != 0)
        return hd_fail(HD_ERR_SYSTEM, "directory %s cannot be made: %m", writer->beside);
    writer->made = true;
    return HD_OK;
}

int hd_dataset_create(const char *dir, const struct hd_dataset_info *info, int64_t files,
                      struct hd_dataset_writer **writer_p)
{
    struct hd_dataset_writer *writer = hd_alloc(1, sizeof *writer);
    if (!writer)
        return HD_ERR_NOMEM;
    writer->info = info;
    writer->files = files;
    int status = begin(writer, dir);
    if (status != HD_OK) {
        hd_dataset_destroy(writer);
        return status;
    }
    *writer_p = writer;
    return HD_OK;
}

int hd_dataset_publish(struct hd_dataset_writer *writer)
{
    if (writer->written != writer->files || writer->first != writer->info->transitions)
        return hd_fail(HD_ERR_INPUT, "%s: %" PRId64 " of %" PRId64 " files are written",
                       writer->dir, writer->written, writer->files);
    if (rename(writer->beside, writer->dir) != 0)
        return hd_fail(HD_ERR_SYSTEM, "%s cannot be made: %m", writer->dir);
    writer->published = true;
    return HD_OK;
}

void hd_dataset_destroy(struct hd_dataset_writer *writer)
{
    if (!writer)
        return;
    if (writer->made && !writer->published && !hd_folder_remove(writer->beside))
        hd_log(HD_LOG_WARN, "%s cannot be removed: %m", writer->beside);
    hd_free(writer->beside);
    hd_free(writer->dir);
    hd_free(writer);
}
