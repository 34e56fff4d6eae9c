/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators along a dim: a group of one of them, or of the two that one stage computes (values and indices), becomes a stage over
 * contiguous operands. */
#include "compiler/compiler.h"

#include <string.h>

static samba_line_function function_of(samba_op op)
{
    switch (op) {
    case SAMBA_OP_cumsum: return SAMBA_LINE_CUMSUM;
    case SAMBA_OP_cumprod: return SAMBA_LINE_CUMPROD;
    case SAMBA_OP_cumprod_grad: return SAMBA_LINE_CUMPROD_GRAD;
    case SAMBA_OP_logcumsumexp: return SAMBA_LINE_LOGCUMSUMEXP;
    case SAMBA_OP_cummax:
    case SAMBA_OP_cummax_index: return SAMBA_LINE_CUMMAX;
    case SAMBA_OP_cummin:
    case SAMBA_OP_cummin_index: return SAMBA_LINE_CUMMIN;
    case SAMBA_OP_multilabel_margin: return SAMBA_LINE_MARGIN;
    case SAMBA_OP_multilabel_margin_grad: return SAMBA_LINE_MARGIN_GRAD;
    default: return SAMBA_LINE_SORT;
    }
}

samba_status samba_lower_line(samba_compiler *c, int32_t index)
{
    const samba_group *group = &c->fusion.groups[index];
    const samba_node *node = samba_node_at(c->graph, group->anchor), *sources[3] = {NULL, NULL, NULL};
    samba_line line = {.function = function_of((samba_op)node->op), .outer = 1, .inner = 1};
    bool sorts = line.function == SAMBA_LINE_SORT;
    bool last = line.function >= SAMBA_LINE_MARGIN; /* no attributes: the last dim */
    int64_t dim = last ? node->rank - 1 : sorts ? node->attrs->sort.dim : node->attrs->scan.dim, bytes = 0;
    line.backwards = !last && (sorts ? node->attrs->sort.descending : node->attrs->scan.reverse) != 0;
    samba_operand operands[4], results[2];
    int32_t count = 0;
    for (int i = 0; i < node->arity; i++) {
        sources[i] = samba_node_at(c->graph, node->inputs[i]);
        bytes += samba_node_bytes(sources[i]);
        SAMBA_TRY(samba_lower_contiguous(c, node->inputs[i], group->phase, &operands[count++]));
    }
    node = samba_node_at(c->graph, group->anchor);
    line.size = sources[0]->shape[dim];
    line.count = node->shape[dim];
    line.first = !sorts ? 0 : node->attrs->sort.first == SAMBA_SORT_MIDDLE ? SAMBA_LINE_MIDDLE : node->attrs->sort.first;
    line.nan = sorts && node->attrs->sort.nan != 0;
    if (line.first != 0 || line.nan)
        line.function = SAMBA_LINE_CHOOSE;
    for (int d = 0; d < node->rank; d++)
        *(d < dim ? &line.outer : &line.inner) *= d == dim ? 1 : node->shape[d];
    for (int64_t m = 0; m < group->member_count; m++) {
        const samba_node *member = samba_node_at(c->graph, group->members[m]);
        bool index_ = samba_ops[member->op].position;
        *(index_ ? &line.has_indices : &line.has_values) = 1;
        results[index_] = (samba_operand){.buffer = c->placed.buffer_of[group->members[m]], .dtype = member->dtype};
        bytes += samba_node_bytes(member);
    }
    if (line.has_values)
        operands[count++] = results[0];
    if (line.has_indices)
        operands[count++] = results[1];
    samba_stage *stage;
    samba_operand *kept;
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, kept, count));
    memcpy(kept, operands, sizeof *kept * (size_t)count);
    SAMBA_TRY(samba_plan_add_stage(c, group->phase, &stage));
    stage->kind = SAMBA_STAGE_LINE;
    stage->line = line;
    stage->operands = kept;
    stage->operand_count = count;
    stage->bytes = bytes;
    stage->flops = samba_ops[node->op].flops(node, sources);
    return samba_stage_label(c, group, stage);
}
