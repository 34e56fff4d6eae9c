/* SPDX-License-Identifier: Apache-2.0
 *
 * Training loops: what samba_train does beside a loop that is written out, early stopping, the best weights, resuming to the same
 * bits from any step, uneven batches, metrics of hand-computed values, and what is refused. */
#include "classifier.h"
#include "failing_allocator.h"
#include <sambaflow/train.h>

#include <unistd.h>

/* ---- a classifier's samples as sources ---- */

static samba_source *source_of(int64_t from, int64_t to)
{
    batch all = batch_new(SAMPLES);
    batch part = batch_part(&all, from, to);
    samba_source *source;
    need(samba_source_tensors(context, 2, part.inputs, &source));
    return source;
}

static samba_session *session_of(int64_t rows, int accumulation, uint64_t seed)
{
    batch all = batch_new(rows);
    return classifier_new(&dropping, &all, accumulation, 1, seed);
}

static samba_train_options options_of(samba_source *train, samba_source *validation)
{
    samba_train_options o = samba_train_defaults();
    o.train = train;
    o.validation = validation;
    return o;
}

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

/* ---- beside a loop that is written out ---- */

TEST(as_written_out)
{
    samba_source *train = source_of(0, 16), *validation = source_of(16, 24);
    samba_session *session = session_of(8, 1, 3), *other = session_of(8, 1, 3);
    samba_train_options o = options_of(train, validation);
    samba_metric_options accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    samba_train_result result;
    o.epochs = 5;
    o.seed = 11;
    o.metrics = &accuracy;
    o.metric_count = 1;
    o.schedule = (samba_schedule){.kind = SAMBA_SCHEDULE_COSINE, .warmup_steps = 2};
    need(samba_train(session, &o, &result));
    assert_int_equal(result.steps, 10);
    assert_int_equal(result.epochs, 5);
    assert_int_equal(result.samples, 80);
    assert_false(result.stopped);

    batch all = batch_new(SAMPLES);
    double best = NAN, last = 0;
    int64_t best_step = 0;
    for (int64_t epoch = 0, step = 0; epoch < 5; epoch++) {
        int64_t order[16];
        samba_shuffle(samba_hash(&epoch, sizeof epoch, 11), 16, order);
        last = 0;
        for (int b = 0; b < 2; b++, step++) {
            batch given = batch_new(8);
            for (int i = 0; i < 8; i++) {
                memcpy((float *)samba_tensor_data(given.inputs[0]) + i * PIXELS,
                       (float *)samba_tensor_data(all.inputs[0]) + order[8 * b + i] * PIXELS, PIXELS * sizeof(float));
                ((int64_t *)samba_tensor_data(given.inputs[1]))[i] =
                    ((int64_t *)samba_tensor_data(all.inputs[1]))[order[8 * b + i]];
            }
            samba_run_options r = giving(2, given.inputs);
            const double lr =
                step < 2 ? 0.01 * (double)(step + 1) / 3 : 0.01 * (1 + cos(3.14159265358979323846 * (double)(step - 2) / 8)) / 2;
            r.hyperparameters = &(samba_hyperparameter){"lr", lr};
            r.hyperparameter_count = 1;
            need(samba_run(other, &r));
            last += get_scalar(other, "loss") / 2;
        }
        batch test = batch_part(&all, 16, 24);
        samba_run_options r = giving(2, test.inputs);
        r.train = false;
        need(run_sections(other, &r, "FWD"));
        if (isnan(best) || get_scalar(other, "loss") < best) {
            best = get_scalar(other, "loss");
            best_step = step;
        }
    }
    assert_same_bits(session, other, LEARNED);
    assert_true(result.best == best);
    assert_true(result.best_step == best_step);
    assert_float_equal(result.loss, last, 1e-12);
    samba_source_free(train);
    samba_source_free(validation);
}

/* ---- resuming ---- */

typedef struct cut {
    int64_t at;
    int events[4];
    double values[64];
    int count;
} cut;

static samba_status stop_at(samba_context *of, void *user, samba_train_event *event)
{
    cut *c = user;
    c->events[event->kind]++;
    if (event->kind == SAMBA_TRAIN_VALIDATED)
        c->values[c->count++] = event->values[0].value;
    if (event->kind == SAMBA_TRAIN_STEP && event->step == c->at) {
        OWN_TENSOR *none = NULL; /* as a program that dies: the step's checkpoint was not yet due */
        return samba_tensor_new(of, "", SAMBA_FLOAT32, 1, SHAPE(-1), &none);
    }
    return SAMBA_OK;
}

static samba_train_options resumable(samba_source *train, samba_source *validation, const char *name, cut *c)
{
    samba_train_options o = options_of(train, validation);
    o.epochs = 4;
    o.folder = in_folder(name);
    o.checkpoint_every = 1;
    o.validate_every = 2;
    o.schedule = (samba_schedule){.kind = SAMBA_SCHEDULE_PLATEAU, .patience = 1, .gamma = 0.5};
    o.on_event = stop_at;
    o.user = c;
    return o;
}

