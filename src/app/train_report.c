/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training says: lines as it goes, and its results in the end, for people or as one JSON object. */
#include "app/trainer.h"

#include <math.h>

bool samba_train_has_perplexity(const samba_trainer *t)
{
    bool whole = false;
    for (int i = 0; i < t->data.tensor_count; i++)
        whole |= !samba_dtype_is_floating_point(samba_tensor_dtype(t->data.tensors[i]));
    return whole && !t->graphs[0].logits;
}

void samba_train_report_epoch(samba_trainer *t, int64_t epoch, int64_t epochs, double loss, double seconds, int64_t samples)
{
    double rate = (double)samples / seconds;
    int width = snprintf(NULL, 0, "%lld", (long long)epochs);
    fprintf(t->progress_file, "epoch %*lld/%lld  loss %.4f", width, (long long)epoch, (long long)epochs, loss);
    if (samba_train_has_perplexity(t))
        fprintf(t->progress_file, "  perplexity %.2f", exp(loss));
    fprintf(t->progress_file, "  %.2f s  %.0f samples/s\n", seconds, rate);
    fflush(t->progress_file);
    if (t->epochs)
        json_array_append_new(t->epochs,
                              json_pack("{s:o, s:o}", "loss", samba_json_number(loss), "seconds", samba_json_number(seconds)));
}

void samba_train_report_step(samba_trainer *t, double loss)
{
    const long long step = (long long)t->at.steps_done;
    fprintf(t->progress_file, "step %lld/%lld  loss %.4f", step, (long long)t->steps, loss);
    if (t->lr)
        fprintf(t->progress_file, "  lr %.3g", t->lr->value);
    fputc('\n', t->progress_file);
    fflush(t->progress_file);
    if (t->log)
        json_array_append_new(t->log, json_pack("{s:I, s:o, s:o}", "step", (json_int_t)step, "loss", samba_json_number(loss),
                                                "lr", t->lr ? samba_json_number(t->lr->value) : json_null()));
}

/* Of exchanges with other replicas; nothing where there are none. */
static samba_status print_exchanges(const samba_trainer *t)
{
    const int count = samba_session_exchange_count(t->session);
    samba_table table;
    if (count == 0)
        return SAMBA_OK;
    samba_table_init(&table, t->context, "rlrrrr");
    samba_table_row(&table, "section\texchange\tsent\ttime\tbandwidth\thidden");
    for (int i = 0; i < count; i++) {
        samba_exchange_info info;
        char sent[SAMBA_CELL], time[SAMBA_CELL], rate[SAMBA_CELL], hidden[SAMBA_CELL];
        SAMBA_TRY(samba_session_exchange_info(t->session, i, &info));
        const double runs = (double)(info.runs > 0 ? info.runs : 1), seconds = info.seconds / runs;
        snprintf(hidden, sizeof hidden, "%.0f %%", seconds > 0 ? 100 * (1 - info.waited_seconds / info.seconds) : 0);
        samba_table_row(&table, "%d\t%s\t%s\t%s\t%s\t%s", info.section, info.way, samba_text_bytes(sent, (double)info.bytes),
                        samba_text_ms(time, 1e3 * seconds),
                        samba_text_decimal(rate, seconds > 0 ? (double)info.bytes / seconds : 0, "B/s"), hidden);
    }
    return samba_table_print(&table, stdout, "");
}

static json_t *exchanges_json(const samba_trainer *t)
{
    json_t *list = json_array();
    samba_exchange_info info;
    for (int i = 0; i < samba_session_exchange_count(t->session) && samba_session_exchange_info(t->session, i, &info) == SAMBA_OK;
         i++)
        json_array_append_new(list, json_pack("{s:i, s:s, s:I, s:I, s:o, s:o}", "section", info.section, "way", info.way, "bytes",
                                              (json_int_t)info.bytes, "runs", (json_int_t)info.runs, "seconds",
                                              samba_json_number(info.seconds), "waited_seconds",
                                              samba_json_number(info.waited_seconds)));
    return list;
}

samba_status samba_train_report(samba_trainer *t)
{
    const samba_app_arguments *a = t->arguments;
    double rate = t->train_seconds > 0 ? (double)t->trained / t->train_seconds : 0;
    double accuracy = 100 * (double)t->right / (double)t->tested;
    if (!a->json) {
        if (t->tested == 0)
            printf("no test: there are no samples for it");
        else if (t->graphs[0].logits)
            printf("test accuracy %.2f %% (%lld of %lld)", accuracy, (long long)t->right, (long long)t->tested);
        else if (samba_train_has_perplexity(t))
            printf("test loss %.4f  perplexity %.2f (%lld %s)", t->test_loss, exp(t->test_loss),
                   (long long)(t->predictions ? t->predictions : t->tested), t->predictions ? "tokens" : "samples");
        else
            printf("test loss %.4f (%lld samples)", t->test_loss, (long long)t->tested);
        if (!a->inference)
            printf("  training %.2f s  %.0f samples/s", t->train_seconds, rate);
        putchar('\n');
        return print_exchanges(t);
    }
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:O, s:O}", "command",
                  a->command == SAMBA_APP_TRAIN ? "train" : "run", "pef", a->pef, "isa", samba_session_isa(t->session), "threads",
                  samba_session_threads(t->session), "batch_size", (json_int_t)t->step_samples, "microbatch_size",
                  (json_int_t)t->rows, "steps", (json_int_t)t->at.steps_done, "test_samples", (json_int_t)t->tested,
                  "train_seconds", samba_json_number(t->train_seconds), "samples_per_second", samba_json_number(rate), "saved",
                  a->save ? json_string(a->save) : json_null(), "epochs", t->epochs, "warnings", t->warnings);
    if (samba_session_exchange_count(t->session) > 0)
        json_object_set_new(object, "exchanges", exchanges_json(t));
    if (t->predictions)
        json_object_set_new(object, "test_predictions", json_integer(t->predictions));
    if (t->log)
        json_object_set(object, "log", t->log);
    if (t->tests_log)
        json_object_set(object, "tests", t->tests_log);
    if (a->patience)
        json_object_set_new(object, "stopped_early", json_boolean(t->at.stopped));
    if (t->tested == 0)
        return samba_json_print(t->context, object, stdout);
    if (t->graphs[0].logits) {
        json_object_set_new(object, "test_accuracy_percent", samba_json_number(accuracy));
    } else {
        json_object_set_new(object, "test_loss", samba_json_number(t->test_loss));
        if (samba_train_has_perplexity(t))
            json_object_set_new(object, "test_perplexity", samba_json_number(exp(t->test_loss)));
    }
    return samba_json_print(t->context, object, stdout);
}
