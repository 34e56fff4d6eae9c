/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops behind update.h, the rules of updates.def compiled once for each ISA and each set of flags. Products and sums are
 * rounded separately and in the programs' order, so that no bit differs from what the interpreter gives. */
#include "device/cpu/isa/uncontracted.h"
#include "device/cpu/isa/unrolled.h"
#include "device/cpu/tile/parts.h"

#include <math.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float greater(float x, float y) { return x > y || x != x ? x : y; }
INLINE float sign_of(float x) { return (float)((x > 0) - (x < 0)); }

/* ---- the rules: `flags` is known where they are expanded, and so is `k`, the next number ---- */
#define VALUE float
#define RULE(name) INLINE void name(const samba_update *u, int64_t first, int64_t count, const unsigned flags, int k)
#define EACH_ELEMENT                                                                                                             \
    float *const parameter_ = u->parameter + first;                                                                              \
    const float *const gradient_ = u->gradient + first;                                                                          \
    const float clip_ = IS(CLIP) && u->clip ? *u->clip : 1, factor_ = u->flags & SAMBA_FLAG_MAXIMIZE ? -clip_ : clip_;           \
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < count; i++)
#define IS(flag) ((flags & SAMBA_FLAG_##flag) != 0)
#define KEEP_TOTAL(state, value)
#define SCALAR(name, value)
#define CONDITION(name, value) const bool name = IS(ACTIVE)
#define NUMBER(name, value) const float name = *u->numbers[k++]
#define PARAMETER (parameter_[i])
#define GRADIENT (IS(CLIP) ? gradient_[i] * factor_ : gradient_[i])
#define BEFORE(state_) (u->state[SAMBA_STATE_##state_][first + i])
#define KEEP(state_, value) u->state[SAMBA_STATE_##state_][first + i] = value
#define KEEP_WHILE(condition, state_, value)                                                                                     \
    if (condition)                                                                                                               \
    KEEP(state_, value)
#define CHOOSE(condition, a, b) ((condition) ? (a) : (b))
#define RESULT(value) parameter_[i] = value
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define MAXIMUM(a, b) greater(a, b)
#define SQRT(a) sqrtf(a)
#define ABS(a) fabsf(a)
#define SIGN(a) sign_of(a)
#include "updates.def"

/* ---- a loop for each set of flags that an optimizer may have ---- */
#define VARIANT(rule, n)                                                                                                         \
    case n:                                                                                                                      \
        if (((n) & ~MAY) == 0)                                                                                                   \
            rule(u, first, count, (unsigned)((n) | FIXED), 0);                                                                   \
        break;
#define VARIANTS4(rule, n) VARIANT(rule, n) VARIANT(rule, (n) + 1) VARIANT(rule, (n) + 2) VARIANT(rule, (n) + 3)
#define VARIANTS16(rule, n) VARIANTS4(rule, n) VARIANTS4(rule, (n) + 4) VARIANTS4(rule, (n) + 8) VARIANTS4(rule, (n) + 12)
#define VARIANTS64(rule, n) VARIANTS16(rule, n) VARIANTS16(rule, (n) + 16) VARIANTS16(rule, (n) + 32) VARIANTS16(rule, (n) + 48)
_Static_assert(SAMBA_FLAG_BITS <= 7, "a flag more needs twice the variants");

#define LOOPS(name, rule, branch, may, fixed)                                                                                    \
    static void name##_update(const samba_update *u, int64_t first, int64_t count)                                               \
    {                                                                                                                            \
        enum { MAY = SAMBA_FLAG_CLIP | ((branch) ? SAMBA_FLAG_ACTIVE : 0)may, FIXED = 0 fixed };                                 \
        const unsigned scaled = u->flags & (SAMBA_FLAG_CLIP | SAMBA_FLAG_MAXIMIZE) ? SAMBA_FLAG_CLIP : 0;                        \
        const unsigned active = u->condition && *u->condition ? SAMBA_FLAG_ACTIVE : 0;                                           \
        const unsigned given = u->flags & ~(unsigned)(SAMBA_FLAG_CLIP | SAMBA_FLAG_MAXIMIZE | FIXED);                            \
        switch (given | scaled | active) {                                                                                       \
            VARIANTS64(rule, 0)                                                                                                  \
            VARIANTS64(rule, 64)                                                                                                 \
        }                                                                                                                        \
    }
#define SET(flag) | SAMBA_FLAG_##flag
#define HAS(flag) | SAMBA_FLAG_##flag
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    LOOPS(name, rule, branch, flags, fixed)
#define EARLIER(rule) LOOPS(rule, rule, 0, , )
#include "optimizers.def"

const samba_updates SAMBA_ISA_NAME(samba_updates) = {{
#define OPTIMIZER(KIND, number, title, name, source, rule, fixed, branch, takes, flags, keeps)                                   \
    [SAMBA_UPDATE_##name] = name##_update,
#define EARLIER(rule) [SAMBA_UPDATE_##rule] = rule##_update,
#include "optimizers.def"
}};
