/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lm commands share. */
#ifndef SAMBA_CLI_LM_H
#define SAMBA_CLI_LM_H

#include <sambaflow/app.h>
#include <sambaflow/lm.h>

/* ---- lm_adapter.c: frozen weights and adapters ---- */
#define SAMBA_CLI_TUNING_OPTIONS 9
#define SAMBA_CLI_TARGETS 64
typedef struct samba_cli_tuning {
    int64_t rank;
    double alpha, dropout; /* NAN: not given */
    bool rslora, dora;
    const char *targets[SAMBA_CLI_TARGETS], *excludes[SAMBA_CLI_TARGETS], *bases[1], *adapters[1];
    int target_count, exclude_count, base_count, adapter_count;
    /* what samba_cli_tuning_check makes of them */
    bool tuned;
    samba_base base;
    samba_lora_options lora;
    samba_lm_adapter *adapter;
} samba_cli_tuning;
void samba_cli_tuning_init(samba_cli_tuning *tuning);
/* Fills SAMBA_CLI_TUNING_OPTIONS options of an application; how many. They point into the struct. */
int samba_cli_tuning_options(samba_cli_tuning *tuning, samba_app_option *options);
/* Once they are parsed: NULL, or the sentence that says what is wrong. */
const char *samba_cli_tuning_check(samba_cli_tuning *tuning, samba_context *context, const samba_lm *lm);
void samba_cli_tuning_apply(const samba_cli_tuning *tuning, samba_lm_options *options);
bool samba_cli_tuning_changes(const samba_cli_tuning *tuning); /* a session cannot take the folder's weights as they are */
void samba_cli_tuning_free(samba_cli_tuning *tuning);

#endif
