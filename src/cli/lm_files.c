/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow lm save, merge and export: from weights, adapters or a folder to another folder or a GGUF file. One table says which
 * of them take each option. */
#include "cli/lm.h"
#include "data/data.h"

#include <string.h>

enum { SAVE = 1, MERGE = 2, EXPORT = 4, ALL = SAVE | MERGE | EXPORT };

typedef struct parse {
    int command;
    const char *model, *load, *adapter, *to;
    int type;
    bool no_tokenizer;
} parse;

static const char *const types[] = {"f32", "f16", "bf16", "q8_0", "q4_0"}; /* by samba_export_type */

static const samba_option_row rows[] = {
    {ALL, "model", "FOLDER", "The model's folder, or a GGUF file", TEXT_AT(model)},
    {SAVE, "load", "FILE", "The weights, which `run --save` or `train --save` has written", TEXT_AT(load)},
    {MERGE, "adapter", "FOLDER", "The adapters", TEXT_AT(adapter)},
    {ALL, "to", "PATH", "What is written: a folder, or the GGUF file of export", TEXT_AT(to)},
    {EXPORT, "type", "f32|f16|bf16|q8_0|q4_0", "Of the tensors (f32)", CHOICE_AT(type, types, SAMBA_COUNT(types))},
    {EXPORT, "no-tokenizer", NULL, "Leave the tokenizer out", FLAG_AT(no_tokenizer)},
    {ALL, "version", NULL, "Print the library's version", OTHER(samba_print_version), .group = -1},
};

static const struct {
    const char *name, *help, *missing;
} commands[] = {
    [SAVE] = {"save", "Writes trained weights as a folder that Hugging Face's libraries read.",
              "give the model's folder by --model FOLDER, the weights by --load FILE and the folder to write by --to FOLDER"},
    [MERGE] =
        {"merge", "Puts adapters into the weights of their model and writes that as a folder.",
         "give the model's folder by --model FOLDER, the adapters by --adapter FOLDER and the folder to write by --to FOLDER"},
    [EXPORT] = {"export", "Writes a model as a GGUF file.",
                "give the model's folder by --model FOLDER and the GGUF file to write by --to FILE"},
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parse *p = state->input;
    const int row = samba_option_find(rows, SAMBA_COUNT(rows), key);
    if (key == ARGP_KEY_INIT)
        samba_words_check(state);
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "'%s' is no option: %s", text, commands[p->command].missing);
    else if (key == ARGP_KEY_END &&
             (!p->model || !p->to || (p->command == SAVE && !p->load) || (p->command == MERGE && !p->adapter)))
        argp_error(state, "%s", commands[p->command].missing);
    else if (row < 0)
        return ARGP_ERR_UNKNOWN;
    if (row >= 0 && !(rows[row].commands & p->command))
        argp_error(state, "--%s is not an option of %s", rows[row].name, commands[p->command].name);
    if (row >= 0)
        samba_option_take(&rows[row], p, text, state);
    return 0;
}

static samba_status save(samba_context *context, const parse *p, const samba_lm *lm)
{
    samba_tensor_list list;
    SAMBA_TRY(samba_weights_read(context, p->load, &list));
    samba_status status = samba_lm_save_tensors(lm, list.count, list.tensors, p->to);
    samba_tensor_list_free(context, &list);
    return status;
}

static samba_status merge(const parse *p, const samba_lm *lm)
{
    samba_lm_adapter *adapter;
    SAMBA_TRY(samba_lm_adapter_open(lm, p->adapter, &adapter, NULL));
    samba_status status = samba_lm_adapter_merge(adapter, p->to);
    samba_lm_adapter_free(adapter);
    return status;
}

static samba_status export(const parse *p, samba_lm *lm)
{
    samba_lm_export_options options = samba_lm_export_defaults();
    options.type = (samba_export_type)p->type;
    options.no_tokenizer = p->no_tokenizer;
    SAMBA_TRY(samba_lm_export(lm, &options, p->to));
    printf("%s\n", p->to);
    return SAMBA_OK;
}

static samba_status obey(samba_context *context, const parse *p)
{
    samba_lm *lm;
    SAMBA_TRY(samba_lm_open(context, p->model, &lm));
    samba_status status = p->command == SAVE ? save(context, p, lm) : p->command == MERGE ? merge(p, lm) : export(p, lm);
    samba_lm_free(lm);
    return status;
}

bool samba_cli_lm_files(int argc, char **argv, int *result)
{
    parse p = {.command = 0};
    for (int i = 0; i < SAMBA_COUNT(commands); i++)
        if (commands[i].name && strcmp(argv[0], commands[i].name) == 0)
            p.command = i;
    if (!p.command)
        return false;
    struct argp_option options[SAMBA_COUNT(rows) + 1];
    samba_options_list(rows, SAMBA_COUNT(rows), p.command, options);
    const struct argp argp = {options, parse_option, NULL, commands[p.command].help, NULL, NULL, NULL};
    char name[64];
    samba_context *context;
    snprintf(name, sizeof name, "sambaflow lm %s", commands[p.command].name);
    argv[0] = name;
    samba_command_parse(&argp, NULL, argc, argv, &p);
    *result = samba_cli_begin(&context) ? samba_cli_end(context, obey(context, &p)) : 1;
    return true;
}
