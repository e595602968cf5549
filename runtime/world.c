/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/world.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *get(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static int read_int(const char *name, int min, int max, int *value_p)
{
    const char *text = get(name);
    if (!text)
        return HD_OK;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < min ||
        value > max)
        return hd_fail(HD_ERR_INPUT, "%s=%.40s in the environment: expected a number from %d to %d",
                       name, text, min, max);
    *value_p = (int)value;
    return HD_OK;
}

/* These come together or not at all: a launcher that sets only some was misused. */
static int check_present(bool *several_p)
{
    static const char *const names[] = {
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    bool needed = get("RANK") || get("WORLD_SIZE") || get("LOCAL_RANK") || get("LOCAL_WORLD_SIZE");
    for (int i = 0; needed && i < 2; i++)
        if (!get(names[i]))
            return hd_fail(HD_ERR_INPUT,
                           "%s is not set, but other variables of a run with ranks are; set RANK "
                           "and WORLD_SIZE, or none of RANK, WORLD_SIZE, LOCAL_RANK, "
                           "LOCAL_WORLD_SIZE",
                           names[i]);
    if (needed && !get("LOCAL_RANK") != !get("LOCAL_WORLD_SIZE"))
        return hd_fail(HD_ERR_INPUT, "%s is not set, but %s is; set both or none",
                       get("LOCAL_RANK") ? "LOCAL_WORLD_SIZE" : "LOCAL_RANK",
                       get("LOCAL_RANK") ? "LOCAL_RANK" : "LOCAL_WORLD_SIZE");
    bool several = needed && strcmp(get("WORLD_SIZE"), "1") != 0;
    for (int i = 4; several && i < 6; i++)
        if (!get(names[i]))
            return hd_fail(HD_ERR_INPUT, "%s is not set, but WORLD_SIZE=%.40s is", names[i],
                           get("WORLD_SIZE"));
    *several_p = several;
    return HD_OK;
}

static int read_local(struct hd_world *world)
{
    if (!get("LOCAL_RANK")) {
        bool here = hd_address_is_loopback(world->master_addr);
        world->local_rank = here ? world->rank : 0;
        world->local_world = here ? world->world : 1;
        return HD_OK;
    }
    HD_TRY(read_int("LOCAL_WORLD_SIZE", 1, world->world, &world->local_world));
    return read_int("LOCAL_RANK", 0, world->local_world - 1, &world->local_rank);
}

int hd_world_read(struct hd_world *world_p)
{
    struct hd_world world = {.world = 1, .local_world = 1, .store_fd = -1};
    world.supervised = get("HD_SUPERVISED") != NULL;
    bool several;
    HD_TRY(check_present(&several));
    HD_TRY(read_int("WORLD_SIZE", 1, HD_WORLD_MAX, &world.world));
    HD_TRY(read_int("RANK", 0, world.world - 1, &world.rank));
    if (several) {
        HD_TRY(read_int("MASTER_PORT", 1, 65535, &world.master_port));
        int length =
            snprintf(world.master_addr, sizeof world.master_addr, "%s", get("MASTER_ADDR"));
        if (length >= (int)sizeof world.master_addr)
            return hd_fail(HD_ERR_INPUT, "MASTER_ADDR is longer than %d bytes", HD_ADDR_BYTES - 1);
        HD_TRY(read_local(&world));
        if (world.rank == 0)
            HD_TRY(read_int("HD_STORE_FD", 3, 1 << 20, &world.store_fd));
    }
    *world_p = world;
    return HD_OK;
}

bool hd_address_is_loopback(const char *address)
{
    return strcasecmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 ||
           strcmp(address, "::1") == 0;
}
