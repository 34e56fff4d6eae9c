/* SPDX-License-Identifier: Apache-2.0
 *
 * Warnings of what a graph is built of, which its context keeps. */
#ifndef SAMBA_GRAPH_WARN_H
#define SAMBA_GRAPH_WARN_H

#include "graph/graph.h"

/* About an operator or layer, with the current location as samba_graph_fail_at has it. */
void samba_graph_warn_at(samba_graph *graph, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
