/* SPDX-License-Identifier: Apache-2.0
 *
 * sambaflow lm train --model FOLDER --data PATH --to FOLDER: a language model of a folder as an application whose command train
 * it is, with all options of compile and run. The data decides the inputs: it is opened before the graph is made. At the end the
 * model is written as a folder again, or its adapters where it trains those. */
#include "cli/lm.h"
#include "data/data.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct trainer {
    samba_lm_command *lm;
    const char *to[1], *boundary[1], *model[1];
    int to_count, boundary_count, model_count;
    double eval_fraction; /* NAN: not given */
    bool learn_prompts;
    samba_lm_samples samples;
} trainer;

enum { MOST_LENGTH = 1 << 24 };

/* "64,128,256": the lengths that sequences may have, from the shortest on. False: it is something else. */
static bool parse_lengths(const char *text, samba_lm_command *lm)
{
    int64_t before = 1; /* one token has no successor */
    char *end;
    lm->length_count = 0;
    for (const char *at = text;; at = end + 1) {
        errno = 0;
        const long long length = strtoll(at, &end, 10);
        if (*at < '0' || *at > '9' || errno != 0 || length <= before || length > MOST_LENGTH || (*end && *end != ',') ||
            lm->length_count == SAMBA_CLI_LENGTHS)
            return false;
        lm->lengths[lm->length_count++] = before = length;
        if (!*end)
            return true;
    }
}

/* The application's settings are what samba_cli_lm_build takes; the trainer is its hooks' user. */
static const char *check(const void *settings)
{
    samba_lm_command *lm = *(samba_lm_command *const *)settings;
    if (lm->length_given && strcmp(lm->length_text[0], "0") != 0 && !parse_lengths(lm->length_text[0], lm))
        return "--length: expected a number of tokens, 2 or more, or up to 16 of them that rise, as 64,128,256";
    if (!lm->tuning.rank && !lm->tuning.adapter_count && lm->tuning.base_count)
        return "--base freezes all weights: give --lora-rank to train adapters";
    return samba_cli_tuning_check(&lm->tuning, lm->context, lm->lm);
}

/* ---- the data ---- */

static samba_status decide_boundary(trainer *t)
{
    const char *word = t->boundary_count ? t->boundary[0] : NULL;
    if (word && strcmp(word, "article") != 0 && strcmp(word, "none") != 0)
        return samba_fail(t->lm->context, SAMBA_ERROR_ARGUMENT, "--attention-boundary: expected article or none, given '%s'",
                          word);
    if (word && strcmp(word, "article") == 0 && !t->samples.several)
        return samba_fail(
            t->lm->context, SAMBA_ERROR_ARGUMENT,
            "--attention-boundary article: no sequence of the data has two articles (a token behind one of type 3): "
            "leave it out");
    t->samples.apart = word ? strcmp(word, "article") == 0 : t->samples.several;
    return SAMBA_OK;
}

/* Whether the folder can be made or written to, before hours are spent. */
static samba_status check_target(samba_context *context, const char *path)
{
    struct stat info;
    char parent[PATH_MAX];
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode) && access(path, W_OK | X_OK) == 0)
            return SAMBA_OK;
        return samba_fail(context, SAMBA_ERROR_FILE, "--to '%s' %s", path,
                          S_ISDIR(info.st_mode) ? "cannot be written to" : "is a file: a folder is expected");
    }
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    while (end > 0 && path[end - 1] != '/')
        end--;
    snprintf(parent, sizeof parent, "%.*s", (int)end, path);
    if (access(end ? parent : ".", W_OK | X_OK) != 0)
        return samba_fail(context, SAMBA_ERROR_FILE, "--to '%s': the folder cannot be made: %s", path, strerror(errno));
    return SAMBA_OK;
}

/* How many sequences have each of several lengths. */
static void tell_lengths(const trainer *t, FILE *out)
{
    const samba_lm_command *lm = t->lm;
    int64_t counts[SAMBA_CLI_LENGTHS] = {0};
    for (int64_t i = 0; i < t->samples.train_count && lm->length_count > 1; i++)
        counts[samba_lm_samples_size(&t->samples, i)]++;
    for (int k = 0; k < lm->length_count && lm->length_count > 1; k++)
        fprintf(out, "%s%lld sequences up to %lld tokens%s", k ? ", " : "lengths        ", (long long)counts[k],
                (long long)lm->lengths[k], k + 1 == lm->length_count ? "\n" : "");
}

