/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators with a kernel of their own: pooling, gather and scatter here, attention in lower_attention.c, lines in lower_line.c.
 * Operands of a pool are contiguous; a view that is not is copied first. */
#include "compiler/compiler.h"

#include <string.h>

/* The buffer that holds a value's elements in order, from a given element on; copies views that do not. */
samba_status samba_lower_contiguous(samba_compiler *c, samba_ref ref, samba_phase phase, samba_operand *operand)
{
    const samba_node *node = samba_node_at(c->graph, ref);
    const samba_access *access = &c->fusion.access[ref];
    *operand = (samba_operand){.buffer = c->placed.buffer_of[access->base], .dtype = node->dtype, .offset = access->offset};
    int64_t own[SAMBA_MAX_RANK];
    samba_shape_contiguous_strides(node->rank, node->shape, own);
    bool in_order = true;
    for (int i = 0; i < node->rank; i++)
        in_order = in_order && (node->shape[i] == 1 || own[i] == access->strides[i]);
    if (in_order)
        return SAMBA_OK;
    SAMBA_TRY(samba_plan_add_buffer(c, samba_node_bytes(node), false, &operand->buffer));
    operand->offset = 0;
    return samba_lower_copy(c, &(samba_copy){.value = ref, .buffer = operand->buffer, .phase = phase});
}

static samba_status add(samba_compiler *c, const samba_group *group, samba_stage_kind kind, int count, const samba_ref *inputs,
                        samba_stage **stage)
{
    samba_operand *operands;
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, operands, count + 1));
    for (int i = 0; i < count; i++)
        SAMBA_TRY(samba_lower_contiguous(c, inputs[i], group->phase, &operands[i]));
    const samba_node *node = samba_node_at(c->graph, group->anchor);
    operands[count] = (samba_operand){.buffer = c->placed.buffer_of[group->anchor], .dtype = node->dtype};
    SAMBA_TRY(samba_plan_add_labelled(c, group, kind, stage));
    (*stage)->operands = operands;
    (*stage)->operand_count = count + 1;
    const samba_node *sources[5] = {0};
    for (int i = 0; i < node->arity; i++) {
        sources[i] = samba_node_at(c->graph, node->inputs[i]);
        (*stage)->bytes += samba_node_bytes(sources[i]);
    }
    (*stage)->bytes += samba_node_bytes(node);
    (*stage)->flops = samba_ops[node->op].flops(node, sources);
    return SAMBA_OK;
}

static samba_pool pool_of(const samba_node *node, const int64_t *x, int x_rank, const int64_t *y)
{
    const samba_attrs_pool2d *attrs = &node->attrs->pool2d;
    samba_pool pool = {.planes = 1, .h = x[x_rank - 2], .w = x[x_rank - 1], .oh = y[x_rank - 2], .ow = y[x_rank - 1]};
    pool.count_include_pad = (int32_t)attrs->count_include_pad;
    pool.adaptive = (int32_t)attrs->adaptive;
    pool.divisor = attrs->divisor;
    for (int i = 0; i < x_rank - 2; i++)
        pool.planes *= x[i];
    for (int i = 0; i < 2; i++) {
        pool.kernel[i] = attrs->adaptive ? 1 : attrs->kernel.at[i];
        pool.stride[i] = attrs->stride.at[i];
        pool.padding[i] = attrs->padding.at[i];
        pool.dilation[i] = attrs->dilation.count > i ? attrs->dilation.at[i] : 1;
    }
    return pool;
}

/* Planes x of another size. */
static samba_pool resample_of(const samba_node *node, const int64_t *x)
{
    const samba_attrs_resample *attrs = &node->attrs->resample;
    return (samba_pool){.average = 1,
                        .resample = (int32_t)attrs->mode + 1,
                        .align_corners = attrs->align_corners != 0,
                        .antialias = attrs->antialias != 0,
                        .scale = {attrs->scale_height, attrs->scale_width},
                        .planes = x[0],
                        .h = x[1],
                        .w = x[2],
                        .oh = attrs->size.at[0],
                        .ow = attrs->size.at[1],
                        .kernel = {1, 1},
                        .stride = {1, 1},
                        .dilation = {1, 1}};
}

