/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of ours in a model that we wrote. Where ONNX leaves something open (NaN in extremes, indices below 0, division by 0),
 * one operator is written as several nodes, of which the last says what it was (metadata_props of NodeProto):
 *
 *   sambaflow.operator    "gather dim=0 negative=1 : float32[2,3]", as the graph's text has it
 *   sambaflow.operand.0   "x", the name of a value
 *   sambaflow.operand.1   "i"
 *   sambaflow.through.1   "expand shape=[2,3] : int64[2,3]": the operand is that of the value. A constant has no value.
 *
 * Nobody is trusted in it: the operator is written once more, aside, and recognized where that gives the very nodes that the
 * model has. So a model that somebody changed means what its nodes say. */
#include "onnx/onnx.h"
#include "onnx/write.h"

#include <stdlib.h>
#include <string.h>

#define OPERATOR "sambaflow.operator"
#define OPERAND "sambaflow.operand."
#define THROUGH "sambaflow.through."
#define ROOM (1 << 16)            /* bytes */
#define MOST_RECOGNIZED (1 << 16) /* nodes that are tried: each costs the writing of an operator */

/* ---- writing ---- */

static Samba__Onnx__StringStringEntryProto *property(samba_onnx_writer *w, const char *key, const char *value)
{
    Samba__Onnx__StringStringEntryProto *entry;
    if (SAMBA_ROOM(&w->arena, entry, 1) != SAMBA_OK) {
        samba_onnx_stop(w, SAMBA_ERROR_MEMORY);
        return NULL;
    }
    samba__onnx__string_string_entry_proto__init(entry);
    entry->key = (char *)(uintptr_t)key;
    entry->value = (char *)(uintptr_t)value;
    return entry;
}

static const char *line_of(samba_onnx_writer *w, const samba_node *node)
{
    samba_text text;
    char *line = NULL;
    samba_text_init(&text, w->context);
    samba_graph_print_operator(&text, w->graph, node - w->graph->nodes);
    samba_status status = text.status == SAMBA_OK ? samba_text_keep(&text, &w->arena, &line) : text.status;
    samba_text_clear(&text);
    if (status != SAMBA_OK)
        samba_onnx_stop(w, status);
    return line ? line : "";
}

void samba_onnx_say_operator(samba_onnx_writer *w, Samba__Onnx__NodeProto *result, const samba_node *node)
{
    size_t count = 0;
    if (w->status != SAMBA_OK)
        return;
    if (SAMBA_ROOM(&w->arena, result->metadata_props, 2 * node->arity + 1) != SAMBA_OK) {
        samba_onnx_stop(w, SAMBA_ERROR_MEMORY);
        return;
    }
    result->metadata_props[count++] = property(w, OPERATOR, line_of(w, node));
    for (int i = 0; i < node->arity; i++) {
        const samba_node *from = samba_onnx_from(w, node, i);
        samba_ref value = node->inputs[i];
        if (samba_onnx_is_seen_through(from)) {
            result->metadata_props[count++] = property(w, samba_onnx_format(w, THROUGH "%d", i), line_of(w, from));
            if (from->arity == 0)
                continue;
            value = from->inputs[0];
        }
        result->metadata_props[count++] = property(w, samba_onnx_format(w, OPERAND "%d", i), w->values[value]);
    }
    result->n_metadata_props = w->status == SAMBA_OK ? count : 0;
}

/* ---- reading ---- */

static const char *said(const Samba__Onnx__NodeProto *proto, const char *key)
{
    for (size_t i = 0; i < proto->n_metadata_props; i++) {
        const Samba__Onnx__StringStringEntryProto *entry = proto->metadata_props[i];
        if (entry->key && entry->value && strcmp(entry->key, key) == 0)
            return entry->value;
    }
    return NULL;
}

