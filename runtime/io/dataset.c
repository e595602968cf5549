/* SPDX-License-Identifier: Apache-2.0 */
/* Reads data sets. */
#include "runtime/io/dataset.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/dataset_internal.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct file {
    char *path;
    struct hd_safetensors *tensors;
    struct hd_dataset_rows rows;
};

struct hd_dataset {
    const char *dir;             /* while it is opened */
    struct hd_dataset_info info; /* its texts are the first file's */
    uint64_t hash;
    struct file *files;
    int64_t n;
};

/* -- The files --------------------------------------------------------------------------------- */

/* Finds, before there is memory for the `files` that a name speaks of, that not all are there. */
static int check_present(const struct hd_dataset *dataset, int64_t present, int64_t files)
{
    int status = HD_OK;
    for (int64_t number = 1; present < files && status == HD_OK; number++) {
        char *path = hd_dataset_format_path(dataset->dir, number, files);
        if (!path)
            status = HD_ERR_NOMEM;
        else if (access(path, F_OK) != 0)
            status =
                hd_fail(HD_ERR_INPUT,
                        "%s is missing: %" PRId64 " of the data set's %" PRId64 " files are there",
                        path, present, files);
        hd_free(path);
    }
    return status;
}

static int name_files(struct hd_dataset *dataset, DIR *folder)
{
    const struct dirent *entry;
    long long number, files, found = 0;
    int64_t present = 0;
    int end;
    while ((entry = readdir(folder))) {
        end = 0;
        sscanf(entry->d_name, "transitions-%lld-of-%lld.safetensors%n", &number, &files, &end);
        if (end == 0 || entry->d_name[end] != '\0')
            continue;
        if (found && found != files)
            return hd_fail(HD_ERR_FORMAT,
                           "%s holds files of several data sets: …-of-%05lld and "
                           "…-of-%05lld",
                           dataset->dir, found, files);
        found = files;
        present++;
    }
    if (found < 1)
        return hd_fail(HD_ERR_INPUT,
                       "%s is not a data set: it has no files transitions-00001-of-….safetensors "
                       "(`runner record` makes them)",
                       dataset->dir);
    HD_TRY(check_present(dataset, present, found));
    dataset->files = hd_alloc(found, sizeof *dataset->files);
    if (!dataset->files)
        return HD_ERR_NOMEM;
    for (dataset->n = 0; dataset->n < found; dataset->n++) {
        char *path = hd_dataset_format_path(dataset->dir, dataset->n + 1, found);
        if (!path)
            return HD_ERR_NOMEM;
        dataset->files[dataset->n].path = path;
    }
    return HD_OK;
}

static int list_files(struct hd_dataset *dataset)
{
    DIR *folder = opendir(dataset->dir);
    if (!folder)
        return hd_fail(HD_ERR_INPUT, "data set %s cannot be opened: %m", dataset->dir);
    int status = name_files(dataset, folder);
    closedir(folder);
    return status;
}

/* -- A file's metadata ------------------------------------------------------------------------- */

static int text_of(const struct file *file, const char *key, const char **text_p)
{
    *text_p = hd_safetensors_get_metadata(file->tensors, key);
    if (*text_p)
        return HD_OK;
    return hd_fail(HD_ERR_FORMAT, "%s is not a file of a data set: its metadata have no '%s'",
                   file->path, key);
}

static int number_of(const struct file *file, const char *key, int base, uint64_t max,
                     uint64_t *number_p)
{
    const char *text;
    char *end;
    HD_TRY(text_of(file, key, &text));
    errno = 0;
    unsigned long long number = strtoull(text, &end, base);
    if (errno || end == text || *end || text[0] == '-' || number > max)
        return hd_fail(HD_ERR_FORMAT, "%s: its metadata say %s '%s', which is no such number",
                       file->path, key, text);
    *number_p = number;
    return HD_OK;
}

static int count_of(const struct file *file, const char *key, int64_t *number_p)
{
    uint64_t number = 0;
    HD_TRY(number_of(file, key, 10, INT64_C(1) << 48, &number));
    *number_p = (int64_t)number;
    return HD_OK;
}

