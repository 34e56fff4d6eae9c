/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat templates: a subset of Jinja, rendered as transformers sets it up (trim_blocks, lstrip_blocks, a sandbox, no escaping).
 *
 *   text -> chat_lex.c: tokens -> chat_parse.c, chat_expression.c: a tree -> chat_run.c: statements, chat_evaluate.c: expressions
 *
 * over values, which are Python's: chat_value.c has what they are and are worth, chat_show.c their texts, chat_access.c their
 * parts, chat_iterate.c and chat_loop.c how they are walked over; chat_method.c and chat_case.c the methods of texts and dicts,
 * chat_filter.c, chat_filter_list.c, chat_test.c and chat_global.c what templates call by name, which chat_call.c does;
 * chat_json.c JSON.
 *
 * What this subset has, gives Jinja's text or is Jinja's error. What it does not have is UNSUPPORTED, by name and line.
 *
 * Ownership: the tree lies in the template's arena and never changes. All that a rendering makes lies in the arena of its
 * samba_chat_run, bounded in size. Steps are counted over nodes and bytes, and depth over calls. Values never change once they
 * are made, but for namespaces, loops and iterators, so copying one is copying the struct. */
#ifndef SAMBA_TEXT_CHAT_H
#define SAMBA_TEXT_CHAT_H

#include "text/text.h"

#include <jansson.h>

#define SAMBA_CHAT_MOST_DEPTH 1000  /* of nested nodes, calls and values while rendering */
#define SAMBA_CHAT_MOST_NESTING 120 /* of a template's text */
#define SAMBA_CHAT_MOST_STEPS 20000000
#define SAMBA_CHAT_MOST_BYTES ((int64_t)256 << 20)
#define SAMBA_CHAT_MOST_RANGE 100000 /* as Jinja's sandbox has it */
#define SAMBA_CHAT_MOST_ARGUMENTS 6  /* that a function names */

typedef struct samba_chat_run samba_chat_run;
typedef struct samba_chat_node samba_chat_node;
typedef struct samba_chat_value samba_chat_value;

/* ---- values (chat_value.c) ---- */
typedef enum samba_chat_kind {
    SAMBA_CHAT_ABSENT, /* of an argument that is not given */
    SAMBA_CHAT_UNDEFINED,
    SAMBA_CHAT_NONE,
    SAMBA_CHAT_BOOL,
    SAMBA_CHAT_INT,
    SAMBA_CHAT_FLOAT,
    SAMBA_CHAT_TEXT,
    SAMBA_CHAT_LIST,
    SAMBA_CHAT_TUPLE,
    SAMBA_CHAT_DICT,
    SAMBA_CHAT_KEYS, /* views of a dict */
    SAMBA_CHAT_VALUES,
    SAMBA_CHAT_ITEMS,
    SAMBA_CHAT_RANGE,
    SAMBA_CHAT_NAMESPACE,
    SAMBA_CHAT_ITERATOR,
    SAMBA_CHAT_LOOP,
    SAMBA_CHAT_MACRO,
    SAMBA_CHAT_FUNCTION,
    SAMBA_CHAT_METHOD
} samba_chat_kind;

typedef struct samba_chat_list {
    samba_chat_value *items;
    int64_t count, room;
} samba_chat_list;
typedef struct samba_chat_dict { /* or a namespace */
    struct samba_chat_pair *pairs;
    int64_t count, room;
} samba_chat_dict;
typedef struct samba_chat_range {
    int64_t start, stop, step, count;
} samba_chat_range;
typedef struct samba_chat_iterator samba_chat_iterator;
typedef struct samba_chat_loop samba_chat_loop;
typedef struct samba_chat_macro samba_chat_macro;
typedef struct samba_chat_row samba_chat_row;
typedef struct samba_chat_method samba_chat_method;

struct samba_chat_value {
    samba_chat_kind kind;
    bool marked; /* a text that was marked as safe: Jinja's Markup, which escapes what it meets */
    union {
        bool truth;
        int64_t integer;
        double real;
        samba_str text; /* of UNDEFINED: what is said of it */
        samba_chat_list *list;
        samba_chat_dict *dict; /* its views too */
        const samba_chat_range *range;
        samba_chat_iterator *iterator;
        samba_chat_loop *loop;
        const samba_chat_macro *macro;
        const samba_chat_row *function;
        const samba_chat_method *method;
    };
};
typedef struct samba_chat_pair {
    samba_chat_value key, value;
} samba_chat_pair;
struct samba_chat_method {
    samba_chat_value self;
    const samba_chat_row *row;
};

