/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat templates written by hand: texts are those that jinja2 3.1.6 gives as transformers sets it up; what is refused and how it
 * is said; bounds on time and memory; memory that is refused; spans; folders. tests/python/test_chat.py compares many more. */
#include "harness.h"
#include "failing_allocator.h"

#include <sambaflow/text.h>

#define TALK                                                                                                                     \
    "[{\"role\": \"user\", \"content\": \" Hi \\u00e9\"}, {\"role\": \"assistant\", \"content\": \"You\", \"name\": null}]"
#define CHATML                                                                                                                   \
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m.content | trim + '<|im_end|>' }}\n{% endfor %}"            \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

static void check(const char *source, const char *expected)
{
    samba_chat_template *t;
    samba_chat_text text;
    need(samba_chat_template_open(context, NULL, source, &t));
    need(samba_chat_render(context, t, TALK, strlen(TALK), NULL, &text));
    assert_string_equal(text.text, expected);
    assert_int_equal(text.length, strlen(expected));
    assert_int_equal(text.span_count, 0);
    samba_chat_text_free(context, &text);
    samba_chat_template_free(t);
}

TEST(test_conversation)
{
    samba_chat_template *t;
    samba_chat_text text;
    const samba_chat_options options = {.struct_size = sizeof options, .add_generation_prompt = true};
    check(CHATML, "<|im_start|>user\nHi \xc3\xa9<|im_end|>\n<|im_start|>assistant\nYou<|im_end|>\n");
    need(samba_chat_template_open(context, NULL, CHATML, &t));
    need(samba_chat_render(context, t, TALK, strlen(TALK), &options, &text));
    assert_string_equal(text.text, "<|im_start|>user\nHi \xc3\xa9<|im_end|>\n<|im_start|>assistant\nYou<|im_end|>\n"
                                   "<|im_start|>assistant\n");
    samba_chat_text_free(context, &text);
    samba_chat_text_free(context, &text);
    samba_chat_template_free(t);
}

TEST(test_white_space)
{
    check("a\n  {% if true %}\nb\n  {%- endif -%}  \n c\n", "a\nbc");
    check("  {{ 1 -}}  \n {{- 2 }}\n{# note #}\n  {#- x -#}  d\n\n", "  12\nd\n");
    check("{% raw %}{{ x }}{% endraw %}\nx", "{{ x }}x");
    check("a {%+ if true +%}\n b{% endif %}", "a \n b");
    check("a\r\nb\r{{ 'c\r\nd' }}", "a\nb\nc\nd");
}

TEST(test_values)
{
    check("{{ 7 // 2 }} {{ -7 % 3 }} {{ 1 / 4 }} {{ 2 ** 10 }} {{ 1e16 }} {{ 0.1 + 0.2 }}",
          "3 2 0.25 1024 1e+16 0.30000000000000004");
    check("{{ [1, 'a\\'', none, true, 1.0] }} {{ (1,) }} {{ {'a': {}} }}", "[1, \"a'\", None, True, 1.0] (1,) {'a': {}}");
    check("{{ 'h\xc3\xa9llo'[::-1] }} {{ 'h\xc3\xa9llo'[1:3] }} {{ messages[-1].role }} {{ [1,2,3][1:] }}",
          "oll\xc3\xa9h \xc3\xa9l assistant [2, 3]");
    check("{{ 1 < 2 < 3 }} {{ 'a' in 'cat' }} {{ 'x' not in messages[0] }} {{ 1 if false }}.", "True True True .");
    check("{{ x is defined }} {{ x }} {{ messages[1].name is defined }} {{ tools is none }}", "False  False True");
    check("{{ '\\xe9\\n' ~ 1 ~ none }}", "\xc3\xa9\n1None");
}

TEST(test_statements)
{
    check("{% set ns = namespace(n=0) %}{% for m in messages if m.role != 'x' %}{% set ns.n = ns.n + loop.index %}"
          "{{ loop.last }}{% else %}none{% endfor %} {{ ns.n }}",
          "FalseTrue 3");
    check("{% macro f(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{{ f(1) }}{{ f(b=3, a='x') }}", "<12><x3>");
    check("{% set a, b = 1, 2 %}{% set c %}[{{ b }}]{% endset %}{{ c ~ a }}", "[2]1");
    check("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1");
    check("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}"
          "{% endfor %}",
          "02");
    check("{% with x = 1 %}{{ x }}{% endwith %}{{ x }}{% filter upper %}ab{% endfilter %}", "1AB");
    check("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{% endfor %}{{ x }}", "111");
}

