/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files: eight bytes of header length, a JSON header, the tensors' bytes. A file's
 * header is checked whole when it is opened. */
#ifndef HD_RUNTIME_IO_SAFETENSORS_H
#define HD_RUNTIME_IO_SAFETENSORS_H

#include <stdint.h>

enum { HD_TENSOR_DIMS = 8 };

/* The types of elements that are read and written here. */
enum hd_dtype { HD_DTYPE_F32, HD_DTYPE_I32, HD_DTYPE_I64, HD_DTYPE_U8 };

/* A tensor to be written: row-major, borrowed. */
struct hd_tensor_data {
    const char *name;
    const void *data;
    int dims;
    int64_t shape[HD_TENSOR_DIMS];
    enum hd_dtype dtype;
};

/* Writes tensors[n], whose names differ, and the metadata pairs keys[n_metadata] ->
 * values[n_metadata], all in UTF-8, atomically. Errors (logged): HD_ERR_INPUT for names and texts
 * that are not so, HD_ERR_SYSTEM, HD_ERR_NOMEM. */
int hd_safetensors_write(const char *path, const struct hd_tensor_data *tensors, int64_t n,
                         const char *const *keys, const char *const *values, int n_metadata);

struct hd_safetensors;

/* Reads and checks a file. Released by hd_safetensors_close (accepts NULL).
 * Errors (logged, naming file and cause): HD_ERR_INPUT when it cannot be opened, HD_ERR_SYSTEM when
 * it cannot be read, HD_ERR_FORMAT when it is malformed or holds other types than those above,
 * HD_ERR_NOMEM. */
int hd_safetensors_open(const char *path, struct hd_safetensors **file_p);

/* The same without reading the tensors, which are mapped into memory, so that all processes of a
 * node share them: for large files that nobody changes meanwhile. */
int hd_safetensors_map(const char *path, struct hd_safetensors **file_p);
void hd_safetensors_close(struct hd_safetensors *file);

/* How many tensors the file holds. */
int64_t hd_safetensors_count(const struct hd_safetensors *file);

/* Name of tensor i of the file, in the order of their data. Borrowed. */
const char *hd_safetensors_get_name(const struct hd_safetensors *file, int64_t i);

/* The metadata stored under `key`, or NULL. Borrowed. */
const char *hd_safetensors_get_metadata(const struct hd_safetensors *file, const char *key);

/* Shape of a tensor, shape_p[HD_TENSOR_DIMS] and *dims_p; its type. HD_ERR_FORMAT (logged) when
 * there is none of that name. */
int hd_safetensors_get_shape(const struct hd_safetensors *file, const char *name,
                             int64_t shape_p[HD_TENSOR_DIMS], int *dims_p);
int hd_safetensors_get_dtype(const struct hd_safetensors *file, const char *name,
                             enum hd_dtype *dtype_p);

/* The data of a tensor of exactly this type and shape, borrowed until the file is closed; aligned
 * as the file has it. HD_ERR_FORMAT (logged) when it is missing, or of another type or shape. */
int hd_safetensors_get_data(const struct hd_safetensors *file, const char *name,
                            enum hd_dtype dtype, int dims, const int64_t *shape,
                            const void **data_p);

/* Copies a tensor of F32 of exactly this shape to data. HD_ERR_FORMAT (logged) as above. */
int hd_safetensors_copy(const struct hd_safetensors *file, const char *name, int dims,
                        const int64_t *shape, float *data);

#endif