static inline samba_chat_value samba_chat_none(void) { return (samba_chat_value){.kind = SAMBA_CHAT_NONE}; }
static inline samba_chat_value samba_chat_bool(bool truth) { return (samba_chat_value){.kind = SAMBA_CHAT_BOOL, .truth = truth}; }
static inline samba_chat_value samba_chat_int(int64_t integer)
{
    return (samba_chat_value){.kind = SAMBA_CHAT_INT, .integer = integer};
}
static inline samba_chat_value samba_chat_float(double real)
{
    return (samba_chat_value){.kind = SAMBA_CHAT_FLOAT, .real = real};
}
static inline samba_chat_value samba_chat_text_of(samba_str text)
{
    return (samba_chat_value){.kind = SAMBA_CHAT_TEXT, .text = text};
}
static inline samba_chat_value samba_chat_undefined(samba_str said)
{
    return (samba_chat_value){.kind = SAMBA_CHAT_UNDEFINED, .text = said};
}
static inline samba_str samba_chat_str(const char *text) { return samba_str_of(text, strlen(text)); }
/* bool, int: as a number of Python's int. */
static inline bool samba_chat_whole(samba_chat_value v, int64_t *integer)
{
    *integer = v.kind == SAMBA_CHAT_BOOL ? v.truth : v.kind == SAMBA_CHAT_INT ? v.integer : 0;
    return v.kind == SAMBA_CHAT_BOOL || v.kind == SAMBA_CHAT_INT;
}
/* The same and floats. */
static inline bool samba_chat_number(samba_chat_value v, double *real)
{
    int64_t integer;
    *real = samba_chat_whole(v, &integer) ? (double)integer : v.kind == SAMBA_CHAT_FLOAT ? v.real : 0;
    return v.kind == SAMBA_CHAT_FLOAT || v.kind == SAMBA_CHAT_BOOL || v.kind == SAMBA_CHAT_INT;
}

const char *samba_chat_type(samba_chat_value v); /* for people: "a text" */
samba_status samba_chat_truth(samba_chat_run *w, samba_chat_value v, bool *truth);
samba_status samba_chat_equal(samba_chat_run *w, samba_chat_value a, samba_chat_value b, bool *equal);
/* *order: less than 0, 0 or greater; 2 where they are not ordered (NaN). An error where Python has none. */
samba_status samba_chat_compare(samba_chat_run *w, const char *sign, samba_chat_value a, samba_chat_value b, int *order);
samba_status samba_chat_list_new(samba_chat_run *w, samba_chat_list **list);
samba_status samba_chat_list_add(samba_chat_run *w, samba_chat_list *list, samba_chat_value item);
samba_status samba_chat_dict_new(samba_chat_run *w, samba_chat_dict **dict);
/* The value of a key, NULL: there is none. FORMAT where the key cannot be one. */
samba_status samba_chat_dict_find(samba_chat_run *w, const samba_chat_dict *dict, samba_chat_value key, samba_chat_value **value);
samba_status samba_chat_dict_set(samba_chat_run *w, samba_chat_dict *dict, samba_chat_value key, samba_chat_value value);
samba_status samba_chat_pair_new(samba_chat_run *w, samba_chat_value a, samba_chat_value b, samba_chat_value *tuple);
bool samba_chat_hashable(samba_chat_value key);

/* ---- texts of values (chat_show.c) ---- */
/* Bytes that grow in the arena. */
typedef struct samba_chat_buffer {
    char *data;
    size_t size, room;
} samba_chat_buffer;
samba_status samba_chat_put(samba_chat_run *w, samba_chat_buffer *b, const char *data, size_t size);
static inline samba_chat_value samba_chat_taken(const samba_chat_buffer *b)
{
    return samba_chat_text_of(samba_str_of(b->data ? b->data : "", b->size));
}
samba_status samba_chat_shown(samba_chat_run *w, samba_chat_value v, samba_str *text); /* str(v) */
samba_status samba_chat_put_repr(samba_chat_run *w, samba_chat_buffer *b, samba_chat_value v);
samba_status samba_chat_put_real(samba_chat_run *w, samba_chat_buffer *b, double real); /* repr(float) */
/* a + b, in place where `a` is what was joined last. */
samba_status samba_chat_join(samba_chat_run *w, samba_str a, samba_str b, samba_str *joined);

