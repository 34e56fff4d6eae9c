/* SPDX-License-Identifier: Apache-2.0
 *
 * Dtype promotion as torch.result_type does it. Two rules make it up: within one kind of operand the wider type wins, and an
 * operand of a lower kind (0-dim tensor, number) counts only when its category is higher. */
#include "tensor/tensor.h"

/* torch.promote_types. Between equal sizes neither type holds the other's values, so the next larger one is taken. */
static samba_dtype promote_types(samba_dtype a, samba_dtype b)
{
    const samba_dtype_facts *facts_a = &samba_dtype_table[a], *facts_b = &samba_dtype_table[b];
    if (a == b)
        return a;
    if (facts_a->category != facts_b->category)
        return facts_a->category > facts_b->category ? a : b;
    if (facts_a->size != facts_b->size)
        return facts_a->size > facts_b->size ? a : b;
    return facts_a->category == SAMBA_CATEGORY_FLOAT ? SAMBA_FLOAT32 : SAMBA_INT16;
}

static samba_dtype number_dtype(samba_dtype dtype)
{
    switch (samba_dtype_table[dtype].category) {
    case SAMBA_CATEGORY_BOOL: return SAMBA_BOOL;
    case SAMBA_CATEGORY_INTEGER: return SAMBA_INT64;
    default: return SAMBA_FLOAT32;
    }
}

static bool is_known(samba_dtype dtype, samba_promotion kind)
{
    return (unsigned)dtype < SAMBA_DTYPE_COUNT && (unsigned)kind <= SAMBA_NUMBER;
}

samba_dtype samba_promote(samba_dtype a, samba_promotion a_kind, samba_dtype b, samba_promotion b_kind)
{
    if (!is_known(a, a_kind) || !is_known(b, b_kind))
        return SAMBA_DTYPE_COUNT;
    if (a_kind == SAMBA_NUMBER)
        a = number_dtype(a);
    if (b_kind == SAMBA_NUMBER)
        b = number_dtype(b);
    if (a_kind == b_kind)
        return promote_types(a, b);
    samba_dtype higher = a_kind < b_kind ? a : b, lower = a_kind < b_kind ? b : a;
    return samba_dtype_table[lower].category > samba_dtype_table[higher].category ? promote_types(higher, lower) : higher;
}
