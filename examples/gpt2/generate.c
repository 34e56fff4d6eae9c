/* SPDX-License-Identifier: Apache-2.0
 *
 * Generating text, a token at a time: a PEF of two graphs. "prefill" takes a prompt and leaves keys and values of its tokens in
 * caches, "decode" takes one token more; both read the same weights. Compiled for the sizes that are asked for, loaded, run. A
 * prompt shorter than the graph is filled up with zeros, which come after its tokens and so change nothing;
 * their keys are overwritten before any token sees them. */
#include "speed.h"

#include <argp.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    gpt2_settings s;
    const char *weights, *prompt, *folder;
    int64_t count, prompt_length, top_k, seed, threads;
    double temperature;
    bool bf16, json, measure;
} arguments;

static samba_context *context;

static void must(samba_status status)
{
    if (status == SAMBA_OK)
        return;
    fprintf(stderr, "gpt2 generate: %s\n", samba_error_message(context));
    exit(1);
}

static void refuse(const char *what)
{
    fprintf(stderr, "gpt2 generate: %s\n", what);
    exit(2);
}

/* ---- options ---- */
static const struct argp_option options[] = {
    {"weights", 'w', "FILE", 0,
     "Safetensors of GPT-2, as this program trains it or as transformers' GPT2LMHeadModel saves it (random weights)", 0},
    {"prompt", 'p', "TOKENS", 0, "Token numbers with commas between (a random prompt)", 0},
    {"prompt-length", 'l', "N", 0, "Tokens that the graph of the prompt takes (as many as the prompt has; of a random one 16)",
     0},
    {"count", 'n', "N", 0, "Tokens to generate (32)", 0},
    {"temperature", 't', "T", 0, "Draw tokens with logits divided by T; 0: always the likeliest (0)", 0},
    {"top-k", 'k', "K", 0, "Draw among the K likeliest alone (all)", 0},
    {"seed", 's', "N", 0, "Of random weights, a random prompt and drawn tokens (0)", 0},
    {"precision", 'P', "WORD", 0, "fp32, or bf16: weights and cache in bfloat16 (fp32)", 0},
    {"n-layer", 'L', "N", 0, "Transformer blocks (12)", 0},
    {"n-head", 'H', "N", 0, "Heads of an attention (12)", 0},
    {"n-embd", 'E', "N", 0, "Width (768)", 0},
    {"block-size", 'B', "N", 0, "Places of the cache: of prompt and generated tokens together, at most (1024)", 0},
    {"vocab-size", 'V', "N", 0, "Different tokens (50257)", 0},
    {"threads", 'T', "N", 0, "Threads (as many as the machine offers)", 0},
    {"output-folder", 'o', "FOLDER", 0, "Where the PEF goes (out)", 0},
    {"json", 'j', 0, 0, "Print one JSON object", 0},
    {"measure", 'm', 0, 0,
     "Measure what memory and multiply-adds give at most, between tokens and prompts, and print the share that is reached", 0},
    {0},
};

