/* SPDX-License-Identifier: Apache-2.0
 *
 * The graphs of a PEF: what is said of a wrong list of them, and of a message that is wrong about the file's bytes; and files of
 * versions 3, which have no graphs, and 4, which have no blobs. */
#include "harness.h"
#include "pef/pef.pb-c.h"
#include "written_pef.h"
#include "pef/format.h"

#define IN_WORDS(number) #number
#define WORDS_OF(number) IN_WORDS(number)
#define NEWEST WORDS_OF(SAMBA_PEF_VERSION)
#define OWN_TEXT __attribute__((cleanup(samba_text_clear))) samba_text

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

TEST(test_wrong_graphs)
{
    const bool zoo = false;
    WRONG(p->graph_count = 0, "no name or no graph");
    WRONG(p->graphs[0].text = NULL, "no name or no text");
    WRONG(p->graphs[0].precision = -1, "precision is -1");
    WRONG(p->graphs[0].inference = 2, "inference is 2");
    WRONG((p->graphs[0].section_count--, p->graphs[0].call_count--), "1 sections and 1 calls belong to no graph");
    WRONG(p->graphs[0].section_count = INT32_MAX, "2147483647 sections from 0");
    WRONG(p->graphs[0].first_section = 1, "4 sections from 1");
    WRONG(p->graphs[0].first_call = -1, "4 calls from -1 on");
    WRONG(p->graphs[0].call_count = -1, "-1 calls from 0 on");
    WRONG(p->graphs[0].tensors[0] = -1, "tensor 0 of its list is none of");
    WRONG(p->graphs[0].tensors[1] = p->tensor_count, "tensor 1 of its list is none of");
    WRONG(p->graphs[0].tensors[2] = p->graphs[0].tensors[1], "tensor 2 of its list is none of");
    WRONG(p->graphs[0].tensor_count = -1, "-1 tensors");
    WRONG((two_graphs(p, 2), p->graphs[1].name = p->graphs[0].name), "twice");
    WRONG((two_graphs(p, 2), p->graphs[1].name = NULL), "graph 1 has no name");
    WRONG((two_graphs(p, 2), p->calls[2] = 1), "graph \"second\": its call 0 is of section 1, and its own are the 2 from 2 on");
    WRONG((two_graphs(p, 2), p->sections[1].redone_by = 2),
          "section 1: redone by phase 2, but no section of that phase comes after it");
}

