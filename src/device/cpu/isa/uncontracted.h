/* SPDX-License-Identifier: Apache-2.0
 *
 * Included first: in this source no product and sum become one operation that rounds once, unless it is written so. A function then gives the
 * same bits in every loop that it is part of. */
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
