/* SPDX-License-Identifier: Apache-2.0 */
/* Environment plug-ins: the example, built and used as its comment says; where plug-ins are
 * searched; messages about files that are missing or cannot be used. */
#include "kernels/envs/classic/classic.h"
#include "kernels/envs/find/find.h"
#include "tests/harness/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[PATH_MAX]; /* where the plug-ins of a test are built */
static char message[HD_ENV_MESSAGE];

static void setup(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/heddle-test-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("HEDDLE_PLUGINS", folder, 1);
    message[0] = '\0';
}

static void shell(const char *command)
{
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void teardown(void)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    shell(command);
}

/* Writes <name>.c and builds heddle_env_<name>.so of it. */
static void build(const char *name, const char *text)
{
    char path[2 * PATH_MAX], command[4 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.c", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    snprintf(command, sizeof command, "cc -shared -fPIC -I . -o '%s/heddle_env_%s.so' '%s/%s.c'",
             folder, name, folder, name);
    shell(command);
}

/* Runs the command in the example's first comment. */
static void build_example(void)
{
    char text[4096], command[3 * PATH_MAX];
    FILE *file = fopen("kernels/envs/example/corridor.c", "r");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    char *line = strstr(text, "cc -O2");
    ck_assert_ptr_nonnull(line);
    *strchr(line, '\n') = '\0';
    char *root = strstr(line, "HEDDLE");
    ck_assert_ptr_nonnull(root);
    snprintf(command, sizeof command,
             "here=$PWD && cp kernels/envs/example/corridor.c '%s' && cd '%s' && %.*s$here%s",
             folder, folder, (int)(root - line), line, root + strlen("HEDDLE"));
    shell(command);
}

/* -- The example ------------------------------------------------------------------------------- */

enum { ENVS = 2, CELLS = 5 };

struct fixture {
    const struct hd_env *env;
    void *group;
    float obs[ENVS][CELLS], reward[ENVS];
    bool done[ENVS], truncated[ENVS];
};

static struct fixture make_corridor(void)
{
    static const struct hd_env_option option = {"cells", "5"};
    const struct hd_env_settings settings = {
        .envs = ENVS, .env_id = "", .options = &option, .n_options = 1};
    struct fixture f;
    struct hd_env_spec spec;
    build_example();
    ck_assert_msg(hd_env_find("corridor", &f.env, message) == 0, "%s", message);
    ck_assert_str_eq(f.env->name, "corridor");
    ck_assert_int_eq(f.env->create(&settings, &spec, &f.group, message), 0);
    ck_assert_int_eq(hd_env_get_frame_bytes(&spec), CELLS * 4);
    ck_assert_int_eq(spec.actions.n[0], 2);
    return f;
}

static void step(struct fixture *f, int32_t first, int32_t second)
{
    const int32_t action[ENVS] = {first, second};
    const struct hd_env_outcome outcome = {f->obs, f->reward, f->done, f->truncated};
    ck_assert_int_eq(f->env->step(f->group, action, &outcome, message), 0);
}

static const char *find_missing_compiler(void)
{
    return system("cc --version >/dev/null 2>&1") == 0 ? NULL : "there is no compiler `cc`";
}

PREREQUISITE(find_missing_compiler)
FIXTURE(setup, teardown)

TEST(test_example)
{
    struct fixture f = make_corridor();
    char state[64];
    ck_assert_int_le(f.env->state_bytes(f.group), (int64_t)sizeof state);
    f.env->reset(f.group, 0, 1, f.obs[0], message);
    f.env->reset(f.group, 1, 1, f.obs[1], message);
    ck_assert_float_eq(f.obs[0][2], 1);
    step(&f, 1, 0);
    ck_assert(!f.done[0] && !f.done[1]);
    ck_assert_int_eq(f.env->save(f.group, 0, state, message), 0);
    step(&f, 1, 0);
    ck_assert(f.done[0] && f.done[1] && !f.truncated[0]);
    ck_assert_float_eq(f.reward[0], 1);
    ck_assert_float_eq(f.reward[1], 0);
    ck_assert_int_eq(f.env->load(f.group, 1, state, message), 0);
    f.env->reset(f.group, 0, 0, f.obs[0], message);
    step(&f, 1, 1);
    ck_assert(!f.done[0] && f.done[1]);
    ck_assert_float_eq(f.obs[1][4], 1);
    f.env->destroy(f.group);
}

