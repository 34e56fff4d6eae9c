/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the file format share: a plan (pef/plans.h) under a context that counts, written into the scratch folder and
 * read back as bytes; plans and files that are wrong in one thing, and what is said of them. Include after harness.h. */
#ifndef SAMBA_TEST_WRITTEN_PEF_H
#define SAMBA_TEST_WRITTEN_PEF_H

#include "../pef/plans.h"
#include "failing_allocator.h"

static char path[96];

typedef struct fixture {
    failing_allocator state;
    samba_context *context;
    samba_plan plan;
    void *bytes; /* of the written file */
    size_t size;
} fixture;

static inline void begin_plan(fixture *f, bool zoo)
{
    f->context = counting_context_new(&f->state);
    snprintf(path, sizeof path, "%s/test.pef", folder);
    if (zoo)
        make_zoo_plan(&f->plan, f->context);
    else
        make_train_plan(&f->plan, f->context, 4);
    need_in(f->context, samba_plan_check(f->context, &f->plan));
}

static inline void end_plan(fixture *f)
{
    samba_plan_free(&f->plan);
    counting_context_free(f->context, &f->state);
}

/* The file of a plan; freed with samba_free. */
static inline void *file_of(fixture *f, const samba_plan *plan, size_t *size)
{
    void *bytes;
    need_in(f->context, samba_pef_write(f->context, plan, path));
    need_in(f->context, samba_file_read(f->context, path, &bytes, size));
    return bytes;
}

/* That these are written as the same bytes. */
static inline void assert_same_file(fixture *f, const samba_plan *a, const samba_plan *b)
{
    size_t sizes[2];
    void *bytes[2] = {file_of(f, a, &sizes[0]), file_of(f, b, &sizes[1])};
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    for (int i = 0; i < 2; i++)
        samba_free(f->context, bytes[i], sizes[i]);
}

static inline void begin(fixture *f, bool zoo)
{
    begin_plan(f, zoo);
    f->bytes = file_of(f, &f->plan, &f->size);
}

static inline void end(fixture *f)
{
    samba_free(f->context, f->bytes, f->size);
    end_plan(f);
}

#define OWN_FIXTURE __attribute__((cleanup(end))) fixture
#define OWN_PLAN __attribute__((cleanup(samba_plan_free))) samba_plan

/* A plan `p` made anew with this change is refused, in these words, and never written. `zoo` says which. */
#define WRONG(change, words)                                                                                                     \
    do {                                                                                                                         \
        fixture spoiled;                                                                                                         \
        begin_plan(&spoiled, zoo);                                                                                               \
        samba_plan *const p = &spoiled.plan;                                                                                     \
        change;                                                                                                                  \
        refuse_in(spoiled.context, samba_plan_check(spoiled.context, p), SAMBA_ERROR_FORMAT, words);                             \
        refuse_in(spoiled.context, samba_pef_write(spoiled.context, p, path), SAMBA_ERROR_FORMAT, words);                        \
        end_plan(&spoiled);                                                                                                      \
    } while (0)

/* What a file holds is refused. */
static inline void refuse_file_at(fixture *f, const void *bytes, size_t size, const char *words, int line)
{
    samba_plan plan;
    refuse_at(f->context, samba_pef_decode(f->context, "test.pef", bytes, size, &plan), SAMBA_ERROR_FORMAT, words, "the file",
              __FILE__, line);
}
#define refuse_file(f, bytes, size, words) refuse_file_at((f), (bytes), (size), (words), __LINE__)

#endif
