/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what is no YAML of ours: the location of every mistake, bounds of depth and size, files
 * that cannot be read, and want of memory. */
#include "runtime/base/alloc.h"
#include "tests/runtime/base/config/yaml_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

#define TEXT(text) text, sizeof(text) - 1

/* -- Mistakes --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    size_t bytes;
    int line, column; /* line 0: the file as a whole */
    const char *names;
} bad[] = {
    {TEXT(""), 0, 0, "no value"},
    {TEXT("# nothing but a comment\n"), 0, 0, "no value"},
    {TEXT("\xEF\xBB\xBF"), 0, 0, "no value"},
    {TEXT("\xFF\xFE"
          "a\0"),
     0, 0, "UTF-16"},
    {TEXT("\xFE\xFF\0a"), 0, 0, "UTF-16"},
    {TEXT("a: 1\nb: 2\na: 3\n"), 3, 1, "'a'|1:1"},
    {TEXT("{b: {a: 1, 'a': 2}}"), 1, 12, "'a'|1:6"},
    {TEXT("[a, b]: 1\n"), 1, 1, "key|list|map"},
    {TEXT("{{a: 1}: 2}"), 1, 2, "key|list|map"},
    {TEXT("a: &x [1]\n*x : 2\n"), 1, 4, "key|list|map"},
    {TEXT("{: 1}\n"), 1, 2, "value"},
    {TEXT("? \n: 1\n"), 1, 2, "empty key"},
    {TEXT("<<: {a: 1}\n"), 1, 1, "'<<'"},
    {TEXT("a: 1\n---\nb: 2\n"), 2, 1, "second document"},
    {TEXT("a: *b\n"), 1, 4, "'&b'"},
    {TEXT("a: &x [1, *x]\n"), 1, 11, "'*x'"},
    {TEXT("&x a: {b: 1, c: *y}\n"), 1, 17, "'&y'"},
    {TEXT("a: !thing 1\n"), 1, 4, "'!thing'"},
    {TEXT("a: !!binary aGk=\n"), 1, 4, "binary'"},
    {TEXT("a: !!map 1\n"), 1, 4, "map'"},
    {TEXT("a: !!str [1]\n"), 1, 4, "str'"},
    {TEXT("a: !x!y 1\n"), 1, 4, "tag handle"},
    {TEXT("a: 1\n\tb: 2\n"), 2, 1, "tab"},
    {TEXT("a:\n\t- 1\n"), 2, 1, "tab"},
    {TEXT("a: @x\n"), 1, 4, "'@'|quotes"},
    {TEXT("a: `x`\n"), 1, 4, "'`'"},
    {TEXT("a: b: c\n"), 1, 5, "':'|map"},
    {TEXT("a: [1, 2\nb: 3\n"), 2, 2, "','|']'"},
    {TEXT("a: {b: 1\n"), 2, 1, "','|'}'"},
    {TEXT("a: 'b\n"), 2, 1, "quotes"},
    {TEXT("a: \"\\q\"\n"), 1, 5, "escape"},
    {TEXT("a: 1\n b: 2\n"), 2, 3, "':'|map"},
    {TEXT("a:\n  b: 1\n c: 2\n"), 3, 2, "a key|indentation"},
    {TEXT("- a\nb: 1\n"), 2, 1, "'- '|indentation"},
    {TEXT("a: 1\nbc\nd: 2\n"), 3, 1, "':'|key"},
    {TEXT("a: ]\n"), 1, 4, "value"},
    {TEXT("a: - b\n"), 1, 4, "'- '|list"},
    {TEXT("a: 1\n...\nb\n"), 3, 1, "end"},
    {TEXT("%FOO\n"), 1, 5, "directive"},
    {TEXT("a: \0b\n"), 1, 4, "0x00"},
    {TEXT("a: 1\n\xC3\xA4\x01\n"), 2, 2, "0x01"},
    {TEXT("\xEF\xBB\xBF"
          "ab\x7F"),
     1, 3, "0x7f"},
    {TEXT("a: \"\\0\"\n"), 1, 4, "NUL"},
    {TEXT("a: \xFF\n"), 1, 4, "UTF-8"},
    {TEXT("a: \xC3"), 1, 4, "UTF-8"},
    {TEXT("a: \xC0\x80\n"), 1, 4, "UTF-8"},
    {TEXT("\x7F"
          "ELF\x02\x01\x01\0\0\0"),
     1, 1, "0x7f"},
    {TEXT("\x89PNG\r\n\x1A\n"), 1, 1, "UTF-8"},
};

