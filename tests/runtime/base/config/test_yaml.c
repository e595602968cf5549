/* SPDX-License-Identifier: Apache-2.0 */
/* Tests YAML trees that are good: what is read, the location of every node, and dumps that read
 * back. */
#include "tests/runtime/base/config/yaml_fixture.h"

/* Writes a tree as compact text, with quoted scalars in "". */
static void show(const struct hd_node *node, FILE *file)
{
    if (node->kind == HD_NODE_SCALAR) {
        fprintf(file, node->quoted ? "\"%s\"" : "%s", node->text);
        return;
    }
    fputc(node->kind == HD_NODE_MAP ? '{' : '[', file);
    for (int64_t i = 0; i < node->count; i++) {
        fputs(i ? "," : "", file);
        if (node->kind == HD_NODE_MAP) {
            show(node->keys[i], file);
            fputc(':', file);
        }
        show(node->items[i], file);
    }
    fputc(node->kind == HD_NODE_MAP ? '}' : ']', file);
}

static char *shown(const struct hd_node *node)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    show(node, file);
    fclose(file);
    return text;
}

static char *dumped(const struct hd_node *node)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    ck_assert_int_eq(hd_node_dump(node, file), HD_OK);
    fclose(file);
    return text;
}

static const struct {
    const char *text, *tree;
} good[] = {
    {"a", "a"},
    {"--- a\n...\n", "a"},
    {"a: 1\nb: two\n", "{a:1,b:two}"},
    {"{a: 1, b: [x, y]}", "{a:1,b:[x,y]}"},
    {"a:\n- 1\n- - 2\n  - 3\n- b: 4\n  c: 5\n", "{a:[1,[2,3],{b:4,c:5}]}"},
    {"a: 'it''s'\nb: \"tab\\tend\"\nc: \"\\u00e4\"\n",
     "{a:\"it's\",b:\"tab\tend\",c:\"\xC3\xA4\"}"},
    {"a: |\n  one\n  two\nb: >\n  one\n  two\n", "{a:\"one\ntwo\n\",b:\"one two\n\"}"},
    {"a: one\n  two\n", "{a:one two}"},
    {"a: &x {k: 1}\nb: *x\nc: [*x, *x]\n", "{a:{k:1},b:{k:1},c:[{k:1},{k:1}]}"},
    {"a: &x 7\n*x : 8\n", "{a:7,7:8}"},
    {"a: &x 1\nb: &x 2\nc: *x\n", "{a:1,b:2,c:2}"},
    {"a: !!str 5\nb: !!int 5\nc: !!map {}\nd: !!seq []\ne: ! x\n", "{a:\"5\",b:5,c:{},d:[],e:x}"},
    {"a:\nb: ~\nc: ''\n", "{a:,b:~,c:\"\"}"},
    {"# comment\n\na: 1 # tail\n", "{a:1}"},
    {"? a\n: 1\n", "{a:1}"},
    {"- mean: {every: 100 update, reads: [stats]}\n", "[{mean:{every:100 update,reads:[stats]}}]"},
    {"if: outcome.mean >= $env.stop_value and update > 0\n",
     "{if:outcome.mean >= $env.stop_value and update > 0}"},
    {"a: policy@-$strategy.policy_lag\n", "{a:policy@-$strategy.policy_lag}"},
    {"a: http://x.org/y\nb: 12:30\n", "{a:http://x.org/y,b:12:30}"},
    {"'quoted key': 1\n\"\": 2\n", "{\"quoted key\":1,\"\":2}"},
    {"{}", "{}"},
    {"[]", "[]"},
    {"a: \"\\U0001F600 \\L \\N \\x07 \\\\ \\\" \\n\"",
     "{a:\"\xF0\x9F\x98\x80 \xE2\x80\xA8 \xC2\x85 \a \\ \" \n\"}"},
};

TEST(test_good, .runs = COUNT(good))
{
    struct hd_document *document = parse(good[_i].text);
    char *tree = shown(hd_document_get_root(document));
    ck_assert_str_eq(tree, good[_i].tree);
    free(tree);
    hd_document_destroy(document);
}

