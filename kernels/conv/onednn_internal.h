/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN's C interface, as far as convolutions need it: one notation for versions 2 and 3, and
 * primitives that carry their arguments. Functions that make a handle return NULL when oneDNN
 * refuses. Thread safe on different objects, after hd_dnnl_enter in each thread. */
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef const_dnnl_primitive_desc_t hd_dnnl_pd;

static inline void hd_dnnl_copy_dims(int dims, const dnnl_dim_t *shape, dnnl_dims_t all)
{
    for (int i = 0; i < DNNL_MAX_NDIMS; i++)
        all[i] = i < dims ? shape[i] : 0;
}

/* -- Memory descriptors: values of version 2, objects of version 3; made on the heap in both --- */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t hd_dnnl_md; /* owned */
typedef const_dnnl_memory_desc_t hd_dnnl_const_md;

static inline hd_dnnl_md hd_dnnl_md_create(int dims, const dnnl_dim_t *shape, dnnl_data_type_t type,
                                           dnnl_format_tag_t tag)
{
    hd_dnnl_md md;
    dnnl_dims_t all;
    hd_dnnl_copy_dims(dims, shape, all);
    return dnnl_memory_desc_create_with_tag(&md, dims, all, type, tag) == dnnl_success ? md : NULL;
}

static inline hd_dnnl_md hd_dnnl_md_copy(hd_dnnl_const_md md)
{
    hd_dnnl_md copy;
    return md && dnnl_memory_desc_clone(&copy, md) == dnnl_success ? copy : NULL;
}

static inline void hd_dnnl_md_free(hd_dnnl_md md)
{
    if (md)
        dnnl_memory_desc_destroy(md);
}

static inline dnnl_status_t hd_dnnl_append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.0f, 0.0f);
}

#else

typedef dnnl_memory_desc_t *hd_dnnl_md; /* owned */
typedef const dnnl_memory_desc_t *hd_dnnl_const_md;

static inline hd_dnnl_md hd_dnnl_md_copy(hd_dnnl_const_md md)
{
    hd_dnnl_md copy = md ? malloc(sizeof *copy) : NULL;
    if (copy)
        *copy = *md;
    return copy;
}

static inline hd_dnnl_md hd_dnnl_md_create(int dims, const dnnl_dim_t *shape, dnnl_data_type_t type,
                                           dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t all;
    hd_dnnl_copy_dims(dims, shape, all);
    if (dnnl_memory_desc_init_by_tag(&md, dims, all, type, tag) != dnnl_success)
        return NULL;
    return hd_dnnl_md_copy(&md);
}

static inline void hd_dnnl_md_free(hd_dnnl_md md)
{
    free(md);
}

static inline dnnl_status_t hd_dnnl_append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f);
}

#endif

/* -- Convolutions ------------------------------------------------------------------------------ */

enum hd_dnnl_kind { HD_DNNL_FORWARD, HD_DNNL_BACKWARD_DATA, HD_DNNL_BACKWARD_WEIGHTS };

/* The parameters of one convolution; bias is NULL for backward data. */
struct hd_dnnl_conv {
    enum hd_dnnl_kind kind;
    hd_dnnl_const_md src, weights, bias, dst; /* or their gradients */
    int64_t stride, padding;
    hd_dnnl_pd hint; /* a forward description, for the backward kinds */
};

