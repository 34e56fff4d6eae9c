/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of samba_plan_check. What they promise together is memory safety: a plan that passes cannot make a kernel touch a
 * byte outside the buffer that an operand names, and no size computed from it overflows. It may still compute nonsense. */
#ifndef SAMBA_PEF_CHECK_H
#define SAMBA_PEF_CHECK_H

#include "plan/plan.h"

#define SAMBA_PLAN_LARGEST_NUMEL ((int64_t)1 << 48)  /* elements of a domain or tensor */
#define SAMBA_PLAN_LARGEST_MEMORY ((int64_t)1 << 46) /* bytes of the device arena */
#define SAMBA_PLAN_LARGEST_STEP                                                                                                  \
    ((int64_t)1 << 46) /* any stride, offset or window step: sums of eight products stay checkable \
                                                      */
#define SAMBA_PLAN_REGISTERS 4096
#define SAMBA_PLAN_OPERANDS 32767

typedef struct samba_check { /* where the check is, for messages and bounds */
    samba_context *context;
    const samba_plan *plan;
    int32_t stage; /* number of the stage being checked */
} samba_check;

/* FORMAT with "stage 3 \"name\": " before the message. */
samba_status samba_check_stage_fail(const samba_check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Product of sizes, each >= 0; false above SAMBA_PLAN_LARGEST_NUMEL. */
bool samba_check_numel(int count, const int64_t *sizes, int64_t *numel);
bool samba_check_dtype(int32_t dtype);
bool samba_check_buffer(const samba_plan *plan, int32_t buffer);
/* Elements of `dtype` from `offset` on, `count` of them, lie in the buffer. */
bool samba_check_fits(const samba_plan *plan, int32_t buffer, int32_t dtype, int64_t offset, int64_t count);

/* The operand's furthest element lies in its buffer, even if sizes of 0 were 1: for what an empty domain touches too. */
bool samba_check_reach(const samba_check *check, const samba_stage *stage, const samba_operand *operand);

samba_status samba_check_program(const samba_check *check, const samba_stage *stage); /* check_program.c */
samba_status samba_check_stage(const samba_check *check, const samba_stage *stage);   /* check_stage.c */
/* Of a stage that has passed the above: what it writes lies apart from what it reads. check_overlap.c */
samba_status samba_check_overlap(const samba_check *check, const samba_stage *stage);

#endif
