/* SPDX-License-Identifier: Apache-2.0
 *
 * Speculative decoding: a model and a smaller one with other weights. Greedy tokens are those of the large model alone, whatever
 * is drafted, by whom, and of how many sequences; sampled ones have its distribution, by a chi-square test over pairs of tokens
 * whose probabilities come from its logits; what was not accepted leaves the cache as it was. What is refused, and a lack of
 * memory. */
#include "training.h"
#include "messages.h"
#include "failing_allocator.h"
#include <sambaflow/lm.h>
#include <math.h>
#include <sys/stat.h>

enum { VOCAB = 7, CAPACITY = 40 };

/* Random weights, so large that logits differ. */
static samba_lm *model(const char *name, int layers, int vocab, int window)
{
    char path[256], at[300];
    samba_lm *lm;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    mkdir(path, 0777);
    snprintf(at, sizeof at, "%s/config.json", path);
    FILE *out = fopen(at, "w");
    assert_non_null(out);
    fprintf(out,
            "{\"model_type\": \"mistral\", \"vocab_size\": %d, \"hidden_size\": 8, \"intermediate_size\": 12, "
            "\"num_hidden_layers\": %d, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"initializer_range\": 0.6, "
            "\"max_position_embeddings\": 64, \"sliding_window\": %d}",
            vocab, layers, window);
    assert_int_equal(fclose(out), 0);
    need(samba_lm_open(context, path, &lm));
    return lm;
}

static samba_generator *generator(const samba_lm *lm, int64_t sequences, int64_t capacity, int64_t draft_tokens, uint64_t seed)
{
    samba_generator *g;
    samba_generator_options o = samba_generator_defaults();
    o.sequences = sequences;
    o.capacity = capacity;
    o.chunk = 4;
    o.threads = 1;
    o.draft_tokens = draft_tokens;
    o.seed = seed;
    need(samba_generator_new(lm, &o, &g));
    return g;
}

static void start(samba_generator *g, int64_t sequence, int64_t count)
{
    static const int32_t prompt[5] = {1, 4, 2, 2, 6};
    need(samba_generator_clear(g, sequence));
    need(samba_generator_add(g, sequence, prompt, count));
}

/* ---- greedy ---- */

static void compare_greedy(int64_t sequences, int64_t draft_tokens, uint64_t draft_seed, int window, int64_t small_capacity,
                           double penalty)
{
    samba_lm *large_lm = model("large", 2, VOCAB, window), *small_lm = model("small", draft_seed == 1 ? 2 : 1, VOCAB, window);
    samba_generator *plain = generator(large_lm, sequences, CAPACITY, 0, 1),
                    *large = generator(large_lm, sequences, CAPACITY, draft_tokens, 1),
                    *small = generator(small_lm, sequences, small_capacity, 0, draft_seed);
    samba_generation_end ends[2][3];
    samba_draft_counts counts = {0};
    samba_generation_options o = samba_generation_defaults();
    o.sampling.repetition_penalty = penalty;
    for (int turn = 0; turn < 2; turn++) { /* the second goes on behind the first */
        for (int64_t i = 0; i < sequences && turn == 0; i++) {
            start(plain, i, 1 + 2 * i);
            start(large, i, 1 + 2 * i);
        }
        o.max_new_tokens = turn == 0 ? 11 : 100;
        o.draft = NULL;
        need(samba_generate(plain, &o, ends[0]));
        o.draft = small;
        o.draft_counts = &counts;
        need(samba_generate(large, &o, ends[1]));
        for (int64_t i = 0; i < sequences; i++) {
            int64_t count[2];
            const int32_t *a = samba_generator_ids(plain, i, &count[0]), *b = samba_generator_ids(large, i, &count[1]);
            assert_int_equal(ends[0][i], ends[1][i]);
            assert_int_equal(count[0], count[1]);
            assert_memory_equal(a, b, (size_t)count[0] * sizeof *a);
        }
    }
    assert_true(counts.accepted <= counts.drafted && counts.runs > 0);
    if (draft_seed == 1)
        assert_int_equal(counts.accepted, counts.drafted); /* it drafts for itself */
    samba_generator_free(plain);
    samba_generator_free(large);
    samba_generator_free(small);
    samba_lm_free(small_lm);
    samba_lm_free(large_lm);
}

TEST(test_greedy)
{
    compare_greedy(1, 4, 1, 64, CAPACITY, 1);
    for (uint64_t seed = 2; seed < 5; seed++) {
        compare_greedy(1, (int64_t)seed, seed, 64, CAPACITY, 1);
        compare_greedy(3, 3, seed, 64, CAPACITY, 1.3);
    }
    compare_greedy(2, 1, 9, 64, CAPACITY, 1);
    compare_greedy(2, 12, 9, 64, CAPACITY, 1);
    compare_greedy(1, 3, 9, 64, 16, 1);      /* the small cache fills up */
    compare_greedy(2, 3, 9, 5, CAPACITY, 1); /* a window, in a ring of slots, has what was taken back */
}

