/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of a function in a session: which graph a run means, what its tensors are called there, and whose values lie in memory
 * that sizes share.
 *
 * A run names a graph or a function; of a function it is the graph whose inputs have the shapes that are given. In that graph a
 * tensor's name means the size's own, where it has one: "x" is "x@11". Inputs, and outputs, of one name begin at one address, so
 * what one size is given or has made is gone when another one's comes. */
#include "runtime/runtime.h"

#include <string.h>

static bool is_shared(const samba_plan_tensor *tensor)
{
    return tensor->kind == SAMBA_KIND_INPUT || tensor->kind == SAMBA_KIND_OUTPUT;
}

/* Tensors of one buffer become a ring. */
static samba_status link_sharers(samba_session *session)
{
    const samba_plan *plan = &session->plan;
    int32_t *last;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->sharer, plan->tensor_count));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->overwritten, plan->tensor_count));
    SAMBA_TRY(SAMBA_ROOM(&session->arena, last, plan->buffer_count));
    for (int32_t b = 0; b < plan->buffer_count; b++)
        last[b] = -1;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const int32_t before = is_shared(&plan->tensors[t]) ? last[plan->tensors[t].buffer] : -1;
        session->sharer[t] = before < 0 ? t : session->sharer[before];
        if (before >= 0)
            session->sharer[before] = t;
        if (is_shared(&plan->tensors[t]))
            last[plan->tensors[t].buffer] = t;
    }
    return SAMBA_OK;
}

/* The tensor that NAME@SIZE is a size of, for a graph FUNCTION@SIZE that has it; -1: none. */
static samba_status find_plain(samba_session *session, int32_t graph, int32_t tensor, int32_t *plain)
{
    const samba_plan *plan = &session->plan;
    const char *label = samba_size_label(plan->graphs[graph].name);
    char *name = NULL;
    if (label)
        SAMBA_TRY(samba_plain_name(&session->arena, plan->tensors[tensor].name, label, &name));
    *plain = name ? samba_names_find(&session->tensors, name) : -1;
    return SAMBA_OK;
}

samba_status samba_sizes_begin(samba_session *session)
{
    const samba_plan *plan = &session->plan;
    int64_t most = 0;
    SAMBA_TRY(link_sharers(session));
    for (int32_t g = 0; g < plan->graph_count; g++)
        most += samba_size_label(plan->graphs[g].name) ? plan->graphs[g].tensor_count : 0;
    if (most == 0 || plan->graph_count == 1)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(&session->arena, session->sized, most));
    for (int32_t g = 0; g < plan->graph_count; g++)
        for (int32_t i = 0; i < plan->graphs[g].tensor_count; i++) {
            int32_t plain;
            SAMBA_TRY(find_plain(session, g, plan->graphs[g].tensors[i], &plain));
            if (plain >= 0)
                session->sized[session->sized_count++] = (samba_sized_tensor){g, plain, plan->graphs[g].tensors[i]};
        }
    return SAMBA_OK;
}

/* ---- names ---- */

int32_t samba_sizes_find(const samba_session *session, int32_t graph, const char *name)
{
    const int32_t plain = samba_names_find(&session->tensors, name);
    for (int32_t i = 0; i < session->sized_count && plain >= 0; i++)
        if (session->sized[i].graph == graph && session->sized[i].plain == plain)
            return session->sized[i].tensor;
    return plain;
}

int32_t samba_sizes_of_shape(const samba_session *session, int32_t tensor, const samba_tensor *host)
{
    const samba_plan_tensor *tensors = session->plan.tensors, *first = &tensors[tensor];
    const int rank = samba_tensor_rank(host);
    const int64_t *shape = samba_tensor_shape(host);
    if (samba_shape_equal(first->rank, first->shape, rank, shape))
        return tensor;
    for (int32_t i = 0; i < session->sized_count; i++) {
        const samba_plan_tensor *its = &tensors[session->sized[i].tensor];
        if (session->sized[i].plain == tensor && samba_shape_equal(its->rank, its->shape, rank, shape))
            return session->sized[i].tensor;
    }
    return tensor;
}