/* Reads the numbers of "3 2". */
static int read_choices(const struct file *file, const char *text, struct hd_dataset_info *info)
{
    const char *at = text;
    for (info->action_dims = 0; *at && info->action_dims < HD_DATASET_ACTION_DIMS;) {
        char *end;
        const long long n = strtoll(at, &end, 10);
        if (end == at || n < 1 || n > INT32_MAX || (*end && *end != ' '))
            break;
        info->actions[info->action_dims++] = n;
        at = end;
    }
    if (*at == '\0' && info->action_dims > 0)
        return HD_OK;
    return hd_fail(HD_ERR_FORMAT,
                   "%s: its metadata say actions '%.200s', which are not numbers of choices",
                   file->path, text);
}

/* A file without action_space has choices. */
static int read_actions(const struct file *file, struct hd_dataset_info *info)
{
    const char *space = hd_safetensors_get_metadata(file->tensors, "action_space"), *text;
    int64_t dims;
    HD_TRY(text_of(file, "actions", &text));
    info->continuous = space && strcmp(space, "continuous") == 0;
    if (!info->continuous)
        return read_choices(file, text, info);
    HD_TRY(count_of(file, "actions", &dims));
    if (dims < 1 || dims > HD_DATASET_ACTION_DIMS)
        return hd_fail(HD_ERR_FORMAT, "%s: its actions are %" PRId64 " numbers, not 1 to %d",
                       file->path, dims, HD_DATASET_ACTION_DIMS);
    info->action_dims = (int)dims;
    return HD_OK;
}

static int read_info(const struct file *file, struct hd_dataset_info *info)
{
    const char *format, *epsilon;
    int64_t version;
    HD_TRY(text_of(file, "format", &format));
    HD_TRY(count_of(file, "version", &version));
    if (strcmp(format, HD_DATASET_FORMAT) != 0 || version != HD_DATASET_VERSION)
        return hd_fail(HD_ERR_FORMAT,
                       "%s is of format %s, version %" PRId64
                       "; this program reads " HD_DATASET_FORMAT ", version %d",
                       file->path, format, version, HD_DATASET_VERSION);
    HD_TRY(text_of(file, "env_type", &info->env_type));
    HD_TRY(text_of(file, "env_id", &info->env_id));
    HD_TRY(text_of(file, "epsilon", &epsilon));
    const char *options = hd_safetensors_get_metadata(file->tensors, "env_options");
    info->states_options = options != NULL;
    snprintf(info->env_options, sizeof info->env_options, "%s", options ? options : "");
    const char *parts = hd_safetensors_get_metadata(file->tensors, "obs_parts");
    snprintf(info->parts, sizeof info->parts, "%s", parts ? parts : "");
    info->epsilon = strtod(epsilon, NULL);
    HD_TRY(count_of(file, "frame_stack", &info->stack));
    HD_TRY(read_actions(file, info));
    HD_TRY(count_of(file, "transitions", &info->transitions));
    HD_TRY(number_of(file, "seed", 10, UINT64_MAX, &info->seed));
    return number_of(file, "policy", 16, UINT64_MAX, &info->policy);
}

/* Adds what the tensor `frames` tells. */
static int read_frame(const struct file *file, struct hd_dataset_info *info)
{
    int64_t shape[HD_TENSOR_DIMS];
    enum hd_dtype dtype;
    int dims;
    HD_TRY(hd_safetensors_get_shape(file->tensors, "frames", shape, &dims));
    HD_TRY(hd_safetensors_get_dtype(file->tensors, "frames", &dtype));
    if (dims < 2 || dims > 1 + HD_DATASET_DIMS)
        return hd_fail(HD_ERR_FORMAT, "%s: tensor 'frames' has %d dimensions, not 2 to %d",
                       file->path, dims, 1 + HD_DATASET_DIMS);
    info->u8 = dtype == HD_DTYPE_U8;
    info->dims = dims - 1;
    memcpy(info->shape, shape + 1, (size_t)info->dims * sizeof *shape);
    return HD_OK;
}

static bool same_actions(const struct hd_dataset_info *a, const struct hd_dataset_info *b)
{
    return a->continuous == b->continuous && a->action_dims == b->action_dims &&
           memcmp(a->actions, b->actions, sizeof a->actions) == 0;
}

