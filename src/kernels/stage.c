/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about tile operators, and which register class holds which dtype. */
#include "kernels/stage.h"

const samba_tile_facts samba_tile_table[SAMBA_TILE_COUNT] = {
#define TILE(name, form) {#name, SAMBA_FORM_##form},
#include "kernels/tiles.def"
#undef TILE
};

samba_register_class samba_class_of(samba_dtype dtype)
{
    if (dtype == SAMBA_FLOAT64)
        return SAMBA_F64;
    return samba_dtype_table[dtype].category == SAMBA_CATEGORY_INTEGER ? SAMBA_I64 : SAMBA_F32;
}
