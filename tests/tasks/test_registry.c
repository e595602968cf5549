/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the table of verbs as a whole. */
#include "tasks/base/builtin.h"
#include "tests/harness/check.h"

#include <stdlib.h>

TEST(every_verb_has_a_stream_of_its_own)
{
    const struct hd_verb *const *verbs = hd_registry_get_builtin()->verbs;
    for (int i = 0; verbs[i]; i++) {
        ck_assert_msg(verbs[i]->stream_id != 0, "%s has no stream_id", verbs[i]->name);
        for (int j = 0; j < i; j++)
            ck_assert_msg(verbs[i]->stream_id != verbs[j]->stream_id,
                          "%s and %s have the same stream_id", verbs[i]->name, verbs[j]->name);
    }
}

/* A checkpoint's bits may be any: a type that takes them as they are says so by hd_value_accept. */
TEST(every_type_says_what_it_accepts)
{
    const struct hd_type *const *types = hd_registry_get_builtin()->types;
    for (int i = 0; types[i]; i++)
        ck_assert_msg(types[i]->check != NULL, "%s has no check", types[i]->name);
}
