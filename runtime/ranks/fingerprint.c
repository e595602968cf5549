/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/fingerprint.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/subnormal.h"

#include <errno.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>

/* Returns which of its forms of expf, logf and others the C library chooses here. */
static const char *math_functions(void)
{
#if defined __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? " fma" : "";
#else
    return "";
#endif
}

int hd_fingerprint_create(const char *isa, const char *libraries, const char *precision,
                          struct hd_fingerprint *fingerprint_p)
{
    uint64_t program = 0;
    if (!hd_hash_file("/proc/self/exe", &program))
        return hd_fail(HD_ERR_SYSTEM, "this program cannot be read: %s", strerror(errno));
    /* The rest of what the processor has does not count: only oneDNN and the C library look at
     * it, and what they choose is here. The C library's version counts because its expf and logf
     * do; the number of OpenMP threads and the alignment are constants here, listed because results
     * of builds without them differ. */
    struct hd_fingerprint made;
    int length = snprintf(made.text, sizeof made.text,
                          "isa=%s; exe=%016llx; libraries=%s, libc %s%s; precision=%s; omp=1; "
                          "alignment=%d; subnormals=%s",
                          isa, (unsigned long long)program, libraries, gnu_get_libc_version(),
                          math_functions(), precision, HD_ALIGNMENT,
                          hd_subnormals_are_flushed() ? "zero" : "kept");
    if (length >= (int)sizeof made.text)
        return hd_fail(HD_ERR_INPUT, "the arithmetic fingerprint is longer than %d bytes",
                       HD_FINGERPRINT_BYTES - 1);
    made.hash = hd_hash_text(made.text);
    *fingerprint_p = made;
    return HD_OK;
}

/* Returns the length of the item "key=value" at the start of a text, up to ';' or the end. */
static size_t item_length(const char *text)
{
    return strcspn(text, ";");
}

static const char *next_item(const char *text)
{
    text += item_length(text);
    return *text ? text + 1 + strspn(text + 1, " ") : text;
}

static const char *find_item(const char *text, const char *key, size_t key_length)
{
    for (; *text; text = next_item(text))
        if (strncmp(text, key, key_length) == 0 && text[key_length] == '=')
            return text;
    return NULL;
}

void hd_fingerprint_diff(const char *a, const char *b, char *text, size_t bytes)
{
    size_t used = 0;
    if (bytes > 0)
        text[0] = '\0';
    if (strcmp(a, b) == 0)
        return;
    for (const char *item = a; *item && used < bytes; item = next_item(item)) {
        size_t length = item_length(item), key = strcspn(item, "=;");
        const char *other = find_item(b, item, key);
        size_t other_length = other ? item_length(other) : 0;
        if (other && length == other_length && memcmp(item, other, length) == 0)
            continue;
        const char *value = key < length ? item + key + 1 : item;
        const char *other_value = other ? other + key + 1 : "nothing";
        size_t other_value_length = other ? other_length - key - 1 : strlen(other_value);
        used += (size_t)snprintf(text + used, bytes - used, "%s%.*s: %.*s against %.*s",
                                 used > 0 ? "; " : "", (int)key, item, (int)(item + length - value),
                                 value, (int)other_value_length, other_value);
    }
    if (used == 0)
        snprintf(text, bytes, "%s against %s", a, b);
}
