/* SPDX-License-Identifier: Apache-2.0
 *
 * Control flow whose way is known when the model is read, and sequences, which are lists of items then. */
#include "onnx/onnx.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/shape.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TURNS 65536

static samba_onnx_item *item_of(samba_onnx_node *node, samba_value value)
{
    samba_onnx_item *item = samba_onnx_new_item(node->reader, "");
    if (item)
        item->value = value;
    return item;
}

static void out_item(samba_onnx_node *node, int index, samba_onnx_item *item)
{
    if (node->refused || !samba_onnx_wants(node, index))
        return;
    if (!item) {
        samba_onnx_refuse(node, "an element has no value");
        return;
    }
    if (item->is_list) {
        samba_onnx_out_list(node, index, item->list_count, item->list);
        return;
    }
    samba_value value = samba_onnx_value_of(node->reader, item);
    int32_t type = item->type;
    if (!value.graph)
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
    samba_onnx_out(node, index, value);
    samba_onnx_out_type(node, index, type);
}

/* Whether an item is true; a known number. */
static bool is_true(samba_onnx_node *node, samba_onnx_item *item, const char *what)
{
    uint64_t inputs = 0;
    samba_value value = !item || item->is_list ? (samba_value){NULL, 0, 0} : samba_onnx_value_of(node->reader, item);
    const samba_array *array = samba_onnx_known(node->reader, value, &inputs);
    if (!array || array->numel != 1) {
        samba_onnx_refuse(node, "%s is not known when the model is read: it depends on data", what);
        return false;
    }
    node->reader->model->built_in |= inputs;
    return samba_load_int64(array->dtype, array->data) != 0;
}

void samba_onnx_if(samba_onnx_node *node);
void samba_onnx_if(samba_onnx_node *node)
{
    samba_onnx_item *condition = samba_onnx_item_in(node, 0), **outputs;
    const Samba__Onnx__GraphProto *then = samba_onnx_graph(node, "then_branch"),
                                  *otherwise = samba_onnx_graph(node, "else_branch");
    if (!condition)
        samba_onnx_refuse(node, "it has no condition");
    if (node->refused)
        return;
    const Samba__Onnx__GraphProto *branch = is_true(node, condition, "the condition") ? then : otherwise;
    if (node->refused || !samba_onnx_run_graph(node, branch, 0, NULL, &outputs))
        return;
    if ((int)branch->n_output < node->output_count) {
        samba_onnx_refuse(node, "its branch has %zu outputs of %d", branch->n_output, node->output_count);
        return;
    }
    for (int i = 0; i < node->output_count; i++)
        out_item(node, i, outputs[i]);
}

/* Room for the values of as many turns as are stacked at most, where the output is wanted; else NULL. */
static bool room_for_turns(samba_onnx_node *node, int index, int64_t turns, samba_value **values)
{
    *values = NULL;
    turns = turns < SAMBA_MAX_ARITY ? turns : SAMBA_MAX_ARITY;
    return !samba_onnx_wants(node, index) || (samba_onnx_afford(node, (double)turns * sizeof **values, 0) &&
                                              SAMBA_ROOM(&node->reader->arena, *values, turns + 1) == SAMBA_OK);
}

static void keep_turn(samba_onnx_node *node, samba_value *values, int turn, samba_onnx_item *item)
{
    if (values && turn < SAMBA_MAX_ARITY)
        values[turn] = samba_onnx_value_of(node->reader, item);
}

static bool stackable(samba_onnx_node *node, int turns)
{
    if (turns == 0)
        samba_onnx_refuse(node, "no turn is done, and nothing says the shape of an output that would be stacked");
    else if (turns > SAMBA_MAX_ARITY)
        samba_onnx_refuse(node, "%d turns are stacked; at most %d are supported", turns, SAMBA_MAX_ARITY);
    return !node->refused;
}

/* Values of all turns, one behind the other along a new dim. */
static void out_stacked(samba_onnx_node *node, int index, int count, samba_value *values, int axis, bool backwards)
{
    if (node->refused || !samba_onnx_wants(node, index) || !stackable(node, count))
        return;
    for (int i = 0; backwards && i < count / 2; i++) {
        samba_value other = values[i];
        values[i] = values[count - 1 - i];
        values[count - 1 - i] = other;
    }
    samba_onnx_out(node, index, samba_stack(count, values, axis));
}

