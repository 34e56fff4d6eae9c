/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of a line stage share: sorting (sort.c), scans (scan.c) and margins (margin.c). */
#ifndef SAMBA_CPU_LINE_H
#define SAMBA_CPU_LINE_H

#include "device/cpu/machine.h"

typedef struct samba_line_state {
    samba_line line;
    const samba_cpu_machine *machine;
    const samba_kernels *kernels;
    samba_dtype dtype;
    int threads;
    const char *x, *dy; /* dy: gradients alone */
    char *values;       /* NULL: not wanted */
    int64_t *indices;   /* NULL: not wanted */
    int64_t lanes;      /* sort: lines side by side that are read at once */
    bool turned;        /* sort: they are short lines of neighbours, of which each has its elements side by side */
    int64_t shared_scratch, thread_scratch;
    double all; /* ns of a phase, about */
    samba_margins margins;
    volatile int32_t *fault; /* margins: set to fault_value where a label is no class */
    int32_t fault_value;
} samba_line_state;

void samba_line_prepare_sort(samba_line_state *state);
void samba_line_prepare_scan(samba_line_state *state);
void samba_line_prepare_margin(samba_line_state *state);
void samba_run_margin(const void *state, char *scratch, int phase, int thread, int threads);
void samba_run_sort(const void *state, char *scratch, int phase, int thread, int threads);
/* scan_lanes.c: whether lines run as vectors; what a thread needs for it; a thread's part */
bool samba_scan_takes_lanes(const samba_line_state *state);
int64_t samba_scan_lanes_scratch(const samba_line_state *state);
void samba_scan_lanes(const samba_line_state *state, char *scratch, int thread, int threads);
void samba_run_scan(const void *state, char *scratch, int phase, int thread, int threads);
/* A thread's part of all elements, 0 to 1. */
double samba_sort_share(const samba_line_state *state, int thread, int threads);
double samba_scan_share(const samba_line_state *state, int thread, int threads);

#endif
