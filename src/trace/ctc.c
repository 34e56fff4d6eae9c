/* SPDX-License-Identifier: Apache-2.0
 *
 * CTC loss with PyTorch's shapes. The operator takes a batch, targets in rows and int64; targets in one line are put into rows
 * here. */
#include "trace/losses.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/index.h>
#include <sambaflow/reduce.h>
#include <sambaflow/shape.h>

static bool is_whole(samba_value a) { return samba_dtype_table[samba_trace_node(a).dtype].category == SAMBA_CATEGORY_INTEGER; }

/* Targets one behind the other, (sum of lengths), as rows of `most`; a row's other places hold whatever. */
static samba_value in_rows(samba_value targets, samba_value lengths, int64_t batch, int64_t most)
{
    const int64_t all = samba_value_size(targets, 0), sizes[2] = {batch, most};
    if (most == 0 || all == 0)
        return samba_trace_value(targets.graph,
                                 samba_emit_expand(targets.graph, samba_emit_constant(targets.graph, 0, SAMBA_INT64), 2, sizes));
    samba_value ends = samba_cumsum(lengths, 0);
    samba_value begins = samba_reshape(samba_sub(ends, lengths), 2, (int64_t[]){batch, 1});
    samba_value place = samba_trace_value(targets.graph, samba_emit_iota(targets.graph, 2, (int64_t[]){1, most}, 1));
    samba_value first = samba_integer(targets.graph, 0), end = samba_integer(targets.graph, all - 1);
    samba_value at = samba_clamp(samba_add(begins, place), first, end);
    return samba_reshape(samba_gather(targets, 0, samba_reshape(at, 1, (int64_t[]){batch * most})), 2, sizes);
}

samba_value samba_ctc_loss(samba_value log_probs, samba_value targets, samba_value input_lengths, samba_value target_lengths,
                           const samba_ctc_options *options)
{
    const samba_ctc_options o = options ? *options : samba_ctc_defaults();
    samba_losses loss;
    samba_value v[] = {log_probs, targets, input_lengths, target_lengths};
    if (!samba_losses_enter_any(&loss, "ctc_loss", 4, v, o.reduction))
        return samba_trace_none(loss.graph);
    SAMBA_SPEAKS(loss.graph, loss.what);
    const int rank = samba_value_rank(log_probs), labels = samba_value_rank(targets);
    for (int i = 1; i < 4; i++)
        if (!is_whole(v[i]))
            return samba_trace_fail(loss.graph, SAMBA_ERROR_DTYPE, loss.what,
                                    "expected targets and lengths of integers, given %s",
                                    samba_dtype_name(samba_value_dtype(v[i])));
    for (int i = 1; i < 4; i++)
        v[i] = samba_cast(v[i], SAMBA_INT64);
    bool fits = rank == 2 || rank == 3;
    const int64_t batch = rank == 3 ? samba_value_size(log_probs, 1) : 1;
    for (int i = 2; i < 4; i++)
        fits =
            fits && (samba_value_rank(v[i]) == 1 ? samba_value_size(v[i], 0) == batch : rank == 2 && samba_value_rank(v[i]) == 0);
    fits = fits && (labels == 1 || (rank == 3 && labels == 2 && samba_value_size(targets, 0) == batch));
    if (!fits)
        return samba_losses_fail_all(
            &loss,
            "log probabilities (T, N, C), targets (N, S) or (sum of lengths) and lengths (N), or (T, C), "
            "(S) and ()",
            4, v);
    if (rank == 2)
        v[0] = samba_unsqueeze(v[0], 1);
    for (int i = 2; i < 4; i++)
        v[i] = samba_reshape(v[i], 1, &batch);
    const int64_t classes = samba_value_size(v[0], 2), most = o.most > 0 ? o.most : samba_value_size(targets, labels - 1);
    if (o.blank < 0 || o.blank >= classes)
        return samba_trace_fail(loss.graph, SAMBA_ERROR_ARGUMENT, loss.what, "blank must be a class, 0 to %lld, given %lld",
                                (long long)classes - 1, (long long)o.blank);
    if (labels == 1)
        v[1] = in_rows(v[1], v[3], batch, most);
    const samba_attrs attrs = {.ctc = {.blank = o.blank, .zero_infinity = o.zero_infinity}};
    const samba_ref inputs[] = {v[0].index, v[1].index, v[2].index, v[3].index};
    if (samba_graph_status(loss.graph) != SAMBA_OK)
        return samba_trace_none(loss.graph);
    samba_value each = samba_trace_value(loss.graph, samba_emit(loss.graph, SAMBA_OP_ctc_loss, 4, inputs, &attrs));
    if (o.reduction == SAMBA_MEAN)
        each = samba_div(each, samba_cast(samba_maximum(v[3], samba_integer(loss.graph, 1)), loss.wide));
    return samba_losses_leave(&loss, rank == 2 ? samba_reshape(each, 0, NULL) : each, o.reduction);
}
