/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of YAML and of configurations share: where mistakes go, texts that must be good,
 * cases. */
#pragma once

#include "runtime/base/config/yaml.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

static struct hd_diag *diag;

static inline void setup(void)
{
    ck_assert_int_eq(hd_diag_create(&diag), HD_OK);
}

static inline void teardown(void)
{
    hd_diag_destroy(diag);
}

static inline struct hd_document *parse_bytes(const char *text, size_t bytes)
{
    struct hd_document *document = NULL;
    int status = hd_document_parse("t.yaml", text, (int64_t)bytes, diag, &document);
    ck_assert_msg(status == HD_OK, "%s", hd_diag_get_line(diag, 0));
    ck_assert_int_eq(hd_diag_count(diag), 0);
    return document;
}

static inline struct hd_document *parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

static inline void drop_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)line;
    (void)arg;
}

FIXTURE(setup, teardown)
