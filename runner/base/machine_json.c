/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/machine_json.h"

#include "tasks/output/inspect.h"

#include <string.h>

json_t *hd_machine_build_json(const struct hd_machine *m)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, "
        "s:f, s:I}",
        "host", m->host, "kernel", m->kernel, "cpu", m->cpu, "governor", m->governor, "packages",
        m->packages, "numa_nodes", m->numa_nodes, "cores", m->cores, "threads", m->threads,
        "allowed_cores", m->allowed_cores, "memory_bytes", (json_int_t)m->memory_bytes,
        "memory_free_bytes", (json_int_t)m->memory_free_bytes, "shm_bytes",
        (json_int_t)m->shm_bytes, "shm_free_bytes", (json_int_t)m->shm_free_bytes, "open_files",
        (json_int_t)m->open_files, "locked_bytes", (json_int_t)m->locked_bytes, "cgroup_cores",
        m->limits.cpu_quota, "cgroup_memory_bytes", (json_int_t)m->limits.memory_bytes);
}

json_t *hd_versions_build_json(bool ask_gpus)
{
    struct hd_version versions[HD_VERSIONS_MAX];
    char libraries[256];
    json_t *json = json_object();
    const int n = hd_versions_read(ask_gpus, versions);
    for (int i = 0; i < n; i++)
        json_object_set_new(json, versions[i].name, json_string(versions[i].text));
    json_object_set_new(json, "kernels", json_sprintf("for %s", hd_arithmetic_get_isa()));
    hd_arithmetic_describe_libraries(libraries, sizeof libraries);
    const size_t name = strcspn(libraries, " ");
    if (libraries[name] == ' ' && strncmp(libraries, "onednn", name) == 0)
        json_object_set_new(json, "oneDNN", json_string(libraries + name + 1));
    return json;
}
