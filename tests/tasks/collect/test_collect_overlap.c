/* SPDX-License-Identifier: Apache-2.0 */
/* A collect in which a GPU acts and a CPU steps yields every byte of what a CPU collects alone. The
 * processors' action values differ in the last bits, which could change an action only where two
 * values are that close, and does not here. */
#include "runtime/base/status.h"
#include "tasks/collect/stepper.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tests/kernels/common/device.h"
#include "tests/tasks/values.h"

#if HD_CUDA

enum { POLICY, TOTALS, ENVS, COUNTERS, EPISODES, TRANSITION_BLOCK, N_VALUES };
enum { SHARD = 1, MAX_SETS = 12 };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[N_VALUES];
};

static void world_open(struct world *w, const char *const *sets, int n)
{
    static const struct hd_type *const types[] = {&hd_type_params,  &hd_type_env_counters,
                                                  &hd_type_envs,    &hd_type_env_counters,
                                                  &hd_type_scalars, &hd_type_transition_block};
    static const char *const names[] = {"policy",   "totals",   "envs",
                                        "counters", "episodes", "transition_block"};
    struct hd_spec *specs[MAX_PORTS];
    w->setup = setup_open(sets, n);
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve(&w->values[i], &w->setup, types[i], names[i], "collector");
        w->ports[i] = &w->values[i];
    }
    struct hd_setup step = step_setup(&hd_verb_collect, &w->setup, w->ports, specs);
    ck_assert_int_eq(hd_verb_collect.declare(&step), HD_OK);
    for (int i = 0; i < N_VALUES; i++)
        value_init(&w->values[i], &w->setup, SHARD);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    setup_close(&w->setup);
}

static void spoil(struct world *w)
{
    memset(w->values[TRANSITION_BLOCK].data, 0xFF, (size_t)w->values[TRANSITION_BLOCK].spec.bytes);
}

/* -- As the executor does it ------------------------------------------------------------------- */

struct overlap {
    void *args, *policy, *header, *work, *scratch;
    struct hd_subtasks subtasks;
    char *obs, *seen; /* what the GPU acts on, that on the host */
    int64_t obs_bytes;
    int acted, rested;
};

static struct overlap overlap_open(const struct world *w)
{
    const struct hd_verb *verb = &hd_verb_collect;
    const struct value *policy = &w->values[POLICY];
    const struct hd_device_form *form = policy->spec.type->device;
    const int64_t bytes = hd_value_get_device_bytes(&policy->spec);
    struct overlap s = {.args = prepare(verb, &w->setup, w->ports)};
    ck_assert(verb->gpu->supports(s.args));
    ck_assert_int_eq(form->ready(&policy->spec), HD_OK);
    ck_assert_int_eq(verb->gpu->ready(s.args), HD_OK);
    verb->gpu->get_subtasks(s.args, &s.subtasks);
    s.header = device_shared(s.subtasks.header_bytes);
    s.work = device_make(NULL, s.subtasks.work_bytes);
    s.scratch = test_alloc(verb->scratch(s.args), 1);
    const struct hd_envs_shape *envs = hd_envs_get_shape(&w->values[ENVS].spec);
    struct hd_gpu_stepper stepper;
    hd_gpu_stepper_lay_out(envs, hd_params_get_net(&policy->spec), s.work, &stepper);
    s.obs = stepper.obs;
    s.obs_bytes = envs->envs * envs->obs.obs_bytes;
    s.seen = test_alloc(s.obs_bytes, 1);
    char *content = test_alloc(bytes, 1);
    memcpy(content, policy->data, (size_t)hd_value_get_common_bytes(&policy->spec));
    s.policy = device_make(content, bytes);
    ck_assert_int_eq(
        form->renew_on_gpu(&policy->spec, s.policy, 0, policy->spec.elements, device_stream()),
        HD_OK);
    return s;
}

/* The GPU acted on what the envs show. */
static void check_obs(struct overlap *s, const struct world *w)
{
    const struct value *value = &w->values[ENVS];
    const struct hd_envs envs = hd_envs_get(&value->spec, value->data, 0);
    device_get(s->seen, s->obs, s->obs_bytes);
    ck_assert_mem_eq(s->seen, envs.obs, (size_t)s->obs_bytes);
    s->acted++;
}

