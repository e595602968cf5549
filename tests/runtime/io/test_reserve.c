/* SPDX-License-Identifier: Apache-2.0 */
/* Reserved room becomes the file, in a folder of its own where there is none; what is not used is
 * given back; without room the file is written all the same. A logbook keeps a file that cannot be
 * written until it can, and refuses a state that names other files than its own. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/logbook.h"
#include "runtime/io/reserve.h"
#include "tests/harness/check.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char top[] = "/tmp/heddle-reserve-XXXXXX";
static char said[4096];

static void listen(enum hd_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    strncat(said, line, sizeof said - strlen(said) - 1);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
    said[0] = '\0';
    hd_log_set_sink(listen, NULL);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", top, top);
    ck_assert_int_eq(system(command), 0);
    strcpy(top + strlen(top) - 6, "XXXXXX");
}

static const char *in(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", top, name);
    return path;
}

static int64_t size_of(const char *name)
{
    struct stat about;
    return stat(in(name), &about) == 0 ? about.st_size : -1;
}

static void assert_content(const char *name, const char *expected)
{
    char *content;
    ck_assert_int_eq(hd_file_read(in(name), HD_INPUT_RUN, &content, NULL), HD_OK);
    ck_assert_str_eq(content, expected);
    hd_free(content);
}

FIXTURE(setup, teardown)

TEST(reserved_room_becomes_the_file)
{
    ck_assert_int_eq(mkdir(in("ckpt"), 0777), 0);
    hd_reserve_make(top, "weights", 100000);
    hd_reserve_make(top, "result", 5000);
    ck_assert_int_eq(size_of(".reserve/weights/file"), 100000);
    ck_assert_int_eq(hd_reserve_write(top, "weights", in("ckpt/last/w"), "abc", 3), HD_OK);
    assert_content("ckpt/last/w", "abc");
    ck_assert_int_eq(hd_reserve_write(top, "result", in("result.json"), "{}", 2), HD_OK);
    assert_content("result.json", "{}");
    ck_assert_int_eq(hd_reserve_write(top, "result", in("result.json"), "{1}", 3), HD_OK);
    assert_content("result.json", "{1}"); /* without room now */
    hd_reserve_make(top, "result", 5000);
    hd_reserve_remove(top);
    ck_assert_int_eq(size_of(".reserve"), -1);
    ck_assert_str_eq(said, "");
}

TEST(no_room_is_told)
{
    hd_reserve_make(top, "weights", INT64_C(1) << 60);
    ck_assert_ptr_nonnull(strstr(said, "no room"));
    ck_assert_int_eq(hd_reserve_write(top, "weights", in("w"), "abc", 3), HD_OK);
    assert_content("w", "abc");
    hd_reserve_remove(top);
}

TEST(a_logbook_keeps_what_cannot_be_written)
{
    struct hd_logbook *book;
    ck_assert_int_eq(hd_logbook_create(top, NULL, &book), HD_OK);
    ck_assert_int_eq(hd_file_write_atomic(in("best"), "in the way of a folder", 5), HD_OK);
    ck_assert_int_eq(hd_logbook_put_file(book, in("best/policy"), "old", 3), HD_OK);
    ck_assert_int_eq(hd_logbook_put_file(book, in("best/policy"), "new", 3), HD_OK);
    ck_assert_ptr_nonnull(strstr(said, "training continues"));
    ck_assert_ptr_null(strstr(strstr(said, "training continues") + 1, "training continues"));
    ck_assert_int_eq(unlink(in("best")), 0);
    ck_assert_int_eq(hd_logbook_write_table(book, "learner", "title", 1, 1, NULL, 0), HD_OK);
    ck_assert_ptr_nonnull(strstr(said, "is written now"));
    assert_content("best/policy", "new");
    hd_logbook_destroy(book);
}

static void refused(json_t *state, const char *why)
{
    struct hd_logbook *book = NULL;
    said[0] = '\0';
    ck_assert_int_eq(hd_logbook_create(top, state, &book), HD_ERR_FORMAT);
    ck_assert_ptr_null(book);
    ck_assert_msg(strstr(said, why) != NULL, "%s", said);
    json_decref(state);
}

TEST(a_state_names_only_logs)
{
    struct hd_logbook *book;
    ck_assert_int_eq(hd_logbook_create(top, NULL, &book), HD_OK);
    ck_assert_int_eq(hd_logbook_write_line(book, "learner", "a line"), HD_OK);
    json_t *state = hd_logbook_get_state(book);
    hd_logbook_destroy(book);
    json_t *other = json_deep_copy(state);
    json_object_set_new(other, "board", json_string("events.out.tfevents./../../x"));
    refused(other, "'board'");
    other = json_deep_copy(state);
    json_object_set_new(other, "board_bytes", json_integer(-1));
    refused(other, "board_bytes");
    other = json_deep_copy(state);
    json_object_set_new(json_object_get(other, "texts"), "../x", json_integer(0));
    refused(other, "text logs");
    refused(json_object(), "'board'");
    said[0] = '\0';
    ck_assert_int_eq(truncate(in("log/learner/learner_logger.txt"), 3), 0);
    ck_assert_int_eq(hd_logbook_create(top, state, &book), HD_OK);
    ck_assert_ptr_nonnull(strstr(said, "has 3 bytes of the"));
    hd_logbook_destroy(book);
    json_decref(state);
}