/* ---- parts of values (chat_access.c) ---- */
samba_status samba_chat_attribute(samba_chat_run *w, samba_chat_value v, samba_str name, samba_chat_value *part);
samba_status samba_chat_item(samba_chat_run *w, samba_chat_value v, samba_chat_value key, samba_chat_value *part);
samba_status samba_chat_slice(samba_chat_run *w, samba_chat_value v, samba_chat_value start, samba_chat_value stop,
                              samba_chat_value step, samba_chat_value *part);
samba_status samba_chat_contains(samba_chat_run *w, samba_chat_value v, samba_chat_value item, bool *contained);
/* false: it has no length */
bool samba_chat_length(samba_chat_run *w, samba_chat_value v, int64_t *length);
bool samba_chat_iterable(samba_chat_value v);
int64_t samba_chat_characters(samba_str text);
/* The byte at which the character begins. */
size_t samba_chat_character(samba_str text, int64_t index);
samba_str samba_chat_first(samba_str text); /* its first character */

/* ---- iterators ---- */
typedef enum samba_chat_change {
    SAMBA_CHAT_AS_IS,
    SAMBA_CHAT_MAP,
    SAMBA_CHAT_MAP_ATTRIBUTE,
    SAMBA_CHAT_SELECT
} samba_chat_change;
typedef struct samba_chat_call { /* arguments */
    samba_chat_value *values;
    samba_str *names;
    samba_chat_value *named;
    int count, named_count;
} samba_chat_call;
struct samba_chat_iterator {
    samba_chat_value source;
    int64_t at, count; /* of TEXT: bytes */
    bool backwards;
    samba_chat_change change;
    const samba_chat_row *row;          /* MAP: a filter; SELECT: a test, NULL: truth */
    samba_chat_call call;               /* its arguments */
    samba_chat_value attribute, absent; /* MAP_ATTRIBUTE; SELECT by it, ABSENT: by the item; MAP_ATTRIBUTE's default */
    bool reject;
};
samba_status samba_chat_iterate(samba_chat_run *w, samba_chat_value v, samba_chat_value *iterator);
samba_status samba_chat_next(samba_chat_run *w, samba_chat_iterator *iterator, samba_chat_value *item, bool *more);
samba_status samba_chat_listed(samba_chat_run *w, samba_chat_value v, samba_chat_list **list); /* list(v) */
/* "a.b.0" of an item, as filters name attributes. */
samba_status samba_chat_path(samba_chat_run *w, samba_chat_value v, samba_chat_value path, samba_chat_value *part);

/* ---- what is called by name ---- */
struct samba_chat_row {
    const char *name;
    /* What stands before | or . is `self`; arguments that are not given are ABSENT. */
    samba_status (*run)(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result);
    const char *arguments; /* names, by blanks; those behind * may be absent; a name in () is by position alone; "...": any, in
                              w->call */
};
samba_status samba_chat_call_row(samba_chat_run *w, const samba_chat_row *row, samba_chat_value self, const samba_chat_call *call,
                                 samba_chat_value *result); /* chat_call.c */
const samba_chat_row *samba_chat_row_find(const samba_chat_row *rows, int count, samba_str name);
const samba_chat_row *samba_chat_filter(samba_str name); /* NULL: there is none */
const samba_chat_row *samba_chat_filter_of_lists(samba_str name);
const samba_chat_row *samba_chat_test(samba_str name);
const samba_chat_row *samba_chat_global(samba_str name);
const samba_chat_row *samba_chat_text_method(samba_str name);
const samba_chat_row *samba_chat_other_method(samba_chat_kind kind, samba_str name);
bool samba_chat_foreign_method(samba_chat_kind kind, samba_str name); /* Python has it, this subset has not */
/* An argument that has to be a text, a whole number, or true or false by its worth; ABSENT leaves *value as it is. */
samba_status samba_chat_take_text(samba_chat_run *w, samba_chat_value given, const char *name, samba_str *value);
samba_status samba_chat_take_int(samba_chat_run *w, samba_chat_value given, const char *name, int64_t *value);
samba_status samba_chat_take_bool(samba_chat_run *w, samba_chat_value given, bool *value);

