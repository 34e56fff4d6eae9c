/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the lm commands that freeze a model and give it adapters, and the files that go with them. */
#include "cli/cli.h"
#include "cli/lm.h"

#include <math.h>
#include <string.h>

static const char *const base_names[] = {"float32", "bfloat16", "int8", "int4"}; /* by samba_base */

void samba_cli_tuning_init(samba_cli_tuning *t)
{
    *t = (samba_cli_tuning){.alpha = NAN, .dropout = NAN, .lora = samba_lora_defaults()};
}

int samba_cli_tuning_options(samba_cli_tuning *t, samba_app_option *o)
{
    const samba_app_option all[SAMBA_CLI_TUNING_OPTIONS] = {
        {.name = "lora-rank",
         .help = "Freeze the model and train adapters of this rank beside its linear layers (none)",
         .integer = &t->rank,
         .low = 0,
         .high = 1 << 20},
        {.name = "lora-alpha",
         .help = "The adapters' factor is this over the rank (the rank)",
         .real = &t->alpha,
         .low = -1e9,
         .high = 1e9},
        {.name = "lora-dropout", .help = "Dropout of the adapters' inputs (0)", .real = &t->dropout, .low = 0, .high = 0.999999},
        {.name = "lora-target",
         .help = "Adapters for these linear layers alone: q_proj, or a pattern of whole names",
         .texts = t->targets,
         .text_count = &t->target_count,
         .text_most = SAMBA_CLI_TARGETS,
         .value = "NAME"},
        {.name = "lora-exclude",
         .help = "No adapters for these",
         .texts = t->excludes,
         .text_count = &t->exclude_count,
         .text_most = SAMBA_CLI_TARGETS,
         .value = "NAME"},
        {.name = "rslora", .help = "The factor is alpha over the root of the rank", .flag = &t->rslora},
        {.name = "dora", .help = "Adapters of magnitude and direction (DoRA)", .flag = &t->dora},
        {.name = "base",
         .help = "How frozen weights lie in memory: float32, bfloat16, int8 (rows) or int4 (groups of 32)",
         .texts = t->bases,
         .text_count = &t->base_count,
         .text_most = 1,
         .value = "BASE"},
        {.name = "adapter",
         .help = "Adapters to go on with, or to use: a folder with adapter_config.json, which says their options",
         .texts = t->adapters,
         .text_count = &t->adapter_count,
         .text_most = 1,
         .value = "FOLDER"},
    };
    memcpy(o, all, sizeof all);
    return SAMBA_COUNT(all);
}

static const char *take_base(samba_cli_tuning *t)
{
    static char message[160];
    t->base = SAMBA_BASE_AS_TRACED;
    for (int i = 0; i < SAMBA_COUNT(base_names) && t->base_count; i++)
        if (strcmp(t->bases[0], base_names[i]) == 0) {
            t->base = (samba_base)i;
            return NULL;
        }
    if (!t->base_count)
        return NULL;
    snprintf(message, sizeof message, "--base: expected float32, bfloat16, int8 or int4, given '%.60s'", t->bases[0]);
    return message;
}

const char *samba_cli_tuning_check(samba_cli_tuning *t, samba_context *context, const samba_lm *lm)
{
    const char *wrong = take_base(t);
    const bool of_lora = !isnan(t->alpha) || !isnan(t->dropout) || t->target_count || t->exclude_count || t->rslora || t->dora;
    if (wrong)
        return wrong;
    t->tuned = t->rank > 0 || t->adapter_count > 0;
    if (t->adapter_count && (t->rank > 0 || of_lora))
        return "--adapter says what adapters there are: leave the options of --lora-rank out";
    if (of_lora && !t->tuned)
        return "options of adapters need --lora-rank N";
    t->lora.rank = t->rank;
    t->lora.alpha = isnan(t->alpha) ? (double)t->rank : t->alpha;
    t->lora.dropout = isnan(t->dropout) ? 0 : t->dropout;
    t->lora.rslora = t->rslora, t->lora.dora = t->dora;
    t->lora.target_count = t->target_count, t->lora.targets = t->targets;
    t->lora.exclude_count = t->exclude_count, t->lora.excludes = t->excludes;
    if (t->adapter_count) {
        const samba_lora_options *lora;
        samba_lm_adapter_free(t->adapter);
        if (samba_lm_adapter_open(lm, t->adapters[0], &t->adapter, &lora) != SAMBA_OK)
            return samba_error_message(context);
        t->lora = *lora;
    }
    return NULL;
}

void samba_cli_tuning_apply(const samba_cli_tuning *t, samba_lm_options *options)
{
    options->lora = t->tuned ? &t->lora : NULL;
    options->base = t->base;
}

bool samba_cli_tuning_changes(const samba_cli_tuning *t) { return t->tuned || t->base != SAMBA_BASE_AS_TRACED; }

void samba_cli_tuning_free(samba_cli_tuning *t) { samba_lm_adapter_free(t->adapter); }
