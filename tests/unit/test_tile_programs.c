/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor of tile programs against a naive interpreter (naive_tiles.h): random programs of all classes, dtypes and layouts,
 * whose seed is printed when they fail; what has code of its own (rounding, labels, gelu, random numbers, norms); in-place
 * results and the block of a contraction. Where values are whole numbers results must be equal; elsewhere tolerances are given
 * with the test. */
#include "failing_allocator.h"
#include "naive_tiles.h"

/* Rounding and its store, which become one instruction where nothing stands between: read by nobody else, by others too, stored
 * twice, rounded in place, and with the source written again before the store. */
static void test_rounding(void **state)
{
    static const int64_t domains[][2] = {{1, 1}, {1, 1000}, {3, 5}, {7, 300}, {40, 33}, {2, 513}};
    static const char *const ways[] = {
        "round_bfloat16 r a; store r low", "round_bfloat16 r a; store r low; sub a a r; store a other",
        "round_bfloat16 r a; store r low; store r again", "round_bfloat16 a a; store a low; sub a a third; store a other",
        "round_bfloat16 r a; add a a third; store r low; store a other"};
    srand(6);
    for (int s = 0; s < LENGTH(domains); s++)
        for (int layout = 0; layout < 3; layout++)
            for (int way = 0; way < LENGTH(ways); way++) {
                tile_case t;
                case_begin(&t, 2, domains[s]);
                case_text(&t, "float32 x other; bfloat16 again");
                if (layout == 1)
                    case_operand(&t, "low", SAMBA_BFLOAT16, 1, SHAPE(domains[s][1] + 3, 1));
                else
                    case_layout(&t, "low", SAMBA_BFLOAT16, layout ? "10" : NULL);
                case_text(&t, "constant third 0.3331298828125; setup; load a x; mul a a third; %s; step", ways[way]);
                case_check(&t, 0, "rounding, domain %d, layout %d, way %d", s, layout, way);
            }
}

static void test_iota_random(void **state)
{
    static const int64_t domains[][3] = {{2, 5, 7}, {3, 4, 300}, {1, 1, 1000}, {40, 3, 1}};
    static const char *const layouts[] = {"012", "120", "01"};
    for (int s = 0; s < LENGTH(domains); s++)
        for (int layout = 0; layout < LENGTH(layouts); layout++) {
            tile_case t;
            case_begin(&t, 3, domains[s]);
            case_text(&t, "int64 seed: z; float32 y; int16 by_row:01");
            samba_operand *index = &t.operands[case_layout(&t, "index", SAMBA_FLOAT32, layouts[layout])];
            index->buffer = -1;
            index->offset = 5;
            t.dtype = SAMBA_INT64;
            case_text(&t, "row line; load key seed; setup; random number@y key index; store number y; iota i0 0; iota i1 1;"
                          "iota i2@z 2; iota line 1; store line by_row; mul i0 i0 i1; add i2 i2 i0; store i2 z; step");
            case_check(&t, 0, "iota and random");
        }
}

/* What cross entropy does: the element in the column of a row's label, a mask of it, rows left out; and programs that look alike
 * but need every comparison. Labels stand in all chunks, and outside. */
enum { CHOICES, SWAPPED, MASK_STORED, NOT_NUMBERS, LABEL_AGAIN, LABEL_FORMS };
static void check_labels(int64_t rows, int64_t cols, int form, bool direct)
{
    tile_case t;
    case_begin(&t, 2, SHAPE(rows, cols));
    t.indirect = !direct;
    samba_dtype numbered = form == SWAPPED ? SAMBA_INT32 : SAMBA_INT64;
    int labels = case_layout(&t, "labels", numbered, "0");
    case_text(&t, "float32 x y stored scale:0 found:0 summed:0; int64 sums; bool taken:0");
    for (int64_t r = 0; r < rows; r++)
        samba_store_int64(numbered, case_memory(&t, labels) + r * (int64_t)samba_dtype_size(numbered),
                          r % 5 == 4 ? -1 : r * 613 % (cols + 1));
    case_text(&t,
              "constant least -inf; constant one 1; constant zero 0; setup;"
              "load in*@x x; sum total* in; iota numbers 1; load label* labels; eq mask* %s; %s; where only mask in least;"
              "amax best* only; where hot* mask %s zero; step; store best found; store total summed; once;"
              "load factor scale; mul part in factor; sub part part hot; load kept taken; where out@y kept part zero;"
              "store out y; step",
              form == SWAPPED ? "label numbers" : "numbers label",
              form == MASK_STORED   ? "store mask stored"
              : form == LABEL_AGAIN ? "add numbers numbers label; store numbers sums"
                                    : "",
              form == NOT_NUMBERS ? "in" : "one");
    case_check(&t, 0, "labels of %d columns, form %d", (int)cols, form);
}

