/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of how ONNX says operators. A row of ops.def without one of write.def names an object that is not there. */
#include "onnx/write.h"

#define WRITE(name, function) static const samba_onnx_write_row row_##name = {function, NULL, false, false, NULL};
#define TELL(name, function) static const samba_onnx_write_row row_##name = {function, NULL, false, true, NULL};
#define OWN(name, function, when) static const samba_onnx_write_row row_##name = {function, when, false, false, NULL};
#define TELL_OWN(name, function, when) static const samba_onnx_write_row row_##name = {function, when, false, true, NULL};
#define EXPAND(name) static const samba_onnx_write_row row_##name = {NULL, NULL, false, false, NULL};
#define PASS(name) static const samba_onnx_write_row row_##name = {NULL, NULL, true, false, NULL};
#define REFUSE(name, reason) static const samba_onnx_write_row row_##name = {NULL, NULL, false, false, reason};
#include "onnx/write.def"

const samba_onnx_write_row *const samba_onnx_write_rows[SAMBA_OP_COUNT] = {
#define OP(name, ...) [SAMBA_OP_##name] = &row_##name,
#include "ops.def"
};
