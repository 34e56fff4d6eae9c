/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a tile program ready: operands become views with merged dims, instructions get their kernels, every register, record
 * and partial result an offset in the thread's scratch. The result lives in the prepare's arena; it trusts what samba_plan_check
 * has checked and looks only for what concerns kernels. */
#include "device/cpu/tile/tile.h"
#include <string.h>

#define ALIGN SAMBA_ALIGNMENT
#define LINE_ELEMENTS 16 /* of 4 bytes in a line of cache; of 8 bytes in two */

typedef struct builder {
    const samba_preparing *prepare;
    const samba_stage *stage;
    samba_tile_program *program;
    int32_t *view_of; /* operand -> view, -1 none yet */
    int32_t *writers; /* register -> instructions that write it */
    bool overflow;
} builder;

/* Room in scratch. */
static int64_t reserve(builder *b, int64_t count, int64_t size)
{
    int64_t at = b->program->thread_scratch, bytes, end;
    if (!samba_mul_checked(count, size, &bytes) || !samba_add_checked(at, bytes, &end) || !samba_add_checked(end, ALIGN, &end)) {
        b->overflow = true;
        return 0;
    }
    b->program->thread_scratch = end - ALIGN + (ALIGN - (end - ALIGN) % ALIGN) % ALIGN;
    return at;
}

/* Merges the dims before the last; size-1 dims count for nothing. */
static int32_t new_view(builder *b, int dtype, char *base, int64_t offset, const int64_t *strides)
{
    samba_tile_program *program = b->program;
    const samba_stage *stage = b->stage;
    samba_view *view = &program->views[program->view_count];
    int last = stage->rank - 1;
    *view = (samba_view){.base = base, .offset = offset, .dtype = dtype, .size = (int32_t)samba_dtype_size((samba_dtype)dtype)};
    view->native = dtype == SAMBA_FLOAT32 || dtype == SAMBA_FLOAT64 || dtype == SAMBA_INT64;
    view->col_stride = stage->domain[last] == 1 ? 1 : strides[last];
    for (int i = 0; i < last; i++) {
        int64_t size = stage->domain[i], stride = strides[i];
        if (size == 1)
            continue;
        int g = view->groups - 1;
        if (g >= 0 && view->group_stride[g] == stride * size) {
            view->group_size[g] *= size;
            view->group_stride[g] = stride;
        } else {
            view->group_size[view->groups] = size;
            view->group_stride[view->groups++] = stride;
        }
    }
    if (view->groups > 1)
        view->row_offsets = reserve(b, SAMBA_TILE_CAPACITY, 8);
    return program->view_count++;
}

static int32_t operand_view(builder *b, int32_t operand)
{
    const samba_operand *o = &b->stage->operands[operand];
    if (b->view_of[operand] < 0) {
        int64_t size = (int64_t)samba_dtype_size((samba_dtype)o->dtype);
        char *base = o->buffer < 0 ? NULL : b->prepare->memory + b->prepare->buffers[o->buffer].offset + o->offset * size;
        b->view_of[operand] = new_view(b, o->dtype, base, o->buffer < 0 ? o->offset : 0, o->strides);
    }
    return b->view_of[operand];
}

static int class_size(int class_) { return class_ == SAMBA_F32 ? 4 : 8; }

static int64_t wide_elements(const samba_tile_program *program)
{
    int64_t elements = program->stands ? program->tile_rows * program->cols : program->cols;
    return elements > program->capacity ? elements : program->capacity;
}

/* Rows that do not stay in the first cache from one step to the next. */
static bool is_long(const builder *b)
{
    return b->stage->kind == SAMBA_STAGE_TILE && !b->program->stands &&
           b->program->cols > b->prepare->machine->tile.registers / (int64_t)sizeof(float);
}

/* Whether operands are passed over once, along rows: the CPU reads those ahead by itself. Being asked for only holds them up.
 * While a tile is passed over several times it asks for nothing, and it guesses badly where rows or columns lie far apart. */