static char *text_of(const char *path)
{
    char *text = calloc(1, 1 << 16);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_in_range(fread(text, 1, 1 << 16, file), 1, (1 << 16) - 1);
    fclose(file);
    return text;
}

/* The history but for its times. */
static char *lines_of(const char *path)
{
    char *text = text_of(path), *at = text;
    while ((at = strstr(at, ",\"seconds\":"))) {
        char *end = strchr(at, '}');
        memmove(at, end, strlen(end) + 1);
    }
    return text;
}

TEST(resumes_to_the_same_bits)
{
    samba_source *train = source_of(0, 16), *validation = source_of(16, 24);
    samba_session *whole = session_of(8, 1, 3);
    cut never = {.at = -1};
    samba_train_options o = resumable(train, validation, "whole", &never);
    samba_train_result result, other;
    o.history = in_folder("whole.jsonl");
    need(samba_train(whole, &o, &result));
    assert_int_equal(never.events[SAMBA_TRAIN_STEP], 8);
    assert_int_equal(never.events[SAMBA_TRAIN_VALIDATED], 4);
    assert_int_equal(never.events[SAMBA_TRAIN_EPOCH], 4);
    for (int64_t at = 1; at <= 8; at++) {
        char name[32], lines[32];
        cut dying = {.at = at}, on = {.at = -1};
        samba_session *session = session_of(8, 1, 3), *resumed = session_of(8, 1, at == 1 ? 3 : 99); /* at 1 nothing was saved */
        snprintf(name, sizeof name, "cut%d", (int)at);
        snprintf(lines, sizeof lines, "cut%d.jsonl", (int)at);
        o = resumable(train, validation, name, &dying);
        o.history = in_folder(lines);
        assert_int_not_equal(samba_train(session, &o, NULL), SAMBA_OK);
        o.user = &on;
        o.resume = true;
        need(samba_train(resumed, &o, &other));
        assert_int_equal(on.events[SAMBA_TRAIN_STEP], 8 - (at - 1));
        assert_same_bits(whole, resumed, LEARNED);
        assert_true(other.best == result.best && other.best_step == result.best_step && other.loss == result.loss);
        char *a = lines_of(in_folder("whole.jsonl")), *b = lines_of(in_folder(lines));
        assert_string_equal(a, b);
        free(a);
        free(b);
        char path[2][160];
        snprintf(path[0], sizeof path[0], "%s/whole/best.safetensors", folder);
        snprintf(path[1], sizeof path[1], "%s/%s/best.safetensors", folder, name);
        need(samba_session_load(session, path[0]));
        need(samba_session_load(resumed, path[1]));
        assert_same_bits(session, resumed, LEARNED);
    }
    o.epochs = 4;
    need(samba_train(whole, &o, &other)); /* it has ended: nothing is done */
    assert_int_equal(other.samples, 0);
    assert_int_equal(other.steps, 8);
    o.seed = 5;
    refuse(samba_train(whole, &o, NULL), SAMBA_ERROR_STATE, "another order of samples");
    o.seed = 0;
    o.resume = false;
    refuse(samba_train(whole, &o, NULL), SAMBA_ERROR_STATE, "has checkpoints of another training, up to step 8");
    o.resume = true;
    o.train = validation;
    refuse(samba_train(whole, &o, NULL), SAMBA_ERROR_STATE, "whose count of samples is 16, and this one's is 8");
    samba_source_free(train);
    samba_source_free(validation);
}

/* ---- early stopping, the best weights ---- */

TEST(early_stopping)
{
    samba_early_stop stop = {.patience = 2, .min_delta = 0.1, .best = NAN};
    static const double values[] = {1, 0.95, 0.8, NAN, 0.75};
    static const bool stops[] = {false, false, false, false, true};
    for (int i = 0; i < LENGTH(values); i++)
        assert_int_equal(samba_early_stop_step(&stop, values[i]), stops[i]);
    assert_float_equal(stop.best, 0.8, 0);
    stop = (samba_early_stop){.patience = 1, .greater = true, .best = NAN};
    assert_false(samba_early_stop_step(&stop, 0.5));
    assert_false(samba_early_stop_step(&stop, 0.6));
    assert_true(samba_early_stop_step(&stop, 0.6));
    stop = (samba_early_stop){.best = NAN}; /* no patience: never */
    for (int i = 0; i < 9; i++)
        assert_false(samba_early_stop_step(&stop, 1));
}