typedef struct recognition {
    samba_onnx_node *node;
    samba_onnx_writer w;
    samba_graph *aside; /* inputs for the values, what operands are of them, the operator */
    int arity, value_count;
    const char *names[SAMBA_MAX_ARITY];  /* per operand: of its value; NULL: it has none */
    const char *lines[SAMBA_MAX_ARITY];  /* what it is of the value; NULL: that itself */
    int places[SAMBA_MAX_ARITY];         /* of its value among those */
    const char *values[SAMBA_MAX_ARITY]; /* each once: its name */
    samba_ref refs[SAMBA_MAX_ARITY];     /* and where it is in the reader's graph */
} recognition;

static const char *said_of(const Samba__Onnx__NodeProto *proto, const char *prefix, int operand)
{
    char key[sizeof OPERAND + 12];
    snprintf(key, sizeof key, "%s%d", prefix, operand);
    return said(proto, key);
}

static bool find_value(recognition *r, int operand)
{
    samba_onnx_reader *reader = r->node->reader;
    const char *name = r->names[operand];
    for (int i = 0; i < r->value_count; i++)
        if (strcmp(r->values[i], name) == 0) {
            r->places[operand] = i;
            return true;
        }
    samba_onnx_item *item = samba_onnx_find(reader, name);
    if (!item || item->missing || item->is_list)
        return false;
    samba_value value = samba_onnx_value_of(reader, item);
    if (!value.graph || value.index == SAMBA_NONE)
        return false;
    for (int i = 0; i < samba_value_rank(value); i++)
        if (samba_value_size(value, i) > INT32_MAX)
            return false;
    r->places[operand] = r->value_count;
    r->values[r->value_count] = name;
    r->refs[r->value_count++] = value.index;
    return true;
}

static bool find_operands(recognition *r)
{
    for (r->arity = 0;; r->arity++) {
        const char *name = said_of(r->node->proto, OPERAND, r->arity), *line = said_of(r->node->proto, THROUGH, r->arity);
        if (!name && !line)
            return true;
        if (r->arity == SAMBA_MAX_ARITY || (line && strchr(line, '\n')))
            return false;
        r->names[r->arity] = name;
        r->lines[r->arity] = line;
        if (name && !find_value(r, r->arity))
            return false;
    }
}

/* The text of an input of the dtype and shape that a value has. */
static void add_input(samba_text *text, const samba_node *node, int number)
{
    const char *dtype = samba_dtype_name((samba_dtype)node->dtype);
    char shape[SAMBA_SHAPE_TEXT * 2], *end = shape;
    *end++ = '[';
    for (int i = 0; i < node->rank; i++)
        end += snprintf(end, 24, i ? ",%lld" : "%lld", (long long)node->shape[i]);
    snprintf(end, 2, "]");
    samba_text_add(text, "%%%d = input name=\"%d\" dtype=%s shape=%s : %s%s\n", number, number, dtype, shape, dtype, shape);
}

/* "%3 = expand %0 shape=[2,3] : int64[2,3] @FWD" */
static void add_operator(samba_text *text, int number, const char *line, int count, const int *inputs)
{
    const size_t word = strcspn(line, " ");
    samba_text_add(text, "%%%d = %.*s", number, (int)word, line);
    for (int i = 0; i < count; i++)
        samba_text_add(text, " %%%d", inputs[i]);
    samba_text_add(text, "%s%s\n", line + word, count ? " @FWD" : "");
}

static bool parse_aside(recognition *r, const char *line)
{
    int number = r->value_count, operands[SAMBA_MAX_ARITY];
    samba_text text;
    if (strchr(line, '\n'))
        return false;
    samba_text_init(&text, r->node->reader->context);
    samba_text_add(&text, "graph \"aside\"\n");
    for (int i = 0; i < r->value_count; i++)
        add_input(&text, samba_node_at(r->node->graph, r->refs[i]), i);
    for (int i = 0; i < r->arity; i++) {
        operands[i] = r->lines[i] ? -1 : r->places[i];
        for (int k = 0; k < i && operands[i] < 0; k++) /* a graph has no node twice */
            if (r->lines[k] && strcmp(r->lines[k], r->lines[i]) == 0 && !r->names[k] == !r->names[i] &&
                (!r->names[i] || r->places[k] == r->places[i]))
                operands[i] = operands[k];
        if (operands[i] < 0)
            add_operator(&text, operands[i] = number++, r->lines[i], r->names[i] ? 1 : 0, &r->places[i]);
    }
    add_operator(&text, number, line, r->arity, operands);
    samba_text_add(&text, "output \"result\" %%%d @FWD\n", number);
    if (text.status == SAMBA_OK && samba_graph_parse(r->node->reader->context, text.data, &r->aside) != SAMBA_OK)
        r->aside = NULL;
    samba_text_clear(&text);
    return r->aside && r->aside->node_count == number + 1;
}