static bool is_stream(const builder *b)
{
    const samba_stage *stage = b->stage;
    for (int i = 0; i < stage->operand_count; i++)
        if (stage->operands[i].strides[stage->rank - 1] > 1)
            return false;
    return stage->program.step_count <= 1 && !b->program->stands;
}

/* Holds what a row has one value of in memory: instructions of long rows take it as such (combine.c). */
static bool is_row_value(const builder *b, int r)
{
    const samba_stage *stage = b->stage;
    bool found = false;
    for (int i = stage->program.setup; i < stage->program.instruction_count; i++) {
        const samba_instruction *x = &stage->program.instructions[i];
        if (x->d != r)
            continue;
        if (x->op != SAMBA_TILE_load || stage->operands[x->operand].strides[stage->rank - 1] != 0)
            return false;
        found = true;
    }
    return found && stage->domain[stage->rank - 1] >= SAMBA_LONG_ROW_COLUMNS;
}

static int times_met(const samba_program *source, int r)
{
    int times = 0;
    for (int i = 0; i < source->instruction_count; i++) {
        const samba_instruction *x = &source->instructions[i];
        times += (x->d == r) + (x->a == r) + (x->b == r) + (x->c == r);
    }
    return times;
}

/* Is left out where a sum leaves out what is not a number as it adds (combine.c): where(a != a, 0, a), its mask and its 0. */
static bool is_passed_over(const samba_program *source, int r)
{
    for (int i = source->setup; i + 2 < source->instruction_count; i++) {
        const samba_instruction *mask = &source->instructions[i], *where = mask + 1, *sum = mask + 2;
        if (mask->op == SAMBA_TILE_ne && mask->a == mask->b && where->op == SAMBA_TILE_where && where->a == mask->d &&
            where->c == mask->a && (sum->op == SAMBA_TILE_sum || sum->op == SAMBA_TILE_collect_sum) && sum->a == where->d &&
            (r == mask->d || r == where->d || r == where->b))
            return times_met(source, r) == 2;
    }
    return false;
}

/* Operands that are in no cache are asked for a tile ahead, unless they are streams.
 *
 * Memory that a program reads and writes passes through the first cache once, registers stay there. Where few are stored, longer
 * tiles cost nothing there, and less is spent on choosing what is next; what is asked for ahead is kept short.
 * Threads should still find tiles enough. */
static void choose_capacity(builder *b)
{
    samba_tile_program *program = b->program;
    int64_t bytes = 1, elements;
    program->capacity = SAMBA_TILE_CAPACITY;
    program->far = b->stage->kind == SAMBA_STAGE_TILE && b->prepare->far && !is_stream(b);
    if ((program->far && !program->stands) || b->stage->kind != SAMBA_STAGE_TILE || b->overflow ||
        !samba_mul_checked(program->rows, program->cols, &elements))
        return;
    for (int r = 0; r < program->register_count; r++)
        if (program->registers[r].extent == SAMBA_FULL && program->registers[r].direct < 0 && !is_row_value(b, r) &&
            !is_passed_over(&b->stage->program, r))
            bytes += program->registers[r].size;
    while (program->capacity < b->prepare->machine->tile.most_capacity &&
           2 * program->capacity * bytes <= b->prepare->machine->tile.registers &&
           elements / b->prepare->threads >= 32 * program->capacity)
        program->capacity *= 2;
}

