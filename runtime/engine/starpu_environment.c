/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the environment in which StarPU starts, and sets it back, so that programs which this one
 * starts inherit nothing of it. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/engine/session_internal.h"
#include "runtime/machine/temp_dir.h"

#include <stdlib.h>

static struct {
    const char *name;
    const char *value;
    char *before; /* while StarPU starts; or NULL */
} variables[] = {
    {.name = "STARPU_SILENT", .value = "1"},
    {.name = "STARPU_CATCH_SIGNALS", .value = "0"}, /* it would call our handlers without siginfo */
    /* The process is bound to this rank's cores already; StarPU would bind every rank's workers
     * from CPU 0 on. */
    {.name = "STARPU_WORKERS_NOBIND", .value = "1"},
#ifndef STARPU_KEEPS_NO_FILES
    /* A StarPU that scripts/starpu has not built measures all visible GPUs, which resets them, and
     * keeps the results in files, of which torn ones end it. It gets no GPU, and a folder for this
     * start alone, which comes last. */
    {.name = "CUDA_VISIBLE_DEVICES", .value = ""},
    {.name = "STARPU_HOME"},
#endif
};

enum { N_VARIABLES = sizeof variables / sizeof *variables };

#ifdef STARPU_KEEPS_NO_FILES
static int make_home(void)
{
    return HD_OK;
}

static void remove_home(void)
{
}
#else
enum { HOME_BYTES = 1 << 20 };

static char *home;

static int make_home(void)
{
    HD_TRY(hd_temp_dir_make(HOME_BYTES, &home));
    variables[N_VARIABLES - 1].value = home;
    return HD_OK;
}

static void remove_home(void)
{
    hd_temp_dir_remove(home);
}
#endif

int hd_starpu_environment_enter(void)
{
    /* hwloc, which StarPU starts, would ask for X displays, for seconds where names do not resolve.
     */
    setenv("HWLOC_COMPONENTS", "-gl", 0);
    HD_TRY(make_home());
    for (int i = 0; i < N_VARIABLES; i++) {
        const char *before = getenv(variables[i].name);
        variables[i].before = before ? hd_strdup(before) : NULL;
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
    remove_home();
}
