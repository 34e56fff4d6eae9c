/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a prepared tile program (program.c makes it, tile.c runs it, operand.c and collect.c run their instructions).
 *
 * The program is shared by all threads and never changes. What changes while it runs is in a frame: one for each thread, at
 * the start of its scratch, followed by register storage and partial results. A tile is a range of rows and columns of the
 * domain; it is worked on in chunks, one after the other, of at most `capacity` columns where it has one row, else of `chunk`. A
 * tile has at most SAMBA_TILE_CAPACITY rows. */
#ifndef SAMBA_CPU_TILE_H
#define SAMBA_CPU_TILE_H

#include "device/cpu/machine.h"

#define SAMBA_SHORT_SUM 16        /* columns from which a row's sum is made of parts (reduce_sum.h) */
#define SAMBA_LONG_ROW_COLUMNS 64 /* from which a loop for each row is no slower than spreading */

/* A function of the domain's coordinates: element offset = offset + (part of the row) + column * col_stride. The dims before the
 * last are merged where their strides allow, so most views have one group or none (all rows at one offset). */
typedef struct samba_view {
    char *base; /* of element 0; NULL where the offset itself is the value (IOTA, RANDOM) or belongs to partial results */
    int64_t offset, col_stride;
    int32_t dtype, size;
    int32_t native; /* memory holds what a register holds */
    int32_t groups; /* merged dims of size > 1, outermost first */
    int64_t group_size[SAMBA_MAX_RANK], group_stride[SAMBA_MAX_RANK];
    int64_t row_offsets; /* groups > 1: offset in scratch of an offset for each row of the tile */
} samba_view;

/* All rows lie at one offset. */
static inline bool samba_view_repeats(const samba_view *view)
{
    return view->groups == 0 || (view->groups == 1 && view->group_stride[0] == 0);
}

typedef struct samba_view_slice { /* the part of a view that the tile at work covers */
    int64_t offset;               /* of (row0, column 0) */
    const int64_t *rows;          /* offset of each row, where the view has more than one group and they lie in several runs */
    bool dense_full;              /* the tile's elements follow one another (FULL) */
    bool dense_row;               /* so do its rows' values (ROW) */
    int64_t run;                  /* rows before the innermost group begins anew, where there is more than one group */
} samba_view_slice;

/* Offset of a row of the tile, at column 0. */
static inline int64_t samba_view_row(const samba_view *view, const samba_view_slice *slice, int64_t row)
{
    if (view->groups > 1 && row >= slice->run)
        return slice->rows[row];
    return slice->offset + row * (view->groups ? view->group_stride[view->groups - 1] : 0);
}

typedef enum samba_action {
    SAMBA_DO_MAP,
    SAMBA_DO_LOAD,
    SAMBA_DO_STORE,
    SAMBA_DO_BLOCK,
    SAMBA_DO_IOTA,
    SAMBA_DO_RANDOM,
    SAMBA_DO_REDUCE,
    SAMBA_DO_ARGMAX,
    SAMBA_DO_SPREAD,
    SAMBA_DO_COLLECT,
    SAMBA_DO_CONST,
    SAMBA_DO_SCALAR, /* LOAD in setup */
    SAMBA_DO_ROWS,
    SAMBA_DO_DOT,
    SAMBA_DO_BOTH,
    SAMBA_DO_ROUND,
    SAMBA_DO_SELECT, /* several instructions in one: combine.c */
    SAMBA_DO_INSIDE,
    SAMBA_DO_SUMMED,
    SAMBA_DO_NORM, /* so too: of norms */
    SAMBA_DO_SET,
    SAMBA_DO_PICK,
    SAMBA_DO_CHOOSE /* so too; labels.c */
} samba_action;

