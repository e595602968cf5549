/* SPDX-License-Identifier: Apache-2.0 */
/* A safetensors file of any bytes: read or mapped it is the same, every tensor it claims is there,
 * and what was read can be written and read again. */
#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { TENSORS_MAX = 64 };

static const int sizes[] = {
    [HD_DTYPE_F32] = 4, [HD_DTYPE_I32] = 4, [HD_DTYPE_I64] = 8, [HD_DTYPE_U8] = 1};

static size_t bytes_of(const struct hd_tensor_data *tensor)
{
    size_t bytes = (size_t)sizes[tensor->dtype];
    for (int i = 0; i < tensor->dims; i++)
        bytes *= (size_t)tensor->shape[i];
    return bytes;
}

static int64_t read_all(const struct hd_safetensors *file, struct hd_tensor_data *tensors)
{
    int64_t n = hd_safetensors_count(file);
    for (int64_t i = 0; i < n; i++) {
        struct hd_tensor_data one = {.name = hd_safetensors_get_name(file, i)};
        fuzz_check(hd_safetensors_get_shape(file, one.name, one.shape, &one.dims) == HD_OK &&
                       hd_safetensors_get_dtype(file, one.name, &one.dtype) == HD_OK &&
                       hd_safetensors_get_data(file, one.name, one.dtype, one.dims, one.shape,
                                               &one.data) == HD_OK,
                   "a tensor that is named is there");
        fuzz_touch(one.data, bytes_of(&one));
        if (i < TENSORS_MAX)
            tensors[i] = one;
    }
    const char *format = hd_safetensors_get_metadata(file, "format");
    fuzz_touch(format, format ? strlen(format) : 0);
    return n < TENSORS_MAX ? n : TENSORS_MAX;
}

static void write_and_compare(const struct hd_tensor_data *tensors, int64_t n)
{
    struct hd_tensor_data again[TENSORS_MAX];
    struct hd_safetensors *file;
    int status = hd_safetensors_write(fuzz_path("again"), tensors, n, NULL, NULL, 0);
    fuzz_check(status == HD_OK, "what was read can be written");
    status = hd_safetensors_open(fuzz_path("again"), &file);
    fuzz_check(status == HD_OK, "and read again");
    fuzz_check(read_all(file, again) == n, "as many tensors");
    for (int64_t i = 0; i < n; i++) {
        const void *data;
        status = hd_safetensors_get_data(file, tensors[i].name, tensors[i].dtype, tensors[i].dims,
                                         tensors[i].shape, &data);
        fuzz_check(status == HD_OK && memcmp(data, tensors[i].data, bytes_of(&tensors[i])) == 0,
                   "a tensor as it was");
    }
    hd_safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hd_safetensors *read, *mapped;
    struct hd_tensor_data tensors[TENSORS_MAX];
    fuzz_write("file", (struct fuzz_part){data, bytes});
    int status = hd_safetensors_open(fuzz_path("file"), &read);
    int same = hd_safetensors_map(fuzz_path("file"), &mapped);
    fuzz_check(status == same, "mapped as read");
    if (status != HD_OK)
        return 0;
    read_all(mapped, tensors);
    hd_safetensors_close(mapped);
    write_and_compare(tensors, read_all(read, tensors));
    hd_safetensors_close(read);
    return 0;
}
