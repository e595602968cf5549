/* SPDX-License-Identifier: Apache-2.0 */
/* The root of this program is its folder (a build), or, where that is <root>/bin or
 * <root>/lib/heddle/<instruction set> (an installation), the folder above, which may be moved as a
 * whole. Plug-ins are looked for in the folders of $HEDDLE_PLUGINS (a colon list), in <folder of
 * the program>/plugins (a build) and in <root>/lib/heddle (an installation), in this order. Any
 * thread may call. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Writes the root of this program; "" where Linux does not tell its path. */
void hd_plugin_find_root(char root_p[PATH_MAX]);

/* Writes the folders, with a colon between two of them, to list[bytes]; the end is cut.
 */
void hd_plugin_list_folders(char *list, size_t bytes);

/* Writes to path_p[bytes] the path of the first of these folders' files that is called `file`.
 * Returns whether there is one; otherwise path_p is undefined. */
bool hd_plugin_find(const char *file, char *path_p, size_t bytes);

/* Loads the library `file` of these folders and returns what it exports as `symbol`, whose first
 * member is an int: the version of the interface, equal to abi. `library` is what the plug-in is
 * for, and `package` whose absence left it out of a build. global: its symbols are for libraries
 * that it loads, too. Returns NULL on errors (not logged), with a sentence in why[bytes]. */
const void *hd_plugin_load(const char *file, const char *symbol, int abi, bool global,
                           const char *library, const char *package, char *why, size_t bytes);