static void check_rejected(const char *text, size_t bytes, int line, int column, const char *names)
{
    struct hd_document *document = NULL;
    char place[64];
    /* The copy has the exact size, so that the sanitizer sees reads past its end. */
    char *copy = malloc(bytes ? bytes : 1);
    memcpy(copy, text, bytes);
    ck_assert_int_eq(hd_document_parse("t.yaml", copy, (int64_t)bytes, diag, &document),
                     HD_ERR_INPUT);
    free(copy);
    ck_assert_ptr_null(document);
    ck_assert_int_eq(hd_diag_count(diag), 1);
    snprintf(place, sizeof place, line ? "t.yaml:%d:%d: " : "t.yaml: ", line, column);
    const char *got = hd_diag_get_line(diag, 0);
    ck_assert_msg(!strncmp(got, place, strlen(place)), "expected %s, got %s", place, got);
    check_names(got, names);
}

TEST(test_bad, .runs = COUNT(bad))
{
    check_rejected(bad[_i].text, bad[_i].bytes, bad[_i].line, bad[_i].column, bad[_i].names);
}

TEST(test_several_mistakes)
{
    static const char text[] = "a: 1\na: 2\nb: !x 3\n[c]: 4\nd: {e: 1, e: 2}\n";
    static const int lines[] = {2, 3, 4, 5};
    struct hd_document *document;
    ck_assert_int_eq(hd_document_parse("t", TEXT(text), diag, &document), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(diag), 4);
    for (int i = 0; i < 4; i++) {
        char place[16];
        snprintf(place, sizeof place, "t:%d:", lines[i]);
        ck_assert_msg(strstr(hd_diag_get_line(diag, i), place), "%s", hd_diag_get_line(diag, i));
    }
    /* The same mistakes again add no lines, yet the text must not pass. */
    ck_assert_int_eq(hd_document_parse("t", TEXT(text), diag, &document), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(diag), 4);
}

static void fill(char *text, const char *piece, int n)
{
    for (int i = 0; i < n; i++)
        memcpy(text + (size_t)i * strlen(piece), piece, strlen(piece));
    text[(size_t)n * strlen(piece)] = '\0';
}

TEST(test_depth)
{
    static char text[4000];
    fill(text, "[", 64);
    fill(text + 64, "]", 64);
    hd_document_destroy(parse(text));
    fill(text, "[", 65);
    fill(text + 65, "]", 65);
    check_rejected(text, 130, 1, 65, "64 levels");
}

TEST(test_endless_depth, .runs = 3)
{
    size_t bytes = 4 << 20;
    char *text = malloc(bytes + 1);
    fill(text, _i == 0 ? "[" : _i == 1 ? "{" : "- ", (int)(bytes / (_i < 2 ? 1 : 2)));
    check_rejected(text, bytes, 1, _i < 2 ? 65 : 129, "64 levels");
    free(text);
}

TEST(test_depth_by_aliases)
{
    static char text[4000];
    char *end = text + sprintf(text, "a: &x ");
    fill(end, "[", 40);
    fill(end + 40, "]", 40);
    end += 80;
    end += sprintf(end, "\nb: ");
    fill(end, "[", 23);
    sprintf(end + 23, "*x");
    fill(end + 25, "]", 23);
    hd_document_destroy(parse(text)); /* 1 + 23 + 40 */
    fill(end, "[", 24);
    sprintf(end + 24, "*x");
    fill(end + 26, "]", 24);
    check_rejected(text, strlen(text), 2, 28, "64 levels");
}

TEST(test_alias_bomb)
{
    static char text[4000] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    char *end = text + strlen(text);
    for (int i = 1; i < 10; i++) {
        end += sprintf(end, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++)
            end += sprintf(end, "%s*a%d", k ? ", " : "", i - 1);
        end += sprintf(end, "]\n");
    }
    /* Keys count too: up to a3 there are 12,349 nodes, and a4's aliases have 11,111 each, so that
     * the eighth passes the limit. */
    check_rejected(text, strlen(text), 5, 45, "100000");
}

TEST(test_number_of_nodes)
{
    char *text = malloc(400000);
    text[0] = '[';
    fill(text + 1, "1,", 99999);
    strcat(text + 199990, "]");
    hd_document_destroy(parse(text));
    fill(text + 1, "1,", 100000);
    strcat(text + 199990, "]");
    check_rejected(text, strlen(text), 1, 200000, "100000");
    free(text);
}