TEST(stops_and_restores)
{
    samba_source *train = source_of(0, 16), *validation = source_of(16, 24);
    samba_session *session = session_of(8, 1, 3), *other = session_of(8, 1, 4);
    cut c = {.at = -1};
    samba_train_result result;
    samba_train_options o = options_of(train, validation);
    o.epochs = 200;
    o.patience = 3;
    o.lr = 0.05;
    o.folder = in_folder("stop");
    o.restore_best = true;
    o.on_event = stop_at;
    o.user = &c;
    need(samba_train(session, &o, &result));
    assert_true(result.stopped);
    double best = NAN; /* the rule once more */
    int bad = 0, at = 0, last = c.count;
    for (int i = 0; i < c.count; i++) {
        assert_true(bad < 3);
        bad = isnan(best) || c.values[i] < best ? 0 : bad + 1;
        at = bad == 0 ? i : at;
        best = bad == 0 ? c.values[i] : best;
    }
    assert_int_equal(bad, 3);
    assert_int_equal(result.epochs, last);
    assert_int_equal(result.best_step, 2 * (at + 1));
    assert_true(result.best == best);
    need(samba_session_load(other, in_folder("stop/best.safetensors")));
    assert_same_bits(session, other, LEARNED);
    samba_evaluate_options by = samba_evaluate_defaults();
    by.loss = "loss";
    samba_loader_options rows = samba_loader_defaults();
    rows.batch_size = 8;
    samba_loader *loader;
    double loss;
    need(samba_loader_new(context, validation, &rows, &loader));
    need(samba_evaluate(session, loader, &by, &loss));
    assert_true(loss == best);
    refuse(samba_evaluate(session, loader, NULL, NULL), SAMBA_ERROR_ARGUMENT, "neither a loss nor a metric");
    by.loss = "lossy";
    refuse(samba_evaluate(session, loader, &by, &loss), SAMBA_ERROR_NAME, "no output 'lossy'");
    samba_loader_free(loader);
    samba_source_free(train);
    samba_source_free(validation);
}

/* A callback may stop, too. */
static samba_status stop_now(samba_context *of, void *user, samba_train_event *event)
{
    event->stop = event->kind == SAMBA_TRAIN_STEP && event->step == 3;
    return SAMBA_OK;
}

TEST(a_callback_stops)
{
    samba_source *train = source_of(0, 16);
    samba_train_result result;
    samba_train_options o = options_of(train, NULL);
    o.epochs = 9;
    o.on_event = stop_now;
    need(samba_train(session_of(8, 1, 3), &o, &result));
    assert_int_equal(result.steps, 3);
    assert_int_equal(result.epochs, 2);
    assert_true(result.stopped);
    samba_source_free(train);
}

/* ---- uneven batches, accumulation ---- */

TEST(uneven_batches)
{
    samba_source *train = source_of(0, 13), *validation = source_of(13, 24);
    samba_session *session = session_of(8, 1, 3);
    samba_metric_options accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    samba_metric *metric;
    samba_train_result result;
    samba_train_options o = options_of(train, validation);
    refuse(samba_train(session, &o, NULL), SAMBA_ERROR_SHAPE, "the last batch has 5 samples of 8");
    o.drop_last = true;
    refuse(samba_train(session, &o, NULL), SAMBA_ERROR_SHAPE, "the last batch has 3 samples of 8");
    o.drop_last = false;
    o.pads = &(samba_padding){"label", -100}; /* cross_entropy leaves it out */
    o.pad_count = 1;
    need(samba_train(session, &o, &result));
    assert_int_equal(result.samples, 13);
    /* the loss of all eleven, beside sessions that take eleven and one */
    batch all = batch_new(SAMPLES), rest = batch_part(&all, 13, 24), eleven = batch_new(11);
    samba_session *whole = classifier_new(&dropping, &eleven, 1, 1, 3);
    need(samba_session_save(session, in_folder("now.safetensors"), false));
    need(samba_session_load(whole, in_folder("now.safetensors")));
    samba_run_options r = giving(2, rest.inputs);
    r.train = false;
    need(run_sections(whole, &r, "FWD"));
    assert_float_equal(result.best, get_scalar(whole, "loss"), 1e-6);
    OWN_TENSOR *logits = get(whole, "logits");
    need(samba_metric_new(context, &accuracy, &metric));
    need(samba_metric_update(metric, logits, rest.inputs[1], 11));
    const double expected = samba_metric_value(metric);
    samba_loader_options by = samba_loader_defaults();
    by.batch_size = 8;
    samba_loader *loader;
    need(samba_loader_new(context, validation, &by, &loader));
    samba_evaluate_options e = samba_evaluate_defaults();
    e.metric_count = 1;
    e.metrics = &metric;
    need(samba_evaluate(session, loader, &e, NULL)); /* metrics alone need no pads */
    assert_float_equal(samba_metric_value(metric), expected, 1e-12);
    samba_metric_free(metric);
    samba_loader_free(loader);
    samba_source_free(train);
    samba_source_free(validation);
}

/* A PEF with a graph for the last batch: nothing is padded. */
static samba_session *of_two_sizes(int64_t rows, int64_t rest, uint64_t seed)
{
    samba_multigraph *graphs;
    char path[512];
    const int64_t sizes[2] = {rows, rest};
    need(samba_multigraph_new(context, &graphs));
    for (int k = 0; k < 2; k++) {
        batch all = batch_new(sizes[k]);
        samba_compile_options options = classifier_options(&dropping, &all, adamw());
        char label[24];
        snprintf(label, sizeof label, "%d", (int)sizes[k]);
        need(samba_multigraph_add_size(graphs, &options, label));
    }
    need(samba_multigraph_compile(graphs, "two", folder, path, sizeof path));
    samba_multigraph_free(graphs);
    return kept_session(open_session(path, 1, seed));
}

