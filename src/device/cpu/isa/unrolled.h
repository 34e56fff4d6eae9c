/* SPDX-License-Identifier: Apache-2.0
 *
 * Included first, by sources that are short loops over elements: on ARM a turn of such a loop takes several vectors. There each
 * operand is a load of its own, where x86 has it in the instruction that uses it, and counting on and asking for the end were a
 * fourth of a loop's instructions (of (a s) b + c 10 a vector, of x86's 7; so it is 8). */
#if defined(SAMBA_NEON) && !defined(__clang__)
#pragma GCC optimize("unroll-loops")
#endif