/* The last input is x, or dy of a gradient, whose result has x's shape. */
static samba_status lower_pool(samba_compiler *c, const samba_group *group, const samba_node *node, bool gradient)
{
    samba_stage *stage;
    SAMBA_TRY(add(c, group, SAMBA_STAGE_POOL, node->arity, node->inputs, &stage));
    const samba_node *other = samba_node_at(c->graph, node->inputs[node->arity - 1]), *x = gradient ? node : other;
    stage->pool = pool_of(node, x->shape, x->rank, (gradient ? other : node)->shape);
    stage->pool.average = node->op == SAMBA_OP_avg_pool2d || node->op == SAMBA_OP_avg_pool2d_grad;
    stage->pool.indices = samba_ops[node->op].position;
    stage->pool.gradient = gradient;
    if (node->op == SAMBA_OP_max_pool2d_grad && samba_pool_fits_in_place(&stage->pool) && stage->operands[0].offset == 0)
        samba_share_buffer(c, stage->operands[0].buffer, stage->operands[2].buffer);
    return SAMBA_OK;
}

static samba_status lower_resample(samba_compiler *c, const samba_group *group, const samba_node *node, bool gradient)
{
    samba_stage *stage;
    SAMBA_TRY(add(c, group, SAMBA_STAGE_POOL, 1, node->inputs, &stage));
    stage->pool = resample_of(node, gradient ? node->shape : samba_node_at(c->graph, node->inputs[0])->shape);
    stage->pool.gradient = gradient;
    return SAMBA_OK;
}

/* Images read at a grid's positions. Of an operator's inputs the grid is the second, or of the image's gradient the first. */
static samba_status lower_sample(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    const samba_attrs_grid *attrs = &node->attrs->grid;
    const bool image = node->op == SAMBA_OP_grid_sample_input_grad, of_grid = node->op == SAMBA_OP_grid_sample_grid_grad;
    samba_stage *stage;
    SAMBA_TRY(add(c, group, SAMBA_STAGE_POOL, node->arity, node->inputs, &stage));
    const samba_node *x = image ? node : samba_node_at(c->graph, node->inputs[0]);
    const samba_node *grid = samba_node_at(c->graph, node->inputs[image ? 0 : 1]);
    const bool volumes = x->rank == 5;
    stage->pool = (samba_pool){.sample = (int32_t)attrs->mode + 1,
                               .outside = (int32_t)attrs->padding,
                               .align_corners = attrs->align_corners != 0,
                               .gradient = image || of_grid,
                               .of_grid = of_grid,
                               .images = x->shape[0],
                               .planes = x->shape[0] * x->shape[1],
                               .depth = volumes ? x->shape[2] : 0,
                               .h = x->shape[2] * (volumes ? x->shape[3] : 1),
                               .w = x->shape[x->rank - 1],
                               .oh = grid->shape[1] * (volumes ? grid->shape[2] : 1),
                               .ow = grid->shape[grid->rank - 2],
                               .kernel = {1, 1},
                               .stride = {1, 1},
                               .dilation = {1, 1}};
    return SAMBA_OK;
}

/* ---- linear layers over weights as they are kept ---- */

static samba_status lower_stored(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    const samba_node *x = samba_node_at(c->graph, node->inputs[0]), *w = samba_node_at(c->graph, node->inputs[1]);
    samba_linear_stage linear = {.form = w->dtype == SAMBA_UINT8      ? SAMBA_LINEAR_INT4
                                         : w->dtype == SAMBA_INT8     ? SAMBA_LINEAR_INT8
                                         : w->dtype == SAMBA_BFLOAT16 ? SAMBA_LINEAR_BFLOAT16
                                                                      : SAMBA_LINEAR_FLOAT32,
                                 .transposed = (int32_t)node->attrs->stored.transposed,
                                 .m = samba_sizes_product(x->rank - 1, x->shape),
                                 .n = node->shape[node->rank - 1],
                                 .k = x->shape[x->rank - 1]};
    samba_stage *stage;
    SAMBA_TRY(add(c, group, SAMBA_STAGE_LINEAR, node->arity, node->inputs, &stage));
    stage->linear = linear;
    return SAMBA_OK;
}

/* ---- Fourier transforms, CTC loss ---- */

static samba_status lower_fourier(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    const samba_attrs_fourier *at = &node->attrs->fourier;
    samba_fourier fourier = {
        .form = (int32_t)at->form, .inverse = (int32_t)at->inverse, .size = at->length, .scale = at->scale, .pairs = at->pairs};
    const int dims = node->rank - (at->form != SAMBA_FOURIER_TO_REAL); /* without that of the parts */
    fourier.outer = samba_sizes_product((int)at->dim, node->shape);
    fourier.inner = samba_sizes_product(dims - (int)at->dim - 1, node->shape + at->dim + 1);
    samba_stage *stage;
    SAMBA_TRY(add(c, group, SAMBA_STAGE_FOURIER, 1, node->inputs, &stage));
    stage->fourier = fourier;
    return SAMBA_OK;
}

static samba_status lower_ctc(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    const samba_node *x = samba_node_at(c->graph, node->inputs[0]), *targets = samba_node_at(c->graph, node->inputs[1]);
    const samba_ctc ctc = {.gradient = node->op == SAMBA_OP_ctc_loss_grad,
                           .zero_infinity = (int32_t)node->attrs->ctc.zero_infinity,
                           .steps = x->shape[0],
                           .batch = x->shape[1],
                           .classes = x->shape[2],
                           .most = targets->shape[1],
                           .blank = node->attrs->ctc.blank};
    samba_stage *stage;
    SAMBA_TRY(add(c, group, SAMBA_STAGE_CTC, node->arity, node->inputs, &stage));
    stage->ctc = ctc;
    return SAMBA_OK;
}

/* ---- matrices ---- */

/* (batch, row, column) strides of a value, which is copied where its batch dims are not one. */
static samba_status batched(samba_compiler *c, samba_ref ref, samba_phase phase, int64_t batch, samba_operand *operand)
{
    const samba_node *node = samba_node_at(c->graph, ref);
    const samba_access *access = &c->fusion.access[ref];
    const int64_t rows = node->shape[node->rank - 2], columns = node->shape[node->rank - 1], shape[3] = {batch, rows, columns};
    int64_t strides[SAMBA_MAX_RANK];
    bool forward = true;
    for (int i = 0; i < node->rank; i++)
        forward = forward && access->strides[i] >= 0;
    if (forward && samba_shape_view_strides(node->rank, node->shape, access->strides, 3, shape, strides)) {
        *operand = (samba_operand){.buffer = c->placed.buffer_of[access->base], .dtype = node->dtype, .offset = access->offset};
    } else {
        SAMBA_TRY(samba_lower_contiguous(c, ref, phase, operand));
        samba_shape_contiguous_strides(3, shape, strides);
    }
    for (int i = 0; i < 3; i++)
        operand->strides[i] = shape[i] == 1 ? 0 : strides[i];
    return SAMBA_OK;
}

