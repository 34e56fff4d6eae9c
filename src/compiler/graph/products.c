/* SPDX-License-Identifier: Apache-2.0
 *
 * A rule of simplify: a sum of products is one product. A weight that many steps share (a recurrent net's) gets its gradient as a
 * sum of one small product a step, each as large as the weight and a few rows deep; side by side those rows are one deep product,
 * which adds up in registers:
 *     a0 b0 + a1 b1 + ...  =  [a0 a1 ...] [b0; b1; ...]
 * The operands are joined, which costs copies of them where their producers cannot write there: less than the sums that are gone,
 * as long as a product is shallow beside what it computes. Deep ones stay.
 *
 * Needs: the root of a sum, whose inner additions nobody else reads. Gives: the sum anew, or SAMBA_NONE. */
#include "compiler/compiler.h"

/* Joining moves depth * (rows + columns) numbers; adding reads and writes rows * columns. */
static bool is_shallow(const samba_graph *g, const samba_node *node)
{
    const samba_node *a = samba_node_at(g, node->inputs[0]), *b = samba_node_at(g, node->inputs[1]);
    return a->rank == 2 && b->rank == 2 &&
           (double)a->shape[1] * (double)(node->shape[0] + node->shape[1]) <= (double)node->shape[0] * (double)node->shape[1];
}

static bool is_product(const samba_graph *g, const samba_reads *reads, const samba_node *root, samba_ref ref)
{
    const samba_node *node = samba_node_at(g, ref);
    return node->op == SAMBA_OP_matmul && reads->count[ref] == 1 && node->phase == root->phase && node->fp32 == root->fp32 &&
           samba_shape_equal(node->rank, node->shape, root->rank, root->shape) && is_shallow(g, node);
}

/* Operand `k` of the products `at` side by side. Transposed ones are joined as they lie, and transposed as one. */
static samba_ref joined(samba_rewriter *rewriter, int count, const samba_ref *at, int k)
{
    samba_graph *out = rewriter->out;
    samba_ref parts[SAMBA_MAX_ARITY];
    bool turned = true;
    for (int i = 0; i < count; i++) {
        parts[i] = rewriter->map[samba_node_at(rewriter->in, at[i])->inputs[k]];
        turned = turned && samba_node_at(out, parts[i])->op == SAMBA_OP_permute;
    }
    for (int i = 0; turned && i < count; i++)
        parts[i] = samba_node_at(out, parts[i])->inputs[0];
    samba_ref whole = samba_emit_concat(out, count, parts, turned ? k : 1 - k);
    return turned ? samba_emit_transpose(out, whole, 0, 1) : whole;
}

/* The value that a product's first operand is a view of. */
static samba_ref shown(const samba_graph *g, samba_ref product)
{
    samba_ref a = samba_node_at(g, product)->inputs[0];
    return samba_node_at(g, a)->op == SAMBA_OP_permute ? samba_node_at(g, a)->inputs[0] : a;
}

/* By their first operand: in the order in which a forward pass made it, as it joined it. */
static void sort(const samba_graph *g, int count, samba_ref *products)
{
    for (int i = 1; i < count; i++) {
        samba_ref moved = products[i];
        int k = i;
        for (; k > 0 && shown(g, products[k - 1]) > shown(g, moved); k--)
            products[k] = products[k - 1];
        products[k] = moved;
    }
}

/* The sum so far and one product more, of all that wait. */
static samba_ref add_products(samba_rewriter *rewriter, samba_ref sum, int count, samba_ref *products)
{
    sort(rewriter->in, count, products);
    samba_ref a = joined(rewriter, count, products, 0), b = joined(rewriter, count, products, 1);
    samba_ref product = samba_emit2(rewriter->out, SAMBA_OP_matmul, a, b);
    return sum == SAMBA_NONE ? product : samba_emit2(rewriter->out, SAMBA_OP_add, sum, product);
}

samba_ref samba_simplify_products(samba_rewriter *rewriter, samba_ref ref, const samba_reads *reads)
{
    const samba_graph *in = rewriter->in;
    const samba_node *root = samba_node_at(in, ref), *sum = root;
    samba_ref products[SAMBA_MAX_ARITY], total = SAMBA_NONE;
    int count = 0, joins = 0;
    if (root->op != SAMBA_OP_add || root->rank != 2 || reads->inner[ref])
        return SAMBA_NONE;
    /* autodiff adds on the right: a sum is on the left, and its last term too */
    for (; joins < 2; sum = samba_node_at(in, sum->inputs[0])) {
        joins += is_product(in, reads, root, sum->inputs[1]);
        if (!reads->inner[sum->inputs[0]]) {
            joins += is_product(in, reads, root, sum->inputs[0]);
            break;
        }
    }
    if (joins < 2)
        return SAMBA_NONE;
    sum = root;
    for (int k = 1;;) {
        samba_ref term = sum->inputs[k];
        if (is_product(in, reads, root, term))
            products[count++] = term;
        else
            total =
                total == SAMBA_NONE ? rewriter->map[term] : samba_emit2(rewriter->out, SAMBA_OP_add, total, rewriter->map[term]);
        if (count == SAMBA_MAX_ARITY) {
            total = add_products(rewriter, total, count, products);
            count = 0;
        }
        if (k == 0)
            break;
        if (reads->inner[sum->inputs[0]])
            sum = samba_node_at(in, sum->inputs[0]);
        else
            k = 0;
    }
    return count > 0 ? add_products(rewriter, total, count, products) : total;
}
