/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files read back as they were written; malformed files are refused with their cause.
 */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/heddle-st-XXXXXX";
static char said[4096];

static void listen(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    snprintf(said, sizeof said, "%s", line);
}

static void setup(void)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    hd_log_set_sink(listen, NULL);
}

static void teardown(void)
{
    unlink(path);
    strcpy(path + strlen(path) - 6, "XXXXXX");
}

FIXTURE(setup, teardown)

TEST(what_is_written_reads_back)
{
    static const float a[] = {1, -2.5f, 3e-30f, 4, 5, 6}, b[] = {7};
    const struct hd_tensor_data tensors[] = {{"layer.weight", a, 2, {2, 3}, HD_DTYPE_F32},
                                             {"layer.bias", b, 1, {1}, HD_DTYPE_F32},
                                             {"empty", a, 2, {0, 4}, HD_DTYPE_F32}};
    const char *const keys[] = {"format"}, *const values[] = {"pt"};
    ck_assert_int_eq(hd_safetensors_write(path, tensors, 3, keys, values, 1), HD_OK);
    struct hd_safetensors *file;
    ck_assert_int_eq(hd_safetensors_open(path, &file), HD_OK);
    ck_assert_int_eq(hd_safetensors_count(file), 3);
    int64_t shape[HD_TENSOR_DIMS];
    int dims;
    ck_assert_int_eq(hd_safetensors_get_shape(file, "layer.weight", shape, &dims), HD_OK);
    ck_assert(dims == 2 && shape[0] == 2 && shape[1] == 3);
    float back[6];
    ck_assert_int_eq(hd_safetensors_copy(file, "layer.weight", 2, tensors[0].shape, back), HD_OK);
    ck_assert(memcmp(back, a, sizeof a) == 0);
    const int64_t other[] = {3, 2};
    ck_assert_int_eq(hd_safetensors_copy(file, "layer.weight", 2, other, back), HD_ERR_FORMAT);
    ck_assert(strstr(said, "is 2 x 3, but 3 x 2 is needed"));
    ck_assert_int_eq(hd_safetensors_copy(file, "layer.wait", 2, other, back), HD_ERR_FORMAT);
    ck_assert(strstr(said, "no tensor 'layer.wait'"));
    const char *const names[] = {"layer.weight", "layer.bias", "empty"};
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(hd_safetensors_get_name(file, i), names[i]);
    ck_assert_str_eq(hd_safetensors_get_metadata(file, "format"), "pt");
    ck_assert_ptr_null(hd_safetensors_get_metadata(file, "other"));
    hd_safetensors_close(file);
}

/* Integers and bytes, read or mapped; a tensor is asked for by its type and shape. */
TEST(other_types_read_back)
{
    static const int32_t a[] = {1, -2, 3};
    static const uint8_t b[] = {0, 128, 255, 7, 8};
    static const float c[] = {.5f};
    static const int64_t d = INT64_C(1) << 40; /* a number by itself, as PyTorch counts with */
    const struct hd_tensor_data tensors[] = {{"l", &d, 0, {0}, HD_DTYPE_I64},
                                             {"i", a, 1, {3}, HD_DTYPE_I32},
                                             {"f", c, 1, {1}, HD_DTYPE_F32},
                                             {"u", b, 2, {1, 5}, HD_DTYPE_U8}};
    ck_assert_int_eq(hd_safetensors_write(path, tensors, 4, NULL, NULL, 0), HD_OK);
    for (int mapped = 0; mapped < 2; mapped++) {
        struct hd_safetensors *file;
        const void *data[4], *unused = NULL;
        ck_assert_int_eq((mapped ? hd_safetensors_map : hd_safetensors_open)(path, &file), HD_OK);
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(hd_safetensors_get_data(file, tensors[i].name, tensors[i].dtype,
                                                     tensors[i].dims, tensors[i].shape, &data[i]),
                             HD_OK);
        ck_assert_mem_eq(data[0], &d, sizeof d);
        ck_assert_mem_eq(data[1], a, sizeof a);
        ck_assert_mem_eq(data[2], c, sizeof c);
        ck_assert_mem_eq(data[3], b, sizeof b);
        ck_assert_int_eq(
            hd_safetensors_get_data(file, "i", HD_DTYPE_F32, 1, tensors[1].shape, &unused),
            HD_ERR_FORMAT);
        ck_assert(strstr(said, "'i' is of I32, but F32 is needed"));
        ck_assert_int_eq(
            hd_safetensors_get_data(file, "i", HD_DTYPE_I32, 1, tensors[2].shape, &unused),
            HD_ERR_FORMAT);
        ck_assert(strstr(said, "is 3, but 1 is needed"));
        ck_assert_ptr_null(unused);
        hd_safetensors_close(file);
    }
}