static void resolve_registers(builder *b)
{
    samba_tile_program *program = b->program;
    const samba_program *source = &b->stage->program;
    for (int r = 0; r < program->register_count; r++) {
        const samba_register *from = &source->registers[r];
        samba_tile_register *to = &program->registers[r];
        *to = (samba_tile_register){.size = class_size(from->class_), .wide = from->wide, .extent = from->extent, .direct = -1};
        if (from->direct >= 0) {
            int32_t view = operand_view(b, from->direct);
            bool contiguous = from->extent == SAMBA_ROW || program->views[view].col_stride == 1;
            if (program->views[view].native && contiguous && !(program->stands && from->extent == SAMBA_FULL))
                to->direct = view;
        }
    }
    for (int i = 0; i < source->instruction_count; i++) {
        const samba_instruction *instruction = &source->instructions[i];
        if (instruction->d < 0)
            continue;
        samba_tile_register *d = &program->registers[instruction->d];
        b->writers[instruction->d]++;
        if (i < source->setup) { /* filled once, for every tile */
            d->wide = 0;
            d->direct = -1;
        }
        if (d->extent == SAMBA_ROW && instruction->op != SAMBA_TILE_load)
            d->direct = -1; /* blocks side by side share their rows, so only a STORE, at column 0, may write them */
        if (instruction->op == SAMBA_TILE_block) {
            d->block = 1;
            program->block_size = d->size;
        }
    }
    choose_capacity(b);
    if (program->stands)
        samba_tile_stand(program);
    bool whole = program->stands ? program->chunk >= program->cols : program->cols <= program->capacity;
    for (int r = 0; r < program->register_count; r++) {
        samba_tile_register *at = &program->registers[r];
        bool wide = at->wide && at->extent == SAMBA_FULL;
        at->storage = reserve(b, wide ? wide_elements(program) : program->capacity, at->size);
        if (at->direct >= 0 || at->block || (wide && !whole)) {
            program->column_bytes[program->moving_count] = at->extent == SAMBA_FULL ? at->size : 0;
            program->moving[program->moving_count++] = r;
        }
    }
}

/* Partial results over the dims that stay, those with a stride; their view counts 1, 2, 3 ... over these. A ROW value has no
 * column. */
static void resolve_collect(builder *b, const samba_instruction *instruction, samba_code *code)
{
    samba_tile_program *program = b->program;
    const samba_stage *stage = b->stage;
    const samba_operand *operand = &stage->operands[instruction->operand];
    samba_collector *collector = &program->collectors[program->collector_count];
    int64_t strides[SAMBA_MAX_RANK] = {0}, numel = 1;
    *collector = (samba_collector){.op = instruction->op, .class_ = code->class_, .dtype = operand->dtype, .contiguous = 1};
    collector->size = (int32_t)samba_dtype_size((samba_dtype)operand->dtype);
    collector->base = b->prepare->memory + b->prepare->buffers[operand->buffer].offset + operand->offset * collector->size;
    for (int i = stage->rank - 1; i >= 0; i--) {
        if (operand->strides[i] == 0 || stage->domain[i] == 1 || (i == stage->rank - 1 && code->extent == SAMBA_ROW))
            continue;
        strides[i] = numel;
        collector->contiguous &= operand->strides[i] == numel;
        memmove(collector->sizes + 1, collector->sizes, sizeof *collector->sizes * (size_t)collector->rank);
        memmove(collector->strides + 1, collector->strides, sizeof *collector->strides * (size_t)collector->rank);
        collector->sizes[0] = stage->domain[i];
        collector->strides[0] = operand->strides[i];
        collector->rank++;
        if (!samba_mul_checked(numel, stage->domain[i], &numel))
            b->overflow = true;
    }
    collector->numel = numel;
    collector->partial = reserve(b, numel, 8);
    collector->view = new_view(b, operand->dtype, NULL, 0, strides);
    if (stage->domain[stage->rank - 1] == 1)
        program->views[collector->view].col_stride = 0;
    code->collector = program->collector_count++;
}

static samba_status no_kernel(const builder *b, int index)
{
    return samba_fail(b->prepare->context, SAMBA_ERROR_UNSUPPORTED,
                      "stage %s: tile instruction %d (%s) has no kernel for the class of its registers", b->stage->name, index,
                      samba_tile_table[b->stage->program.instructions[index].op].name);
}

static void resolve_load(builder *b, int index, samba_code *code)
{
    samba_tile_program *program = b->program;
    const samba_instruction *from = &b->stage->program.instructions[index];
    code->action = index < b->stage->program.setup ? SAMBA_DO_SCALAR : SAMBA_DO_LOAD;
    code->view = operand_view(b, from->operand);
    const samba_tile_register *d = &program->registers[from->d];
    code->own = d->direct == code->view;
    if (code->action == SAMBA_DO_LOAD && code->extent == SAMBA_FULL && samba_view_repeats(&program->views[code->view]) &&
        b->writers[from->d] == 1 && (d->direct < 0 || d->direct == code->view))
        code->kept = program->kept_count++;
}