const char *samba_session_name_in(const samba_session *session, int index, const char *name)
{
    if (!session || !name || index < 0 || index >= session->plan.graph_count)
        return NULL;
    const int32_t tensor = samba_sizes_find(session, index, name);
    return tensor >= 0 && samba_plan_has_tensor(&session->plan.graphs[index], tensor) ? session->plan.tensors[tensor].name : NULL;
}

/* ---- whose values ---- */

void samba_sizes_take(samba_session *session, int32_t tensor)
{
    session->overwritten[tensor] = false;
    for (int32_t other = session->sharer[tensor]; other != tensor; other = session->sharer[other]) {
        session->overwritten[other] = true;
        samba_given_forget(session, other);
    }
}

void samba_sizes_take_outputs(samba_session *session, int32_t graph)
{
    const samba_plan_graph *its = &session->plan.graphs[graph];
    for (int32_t i = 0; i < its->tensor_count && session->sized_count > 0; i++)
        if (session->plan.tensors[its->tensors[i]].kind == SAMBA_KIND_OUTPUT)
            samba_sizes_take(session, its->tensors[i]);
}

samba_status samba_sizes_check(const samba_session *session, int32_t tensor)
{
    return !session->overwritten[tensor]
               ? SAMBA_OK
               : samba_fail(session->context, SAMBA_ERROR_STATE,
                            "\"%.128s\" lies in memory that all sizes share, and another size has run or was set since: ask for "
                            "it in the run that makes it",
                            session->plan.tensors[tensor].name);
}

/* ---- which graph ---- */

/* Is the graph of the function; name NULL: of the one function that all graphs are sizes of. */
static bool is_size(const samba_session *session, int32_t graph, const char *name)
{
    const samba_plan *plan = &session->plan;
    return name ? samba_is_size_of(plan->graphs[graph].name, name, strlen(name))
                : samba_is_size_like(plan->graphs[graph].name, plan->graphs[0].name);
}

static bool has_shape(const samba_session *session, int32_t graph, const samba_tensor *input)
{
    const int32_t t = samba_sizes_find(session, graph, samba_tensor_name(input));
    if (t < 0) /* which the run's checks say by its name */
        return true;
    const samba_plan_tensor *its = &session->plan.tensors[t];
    return samba_shape_equal(its->rank, its->shape, samba_tensor_rank(input), samba_tensor_shape(input));
}

static bool fits(const samba_session *session, int32_t graph, int count, samba_tensor *const *inputs)
{
    bool fitting = true;
    for (int i = 0; i < count && fitting; i++)
        fitting = !inputs[i] || has_shape(session, graph, inputs[i]);
    return fitting;
}

/* The shapes of an input in all sizes. */
static void list_shapes(const samba_session *session, const char *name, const samba_tensor *input, samba_words *words)
{
    char shape[SAMBA_SHAPE_TEXT];
    for (int32_t g = 0; g < session->plan.graph_count; g++) {
        const int32_t t = is_size(session, g, name) ? samba_sizes_find(session, g, samba_tensor_name(input)) : -1;
        if (t < 0)
            continue;
        const samba_plan_tensor *its = &session->plan.tensors[t];
        samba_words_add(words, samba_shape_format(its->rank, its->shape, shape, sizeof shape));
    }
}