/* ---- sampled ---- */

/* Probabilities of what follows some tokens. */
static void look(samba_generator *g, const int32_t *ids, int64_t count, double temperature, double *p)
{
    double sum = 0;
    need(samba_generator_clear(g, 0));
    need(samba_generator_add(g, 0, ids, count));
    need(samba_generator_run(g));
    const float *logits = samba_generator_logits(g, 0);
    for (int i = 0; i < VOCAB; i++)
        sum += p[i] = exp((double)logits[i] / temperature);
    for (int i = 0; i < VOCAB; i++)
        p[i] /= sum;
}

/* Second and third token, of which the first comes from no draft. */
TEST(test_distribution)
{
    enum { DRAWS = 6000 };
    const double temperature = 1.25;
    samba_lm *large_lm = model("large", 2, VOCAB, 64), *small_lm = model("small", 1, VOCAB, 64);
    samba_generator *large = generator(large_lm, 1, CAPACITY, 3, 1), *small = generator(small_lm, 1, CAPACITY, 0, 2);
    double expected[VOCAB * VOCAB] = {0}, first[VOCAB], second[VOCAB], third[VOCAB], chi = 0;
    int found[VOCAB * VOCAB] = {0};
    int32_t ids[4] = {3, 5};
    samba_draft_counts counts = {0};
    look(large, ids, 2, temperature, first);
    for (int a = 0; a < VOCAB; a++) {
        ids[2] = a;
        look(large, ids, 3, temperature, second);
        for (int b = 0; b < VOCAB; b++) {
            ids[3] = b;
            look(large, ids, 4, temperature, third);
            for (int c = 0; c < VOCAB; c++)
                expected[b * VOCAB + c] += first[a] * second[b] * third[c];
        }
    }
    seed_anew();
    const uint64_t seed = next_random();
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int n = 0; n < DRAWS; n++) {
        samba_generation_options o = samba_generation_defaults();
        samba_generation_end end;
        int64_t count;
        o.sampling.temperature = temperature;
        o.sampling.seed = seed + (uint64_t)n;
        o.max_new_tokens = 5;
        o.draft = small;
        o.draft_counts = &counts;
        need(samba_generator_clear(large, 0));
        need(samba_generator_add(large, 0, ids, 2));
        need(samba_generate(large, &o, &end));
        const int32_t *all = samba_generator_ids(large, 0, &count);
        assert_int_equal(count, 7);
        found[all[3] * VOCAB + all[4]]++;
    }
    int cells = 0;
    double few = 0, few_found = 0;
    for (int i = 0; i < VOCAB * VOCAB; i++) {
        const double e = expected[i] * DRAWS;
        if (e < 5) { /* together */
            few += e;
            few_found += found[i];
            continue;
        }
        chi += (found[i] - e) * (found[i] - e) / e;
        cells++;
    }
    if (few >= 5) {
        chi += (few_found - few) * (few_found - few) / few;
        cells++;
    }
    print_message("chi-square %.1f of %d cells; %lld of %lld accepted\n", chi, cells, (long long)counts.accepted,
                  (long long)counts.drafted);
    assert_true(counts.accepted > counts.drafted / 20 && counts.accepted < counts.drafted * 19 / 20); /* both happen */
    assert_true(chi < (cells - 1) + 5 * sqrt(2.0 * (cells - 1)));
    samba_generator_free(large);
    samba_generator_free(small);
    samba_lm_free(small_lm);
    samba_lm_free(large_lm);
}

/* ---- taking back ---- */