TEST(a_graph_for_the_last_batch)
{
    samba_source *train = source_of(0, 13), *validation = source_of(13, 24);
    samba_session *session = of_two_sizes(8, 5, 3), *other = of_two_sizes(8, 5, 3), *thirds = of_two_sizes(8, 3, 3);
    samba_metric_options accuracy = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    samba_train_result result;
    samba_train_options o = options_of(train, NULL);
    o.epochs = 3;
    o.in_order = true;
    need(samba_train(session, &o, &result));
    assert_int_equal(result.steps, 6);
    assert_int_equal(result.samples, 39);
    batch all = batch_new(SAMPLES), first = batch_part(&all, 0, 8), rest = batch_part(&all, 8, 13);
    for (int epoch = 0; epoch < 3; epoch++) {
        run(other, &first);
        run(other, &rest);
    }
    assert_same_bits(session, other, LEARNED);
    o.validation = validation; /* its last batch has three */
    refuse(samba_train(session, &o, NULL), SAMBA_ERROR_SHAPE, "the last batch has 3 samples of 8");
    samba_source_free(train);
    train = source_of(0, 11);
    o.train = train;
    o.epochs = 1;
    o.metrics = &accuracy;
    o.metric_count = 1;
    need(samba_train(thirds, &o, &result));
    batch eleven = batch_new(11), last = batch_part(&all, 13, 24);
    samba_session *whole = classifier_new(&dropping, &eleven, 1, 1, 3);
    need(samba_session_save(thirds, in_folder("thirds.safetensors"), false));
    need(samba_session_load(whole, in_folder("thirds.safetensors")));
    samba_run_options r = giving(2, last.inputs);
    r.train = false;
    need(run_sections(whole, &r, "FWD"));
    assert_float_equal(result.best, get_scalar(whole, "loss"), 1e-6);
    samba_source_free(train);
    samba_source_free(validation);
}

/* A source that nobody knows the length of gives the same as one of tensors in their order. */
typedef struct stream {
    batch all;
    int64_t at, count;
} stream;

static samba_status stream_next(samba_context *of, void *user, int64_t most, int field_count, samba_tensor *const *rows,
                                int64_t *got)
{
    stream *s = user;
    *got = s->count - s->at < most ? s->count - s->at : most;
    memcpy(samba_tensor_data(rows[0]), (float *)samba_tensor_data(s->all.inputs[0]) + s->at * PIXELS,
           (size_t)(*got * PIXELS) * sizeof(float));
    memcpy(samba_tensor_data(rows[1]), (int64_t *)samba_tensor_data(s->all.inputs[1]) + s->at, (size_t)*got * sizeof(int64_t));
    s->at += *got;
    return SAMBA_OK;
}

static samba_status stream_back(samba_context *of, void *user)
{
    ((stream *)user)->at = 0;
    return SAMBA_OK;
}

TEST(a_source_of_unknown_length)
{
    stream s = {.all = batch_new(SAMPLES), .count = 16};
    const samba_field fields[] = {{"image", SAMBA_FLOAT32, 1, {PIXELS}}, {"label", SAMBA_INT64, 0, {0}}};
    samba_source *known = source_of(0, 16), *streamed;
    samba_source_options of = samba_source_defaults();
    of.field_count = 2;
    of.fields = fields;
    of.next = stream_next;
    of.rewind = stream_back;
    of.user = &s;
    need(samba_source_new(context, &of, &streamed));
    samba_session *a = session_of(8, 1, 3), *b = session_of(8, 1, 3), *c = session_of(8, 1, 3), *d = session_of(8, 1, 4);
    samba_train_result as_known, as_streamed, resumed;
    samba_train_options o = options_of(known, NULL);
    o.epochs = 4;
    o.in_order = true;
    need(samba_train(a, &o, &as_known));
    o.train = streamed;
    need(samba_train(b, &o, &as_streamed));
    assert_same_bits(a, b, LEARNED);
    assert_int_equal(as_streamed.steps, 8);
    assert_int_equal(as_streamed.epochs, 4);
    assert_true(as_streamed.best == as_known.best && as_streamed.loss == as_known.loss);
    cut dying = {.at = 6}; /* in the middle of an epoch */
    o.folder = in_folder("stream");
    o.checkpoint_every = 1;
    o.on_event = stop_at;
    o.user = &dying;
    assert_int_not_equal(samba_train(c, &o, NULL), SAMBA_OK);
    o.on_event = NULL;
    o.resume = true;
    need(samba_train(d, &o, &resumed));
    assert_same_bits(a, d, LEARNED);
    assert_true(resumed.loss == as_known.loss && resumed.epochs == 4);
    o.in_order = false;
    refuse(samba_train(d, &o, NULL), SAMBA_ERROR_ARGUMENT, "cannot shuffle");
    s.count = 0;
    o.in_order = true;
    o.folder = NULL;
    o.resume = false;
    o.checkpoint_every = 0;
    refuse(samba_train(d, &o, NULL), SAMBA_ERROR_SHAPE, "has no samples to train on");
    samba_source_free(known);
    samba_source_free(streamed);
}

