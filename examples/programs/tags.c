/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of several lengths, each with several labels: which of 6 themes a text is about. A text is padded to the next of three
 * lengths; the PEF has a graph for each, over one set of weights, and a run takes the graph of the shape that it is given. Words
 * that are padding do not count, in the embedding nor in the mean. */
#include "program.h"

#include <sambaflow/sambaflow.h>

enum { TEXTS = 3000, TESTED = 600, THEMES = 6, THEME_WORDS = 12, WORDS = 300, LONGEST = 64, BATCH = 20, EPOCHS = 12, SIZES = 3 };

static const int64_t lengths[SIZES] = {16, 32, 64};

typedef struct text {
    int length, size; /* words, and which of the lengths they are padded to */
    int64_t words[LONGEST];
    float themes[THEMES];
} text;

/* Words 1 to 72 belong to a theme each, the others to none; a text has 1 to 3 themes, and a word in 3 is of one of them. */
static void write_texts(samba_context *context, text *texts)
{
    samba_tensor *random = named(context, "random", SAMBA_INT64, SHAPE(TEXTS, 8 + 3 * LONGEST));
    must(context, samba_fill_integers(random, seed(), 0, 1 << 30));
    const int64_t *r = samba_tensor_data(random);
    for (int i = 0; i < TEXTS; i++, r += 8 + 3 * LONGEST) {
        text *t = &texts[i];
        const int count = 1 + (int)(r[0] % 3);
        int64_t themes[3];
        *t = (text){.length = 8 + (int)(r[1] % (LONGEST - 7))};
        while (lengths[t->size] < t->length)
            t->size++;
        for (int k = 0; k < count; k++)
            themes[k] = r[2 + k] % THEMES;
        for (int w = 0; w < t->length; w++) {
            const int64_t *d = r + 8 + 3 * w, theme = themes[d[1] % count];
            const bool of_theme = d[0] % 3 == 0 || w < count; /* each theme of a text has a word */
            const int64_t chosen = w < count ? themes[w] : theme;
            t->words[w] = of_theme ? 1 + THEME_WORDS * chosen + d[2] % THEME_WORDS
                                   : 1 + THEME_WORDS * THEMES + d[2] % (WORDS - 1 - THEME_WORDS * THEMES);
            if (of_theme)
                t->themes[chosen] = 1;
        }
    }
    samba_tensor_free(random);
}

static void model(samba_graph *g, const void *options)
{
    (void)options;
    const int dims[] = {1};
    samba_value words = samba_input(g, "words"), themes = samba_input(g, "themes"), none = {0};
    const samba_embedding_options padding = {sizeof padding, .has_padding_idx = true}; /* word 0: zeros, which stay */
    samba_value rows = samba_embedding_with(words, "words", WORDS, 16, &padding);
    samba_value there = samba_cast(samba_ne(words, samba_integer(g, 0)), SAMBA_FLOAT32);
    samba_value count = samba_sum(there, 1, dims, true);                  /* (N, 1) */
    samba_value mean = samba_div(samba_sum(rows, 1, dims, false), count); /* (N, 16): rows of padding are 0 */
    samba_value hidden = samba_relu(samba_linear(mean, "fc1", 32));
    samba_value logits = samba_linear(hidden, "fc2", THEMES);
    samba_loss(g, "loss", samba_binary_cross_entropy_with_logits(logits, themes, none, none, SAMBA_MEAN));
    samba_output(g, "logits", logits);
}

/* A source of the texts of one size, [from, to) of all. */
static samba_source *of_size(samba_context *context, const text *texts, int from, int to, int size)
{
    int count = 0, row = 0;
    for (int i = from; i < to; i++)
        count += texts[i].size == size;
    samba_tensor *fields[] = {named(context, "words", SAMBA_INT64, SHAPE(count, lengths[size])),
                              named(context, "themes", SAMBA_FLOAT32, SHAPE(count, THEMES))};
    int64_t *words = samba_tensor_data(fields[0]);
    float *themes = samba_tensor_data(fields[1]);
    samba_source *source;
    for (int i = from; i < to; i++) {
        if (texts[i].size != size)
            continue;
        for (int w = 0; w < texts[i].length; w++)
            words[row * lengths[size] + w] = texts[i].words[w];
        for (int k = 0; k < THEMES; k++)
            themes[row * THEMES + k] = texts[i].themes[k];
        row++;
    }
    must(context, samba_source_tensors(context, 2, fields, &source));
    samba_tensor_free(fields[0]), samba_tensor_free(fields[1]);
    return source;
}