static samba_status lower_matrix(samba_compiler *c, const samba_group *group, const samba_node *node,
                                 samba_matrix_function function)
{
    const samba_node *a = samba_node_at(c->graph, node->inputs[0]);
    const int64_t rows = a->shape[a->rank - 2], batch = samba_sizes_product(node->rank - 2, node->shape);
    const bool solves = node->arity == 2;
    samba_matrix_stage matrix = {.function = (int32_t)function,
                                 .m = function == SAMBA_MATRIX_LU_SOLVE || function == SAMBA_MATRIX_LU_INVERSE ? rows - 1 : rows,
                                 .n = a->shape[a->rank - 1],
                                 .right = solves ? node->shape[node->rank - 1] : 0};
    if (function == SAMBA_MATRIX_TRIANGULAR) {
        matrix.upper = node->attrs->triangular.upper != 0;
        matrix.unit = node->attrs->triangular.unit != 0;
    }
    if (function == SAMBA_MATRIX_LU)
        matrix.singular = node->attrs->lu.singular != 0;
    if (function == SAMBA_MATRIX_LU_SOLVE)
        matrix.transposed = node->attrs->lu_solve.transposed != 0;
    if (function == SAMBA_MATRIX_EIGH || function == SAMBA_MATRIX_SVD)
        matrix.values = node->attrs->spectrum.values != 0;
    if (function == SAMBA_MATRIX_LSTSQ)
        matrix.rtol = node->attrs->rcond.rcond;
    if (function == SAMBA_MATRIX_PINV) {
        matrix.atol = node->attrs->cutoff.atol;
        matrix.rtol = node->attrs->cutoff.rtol;
    }
    samba_operand operands[3];
    const samba_node *sources[3] = {0};
    int64_t bytes = samba_node_bytes(node);
    for (int i = 0; i < node->arity; i++) {
        SAMBA_TRY(batched(c, node->inputs[i], group->phase, batch, &operands[i]));
        sources[i] = samba_node_at(c->graph, node->inputs[i]);
        bytes += samba_node_bytes(sources[i]);
    }
    SAMBA_TRY(batched(c, group->anchor, group->phase, batch, &operands[node->arity]));
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_labelled(c, group, SAMBA_STAGE_MATRIX, &stage));
    stage->matrix = matrix;
    stage->operand_count = node->arity + 1;
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, stage->operands, stage->operand_count));
    memcpy(stage->operands, operands, sizeof *operands * (size_t)stage->operand_count);
    stage->rank = 3;
    stage->domain[0] = batch;
    stage->domain[1] = node->shape[node->rank - 2];
    stage->domain[2] = node->shape[node->rank - 1];
    stage->bytes = bytes;
    stage->flops = samba_ops[node->op].flops(node, sources);
    return SAMBA_OK;
}

/* ---- gather, scatter ---- */

/* A view as it lies, over its own shape. */
static samba_operand strided(const samba_compiler *c, samba_ref ref)
{
    const samba_node *node = samba_node_at(c->graph, ref);
    const samba_access *access = &c->fusion.access[ref];
    samba_operand operand = {.buffer = c->placed.buffer_of[access->base], .dtype = node->dtype, .offset = access->offset};
    for (int i = 0; i < node->rank; i++)
        operand.strides[i] = node->shape[i] == 1 ? 0 : access->strides[i];
    return operand;
}

/* A stage over the index's shape. `table`: the operand that has rows of its own along the axis. */
static samba_status add_gather(samba_compiler *c, const samba_group *group, samba_gather_stage gather, int rank,
                               const int64_t *domain, const samba_operand *operands)
{
    const samba_node *node = samba_node_at(c->graph, group->anchor);
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_stage(c, group->phase, &stage));
    stage->kind = SAMBA_STAGE_GATHER;
    stage->gather = gather;
    stage->rank = rank;
    memcpy(stage->domain, domain, sizeof(int64_t) * (size_t)rank);
    stage->operand_count = 3;
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, stage->operands, 3));
    memcpy(stage->operands, operands, sizeof(samba_operand) * 3);
    int64_t numel = samba_sizes_product(rank, domain), size = (int64_t)samba_dtype_size((samba_dtype)node->dtype);
    const samba_operand *index = &operands[gather.mode == SAMBA_GATHER_READ ? 1 : 0];
    int64_t indices = 1;
    for (int i = 0; i < rank; i++)
        indices *= index->strides[i] != 0 ? domain[i] : 1;
    stage->bytes = numel * size * (gather.mode == SAMBA_GATHER_READ ? 2 : 3) +
                   indices * (int64_t)samba_dtype_size((samba_dtype)index->dtype);
    const samba_node *sources[3] = {0};
    for (int i = 0; i < node->arity; i++)
        sources[i] = samba_node_at(c->graph, node->inputs[i]);
    stage->flops = samba_ops[node->op].flops(node, sources);
    return samba_stage_label(c, group, stage);
}

/* The table's rows along the axis, which its strides over the domain leave out. */
static samba_gather_stage gather_of(samba_gather_mode mode, int64_t axis, int64_t negative, const samba_node *table,
                                    samba_operand *operand)
{
    samba_gather_stage gather = {.mode = (int32_t)mode,
                                 .axis = (int32_t)axis,
                                 .negative = (int32_t)negative,
                                 .table_rows = table->shape[axis],
                                 .table_stride = operand->strides[axis]};
    operand->strides[axis] = 0;
    return gather;
}