static void test_labels(void **state)
{
    static const int64_t sizes[] = {1, 2, 10, 63, 64, 77, 300, 512, 1300};
    for (int s = 0; s < 2 * LENGTH(sizes); s++)
        for (int form = 0; form < 2 * LABEL_FORMS; form++)
            check_labels(s % 2 ? 41 : 1, sizes[s / 2], form / 2, form % 2);
}

/* gelu_tanh beside its gradient, in either order, in place, and where something stands between that keeps them apart */
static void test_gelu_both(void **state)
{
    static const int64_t sizes[] = {1, 77, 512, 1300};
    for (int s = 0; s < LENGTH(sizes); s++)
        for (int form = 0; form < 8; form++) {
            tile_case t;
            bool first = form & 1, apart = form & 4;
            case_begin(&t, 2, SHAPE(7, sizes[s]));
            t.indirect = !(form & 2);
            case_text(&t, "float32 x y f; load a@x x; load b@y y; %s; %s; gelu_tanh_grad e@y a b; %s; store e y; %s; step",
                      first ? "" : "gelu_tanh d@f a; store d f", apart ? "add b b a" : "", first ? "gelu_tanh d@f a" : "",
                      first ? "store d f" : "");
            case_check(&t, 2e-6, "gelu and gradient of %d columns, form %d", (int)sizes[s], form);
        }
}

/* ---- rows ---- */
static const int64_t columns[] = {10, 77, 300, 1000};

/* Layer norm, its weight's gradient summed over rows, its row means stored. */
static void test_layer_norm(void **state)
{
    for (int s = 0; s < 2 * LENGTH(columns); s++) {
        tile_case t;
        int64_t c = columns[s / 2];
        case_begin(&t, 3, SHAPE(3, 7, c));
        samba_dtype dtype = s % 2 ? SAMBA_BFLOAT16 : SAMBA_FLOAT32;
        case_operand(&t, "x", dtype, 1, SHAPE(7 * (c + 3), c + 3, 1));
        case_text(&t,
                  "%s w:2 y dw:2; float32 db:2 mean:01 g; row scale; constant scale %.17g; setup;"
                  "load in*@x x; sum sum* in; step; mul centre*@mean sum scale; store centre mean; once;"
                  "spread wide centre; sub centred* in wide; mul square centred centred; sum deviation* square; step;"
                  "mul deviation deviation scale; rsqrt deviation deviation; once;"
                  "spread wide deviation; mul wide wide centred; load weight@w w; mul out@y wide weight; store out y;"
                  "load gradient@g g; collect_sum gradient db; mul wide wide gradient; collect_sum wide dw; step",
                  samba_dtype_name(dtype), 1.0 / (double)c);
        case_check(&t, s % 2 ? 1e-2 : 1e-4, "layer norm");
    }
}

/* Rows beyond the first cache, whose later steps load and compute again what earlier ones had (again.c): from memory of their
 * own, in place, where a step between has stored, and where what is kept is none of what can be made again. */