static void run_stage(struct overlap *s, struct world *w, struct hd_context *context)
{
    const struct hd_verb *verb = &hd_verb_collect;
    const bool gpu = verb->gpu->stage(s->args, context->stage);
    struct hd_view views[N_VALUES];
    for (int i = 0; i < N_VALUES; i++)
        views[i] = (struct hd_view){.data = w->values[i].data, .spec = &w->values[i].spec};
    views[POLICY].data = gpu ? s->policy : NULL;
    context->work = gpu ? s->work : NULL;
    context->scratch = gpu ? NULL : s->scratch;
    context->stream = gpu ? device_stream() : NULL;
    if (gpu && verb->gpu->get_graph(context, views, s->args) == HD_NO_GRAPH) {
        s->rested++;
        return;
    }
    const int status = (gpu ? verb->gpu->body : verb->body)(context, views, s->args);
    ck_assert_msg(status == HD_OK, "%s", context->message);
    if (gpu)
        check_obs(s, w);
}

/* Nothing is left of the collect before. */
static void collect_overlapped(struct overlap *s, struct world *w, int64_t iteration)
{
    struct hd_context context = at(&w->setup, SHARD, iteration);
    struct hd_view counts[N_VALUES] = {{0}};
    char message[HD_MESSAGE_BYTES] = "";
    context.items = 1;
    context.gpu = true;
    context.header = s->header;
    context.message = message;
    memset(s->header, 0xA5, (size_t)s->subtasks.header_bytes);
    DEVICE_TRY(cudaMemset(s->work, 0xFF, (size_t)s->subtasks.work_bytes));
    spoil(w);
    for (context.stage = 0; context.stage < s->subtasks.stages; context.stage++)
        run_stage(s, w, &context);
    context.headers = &s->header;
    counts[COUNTERS] = (struct hd_view){.data = w->values[COUNTERS].data};
    ck_assert_int_eq(hd_verb_collect.finish(&context, counts, s->args), HD_OK);
}

/* -- Cases ------------------------------------------------------------------------------------- */

#define NET "policy.model.action_shape=3", "policy.model.encoder_hidden_size_list=[4,4,8]"

/* Observations of frames or of numbers; episodes longer and shorter than an observation, or of a
 * single step; collects of a few steps, so that episodes go on in the next, and of many. */
static const struct overlap_case {
    int64_t n_sample, envs, collects;
    const char *set[5];
} cases[] = {
    {96, 4, 5, {"env.type=blink", "env.frame_stack=4", "policy.model.obs_shape=[4,36,40]", NET}},
    {8, 3, 20, {"env.type=blink", "env.frame_stack=4", "policy.model.obs_shape=[4,36,40]", NET}},
    {40,
     3,
     6,
     {"env={type: blink, options: {longest: 1}}", "env.frame_stack=2",
      "policy.model.obs_shape=[2,36,40]", NET}},
    {60, 2, 5, {"env.frame_stack=3", "policy.model.obs_shape=12"}},
    {33, 4, 8, {"env.type=cartpole"}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void open_case(struct world *w, const struct overlap_case *c)
{
    char n_sample[64], envs[64];
    const char *sets[MAX_SETS] = {n_sample, envs, "policy.collect.overlap_act_step=true",
                                  "policy.other.eps={start: 0.4, end: 0.4}"};
    int n = 4;
    snprintf(n_sample, sizeof n_sample, "policy.collect.n_sample=%d", (int)c->n_sample);
    snprintf(envs, sizeof envs, "env.collector_env_num=%d", (int)c->envs);
    for (int i = 0; i < 5 && c->set[i]; i++)
        sets[n++] = c->set[i];
    world_open(w, sets, n);
}

TEST(overlapped_as_alone, .runs = CASES, .cuda = true)
{
    struct world here, other;
    open_case(&here, &cases[_i]);
    open_case(&other, &cases[_i]);
    struct overlap overlap = overlap_open(&here);
    for (int64_t iteration = 0; iteration < cases[_i].collects; iteration++) {
        struct hd_context where = at(&other.setup, SHARD, iteration);
        collect_overlapped(&overlap, &here, iteration);
        spoil(&other);
        run(&hd_verb_collect, &other.setup, other.ports, &where);
        for (int i = ENVS; i < N_VALUES; i++)
            ck_assert_msg(value_hash(&here.values[i]) == value_hash(&other.values[i]),
                          "%s differs after collect %d", here.values[i].spec.name, (int)iteration);
    }
    ck_assert(overlap.acted > 0 && overlap.rested > 0);
    ck_assert_int_gt(((struct hd_env_counters *)here.values[COUNTERS].data)->episode, 0);
    unprepare(&hd_verb_collect, overlap.args);
    world_close(&here);
    world_close(&other);
}

#endif
