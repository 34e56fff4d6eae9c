/* SPDX-License-Identifier: Apache-2.0
 *
 * What `sambaflow lm serve` makes of a request's body, without a connection: parameters and their refusals, prompts as tokens,
 * messages as a template takes them, texts as they grow and end, answers as objects; and memory that is refused.
 * tests/e2e/serve.sh and tests/python/test_serve.py ask a server. */
#include "harness.h"
#include "failing_allocator.h"
#include "serve/serve.h"

static const char TOKENIZER[] =
    "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"},"
    "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", \"vocab\": {\"?\": "
    "0,"
    "\"a\": 1, \"b\": 2, \"c\": 3, \"d\": 4}}}";
static const char TEMPLATE[] = "{% for m in messages %}{{ m.role[0] }} {{ m.content }} {% endfor %}a";

typedef struct made { /* of a body */
    samba_context *context;
    samba_tokenizer *tokenizer;
    samba_chat_template *template;
    samba_serve_model model;
    samba_serve_request request;
    samba_serve_job *job;
} made;

static samba_status make(samba_context *owner, samba_serve_kind kind, const char *body, made *m)
{
    static const int32_t stop_ids[] = {4};
    *m = (made){.context = owner};
    samba_status status = samba_tokenizer_open_memory(owner, TOKENIZER, sizeof TOKENIZER - 1, &m->tokenizer);
    THEN(status, samba_chat_template_open(owner, NULL, TEMPLATE, &m->template));
    m->model = (samba_serve_model){.context = owner,
                                   .name = "m",
                                   .tokenizer = m->tokenizer,
                                   .template = m->template,
                                   .stop_ids = stop_ids,
                                   .stop_count = 1,
                                   .vocab = 5,
                                   .capacity = 8};
    THEN(status, samba_serve_request_read(owner, kind, body, strlen(body), &m->request));
    THEN(status, samba_serve_job_new(owner, &m->model, &m->request, &m->job));
    return status;
}

static void unmake(made *m)
{
    samba_serve_job_free(m->job);
    samba_serve_request_free(&m->request);
    samba_chat_template_free(m->template);
    samba_tokenizer_free(m->tokenizer);
}

static void refused_as(samba_serve_kind kind, const char *body, const char *param, const char *code, const char *words)
{
    made m;
    refuse(make(context, kind, body, &m), SAMBA_ERROR_ARGUMENT, words);
    assert_int_equal(m.request.problem.status, 400);
    assert_string_equal(m.request.problem.param, param);
    assert_string_equal(m.request.problem.code, code);
    unmake(&m);
}

static void refused(const char *body, const char *param, const char *code, const char *words)
{
    refused_as(SAMBA_SERVE_COMPLETION, body, param, code, words);
}

static void chat_refused(const char *body, const char *param, const char *code, const char *words)
{
    refused_as(SAMBA_SERVE_CHAT, body, param, code, words);
}

TEST(test_parameters)
{
    made m;
    need(make(context, SAMBA_SERVE_COMPLETION,
              "{\"model\": \"m\", \"prompt\": \"a b\", \"max_tokens\": 3, \"temperature\": 0.5, \"top_p\": 1, \"top_k\": 4,"
              "\"min_p\": 0.25, \"repetition_penalty\": 2, \"seed\": -1, \"n\": 2, \"stop\": [\"x\", \"yy\"], \"stream\": true,"
              "\"stream_options\": {\"include_usage\": true}, \"echo\": true, \"user\": \"u\", \"logprobs\": null}",
              &m));
    const samba_serve_request *r = &m.request;
    assert_string_equal(r->model, "m");
    assert_int_equal(r->max_tokens, 3);
    assert_true(r->sampling.temperature == 0.5 && r->sampling.top_p == 1 && r->sampling.min_p == 0.25);
    assert_true(r->sampling.repetition_penalty == 2 && r->sampling.top_k == 4 && r->sampling.seed == UINT64_MAX);
    assert_true(r->seeded && r->stream && r->usage && r->echo);
    assert_int_equal(r->stop_count, 2);
    assert_string_equal(r->stops[1], "yy");
    assert_int_equal(m.job->text_count, 2);
    assert_int_equal(m.job->most, 3);
    assert_int_equal(m.job->texts[1].place, 1);
    assert_int_equal(m.job->texts[1].settled, 3); /* echo */
    unmake(&m);
    need(make(context, SAMBA_SERVE_COMPLETION, "{\"prompt\": \"a\"}", &m));
    assert_true(m.request.sampling.temperature == 1 && !m.request.seeded && m.job->most == 16);
    unmake(&m);
}