static void test_long_rows(void **state)
{
    static const char *const ends[] = {
        "mul out@y wide centred; store out y; step", "mul out@x wide centred; store out x; step",
        ("mul out@x wide centred; store out x; step; once; spread wide deviation; mul last in wide; add last last centred;"
         "store last y; step"),
        "mul out wide kept; add out out in; store out y; step"};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_BFLOAT16, SAMBA_FLOAT16};
    const int64_t most = 20011; /* more than half of 64 KiB */
    for (int s = 0; s < LENGTH(dtypes); s++)
        for (int end = 0; end < LENGTH(ends); end++)
            for (int narrow = 0; narrow < 2; narrow++) {
                tile_case t;
                int64_t c = narrow ? 600 : most, gap = narrow ? 3 : 0;
                case_begin(&t, 2, SHAPE(3, c));
                case_operand(&t, "x", dtypes[s], 1, SHAPE(c + gap, 1));
                case_text(&t,
                          "%s y shift:1; row scale; constant scale %.17g; setup;"
                          "load in*%s x; load along shift; add moved* in along; sum sum* moved; step; mul centre sum scale; once;"
                          "spread wide centre; sub centred* moved wide; mul square centred centred; sum deviation* square;"
                          "exp2 kept* square; step; mul deviation deviation scale; once; spread wide deviation; %s",
                          samba_dtype_name(dtypes[s]), 1.0 / (double)c, end == 2 ? "" : "@x", /* what was there */
                          ends[end]);
                case_check(&t, s ? 1e-2 : 1e-4, "long rows, %s, end %d, %d columns", samba_dtype_name(dtypes[s]), end, (int)c);
            }
}

/* Reductions over short rows, and over rows that lie across memory, where tiles stand: every class, rows of several chunks that
 * are kept from step to step, values that repeat down the rows or along them, coordinates. */
static void check_standing(samba_dtype dtype, const int64_t *domain, const char *x, const char *y)
{
    tile_case t;
    case_begin(&t, 3, domain);
    t.dtype = dtype;
    case_text(&t,
              "T x:%s y:%s most:01 least:10 given:01 along:2; int64 where:01 at:%s; row g;"
              "setup; load a* x; amax most a; amin least a; argmax where a; step; store most most; store least least;"
              "store where where; once; spread high most; sub b* a high; load g given; spread wide g; add b b wide;"
              "load c along; add b b c; amax greatest b; iota number 2; store number at; step; once;"
              "spread top greatest; add d a b; sub d d top; store d y; step",
              x, y, x);
    case_check(&t, 0, "standing, %s, %d x %d x %d, %s to %s", samba_dtype_name(dtype), (int)domain[0], (int)domain[1],
               (int)domain[2], x, y);
}

/* So too sums of rows that are short enough to be added one after the other. */
static void check_standing_sums(samba_dtype dtype, const int64_t *domain, const char *x, const char *y)
{
    tile_case t;
    case_begin(&t, 3, domain);
    t.dtype = dtype;
    case_text(&t,
              "T x:%s y:%s total:01 along:2; row s t;"
              "setup; load a* x; sum s a; load c along; add b* a c; step; store s total; once;"
              "spread wide s; sub b b wide; sum t b; step; once; spread all t; add d b all; store d y; step",
              x, y);
    case_check(&t, 1e-5, "standing sums, %s, %d x %d x %d, %s to %s", samba_dtype_name(dtype), (int)domain[0], (int)domain[1],
               (int)domain[2], x, y);
}

/* And products, of what is about 1 or, of integers, odd: rows at once, and collected over what the result does not have. */
static void check_products(samba_dtype dtype, const int64_t *domain, const char *x, const char *rows, const char *some)
{
    tile_case t;
    case_begin(&t, 3, domain);
    t.dtype = dtype;
    case_text(&t,
              "T x:%s total:%s some:%s; row p; constant small %g; constant one 1; setup;"
              "load a* x; mul b a small; add b b one; prod p b; collect_prod b some; step; store p total; once",
              x, rows, some, samba_dtype_is_floating_point(dtype) ? 0x1p-10 : 2.0);
    case_check(&t, 1e-4, "products, %s, %d x %d x %d, %s to %s and %s", samba_dtype_name(dtype), (int)domain[0], (int)domain[1],
               (int)domain[2], x, rows, some);
}

