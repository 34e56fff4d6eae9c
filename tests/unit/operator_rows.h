/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators said in one line of text, and what must come of them. tests/unit/values/NAME.txt has such rows, test_operators.c runs
 * them; row_of reads one that stands in a test.
 *
 *     sum dims=[0] (float32[2,3] 1 2 3 4 5 6) = float32[1,3] 5 7 9
 *
 * Attributes that are not said are 0, steps of a window and groups 1. Behind them stand the operands: dtype[shape], then
 * elements, of which the first follow the last; `#4`: by formula(4); `-1..1`: random; nothing: zeros. `const` before a float64
 * one: its gradient is not asked for. An operator `neg|abs` stands for a row of each. Behind the operands, in any order:
 *
 *     = dtype[shape] elements    the value; that of a composite's expansion too
 *     d1 elements                the gradient of operand 1, of sum(value * formula(13)); `d1 none`: there is none
 *     ~                          the gradients are those of central differences; `~run`: with values of the run's own seed
 *     16                         in 16-bit floats the expansion is the kernel's value but for the last place
 *     flops 24                   what it costs
 *     ! ARGUMENT words           it is refused while tracing, by a message with these words; `!run`: when it is evaluated
 *
 * A row goes on in lines that begin with a space. A line `tolerance 1e-10 1e-3` is for the rows that follow: relative to the
 * expected element, and to this if that is less; without it elements are equal. Of gradients it is no less than these two. `#`
 * begins a line of comment. */
#ifndef OPERATOR_ROWS_H
#define OPERATOR_ROWS_H

#include "gradient_check.h"

enum { ROW_NUMBERS = 6144, ROW_TEXT = 256 };

typedef struct row_reader {
    const char *file, *at;
    int line;
    double tolerance, least;
} row_reader;

typedef struct operator_row {
    samba_op op;
    samba_attrs attrs;
    int count;
    operand operands[OPERANDS_MAX], expected, gradients[OPERANDS_MAX];
    bool has_value, has_gradient[OPERANDS_MAX], no_gradient[OPERANDS_MAX], differences, of_run, narrow, refused, at_run;
    int64_t flops; /* -1: not said */
    samba_status status;
    char words[ROW_TEXT];
    int numbers_used;
    double numbers[ROW_NUMBERS];
} operator_row;

__attribute__((format(printf, 2, 3), noreturn)) static inline void row_fail(const row_reader *r, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_error("%s\n", text);
    _fail(r->file, r->line);
    abort();
}

/* The next word of the row, up to a space or a parenthesis, which is a word of its own; false at the row's end. */
static inline bool row_word(row_reader *r, char word[ROW_TEXT])
{
    while (*r->at == ' ' || (*r->at == '\n' && r->at[1] == ' '))
        r->line += *r->at++ == '\n';
    size_t length = *r->at == '(' || *r->at == ')' ? 1 : strcspn(r->at, " \n()");
    if (length >= ROW_TEXT)
        row_fail(r, "a word is too long");
    memcpy(word, r->at, length);
    word[length] = 0;
    r->at += length;
    return length > 0;
}

static inline samba_dims row_dims(row_reader *r, const char *text)
{
    samba_dims dims = {0};
    if (*text++ != '[')
        row_fail(r, "expected a list, found '%s'", text - 1);
    while (*text && *text != ']') {
        char *end;
        dims.at[dims.count++] = strtoll(text, &end, 10);
        if (end == text || dims.count > SAMBA_MAX_RANK)
            row_fail(r, "expected up to 8 numbers, found '%s'", text);
        text = end + (*end == ',');
    }
    return dims;
}

static inline samba_dtype row_dtype(row_reader *r, const char *text, size_t length)
{
    for (int i = 0; i < SAMBA_DTYPE_COUNT; i++)
        if (strlen(samba_dtype_name((samba_dtype)i)) == length && strncmp(text, samba_dtype_name((samba_dtype)i), length) == 0)
            return (samba_dtype)i;
    row_fail(r, "no dtype: %s", text);
}

static inline void row_attribute(row_reader *r, operator_row *row, const char *word)
{
    const samba_attrs_facts *facts = &samba_attrs_table[samba_ops[row->op].attrs];
    const char *equals = strchr(word, '=');
    char *at = (char *)&row->attrs;
    for (int i = 0; equals && i < facts->field_count; at += samba_field_size(facts->fields[i++].kind)) {
        if (strlen(facts->fields[i].name) != (size_t)(equals - word) ||
            strncmp(word, facts->fields[i].name, (size_t)(equals - word)) != 0)
            continue;
        switch (facts->fields[i].kind) {
        case SAMBA_FIELD_INT: *(int64_t *)(void *)at = strtoll(equals + 1, NULL, 10); return;
        case SAMBA_FIELD_REAL: *(double *)(void *)at = strtod(equals + 1, NULL); return;
        case SAMBA_FIELD_DIMS: *(samba_dims *)(void *)at = row_dims(r, equals + 1); return;
        case SAMBA_FIELD_DTYPE: /* a number: for what is none */
            *(int64_t *)(void *)at =
                strchr("0123456789", equals[1]) ? strtoll(equals + 1, NULL, 10) : row_dtype(r, equals + 1, strlen(equals + 1));
            return;
        default: break;
        }
    }
    row_fail(r, "%s has no attribute %s", samba_ops[row->op].name, word);
}