/* texts as Python changes them (chat_text.c) */
typedef enum samba_chat_case { SAMBA_CHAT_UPPER, SAMBA_CHAT_LOWER, SAMBA_CHAT_TITLE, SAMBA_CHAT_CAPITALIZE } samba_chat_case;
samba_status samba_chat_cased(samba_chat_run *w, samba_str text, samba_chat_case to, samba_chat_value *result);
samba_str samba_chat_strip(samba_str text, samba_str of, bool left, bool right); /* of.data NULL: white space */
bool samba_chat_is_space(uint32_t c);
samba_status samba_chat_replace(samba_chat_run *w, samba_str text, samba_str old, samba_str with, int64_t most,
                                samba_chat_value *result);
samba_status samba_chat_lines(samba_chat_run *w, samba_str text, bool ends, samba_chat_list **lines);

/* JSON (chat_json.c) */
samba_status samba_chat_of_json(samba_chat_run *w, const char *what, const json_t *json, samba_chat_value *value);
samba_status samba_chat_read_json(samba_chat_run *w, const char *what, const char *text, size_t length, samba_chat_value *value);
samba_status samba_chat_tojson(samba_chat_run *w, samba_chat_value self, const samba_chat_value *a, samba_chat_value *result);

/* ---- the tree ---- */
typedef enum samba_chat_op { /* of a node: expressions */
                             SAMBA_CHAT_CONSTANT,
                             SAMBA_CHAT_NAME,
                             SAMBA_CHAT_GET_ATTRIBUTE,
                             SAMBA_CHAT_GET_ITEM,
                             SAMBA_CHAT_GET_SLICE, /* kids: of, start, stop, step; NULL: none */
                             SAMBA_CHAT_CALL,
                             SAMBA_CHAT_FILTER,
                             SAMBA_CHAT_TEST,
                             SAMBA_CHAT_MAKE_LIST,
                             SAMBA_CHAT_MAKE_TUPLE,
                             SAMBA_CHAT_MAKE_DICT, /* kids: key, value, ... */
                             SAMBA_CHAT_AND,
                             SAMBA_CHAT_OR,
                             SAMBA_CHAT_NOT,
                             SAMBA_CHAT_CONDITION, /* kids: condition, then, else or NULL */
                             SAMBA_CHAT_COMPARE,   /* kids: operands; signs between them */
                             SAMBA_CHAT_CONCAT,
                             SAMBA_CHAT_BINARY, /* sign */
                             SAMBA_CHAT_UNARY,  /* sign */
                             /* statements */
                             SAMBA_CHAT_DATA,
                             SAMBA_CHAT_PRINT,
                             SAMBA_CHAT_IF,        /* kids: conditions; bodies: one each, and the else's behind */
                             SAMBA_CHAT_FOR,       /* kids: target, iterated, condition or NULL; bodies: body, else */
                             SAMBA_CHAT_SET,       /* kids: target, value */
                             SAMBA_CHAT_SET_BLOCK, /* kids: target, filter or NULL; bodies: body */
                             SAMBA_CHAT_WITH,      /* kids: target, value, ...; bodies: body */
                             SAMBA_CHAT_DEFINE, /* a macro; names: its arguments; kids: defaults of the last ones; bodies: body */
                             SAMBA_CHAT_FILTER_BLOCK,
                             SAMBA_CHAT_GENERATION,
                             SAMBA_CHAT_BREAK,
                             SAMBA_CHAT_CONTINUE,
                             SAMBA_CHAT_TARGET_ATTRIBUTE /* of the namespace `text`: names[0] */
} samba_chat_op;

typedef enum samba_chat_sign {
    SAMBA_CHAT_EQ,
    SAMBA_CHAT_NE,
    SAMBA_CHAT_LT,
    SAMBA_CHAT_LE,
    SAMBA_CHAT_GT,
    SAMBA_CHAT_GE,
    SAMBA_CHAT_IN,
    SAMBA_CHAT_NOT_IN,
    SAMBA_CHAT_ADD,
    SAMBA_CHAT_SUB,
    SAMBA_CHAT_MUL,
    SAMBA_CHAT_DIV,
    SAMBA_CHAT_FLOOR,
    SAMBA_CHAT_MOD,
    SAMBA_CHAT_POW
} samba_chat_sign;

