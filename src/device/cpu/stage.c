/* SPDX-License-Identifier: Apache-2.0
 *
 * Preparing a stage: each kind has its file. */
#include "device/cpu/kernel.h"

/* An exchange has no phase here. */
static void leave(const void *state, char *scratch, int phase, int thread, int threads)
{
    (void)state, (void)scratch, (void)phase, (void)thread, (void)threads;
}

samba_status samba_prepare_stage(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared)
{
    switch ((samba_stage_kind)stage->kind) {
    case SAMBA_STAGE_TILE: return samba_prepare_tile(prepare, stage, prepared);
    case SAMBA_STAGE_CONTRACT: return samba_prepare_contract(prepare, stage, prepared);
    case SAMBA_STAGE_POOL: return samba_prepare_pool(prepare, stage, prepared);
    case SAMBA_STAGE_GATHER: return samba_prepare_gather(prepare, stage, prepared);
    case SAMBA_STAGE_ATTENTION: return samba_prepare_attention(prepare, stage, prepared);
    case SAMBA_STAGE_LINE: return samba_prepare_line(prepare, stage, prepared);
    case SAMBA_STAGE_FOURIER: return samba_prepare_fourier(prepare, stage, prepared);
    case SAMBA_STAGE_CTC: return samba_prepare_ctc(prepare, stage, prepared);
    case SAMBA_STAGE_LINEAR: return samba_prepare_linear(prepare, stage, prepared);
    case SAMBA_STAGE_MATRIX: return samba_prepare_matrix(prepare, stage, prepared);
    case SAMBA_STAGE_EXCHANGE: *prepared = (samba_prepared){.run = leave}; return SAMBA_OK;
    case SAMBA_STAGE_KIND_COUNT: break;
    }
    return samba_fail(prepare->context, SAMBA_ERROR_INTERNAL, "stage %s has kind %d; there are %d", stage->name, stage->kind,
                      SAMBA_STAGE_KIND_COUNT);
}
