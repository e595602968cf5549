/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/base/json_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PATH_MOST = HD_FILE_WHY - HD_INPUT_WHY - 8 }; /* bytes of a path in a sentence */

/* jansson takes a read that fails for the end of the file. */
static json_t *read_stream(FILE *stream, const char *path, char why[HD_FILE_WHY])
{
    json_error_t error;
    errno = 0;
    json_t *json = json_loadf(stream, 0, &error);
    const int reason = json ? 0 : ferror(stream) ? errno : 0;
    if (reason)
        snprintf(why, HD_FILE_WHY, "%.*s cannot be read: %s", PATH_MOST, path, strerror(reason));
    else if (!json)
        snprintf(why, HD_FILE_WHY, "%.*s:%d: %s", PATH_MOST, path, error.line > 0 ? error.line : 1,
                 error.text);
    errno = reason;
    return json;
}

json_t *hd_json_file_read(const char *path, enum hd_input from, char why[HD_FILE_WHY])
{
    char reason[HD_INPUT_WHY];
    FILE *stream = hd_input_open_stream(path, from, reason);
    json_t *json = stream ? read_stream(stream, path, why) : NULL;
    const int kept = errno;
    if (stream)
        fclose(stream);
    else
        snprintf(why, HD_FILE_WHY, "%.*s %s", PATH_MOST, path, reason);
    errno = kept;
    return json;
}