TEST(test_filters)
{
    check("{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | map('trim') | join(',') }}",
          "Hi \xc3\xa9");
    check("{{ {'a': [1, 2.5, none, '\xc3\xa9\\n']} | tojson }}", "{\"a\": [1, 2.5, null, \"\xc3\xa9\\n\"]}");
    check("{{ {'a': [1], 'b': {}} | tojson(indent=2) }}", "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
    check("{{ 'a b'.split() | last | upper }}{{ x | default('d') }}{{ [3, 1] | sort | first }}", "Bd1");
    check("{{ 'stra\xc3\x9f"
          "e \xce\xa3\xce\x91\xce\xa3'.upper() }} {{ '\xce\xa3\xce\x91\xce\xa3' | lower }}",
          "STRASSE \xce\xa3\xce\x91\xce\xa3 \xcf\x83\xce\xb1\xcf\x82");
}

/* ---- what is refused ---- */
static void refused(const char *source, samba_status status, const char *words)
{
    samba_chat_template *t;
    samba_chat_text text;
    const samba_status opened = samba_chat_template_open(context, NULL, source, &t);
    if (opened != SAMBA_OK) {
        assert_null(t);
        refuse(opened, status, words);
        return;
    }
    refuse(samba_chat_render(context, t, TALK, strlen(TALK), NULL, &text), status, words);
    assert_null(text.text);
    samba_chat_template_free(t);
}

TEST(test_refused)
{
    const samba_status format = SAMBA_ERROR_FORMAT, no = SAMBA_ERROR_UNSUPPORTED;
    refused("a\n{% include 'x' %}", no, "chat template: line 2: {% include %} is not supported");
    refused("{{ 1 | wordwrap }}", no, "line 1: the filter \"wordwrap\" is not supported");
    refused("{{ 1 is odd_number }}", no, "the test \"odd_number\" is not supported");
    refused("{{ 'a'.zfill(3) }}", no, "the method \"zfill\" of a text is not supported");
    refused("{{ f(*x) }}", no, "arguments from a list or dict");
    refused("{{ 9223372036854775807 + 1 }}", no, "more than 64 bits");
    refused("{{ x.y }}", format, "line 1: 'x' is undefined");
    refused("\n\n{{ messages[0].a.b }}", format, "line 3: a dict has no 'a'");
    refused("{{ 1 + 'a' }}", format, "+ is not between an int and a text; ~ joins their texts");
    refused("{{ 1 // 0 }}", format, "a division by zero");
    refused("{{ 'a }}", format, "a text has no end");
    refused("{{ (1 }}", format, "this '}' closes nothing");
    refused("a\n{{ 1", format, "line 2: {{ has no }}");
    refused("{% if x %}", format, "line 1: the block that begins here has no {% endif %}");
    refused("{% endif %}", format, "{% endif %} is no statement");
    refused("{% for x in y %}{% endif %}", format, "nor the end of the block that begins in line 1");
    refused("{{ 1 2 }}", format, "}} is expected, and not \"2\"");
    refused("{% set 1 = 2 %}", format, "a name is expected where something is assigned to");
    refused("{% break %}", format, "is outside of a loop");
    refused("{{ raise_exception('roles\nhave to alternate') }}", SAMBA_ERROR_ARGUMENT,
            "the template refuses the conversation: roles\\x0ahave to alternate");
}

/* No template keeps the processor busy or takes all memory. */
TEST(test_bounds)
{
    const samba_status no = SAMBA_ERROR_UNSUPPORTED;
    refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", no, "takes too many steps");
    refused("{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", no,
            "too much memory");
    refused("{{ 'aaaaaaaa' * 1000000000 }}", no, "the template takes too");
    refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", no, "more than 1000 nested");
    refused("{% set ns = namespace(x=[]) %}{% for a in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", no,
            "more than 1000 nested");
    refused("{% for a in range(99999) %}{% for b in range(500) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endfor %}",
            no, "");
    char deep[4000];
    memset(deep, '(', sizeof deep);
    memcpy(deep, "{{", 2);
    deep[sizeof deep - 1] = '\0';
    refused(deep, no, "too many brackets are open");
    memset(deep + 2, '-', 2000);
    memcpy(deep + 1990, "1 }}", 5);
    refused(deep, no, "nested parts");
}

TEST(test_json)
{
    samba_chat_template *t;
    samba_chat_text text;
    samba_chat_options options = {.struct_size = sizeof options};
    need(samba_chat_template_open(context, NULL, "{{ bos_token }}{{ tools | length if tools else 0 }}{{ n }}", &t));
    refuse(samba_chat_render(context, t, "[{]", 3, NULL, &text), SAMBA_ERROR_FORMAT,
           "messages: line 1, column 3: this is no JSON");
    refuse(samba_chat_render(context, t, "[]", 2, NULL, &text), SAMBA_ERROR_FORMAT, "at least one message");
    refuse(samba_chat_render(context, t, "[{}, 1]", 7, NULL, &text), SAMBA_ERROR_FORMAT, "message 1 is no object");
    options.tools = "{}";
    refuse(samba_chat_render(context, t, "[{}]", 4, &options, &text), SAMBA_ERROR_FORMAT, "tools: a list of objects");
    options.tools = "[{}]";
    options.variables = "{\"tools\": 1}";
    refuse(samba_chat_render(context, t, "[{}]", 4, &options, &text), SAMBA_ERROR_ARGUMENT, "\"tools\" is given by itself");
    options.variables = "{\"n\": 0.5, \"bos_token\": \"<s>\"}";
    need(samba_chat_render(context, t, "[{}]", 4, &options, &text));
    assert_string_equal(text.text, "<s>10.5");
    samba_chat_text_free(context, &text);
    options.spans = true;
    refuse(samba_chat_render(context, t, "[{}]", 4, &options, &text), SAMBA_ERROR_UNSUPPORTED, "are not marked in it");
    samba_chat_template_free(t);
    char deep[1000];
    memset(deep, '[', sizeof deep);
    need(samba_chat_template_open(context, NULL, "", &t));
    refuse(samba_chat_render(context, t, deep, sizeof deep, NULL, &text), SAMBA_ERROR_FORMAT, "this is no JSON");
    samba_chat_template_free(t);
    refuse(samba_chat_template_open(context, NULL, NULL, &t), SAMBA_ERROR_ARGUMENT, "neither a folder nor a template");
    refuse(samba_chat_template_open(context, "/nowhere", NULL, &t), SAMBA_ERROR_FILE, "there is no such folder");
    refuse(samba_chat_template_open(context, NULL, "\xff", &t), SAMBA_ERROR_FORMAT, "it is no UTF-8");
}

TEST(test_spans)
{
    samba_chat_template *t;
    samba_chat_text text;
    const samba_chat_options options = {.struct_size = sizeof options, .spans = true};
    need(samba_chat_template_open(context, NULL,
                                  "{% for m in messages %}{% if m.role == 'assistant' %}\xc3\xa9{% generation %}{{ m.content }}!"
                                  "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
                                  &t));
    assert_true(samba_chat_template_marks(t));
    need(samba_chat_render(context, t, TALK, strlen(TALK), &options, &text));
    assert_string_equal(text.text, " Hi \xc3\xa9\xc3\xa9You!");
    assert_int_equal(text.span_count, 1);
    assert_int_equal(text.spans[0].begin, 8);
    assert_int_equal(text.spans[0].end, 12);
    samba_chat_text_free(context, &text);
    samba_chat_template_free(t);
}

/* ---- folders ---- */
static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void check_folder(const char *name, const char *tools, const char *expected)
{
    samba_chat_template *t;
    samba_chat_text text;
    const samba_chat_options options = {.struct_size = sizeof options, .tools = tools};
    need(samba_chat_template_open(context, folder, name, &t));
    need(samba_chat_render(context, t, TALK, strlen(TALK), &options, &text));
    assert_string_equal(text.text, expected);
    samba_chat_text_free(context, &text);
    samba_chat_template_free(t);
}

TEST(test_folder)
{
    samba_chat_template *t;
    refuse(samba_chat_template_open(context, folder, NULL, &t), SAMBA_ERROR_FILE, "this folder has no chat template");
    write_file("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"chat_template\": ["
                                        "{\"name\": \"default\", \"template\": \"{{ bos_token }}plain\"},"
                                        "{\"name\": \"tool_use\", \"template\": \"{{ eos_token }}tools\"},"
                                        "{\"name\": \"rag\", \"template\": \"rag\"}]}");
    check_folder(NULL, NULL, "<s>plain");
    check_folder(NULL, "[{}]", "</s>tools");
    check_folder("rag", NULL, "rag");
    check_folder("{{ eos_token }}mine", NULL, "</s>mine");
    refuse(samba_chat_template_open(context, folder, "rog", &t), SAMBA_ERROR_ARGUMENT, "no chat template of the name 'rog'");
    refuse(samba_chat_template_open(context, folder, "/nowhere/chat.jinja", &t), SAMBA_ERROR_ARGUMENT, "the text, not a path");
    write_file("chat_template.jinja", "file{{ bos_token }}\n");
    check_folder(NULL, NULL, "file<s>");
    write_file("tokenizer_config.json", "{");
    refuse(samba_chat_template_open(context, folder, NULL, &t), SAMBA_ERROR_FORMAT, "this is no JSON");
}

/* ---- memory that is refused ---- */
static samba_status scenario(samba_context *owner, void *user)
{
    const samba_chat_options options = {.struct_size = sizeof options, .spans = true, .variables = "{\"a\": [1, \"b\"]}"};
    samba_chat_template *t;
    samba_chat_text text;
    (void)user;
    samba_status status = samba_chat_template_open(owner, NULL,
                                                   "{% macro f(x) %}{{ x }}{% endmacro %}{% set ns = namespace(t='') %}"
                                                   "{% for m in messages %}{% set ns.t = ns.t + m.content|upper %}{% endfor %}"
                                                   "{{ f(ns.t) }}{{ a | tojson(indent=1) }}{% generation %}x{% endgeneration %}",
                                                   &t);
    if (status != SAMBA_OK)
        return status;
    status = samba_chat_render(owner, t, TALK, strlen(TALK), &options, &text);
    samba_chat_text_free(owner, &text);
    samba_chat_template_free(t);
    return status;
}

TEST(test_memory) { fail_each_allocation(scenario, NULL); }

TEST_MAIN(test_conversation, test_white_space, test_values, test_statements, test_filters, test_refused, test_bounds, test_json,
          test_spans, test_folder, test_memory)
