/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/base/rates.h"

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/json_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Writing ----------------------------------------------------------------------------------- */

static json_t *verbs_of(const struct hd_rates *rates)
{
    json_t *verbs = json_object();
    for (int i = 0; i < rates->n_verbs; i++)
        json_object_set_new(verbs, rates->verbs[i].verb, json_real(rates->verbs[i].seconds));
    return verbs;
}

static json_t *hash(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return json_string(text);
}

int hd_rates_write(const char *path, const struct hd_rates *rates)
{
    json_t *json =
        json_pack("{s:f, s:I, s:f, s:f, s:f, s:I, s:I, s:f, s:I, s:I, s:o, s:o, s:o}", "seconds",
                  rates->seconds, "updates", (json_int_t)rates->updates, "env_steps",
                  rates->env_steps, "busy_s", rates->busy_s, "exposed_s", rates->exposed_s,
                  "workers", (json_int_t)rates->workers, "gpus", (json_int_t)rates->gpus,
                  "gpu_busy_s", rates->gpu_busy_s, "ranks", (json_int_t)rates->ranks, "shards",
                  (json_int_t)rates->shards, "param_hash", hash(rates->param_hash), "fingerprint",
                  hash(rates->fingerprint), "verbs", verbs_of(rates));
    char *text = json ? json_dumps(json, 0) : NULL;
    json_decref(json);
    if (!text)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory for the rates", path);
    int status = hd_file_write_atomic(path, text, (int64_t)strlen(text));
    free(text);
    return status;
}

/* -- Reading ----------------------------------------------------------------------------------- */

static void read_verbs(const json_t *verbs, struct hd_rates *rates)
{
    const char *verb;
    json_t *seconds;
    json_object_foreach((json_t *)verbs, verb, seconds) {
        if (rates->n_verbs == HD_RATES_VERBS)
            return;
        int i = rates->n_verbs++;
        snprintf(rates->verbs[i].verb, HD_RATES_VERB_BYTES, "%s", verb);
        rates->verbs[i].seconds = json_number_value(seconds);
    }
}

static int unpack(json_t *json, struct hd_rates *rates)
{
    json_int_t updates, workers, gpus, ranks, shards;
    const char *param_hash, *fingerprint;
    json_t *verbs;
    if (json_unpack(json, "{s:F, s:I, s:F, s:F, s:F, s:I, s:I, s:F, s:I, s:I, s:s, s:s, s:o}",
                    "seconds", &rates->seconds, "updates", &updates, "env_steps", &rates->env_steps,
                    "busy_s", &rates->busy_s, "exposed_s", &rates->exposed_s, "workers", &workers,
                    "gpus", &gpus, "gpu_busy_s", &rates->gpu_busy_s, "ranks", &ranks, "shards",
                    &shards, "param_hash", &param_hash, "fingerprint", &fingerprint, "verbs",
                    &verbs) != 0)
        return -1;
    rates->updates = updates;
    rates->workers = workers;
    rates->gpus = gpus;
    rates->ranks = ranks;
    rates->shards = shards;
    rates->param_hash = strtoull(param_hash, NULL, 16);
    rates->fingerprint = strtoull(fingerprint, NULL, 16);
    read_verbs(verbs, rates);
    return 0;
}

int hd_rates_read(const char *path, struct hd_rates *rates_p)
{
    char why[HD_FILE_WHY];
    struct hd_rates rates = {0};
    json_t *json = hd_json_file_read(path, HD_INPUT_RUN, why);
    if (!json)
        return hd_fail(HD_ERR_FORMAT, "%s", why);
    const int failed = unpack(json, &rates);
    json_decref(json);
    if (failed)
        return hd_fail(HD_ERR_FORMAT, "%s: a field is missing", path);
    *rates_p = rates;
    return HD_OK;
}

/* -- Numbers ----------------------------------------------------------------------------------- */

double hd_rates_get_updates_per_s(const struct hd_rates *rates)
{
    return (double)rates->updates / rates->seconds;
}

double hd_rates_get_env_steps_per_s(const struct hd_rates *rates)
{
    return rates->env_steps / rates->seconds;
}

double hd_rates_get_gpu_busy(const struct hd_rates *rates)
{
    return rates->gpu_busy_s / (rates->seconds * (double)rates->gpus);
}

double hd_rates_get_busy(const struct hd_rates *rates)
{
    return rates->busy_s / (rates->seconds * (double)rates->workers);
}

double hd_rates_get_exposed(const struct hd_rates *rates)
{
    return rates->exposed_s / rates->seconds;
}

double hd_rates_get_idle(const struct hd_rates *rates)
{
    return fmax(0, 1 - hd_rates_get_busy(rates) - hd_rates_get_exposed(rates));
}
