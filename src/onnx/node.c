/* SPDX-License-Identifier: Apache-2.0
 *
 * What the function of an operator sees of its node: inputs, attributes, values that shapes depend on, outputs. */
#include "onnx/onnx.h"

#include <sambaflow/elementwise.h>
#include <stdlib.h>
#include <string.h>

/* ---- refusals ---- */

/* "node 'x' (Conv, version 11)": as a person finds it in the model. */
static void describe(const samba_onnx_node *node, char *text, size_t size)
{
    const Samba__Onnx__NodeProto *proto = node->proto;
    const char *name = proto->name && proto->name[0] ? proto->name : proto->n_output > 0 ? proto->output[0] : "";
    char shown[SAMBA_SHOWN], op[SAMBA_SHOWN], domain[SAMBA_SHOWN];
    bool other = proto->domain && proto->domain[0] && strcmp(proto->domain, "ai.onnx") != 0;
    snprintf(text, size, "node '%.160s' (%s%s%.100s, version %lld)", samba_shown(name, shown),
             other ? samba_shown(proto->domain, domain) : "", other ? "." : "", samba_shown(node->op, op),
             (long long)node->version);
}

void samba_onnx_refuse(samba_onnx_node *node, const char *format, ...)
{
    if (node->refused)
        return;
    node->refused = true;
    samba_onnx_reader *reader = node->reader;
    reader->graph->status = SAMBA_OK; /* a message of its functions is told in this line, and reading goes on */
    reader->refusal_count++;
    if (reader->refusals.length > 16 << 10)
        return;
    char place[512], reason[768];
    va_list arguments;
    describe(node, place, sizeof place);
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    samba_text_add(&reader->refusals, "%s%s: %s", reader->refusals.length ? "; " : "", place, reason);
}

/* ---- inputs ---- */

bool samba_onnx_has(const samba_onnx_node *node, int index) { return index < node->input_count && node->inputs[index]; }

samba_onnx_item *samba_onnx_item_in(samba_onnx_node *node, int index)
{
    if (!samba_onnx_has(node, index))
        return NULL;
    node->read[index] = true;
    return node->inputs[index];
}

int32_t samba_onnx_type_in(const samba_onnx_node *node, int index)
{
    if (!samba_onnx_has(node, index))
        return 0;
    const samba_onnx_item *item = node->inputs[index];
    return item->initializer ? item->initializer->data_type : item->type;
}

samba_value samba_onnx_in(samba_onnx_node *node, int index)
{
    const samba_value none = {NULL, 0, 0};
    samba_onnx_item *item = samba_onnx_item_in(node, index);
    if (!item || node->refused)
        return none;
    if (item->is_list)
        return samba_onnx_refuse(node, "input %d is a sequence, a tensor is expected", index), none;
    samba_value value = samba_onnx_value_of(node->reader, item);
    if (!value.graph)
        samba_onnx_refuse(node, "input %d, \"%.200s\": %s", index, item->name, samba_error_message(node->reader->context));
    for (int i = 0; i < samba_value_rank(value); i++) /* a product of two sizes, or of one and an attribute, has 63 bits */
        if (samba_value_size(value, i) > INT32_MAX) {
            samba_onnx_refuse(node, "input %d has %lld elements in dim %d; at most %d are supported", index,
                              (long long)samba_value_size(value, i), i, INT32_MAX);
            return none;
        }
    return value;
}

samba_value samba_onnx_need(samba_onnx_node *node, int index)
{
    if (!samba_onnx_has(node, index))
        return onnx_refused(node, "input %d is missing", index);
    return samba_onnx_in(node, index);
}

/* ---- outputs ---- */

bool samba_onnx_wants(const samba_onnx_node *node, int index) { return index < node->output_count && node->outputs[index]; }

samba_onnx_item *samba_onnx_new_item(samba_onnx_reader *reader, const char *name)
{
    samba_onnx_item *item = samba_arena_alloc(&reader->arena, sizeof *item);
    if (item)
        item->name = name;
    return item;
}

