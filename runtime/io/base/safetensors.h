/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads safetensors files: eight bytes of header length, a JSON header, the tensors'
 * bytes. Opening a file checks its whole header. Several threads may read an open file. */
#pragma once

#include "runtime/io/base/files.h"

#include <stdint.h>

enum { HD_TENSOR_DIMS = 8 };

/* The types of elements that this program reads and writes. */
enum hd_dtype { HD_DTYPE_F32, HD_DTYPE_I32, HD_DTYPE_I64, HD_DTYPE_U8 };

/* A tensor to be written: row-major, borrowed. */
struct hd_tensor_data {
    const char *name;
    const void *data;
    int dims;
    int64_t shape[HD_TENSOR_DIMS];
    enum hd_dtype dtype;
};

/* Writes tensors[n] and the metadata pairs keys[n_metadata] -> values[n_metadata], atomically; a
 * further pair "data_hash" holds a hash of the tensors' names and bytes. Names must differ, and all
 * texts be UTF-8. Returns HD_OK, HD_ERR_INPUT for names or texts that break these rules,
 * HD_ERR_SYSTEM or HD_ERR_NOMEM (all logged). */
int hd_safetensors_write(const char *path, const struct hd_tensor_data *tensors, int64_t n,
                         const char *const *keys, const char *const *values, int n_metadata);

/* Does the same by `put` (NULL: hd_file_write_atomic), whose errors it returns too. */
int hd_safetensors_put(const struct hd_file_put *put, const char *path,
                       const struct hd_tensor_data *tensors, int64_t n, const char *const *keys,
                       const char *const *values, int n_metadata);

struct hd_safetensors;

/* Reads and checks a file, which hd_safetensors_close (accepts NULL) releases. Returns HD_OK,
 * HD_ERR_INPUT when it cannot be opened, HD_ERR_SYSTEM when it cannot be read, HD_ERR_FORMAT when
 * it is malformed, has another hash than its metadata state (if they do), or holds other types than
 * enum hd_dtype, or HD_ERR_NOMEM (all logged, naming file and cause). */
int hd_safetensors_open(const char *path, struct hd_safetensors **file_p);

/* Opens a file like hd_safetensors_open, with the same errors, but maps the tensors into memory, so
 * that all processes of a node share them, and leaves it to the caller to compare a hash: for large
 * files that nobody changes meanwhile. */
int hd_safetensors_map(const char *path, struct hd_safetensors **file_p);
void hd_safetensors_close(struct hd_safetensors *file);

/* Returns the number of tensors in the file. */
int64_t hd_safetensors_count(const struct hd_safetensors *file);

/* Returns the name of tensor i, in the order of their data. Borrowed. */
const char *hd_safetensors_get_name(const struct hd_safetensors *file, int64_t i);

/* Takes `prefix` from the names that begin with it, before anything is asked for by name. */
void hd_safetensors_strip_prefix(struct hd_safetensors *file, const char *prefix);

/* Returns the metadata stored under `key`, or NULL. Borrowed. */
const char *hd_safetensors_get_metadata(const struct hd_safetensors *file, const char *key);

/* Store the shape of a tensor in shape_p[*dims_p], and its type. Return HD_OK, or HD_ERR_FORMAT
 * (logged) when there is no tensor of that name. */
int hd_safetensors_get_shape(const struct hd_safetensors *file, const char *name,
                             int64_t shape_p[HD_TENSOR_DIMS], int *dims_p);
int hd_safetensors_get_dtype(const struct hd_safetensors *file, const char *name,
                             enum hd_dtype *dtype_p);

/* Stores the address of the data of a tensor of exactly this type and shape, borrowed until the
 * file is closed, and aligned as in the file. Returns HD_OK, or HD_ERR_FORMAT (logged) when the
 * tensor is missing, or of another type or shape. */
int hd_safetensors_get_data(const struct hd_safetensors *file, const char *name,
                            enum hd_dtype dtype, int dims, const int64_t *shape,
                            const void **data_p);

/* Copies a tensor of F32 of exactly this shape, all finite, to data. Returns as
 * hd_safetensors_get_data, with the same errors. */
int hd_safetensors_copy(const struct hd_safetensors *file, const char *name, int dims,
                        const int64_t *shape, float *data);
