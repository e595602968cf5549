/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/infer/files.h"

#include "tests/harness/check.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

float get_element(int tensor, int64_t i)
{
    return (float)sin(1.0 + 7.0 * tensor + 1.3 * (double)i);
}

void make_folder(char path[256])
{
    strcpy(path, "/tmp/heddle-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *at)
{
    (void)about, (void)type, (void)at;
    return remove(path);
}

void remove_folder(const char *path)
{
    ck_assert_int_eq(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static FILE *open_below(const char *run, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", run, name);
    for (char *slash = strchr(path + strlen(run) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    return file;
}

void write_text(const char *run, const char *name, const char *text)
{
    FILE *file = open_below(run, name);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

void write_weights(const char *run, const char *name, const struct tensor *tensors, int n)
{
    char header[4096] = "{";
    int64_t at = 0;
    size_t used = 1;
    for (int t = 0; t < n; t++) {
        const int64_t columns = tensors[t].columns,
                      count = tensors[t].rows * (columns ? columns : 1);
        char shape[64];
        snprintf(shape, sizeof shape, columns ? "%lld,%lld" : "%lld", (long long)tensors[t].rows,
                 (long long)columns);
        used += (size_t)snprintf(
            header + used, sizeof header - used,
            "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
            t ? "," : "", tensors[t].name, shape, (long long)at, (long long)(at + 4 * count));
        at += 4 * count;
    }
    used += (size_t)snprintf(header + used, sizeof header - used, "}");
    const uint64_t length = used;
    FILE *file = open_below(run, name);
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, used, file);
    for (int t = 0; t < n; t++)
        for (int64_t i = 0; i < tensors[t].rows * (tensors[t].columns ? tensors[t].columns : 1);
             i++) {
            const float element = get_element(t, i);
            fwrite(&element, sizeof element, 1, file);
        }
    ck_assert_int_eq(fclose(file), 0);
}

void cut_file(const char *run, const char *name, int64_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", run, name);
    ck_assert_int_eq(truncate(path, bytes), 0);
}
