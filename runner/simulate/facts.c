/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/simulate/facts.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdlib.h>
#include <string.h>

json_t *hd_facts_list(const struct hd_run_spec *run_spec)
{
    char *text = hd_run_spec_list(run_spec), *rest = text;
    json_t *facts = text ? json_array() : NULL;
    for (char *line; facts && rest && (line = strsep(&rest, "\n"));)
        if (strncmp(line, "policy.", 7) == 0 || strncmp(line, "env.", 4) == 0)
            if (strncmp(line, "env.stop_value", 14) != 0)
                json_array_append_new(facts, json_string(line));
    free(text);
    return facts;
}

int hd_facts_compare(const json_t *before, const struct hd_run_spec *run_spec, const char *problem)
{
    json_t *now = hd_facts_list(run_spec);
    int status = now ? HD_OK : HD_ERR_NOMEM;
    for (size_t i = 0; i < json_array_size(now) && status == HD_OK; i++) {
        const json_t *fact = json_array_get(now, i);
        if (!json_equal(fact, json_array_get(before, i)))
            status = hd_fail(HD_ERR_INPUT, "%s: it differs at '%.*s'", problem,
                             (int)strcspn(json_string_value(fact), "\t"), json_string_value(fact));
    }
    json_decref(now);
    return status;
}

int hd_run_spec_record(const struct hd_run_spec *run_spec, int rank, int ranks,
                       const struct hd_comm_hosts *hosts, int gpus, int iterations,
                       struct hd_submission **submission_p, struct hd_peers **exchanges_p)
{
    const struct hd_record_options options = {.graph = run_spec->graph,
                                              .rank = rank,
                                              .ranks = ranks,
                                              .gpus = gpus,
                                              .hosts = *hosts,
                                              .exchange = hd_run_spec_get_exchange(run_spec),
                                              .param_check_interval =
                                                  run_spec->settings.param_check_interval,
                                              .open_exchanges = run_spec->settings.open_exchanges,
                                              .window = run_spec->settings.window,
                                              .iterations = iterations};
    return hd_submission_record(&options, submission_p, exchanges_p);
}