/* Leaves that carry nothing of a file's or a caller's. */
static bool is_computed(const samba_node *node)
{
    return samba_ops[node->op].class_ != SAMBA_LEAF || node->op == SAMBA_OP_iota || node->op == SAMBA_OP_constant;
}

/* The operator as nodes of ONNX, in the writer; the name of their result. NULL: it cannot be said. */
static const char *write_aside(recognition *r)
{
    samba_onnx_writer *w = &r->w;
    const int64_t count = r->aside->node_count;
    w->graph = r->aside;
    if (SAMBA_ROOM(&w->arena, w->values, count) != SAMBA_OK || SAMBA_ROOM(&w->arena, w->uses, count) != SAMBA_OK)
        return NULL;
    for (int i = 0; i < r->value_count; i++) {
        w->values[i] = r->values[i];
        samba_onnx_keep(w, samba_onnx_format(w, "v:%s", r->values[i]), "");
    }
    for (int64_t i = r->value_count; i < count && w->status == SAMBA_OK && w->refusal_count == 0; i++) {
        if (!is_computed(&r->aside->nodes[i]))
            return NULL;
        w->values[i] = samba_onnx_write_operator(w, &r->aside->nodes[i]);
    }
    return w->status == SAMBA_OK && w->refusal_count == 0 ? w->values[count - 1] : NULL;
}

static bool same_tensor(recognition *r, const samba_onnx_item *item, const Samba__Onnx__TensorProto *written)
{
    samba_tensor *tensor = NULL;
    if (!item->origin || samba_onnx_tensor(r->node->reader->model, item->origin, &tensor) != SAMBA_OK)
        return false;
    const size_t bytes = (size_t)samba_tensor_numel(tensor) * samba_dtype_size(samba_tensor_dtype(tensor));
    bool same =
        item->origin->data_type == written->data_type && item->origin->n_dims == written->n_dims &&
        (written->n_dims == 0 || memcmp(item->origin->dims, written->dims, written->n_dims * sizeof *written->dims) == 0) &&
        bytes == written->raw_data.len && (bytes == 0 || memcmp(samba_tensor_data(tensor), written->raw_data.data, bytes) == 0);
    samba_tensor_free(tensor);
    return same;
}

static bool same_attribute(const Samba__Onnx__AttributeProto *a, const Samba__Onnx__AttributeProto *b)
{
    return a->name && strcmp(a->name, b->name) == 0 && a->type == b->type && !a->ref_attr_name && a->i == b->i &&
           memcmp(&a->f, &b->f, sizeof a->f) == 0 && a->s.len == b->s.len &&
           (a->s.len == 0 || memcmp(a->s.data, b->s.data, a->s.len) == 0) && a->n_ints == b->n_ints &&
           (a->n_ints == 0 || memcmp(a->ints, b->ints, a->n_ints * sizeof *a->ints) == 0);
}

static bool same_value(recognition *r, const char *name, const char *written);

static bool same_node(recognition *r, const Samba__Onnx__NodeProto *node, const Samba__Onnx__NodeProto *written)
{
    bool same = node->op_type && strcmp(node->op_type, written->op_type) == 0 && (!node->domain || !node->domain[0]) &&
                node->n_input == written->n_input && node->n_attribute == written->n_attribute;
    for (size_t i = 0; same && i < written->n_attribute; i++)
        same = same_attribute(node->attribute[i], written->attribute[i]);
    for (size_t i = 0; same && i < written->n_input; i++)
        same = same_value(r, node->input[i], written->input[i]);
    return same;
}