/* The inputs of a size have names of their own on the device; fields are given to them all the same. */
TEST(one_of_several_sizes)
{
    samba_source *train = source_of(0, 20);
    samba_train_result result;
    samba_train_options o = options_of(train, NULL);
    samba_session *two = of_two_sizes(8, 5, 3);
    o.graph_name = "classifier@5";
    need(samba_train(two, &o, &result));
    assert_int_equal(result.steps, 4);
    o.graph_name = "clasifier";
    refuse(samba_train(two, &o, NULL), SAMBA_ERROR_NAME, "'clasifier' (did you mean 'classifier'?); it has 'classifier@");
    samba_source_free(train);
}

TEST(accumulates)
{
    samba_source *train = source_of(0, 16);
    samba_train_result result;
    samba_session *session = session_of(4, 2, 3);
    samba_train_options o = options_of(train, NULL);
    need(samba_train(session, &o, &result));
    assert_int_equal(result.steps, 2);
    assert_int_equal(result.samples, 16);
    samba_source_free(train);
    train = source_of(0, 14);
    o.train = train;
    refuse(samba_train(session, &o, NULL), SAMBA_ERROR_SHAPE, "a step of this PEF is 2 batches");
    o.drop_last = true;
    need(samba_train(session, &o, &result));
    assert_int_equal(result.steps, 1);
    samba_source_free(train);
}

/* ---- what is refused ---- */

TEST(no_optimizer)
{
    batch all = batch_new(8);
    char pef[512];
    samba_session *session;
    samba_source *train = source_of(0, 8);
    samba_compile_options o = samba_compile_defaults();
    o.name = "untrained";
    o.model = classifier;
    o.model_options = &plain;
    o.inputs = all.inputs;
    o.input_count = 2;
    o.output_folder = folder;
    need(samba_compile(context, &o, pef, sizeof pef));
    need(samba_session_new(context, pef, NULL, &session));
    samba_train_options by = options_of(train, NULL);
    refuse(samba_train(session, &by, NULL), SAMBA_ERROR_STATE, "'untrained' was compiled without an optimizer");
    samba_session_free(session);
    samba_source_free(train);
}

TEST(refused)
{
    samba_source *train = source_of(0, 16), *validation = source_of(16, 24), *wrong;
    samba_session *session = session_of(8, 1, 3);
    samba_metric_options metrics[2] = {samba_metric_defaults(SAMBA_METRIC_ACCURACY),
                                       samba_metric_defaults(SAMBA_METRIC_ACCURACY)};
    samba_metric_options odd = metrics[0];
    odd.target = "labels";
    const struct {
        samba_train_options o;
        samba_status status;
        const char *words;
    } cases[] = {
#define WITH(code, wanted, text)                                                                                                 \
    {.o = ({                                                                                                                     \
         samba_train_options o = options_of(train, validation);                                                                  \
         code;                                                                                                                   \
         o;                                                                                                                      \
     }),                                                                                                                         \
     .status = SAMBA_ERROR_##wanted,                                                                                             \
     .words = text}
        WITH(o.train = NULL, ARGUMENT, "train is NULL"),
        WITH(o.epochs = 0, ARGUMENT, "epochs and steps"),
        WITH(o.patience = -1, ARGUMENT, "patience are 0 or more"),
        WITH(o.min_delta = 1, ARGUMENT, "min_delta has no effect without patience"),
        WITH(o.resume = true, ARGUMENT, "want a folder"),
        WITH((o.in_order = true, o.seed = 1), ARGUMENT, "seed has no effect"),
        WITH((o.validation = NULL, o.validate_every = 1), ARGUMENT, "there is no validation"),
        WITH((o.validation = NULL, o.metric_count = 1, o.metrics = metrics), ARGUMENT, "metrics are those of a validation"),
        WITH((o.metric_count = 2, o.metrics = metrics), NAME, "two figures are named 'accuracy'"),
        WITH(o.monitor = "f1", NAME, "monitor is 'f1', and the figures are 'loss'"),
        WITH(o.loss = "logits", SHAPE, "is of shape (8, 7) and not one number"),
        WITH(o.loss = "none", NAME, "has no output 'none'; samba_output and samba_loss make one; it has 'logits', 'loss'"),
        WITH((o.metric_count = 1, o.metrics = &odd), NAME,
             "and the source has no such field: `target` of its options is one of "
             "'image', 'label'"),
        WITH(o.graph_name = "other", NAME, "no graph 'other'"),
        WITH(o.batch_size = 4, SHAPE, "batch_size is 4, and input 'image' takes 8"),
        WITH(o.lr = -1, ARGUMENT, "lr is 0 or more"),
        WITH(o.schedule.kind = SAMBA_SCHEDULE_STEP, ARGUMENT, "step_size is 0"),
        WITH(o.schedule.min_lr = 1, ARGUMENT, "min_lr has no effect"),
        WITH((o.schedule.kind = SAMBA_SCHEDULE_LINEAR, o.schedule.warmup_steps = 2), ARGUMENT, "leave none"),
        WITH(o.struct_size = 8, ARGUMENT, "struct_size"),
        WITH(o.history = "/nowhere/history.jsonl", FILE, "/nowhere/history.jsonl: No such file"),
    };
    for (int i = 0; i < LENGTH(cases); i++)
        refuse(samba_train(session, &cases[i].o, NULL), cases[i].status, cases[i].words);
    OWN_TENSOR *image = tensor("image", SAMBA_FLOAT64, SIZES(8, PIXELS)), *other = tensor("other", SAMBA_FLOAT32, SIZES(8)),
               *none = tensor("image", SAMBA_FLOAT32, SIZES(0, PIXELS)), *small = tensor("image", SAMBA_FLOAT32, SIZES(8, 2));
    OWN_TENSOR *alone = tensor("image", SAMBA_FLOAT32, SIZES(8, PIXELS));
    const struct {
        samba_tensor *tensor;
        samba_status status;
        const char *words;
    } sources[] = {{image, SAMBA_ERROR_DTYPE, "field 'image' is float64, and the input of that name is float32"},
                   {small, SAMBA_ERROR_SHAPE, "samples of field 'image' have the shape (2)"},
                   {other, SAMBA_ERROR_NAME, "has 'image', 'label'"},
                   {alone, SAMBA_ERROR_NAME, "no field of the source gives input 'label' of graph"},
                   {none, SAMBA_ERROR_SHAPE, "a step takes 8 samples and there are only 0"}};
    for (int i = 0; i < LENGTH(sources); i++) {
        need(samba_source_tensors(context, 1, &sources[i].tensor, &wrong));
        samba_train_options o = options_of(wrong, NULL);
        refuse(samba_train(session, &o, NULL), sources[i].status, sources[i].words);
        samba_source_free(wrong);
    }
    samba_source_free(train);
    samba_source_free(validation);
}

