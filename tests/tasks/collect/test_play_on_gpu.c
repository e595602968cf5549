/* SPDX-License-Identifier: Apache-2.0 */
/* collect_on_policy on a GPU that steps the envs, compared by bytes with that on a CPU, which is
 * tested against naive collectors. */
#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/output/env_counters.h"
#include "tests/kernels/common/device.h"
#include "tests/tasks/on_policy.h"

enum { POLICY, NORM, ENVS, COUNTERS, EPISODES, TRAJECTORIES, N_PORTS }; /* of collect_on_policy */
enum { SHARD = 1, MOST_STATE = 256, SCREENS_AT = 8 };

static const struct hd_verb *const verb = &hd_verb_collect_on_policy;

/* -- Cases ------------------------------------------------------------------------------------- */

/* n_sample a multiple of the envs or not, or below them; observations as they are or normalised, of
 * several frames or one; fragments of several steps and one. */
static const struct shape_case {
    int n_sample, envs, stack, collects;
    bool norm;
    const char *env;
} cases[] = {
    {160, 4, 4, 6, false, "type: pixel_pong"},
    {62, 4, 4, 8, true, "type: pixel_pong, options: {background: 87}"},
    {2, 3, 2, 30, false, "type: pixel_pong"},
    {30, 1, 1, 6, true, "type: pixel_pong"},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static const struct step *get_step(const struct shape_case *c)
{
    return c->norm ? &collect_normalised : &collect;
}

static struct world *open_case(const struct shape_case *c)
{
    struct world *w = make_on_policy(SHARD);
    world_set(w, "env={%s, frame_stack: %d}; policy.model.obs_shape=[%d,84,84]", c->env, c->stack,
              c->stack);
    world_set(w,
              "policy.collect.n_sample=%d; env.collector_env_num=%d; "
              "policy.collect.segment_at_done=false; policy.model.action_shape=6; "
              "policy.model.encoder_hidden_size_list=[4,4,8]",
              c->n_sample, c->envs);
    world_open(w, get_step(c), NULL);
    if (c->norm)
        add_moments(world_get(w, "obs_norm"), 5, 0, 255);
    return w;
}

/* Makes games that are cut off after a few steps, env e after e % 3 + 1, so that several end in one
 * step and some in the first of a collect. */
static int64_t screens_of(int64_t env)
{
    return HD_PIXEL_PONG_MAX_SCREENS - HD_PIXEL_PONG_SKIP * (env % 3 + 1);
}

static void hasten_envs(struct world *w)
{
    const struct hd_envs envs = hd_envs_get(INSTANCE(w, "envs"), 0);
    char state[MOST_STATE], message[HD_ENV_MESSAGE];
    for (int64_t i = 0; i < *envs.count; i++) {
        const int64_t screens = screens_of(i);
        ck_assert_int_eq(hd_env_pixel_pong.save(*envs.group, i, state, message), 0);
        memcpy(state + SCREENS_AT, &screens, sizeof screens);
        ck_assert_int_eq(hd_env_pixel_pong.load(*envs.group, i, state, message), 0);
    }
}

/* The hash is of all bytes in use. */
static void check_same(const struct world *found, const struct world *wanted)
{
    static const char *const names[] = {"counters", "episodes", "trajectories"};
    const struct value *value = world_get(wanted, "trajectories");
    ck_assert_mem_eq(world_get(found, "trajectories")->data, value->data,
                     (size_t)hd_trajectories_count_header_bytes(&value->spec));
    for (int i = 0; i < COUNT(names); i++)
        ck_assert_uint_eq(value_hash(world_get(found, names[i])),
                          value_hash(world_get(wanted, names[i])));
}

/* -- On a GPU ---------------------------------------------------------------------------------- */
/* The body of hd_gpu_verb beside the CPU's, on the same values. Their logits differ in the last
 * bits; their draws are then the same but for those that fall between two logits' boundaries, one
 * of some 10^5 (f32), and there are some 10^3 here. All else is equal, by bytes. */

#if HD_CUDA

static const double logits_off_by = 1e-5; /* of numbers around 1 */

/* Copies of a world's values as the executor makes them. */
struct mirror {
    struct hd_view views[MAX_PORTS];
    void *scratch, *header;
    void *args;
};

static struct mirror mirror_of(struct world *w, const struct step *step)
{
    const struct hd_gpu_verb *gpu = verb->gpu;
    struct mirror m = {.args = world_prepare(w, step)};
    struct hd_subtasks subtasks;
    ck_assert(gpu != NULL && gpu->supports(m.args) && !gpu->stage(m.args, 0) &&
              gpu->stage(m.args, 1));
    ck_assert_int_eq(gpu->ready(m.args), HD_OK);
    gpu->get_subtasks(m.args, &subtasks);
    m.scratch = device_make(NULL, gpu->scratch(m.args));
    m.header = device_shared(subtasks.header_bytes);
    world_view(w, step, 0, m.views);
    for (int i = 0; i < N_PORTS; i++) {
        const struct hd_view host = m.views[i];
        if (i == COUNTERS || i == EPISODES || !host.data)
            continue;
        const int64_t bytes = hd_value_get_device_bytes(host.spec);
        char *content = test_alloc(bytes, 1);
        memcpy(content, host.data, (size_t)hd_value_get_common_bytes(host.spec));
        m.views[i].data =
            i == TRAJECTORIES ? device_make(NULL, bytes) : device_make(content, bytes);
    }
    const struct hd_device_form *form = m.views[POLICY].spec->type->device;
    ck_assert_int_eq(form->ready(m.views[POLICY].spec), HD_OK);
    ck_assert_int_eq(form->renew_on_gpu(m.views[POLICY].spec, m.views[POLICY].data, 0,
                                        m.views[POLICY].spec->elements, device_stream()),
                     HD_OK);
    return m;
}

/* Counts and episodes are those of the host. */
static void collect_on_gpu(struct mirror *m, struct hd_context context)
{
    char unused;
    context.items = 1;
    context.gpu = true;
    context.scratch = m->scratch;
    context.header = m->header;
    context.stream = device_stream();
    ck_assert_int_eq(verb->body(&context, m->views, m->args), HD_OK);
    context.stage = 1;
    ck_assert_int_eq(verb->gpu->body(&context, m->views, m->args), HD_OK);
    device_get(&unused, m->views[TRAJECTORIES].data, 1); /* waits */
    context.headers = &m->header;
    ck_assert_int_eq(verb->finish(&context, m->views, m->args), HD_OK);
}

static void fetch(const struct mirror *m, const struct value *to, int port)
{
    const struct hd_device_form *form = to->spec.type->device;
    device_get(to->data, m->views[port].data, hd_value_get_common_bytes(&to->spec));
    if (form && form->renew_on_host)
        ck_assert_int_eq(form->renew_on_host(&to->spec, to->data), HD_OK);
}

/* Makes the host's games those of its envs, as a checkpoint does, and gives them to the GPU. */
static void put_envs(const struct mirror *m, struct world *from)
{
    struct value *value = world_get(from, "envs");
    value_save_load(value);
    device_put(m->views[ENVS].data, value->data, hd_value_get_common_bytes(&value->spec));
}

/* The found logits and values become the wanted ones if they are close. */
static void adopt_outputs(struct world *found, const struct world *wanted)
{
    const struct hd_trajectories_shape *shape =
        hd_trajectories_get_shape(&world_get(wanted, "trajectories")->spec);
    const struct hd_trajectories a = hd_trajectories_get(INSTANCE(found, "trajectories"), 0),
                                 b = hd_trajectories_get(INSTANCE(wanted, "trajectories"), 0);
    for (int64_t i = 0; i < shape->envs * shape->steps * shape->logits; i++) {
        CHECK_CLOSE(a.logit[i], b.logit[i], 1, logits_off_by, "logit");
        a.logit[i] = b.logit[i];
    }
    for (int64_t i = 0; i < shape->envs * shape->steps; i++) {
        CHECK_CLOSE(a.value[i], b.value[i], 1, logits_off_by, "value");
        a.value[i] = b.value[i];
    }
}

TEST(test_on_gpu, .runs = CASES, .cuda = true)
{
    const struct step *step = get_step(&cases[_i]);
    struct world *here = open_case(&cases[_i]), *there = open_case(&cases[_i]);
    struct mirror m = mirror_of(there, step);
    for (int64_t iteration = 0; iteration < cases[_i].collects && iteration < 7; iteration++) {
        world_run(here, step, iteration);
        collect_on_gpu(&m, world_at(there, step, iteration));
        fetch(&m, world_get(there, "trajectories"), TRAJECTORIES);
        fetch(&m, world_get(there, "envs"), ENVS);
        adopt_outputs(there, here);
        check_same(there, here);
        if (iteration % 2 == 0) {
            hasten_envs(here);
            hasten_envs(there);
            put_envs(&m, there);
        }
    }
    ck_assert_int_ge(((struct hd_env_counters *)world_get(there, "counters")->data)->episode,
                     2 * cases[_i].envs);
    world_release(step, m.args);
}

#endif
