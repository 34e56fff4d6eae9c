/* SPDX-License-Identifier: Apache-2.0
 *
 * Images read at a grid's positions (sample_plane.h). Compiled once for each ISA. */
#include "device/cpu/isa/lanes.h"
#include "device/cpu/tile/parts.h"
#include "device/cpu/pool/pool.h"
#include "device/cpu/fetch.h"
#include <string.h>

#define floor_f32 __builtin_floorf
#define floor_f64 __builtin_floor
#define rint_f32 __builtin_rintf
#define rint_f64 __builtin_rint

#define T float
#define INDEX int32_t
#define NAME(x) x##_f32
#include "device/cpu/pool/sample_plane.h"
#undef T
#undef INDEX
#undef NAME
#define T double
#define INDEX int64_t
#define NAME(x) x##_f64
#include "device/cpu/pool/sample_plane.h"