/* The instruction without the kernel of its form. */
static samba_code plain_code(const samba_instruction *from, const samba_register *registers)
{
    samba_tile_form form = samba_tile_table[from->op].form;
    int target = from->d >= 0 ? from->d : from->a, source = from->a >= 0 ? from->a : from->d;
    samba_code code = {.op = from->op,
                       .d = from->d < 0 ? 0 : from->d,
                       .a = from->a < 0 ? 0 : from->a,
                       .b = from->b < 0 ? 0 : from->b,
                       .c = from->c < 0 ? 0 : from->c,
                       .kept = -1,
                       .immediate = from->immediate};
    code.extent = registers[target].extent;
    code.class_ = registers[form == SAMBA_FORM_WHERE ? from->b : source].class_;
    code.once = code.extent == SAMBA_ROW && form != SAMBA_FORM_REDUCE;
    return code;
}

static samba_status resolve_instruction(builder *b, int index)
{
    samba_tile_program *program = b->program;
    const samba_kernels *kernels = program->kernels;
    const samba_instruction *from = &b->stage->program.instructions[index];
    const samba_register *registers = b->stage->program.registers;
    samba_code *code = &program->codes[index];
    *code = plain_code(from, registers);
    switch ((samba_tile_form)samba_tile_table[from->op].form) {
    case SAMBA_FORM_LOAD: resolve_load(b, index, code); return SAMBA_OK;
    case SAMBA_FORM_STORE:
        code->action = SAMBA_DO_STORE;
        code->view = operand_view(b, from->operand);
        code->edge = code->extent == SAMBA_ROW;
        code->own = program->registers[from->a].direct == code->view;
        return SAMBA_OK;
    case SAMBA_FORM_BLOCK: code->action = SAMBA_DO_BLOCK; return SAMBA_OK;
    case SAMBA_FORM_CONST: code->action = SAMBA_DO_CONST; return SAMBA_OK;
    case SAMBA_FORM_IOTA: {
        int64_t strides[SAMBA_MAX_RANK] = {0};
        strides[(int)from->immediate] = 1;
        code->action = SAMBA_DO_IOTA;
        code->view = new_view(b, SAMBA_INT64, NULL, 0, strides);
        return SAMBA_OK;
    }
    case SAMBA_FORM_RANDOM:
        code->action = SAMBA_DO_RANDOM;
        code->view = operand_view(b, from->operand);
        return SAMBA_OK;
    case SAMBA_FORM_CONVERT:
        code->action = SAMBA_DO_MAP;
        code->map = from->op == SAMBA_TILE_cast ? kernels->convert[code->class_][registers[from->d].class_]
                                                : kernels->map[from->op][code->class_];
        return code->map ? SAMBA_OK : no_kernel(b, index);
    case SAMBA_FORM_UNARY:
    case SAMBA_FORM_BINARY:
    case SAMBA_FORM_COMPARE:
    case SAMBA_FORM_WHERE:
    case SAMBA_FORM_TERNARY:
    case SAMBA_FORM_WRAP:
    case SAMBA_FORM_ROUND:
        code->action = SAMBA_DO_MAP;
        code->map = kernels->map[from->op][code->class_];
        return code->map ? SAMBA_OK : no_kernel(b, index);
    case SAMBA_FORM_REDUCE:
        code->action = from->op == SAMBA_TILE_argmax ? SAMBA_DO_ARGMAX : SAMBA_DO_REDUCE;
        code->reduce = program->stands ? (from->op == SAMBA_TILE_sum    ? kernels->standing_sum
                                          : from->op == SAMBA_TILE_prod ? kernels->standing_prod
                                          : from->op == SAMBA_TILE_amax ? kernels->standing_amax
                                                                        : kernels->standing_amin)[code->class_]
                                       : (from->op == SAMBA_TILE_sum    ? kernels->reduce_sum
                                          : from->op == SAMBA_TILE_prod ? kernels->reduce_prod
                                          : from->op == SAMBA_TILE_amax ? kernels->reduce_amax
                                                                        : kernels->reduce_amin)[code->class_];
        if (code->action == SAMBA_DO_ARGMAX)
            code->best = reserve(b, SAMBA_TILE_CAPACITY, 8);
        return SAMBA_OK;
    case SAMBA_FORM_SPREAD: code->action = SAMBA_DO_SPREAD; return SAMBA_OK;
    case SAMBA_FORM_COLLECT:
        code->action = SAMBA_DO_COLLECT;
        code->edge = code->extent == SAMBA_ROW;
        resolve_collect(b, from, code);
        return SAMBA_OK;
    }
    return no_kernel(b, index);
}

