/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of a function. A graph FUNCTION@SIZE is the function for inputs of one shape; what it has in a shape of its own, under a
 * name that the first size has for another shape, is NAME@SIZE, and its gradient NAME@SIZE.grad. The names are all there is to
 * it: a file needs no other field. */
#include "plan/plan.h"

#include <string.h>

const char *samba_size_label(const char *graph)
{
    const char *at = strrchr(graph, '@');
    return at ? at + 1 : NULL;
}

bool samba_is_size_of(const char *graph, const char *function, size_t length)
{
    return strlen(graph) > length && graph[length] == '@' && memcmp(graph, function, length) == 0 &&
           !strchr(graph + length + 1, '@');
}

bool samba_is_size_like(const char *graph, const char *other)
{
    const char *label = samba_size_label(other);
    return label && samba_is_size_of(graph, other, (size_t)(label - other) - 1);
}

/* How much of a name stands before "@SIZE". */
static size_t stem_of(const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0 ? length - tail : length;
}

samba_status samba_sized_name(samba_arena *arena, const char *name, const char *label, char **sized)
{
    const size_t stem = stem_of(name, SAMBA_GRADIENT_OF);
    samba_text text;
    samba_text_init(&text, arena->context);
    samba_text_add(&text, "%.*s@%s%s", (int)stem, name, label, name + stem);
    return samba_text_keep(&text, arena, sized);
}

bool samba_is_sized(const char *sized, const char *name, const char *label)
{
    const size_t stem = stem_of(name, SAMBA_GRADIENT_OF), length = strlen(label);
    return strncmp(sized, name, stem) == 0 && sized[stem] == '@' && strncmp(sized + stem + 1, label, length) == 0 &&
           strcmp(sized + stem + 1 + length, name + stem) == 0;
}

const samba_plan_tensor *samba_plan_tensor_in(const samba_plan *plan, int32_t graph, int32_t kind, const char *name)
{
    const samba_plan_graph *its = &plan->graphs[graph];
    const char *label = samba_size_label(its->name);
    for (int32_t i = 0; i < its->tensor_count; i++) {
        const samba_plan_tensor *tensor = &plan->tensors[its->tensors[i]];
        if (tensor->kind == kind && (strcmp(tensor->name, name) == 0 || (label && samba_is_sized(tensor->name, name, label))))
            return tensor;
    }
    return NULL;
}

samba_status samba_plain_name(samba_arena *arena, const char *sized, const char *label, char **name)
{
    const size_t stem = stem_of(sized, SAMBA_GRADIENT_OF), length = strlen(label);
    samba_text text;
    *name = NULL;
    if (stem <= length + 1 || sized[stem - length - 1] != '@' || memcmp(sized + stem - length, label, length) != 0)
        return SAMBA_OK;
    samba_text_init(&text, arena->context);
    samba_text_add(&text, "%.*s%s", (int)(stem - length - 1), sized, sized + stem);
    return samba_text_keep(&text, arena, name);
}
