/* SPDX-License-Identifier: Apache-2.0
 *
 * An empty graph for each test, between graph_begin and graph_end. */
#ifndef SAMBA_TEST_GRAPH_FIXTURE_H
#define SAMBA_TEST_GRAPH_FIXTURE_H

#include "graph/graph.h"
#include "messages.h"

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

/* Each statement has a graph of its own, which `begin` makes; what it leaves there is in the text of messages. */
#define wrong(begin, look, ...)                                                                                                  \
    do {                                                                                                                         \
        graph_end(NULL);                                                                                                         \
        g = graph_named("wrong");                                                                                                \
        begin();                                                                                                                 \
        __VA_ARGS__;                                                                                                             \
        says_at(context, look(g), #__VA_ARGS__, __func__, __FILE__, __LINE__);                                                   \
    } while (0)

#endif
