/* SPDX-License-Identifier: Apache-2.0
 *
 * A product by panels, as panel_plan.c plans it and panel.c runs it (which says what packed operands look like). */
#ifndef SAMBA_CPU_PANEL_H
#define SAMBA_CPU_PANEL_H

#include "device/cpu/product/amx.h"
#include "device/cpu/product/blocks.h"
#include "device/cpu/product/frame.h"

typedef struct samba_panels {
    samba_frame frame;
    const samba_kernels *kernels;
    void (*multiply)(const samba_dense *block, samba_fetch *fetch);
    bool half;     /* bfloat16 pairs */
    bool amx;      /* multiplied by AMX */
    bool strips;   /* packed A is */
    bool rows_lie; /* packed A is [k][rows] */
    bool a_in_place;
    bool asks_ahead; /* shared panels come nearer before they are multiplied */
    bool whole_rows;
    bool direct;   /* sums end where the result belongs */
    bool finishes; /* the epilogue is of the simple kind, and takes rows anywhere */
    bool apart;    /* sums of all units lie together in shared scratch, for an epilogue of whole rows in a phase of its own */
    int64_t batches, m, n, k, width; /* width: columns of a panel */
    int64_t strip;                   /* rows that registers take at once */
    int64_t row_piece, row_pieces;   /* rows that are dealt together: AMX's registers have many; how many such */
    bool share_a;                    /* A is packed whole, B by units; else the other way */
    bool keep_a, keep_b;             /* packed whole, at refresh */
    int64_t rows, row_blocks, step, steps, panel_count; /* of a block, the most; of all */
    int64_t unit_blocks, unit_panels, row_units, column_units, hot_panels, last_panels;
    int64_t own_panels, own_panels_few_rows; /* of a unit, at most, where B is its own */
    int64_t pack_panels, panel_packs;        /* panels of B that are packed together, and how many times */
    samba_source a, b;                       /* as samba_pack wants them; their axes are even */
    int64_t row_ld;                          /* of A as block kernels see it */
    int64_t a_block_bytes, a_step_bytes, b_step_bytes, shared_batch_bytes, kept_batch_bytes; /* packed, of full steps */
    int64_t all_sums_at, sums_at, own_pack_at, sums_ld; /* all_sums_at: in shared scratch; the next two: in a thread's own */
} samba_panels;

enum { SAMBA_PANEL_ELEMENT = 4 /* bytes: a float or a pair */ };

/* Elements of k as packed. */
static inline int64_t samba_panel_packed_depth(const samba_panels *p, int64_t depth) { return p->half ? (depth + 1) / 2 : depth; }

static inline int64_t samba_panel_depth_of(const samba_panels *p, int64_t step)
{
    return at_most(p->step, p->k - step * p->step);
}
/* Rows are dealt evenly, so that any run of blocks, a thread's share, is nearly as large as another of as many. */
static inline int64_t samba_panel_row_of(const samba_panels *p, int64_t block)
{
    return at_most(p->row_pieces * block / p->row_blocks * p->row_piece, p->m);
}
static inline int64_t samba_panel_rows_of(const samba_panels *p, int64_t block)
{
    return samba_panel_row_of(p, block + 1) - samba_panel_row_of(p, block);
}
static inline int64_t samba_panel_width_of(const samba_panels *p, int64_t panel)
{
    return at_most(p->width, p->n - panel * p->width);
}

/* Columns of a panel as packed: vectors may read beyond the last. */
static inline int64_t samba_panel_pitch_of(const samba_panels *p, int64_t panel)
{
    return p->half ? round_up(samba_panel_width_of(p, panel), SAMBA_DENSE_ROUND) : p->width;
}

typedef struct samba_panels_unit {
    int64_t batch, i0, i1, j0, j1; /* blocks of rows, panels */
} samba_panels_unit;

static inline samba_panels_unit samba_panel_unit_at(const samba_panels *p, int64_t unit)
{
    int64_t columns = unit % p->column_units, rows = unit / p->column_units % p->row_units;
    return (samba_panels_unit){.batch = unit / p->column_units / p->row_units,
                               .i0 = rows * p->row_blocks / p->row_units,
                               .i1 = (rows + 1) * p->row_blocks / p->row_units,
                               .j0 = columns * p->panel_count / p->column_units,
                               .j1 = (columns + 1) * p->panel_count / p->column_units};
}

/* The side that units take apart and pack, or read in place, themselves. */
static inline bool samba_panel_owns_a(const samba_panels *p) { return !p->share_a && !p->keep_a; }

static inline bool samba_panel_owns_b(const samba_panels *p) { return p->share_a && !p->keep_b; }

/* Sums of a group of panels alone lie side by side, and stay in a near cache, where the epilogue takes each group at once; else
 * those of a unit. */
static inline bool samba_panel_keeps_group(const samba_panels *p) { return p->steps == 1 && !p->whole_rows && !p->apart; }

/* Sums of all rows of a unit stay until its last step, or until an epilogue apart; else each block's are taken at once. */
static inline bool samba_panel_keeps_sums(const samba_panels *p) { return p->apart || p->steps > 1; }

static inline bool samba_panel_keeps_shared(const samba_panels *p) { return p->share_a ? p->keep_a : p->keep_b; }

/* ---- panel_plan.c: what the road (frame.h) asks before it runs ---- */
double samba_panel_plan(const samba_contract_problem *problem, samba_frame *frame);
samba_status samba_panel_prepare(const samba_preparing *to, const samba_contract_problem *problem, samba_frame *frame);
double samba_panel_work(const samba_frame *frame, samba_frame_phase phase, int64_t unit);
void samba_panel_moved(const samba_frame *frame, int threads, samba_moved *moved);
int samba_panel_held(const samba_frame *frame, samba_held held[SAMBA_HELD]);

#endif
