/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/base/safetensors.h"

#include "runtime/base/alloc.h"
#include "runtime/base/crash.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { LENGTH_BYTES = 8, HEADER_MAX = 100 << 20 };

/* The format's names of types, indexed by enum hd_dtype. */
static const struct {
    const char *name;
    int64_t bytes; /* of an element */
} dtypes[] = {{"F32", 4}, {"I32", 4}, {"I64", 8}, {"U8", 1}};

enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

static const char data_hash[] = "data_hash"; /* in the metadata */

/* -- Writing ----------------------------------------------------------------------------------- */

static int64_t count_bytes(const struct hd_tensor_data *tensor)
{
    int64_t bytes = dtypes[tensor->dtype].bytes;
    for (int i = 0; i < tensor->dims; i++)
        bytes *= tensor->shape[i];
    return bytes;
}

static json_t *describe(const struct hd_tensor_data *tensor, int64_t begin, int64_t end)
{
    json_t *shape = json_array();
    for (int i = 0; i < tensor->dims; i++)
        json_array_append_new(shape, json_integer(tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtypes[tensor->dtype].name, "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static int put(json_t *object, const char *key, json_t *value, const char *path)
{
    bool twice = json_object_get(object, key) != NULL;
    if (json_object_set_new(object, key, value) == 0 && !twice)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT, "%s cannot be written: '%s' %s", path, key,
                   twice ? "is a duplicate name" : "or its text is not UTF-8");
}

/* Returns what a tensor adds to the hash of a file: a sum, because other programs order tensors in
 * their own way. */
static uint64_t hash_tensor(const char *name, const void *data, int64_t bytes)
{
    return hd_hash_mix(hd_hash_text(name), bytes > 0 ? hd_hash_bytes(data, (size_t)bytes) : 0);
}

static int put_hash(json_t *metadata, const struct hd_tensor_data *tensors, int64_t n,
                    const char *path)
{
    char text[32];
    uint64_t hash = 0;
    for (int64_t i = 0; i < n; i++)
        hash += hash_tensor(tensors[i].name, tensors[i].data, count_bytes(&tensors[i]));
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return put(metadata, data_hash, json_string(text), path);
}

static int fill_header(const char *path, const struct hd_tensor_data *tensors, int64_t n,
                       const char *const *keys, const char *const *values, int n_metadata,
                       json_t *header, int64_t *data_bytes_p)
{
    json_t *metadata = json_object();
    int64_t at = 0;
    HD_TRY(put(header, "__metadata__", metadata, path));
    HD_TRY(put_hash(metadata, tensors, n, path));
    for (int i = 0; i < n_metadata; i++)
        HD_TRY(put(metadata, keys[i], json_string(values[i]), path));
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = count_bytes(&tensors[i]);
        HD_TRY(put(header, tensors[i].name, describe(&tensors[i], at, at + bytes), path));
        at += bytes;
    }
    *data_bytes_p = at;
    return HD_OK;
}

/* Makes the whole file but for the tensors' data: length and header, padded with spaces so that the
 * data begins at a multiple of eight, then space for the data at *data_at_p. */
static int make_file(const char *path, json_t *header, int64_t data_bytes, char **file_p,
                     int64_t *data_at_p)
{
    char *text = json_dumps(header, JSON_COMPACT);
    if (!text)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory for the header", path);
    size_t length = strlen(text);
    uint64_t padded = (length + LENGTH_BYTES - 1) / LENGTH_BYTES * LENGTH_BYTES;
    char *file = hd_alloc(LENGTH_BYTES + (int64_t)padded + data_bytes, 1);
    if (file) {
        memcpy(file, &padded, LENGTH_BYTES);
        memcpy(file + LENGTH_BYTES, text, length);
        memset(file + LENGTH_BYTES + length, ' ', padded - length);
        *file_p = file;
        *data_at_p = LENGTH_BYTES + (int64_t)padded;
    }
    free(text);
    return file ? HD_OK : HD_ERR_NOMEM;
}

int hd_safetensors_write(const char *path, const struct hd_tensor_data *tensors, int64_t n,
                         const char *const *keys, const char *const *values, int n_metadata)
{
    return hd_safetensors_put(NULL, path, tensors, n, keys, values, n_metadata);
}

int hd_safetensors_put(const struct hd_file_put *put, const char *path,
                       const struct hd_tensor_data *tensors, int64_t n, const char *const *keys,
                       const char *const *values, int n_metadata)
{
    json_t *header = json_object();
    char *file = NULL;
    int64_t data_bytes = 0, at = 0;
    int status = fill_header(path, tensors, n, keys, values, n_metadata, header, &data_bytes);
    if (status == HD_OK)
        status = make_file(path, header, data_bytes, &file, &at);
    for (int64_t i = 0; status == HD_OK && i < n; i++) {
        int64_t bytes = count_bytes(&tensors[i]);
        if (bytes > 0)
            memcpy(file + at, tensors[i].data, (size_t)bytes);
        at += bytes;
    }
    if (status == HD_OK)
        status = put ? put->put(put->arg, path, file, at) : hd_file_write_atomic(path, file, at);
    hd_free(file);
    json_decref(header);
    return status;
}

/* -- Reading ----------------------------------------------------------------------------------- */

struct entry {
    const char *name; /* the header's */
    enum hd_dtype dtype;
    int dims;
    int64_t shape[HD_TENSOR_DIMS];
    int64_t begin, end; /* bytes within the data */
};

struct hd_safetensors {
    char *path;
    char *bytes; /* the whole file: memory of its own, or mapped */
    int64_t size;
    bool mapped;
    const char *data;
    int64_t data_size;
    json_t *header;
    struct entry *entries; /* in order of `begin` */
    int64_t n;
};

static int malformed(const struct hd_safetensors *file, const char *name, const char *cause)
{
    return hd_fail(HD_ERR_FORMAT, "%s is an invalid safetensors file: %s%s%s%s", file->path,
                   name ? "tensor '" : "", name ? name : "", name ? "': " : "", cause);
}

static int map_stream(struct hd_safetensors *file, FILE *stream)
{
    if (file->size < LENGTH_BYTES) /* nothing can be mapped of an empty file */
        return malformed(file, NULL, "it is shorter than 8 bytes");
    void *bytes = mmap(NULL, (size_t)file->size, PROT_READ, MAP_SHARED, fileno(stream), 0);
    if (bytes == MAP_FAILED)
        return hd_fail(HD_ERR_SYSTEM, "%s cannot be mapped: %m", file->path);
    file->bytes = bytes;
    hd_crash_add_file(bytes, file->size, file->path);
    return HD_OK;
}

static int read_stream(struct hd_safetensors *file, FILE *stream)
{
    struct stat about;
    if (fstat(fileno(stream), &about) != 0)
        return hd_fail(HD_ERR_SYSTEM, "%s cannot be read: %m", file->path);
    file->size = about.st_size;
    if (file->mapped)
        return map_stream(file, stream);
    file->bytes = hd_alloc(file->size, 1);
    if (!file->bytes)
        return HD_ERR_NOMEM;
    if (fread(file->bytes, 1, (size_t)file->size, stream) == (size_t)file->size)
        return HD_OK;
    if (ferror(stream))
        return hd_fail(HD_ERR_SYSTEM, "%s cannot be read: %m", file->path);
    return malformed(file, NULL, "it became shorter while it was read");
}

static int read_file(struct hd_safetensors *file)
{
    char why[HD_INPUT_WHY];
    FILE *stream = hd_input_open_stream(file->path, HD_INPUT_NAMED, why);
    if (!stream)
        return hd_fail(HD_ERR_INPUT, "%s %s", file->path, why);
    int status = read_stream(file, stream);
    fclose(stream);
    return status;
}

/* Checks that the metadata, if any, are texts by name, as the format demands. */
static int check_metadata(const struct hd_safetensors *file)
{
    json_t *metadata = json_object_get(file->header, "__metadata__"), *value;
    const char *key;
    if (metadata && !json_is_object(metadata))
        return malformed(file, NULL, "its __metadata__ is not a JSON object");
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return malformed(file, NULL, "its __metadata__ holds values that are not strings");
    }
    return HD_OK;
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
    if (length == 0 || file->bytes[LENGTH_BYTES] != '{')
        return malformed(file, NULL, "its header is not a JSON object");
    file->header = json_loadb(file->bytes + LENGTH_BYTES, length, JSON_REJECT_DUPLICATES, &error);
    if (!file->header)
        return malformed(file, NULL, error.text);
    return check_metadata(file);
}