static int output_of(const Samba__Onnx__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_output; i++)
        if (strcmp(node->output[i], name) == 0)
            return (int)i;
    return -1;
}

/* Whether a value of the model is what was written: the same operand or number, or the same result of the same node. Each pair is
 * compared once. */
static bool same_value(recognition *r, const char *name, const char *written)
{
    samba_onnx_writer *w = &r->w;
    for (int i = 0; i < r->value_count; i++)
        if (strcmp(r->values[i], written) == 0)
            return strcmp(name, written) == 0;
    if (!written[0])
        return !name[0];
    const samba_onnx_word *known = samba_onnx_look(w, samba_onnx_format(w, "m:%s", written));
    const samba_onnx_item *item = samba_onnx_find(r->node->reader, name);
    if (known || !item)
        return known && strcmp(known->value, name) == 0;
    bool same = false;
    for (int64_t i = w->initializers.count - 1; i >= 0 && !same; i--) {
        const Samba__Onnx__TensorProto *tensor = w->initializers.at[i];
        same = strcmp(tensor->name, written) == 0 && same_tensor(r, item, tensor);
    }
    for (int64_t i = w->nodes.count - 1; i >= 0 && !same && item->maker; i--) {
        const Samba__Onnx__NodeProto *node = w->nodes.at[i];
        const int output = output_of(node, written);
        if (output >= 0 && (output != output_of(item->maker, name) || !same_node(r, item->maker, node)))
            return false;
        same = output >= 0;
    }
    samba_onnx_keep(w, samba_onnx_format(w, "m:%s", written), name);
    return same && w->status == SAMBA_OK;
}

static bool compare_all(recognition *r, const char *value)
{
    for (int64_t i = r->w.nodes.count - 1; i >= 0; i--) {
        const Samba__Onnx__NodeProto *written = r->w.nodes.at[i];
        if (written->output[0] == value)
            return same_node(r, r->node->proto, written);
    }
    return false;
}

/* What was written runs without training; in a model that trains, its nodes are norms that do, as those of other models are. */
static bool is_frozen(const recognition *r)
{
    const samba_op op = (samba_op)r->aside->nodes[r->aside->node_count - 1].op;
    return r->node->reader->options.train && (op == SAMBA_OP_batch_norm || op == SAMBA_OP_sync_batch_norm);
}

static bool recognize(recognition *r, const char *line)
{
    if (!find_operands(r) || !parse_aside(r, line) || is_frozen(r))
        return false;
    const char *value = write_aside(r);
    return value && compare_all(r, value);
}

/* What stands aside, in the reader's graph. */
static samba_ref emit_all(recognition *r)
{
    samba_graph *graph = r->node->graph;
    samba_ref *map, inputs[SAMBA_MAX_ARITY], last = SAMBA_NONE;
    if (SAMBA_ROOM(&r->w.arena, map, r->aside->node_count) != SAMBA_OK)
        return SAMBA_NONE;
    for (int64_t i = 0; i < r->aside->node_count; i++) {
        const samba_node *node = &r->aside->nodes[i];
        samba_attrs attrs;
        if (i < r->value_count) {
            map[i] = r->refs[i];
            continue;
        }
        for (int k = 0; k < node->arity; k++)
            inputs[k] = map[node->inputs[k]];
        samba_attrs_carry(graph, r->aside, node, &attrs);
        last = map[i] = samba_emit(graph, (samba_op)node->op, node->arity, inputs, &attrs);
    }
    return last;
}

/* Functions of the model may be called as operators are. */
static bool may_say(const samba_onnx_reader *reader, const Samba__Onnx__NodeProto *proto)
{
    return reader->function_count == 0 && proto->n_output == 1 && proto->n_metadata_props > 0;
}