static bool fits_graph(samba_onnx_node *node, const Samba__Onnx__GraphProto *body, int outputs)
{
    if (node->refused)
        return false;
    if ((int)body->n_output == outputs)
        return true;
    samba_onnx_refuse(node, "its graph has %zu outputs, %d are expected", body->n_output, outputs);
    return false;
}

/* Unrolled: the count and the condition of each turn are known. */
void samba_onnx_loop(samba_onnx_node *node);
void samba_onnx_loop(samba_onnx_node *node)
{
    const Samba__Onnx__GraphProto *body = samba_onnx_graph(node, "body");
    int64_t most = samba_onnx_has(node, 0) ? samba_onnx_known_int(node, 0, "the number of turns", 0) : MOST_TURNS + 1;
    samba_onnx_item *condition = samba_onnx_item_in(node, 1), **outputs, **inputs;
    if (node->refused)
        return;
    int carried = (int)node->proto->n_input - 2, scanned = (int)body->n_output - 1 - carried;
    if (carried < 0 || scanned < 0 || node->output_count > carried + scanned) {
        samba_onnx_refuse(node, "its graph has %zu outputs for %d values that are carried and %d outputs", body->n_output,
                          carried, node->output_count);
        return;
    }
    bool goes_on = !condition || is_true(node, condition, "the condition");
    samba_value **stacks;
    int turns = 0, capacity = (int)(most < 0 ? 0 : most > MOST_TURNS ? MOST_TURNS + 1 : most);
    samba_arena *arena = &node->reader->arena;
    if (SAMBA_ROOM(arena, inputs, carried + 3) != SAMBA_OK || SAMBA_ROOM(arena, stacks, scanned + 1) != SAMBA_OK)
        return;
    for (int i = 0; i < scanned; i++)
        if (!room_for_turns(node, carried + i, capacity, &stacks[i]))
            return;
    for (int i = 0; i < carried; i++)
        if (!(inputs[2 + i] = samba_onnx_item_in(node, 2 + i))) {
            samba_onnx_refuse(node, "input %d is missing", 2 + i);
            return;
        }
    for (; turns < most && goes_on && !node->refused; turns++) {
        if (turns > MOST_TURNS) {
            samba_onnx_refuse(node, "more than %d turns are not supported", MOST_TURNS);
            return;
        }
        int64_t turn = turns;
        inputs[0] = item_of(node, samba_onnx_ints_value(node, 0, NULL, &turn));
        inputs[1] = item_of(node, samba_constant(node->graph, 1, SAMBA_BOOL, 0, NULL));
        if (!samba_onnx_run_graph(node, body, carried + 2, inputs, &outputs))
            return;
        goes_on = is_true(node, outputs[0], "the condition after a turn");
        for (int i = 0; i < carried; i++)
            inputs[2 + i] = outputs[1 + i];
        for (int i = 0; i < scanned && !node->refused; i++)
            keep_turn(node, stacks[i], turns, outputs[1 + carried + i]);
    }
    for (int i = 0; i < carried && !node->refused; i++)
        out_item(node, i, inputs[2 + i]);
    for (int i = 0; i < scanned && !node->refused; i++)
        out_stacked(node, carried + i, turns, stacks[i], 0, false);
}

static void read_per(samba_onnx_node *node, const char *name, int count, int64_t *list)
{
    for (int i = 0; i < count; i++)
        list[i] = 0;
    int given = samba_onnx_ints(node, name, 64, list);
    if (given >= 0 && given != count)
        samba_onnx_refuse(node, "%s has %d numbers of %d", name, given, count);
    for (int i = 0; i < count; i++)
        samba_onnx_within(node, name, list[i], -SAMBA_MAX_RANK, SAMBA_MAX_RANK);
}

typedef struct scan { /* values that are carried, inputs that are scanned and outputs that are stacked */
    const Samba__Onnx__GraphProto *body;
    int carried, scans, scanned, turns;
    int64_t in_axes[64], out_axes[64], in_back[64], out_back[64];
    samba_onnx_item **inputs; /* of a turn: what is carried, then lines */
    samba_value *lines, **stacks;
} scan;

