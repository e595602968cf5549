/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/safetensors.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/files.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, HEADER_MAX = 100 << 20 };

/* -- Writing ------------------------------------------------------------------------------------
 */

static int64_t count_elements(int dims, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < dims; i++)
        count *= shape[i];
    return count;
}

static json_t *describe(const struct hd_tensor_data *tensor, int64_t begin, int64_t end)
{
    json_t *shape = json_array();
    for (int i = 0; i < tensor->dims; i++)
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

/* The header, padded with spaces so that the data begins at a multiple of eight; freed by free().
 */
static char *make_header(const struct hd_tensor_data *tensors, int64_t n, const char *const *keys,
                         const char *const *values, int n_metadata, int64_t *data_bytes_p)
{
    json_t *header = json_object(), *metadata = json_object();
    int64_t at = 0;
    for (int i = 0; i < n_metadata; i++)
        json_object_set_new(metadata, keys[i], json_string(values[i]));
    json_object_set_new(header, "__metadata__", metadata);
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = count_elements(tensors[i].dims, tensors[i].shape) * (int64_t)sizeof(float);
        json_object_set_new(header, tensors[i].name, describe(&tensors[i], at, at + bytes));
        at += bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    *data_bytes_p = at;
    return text;
}

int hd_safetensors_write(const char *path, const struct hd_tensor_data *tensors, int64_t n,
                         const char *const *keys, const char *const *values, int n_metadata)
{
    int64_t data_bytes;
    char *header = make_header(tensors, n, keys, values, n_metadata, &data_bytes);
    if (!header)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory for the header", path);
    size_t length = strlen(header);
    uint64_t padded = (length + LENGTH_BYTES - 1) / LENGTH_BYTES * LENGTH_BYTES;
    char *file = hd_alloc(LENGTH_BYTES + (int64_t)padded + data_bytes, 1);
    int status = HD_ERR_NOMEM;
    if (file) {
        char *at = file + LENGTH_BYTES;
        memcpy(file, &padded, LENGTH_BYTES);
        memcpy(at, header, length);
        memset(at + length, ' ', padded - length);
        at += padded;
        for (int64_t i = 0; i < n; i++) {
            size_t bytes =
                (size_t)count_elements(tensors[i].dims, tensors[i].shape) * sizeof(float);
            memcpy(at, tensors[i].data, bytes);
            at += bytes;
        }
        status = hd_file_write_atomic(path, file, at - file);
    }
    hd_free(file);
    free(header);
    return status;
}

/* -- Reading ------------------------------------------------------------------------------------
 */

struct entry {
    const char *name; /* the header's */
    int dims;
    int64_t shape[HD_TENSOR_DIMS];
    int64_t begin, end; /* bytes within the data */
};

struct hd_safetensors {
    char *path;
    char *bytes; /* the whole file */
    int64_t size;
    const char *data;
    int64_t data_size;
    json_t *header;
    struct entry *entries; /* by place in the data */
    int64_t n;
};

static int malformed(const struct hd_safetensors *file, const char *name, const char *cause)
{
    return hd_fail(HD_ERR_FORMAT, "%s is no good safetensors file: %s%s%s%s", file->path,
                   name ? "tensor '" : "", name ? name : "", name ? "': " : "", cause);
}

static int read_file(struct hd_safetensors *file)
{
    FILE *stream = fopen(file->path, "rb");
    if (!stream)
        return hd_fail(HD_ERR_SYSTEM, "%s cannot be read: %m", file->path);
    int status = HD_OK;
    if (fseeko(stream, 0, SEEK_END) != 0 || (file->size = ftello(stream)) < 0 ||
        fseeko(stream, 0, SEEK_SET) != 0)
        status = hd_fail(HD_ERR_SYSTEM, "%s cannot be read: %m", file->path);
    if (status == HD_OK && !(file->bytes = hd_alloc(file->size, 1)))
        status = HD_ERR_NOMEM;
    if (status == HD_OK && fread(file->bytes, 1, (size_t)file->size, stream) != (size_t)file->size)
        status = hd_fail(HD_ERR_SYSTEM, "%s cannot be read: %m", file->path);
    fclose(stream);
    return status;
}

static int parse_header(struct hd_safetensors *file)
{
    uint64_t length = 0;
    json_error_t error;
    if (file->size < LENGTH_BYTES)
        return malformed(file, NULL, "it is shorter than 8 bytes");
    memcpy(&length, file->bytes, LENGTH_BYTES);
    if (length > HEADER_MAX || length > (uint64_t)(file->size - LENGTH_BYTES))
        return malformed(file, NULL, "its header is longer than the file, or than 100 MB");
    file->data = file->bytes + LENGTH_BYTES + length;
    file->data_size = file->size - LENGTH_BYTES - (int64_t)length;
    file->header = json_loadb(file->bytes + LENGTH_BYTES, length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header)
        return malformed(file, NULL, error.text);
    if (!json_is_object(file->header))
        return malformed(file, NULL, "its header is no JSON object");
    return HD_OK;
}

static int parse_shape(const struct hd_safetensors *file, const json_t *shape, struct entry *entry,
                       int64_t *elements_p)
{
    int64_t elements = 1;
    size_t dims = json_array_size(shape);
    if (!json_is_array(shape) || dims > HD_TENSOR_DIMS)
        return malformed(file, entry->name, "its shape is no list of up to 8 numbers");
    for (size_t i = 0; i < dims; i++) {
        const json_t *extent = json_array_get(shape, i);
        entry->shape[i] = json_integer_value(extent);
        if (!json_is_integer(extent) || entry->shape[i] < 0 ||
            __builtin_mul_overflow(elements, entry->shape[i], &elements))
            return malformed(file, entry->name, "its shape is not made of sane numbers");
    }
    entry->dims = (int)dims;
    *elements_p = elements;
    return HD_OK;
}

static int parse_entry(const struct hd_safetensors *file, const char *name, const json_t *json,
                       struct entry *entry)
{
    const json_t *dtype = json_object_get(json, "dtype");
    const json_t *offsets = json_object_get(json, "data_offsets");
    int64_t elements = 0, bytes;
    *entry = (struct entry){.name = name};
    if (!json_is_string(dtype) || strcmp(json_string_value(dtype), "F32") != 0)
        return malformed(file, name, "its dtype is not F32, the only one read here");
    HD_TRY(parse_shape(file, json_object_get(json, "shape"), entry, &elements));
    if (json_array_size(offsets) != 2 || !json_is_integer(json_array_get(offsets, 0)) ||
        !json_is_integer(json_array_get(offsets, 1)))
        return malformed(file, name, "its data_offsets are not two integers");
    entry->begin = json_integer_value(json_array_get(offsets, 0));
    entry->end = json_integer_value(json_array_get(offsets, 1));
    if (entry->begin < 0 || entry->end < entry->begin || entry->end > file->data_size)
        return malformed(file, name, "its data lies outside the file (is it truncated?)");
    if (__builtin_mul_overflow(elements, (int64_t)sizeof(float), &bytes) ||
        bytes != entry->end - entry->begin)
        return malformed(file, name, "its data is not as long as its shape says");
    return HD_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

static int parse_entries(struct hd_safetensors *file)
{
    const char *name;
    json_t *json;
    file->entries = hd_alloc((int64_t)json_object_size(file->header), sizeof *file->entries);
    if (!file->entries)
        return HD_ERR_NOMEM;
    json_object_foreach(file->header, name, json)
    {
        if (strcmp(name, "__metadata__") != 0)
            HD_TRY(parse_entry(file, name, json, &file->entries[file->n++]));
    }
    qsort(file->entries, (size_t)file->n, sizeof *file->entries, by_place);
    int64_t end = 0;
    for (int64_t i = 0; i < file->n; i++) {
        if (file->entries[i].begin != end)
            return malformed(file, file->entries[i].name,
                             "its data does not follow that of the tensor before");
        end = file->entries[i].end;
    }
    if (end != file->data_size)
        return malformed(file, NULL, "bytes follow the last tensor");
    return HD_OK;
}

int hd_safetensors_open(const char *path, struct hd_safetensors **file_p)
{
    struct hd_safetensors *file = hd_alloc(1, sizeof *file);
    if (!file)
        return HD_ERR_NOMEM;
    file->path = hd_strdup(path);
    int status = file->path ? read_file(file) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = parse_header(file);
    if (status == HD_OK)
        status = parse_entries(file);
    if (status != HD_OK) {
        hd_safetensors_close(file);
        return status;
    }
    *file_p = file;
    return HD_OK;
}

void hd_safetensors_close(struct hd_safetensors *file)
{
    if (!file)
        return;
    json_decref(file->header);
    hd_free(file->entries);
    hd_free(file->bytes);
    hd_free(file->path);
    hd_free(file);
}

const char *hd_safetensors_metadata(const struct hd_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

int64_t hd_safetensors_count(const struct hd_safetensors *file)
{
    return file->n;
}

static const struct entry *find(const struct hd_safetensors *file, const char *name)
{
    for (int64_t i = 0; i < file->n; i++)
        if (strcmp(file->entries[i].name, name) == 0)
            return &file->entries[i];
    hd_log(HD_LOG_ERROR, "%s has no tensor '%s'", file->path, name);
    return NULL;
}

int hd_safetensors_shape(const struct hd_safetensors *file, const char *name,
                         int64_t shape_p[HD_TENSOR_DIMS], int *dims_p)
{
    const struct entry *entry = find(file, name);
    if (!entry)
        return HD_ERR_FORMAT;
    memcpy(shape_p, entry->shape, sizeof entry->shape);
    *dims_p = entry->dims;
    return HD_OK;
}

static void shape_text(int dims, const int64_t *shape, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < dims && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i ? " x " : "",
                                 (long long)shape[i]);
}

int hd_safetensors_copy(const struct hd_safetensors *file, const char *name, int dims,
                        const int64_t *shape, float *data)
{
    const struct entry *entry = find(file, name);
    if (!entry)
        return HD_ERR_FORMAT;
    if (entry->dims != dims || memcmp(entry->shape, shape, (size_t)dims * sizeof *shape) != 0) {
        char is[160], wanted[160];
        shape_text(entry->dims, entry->shape, is, sizeof is);
        shape_text(dims, shape, wanted, sizeof wanted);
        return hd_fail(HD_ERR_FORMAT, "%s: tensor '%s' is %s, but %s is needed", file->path, name,
                       is, wanted);
    }
    memcpy(data, file->data + entry->begin, (size_t)(entry->end - entry->begin));
    return HD_OK;
}