bool samba_onnx_recognize(samba_onnx_node *node)
{
    samba_onnx_reader *reader = node->reader;
    const char *line = may_say(reader, node->proto) ? said(node->proto, OPERATOR) : NULL;
    if (!line || reader->depth > 0 || node->version < SAMBA_ONNX_OLDEST || node->version > SAMBA_ONNX_NEWEST ||
        reader->tried++ > MOST_RECOGNIZED)
        return false;
    recognition r = {.node = node, .w = {.context = reader->context, .options = samba_onnx_write_defaults()}};
    r.w.options.opset = (int)node->version;
    r.w.room = 2 * (int64_t)reader->model->size + ROOM; /* the model has them, too; as doubles first, then in their dtype */
    samba_arena_init(&r.w.arena, reader->context);
    samba_text_init(&r.w.refusals, reader->context);
    const bool recognized = recognize(&r, line);
    if (recognized)
        samba_onnx_out(node, 0, (samba_value){node->graph, emit_all(&r), 0});
    samba_graph_free(r.aside);
    samba_text_clear(&r.w.refusals);
    samba_arena_free(&r.w.arena);
    return recognized;
}

/* ---- what need not be read ---- */

typedef struct need { /* names, by hash; a name that is not there is not needed */
    int64_t size;     /* a power of two */
    const char **names;
} need;

static const char **place_of(const need *n, const char *name)
{
    int64_t at = (int64_t)(samba_hash(name, strlen(name), 0) & (uint64_t)(n->size - 1));
    while (n->names[at] && strcmp(n->names[at], name) != 0)
        at = (at + 1) & (n->size - 1);
    return &n->names[at];
}

static bool is_needed(const need *n, const Samba__Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_output; i++)
        if (node->output[i][0] && *place_of(n, node->output[i]))
            return true;
    return false;
}

static void need_inputs(const need *n, const Samba__Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_input; i++)
        *place_of(n, node->input[i]) = node->input[i];
}

static void need_operands(const need *n, const Samba__Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_metadata_props; i++) {
        const Samba__Onnx__StringStringEntryProto *entry = node->metadata_props[i];
        if (entry->key && entry->value && strncmp(entry->key, OPERAND, strlen(OPERAND)) == 0)
            *place_of(n, entry->value) = entry->value;
    }
}

static samba_status open_need(samba_onnx_reader *reader, const Samba__Onnx__GraphProto *graph, need *n)
{
    size_t most = graph->n_output + 1;
    for (size_t i = 0; i < graph->n_node; i++)
        most += graph->node[i]->n_input + graph->node[i]->n_metadata_props;
    for (n->size = 16; (size_t)n->size < 2 * most; n->size *= 2)
        ;
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, n->names, n->size));
    for (size_t i = 0; i < graph->n_output; i++)
        if (graph->output[i]->name)
            *place_of(n, graph->output[i]->name) = graph->output[i]->name;
    return SAMBA_OK;
}

/* What outputs need by the nodes alone, and what they need by what nodes say: the difference is left out until somebody asks. */
samba_status samba_onnx_find_skippable(samba_onnx_reader *reader)
{
    const Samba__Onnx__GraphProto *graph = reader->model->message->graph;
    need all, said_alone;
    bool some = false;
    for (size_t i = 0; i < graph->n_node; i++) {
        some = some || (may_say(reader, graph->node[i]) && said(graph->node[i], OPERATOR));
        for (size_t k = 0; k < graph->node[i]->n_attribute; k++)
            if (graph->node[i]->attribute[k]->g || graph->node[i]->attribute[k]->n_graphs) /* it sees names around it */
                return SAMBA_OK;
    }
    if (!some)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(&reader->arena, reader->skip, graph->n_node + 1));
    SAMBA_TRY(open_need(reader, graph, &all));
    SAMBA_TRY(open_need(reader, graph, &said_alone));
    for (size_t i = graph->n_node; i-- > 0;) {
        const Samba__Onnx__NodeProto *node = graph->node[i];
        if (!is_needed(&all, node))
            continue;
        need_inputs(&all, node);
        if (!is_needed(&said_alone, node))
            reader->skip[i] = 1;
        else if (may_say(reader, node) && said(node, OPERATOR))
            need_operands(&said_alone, node);
        else
            need_inputs(&said_alone, node);
    }
    return SAMBA_OK;
}
