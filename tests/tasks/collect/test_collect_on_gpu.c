/* SPDX-License-Identifier: Apache-2.0 */
/* collect_on_gpu: on a CPU every byte is compared with collect_on_policy, which is tested against
 * naive collectors; on a GPU with the CPU. */
#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tasks/types/collect/gpu_envs.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/moments.h"
#include "tests/kernels/common/device.h"
#include "tests/tasks/values.h"

enum { POLICY, NORM, ENVS, COUNTERS, EPISODES, TRAJECTORIES, N_VALUES };
enum { MAX_SETS = 12, SHARD = 1, MOST_STATE = 256, SCREENS_AT = 8 };

struct world {
    const struct hd_verb *verb;
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[N_VALUES];
};

static void world_open(struct world *w, const struct hd_verb *verb, const char *const *sets, int n)
{
    const bool gpu = verb == &hd_verb_collect_on_gpu;
    const struct hd_type *const types[] = {
        &hd_type_params,       &hd_type_moments, gpu ? &hd_type_gpu_envs : &hd_type_envs,
        &hd_type_env_counters, &hd_type_scalars, &hd_type_trajectories};
    static const char *const names[] = {"policy",   "obs_norm", "envs",
                                        "counters", "episodes", "trajectories"};
    struct hd_spec *specs[MAX_PORTS];
    w->verb = verb;
    w->setup = setup_open(sets, n);
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve(&w->values[i], &w->setup, types[i], names[i], "collector");
        w->ports[i] = &w->values[i];
    }
    struct hd_setup step = step_setup(verb, &w->setup, w->ports, specs);
    ck_assert_int_eq(verb->declare(&step), HD_OK);
    for (int i = 0; i < N_VALUES; i++)
        value_init(&w->values[i], &w->setup, SHARD);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    setup_close(&w->setup);
}

static void collect(struct world *w, int64_t iteration)
{
    struct hd_context where = at(&w->setup, SHARD, iteration);
    memset(w->values[TRAJECTORIES].data, 0xFF, (size_t)w->values[TRAJECTORIES].spec.bytes);
    run(w->verb, &w->setup, w->ports, &where);
}

/* Observations on a scale of their own, as learned from rows of random ones. */
static void fill_norm(struct world *w)
{
    enum { ROWS = 5 };
    const struct value *norm = &w->values[NORM];
    const int64_t n = hd_moments_count_elements(&norm->spec);
    const struct hd_rng rng = hd_rng_make(5, 4, 3, 2, 1);
    float *x = test_alloc(ROWS * n, sizeof *x);
    void *other = test_alloc(norm->spec.bytes, 1);
    for (int64_t i = 0; i < ROWS * n; i++)
        x[i] = (float)(255 * hd_rng_draw_uniform(&rng, (uint32_t)i));
    hd_moments_compute(x, ROWS, n, hd_moments_get(&norm->spec, other));
    hd_moments_join(&norm->spec, norm->data, other);
}

/* -- Cases ------------------------------------------------------------------------------------- */

/* n_sample a multiple of the envs or not, or below them; observations as they are or normalised, of
 * several frames or one; fragments of several steps and one. */
