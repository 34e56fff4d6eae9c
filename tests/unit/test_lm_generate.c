/* SPDX-License-Identifier: Apache-2.0
 *
 * Generating: how a token is chosen from logits, by numbers known by hand; sequences that grow, with what is refused; the cache
 * is written in place; stop strings across tokens; and with no memory nothing is left. tests/python/test_lm_generate.py compares
 * tokens and logits with those of transformers. */
#include "training.h"
#include "messages.h"
#include "failing_allocator.h"
#include <sambaflow/lm.h>
#include <sambaflow/multigraph.h>
#include <math.h>
#include <sys/stat.h>

#define LLAMA                                                                                                                    \
    "{\"model_type\": \"llama\", \"vocab_size\": 11, \"hidden_size\": 8, \"intermediate_size\": 12, \"num_hidden_layers\": 2, "  \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 16, \"eos_token_id\": [2, 5]}"

static const char *folder_of(const char *name, const char *file, const char *text)
{
    static char path[256];
    char at[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0777);
    snprintf(at, sizeof at, "%s/%s", path, file);
    FILE *out = fopen(at, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
    return path;
}

/* ---- one token ---- */

static int32_t chosen(samba_sampling s, int count, const float *logits, double uniform)
{
    int32_t token = -1;
    need(samba_sample_token(context, &s, logits, count, (const int32_t[]){1, 1, 3, 77, -4}, 5, uniform, &token));
    return token;
}

static samba_sampling sampling(double temperature, int64_t top_k, double top_p, double min_p)
{
    samba_sampling s = samba_sampling_defaults();
    s.temperature = temperature;
    s.top_k = top_k;
    s.top_p = top_p;
    s.min_p = min_p;
    return s;
}

/* Probabilities 1/8, 1/2, 1/8, 1/4. */
TEST(test_choice)
{
    const float logits[4] = {0, logf(4), 0, logf(2)};
    samba_sampling greedy = samba_sampling_defaults();
    assert_int_equal(chosen(greedy, 4, logits, 0), 1);
    assert_int_equal(chosen(greedy, 4, (const float[]){5, 7, 7, 1}, 0), 1);
    assert_int_equal(chosen(greedy, 1, (const float[]){-3}, 0), 0);
    greedy.repetition_penalty = 3; /* tokens 1 and 3, each once */
    assert_int_equal(chosen(greedy, 4, logits, 0), 1);
    greedy.repetition_penalty = 0.1;
    assert_int_equal(chosen(greedy, 4, logits, 0), 1);
    greedy.repetition_penalty = 2;
    assert_int_equal(chosen(greedy, 4, (const float[]){-1.5f, -1, -3, -0.5f}, 0), 3);
    assert_int_equal(chosen(greedy, 4, (const float[]){-0.9f, -1, -3, -0.5f}, 0), 0);
    static const double edges[] = {0, 0.12, 0.13, 0.62, 0.63, 0.74, 0.76, 0.999999};
    static const int32_t all[] = {0, 0, 1, 1, 2, 2, 3, 3}, two[] = {1, 1, 1, 1, 1, 3, 3, 3};
    for (int i = 0; i < LENGTH(edges); i++) {
        assert_int_equal(chosen(sampling(1, 0, 1, 0), 4, logits, edges[i]), all[i]);
        assert_int_equal(chosen(sampling(1, 4, 1, 0), 4, logits, edges[i]), all[i]);
        assert_int_equal(chosen(sampling(1, 3, 1, 0), 4, logits, edges[i]), all[i]); /* the third is as good as the fourth */
        assert_int_equal(chosen(sampling(1, 99, 1, 0), 4, logits, edges[i]), all[i]);
        assert_int_equal(chosen(sampling(1, 1, 1, 0), 4, logits, edges[i]), 1);
        assert_int_equal(chosen(sampling(1, 2, 1, 0), 4, logits, edges[i]), two[i]); /* 2/3 and 1/3 */
        assert_int_equal(chosen(sampling(1, 0, 0.7, 0), 4, logits, edges[i]), two[i]);
        assert_int_equal(chosen(sampling(1, 0, 1e-9, 0), 4, logits, edges[i]), 1);
        assert_int_equal(chosen(sampling(1, 0, 1, 0.4), 4, logits, edges[i]), two[i]);
        assert_int_equal(chosen(sampling(1, 0, 1, 0.6), 4, logits, edges[i]), 1);
        assert_int_equal(chosen(sampling(1e-3, 0, 1, 0), 4, logits, edges[i]), 1);
        assert_int_equal(chosen(sampling(1, 0, 1, 0), 4, (const float[]){-INFINITY, 2, -INFINITY, -INFINITY}, edges[i]), 1);
    }
    assert_int_equal(chosen(sampling(0.5, 0, 1, 0), 2, (const float[]){0, logf(2)}, 0.19), 0); /* 1/5 and 4/5 */
    assert_int_equal(chosen(sampling(0.5, 0, 1, 0), 2, (const float[]){0, logf(2)}, 0.21), 1);
}

TEST(test_no_choice)
{
    const float logits[3] = {1, 2, 3}, none[2] = {-INFINITY, -INFINITY}, odd[2] = {1, NAN}, infinite[2] = {0, INFINITY};
    samba_sampling s = samba_sampling_defaults();
    int32_t token = 0;
#define REFUSED(given, values, count, words)                                                                                     \
    refuse(samba_sample_token(context, &(samba_sampling[]){given}[0], values, count, NULL, 0, 0.5, &token),                      \
           SAMBA_ERROR_ARGUMENT, words)
    REFUSED(s, none, 2, "the greatest logit is -inf");
    REFUSED(s, infinite, 2, "the greatest logit is inf");
    REFUSED(s, odd, 2, "NaN at token 1");
    REFUSED(s, logits, 0, "at least one token");
    REFUSED(sampling(-1, 0, 1, 0), logits, 3, "temperature is -1: expected a number 0 or more");
    REFUSED(sampling(NAN, 0, 1, 0), logits, 3, "temperature is nan");
    REFUSED(sampling(1e-45, 0, 1, 0), logits, 3, "by which a logit of 3 cannot be divided");
    REFUSED(sampling(1, -1, 1, 0), logits, 3, "top_k is -1");
    REFUSED(sampling(1, 0, 0, 0), logits, 3, "top_p is 0: expected a number above 0 and at most 1");
    REFUSED(sampling(1, 0, 1, 1), logits, 3, "min_p is 1");
    REFUSED(sampling(0, 5, 1, 0), logits, 3, "top_k is 5, which has no effect");
    REFUSED(sampling(0, 0, 0.5, 0), logits, 3, "top_p is 0.5, which has no effect");
    REFUSED(sampling(0, 0, 1, 0.5), logits, 3, "min_p is 0.5, which has no effect");
    s.repetition_penalty = 0;
    REFUSED(s, logits, 3, "repetition_penalty is 0");
    s = samba_sampling_defaults();
    refuse(samba_sample_token(context, &s, logits, 3, NULL, 0, 1, &token), SAMBA_ERROR_ARGUMENT, "a number in [0, 1)");
    refuse(samba_sample_token(context, &s, logits, 3, NULL, 2, 0, &token), SAMBA_ERROR_ARGUMENT, "the tokens that were seen");
    need(samba_sample_token(context, NULL, logits, 3, NULL, 0, 0, &token));
    assert_int_equal(token, 2);
}

/* ---- sequences ---- */

TEST(test_sequences)
{
    samba_lm *lm;
    samba_generator *g;
    samba_generator_options o = samba_generator_defaults();
    int64_t count;
    const int32_t ids[4] = {1, 2, 3, 10}, *stop;
    need(samba_lm_open(context, folder_of("one", "config.json", LLAMA), &lm));
    need(samba_lm_stop_ids(lm, &stop, &count));
    assert_true(count == 2 && stop[0] == 2 && stop[1] == 5);
    o.sequences = 2, o.chunk = 3, o.threads = 1;
    need(samba_generator_new(lm, &o, &g));
    assert_int_equal(samba_generator_room(g, 0), 16); /* the config's positions */
    assert_null(samba_generator_logits(g, 0));
    need(samba_generator_add(g, 0, ids, 4));
    assert_null(samba_generator_logits(g, 0)); /* not run yet */
    need(samba_generator_run(g));
    assert_non_null(samba_generator_logits(g, 0));
    assert_null(samba_generator_logits(g, 1));
    assert_int_equal(samba_generator_room(g, 0), 12);
    refuse(samba_generator_add(g, 0, (const int32_t[]){3, 11}, 2), SAMBA_ERROR_ARGUMENT, "token 1 is 11");
    refuse(samba_generator_add(g, 0, (const int32_t[]){-1}, 1), SAMBA_ERROR_ARGUMENT, "token 0 is -1");
    refuse(samba_generator_add(g, 0, (const int32_t[13]){0}, 13), SAMBA_ERROR_ARGUMENT, "more than the capacity of 16 tokens");
    refuse(samba_generator_add(g, 2, ids, 1), SAMBA_ERROR_ARGUMENT, "there is no sequence 2, of 2");
    refuse(samba_generator_add(g, 0, NULL, 1), SAMBA_ERROR_ARGUMENT, "ids, and how many");
    refuse(samba_generator_clear(g, -1), SAMBA_ERROR_ARGUMENT, "there is no sequence -1");
    assert_memory_equal(samba_generator_ids(g, 0, &count), ids, sizeof ids);
    assert_int_equal(count, 4);
    need(samba_generator_clear(g, 0));
    samba_generator_ids(g, 0, &count);
    assert_int_equal(count, 0);
    samba_generation_end ends[2];
    samba_generation_options how = samba_generation_defaults();
    need(samba_generate(g, &how, ends));
    assert_true(ends[0] == 0 && ends[1] == 0);
    need(samba_generator_add(g, 1, ids, 1));
    how.max_new_tokens = 0;
    need(samba_generate(g, &how, ends));
    assert_true(ends[0] == 0 && ends[1] == SAMBA_END_LENGTH);
    how.max_new_tokens = 100;
    need(samba_generate(g, &how, ends));
    assert_int_equal(ends[1], SAMBA_END_CAPACITY);
    assert_int_equal(samba_generator_room(g, 1), 0);
    how.max_new_tokens = -1;
    refuse(samba_generate(g, &how, ends), SAMBA_ERROR_ARGUMENT, "max_new_tokens of 0 or more");
    how = samba_generation_defaults();
    how.keep_special = true;
    refuse(samba_generate(g, &how, ends), SAMBA_ERROR_ARGUMENT, "samba_generate_text, which has a tokenizer");
    samba_generator_free(g);
    const struct {
        samba_generator_options options;
        const char *words;
    } cases[] = {{{.struct_size = sizeof o, .chunk = 1}, "1 to 1024 sequences"},
                 {{.struct_size = sizeof o, .sequences = 1}, "a chunk of 1 to 4096"},
                 {{.struct_size = sizeof o, .sequences = 1, .capacity = -1, .chunk = 1}, "a capacity of at least 1"},
                 {{.struct_size = sizeof o, .sequences = 1, .chunk = 1, .base = (samba_base)4}, "4 is no samba_base"}};
    for (int i = 0; i < LENGTH(cases); i++)
        refuse(samba_generator_new(lm, &cases[i].options, &g), SAMBA_ERROR_ARGUMENT, cases[i].words);
    samba_lm_free(lm);
    need(samba_lm_open(context,
                       folder_of("two", "config.json",
                                 "{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_embd\": 8, \"n_head\": 2, \"n_layer\": 1, "
                                 "\"n_positions\": 6, \"eos_token_id\": 4}"),
                       &lm));
    o = samba_generator_defaults();
    o.capacity = 7;
    refuse(samba_generator_new(lm, &o, &g), SAMBA_ERROR_ARGUMENT, "has learned 6 positions");
    folder_of("two", "generation_config.json", "{\"eos_token_id\": 9}");
    need(samba_lm_stop_ids(lm, &stop, &count));
    assert_true(count == 1 && stop[0] == 9);
    folder_of("two", "generation_config.json", "{}");
    need(samba_lm_stop_ids(lm, &stop, &count));
    assert_true(count == 1 && stop[0] == 4);
    folder_of("two", "generation_config.json", "{\"eos_token_id\": [9, -1]}");
    refuse(samba_lm_stop_ids(lm, &stop, &count), SAMBA_ERROR_FORMAT, "a token's id or a list");
    folder_of("two", "generation_config.json", "[");
    refuse(samba_lm_stop_ids(lm, &stop, &count), SAMBA_ERROR_FORMAT, "no JSON object");
    samba_lm_free(lm);
}

/* ---- the graph of a step ---- */

typedef struct step {
    const samba_lm *lm;
    samba_lm_step_options options;
    int64_t starts;
} step;

static void step_model(samba_graph *g, const void *given)
{
    const step *s = given;
    samba_value ids = samba_input(g, "ids"), start = samba_input(g, "start"), count = samba_input(g, "count");
    samba_output(g, "logits", samba_lm_step(s->lm, g, ids, start, count, &s->options));
}

static samba_status trace_step(const samba_lm *lm, int64_t length, int64_t starts, int64_t capacity, int64_t chunk)
{
    samba_tensor *tensors[3];
    samba_graph *g;
    step s = {.lm = lm, .options = samba_lm_step_defaults()};
    s.options.capacity = capacity;
    s.options.chunk = chunk;
    need(samba_tensor_empty(context, "ids", SAMBA_INT32, 2, SHAPE(2, length), &tensors[0]));
    need(samba_tensor_empty(context, "start", SAMBA_INT64, 1, SHAPE(starts), &tensors[1]));
    need(samba_tensor_empty(context, "count", SAMBA_INT64, 1, SHAPE(2), &tensors[2]));
    need(samba_graph_new(context, "step", &g));
    for (int i = 0; i < 3; i++)
        need(samba_graph_add_input(g, tensors[i]));
    step_model(g, &s);
    samba_status status = samba_graph_status(g);
    samba_graph_free(g);
    for (int i = 0; i < 3; i++)
        samba_tensor_free(tensors[i]);
    return status;
}

TEST(test_step)
{
    samba_lm *lm;
    need(samba_lm_open(context, folder_of("three", "config.json", LLAMA), &lm));
    need(trace_step(lm, 3, 2, 5, 0));
    need(trace_step(lm, 3, 2, 5, 9));
    refuse(trace_step(lm, 3, 1, 5, 0), SAMBA_ERROR_SHAPE, "start and count are expected to be (batch)");
    refuse(trace_step(lm, 3, 2, 0, 0), SAMBA_ERROR_ARGUMENT, "a capacity of 1 or more");
    refuse(trace_step(lm, 3, 2, 5, 2), SAMBA_ERROR_ARGUMENT, "a chunk of at least the graph's length");
    refuse(trace_step(lm, 0, 2, 5, 0), SAMBA_ERROR_ARGUMENT, "at least one token");
    samba_lm_free(lm);
}

static void row_model(samba_graph *g, const void *given)
{
    step s = *(const step *)given;
    s.options.row = s.options.sequences == 3 ? samba_input(g, "ids") : samba_input(g, "count");
    step_model(g, &s);
}

/* One of several sequences: which of them is a number. */
TEST(test_step_of_one)
{
    samba_lm *lm;
    need(samba_lm_open(context, folder_of("three", "config.json", LLAMA), &lm));
    for (int64_t sequences = 2; sequences <= 4; sequences++)
        for (int64_t batch = 1; batch <= 2; batch++) {
            samba_tensor *tensors[3] = {tensor("ids", SAMBA_INT32, SIZES(batch, 3)), tensor("start", SAMBA_INT64, SIZES(batch)),
                                        tensor("count", SAMBA_INT64, SIZES(batch))};
            step s = {.lm = lm, .options = samba_lm_step_defaults()};
            samba_graph *g;
            s.options.capacity = 5;
            s.options.sequences = sequences;
            need(samba_graph_new(context, "step", &g));
            for (int i = 0; i < 3; i++)
                need(samba_graph_add_input(g, tensors[i]));
            row_model(g, &s);
            if (batch == 1 && sequences != 3)
                need(samba_graph_status(g));
            else
                refuse(samba_graph_status(g), SAMBA_ERROR_SHAPE, "expected to have batch 1, and row to be an integer");
            samba_graph_free(g);
            free_tensors(tensors[0], tensors[1], tensors[2]);
        }
    samba_lm_free(lm);
}

static void near_logits(const samba_generator *a, int64_t i, const samba_generator *b, int64_t k)
{
    const float *x = samba_generator_logits(a, i), *y = samba_generator_logits(b, k);
    assert_true(x && y);
    for (int j = 0; j < 11; j++)
        assert_true(fabsf(x[j] - y[j]) < 1e-4f);
}

/* A prompt that comes while others go on is run alone, and changes nothing for them; nor do they for it. */
TEST(test_alone)
{
    samba_lm *lm;
    samba_generator *many, *one[3];
    samba_generator_options o = samba_generator_defaults();
    o.capacity = 48, o.threads = 1, o.chunk = 40, o.sequences = 3;
    need(samba_lm_open(context, folder_of("seven", "config.json", LLAMA), &lm));
    need(samba_generator_new(lm, &o, &many));
    o.sequences = 1;
    seed_anew();
    for (int i = 0; i < 3; i++)
        need(samba_generator_new(lm, &o, &one[i]));
    const int counts[][3] = {{2, 0, 1}, {1, 30, 1}, {1, 1, 1}, {1, 6, 36}, {20, 1, 0}, {1, 1, 1}};
    for (int round = 0; round < LENGTH(counts); round++) {
        for (int64_t i = 0; i < 3; i++)
            for (int k = 0; k < counts[round][i]; k++) {
                const int32_t id = draw_below(11);
                need(samba_generator_add(many, i, &id, 1));
                need(samba_generator_add(one[i], 0, &id, 1));
            }
        need(samba_generator_run(many));
        for (int64_t i = 0; i < 3; i++) {
            need(samba_generator_run(one[i]));
            if (counts[round][i] > 0)
                near_logits(many, i, one[i], 0);
        }
    }
    samba_generator_free(many);
    for (int i = 0; i < 3; i++)
        samba_generator_free(one[i]);
    samba_lm_free(lm);
}

/* A cache is as large as the weights of a thousand such models: nothing of its size is beside it. */
TEST(test_in_place)
{
    samba_lm *lm;
    samba_generator *g;
    samba_memory_info memory;
    samba_generator_options o = samba_generator_defaults();
    o.capacity = 100000, o.threads = 1;
    need(samba_lm_open(context, folder_of("four", "config.json", LLAMA), &lm));
    need(samba_generator_new(lm, &o, &g));
    need(samba_session_memory(samba_generator_session(g), &memory));
    const int64_t cache = (int64_t)2 * 2 * 2 * 100001 * 2 * 4; /* layers, keys and values, heads, slots, width, bytes */
    assert_true(memory.state >= cache && memory.state < cache + 4096);
    assert_true(memory.activations < cache / 20);
    samba_generator_free(g);
    samba_lm_free(lm);
}

/* ---- text ---- */

#define TOKENIZER                                                                                                                \
    "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": null, \"post_processor\": null, "     \
    "\"decoder\": {\"type\": \"Fuse\"}, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, "       \
    "\"ab\": 1, \"bc\": 2, \"c\": 3, \"a\": 4, \"\xc3\xa9\": 5, \"xyz\": 6, \"q\": 7, \"r\": 8, \"s\": 9, \"t\": 10}}}"

typedef struct heard {
    char text[256];
    int64_t tokens, pieces;
    const int32_t *script; /* tokens that are made, by a uniform number each */
    int64_t last;
} heard;

static bool hear_text(void *user, int64_t sequence, const char *text, size_t length)
{
    heard *h = user;
    assert_int_equal(sequence, 0);
    assert_true(length > 0);
    strncat(h->text, text, length);
    return ++h->pieces != h->last;
}

static bool hear_token(void *user, int64_t sequence, int32_t id)
{
    heard *h = user;
    (void)sequence;
    assert_int_equal(id, h->script[h->tokens]);
    h->tokens++;
    return true;
}

static samba_generator *generator_of_text;
static samba_tokenizer *tokenizer;

/* All tokens are about as probable as each other where the temperature is high, so a number chooses one. */
static double scripted(void *user, int64_t sequence, int64_t made)
{
    const heard *h = user;
    (void)sequence;
    return ((double)h->script[made] + 0.5) / 11;
}

static heard say(const int32_t *script, int count, int64_t last, int stops, const char *const *strings, samba_generation_end end)
{
    heard h = {.script = script, .last = last};
    samba_generation_options o = samba_generation_defaults();
    samba_generation_end ends[1];
    need(samba_generator_clear(generator_of_text, 0));
    need(samba_generator_add(generator_of_text, 0, (const int32_t[]){7}, 1));
    o.sampling.temperature = 1e6;
    o.sampling.uniform = scripted;
    o.sampling.user = &h;
    o.max_new_tokens = count;
    o.stop_ids = (const int32_t[]){10};
    o.stop_count = 1;
    o.stop_strings = strings;
    o.stop_string_count = stops;
    o.text = hear_text;
    o.token = hear_token;
    o.user = &h;
    need(samba_generate_text(generator_of_text, tokenizer, &o, ends));
    assert_int_equal(ends[0], end);
    return h;
}

TEST(test_text)
{
    samba_lm *lm;
    samba_generator_options options = samba_generator_defaults();
    options.threads = 1;
    need(samba_lm_open(context, folder_of("five", "config.json", LLAMA), &lm));
    samba_status status = samba_tokenizer_open_memory(context, TOKENIZER, strlen(TOKENIZER), &tokenizer);
    if (status == SAMBA_ERROR_UNSUPPORTED) { /* built without tokenizers */
        samba_lm_free(lm);
        return;
    }
    need(status);
    need(samba_generator_new(lm, &options, &generator_of_text));
    static const char *const stops[] = {"bcb", "\xc3\xa9q", "xyzab"};
    const struct {
        int32_t script[8];
        int count, stops, last;
        samba_generation_end end;
        const char *text;
        int pieces;
    } cases[] = {
        {{1, 2, 3}, 3, 0, 0, SAMBA_END_LENGTH, "abbcc", 3},
        {{1, 2, 3}, 3, 3, 0, SAMBA_END_LENGTH, "abbcc", 3}, /* "a" "b" "bcc", or so */
        {{4, 2, 2, 3}, 4, 3, 0, SAMBA_END_STRING, "a", 1},  /* a [bc b]c */
        {{3, 5, 7, 3}, 4, 3, 0, SAMBA_END_STRING, "c", 1},
        {{3, 5, 8, 3}, 4, 3, 0, SAMBA_END_LENGTH, "c\xc3\xa9rc", 3},
        {{3, 5}, 2, 3, 0, SAMBA_END_LENGTH, "c\xc3\xa9", 2}, /* what was kept back is told at the end */
        {{6, 6, 1, 3}, 4, 3, 0, SAMBA_END_STRING, "xyz", 1},
        {{3, 10, 3}, 3, 3, 0, SAMBA_END_STOP, "c", 1},
        {{3, 8, 9, 9}, 4, 3, 2, SAMBA_END_CALLER, "cr", 2},
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        heard h = say(cases[i].script, cases[i].count, cases[i].last, cases[i].stops, stops, cases[i].end);
        assert_string_equal(h.text, cases[i].text);
        if (i != 1)
            assert_int_equal(h.pieces, cases[i].pieces);
    }
    samba_generation_options o = samba_generation_defaults();
    samba_generation_end ends[1];
    o.stop_strings = (const char *const[]){""};
    o.stop_string_count = 1;
    refuse(samba_generate_text(generator_of_text, tokenizer, &o, ends), SAMBA_ERROR_ARGUMENT, "a stop string is expected");
    samba_generator_free(generator_of_text);
    samba_tokenizer_free(tokenizer);
    samba_lm_free(lm);
}

/* ---- no memory ---- */

static samba_status generate_some(samba_context *owner, void *path)
{
    samba_lm *lm = NULL;
    samba_generator *g = NULL;
    samba_generator_options o = samba_generator_defaults();
    samba_generation_options how = samba_generation_defaults();
    samba_generation_end ends[1];
    const int32_t ids[3] = {1, 2, 3}, *stop;
    int64_t count;
    o.threads = 1, o.chunk = 2, how.max_new_tokens = 2;
    samba_status status = samba_lm_open(owner, path, &lm);
    THEN(status, samba_lm_stop_ids(lm, &stop, &count));
    THEN(status, samba_generator_new(lm, &o, &g));
    THEN(status, samba_generator_add(g, 0, ids, 3));
    THEN(status, samba_generate(g, &how, ends));
    samba_generator_free(g);
    samba_lm_free(lm);
    return status;
}

TEST(test_no_memory)
{
    char path[256];
    snprintf(path, sizeof path, "%s",
             folder_of("six", "config.json",
                       "{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_embd\": 2, \"n_head\": 1, \"n_layer\": 1, "
                       "\"n_positions\": 6}"));
    fail_each_allocation(generate_some, path);
}

TEST_MAIN(test_choice, test_no_choice, test_sequences, test_step, test_step_of_one, test_alone, test_in_place, test_text,
          test_no_memory)
