/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stage writes lies apart from what it reads: operands of every kind are laid over each other and refused, those that
 * interleave or that a program writes element for element are taken, and of random strides none is taken whose elements meet. A
 * file cannot ask for tables and scratch out of proportion to its memory, and what it calls things reaches nobody's terminal as
 * it is. */
#include "harness.h"
#include "written_pef.h"
#include "plan/check.h"
#include "runtime/runtime.h"

static void begin_empty(fixture *f)
{
    f->context = counting_context_new(&f->state);
    plan_begin(&f->plan, f->context, "overlap");
    plan_section(&f->plan, 1);
}

static void refuse_plan(fixture *f, const char *words)
{
    refuse_in(f->context, samba_plan_check(f->context, &f->plan), SAMBA_ERROR_FORMAT, words);
}

static void take(fixture *f)
{
    assert_int_equal(samba_plan_own_graph(&f->plan), SAMBA_OK);
    need_in(f->context, samba_plan_check(f->context, &f->plan));
}

/* ---- each stage of the zoo: what it writes over what it reads ---- */
TEST(test_every_kind)
{
    int tried = 0, kinds = 0;
    fixture f;
    begin_plan(&f, true);
    for (int32_t i = 0; i < f.plan.stage_count; i++) {
        samba_stage *stage = &f.plan.stages[i];
        for (int32_t w = 0; w < stage->operand_count; w++)
            for (int32_t r = 0; r < stage->operand_count; r++) {
                const samba_operand before = stage->operands[w];
                const samba_buffer place = f.plan.buffers[before.buffer < 0 ? 0 : before.buffer];
                if (before.buffer < 0 || stage->operands[r].buffer < 0 || stage->operands[r].buffer == before.buffer ||
                    !(samba_stage_access(stage, w) & SAMBA_WRITES) || !(samba_stage_access(stage, r) & SAMBA_READS))
                    continue;
                samba_buffer *moved = &f.plan.buffers[before.buffer]; /* two buffers in one memory */
                const int64_t from = f.plan.buffers[stage->operands[r].buffer].offset, last = f.plan.memory_bytes - moved->bytes;
                moved->offset = from > last ? last / 64 * 64 : from;
                samba_check check = {f.context, &f.plan, i};
                const samba_status status = samba_check_overlap(&check, stage);
                bool in_step = stage->kind == SAMBA_STAGE_TILE && stage->operands[r].dtype == before.dtype &&
                               memcmp(stage->operands[r].strides, before.strides, sizeof before.strides) == 0;
                if (!in_step && status != SAMBA_ERROR_FORMAT)
                    fail_msg("stage %d \"%s\": operand %d over operand %d is taken", i, stage->name, w, r);
                tried++;
                kinds |= 1 << stage->kind;
                *moved = place;
            }
    }
    assert_true(tried > 15);
    assert_int_equal(kinds,
                     ((1 << SAMBA_STAGE_KIND_COUNT) - 1) &
                         ~(1 << SAMBA_STAGE_CONTRACT | 1 << SAMBA_STAGE_EXCHANGE)); /* its factors: test_factor; one operand */
    end_plan(&f);
}

TEST(test_factor)
{
    fixture f;
    begin_plan(&f, true);
    samba_stage *stage = f.plan.stages;
    while (stage->kind != SAMBA_STAGE_CONTRACT)
        stage++;
    for (int32_t w = 0; w < stage->operand_count; w++)
        if (samba_stage_access(stage, w) & SAMBA_WRITES)
            f.plan.buffers[stage->contract.b.buffer].offset = f.plan.buffers[stage->operands[w].buffer].offset;
    refuse_plan(&f, "lies over factor b, which it reads");
    end_plan(&f);
}