TEST(test_number_of_anchors)
{
    char *text = malloc(100000), *end = text;
    for (int i = 0; i < 1001; i++)
        end += sprintf(end, "- &a%d %d\n", i, i);
    check_rejected(text, strlen(text), 1001, 3, "1000 anchors");
    free(text);
}

TEST(test_long_keys)
{
    char text[400];
    fill(text, "k", 200);
    strcat(text, ": 1");
    hd_document_destroy(parse(text));
    fill(text, "k", 201);
    strcat(text, ": 1");
    check_rejected(text, strlen(text), 1, 1, "200 bytes");
}

TEST(test_many_keys_are_checked_fast)
{
    char *text = malloc(1 << 20), *end = text;
    for (int i = 0; i < 40000; i++)
        end += sprintf(end, "key%d: 1\n", i);
    sprintf(end, "key0: 1\n");
    check_rejected(text, strlen(text), 40001, 1, "'key0'|1:1");
    free(text);
}

TEST(test_size_of_text)
{
    size_t limit = 16 << 20;
    char *text = malloc(limit + 2);
    memset(text, '#', limit + 2);
    memcpy(text, "a\n", 2);
    hd_document_destroy(parse_bytes(text, limit));
    check_rejected(text, limit + 1, 0, 0, "16 MiB");
    free(text);
}

/* -- Files ------------------------------------------------------------------------------------- */

static void check_unreadable(const char *path, const char *names)
{
    struct hd_document *document = NULL;
    ck_assert_int_eq(hd_document_read(path, HD_INPUT_COMMAND, diag, &document), HD_ERR_INPUT);
    ck_assert_ptr_null(document);
    ck_assert_int_eq(hd_diag_count(diag), 1);
    check_names(hd_diag_get_line(diag, 0), names);
}

TEST(test_file_missing)
{
    check_unreadable("/nonexistent/x.yaml", "/nonexistent/x.yaml: |No such file");
}

TEST(test_file_is_a_directory)
{
    check_unreadable("/", "/: |directory");
}

TEST(test_file_without_end)
{
    check_unreadable("/dev/zero", "/dev/zero: |16 MiB");
}

TEST(test_file_is_empty)
{
    check_unreadable("/dev/null", "/dev/null: |no value");
}

TEST(test_file_not_permitted)
{
    char path[] = "/tmp/hd_yaml_XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    fchmod(fd, 0);
    close(fd);
    struct hd_document *document = NULL;
    int status = hd_document_read(path, HD_INPUT_COMMAND, diag, &document);
    unlink(path);
    ck_assert_int_eq(status, HD_ERR_INPUT);
    /* root may read it anyway, and then finds it empty */
    const char *expected = geteuid() == 0 ? "no value" : "Permission denied";
    check_names(hd_diag_get_line(diag, 0), expected);
}

TEST(test_file_good)
{
    char path[] = "/tmp/hd_yaml_XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    for (int i = 0; i < 20000; i++)
        fprintf(file, "key%d: %d\n", i, i);
    fclose(file);
    struct hd_document *document;
    ck_assert_int_eq(hd_document_read(path, HD_INPUT_COMMAND, diag, &document), HD_OK);
    unlink(path);
    const struct hd_node *node = hd_node_get(hd_document_get_root(document), "key19999");
    ck_assert_str_eq(node->text, "19999");
    ck_assert_str_eq(node->location.file, path);
    ck_assert_int_eq(node->location.line, 20000);
    hd_document_destroy(document);
}

/* -- Memory ------------------------------------------------------------------------------------ */

TEST(test_every_allocation_may_fail)
{
    static const char text[] = "a: &x {k: [1, 2, 3], l: m}\nb: *x\nc: !y 1\nd: &z 3\ne: *z\n";
    hd_log_set_sink(drop_line, NULL);
    int64_t failures = 0;
    for (int64_t n = 1;; n++) {
        struct hd_diag *mistakes;
        struct hd_document *document = NULL;
        ck_assert_int_eq(hd_diag_create(&mistakes), HD_OK);
        hd_alloc_fail_nth(n);
        int status = hd_document_parse("t", TEXT(text), mistakes, &document);
        hd_alloc_fail_nth(0);
        bool without_tag_line = !hd_diag_get_line(mistakes, 0);
        hd_diag_destroy(mistakes);
        ck_assert_ptr_null(document);
        ck_assert(status == HD_ERR_NOMEM || status == HD_ERR_INPUT);
        failures += status == HD_ERR_NOMEM;
        if (status == HD_ERR_INPUT && !without_tag_line)
            break;
    }
    ck_assert_int_ge(failures, 5);
}