static samba_status fail_no_size(const samba_session *session, const char *name, int count, samba_tensor *const *inputs)
{
    const samba_plan *plan = &session->plan;
    const int length = name ? (int)strlen(name) : (int)strcspn(plan->graphs[0].name, "@");
    const char *function = name ? name : plan->graphs[0].name;
    const samba_tensor *odd = NULL;
    samba_words words = {.used = 0};
    char shape[SAMBA_SHAPE_TEXT];
    for (int i = 0; i < count && !odd; i++) {
        bool known = !inputs[i];
        for (int32_t g = 0; g < plan->graph_count && !known; g++)
            known = is_size(session, g, name) && has_shape(session, g, inputs[i]);
        odd = known ? NULL : inputs[i];
    }
    if (odd) {
        list_shapes(session, name, odd, &words);
        return samba_fail(session->context, SAMBA_ERROR_SHAPE,
                          "input \"%.128s\" has the shape %s, and \"%.*s\" was compiled for: %s; give one of these, or compile "
                          "that size too (the last batch of an epoch is often smaller)",
                          samba_tensor_name(odd),
                          samba_shape_format(samba_tensor_rank(odd), samba_tensor_shape(odd), shape, sizeof shape), length,
                          function, samba_words_text(&words));
    }
    for (int32_t g = 0; g < plan->graph_count; g++)
        if (is_size(session, g, name))
            samba_words_add(&words, plan->graphs[g].name);
    return samba_fail(session->context, SAMBA_ERROR_SHAPE,
                      "the inputs are of different sizes of \"%.*s\": give all of one; its sizes are: %s", length, function,
                      samba_words_text(&words));
}

/* The size of a function that the inputs have; where they say nothing, the one that ran last. */
static samba_status pick(const samba_session *session, const char *name, int count, samba_tensor *const *inputs, int32_t *graph)
{
    const samba_plan *plan = &session->plan;
    samba_words words = {.used = 0};
    int found = 0;
    bool last = false;
    for (int32_t g = 0; g < plan->graph_count; g++)
        if (is_size(session, g, name) && fits(session, g, count, inputs)) {
            *graph = found++ == 0 ? g : *graph;
            last = last || g == session->graph;
            samba_words_add(&words, plan->graphs[g].name);
        }
    if (found > 1 && last)
        *graph = session->graph;
    if (found == 1 || (found > 1 && last))
        return SAMBA_OK;
    if (found == 0)
        return fail_no_size(session, name, count, inputs);
    return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                      "the run does not say which size it is of: give it the inputs whose shapes differ, or a graph_name of: %s",
                      samba_words_text(&words));
}

const char *samba_nearest_graph(const samba_session *session, const char *name, char found[128])
{
    const char *best = NULL;
    for (int32_t g = 0; g < session->plan.graph_count; g++) {
        char function[128];
        const char *its = session->plan.graphs[g].name;
        snprintf(function, sizeof function, "%.*s", (int)strcspn(its, "@"), its);
        const char *const all[] = {best ? best : function, function, its}, *nearest = samba_nearest(name, all, SAMBA_COUNT(all));
        if (nearest && nearest != best)
            snprintf(found, 128, "%s", nearest);
        best = nearest ? found : best;
    }
    return best;
}

samba_status samba_select_graph(const samba_session *session, const char *name, int count, samba_tensor *const *inputs,
                                int32_t *graph)
{
    const samba_plan *plan = &session->plan;
    samba_words words = {.used = 0};
    int32_t sizes = 0;
    *graph = samba_plan_graph_named(plan, name);
    if (*graph >= 0)
        return SAMBA_OK;
    for (int32_t i = 0; i < plan->graph_count; i++)
        sizes += is_size(session, i, name);
    if (sizes > 0 && (name || sizes == plan->graph_count))
        return pick(session, name, count, inputs, graph);
    for (int32_t i = 0; i < plan->graph_count; i++)
        samba_words_add(&words, plan->graphs[i].name);
    if (!name)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "this PEF has %d graphs, and the run does not say which: give it a graph_name of: %s",
                          plan->graph_count, samba_words_text(&words));
    char found[128];
    const char *nearest = samba_nearest_graph(session, name, found);
    return samba_fail(session->context, SAMBA_ERROR_NAME, "there is no graph \"%.128s\"%s%s%s; this PEF has: %s", name,
                      nearest ? " (did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?)" : "",
                      samba_words_text(&words));
}

samba_status samba_session_graph_for(const samba_session *session, const char *name, int input_count, samba_tensor *const *inputs,
                                     int *index)
{
    int32_t graph;
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, index);
    if (input_count < 0 || (input_count > 0 && !inputs))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "samba_session_graph_for: %d inputs: a count or its list is missing", input_count);
    SAMBA_TRY(samba_select_graph(session, name, input_count, inputs, &graph));
    *index = graph;
    return SAMBA_OK;
}
