/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/videos.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"

#include <dirent.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PAGE_BYTES = 24 << 20, VIDEOS_MAX = 4096 };

static int compare(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

/* Writes the updates of the videos in a folder to list[VIDEOS_MAX], in order, and returns how many
 * there are. */
static int list_videos(const char *folder, int64_t *list)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    int n = 0;
    while (directory && n < VIDEOS_MAX && (entry = readdir(directory)))
        if (hd_run_dir_parse_name(entry->d_name, ".gif", &list[n]) &&
            hd_run_dir_has(dirfd(directory), entry->d_name, S_IFREG))
            n++;
    if (directory)
        closedir(directory);
    qsort(list, (size_t)n, sizeof *list, compare);
    return n;
}

static json_t *encode(const char *data, int64_t bytes)
{
    const size_t length = sodium_base64_ENCODED_LEN((size_t)bytes, sodium_base64_VARIANT_ORIGINAL);
    char *text = hd_alloc((int64_t)length, 1);
    if (text)
        sodium_bin2base64(text, length, (const unsigned char *)data, (size_t)bytes,
                          sodium_base64_VARIANT_ORIGINAL);
    json_t *json = text ? json_string(text) : NULL;
    hd_free(text);
    return json;
}

/* Returns a video, or null if it has more than *left_p bytes, from which it is subtracted. */
static json_t *read_video(const char *folder, int64_t updates, int64_t *left_p)
{
    char *path = hd_format("%s/iteration_%" PRId64 ".gif", folder, updates), *data = NULL;
    int64_t bytes = 0;
    json_t *json = NULL;
    if (path && hd_file_read(path, HD_INPUT_RUN, &data, &bytes) == HD_OK)
        json = bytes <= *left_p ? encode(data, bytes) : json_null();
    *left_p -= bytes;
    hd_free(data);
    hd_free(path);
    return json ? json : json_null();
}

json_t *hd_videos_build_json(const char *dir)
{
    char *folder = hd_format("%s/video", dir);
    int64_t *list = hd_alloc(VIDEOS_MAX, sizeof *list), left = PAGE_BYTES;
    json_t *videos = folder && list ? json_array() : NULL;
    const int n = videos ? list_videos(folder, list) : 0;
    for (int i = 0; i < n; i++)
        json_array_append_new(videos, json_pack("{s:I, s:o}", "update", (json_int_t)list[i], "gif",
                                                read_video(folder, list[i], &left)));
    hd_free(list);
    hd_free(folder);
    return videos;
}
