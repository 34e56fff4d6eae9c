/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic for sizes from files and callers. Where it is checked, no operand may be negative and no result may wrap; false
 * leaves the result alone. */
#include "base/base.h"

bool samba_mul_checked(int64_t a, int64_t b, int64_t *result)
{
    int64_t product;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
        return false;
    *result = product;
    return true;
}

bool samba_add_checked(int64_t a, int64_t b, int64_t *result)
{
    int64_t sum;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum))
        return false;
    *result = sum;
    return true;
}

int64_t samba_greatest_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}