/* Elements up to a word that is no number, which stays to be read. */
static inline void row_numbers(row_reader *r, operator_row *row, operand *into)
{
    into->values = row->numbers + row->numbers_used;
    for (;;) {
        const row_reader before = *r;
        char word[ROW_TEXT], *end, *dots;
        if (!row_word(r, word) || strcmp(word, "16") == 0) {
            *r = before;
            return;
        }
        double value = strtod(word[0] == '#' ? word + 1 : word, &end);
        if (word[0] == '#') {
            into->formula = (int)value;
        } else if ((dots = strstr(word, "..")) != NULL) {
            into->values = NULL;
            into->low = strtod(word, NULL);
            into->high = strtod(dots + 2, NULL);
        } else if (*end || end == word) {
            *r = before;
            return;
        } else {
            assert_true(row->numbers_used < ROW_NUMBERS);
            row->numbers[row->numbers_used++] = value;
            into->value_count++;
        }
    }
}

static inline operand row_type(row_reader *r, const char *word)
{
    operand result = {.dtype = row_dtype(r, word, strcspn(word, "["))};
    samba_dims shape = row_dims(r, word + strcspn(word, "["));
    result.rank = (int)shape.count;
    memcpy(result.shape, shape.at, sizeof result.shape);
    return result;
}

static inline void row_refusal(row_reader *r, operator_row *row)
{
    char word[ROW_TEXT];
    row->refused = row_word(r, word);
    do
        row->status++;
    while (row->status <= SAMBA_ERROR_INDEX && strcmp(samba_status_name(row->status), word) != 0);
    if (row->status > SAMBA_ERROR_INDEX)
        row_fail(r, "no status: %s", word);
    r->at += strspn(r->at, " ");
    size_t length = strcspn(r->at, "\n");
    assert_true(length < ROW_TEXT);
    memcpy(row->words, r->at, length);
    row->words[length] = 0;
    r->at += length;
}

static inline void row_clause(row_reader *r, operator_row *row, const char *word)
{
    char next[ROW_TEXT];
    if (strcmp(word, "=") == 0) {
        row->has_value = row_word(r, next);
        row->expected = row_type(r, next);
        row_numbers(r, row, &row->expected);
    } else if (word[0] == 'd' && word[1] >= '0' && word[1] < '0' + row->count && !word[2]) {
        const row_reader before = *r;
        const int i = word[1] - '0';
        row->has_gradient[i] = true;
        row->no_gradient[i] = row_word(r, next) && strcmp(next, "none") == 0;
        if (row->no_gradient[i])
            return;
        *r = before;
        row->gradients[i] = row->operands[i];
        row->gradients[i].value_count = row->gradients[i].formula = 0;
        row_numbers(r, row, &row->gradients[i]);
    } else if (word[0] == '~') {
        row->differences = true;
        row->of_run = strcmp(word, "~run") == 0;
    } else if (strcmp(word, "16") == 0) {
        row->narrow = true;
    } else if (strcmp(word, "flops") == 0) {
        assert_true(row_word(r, next));
        row->flops = strtoll(next, NULL, 10);
    } else if (word[0] == '!') {
        row->at_run = strcmp(word, "!run") == 0;
        row_refusal(r, row);
    } else {
        row_fail(r, "what is '%s'?", word);
    }
}

/* The rest of a row, of which the operator's name has been read. */
static inline void row_rest(row_reader *r, operator_row *row, const char *name)
{
    char word[ROW_TEXT];
    memset(row, 0, sizeof *row);
    row->flops = -1;
    while (row->op < SAMBA_OP_COUNT && strcmp(samba_ops[row->op].name, name) != 0)
        row->op++;
    if (row->op == SAMBA_OP_COUNT)
        row_fail(r, "no operator: %s", name);
    const samba_dims ones = {2, {1, 1}}, zeros = {2, {0, 0}};
    if (samba_ops[row->op].attrs == SAMBA_ATTRS_conv)
        row->attrs.conv = (samba_attrs_conv){.stride = ones, .padding = zeros, .dilation = ones, .groups = 1};
    if (samba_ops[row->op].attrs == SAMBA_ATTRS_pool2d)
        row->attrs.pool2d = (samba_attrs_pool2d){.stride = ones, .padding = zeros, .dilation = ones};
    while (row_word(r, word)) {
        if (word[0] != '(') {
            if (row->count == 0 && strchr(word, '=') > word)
                row_attribute(r, row, word);
            else
                row_clause(r, row, word);
            continue;
        }
        assert_true(row_word(r, word) && row->count < OPERANDS_MAX);
        bool constant = strcmp(word, "const") == 0;
        if (constant)
            row_word(r, word);
        operand *into = &row->operands[row->count++];
        *into = row_type(r, word);
        into->constant = constant;
        row_numbers(r, row, into);
        if (!row_word(r, word) || word[0] != ')')
            row_fail(r, "expected ')', found '%s'", word);
    }
}

/* The row of a text in a test; what it has is good until the next one. */
static inline const operator_row *row_of(const char *text)
{
    static operator_row row;
    row_reader reader = {.file = text, .at = text};
    char name[ROW_TEXT];
    assert_true(row_word(&reader, name));
    row_rest(&reader, &row, name);
    return &row;
}

static inline op_bench row_bench(const operator_row *row)
{
    op_bench bench;
    uint64_t random = 7;
    op_bench_begin(&bench, row->op, &row->attrs, row->count, row->operands, &random);
    return bench;
}

/* A leaf behind the operands, of the value's type and elements by formula(13): weights of the sum whose gradients are taken. */
static inline void row_weights(op_bench *bench)
{
    const samba_node node = *samba_node_at(bench->graph, bench->result);
    op_bench_leaf(bench, bench->count, (samba_dtype)node.dtype, node.rank, node.shape);
    for (int64_t e = 0; e < bench->arrays[bench->count].numel; e++)
        array_set(&bench->arrays[bench->count], e, formula(13, e));
    bench->graph->phase = SAMBA_BCKWD;
}

#endif
