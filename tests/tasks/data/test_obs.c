/* SPDX-License-Identifier: Apache-2.0 */
/* Observations of several parts: where these lie, in how many bytes, and how they are written. */
#include "runtime/base/status.h"
#include "tasks/base/run_keys.h"
#include "tasks/types/base/obs.h"
#include "tests/harness/check.h"

#include <stdio.h>

static const struct hd_env_spec frame = {.element = HD_ENV_U8,
                                         .dims = 1,
                                         .shape = {56},
                                         .n_parts = 3,
                                         .part = {{"gray", HD_ENV_U8, 2, {3, 5}},
                                                  {"numbers", HD_ENV_F32, 1, {4}},
                                                  {"colours", HD_ENV_U8, 3, {3, 2, 4}}}};

static void check_part(const struct hd_obs_part *part, int64_t offset, int64_t bytes, int64_t first)
{
    ck_assert_int_eq(part->offset, offset);
    ck_assert_int_eq(part->bytes, bytes);
    ck_assert_int_eq(part->shape[0], first);
}

/* Parts begin at multiples of four; frames are joined in the first dimension. */
TEST(parts_follow_one_another)
{
    char text[HD_OBS_TEXT];
    const struct hd_obs_shape obs = hd_obs_shape_make(&frame, 2), one = hd_obs_shape_unstack(&obs);
    ck_assert(obs.n_parts == 3 && obs.u8 && obs.frame_bytes == 56 && obs.obs_bytes == 112);
    check_part(&obs.part[0], 0, 15, 2);
    check_part(&obs.part[1], 16, 16, 8);
    check_part(&obs.part[2], 32, 24, 6);
    ck_assert_str_eq(hd_obs_shape_write(&obs, text),
                     "{gray: [2, 3, 5], numbers: [8], colours: [6, 2, 4]}");
    ck_assert_str_eq(hd_obs_shape_write(&one, text),
                     "{gray: [1, 3, 5], numbers: [4], colours: [3, 2, 4]}");
    ck_assert(one.obs_bytes == 56 && one.stack == 1);
}

/* A configuration that holds what was written has the same parts. */
TEST(a_config_describes_the_same)
{
    char text[HD_OBS_TEXT], again[HD_OBS_TEXT], shape[HD_OBS_TEXT + 64];
    const struct hd_obs_shape wanted = hd_obs_shape_make(&frame, 2);
    int n;
    const struct hd_key *const *keys = hd_run_keys_get(&n);
    struct hd_config *config;
    struct hd_diag *diag;
    snprintf(shape, sizeof shape, "policy.model.obs_shape=%s", hd_obs_shape_write(&wanted, text));
    const struct hd_set sets[] = {{"graph={}", NULL}, {"env.frame_stack=2", NULL}, {shape, NULL}};
    ck_assert_int_eq(hd_diag_create(&diag), HD_OK);
    ck_assert_int_eq(hd_config_create(keys, n, NULL, sets, 3, diag, &config), HD_OK);
    const struct hd_obs_shape found = hd_obs_shape_read(config);
    ck_assert_str_eq(hd_obs_shape_write(&found, again), text);
    for (int i = 0; i < 3; i++)
        check_part(&found.part[i], wanted.part[i].offset, wanted.part[i].bytes,
                   wanted.part[i].shape[0]);
    ck_assert(hd_obs_has_parts(&found) && found.obs_bytes == wanted.obs_bytes);
    hd_config_destroy(config);
    hd_diag_destroy(diag);
}

TEST(one_array_is_a_part_without_a_name)
{
    static const struct hd_env_spec array = {.element = HD_ENV_U8, .dims = 2, .shape = {3, 5}};
    char text[HD_OBS_TEXT];
    const struct hd_obs_shape obs = hd_obs_shape_make(&array, 3);
    ck_assert(obs.n_parts == 1 && !hd_obs_has_parts(&obs) && obs.obs_bytes == 45);
    ck_assert_str_eq(hd_obs_shape_write(&obs, text), "[3, 3, 5]");
}