/* Whether rows of a whole line of cache can be taken together, chunk after chunk:
 * registers that hold a row would have to hold them all. */
static bool takes_lines(const builder *b, const samba_tile_program *program)
{
    for (int r = 0; r < program->register_count; r++)
        if (program->registers[r].wide && program->registers[r].extent == SAMBA_FULL)
            return false;
    return b->stage->kind == SAMBA_STAGE_TILE && program->cols > program->capacity &&
           program->rows / LINE_ELEMENTS >= b->prepare->threads;
}

/* The elements of a load as sums can take them from memory: as registers hold them, or bfloat16. */
static bool lies_plain(const samba_tile_program *program, const samba_code *load)
{
    const samba_view *view = &program->views[load->view];
    return load->own || (view->dtype == SAMBA_BFLOAT16 && view->col_stride == 1);
}

/* Is all that the stage does to sum columns that lie plain in memory? */
static bool sums_memory(const builder *b, const samba_tile_program *program)
{
    const samba_code *load = &program->codes[program->setup], *sum = load + 1;
    if (b->stage->kind != SAMBA_STAGE_TILE || program->code_count != program->setup + 2 || load->action != SAMBA_DO_LOAD ||
        load->extent != SAMBA_FULL || !lies_plain(program, load) || program->cols < 2 || sum->op != SAMBA_TILE_collect_sum ||
        sum->a != load->d || sum->product)
        return false;
    const samba_view *from = &program->views[load->view], *to = &program->views[program->collectors[sum->collector].view];
    return from->groups <= 1 && (from->groups == 0 || from->group_stride[0] > 0) && to->col_stride == 1 &&
           (to->groups == 0 || to->group_stride[to->groups - 1] == 0);
}

/* The sum takes its elements from memory itself, and keeps partial results of a few columns in registers over all rows of a
 * tile. */
static void sum_memory(const samba_cpu_machine *machine, samba_tile_program *program)
{
    samba_code *load = &program->codes[program->setup], *sum = load + 1;
    int64_t columns = machine->tile.summed_columns, elements = machine->tile.summed / program->views[load->view].size;
    sum->view = load->view;
    sum->memory = true;
    *load = *sum;
    program->code_count--;
    program->steps[0].end--;
    program->tile_cols = program->chunk = program->cols < columns ? program->cols : columns;
    program->tile_rows = elements < program->tile_cols ? 1 : elements / program->tile_cols;
    if (program->tile_rows > SAMBA_TILE_CAPACITY)
        program->tile_rows = SAMBA_TILE_CAPACITY;
}

/* The tile of a stage of its own. Rows that fit are taken whole, several at a time. Longer ones are cut into chunks that any
 * thread may take, unless steps or reductions need a row in one place. Where an operand is transposed to the others, 16 x 16
 * tiles use whole cache lines of all of them, or 16 rows are taken at a time. */