bool samba_onnx_afford(samba_onnx_node *node, double bytes, double steps)
{
    samba_onnx_reader *reader = node->reader;
    if (node->refused)
        return false;
    reader->room += bytes;
    reader->known_flops += steps;
    if (reader->room > 0x1p30 + 64 * (double)reader->model->size)
        samba_onnx_refuse(node, "the model's nodes would take more memory to read than a file of its size may");
    else if (reader->known_flops > ONNX_MOST_STEPS)
        samba_onnx_refuse(node, "the model's nodes would take too long to read: they compute too much of constants");
    return !node->refused;
}

void samba_onnx_out(samba_onnx_node *node, int index, samba_value value)
{
    if (node->refused || !samba_onnx_wants(node, index))
        return;
    samba_onnx_item *item = node->outputs[index];
    item->missing = false;
    item->value = samba_onnx_fold(node->reader, value);
    if (!item->value.graph || item->value.index == SAMBA_NONE || node->graph->status != SAMBA_OK)
        samba_onnx_refuse(node, "%s", node->graph->status != SAMBA_OK ? node->graph->error : "an output has no value");
}

void samba_onnx_out_type(samba_onnx_node *node, int index, int32_t type)
{
    if (samba_onnx_wants(node, index))
        node->outputs[index]->type = type;
}

void samba_onnx_out_same(samba_onnx_node *node, samba_value value)
{
    samba_onnx_out(node, 0, value);
    samba_onnx_out_type(node, 0, samba_onnx_type_in(node, 0));
}

void samba_onnx_out_list(samba_onnx_node *node, int index, int count, samba_onnx_item **list)
{
    if (node->refused || !samba_onnx_wants(node, index))
        return;
    samba_onnx_item *item = node->outputs[index];
    item->missing = false;
    item->is_list = true;
    item->list_count = count;
    item->list = list;
}

/* ---- attributes ---- */

const Samba__Onnx__AttributeProto *samba_onnx_attribute(samba_onnx_node *node, const char *name)
{
    const Samba__Onnx__NodeProto *proto = node->proto;
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Samba__Onnx__AttributeProto *attribute = proto->attribute[i];
        if (!attribute->name || strcmp(attribute->name, name) != 0)
            continue;
        node->told[i] = true;
        if (!attribute->ref_attr_name || !attribute->ref_attr_name[0])
            return attribute;
        const samba_onnx_frame *frame = node->reader->frame; /* of the function's body that the node stands in */
        for (int k = 0; k < frame->attribute_count; k++)
            if (frame->attributes[k]->name && strcmp(frame->attributes[k]->name, attribute->ref_attr_name) == 0)
                return frame->attributes[k];
        return NULL;
    }
    return NULL;
}

/* Files of the first IR versions have no type. */
static bool is_of(samba_onnx_node *node, const Samba__Onnx__AttributeProto *attribute, int type, const char *expected)
{
    if (!attribute->has_type || (int)attribute->type == type)
        return true;
    samba_onnx_refuse(node, "attribute %.100s is not %s", attribute->name, expected);
    return false;
}
#define A(name) SAMBA__ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

int64_t samba_onnx_int(samba_onnx_node *node, const char *name, int64_t fallback)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    if (!attribute || !is_of(node, attribute, A(INT), "an integer"))
        return fallback;
    if (attribute->i >= -INT32_MAX && attribute->i <= INT32_MAX) /* whoever asks may compute with it */
        return attribute->i;
    samba_onnx_refuse(node, "attribute %s is %lld, which is out of range", name, (long long)attribute->i);
    return fallback;
}

bool samba_onnx_flag(samba_onnx_node *node, const char *name, bool fallback) { return samba_onnx_int(node, name, fallback) != 0; }

double samba_onnx_float(samba_onnx_node *node, const char *name, double fallback)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    return attribute && is_of(node, attribute, A(FLOAT), "a number") ? (double)attribute->f : fallback;
}

