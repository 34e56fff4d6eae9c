/* SPDX-License-Identifier: Apache-2.0
 *
 * The roads of products, rows of roads.def: frame.h says what a road is, frame.c chooses among them. */
#ifndef SAMBA_CPU_ROADS_H
#define SAMBA_CPU_ROADS_H

#include "device/cpu/product/frame.h"

#define ROAD(name, idea) extern const samba_road samba_road_##name;
#include "device/cpu/product/roads.def"

/* contract_plan.c: drops dims of size 1, makes windows that never leave the image into strides,
 * merges dims that are one in memory. */
void samba_contract_simplify(samba_contract *contract);

#endif