static bool same_info(const struct hd_dataset_info *a, const struct hd_dataset_info *b)
{
    return strcmp(a->env_type, b->env_type) == 0 && strcmp(a->env_id, b->env_id) == 0 &&
           strcmp(a->env_options, b->env_options) == 0 && strcmp(a->parts, b->parts) == 0 &&
           a->u8 == b->u8 && a->dims == b->dims &&
           memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0 &&
           a->stack == b->stack && same_actions(a, b) && a->transitions == b->transitions &&
           a->seed == b->seed && a->policy == b->policy && a->epsilon == b->epsilon;
}

/* -- A file's tensors -------------------------------------------------------------------------- */

static int find_tensor(const struct file *file, const char *name, enum hd_dtype dtype, int dims,
                       const int64_t *shape, const void **data_p)
{
    const void *data;
    HD_TRY(hd_safetensors_get_data(file->tensors, name, dtype, dims, shape, &data));
    if (dtype != HD_DTYPE_U8 && (uintptr_t)data % sizeof(float) != 0)
        return hd_fail(HD_ERR_FORMAT,
                       "%s: the data of tensor '%s' do not start at a multiple of "
                       "four bytes",
                       file->path, name);
    *data_p = data;
    return HD_OK;
}

static int check_range(const struct file *file, const char *name, const int32_t *numbers, int64_t n,
                       int64_t end)
{
    for (int64_t i = 0; i < n; i++)
        if (numbers[i] < 0 || numbers[i] >= end)
            return hd_fail(HD_ERR_FORMAT,
                           "%s: tensor '%s' holds %" PRId32 ", not one of 0 … %" PRId64, file->path,
                           name, numbers[i], end - 1);
    return HD_OK;
}

static int check_choices(const struct file *file, const int32_t *action, int64_t n,
                         const struct hd_dataset_info *info)
{
    for (int64_t i = 0; i < n * info->action_dims; i++)
        HD_TRY(check_range(file, "action", action + i, 1, info->actions[i % info->action_dims]));
    return HD_OK;
}

/* Checks n rows of `width` numbers. */
static int check_reals(const struct file *file, const char *name, const float *numbers, int64_t n,
                       int64_t width)
{
    for (int64_t i = 0; i < n * width; i++)
        if (!isfinite(numbers[i]))
            return hd_fail(HD_ERR_FORMAT,
                           "%s: row %" PRId64
                           " of tensor '%s', counted from 0, holds a number that is not finite",
                           file->path, i / width, name);
    return HD_OK;
}

static int find_rows(struct file *file, const struct hd_dataset_info *info)
{
    struct hd_dataset_rows *rows = &file->rows;
    int64_t frames[HD_TENSOR_DIMS], shape[HD_TENSOR_DIMS];
    int dims;
    HD_TRY(hd_safetensors_get_shape(file->tensors, "frames", frames, &dims));
    HD_TRY(find_tensor(file, "frames", info->u8 ? HD_DTYPE_U8 : HD_DTYPE_F32, dims, frames,
                       &rows->frame));
    rows->frames = frames[0];
    HD_TRY(hd_safetensors_get_shape(file->tensors, "action", shape, &dims));
    const int64_t n = rows->transitions = shape[0], all[] = {n, info->stack};
    dims = hd_dataset_get_action_shape(info, n, shape);
    HD_TRY(
        find_tensor(file, "action", hd_dataset_get_action_dtype(info), dims, shape, &rows->action));
    for (int i = 0; i < HD_DATASET_COLUMNS; i++) {
        const struct hd_dataset_column *column = &hd_dataset_columns[i];
        const void *data = NULL;
        if (column->at == offsetof(struct hd_dataset_rows, action))
            continue;
        HD_TRY(find_tensor(file, column->name, column->dtype, 1 + column->stacked, all, &data));
        memcpy((char *)rows + column->at, &data, sizeof data);
    }
    HD_TRY(check_range(file, "obs", rows->obs, n * info->stack, rows->frames));
    HD_TRY(check_range(file, "next_obs", rows->next_obs, n * info->stack, rows->frames));
    HD_TRY(check_reals(file, "reward", rows->reward, n, 1));
    if (!info->u8)
        HD_TRY(check_reals(file, "frames", rows->frame, rows->frames,
                           hd_dataset_get_frame_bytes(info) / (int64_t)sizeof(float)));
    return info->continuous ? check_reals(file, "action", rows->action, n, info->action_dims)
                            : check_choices(file, rows->action, n, info);
}

