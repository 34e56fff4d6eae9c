/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.def as a constant table, its signature, and the cells that rows of several families share. A cell `none` becomes NULL here
 * and nowhere else. */
#include "ops/families.h"

/* An empty cell is an error of the row, found before anything else is compiled. */
#define OP(name, arity, attrs, class, tile, infer, vjp, ref, flops, expand, amp, traits, call)                                   \
    _Static_assert(sizeof(#name) > 1 && sizeof(#arity) > 1 && sizeof(#attrs) > 1 && sizeof(#class) > 1 && sizeof(#tile) > 1 &&   \
                       sizeof(#infer) > 1 && sizeof(#vjp) > 1 && sizeof(#ref) > 1 && sizeof(#flops) > 1 &&                       \
                       sizeof(#expand) > 1 && sizeof(#amp) > 1 && sizeof(#traits) > 1 && sizeof(#call) > 1,                      \
                   "ops.def: operator '" #name "' has an empty cell");
#include "ops.def"

/* REDUCE is also a phase, so classes take their enumerators by name. */
#define CLASS_LEAF SAMBA_LEAF
#define CLASS_MAP SAMBA_MAP
#define CLASS_REDUCE SAMBA_REDUCE_CLASS
#define CLASS_VIEW SAMBA_VIEW
#define CLASS_MOVE SAMBA_MOVE
#define CLASS_CONTRACT SAMBA_CONTRACT
#define CLASS_KERNEL SAMBA_KERNEL
#define CLASS_COMPOSITE SAMBA_COMPOSITE

#define samba_vjp_none NULL
#define samba_ref_none NULL
#define samba_expand_none NULL

/* Traits are designated initializers, and none is nothing. */
#define none
#define TENSOR .tensor = true,
#define INLINE .inline_ = true,
#define EXACT .exact = true,
#define POSITION .position = true,
#define CONV(role) .conv = SAMBA_CONV_##role,
#define COMBINE(op) .combine = SAMBA_OP_##op,
#define TWIN(op) .twin = SAMBA_OP_##op,
#define RANGE(cell) .range = samba_range_##cell,

/* The names of the columns end in _ where they are fields too. */
const samba_op_facts samba_ops[SAMBA_OP_COUNT] = {
#define OP(name_, arity_, attrs_, class, tile, infer_, vjp_, ref, flops_, expand_, amp_, traits, call)                           \
    {.name = #name_,                                                                                                             \
     .arity = arity_,                                                                                                            \
     .attrs = SAMBA_ATTRS_##attrs_,                                                                                              \
     .class_ = CLASS_##class,                                                                                                    \
     .infer = samba_infer_##infer_,                                                                                              \
     .vjp = samba_vjp_##vjp_,                                                                                                    \
     .reference = samba_ref_##ref,                                                                                               \
     .flops = samba_flops_##flops_,                                                                                              \
     .expand = samba_expand_##expand_,                                                                                           \
     .amp = SAMBA_AMP_##amp_,                                                                                                    \
     traits},
#include "ops.def"
};
#undef none
#undef TENSOR
#undef INLINE
#undef EXACT
#undef POSITION
#undef CONV
#undef COMBINE
#undef TWIN
#undef RANGE

uint64_t samba_ops_signature(void)
{
    /* Attribute kinds belong to it: a row means something else when its attributes change.
     * Traits and the public function do not. */
    static const char tokens[] =
#define OP(name, arity, attrs, class, tile, infer, vjp, ref, flops, expand, amp, ...)                                            \
    #name "," #arity "," #attrs "," #class "," #tile "," #infer "," #vjp "," #ref "," #flops "," #expand "," #amp "\n"
#include "ops.def"
#define ATTRS(kind, fields) #kind ":" #fields "\n"
#include "graph/attrs.def"
        ;
    return samba_hash(tokens, sizeof(tokens) - 1, 0);
}

samba_status samba_vjp_second(samba_vjp *vjp)
{
    return samba_fail(vjp->graph->context, SAMBA_ERROR_UNSUPPORTED,
                      "%s: this is already a gradient, and has none itself: compose what is differentiated twice of other "
                      "operators, or detach this part",
                      samba_ops[vjp->node->op].name);
}

static int64_t numel_of(const samba_node *node)
{
    int64_t numel = 1;
    for (int d = 0; d < node->rank; d++)
        numel *= node->shape[d]; /* inference has checked the product */
    return numel;
}

int64_t samba_flops_zero(const samba_node *node, const samba_node *const *inputs)
{
    (void)node;
    (void)inputs;
    return 0;
}

int64_t samba_flops_map(const samba_node *node, const samba_node *const *inputs)
{
    (void)inputs;
    return numel_of(node);
}

int64_t samba_flops_reduce(const samba_node *node, const samba_node *const *inputs)
{
    (void)node;
    return numel_of(inputs[0]);
}
