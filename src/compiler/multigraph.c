/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that become one PEF. Adding one runs the passes that see it alone, so its errors come at once and nothing of the
 * caller's options is kept. Compiling links the lowered graphs (link.c) and runs the passes behind. Graphs stay as they were
 * lowered: they can be linked again. */
#include "base/null.h"
#include "compiler/compiler.h"

#include <sambaflow/multigraph.h>
#include <string.h>

typedef struct entry { /* a graph, lowered */
    samba_compile_options options;
    samba_compiler compiler;
    char *name; /* in the compiler's arena */
} entry;

struct samba_multigraph {
    samba_context *context;
    entry **entries;
    int64_t capacity;
    int count;
};

static void free_entry(samba_context *context, entry *e)
{
    if (!e)
        return;
    samba_compiler_release(&e->compiler);
    samba_free(context, e, sizeof *e);
}

samba_status samba_multigraph_new(samba_context *context, samba_multigraph **multigraph)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, multigraph);
    *multigraph = samba_calloc(context, sizeof **multigraph);
    if (!*multigraph)
        return SAMBA_ERROR_MEMORY;
    (*multigraph)->context = context;
    return SAMBA_OK;
}

void samba_multigraph_free(samba_multigraph *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->count; i++)
        free_entry(m->context, m->entries[i]);
    samba_free(m->context, m->entries, sizeof *m->entries * (size_t)m->capacity);
    samba_free(m->context, m, sizeof *m);
}

samba_context *samba_multigraph_context(const samba_multigraph *m) { return m->context; }

int samba_multigraph_count(const samba_multigraph *m) { return m ? m->count : 0; }

const char *samba_multigraph_name(const samba_multigraph *m, int index)
{
    return m ? index >= 0 && index < m->count ? m->entries[index]->name : NULL : "";
}

static int find(const samba_multigraph *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->entries[i]->name, name) == 0)
            return i;
    return -1;
}

/* The caller's optimizers, each with a name: two graphs' first ones would else be one. */
static samba_status name_optimizers(entry *e)
{
    samba_arena *arena = &e->compiler.arena;
    const size_t count = (size_t)e->options.optimizer_count;
    samba_optimizer *named;
    bool *here;
    SAMBA_TRY(SAMBA_ROOM(arena, named, count));
    SAMBA_TRY(SAMBA_ROOM(arena, here, count));
    e->compiler.named_here = here;
    for (size_t i = 0; i < count; i++) {
        named[i] = e->options.optimizers[i];
        if (named[i].name)
            continue;
        here[i] = true;
        const char *label = samba_size_label(e->name);
        const size_t length = label ? (size_t)(label - e->name) - 1 : strlen(e->name), size = length + 32;
        char *name;
        SAMBA_TRY(SAMBA_ROOM(arena, name, size));
        snprintf(name, size, "%.*s.optim%zu", (int)length, e->name, i); /* sizes of a function have one */
        named[i].name = name;
    }
    e->options.optimizers = named;
    return SAMBA_OK;
}

/* What it may share optimizers with: all graphs before it, but one that it replaces. */
static samba_status list_others(const samba_multigraph *m, int replaced, entry *e)
{
    const samba_compiler **others;
    SAMBA_TRY(SAMBA_ROOM(&e->compiler.arena, others, m->count));
    for (int i = 0; i < m->count; i++)
        if (i != replaced)
            others[e->compiler.other_count++] = &m->entries[i]->compiler;
    e->compiler.others = others;
    return SAMBA_OK;
}

static samba_status lower(const samba_multigraph *m, int replaced, entry *e, const char *name)
{
    SAMBA_TRY(samba_arena_copy(&e->compiler.arena, name, &e->name));
    e->compiler.name = e->name;
    SAMBA_TRY(name_optimizers(e));
    SAMBA_TRY(list_others(m, replaced, e));
    SAMBA_TRY(samba_run_graph_passes(&e->compiler));
    e->compiler.others = NULL, e->compiler.other_count = 0; /* which may go before it */
    /* the rest is the caller's */
    e->options = (samba_compile_options){.struct_size = sizeof e->options, .inference = e->options.inference};
    return SAMBA_OK;
}

