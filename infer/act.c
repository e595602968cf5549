/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of a policy's net, and actions from their outputs. */
#include "infer/call_internal.h"
#include "infer/policy_internal.h"
#include "infer/spaces_internal.h"
#include "kernels/act/draw.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A call of somebody for outputs or actions. */
struct request {
    bool floats;
    const void *obs; /* [rows] */
    int64_t rows;
    const struct heddle_recurrent_state *state;
    float *out;   /* [rows][outputs], or NULL */
    void *action; /* [rows][dims], or NULL */
    bool draws;
    uint64_t seed;
};

/* -- Work memory ------------------------------------------------------------------------------- */

struct hd_work_list *hd_work_list_create(void)
{
    struct hd_work_list *works = hd_alloc(1, sizeof *works);
    if (works)
        pthread_mutex_init(&works->lock, NULL);
    return works;
}

void hd_work_list_destroy(struct hd_work_list *works)
{
    if (!works)
        return;
    for (struct hd_pass_work *work = works->first, *next; work; work = next) {
        next = work->next;
        hd_free(work);
    }
    pthread_mutex_destroy(&works->lock);
    hd_free(works);
}

static int make_work(const struct heddle_policy *policy, int64_t bytes,
                     struct hd_pass_work **work_p)
{
    const int64_t header = hd_align_up(sizeof(struct hd_pass_work));
    const int64_t outputs =
        hd_align_up(HD_POLICY_ROWS * policy->spec.outputs * (int64_t)sizeof(float));
    char *memory = hd_alloc(header + outputs + bytes, 1);
    if (!memory)
        return HD_ERR_NOMEM;
    *work_p = (struct hd_pass_work *)memory;
    **work_p = (struct hd_pass_work){
        .bytes = bytes, .out = (float *)(memory + header), .memory = memory + header + outputs};
    return HD_OK;
}

/* Takes memory from the list, unless what comes first is too small. */
static int take_work(const struct heddle_policy *policy, int64_t bytes,
                     struct hd_pass_work **work_p)
{
    struct hd_work_list *works = policy->works;
    pthread_mutex_lock(&works->lock);
    struct hd_pass_work *work = works->first;
    if (work)
        works->first = work->next;
    pthread_mutex_unlock(&works->lock);
    if (work && work->bytes >= bytes) {
        *work_p = work;
        return HD_OK;
    }
    hd_free(work);
    return make_work(policy, bytes, work_p);
}

static void give_work(struct hd_work_list *works, struct hd_pass_work *work)
{
    pthread_mutex_lock(&works->lock);
    work->next = works->first;
    works->first = work;
    pthread_mutex_unlock(&works->lock);
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* Chooses actions of rows [first, first + n) by their outputs. Draws are numbered within a pass. */
static void choose(const struct heddle_policy *policy, const struct request *request, int64_t first,
                   int64_t n, const float *out)
{
    const struct hd_outputs *outputs = policy->algorithm->outputs;
    const struct hd_env_actions *actions = &policy->actions;
    const int64_t numbers = hd_net_count_actions(policy->net);
    const struct hd_rng rng =
        hd_rng_make(request->seed, hd_hash_text("infer: draw"), first / HD_POLICY_ROWS, 0, 0);
    union hd_action_number action[HD_ENV_ACTION_DIMS];
    for (int64_t i = 0; i < n; i++, out += policy->spec.outputs) {
        if (request->draws)
            outputs->draw(actions, out, &rng, (uint32_t)(i * actions->dims), action);
        else
            outputs->choose(actions, numbers, out, action);
        if (outputs->squashed)
            hd_act_scale(actions, action, action);
        hd_actions_give(actions, action, actions->dims,
                        (char *)request->action +
                            (first + i) * actions->dims * hd_actions_get_number_bytes(actions));
    }
}

/* Computes the outputs of rows [first, first + n). */
static void forward(const struct heddle_policy *policy, const struct request *request,
                    int64_t first, int64_t n, void *work, float *out)
{
    const int64_t row_bytes = request->floats
                                  ? hd_net_count_obs(policy->net) * (int64_t)sizeof(float)
                                  : hd_net_get_obs_bytes(policy->net);
    const void *obs = (const char *)request->obs + first * row_bytes;
    const int64_t size = policy->spec.state_size;
    if (size == 0) {
        hd_policy_forward(&policy->arrays, request->floats, obs, n, work, out);
        return;
    }
    float *state = request->state->values + first * size;
    const bool *begins = request->state->begins;
    for (int64_t i = 0; begins && i < n; i++)
        if (begins[first + i])
            memset(state + i * size, 0, (size_t)size * sizeof *state);
    hd_policy_forward_step(&policy->arrays, request->floats, obs, n, state, work, out);
}

/* Finite observations overflow in a net whose weights are too large, and NaN is taken for any
 * action. */
static int check_outputs(const struct heddle_policy *policy, int64_t first, int64_t n,
                         const float *out)
{
    const int64_t each = policy->spec.outputs;
    for (int64_t i = 0; i < n * each; i++)
        if (!isfinite(out[i]))
            return hd_fail(HD_ERR_TASK,
                           "output %" PRId64 " for observation %" PRId64
                           " is %g, expected a finite number: weights or observation are too large",
                           i % each, first + i / each, (double)out[i]);
    return HD_OK;
}

static int compute_rows(const struct heddle_policy *policy, const struct request *request,
                        int64_t first, int64_t n)
{
    int64_t bytes;
    struct hd_pass_work *work;
    HD_TRY(hd_policy_prepare(&policy->arrays, n, &bytes));
    HD_TRY(take_work(policy, bytes, &work));
    float *out = request->out ? request->out + first * policy->spec.outputs : work->out;
    forward(policy, request, first, n, work->memory, out);
    const int status = check_outputs(policy, first, n, out);
    if (status == HD_OK && request->action)
        choose(policy, request, first, n, out);
    give_work(policy->works, work);
    return status;
}

/* Bytes that nobody divided would be taken for observations far beyond all that were trained on. */
static int check_pixels(const struct heddle_policy *policy, const float *obs, int64_t rows)
{
    const int64_t n = rows * hd_net_count_obs(policy->net);
    for (int64_t i = 0; i < n; i++)
        if (!(obs[i] >= 0 && obs[i] <= 1))
            return hd_fail(HD_ERR_INPUT,
                           "the policy sees bytes: floats are bytes divided by 255, but number "
                           "%" PRId64 " of the observations is %g",
                           i, (double)obs[i]);
    return HD_OK;
}

/* A net takes NaN for any action. */
static int check_finite(const struct heddle_policy *policy, const float *obs, int64_t rows)
{
    const int64_t each = hd_net_count_obs(policy->net), n = rows * each;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(obs[i]))
            return hd_fail(HD_ERR_INPUT,
                           "number %" PRId64 " of observation %" PRId64
                           " is %g, expected a finite number",
                           i % each, i / each, (double)obs[i]);
    return HD_OK;
}

