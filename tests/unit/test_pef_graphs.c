/* SPDX-License-Identifier: Apache-2.0
 *
 * The graphs of a PEF: what the check says of a list of them that is wrong, one change and one message each, and files of version 3, which have none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "written_pef.h"
#include "pef/format.h"

#include <unistd.h>

static void assert_message(fixture *f, samba_status status, const char *part)
{
    if (status != SAMBA_ERROR_FORMAT || !strstr(samba_error_message(f->context), part))
        fail_msg("status %s, message \"%s\" lacks \"%s\"", samba_status_name(status), samba_error_message(f->context), part);
}

/* ---- changes ---- */
static void no_graph(samba_plan *p) { p->graph_count = 0; }
static void graph_textless(samba_plan *p) { p->graphs[0].text = NULL; }
static void graph_precision(samba_plan *p) { p->graphs[0].precision = -1; }
static void graph_inference(samba_plan *p) { p->graphs[0].inference = 2; }
static void graph_section(samba_plan *p) { p->graphs[0].section_count--, p->graphs[0].call_count--; }
static void graph_sections(samba_plan *p) { p->graphs[0].section_count = INT32_MAX; }
static void graph_first(samba_plan *p) { p->graphs[0].first_section = 1; }
static void graph_call(samba_plan *p) { p->graphs[0].first_call = -1; }
static void graph_calls(samba_plan *p) { p->graphs[0].call_count = -1; }
static void graph_tensor(samba_plan *p) { p->graphs[0].tensors[0] = -1; }
static void graph_tensors(samba_plan *p) { p->graphs[0].tensors[1] = p->tensor_count; }
static void graph_twice(samba_plan *p) { p->graphs[0].tensors[2] = p->graphs[0].tensors[1]; }
static void graph_many(samba_plan *p) { p->graphs[0].tensor_count = -1; }
static void two_graphs(samba_plan *p, int32_t sections) /* all after `sections` is another one's */
{
    static samba_plan_graph graphs[2];
    graphs[0] = graphs[1] = p->graphs[0];
    graphs[1].name = (char *)(uintptr_t)"second";
    graphs[0].section_count = graphs[0].call_count = graphs[1].first_section = graphs[1].first_call = sections;
    graphs[1].section_count = graphs[1].call_count = p->section_count - sections;
    p->graphs = graphs;
    p->graph_count = 2;
}
static void graphs_alike(samba_plan *p) { two_graphs(p, 2), p->graphs[1].name = p->graphs[0].name; }
static void graph_nameless(samba_plan *p) { two_graphs(p, 2), p->graphs[1].name = NULL; }
static void foreign_call(samba_plan *p) { two_graphs(p, 2), p->calls[2] = 1; }
static void redone_elsewhere(samba_plan *p) { two_graphs(p, 2), p->sections[1].redone_by = 2; }

static const struct {
    void (*change)(samba_plan *plan);
    const char *message;
} cases[] = {
    {no_graph, "no name or no graph"},
    {graph_textless, "no name or no text"},
    {graph_precision, "precision is -1"},
    {graph_inference, "inference is 2"},
    {graph_section, "1 sections and 1 calls belong to no graph"},
    {graph_sections, "2147483647 sections from 0"},
    {graph_first, "4 sections from 1"},
    {graph_call, "4 calls from -1 on"},
    {graph_calls, "-1 calls from 0 on"},
    {graph_tensor, "tensor 0 of its list is none of"},
    {graph_tensors, "tensor 1 of its list is none of"},
    {graph_twice, "tensor 2 of its list is none of"},
    {graph_many, "-1 tensors"},
    {graphs_alike, "twice"},
    {graph_nameless, "graph 1 has no name"},
    {foreign_call, "graph \"second\": its call 0 is of section 1, and its own are the 2 from 2 on"},
    {redone_elsewhere, "section 1: redone by phase 2, but no section of that phase comes after it"},
};

static void test_check(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        begin(&f, false);
        cases[i].change(&f.plan);
        assert_message(&f, samba_plan_check(f.context, &f.plan), cases[i].message);
        end(&f);
    }
}

static void test_two(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, false);
    samba_plan plan;
    two_graphs(&f.plan, 2);
    assert_int_equal(samba_pef_write(f.context, &f.plan, path), SAMBA_OK);
    assert_int_equal(samba_pef_read(f.context, path, &plan), SAMBA_OK);
    assert_int_equal(plan.graph_count, 2);
    for (int i = 0; i < 2; i++) {
        const samba_plan_graph *a = &plan.graphs[i], *b = &f.plan.graphs[i];
        assert_string_equal(a->name, b->name);
        assert_string_equal(a->text, b->text);
        assert_true(a->hash == b->hash && a->first_section == 2 * i && a->section_count == 2 && a->first_call == 2 * i && a->call_count == 2);
        assert_int_equal(a->tensor_count, b->tensor_count);
        assert_memory_equal(a->tensors, b->tensors, (size_t)a->tensor_count * sizeof *a->tensors);
    }
    assert_int_equal(samba_plan_graph_of(&plan, 1), 0);
    assert_int_equal(samba_plan_graph_of(&plan, 2), 1);
    samba_plan_free(&plan);
    end(&f);
}