/* ---- metrics ---- */

static double value_of(samba_metric_options o, int rows, int classes, const float *scores, const int64_t *targets)
{
    samba_metric *metric;
    OWN_TENSOR *output = tensor("", SAMBA_FLOAT32, classes > 1 ? 2 : 1, SHAPE(rows, classes)),
               *target = tensor("", SAMBA_INT64, SIZES(rows));
    memcpy(samba_tensor_data(output), scores, sizeof *scores * (size_t)(rows * classes));
    memcpy(samba_tensor_data(target), targets, sizeof *targets * (size_t)rows);
    need(samba_metric_new(context, &o, &metric));
    for (int64_t from = 0, count; from < rows; from += count) { /* in uneven parts */
        OWN_TENSOR *a = NULL, *b = NULL;
        count = from == 0 ? (rows + 2) / 3 : rows - from;
        need(samba_tensor_slice(output, 0, from, rows, 1, &a));
        need(samba_tensor_slice(target, 0, from, rows, 1, &b));
        need(samba_metric_update(metric, a, b, count));
    }
    const double value = samba_metric_value(metric);
    samba_metric_free(metric);
    return value;
}

/* Computed by hand: predictions are 0 1 1 2 0, of targets 0 1 2 2 1. */
TEST(metrics)
{
    static const float scores[] = {3, 1, 0, 0, 5, 1, 1, 4, 2, 0, 1, 7, 2, 1, 1};
    static const int64_t targets[] = {0, 1, 2, 2, 1}, masked[] = {0, 1, -100, 2, 1};
    samba_metric_options o = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    assert_float_equal(value_of(o, 5, 3, scores, targets), 0.6, 1e-12);
    assert_float_equal(value_of(o, 5, 3, scores, masked), 0.75, 1e-12);
    o = samba_metric_defaults(SAMBA_METRIC_TOP_K);
    o.k = 2; /* the last row's 1 and 1 tie: the one that stands first is among the two */
    assert_float_equal(value_of(o, 5, 3, scores, targets), 1, 1e-12);
    o = samba_metric_defaults(SAMBA_METRIC_PRECISION);
    assert_float_equal(value_of(o, 5, 3, scores, targets), (0.5 + 0.5 + 1) / 3, 1e-12);
    o.average = SAMBA_AVERAGE_MICRO;
    assert_float_equal(value_of(o, 5, 3, scores, targets), 0.6, 1e-12);
    o = samba_metric_defaults(SAMBA_METRIC_RECALL);
    assert_float_equal(value_of(o, 5, 3, scores, targets), (1 + 0.5 + 0.5) / 3, 1e-12);
    o = samba_metric_defaults(SAMBA_METRIC_F1);
    assert_float_equal(value_of(o, 5, 3, scores, targets), (2.0 / 3 + 0.5 + 2.0 / 3) / 3, 1e-12);
    static const float one[] = {0.9f, -0.2f, 3, -1}; /* one score each: 1 0 1 0 */
    static const int64_t two[] = {1, 1, 0, 0};
    o.average = SAMBA_AVERAGE_BINARY;
    assert_float_equal(value_of(o, 4, 1, one, two), 0.5, 1e-12);
    o.threshold = 1;
    assert_float_equal(value_of(o, 4, 1, one, two), 0, 1e-12);
    o = samba_metric_defaults(SAMBA_METRIC_MAE);
    assert_float_equal(value_of(o, 4, 1, one, two), (0.1 + 1.2 + 3 + 1) / 4, 1e-7);
    o = samba_metric_defaults(SAMBA_METRIC_RMSE);
    assert_float_equal(value_of(o, 4, 1, one, two), sqrt((0.01 + 1.44 + 9 + 1) / 4), 1e-7);
    o = samba_metric_defaults(SAMBA_METRIC_PERPLEXITY); /* the mean of log(1 + exp(-x)) for 1, log(1 + exp(x)) for 0 */
    assert_float_equal(value_of(o, 4, 1, one, two),
                       exp((log1p(exp(-0.9)) + log1p(exp(0.2)) + log1p(exp(3)) + log1p(exp(-1))) / 4), 1e-6);
}

