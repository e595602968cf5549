/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/policy_file.h"

#include "runtime/base/alloc.h"
#include "runtime/base/config/node_json.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/safetensors.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/base/spaces.h"

#include <string.h>

const char *const hd_policy_file_key = "heddle_policy";
const char *const hd_policy_file_origins_key = "heddle_origins";

/* The keys by which a policy acts and is evaluated, and the lengths that a recurrent net is checked
 * with. The last one counts for built-in environments alone: others may have paths there. */
static const char *const prefixes[] = {"seed",
                                       "policy.type",
                                       "policy.model.",
                                       "policy.action_",
                                       "policy.eval.",
                                       "policy.collect.n_sample",
                                       "policy.collect.segment_at_done",
                                       "policy.collect.unroll_len",
                                       "policy.collect.clip_obs",
                                       "env.type",
                                       "env.env_id",
                                       "env.frame_stack",
                                       "env.collector_env_num",
                                       "env.evaluator_env_num",
                                       "env.n_evaluator_episode",
                                       "env.max_evaluator_step",
                                       "runtime.precision",
                                       "env.options"};
enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes };

char *hd_policy_file_describe(const struct hd_config *config)
{
    return hd_config_format(config, prefixes, N_PREFIXES - hd_env_is_plugin(config));
}

bool hd_policy_file_is_named(const char *path)
{
    static const char end[] = ".safetensors";
    const size_t length = strlen(path);
    return length >= sizeof end - 1 && strcmp(path + length - (sizeof end - 1), end) == 0;
}

/* Parses the description of an open file; *document_p stays NULL where it has none. */
static int parse(const struct hd_safetensors *file, const char *path, struct hd_diag *diag,
                 struct hd_document **document_p)
{
    const char *described = hd_safetensors_get_metadata(file, hd_policy_file_key);
    *document_p = NULL;
    if (!described)
        return HD_OK;
    char *text =
        hd_format("%s\ngraph: {}\n", described); /* a config needs one, a policy does not */
    const int status = text ? hd_document_parse(path, text, (int64_t)strlen(text), diag, document_p)
                            : HD_ERR_NOMEM;
    hd_free(text);
    return status;
}

static int read_file(const char *path, struct hd_diag *diag, struct hd_document **document_p)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_map(path, &file)); /* who loads the weights compares their hash */
    const int status = parse(file, path, diag, document_p);
    hd_safetensors_close(file);
    return status;
}

int hd_policy_file_read(const char *path, struct hd_diag *diag, struct hd_document **document_p)
{
    HD_TRY(read_file(path, diag, document_p));
    if (*document_p)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT,
                   "%s does not say which policy it holds: name the run directory or the run file, "
                   "and the weights beside it",
                   path);
}

int hd_policy_file_read_origins(const char *path, char **text_p)
{
    struct hd_safetensors *file;
    HD_TRY(hd_safetensors_map(path, &file));
    const char *text = hd_safetensors_get_metadata(file, hd_policy_file_origins_key);
    char *copy = text ? hd_strdup(text) : NULL;
    hd_safetensors_close(file);
    if (text && !copy)
        return HD_ERR_NOMEM;
    *text_p = copy;
    return HD_OK;
}

/* -- Beside a config --------------------------------------------------------------------------- */

/* Puts a shape or a kind of the policy in the place of auto. */
static int take_space(struct hd_config *config, const char *key, const struct hd_node *node)
{
    char *text = node ? hd_node_build_json(node) : NULL;
    const int status = !node ? HD_OK : text ? hd_spaces_fill(config, key, text) : HD_ERR_NOMEM;
    hd_free(text);
    return status;
}

static bool is_empty(const struct hd_node *node)
{
    return !node || (node->kind != HD_NODE_SCALAR && node->count == 0);
}

/* Compares stated bounds with those of the policy. A number for all dimensions is not compared with
 * a list: the environment compares it. */