/* Inputs before the first `ahead` are no concern of the scan's. */
static bool begin_scan(samba_onnx_node *node, scan *s, int ahead)
{
    s->body = samba_onnx_graph(node, "body");
    int64_t scans = samba_onnx_int(node, "num_scan_inputs", 0);
    if (node->refused)
        return false;
    s->scans = (int)(scans < 1 || scans > 64 ? 0 : scans);
    s->carried = s->scans == 0 ? -1 : node->input_count - ahead - s->scans;
    s->scanned = s->carried < 0 ? -1 : (int)s->body->n_output - s->carried;
    if (s->carried < 0 || s->scanned < 0 || s->scanned > 64 || node->output_count > s->carried + s->scanned) {
        samba_onnx_refuse(node, "its graph does not fit %d inputs, %lld of them scanned", node->input_count - ahead,
                          (long long)scans);
        return false;
    }
    samba_arena *arena = &node->reader->arena;
    return SAMBA_ROOM(arena, s->inputs, s->carried + s->scans + 1) == SAMBA_OK &&
           SAMBA_ROOM(arena, s->lines, s->scans + 1) == SAMBA_OK && SAMBA_ROOM(arena, s->stacks, s->scanned + 1) == SAMBA_OK;
}

/* The lines are in place: how many turns they make, and room for as many values of each output. */
static bool count_turns(samba_onnx_node *node, scan *s)
{
    s->turns = -1;
    for (int i = 0; i < s->scans; i++) {
        int size = (int)samba_value_size(s->lines[i], (int)s->in_axes[i]); /* a size of an input is an int */
        if (s->turns >= 0 && size != s->turns) {
            samba_onnx_refuse(node, "its inputs are scanned over %d and %d elements", s->turns, size);
            return false;
        }
        s->turns = size;
    }
    if (s->turns > MOST_TURNS) {
        samba_onnx_refuse(node, "more than %d turns are not supported", MOST_TURNS);
        return false;
    }
    for (int i = 0; i < s->scanned; i++)
        if (!room_for_turns(node, s->carried + i, s->turns, &s->stacks[i]))
            return false;
    return true;
}

static bool run_scan(samba_onnx_node *node, scan *s)
{
    samba_onnx_item **outputs;
    for (int turn = 0; turn < s->turns && !node->refused; turn++) {
        for (int i = 0; i < s->scans; i++)
            s->inputs[s->carried + i] =
                item_of(node, samba_select(s->lines[i], (int)s->in_axes[i], s->in_back[i] ? s->turns - 1 - turn : turn));
        if (!samba_onnx_run_graph(node, s->body, s->carried + s->scans, s->inputs, &outputs) ||
            !fits_graph(node, s->body, s->carried + s->scanned))
            return false;
        for (int i = 0; i < s->carried; i++)
            s->inputs[i] = outputs[i];
        for (int i = 0; i < s->scanned; i++)
            keep_turn(node, s->stacks[i], turn, outputs[s->carried + i]);
    }
    return !node->refused;
}

void samba_onnx_scan(samba_onnx_node *node);
void samba_onnx_scan(samba_onnx_node *node)
{
    scan s;
    if (!begin_scan(node, &s, 0))
        return;
    read_per(node, "scan_input_axes", s.scans, s.in_axes);
    read_per(node, "scan_output_axes", s.scanned, s.out_axes);
    read_per(node, "scan_input_directions", s.scans, s.in_back);
    read_per(node, "scan_output_directions", s.scanned, s.out_back);
    for (int i = 0; i < s.carried && !node->refused; i++)
        if (!(s.inputs[i] = samba_onnx_item_in(node, i)))
            samba_onnx_refuse(node, "input %d is missing", i);
    for (int i = 0; i < s.scans && !node->refused; i++) {
        s.lines[i] = samba_onnx_need(node, s.carried + i);
        s.in_axes[i] = node->refused ? -1 : samba_onnx_fit_dim(node, s.in_axes[i], samba_value_rank(s.lines[i]));
    }
    if (node->refused || !count_turns(node, &s) || !run_scan(node, &s))
        return;
    for (int i = 0; i < s.carried; i++)
        out_item(node, i, s.inputs[i]);
    for (int i = 0; i < s.scanned; i++)
        out_stacked(node, s.carried + i, s.turns, s.stacks[i], (int)s.out_axes[i], s.out_back[i] != 0);
}