static void tell(const trainer *t, const char *data, FILE *out)
{
    const samba_lm_samples *s = &t->samples;
    fprintf(out, "data           %s: %lld sequences of %lld tokens, %lld to learn\n", data, (long long)s->train_count,
            (long long)s->sequences.length, (long long)s->train_tokens);
    if (s->test_count)
        fprintf(out, "test           %lld sequences, %lld tokens\n", (long long)s->test_count, (long long)s->test_tokens);
    if (s->left_out)
        fprintf(out, "left out       %lld sequences without a token to learn\n", (long long)s->left_out);
    tell_lengths(t, out);
    if (s->several)
        fprintf(out, "articles       %s\n", s->apart ? "do not see each other" : "see those before them in a sequence");
    if (!t->to_count)
        fprintf(out, "no --to FOLDER: the trained model is not kept as a folder\n");
}

static samba_status open_data(trainer *t, const char *data)
{
    samba_lm_sequences sequences;
    samba_lm_command *lm = t->lm;
    const int64_t longest = lm->length_count ? lm->lengths[lm->length_count - 1] : 0;
    SAMBA_TRY(samba_lm_sequences_read(lm->context, data, lm->folder, longest, lm->info.max_positions,
                                      isnan(t->eval_fraction) ? -1 : t->eval_fraction, &sequences));
    lm->length = sequences.length;
    SAMBA_TRY(samba_lm_samples_new(lm->context, &sequences, lm->info.vocab_size, t->learn_prompts, &t->samples));
    if (t->learn_prompts && !t->samples.prompts)
        return samba_fail(
            lm->context, SAMBA_ERROR_ARGUMENT,
            "--learn-prompts: no sequence of the data has a prompt (a token of type 0), all is learned: leave it out");
    SAMBA_TRY(decide_boundary(t));
    t->samples.lengths = lm->lengths;
    t->samples.length_count = lm->length_count;
    lm->document_ids = lm->position_ids = t->samples.apart;
    lm->attention_mask = t->samples.inner_padding && !t->samples.apart;
    return SAMBA_OK;
}

/* Errors are those of the command's context, whose message the application's gets. */
static samba_status pass_on(samba_context *context, const trainer *t, samba_status status)
{
    return status == SAMBA_OK ? SAMBA_OK : samba_fail(context, status, "%s", samba_error_message(t->lm->context));
}

static samba_status opened(samba_context *context, void *user, const char *data, FILE *out)
{
    trainer *t = user;
    if (!data)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "lm train: what to learn? Give --data PATH: a folder of prepared files, a file of tensors or a text");
    if (t->to_count)
        SAMBA_TRY(check_target(context, t->to[0]));
    samba_status status = open_data(t, data);
    if (status == SAMBA_OK && out)
        tell(t, data, out);
    return pass_on(context, t, status);
}

static samba_status samples(samba_context *context, void *user, const char *path, int input_count, const samba_app_input *inputs,
                            samba_app_data *data)
{
    trainer *t = user;
    (void)path;
    *data = (samba_app_data){.train_count = t->samples.train_count,
                             .test_count = t->samples.test_count,
                             .fill = samba_lm_samples_fill,
                             .weight = samba_lm_samples_weight,
                             .user = &t->samples,
                             .size = t->lm->length_count > 1 ? samba_lm_samples_size : NULL};
    for (int i = 0; i < input_count; i++) {
        SAMBA_TRY(
            samba_tensor_empty(context, inputs[i].name, inputs[i].dtype, inputs[i].rank, inputs[i].shape, &data->tensors[i]));
        data->tensor_count++;
    }
    return SAMBA_OK;
}

/* ---- the model's weights ---- */

static samba_status load_weights(trainer *t, samba_session *session)
{
    samba_lm_command *lm = t->lm;
    samba_lm_options options = samba_lm_defaults();
    samba_load_options load = samba_load_defaults();
    samba_tensor_list list;
    const bool changed = samba_cli_tuning_changes(&lm->tuning);
    if (lm->info.float32 && !changed)
        return samba_session_load(session, lm->folder);
    samba_cli_tuning_apply(&lm->tuning, &options);
    SAMBA_TRY(samba_lm_tuned_weights(lm->lm, &options, &list));
    load.partial = changed; /* adapters start by themselves */
    samba_status status = samba_session_load_tensors(session, list.count, list.tensors, &load);
    samba_tensor_list_free(lm->context, &list);
    return status;
}

