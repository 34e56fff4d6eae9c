/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage under test: a text of a few lines builds its program (operands with memory of their own, registers, instructions,
 * steps), and it runs twice: by the kernels, on every ISA and with several numbers of threads, and by an interpreter that does
 * one instruction after another over the whole domain, element by element. Afterwards the memory must be equal, room between
 * buffers included. */
#ifndef SAMBA_TEST_NAIVE_TILES_H
#define SAMBA_TEST_NAIVE_TILES_H

#include "machines.h"
#include "tile_values.h"
#include "tensor/philox.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

#define CASE_GUARD 64 /* bytes of 0xE7 after each buffer */
#define CASE_MOST 64

typedef struct tile_case {
    samba_stage stage;
    samba_operand operands[CASE_MOST];
    samba_register registers[CASE_MOST];
    samba_instruction instructions[CASE_MOST];
    samba_step steps[CASE_MOST];
    samba_buffer buffers[CASE_MOST];
    char operand_names[CASE_MOST][16], register_names[CASE_MOST][16];
    int dtypes[CASE_MOST]; /* of buffers */
    int buffer_count, setup_registers;
    samba_dtype dtype; /* what a text calls T */
    bool indirect;     /* no register lies in an operand, whatever the text says */
    char *memory;
    int64_t bytes;
    double *block; /* what BLOCK gives: row-major (I64: the bits of integers), NULL none */
} tile_case;

static inline void case_begin(tile_case *t, int rank, const int64_t *domain)
{
    memset(t, 0, sizeof *t);
    t->stage = (samba_stage){.kind = SAMBA_STAGE_TILE, .name = "case", .rank = rank, .operands = t->operands};
    memcpy(t->stage.domain, domain, (size_t)rank * sizeof *domain);
    t->stage.program = (samba_program){.registers = t->registers, .instructions = t->instructions, .steps = t->steps};
    t->dtype = SAMBA_FLOAT32;
}

static inline void case_end(tile_case *t)
{
    free(t->memory);
    free(t->block);
}

/* A buffer of `elements`, whole numbers from -4 to 4 (bool: 0 and 1). */
static inline int case_buffer(tile_case *t, samba_dtype dtype, int64_t elements)
{
    int64_t size = (int64_t)samba_dtype_size(dtype), bytes = (elements * size + 63) / 64 * 64;
    t->buffers[t->buffer_count] = (samba_buffer){t->bytes, bytes};
    t->dtypes[t->buffer_count] = dtype;
    t->memory = realloc(t->memory, (size_t)(t->bytes + bytes + CASE_GUARD));
    memset(t->memory + t->bytes, 0xE7, (size_t)(bytes + CASE_GUARD));
    for (int64_t i = 0; i < elements; i++)
        samba_store_double(dtype, t->memory + t->bytes + i * size,
                           dtype == SAMBA_BOOL    ? rand() % 2
                           : dtype == SAMBA_UINT8 ? rand() % 9
                                                  : rand() % 9 - 4);
    t->bytes += bytes + CASE_GUARD;
    return t->buffer_count++;
}

static inline char *case_memory(const tile_case *t, int operand)
{
    return t->memory + t->buffers[t->operands[operand].buffer].offset;
}

/* An operand with a buffer that just holds it, `offset` elements from its begin; backwards where strides are negative. */
static inline int case_operand(tile_case *t, const char *name, samba_dtype dtype, int64_t offset, const int64_t *strides)
{
    int64_t last = offset;
    for (int i = 0; i < t->stage.rank; i++) {
        const int64_t further = t->stage.domain[i] > 0 ? (t->stage.domain[i] - 1) * strides[i] : 0;
        last += llabs(further);
        offset += further < 0 ? -further : 0;
    }
    int number = t->stage.operand_count++;
    samba_operand *o = &t->operands[number];
    *o = (samba_operand){.buffer = case_buffer(t, dtype, last + 1), .dtype = dtype, .offset = offset};
    memcpy(o->strides, strides, (size_t)t->stage.rank * sizeof *strides);
    snprintf(t->operand_names[number], sizeof *t->operand_names, "%s", name);
    return number;
}

