/* SPDX-License-Identifier: Apache-2.0
 *
 * An empty graph for each test, between graph_begin and graph_end. */
#ifndef SAMBA_TEST_GRAPH_FIXTURE_H
#define SAMBA_TEST_GRAPH_FIXTURE_H

#include "graph/graph.h"
#include "harness.h"

static samba_graph *g;

static inline samba_graph *graph_named(const char *name)
{
    samba_graph *made;
    need(samba_graph_new(context, name, &made));
    return made;
}

static inline int graph_begin(void **unused)
{
    (void)unused;
    g = graph_named("model");
    return 0;
}

static inline int graph_end(void **unused)
{
    (void)unused;
    samba_graph_free(g);
    return 0;
}

#endif
