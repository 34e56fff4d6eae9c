/* SPDX-License-Identifier: Apache-2.0
 *
 * The graphs of a PEF: what the check says of a list of them that is wrong, one change and one message each;
 * what a file's message may claim of its bytes; and files of versions 3, which have no graphs, and 4, which have no blobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pef/pef.pb-c.h"
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
    graphs[1].name = (char *)(uintptr_t) "second";
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
        assert_true(a->hash == b->hash && a->first_section == 2 * i && a->section_count == 2 && a->first_call == 2 * i &&
                    a->call_count == 2);
        assert_int_equal(a->tensor_count, b->tensor_count);
        assert_memory_equal(a->tensors, b->tensors, (size_t)a->tensor_count * sizeof *a->tensors);
    }
    assert_int_equal(samba_plan_graph_of(&plan, 1), 0);
    assert_int_equal(samba_plan_graph_of(&plan, 2), 1);
    samba_plan_free(&plan);
    end(&f);
}

static Samba__Pef__Plan *unpacked(const fixture *f)
{
    samba_pef_header header;
    memcpy(&header, f->bytes, sizeof header);
    Samba__Pef__Plan *plan =
        samba__pef__plan__unpack(NULL, (size_t)header.message_length, (const uint8_t *)f->bytes + header.message_offset);
    assert_non_null(plan);
    return plan;
}

/* The file with another message, its checksums right. */
static char *packed(const fixture *f, const Samba__Pef__Plan *plan, uint32_t version, size_t *size)
{
    samba_pef_header header;
    memcpy(&header, f->bytes, sizeof header);
    const char *from = (const char *)f->bytes + header.blobs_offset;
    header.version = version;
    header.message_length = (int64_t)samba__pef__plan__get_packed_size(plan);
    header.blobs_offset = samba_pef_align(header.message_offset + header.message_length);
    header.file_length = header.blobs_offset + header.blobs_length;
    char *bytes = calloc(1, (size_t)header.file_length);
    assert_non_null(bytes);
    samba__pef__plan__pack(plan, (uint8_t *)bytes + header.message_offset);
    memcpy(bytes + header.blobs_offset, from, (size_t)header.blobs_length);
    memcpy(bytes, &header, sizeof header);
    *size = (size_t)header.file_length;
    seal(bytes, *size);
    return bytes;
}

/* What a message may claim of blobs: the zoo has two, of 20 and of 100 bytes, which take 64 and 128. */
static void blob_less_than_nothing(Samba__Pef__Plan *p) { p->blobs[1]->size = -1; }
static void blob_huge(Samba__Pef__Plan *p) { p->blobs[1]->size = INT64_MAX; }
static void blob_long(Samba__Pef__Plan *p) { p->blobs[1]->size = 129; }
static void blob_short(Samba__Pef__Plan *p) { p->blobs[1]->size = 64; }
static void blob_over_another(Samba__Pef__Plan *p) { p->blobs[1]->offset = 0; }
static void blob_behind_a_gap(Samba__Pef__Plan *p) { p->blobs[0]->offset = 64; }
static void blob_before_all(Samba__Pef__Plan *p) { p->blobs[0]->offset = -64; }
static void blob_unaligned(Samba__Pef__Plan *p) { p->blobs[1]->offset = 20; }
static void constant_of_none(Samba__Pef__Plan *p) { p->constants[1]->blob = 2; }
static void constant_of_its_own(Samba__Pef__Plan *p) { p->constants[1]->has_size = p->constants[1]->has_offset = 1; }
static void constant_without(Samba__Pef__Plan *p) { p->constants[0]->has_blob = 0; }
static void literal_of_none(Samba__Pef__Plan *p) { p->graphs[0]->literals[1] = INT32_MIN; }
static void roleless(Samba__Pef__Plan *p) { p->tensors[0]->has_role = 0; }
static const struct {
    void (*change)(Samba__Pef__Plan *);
    const char *message;
} claims[] = {{blob_less_than_nothing, "blob 1: -1 bytes at 64 are not where the 192 bytes of blobs have it"},
              {blob_huge, "are not where the 192 bytes of blobs have it"},
              {blob_long, "blob 1: 129 bytes at 64"},
              {blob_short, "blobs take 128 bytes and the file has 192 for them"},
              {blob_over_another, "blob 1: 100 bytes at 0 are not where"},
              {blob_behind_a_gap, "blob 0: 20 bytes at 64 are not where"},
              {blob_before_all, "blob 0: 20 bytes at -64 are not where"},
              {blob_unaligned, "blob 1: 100 bytes at 20 are not where"},
              {constant_of_none, "constant 1: its bytes are blob 2 of 2"},
              {constant_of_its_own, "constant 1 is not that of version 5"},
              {constant_without, "constant 0 is not that of version 5"},
              {literal_of_none, "literal 1 is blob -2147483648 of 2"},
              {roleless, "is not that of version 5"}};

