/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/learn/freeze.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

static const char key[] = "policy.learn.freeze";

/* Returns whether a name is that of a tensor, or of a module around it: "encoder" of
 * "encoder.0.weight". */
static bool is_within(const char *tensor, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(tensor, name, length) == 0 && (tensor[length] == '\0' || tensor[length] == '.');
}

static int check_name(const struct hd_setup *setup, const struct hd_net *net,
                      const struct hd_node *name)
{
    const int n = hd_net_count_tensors(net);
    if (name->kind != HD_NODE_SCALAR || !name->text[0])
        return hd_diag_add_error(setup->diag, name->location,
                                 "%s: expected names of tensors or modules", key);
    for (int i = 0; i < n; i++)
        if (is_within(hd_net_get_tensor(net, i)->name, name->text))
            return HD_OK;
    return hd_diag_add_error(setup->diag, name->location,
                             "%s: the net has no tensor or module '%.60s'; its tensors are from "
                             "%s to %s",
                             key, name->text, hd_net_get_tensor(net, 0)->name,
                             hd_net_get_tensor(net, n - 1)->name);
}

static bool is_frozen(const struct hd_node *names, const char *tensor)
{
    for (int64_t i = 0; i < names->count; i++)
        if (is_within(tensor, names->items[i]->text))
            return true;
    return false;
}

/* Puts a one where each element of a tensor lies: the passes choose the layout. */
static int mark(const struct hd_net *net, int i, float *learns)
{
    const int64_t n = hd_net_get_tensor(net, i)->count;
    float *ones = hd_alloc(n, sizeof *ones);
    if (!ones)
        return HD_ERR_NOMEM;
    for (int64_t j = 0; j < n; j++)
        ones[j] = 1;
    const int status = hd_net_import_tensor(net, ones, i, learns);
    hd_free(ones);
    return status;
}

static int mark_all(const struct hd_setup *setup, const struct hd_net *net,
                    const struct hd_node *names, float *learns)
{
    int n = 0;
    for (int i = 0; i < hd_net_count_tensors(net); i++) {
        if (is_frozen(names, hd_net_get_tensor(net, i)->name))
            continue;
        HD_TRY(mark(net, i, learns));
        n++;
    }
    if (n > 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, names->location, "%s: nothing of the net would learn",
                             key);
}

int hd_freeze_read(const struct hd_setup *setup, const struct hd_net *net, float **learns_p)
{
    const struct hd_node *names = hd_config_get_node(setup->config, key);
    *learns_p = NULL;
    if (!names || (names->kind == HD_NODE_LIST && names->count == 0))
        return HD_OK;
    if (names->kind != HD_NODE_LIST)
        return hd_diag_add_error(setup->diag, names->location,
                                 "%s: expected a list of names of tensors or modules", key);
    if (hd_config_get_real(setup->config, "policy.learn.adam_eps") == 0)
        return hd_diag_add_error(setup->diag, names->location,
                                 "%s: with policy.learn.adam_eps 0 a gradient of zero would make "
                                 "frozen tensors NaN",
                                 key);
    for (int64_t i = 0; i < names->count; i++)
        HD_TRY(check_name(setup, net, names->items[i]));
    float *learns = hd_alloc(hd_net_get_params_bytes(net), 1);
    if (!learns)
        return HD_ERR_NOMEM;
    const int status = mark_all(setup, net, names, learns);
    if (status == HD_OK)
        *learns_p = learns;
    else
        hd_free(learns);
    return status;
}

void hd_freeze_apply(const float *learns, int64_t lo, int64_t hi, float *grad)
{
    for (int64_t i = lo; learns && i < hi; i++)
        if (learns[i] == 0)
            grad[i] = 0;
}