typedef enum samba_summed {
    SAMBA_SUMMED_ADD,
    SAMBA_SUMMED_ADD_ADD,
    SAMBA_SUMMED_MUL,
    SAMBA_SUMMED_CENTER,
    SAMBA_SUMMED_COUNT
} samba_summed;
typedef enum samba_norm {
    SAMBA_NORM_STANDARDIZE,
    SAMBA_NORM_STANDARDIZE_ADD,
    SAMBA_NORM_AFFINE,
    SAMBA_NORM_SLOPE,
    SAMBA_NORM_SLOPE_ADD,
    SAMBA_NORM_COUNT
} samba_norm;
typedef void samba_summed_fn(float *d, float *sum, float *dot, const float *a, const float *b, const float *c, int64_t rows,
                             int64_t cols, bool first);
typedef void samba_inside_fn(float *d, const float *a, const float *b, const float *lo, const float *hi, const float *other,
                             int64_t n);
typedef void samba_norm_fn(float *d, const float *a, const float *b, const float *c, const float *s, const float *t,
                           const float *u, int64_t rows, int64_t cols);

/* f32, FULL results. `first` and its like count add, sub, mul and, of pairs, minimum, maximum, relu. */
struct samba_combined {
    /* [first][then]: r = a first b; then: r + c, r - c, c - r, r * c, minimum(r, c), maximum(r, c), relu(r); NULL:
     * no such pair. Before that: 1 where b is one number, that of its first element, 2 where c is */
    samba_map_fn *pair[4][6][7];
    void (*rows[3])(float *d, const float *a, const float *s, int64_t rows, int64_t cols); /* d[r,c] = a[r,c] first s[r] */
    void (*dot)(float *d, const float *a, const float *b, int64_t rows, int64_t cols, bool first); /* reduce_sum of a * b */
    /* reduce_sum, and total_f32, of where(a != a, 0, a) */
    void (*nansum)(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    double (*total_nansum)(const float *a, int64_t n);
    /* eq ne lt le gt ge; before that: 1 where b and if_true are one number each */
    void (*select[2][6])(float *d, const float *a, const float *b, const float *if_true, const float *if_false, int64_t n);
    /* lo, hi and other are one value each: other where a < lo or a > hi, else b; [2 * (a <= lo) + (a >= hi)] */
    samba_inside_fn *inside[4];
    samba_inside_fn *number[2]; /* other where b is NaN, else minimum(maximum(a, lo), hi); 1: maximum(minimum(a, lo), hi) */
    void (*round)(float *d, uint16_t *memory, const float *a, int64_t n); /* both a rounded to bfloat16 */
    /* d and its rows' reduce_sum. ADD: a + b. ADD_ADD: (a + b) + c. MUL: a b, and in dot the sum of d c. CENTER:
     * a - b[r], and only dot, the sum of d d */
    samba_summed_fn *summed[SAMBA_SUMMED_COUNT];
    /* s, t, u are values a row. STANDARDIZE: (a - s) t. AFFINE: (a s) b + c. SLOPE: ((a - s) - b t) u. SLOPE_ADD: that + c.
     * What has no part may be anything that can be read as the others. */
    samba_norm_fn *norm[SAMBA_NORM_COUNT];
};

typedef enum samba_pattern { /* what several instructions in one compute: combine.c's rules build on one another's */
                             SAMBA_PATTERN_NONE,
                             SAMBA_PATTERN_ROW_ADD,
                             SAMBA_PATTERN_ROW_SUB,
                             SAMBA_PATTERN_ROW_MUL, /* ROWS, as samba_combined counts them */
                             SAMBA_PATTERN_ADD_ADD,
                             SAMBA_PATTERN_MUL_ADD,
                             SAMBA_PATTERN_PAIR, /* a MAP of three sources: these two, or any other */
                             SAMBA_PATTERN_NORM  /* NORM: and a samba_norm on top */
} samba_pattern;

typedef struct samba_code { /* an instruction, resolved */
    uint8_t action, extent, class_;
    uint8_t pattern; /* of one that was made of several; SELECT: which comparison, counted from eq */
    uint8_t once;    /* ROW: only the first chunk of a tile runs it */
    uint8_t edge;    /* ROW, with an effect on memory: only at column 0, as blocks side by side share their rows */
    uint16_t op;
    int16_t d, a, b, c; /* 0 where the form has none */
    int16_t if_false;   /* SELECT: a and b are compared, c stands where that is true */
    int16_t s, t, u; /* values a row. NORM: sources; SUMMED: s takes the sum, t the dot product; INSIDE: bounds, and the other */
    uint8_t product; /* COLLECT: of a times b */
    uint8_t nansum;  /* COLLECT: of what is not NaN, one sum of all, or one a column */
    uint8_t memory;  /* COLLECT: of what a LOAD would read, where it lies; a column each */
    uint8_t own;     /* LOAD, STORE: the register may be the operand's memory; then nothing is to be done */
    int32_t view;    /* LOAD STORE IOTA RANDOM, COLLECT of memory: in views */
    int32_t kept;    /* LOAD: the register keeps its content between tiles; number of the record, -1: loaded every time */
    int32_t collector; /* COLLECT */
    int64_t best;      /* ARGMAX: offset in scratch of the greatest values */
    double immediate;
    samba_map_fn *map;
    void (*reduce)(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    void (*rows)(float *d, const float *a, const float *s, int64_t rows, int64_t cols);
    void (*dot)(float *d, const float *a, const float *b, int64_t rows, int64_t cols, bool first);
    void (*select)(float *d, const float *a, const float *b, const float *if_true, const float *if_false, int64_t n);
    void (*both)(float *d, float *c, const float *a, const float *b, int64_t n); /* BOTH: c is a result too */
    samba_summed_fn *summed;
    samba_norm_fn *norm;
    samba_inside_fn *inside;
} samba_code;

typedef struct samba_tile_register {
    int64_t storage; /* offset in scratch */
    int32_t size;    /* of an element */
    int32_t wide, extent;
    int32_t direct; /* a native view whose memory may serve; -1 none */
    int32_t block;  /* takes the block a contraction made */
} samba_tile_register;

typedef struct samba_collector {
    int32_t op, class_, dtype, size;
    int32_t view;    /* of the partial results: C-contiguous over the dims that stay */
    int64_t partial; /* offset in scratch; double for f32 and f64, int64_t for i64 */
    int64_t numel;
    char *base;         /* of the operand's element 0 */
    int32_t contiguous; /* the operand is laid out as the partial results are */
    int32_t rank;       /* dims that stay, outermost first */
    int64_t sizes[SAMBA_MAX_RANK], strides[SAMBA_MAX_RANK];
} samba_collector;

struct samba_tile_program {
    const samba_kernels *kernels;
    int64_t rows, cols;           /* of the domain */
    int64_t capacity;             /* elements of a register that is not wide: SAMBA_TILE_CAPACITY, or more where few are stored */
    int64_t tile_rows, tile_cols; /* of a tile of a stage of its own */
    int64_t chunk;                /* columns of a chunk of a tile of several rows; one of one row has `capacity` */
    bool stands;                  /* registers hold column after column (standing.c) */
    bool far;     /* a stage of its own whose operands are in no cache: a tile is asked for while the one before is worked on */
    int64_t fill; /* elements of a setup register: no tile has more */
    int32_t register_count, view_count, code_count, setup, step_count, moving_count, located_count, kept_count, collector_count;
    int32_t block_size; /* of an element of the block */
    samba_tile_register *registers;
    samba_view *views;
    samba_code *codes;
    samba_step *steps;     /* of codes */
    int32_t *moving;       /* registers whose pointer depends on tile or chunk */
    int32_t *column_bytes; /* of each of these: how far it moves from a column to the next */
    int32_t *located;      /* views that steps use */
    samba_collector *collectors;
    int64_t pointers, slices, kept, spare; /* offsets in scratch */
    int64_t thread_scratch;
    double element; /* ns that one of the domain takes, about */
    double partial; /* the same of a partial result of another thread */
    int64_t live;   /* bytes of an element of the registers that are in use at once, at most */
};

typedef struct samba_kept { /* which columns a register holds, for how many rows */
    int64_t col, cols, rows;
} samba_kept;

typedef struct samba_frame {
    char *scratch;
    char **pointers; /* of registers, for the chunk at work */
    samba_view_slice *slices;
    samba_kept *kept;
    char *spare;                   /* SAMBA_TILE_CAPACITY elements of any class */
    int64_t rows, col0, col, cols; /* chunk at work: rows x cols from column col on; the tile's columns start at col0 */
    bool first;                    /* chunk of its tile */
    bool fresh;                    /* no tile yet, nothing set up */
    const char *block;             /* block's element at the tile's first row and column 0 of the domain, or NULL */
    int64_t block_ld;
} samba_frame;

/* combine.c: codes [setup, code_count), made of source's instructions, become fewer that do the same;
 * steps become the program's own. */
samba_status samba_tile_combine(samba_tile_program *program, const samba_program *source, samba_arena *arena);

/* again.c: what a step makes of a long row and a later one reads is made again there, where that is a load or little more.
 * `changed` is the source of what codes and steps then are. */
samba_status samba_tile_remake(samba_tile_program *program, const samba_program *source, samba_program *changed,
                               samba_arena *arena);

/* operand.c */
/* For views of several groups: finds their rows' offsets, counting up like an odometer, and writes them to `offsets`. */
void samba_view_locate(const samba_view *view, samba_view_slice *slice, int64_t *offsets, int64_t row0, int64_t rows,
                       int64_t cols);
void samba_tile_load(const samba_tile_program *program, samba_frame *frame, const samba_code *code);
void samba_tile_store(const samba_tile_program *program, samba_frame *frame, const samba_code *code);
void samba_tile_round(const samba_tile_program *program, samba_frame *frame, const samba_code *code);
void samba_tile_block(const samba_tile_program *program, samba_frame *frame, const samba_code *code);
void samba_tile_iota(const samba_tile_program *program, samba_frame *frame, const samba_code *code);
void samba_tile_random(const samba_tile_program *program, samba_frame *frame, const samba_code *code);

/* standing.c: whether a program does, decided before anything else is; its tile, once its capacity is known; and the instructions
 * that are other than those of tiles that lie: LOAD, STORE, IOTA and RANDOM of FULL, ARGMAX, SPREAD */
bool samba_tile_stands(const samba_preparing *prepare, const samba_stage *stage, int64_t rows, int64_t cols);
void samba_tile_stand(samba_tile_program *program);
void samba_tile_run_standing(const samba_tile_program *program, samba_frame *frame, const samba_code *code);

/* labels.c: f32; a label is the number of a column */
/* d[r,c] = b[0] where column c is row r's label a[r], c[0] elsewhere; of an eq: 1 and 0 */
void samba_tile_set(const samba_tile_program *program, samba_frame *frame, const samba_code *code);
/* d[r] = the greatest so far and a[r, label b[r]], where the chunk has that column */
void samba_tile_pick(samba_frame *frame, const samba_code *code);
/* d[r,:] = a[r] != 0 ? b[r,:] : c[r,:] */
void samba_tile_choose(samba_frame *frame, const samba_code *code);

/* collect.c */
void samba_tile_collect_begin(const samba_tile_program *program, samba_frame *frame);
void samba_tile_collect(const samba_tile_program *program, samba_frame *frame, const samba_code *code);
/* Part `part` of `parts` of the results: sums of all threads, in thread order, stored. frame gives spare room. */
void samba_tile_collect_end(const samba_tile_program *program, samba_frame *frame, char *scratches, int64_t pitch, int threads,
                            int part, int parts);

#endif
