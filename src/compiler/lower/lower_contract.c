/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products and convolutions as one kind of stage: C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n], operands
 * strided or seen through windows (stage.h). What follows in the group is the program that runs on each finished block.
 *
 *   matmul               batch..., M x N over K; a batch that only A has, in one stride, joins M
 *   conv                 image, group: channels x pixels over (in channel, kernel); B is x through a window for each dim of space
 *   conv_input_grad      image, group: in channels x input pixels over (out channel, kernel); B is dy through the
 *                        transposed windows
 *   conv_weight_grad     group: channels x (in channel, kernel) over (image, out pixel); B is x through the windows */
#include "compiler/compiler.h"

#include <string.h>

static void set(int32_t *rank, int64_t *sizes, int count, const int64_t *values)
{
    *rank = count;
    for (int i = 0; i < count; i++)
        sizes[i] = values[i];
}

/* ---- matmul ---- */

/* The shape of all operators here: a graph and its views, not the compiler, so that fusion can ask before anything is lowered. */
static samba_status matmul(const samba_graph *g, const samba_access *access, const samba_node *node, samba_contract *t)
{
    const samba_node *a = samba_node_at(g, node->inputs[0]), *b = samba_node_at(g, node->inputs[1]);
    const samba_access *at_a = &access[node->inputs[0]], *at_b = &access[node->inputs[1]];
    int batch = node->rank - 2;
    int64_t sizes[SAMBA_MAX_RANK], stride_a[SAMBA_MAX_RANK], stride_b[SAMBA_MAX_RANK];
    int count = 0;
    for (int i = 0; i < batch; i++) {
        int ia = i - (node->rank - a->rank), ib = i - (node->rank - b->rank);
        int64_t sa = ia >= 0 && a->shape[ia] != 1 ? at_a->strides[ia] : 0,
                sb = ib >= 0 && b->shape[ib] != 1 ? at_b->strides[ib] : 0;
        if (node->shape[i] == 1)
            continue;
        if (count > 0 && stride_a[count - 1] == sa * node->shape[i] && stride_b[count - 1] == sb * node->shape[i]) {
            sizes[count - 1] *= node->shape[i];
            stride_a[count - 1] = sa;
            stride_b[count - 1] = sb;
            continue;
        }
        sizes[count] = node->shape[i];
        stride_a[count] = sa;
        stride_b[count++] = sb;
    }
    if (count > SAMBA_CONTRACT_RANK)
        return samba_fail(
            g->context, SAMBA_ERROR_UNSUPPORTED,
            "matmul: %d batch dims that no common stride joins, at most %d are supported: make the operands contiguous first",
            count, SAMBA_CONTRACT_RANK);
    *t = (samba_contract){.batch_rank = count, .m_rank = 1, .n_rank = 1, .k_rank = 1};
    for (int i = 0; i < count; i++) {
        t->batch[i] = sizes[i];
        t->a.batch[i] = stride_a[i];
        t->b.batch[i] = stride_b[i];
    }
    t->m[0] = node->shape[node->rank - 2];
    t->n[0] = node->shape[node->rank - 1];
    t->k[0] = a->shape[a->rank - 1];
    t->a.own[0] = a->shape[a->rank - 2] == 1 ? 0 : at_a->strides[a->rank - 2];
    t->a.inner[0] = at_a->strides[a->rank - 1];
    t->b.own[0] = at_b->strides[b->rank - 1];
    t->b.inner[0] = at_b->strides[b->rank - 2];
    /* B the same for the innermost batch dim, and A's rows go on where the batch ends: more rows instead */
    while (t->batch_rank > 0 && t->b.batch[t->batch_rank - 1] == 0 &&
           (t->m[0] == 1 || t->a.batch[t->batch_rank - 1] == t->a.own[0] * t->m[0])) {
        int last = t->batch_rank - 1;
        if (t->m[0] == 1)
            t->a.own[0] = t->a.batch[last];
        t->m[0] *= t->batch[last];
        t->batch_rank--;
        t->batch[last] = t->a.batch[last] = 0;
    }
    return SAMBA_OK;
}

/* ---- convolutions ---- */
typedef struct geometry {
    int spatial;                     /* dims of space, 2 or 3 */
    int64_t images, groups, in, out; /* channels of one group */
    int64_t size[3], result[3], kernel[3], stride[3], padding[3], dilation[3];
} geometry;