TEST(metrics_refused)
{
    samba_metric *metric;
    samba_metric_kind kind;
    samba_metric_options o = samba_metric_defaults((samba_metric_kind)99);
    OWN_TENSOR *scores = tensor("", SAMBA_FLOAT32, SIZES(4, 3)), *labels = tensor("", SAMBA_INT64, SIZES(4)),
               *others = tensor("", SAMBA_INT64, SIZES(4, 2)), *whole = tensor("", SAMBA_INT64, SIZES(4, 3)), *none = NULL;
    refuse(samba_metric_new(context, &o, &metric), SAMBA_ERROR_ARGUMENT, "99 is no kind");
    o = samba_metric_defaults(SAMBA_METRIC_ACCURACY);
    o.average = SAMBA_AVERAGE_MICRO;
    refuse(samba_metric_new(context, &o, &metric), SAMBA_ERROR_ARGUMENT, "average has no effect");
    o.average = 0;
    o.k = 3;
    refuse(samba_metric_new(context, &o, &metric), SAMBA_ERROR_ARGUMENT, "k is 3");
    o.k = 0;
    need(samba_metric_new(context, &o, &metric));
    assert_true(isnan(samba_metric_value(metric)));
    refuse(samba_metric_update(metric, scores, others, 4), SAMBA_ERROR_SHAPE, "does not go with targets of (4, 2)");
    refuse(samba_metric_update(metric, scores, labels, 5), SAMBA_ERROR_SHAPE, "5 samples");
    refuse(samba_metric_update(metric, scores, labels, -1), SAMBA_ERROR_ARGUMENT, "-1 samples");
    refuse(samba_metric_update(metric, whole, labels, 4), SAMBA_ERROR_DTYPE, "scores are floating-point numbers");
    ((int64_t *)samba_tensor_data(labels))[2] = 3;
    refuse(samba_metric_update(metric, scores, labels, 4), SAMBA_ERROR_INDEX, "target 3 is not among the 3 classes");
    OWN_TENSOR *numbers = tensor("", SAMBA_FLOAT32, SIZES(4));
    ((float *)samba_tensor_data(numbers))[1] = 0.5f;
    refuse(samba_metric_update(metric, scores, numbers, 4), SAMBA_ERROR_DTYPE, "the metrics rmse and mae are for");
    assert_true(isnan(samba_metric_value(metric))); /* nothing of it has counted */
    need(samba_tensor_empty(context, "e", SAMBA_INT64, SIZES(4), &none));
    refuse(samba_metric_update(metric, scores, none, 4), SAMBA_ERROR_STATE, "has no data");
    refuse(samba_metric_add(metric, 1, 1), SAMBA_ERROR_ARGUMENT, "samba_metric_update");
    samba_metric_free(metric);
    need(samba_metric_new(context, &(samba_metric_options){.struct_size = sizeof o}, &metric));
    refuse(samba_metric_update(metric, scores, labels, 4), SAMBA_ERROR_ARGUMENT, "samba_metric_add");
    refuse(samba_metric_add(metric, 1, -1), SAMBA_ERROR_ARGUMENT, "a weight of -1");
    need(samba_metric_add(metric, 1, 1));
    need(samba_metric_add(metric, 4, 2));
    need(samba_metric_add(metric, NAN, 0));
    assert_float_equal(samba_metric_value(metric), 3, 1e-12);
    samba_metric_reset(metric);
    assert_true(isnan(samba_metric_value(metric)));
    samba_metric_free(metric);
    need(samba_metric_from_name(context, "f1", &kind));
    assert_int_equal(kind, SAMBA_METRIC_F1);
    refuse(samba_metric_from_name(context, "f2", &kind), SAMBA_ERROR_NAME, "'f2' is no metric; there are accuracy");
}

/* ---- progress and history ---- */