samba_status samba_multigraph_add(samba_multigraph *m, const samba_compile_options *options, bool overwrite)
{
    SAMBA_NEED(NULL, m);
    SAMBA_TRY(samba_compile_check(m->context, options));
    const char *name = options->name ? options->name : options->graph ? options->graph->name : "";
    if (!name[0])
        return samba_fail(m->context, SAMBA_ERROR_ARGUMENT,
                          "multigraph: a graph needs a name, by which it is run: set options.name");
    if (options->inference && options->memory_budget > 0)
        return samba_fail(
            m->context, SAMBA_ERROR_ARGUMENT,
            "multigraph: graph \"%.128s\" is for inference, which has nothing to compute again: leave out memory_budget", name);
    int old = find(m, name);
    if (old >= 0 && !overwrite)
        return samba_fail(m->context, SAMBA_ERROR_NAME,
                          "there is a graph \"%.128s\" already: give this one another name, or overwrite it", name);
    SAMBA_TRY(SAMBA_GROW(m->context, m->entries, m->capacity, m->count + 1));
    entry *e = samba_calloc(m->context, sizeof *e);
    if (!e)
        return SAMBA_ERROR_MEMORY;
    e->options = *options;
    e->compiler =
        (samba_compiler){.context = m->context, .options = &e->options, .train = !options->inference, .one_of_several = true};
    samba_arena_init(&e->compiler.arena, m->context);
    samba_plan_init(&e->compiler.plan, m->context);
    samba_status status = lower(m, old, e, name);
    if (status != SAMBA_OK) {
        free_entry(m->context, e);
        return status;
    }
    if (old >= 0) {
        free_entry(m->context, m->entries[old]);
        m->count--;
        memmove(&m->entries[old], &m->entries[old + 1], sizeof *m->entries * (size_t)(m->count - old));
    }
    m->entries[m->count++] = e;
    return SAMBA_OK;
}

const char *samba_multigraph_warning(samba_multigraph *m)
{
    for (int i = 0; m && i < m->count; i++) {
        const char *warning = m->entries[i]->compiler.warning;
        m->entries[i]->compiler.warning = NULL;
        if (warning)
            return warning;
    }
    return "";
}

samba_status samba_multigraph_add_size(samba_multigraph *m, const samba_compile_options *given, const char *size)
{
    SAMBA_NEED(NULL, m);
    SAMBA_NEED(m->context, size);
    SAMBA_TRY(samba_compile_check(m->context, given));
    samba_compile_options options = *given;
    const char *function = options.name ? options.name : options.graph ? options.graph->name : "";
    samba_text name;
    if (!size[0] || strchr(size, '@') || !function[0] || strchr(function, '@'))
        return samba_fail(m->context, SAMBA_ERROR_ARGUMENT,
                          "multigraph: function \"%.128s\" and size \"%.64s\" are to be words without '@', which stands between "
                          "them in a graph's name",
                          function, size);
    samba_status status = samba_text_begin(&name, m->context, "%s@%s", function, size);
    options.name = name.data;
    if (status == SAMBA_OK)
        status = samba_multigraph_add(m, &options, false);
    samba_text_clear(&name);
    return status;
}

static samba_status link_all(samba_multigraph *m, samba_compiler *c)
{
    const samba_compiler **graphs;
    SAMBA_TRY(samba_arena_copy(&c->plan.arena, c->name, &c->plan.name));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, graphs, m->count));
    for (int i = 0; i < m->count; i++) {
        graphs[i] = &m->entries[i]->compiler;
        SAMBA_TRY(samba_link(c, graphs[i]));
    }
    SAMBA_TRY(samba_find_misspelt(c, graphs, m->count));
    SAMBA_TRY(samba_share_constants(c));
    return samba_run_plan_passes(c);
}

static samba_status check_any(const samba_multigraph *m)
{
    return m->count > 0 ? SAMBA_OK
                        : samba_fail(m->context, SAMBA_ERROR_STATE,
                                     "multigraph: there is no graph to compile: add one with samba_multigraph_add");
}

samba_status samba_multigraph_plan(samba_multigraph *m, const char *name, samba_plan *plan)
{
    SAMBA_TRY(check_any(m));
    samba_compile_options options = samba_compile_defaults();
    samba_compiler c = {.context = m->context, .options = &options, .name = name ? name : m->entries[0]->name};
    samba_arena_init(&c.arena, m->context);
    samba_plan_init(&c.plan, m->context);
    samba_plan_init(plan, m->context);
    samba_status status = link_all(m, &c);
    if (status == SAMBA_OK)
        status = samba_plan_check(m->context, &c.plan);
    return samba_compile_hand_over(&c, status, plan);
}

samba_status samba_multigraph_compile(samba_multigraph *m, const char *name, const char *output_folder, char *path,
                                      size_t path_size)
{
    SAMBA_NEED(NULL, m);
    SAMBA_TRY(check_any(m));
    samba_compile_options options = samba_compile_defaults();
    options.output_folder = output_folder;
    samba_compiler c = {.context = m->context, .options = &options, .name = name ? name : m->entries[0]->name};
    samba_arena_init(&c.arena, m->context);
    samba_plan_init(&c.plan, m->context);
    samba_status status = link_all(m, &c);
    if (status == SAMBA_OK)
        status = samba_compile_write(&c, path, path_size);
    samba_compiler_release(&c);
    return status;
}