/* The reference writer has this layout: length, header, spaces to a multiple of eight, data. */
TEST(the_header_is_padded_with_spaces)
{
    char name[] = "aaaaaaaaa";
    for (; *name; name[strlen(name) - 1] = '\0') {
        static const float one = 1;
        static unsigned char back[512];
        const struct hd_tensor_data tensor = {name, &one, 1, {1}, HD_DTYPE_F32};
        uint64_t header;
        ck_assert_int_eq(hd_safetensors_write(path, &tensor, 1, NULL, NULL, 0), HD_OK);
        FILE *file = fopen(path, "rb");
        size_t bytes = fread(back, 1, sizeof back, file);
        fclose(file);
        memcpy(&header, back, 8);
        ck_assert_uint_eq(header % 8, 0);
        ck_assert_uint_eq(bytes, 8 + header + 4);
        size_t end = 8 + header;
        while (back[end - 1] == ' ')
            end--;
        ck_assert_int_eq(back[end - 1], '}');
        ck_assert_uint_lt(8 + header - end, 8);
    }
}

TEST(what_no_reader_could_read_is_not_written)
{
    static const float a[] = {1, 2};
    const struct hd_tensor_data twins[] = {{"w", a, 1, {1}, HD_DTYPE_F32},
                                           {"w", a + 1, 1, {1}, HD_DTYPE_F32}};
    const struct hd_tensor_data reserved = {"__metadata__", a, 1, {1}, HD_DTYPE_F32},
                                bad = {"\xff", a, 1, {1}, HD_DTYPE_F32};
    const char *const key = "k", *const text = "\xff";
    ck_assert_int_eq(hd_safetensors_write(path, twins, 1, NULL, NULL, 0), HD_OK);
    ck_assert_int_eq(hd_safetensors_write(path, twins, 2, NULL, NULL, 0), HD_ERR_INPUT);
    ck_assert(strstr(said, "'w'"));
    ck_assert_int_eq(hd_safetensors_write(path, &reserved, 1, NULL, NULL, 0), HD_ERR_INPUT);
    ck_assert_int_eq(hd_safetensors_write(path, &bad, 1, NULL, NULL, 0), HD_ERR_INPUT);
    ck_assert(strstr(said, "UTF-8"));
    ck_assert_int_eq(hd_safetensors_write(path, twins, 1, &key, &text, 1), HD_ERR_INPUT);
    struct hd_safetensors *file; /* the good file is still there */
    ck_assert_int_eq(hd_safetensors_open(path, &file), HD_OK);
    ck_assert_int_eq(hd_safetensors_count(file), 1);
    hd_safetensors_close(file);
}

/* Other writers leave the data at any address of the file. */
TEST(unaligned_data_is_read)
{
    static const float a[] = {1.5f, -2, 3e38f};
    for (int spaces = 0; spaces < 8; spaces++) {
        char header[128];
        snprintf(header, sizeof header, "%s%*s",
                 "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", spaces, "");
        FILE *out = fopen(path, "wb");
        uint64_t length = strlen(header);
        fwrite(&length, 8, 1, out);
        fwrite(header, 1, length, out);
        fwrite(a, sizeof a, 1, out);
        fclose(out);
        struct hd_safetensors *file;
        const int64_t three = 3;
        float back[3];
        ck_assert_int_eq(hd_safetensors_open(path, &file), HD_OK);
        ck_assert_int_eq(hd_safetensors_copy(file, "w", 1, &three, back), HD_OK);
        ck_assert(memcmp(back, a, sizeof a) == 0);
        hd_safetensors_close(file);
    }
}

/* Headers, each with a number of bytes of data behind it. */
static const struct {
    const char *header;
    int data_bytes;
    const char *names; /* of the message; "": well-formed */
} rows[] = {
    {"{}", 0, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ", 8, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "truncated"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, "bytes follow"},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 8,
     "'a' is of F16|F32, I32, I64 and U8"},
    {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]}}", 8, "is of BF16"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[4],\"data_offsets\":[0,8]}}", 8, "'a'|format's"},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'a'|format's"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "sane"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8,
     "sane"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,8]}}", 8, "sane"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "'a'|as long"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "up to 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "outside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "outside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "two integers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "does not follow"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "does not follow"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
     8, "duplicate"},
    {"[1]", 0, "JSON object"},
    {" {}", 0, "JSON object"},
    {"{}x", 0, "end of file"},
    {"{\"__metadata__\":{\"k\":\"v\"}}", 0, ""},
    {"{\"__metadata__\":3}", 0, "__metadata__"},
    {"{\"__metadata__\":{\"k\":3}}", 0, "__metadata__"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]}}", 0, ""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387904,8],"
     "\"data_offsets\":[0,0]}}",
     0, "sane"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2305843009213693952,4],"
     "\"data_offsets\":[0,0]}}",
     0, "sane"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
     "'a'|as long"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
     12, "does not follow"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "safetensors"},
    {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "safetensors"},
    {"{", 0, "safetensors"},
    {"{\"a\":3}", 0, "'a'|format's"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}", 8,
     "safetensors"},
};

static void write_row(const char *header, size_t header_bytes, int data_bytes)
{
    FILE *file = fopen(path, "wb");
    uint64_t length = header_bytes;
    fwrite(&length, 8, 1, file);
    fwrite(header, 1, header_bytes, file);
    for (int i = 0; i < data_bytes; i++)
        fputc(i, file);
    fclose(file);
}