static void test_standing(void **state)
{
    static const int64_t domains[][3] = {{1, 16, 1},  {1, 17, 3},   {5, 40, 2},   {3, 33, 16}, {2, 600, 7}, {7, 9, 100},
                                         {4, 20, 70}, {2, 19, 700}, {1, 1000, 5}, {3, 0, 4},   {20, 1, 3},  {40, 3, 17}};
    static const char *const layouts[] = {"012", "021", "201", "102", "210"};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64, SAMBA_FLOAT16, SAMBA_INT32};
    srand(7);
    for (int s = 0; s < LENGTH(domains); s++)
        for (int layout = 0; layout < LENGTH(layouts); layout++)
            check_standing(dtypes[(s + layout) % LENGTH(dtypes)], domains[s], layouts[layout], layouts[rand() % LENGTH(layouts)]);
    static const samba_dtype summed[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64};
    for (int s = 0; s < LENGTH(domains); s++)
        for (int layout = 0; layout < LENGTH(layouts); layout++)
            check_standing_sums(summed[(s + layout) % LENGTH(summed)], domains[s], layouts[layout], layouts[layout]);
    static const char *const kept[] = {"01", "10", "0", "2", "12", "20", "1"};
    for (int s = 0; s < LENGTH(domains); s++)
        for (int layout = 0; layout < LENGTH(layouts); layout++)
            check_products(summed[(s + layout) % LENGTH(summed)], domains[s], layouts[layout], kept[layout % 2],
                           kept[rand() % LENGTH(kept)]);
}

/* Sums over rows, of what lies in memory and nothing else: of rows that follow one another, lie apart, backwards or all at one
 * place; over the first dim, the second, and both. */
static void test_sums_in_memory(void **state)
{
    static const int64_t domains[][3] = {{1, 1, 2},   {3, 5, 7},  {2, 40, 64},   {1, 100, 257}, {5, 33, 300},
                                         {17, 3, 40}, {0, 4, 20}, {1, 20, 5000}, {4, 300, 3},   {2, 70, 28}};
    static const samba_dtype dtypes[] = {SAMBA_FLOAT32, SAMBA_FLOAT64, SAMBA_INT64, SAMBA_BFLOAT16, SAMBA_INT32};
    static const char *const results[] = {"2", "02", "12", "01", "0", "1", ""};
    static const char *const sums[] = {"collect_sum r", "mul s r r; collect_sum s",
                                       "ne none r r; where s none zero r; collect_sum s"};
    for (int s = 0; s < LENGTH(domains); s++)
        for (int layout = 0; layout < 4; layout++)
            for (int to = 0, kind = 0; to < LENGTH(results); kind = (kind + 1) % LENGTH(sums), to += kind == 0) {
                tile_case t;
                int64_t b = domains[s][1], c = domains[s][2];
                case_begin(&t, 3, domains[s]);
                t.dtype = dtypes[(s + to) % LENGTH(dtypes)];
                case_operand(&t, "x", t.dtype, layout == 2 ? (domains[s][0] * b - 1) * c : 0,
                             layout == 0   ? SHAPE(b * c, c, 1)
                             : layout == 1 ? SHAPE(b * (c + 3), c + 3, 1)
                             : layout == 2 ? SHAPE(-b * c, -c, 1)
                                           : SHAPE(0, 0, 1));
                case_text(&t, "T y:%s; constant zero 0; setup; load r@x x; %s y; step", results[to], sums[kind]);
                case_check(&t, 1e-4, "sums of %d x %d x %d, layout %d, to %s", (int)domains[s][0], (int)b, (int)c, layout,
                           results[to]);
            }
}

/* Sums of what is a number: of rows, of all, of columns; few columns and many, several chunks. */
static void test_numbers(void **state)
{
    static const int64_t sizes[] = {1, 2, 3, 15, 16, 77, 300, 513, 5000};
    static const char *const results[] = {"0", "", "1"};
    for (int s = 0; s < LENGTH(sizes); s++)
        for (int to = 0; to < 2 * LENGTH(results); to++) {
            tile_case t;
            case_begin(&t, 2, SHAPE(9, sizes[s]));
            t.dtype = to % 2 ? SAMBA_BFLOAT16 : SAMBA_FLOAT32;
            case_text(&t,
                      "T x; float32 y:%s; row r; constant zero 0; constant two 2; setup; load a x; gt big a two;"
                      "div odd zero zero; where v big odd a; ne none v v; where w none zero v; %s",
                      results[to / 2], to / 2 == 0 ? "sum r w; step; store r y; once" : "collect_sum w y; step");
            case_check(&t, 1e-3, "numbers of %d columns, to %s", (int)sizes[s], results[to / 2]);
        }
    (void)state;
}