typedef struct samba_chat_body {
    samba_chat_node **nodes;
    int64_t count, room;
} samba_chat_body;

struct samba_chat_node {
    samba_chat_op op;
    int line;
    samba_chat_sign sign;
    samba_str text;            /* a name, or data */
    samba_chat_value constant; /* CONSTANT */
    const samba_chat_row *row; /* FILTER, TEST */
    samba_chat_body kids;      /* FILTER, TEST: what it is of, arguments; CALL: the function, arguments */
    samba_str *names;          /* of the last arguments of a call: those by name; `named` of them */
    samba_chat_sign *signs;
    int64_t named, name_room, sign_room;
    samba_chat_body *bodies;
    int64_t body_count, body_room;
};

/* ---- tokens (chat_lex.c) ---- */
typedef enum samba_chat_token_kind {
    SAMBA_CHAT_TOKEN_END,
    SAMBA_CHAT_TOKEN_DATA,
    SAMBA_CHAT_TOKEN_PRINT, /* {{ */
    SAMBA_CHAT_TOKEN_PRINT_END,
    SAMBA_CHAT_TOKEN_BLOCK, /* {% */
    SAMBA_CHAT_TOKEN_BLOCK_END,
    SAMBA_CHAT_TOKEN_NAME,
    SAMBA_CHAT_TOKEN_TEXT,
    SAMBA_CHAT_TOKEN_NUMBER,
    SAMBA_CHAT_TOKEN_SIGN
} samba_chat_token_kind;
typedef struct samba_chat_token {
    samba_chat_token_kind kind;
    int line;
    samba_str text;         /* of the template; of TEXT: with its escapes resolved */
    samba_chat_value value; /* of a NUMBER */
} samba_chat_token;
typedef struct samba_chat_tokens {
    samba_chat_token *tokens; /* the last is END */
    int64_t count, room;
} samba_chat_tokens;