TEST(test_prompts)
{
    made m;
    need(make(context, SAMBA_SERVE_COMPLETION, "{\"prompt\": [\"a\", \"b c\"], \"n\": 2}", &m));
    assert_int_equal(m.job->prompt_count, 2);
    assert_int_equal(m.job->text_count, 4);
    assert_int_equal(m.job->texts[2].prompt_count, 2);
    assert_int_equal(m.job->texts[2].prompt[1], 3);
    assert_int_equal(m.job->texts[3].place, 1);
    unmake(&m);
    need(make(context, SAMBA_SERVE_COMPLETION, "{\"prompt\": [1, 2, 3], \"echo\": true}", &m));
    assert_int_equal(m.job->prompt_count, 1);
    assert_int_equal(m.job->texts[0].prompt_count, 3);
    assert_memory_equal(m.job->texts[0].text, "a b c", 5);
    unmake(&m);
    need(make(context, SAMBA_SERVE_COMPLETION, "{\"prompt\": [[1], [2, 3]]}", &m));
    assert_int_equal(m.job->texts[1].prompt_count, 2);
    unmake(&m);
}

TEST(test_messages)
{
    made m;
    need(make(context, SAMBA_SERVE_CHAT,
              "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": null}, {\"role\": \"beta\","
              "\"content\": [{\"type\": \"text\", \"text\": \"c\"}, {\"type\": \"text\", \"text\": \" d\"}], \"name\": \"x\"}]}",
              &m));
    assert_int_equal(m.job->most, 8);
    const int32_t ids[] = {1, 2, 3, 4, 1}; /* a, b c d, a */
    assert_int_equal(m.job->texts[0].prompt_count, 5);
    assert_memory_equal(m.job->texts[0].prompt, ids, sizeof ids);
    unmake(&m);
}

