/* SPDX-License-Identifier: Apache-2.0 */
/* Golden numbers: a digit that was changed in a file is noticed. */
#include "tests/golden/golden.h"
#include "tests/kernels/common/check_close.h"

static int count_files(void)
{
    int n = 0;
    while (golden_files[n].name)
        n++;
    return n;
}

/* Some 50 digits all over the file, among them last ones, which no tolerance would notice. */
TEST(a_changed_digit_is_noticed, .runs = count_files())
{
    const struct golden_file *file = &golden_files[_i];
    const size_t bytes = strlen(file->text) + 1;
    char *text = test_alloc((int64_t)bytes, 1), *digit;
    int changed = 0;
    memcpy(text, file->text, bytes);
    ck_assert_msg(golden_is_whole(text), "%s", file->name);
    for (size_t at = 0; at < bytes && (digit = strpbrk(text + at, "0123456789"));
         at += bytes / 50, changed++) {
        *digit ^= 1;
        ck_assert_msg(!golden_is_whole(text), "%s: character %d", file->name, (int)(digit - text));
        *digit ^= 1;
    }
    ck_assert_int_ge(changed, 40);
    ck_assert(golden_is_whole(text));
}

TEST(what_is_no_file_is_not_whole)
{
    ck_assert(!golden_is_whole(""));
    ck_assert(!golden_is_whole("{\"crc32\": \"00000000\","));
    ck_assert(!golden_is_whole("{\"crc32\": \"00000001\",\n"));
    ck_assert(golden_is_whole("{\"crc32\": \"00000000\",\n"));
}