TEST(test_two)
{
    OWN_FIXTURE f;
    begin(&f, false);
    OWN_PLAN plan;
    two_graphs(&f.plan, 2);
    need_in(f.context, samba_pef_write(f.context, &f.plan, path));
    need_in(f.context, samba_pef_read(f.context, path, &plan));
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

/* The message with this change is refused. The zoo has two blobs, of 20 and of 100 bytes, which take 64 and 128. */
#define CLAIM(change, words)                                                                                                     \
    do {                                                                                                                         \
        size_t size;                                                                                                             \
        Samba__Pef__Plan *const p = unpacked(&f);                                                                                \
        change;                                                                                                                  \
        char *bytes = packed(&f, p, SAMBA_PEF_VERSION, &size);                                                                   \
        refuse_file(&f, bytes, size, words);                                                                                     \
        free(bytes);                                                                                                             \
        samba__pef__plan__free_unpacked(p, NULL);                                                                                \
    } while (0)

TEST(test_claims)
{
    OWN_FIXTURE f;
    begin(&f, true);
    CLAIM(p->blobs[1]->size = -1, "blob 1: -1 bytes at 64 are not where the 192 bytes of blobs have it");
    CLAIM(p->blobs[1]->size = INT64_MAX, "are not where the 192 bytes of blobs have it");
    CLAIM(p->blobs[1]->size = 129, "blob 1: 129 bytes at 64");
    CLAIM(p->blobs[1]->size = 64, "blobs take 128 bytes and the file has 192 for them");
    CLAIM(p->blobs[1]->offset = 0, "blob 1: 100 bytes at 0 are not where");
    CLAIM(p->blobs[0]->offset = -64, "blob 0: 20 bytes at -64 are not where");
    CLAIM(p->constants[1]->has_size = p->constants[1]->has_offset = 1, "constant 1 is not that of version " NEWEST);
    CLAIM(p->constants[0]->has_blob = 0, "constant 0 is not that of version " NEWEST);
    CLAIM(p->tensors[0]->has_role = 0, "is not that of version " NEWEST);
}

/* The file as an older version has it: constants have bytes of their own, texts all of theirs, and no buffer says what it is for;
 * up to version 3 the facts of the one graph are fields of the plan. `left`: one of these things is left as it is. */
typedef enum missing { NOTHING, OWN_BYTES, NO_BLOBS, NO_ROLE, GRAPH_FIELDS } missing;
static char *as_version(const fixture *f, uint32_t version, missing left, size_t *size)
{
    Samba__Pef__Plan *plan = unpacked(f), old = *plan;
    Samba__Pef__Graph *graph = plan->graphs[0], of_plan = *graph;
    OWN_TEXT text;
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
    return bytes;
}

TEST(test_older_versions)
{
    for (int i = 0; i < 4; i++) {
        const uint32_t version = 3 + (uint32_t)i / 2;
        OWN_FIXTURE f;
        begin(&f, i % 2);
        OWN_PLAN plan;
        size_t size;
        char *bytes = as_version(&f, version, NOTHING, &size);
        need_in(f.context, samba_pef_decode(f.context, "test.pef", bytes, size, &plan));
        OWN_TEXT text;
        samba_text_init(&text, f.context);
        samba_plan_add_text(&f.plan, 0, &text);
        assert_string_equal(plan.graphs[0].text, text.data);
        assert_int_equal(plan.graphs[0].literal_count, 0);
        assert_true((strstr(text.data, "data=\"0000803f") != NULL) == (i % 2 == 1));
        f.plan.graphs[0].text = samba_arena_strdup(&f.plan.arena, text.data);
        f.plan.graphs[0].literal_count = 0;
        assert_same_file(&f, &plan, &f.plan); /* what was read is written as what was made */
        free(bytes);
        static const struct {
            missing missing;
            const char *message;
        } wrong[] = {{OWN_BYTES, "constant 0 is not that of version"},
                     {NO_BLOBS, "the message is not that of version"},
                     {NO_ROLE, "is not that of version"},
                     {NOTHING, "is not that of version " NEWEST}, /* its header says the newest */
                     {GRAPH_FIELDS, "the message is not that of version 3"}};
        for (int k = 0; k < 5; k++) {
            if ((k < 2 && i % 2 == 0) || (k == 4 && version > 3)) /* without constants, or with the graphs of version 4 */
                continue;
            bytes = as_version(&f, wrong[k].missing == NOTHING ? SAMBA_PEF_VERSION : version, wrong[k].missing, &size);
            refuse_file(&f, bytes, size, wrong[k].message);
            free(bytes);
        }
    }
}

/* What an optimizer keeps was known by names alone. */
TEST(test_older_names)
{
    static const struct {
        const char *name;
        samba_tensor_kind kind;
        bool of_optimizer, counts; /* counts: float64, of rank 0 */
    } tensors[] = {{"p", SAMBA_KIND_PARAMETER, false, false},
                   {"p.exp_avg", SAMBA_KIND_BUFFER, true, false},
                   {"p.exp_avg_sq", SAMBA_KIND_BUFFER, true, false},
                   {"p.max_exp_avg_sq", SAMBA_KIND_BUFFER, true, false},
                   {"p.momentum_buffer", SAMBA_KIND_BUFFER, true, false},
                   {"p.else", SAMBA_KIND_BUFFER, false, false},
                   {"q.exp_avg", SAMBA_KIND_BUFFER, false, false},
                   {".exp_avg", SAMBA_KIND_BUFFER, false, false},
                   {"exp_avg", SAMBA_KIND_BUFFER, false, false},
                   {"p.exp_avg.exp_avg", SAMBA_KIND_PARAMETER, false, false},
                   {"optim0.step", SAMBA_KIND_BUFFER, true, true},
                   {"optim1.step", SAMBA_KIND_BUFFER, false, false},
                   {"enc.step", SAMBA_KIND_BUFFER, false, true},
                   {"enc.weight", SAMBA_KIND_PARAMETER, false, false}};
    OWN_FIXTURE f;
    begin(&f, true);
    const int before = f.plan.tensor_count, count = LENGTH(tensors);
    for (int i = 0; i < count; i++)
        plan_tensor(&f.plan, tensors[i].name, tensors[i].kind, tensors[i].counts ? SAMBA_FLOAT64 : SAMBA_FLOAT32,
                    !tensors[i].counts, (const int64_t[]){3});
    assert_int_equal(samba_plan_own_graph(&f.plan), SAMBA_OK);
    samba_free(f.context, f.bytes, f.size);
    f.bytes = file_of(&f, &f.plan, &f.size);
    size_t size;
    char *bytes = as_version(&f, 4, NOTHING, &size);
    for (int older = 0; older < 2; older++) {
        OWN_PLAN plan;
        need_in(f.context, samba_pef_decode(f.context, "test.pef", older ? bytes : f.bytes, older ? size : f.size, &plan));
        for (int i = 0; i < count; i++)
            if (plan.tensors[before + i].role != (older && tensors[i].of_optimizer ? SAMBA_ROLE_OPTIMIZER : SAMBA_ROLE_MODEL))
                fail_msg("%s has role %d", tensors[i].name, plan.tensors[before + i].role);
    }
    free(bytes);
}

TEST_MAIN(test_wrong_graphs, test_two, test_claims, test_older_versions, test_older_names)