TEST(test_refused)
{
    refused("", "", "invalid_json", "the body is no JSON");
    refused("[]", "", "invalid_json", "the body is a list: expected an object");
    refused("{\"prompt\": \"a\", \"prompt\": \"b\"}", "", "invalid_json", "no JSON");
    refused("{\"prompt\": \"a\xff\"}", "", "invalid_json", "no JSON");
    refused("{\"prompt\": \"\\ud800\"}", "", "invalid_json", "no JSON");
    refused("{\"prompt\": \"a\", \"max_token\": 1}", "max_token", "unknown_parameter", "did you mean 'max_tokens'?");
    refused("{\"prompt\": \"a\", \"messages\": []}", "messages", "unknown_parameter", "no parameter 'messages'");
    refused("{}", "prompt", "missing_required_parameter", "there is no prompt");
    refused("{\"prompt\": []}", "prompt", "empty_array", "empty");
    refused("{\"prompt\": {}}", "prompt", "invalid_type", "given an object");
    refused("{\"prompt\": [\"a\", 1]}", "prompt", "invalid_type", "given a whole number");
    refused("{\"prompt\": [[1, \"a\"]]}", "prompt", "invalid_type", "given a text");
    refused("{\"prompt\": \"\"}", "prompt", "invalid_value", "has no tokens");
    refused("{\"prompt\": [[]]}", "prompt", "invalid_value", "has no tokens");
    refused("{\"prompt\": [1, 5]}", "prompt", "invalid_value",
            "prompt: the id at place 1 (from 0) is none of the model's vocabulary of 5 tokens");
    refused("{\"prompt\": \"a a a a a a a a\"}", "prompt", "context_length_exceeded", "has 8 tokens and there is room for 8");
    refused("{\"prompt\": \"a\", \"max_tokens\": 0}", "max_tokens", "invalid_value", "from 1 to 2147483647");
    refused("{\"prompt\": \"a\", \"max_tokens\": 1.5}", "max_tokens", "invalid_type", "given a number");
    refused("{\"prompt\": \"a\", \"n\": 129}", "n", "invalid_value", "from 1 to 128");
    refused("{\"prompt\": [\"a\", \"b\"], \"n\": 65}", "n", "invalid_value", "more than the 128 texts");
    refused("{\"prompt\": \"a\", \"stream\": 1}", "stream", "invalid_type", "expected true or false");
    refused("{\"prompt\": \"a\", \"stop\": [\"\"]}", "stop", "invalid_value", "an empty text is everywhere");
    refused("{\"prompt\": \"a\", \"stop\": 1}", "stop", "invalid_type", "a list of texts");
    refused("{\"prompt\": \"a\", \"temperature\": -1}", "temperature", "invalid_value", "from 0");
    refused("{\"prompt\": \"a\", \"temperature\": 0, \"top_p\": 0.5}", "top_p", "invalid_value", "has no effect");
    refused("{\"prompt\": \"a\", \"top_p\": 0}", "top_p", "invalid_value", "above 0 and at most 1");
    refused("{\"prompt\": \"a\", \"min_p\": 1}", "min_p", "invalid_value", "below 1");
    refused("{\"prompt\": \"a\", \"repetition_penalty\": 0}", "repetition_penalty", "invalid_value", "above 0");
    refused("{\"prompt\": \"a\", \"stream_options\": {\"include_usage\": true}}", "stream_options", "invalid_value", "no effect");
    refused("{\"prompt\": \"a\", \"stream_options\": {\"x\": 1}}", "stream_options", "unknown_parameter", "given 'x'");
    refused("{\"prompt\": \"a\", \"frequency_penalty\": 0.5}", "frequency_penalty", "unsupported_parameter",
            "or give one of [0]");
    refused("{\"prompt\": \"a\", \"logprobs\": 3}", "logprobs", "unsupported_parameter", "leave it out");
    chat_refused("{\"messages\": []}", "messages", "invalid_type", "at least one message");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [{}]}", "tools", "unsupported_parameter",
                 "tools is not supported here");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"response_format\": {\"type\": \"json_object\"}}",
                 "response_format", "unsupported_parameter", "{\"type\": \"text\"}");
    chat_refused("{\"messages\": [{\"content\": \"a\"}]}", "messages[0]", "invalid_type", "\"role\"");
    chat_refused("{\"messages\": [{\"role\": \"user\"}]}", "messages[0]", "invalid_type", "a \"content\"");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\", \"image_url\": 1}]}]}",
                 "messages[0].content[0].image_url", "unsupported_parameter", "a part has a type and a text");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": 1}]}", "messages[0].content", "invalid_type",
                 "a list of parts");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}", "messages[0].content[0]",
                 "unsupported_parameter", "'image_url' is not supported here");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"tool_call_id\": \"x\"}]}",
                 "messages[0].tool_call_id", "unsupported_parameter", "not supported here");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"max_tokens\": 1, \"max_completion_tokens\": 2}",
                 "max_tokens", "invalid_value", "differ");
    chat_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"a a a a a a\"}]}", "messages", "context_length_exceeded",
                 "has 8 tokens");
}

TEST(test_deep)
{
    enum { DEEP = 100000 };
    char *body = malloc(2 * DEEP + 64);
    samba_serve_request request;
    assert_non_null(body);
    int length = sprintf(body, "{\"prompt\": ");
    memset(body + length, '[', DEEP);
    memset(body + length + DEEP, ']', DEEP);
    body[length + 2 * DEEP] = '}';
    refuse(samba_serve_request_read(context, SAMBA_SERVE_COMPLETION, body, (size_t)length + 2 * DEEP + 1, &request),
           SAMBA_ERROR_ARGUMENT, "maximum parsing depth");
    samba_serve_request_free(&request);
    free(body);
}

/* Tokens of the vocabulary one after the other: what is settled after each, and how the text ends. */
static void grow(const char *parameters, const int32_t *ids, int count, const int64_t *settled, const char *text,
                 samba_serve_end end)
{
    char body[256];
    made m;
    snprintf(body, sizeof body, "{\"prompt\": \"a\"%s}", parameters);
    need(make(context, SAMBA_SERVE_COMPLETION, body, &m));
    samba_serve_text *t = &m.job->texts[0];
    for (int i = 0; i < count; i++) {
        assert_int_equal(t->end, 0);
        need(samba_serve_text_take(&m.model, t, ids[i]));
        assert_int_equal(t->settled, settled[i]);
    }
    assert_int_equal(t->end, end);
    assert_int_equal(t->made, count);
    assert_int_equal(t->length, strlen(text));
    assert_memory_equal(t->text, text, strlen(text));
    unmake(&m);
}