/* Checks the float parts of observations, where `parts` says that they are. */
static int check_parts(const struct heddle_obs_parts *parts, const char *obs, int64_t rows)
{
    for (int64_t i = 0; i < rows * parts->frames * parts->n; i++) {
        const struct heddle_obs_part *part = &parts->part[i % parts->n];
        const float *numbers =
            (const float *)(obs + i / parts->n * parts->frame_bytes + part->offset);
        int64_t n = part->element == HEDDLE_F32 ? 1 : 0;
        for (int d = 0; d < part->dims; d++)
            n *= d == 0 ? part->shape[d] / parts->frames : part->shape[d];
        for (int64_t k = 0; k < n; k++)
            if (!isfinite(numbers[k]))
                return hd_fail(HD_ERR_INPUT,
                               "number %" PRId64 " of part %s of observation %" PRId64
                               " is %g, expected a finite number",
                               k, part->name, i / parts->n / parts->frames, (double)numbers[k]);
    }
    return HD_OK;
}

static int check(const struct heddle_policy *policy, const struct request *request)
{
    const bool bytes = policy->spec.obs.element == HEDDLE_U8;
    if (request->rows < 0)
        return hd_fail(HD_ERR_INPUT, "%" PRId64 " rows of observations", request->rows);
    if (!request->floats && !bytes)
        return hd_fail(HD_ERR_INPUT, "the policy sees floats, but the observations are bytes");
    if (policy->spec.state_size > 0 && !request->state)
        return hd_fail(HD_ERR_INPUT, "the policy is recurrent: it needs the state of each row");
    if (request->draws && !policy->spec.can_draw)
        return hd_fail(HD_ERR_INPUT,
                       "the policy has %s and no distribution to draw from (policy.type %s)",
                       policy->algorithm->outputs->what, policy->algorithm->name);
    if (policy->parts.n > 0 && request->floats)
        return hd_fail(HD_ERR_INPUT, "the policy sees several parts, which are rows of bytes "
                                     "(heddle_policy_describe_parts)");
    if (!request->floats)
        return check_parts(&policy->parts, request->obs, request->rows);
    return bytes ? check_pixels(policy, request->obs, request->rows)
                 : check_finite(policy, request->obs, request->rows);
}

static int compute(const struct heddle_policy *policy, const struct request *request, char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    int status = check(policy, request);
    for (int64_t first = 0; status == HD_OK && first < request->rows; first += HD_POLICY_ROWS) {
        const int64_t rest = request->rows - first;
        status =
            compute_rows(policy, request, first, rest < HD_POLICY_ROWS ? rest : HD_POLICY_ROWS);
    }
    return hd_call_end(&call, status);
}

int heddle_policy_forward(const struct heddle_policy *policy, enum heddle_element element,
                          const void *obs, int64_t rows, const struct heddle_recurrent_state *state,
                          float *out, char *message)
{
    const struct request request = {
        .floats = element == HEDDLE_F32, .obs = obs, .rows = rows, .state = state, .out = out};
    return compute(policy, &request, message);
}

int heddle_policy_act(const struct heddle_policy *policy, enum heddle_element element,
                      const void *obs, int64_t rows, const struct heddle_recurrent_state *state,
                      void *action, char *message)
{
    const struct request request = {.floats = element == HEDDLE_F32,
                                    .obs = obs,
                                    .rows = rows,
                                    .state = state,
                                    .action = action};
    return compute(policy, &request, message);
}

int heddle_policy_draw(const struct heddle_policy *policy, enum heddle_element element,
                       const void *obs, int64_t rows, const struct heddle_recurrent_state *state,
                       uint64_t seed, void *action, char *message)
{
    const struct request request = {.floats = element == HEDDLE_F32,
                                    .obs = obs,
                                    .rows = rows,
                                    .state = state,
                                    .action = action,
                                    .draws = true,
                                    .seed = seed};
    return compute(policy, &request, message);
}
