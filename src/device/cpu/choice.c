/* SPDX-License-Identifier: Apache-2.0
 *
 * See choice.h. Figures are found by their names, through the same rows that make them members of the machine. */
#include "device/cpu/choice.h"

#include <math.h>
#include <string.h>

enum { FACTORS = 4 };
typedef struct vary {
    samba_stage_kind kind;
    const char *road; /* NULL: whichever the model takes */
    const char *group, *figure;
    double times[FACTORS]; /* those that are -1 are not there */
} vary;

#define FOUR(a, b, c, d, ...)                                                                                                    \
    {                                                                                                                            \
        a, b, c, d                                                                                                               \
    }
#define TIMES(...) FOUR(__VA_ARGS__, -1, -1, -1, -1)
static const vary rows[] = {
#define VARY(kind, group, figure, ...) {SAMBA_STAGE_##kind, NULL, #group, #figure, TIMES(__VA_ARGS__)},
#include "device/cpu/choices.def"
#define VARY(road, group, figure, ...) {SAMBA_STAGE_CONTRACT, #road, #group, #figure, TIMES(__VA_ARGS__)},
#include "device/cpu/product/roads.def"
};

static const char *const roads[] = {
#define ROAD(name, idea) #name,
#include "device/cpu/product/roads.def"
};

/* ---- figures by name ---- */

typedef struct figure { /* a size or another number of a machine; NULL both: there is none of that name */
    int64_t *size;
    double *number;
} figure;

static figure find_figure(samba_cpu_machine *machine, const char *group_name, const char *figure_name)
{
#define GROUP(name, meaning)                                                                                                     \
    if (strcmp(group_name, #name) == 0) {                                                                                        \
        __typeof__(machine->name) *group = &machine->name;
#define END(name) }
#define SIZE(name)                                                                                                               \
    if (strcmp(figure_name, #name) == 0)                                                                                         \
        return (figure){.size = &group->name};
#define NUMBER(name)                                                                                                             \
    if (strcmp(figure_name, #name) == 0)                                                                                         \
        return (figure){.number = &group->name};
#define BYTES(name, value, meaning) SIZE(name)
#define FIRST(name, share, meaning) SIZE(name)
#define SECOND(name, share, meaning) SIZE(name)
#define THIRD(name, share, meaning) SIZE(name)
#define COUNT(name, value, meaning) SIZE(name)
#define RATE(name, value, unit, meaning) NUMBER(name)
#define NS(name, value, meaning) NUMBER(name)
#define FACTOR(name, value, meaning) NUMBER(name)
#include "device/cpu/figures.def"
#undef SIZE
#undef NUMBER
    return (figure){NULL, NULL};
}

/* The figure so many times as large: sizes whole, and at least 1 unless they are to be none. */
static double scaled(const samba_cpu_machine *machine, const char *group, const char *name, double times)
{
    samba_cpu_machine copy = *machine;
    figure found = find_figure(&copy, group, name);
    if (found.number)
        return *found.number * times;
    double size = found.size ? floor((double)*found.size * times) : 0;
    return size < 1 && times > 0 ? 1 : size;
}

/* ---- the choices there are ---- */

bool samba_cpu_choice_at(const samba_cpu_machine *machine, samba_stage_kind kind, int index, samba_choice *choice)
{
    *choice = (samba_choice){.road = NULL};
    for (int i = 0; i < SAMBA_COUNT(roads) && kind == SAMBA_STAGE_CONTRACT; i++)
        if (index-- == 0) {
            choice->road = roads[i];
            return true;
        }
    for (int i = 0; i < SAMBA_COUNT(rows); i++)
        for (int k = 0; k < FACTORS && rows[i].kind == kind; k++) {
            if (rows[i].times[k] < 0 || index-- > 0)
                continue;
            choice->road = rows[i].road;
            choice->figure_count = 1;
            choice->figures[0] = (samba_choice_figure){rows[i].group, rows[i].figure,
                                                       scaled(machine, rows[i].group, rows[i].figure, rows[i].times[k])};
            return true;
        }
    return false;
}

/* ---- checking one that comes from elsewhere ---- */

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool is_road(const char *name)
{
    for (int i = 0; i < SAMBA_COUNT(roads); i++)
        if (strcmp(roads[i], name) == 0)
            return true;
    return false;
}

/* A figure is varied on its road, or whatever the road is. */
static bool is_offered(const samba_cpu_machine *machine, samba_stage_kind kind, const char *road,
                       const samba_choice_figure *given, char *values, size_t size)
{
    values[0] = '\0';
    for (int i = 0; i < SAMBA_COUNT(rows); i++) {
        const vary *row = &rows[i];
        if (row->kind != kind || strcmp(row->group, given->group) != 0 || strcmp(row->figure, given->name) != 0 ||
            (row->road && !same_text(row->road, road)))
            continue;
        for (int k = 0; k < FACTORS && row->times[k] >= 0; k++) {
            double value = scaled(machine, row->group, row->figure, row->times[k]);
            if (value == given->value)
                return true;
            size_t used = strlen(values);
            snprintf(values + used, size - used, "%s%g", used ? ", " : "", value);
        }
    }
    return false;
}

samba_status samba_cpu_choice_check(samba_context *context, const samba_cpu_machine *machine, const samba_stage *stage,
                                    int32_t number, const samba_choice *choice)
{
    char values[256];
    const samba_stage_kind kind = (samba_stage_kind)stage->kind;
    if (choice->road && (kind != SAMBA_STAGE_CONTRACT || !is_road(choice->road)))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "stage %d: expected %s, given road \"%.32s\"", number,
                          kind == SAMBA_STAGE_CONTRACT ? "a road of products" : "no road, as its kind has none", choice->road);
    if (choice->figure_count < 0 || choice->figure_count > SAMBA_CHOICE_FIGURES || (!choice->road && choice->figure_count == 0))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "stage %d: expected a road or 1 to %d figures, given %d figures", number,
                          SAMBA_CHOICE_FIGURES, choice->figure_count);
    for (int32_t i = 0; i < choice->figure_count; i++) {
        const samba_choice_figure *given = &choice->figures[i];
        if (!is_offered(machine, kind, choice->road, given, values, sizeof values))
            return samba_fail(context, SAMBA_ERROR_ARGUMENT, "stage %d: expected for figure \"%.32s.%.32s\" %s%s, given %g",
                              number, given->group, given->name, values[0] ? "one of " : "nothing, as it is not varied there",
                              values, given->value);
        for (int32_t k = 0; k < i; k++)
            if (strcmp(choice->figures[k].group, given->group) == 0 && strcmp(choice->figures[k].name, given->name) == 0)
                return samba_fail(context, SAMBA_ERROR_ARGUMENT, "stage %d: expected figure \"%.32s.%.32s\" once, given twice",
                                  number, given->group, given->name);
    }
    return SAMBA_OK;
}

void samba_cpu_choice_apply(const samba_choice *choice, samba_cpu_machine *machine)
{
    for (int32_t i = 0; i < choice->figure_count; i++) {
        figure found = find_figure(machine, choice->figures[i].group, choice->figures[i].name);
        if (found.size)
            *found.size = (int64_t)choice->figures[i].value;
        else if (found.number)
            *found.number = choice->figures[i].value;
    }
}