/* The file as version 3 has it: facts of the one graph are fields of the plan, and there is no list of graphs. */
static size_t as_version_3(const fixture *f, char *bytes)
{
    const samba_plan_graph *graph = &f->plan.graphs[0];
    samba_pef_header header;
    memcpy(&header, f->bytes, sizeof header);
    const uint8_t *from = (const uint8_t *)f->bytes + header.message_offset, *end = from + header.message_length;
    uint8_t *to = (uint8_t *)bytes + header.message_offset;
    while (from < end) { /* field by field; all but the graphs, number 19 */
        const uint8_t *field = from;
        uint64_t tag = 0, length = 0;
        for (int shift = 0, more = 1; more; shift += 7, from++)
            tag |= (uint64_t)(*from & 127) << shift, more = *from & 128;
        if (tag % 8 == 0)
            while (*from++ & 128)
                ;
        else if (tag % 8 == 1)
            from += 8;
        else
            for (int shift = 0, more = 1; more; shift += 7, from++)
                length |= (uint64_t)(*from & 127) << shift, more = *from & 128;
        from += length;
        if (tag / 8 != 19) {
            memcpy(to, field, (size_t)(from - field));
            to += from - field;
        }
    }
    size_t text = strlen(graph->text);
    assert_true(text < 128);
    *to++ = 2 << 3 | 2, *to++ = (uint8_t)text;
    memcpy(to, graph->text, text);
    to += text;
    *to++ = 3 << 3 | 1;
    memcpy(to, &graph->hash, 8);
    to += 8;
    *to++ = 5 << 3, *to++ = (uint8_t)graph->inference;
    *to++ = 6 << 3, *to++ = (uint8_t)graph->grad_accumulation_steps;
    *to++ = 0x80 | (16 << 3 & 127), *to++ = 1, *to++ = (uint8_t)graph->precision;
    header.version = 3;
    header.message_length = (char *)to - bytes - header.message_offset;
    int64_t constants = samba_pef_align(header.message_offset + header.message_length);
    memset(to, 0, (size_t)(constants - ((char *)to - bytes)));
    memcpy(bytes + constants, (const char *)f->bytes + header.constants_offset, (size_t)header.constants_length);
    header.constants_offset = constants;
    header.file_length = constants + header.constants_length;
    memcpy(bytes, &header, sizeof header);
    seal(bytes, (size_t)header.file_length);
    return (size_t)header.file_length;
}

static void test_older_version(void **unused)
{
    (void)unused;
    for (int zoo = 0; zoo < 2; zoo++) {
        fixture f;
        begin(&f, zoo);
        char *bytes = calloc(1, f.size + 256);
        size_t size = as_version_3(&f, bytes);
        samba_plan plan;
        if (samba_pef_decode(f.context, "test.pef", bytes, size, &plan) != SAMBA_OK)
            fail_msg("%s", samba_error_message(f.context));
        assert_int_equal(samba_pef_write(f.context, &plan, path), SAMBA_OK); /* as this version writes it */
        void *again;
        size_t length;
        assert_int_equal(samba_file_read(f.context, path, &again, &length), SAMBA_OK);
        assert_int_equal(length, f.size);
        assert_memory_equal(again, f.bytes, length);
        samba_free(f.context, again, length);
        samba_plan_free(&plan);
        samba_pef_header header;
        memcpy(&header, bytes, sizeof header);
        header.version = 4; /* without graphs */
        memcpy(bytes, &header, sizeof header);
        seal(bytes, size);
        assert_message(&f, samba_pef_decode(f.context, "test.pef", bytes, size, &plan), "no name or no graph");
        memcpy(bytes, f.bytes, f.size);
        memcpy(&header, bytes, sizeof header);
        header.version = 3; /* with graphs */
        memcpy(bytes, &header, sizeof header);
        seal(bytes, f.size);
        assert_message(&f, samba_pef_decode(f.context, "test.pef", bytes, f.size, &plan), "the message is not that of version 3");
        free(bytes);
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check), cmocka_unit_test(test_two), cmocka_unit_test(test_older_version)};
    snprintf(path, sizeof path, "/tmp/sambaflow-pef-graphs-%d.pef", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
