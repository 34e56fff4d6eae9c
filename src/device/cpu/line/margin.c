/* SPDX-License-Identifier: Apache-2.0
 *
 * Margins between the classes of a row: each row is a whole, so threads share the rows. margins.c has the kernels. */
#include "device/cpu/line/line.h"

void samba_line_prepare_margin(samba_line_state *s)
{
    int64_t classes = s->line.size, whole = (classes + SAMBA_MARGIN_LANES - 1) / SAMBA_MARGIN_LANES * SAMBA_MARGIN_LANES;
    s->margins.x = s->x;
    s->margins.dy = s->dy;
    s->margins.result = s->values;
    s->margins.classes = classes;
    s->thread_scratch = 2 * whole * (int64_t)samba_dtype_size(s->dtype);
}

void samba_run_margin(const void *state, char *scratch, int phase, int thread, int threads)
{
    const samba_line_state *s = state;
    int64_t rows = s->line.outer, begin = rows * thread / threads, end = rows * (thread + 1) / threads;
    (void)phase;
    bool (*run)(const samba_margins *, int64_t, int64_t, void *) =
        s->dtype == SAMBA_FLOAT32 ? s->kernels->margin_f32 : s->kernels->margin_f64;
    if (begin < end && !run(&s->margins, begin, end, scratch + thread * s->thread_scratch))
        __atomic_store_n(s->fault, s->fault_value, __ATOMIC_RELAXED);
}
