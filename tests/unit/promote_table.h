/* SPDX-License-Identifier: Apache-2.0
 *
 * What torch.result_type (PyTorch 2.13.0) answers for every pair of operands. Operands in order: a dimensioned tensor of each
 * samba_dtype by its number, a 0-dim tensor of each, then the numbers True, 2 and 1.5. A digit is the result's samba_dtype. Made
 * by
 *   operands = [torch.ones(2, dtype=d) for d in dtypes] + [torch.ones((), dtype=d) for d in dtypes] + [True, 2, 1.5]
 *   for a in operands: print("".join(str(dtypes.index(torch.result_type(a, b))) for b in operands))
 * with dtypes = float32 bfloat16 float16 float64 int64 int32 int16 int8 uint8 bool. */
#ifndef SAMBA_TEST_PROMOTE_TABLE_H
#define SAMBA_TEST_PROMOTE_TABLE_H

#define PROMOTE_OPERANDS 23
static const char *const torch_result_type[PROMOTE_OPERANDS] = {
    "00030000000000000000000", "01031111111111111111111", "00232222222222222222222", "33333333333333333333333",
    "01234444440123444444440", "01234555550123555555550", "01234566660123666666660", "01234567670123777777770",
    "01234566880123888888880", "01234567890123456789940", "01230000000003000000000", "01231111110103111111111",
    "01232222220023222222222", "01233333333333333333333", "01234567840123444444440", "01234567850123455555550",
    "01234567860123456666660", "01234567870123456767770", "01234567880123456688880", "01234567890123456789940",
    "01234567890123456789940", "01234567840123456784440", "01230000000123000000000",
};

#endif