/* ---- pooling's gradient over what was pooled ---- */
TEST(test_pool_gradient)
{
    fixture f;
    begin_empty(&f);
    int32_t x = plan_buffer(&f.plan, 4 * 64 * 4), dy = plan_buffer(&f.plan, 4 * 16 * 4);
    samba_stage *stage = plan_stage(&f.plan, SAMBA_STAGE_POOL, "gradient", 0, NULL);
    stage->pool = (samba_pool){
        .gradient = 1, .planes = 2, .h = 8, .w = 8, .oh = 4, .ow = 4, .kernel = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    operand(stage, dy, SAMBA_FLOAT32, 0, 0);
    operand(stage, x, SAMBA_FLOAT32, 0, 0);
    take(&f);
    stage->operands[2].offset = 64; /* a plane further */
    refuse_plan(&f, "operand 2, which it writes, lies over operand 0, which it reads");
    stage->operands[2].offset = 128;
    take(&f);
    stage->operands[2].offset = 0;
    stage->pool.kernel[0] = 3;
    stage->pool.padding[0] = 1;
    refuse_plan(&f, "lies over operand 0");
    end_plan(&f);
}

/* ---- strides ---- */
static void copy_stage(fixture *f, const int64_t domain[3], const samba_operand *from, const samba_operand *to)
{
    samba_stage *stage = plan_stage(&f->plan, SAMBA_STAGE_TILE, "copy", 3, domain);
    stage->operands[0] = *from;
    stage->operands[1] = *to;
    stage->operand_count = 2;
    begin_step(stage, 1);
    int16_t d = add_register(stage, SAMBA_F32, SAMBA_FULL);
    instruct(stage, SAMBA_TILE_load, d, -1, -1, -1, 0, 0);
    instruct(stage, SAMBA_TILE_store, -1, d, -1, -1, 1, 0);
}

static samba_status check_copy(fixture *f, const int64_t domain[3], const samba_operand *from, const samba_operand *to)
{
    begin_empty(f);
    plan_buffer(&f->plan, 4096);
    copy_stage(f, domain, from, to);
    assert_int_equal(samba_plan_own_graph(&f->plan), SAMBA_OK);
    return samba_plan_check(f->context, &f->plan);
}

TEST(test_interleaved)
{
    static const struct {
        int64_t domain[3];
        samba_operand from, to;
        bool apart;
    } cases[] = {
        /* q and k of a joint projection, heads side by side, and not */
        {{4, 3, 8}, {.strides = {72, 24, 1}}, {.offset = 8, .strides = {72, 24, 1}}, true},
        {{4, 3, 8}, {.strides = {72, 8, 1}}, {.offset = 24, .strides = {72, 8, 1}}, true},
        {{4, 3, 8}, {.strides = {72, 8, 1}}, {.offset = 16, .strides = {72, 8, 1}}, false},
        /* 7 columns: even ones and odd ones, and column 0 of the next row */
        {{2, 3, 4}, {.strides = {21, 7, 2}}, {.offset = 1, .strides = {21, 7, 2}}, false},
        {{2, 3, 3}, {.strides = {21, 7, 2}}, {.offset = 1, .strides = {21, 7, 2}}, true},
        {{2, 3, 3}, {.offset = 1, .strides = {21, 7, 2}}, {.strides = {21, 7, 2}}, true},
        /* columns of images, rows of them; element for element; backwards over itself */
        {{4, 2, 2}, {.strides = {16, 4, 1}}, {.offset = 2, .strides = {16, 4, 1}}, true},
        {{4, 2, 2}, {.strides = {16, 4, 1}}, {.offset = 8, .strides = {16, 4, 1}}, true},
        {{4, 2, 2}, {.strides = {16, 4, 1}}, {.strides = {16, 4, 1}}, true},
        {{4, 2, 2}, {.strides = {16, 4, 1}}, {.offset = 49, .strides = {-16, 4, 1}}, false},
        {{4, 2, 2}, {.strides = {16, 4, 1}}, {.offset = 50, .strides = {-16, 4, 1}}, true},
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        fixture f;
        samba_status status = check_copy(&f, cases[i].domain, &cases[i].from, &cases[i].to);
        if (status != (cases[i].apart ? SAMBA_OK : SAMBA_ERROR_FORMAT))
            fail_msg("case %d: %s, \"%s\"", i, samba_status_name(status), samba_error_message(f.context));
        end_plan(&f);
    }
}

enum { ELEMENTS = 600 };
static void mark(const int64_t domain[3], const samba_operand *o, bool *marks)
{
    for (int64_t i = 0; i < domain[0]; i++)
        for (int64_t j = 0; j < domain[1]; j++)
            for (int64_t k = 0; k < domain[2]; k++)
                marks[o->offset + i * o->strides[0] + j * o->strides[1] + k * o->strides[2]] = true;
}

/* None that meet is taken, and few that are apart are refused. */
TEST(test_random_strides)
{
    int taken = 0, apart = 0;
    seed_anew();
    for (int i = 0; i < 3000; i++) {
        fixture f;
        samba_operand o[2];
        bool marks[2][ELEMENTS] = {{false}}, meet = false;
        const int64_t domain[3] = {1 + draw_below(4), 1 + draw_below(4), 1 + draw_below(5)};
        const int64_t grid[3] = {draw_below(2) ? 100 : 60, draw_below(2) ? 20 : 12, draw_below(3) ? 1 : 2};
        for (int k = 0; k < 2; k++) {
            o[k] = (samba_operand){.offset = draw_below(130)};
            for (int d = 0; d < 3; d++)
                o[k].strides[d] = draw_below(8) ? grid[d] : draw_below(30);
            mark(domain, &o[k], marks[k]);
        }
        for (int k = 0; k < ELEMENTS; k++)
            meet |= marks[0][k] && marks[1][k];
        bool same = o[0].offset == o[1].offset;
        for (int d = 0; d < 3; d++)
            same = same && (domain[d] == 1 || o[0].strides[d] == o[1].strides[d]);
        bool ok = check_copy(&f, domain, &o[0], &o[1]) == SAMBA_OK;
        if (ok && meet && !same)
            fail_msg("case %d: elements meet and are taken", i);
        taken += ok && !meet && !same;
        apart += !meet && !same;
        end_plan(&f);
    }
    print_message("%d of %d that are apart are taken\n", taken, apart);
    assert_true(apart > 300 && taken * 10 > apart * 7);
}

/* ---- tables ---- */
TEST(test_tables)
{
    static const samba_pool plain = {
        .planes = 1, .h = 4, .w = 4, .oh = 1, .ow = 1, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    for (int i = 0; i < 4; i++) {
        fixture f;
        samba_memory_info memory;
        int used;
        const char *isa;
        begin_empty(&f);
        samba_stage *stage = plan_stage(&f.plan, SAMBA_STAGE_POOL, "wide", 0, NULL);
        stage->pool = plain;
        if (i == 0) /* a window of 300 million columns, which has a table where they lie apart */
            stage->pool.kernel[1] = 300000000, stage->pool.padding[1] = 150000000, stage->pool.dilation[1] = 2;
        else if (i == 1) /* no planes, of any size */
            stage->pool.planes = 0, stage->pool.oh = stage->pool.ow = 1 << 23;
        else if (i == 2)
            stage->pool.kernel[0] = 300000000, stage->pool.stride[1] = 1 << 26;
        else /* a table of 1 GiB */
            stage->pool.kernel[1] = 1 << 26, stage->pool.padding[1] = 1 << 25, stage->pool.dilation[1] = 2;
        for (int o = 0; o < 2; o++)
            operand(stage, plan_buffer(&f.plan, 64), SAMBA_FLOAT32, 0, 0);
        if (i == 3) /* a file that says that it takes 64 GiB */
            f.plan.memory_bytes = INT64_C(1) << 36;
        take(&f);
        samba_status status = samba_plan_memory(f.context, &f.plan, 1, NULL, &memory, &used, &isa);
        if (i != 2)
            refuse_in(f.context, status, SAMBA_ERROR_MEMORY,
                      i == 3 ? "the tables of the stages would take more than 320 MiB"
                             : "stage 0 \"wide\": with it, the tables of the stages would take more than 64 MiB");
        assert_true(f.state.peak_bytes < (int64_t)(i == 3 ? 352 : 96) << 20);
        end_plan(&f);
    }
}

/* ---- names ---- */
TEST(test_names)
{
    static const struct {
        const char *name, *shown;
    } cases[] = {
        {"plain name", "plain name"},
        {"red \x1b[31m", "red \\x1b[31m"},
        {"two\nlines\r\ttab", "two\\x0alines\\x0d\\x09tab"},
        {"\x7f \xc2\2332J", "\\x7f \\x9b2J"},      /* DEL; C1's CSI */
        {"\xe2\x80\256fdp.exe", "\\u202efdp.exe"}, /* right to left */
        {"\xe2\x81\xa6x\xe2\x81\xa9", "\\u2066x\\u2069"},
        {"gr\xc3\xb6\xc3\237e \xe5\xb1\xa4 \xf0\x9f\x98\x80", "gr\xc3\xb6\xc3\237e \xe5\xb1\xa4 \xf0\x9f\x98\x80"},
        {"\xff\xc0\x80\xed\xa0\x80", "\\xff\\xc0\\x80\\xed\\xa0\\x80"}, /* no UTF-8 */
        {"cut \xe2\x80", "cut \\xe2\\x80"},
    };
    for (int i = 0; i < LENGTH(cases); i++) {
        fixture f;
        samba_text text;
        char shown[SAMBA_SHOWN];
        assert_string_equal(samba_shown(cases[i].name, shown), cases[i].shown);
        begin_empty(&f);
        plan_tensor(&f.plan, cases[i].name, SAMBA_KIND_OUTPUT, SAMBA_FLOAT32, 1, (const int64_t[]){4});
        f.plan.sections[0].name = samba_arena_strdup(&f.plan.arena, cases[i].name);
        copy_stage(&f, (const int64_t[]){1, 1, 1}, &(samba_operand){.offset = 0}, &(samba_operand){.offset = 2});
        f.plan.stages[0].name = samba_arena_strdup(&f.plan.arena, cases[i].name);
        assert_int_equal(samba_plan_own_graph(&f.plan), SAMBA_OK);
        samba_text_init(&text, f.context);
        assert_int_equal(samba_plan_log(f.context, &f.plan, &text), SAMBA_OK);
        int found = 0;
        for (const char *at = text.data; (at = strstr(at, cases[i].shown)); at++)
            found++;
        assert_true(found >= 3);
        assert_true(i == 0 || strcmp(cases[i].name, cases[i].shown) == 0 || !strstr(text.data, cases[i].name));
        f.plan.stages[0].kind = 77; /* a message that names it */
        refuse_plan(&f, cases[i].shown);
        samba_text_clear(&text);
        end_plan(&f);
    }
    char small[8];
    assert_int_equal(samba_show("ab\x1b\x1b", false, small, sizeof small), 6); /* no half of an escape */
    assert_string_equal(small, "ab\\x1b");
    assert_int_equal(samba_show("a\nb", true, small, sizeof small), 3);
}

TEST_MAIN(test_every_kind, test_factor, test_pool_gradient, test_interleaved, test_random_strides, test_tables, test_names)
