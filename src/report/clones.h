/* SPDX-License-Identifier: Apache-2.0
 *
 * A macro for functions that are compiled for each instruction set, of which the loader chooses one. Not under ThreadSanitizer,
 * which cannot watch the resolver: that is called before the sanitizer is ready. */
#ifndef SAMBA_CLONES_H
#define SAMBA_CLONES_H

#if defined(__has_feature) /* clang's way to say it */
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define SAMBA_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SAMBA_CLONES
#endif

#endif