static geometry describe(const samba_node *node, const samba_node *x, const samba_node *w, const samba_node *y)
{
    const samba_attrs_conv *attrs = &node->attrs->conv;
    geometry g = {.spatial = x->rank - 2,
                  .images = x->shape[0],
                  .groups = attrs->groups,
                  .in = x->shape[1] / attrs->groups,
                  .out = w->shape[0] / attrs->groups};
    for (int i = 0; i < g.spatial; i++) {
        g.size[i] = x->shape[2 + i];
        g.result[i] = y->shape[2 + i];
        g.kernel[i] = w->shape[2 + i];
        g.stride[i] = attrs->stride.at[i];
        g.padding[i] = attrs->padding.at[i];
        g.dilation[i] = attrs->dilation.at[i];
    }
    return g;
}

/* A first size, then those of space. */
static void set_with_space(int32_t *rank, int64_t *sizes, int64_t first, const geometry *g, const int64_t *space)
{
    *rank = 1 + g->spatial;
    sizes[0] = first;
    memcpy(sizes + 1, space, (size_t)g->spatial * sizeof *sizes);
}

static void space_strides(const geometry *g, const int64_t *strides, int64_t *steps)
{
    memcpy(steps, strides + 2, (size_t)g->spatial * sizeof *steps);
}

/* One window per dim of space: from -`padding` on, `own` an own index (own_at and on), `inner` an inner index (from 1 on). */
static void windows(const geometry *g, samba_factor *f, const int64_t *strides, const int64_t *limit, const int64_t *base,
                    const int64_t *own, const int64_t *inner, const int64_t *in_dilation, int own_at)
{
    f->window_count = g->spatial;
    for (int i = 0; i < g->spatial; i++) {
        samba_window *w = &f->windows[i];
        *w = (samba_window){.base = base[i], .limit = limit[i], .dilation = in_dilation[i], .stride = strides[2 + i]};
        w->own[own_at + i] = own[i];
        w->inner[1 + i] = inner[i];
    }
}

static const int64_t ones[3] = {1, 1, 1};

static void conv(const samba_graph *graph, const samba_access *access, const samba_node *node, samba_contract *t)
{
    samba_ref x = node->inputs[0], w = node->inputs[1];
    geometry g = describe(node, samba_node_at(graph, x), samba_node_at(graph, w), node);
    const int64_t *sx = access[x].strides, *sw = access[w].strides;
    set(&t->batch_rank, t->batch, 2, (int64_t[]){g.images, g.groups});
    set(&t->m_rank, t->m, 1, &g.out);
    set(&t->n_rank, t->n, g.spatial, g.result);
    set_with_space(&t->k_rank, t->k, g.in, &g, g.kernel);
    t->a.batch[1] = g.out * sw[0];
    t->a.own[0] = sw[0];
    t->a.inner[0] = sw[1];
    space_strides(&g, sw, t->a.inner + 1);
    t->b.batch[0] = sx[0], t->b.batch[1] = g.in * sx[1];
    t->b.inner[0] = sx[1];
    int64_t base[3] = {-g.padding[0], -g.padding[1], -g.padding[2]};
    windows(&g, &t->b, sx, g.size, base, g.stride, g.dilation, ones, 0);
}

/* dx[i] = sum over o, k with o*stride - padding + k*dilation = i:
 * coordinate i + padding - k*dilation in a dy spread by stride. */
static void input_grad(const samba_graph *graph, const samba_access *access, const samba_node *node, samba_contract *t)
{
    samba_ref w = node->inputs[0], dy = node->inputs[1];
    geometry g = describe(node, node, samba_node_at(graph, w), samba_node_at(graph, dy));
    const int64_t *sy = access[dy].strides, *sw = access[w].strides;
    set(&t->batch_rank, t->batch, 2, (int64_t[]){g.images, g.groups});
    set(&t->m_rank, t->m, 1, &g.in);
    set(&t->n_rank, t->n, g.spatial, g.size);
    set_with_space(&t->k_rank, t->k, g.out, &g, g.kernel);
    t->a.batch[1] = g.out * sw[0];
    t->a.own[0] = sw[1];
    t->a.inner[0] = sw[0];
    space_strides(&g, sw, t->a.inner + 1);
    t->b.batch[0] = sy[0], t->b.batch[1] = g.out * sy[1];
    t->b.inner[0] = sy[1];
    int64_t back[3] = {-g.dilation[0], -g.dilation[1], -g.dilation[2]};
    windows(&g, &t->b, sy, g.result, g.padding, ones, back, g.stride, 0);
}

static void weight_grad(const samba_graph *graph, const samba_access *access, const samba_node *node, samba_contract *t)
{
    samba_ref x = node->inputs[0], dy = node->inputs[1];
    geometry g = describe(node, samba_node_at(graph, x), node, samba_node_at(graph, dy));
    const int64_t *sx = access[x].strides, *sy = access[dy].strides;
    set(&t->batch_rank, t->batch, 1, &g.groups);
    set(&t->m_rank, t->m, 1, &g.out);
    set_with_space(&t->n_rank, t->n, g.in, &g, g.kernel);
    set_with_space(&t->k_rank, t->k, g.images, &g, g.result);
    t->a.batch[0] = g.out * sy[1];
    t->a.own[0] = sy[1];
    t->a.inner[0] = sy[0];
    space_strides(&g, sy, t->a.inner + 1);
    t->b.batch[0] = g.in * sx[1];
    t->b.own[0] = sx[1];
    t->b.inner[0] = sx[0];
    int64_t base[3] = {-g.padding[0], -g.padding[1], -g.padding[2]};
    windows(&g, &t->b, sx, g.size, base, g.dilation, g.stride, ones, 1);
}

samba_status samba_contract_describe(const samba_graph *graph, const samba_access *access, samba_ref anchor, samba_contract *t,
                                     int *plan_rank, int64_t *plan_shape)
{
    const samba_node *node = samba_node_at(graph, anchor);
    *t = (samba_contract){0};
    switch (samba_ops[node->op].conv) {
    case SAMBA_CONV_none: SAMBA_TRY(matmul(graph, access, node, t)); break;
    case SAMBA_CONV_forward: conv(graph, access, node, t); break;
    case SAMBA_CONV_input_grad: input_grad(graph, access, node, t); break;
    case SAMBA_CONV_weight_grad: weight_grad(graph, access, node, t); break;
    }
    *plan_rank = t->batch_rank + 2;
    for (int i = 0; i < t->batch_rank; i++)
        plan_shape[i] = t->batch[i];
    plan_shape[t->batch_rank] = samba_sizes_product(t->m_rank, t->m);
    plan_shape[t->batch_rank + 1] = samba_sizes_product(t->n_rank, t->n);
    return SAMBA_OK;
}

static void factor_base(const samba_compiler *c, samba_ref ref, samba_factor *factor)
{
    const samba_access *access = &c->fusion.access[ref];
    factor->buffer = c->placed.buffer_of[access->base];
    factor->dtype = samba_node_at(c->graph, ref)->dtype;
    factor->offset = access->offset;
}

static bool loops_or_reduces(const samba_program *program)
{
    int loops = 0;
    for (int s = 0; s < program->step_count; s++)
        loops += program->steps[s].loop;
    bool reduces = false;
    for (int i = 0; i < program->instruction_count; i++)
        reduces = reduces || samba_tile_table[program->instructions[i].op].form == SAMBA_FORM_REDUCE;
    return loops > 1 || reduces;
}

samba_status samba_lower_contract(samba_compiler *c, int32_t index)
{
    const samba_group *group = &c->fusion.groups[index];
    const samba_node *node = samba_node_at(c->graph, group->anchor);
    samba_contract contract;
    int plan_rank;
    int64_t plan_shape[SAMBA_MAX_RANK];
    SAMBA_TRY(samba_contract_describe(c->graph, c->fusion.access, group->anchor, &contract, &plan_rank, plan_shape));
    /* (dy, w), (x, w), (x, dy): in the convolution stages A is the weight or dy, B what the window sees */
    samba_conv_role role = samba_ops[node->op].conv;
    bool swapped = role == SAMBA_CONV_forward || role == SAMBA_CONV_weight_grad;
    factor_base(c, node->inputs[swapped ? 1 : 0], &contract.a);
    factor_base(c, node->inputs[swapped ? 0 : 1], &contract.b);
    contract.class_ = (int32_t)samba_class_of((samba_dtype)node->dtype);
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_labelled(c, group, SAMBA_STAGE_CONTRACT, &stage));
    stage->contract = contract;
    SAMBA_TRY(samba_lower_program(c, index, plan_rank, plan_shape, stage));
    stage->contract.whole_rows = loops_or_reduces(&stage->program);
    for (int i = 0; i < 2; i++)
        stage->bytes += samba_node_bytes(samba_node_at(c->graph, node->inputs[i]));
    return SAMBA_OK;
}
