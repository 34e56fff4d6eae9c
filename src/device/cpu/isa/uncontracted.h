/* SPDX-License-Identifier: Apache-2.0
 *
 * Included first: it keeps the compiler from contracting a product and a sum into one operation that rounds once, unless the
 * source writes it so. A function then gives the same bits in every loop into which it is inlined. */
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif
