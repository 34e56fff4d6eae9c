/* SPDX-License-Identifier: Apache-2.0
 *
 * What each program here would write anew: `must` ends the program with the library's sentence, `expect` with a figure that is
 * not as good as it has to be, `named` makes a tensor, `seed` is what random numbers begin with. Copy it, or write your own:
 * nothing of it is part of the library. */
#ifndef EXAMPLES_PROGRAM_H
#define EXAMPLES_PROGRAM_H

#include <sambaflow/session.h>

#include <stdio.h>
#include <stdlib.h>

/* Goes on where a call succeeded. */
static inline void must(samba_context *context, samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "%s: %s\n", samba_status_name(status), samba_error_message(context));
    exit(1);
}

/* Goes on where it is true: `what` says what was hoped for. */
static inline void expect(bool is, const char *what)
{
    if (is)
        return;
    fprintf(stderr, "not reached: %s\n", what);
    exit(2);
}

/* A tensor of zeros; `shape` is a list of sizes in brackets: named(context, "x", SAMBA_FLOAT32, SHAPE(32, 4)). */
#define SHAPE(...)                                                                                                               \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
static inline samba_tensor *named(samba_context *context, const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *tensor;
    must(context, samba_tensor_new(context, name, dtype, rank, shape, &tensor));
    return tensor;
}

/* Of SAMBAFLOW_SEED; 1 where it is not set. */
static inline uint64_t seed(void)
{
    const char *text = getenv("SAMBAFLOW_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

#endif