/* One without gaps, of these dims, the memory's outermost first ("021"); the others have no stride. NULL: all in order. */
static inline int case_layout(tile_case *t, const char *name, samba_dtype dtype, const char *dims)
{
    int64_t strides[SAMBA_MAX_RANK] = {0}, size = 1;
    for (int i = (dims ? (int)strlen(dims) : t->stage.rank) - 1; i >= 0; i--) {
        int dim = dims ? dims[i] - '0' : i;
        strides[dim] = size;
        size *= t->stage.domain[dim] > 0 ? t->stage.domain[dim] : 1;
    }
    return case_operand(t, name, dtype, 0, strides);
}

static inline int case_register(tile_case *t, samba_register_class class_, samba_extent extent, int wide, int direct)
{
    t->registers[t->stage.program.register_count] =
        (samba_register){(uint8_t)class_, (uint8_t)extent, (uint8_t)wide, (int16_t)direct};
    return t->stage.program.register_count++;
}

static inline void case_emit(tile_case *t, samba_tile op, int d, int a, int b, int c, int operand, double immediate)
{
    t->instructions[t->stage.program.instruction_count++] =
        (samba_instruction){(uint16_t)op, (int16_t)d, (int16_t)a, (int16_t)b, (int16_t)c, (int16_t)operand, immediate};
}

static inline void case_load(tile_case *t, int d, int operand) { case_emit(t, SAMBA_TILE_load, d, -1, -1, -1, operand, 0); }
static inline void case_store(tile_case *t, int a, int operand) { case_emit(t, SAMBA_TILE_store, -1, a, -1, -1, operand, 0); }
static inline void case_op(tile_case *t, samba_tile op, int d, int a, int b) { case_emit(t, op, d, a, b, -1, -1, 0); }

static inline void case_setup_ends(tile_case *t)
{
    t->stage.program.setup = t->stage.program.instruction_count;
    t->setup_registers = t->stage.program.register_count;
}

/* A step of all instructions since the one before. */
static inline void case_step(tile_case *t, int loop)
{
    samba_program *p = &t->stage.program;
    int32_t begin = p->step_count ? p->steps[p->step_count - 1].end : p->setup;
    p->steps[p->step_count++] = (samba_step){begin, p->instruction_count, loop};
}

/* Most are small, some empty if they may be. Large: rows of few chunks, side by side or down the columns of memory; many rows. */
static inline void random_domain(tile_case *t, bool large, bool may_be_empty)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 17, 33, 64, 77, 256, 257, 300, 1000};
    static const int64_t larger[][3] = {{1, 50, 600},  {2, 17, 1025}, {3, 16, 520}, {1, 7, 4097}, {1, 2, 20000}, {1, 9000, 5},
                                        {1, 1, 10000}, {3, 130, 77},  {2, 70, 300}, {2, 5, 3000}, {2, 3000, 5},  {2, 3, 9000}};
    int64_t domain[SAMBA_MAX_RANK], numel = 1;
    int rank = 1 + rand() % 5;
    for (int i = rank - 1; i >= 0; i--) {
        do
            domain[i] = sizes[rand() % LENGTH(sizes)];
        while (numel * domain[i] > 6000);
        numel *= domain[i];
    }
    if (may_be_empty && rand() % 12 == 0)
        domain[rand() % rank] = 0;
    case_begin(t, large ? 3 : rank, large ? larger[rand() % LENGTH(larger)] : domain);
}