/* ---- the block of a contraction, in pieces of all sizes ---- */
typedef struct region {
    int64_t m, n, height, width;
    bool rows;
} region;

/* All pieces that a thread has, each copied out of the block with `extra` elements after a row. */
static void run_regions(const tile_case *t, const samba_tile_program *program, const region *r, int64_t extra, int threads)
{
    int64_t pitch = samba_tile_thread_scratch(program), ld = r->width + extra;
    char *scratch = aligned_alloc(64, (size_t)(pitch * threads));
    float *values = malloc((size_t)(r->height * ld) * sizeof *values);
    for (int thread = 0; thread < threads; thread++) {
        samba_tile_begin(program, scratch + thread * pitch);
        for (int64_t strip = 0; strip < 2 * ((r->m + r->height - 1) / r->height); strip++)
            for (int64_t j = 0; j < r->n; j += r->width) {
                int64_t i = strip / 2 * r->height, at = strip % 2 * r->m + i; /* of both batches */
                int64_t h = r->m - i < r->height ? r->m - i : r->height, w = r->n - j < r->width ? r->n - j : r->width;
                if ((strip / 2 + (r->rows ? 0 : j / r->width)) % threads != thread)
                    continue;
                for (int64_t k = 0; k < h * w; k++)
                    values[k / w * ld + k % w] = (float)t->block[(at + k / w) * r->n + j + k % w];
                samba_tile_region(program, scratch + thread * pitch, at, h, j, w, values, ld);
            }
    }
    for (int thread = 0; thread < threads; thread++)
        samba_tile_finish(program, scratch, pitch, thread, threads);
    free(scratch);
    free(values);
}

static void check_region(const region *r, int64_t extra)
{
    tile_case t;
    case_begin(&t, 3, SHAPE(2, r->m, r->n));
    case_text(&t,
              "float32 bias:2 y sums:2 raw norm:01 counted:01 given:01; row raw_scale@given scale@counted; %s; load b@bias bias;"
              "load raw_scale given; neg scale raw_scale; store scale counted; add out@y block b; relu out out; store out y;"
              "collect_sum out sums; %s; step",
              r->rows ? "block block*; amax most block; step; store most norm; once" : "block block",
              r->rows ? "" : "block copy@raw; store copy raw");
    t.block = malloc((size_t)(2 * r->m * r->n) * sizeof *t.block);
    for (int64_t i = 0; i < 2 * r->m * r->n; i++)
        t.block[i] = rand() % 9 - 4;
    char *want = case_room(&t), *got = case_room(&t);
    naive_run(&t, want);
    SAMBA_EACH_KERNELS (isa)
        for (int threads = 1; threads <= 2; threads++) {
            samba_arena arena;
            const samba_tile_program *program;
            volatile int32_t fault = 0;
            samba_arena_init(&arena, context);
            memcpy(got, t.memory, (size_t)t.bytes);
            samba_preparing prepare = case_prepare(&t, context, &arena, (samba_isa)isa, threads, got, &fault);
            need(samba_tile_program_new(&prepare, &t.stage, &program));
            assert_true(samba_tile_has_collect(program));
            run_regions(&t, program, r, extra, threads);
            case_compare(&t, got, want, 0, "region");
            samba_arena_free(&arena);
        }
    free(want);
    free(got);
    case_end(&t);
}

static void test_region(void **state)
{
    static const region regions[] = {{64, 64, 32, 64, false}, {50, 130, 32, 64, false}, {5, 700, 3, 600, false},
                                     {9, 10, 9, 10, false},   {33, 1, 16, 1, false},    {20, 48, 7, 48, true},
                                     {20, 700, 7, 700, true}, {40, 5, 40, 5, true}};
    srand(4);
    for (int i = 0; i < 2 * LENGTH(regions); i++)
        check_region(&regions[i / 2], i % 2 * 7);
}

/* ---- random programs ---- */
static int pick(int n) { return rand() % n; }

/* Half of them in order; what is no result may repeat. */
static int random_operand(tile_case *t, samba_dtype dtype, bool result)
{
    int64_t strides[SAMBA_MAX_RANK];
    char dims[SAMBA_MAX_RANK + 1] = "";
    bool repeats = !result && pick(3) == 0;
    if (pick(2)) {
        random_strides(t, false, repeats, strides);
        return case_operand(t, "", dtype, pick(5), strides);
    }
    for (int i = 0, count = 0; i < t->stage.rank; i++)
        if (!repeats || pick(2))
            dims[count++] = (char)('0' + i);
    return case_layout(t, "", dtype, dims);
}