/* A loader for each size; of training texts what fills no batch waits for another epoch, of tests it is padded. */
static void load(samba_context *context, const text *texts, int from, int to, bool train, samba_loader **loaders)
{
    for (int size = 0; size < SIZES; size++) {
        samba_source *source = of_size(context, texts, from, to, size);
        samba_loader_options by = samba_loader_defaults();
        by.batch_size = BATCH, by.shuffle = train, by.seed = seed(), by.drop_last = train;
        by.pads = &(samba_padding){"words", 1}, by.pad_count = 1; /* a text without words has no mean */
        must(context, samba_loader_new(context, source, &by, &loaders[size]));
        samba_source_free(source);
    }
}

int main(void)
{
    static text texts[TEXTS];
    samba_context *context;
    samba_multigraph *graphs;
    samba_session *session;
    samba_loader *train[SIZES], *test[SIZES];
    must(NULL, samba_context_new(NULL, &context));
    write_texts(context, texts);
    load(context, texts, TESTED, TEXTS, true, train);
    load(context, texts, 0, TESTED, false, test);

    must(context, samba_multigraph_new(context, &graphs));
    for (int size = 0; size < SIZES; size++) {
        samba_tensor *inputs[] = {named(context, "words", SAMBA_INT64, SHAPE(BATCH, lengths[size])),
                                  named(context, "themes", SAMBA_FLOAT32, SHAPE(BATCH, THEMES))};
        samba_optimizer adamw = samba_adamw(0.01);
        samba_compile_options compile = samba_compile_defaults();
        char word[16];
        snprintf(word, sizeof word, "%d", (int)lengths[size]);
        compile.name = "tags", compile.model = model;
        compile.inputs = inputs, compile.input_count = 2;
        compile.optimizers = &adamw, compile.optimizer_count = 1;
        must(context, samba_multigraph_add_size(graphs, &compile, word));
        samba_tensor_free(inputs[0]), samba_tensor_free(inputs[1]);
    }
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_multigraph_session(graphs, "tags", &device, &session));

    /* An epoch takes batches of the sizes in turn, drawn so that all end at about the same time. */
    samba_batch batch;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        int64_t left[SIZES], all = 0;
        for (int size = 0; size < SIZES; size++) {
            must(context, samba_loader_begin(train[size], epoch, 0));
            all += left[size] = samba_loader_batches(train[size]);
        }
        int64_t order[TEXTS / BATCH];
        samba_shuffle((uint64_t)epoch, all, order);
        for (int64_t step = 0; step < all; step++) {
            int size = 0;
            for (int64_t at = order[step]; at >= left[size]; size++)
                at -= left[size];
            must(context, samba_loader_next(train[size], &batch));
            samba_run_options run = samba_run_defaults();
            run.graph_name = "tags"; /* which of its sizes, the shapes say */
            run.inputs = batch.tensors, run.input_count = batch.tensor_count;
            must(context, samba_run(session, &run));
        }
    }

    samba_tensor *logits = named(context, "logits", SAMBA_FLOAT32, SHAPE(BATCH, THEMES));
    samba_metric_options options = samba_metric_defaults(SAMBA_METRIC_F1);
    samba_metric *f1;
    options.average = SAMBA_AVERAGE_BINARY; /* over all themes of all texts */
    must(context, samba_metric_new(context, &options, &f1));
    for (int size = 0; size < SIZES; size++) {
        must(context, samba_loader_begin(test[size], 0, 0));
        for (;;) {
            must(context, samba_loader_next(test[size], &batch));
            if (batch.count == 0)
                break;
            samba_run_options run = samba_run_defaults();
            run.graph_name = "tags";
            run.inputs = batch.padded, run.input_count = batch.tensor_count;
            run.outputs = &logits, run.output_count = 1;
            run.section_types = (const char *const[]){"FWD"}, run.section_type_count = 1;
            run.train = false;
            must(context, samba_run(session, &run));
            must(context, samba_metric_update(f1, logits, batch.padded[1], batch.count));
        }
    }
    printf("F1 of %d themes in %d texts of 8 to %d words: %.3f\n", THEMES, TESTED, LONGEST, samba_metric_value(f1));
    expect(samba_metric_value(f1) > 0.93, "an F1 of 0.93");

    for (int size = 0; size < SIZES; size++)
        samba_loader_free(train[size]), samba_loader_free(test[size]);
    samba_metric_free(f1);
    samba_tensor_free(logits);
    samba_session_free(session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