/* As version 8 had it: a batch of lines, (batch, turns, ...), behind an input of their lengths; item by item. */
void samba_onnx_scan_8(samba_onnx_node *node);
void samba_onnx_scan_8(samba_onnx_node *node)
{
    scan s;
    samba_value *wholes, **batch;
    if (!begin_scan(node, &s, 1))
        return;
    if (samba_onnx_has(node, 0))
        samba_onnx_refuse(node, "lengths of lines are not supported: give lines that are all as long");
    read_per(node, "directions", s.scans, s.in_back);
    memset(s.in_axes, 0, sizeof s.in_axes);
    samba_arena *arena = &node->reader->arena;
    const int inputs = s.carried + s.scans, outputs = s.carried + s.scanned;
    if (node->refused || SAMBA_ROOM(arena, wholes, inputs + 1) != SAMBA_OK || SAMBA_ROOM(arena, batch, outputs + 1) != SAMBA_OK)
        return;
    int64_t size = -1;
    for (int i = 0; i < inputs; i++) {
        wholes[i] = samba_onnx_need(node, 1 + i);
        if (node->refused)
            return;
        const int rank = samba_value_rank(wholes[i]), least = i < s.carried ? 1 : 2;
        if (rank < least || (size >= 0 && samba_value_size(wholes[i], 0) != size)) {
            samba_onnx_refuse(node, "its inputs are not batches of one size");
            return;
        }
        size = samba_value_size(wholes[i], 0);
    }
    for (int i = 0; i < outputs; i++)
        if (!room_for_turns(node, i, size, &batch[i]))
            return;
    for (int item = 0; item < size && item <= SAMBA_MAX_ARITY && !node->refused; item++) {
        for (int i = 0; i < s.carried; i++)
            s.inputs[i] = item_of(node, samba_select(wholes[i], 0, item));
        for (int i = 0; i < s.scans; i++)
            s.lines[i] = samba_select(wholes[s.carried + i], 0, item);
        if (!count_turns(node, &s) || !run_scan(node, &s))
            return;
        for (int i = 0; i < s.carried; i++)
            keep_turn(node, batch[i], item, s.inputs[i]);
        for (int i = 0; i < s.scanned; i++)
            if (batch[s.carried + i] && item < SAMBA_MAX_ARITY && stackable(node, s.turns))
                batch[s.carried + i][item] = samba_stack(s.turns, s.stacks[i], 0);
    }
    for (int i = 0; i < outputs; i++)
        out_stacked(node, i, (int)size, batch[i], 0, false);
}

/* ---- sequences ---- */

/* Room for a list that a node makes of others: a loop may make one of all turns in each of them. */
static samba_onnx_item **new_list(samba_onnx_node *node, int64_t count)
{
    samba_onnx_item **list;
    return samba_onnx_afford(node, 2 * (double)count * sizeof *list, 0) &&
                   SAMBA_ROOM(&node->reader->arena, list, count + 1) == SAMBA_OK
               ? list
               : NULL;
}

/* An element of a list must be there. */
static samba_onnx_item *element_in(samba_onnx_node *node, int index)
{
    samba_onnx_item *item = samba_onnx_item_in(node, index);
    if (!item)
        samba_onnx_refuse(node, "input %d is missing", index);
    return item;
}

static samba_onnx_item *list_in(samba_onnx_node *node, int index)
{
    samba_onnx_item *item = samba_onnx_item_in(node, index);
    if (item && item->is_list)
        return item;
    samba_onnx_refuse(node, "input %d is no sequence that is known when the model is read", index);
    return NULL;
}

void samba_onnx_sequence_empty(samba_onnx_node *node);
void samba_onnx_sequence_empty(samba_onnx_node *node)
{
    samba_onnx_int(node, "dtype", 1);
    samba_onnx_out_list(node, 0, 0, NULL);
}

void samba_onnx_sequence_construct(samba_onnx_node *node);
void samba_onnx_sequence_construct(samba_onnx_node *node)
{
    samba_onnx_item **list = new_list(node, node->input_count);
    for (int i = 0; list && i < node->input_count; i++)
        list[i] = element_in(node, i);
    samba_onnx_out_list(node, 0, node->input_count, list);
}

void samba_onnx_sequence_length(samba_onnx_node *node);
void samba_onnx_sequence_length(samba_onnx_node *node)
{
    samba_onnx_item *list = list_in(node, 0);
    int64_t count = list ? list->list_count : 0;
    if (list)
        samba_onnx_out(node, 0, samba_onnx_ints_value(node, 0, NULL, &count));
}

/* A position that may be counted from the end; `last`: the greatest. */
static bool position(samba_onnx_node *node, int index, int64_t fallback, int64_t last, int64_t *at)
{
    *at = samba_onnx_known_int(node, index, "the position", fallback);
    if (node->refused)
        return false;
    int64_t given = *at;
    *at = given < 0 && given >= -last - 1 ? given + last + 1 : given;
    if (*at >= 0 && *at <= last)
        return true;
    samba_onnx_refuse(node, "position %lld is out of range", (long long)given);
    return false;
}