TEST(lines)
{
    samba_source *train = source_of(0, 16), *validation = source_of(16, 24);
    samba_train_options o = options_of(train, validation);
    FILE *file = fopen(in_folder("lines.txt"), "w");
    o.epochs = 2;
    o.progress = file;
    o.history = in_folder("lines.jsonl");
    need(samba_train(session_of(8, 1, 3), &o, NULL));
    fclose(file);
    char *text = text_of(in_folder("lines.txt")), *history = text_of(in_folder("lines.jsonl"));
    assert_non_null(strstr(text, "epoch 1/2  step 2  loss "));
    assert_non_null(strstr(text, "epoch 2/2  step 4  loss "));
    assert_non_null(strstr(text, "  validation loss "));
    assert_non_null(strstr(text, " samples/s  0:00 left  best\n"));
    assert_null(strchr(text, '\r'));
    assert_non_null(strstr(history, "{\"epoch\":1,\"step\":2,\"loss\":"));
    assert_non_null(strstr(history, "\"validation\":{\"loss\":"));
    free(text);
    free(history);
    samba_source_free(train);
    samba_source_free(validation);
}

/* ---- an application's samples ---- */

TEST(samples_of_an_application)
{
    samba_source *train = source_of(0, 16), *test = source_of(16, 24);
    samba_app_data data;
    samba_app_input its[2] = {{"label", SAMBA_INT64, 1, {8}, CLASSES}, {"image", SAMBA_FLOAT32, 2, {8, PIXELS}, 0}};
    need(samba_app_data_of(context, train, test, 2, its, &data));
    assert_int_equal(data.train_count, 16);
    assert_int_equal(data.test_count, 8);
    OWN_TENSOR *image = tensor("image", SAMBA_FLOAT32, SIZES(3, PIXELS)), *label = tensor("label", SAMBA_INT64, SIZES(3));
    batch all = batch_new(SAMPLES);
    samba_tensor *rows[] = {image, label}; /* in the source's order */
    need(data.fill(context, data.user, (const int64_t[]){23, 16}, 2, 2, rows));
    const float *pixels = samba_tensor_data(all.inputs[0]), *given = samba_tensor_data(image);
    assert_memory_equal(given, pixels + 23 * PIXELS, PIXELS * sizeof(float));
    assert_memory_equal(given + PIXELS, pixels + 16 * PIXELS, PIXELS * sizeof(float));
    assert_float_equal(given[2 * PIXELS], 0, 0);
    samba_app_data_free(&data);
    its[1].shape[1] = 2;
    refuse(samba_app_data_of(context, train, test, 2, its, &data), SAMBA_ERROR_SHAPE,
           "have the shape (19), and the input's are (2)");
    its[1].dtype = SAMBA_FLOAT64;
    refuse(samba_app_data_of(context, train, test, 2, its, &data), SAMBA_ERROR_DTYPE, "'image' of the source is float32");
    its[1].name = "other";
    refuse(samba_app_data_of(context, train, NULL, 2, its, &data), SAMBA_ERROR_NAME, "gives the input 'other'");
    refuse(samba_app_data_of(context, train, NULL, 1, its, &data), SAMBA_ERROR_NAME, "2 fields, and the application 1 inputs");
    samba_source_free(train);
    samba_source_free(test);
}

/* ---- memory ---- */

static samba_status train_once(samba_context *of, void *pef)
{
    samba_session *session = NULL;
    samba_source *source = NULL;
    samba_tensor *tensors[2] = {NULL};
    samba_metric_options metric = samba_metric_defaults(SAMBA_METRIC_F1);
    samba_status status = samba_tensor_new(of, "image", SAMBA_FLOAT32, SIZES(12, PIXELS), &tensors[0]);
    THEN(status, samba_tensor_new(of, "label", SAMBA_INT64, SIZES(12), &tensors[1]));
    THEN(status, samba_source_tensors(of, 2, tensors, &source));
    THEN(status, samba_session_new(of, pef, SESSION(.threads = 1), &session));
    samba_train_options o = options_of(source, source);
    o.metrics = &metric;
    o.metric_count = 1;
    o.prefetch = 0;
    o.pads = &(samba_padding){"label", -100};
    o.pad_count = 1;
    o.schedule.kind = SAMBA_SCHEDULE_COSINE;
    THEN(status, samba_train(session, &o, NULL));
    samba_session_free(session);
    samba_source_free(source);
    samba_tensor_free(tensors[0]);
    samba_tensor_free(tensors[1]);
    return status;
}

TEST(without_memory)
{
    char pef[512];
    batch all = batch_new(8);
    samba_compile_options options = classifier_options(&plain, &all, adamw());
    need(samba_compile(context, &options, pef, sizeof pef));
    fail_some_allocations(train_once, pef, 0, 3, 1);
}

TEST_MAIN_WITH(NULL, drop_kept, as_written_out, resumes_to_the_same_bits, early_stopping, stops_and_restores, a_callback_stops,
               uneven_batches, a_graph_for_the_last_batch, a_source_of_unknown_length, one_of_several_sizes, accumulates,
               no_optimizer, refused, metrics, metrics_refused, lines, samples_of_an_application, without_memory)