typedef struct samba_chat_parser {
    samba_context *context;
    samba_arena *arena;
    const samba_chat_token *tokens;
    int64_t at;
    int depth;
    int loops;  /* around the statement at hand, within its macro */
    int macros; /* around it */
    bool marks; /* a {% generation %} block was read */
} samba_chat_parser;
samba_status samba_chat_syntax(samba_context *context, samba_status status, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The tokens, in the arena. The text stays with the tokens. */
samba_status samba_chat_lex(samba_context *context, samba_arena *arena, samba_str text, samba_chat_tokens *tokens);
/* chat_parse.c */
samba_status samba_chat_parse(samba_context *context, samba_arena *arena, const samba_chat_tokens *tokens, samba_chat_body *body,
                              bool *marks);
/* between chat_parse.c and chat_expression.c */
static inline const samba_chat_token *samba_chat_now(const samba_chat_parser *p) { return &p->tokens[p->at]; }
bool samba_chat_is(const samba_chat_parser *p, const char *sign);   /* the token at hand is that sign */
bool samba_chat_word(const samba_chat_parser *p, const char *word); /* that name */
bool samba_chat_skip(samba_chat_parser *p, const char *sign);
bool samba_chat_skip_word(samba_chat_parser *p, const char *word);
samba_status samba_chat_expect(samba_chat_parser *p, const char *sign);
samba_status samba_chat_unexpected(const samba_chat_parser *p, const char *expected);
samba_status samba_chat_node_new(samba_chat_parser *p, samba_chat_op op, int line, samba_chat_node **node);
samba_status samba_chat_node_add(samba_chat_parser *p, samba_chat_body *body, samba_chat_node *node);
samba_status samba_chat_node_name(samba_chat_parser *p, samba_chat_node *node, samba_str name);
/* `conditions`: with `a if b else c` */
samba_status samba_chat_expression(samba_chat_parser *p, bool conditions, samba_chat_node **node);
samba_status samba_chat_tuple(samba_chat_parser *p, bool conditions, const char *end, samba_chat_node **node);
/* The filters behind a |, of `of`, which may be NULL; the first without its | where `begun`. */
samba_status samba_chat_filters(samba_chat_parser *p, samba_chat_node *of, bool begun, samba_chat_node **node);
/* What is assigned to: a name, name.attribute where `attributes`, several of them. */
samba_status samba_chat_target(samba_chat_parser *p, bool attributes, const char *end, samba_chat_node **node);
bool samba_chat_is_constant_name(samba_str name);

/* ---- running ---- */
typedef struct samba_chat_scope {
    struct samba_chat_scope *outer;
    samba_chat_pair *names; /* keys are TEXT */
    int64_t count, room;
    bool kept; /* by a macro that was defined in it */
} samba_chat_scope;
struct samba_chat_macro {
    const samba_chat_node *node;
    samba_chat_scope *scope; /* where it was defined */
};
struct samba_chat_loop {
    samba_chat_iterator *iterator;
    const samba_chat_node *node; /* of the FOR */
    samba_chat_scope *scope;     /* outside of it */
    samba_chat_value before, item, ahead, changed;
    bool has_ahead, has_before, has_changed;
    int64_t index, length, depth; /* length -1: not known yet */
    samba_chat_list *rest;        /* read ahead to count them; NULL: not */
    int64_t rest_at;
};
samba_status samba_chat_loop_next(samba_chat_run *w, samba_chat_loop *loop, bool *more); /* chat_loop.c */
samba_status samba_chat_loop_attribute(samba_chat_run *w, samba_chat_loop *loop, samba_str name, samba_chat_value *part);

struct samba_chat_run {
    samba_context *context;
    samba_arena arena;
    samba_chars out;
    samba_chat_scope *scope;
    samba_chat_scope variables;  /* outermost */
    const samba_chat_call *call; /* of the row at hand */
    int line, depth;
    int64_t steps, most_out;
    int captures; /* around the text at hand: macros, set and filter blocks */
    bool spans;
    samba_chat_span *marks;
    int64_t mark_count, mark_room;
    int64_t loops; /* around, within the macro at hand */
    int64_t now;
    char *tip; /* the end of the text joined last */
    size_t tip_room;
    enum { SAMBA_CHAT_GOES_ON, SAMBA_CHAT_BREAKS, SAMBA_CHAT_CONTINUES } way;
};
/* "chat template: line N: ..." */
samba_status samba_chat_fail(samba_chat_run *w, samba_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
samba_status samba_chat_charge(samba_chat_run *w, size_t steps);
samba_status samba_chat_deeper(samba_chat_run *w); /* w->depth-- goes back */
samba_status samba_chat_room(samba_chat_run *w, size_t size, void *pointer);
/* SAMBA_MORE that is charged, as that is. */
#define SAMBA_CHAT_MORE(w, array, count, room) samba_chat_more(w, &(array), sizeof *(array), count, &(room))
samba_status samba_chat_more(samba_chat_run *w, void *array, size_t each, int64_t count, int64_t *room);
samba_status samba_chat_evaluate(samba_chat_run *w, const samba_chat_node *node, samba_chat_value *value);
samba_status samba_chat_binary(samba_chat_run *w, samba_chat_sign sign, samba_chat_value a, samba_chat_value b,
                               samba_chat_value *value); /* chat_number.c */
samba_status samba_chat_unary(samba_chat_run *w, samba_chat_sign sign, samba_chat_value a, samba_chat_value *value);
samba_status samba_chat_compared(samba_chat_run *w, samba_chat_sign sign, samba_chat_value a, samba_chat_value b, bool *holds);
samba_status samba_chat_invoke(samba_chat_run *w, samba_chat_value function, const samba_chat_call *call,
                               samba_chat_value *value);
samba_status samba_chat_call_macro(samba_chat_run *w, const samba_chat_macro *macro, const samba_chat_call *call,
                                   samba_chat_value *value);
samba_status samba_chat_execute(samba_chat_run *w, const samba_chat_body *body);
/* Assigns to a TARGET. */
samba_status samba_chat_assign(samba_chat_run *w, const samba_chat_node *target, samba_chat_value value);
samba_status samba_chat_scope_set(samba_chat_run *w, samba_chat_scope *scope, samba_str name, samba_chat_value value);
const samba_chat_value *samba_chat_scope_find(const samba_chat_scope *scope, samba_str name); /* and those outside of it */

struct samba_chat_template {
    samba_context *context;
    samba_arena arena;
    struct samba_chat_form {
        samba_chat_body body;
        bool marks, given;
    } form, with_tools;
    samba_str *names, *tokens; /* special tokens */
    int token_count;
};

#endif