/* Strides of a memory in which the dims lie in some order, some reversed or repeated, with a gap here and there. */
static inline void random_strides(const tile_case *t, bool reversed, bool repeats, int64_t *strides)
{
    int order[SAMBA_MAX_RANK], rank = t->stage.rank;
    for (int i = 0; i < rank; i++) {
        int k = rand() % (i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    int64_t stride = rand() % 6 == 0 ? 2 : 1;
    for (int i = 0; i < rank; i++) {
        int k = order[i];
        strides[k] = reversed && rand() % 4 == 0 ? -stride : stride;
        if (repeats && rand() % 6 == 0)
            strides[k] = 0;
        else
            stride *= (t->stage.domain[k] > 0 ? t->stage.domain[k] : 1) + (rand() % 5 == 0);
    }
}

/* ---- programs as text: statements with `;` between them ----
 *   float32 x y:021 z:    operands of a dtype (T: that of the case); behind the colon the dims of case_layout, none here for z
 *   f64 a, row b          registers of a class, or with one value a row, where the operators do not say it
 *   setup, step, once     end the setup, a step for each chunk of columns, a step that runs once
 *   mul d a b             an operator with its result, sources, and operand or number. A register begins where it is first named:
 *                         a*, if it is wide; a@x, if it may lie in operand x */
static inline int case_named(char (*names)[16], int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static inline int case_operand_of(tile_case *t, const char *name)
{
    int found = case_named(t->operand_names, t->stage.operand_count, name);
    if (found < 0)
        fail_msg("there is no operand %s", name);
    return found;
}

static inline int case_register_of(tile_case *t, char *word, samba_register_class class_, samba_extent extent)
{
    char *in = strchr(word, '@'), *wide = strchr(word, '*');
    if (in)
        *in = 0;
    if (wide)
        *wide = 0;
    int found = case_named(t->register_names, t->stage.program.register_count, word);
    if (found < 0) {
        found = case_register(t, class_, extent, 0, -1);
        snprintf(t->register_names[found], sizeof *t->register_names, "%s", word);
    }
    if (wide)
        t->registers[found].wide = 1;
    if (in && !t->indirect)
        t->registers[found].direct = (int16_t)case_operand_of(t, in + 1);
    return found;
}

static inline void case_instruction(tile_case *t, int op, char **words, int count)
{
    static const int sources[] = {
        [SAMBA_FORM_STORE] = 1,   [SAMBA_FORM_RANDOM] = 1, [SAMBA_FORM_UNARY] = 1,   [SAMBA_FORM_BINARY] = 2,
        [SAMBA_FORM_COMPARE] = 2, [SAMBA_FORM_WHERE] = 3,  [SAMBA_FORM_TERNARY] = 3, [SAMBA_FORM_CONVERT] = 1,
        [SAMBA_FORM_WRAP] = 1,    [SAMBA_FORM_ROUND] = 1,  [SAMBA_FORM_REDUCE] = 1,  [SAMBA_FORM_SPREAD] = 1,
        [SAMBA_FORM_COLLECT] = 1};
    samba_tile_form form = samba_tile_table[op].form;
    const bool has_d = form != SAMBA_FORM_STORE && form != SAMBA_FORM_COLLECT;
    const bool number = form == SAMBA_FORM_CONST || form == SAMBA_FORM_IOTA;
    const bool memory = form == SAMBA_FORM_LOAD || form == SAMBA_FORM_RANDOM || !has_d;
    if (count != 1 + has_d + sources[form] + number + memory)
        fail_msg("%s with %d words", words[0], count);
    int from[3] = {-1, -1, -1}, at = memory ? case_operand_of(t, words[count - 1]) : -1;
    samba_register_class class_ = samba_class_of(form == SAMBA_FORM_LOAD ? (samba_dtype)t->operands[at].dtype : t->dtype);
    samba_extent extent = form == SAMBA_FORM_REDUCE ? SAMBA_ROW : SAMBA_FULL;
    for (int i = 0; i < sources[form]; i++) {
        from[i] = case_named(t->register_names, t->stage.program.register_count, words[1 + has_d + i]);
        if (from[i] < 0)
            fail_msg("%s: there is no register %s", words[0], words[1 + has_d + i]);
        class_ = (samba_register_class)t->registers[from[i]].class_;
        if (t->registers[from[i]].extent == SAMBA_ROW && form != SAMBA_FORM_SPREAD && from[i] >= t->setup_registers)
            extent = SAMBA_ROW;
    }
    if (form == SAMBA_FORM_COMPARE || form == SAMBA_FORM_RANDOM || op == SAMBA_TILE_not_zero)
        class_ = SAMBA_F32;
    if (form == SAMBA_FORM_IOTA || op == SAMBA_TILE_argmax)
        class_ = SAMBA_I64;
    int d = has_d ? case_register_of(t, words[1], class_, extent) : -1;
    case_emit(t, (samba_tile)op, d, from[0], from[1], from[2], at, number ? strtod(words[2], NULL) : 0);
}

static inline void case_statement(tile_case *t, char **words, int count)
{
    static const char *const kinds[] = {"f32", "f64", "i64", "row"};
    for (int dtype = 0; dtype < SAMBA_DTYPE_COUNT; dtype++)
        if (strcmp(words[0], samba_dtype_name((samba_dtype)dtype)) == 0 || (words[0][0] == 'T' && dtype == (int)t->dtype)) {
            for (int i = 1; i < count; i++) {
                char *dims = strchr(words[i], ':');
                if (dims)
                    *dims++ = 0;
                case_layout(t, words[i], (samba_dtype)dtype, dims);
            }
            return;
        }
    for (int i = 0; i < LENGTH(kinds); i++)
        if (strcmp(words[0], kinds[i]) == 0) {
            for (int k = 1; k < count; k++)
                case_register_of(t, words[k], i < 3 ? (samba_register_class)i : samba_class_of(t->dtype),
                                 i < 3 ? SAMBA_FULL : SAMBA_ROW);
            return;
        }
    if (strcmp(words[0], "setup") == 0)
        case_setup_ends(t);
    else if (strcmp(words[0], "step") == 0 || strcmp(words[0], "once") == 0)
        case_step(t, words[0][0] == 's');
    else {
        int op = 0;
        while (op < SAMBA_TILE_COUNT && strcmp(words[0], samba_tile_table[op].name) != 0)
            op++;
        if (op == SAMBA_TILE_COUNT)
            fail_msg("no tile operator is called %s", words[0]);
        case_instruction(t, op, words, count);
    }
}

__attribute__((format(printf, 2, 3))) static inline void case_text(tile_case *t, const char *format, ...)
{
    char text[1000], *rest = text;
    va_list list;
    va_start(list, format);
    assert_true(vsnprintf(text, sizeof text, format, list) < (int)sizeof text);
    va_end(list);
    for (char *statement; (statement = strsep(&rest, ";"));) {
        char *words[16];
        int count = 0;
        for (char *word; count < 16 && (word = strsep(&statement, " "));)
            if (*word)
                words[count++] = word;
        if (count)
            case_statement(t, words, count);
    }
}

/* ---- the interpreter ---- */
typedef struct naive {
    const tile_case *t;
    int64_t rows, cols;
    tile_value *values[CASE_MOST]; /* rows * cols of each register; ROW: the first of each row; setup: the first of all */
    int once[CASE_MOST];           /* setup register */
} naive;

static inline void naive_index(const naive *n, int64_t row, int64_t col, int64_t *index)
{
    const samba_stage *s = &n->t->stage;
    index[s->rank - 1] = col;
    for (int i = s->rank - 2; i >= 0; i--) {
        index[i] = row % s->domain[i];
        row /= s->domain[i];
    }
}

static inline int64_t naive_offset(const naive *n, int operand, int64_t row, int64_t col)
{
    int64_t index[SAMBA_MAX_RANK], offset = n->t->operands[operand].offset;
    naive_index(n, row, col, index);
    for (int i = 0; i < n->t->stage.rank; i++)
        offset += index[i] * n->t->operands[operand].strides[i];
    return offset;
}

static inline char *naive_element(const naive *n, char *memory, int operand, int64_t offset)
{
    const samba_operand *o = &n->t->operands[operand];
    return memory + n->t->buffers[o->buffer].offset + offset * (int64_t)samba_dtype_size((samba_dtype)o->dtype);
}

static inline tile_value *naive_at(const naive *n, int r, int64_t row, int64_t col)
{
    static tile_value none;
    if (r < 0)
        return &none;
    int64_t place = n->once[r] ? 0 : n->t->registers[r].extent == SAMBA_ROW ? row * n->cols : row * n->cols + col;
    return &n->values[r][place];
}

static inline int naive_fold_of(int op) /* the row's operator for that of columns */
{
    switch (op) {
    case SAMBA_TILE_collect_sum: return SAMBA_TILE_sum;
    case SAMBA_TILE_collect_prod: return SAMBA_TILE_prod;
    case SAMBA_TILE_collect_amax:
    case SAMBA_TILE_argmax: return SAMBA_TILE_amax;
    case SAMBA_TILE_collect_amin: return SAMBA_TILE_amin;
    default: return op;
    }
}

/* One result for each element of the operand, in double: those of dims with a stride. */
static inline void naive_collect(naive *n, const samba_instruction *i, char *memory, int class_, int64_t cols)
{
    const samba_operand *o = &n->t->operands[i->operand];
    const samba_stage *s = &n->t->stage;
    const int op = naive_fold_of(i->op);
    int64_t count = 1, last = o->offset;
    for (int k = 0; k < s->rank; k++)
        if (o->strides[k]) {
            count *= s->domain[k];
            last += s->domain[k] > 0 ? o->strides[k] * (s->domain[k] - 1) : 0;
        }
    tile_value *sums = malloc((size_t)(last + 1) * sizeof *sums);
    for (int64_t k = 0; k <= last; k++)
        sums[k] = fold_start(op, class_);
    for (int64_t e = 0; e < n->rows * cols; e++) {
        tile_value *sum = &sums[naive_offset(n, i->operand, e / cols, e % cols)];
        *sum = fold(op, class_, *sum, *naive_at(n, i->a, e / cols, e % cols));
    }
    for (int64_t flat = 0; flat < count; flat++) {
        int64_t offset = o->offset, rest = flat;
        for (int k = s->rank - 1; k >= 0; k--)
            if (o->strides[k]) {
                offset += rest % s->domain[k] * o->strides[k];
                rest /= s->domain[k];
            }
        store_value((samba_dtype)o->dtype, class_, naive_element(n, memory, i->operand, offset), sums[offset]);
    }
    free(sums);
}

static inline void naive_reduce(const naive *n, const samba_instruction *i, int class_, int64_t row, tile_value *d)
{
    const int op = naive_fold_of(i->op);
    tile_value best = fold_start(op, class_);
    int64_t where = 0;
    for (int64_t k = 0; k < n->cols; k++) {
        tile_value next = fold(op, class_, best, *naive_at(n, i->a, row, k));
        if (k > 0 && (class_ == SAMBA_I64 ? next.i != best.i : next.f != best.f))
            where = k;
        best = next;
    }
    if (i->op == SAMBA_TILE_argmax)
        d->i = where;
    else if (class_ == SAMBA_I64)
        *d = best;
    else
        d->f = rounded_to(class_, best.f);
}

static inline void naive_instruction(naive *n, const samba_instruction *i, char *memory)
{
    const tile_case *t = n->t;
    samba_tile_form form = samba_tile_table[i->op].form;
    int d_class = i->d >= 0 ? t->registers[i->d].class_ : 0, a_class = i->a >= 0 ? t->registers[i->a].class_ : d_class;
    int class_ = form == SAMBA_FORM_WHERE ? t->registers[i->b].class_ : a_class, target = i->d >= 0 ? i->d : i->a;
    bool once = n->once[target] && form != SAMBA_FORM_STORE;
    int64_t rows = once ? 1 : n->rows, cols = once || t->registers[target].extent == SAMBA_ROW ? 1 : n->cols;
    samba_dtype dtype = i->operand >= 0 ? (samba_dtype)t->operands[i->operand].dtype : SAMBA_FLOAT32;
    if (form == SAMBA_FORM_COLLECT) {
        naive_collect(n, i, memory, class_, cols);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            tile_value *d = naive_at(n, i->d, r, c), a = *naive_at(n, i->a, r, c);
            int64_t index[SAMBA_MAX_RANK], offset = i->operand >= 0 ? naive_offset(n, i->operand, r, c) : 0;
            switch (form) {
            case SAMBA_FORM_LOAD: *d = load_value(dtype, class_, naive_element(n, memory, i->operand, offset)); break;
            case SAMBA_FORM_STORE: store_value(dtype, class_, naive_element(n, memory, i->operand, offset), a); break;
            case SAMBA_FORM_BLOCK: d->f = t->block[r * n->cols + c]; break;
            case SAMBA_FORM_CONST:
                if (class_ == SAMBA_I64)
                    d->i = (int64_t)i->immediate;
                else
                    d->f = rounded_to(class_, i->immediate);
                break;
            case SAMBA_FORM_IOTA:
                naive_index(n, r, c, index);
                d->i = index[(int)i->immediate];
                break;
            case SAMBA_FORM_RANDOM: d->f = samba_philox_uniform((uint64_t)a.i, (uint64_t)offset); break;
            case SAMBA_FORM_REDUCE: naive_reduce(n, i, class_, r, d); break;
            case SAMBA_FORM_SPREAD: *d = *naive_at(n, i->a, r, 0); break;
            default:
                if (value_of(i->op, class_, d_class, a, *naive_at(n, i->b, r, c), *naive_at(n, i->c, r, c), d) != EXACT)
                    d->f = rounded_to(class_, d->f);
            }
        }
}

static inline void naive_run(const tile_case *t, char *memory)
{
    const samba_program *p = &t->stage.program;
    naive n = {.t = t, .rows = 1, .cols = t->stage.domain[t->stage.rank - 1]};
    for (int i = 0; i + 1 < t->stage.rank; i++)
        n.rows *= t->stage.domain[i];
    for (int r = 0; r < p->register_count; r++)
        n.values[r] = calloc((size_t)(n.rows * (n.cols + 1) + 1), sizeof(tile_value));
    for (int i = 0; i < p->setup; i++)
        n.once[p->instructions[i].d] = 1;
    for (int i = 0; i < p->instruction_count; i++)
        naive_instruction(&n, &p->instructions[i], memory);
    for (int r = 0; r < p->register_count; r++)
        free(n.values[r]);
}

/* ---- the kernels ---- */
static inline samba_preparing case_prepare(const tile_case *t, samba_context *of, samba_arena *arena, samba_isa isa, int threads,
                                           char *memory, volatile int32_t *fault)
{
    return (samba_preparing){.context = of,
                             .machine = machine_with(isa, false),
                             .threads = threads,
                             .memory = memory,
                             .buffers = t->buffers,
                             .arena = arena,
                             .fault = fault,
                             .stage_index = 6};
}

/* Prepared by a road (NULL: the cheapest) and not run. */
static inline samba_status case_prepare_by(const tile_case *t, samba_context *of, const char *road)
{
    samba_arena arena;
    samba_prepared prepared;
    volatile int32_t fault = 0;
    samba_arena_init(&arena, of);
    samba_preparing prepare = case_prepare(t, of, &arena, samba_isa_best(), 2, t->memory, &fault);
    prepare.machine = machine_with(samba_isa_best(), true);
    prepare.road = road;
    samba_status status = samba_prepare_stage(&prepare, &t->stage, &prepared);
    samba_arena_free(&arena);
    return status;
}

/* A scenario of failing_allocator.h. */
static inline samba_status case_scenario(samba_context *of, void *user) { return case_prepare_by(user, of, NULL); }

/* Roads that cases took; a stage that is no contraction takes none. */
static const char *roads_taken[32];
static inline void note_road(const char *road)
{
    int i = 0;
    while (road && roads_taken[i] && strcmp(roads_taken[i], road) != 0)
        i++;
    if (road)
        roads_taken[i] = road;
}

/* A team one after the other, phase by phase, in scratch full of rubbish. */
static inline void run_prepared(const samba_prepared *prepared, int threads)
{
    size_t bytes = (size_t)(prepared->shared_scratch + threads * prepared->thread_scratch);
    char *scratch = aligned_alloc(64, bytes + 64);
    memset(scratch, 0xA5, bytes + 64);
    assert_int_equal(prepared->thread_scratch % 64, 0);
    for (int phase = 0; phase < prepared->phases; phase++)
        for (int thread = threads - 1; thread >= 0; thread--)
            prepared->run(prepared->state, scratch, phase, thread, threads);
    for (int i = 0; i < 64; i++)
        assert_int_equal((unsigned char)scratch[bytes + (size_t)i], 0xA5);
    free(scratch);
}

static inline void case_compare(const tile_case *t, const char *got, const char *want, double tolerance, const char *what)
{
    for (int b = 0; b < t->buffer_count; b++) {
        samba_dtype dtype = (samba_dtype)t->dtypes[b];
        int64_t size = (int64_t)samba_dtype_size(dtype), from = t->buffers[b].offset, bytes = t->buffers[b].bytes;
        for (int64_t i = 0; i < bytes / size; i++) {
            const char *x = got + from + i * size, *y = want + from + i * size;
            if (memcmp(x, y, (size_t)size) == 0)
                continue;
            double p = samba_load_double(dtype, x), q = samba_load_double(dtype, y);
            if (p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= tolerance * fmax(1, fabs(q)))
                continue;
            fail_msg("%s: buffer %d (%s) element %lld is %g, not %g", what, b, samba_dtype_name(dtype), (long long)i, p, q);
        }
        assert_memory_equal(got + from + bytes, want + from + bytes, CASE_GUARD);
    }
}

/* Products neither read nor write behind a buffer; other stages read whole vectors. */
static inline void case_poison(const tile_case *t, const char *memory, bool on)
{
    for (int i = 0; i < t->buffer_count && t->stage.kind == SAMBA_STAGE_CONTRACT; i++) {
        const char *at = memory + t->buffers[i].offset + t->buffers[i].bytes;
        if (on)
            ASAN_POISON_MEMORY_REGION(at, CASE_GUARD);
        else
            ASAN_UNPOISON_MEMORY_REGION(at, CASE_GUARD);
    }
}

static inline char *case_room(const tile_case *t)
{
    char *room = aligned_alloc(64, (size_t)(t->bytes + 127) / 64 * 64);
    if (t->bytes)
        memcpy(room, t->memory, (size_t)t->bytes);
    return room;
}

/* All ISAs, 1 to 5 threads (products: with libxsmm and without); `want` is freed. */
/* The road by which contractions are to go; NULL: the cheapest. Where it does not lead to a case that is not checked. */
static const char *case_road;

static inline void case_check_against(const tile_case *t, char *want, double tolerance, int32_t fault_wanted, const char *name)
{
    static const int teams[] = {1, 2, 3, 5};
    const bool product = t->stage.kind == SAMBA_STAGE_CONTRACT;
    char *got = case_room(t), what[200];
    SAMBA_EACH_ISA (isa)
        for (int k = 0; k < (product ? 3 * LIBXSMM_WAYS : 4); k++) {
            const int team = teams[product ? k / LIBXSMM_WAYS : k];
            const bool libxsmm = product && k % LIBXSMM_WAYS;
            samba_arena arena;
            samba_prepared prepared;
            volatile int32_t fault = 0;
            samba_arena_init(&arena, context);
            if (t->bytes)
                memcpy(got, t->memory, (size_t)t->bytes);
            samba_preparing prepare = case_prepare(t, context, &arena, (samba_isa)isa, team, got, &fault);
            prepare.machine = machine_with((samba_isa)isa, libxsmm);
            prepare.far = !product && k % 2; /* what is asked for a tile ahead changes nothing */
            prepare.road = product ? case_road : NULL;
            samba_status status = samba_prepare_stage(&prepare, &t->stage, &prepared);
            if (status == SAMBA_ERROR_UNSUPPORTED && prepare.road) {
                samba_arena_free(&arena);
                continue;
            }
            if (status != SAMBA_OK)
                fail_msg("%s: %s", name, samba_error_message(context));
            note_road(prepared.road);
            case_poison(t, got, true);
            run_prepared(&prepared, team);
            case_poison(t, got, false);
            snprintf(what, sizeof what, "%s, %s%s, %d threads", name, samba_isa_names[isa], libxsmm ? " and libxsmm" : "", team);
            case_compare(t, got, want, tolerance, what);
            assert_int_equal(fault, fault_wanted);
            samba_arena_free(&arena);
        }
    free(want);
    free(got);
}

/* Against the interpreter; the case ends with it. The words say which case it is. */
__attribute__((format(printf, 3, 4))) static inline void case_check(tile_case *t, double tolerance, const char *format, ...)
{
    char *want = case_room(t), name[160];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    naive_run(t, want);
    case_check_against(t, want, tolerance, 0, name);
    case_end(t);
}

#endif