static inline dnnl_primitive_desc_t hd_dnnl_conv_create(dnnl_engine_t engine,
                                                        const struct hd_dnnl_conv *conv,
                                                        const_dnnl_primitive_attr_t attr)
{
    const dnnl_dims_t strides = {conv->stride, conv->stride};
    const dnnl_dims_t padding = {conv->padding, conv->padding};
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status;
#if DNNL_VERSION_MAJOR >= 3
    const dnnl_dims_t undilated = {0, 0};
    if (conv->kind == HD_DNNL_FORWARD)
        status = dnnl_convolution_forward_primitive_desc_create(
            &pd, engine, dnnl_forward_training, dnnl_convolution_direct, conv->src, conv->weights,
            conv->bias, conv->dst, strides, undilated, padding, padding, attr);
    else if (conv->kind == HD_DNNL_BACKWARD_DATA)
        status = dnnl_convolution_backward_data_primitive_desc_create(
            &pd, engine, dnnl_convolution_direct, conv->src, conv->weights, conv->dst, strides,
            undilated, padding, padding, conv->hint, attr);
    else
        status = dnnl_convolution_backward_weights_primitive_desc_create(
            &pd, engine, dnnl_convolution_direct, conv->src, conv->weights, conv->bias, conv->dst,
            strides, undilated, padding, padding, conv->hint, attr);
#else
    dnnl_convolution_desc_t desc;
    if (conv->kind == HD_DNNL_FORWARD)
        status = dnnl_convolution_forward_desc_init(
            &desc, dnnl_forward_training, dnnl_convolution_direct, conv->src, conv->weights,
            conv->bias, conv->dst, strides, padding, padding);
    else if (conv->kind == HD_DNNL_BACKWARD_DATA)
        status = dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, conv->src,
                                                          conv->weights, conv->dst, strides,
                                                          padding, padding);
    else
        status = dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct,
                                                             conv->src, conv->weights, conv->bias,
                                                             conv->dst, strides, padding, padding);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&pd, &desc, attr, engine, conv->hint);
#endif
    return status == dnnl_success ? pd : NULL;
}

/* -- Primitives with their arguments ----------------------------------------------------------- */

enum { HD_DNNL_ARGS = 5, HD_DNNL_NAME = 64 };

struct hd_dnnl_op {
    dnnl_primitive_t primitive; /* NULL: nothing to run */
    int n;
    int arg[HD_DNNL_ARGS]; /* the last one is the scratchpad */
    hd_dnnl_md md[HD_DNNL_ARGS];
    char name[HD_DNNL_NAME]; /* of the implementation */
};

/* Makes the calling thread compute alone, because results depend on the number of threads. Every
 * thread calls it before anything else here. Returns HD_OK or HD_ERR_UNSUPPORTED (logged). */
int hd_dnnl_enter(void);

/* Keeps oneDNN from using more of the processor than these kernels are compiled for, so that what a
 * run computes does not depend on the rest; before any other call of it. */
void hd_dnnl_limit_isa(void);

/* Returns the engine of the CPU; only after hd_dnnl_enter. */
dnnl_engine_t hd_dnnl_get_engine(void);

/* Logs that oneDNN cannot make `what` and returns HD_ERR_UNSUPPORTED. */
int hd_dnnl_report_refusal(const char *what);

/* Returns attributes with scratchpad memory from the caller and, if `relu`, a ReLU on the result;
 * NULL on failure. */
dnnl_primitive_attr_t hd_dnnl_get_attr(bool relu);

/* Return what a description wants for an argument (borrowed), and its bytes. */
hd_dnnl_const_md hd_dnnl_pd_get_md(hd_dnnl_pd pd, int arg);
int64_t hd_dnnl_md_get_bytes(hd_dnnl_const_md md);

/* Makes a primitive with the arguments `args`, which end with 0; takes over pd. Returns HD_OK or
 * HD_ERR_UNSUPPORTED (logged). */
int hd_dnnl_op_create(dnnl_primitive_desc_t pd, const int *args, struct hd_dnnl_op *op_p);
void hd_dnnl_op_release(struct hd_dnnl_op *op);

/* Makes a conversion between two layouts, with arguments from, to, scratchpad. Returns HD_OK or
 * HD_ERR_UNSUPPORTED (logged). */
int hd_dnnl_reorder(hd_dnnl_const_md from, hd_dnnl_const_md to, struct hd_dnnl_op *op_p);

/* Runs the primitive on the memory `handles`, in the order of the arguments. Returns HD_OK or
 * HD_ERR_TASK (logged). */
int hd_dnnl_op_run(const struct hd_dnnl_op *op, void *const *handles);