static int parse_shape(const struct hd_safetensors *file, const json_t *shape, struct entry *entry,
                       int64_t *elements_p)
{
    int64_t elements = 1;
    bool empty = false;
    size_t dims = json_array_size(shape);
    if (!json_is_array(shape) || dims > HD_TENSOR_DIMS)
        return malformed(file, entry->name, "its shape is not a list of up to 8 numbers");
    for (size_t i = 0; i < dims; i++) {
        const json_t *extent = json_array_get(shape, i);
        int64_t factor = json_integer_value(extent);
        entry->shape[i] = factor;
        empty |= factor == 0;
        /* A zero must not hide that the others overflow: users multiply some of them. */
        if (!json_is_integer(extent) || factor < 0 ||
            __builtin_mul_overflow(elements, factor ? factor : 1, &elements))
            return malformed(file, entry->name, "its shape is not made of sane numbers");
    }
    entry->dims = (int)dims;
    *elements_p = empty ? 0 : elements;
    return HD_OK;
}

/* Tells a type that this program does not read from one that the format does not have. */
static int reject_dtype(const struct hd_safetensors *file, const char *name, const json_t *dtype)
{
    static const char *const known[] = {"F16", "BF16", "F64", "BOOL",    "I8",     "U16",
                                        "U32", "U64",  "I16", "F8_E5M2", "F8_E4M3"};
    const char *text = json_string_value(dtype);
    bool found = false;
    for (size_t i = 0; text && i < sizeof known / sizeof *known; i++)
        found |= strcmp(text, known[i]) == 0;
    if (!found)
        return malformed(file, name, "its dtype is none of the format's");
    return hd_fail(
        HD_ERR_FORMAT,
        "%s is a valid safetensors file, but its tensor '%s' is of %s: F32, I32, I64 and "
        "U8 are read here, and weights are F32 (in PyTorch: tensor.float())",
        file->path, name, text);
}

