/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of all products, after FFTW's problem, solver and plan: a problem is one contraction; a road is one way to compute
 * it; frame.c asks every road what it would take and prepares the one that takes least. What all roads do alike is done here and
 * nowhere else: the shared side is packed by all threads, once a run or, where it is constant, once a refresh; units are dealt
 * and counted; epilogues run hot, or in a phase of their own; scratch is laid out.
 *
 * A road is a row of `roads` in frame.c and a file: a samba_road whose state begins with a samba_frame. Its plan() looks at the
 * problem alone, so the same problem gives the same road and the same bits; prepare() makes tables and says what memory it needs.
 * Running, its run() computes a range of units and its pack() a part of what is packed; neither allocates, deals or waits.
 *
 * Phases of a run: packs that are kept (at refresh); packs of this run; units; an epilogue apart;
 * finishing, where the epilogue collects. */
#ifndef SAMBA_CPU_FRAME_H
#define SAMBA_CPU_FRAME_H

#include "device/cpu/product/finish.h"
#include "device/cpu/product/pack.h"

typedef struct samba_contract_problem {
    samba_contract contract; /* dims dropped and merged */
    int64_t batches, m, n, k;
    const samba_cpu_machine *machine;
    const samba_buffer *buffers;
    char *memory;
    int threads;
    bool constant_a, constant_b; /* a pack of it is made once and kept */
    const samba_finish *finish;  /* what the epilogue is, where it is of the simple kind */
    double finish_cost;          /* ns an element of the result, about */
} samba_contract_problem;

typedef struct samba_workspace { /* of one thread while it runs */
    char *kept, *shared;         /* packs that are kept; of this run, and what units share besides */
    char *own;
} samba_workspace;

typedef struct samba_frame { /* a road's state begins with it */
    const struct samba_road *road;
    const samba_cpu_machine *machine;
    const samba_tile_program *program;
    samba_finish finish;
    samba_contract contract;
    /* Said by plan() or prepare(): */
    int64_t units;
    bool in_order;             /* units are dealt in fixed ranges; else as threads come free, unless the epilogue collects */
    int64_t kept_parts, parts; /* that packs are made in: those that are kept, those of a run */
    int64_t apart;             /* rows, or units, of an epilogue in a phase of its own; 0: it runs hot */
    int64_t kept_bytes, shared_bytes;
    int64_t empty_rows;       /* rows without columns: only what the epilogue makes of a row is left */
    double multiply, element; /* ns of a multiply-add, and of an element of the epilogue, about */
    /* The frame's own: */
    int64_t own_bytes;
    char *kept;       /* a counter, then the packs */
    bool counts_kept; /* the counter of units is the kept one */
} samba_frame;

typedef enum samba_frame_phase {
    SAMBA_FRAME_KEPT, /* packs that are kept */
    SAMBA_FRAME_PACK, /* packs of a run */
    SAMBA_FRAME_UNITS,
    SAMBA_FRAME_APART,
    SAMBA_FRAME_COLLECT
} samba_frame_phase;

typedef struct samba_road {
    const char *name;
    size_t size; /* of the state */
    /* ns, about, on threads that work at once; below 0: the road does not lead there. */
    double (*plan)(const samba_contract_problem *problem, samba_frame *frame);
    samba_status (*prepare)(const samba_preparing *prepare, const samba_contract_problem *problem, samba_frame *frame);
    void (*pack)(const samba_frame *frame, const samba_workspace *at, bool kept, int64_t part); /* NULL: nothing is packed */
    void (*run)(const samba_frame *frame, const samba_workspace *at, int64_t unit, int64_t end);
    void (*finish)(const samba_frame *frame, const samba_workspace *at, int64_t from, int64_t end); /* of `apart`; NULL: none */
    /* As in kernel.h: ns of a part, a unit, or one of `apart`; bytes that move, but for partial results; what is held. */
    double (*work)(const samba_frame *frame, samba_frame_phase phase, int64_t unit);
    void (*moved)(const samba_frame *frame, int threads, samba_moved *moved);
    int (*held)(const samba_frame *frame, samba_held held[SAMBA_HELD]);
} samba_road;

/* Room in a thread's own scratch: its offset, a multiple of 64 bytes. */
int64_t samba_frame_room(samba_frame *frame, int64_t bytes);
/* The epilogue over a region of sums. */
static inline void samba_frame_finish(const samba_frame *frame, const samba_workspace *at, int64_t row0, int64_t rows,
                                      int64_t col0, int64_t cols, const void *sums, int64_t ld)
{
    if (frame->finish.used)
        samba_finish_region(&frame->finish, row0, rows, col0, cols, sums, ld);
    else
        samba_tile_region(frame->program, at->own, row0, rows, col0, cols, sums, ld);
}
/* What of the result, and of what the epilogue reads, such a region would touch, brought nearer. */
void samba_frame_fetch(const samba_frame *frame, int64_t row0, int64_t rows, int64_t col0, int64_t cols, samba_fetch *fetch);

/* A factor's elements, as the plan has them in memory. */
static inline const char *samba_factor_bytes(const samba_contract_problem *problem, const samba_factor *factor)
{
    return problem->memory + problem->buffers[factor->buffer].offset +
           factor->offset * (int64_t)samba_dtype_table[factor->dtype].size;
}
/* The same of float32. */
static inline const float *samba_factor_data(const samba_contract_problem *problem, const samba_factor *factor)
{
    return (const float *)samba_factor_bytes(problem, factor);
}
/* The seconds in `double` that running the epilogue takes a thread, in ns. */
static inline double samba_finish_time(const samba_contract_problem *problem)
{
    return (double)problem->batches * (double)problem->m * (double)problem->n / problem->threads * problem->finish_cost;
}

#endif
