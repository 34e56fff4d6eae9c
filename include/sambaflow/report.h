/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports: the machine's roofs, measured by short loops; the share of them that a stage reaches; and one HTML page of a session
 * with all of it - sections, timeline, roofline, memory over time, stages with their operators - that a browser shows without a
 * network. The page has times where they were measured (profile.h). */
#ifndef SAMBAFLOW_REPORT_H
#define SAMBAFLOW_REPORT_H

#include <sambaflow/profile.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct samba_machine { /* the most that `threads` threads were seen to do in a second; 0: not measured */
    int threads;
    double flops_per_second;        /* fp32 multiply-adds between registers */
    double bf16_flops_per_second;   /* bfloat16 products with float32 sums; 0: no such instruction */
    double memory_bytes_per_second; /* read from arrays too large for any cache */
    double cache_bytes_per_second;  /* read again and again from 256 KiB, each thread its own */
    char processor[96];             /* its name, "" where not known */
    int64_t measured_at;            /* seconds since 1970, UTC, when that was; 0: not known */
    double others;                  /* of the processors' time meanwhile, what other programs had, 0 .. 1; what was seen is then
                                       less than the machine's most. Below 0, or with `measured_at` 0: not known */
} samba_machine;
/* Takes about a second, and 256 MiB of memory meanwhile; keep what it gives. ARGUMENT: threads < 1; MEMORY. */
SAMBA_API samba_status samba_machine_measure(samba_context *context, int threads, samba_machine *machine);

typedef struct samba_roof {
    const char *bound; /* what limits: "compute", "memory" or "cache"; "" where nothing is known */
    double share;      /* of what that allows, 0 .. 1 and, as measuring goes, a little more */
    double seconds;    /* the least time that compute and memory allow */
} samba_roof;
/* The roof of work that took `seconds`: FLOPs (of bfloat16 products where `bf16`) and bytes moved. The bound is compute or
 * memory, whichever takes longer at its peak. Data that came faster than memory gives it, by more than measuring errs, came from
 * a cache: then the cache stands for memory. seconds 0: only roof.seconds is given. */
SAMBA_API samba_roof samba_machine_roof(const samba_machine *machine, bool bf16, double flops, double bytes, double seconds);
/* The same of a section or stage of the session by its mean time while profiling was on. ARGUMENT: there is no such number. */
SAMBA_API samba_status samba_session_section_roof(const samba_session *session, const samba_machine *machine, int section,
                                                  samba_roof *roof);
SAMBA_API samba_status samba_session_stage_roof(const samba_session *session, const samba_machine *machine, int stage,
                                                samba_roof *roof);

/* The page as text, which samba_text_free frees. `machine` NULL: without roofs. `pef`: the file's name, to be shown, or NULL. */
SAMBA_API samba_status samba_session_page(samba_session *session, const samba_machine *machine, const char *pef, char **page);

/* A profile (profile.h) as text that samba_text_free frees. STATE: profiling was never on; MEMORY.
 *
 * Tables: of each section that ran, and with SAMBA_PROFILE_STAGES of each stage, the runs, the milliseconds in all, on the mean,
 * of the fastest and of the slowest, the share of the table's whole, GFLOP/s, GB/s and, where `machine` is given, the share of
 * its roof. A stage's operators run fused: its time is of all of them together. */
SAMBA_API samba_status samba_session_tables(const samba_session *session, const samba_machine *machine, char **tables);
/* Trace Event JSON, which Perfetto and chrome://tracing open and `sambaflow report --profile` reads: the single times that were
 * kept, of sections (category "section") and stages ("operator") on one line of time, by the names that the tables have. "args"
 * of each has its numbers, FLOPs and bytes, and of a stage how many operators share its time. `pef` NULL:
 * it goes by the model's name. */
SAMBA_API samba_status samba_session_trace(const samba_session *session, const char *pef, char **trace);
/* Writes the page to a path that ends in .html, the trace where it ends in .json, and the tables to any other;
 * whole or not at all. FILE, and as above. */
SAMBA_API samba_status samba_session_report_write(samba_session *session, const samba_machine *machine, const char *pef,
                                                  const char *path);

#ifdef __cplusplus
}
#endif
#endif