const char *samba_onnx_text(samba_onnx_node *node, const char *name, const char *fallback)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    if (!attribute || !is_of(node, attribute, A(STRING), "a text"))
        return fallback;
    if (!samba_onnx_afford(node, (double)attribute->s.len, 0))
        return fallback;
    char *text = samba_arena_alloc(&node->reader->arena, attribute->s.len + 1); /* it need not end with a NUL */
    if (text && attribute->s.len > 0)
        memcpy(text, attribute->s.data, attribute->s.len);
    return text ? text : fallback;
}

int samba_onnx_ints(samba_onnx_node *node, const char *name, int most, int64_t *values)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    if (!attribute || !is_of(node, attribute, A(INTS), "a list of integers"))
        return -1;
    if (attribute->n_ints > (size_t)most) {
        samba_onnx_refuse(node, "attribute %s has %zu numbers; at most %d are supported here", name, attribute->n_ints, most);
        return -1;
    }
    for (size_t i = 0; i < attribute->n_ints; i++)
        values[i] = attribute->ints[i];
    return (int)attribute->n_ints;
}

const Samba__Onnx__GraphProto *samba_onnx_graph(samba_onnx_node *node, const char *name)
{
    const Samba__Onnx__AttributeProto *attribute = samba_onnx_attribute(node, name);
    if (attribute && attribute->g)
        return attribute->g;
    samba_onnx_refuse(node, "it has no graph \"%s\"", name);
    return NULL;
}

int samba_onnx_choice(samba_onnx_node *node, const char *name, const char *fallback, const char *const *words)
{
    const char *word = samba_onnx_text(node, name, fallback);
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    samba_onnx_refuse(node, "%s is \"%.64s\", which SambaFlow does not know", name, word);
    return 0;
}

/* ---- values that must be known ---- */

const samba_array *samba_onnx_known_in(samba_onnx_node *node, int index, const char *what)
{
    samba_onnx_item *item = samba_onnx_item_in(node, index);
    if (!item || node->refused)
        return NULL;
    samba_onnx_reader *reader = node->reader;
    samba_value value = item->value;
    if (!value.graph && item->initializer) { /* a constant, whatever else of the model takes it as a parameter */
        samba_onnx_form form;
        samba_status status = samba_onnx_form_of(reader->model, item->initializer, &form);
        if (status == SAMBA_OK && samba_onnx_afford(node, 2 * (double)form.bytes, 0))
            status = samba_onnx_constant_of(reader->model, item->initializer, node->graph, &value);
        if (status != SAMBA_OK)
            samba_onnx_refuse(node, "%s", samba_error_message(reader->context));
        if (node->refused)
            return NULL;
    }
    uint64_t inputs;
    const samba_array *array = samba_onnx_known(reader, value, &inputs);
    if (!array)
        samba_onnx_refuse(node, "%s, \"%.200s\", is not known when the model is read: it depends on data, and so would shapes",
                          what, item->name);
    reader->model->built_in |= inputs;
    return array;
}

int samba_onnx_known_ints(samba_onnx_node *node, int index, const char *what, int most, int64_t *values)
{
    const samba_array *array = samba_onnx_known_in(node, index, what);
    if (!array)
        return -1;
    if (samba_dtype_is_floating_point(array->dtype) || array->rank > 1 || array->numel > most) {
        samba_onnx_refuse(node, "%s is %s%s: a list of at most %d integers is expected", what, samba_dtype_name(array->dtype),
                          SAMBA_SHAPE_OF(array), most);
        return -1;
    }
    for (int64_t i = 0; i < array->numel; i++)
        values[i] = samba_load_int64(array->dtype, (const char *)array->data + i * (int64_t)samba_dtype_size(array->dtype));
    return (int)array->numel;
}

int64_t samba_onnx_known_int(samba_onnx_node *node, int index, const char *what, int64_t fallback)
{
    int64_t value = fallback;
    return samba_onnx_known_ints(node, index, what, 1, &value) == 1 ? value : fallback;
}