TEST(test_truncate)
{
    samba_lm *lm = model("large", 2, VOCAB, 64), *narrow = model("narrow", 2, VOCAB, 5);
    samba_generator *g = generator(lm, 2, CAPACITY, 0, 1), *ring = generator(narrow, 1, CAPACITY, 0, 1);
    float logits[VOCAB];
    int64_t count;
    start(g, 0, 3);
    need(samba_generator_run(g));
    memcpy(logits, samba_generator_logits(g, 0), sizeof logits);
    need(samba_generator_add(g, 0, (const int32_t[]){5, 6, 0}, 3));
    need(samba_generator_run(g));
    need(samba_generator_truncate(g, 0, 3));
    assert_null(samba_generator_logits(g, 0));
    samba_generator_ids(g, 0, &count);
    assert_int_equal(count, 3);
    need(samba_generator_run(g));
    /* three tokens were run together, and one is run again: the same bits */
    assert_memory_equal(logits, samba_generator_logits(g, 0), sizeof logits);
    refuse(samba_generator_truncate(g, 0, 4), SAMBA_ERROR_ARGUMENT, "expected 0 to 3 tokens, given 4");
    refuse(samba_generator_truncate(g, 0, -1), SAMBA_ERROR_ARGUMENT, "expected 0 to 3 tokens");
    refuse(samba_generator_truncate(g, 2, 0), SAMBA_ERROR_ARGUMENT, "there is no sequence 2");
    need(samba_generator_truncate(g, 0, 0));
    assert_int_equal(samba_generator_room(g, 0), CAPACITY);
    need(samba_generator_add(ring, 0, (const int32_t[12]){1, 2, 3, 4, 5, 6}, 12));
    need(samba_generator_run(ring));
    need(samba_generator_truncate(ring, 0, 9));
    refuse(samba_generator_truncate(ring, 0, 8), SAMBA_ERROR_STATE, "clear the sequence and add its tokens again");
    samba_generator_free(g);
    samba_generator_free(ring);
    samba_lm_free(lm);
    samba_lm_free(narrow);
}

/* ---- what is refused ---- */

static double half(void *user, int64_t sequence, int64_t step)
{
    (void)user, (void)sequence, (void)step;
    return 0.5;
}

TEST(test_refused)
{
    samba_lm *lm = model("large", 2, VOCAB, 64), *other_lm = model("other", 1, VOCAB + 1, 64);
    samba_generator *large = generator(lm, 1, CAPACITY, 2, 1), *plain = generator(lm, 1, CAPACITY, 0, 1),
                    *two = generator(lm, 2, CAPACITY, 0, 1), *other = generator(other_lm, 1, CAPACITY, 0, 1), *none;
    samba_generation_options o = samba_generation_defaults();
    samba_generation_end end;
    o.draft = other;
    start(large, 0, 1);
    start(plain, 0, 1);
    refuse(samba_generate(large, &o, &end), SAMBA_ERROR_ARGUMENT, "vocabulary has 8 tokens and the model's 7");
    o.draft = two;
    refuse(samba_generate(large, &o, &end), SAMBA_ERROR_ARGUMENT, "the draft has 2 sequences and the model 1");
    o.draft = large;
    refuse(samba_generate(large, &o, &end), SAMBA_ERROR_ARGUMENT, "another generator");
    refuse(samba_generate(plain, &o, &end), SAMBA_ERROR_ARGUMENT, "made with draft_tokens of 1 or more");
    o.draft = plain;
    o.sampling.temperature = 1;
    o.sampling.uniform = half;
    refuse(samba_generate(large, &o, &end), SAMBA_ERROR_UNSUPPORTED, "several random numbers a token");
    samba_generator_options given = samba_generator_defaults();
    given.draft_tokens = 65;
    refuse(samba_generator_new(lm, &given, &none), SAMBA_ERROR_ARGUMENT, "draft_tokens of 0 to 64, given 65");
    given.draft_tokens = 8;
    given.capacity = 8;
    refuse(samba_generator_new(lm, &given, &none), SAMBA_ERROR_ARGUMENT, "leave no room in a capacity of 8");
    samba_generator_free(large);
    samba_generator_free(plain);
    samba_generator_free(two);
    samba_generator_free(other);
    samba_lm_free(lm);
    samba_lm_free(other_lm);
}

/* ---- no memory ---- */

static samba_status speculate(samba_context *owner, void *path)
{
    samba_lm *lm = NULL;
    samba_generator *large = NULL, *small = NULL;
    samba_generator_options o = samba_generator_defaults();
    samba_generation_options how = samba_generation_defaults();
    samba_generation_end end;
    o.threads = 1, o.chunk = 2;
    how.max_new_tokens = 3;
    how.sampling.temperature = 1;
    samba_status status = samba_lm_open(owner, path, &lm);
    THEN(status, samba_generator_new(lm, &o, &small));
    o.draft_tokens = 1;
    THEN(status, samba_generator_new(lm, &o, &large));
    THEN(status, samba_generator_add(large, 0, (const int32_t[]){1, 2}, 2));
    how.draft = small;
    THEN(status, samba_generate(large, &how, &end));
    samba_generator_free(large);
    samba_generator_free(small);
    samba_lm_free(lm);
    return status;
}

TEST(test_no_memory)
{
    char path[300];
    samba_lm_free(model("tiny", 1, 3, 64));
    snprintf(path, sizeof path, "%s/tiny", folder);
    fail_each_allocation(speculate, path);
}

TEST_MAIN(test_greedy, test_distribution, test_truncate, test_refused, test_no_memory)