typedef struct drawn {
    tile_case *t;
    int class_, full[40], count; /* registers that have a value, of the class */
    int wide;                    /* 0: none is used in a later step */
    const samba_dtype *dtypes;   /* of the class, 6 */
} drawn;

static int fresh(drawn *p, samba_extent extent)
{
    return case_register(p->t, (samba_register_class)p->class_, extent, extent == SAMBA_ROW || p->wide, -1);
}

static void random_operator(drawn *p)
{
    static const samba_tile binary[] = {SAMBA_TILE_add, SAMBA_TILE_sub, SAMBA_TILE_maximum, SAMBA_TILE_minimum};
    static const samba_tile unary[] = {SAMBA_TILE_neg, SAMBA_TILE_abs, SAMBA_TILE_relu};
    tile_case *t = p->t;
    int a = p->full[pick(p->count)], b = p->full[pick(p->count)], c = p->full[pick(p->count)], d = fresh(p, SAMBA_FULL);
    switch (pick(7)) {
    case 0: case_op(t, unary[pick(LENGTH(unary))], d, a, -1); break;
    case 1:
    case 2: { /* a choice by a comparison, or in float32 by any number and the comparison itself */
        int mask = case_register(t, SAMBA_F32, SAMBA_FULL, p->wide, -1), condition = p->class_ == SAMBA_F32 && pick(2) ? c : mask;
        case_op(t, pick(3) ? SAMBA_TILE_eq + pick(6) : SAMBA_TILE_not_zero, mask, a, b);
        if (t->instructions[t->stage.program.instruction_count - 1].op == SAMBA_TILE_not_zero)
            t->instructions[t->stage.program.instruction_count - 1].b = -1;
        case_emit(t, SAMBA_TILE_where, d, condition, a, b, -1, 0);
        if (p->class_ == SAMBA_F32)
            p->full[p->count++] = mask;
        break;
    }
    default: case_op(t, binary[pick(LENGTH(binary))], d, a, b);
    }
    p->full[p->count++] = d;
}

/* What becomes of the last register: stored, one time in two where it lies; summed up over some dims, as it is or in float64. */
static void random_results(drawn *p)
{
    static const samba_tile collect[] = {SAMBA_TILE_collect_sum, SAMBA_TILE_collect_amax, SAMBA_TILE_collect_amin};
    tile_case *t = p->t;
    int last = p->full[p->count - 1];
    if (pick(2)) {
        int operand = random_operand(t, p->dtypes[pick(6)], true);
        if (pick(2) && t->registers[last].direct < 0)
            t->registers[last].direct = (int16_t)operand;
        case_store(t, last, operand);
    }
    for (int k = pick(3); k > 0; k--)
        case_emit(t, collect[pick(3)], -1, last, -1, -1, random_operand(t, p->dtypes[pick(6)], false), 0);
    if (pick(4) == 0) {
        int wide = case_register(t, SAMBA_F64, SAMBA_FULL, 0, -1);
        case_op(t, SAMBA_TILE_cast, wide, last, -1);
        case_emit(t, SAMBA_TILE_collect_sum, -1, wide, -1, -1, random_operand(t, SAMBA_FLOAT64, false), 0);
    }
}