static bool find_dtype(const json_t *name, enum hd_dtype *dtype_p)
{
    for (int i = 0; i < N_DTYPES; i++)
        if (json_is_string(name) && strcmp(json_string_value(name), dtypes[i].name) == 0) {
            *dtype_p = (enum hd_dtype)i;
            return true;
        }
    return false;
}

static int parse_entry(const struct hd_safetensors *file, const char *name, const json_t *json,
                       struct entry *entry)
{
    const json_t *offsets = json_object_get(json, "data_offsets");
    int64_t elements = 0, bytes;
    *entry = (struct entry){.name = name};
    if (!find_dtype(json_object_get(json, "dtype"), &entry->dtype))
        return reject_dtype(file, name, json_object_get(json, "dtype"));
    HD_TRY(parse_shape(file, json_object_get(json, "shape"), entry, &elements));
    if (json_array_size(offsets) != 2 || !json_is_integer(json_array_get(offsets, 0)) ||
        !json_is_integer(json_array_get(offsets, 1)))
        return malformed(file, name, "its data_offsets are not two integers");
    entry->begin = json_integer_value(json_array_get(offsets, 0));
    entry->end = json_integer_value(json_array_get(offsets, 1));
    if (entry->begin < 0 || entry->end < entry->begin || entry->end > file->data_size)
        return malformed(file, name, "its data lies outside the file (is it truncated?)");
    if (__builtin_mul_overflow(elements, dtypes[entry->dtype].bytes, &bytes) ||
        bytes != entry->end - entry->begin)
        return malformed(file, name, "its data is not as long as its shape says");
    return HD_OK;
}

static int compare_offsets(const void *a, const void *b)
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
    json_object_foreach(file->header, name, json) {
        if (strcmp(name, "__metadata__") != 0)
            HD_TRY(parse_entry(file, name, json, &file->entries[file->n++]));
    }
    qsort(file->entries, (size_t)file->n, sizeof *file->entries, compare_offsets);
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

/* Files of other programs state no hash. */
static int check_hash(const struct hd_safetensors *file)
{
    const char *stated = hd_safetensors_get_metadata(file, data_hash);
    uint64_t hash = 0;
    char found[32];
    for (int64_t i = 0; i < file->n; i++)
        hash += hash_tensor(file->entries[i].name, file->data + file->entries[i].begin,
                            file->entries[i].end - file->entries[i].begin);
    snprintf(found, sizeof found, "%016" PRIx64, hash);
    if (!stated || strcmp(stated, found) == 0)
        return HD_OK;
    return hd_fail(HD_ERR_FORMAT,
                   "%s is damaged: its tensors have the hash %s, but its metadata state data_hash "
                   "%.32s; copy it again (a program that changed the tensors must leave data_hash "
                   "out)",
                   file->path, found, stated);
}

static int open_file(const char *path, bool mapped, struct hd_safetensors **file_p)
{
    struct hd_safetensors *file = hd_alloc(1, sizeof *file);
    if (!file)
        return HD_ERR_NOMEM;
    file->mapped = mapped;
    file->path = hd_strdup(path);
    int status = file->path ? read_file(file) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = parse_header(file);
    if (status == HD_OK)
        status = parse_entries(file);
    if (status == HD_OK && !mapped)
        status = check_hash(file);
    if (status != HD_OK) {
        hd_safetensors_close(file);
        return status;
    }
    *file_p = file;
    return HD_OK;
}

