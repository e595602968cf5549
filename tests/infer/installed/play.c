/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else's: plays one episode by a trained policy, and prints its return. Built
 * against an installation (tests/infer/test_install.py). */
#include <heddle/infer.h>
#include <stdio.h>
#include <stdlib.h>

static char message[HEDDLE_MESSAGE];

static void try(int status)
{
    if (status == HEDDLE_OK)
        return;
    fprintf(stderr, "%s\n", message);
    exit(1);
}

int main(int argc, char **argv)
{
    struct heddle_policy *policy;
    struct heddle_envs *envs;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (argc < 2)
        return 2;
    try(heddle_policy_load(argv[1], NULL, &policy, message));
    try(heddle_policy_create_envs(policy, 1, false, false, &envs, message));
    float obs[4], reward, total = 0;
    int64_t action;
    bool terminated = false, truncated = false;
    try(heddle_envs_reset(envs, NULL, &seed, obs, message));
    while (!terminated && !truncated) {
        try(heddle_policy_act(policy, HEDDLE_F32, obs, 1, NULL, &action, message));
        try(heddle_envs_step(envs, &action, obs, &reward, &terminated, &truncated, message));
        total += reward;
    }
    printf("%g\n", total);
    heddle_envs_destroy(envs);
    heddle_policy_destroy(policy);
    return 0;
}