static int64_t integer(const char *text, int64_t low, int64_t high, struct argp_state *state)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (!text[0] || *end || value < low || value > high)
        argp_error(state, "'%s' is no integer from %lld to %lld", text, (long long)low, (long long)high);
    return value;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    arguments *a = state->input;
    char *end;
    switch (key) {
    case 'w': a->weights = text; break;
    case 'p': a->prompt = text; break;
    case 'l': a->prompt_length = integer(text, 1, 1 << 20, state); break;
    case 'n': a->count = integer(text, 1, 1 << 20, state); break;
    case 'k': a->top_k = integer(text, 1, 1 << 24, state); break;
    case 's': a->seed = integer(text, 0, INT64_MAX, state); break;
    case 'L': a->s.n_layer = integer(text, 1, 1024, state); break;
    case 'H': a->s.n_head = integer(text, 1, 1024, state); break;
    case 'E': a->s.n_embd = integer(text, 1, 1 << 20, state); break;
    case 'B': a->s.block_size = integer(text, 2, 1 << 20, state); break;
    case 'V': a->s.vocab_size = integer(text, 2, 1 << 24, state); break;
    case 'T': a->threads = integer(text, 1, 4096, state); break;
    case 'o': a->folder = text; break;
    case 'j': a->json = true; break;
    case 'm': a->measure = true; break;
    case 't':
        a->temperature = strtod(text, &end);
        if (!text[0] || *end || !(a->temperature >= 0) || !isfinite(a->temperature))
            argp_error(state, "--temperature %s: expected a number that is not negative", text);
        break;
    case 'P':
        a->bf16 = strcmp(text, "bf16") == 0;
        if (!a->bf16 && strcmp(text, "fp32") != 0)
            argp_error(state, "--precision %s: expected fp32 or bf16", text);
        break;
    case ARGP_KEY_ARG: argp_error(state, "what is '%s'? Options begin with --", text); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- the prompt ---- */
static int64_t *read_prompt(const arguments *a, int64_t *length)
{
    int64_t room = a->prompt ? (int64_t)strlen(a->prompt) / 2 + 1 : a->prompt_length ? a->prompt_length : 16;
    int64_t *tokens = calloc((size_t)room, sizeof *tokens);
    if (!tokens)
        refuse("no memory for the prompt");
    *length = 0;
    if (!a->prompt) {
        samba_tensor *drawn;
        must(samba_tensor_new(context, "prompt", SAMBA_INT64, 1, &room, &drawn));
        must(samba_fill_integers(drawn, (uint64_t)a->seed, 0, a->s.vocab_size));
        memcpy(tokens, samba_tensor_data(drawn), (size_t)room * sizeof *tokens);
        samba_tensor_free(drawn);
        *length = room;
        return tokens;
    }
    for (const char *at = a->prompt; *at;) {
        char *end;
        long long token = strtoll(at, &end, 10);
        if (end == at || token < 0 || token >= a->s.vocab_size || (*end && *end != ',') || (*end == ',' && !end[1])) {
            fprintf(stderr, "gpt2 generate: --prompt: '%.20s' does not begin with a token from 0 to %lld\n", at,
                    (long long)a->s.vocab_size - 1);
            exit(2);
        }
        tokens[(*length)++] = token;
        at = *end ? end + 1 : end;
    }
    if (*length == 0)
        refuse("--prompt is empty: a prompt has one token or more");
    return tokens;
}

/* ---- the graphs ---- */
static samba_session *compile_and_load(const arguments *a, int64_t prompt_length)
{
    gpt2_step prefill = {&a->s, prompt_length, a->bf16 ? SAMBA_BFLOAT16 : SAMBA_FLOAT32}, decode = {&a->s, 1, prefill.cache};
    samba_tensor *inputs[4];
    must(samba_tensor_empty(context, "tokens", SAMBA_INT64, 1, (int64_t[]){prompt_length}, &inputs[0]));
    must(samba_tensor_empty(context, "last", SAMBA_INT64, 1, (int64_t[]){1}, &inputs[1]));
    must(samba_tensor_empty(context, "token", SAMBA_INT64, 1, (int64_t[]){1}, &inputs[2]));
    must(samba_tensor_empty(context, "position", SAMBA_INT64, 1, (int64_t[]){1}, &inputs[3]));
    samba_multigraph *graphs;
    must(samba_multigraph_new(context, &graphs));
    samba_compile_options o = samba_compile_defaults();
    o.name = "prefill", o.model = gpt2_prefill, o.model_options = &prefill, o.inputs = inputs, o.input_count = 2;
    o.inference = true, o.precision = a->bf16 ? SAMBA_BF16 : SAMBA_FP32;
    must(samba_multigraph_add(graphs, &o, false));
    o.name = "decode", o.model = gpt2_decode, o.model_options = &decode, o.inputs = inputs + 2;
    must(samba_multigraph_add(graphs, &o, false));
    char path[4096];
    must(samba_multigraph_compile(graphs, "gpt2-generate", a->folder, path, sizeof path));
    samba_multigraph_free(graphs);
    for (int i = 0; i < 4; i++)
        samba_tensor_free(inputs[i]);
    samba_session_options with = samba_session_defaults();
    with.seed = (uint64_t)a->seed, with.threads = (int)a->threads;
    samba_session *session;
    must(samba_session_new(context, path, &with, &session));
    return session;
}

/* ---- weights ---- */
/* transformers keeps the projections of GPT-2 as (in, out). */
static bool is_projection(const char *name)
{
    static const char *const endings[] = {"c_attn.weight", "c_proj.weight", "c_fc.weight"};
    for (int i = 0; i < 3; i++)
        if (strlen(name) > strlen(endings[i]) && strcmp(name + strlen(name) - strlen(endings[i]), endings[i]) == 0)
            return true;
    return false;
}

/* A tensor of a file by its name here; `prefixed`: found as transformers names it. */
static samba_tensor *find(const samba_tensor_list *list, const char *name, bool *prefixed)
{
    static const char prefix[] = "transformer.";
    for (int i = 0; i < list->count; i++) {
        const char *its = samba_tensor_name(list->tensors[i]);
        *prefixed = strncmp(its, prefix, sizeof prefix - 1) == 0;
        if (strcmp(*prefixed ? its + sizeof prefix - 1 : its, name) == 0)
            return list->tensors[i];
    }
    fprintf(stderr, "gpt2 generate: --weights: the file has no tensor '%s'\n", name);
    exit(1);
}

/* Positions beyond what the cache holds are left out. */
static void load(samba_session *session, const char *path)
{
    samba_tensor_list list = {0};
    must(samba_safetensors_read(context, path, &list));
    for (int i = 0; i < samba_session_tensor_count(session); i++) {
        samba_tensor_info info;
        must(samba_session_tensor_info(session, i, &info));
        if (info.kind != SAMBA_KIND_PARAMETER)
            continue;
        bool prefixed;
        samba_tensor *given = find(&list, info.name, &prefixed), *turned = NULL, *cut = NULL, *own;
        if (prefixed && is_projection(info.name))
            must(samba_tensor_permute(given, (int[]){1, 0}, &turned));
        if (strcmp(info.name, "wpe.weight") == 0 && samba_tensor_shape(given)[0] > info.shape[0])
            must(samba_tensor_slice(given, 0, 0, info.shape[0], 1, &cut));
        must(samba_tensor_new(context, info.name, info.dtype, info.rank, info.shape, &own));
        must(samba_tensor_copy(own, cut ? cut : turned ? turned : given));
        must(samba_session_set(session, own));
        samba_tensor_free(own);
        samba_tensor_free(turned);
        samba_tensor_free(cut);
    }
    samba_tensor_list_free(context, &list);
}

/* ---- drawing ---- */
typedef struct candidate {
    float logit;
    int32_t token;
} candidate;

static int likelier(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->token - y->token;
}

/* One token: of the top_k likeliest, or all, with probabilities softmax(logits / temperature);
 * a uniform number in [0, 1) decides. */
static int64_t draw(const float *logits, const arguments *a, candidate *room, double uniform)
{
    const int64_t vocab = a->s.vocab_size, among = a->top_k && a->top_k < vocab ? a->top_k : vocab;
    for (int64_t i = 0; i < vocab; i++)
        room[i] = (candidate){logits[i], (int32_t)i};
    qsort(room, (size_t)vocab, sizeof *room, likelier);
    double total = 0, sum = 0;
    for (int64_t i = 0; i < among; i++)
        total += exp((double)(room[i].logit - room[0].logit) / a->temperature);
    for (int64_t i = 0; i < among; i++) {
        sum += exp((double)(room[i].logit - room[0].logit) / a->temperature);
        if (sum > uniform * total)
            return room[i].token;
    }
    return room[among - 1].token;
}

/* ---- generating ---- */
typedef struct generator {
    const arguments *a;
    samba_session *session;
    samba_tensor *inputs[2][2], *logits[2], *next[2]; /* of prefill, of decode */
    candidate *room;
    int64_t drawn;
} generator;

static samba_tensor *new_tensor(const char *name, samba_dtype dtype, int64_t size)
{
    samba_tensor *tensor;
    must(samba_tensor_new(context, name, dtype, 1, &size, &tensor));
    return tensor;
}

static int64_t run(generator *g, int graph)
{
    static const char *const names[] = {"prefill", "decode"};
    bool greedy = g->a->temperature == 0;
    samba_run_options r = samba_run_defaults();
    r.graph_name = names[graph];
    r.inputs = g->inputs[graph], r.input_count = 2;
    r.outputs = greedy ? &g->next[graph] : &g->logits[graph], r.output_count = 1;
    must(samba_run(g->session, &r));
    if (greedy)
        return *(int64_t *)samba_tensor_data(g->next[graph]);
    samba_tensor *uniform = new_tensor("uniform", SAMBA_FLOAT64, 1);
    must(samba_fill_uniform(uniform, (uint64_t)(g->a->seed * 1000003 + g->drawn++), 0, 1));
    int64_t token = draw(samba_tensor_data(g->logits[graph]), g->a, g->room, *(double *)samba_tensor_data(uniform));
    samba_tensor_free(uniform);
    return token;
}

/* The prompt some times over, then a token after the other: times of each, and of what each is held against, in turn. */
static void generate(generator *g, int64_t prompt_length, int threads, int64_t *tokens, gpt2_speed *speed)
{
    int64_t *token = samba_tensor_data(g->inputs[1][0]), *position = samba_tensor_data(g->inputs[1][1]);
    samba_reading *reading = NULL;
    if (speed->measured)
        must(samba_reading_new(context, threads, (int64_t)speed->weight_bytes, &reading));
    run(g, 0); /* packs weights, and touches memory first */
    for (int64_t i = 0; i < speed->prompts; i++) {
        g->drawn = 0;
        if (speed->measured) {
            speed->peak[i] = g->a->bf16 ? samba_measure_bf16_peak(threads) : 0; /* 0: no such instruction */
            speed->peak[i] = speed->peak[i] > 0 ? speed->peak[i] : samba_measure_fma_peak(threads);
        }
        double start = gpt2_seconds();
        tokens[0] = run(g, 0);
        speed->prefill[i] = gpt2_seconds() - start;
    }
    for (int64_t i = 1; i < g->a->count; i++) {
        *token = tokens[i - 1];
        *position = prompt_length - 1 + i;
        if (reading)
            speed->read[i - 1] = samba_reading_pass(reading);
        double start = gpt2_seconds();
        tokens[i] = run(g, 1);
        speed->step[i - 1] = gpt2_seconds() - start;
    }
    samba_reading_free(reading);
}

static void print(const arguments *a, gpt2_speed *speed, const int64_t *tokens)
{
    if (a->json) {
        printf("{");
        gpt2_speed_print(speed, true);
        printf(", \"tokens\": [");
    }
    for (int64_t i = 0; i < a->count; i++)
        printf("%s%lld", i == 0 ? "" : a->json ? ", " : ",", (long long)tokens[i]);
    puts(a->json ? "]}" : "\n");
    if (!a->json)
        gpt2_speed_print(speed, false);
}

int gpt2_generate(int argc, char **argv)
{
    arguments a = {
        .s = {.n_layer = 12, .n_head = 12, .n_embd = 768, .block_size = 1024, .vocab_size = 50257}, .count = 32, .folder = "out"};
    static const struct argp parser = {options, parse, 0, "Generates tokens by GPT-2 with a cache of keys and values.", 0, 0, 0};
    argp_parse(&parser, argc, argv, 0, 0, &a);
    must(samba_context_new(NULL, &context));
    if (a.s.n_embd % a.s.n_head)
        refuse("--n-head must divide --n-embd: every head gets an equal part of the width");
    int64_t length;
    int64_t *prompt = read_prompt(&a, &length), room = a.prompt_length > length ? a.prompt_length : length;
    if (room > a.s.block_size || length + a.count - 1 > a.s.block_size)
        refuse("prompt and generated tokens do not fit the cache: give a larger --block-size, or a smaller --count");
    int threads = a.threads ? (int)a.threads : omp_get_max_threads();
    generator g = {.a = &a, .session = compile_and_load(&a, room)};
    gpt2_speed speed = {.measured = a.measure,
                        .prompt = room,
                        .prompts = a.measure ? GPT2_PROMPTS : 1,
                        .steps = a.count - 1,
                        .flops = gpt2_prompt_flops(&a.s, room)};
    if (a.weights)
        load(g.session, a.weights);
    speed.weight_bytes = gpt2_weight_bytes(g.session, a.bf16);
    g.inputs[0][0] = new_tensor("tokens", SAMBA_INT64, room), g.inputs[0][1] = new_tensor("last", SAMBA_INT64, 1);
    g.inputs[1][0] = new_tensor("token", SAMBA_INT64, 1), g.inputs[1][1] = new_tensor("position", SAMBA_INT64, 1);
    g.logits[0] = new_tensor("prefill.logits", SAMBA_FLOAT32, a.s.vocab_size),
    g.next[0] = new_tensor("prefill.next", SAMBA_INT64, 1);
    g.logits[1] = new_tensor("decode.logits", SAMBA_FLOAT32, a.s.vocab_size),
    g.next[1] = new_tensor("decode.next", SAMBA_INT64, 1);
    g.room = malloc(sizeof *g.room * (size_t)a.s.vocab_size);
    speed.step = malloc(sizeof *speed.step * (size_t)a.count), speed.read = malloc(sizeof *speed.read * (size_t)a.count);
    int64_t *tokens = malloc(sizeof *tokens * (size_t)a.count);
    if (!g.room || !tokens || !speed.step || !speed.read)
        refuse("no memory");
    memset(samba_tensor_data(g.inputs[0][0]), 0, sizeof(int64_t) * (size_t)room);
    memcpy(samba_tensor_data(g.inputs[0][0]), prompt, sizeof(int64_t) * (size_t)length);
    *(int64_t *)samba_tensor_data(g.inputs[0][1]) = length - 1;
    generate(&g, length, threads, tokens, &speed);
    print(&a, &speed, tokens);
    for (int i = 0; i < 2; i++) {
        samba_tensor *of_graph[] = {g.inputs[i][0], g.inputs[i][1], g.logits[i], g.next[i]};
        for (int k = 0; k < 4; k++)
            samba_tensor_free(of_graph[k]);
    }
    free(g.room);
    free(tokens);
    free(speed.step);
    free(speed.read);
    free(prompt);
    samba_session_free(g.session);
    samba_context_free(context);
    return 0;
}
