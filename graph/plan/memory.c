/* SPDX-License-Identifier: Apache-2.0 */
/* Called once a run, before an executor is created. */
#include "graph/plan/plan.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

enum { BYTES_TEXT = 32 };

static const char *format_bytes(double bytes, char text[BYTES_TEXT])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    int unit = 0;
    for (; bytes >= 1000 && unit < 6; unit++)
        bytes /= 1000;
    snprintf(text, BYTES_TEXT, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

/* Returns the bytes of all buffers and snapshots of a value's instances, as a double because a
 * config may ask for more than fits in 64 bits. */
static double count_value_bytes(const struct hd_plan *plan, int value)
{
    const struct hd_plan_value *planned = &plan->values[value];
    const int copies = planned->buffers + planned->lagged.buffers + planned->background.buffers;
    if (planned->storage == HD_STORE_NOTHING || planned->alias != HD_NO_VALUE)
        return 0;
    return (double)plan->graph->values[value].spec.bytes * planned->instances * copies;
}

static double count_all(const struct hd_plan *plan, int *largest_p)
{
    double sum = (double)hd_plan_get_exchange_bytes(plan), most = -1;
    for (int i = 0; i < plan->graph->n_values; i++) {
        const double bytes = count_value_bytes(plan, i);
        sum += bytes;
        if (bytes > most) {
            most = bytes;
            *largest_p = i;
        }
    }
    return sum;
}

void hd_plan_dump_memory(const struct hd_plan *plan, FILE *file)
{
    char text[BYTES_TEXT];
    int largest;
    fprintf(file, "memory\n");
    for (int i = 0; i < plan->graph->n_values; i++)
        fprintf(file, "  %-16s %s\n", plan->graph->values[i].spec.name,
                format_bytes(count_value_bytes(plan, i), text));
    if (plan->ranks > 1)
        fprintf(file, "  %-16s %s\n", "exchanges",
                format_bytes((double)hd_plan_get_exchange_bytes(plan), text));
    fprintf(file, "  %-16s %s\n", "all", format_bytes(count_all(plan, &largest), text));
}

/* Appends the key of the config that decides on a type's size, and its value. */
static void describe_key(const struct hd_graph *graph, const struct hd_type *type, char *text,
                         size_t bytes)
{
    const struct hd_node *node =
        type->size_key ? hd_config_get_node(graph->config, type->size_key) : NULL;
    text[0] = '\0';
    if (node && node->kind == HD_NODE_SCALAR && node->location.line > 0)
        snprintf(text, bytes, "; %s:%d:%d: %s is %.60s", node->location.file, node->location.line,
                 node->location.column, type->size_key, node->text);
    else if (type->size_key)
        snprintf(text, bytes, "; %s decides on its size", type->size_key);
}

int hd_plan_check_memory(const struct hd_plan *plan, int ranks, int64_t available)
{
    int largest = 0;
    char all[BYTES_TEXT], most[BYTES_TEXT], there[BYTES_TEXT], key[512];
    const double needed = count_all(plan, &largest);
    const struct hd_spec *spec = &plan->graph->values[largest].spec;
    if (available <= 0 || needed * ranks <= (double)available)
        return HD_OK;
    describe_key(plan->graph, spec->type, key, sizeof key);
    return hd_fail(HD_ERR_INPUT,
                   "no memory: %s needs %s, but %s are free here. The largest value, '%s' of type "
                   "%s, takes %s of a rank%s",
                   ranks > 1 ? "what runs on this host" : "the run",
                   format_bytes(needed * ranks, all), format_bytes((double)available, there),
                   spec->name, spec->type->name,
                   format_bytes(count_value_bytes(plan, largest), most), key);
}

void hd_plan_report_no_memory(const struct hd_graph_value *value, int64_t bytes)
{
    char text[BYTES_TEXT];
    const struct hd_type *type = value->spec.type;
    hd_log(HD_LOG_ERROR, "these are %s of the value '%s' of type %s%s%s%s",
           format_bytes((double)bytes, text), value->spec.name, type->name,
           type->size_key ? "; " : "", type->size_key ? type->size_key : "",
           type->size_key ? " decides on its size" : "");
}
