/* SPDX-License-Identifier: Apache-2.0
 *
 * samba_promote against PyTorch's answers for every pair of dtypes and kinds of operand. */
#include "harness.h"
#include "tensor/tensor.h"

#include "promote_table.h"

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