TEST(test_texts)
{
    const int32_t ids[] = {1, 2, 3, 1, 2, 4};
    grow("", ids, 6, (const int64_t[]){1, 3, 5, 7, 9, 9}, "a b c a b", SAMBA_SERVE_STOP);
    grow(", \"max_tokens\": 2", ids, 2, (const int64_t[]){1, 3}, "a b", SAMBA_SERVE_LENGTH);
    grow(", \"stop\": \"b c\"", ids, 3, (const int64_t[]){1, 2, 2}, "a ", SAMBA_SERVE_STOP);
    grow(", \"stop\": [\"b a\", \"c a\"]", ids, 4, (const int64_t[]){1, 2, 4, 4}, "a b ", SAMBA_SERVE_STOP);
    grow(", \"stop\": \"b d\", \"max_tokens\": 2", ids, 2, (const int64_t[]){1, 3}, "a b", SAMBA_SERVE_LENGTH);
}

static void object_is(json_t *object, const char *path, const char *expected)
{
    char *text = object ? json_dumps(object, JSON_SORT_KEYS) : NULL;
    assert_non_null(text);
    if (!strstr(text, expected))
        fail_msg("%s: %s has no %s", path, text, expected);
    free(text);
    json_decref(object);
}

TEST(test_answers)
{
    made m;
    samba_serve_head head;
    need(make(context, SAMBA_SERVE_COMPLETION, "{\"prompt\": \"a\", \"max_tokens\": 1}", &m));
    need(samba_serve_text_take(&m.model, &m.job->texts[0], 2));
    samba_serve_head_init(&head, SAMBA_SERVE_COMPLETION, "m");
    object_is(samba_serve_whole(&head, m.job), "a completion",
              "\"choices\": [{\"finish_reason\": \"length\", \"index\": 0, \"logprobs\": null, \"text\": \"b\"}]");
    object_is(samba_serve_whole(&head, m.job), "usage",
              "\"usage\": {\"completion_tokens\": 1, \"prompt_tokens\": 1, \"prompt_tokens_details\": {\"cached_tokens\": 0}, "
              "\"total_tokens\": 2}");
    object_is(samba_serve_piece(&head, m.job, 0, "x", 1, 0, false), "a piece", "\"finish_reason\": null");
    samba_serve_head_init(&head, SAMBA_SERVE_CHAT, "m");
    object_is(samba_serve_whole(&head, m.job), "a chat",
              "\"message\": {\"content\": \"b\", \"refusal\": null, \"role\": \"assistant\"}");
    object_is(samba_serve_piece(&head, m.job, 0, "", 0, 0, true), "the first piece", "\"delta\": {\"content\": \"\", \"role\": ");
    object_is(samba_serve_piece(&head, m.job, 0, "", 0, SAMBA_SERVE_STOP, false), "the end",
              "{\"delta\": {}, \"finish_reason\": \"stop\"");
    object_is(samba_serve_error(503, "a \xff b", "", NULL), "an error",
              "{\"error\": {\"code\": null, \"message\": \"a \\\\xff b\", \"param\": null, \"type\": \"server_error\"}}");
    unmake(&m);
}

static samba_status scenario(samba_context *owner, void *body)
{
    made m;
    samba_status status = make(owner, SAMBA_SERVE_CHAT, body, &m);
    for (int32_t id = 1; id < 4; id++)
        THEN(status, samba_serve_text_take(&m.model, &m.job->texts[0], id));
    unmake(&m);
    return status;
}

TEST(test_memory)
{
    static char body[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"b c\"}]}], \"n\": 2, "
        "\"stop\": \"x\", \"seed\": 1}";
    fail_each_allocation(scenario, body);
}

TEST_MAIN(test_parameters, test_prompts, test_messages, test_refused, test_deep, test_texts, test_answers, test_memory)