/* Reads the whole file once, at about the speed of memory, before anything is learned from it. A
 * file that another program wrote need not state a hash. */
static int check_hash(const struct file *file, const struct hd_dataset_info *info, uint64_t *hash_p)
{
    uint64_t stated;
    *hash_p = hd_dataset_hash_rows(info, &file->rows);
    if (!hd_safetensors_get_metadata(file->tensors, "hash"))
        return HD_OK;
    HD_TRY(number_of(file, "hash", 16, UINT64_MAX, &stated));
    if (*hash_p == stated)
        return HD_OK;
    return hd_fail(HD_ERR_FORMAT,
                   "%s is damaged: its data have the hash %016" PRIx64 ", but it states %016" PRIx64
                   "; copy or record it again",
                   file->path, *hash_p, stated);
}

static int open_file(struct hd_dataset *dataset, int64_t number)
{
    struct file *file = &dataset->files[number];
    struct hd_dataset_info info = {0};
    int64_t first;
    uint64_t hash;
    HD_TRY(hd_safetensors_map(file->path, &file->tensors));
    HD_TRY(read_info(file, &info));
    HD_TRY(read_frame(file, &info));
    if (number == 0)
        dataset->info = info;
    if (!same_info(&info, &dataset->info))
        return hd_fail(HD_ERR_FORMAT, "%s belongs to another data set than %s", file->path,
                       dataset->files[0].path);
    HD_TRY(find_rows(file, &info));
    HD_TRY(count_of(file, "first", &first));
    const struct hd_dataset_rows *before = number ? &dataset->files[number - 1].rows : NULL;
    file->rows.first = before ? before->first + before->transitions : 0;
    if (first != file->rows.first)
        return hd_fail(HD_ERR_FORMAT,
                       "%s starts with transition %" PRId64 ", but it follows %" PRId64, file->path,
                       first, file->rows.first);
    HD_TRY(check_hash(file, &info, &hash));
    dataset->hash = hd_hash_mix(dataset->hash, hash);
    return HD_OK;
}

static int open_all(struct hd_dataset *dataset)
{
    int64_t total = 0;
    HD_TRY(list_files(dataset));
    for (int64_t i = 0; i < dataset->n; i++) {
        HD_TRY(open_file(dataset, i));
        total += dataset->files[i].rows.transitions;
    }
    if (total == dataset->info.transitions)
        return HD_OK;
    return hd_fail(HD_ERR_FORMAT, "%s holds %" PRId64 " transitions, but its files say %" PRId64,
                   dataset->dir, total, dataset->info.transitions);
}

int hd_dataset_open(const char *dir, struct hd_dataset **dataset_p)
{
    struct hd_dataset *dataset = hd_alloc(1, sizeof *dataset);
    if (!dataset)
        return HD_ERR_NOMEM;
    dataset->dir = dir;
    int status = open_all(dataset);
    dataset->dir = NULL;
    if (status != HD_OK) {
        hd_dataset_close(dataset);
        return status;
    }
    *dataset_p = dataset;
    return HD_OK;
}

void hd_dataset_close(struct hd_dataset *dataset)
{
    if (!dataset)
        return;
    for (int64_t i = 0; i < dataset->n; i++) {
        hd_safetensors_close(dataset->files[i].tensors);
        hd_free(dataset->files[i].path);
    }
    hd_free(dataset->files);
    hd_free(dataset);
}

const struct hd_dataset_info *hd_dataset_get_info(const struct hd_dataset *dataset)
{
    return &dataset->info;
}

uint64_t hd_dataset_get_hash(const struct hd_dataset *dataset)
{
    return dataset->hash;
}

const struct hd_dataset_rows *hd_dataset_find(const struct hd_dataset *dataset, int64_t index)
{
    int64_t lo = 0, hi = dataset->n;
    while (hi - lo > 1) {
        int64_t middle = lo + (hi - lo) / 2;
        if (dataset->files[middle].rows.first <= index)
            lo = middle;
        else
            hi = middle;
    }
    return &dataset->files[lo].rows;
}
