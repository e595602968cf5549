/* SPDX-License-Identifier: Apache-2.0 */
/* Clears what of the user's environment would hold up this program, before any library reads it.
 * docs/configuration.md, section "Environment variables", lists what is heeded, cleared and passed
 * on. Called by the main thread. */
#pragma once

/* Logs the names of the variables that were cleared, if there are any and this process is not one
 * of several ranks after the first. */
void hd_environment_report(void);