TEST(a_malformed_file_is_refused_with_its_cause, .runs = COUNT(rows))
{
    struct hd_safetensors *file = NULL;
    write_row(rows[_i].header, strlen(rows[_i].header), rows[_i].data_bytes);
    for (int mapped = 0; mapped < 2; mapped++) {
        int status = (mapped ? hd_safetensors_map : hd_safetensors_open)(path, &file);
        if (rows[_i].names[0] == '\0') {
            ck_assert_int_eq(status, HD_OK);
            hd_safetensors_close(file);
            continue;
        }
        ck_assert_int_eq(status, HD_ERR_FORMAT);
        ck_assert_ptr_null(file);
        check_names(said, path);
        check_names(said, rows[_i].names);
    }
}

TEST(lengths_that_lie_are_refused)
{
    static const unsigned char lies[][9] = {{0},
                                            {1, 2, 3},
                                            {255, 255, 255, 255, 255, 255, 255, 255},
                                            {255, 255, 255, 255, 255, 255, 255, 127},
                                            {3, 0, 0, 0, 0, 0, 0, 0},
                                            {0, 0, 0, 0, 1}};
    static const size_t sizes[] = {0, 3, 8, 8, 8, 8};
    for (int i = 0; i < 6; i++) {
        struct hd_safetensors *file = NULL;
        FILE *out = fopen(path, "wb");
        fwrite(lies[i], 1, sizes[i], out);
        fclose(out);
        ck_assert_int_eq(hd_safetensors_open(path, &file), HD_ERR_FORMAT);
        ck_assert_int_eq(hd_safetensors_map(path, &file), HD_ERR_FORMAT);
    }
    struct hd_safetensors *file = NULL;
    write_row("{\"a\0b\":1}", 9, 0);
    ck_assert_int_eq(hd_safetensors_open(path, &file), HD_ERR_FORMAT);
    ck_assert_int_eq(hd_safetensors_open("/no/such/file", &file), HD_ERR_INPUT);
    ck_assert(strstr(said, "/no/such/file"));
    ck_assert_int_eq(hd_safetensors_open("/tmp", &file), HD_ERR_INPUT);
    ck_assert(strstr(said, "/tmp"));
    ck_assert_ptr_null(file);
    hd_safetensors_close(NULL);
}

/* Every prefix of a good file, and the file with any byte flipped, is refused or read, without a
 * crash. */
TEST(damage_is_survived)
{
    static const float a[] = {1, 2, 3, 4};
    const struct hd_tensor_data tensors[] = {{"w", a, 2, {2, 2}, HD_DTYPE_F32},
                                             {"v", a, 1, {4}, HD_DTYPE_F32}};
    static unsigned char good[4096], bad[4096];
    ck_assert_int_eq(hd_safetensors_write(path, tensors, 2, NULL, NULL, 0), HD_OK);
    FILE *in = fopen(path, "rb");
    size_t bytes = fread(good, 1, sizeof good, in);
    fclose(in);
    for (size_t i = 0; i < 2 * bytes; i++) {
        struct hd_safetensors *file = NULL;
        memcpy(bad, good, bytes);
        if (i >= bytes)
            bad[i - bytes] ^= 0x55;
        FILE *out = fopen(path, "wb");
        fwrite(bad, 1, i < bytes ? i : bytes, out);
        fclose(out);
        int status = hd_safetensors_open(path, &file);
        ck_assert(status == HD_OK || status == HD_ERR_FORMAT);
        ck_assert(i >= bytes || status == HD_ERR_FORMAT);
        if (i >= 2 * bytes - 2 * sizeof a)
            ck_assert_msg(status == HD_ERR_FORMAT && strstr(said, "is damaged: its tensors have"),
                          "%s", said);
        if (status == HD_OK)
            hd_safetensors_close(file);
    }
}

/* The numbers of weights are finite. */
TEST(numbers_that_are_not_finite_are_told)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const char *const told[] = {"nan", "inf", "-inf"};
    for (int i = 0; i < 3; i++) {
        float a[24] = {0}, back[24];
        struct hd_safetensors *file;
        a[1 * 12 + 2 * 4 + 3] = bad[i];
        const struct hd_tensor_data tensor = {"w", a, 3, {2, 3, 4}, HD_DTYPE_F32};
        ck_assert_int_eq(hd_safetensors_write(path, &tensor, 1, NULL, NULL, 0), HD_OK);
        ck_assert_int_eq(hd_safetensors_open(path, &file), HD_OK);
        ck_assert_int_eq(hd_safetensors_copy(file, "w", 3, tensor.shape, back), HD_ERR_FORMAT);
        ck_assert_msg(strstr(said, "tensor 'w' holds ") && strstr(said, told[i]) &&
                          strstr(said, " at [1, 2, 3]: "),
                      "%s", said);
        hd_safetensors_close(file);
    }
}
