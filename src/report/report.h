/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a plan: people see page.html, which has a slot for one JSON object of numbers and names; page.c writes that, and
 * the page's own script draws it. Names are text there and never markup, whatever a file calls its tensors. live.c finds memory
 * over time, machine.c and peak.c the peaks of the machine, times.c writes a profile as tables and as a Trace Event file, trace.c
 * reads that back. */
#ifndef SAMBA_REPORT_INTERNAL_H
#define SAMBA_REPORT_INTERNAL_H

#include "plan/plan.h"
#include "runtime/runtime.h"
#include <sambaflow/report.h>

typedef struct samba_report {
    const samba_plan *plan;
    const char *pef;              /* NULL: not said */
    const samba_machine *machine; /* NULL: not measured */
    samba_memory_info memory;     /* of this machine, where it is known: scratch too */
    int threads;
    const char *isa;
    const samba_time *sections, *stages; /* NULL: not measured */
    const char *const *roads;            /* per stage; NULL: not known */
    const samba_choice *const *choices;  /* per stage; NULL: the model has all */
    const char *tune;                    /* the file that they come from */
    int64_t left_out;                    /* single times that `sections` and `stages` lack */
} samba_report;

/* page.c */
samba_status samba_report_page(samba_context *context, const samba_report *report, samba_text *page);
/* A JSON string: of any bytes, which cannot end a script element either. */
void samba_report_string(samba_text *out, const char *text);
/* Gives the caller of a public function the text, which samba_text_free frees, where `status` and the text's are SAMBA_OK;
 * clears it in any case. */
samba_status samba_report_give(samba_text *text, samba_status status, char **given);
/* Seconds of a run on the mean; 0 where none was measured. */
double samba_time_mean(const samba_time *time);
/* Do the stage's products count as bfloat16? */
bool samba_stage_is_bf16(const samba_stage *stage);
/* machine.c: a section's is that of its stages one after the other */
samba_roof samba_stage_roof(const samba_stage *stage, const samba_machine *machine, double seconds);
samba_roof samba_section_roof(const samba_plan *plan, const samba_plan_section *section, const samba_machine *machine,
                              double seconds);

/* ---- live.c: bytes in use while each stage runs ---- */
typedef enum samba_live_kind {
    SAMBA_LIVE_PARAMETERS,
    SAMBA_LIVE_STATE,
    SAMBA_LIVE_GRADIENTS,
    SAMBA_LIVE_INPUTS,
    SAMBA_LIVE_CONSTANTS,
    SAMBA_LIVE_SCRATCH,
    SAMBA_LIVE_LASTING
} samba_live_kind;
typedef struct samba_live {
    double lasting[SAMBA_LIVE_LASTING]; /* there all the time */
    double *activations;                /* per stage: from the first stage that touches a buffer to the last */
    int32_t peak;                       /* the stage with the most; -1: no stages */
} samba_live;
/* Of a checked plan, in the arena. */
samba_status samba_live_find(const samba_plan *plan, const samba_memory_info *memory, samba_arena *arena, samba_live *live);

/* trace.c: times of a Trace Event file (as Python's end_runtime_profile writes it) for the plan's sections and stages, in the
 * arena. FORMAT: it is no such file; STATE: it is of another PEF. */
samba_status samba_trace_read(samba_context *context, const char *path, const samba_plan *plan, samba_arena *arena,
                              samba_report *report);

extern const char samba_page_template[]; /* made of page.html at build time */

#endif