static samba_status started(samba_context *context, void *user, samba_session *session)
{
    trainer *t = user;
    samba_lm_command *lm = t->lm;
    samba_status status = SAMBA_OK;
    if (lm->info.has_weights)
        status = load_weights(t, session);
    else if (samba_cli_tuning_changes(&lm->tuning))
        return samba_fail(context, SAMBA_ERROR_STATE, "the folder '%s' has no weights that adapters could stand beside",
                          lm->folder);
    if (status == SAMBA_OK && lm->tuning.adapter)
        status = samba_lm_adapter_load(lm->tuning.adapter, session);
    /* a session's messages are in the context it was made with */
    return status == SAMBA_OK || samba_error_message(context)[0] ? status : pass_on(context, t, status);
}

static samba_status trained(samba_context *context, void *user, samba_session *session, FILE *out)
{
    trainer *t = user;
    samba_lm_command *lm = t->lm;
    if (!t->to_count)
        return SAMBA_OK;
    samba_status status = lm->tuning.tuned ? samba_lm_save_adapter(lm->lm, session, &lm->tuning.lora, t->to[0])
                                           : samba_lm_save(lm->lm, session, t->to[0]);
    if (status != SAMBA_OK)
        return samba_error_message(context)[0] ? status : pass_on(context, t, status);
    fprintf(out, "saved          %s\n", t->to[0]);
    return SAMBA_OK;
}

/* ---- the command ---- */

int samba_cli_lm_train(samba_lm_command *lm, int argc, char **argv)
{
    char name[SAMBA_CLI_NAME];
    trainer t = {.lm = lm, .eval_fraction = NAN};
    samba_app_option options[7 + SAMBA_CLI_TUNING_OPTIONS] = {
        {.name = "model",
         .help =
             "The model's folder: config.json, its safetensors files (none: it starts from nothing), its tokenizer; or a GGUF "
             "file",
         .texts = t.model,
         .text_count = &t.model_count,
         .text_most = 1,
         .value = "FOLDER"},
        {.name = "to",
         .help = "The folder to write at the end: the model, or the adapters that were trained",
         .texts = t.to,
         .text_count = &t.to_count,
         .text_most = 1,
         .value = "FOLDER"},
        {.name = "length",
         .help =
             "Tokens in a sequence (the data's, or of a text 128); several: each sequence goes with those of the shortest length "
             "that holds it, the last is the data's",
         .texts = lm->length_text,
         .text_count = &lm->length_given,
         .text_most = 1,
         .value = "N[,N...]"},
        {.name = "eval-fraction",
         .help = "Of a single file: which part of its sequences, the last ones, is for the test (0.05)",
         .real = &t.eval_fraction,
         .high = 0.9},
        {.name = "attention-boundary",
         .help = "article: tokens see those of their own article alone; none: all before them (article, where some sequence has "
                 "several)",
         .texts = t.boundary,
         .text_count = &t.boundary_count,
         .text_most = 1,
         .value = "article|none"},
        {.name = "learn-prompts", .help = "Learn the tokens of prompts too", .flag = &t.learn_prompts},
        {.name = "no-dropout", .help = "No dropout, whatever rates the config has", .flag = &lm->no_dropout},
    };
    samba_cli_tuning_options(&lm->tuning, options + 7);
    samba_cli_lm_name(lm->folder, lm->folder ? "lm" : "sambaflow lm train", name);
    samba_app app = {.struct_size = sizeof app,
                     .name = name,
                     .description =
                         "sambaflow lm train --model FOLDER --data PATH --to FOLDER: trains a language model on a folder "
                         "of prepared files, a file of tensors (input_ids, token_type_ids) or a text.",
                     .model = samba_cli_lm_build,
                     .settings = &lm,
                     .option_count = SAMBA_COUNT(options),
                     .options = options,
                     .check = check,
                     .inputs = samba_cli_lm_inputs,
                     .batch_size = 1,
                     .num_epochs = 1,
                     .optimizer = samba_adamw(5e-5),
                     .user = &t,
                     .opened = opened,
                     .samples = samples,
                     .started = started,
                     .trained = trained,
                     .sizes = samba_cli_lm_sizes,
                     .sized_inputs = samba_cli_lm_sized_inputs};
    const int result = samba_app_main(argc, argv, &app);
    samba_lm_samples_free(&t.samples);
    return result;
}