TEST(test_dump_reads_back, .runs = COUNT(good))
{
    struct hd_document *first = parse(good[_i].text);
    char *text = dumped(hd_document_get_root(first));
    struct hd_document *second = parse(text);
    char *tree = shown(hd_document_get_root(second));
    ck_assert_msg(!strcmp(tree, good[_i].tree), "%s\n%s", text, tree);
    char *again = dumped(hd_document_get_root(second));
    ck_assert_str_eq(again, text);
    free(again);
    free(tree);
    free(text);
    hd_document_destroy(second);
    hd_document_destroy(first);
}

TEST(test_dump_style)
{
    static const char text[] = "a: {b: [1, 2], c: \"3\"}\n"
                               "d:\n"
                               "  e:\n"
                               "  f: {}\n"
                               "g:\n"
                               "  - h: 1\n"
                               "    i: {j: k}\n"
                               "  - - 1\n"
                               "    - []\n"
                               "  -\n"
                               "  - {x: 1}\n";
    static const char expected[] = "a:\n"
                                   "  b: [1, 2]\n"
                                   "  c: \"3\"\n"
                                   "d:\n"
                                   "  e:\n"
                                   "  f: {}\n"
                                   "g:\n"
                                   "  - h: 1\n"
                                   "    i: {j: k}\n"
                                   "  - - 1\n"
                                   "    - []\n"
                                   "  -\n"
                                   "  - {x: 1}\n";
    struct hd_document *document = parse(text);
    char *got = dumped(hd_document_get_root(document));
    ck_assert_str_eq(got, expected);
    free(got);
    hd_document_destroy(document);
}

TEST(test_dump_fails_on_a_full_disk)
{
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        return;
    setvbuf(full, NULL, _IONBF, 0);
    struct hd_document *document = parse("a: 1");
    ck_assert_int_eq(hd_node_dump(hd_document_get_root(document), full), HD_ERR_SYSTEM);
    hd_document_destroy(document);
    fclose(full);
}

static void check_location(const struct hd_node *node, int line, int column)
{
    ck_assert_str_eq(node->location.file, "t.yaml");
    ck_assert_int_eq(node->location.line, line);
    ck_assert_int_eq(node->location.column, column);
}

TEST(test_locations)
{
    struct hd_document *document = parse("\xEF\xBB\xBF"
                                         "a: \xC3\xA4 b\n"
                                         "\xC3\xA4: [\xC3\xA4, &x 2,\n"
                                         "  '3']\r\n"
                                         "c: *x\n");
    const struct hd_node *root = hd_document_get_root(document);
    check_location(root, 1, 1);
    check_location(root->keys[0], 1, 1);
    check_location(root->items[0], 1, 4);
    check_location(root->items[1], 2, 4);
    check_location(root->items[1]->items[1], 2, 8);
    check_location(root->items[1]->items[2], 3, 3);
    check_location(root->keys[2], 4, 1);
    check_location(root->items[2], 4, 4);
    hd_document_destroy(document);
}

TEST(test_aliases_share)
{
    struct hd_document *document = parse("a: &x [1]\nb: *x\nc: &y 1\nd: *y\n");
    const struct hd_node *root = hd_document_get_root(document);
    ck_assert_ptr_eq(hd_node_get(root, "a"), hd_node_get(root, "b"));
    ck_assert_ptr_ne(hd_node_get(root, "c"), hd_node_get(root, "d"));
    ck_assert_ptr_null(hd_node_get(root, "e"));
    ck_assert_ptr_null(hd_node_get(NULL, "e"));
    ck_assert_ptr_null(hd_node_get(hd_node_get(root, "a"), "1"));
    hd_document_destroy(document);
}

TEST(test_inside_a_line)
{
    struct hd_document *document;
    ck_assert_int_eq(hd_document_create(&document), HD_OK);
    ck_assert_ptr_null(hd_document_get_root(document));
    const struct hd_source_location origin = {"--set", 3, 10};
    struct hd_node *node;
    ck_assert_int_eq(hd_node_parse(document, origin, "[1, \xC3\xA4,\n  x]", diag, &node), HD_OK);
    ck_assert_int_eq(node->location.line, 3);
    ck_assert_int_eq(node->location.column, 10);
    ck_assert_int_eq(node->items[1]->location.column, 14);
    ck_assert_int_eq(node->items[2]->location.line, 3);
    ck_assert_int_eq(node->items[2]->location.column, 19);
    ck_assert_int_eq(hd_node_parse(document, origin, "", diag, &node), HD_OK);
    ck_assert_str_eq(node->text, "");
    ck_assert(!node->quoted);
    ck_assert_int_eq(hd_node_parse(document, origin, "[1, ", diag, &node), HD_ERR_INPUT);
    ck_assert_str_eq(hd_diag_get_line(diag, 0), "--set:3:14: expected a value");
    hd_document_destroy(document);
}

