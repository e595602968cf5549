/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/simulate/model/dependences.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

enum { NONE = -1, SEEN = 1 << 16 };

/* A bucket of a partial of a buffer, or a token. */
struct handle {
    int writer;  /* the last one; NONE */
    int readers; /* since then: index of the newest in `readers`; NONE */
    int node;    /* the last that was looked at */
    bool writes; /* whether that one writes */
};

struct reader {
    int node, next;
};

/* The handles of a buffer lie side by side. */
struct place {
    const void *buffer; /* NULL: free */
    int64_t first;
};

struct hd_dependences {
    struct place *places; /* an open hash table, whose length is a power of two */
    int64_t n_places, length;
    struct handle *handles;
    int64_t n_handles, handles_capacity;
    struct reader *readers;
    int64_t n_readers, readers_capacity;
    int free_readers; /* index of the first that can be used again; NONE */
    int64_t *touched; /* handles of the node */
    int64_t n_touched, touched_capacity;
    int *before;
    int64_t n_before, before_capacity;
    struct {
        int before, node; /* it is in the list of that node */
    } seen[SEEN];         /* [before % SEEN] */
};

int hd_dependences_create(struct hd_dependences **dependences_p)
{
    *dependences_p = hd_alloc(1, sizeof **dependences_p);
    if (!*dependences_p)
        return HD_ERR_NOMEM;
    (*dependences_p)->free_readers = NONE;
    for (int i = 0; i < SEEN; i++)
        (*dependences_p)->seen[i].node = NONE;
    return HD_OK;
}

void hd_dependences_destroy(struct hd_dependences *dependences)
{
    if (!dependences)
        return;
    hd_free(dependences->places);
    hd_free(dependences->handles);
    hd_free(dependences->readers);
    hd_free(dependences->touched);
    hd_free(dependences->before);
    hd_free(dependences);
}

/* -- Handles ----------------------------------------------------------------------------------- */

static struct place *look_up(struct place *places, int64_t length, const void *buffer)
{
    uint64_t at = (uint64_t)(uintptr_t)buffer * 0x9e3779b97f4a7c15u >> 20;
    for (;; at++) {
        struct place *place = &places[at & (uint64_t)(length - 1)];
        if (!place->buffer || place->buffer == buffer)
            return place;
    }
}

static int grow_places(struct hd_dependences *dependences)
{
    enum { FIRST_LENGTH = 1024 };
    if (2 * dependences->n_places < dependences->length)
        return HD_OK;
    const int64_t length = dependences->length > 0 ? 2 * dependences->length : FIRST_LENGTH;
    struct place *places = hd_alloc(length, sizeof *places);
    if (!places)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < dependences->length; i++)
        if (dependences->places[i].buffer)
            *look_up(places, length, dependences->places[i].buffer) = dependences->places[i];
    hd_free(dependences->places);
    dependences->places = places;
    dependences->length = length;
    return HD_OK;
}

/* Stores where the n handles of a buffer begin; new ones nobody has touched. */
static int find_handles(struct hd_dependences *dependences, const void *buffer, int64_t n,
                        int64_t *first_p)
{
    HD_TRY(grow_places(dependences));
    struct place *place = look_up(dependences->places, dependences->length, buffer);
    if (!place->buffer) {
        HD_TRY(hd_grow((void **)&dependences->handles, &dependences->handles_capacity,
                       dependences->n_handles + n, sizeof *dependences->handles));
        *place = (struct place){buffer, dependences->n_handles};
        dependences->n_places++;
        for (int64_t i = 0; i < n; i++)
            dependences->handles[dependences->n_handles++] =
                (struct handle){.writer = NONE, .readers = NONE, .node = NONE};
    }
    *first_p = place->first;
    return HD_OK;
}

/* A handle may be named several times: the stronger access wins. */
static int touch(struct hd_dependences *dependences, int64_t at, int node, bool writes)
{
    struct handle *handle = &dependences->handles[at];
    if (handle->node == node) {
        handle->writes = handle->writes || writes;
        return HD_OK;
    }
    handle->node = node;
    handle->writes = writes;
    HD_TRY(hd_grow((void **)&dependences->touched, &dependences->touched_capacity,
                   dependences->n_touched + 1, sizeof *dependences->touched));
    dependences->touched[dependences->n_touched++] = at;
    return HD_OK;
}

static int touch_access(struct hd_dependences *dependences, int node,
                        const struct hd_access *access)
{
    if (!access->buffer)
        return HD_OK;
    const int buckets = hd_buffer_count_buckets(access->buffer);
    const int64_t partials = hd_buffer_count_partials(access->buffer);
    const bool all = access->bucket == HD_ALL_BUCKETS, whole = access->partial == HD_ALL_PARTIALS;
    int64_t first;
    HD_TRY(find_handles(dependences, access->buffer, buckets * partials, &first));
    for (int b = all ? 0 : access->bucket; b < (all ? buckets : access->bucket + 1); b++)
        for (int64_t p = whole ? 0 : access->partial; p < (whole ? partials : access->partial + 1);
             p++)
            HD_TRY(touch(dependences, first + b * partials + p, node, access->mode != HD_READ));
    return HD_OK;
}

/* -- What a node depends on -------------------------------------------------------------------- */

static int add_before(struct hd_dependences *dependences, int node, int before)
{
    if (before == NONE || (dependences->seen[before % SEEN].before == before &&
                           dependences->seen[before % SEEN].node == node))
        return HD_OK;
    dependences->seen[before % SEEN].before = before;
    dependences->seen[before % SEEN].node = node;
    HD_TRY(hd_grow((void **)&dependences->before, &dependences->before_capacity,
                   dependences->n_before + 1, sizeof *dependences->before));
    dependences->before[dependences->n_before++] = before;
    return HD_OK;
}

static int add_reader(struct hd_dependences *dependences, int node, struct handle *handle)
{
    int at = dependences->free_readers;
    if (at == NONE) {
        HD_TRY(hd_grow((void **)&dependences->readers, &dependences->readers_capacity,
                       dependences->n_readers + 1, sizeof *dependences->readers));
        at = (int)dependences->n_readers++;
    } else {
        dependences->free_readers = dependences->readers[at].next;
    }
    dependences->readers[at] = (struct reader){node, handle->readers};
    handle->readers = at;
    return HD_OK;
}

static int pass(struct hd_dependences *dependences, int node, struct handle *handle)
{
    HD_TRY(add_before(dependences, node, handle->writer));
    if (!handle->writes)
        return add_reader(dependences, node, handle);
    for (int i = handle->readers, next; i != NONE; i = next) {
        HD_TRY(add_before(dependences, node, dependences->readers[i].node));
        next = dependences->readers[i].next;
        dependences->readers[i].next = dependences->free_readers;
        dependences->free_readers = i;
    }
    handle->writer = node;
    handle->readers = NONE;
    return HD_OK;
}

int hd_dependences_find(struct hd_dependences *dependences, int node,
                        const struct hd_access *accesses, int n, const void *token,
                        const int **before_p, int *n_p)
{
    dependences->n_touched = dependences->n_before = 0;
    for (int i = 0; i < n; i++)
        HD_TRY(touch_access(dependences, node, &accesses[i]));
    if (token) {
        int64_t at;
        HD_TRY(find_handles(dependences, token, 1, &at));
        HD_TRY(touch(dependences, at, node, true));
    }
    for (int64_t i = 0; i < dependences->n_touched; i++)
        HD_TRY(pass(dependences, node, &dependences->handles[dependences->touched[i]]));
    *before_p = dependences->before;
    *n_p = (int)dependences->n_before;
    return HD_OK;
}
