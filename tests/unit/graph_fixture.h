/* SPDX-License-Identifier: Apache-2.0
 *
 * An empty graph for each test, as cmocka's state. Include after cmocka.h. */
#ifndef SAMBA_TEST_GRAPH_FIXTURE_H
#define SAMBA_TEST_GRAPH_FIXTURE_H

#include "graph/graph.h"
#include <stdlib.h>

typedef struct fixture {
    samba_context *context;
    samba_graph *graph;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(samba_context_new(NULL, &f->context), SAMBA_OK);
    assert_int_equal(samba_graph_new(f->context, "model", &f->graph), SAMBA_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    samba_graph_free(f->graph);
    samba_context_free(f->context);
    free(f);
    return 0;
}

#endif