TEST(test_building)
{
    struct hd_document *document;
    ck_assert_int_eq(hd_document_create(&document), HD_OK);
    const struct hd_source_location location = {"built", 1, 1};
    struct hd_node *map = hd_node_create_map(document, location);
    char key[] = "k0", value[] = "v";
    for (int i = 0; i < 10; i++) {
        key[1] = (char)('0' + i);
        struct hd_node *scalar = hd_node_create_scalar(document, location, value);
        ck_assert_int_eq(hd_node_put(document, map, key, scalar), HD_OK);
    }
    value[0] = 'x'; /* texts are copies */
    ck_assert_int_eq(hd_node_put(document, map, "k3", hd_node_create_map(document, location)),
                     HD_OK);
    map->items[4]->comment = "why";
    ck_assert_int_eq(map->count, 10);
    char *text = dumped(map);
    ck_assert_str_eq(text, "k0: v\nk1: v\nk2: v\nk3: {}\nk4: v  # why\nk5: v\nk6: v\nk7: v\n"
                           "k8: v\nk9: v\n");
    free(text);
    hd_document_destroy(document);
    hd_document_destroy(NULL);
}

TEST(test_copies_outlive)
{
    struct hd_document *first = parse("a: &x {k: '1'}\nb: [*x, 2]\n"), *second;
    ck_assert_int_eq(hd_document_create(&second), HD_OK);
    struct hd_node *copy = hd_node_copy(second, hd_document_get_root(first));
    hd_document_destroy(first);
    char *tree = shown(copy);
    ck_assert_str_eq(tree, "{a:{k:\"1\"},b:[{k:\"1\"},2]}");
    check_location(copy->items[1], 2, 4);
    free(tree);
    hd_document_destroy(second);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Random texts from pieces of YAML either give mistakes, or trees whose dumps read back. */
TEST(test_random_texts, .runs = 4)
{
    static const char *const pieces[] = {"a",     "b: ",  "- ",   "\n",       "\n  ",   "[",  "]",
                                         "{",     "}",    ", ",   "'",        "\"",     "\\", "&x ",
                                         "*x",    "#",    "|\n ", ">\n ",     "!!str ", "? ", ": ",
                                         "---\n", "1",    "\t",   "\xC3\xA4", "~",      "<<", "%",
                                         "x y",   "\x01", "''",   "-1.5e3",   "c: ",    "d: "};
    uint32_t state = (uint32_t)_i + 1;
    int accepted = 0;
    for (int round = 0; round < 3000; round++) {
        char text[512] = "";
        for (uint32_t k = next_random(&state) % 12 + 1; k > 0; k--)
            strcat(text, pieces[next_random(&state) % (sizeof pieces / sizeof *pieces)]);
        struct hd_diag *mistakes;
        struct hd_document *document;
        ck_assert_int_eq(hd_diag_create(&mistakes), HD_OK);
        int status = hd_document_parse("t.yaml", text, (int64_t)strlen(text), mistakes, &document);
        ck_assert(status == HD_OK || status == HD_ERR_INPUT);
        ck_assert_int_eq(status == HD_OK, hd_diag_count(mistakes) == 0);
        hd_diag_destroy(mistakes);
        if (status != HD_OK)
            continue;
        accepted++;
        char *dump = dumped(hd_document_get_root(document));
        struct hd_document *again = parse(dump);
        char *first = dump, *second = dumped(hd_document_get_root(again));
        ck_assert_msg(!strcmp(first, second), "%s\n--\n%s\n--\n%s", text, first, second);
        free(second);
        free(dump);
        hd_document_destroy(again);
        hd_document_destroy(document);
    }
    ck_assert_int_ge(accepted, 100);
}