static samba_status lower_gather(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    samba_operand operands[3] = {strided(c, node->inputs[0]), strided(c, node->inputs[1]), strided(c, group->anchor)};
    const samba_attrs_gather *at = &node->attrs->gather;
    samba_gather_stage gather =
        gather_of(SAMBA_GATHER_READ, at->dim, at->negative, samba_node_at(c->graph, node->inputs[0]), &operands[0]);
    return add_gather(c, group, gather, node->rank, node->shape, operands);
}

/* Rows of a table: its index as one line, beside which a row has one more dim. */
static samba_status lower_embedding(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    const samba_node *table = samba_node_at(c->graph, node->inputs[0]), *index = samba_node_at(c->graph, node->inputs[1]);
    samba_operand operands[3] = {strided(c, node->inputs[0]),
                                 strided(c, node->inputs[1]),
                                 {.buffer = c->placed.buffer_of[group->anchor], .dtype = node->dtype}};
    int64_t domain[2] = {1, table->shape[1]}, line[SAMBA_MAX_RANK] = {0};
    samba_shape_numel(index->rank, index->shape, &domain[0]);
    if (!samba_shape_view_strides(index->rank, index->shape, operands[1].strides, 1, domain, line)) {
        SAMBA_TRY(samba_lower_contiguous(c, node->inputs[1], group->phase, &operands[1]));
        line[0] = 1;
    }
    operands[1].strides[0] = line[0];
    for (int i = 1; i < SAMBA_MAX_RANK; i++)
        operands[1].strides[i] = 0;
    operands[2].strides[0] = table->shape[1];
    operands[2].strides[1] = 1;
    samba_gather_stage gather = gather_of(SAMBA_GATHER_READ, 0, 0, table, &operands[0]);
    return add_gather(c, group, gather, 2, domain, operands);
}

/* Elements are written where the base lies, if nobody else wants it or it is a buffer that gets the result,
 * or where a copy of it does. */
static samba_status lower_scatter(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    const samba_access *access = c->fusion.access;
    int32_t base = c->placed.buffer_of[access[node->inputs[0]].base], result = c->placed.buffer_of[group->anchor];
    bool in_place = samba_access_is_whole(c->graph, access, node->inputs[0]);
    for (int i = 1; i < 3; i++)
        in_place = in_place && c->placed.buffer_of[access[node->inputs[i]].base] != base &&
                   c->placed.buffer_of[access[node->inputs[i]].base] != result;
    if (base != result && (!in_place || !samba_share_buffer(c, base, result)))
        SAMBA_TRY(samba_lower_copy(c, &(samba_copy){node->inputs[0], result, group->phase, group->redone}));
    samba_operand operands[3] = {strided(c, node->inputs[1]), strided(c, node->inputs[2]), strided(c, group->anchor)};
    const samba_attrs_scatter *at = &node->attrs->scatter;
    const samba_node *index = samba_node_at(c->graph, node->inputs[1]);
    samba_gather_stage gather =
        gather_of((samba_gather_mode)(SAMBA_GATHER_SET + at->reduce), at->dim, at->negative, node, &operands[2]);
    return add_gather(c, group, gather, index->rank, index->shape, operands);
}

/* A gradient where it lies (bufferize.c); anything else where it lies too, if nobody else wants it there, or a copy of it. */
static samba_status lower_exchange(samba_compiler *c, const samba_group *group, const samba_node *node)
{
    const samba_access *access = c->fusion.access;
    const int32_t operand = c->placed.buffer_of[access[node->inputs[0]].base], buffer = c->placed.buffer_of[group->anchor];
    const bool whole = samba_access_is_whole(c->graph, access, node->inputs[0]);
    if (operand != buffer && (!whole || !samba_share_buffer(c, operand, buffer)))
        SAMBA_TRY(samba_lower_copy(c, &(samba_copy){node->inputs[0], buffer, group->phase, group->redone}));
    samba_stage *stage;
    SAMBA_TRY(samba_plan_add_labelled(c, group, SAMBA_STAGE_EXCHANGE, &stage));
    SAMBA_TRY(SAMBA_ROOM(&c->plan.arena, stage->operands, 1));
    stage->operands[0] = (samba_operand){.buffer = buffer, .dtype = node->dtype, .strides = {1}};
    stage->operand_count = 1;
    stage->rank = 1;
    stage->domain[0] = samba_node_numel(node);
    stage->bytes = 2 * samba_node_bytes(node);
    return SAMBA_OK;
}