static void choose_tile(const builder *b, samba_tile_program *program, const samba_program *source)
{
    bool cuttable = source->step_count <= 1;
    bool transposed = false;
    for (int i = 0; i < program->code_count; i++) {
        const samba_code *code = &program->codes[i];
        cuttable &= code->action != SAMBA_DO_REDUCE && code->action != SAMBA_DO_ARGMAX;
        if ((code->action == SAMBA_DO_LOAD || code->action == SAMBA_DO_STORE) && code->extent == SAMBA_FULL) {
            const samba_view *view = &program->views[code->view];
            transposed |= view->groups > 0 && view->group_stride[view->groups - 1] == 1 && view->col_stride > 1;
        }
    }
    program->chunk = program->capacity;
    program->tile_cols = program->cols;
    if (cuttable && transposed && program->cols >= LINE_ELEMENTS && program->rows >= LINE_ELEMENTS)
        program->tile_cols = LINE_ELEMENTS;
    else if (cuttable && program->cols > program->capacity)
        program->tile_cols = program->capacity;
    else if (transposed && takes_lines(b, program))
        program->chunk = program->capacity / LINE_ELEMENTS;
    int64_t width = program->tile_cols > 0 ? program->tile_cols : 1;
    program->tile_rows = width < program->capacity ? program->capacity / width : program->capacity / program->chunk;
    if (program->tile_rows > SAMBA_TILE_CAPACITY)
        program->tile_rows = SAMBA_TILE_CAPACITY;
}

/* ns of an element: of the instructions, or of the memory that they load and store. */
static double element_time(const builder *b)
{
    const samba_cpu_machine *machine = b->prepare->machine;
    const samba_program *source = &b->stage->program;
    double work = 0, bytes = 0;
    for (int i = source->setup; i < source->instruction_count; i++) {
        const samba_instruction *instruction = &source->instructions[i];
        bool slow = samba_tile_table[instruction->op].cost != SAMBA_COST_ARITHMETIC;
        int of = instruction->d >= 0 ? instruction->d : instruction->a;
        if (source->registers[of].extent != SAMBA_FULL)
            continue;
        work += 1 / (slow ? machine->share.slow_values : machine->share.values);
        if (instruction->operand >= 0)
            bytes += (double)samba_dtype_size((samba_dtype)b->stage->operands[instruction->operand].dtype);
    }
    bytes /= b->prepare->far ? machine->share.memory : machine->share.cached;
    return (work > bytes ? work : bytes) * 1e9;
}

/* Bytes of an element of all registers that hold something at once, at most: between the first instruction that writes one and
 * the last that reads it. Constants hold the same all along, and memory that serves as a register passes by. */
static samba_status find_live(builder *b)
{
    const samba_program *source = &b->stage->program;
    samba_tile_program *program = b->program;
    int64_t bytes = 0, *changes = samba_arena_alloc(b->prepare->arena, (size_t)(source->instruction_count + 1) * sizeof *changes);
    if (!changes)
        return SAMBA_ERROR_MEMORY;
    memset(changes, 0, (size_t)(source->instruction_count + 1) * sizeof *changes);
    for (int r = 0; r < program->register_count; r++) {
        const samba_tile_register *at = &program->registers[r];
        int first = -1, last = -1;
        if (at->extent != SAMBA_FULL || at->direct >= 0 || at->wide)
            continue;
        for (int i = 0; i < source->instruction_count; i++) {
            const samba_instruction *x = &source->instructions[i];
            first = first < 0 && x->d == r ? i : first;
            last = x->a == r || x->b == r || x->c == r || x->d == r ? i : last;
        }
        if (first < source->setup)
            continue;
        changes[first] += at->size;
        changes[last + 1] -= at->size;
    }
    program->live = 0;
    for (int i = 0; i < source->instruction_count; i++) {
        bytes += changes[i];
        program->live = bytes > program->live ? bytes : program->live;
    }
    return SAMBA_OK;
}

/* Views that steps use, so that a tile finds its slices of these and no others. */
static void list_views(samba_tile_program *program)
{
    for (int v = 0; v < program->view_count; v++) {
        bool used = false;
        for (int r = 0; r < program->register_count; r++)
            used |= program->registers[r].direct == v;
        for (int i = program->setup; i < program->code_count; i++) {
            const samba_code *code = &program->codes[i];
            samba_action action = (samba_action)code->action;
            bool memory =
                action == SAMBA_DO_LOAD || action == SAMBA_DO_STORE || action == SAMBA_DO_IOTA || action == SAMBA_DO_RANDOM;
            used |= (memory && code->view == v) || (action == SAMBA_DO_COLLECT && program->collectors[code->collector].view == v);
        }
        if (used)
            program->located[program->located_count++] = v;
    }
}

