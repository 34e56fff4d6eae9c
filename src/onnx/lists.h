/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of numbers and texts of any length that attributes hold, and constants of numbers that are computed while reading. */
#ifndef SAMBA_ONNX_LISTS_H
#define SAMBA_ONNX_LISTS_H

#include "onnx/onnx.h"

/* The numbers of an attribute, in the model's memory or the reader's; NULL, and count 0: none. */
const float *samba_onnx_floats(samba_onnx_node *node, const char *name, int64_t *count);
const int64_t *samba_onnx_long_ints(samba_onnx_node *node, const char *name, int64_t *count);
/* Those of the list `name`, or of the tensor "<name>_as_tensor"; NULL: none, or refused. */
const double *samba_onnx_doubles(samba_onnx_node *node, const char *name, int64_t *count);
/* Those of an attribute that is a tensor. */
const double *samba_onnx_tensor_doubles(samba_onnx_node *node, const char *name, int64_t *count);
/* The texts of an attribute, each with a NUL behind it. */
const char *const *samba_onnx_words(samba_onnx_node *node, const char *name, int64_t *count);

/* The elements of an input that decides a shape, known as constants are, or as examples that may be built in; NULL: refused. */
const samba_array *samba_onnx_data_in(samba_onnx_node *node, int index);
static inline double samba_onnx_double_at(const samba_array *array, int64_t i)
{
    return samba_load_double(array->dtype, (const char *)array->data + i * (int64_t)samba_dtype_size(array->dtype));
}

/* A constant of that dtype. */
samba_value samba_onnx_doubles_value(samba_onnx_node *node, samba_dtype dtype, int rank, const int64_t *shape,
                                     const double *values);

/* A type as an input's item has it, or as its value's dtype says where the item does not. */
int32_t samba_onnx_type_of(samba_onnx_node *node, int index, samba_value value);

#endif
