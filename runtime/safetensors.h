/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files: eight bytes of header length, a JSON header, the tensors' bytes. Float32 only;
 * a file is checked whole when it is opened. */
#ifndef HD_RUNTIME_SAFETENSORS_H
#define HD_RUNTIME_SAFETENSORS_H

#include <stdint.h>

enum { HD_TENSOR_DIMS = 8 };

/* A tensor to be written: row-major float32, borrowed. */
struct hd_tensor_data {
    const char *name;
    const float *data;
    int dims;
    int64_t shape[HD_TENSOR_DIMS];
};

/* Writes tensors[n], whose names differ, and the metadata pairs keys[n_metadata] ->
 * values[n_metadata], all in UTF-8, atomically. Errors (logged): HD_ERR_INPUT for names and texts
 * that are not so, HD_ERR_SYSTEM, HD_ERR_NOMEM. */
int hd_safetensors_write(const char *path, const struct hd_tensor_data *tensors, int64_t n,
                         const char *const *keys, const char *const *values, int n_metadata);

struct hd_safetensors;

/* Reads and checks a file. Released by hd_safetensors_close (accepts NULL).
 * Errors (logged, naming file and cause): HD_ERR_INPUT when it cannot be opened, HD_ERR_SYSTEM when
 * it cannot be read, HD_ERR_FORMAT when it is malformed or holds other types than F32,
 * HD_ERR_NOMEM. */
int hd_safetensors_open(const char *path, struct hd_safetensors **file_p);
void hd_safetensors_close(struct hd_safetensors *file);

/* How many tensors the file holds. */
int64_t hd_safetensors_count(const struct hd_safetensors *file);

/* Name of tensor i of the file, in the order of their data. Borrowed. */
const char *hd_safetensors_name(const struct hd_safetensors *file, int64_t i);

/* The metadata stored under `key`, or NULL. Borrowed. */
const char *hd_safetensors_metadata(const struct hd_safetensors *file, const char *key);

/* Shape of a tensor, shape_p[HD_TENSOR_DIMS] and *dims_p. HD_ERR_FORMAT (logged) when there is none
 * of that name. */
int hd_safetensors_shape(const struct hd_safetensors *file, const char *name,
                         int64_t shape_p[HD_TENSOR_DIMS], int *dims_p);

/* Copies a tensor of exactly this shape to data. HD_ERR_FORMAT (logged) when it is missing or
 * shaped otherwise. */
int hd_safetensors_copy(const struct hd_safetensors *file, const char *name, int dims,
                        const int64_t *shape, float *data);

#endif
