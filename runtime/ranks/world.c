/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/world.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *get_variable(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static int read_int(const char *name, int min, int max, int *value_p)
{
    const char *text = get_variable(name);
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

/* Checks that the variables of torchrun are set together or not at all. */
static int check_present(bool *several_p)
{
    static const char *const names[] = {
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    bool needed = get_variable("RANK") || get_variable("WORLD_SIZE") ||
                  get_variable("LOCAL_RANK") || get_variable("LOCAL_WORLD_SIZE");
    for (int i = 0; needed && i < 2; i++)
        if (!get_variable(names[i]))
            return hd_fail(HD_ERR_INPUT,
                           "%s is not set, but other variables of a run with ranks are; set RANK "
                           "and WORLD_SIZE, or none of RANK, WORLD_SIZE, LOCAL_RANK, "
                           "LOCAL_WORLD_SIZE",
                           names[i]);
    if (needed && !get_variable("LOCAL_RANK") != !get_variable("LOCAL_WORLD_SIZE"))
        return hd_fail(HD_ERR_INPUT, "%s is not set, but %s is; set both or none",
                       get_variable("LOCAL_RANK") ? "LOCAL_WORLD_SIZE" : "LOCAL_RANK",
                       get_variable("LOCAL_RANK") ? "LOCAL_RANK" : "LOCAL_WORLD_SIZE");
    bool several = needed && strcmp(get_variable("WORLD_SIZE"), "1") != 0;
    for (int i = 4; several && i < 6; i++)
        if (!get_variable(names[i]))
            return hd_fail(HD_ERR_INPUT, "%s is not set, but WORLD_SIZE=%.40s is", names[i],
                           get_variable("WORLD_SIZE"));
    *several_p = several;
    return HD_OK;
}

static int read_local(struct hd_world *world)
{
    if (!get_variable("LOCAL_RANK")) {
        bool here = hd_address_is_loopback(world->master_addr);
        world->local_rank = here ? world->rank : 0;
        world->local_world = here ? world->world : 1;
        return HD_OK;
    }
    HD_TRY(read_int("LOCAL_WORLD_SIZE", 1, world->world, &world->local_world));
    return read_int("LOCAL_RANK", 0, world->local_world - 1, &world->local_rank);
}

static int read_master(struct hd_world *world)
{
    const char *address = get_variable("MASTER_ADDR");
    HD_TRY(read_int("MASTER_PORT", 1, 65535, &world->master_port));
    return address ? hd_address_read("MASTER_ADDR", address, world->master_addr) : HD_OK;
}

/* torchrun's attempts share the key, as its nodes count them differently. Ranks of `runner launch`
 * may have torchrun's variables as well. */
static void read_agent_store(struct hd_world *world)
{
    const char *uses = get_variable("TORCHELASTIC_USE_AGENT_STORE");
    const char *run = get_variable("TORCHELASTIC_RUN_ID");
    if (uses && strcmp(uses, "True") == 0 && !world->supervised)
        snprintf(world->store_key, sizeof world->store_key, "heddle/%s", run ? run : "");
}

static int read_env(struct hd_world *world)
{
    bool several;
    HD_TRY(check_present(&several));
    HD_TRY(read_int("WORLD_SIZE", 1, HD_WORLD_MAX, &world->world));
    HD_TRY(read_int("RANK", 0, world->world - 1, &world->rank));
    if (!several)
        return HD_OK;
    HD_TRY(read_master(world));
    HD_TRY(read_local(world));
    read_agent_store(world);
    return world->rank == 0 ? read_int("HD_RENDEZVOUS_FD", 3, 1 << 20, &world->rendezvous_fd)
                            : HD_OK;
}

static int read_mpirun(struct hd_world *world)
{
    world->launcher = HD_LAUNCHER_MPIRUN;
    world->local_world = 0;
    HD_TRY(read_int("OMPI_COMM_WORLD_SIZE", 1, HD_WORLD_MAX, &world->world));
    HD_TRY(read_int("OMPI_COMM_WORLD_RANK", 0, world->world - 1, &world->rank));
    HD_TRY(read_int("OMPI_COMM_WORLD_LOCAL_SIZE", 1, world->world, &world->local_world));
    if (world->local_world == 0)
        return hd_fail(HD_ERR_INPUT, "OMPI_COMM_WORLD_LOCAL_SIZE is not set, but "
                                     "OMPI_COMM_WORLD_SIZE is");
    HD_TRY(read_int("OMPI_COMM_WORLD_LOCAL_RANK", 0, world->local_world - 1, &world->local_rank));
    return world->world > 1 ? read_master(world) : HD_OK;
}

/* -- SLURM ------------------------------------------------------------------------------------- */

/* Tells a task of srun from the script of sbatch, which has the same variables, but a step number
 * at the end of the range, or none. */
static bool is_slurm_step(void)
{
    const char *step = get_variable("SLURM_STEP_ID");
    return step && strtoul(step, NULL, 10) < 0xfffffff0ul;
}

/* Copies the first node of a list: of "node[003-007,012],other" it is node003. */
static void copy_first_node(const char *list, char *name, size_t bytes)
{
    size_t used = 0;
    bool inside = false, skipping = false;
    for (; *list && used + 1 < bytes; list++) {
        const char c = *list;
        if (c == '[' || c == ']')
            inside = c == '[', skipping = false;
        else if (c == ',' && !inside)
            break;
        else if (inside && (c == ',' || c == '-'))
            skipping = true;
        else if (!skipping)
            name[used++] = c;
    }
    name[used] = '\0';
}

/* Returns the tasks of a node: "4(x2),3" gives nodes 0 and 1 four each and node 2 three. Returns 0
 * when the text does not tell. */
static int parse_tasks_of_node(const char *text, int node)
{
    while (text && *text) {
        char *end;
        long tasks = strtol(text, &end, 10), times = 1;
        if (sscanf(end, "(x%ld)", &times) == 1)
            end = strchr(end, ')') ? strchr(end, ')') + 1 : end;
        if (node < times)
            return tasks > 0 && tasks <= HD_WORLD_MAX ? (int)tasks : 0;
        node -= (int)times;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

static const char *get_node_list(void)
{
    return get_variable("SLURM_STEP_NODELIST") ? get_variable("SLURM_STEP_NODELIST")
                                               : get_variable("SLURM_JOB_NODELIST");
}

/* Chooses a port below the range from which systems take ports by themselves. */
static int choose_port_of_slurm_job(void)
{
    enum { FIRST = 20000, PORTS = 12000 };
    const char *job = get_variable("SLURM_JOB_ID"), *step = get_variable("SLURM_STEP_ID");
    unsigned long number = (job ? strtoul(job, NULL, 10) : 0) * 31 + strtoul(step, NULL, 10);
    return FIRST + (int)(number % PORTS);
}

static int read_srun(struct hd_world *world)
{
    int node = 0;
    const char *tasks = get_variable("SLURM_STEP_TASKS_PER_NODE");
    world->launcher = HD_LAUNCHER_SRUN;
    HD_TRY(read_int("SLURM_NTASKS", 1, HD_WORLD_MAX, &world->world));
    HD_TRY(read_int("SLURM_PROCID", 0, world->world - 1, &world->rank));
    HD_TRY(read_int("SLURM_NODEID", 0, HD_WORLD_MAX - 1, &node));
    world->local_world =
        parse_tasks_of_node(tasks ? tasks : get_variable("SLURM_TASKS_PER_NODE"), node);
    if (world->local_world == 0)
        return hd_fail(HD_ERR_INPUT,
                       "neither SLURM_STEP_TASKS_PER_NODE nor SLURM_TASKS_PER_NODE "
                       "tells the tasks of node %d",
                       node);
    HD_TRY(read_int("SLURM_LOCALID", 0, world->local_world - 1, &world->local_rank));
    if (world->world == 1)
        return HD_OK;
    world->master_port = choose_port_of_slurm_job();
    if (get_node_list())
        copy_first_node(get_node_list(), world->master_addr, sizeof world->master_addr);
    HD_TRY(read_master(world));
    if (!world->master_addr[0])
        return hd_fail(HD_ERR_INPUT, "neither SLURM_STEP_NODELIST nor MASTER_ADDR tells where rank "
                                     "0 is");
    return HD_OK;
}

bool hd_world_read_slurm_node(int *node_rank_p, char master_addr_p[HD_ADDR_BYTES])
{
    int node;
    if (!is_slurm_step() || !get_node_list() || !get_variable("SLURM_NODEID") ||
        read_int("SLURM_NODEID", 0, HD_WORLD_MAX - 1, &node) != HD_OK)
        return false;
    *node_rank_p = node;
    copy_first_node(get_node_list(), master_addr_p, HD_ADDR_BYTES);
    return true;
}

/* Ranks of `runner launch` are ended by the kernel when it ends; a single rank is its user's. */
static int find_starter(const struct hd_world *world)
{
    const bool launched = world->launcher != HD_LAUNCHER_ENV || get_variable("TORCHELASTIC_RUN_ID");
    return launched && !world->supervised ? (int)getppid() : 0;
}

int hd_world_read(struct hd_world *world_p)
{
    struct hd_world world = {.world = 1, .local_world = 1, .rendezvous_fd = -1};
    world.supervised = get_variable("HD_SUPERVISED") != NULL;
    const bool env = get_variable("RANK") || get_variable("WORLD_SIZE") ||
                     get_variable("LOCAL_RANK") || get_variable("LOCAL_WORLD_SIZE");
    if (!env && get_variable("OMPI_COMM_WORLD_RANK") && get_variable("OMPI_COMM_WORLD_SIZE"))
        HD_TRY(read_mpirun(&world));
    else if (!env && is_slurm_step() && get_variable("SLURM_PROCID") &&
             get_variable("SLURM_NTASKS"))
        HD_TRY(read_srun(&world));
    else
        HD_TRY(read_env(&world));
    world.starter = find_starter(&world);
    *world_p = world;
    return HD_OK;
}

/* -- The secret -------------------------------------------------------------------------------- */

static int allow_anybody(const struct hd_world *world)
{
    if (world->rank == 0)
        hd_log(HD_LOG_WARN, "--insecure: whoever reaches port %d of this host may join the run",
               world->master_port);
    return HD_OK;
}

int hd_world_read_secret(struct hd_world *world, const char *file, bool insecure)
{
    if (world->world == 1)
        return HD_OK;
    HD_TRY(hd_secret_read(file, &world->has_secret, world->secret));
    if (world->has_secret || world->launcher == HD_LAUNCHER_MPIRUN)
        return HD_OK;
    if (insecure)
        return allow_anybody(world);
    world->shares_secret = world->local_world == world->world;
    if (world->shares_secret)
        return HD_OK;
    if (world->local_rank != 0)
        return HD_ERR_INPUT;
    return hd_fail(
        HD_ERR_INPUT,
        "%d ranks on several nodes have no secret by which they know each other; add "
        "this line before the command that starts all of them: export "
        "HEDDLE_SECRET=$(head -c 32 /dev/urandom | base64)   (or name a file of mode 600 "
        "by HEDDLE_SECRET_FILE, or let anybody join by --insecure)",
        world->world);
}

/* -- Addresses --------------------------------------------------------------------------------- */

bool hd_address_is_unspecified(const char *address)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list;
    if (getaddrinfo(address, NULL, &hints, &list) != 0)
        return false;
    const struct in_addr *four = &((struct sockaddr_in *)list->ai_addr)->sin_addr;
    const struct in6_addr *six = &((struct sockaddr_in6 *)list->ai_addr)->sin6_addr;
    const struct in6_addr mapped = {.s6_addr = {[10] = 255, [11] = 255}}; /* ::ffff:0.0.0.0 */
    const bool found = list->ai_family == AF_INET
                           ? four->s_addr == htonl(INADDR_ANY)
                           : IN6_IS_ADDR_UNSPECIFIED(six) || IN6_ARE_ADDR_EQUAL(six, &mapped);
    freeaddrinfo(list);
    return found;
}

int hd_address_read(const char *from, const char *text, char address_p[HD_ADDR_BYTES])
{
    const size_t length = strlen(text);
    const bool brackets = length > 1 && text[0] == '[' && text[length - 1] == ']';
    if (length >= HD_ADDR_BYTES)
        return hd_fail(HD_ERR_INPUT, "%s is longer than %d bytes", from, HD_ADDR_BYTES - 1);
    snprintf(address_p, HD_ADDR_BYTES, "%.*s", (int)length - 2 * brackets, text + brackets);
    if (!address_p[0] || address_p[0] == '[' || hd_address_is_unspecified(address_p))
        return hd_fail(HD_ERR_INPUT,
                       "%s is '%s': expected a name or an address of rank 0's host to which the "
                       "other ranks can connect",
                       from, text);
    return HD_OK;
}

bool hd_address_is_loopback(const char *address)
{
    return strcasecmp(address, "localhost") == 0 || strncmp(address, "127.", 4) == 0 ||
           strcmp(address, "::1") == 0;
}