static samba_status build(builder *b)
{
    samba_tile_program *program = b->program;
    const samba_program *source = &b->stage->program;
    resolve_registers(b);
    for (int i = 0; i < source->instruction_count; i++)
        SAMBA_TRY(resolve_instruction(b, i));
    if (!program->stands)
        choose_tile(b, program, source);
    program->element = element_time(b);
    SAMBA_TRY(find_live(b));
    program->partial = (double)sizeof(double) / b->prepare->machine->share.crossing * 1e9;
    list_views(program);
    samba_program changed = *source;
    if (is_long(b) && program->cols > program->capacity)
        SAMBA_TRY(samba_tile_remake(program, source, &changed, b->prepare->arena));
    SAMBA_TRY(samba_tile_combine(program, &changed, b->prepare->arena));
    if (!program->stands && sums_memory(b, program))
        sum_memory(b->prepare->machine, program);
    program->pointers = reserve(b, program->register_count, sizeof(char *));
    program->slices = reserve(b, program->view_count, sizeof(samba_view_slice));
    program->kept = reserve(b, program->kept_count, sizeof(samba_kept));
    program->spare = reserve(b, SAMBA_TILE_CAPACITY, 8);
    int64_t elements;
    if (!samba_mul_checked(program->rows, program->cols > 0 ? program->cols : 1, &elements))
        b->overflow = true;
    program->fill = b->overflow || elements > program->capacity ? program->capacity : elements;
    if (b->overflow)
        return samba_fail(b->prepare->context, SAMBA_ERROR_UNSUPPORTED,
                          "stage %s: its domain needs more scratch than this machine can address", b->stage->name);
    return SAMBA_OK;
}

samba_status samba_tile_program_new(const samba_preparing *prepare, const samba_stage *stage, const samba_tile_program **program)
{
    const samba_program *source = &stage->program;
    samba_arena *arena = prepare->arena;
    size_t registers = (size_t)source->register_count, codes = (size_t)source->instruction_count;
    size_t views = (size_t)stage->operand_count + codes; /* IOTA and COLLECT have one of their own */
    samba_tile_program *p = samba_arena_alloc(arena, sizeof *p);
    builder b = {.prepare = prepare, .stage = stage, .program = p};
    if (!p || !(p->registers = samba_arena_alloc(arena, registers * sizeof *p->registers)) ||
        !(p->views = samba_arena_alloc(arena, views * sizeof *p->views)) ||
        !(p->codes = samba_arena_alloc(arena, codes * sizeof *p->codes)) ||
        !(p->moving = samba_arena_alloc(arena, registers * sizeof *p->moving)) ||
        !(p->column_bytes = samba_arena_alloc(arena, registers * sizeof *p->column_bytes)) ||
        !(p->located = samba_arena_alloc(arena, views * sizeof *p->located)) ||
        !(p->collectors = samba_arena_alloc(arena, codes * sizeof *p->collectors)) ||
        !(b.view_of = samba_arena_alloc(arena, (size_t)stage->operand_count * sizeof *b.view_of)) ||
        !(b.writers = samba_arena_alloc(arena, registers * sizeof *b.writers)))
        return SAMBA_ERROR_MEMORY;
    for (int i = 0; i < stage->operand_count; i++)
        b.view_of[i] = -1;
    p->kernels = prepare->machine->kernels;
    p->register_count = source->register_count;
    p->code_count = source->instruction_count;
    p->setup = source->setup;
    p->step_count = source->step_count;
    p->steps = source->steps;
    p->cols = stage->domain[stage->rank - 1];
    p->rows = 1;
    for (int i = 0; i + 1 < stage->rank; i++)
        if (!samba_mul_checked(p->rows, stage->domain[i], &p->rows))
            b.overflow = true;
    p->stands = !b.overflow && samba_tile_stands(prepare, stage, p->rows, p->cols);
    reserve(&b, 1, sizeof(samba_frame));
    SAMBA_TRY(build(&b));
    *program = p;
    return SAMBA_OK;
}