TEST(test_example_time_limit)
{
    struct fixture f = make_corridor();
    int steps = 0;
    f.env->reset(f.group, 0, 1, f.obs[0], message);
    f.env->reset(f.group, 1, 1, f.obs[1], message);
    do {
        step(&f, steps % 2, steps % 2);
        steps++;
    } while (!f.done[0]);
    ck_assert_int_eq(steps, 4 * CELLS);
    ck_assert(f.truncated[0]);
    f.env->destroy(f.group);
}

TEST(test_example_refuses)
{
    const struct hd_env *env;
    const struct hd_env_option options[] = {{"cells", "2"}, {"length", "9"}};
    struct hd_env_spec spec;
    void *group;
    build_example();
    ck_assert_int_eq(hd_env_find("corridor", &env, message), 0);
    for (int i = 0; i < 2; i++) {
        const struct hd_env_settings settings = {
            .envs = 1, .env_id = "", .options = &options[i], .n_options = 1};
        ck_assert_int_eq(env->create(&settings, &spec, &group, message), -1);
        check_names(message, "`cells`|3 to 1000");
    }
}

/* -- Where plug-ins are searched --------------------------------------------------------------- */

/* A plug-in that is named by its own path: only its name matters here. */
static const char named[] =
    "#include \"kernels/envs/env.h\"\n#include <stddef.h>\n#include <stdlib.h>\n"
    "static int create(const struct hd_env_settings *a, struct hd_env_spec *b, void **c, char *d)"
    "{ return -1; }\n"
    "static int reset(void *a, int64_t b, uint64_t c, void *d, char *e) { return -1; }\n"
    "static int step(void *a, const void *b, const struct hd_env_outcome *c, char *d)"
    "{ return -1; }\n"
    "static int64_t state_bytes(const void *a) { return 0; }\n"
    "static int save(const void *a, int64_t b, void *c, char *d) { return -1; }\n"
    "static int load(void *a, int64_t b, const void *c, char *d) { return -1; }\n"
    "static const struct hd_env env = {ABI, NAME, create, free, reset, step, state_bytes, save,"
    " load};\n"
    "const struct hd_env *hd_env_plugin(void) { return ENV; }\n";

static void build_named(const char *file, const char *defines)
{
    char text[4096];
    snprintf(text, sizeof text,
             "%s\n#ifndef ABI\n#define ABI HD_ENV_ABI\n#endif\n"
             "#ifndef NAME\n#define NAME \"named\"\n#endif\n"
             "#ifndef ENV\n#define ENV &env\n#endif\n%s",
             defines, named);
    build(file, text);
}

TEST(test_builtin)
{
    const struct hd_env *env;
    build_named("cartpole", "");
    ck_assert_int_eq(hd_env_find("cartpole", &env, message), 0);
    ck_assert_ptr_eq(env, &hd_env_cartpole);
}

TEST(test_folders)
{
    char list[3 * PATH_MAX], path[2 * PATH_MAX];
    const struct hd_env *env, *again;
    build_named("first", "");
    snprintf(list, sizeof list, ":/nowhere:%s:%s/more", folder, folder);
    setenv("HEDDLE_PLUGINS", list, 1);
    ck_assert_int_eq(hd_env_find("first", &env, message), 0);
    ck_assert_str_eq(env->name, "named");
    snprintf(path, sizeof path, "%s/heddle_env_first.so", folder);
    unsetenv("HEDDLE_PLUGINS");
    ck_assert_int_eq(hd_env_find(path, &again, message), 0);
    ck_assert_ptr_eq(again, env);
    ck_assert_int_ne(hd_env_find("first", &env, message), 0);
}