void samba_onnx_sequence_at(samba_onnx_node *node);
void samba_onnx_sequence_at(samba_onnx_node *node)
{
    samba_onnx_item *list = list_in(node, 0);
    int64_t at;
    if (list && position(node, 1, 0, list->list_count - 1, &at))
        out_item(node, 0, list->list[at]);
}

void samba_onnx_sequence_insert(samba_onnx_node *node);
void samba_onnx_sequence_insert(samba_onnx_node *node)
{
    samba_onnx_item *list = list_in(node, 0), *item = element_in(node, 1), **longer;
    int64_t at = list ? list->list_count : 0;
    if (!list || !item || !(longer = new_list(node, list->list_count + 1)))
        return;
    if (samba_onnx_has(node, 2)) {
        at = samba_onnx_known_int(node, 2, "the position", 0);
        at = at < 0 ? at + list->list_count : at;
        if (node->refused || at < 0 || at > list->list_count) {
            samba_onnx_refuse(node, "its position is out of range");
            return;
        }
    }
    for (int i = 0; i < list->list_count; i++)
        longer[i + (i >= at)] = list->list[i];
    longer[at] = item;
    samba_onnx_out_list(node, 0, list->list_count + 1, longer);
}

void samba_onnx_sequence_erase(samba_onnx_node *node);
void samba_onnx_sequence_erase(samba_onnx_node *node)
{
    samba_onnx_item *list = list_in(node, 0), **shorter;
    int64_t at;
    if (!list || !position(node, 1, list->list_count - 1, list->list_count - 1, &at) ||
        !(shorter = new_list(node, list->list_count)))
        return;
    for (int i = 0, to = 0; i < list->list_count; i++)
        if (i != at)
            shorter[to++] = list->list[i];
    samba_onnx_out_list(node, 0, list->list_count - 1, shorter);
}

void samba_onnx_split_to_sequence(samba_onnx_node *node);
void samba_onnx_split_to_sequence(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0);
    int64_t sizes[SAMBA_MAX_ARITY];
    if (node->refused)
        return;
    int axis = samba_onnx_axis(node, "axis", 0, samba_value_rank(a));
    bool keep = samba_onnx_flag(node, "keepdims", true), one = !samba_onnx_has(node, 1), scalar = false;
    const samba_array *given = one ? NULL : samba_onnx_known_in(node, 1, "the sizes");
    if (node->refused || axis < 0)
        return;
    int64_t size = samba_value_size(a, axis), each = 1, count = 0;
    if (given) {
        scalar = given->rank == 0;
        if (scalar)
            each = samba_onnx_known_int(node, 1, "the sizes", 1);
        else
            count = samba_onnx_known_ints(node, 1, "the sizes", SAMBA_MAX_ARITY, sizes);
    }
    if (node->refused)
        return;
    if (one || scalar) {
        if (each < 1 || (size > 0 && (size - 1) / each >= SAMBA_MAX_ARITY)) {
            samba_onnx_refuse(node, "parts of size %lld are not supported", (long long)each);
            return;
        }
        for (int64_t rest = size; rest > 0; rest -= each)
            sizes[count++] = rest < each ? rest : each;
    }
    samba_value *parts;
    samba_onnx_item **list = new_list(node, count);
    if (!list || SAMBA_ROOM(&node->reader->arena, parts, count + 1) != SAMBA_OK)
        return;
    samba_split_sizes(a, (int)count, sizes, axis, parts);
    for (int64_t i = 0; i < count && node->graph->status == SAMBA_OK; i++)
        list[i] = item_of(node, one && !keep ? samba_squeeze(parts[i], 1, &axis) : parts[i]);
    samba_onnx_out_list(node, 0, (int)count, list);
}

void samba_onnx_concat_from_sequence(samba_onnx_node *node);
void samba_onnx_concat_from_sequence(samba_onnx_node *node)
{
    samba_onnx_item *list = list_in(node, 0);
    int64_t axis = samba_onnx_int(node, "axis", 0);
    bool stacks = samba_onnx_flag(node, "new_axis", false);
    samba_value *values;
    if (!list || SAMBA_ROOM(&node->reader->arena, values, list->list_count + 1) != SAMBA_OK)
        return;
    for (int i = 0; i < list->list_count; i++)
        values[i] = list->list[i] ? samba_onnx_value_of(node->reader, list->list[i]) : (samba_value){NULL, SAMBA_NONE, 0};
    if (!node->refused)
        samba_onnx_out(node, 0,
                       stacks ? samba_stack(list->list_count, values, (int)axis)
                              : samba_concat(list->list_count, values, (int)axis));
}
