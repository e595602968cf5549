/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the environment in which StarPU starts, and sets it back, so that programs which this one
 * starts inherit nothing of it; and keeps the files that StarPU writes in a temporary folder. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/session_internal.h"
#include "runtime/io/base/files.h"
#include "runtime/machine/temp_dir.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>

/* A StarPU that scripts/starpu has not built measures all visible GPUs, which resets them: it gets
 * none. Files that it keeps, of buses, end it when they are torn; models that cannot be written end
 * any StarPU. So it has a folder of its own, and models are copied from and to the user's. */
#ifdef STARPU_KEEPS_NO_FILES
enum { KEEPS_FILES = false };
#else
enum { KEEPS_FILES = true };
#endif

static struct {
    const char *name;
    const char *value; /* NULL: as it is */
    char *before;      /* while StarPU starts; or NULL */
} variables[] = {
    {.name = "STARPU_SILENT", .value = "1"},
    {.name = "STARPU_CATCH_SIGNALS", .value = "0"}, /* it would call our handlers without siginfo */
    /* The process is bound to this rank's cores already; StarPU would bind every rank's workers
     * from CPU 0 on. */
    {.name = "STARPU_WORKERS_NOBIND", .value = "1"},
    {.name = "CUDA_VISIBLE_DEVICES", .value = KEEPS_FILES ? "" : NULL},
    /* Its temporary folder, if it has one. StarPU looks in both places. */
    {.name = "STARPU_PERF_MODEL_DIR"},
    {.name = "XDG_CACHE_HOME"},
};

enum { N_VARIABLES = sizeof variables / sizeof *variables, HOME_BYTES = 1 << 20 };

static char *home;

static void set_home(char *path)
{
    home = path;
    variables[N_VARIABLES - 1].value = variables[N_VARIABLES - 2].value = path;
}

void hd_starpu_environment_clean(void)
{
    hd_temp_dir_remove(home);
    set_home(NULL);
}

/* -- Performance models ------------------------------------------------------------------------ */

static struct {
    const char *from, *to; /* NULL: the files go */
} moving;

/* A file that cannot be read is told of and left out. */
static int copy_file(const char *path)
{
    char *content, *copy = hd_format("%s%s", moving.to, path + strlen(moving.from));
    char why[HD_FILE_WHY] = "no memory";
    int64_t bytes;
    int status = copy ? HD_OK : HD_ERR_NOMEM;
    if (copy && hd_file_read(path, HD_INPUT_NAMED, &content, &bytes) == HD_OK) {
        status = hd_file_try_write_atomic(copy, content, bytes, why);
        hd_free(content);
    }
    if (status != HD_OK)
        hd_log(HD_LOG_WARN, "performance models are not all kept: %s", why);
    hd_free(copy);
    return status;
}

static int move_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)at;
    return kind != FTW_F ? 0 : moving.to ? copy_file(path) : remove(path);
}

/* Copies the models in a folder to another one, up to the first that cannot be, or removes them. */
static void move_models(const char *from, const char *to)
{
    enum { FOLDERS_OPEN = 16 };
    char *codelets = hd_format("%s/codelets", from);
    moving.from = from;
    moving.to = to;
    if (codelets)
        nftw(codelets, move_entry, FOLDERS_OPEN, FTW_PHYS);
    hd_free(codelets);
}

void hd_starpu_models_move(const char *dir)
{
    move_models(home, dir);
}

/* -- The environment --------------------------------------------------------------------------- */

int hd_starpu_environment_enter(bool models, const char *dir)
{
    /* hwloc, which StarPU starts, would ask for X displays, for seconds where names do not resolve.
     */
    setenv("HWLOC_COMPONENTS", "-gl", 0);
    if (models || KEEPS_FILES) {
        char *path;
        HD_TRY(hd_temp_dir_make(HOME_BYTES, &path));
        set_home(path);
    }
    if (models && dir)
        move_models(dir, home);
    for (int i = 0; i < N_VARIABLES; i++) {
        const char *before = getenv(variables[i].name);
        variables[i].before = before ? hd_strdup(before) : NULL;
        if (variables[i].value)
            setenv(variables[i].name, variables[i].value, 1);
    }
    return HD_OK;
}

void hd_starpu_environment_leave(void)
{
    for (int i = 0; i < N_VARIABLES; i++) {
        if (variables[i].before)
            setenv(variables[i].name, variables[i].before, 1);
        else
            unsetenv(variables[i].name);
        hd_free(variables[i].before);
    }
}
