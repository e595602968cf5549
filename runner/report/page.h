/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for a browser: one HTML file that needs no other and no network. Its parts are the files of
 * runner/report/page/, which the build puts into the program. Thread safe. */
#pragma once

#include <jansson.h>

/* Makes a page that shows `data`, text[bytes] and a zero, to be freed with free. Texts in data may
 * hold anything: the page takes them for text. Takes the reference. Errors (logged): HD_ERR_NOMEM,
 * also when data is NULL. */
int hd_page_build(json_t *data, char **text_p, size_t *bytes_p);

/* Writes such a page to `path`, atomically. Errors (logged): HD_ERR_SYSTEM, HD_ERR_NOMEM. */
int hd_page_write(const char *path, json_t *data);