samba_status samba_lower_kernel(samba_compiler *c, int32_t index)
{
    const samba_group *group = &c->fusion.groups[index];
    const samba_node *node = samba_node_at(c->graph, group->anchor);
    switch (node->op) {
    case SAMBA_OP_max_pool2d:
    case SAMBA_OP_max_pool2d_indices:
    case SAMBA_OP_avg_pool2d: return lower_pool(c, group, node, false);
    case SAMBA_OP_max_pool2d_grad:
    case SAMBA_OP_avg_pool2d_grad: return lower_pool(c, group, node, true);
    case SAMBA_OP_resample2d: return lower_resample(c, group, node, false);
    case SAMBA_OP_resample2d_grad: return lower_resample(c, group, node, true);
    case SAMBA_OP_grid_sample:
    case SAMBA_OP_grid_sample_input_grad:
    case SAMBA_OP_grid_sample_grid_grad: return lower_sample(c, group, node);
    case SAMBA_OP_fft: return lower_fourier(c, group, node);
    case SAMBA_OP_ctc_loss:
    case SAMBA_OP_ctc_loss_grad: return lower_ctc(c, group, node);
    case SAMBA_OP_stored_linear: return lower_stored(c, group, node);
    case SAMBA_OP_embedding: return lower_embedding(c, group, node);
    case SAMBA_OP_gather: return lower_gather(c, group, node);
    case SAMBA_OP_scatter: return lower_scatter(c, group, node);
    case SAMBA_OP_attention:
    case SAMBA_OP_attention_lse:
    case SAMBA_OP_attention_grad:
    case SAMBA_OP_cache_attention: return samba_lower_attention(c, index);
    case SAMBA_OP_sort:
    case SAMBA_OP_argsort:
    case SAMBA_OP_cumsum:
    case SAMBA_OP_cumprod:
    case SAMBA_OP_cumprod_grad:
    case SAMBA_OP_logcumsumexp:
    case SAMBA_OP_cummax:
    case SAMBA_OP_cummax_index:
    case SAMBA_OP_cummin:
    case SAMBA_OP_cummin_index:
    case SAMBA_OP_multilabel_margin:
    case SAMBA_OP_multilabel_margin_grad: return samba_lower_line(c, index);
    case SAMBA_OP_cholesky: return lower_matrix(c, group, node, SAMBA_MATRIX_CHOLESKY);
    case SAMBA_OP_triangular_solve: return lower_matrix(c, group, node, SAMBA_MATRIX_TRIANGULAR);
    case SAMBA_OP_lu_factors: return lower_matrix(c, group, node, SAMBA_MATRIX_LU);
    case SAMBA_OP_lu_solve: return lower_matrix(c, group, node, SAMBA_MATRIX_LU_SOLVE);
    case SAMBA_OP_qr_factors: return lower_matrix(c, group, node, SAMBA_MATRIX_QR);
    case SAMBA_OP_eigh_factors: return lower_matrix(c, group, node, SAMBA_MATRIX_EIGH);
    case SAMBA_OP_svd_factors: return lower_matrix(c, group, node, SAMBA_MATRIX_SVD);
    case SAMBA_OP_lstsq: return lower_matrix(c, group, node, SAMBA_MATRIX_LSTSQ);
    case SAMBA_OP_pinv: return lower_matrix(c, group, node, SAMBA_MATRIX_PINV);
    case SAMBA_OP_lu_inverse: return lower_matrix(c, group, node, SAMBA_MATRIX_LU_INVERSE);
    case SAMBA_OP_matrix_exp: return lower_matrix(c, group, node, SAMBA_MATRIX_EXP);
    case SAMBA_OP_replica_mean: return lower_exchange(c, group, node);
    default: return samba_fail(c->context, SAMBA_ERROR_INTERNAL, "lowering: operator %s has no kernel", samba_ops[node->op].name);
    }
}