static void test_claims(void **unused)
{
    (void)unused;
    fixture f;
    begin(&f, true);
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        Samba__Pef__Plan *message = unpacked(&f);
        size_t size;
        samba_plan plan;
        claims[i].change(message);
        char *bytes = packed(&f, message, SAMBA_PEF_VERSION, &size);
        assert_message(&f, samba_pef_decode(f.context, "test.pef", bytes, size, &plan), claims[i].message);
        free(bytes);
        samba__pef__plan__free_unpacked(message, NULL);
    }
    end(&f);
}

/* The file as an older version has it: constants have bytes of their own, texts all of theirs, and no buffer says what it is for;
 * up to version 3 the facts of the one graph are fields of the plan. `left`: one of these things is left as it is. */
typedef enum missing { NOTHING, OWN_BYTES, NO_BLOBS, NO_ROLE, GRAPH_FIELDS } missing;
static char *as_version(const fixture *f, uint32_t version, missing left, size_t *size)
{
    Samba__Pef__Plan *plan = unpacked(f), old = *plan;
    Samba__Pef__Graph *graph = plan->graphs[0], of_plan = *graph;
    samba_text text;
    samba_text_init(&text, f->context);
    samba_plan_add_text(&f->plan, 0, &text);
    for (size_t i = 0; i < plan->n_constants && left != OWN_BYTES; i++) {
        Samba__Pef__Constant *c = plan->constants[i];
        c->has_size = c->has_offset = 1, c->has_blob = 0;
        c->size = plan->blobs[c->blob]->size, c->offset = plan->blobs[c->blob]->offset;
    }
    for (size_t i = 0; i < plan->n_tensors && left != NO_ROLE; i++)
        plan->tensors[i]->has_role = 0;
    if (left != NO_BLOBS)
        old.n_blobs = 0;
    graph->text = text.data;
    graph->n_literals = 0;
    if (version == 3) {
        old.graph_text = text.data;
        old.has_graph_hash = old.has_inference = old.has_grad_accumulation_steps = old.has_precision = 1;
        old.graph_hash = graph->hash, old.inference = graph->inference,
        old.grad_accumulation_steps = graph->grad_accumulation_steps, old.precision = graph->precision;
        if (left != GRAPH_FIELDS)
            old.n_graphs = 0;
    }
    old.n_constants = plan->n_constants;
    char *bytes = packed(f, &old, version, size);
    graph->text = of_plan.text, graph->n_literals = of_plan.n_literals;
    samba__pef__plan__free_unpacked(plan, NULL);
    samba_text_clear(&text);
    return bytes;
}

static void test_older_versions(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++) {
        const uint32_t version = 3 + (uint32_t)i / 2;
        fixture f;
        begin(&f, i % 2);
        samba_plan plan;
        size_t size, length;
        char *bytes = as_version(&f, version, NOTHING, &size);
        if (samba_pef_decode(f.context, "test.pef", bytes, size, &plan) != SAMBA_OK)
            fail_msg("%s", samba_error_message(f.context));
        samba_text text;
        samba_text_init(&text, f.context);
        samba_plan_add_text(&f.plan, 0, &text);
        assert_string_equal(plan.graphs[0].text, text.data);
        assert_int_equal(plan.graphs[0].literal_count, 0);
        assert_true((strstr(text.data, "data=\"0000803f") != NULL) == (i % 2 == 1));
        f.plan.graphs[0].text = samba_arena_strdup(&f.plan.arena, text.data);
        f.plan.graphs[0].literal_count = 0;
        samba_text_clear(&text);
        for (int k = 0; k < 2; k++) { /* what was read is written as what was made */
            void *written[2];
            size_t sizes[2];
            assert_int_equal(samba_pef_write(f.context, &plan, path), SAMBA_OK);
            assert_int_equal(samba_file_read(f.context, path, &written[0], &sizes[0]), SAMBA_OK);
            assert_int_equal(samba_pef_write(f.context, &f.plan, path), SAMBA_OK);
            assert_int_equal(samba_file_read(f.context, path, &written[1], &sizes[1]), SAMBA_OK);
            assert_int_equal(sizes[0], sizes[1]);
            assert_memory_equal(written[0], written[1], sizes[0]);
            samba_free(f.context, written[0], sizes[0]);
            samba_free(f.context, written[1], sizes[1]);
        }
        samba_plan_free(&plan);
        free(bytes);
        static const struct {
            missing missing;
            const char *message;
        } wrong[] = {{OWN_BYTES, "constant 0 is not that of version"},
                     {NO_BLOBS, "the message is not that of version"},
                     {NO_ROLE, "is not that of version"},
                     {GRAPH_FIELDS, "the message is not that of version 3"}};
        for (int k = 0; k < 4; k++) {
            if ((k < 2 && i % 2 == 0) || (k == 3 && version > 3)) /* without constants, or with the graphs of version 4 */
                continue;
            bytes = as_version(&f, version, wrong[k].missing, &size);
            assert_message(&f, samba_pef_decode(f.context, "test.pef", bytes, size, &plan), wrong[k].message);
            free(bytes);
        }
        bytes = as_version(&f, version, NOTHING, &length);
        samba_pef_header header;
        memcpy(&header, bytes, sizeof header);
        header.version = 5;
        memcpy(bytes, &header, sizeof header);
        seal(bytes, length);
        assert_message(&f, samba_pef_decode(f.context, "test.pef", bytes, length, &plan), "is not that of version 5");
        free(bytes);
        end(&f);
    }
}