static const struct shape_case {
    int64_t n_sample, envs, stack, collects;
    bool norm;
    const char *env;
} cases[] = {
    {160, 4, 4, 6, false, "env.type=pixel_pong"},
    {62, 4, 4, 8, true, "env={type: pixel_pong, options: {background: 87}}"},
    {2, 3, 2, 30, false, "env.type=pixel_pong"},
    {30, 1, 1, 6, true, "env.type=pixel_pong"},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void open_case(struct world *w, const struct hd_verb *verb, const struct shape_case *c)
{
    char text[4][64];
    const char *const sets[] = {"policy.type=ppo",
                                c->env,
                                text[0],
                                text[1],
                                text[2],
                                text[3],
                                "policy.collect.segment_at_done=false",
                                "policy.model.action_shape=6",
                                "policy.model.encoder_hidden_size_list=[4,4,8]"};
    snprintf(text[0], sizeof text[0], "policy.collect.n_sample=%d", (int)c->n_sample);
    snprintf(text[1], sizeof text[1], "env.collector_env_num=%d", (int)c->envs);
    snprintf(text[2], sizeof text[2], "env.frame_stack=%d", (int)c->stack);
    snprintf(text[3], sizeof text[3], "policy.model.obs_shape=[%d,84,84]", (int)c->stack);
    world_open(w, verb, sets, sizeof sets / sizeof *sets);
    if (c->norm)
        fill_norm(w);
    else
        w->ports[NORM] = NULL;
}

/* Makes games that are cut off after a few steps, env e after e % 3 + 1, so that several end in one
 * step and some in the first of a collect. */
static int64_t screens_of(int64_t env)
{
    return HD_PIXEL_PONG_MAX_SCREENS - HD_PIXEL_PONG_SKIP * (env % 3 + 1);
}

static void hasten_gpu_envs(struct world *w)
{
    const struct value *value = &w->values[ENVS];
    const struct hd_pixel_pong_envs envs = hd_gpu_envs_get(&value->spec, value->data, 0, 0);
    for (int64_t i = 0; i < envs.envs; i++) {
        const int64_t screens = screens_of(i);
        memcpy((char *)hd_pixel_pong_get_cuda_state(envs.group, i) + SCREENS_AT, &screens,
               sizeof screens);
    }
}

static void hasten_envs(struct world *w)
{
    const struct value *value = &w->values[ENVS];
    const struct hd_envs envs = hd_envs_get(&value->spec, value->data, 0);
    char state[MOST_STATE], message[HD_ENV_MESSAGE];
    for (int64_t i = 0; i < *envs.count; i++) {
        const int64_t screens = screens_of(i);
        ck_assert_int_eq(hd_env_pixel_pong.save(*envs.group, i, state, message), 0);
        memcpy(state + SCREENS_AT, &screens, sizeof screens);
        ck_assert_int_eq(hd_env_pixel_pong.load(*envs.group, i, state, message), 0);
    }
}

/* -- Against collect_on_policy ----------------------------------------------------------------- */

static void check_envs(const struct world *found, const struct world *wanted)
{
    const struct value *a = &found->values[ENVS], *b = &wanted->values[ENVS];
    const struct hd_pixel_pong_envs envs = hd_gpu_envs_get(&a->spec, a->data, 0, 0);
    const struct hd_envs other = hd_envs_get(&b->spec, b->data, 0);
    const struct hd_envs_shape *shape = hd_envs_get_shape(&b->spec);
    const size_t words = (size_t)envs.envs * sizeof(int64_t);
    char state[MOST_STATE], message[HD_ENV_MESSAGE];
    ck_assert_mem_eq(envs.episode_seed, other.seed, words);
    ck_assert_mem_eq(envs.episode, other.episode, words);
    ck_assert_mem_eq(envs.episode_return, other.episode_return, words);
    ck_assert_mem_eq(envs.episode_steps, other.episode_steps, words);
    ck_assert_mem_eq(envs.shown, other.shown, words);
    ck_assert_mem_eq(envs.obs, other.obs, (size_t)(envs.envs * shape->obs.obs_bytes));
    for (int64_t i = 0; i < envs.envs; i++) {
        ck_assert_int_eq(hd_env_pixel_pong.save(*other.group, i, state, message), 0);
        ck_assert_mem_eq(hd_pixel_pong_get_cuda_state(envs.group, i), state,
                         (size_t)shape->state_bytes);
    }
}

/* The hash is of all bytes in use. */
static void check_same(const struct world *found, const struct world *wanted)
{
    ck_assert_mem_eq(
        found->values[TRAJECTORIES].data, wanted->values[TRAJECTORIES].data,
        (size_t)hd_trajectories_count_header_bytes(&wanted->values[TRAJECTORIES].spec));
    for (int i = COUNTERS; i < N_VALUES; i++)
        ck_assert_uint_eq(value_hash(&found->values[i]), value_hash(&wanted->values[i]));
}

START_TEST(test_as_on_policy)
{
    struct world here, other;
    open_case(&here, &hd_verb_collect_on_gpu, &cases[_i]);
    open_case(&other, &hd_verb_collect_on_policy, &cases[_i]);
    for (int64_t iteration = 0; iteration < cases[_i].collects; iteration++) {
        collect(&here, iteration);
        collect(&other, iteration);
        check_same(&here, &other);
        check_envs(&here, &other);
        if (iteration % 2 == 0) {
            hasten_gpu_envs(&here);
            hasten_envs(&other);
        }
        if (iteration % 3 == 1)
            for (int i = ENVS; i < N_VALUES; i++)
                value_save_load(&here.values[i]);
    }
    ck_assert_int_ge(((struct hd_env_counters *)here.values[COUNTERS].data)->episode,
                     3 * cases[_i].envs);
    world_close(&here);
    world_close(&other);
}
END_TEST

/* -- Mistakes ---------------------------------------------------------------------------------- */

static const char *const pixels[] = {"env.type=pixel_pong", "policy.model.obs_shape=[4,84,84]",
                                     "env.frame_stack=4", "policy.model.action_shape=6",
                                     "policy.model.encoder_hidden_size_list=[4,4,8]"};
enum { PIXELS = sizeof pixels / sizeof pixels[0] };

/* Checks the message of the type about a setting beside these. */
static void check_type(const char *set, const char *role, const char *says)
{
    const char *sets[PIXELS + 1];
    memcpy(sets, pixels, sizeof pixels);
    sets[PIXELS] = set;
    struct hd_setup setup = setup_open(sets, PIXELS + 1);
    struct value value = {.spec = {.name = "e",
                                   .type = &hd_type_gpu_envs,
                                   .placement = HD_SHARD,
                                   .role = role,
                                   .location = setup.location}};
    ck_assert_int_eq(hd_type_gpu_envs.resolve(&value.spec, &setup), HD_ERR_INPUT);
    const char *line = hd_diag_get_line(setup.diag, 0);
    ck_assert_msg(strcmp(line, says) == 0, "%s", line);
    value_close(&value);
    setup_close(&setup);
}

START_TEST(test_type)
{
    check_type("policy.collect.env_groups=2", "collector",
               "--set:9:27: policy.collect.env_groups: gpu_envs needs a single group, found 2");
    check_type("env.type=cartpole", "collector",
               "--set:9:10: env.type: gpu_envs supports pixel_pong only, found cartpole");
    check_type("policy.collect.n_sample=8", "evaluator",
               "graph.yaml:1:1: gpu_envs 'e' needs role: collector");
}
END_TEST

static void check_verb(const char *set, const char *says)
{
    const char *sets[PIXELS + 2];
    struct world w;
    struct hd_spec *specs[MAX_PORTS];
    void *args = NULL;
    memcpy(sets, pixels, sizeof pixels);
    sets[PIXELS] = "policy.type=ppo";
    sets[PIXELS + 1] = set;
    world_open(&w, &hd_verb_collect_on_gpu, sets, PIXELS + 2);
    struct hd_setup step = step_setup(w.verb, &w.setup, w.ports, specs);
    ck_assert_int_eq(w.verb->prepare(&step, &args), HD_ERR_INPUT);
    const char *line = hd_diag_get_line(w.setup.diag, 0);
    ck_assert_msg(strstr(line, says), "%s", line);
    hd_free(args);
    world_close(&w);
}

START_TEST(test_verb)
{
    check_verb("policy.collect.segment_at_done=true",
               "--set:10:32: policy.collect.segment_at_done: collect_on_gpu needs it to be false");
    check_verb("policy.type=dqn", "collect_on_gpu samples from the logits of an actor");
}
END_TEST

/* A file with other bytes in the place of a game, or with another background, is refused. */
START_TEST(test_broken_file)
{
    static const int64_t places[] = {SCREENS_AT, -100};
    for (int i = 0; i < 2; i++) {
        struct world w;
        open_case(&w, &hd_verb_collect_on_gpu, &cases[0]);
        collect(&w, 0);
        struct value *value = &w.values[ENVS];
        const struct hd_pixel_pong_envs envs = hd_gpu_envs_get(&value->spec, value->data, 0, 0);
        char *game = hd_pixel_pong_get_cuda_state(envs.group, 0);
        memset(game + places[i], 0xEE, sizeof(int64_t));
        FILE *file = tmpfile();
        ck_assert_ptr_nonnull(file);
        ck_assert_int_eq(hd_value_save(&value->spec, value->data, file), HD_OK);
        rewind(file);
        char message[HD_NUMBERS_MESSAGE];
        ck_assert_int_eq(hd_value_load(&value->spec, value->data, file), HD_OK);
        ck_assert_int_eq(hd_value_check(&value->spec, value->data, message), HD_ERR_FORMAT);
        fclose(file);
        world_close(&w);
    }
}
END_TEST

/* -- On a GPU ---------------------------------------------------------------------------------- */
/* The body of hd_gpu_verb beside the CPU's, on the same values. Their logits differ in the last
 * bits; their draws are then the same but for those that fall between two logits' boundaries, one
 * of some 10^5 (f32), and there are some 10^3 here. All else is equal, by bytes. */

#if HD_CUDA

static const double logits_off_by = 1e-5; /* of numbers around 1 */

/* Copies of a world's values as the executor makes them. */
struct mirror {
    struct hd_view views[N_VALUES];
    void *scratch, *header;
    void *args;
};

static struct mirror mirror_of(struct world *w)
{
    const struct hd_gpu_verb *gpu = w->verb->gpu;
    struct mirror m = {.args = prepare(w->verb, &w->setup, w->ports)};
    struct hd_subtasks subtasks;
    w->verb->get_subtasks(m.args, &subtasks);
    ck_assert(gpu != NULL && gpu->ready(m.args) == HD_OK);
    m.scratch = device_make(NULL, gpu->scratch(m.args));
    m.header = device_shared(subtasks.header_bytes);
    for (int i = 0; i < N_VALUES; i++) {
        const struct value *value = &w->values[i];
        m.views[i] = (struct hd_view){.spec = &value->spec, .data = value->data};
        if (i == COUNTERS || i == EPISODES)
            continue;
        const int64_t bytes = hd_value_get_device_bytes(&value->spec);
        char *content = test_alloc(bytes, 1);
        memcpy(content, value->data, (size_t)hd_value_get_common_bytes(&value->spec));
        m.views[i].data =
            i == TRAJECTORIES ? device_make(NULL, bytes) : device_make(content, bytes);
    }
    if (!w->ports[NORM])
        m.views[NORM] = (struct hd_view){0};
    const struct hd_device_form *form = m.views[POLICY].spec->type->device;
    ck_assert_int_eq(form->ready(m.views[POLICY].spec), HD_OK);
    ck_assert_int_eq(
        form->renew_on_gpu(m.views[POLICY].spec, m.views[POLICY].data, device_stream()), HD_OK);
    return m;
}

/* Counts and episodes are those of `to`. */
static void collect_on_gpu(struct mirror *m, struct world *to, int64_t iteration)
{
    struct hd_context context = at(&to->setup, SHARD, iteration);
    char unused;
    context.items = 1;
    context.gpu = true;
    context.scratch = m->scratch;
    context.header = m->header;
    context.stream = device_stream();
    m->views[COUNTERS].data = to->values[COUNTERS].data;
    m->views[EPISODES].data = to->values[EPISODES].data;
    ck_assert_int_eq(to->verb->gpu->body(&context, m->views, m->args), HD_OK);
    device_get(&unused, m->views[TRAJECTORIES].data, 1); /* waits */
    context.headers = &m->header;
    ck_assert_int_eq(to->verb->finish(&context, m->views, m->args), HD_OK);
}

static void fetch(const struct mirror *m, struct world *to, int i)
{
    device_get(to->values[i].data, m->views[i].data, to->values[i].spec.bytes);
}

static void put(const struct mirror *m, const struct world *from, int i)
{
    DEVICE_TRY(cudaMemcpy(m->views[i].data, from->values[i].data,
                          (size_t)from->values[i].spec.bytes, cudaMemcpyHostToDevice));
}

/* The found logits become the wanted ones if they are close. */
static void adopt_logits(struct world *found, const struct world *wanted)
{
    const struct hd_spec *spec = &wanted->values[TRAJECTORIES].spec;
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(spec);
    const struct hd_trajectories a = hd_trajectories_get(spec, found->values[TRAJECTORIES].data, 0),
                                 b = hd_trajectories_get(spec, wanted->values[TRAJECTORIES].data,
                                                         0);
    for (int64_t i = 0; i < shape->envs * shape->steps * shape->actions; i++) {
        CHECK_CLOSE(a.logit[i], b.logit[i], 1, logits_off_by, "logit");
        a.logit[i] = b.logit[i];
    }
}

START_TEST(test_on_gpu)
{
    struct world here, there;
    open_case(&here, &hd_verb_collect_on_gpu, &cases[_i]);
    open_case(&there, &hd_verb_collect_on_gpu, &cases[_i]);
    struct mirror m = mirror_of(&there);
    for (int64_t iteration = 0; iteration < cases[_i].collects && iteration < 7; iteration++) {
        collect(&here, iteration);
        collect_on_gpu(&m, &there, iteration);
        fetch(&m, &there, TRAJECTORIES);
        fetch(&m, &there, ENVS);
        adopt_logits(&there, &here);
        check_same(&there, &here);
        ck_assert_mem_eq(there.values[ENVS].data, here.values[ENVS].data,
                         (size_t)here.values[ENVS].spec.bytes);
        if (iteration % 2 == 0) {
            hasten_gpu_envs(&here);
            hasten_gpu_envs(&there);
            put(&m, &there, ENVS);
        }
    }
    ck_assert_int_ge(((struct hd_env_counters *)there.values[COUNTERS].data)->episode,
                     2 * cases[_i].envs);
    unprepare(there.verb, m.args);
    world_close(&here);
    world_close(&there);
}
END_TEST

#endif

int main(void)
{
    TCase *cpu = tcase_create("cpu"), *cuda = NULL;
    tcase_set_timeout(cpu, 60);
    tcase_add_loop_test(cpu, test_as_on_policy, 0, CASES);
    tcase_add_test(cpu, test_type);
    tcase_add_test(cpu, test_verb);
    tcase_add_test(cpu, test_broken_file);
#if HD_CUDA
    cuda = tcase_create("cuda");
    tcase_set_timeout(cuda, 120);
    tcase_add_loop_test(cuda, test_on_gpu, 0, CASES);
#endif
    return run_cuda_suite("collect_on_gpu", cpu, cuda);
}
