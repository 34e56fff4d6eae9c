/* SPDX-License-Identifier: Apache-2.0
 *
 * A tile program under construction: instructions over virtual registers, each at a level. Levels order steps: even ones are
 * loops over a row's chunks, odd ones run once a row; SETUP runs once a thread. A value known at an odd level is spread at the
 * next even one. finish collapses the domain, gives physical registers and writes the stage's program. */
#ifndef SAMBA_EMITTER_H
#define SAMBA_EMITTER_H

#include "compiler/compiler.h"

#define SAMBA_LEVEL_SETUP (-1000)

typedef struct samba_virtual { /* a register before allocation; written by one instruction */
    samba_register_class class_;
    samba_extent extent;
    int level;  /* from which it can be read */
    bool fixed; /* setup: serves as FULL and as ROW */
} samba_virtual;

typedef struct samba_draft { /* an instruction before sorting */
    samba_tile op;
    int d, a, b, c, operand, level;
    double immediate;
} samba_draft;

typedef struct samba_emitter {
    samba_compiler *compiler;
    samba_arena arena;
    int rank; /* domain as the nodes see it */
    int64_t domain[SAMBA_MAX_RANK];
    int cols; /* trailing domain dims that make a row; 0: no row reductions */
    samba_virtual *registers;
    int64_t register_count, register_capacity;
    samba_draft *drafts;
    int64_t draft_count, draft_capacity;
    samba_operand *operands;
    int64_t operand_count, operand_capacity;
    samba_status status; /* sticky: emit functions return -1 after a failure */
} samba_emitter;

void samba_emitter_init(samba_emitter *emitter, samba_compiler *compiler, int rank, const int64_t *domain, int cols);
void samba_emitter_free(samba_emitter *emitter);
int samba_emitter_operand(samba_emitter *emitter, int32_t buffer, samba_dtype dtype, int64_t offset, const int64_t *strides);
/* Appends an instruction; returns its new result register, or -1 for forms without one. */
int samba_emitter_add(samba_emitter *emitter, samba_tile op, samba_register_class class_, samba_extent extent, int level, int a,
                      int b, int c, int operand, double immediate);
int samba_emitter_load(samba_emitter *emitter, int32_t buffer, samba_dtype dtype, int64_t offset, const int64_t *strides,
                       samba_extent extent, int level);
void samba_emitter_store(samba_emitter *emitter, int reg, int32_t buffer, samba_dtype dtype, int64_t offset,
                         const int64_t *strides);
/* inplace.c: stored results are written over their operands, where that is right. After the last instruction, before finish. */
void samba_emitter_share(samba_emitter *emitter, const samba_group *group);
/* The stage's rank, domain, operands and program. plan_rank 0: the domain is collapsed as far as operands allow (TILE); else
 * operands are viewed in plan_shape (CONTRACT). */
samba_status samba_emitter_finish(samba_emitter *emitter, int plan_rank, const int64_t *plan_shape, samba_stage *stage);

#endif