int samba_onnx_known_doubles(samba_onnx_node *node, int index, const char *what, int most, double *values)
{
    const samba_array *array = samba_onnx_known_in(node, index, what);
    if (!array)
        return -1;
    if (array->rank > 1 || array->numel > most) {
        samba_onnx_refuse(node, "%s is of shape %s: a list of at most %d numbers is expected", what, SAMBA_SHAPE_OF(array), most);
        return -1;
    }
    for (int64_t i = 0; i < array->numel; i++)
        values[i] = samba_load_double(array->dtype, (const char *)array->data + i * (int64_t)samba_dtype_size(array->dtype));
    return (int)array->numel;
}

double samba_onnx_known_double(samba_onnx_node *node, int index, const char *what, double fallback)
{
    double value = fallback;
    return samba_onnx_known_doubles(node, index, what, 1, &value) == 1 ? value : fallback;
}

static bool fit_axis(samba_onnx_node *node, const char *name, int64_t axis, int rank, int *dim)
{
    if (axis < -rank || axis >= rank) {
        samba_onnx_refuse(node, "%s %lld is out of range for a value of rank %d", name, (long long)axis, rank);
        return false;
    }
    *dim = (int)(axis < 0 ? axis + rank : axis);
    return true;
}

int samba_onnx_fit_dim(samba_onnx_node *node, int64_t axis, int rank)
{
    int dim;
    return !node->refused && fit_axis(node, "axis", axis, rank, &dim) ? dim : -1;
}

bool samba_onnx_within(samba_onnx_node *node, const char *name, int64_t value, int64_t least, int64_t greatest)
{
    if (value < least || value > greatest)
        samba_onnx_refuse(node, "%s has the number %lld, which is not between %lld and %lld", name, (long long)value,
                          (long long)least, (long long)greatest);
    return !node->refused;
}

int samba_onnx_axes(samba_onnx_node *node, int index, int64_t since, int rank, int dims[SAMBA_MAX_RANK])
{
    int64_t axes[SAMBA_MAX_RANK];
    int count = node->version < since ? samba_onnx_ints(node, "axes", SAMBA_MAX_RANK, axes)
                                      : samba_onnx_known_ints(node, index, "axes", SAMBA_MAX_RANK, axes);
    for (int i = 0; i < count; i++)
        if (!fit_axis(node, "axis", axes[i], rank, &dims[i]))
            return -1;
    return count;
}

int samba_onnx_axis(samba_onnx_node *node, const char *name, int64_t fallback, int rank)
{
    int dim;
    return fit_axis(node, name, samba_onnx_int(node, name, fallback), rank, &dim) ? dim : -1;
}

/* ---- small values ---- */

samba_value samba_onnx_number(samba_onnx_node *node, double value) { return samba_number(node->graph, value); }

samba_value samba_onnx_like(samba_onnx_node *node, double value, samba_value like)
{
    return samba_constant(node->graph, value, samba_value_dtype(like), 0, NULL);
}

samba_value samba_onnx_ints_value(samba_onnx_node *node, int rank, const int64_t *shape, const int64_t *values)
{
    samba_tensor *tensor;
    int64_t numel;
    if (samba_shape_numel(rank, shape, &numel) && !samba_onnx_afford(node, 8 * (double)numel, 0))
        return (samba_value){NULL, SAMBA_NONE, 0};
    if (samba_tensor_from_memory(node->reader->context, NULL, SAMBA_INT64, rank, shape, NULL, (void *)(uintptr_t)values, NULL,
                                 NULL, &tensor) != SAMBA_OK)
        return onnx_refused(node, "%s", samba_error_message(node->reader->context));
    samba_value value = samba_constant_tensor(node->graph, tensor);
    samba_tensor_free(tensor);
    return value;
}

void samba_onnx_shape(samba_value value, int64_t shape[SAMBA_MAX_RANK])
{
    for (int i = 0; i < samba_value_rank(value); i++)
        shape[i] = samba_value_size(value, i);
}
