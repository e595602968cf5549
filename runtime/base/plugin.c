/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Cuts the last name off a path and returns it; "" where there is none. */
static const char *cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return "";
    *slash = '\0';
    return slash + 1;
}

/* Writes the folder of this program; "" where Linux does not tell its path. */
static void find_folder(char folder_p[PATH_MAX])
{
    const ssize_t length = readlink("/proc/self/exe", folder_p, PATH_MAX - 1);
    folder_p[length > 0 ? length : 0] = '\0';
    cut(folder_p);
}

void hd_plugin_find_root(char root_p[PATH_MAX])
{
    char above[PATH_MAX];
    find_folder(root_p);
    strcpy(above, root_p);
    const bool is_bin = strcmp(cut(above), "bin") == 0;
    if (is_bin || (strcmp(cut(above), "heddle") == 0 && strcmp(cut(above), "lib") == 0))
        strcpy(root_p, above);
}

void hd_plugin_list_folders(char *list, size_t bytes)
{
    char folder[PATH_MAX], root[PATH_MAX];
    const char *extra = getenv("HEDDLE_PLUGINS");
    find_folder(folder);
    hd_plugin_find_root(root);
    snprintf(list, bytes, "%s%s%s/plugins:%s/lib/heddle", extra ? extra : "",
             extra && *extra ? ":" : "", folder, root);
}

bool hd_plugin_find(const char *file, char *path_p, size_t bytes)
{
    char list[3 * PATH_MAX];
    hd_plugin_list_folders(list, sizeof list);
    for (const char *at = list; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
        int length = (int)strcspn(at, ":");
        snprintf(path_p, bytes, "%.*s/%s", length, at, file);
        if (length > 0 && access(path_p, F_OK) == 0)
            return true;
    }
    return false;
}

const void *hd_plugin_load(const char *file, const char *symbol, int abi, bool global,
                           const char *library, const char *package, char *why, size_t bytes)
{
    char path[PATH_MAX], folders[512];
    if (!hd_plugin_find(file, path, sizeof path)) {
        hd_plugin_list_folders(folders, sizeof folders);
        snprintf(why, bytes,
                 "this program was built without %s: there is no %s in %s (install %s and build "
                 "again)",
                 library, file, folders, package);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!handle) {
        snprintf(why, bytes, "%s cannot be loaded: %s", library, dlerror());
        return NULL;
    }
    const int *found = dlsym(handle, symbol);
    if (found && *found == abi)
        return found;
    snprintf(why, bytes, "%s is of another build of this program", file);
    return NULL;
}
