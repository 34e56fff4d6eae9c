/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph that lm compile and lm train make of a folder: which inputs there are, and the model with them. */
#include "cli/lm.h"

#include <math.h>

const char *samba_cli_lm_check(const void *settings)
{
    samba_lm_command *j = *(samba_lm_command *const *)settings;
    if (j->info.max_positions && j->length > j->info.max_positions)
        return "--length: the model has learned fewer positions";
    if (!j->inference && !j->tuning.rank && !j->tuning.adapter_count && j->tuning.base_count)
        return "--base freezes all weights: give --lora-rank to train adapters, or --inference";
    if (j->inference && (j->logits || j->no_dropout || !isnan(j->tuning.dropout)))
        return "--logits, --no-dropout and --lora-dropout are training's: leave them or --inference out";
    return samba_cli_tuning_check(&j->tuning, j->context, j->lm);
}

static int inputs_of(const samba_lm_command *j, int64_t length, int64_t batch, samba_app_input *inputs)
{
    const struct {
        const char *name;
        bool wanted;
        int64_t classes;
    } all[] = {{"input_ids", true, j->info.vocab_size},
               {"labels", !j->inference, j->info.vocab_size},
               {"attention_mask", j->attention_mask, 2},
               {"position_ids", j->position_ids, length},
               {"document_ids", j->document_ids, length}};
    int count = 0;
    for (int i = 0; i < SAMBA_COUNT(all); i++)
        if (all[i].wanted)
            inputs[count++] = (samba_app_input){all[i].name, SAMBA_INT64, 2, {batch, length}, all[i].classes};
    return count;
}

int samba_cli_lm_inputs(const void *settings, int64_t batch, samba_app_input *inputs)
{
    const samba_lm_command *j = *(samba_lm_command *const *)settings;
    return inputs_of(j, j->length, batch, inputs);
}

int samba_cli_lm_sizes(const void *settings)
{
    const samba_lm_command *j = *(samba_lm_command *const *)settings;
    return j->length_count > 1 ? j->length_count : 1;
}

int samba_cli_lm_sized_inputs(const void *settings, int size, int64_t batch, samba_app_input *inputs)
{
    const samba_lm_command *j = *(samba_lm_command *const *)settings;
    return inputs_of(j, j->lengths[size], batch, inputs);
}

void samba_cli_lm_build(samba_graph *graph, const void *settings)
{
    const samba_lm_command *j = *(samba_lm_command *const *)settings;
    samba_lm_options options = samba_lm_defaults();
    samba_value input_ids = samba_input(graph, "input_ids");
    options.no_dropout = j->no_dropout || j->inference;
    samba_cli_tuning_apply(&j->tuning, &options);
    if (j->attention_mask)
        options.attention_mask = samba_input(graph, "attention_mask");
    if (j->position_ids)
        options.position_ids = samba_input(graph, "position_ids");
    if (j->document_ids)
        options.document_ids = samba_input(graph, "document_ids");
    samba_value labels = j->inference ? (samba_value){0} : samba_input(graph, "labels");
    samba_value logits = samba_lm_logits(j->lm, graph, input_ids, &options);
    if (!j->inference)
        samba_loss(graph, "loss", samba_lm_loss(logits, labels));
    if (j->inference || j->logits)
        samba_output(graph, "logits", logits);
}