static int compare_bounds(const char *weights, const struct hd_node *stated,
                          const struct hd_node *bounds, struct hd_diag *diag)
{
    const struct hd_node *low[] = {hd_node_get(stated, "low"), hd_node_get(bounds, "low")};
    char *here = hd_node_build_json(stated), *trained = hd_node_build_json(bounds);
    int status = here && trained ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK && low[0] && low[1] && low[0]->kind == low[1]->kind &&
        strcmp(here, trained) != 0)
        status = hd_diag_add_error(
            diag, stated->location,
            "policy.action_bounds: the policy in %s was trained with %.200s, found %.200s", weights,
            trained, here);
    hd_free(here);
    hd_free(trained);
    return status;
}

static int take_bounds(struct hd_config *config, const char *weights, const struct hd_node *bounds,
                       struct hd_diag *diag)
{
    const struct hd_node *stated = hd_config_get_node(config, "policy.action_bounds");
    if (is_empty(bounds))
        return HD_OK;
    if (is_empty(stated))
        return hd_config_override_tree(config, "policy.action_bounds", bounds);
    return compare_bounds(weights, stated, bounds, diag);
}

static void warn_of_other(const struct hd_config *config, const char *weights, const char *key,
                          const struct hd_node *trained)
{
    const char *here = hd_config_get_text(config, key);
    if (trained && strcmp(trained->text, here) != 0)
        hd_log(HD_LOG_WARN, "%s is of a policy with %s %s, here it is %s", weights, key,
               trained->text[0] ? trained->text : "\"\"", here[0] ? here : "\"\"");
}

/* Nets whose tensors have the same shapes may differ in activations. */
static int compare_net(const struct hd_config *config, const char *weights, const char *key,
                       const struct hd_node *trained, struct hd_diag *diag)
{
    const struct hd_node *stated = hd_config_get_node(config, key);
    if (is_empty(trained) && is_empty(stated))
        return HD_OK;
    char *here = stated ? hd_node_build_json(stated) : NULL;
    char *there = trained ? hd_node_build_json(trained) : NULL;
    int status = here && there ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK && strcmp(here, there) != 0)
        status = hd_diag_add_error(diag, stated->location,
                                   "%s: the policy in %s was trained with %.200s, found %.200s",
                                   key, weights, there, here);
    hd_free(here);
    hd_free(there);
    return status;
}

/* The policy's observations are clipped as it learned to see them. */
static int take_clip(struct hd_config *config, const struct hd_node *clip)
{
    return clip ? hd_config_override(config, "policy.collect.clip_obs", clip->text) : HD_OK;
}

static int complete(struct hd_config *config, const struct hd_document *document,
                    const char *weights, struct hd_diag *diag)
{
    const struct hd_node *root = hd_document_get_root(document), *env = hd_node_get(root, "env"),
                         *policy = hd_node_get(root, "policy"),
                         *model = hd_node_get(policy, "model");
    warn_of_other(config, weights, "env.type", hd_node_get(env, "type"));
    warn_of_other(config, weights, "env.env_id", hd_node_get(env, "env_id"));
    warn_of_other(config, weights, "policy.type", hd_node_get(policy, "type"));
    HD_TRY(compare_net(config, weights, "policy.model.inputs", hd_node_get(model, "inputs"), diag));
    HD_TRY(compare_net(config, weights, "policy.model.layers", hd_node_get(model, "layers"), diag));
    HD_TRY(compare_net(config, weights, "policy.model.heads", hd_node_get(model, "heads"), diag));
    HD_TRY(take_space(config, "policy.model.obs_shape", hd_node_get(model, "obs_shape")));
    HD_TRY(take_space(config, "policy.model.action_shape", hd_node_get(model, "action_shape")));
    HD_TRY(take_space(config, "policy.action_space", hd_node_get(policy, "action_space")));
    HD_TRY(take_clip(config, hd_node_get(hd_node_get(policy, "collect"), "clip_obs")));
    return take_bounds(config, weights, hd_node_get(policy, "action_bounds"), diag);
}

int hd_policy_file_complete(struct hd_config *config, const char *weights, struct hd_diag *diag)
{
    struct hd_document *document;
    HD_TRY(read_file(weights, diag, &document));
    const int status = document ? complete(config, document, weights, diag) : HD_OK;
    hd_document_destroy(document);
    return status;
}
