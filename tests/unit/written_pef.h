/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the file format share: a plan (pef/plans.h) under a context that counts, written to `path` and read back as
 * bytes. Include after cmocka.h; the program sets `path`. */
#ifndef SAMBA_TEST_WRITTEN_PEF_H
#define SAMBA_TEST_WRITTEN_PEF_H

#include "../pef/plans.h"
#include "failing_allocator.h"

static char path[64];

typedef struct fixture {
    failing_allocator state;
    samba_context *context;
    samba_plan plan;
    void *bytes; /* of the written file */
    size_t size;
} fixture;

static inline void begin(fixture *f, bool zoo)
{
    f->context = counting_context_new(&f->state);
    if (zoo)
        make_zoo_plan(&f->plan, f->context);
    else
        make_train_plan(&f->plan, f->context, 4);
    if (samba_pef_write(f->context, &f->plan, path) != SAMBA_OK)
        fail_msg("%s", samba_error_message(f->context));
    assert_int_equal(samba_file_read(f->context, path, &f->bytes, &f->size), SAMBA_OK);
}

static inline void end(fixture *f)
{
    samba_free(f->context, f->bytes, f->size);
    samba_plan_free(&f->plan);
    counting_context_free(f->context, &f->state);
}

#endif
