/* SPDX-License-Identifier: Apache-2.0
 *
 * samba_promote against PyTorch's answers for every pair of dtypes and kinds of operand. */
#include "harness.h"
#include "tensor/tensor.h"

/* What torch.result_type (PyTorch 2.13.0) answers for every pair of operands. Operands in order: a dimensioned tensor of each
 * samba_dtype by its number, a 0-dim tensor of each, then the numbers True, 2 and 1.5. A digit is the result's samba_dtype. Made
 * by
 *   operands = [torch.ones(2, dtype=d) for d in dtypes] + [torch.ones((), dtype=d) for d in dtypes] + [True, 2, 1.5]
 *   for a in operands: print("".join(str(dtypes.index(torch.result_type(a, b))) for b in operands))
 * with dtypes = float32 bfloat16 float16 float64 int64 int32 int16 int8 uint8 bool. */
#define PROMOTE_OPERANDS 23
static const char *const torch_result_type[PROMOTE_OPERANDS] = {
    "00030000000000000000000", "01031111111111111111111", "00232222222222222222222", "33333333333333333333333",
    "01234444440123444444440", "01234555550123555555550", "01234566660123666666660", "01234567670123777777770",
    "01234566880123888888880", "01234567890123456789940", "01230000000003000000000", "01231111110103111111111",
    "01232222220023222222222", "01233333333333333333333", "01234567840123444444440", "01234567850123455555550",
    "01234567860123456666660", "01234567870123456767770", "01234567880123456688880", "01234567890123456789940",
    "01234567890123456789940", "01234567840123456784440", "01230000000123000000000",
};

static void operand(int i, samba_dtype *dtype, samba_promotion *kind)
{
    static const samba_dtype numbers[] = {SAMBA_BOOL, SAMBA_INT64, SAMBA_FLOAT32};
    *kind = (samba_promotion)(i / SAMBA_DTYPE_COUNT);
    *dtype = *kind == SAMBA_NUMBER ? numbers[i - 2 * SAMBA_DTYPE_COUNT] : (samba_dtype)(i % SAMBA_DTYPE_COUNT);
}

TEST(test_every_pair)
{
    for (int i = 0; i < PROMOTE_OPERANDS; i++)
        for (int j = 0; j < PROMOTE_OPERANDS; j++) {
            samba_dtype a, b;
            samba_promotion a_kind, b_kind;
            operand(i, &a, &a_kind);
            operand(j, &b, &b_kind);
            samba_dtype expected = (samba_dtype)(torch_result_type[i][j] - '0'), given = samba_promote(a, a_kind, b, b_kind);
            if (given != expected)
                fail_msg("%s (kind %d) with %s (kind %d): %s, torch says %s", samba_dtype_name(a), a_kind, samba_dtype_name(b),
                         b_kind, samba_dtype_name(given), samba_dtype_name(expected));
        }
}

/* A number has no width of its own: whatever width it is given with, it counts as the default of its category. */
TEST(test_numbers_have_no_width)
{
    assert_int_equal(samba_promote(SAMBA_INT8, SAMBA_DIMENSIONED, SAMBA_FLOAT64, SAMBA_NUMBER), SAMBA_FLOAT32);
    assert_int_equal(samba_promote(SAMBA_BOOL, SAMBA_DIMENSIONED, SAMBA_INT8, SAMBA_NUMBER), SAMBA_INT64);
    static const int none[] = {-1, SAMBA_DTYPE_COUNT, 1000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(samba_promote((samba_dtype)none[i], SAMBA_DIMENSIONED, SAMBA_INT8, SAMBA_NUMBER), SAMBA_DTYPE_COUNT);
        assert_int_equal(samba_promote(SAMBA_INT8, SAMBA_DIMENSIONED, (samba_dtype)none[i], SAMBA_NUMBER), SAMBA_DTYPE_COUNT);
        assert_int_equal(samba_promote(SAMBA_INT8, (samba_promotion)(none[i] == -1 ? -1 : 3), SAMBA_INT8, SAMBA_NUMBER),
                         SAMBA_DTYPE_COUNT);
    }
}

TEST_MAIN(test_every_pair, test_numbers_have_no_width)