/* The folder of plug-ins may lie beside the program. */
TEST(test_program_folder)
{
    char program[PATH_MAX] = "", from[2 * PATH_MAX], plugins[2 * PATH_MAX], to[3 * PATH_MAX];
    const struct hd_env *env;
    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof program - 1), 0);
    *strrchr(program, '/') = '\0';
    build_named("beside", "");
    snprintf(plugins, sizeof plugins, "%s/plugins", program);
    snprintf(from, sizeof from, "%s/heddle_env_beside.so", folder);
    snprintf(to, sizeof to, "%s/heddle_env_beside.so", plugins);
    bool made = mkdir(plugins, 0777) == 0;
    char command[6 * PATH_MAX];
    snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    shell(command);
    unsetenv("HEDDLE_PLUGINS");
    int status = hd_env_find("beside", &env, message);
    unlink(to);
    if (made)
        rmdir(plugins);
    ck_assert_msg(status == 0, "%s", message);
}

/* -- Messages ---------------------------------------------------------------------------------- */

static void check_refused(const char *type, const char *const *parts, int n)
{
    const struct hd_env *env = NULL;
    ck_assert_int_ne(hd_env_find(type, &env, message), 0);
    ck_assert_ptr_null(env);
    for (int i = 0; i < n; i++)
        ck_assert_msg(strstr(message, parts[i]) != NULL, "no '%s' in: %s", parts[i], message);
}

#define CHECK_REFUSED(type, ...)                                                                   \
    check_refused(type, (const char *const[]){__VA_ARGS__},                                        \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

TEST(test_missing)
{
    CHECK_REFUSED("maze", "no environment 'maze'", "cartpole, acrobot, ", "heddle_env_maze.so",
                  folder, "/plugins", "/lib/heddle", "HEDDLE_PLUGINS");
    /* Whoever may write above the program's folder has no say in what it loads. */
    ck_assert_ptr_null(strstr(message, "/../plugins"));
    CHECK_REFUSED("cartpol", "'cartpol' (did you mean 'cartpole'?)", "heddle_env_cartpol.so");
    CHECK_REFUSED("atari", "'atari'", "scripts/atari", "heddle_env_atari.so", folder);
    CHECK_REFUSED("", "no environment ''");
    CHECK_REFUSED("./no/such.so", "./no/such.so cannot be loaded", "No such file");
}

TEST(test_long_names)
{
    static char type[5000];
    const struct hd_env *env;
    memset(type, 'a', sizeof type - 1);
    ck_assert_int_ne(hd_env_find(type, &env, message), 0);
    ck_assert_uint_lt(strlen(message), HD_ENV_MESSAGE);
    type[2000] = '/';
    ck_assert_int_ne(hd_env_find(type, &env, message), 0);
    setenv("HEDDLE_PLUGINS", type, 1);
    ck_assert_int_ne(hd_env_find("maze", &env, message), 0);
}

TEST(test_unusable)
{
    build_named("old", "#define ABI 1");
    CHECK_REFUSED("old", "heddle_env_old.so has version 1 of the interface", "needs 5",
                  "kernels/envs/env.h", "version 5");
    build_named("later", "#define ABI 6");
    CHECK_REFUSED("later", "version 6 of the interface", "needs 5");
    build_named("nothing", "#define ENV NULL");
    CHECK_REFUSED("nothing", "hd_env_plugin returned nothing");
    build_named("partial", "#define NAME \"partial\", create, free, NULL, NULL, NULL, NULL, NULL};"
                           "static const struct hd_env unused = {2, \"unused\"");
    CHECK_REFUSED("partial", "heddle_env_partial.so");
    build("plain", "int x;\n");
    CHECK_REFUSED("plain", "heddle_env_plain.so", "hd_env_plugin");
    build("unresolved", "void nowhere(void);\nvoid f(void) { nowhere(); }\n");
    CHECK_REFUSED("unresolved", "heddle_env_unresolved.so cannot be loaded", "nowhere");
}

TEST(test_not_a_library)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/heddle_env_text.so", folder);
    FILE *file = fopen(path, "w");
    fputs("not a library\n", file);
    fclose(file);
    CHECK_REFUSED("text", "heddle_env_text.so cannot be loaded");
}