int hd_safetensors_open(const char *path, struct hd_safetensors **file_p)
{
    return open_file(path, false, file_p);
}

int hd_safetensors_map(const char *path, struct hd_safetensors **file_p)
{
    return open_file(path, true, file_p);
}

void hd_safetensors_close(struct hd_safetensors *file)
{
    if (!file)
        return;
    json_decref(file->header);
    hd_free(file->entries);
    if (!file->mapped)
        hd_free(file->bytes);
    else if (file->bytes) {
        hd_crash_forget_file(file->bytes);
        munmap(file->bytes, (size_t)file->size);
    }
    hd_free(file->path);
    hd_free(file);
}

const char *hd_safetensors_get_metadata(const struct hd_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

int64_t hd_safetensors_count(const struct hd_safetensors *file)
{
    return file->n;
}

const char *hd_safetensors_get_name(const struct hd_safetensors *file, int64_t i)
{
    return file->entries[i].name;
}

void hd_safetensors_strip_prefix(struct hd_safetensors *file, const char *prefix)
{
    const size_t length = strlen(prefix);
    for (int64_t i = 0; i < file->n; i++)
        if (strncmp(file->entries[i].name, prefix, length) == 0)
            file->entries[i].name += length;
}

static const struct entry *find(const struct hd_safetensors *file, const char *name)
{
    for (int64_t i = 0; i < file->n; i++)
        if (strcmp(file->entries[i].name, name) == 0)
            return &file->entries[i];
    hd_log(HD_LOG_ERROR, "%s has no tensor '%s'", file->path, name);
    return NULL;
}

int hd_safetensors_get_shape(const struct hd_safetensors *file, const char *name,
                             int64_t shape_p[HD_TENSOR_DIMS], int *dims_p)
{
    const struct entry *entry = find(file, name);
    if (!entry)
        return HD_ERR_FORMAT;
    memcpy(shape_p, entry->shape, sizeof entry->shape);
    *dims_p = entry->dims;
    return HD_OK;
}

int hd_safetensors_get_dtype(const struct hd_safetensors *file, const char *name,
                             enum hd_dtype *dtype_p)
{
    const struct entry *entry = find(file, name);
    if (!entry)
        return HD_ERR_FORMAT;
    *dtype_p = entry->dtype;
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

int hd_safetensors_get_data(const struct hd_safetensors *file, const char *name,
                            enum hd_dtype dtype, int dims, const int64_t *shape,
                            const void **data_p)
{
    const struct entry *entry = find(file, name);
    if (!entry)
        return HD_ERR_FORMAT;
    if (entry->dtype != dtype)
        return hd_fail(HD_ERR_FORMAT, "%s: tensor '%s' is of %s, but %s is needed", file->path,
                       name, dtypes[entry->dtype].name, dtypes[dtype].name);
    if (entry->dims != dims || memcmp(entry->shape, shape, (size_t)dims * sizeof *shape) != 0) {
        char is[160], wanted[160];
        shape_text(entry->dims, entry->shape, is, sizeof is);
        shape_text(dims, shape, wanted, sizeof wanted);
        return hd_fail(HD_ERR_FORMAT, "%s: tensor '%s' is %s, but %s is needed", file->path, name,
                       is, wanted);
    }
    *data_p = file->data + entry->begin;
    return HD_OK;
}

/* Tells of element `at` by its indices: "[2, 7]". */
static int report_not_finite(const struct hd_safetensors *file, const char *name, int dims,
                             const int64_t *shape, int64_t at, float value)
{
    char index[200] = "";
    for (int i = dims - 1; i >= 0; at /= shape[i--]) {
        char rest[sizeof index];
        strcpy(rest, index);
        snprintf(index, sizeof index, "%lld%s%.150s", (long long)(at % shape[i]),
                 rest[0] ? ", " : "", rest);
    }
    return hd_fail(HD_ERR_FORMAT,
                   "%s: tensor '%s' holds %g at [%s]: every number must be finite; was this saved "
                   "by a run that diverged?",
                   file->path, name, (double)value, index);
}

int hd_safetensors_copy(const struct hd_safetensors *file, const char *name, int dims,
                        const int64_t *shape, float *data)
{
    const void *from;
    int64_t n = 1;
    HD_TRY(hd_safetensors_get_data(file, name, HD_DTYPE_F32, dims, shape, &from));
    for (int i = 0; i < dims; i++)
        n *= shape[i];
    if (n > 0)
        memcpy(data, from, (size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(data[i]))
            return report_not_finite(file, name, dims, shape, i, data[i]);
    return HD_OK;
}