/* What an optimizer keeps was known by names alone. */
static void test_older_names(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        samba_tensor_kind kind;
        samba_tensor_role role;
        bool counts; /* float64, of rank 0 */
    } tensors[] = {{"p", SAMBA_KIND_PARAMETER, SAMBA_ROLE_MODEL, false},
                   {"p.exp_avg", SAMBA_KIND_BUFFER, SAMBA_ROLE_OPTIMIZER, false},
                   {"p.exp_avg_sq", SAMBA_KIND_BUFFER, SAMBA_ROLE_OPTIMIZER, false},
                   {"p.max_exp_avg_sq", SAMBA_KIND_BUFFER, SAMBA_ROLE_OPTIMIZER, false},
                   {"p.momentum_buffer", SAMBA_KIND_BUFFER, SAMBA_ROLE_OPTIMIZER, false},
                   {"p.else", SAMBA_KIND_BUFFER, SAMBA_ROLE_MODEL, false},
                   {"q.exp_avg", SAMBA_KIND_BUFFER, SAMBA_ROLE_MODEL, false},
                   {".exp_avg", SAMBA_KIND_BUFFER, SAMBA_ROLE_MODEL, false},
                   {"exp_avg", SAMBA_KIND_BUFFER, SAMBA_ROLE_MODEL, false},
                   {"p.exp_avg.exp_avg", SAMBA_KIND_PARAMETER, SAMBA_ROLE_MODEL, false},
                   {"optim0.step", SAMBA_KIND_BUFFER, SAMBA_ROLE_OPTIMIZER, true},
                   {"optim1.step", SAMBA_KIND_BUFFER, SAMBA_ROLE_MODEL, false},
                   {"enc.step", SAMBA_KIND_BUFFER, SAMBA_ROLE_MODEL, true},
                   {"enc.weight", SAMBA_KIND_PARAMETER, SAMBA_ROLE_MODEL, false}};
    fixture f;
    begin(&f, true);
    const int before = f.plan.tensor_count, count = (int)(sizeof tensors / sizeof *tensors);
    for (int i = 0; i < count; i++)
        plan_tensor(&f.plan, tensors[i].name, tensors[i].kind, tensors[i].counts ? SAMBA_FLOAT64 : SAMBA_FLOAT32,
                    !tensors[i].counts, (const int64_t[]){3});
    assert_int_equal(samba_plan_own_graph(&f.plan), SAMBA_OK);
    samba_free(f.context, f.bytes, f.size);
    assert_int_equal(samba_pef_write(f.context, &f.plan, path), SAMBA_OK);
    assert_int_equal(samba_file_read(f.context, path, &f.bytes, &f.size), SAMBA_OK);
    samba_plan plan;
    size_t size;
    char *bytes = as_version(&f, 4, NOTHING, &size);
    for (int older = 0; older < 2; older++) {
        if (samba_pef_decode(f.context, "test.pef", older ? bytes : f.bytes, older ? size : f.size, &plan) != SAMBA_OK)
            fail_msg("%s", samba_error_message(f.context));
        for (int i = 0; i < count; i++)
            if (plan.tensors[before + i].role != (older ? (int32_t)tensors[i].role : SAMBA_ROLE_MODEL))
                fail_msg("%s has role %d", tensors[i].name, plan.tensors[before + i].role);
        samba_plan_free(&plan);
    }
    free(bytes);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check), cmocka_unit_test(test_two), cmocka_unit_test(test_claims),
                                       cmocka_unit_test(test_older_versions), cmocka_unit_test(test_older_names)};
    snprintf(path, sizeof path, "/tmp/sambaflow-pef-graphs-%d.pef", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
