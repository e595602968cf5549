/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rows of a batch of each type for loss_grad. */
#include "tasks/learn/losses/loss.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/critic_batch.h"
#include "tasks/types/data/minibatch.h"

static const int64_t *get_used_of_batch(const struct hd_view *view)
{
    return hd_batch_get_use(view->spec, view->data).used;
}

static struct hd_loss_rows get_rows_of_batch(const struct hd_view *view)
{
    const struct hd_transitions rows = hd_batch_get_rows(view->spec, view->data);
    return (struct hd_loss_rows){.obs = rows.obs, .next_obs = rows.next_obs};
}

const struct hd_loss_batch hd_loss_batch = {"batch", get_used_of_batch, get_rows_of_batch};

static const int64_t *get_used_of_minibatch(const struct hd_view *view)
{
    return hd_minibatch_get(view->spec, view->data).used;
}

static struct hd_loss_rows get_rows_of_minibatch(const struct hd_view *view)
{
    const struct hd_minibatch batch = hd_minibatch_get(view->spec, view->data);
    const struct hd_sequences *sequences = &hd_minibatch_get_shape(view->spec)->sequences;
    return (struct hd_loss_rows){.obs = batch.obs,
                                 .steps = sequences->state > 0 ? sequences->steps : 0,
                                 .state = batch.state,
                                 .begins = batch.begins};
}

const struct hd_loss_batch hd_loss_minibatch = {"minibatch", get_used_of_minibatch,
                                                get_rows_of_minibatch};

static const int64_t *get_used_of_critic_batch(const struct hd_view *view)
{
    return hd_critic_batch_get(view->spec, view->data).used;
}

static struct hd_loss_rows get_rows_of_critic_batch(const struct hd_view *view)
{
    return (struct hd_loss_rows){.obs = hd_critic_batch_get(view->spec, view->data).input};
}

const struct hd_loss_batch hd_loss_critic_batch = {"critic_batch", get_used_of_critic_batch,
                                                   get_rows_of_critic_batch};