/* A row's sum, extreme or greatest place, which goes on to the next step. Only the first step sums, so that sums stay exact. */
static void random_rows(drawn *p, bool sums)
{
    static const samba_tile reduce[] = {SAMBA_TILE_amax, SAMBA_TILE_amin, SAMBA_TILE_sum};
    tile_case *t = p->t;
    int last = p->full[p->count - 1], of_row = fresh(p, SAMBA_ROW), negative = fresh(p, SAMBA_ROW), across = t->stage.rank - 1;
    bool empty = t->stage.domain[across] == 0;
    int place = empty || pick(3) ? -1 : case_register(t, SAMBA_I64, SAMBA_ROW, 1, -1);
    case_op(t, empty ? SAMBA_TILE_sum : reduce[pick(sums ? 3 : 2)], of_row, last, -1);
    if (place >= 0)
        case_op(t, SAMBA_TILE_argmax, place, last, -1);
    case_step(t, 1);
    case_op(t, SAMBA_TILE_neg, negative, of_row, -1);
    for (int k = 0; k < 3; k++) {
        if (k == 2 ? place < 0 : pick(2))
            continue;
        int operand = random_operand(t, k == 2 ? SAMBA_INT64 : p->dtypes[pick(6)], k > 0);
        t->operands[operand].strides[across] = 0;
        if (k == 0)
            case_emit(t, SAMBA_TILE_collect_sum, -1, negative, -1, -1, operand, 0);
        else
            case_store(t, k == 2 ? place : negative, operand);
    }
    case_step(t, 0);
    int spread = fresh(p, SAMBA_FULL);
    case_op(t, SAMBA_TILE_spread, spread, negative, -1);
    p->count = p->wide ? p->count : 1; /* the constant stays */
    p->full[p->count++] = spread;
}

static void random_case(tile_case *t)
{
    static const samba_dtype dtypes[3][6] = {
        {SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_FLOAT32, SAMBA_BFLOAT16, SAMBA_FLOAT16, SAMBA_BOOL},
        {SAMBA_FLOAT64, SAMBA_FLOAT64, SAMBA_FLOAT64, SAMBA_FLOAT64, SAMBA_FLOAT64, SAMBA_FLOAT64},
        {SAMBA_INT64, SAMBA_INT64, SAMBA_INT32, SAMBA_INT16, SAMBA_INT8, SAMBA_UINT8}};
    bool large = pick(12) == 0;
    random_domain(t, large, true);
    drawn p = {.t = t, .class_ = pick(2) ? SAMBA_F32 : pick(2) ? SAMBA_F64 : SAMBA_I64, .wide = pick(2)};
    p.dtypes = dtypes[p.class_];
    int steps = 1 + pick(large ? 2 : 3), two = fresh(&p, SAMBA_FULL);
    t->registers[two].wide = 0;
    case_emit(t, SAMBA_TILE_constant, two, -1, -1, -1, -1, 2);
    p.full[p.count++] = two;
    case_setup_ends(t);
    for (int s = 0; s < steps; s++) {
        for (int k = 1 + pick(3); k > 0; k--) {
            int operand = random_operand(t, p.dtypes[pick(6)], false), r = fresh(&p, SAMBA_FULL);
            if (pick(2))
                t->registers[r].direct = (int16_t)operand;
            case_load(t, r, operand);
            p.full[p.count++] = r;
        }
        for (int k = large ? pick(3) : 1 + pick(4); k > 0; k--)
            random_operator(&p);
        random_results(&p);
        if (s + 1 < steps)
            random_rows(&p, s == 0);
        else
            case_step(t, 1);
    }
}

static void test_random_programs(void **state)
{
    for (unsigned seed = 0; seed < 900; seed++) {
        tile_case t;
        srand(seed);
        random_case(&t);
        case_check(&t, 0, "random program, seed %u", seed);
    }
}

static void test_errors(void **state)
{
    tile_case t;
    case_begin(&t, 1, SHAPE(20));
    case_text(&t, "int64 x; load in@x x; step");
    fail_each_allocation(case_scenario, &t);
    case_text(&t, "exp in in");
    t.steps[0].end = 2;
    refuse(case_scenario(context, &t), SAMBA_ERROR_UNSUPPORTED, "exp");
    t.stage.program.instruction_count = t.steps[0].end = 1;
    t.stage.rank = 2;
    t.stage.domain[0] = t.stage.domain[1] = INT64_MAX / 4;
    t.registers[0].wide = 1;
    refuse(case_scenario(context, &t), SAMBA_ERROR_UNSUPPORTED, "");
    t.stage.kind = 77;
    refuse(case_scenario(context, &t), SAMBA_ERROR_INTERNAL, "");
    case_end(&t);
}

TEST_MAIN(test_rounding, test_iota_random, test_labels, test_gelu_both, test_layer_norm, test_long_rows, test_standing,
          test_sums_in_memory, test_numbers, test_region, test_random_programs, test_errors)
