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
#include "tests/tasks/world.h"

#if HD_CUDA

enum { SHARD = 1 };
enum { POLICY, COUNTERS = 3 }; /* ports of collect */

static const struct step collect = {.verb = &hd_verb_collect};

/* -- As the executor does it ------------------------------------------------------------------- */

struct overlap {
    void *args, *policy, *header, *work, *scratch;
    struct hd_subtasks subtasks;
    char *obs, *seen; /* what the GPU acts on, that on the host */
    int64_t obs_bytes;
    int acted, rested;
};

static struct overlap overlap_open(struct world *w)
{
    const struct hd_verb *verb = &hd_verb_collect;
    const struct value *policy = world_get(w, "policy");
    const struct hd_device_form *form = policy->spec.type->device;
    const int64_t bytes = hd_value_get_device_bytes(&policy->spec);
    struct overlap s = {.args = world_prepare(w, &collect)};
    ck_assert(verb->gpu->supports(s.args));
    ck_assert_int_eq(form->ready(&policy->spec), HD_OK);
    ck_assert_int_eq(verb->gpu->ready(s.args), HD_OK);
    verb->gpu->get_subtasks(s.args, &s.subtasks);
    s.header = device_shared(s.subtasks.header_bytes);
    s.work = device_make(NULL, s.subtasks.work_bytes);
    s.scratch = test_alloc(verb->scratch(s.args), 1);
    const struct hd_envs_shape *envs = hd_envs_get_shape(&world_get(w, "envs")->spec);
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
    const struct hd_envs envs = hd_envs_get(INSTANCE(w, "envs"), 0);
    device_get(s->seen, s->obs, s->obs_bytes);
    ck_assert_mem_eq(s->seen, envs.obs, (size_t)s->obs_bytes);
    s->acted++;
}

static void run_stage(struct overlap *s, struct world *w, struct hd_context *context)
{
    const struct hd_verb *verb = &hd_verb_collect;
    const bool gpu = verb->gpu->stage(s->args, context->stage);
    struct hd_view views[MAX_PORTS];
    world_view(w, &collect, 0, views);
    views[POLICY].data = gpu ? s->policy : NULL;
    context->work = gpu ? s->work : NULL;
    context->scratch = gpu ? NULL : s->scratch;
    context->stream = gpu ? device_stream() : NULL;
    if (gpu && verb->gpu->get_graph(context, views, s->args) == HD_NO_GRAPH) {
        s->rested++;
        return;
    }
    int status = (gpu ? verb->gpu->body : verb->body)(context, views, s->args);
    while (status == HD_WAITS) {
        context->again = context->ready(context->ready_arg, 1);
        status = context->again ? verb->body(context, views, s->args) : HD_WAITS;
    }
    context->again = false;
    ck_assert_msg(status == HD_OK, "%s", context->message);
    if (gpu)
        check_obs(s, w);
}

/* Nothing is left of the collect before. */
static void collect_overlapped(struct overlap *s, struct world *w, int64_t iteration)
{
    struct hd_context context = world_at(w, &collect, iteration);
    struct hd_view counts[MAX_PORTS] = {{0}};
    const struct value *block = world_get(w, "transitions");
    context.items = 1;
    context.gpu = true;
    context.header = s->header;
    memset(s->header, 0xA5, (size_t)s->subtasks.header_bytes);
    device_fill(s->work, s->subtasks.work_bytes);
    memset(block->data, 0xFF, (size_t)block->spec.bytes);
    for (context.stage = 0; context.stage < s->subtasks.stages; context.stage++)
        run_stage(s, w, &context);
    context.headers = &s->header;
    counts[COUNTERS] = (struct hd_view){.data = world_get(w, "counters")->data};
    ck_assert_int_eq(hd_verb_collect.finish(&context, counts, s->args), HD_OK);
}

/* -- Cases ------------------------------------------------------------------------------------- */

#define NET "policy.model.action_shape=3; policy.model.encoder_hidden_size_list=[4,4,8]; "

/* Observations of frames or of numbers; episodes longer and shorter than an observation, or of a
 * single step; collects of a few steps, so that episodes go on in the next, and of many. */
static const struct overlap_case {
    int n_sample, envs, collects;
    const char *set;
} cases[] = {
    {96, 4, 5, NET "env.type=blink; env.frame_stack=4; policy.model.obs_shape=[4,36,40]"},
    {8, 3, 20, NET "env.type=blink; env.frame_stack=4; policy.model.obs_shape=[4,36,40]"},
    {40, 3, 6,
     NET "env={type: blink, options: {longest: 1}}; env.frame_stack=2; "
         "policy.model.obs_shape=[2,36,40]"},
    {60, 2, 5, "env.frame_stack=3; policy.model.obs_shape=12"},
    {33, 4, 8, "env.type=cartpole"},
};

static struct world *open_case(const struct overlap_case *c)
{
    struct world *w = world_make(SHARD, 2);
    world_set(w,
              "policy.collect.n_sample=%d; env.collector_env_num=%d; "
              "policy.collect.overlap_act_step=true; "
              "policy.other.eps={start: 0.4, end: 0.4}; %s",
              c->n_sample, c->envs, c->set);
    world_open(w, &collect, NULL);
    return w;
}

TEST(overlapped_as_alone, .runs = COUNT(cases), .cuda = true)
{
    struct world *here = open_case(&cases[_i]), *other = open_case(&cases[_i]);
    struct overlap overlap = overlap_open(here);
    for (int64_t iteration = 0; iteration < cases[_i].collects; iteration++) {
        collect_overlapped(&overlap, here, iteration);
        world_run(other, &collect, iteration);
        for (int i = 0; i < here->n_values; i++)
            ck_assert_msg(value_hash(&here->values[i]) == value_hash(&other->values[i]),
                          "%s differs after collect %d", here->names[i], (int)iteration);
    }
    ck_assert(overlap.acted > 0 && overlap.rested > 0);
    ck_assert_int_gt(((struct hd_env_counters *)world_get(here, "counters")->data)->episode, 0);
    world_release(&collect, overlap.args);
}

#endif
