/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the Python that steps envs of Gymnasium where the run file names no other. */
#include "runner/doctor/doctor.h"
#include "runtime/base/plugin.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "import platform, gymnasium;"
                              "print(platform.python_version(), gymnasium.__version__)";

void hd_python_find(struct hd_python *python_p)
{
    char path[PATH_MAX], command[PATH_MAX + 256];
    const char *named = getenv("HEDDLE_PYTHON");
    *python_p = (struct hd_python){0};
    if (!hd_plugin_find("gymnasium/bin/python", path, sizeof path))
        snprintf(path, sizeof path, "%s", named && *named ? named : "python3");
    if (strchr(path, '\''))
        return;
    snprintf(command, sizeof command, "'%s' -c '%s' 2>/dev/null </dev/null", path, program);
    FILE *output = popen(command, "r");
    if (!output)
        return;
    const int n = fscanf(output, "%31s %31s", python_p->python, python_p->gymnasium);
    if (pclose(output) != 0 || n != 2)
        *python_p = (struct hd_python){0};
    snprintf(python_p->path, sizeof python_p->path, "%s", path);
}
