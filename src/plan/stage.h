/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages: the compiler makes them, the PEF stores them, a device runs them. Plain data: indices and offsets, no pointers into the
 * graph, so a stage means the same on every device.
 *
 * A stage works over a domain (sizes outermost first). Its operands are views of buffers: element offset and strides in elements,
 * one stride for each domain dim. A buffer is a range of the device arena. */
#ifndef SAMBA_STAGE_H
#define SAMBA_STAGE_H

#include "tensor/tensor.h"

typedef enum samba_tile {
#define TILE(name, form, cost) SAMBA_TILE_##name,
#include "plan/tiles.def"
#undef TILE
    SAMBA_TILE_COUNT
} samba_tile;
typedef enum samba_tile_form {
    SAMBA_FORM_LOAD,
    SAMBA_FORM_STORE,
    SAMBA_FORM_BLOCK,
    SAMBA_FORM_CONST,
    SAMBA_FORM_IOTA,
    SAMBA_FORM_RANDOM,
    SAMBA_FORM_UNARY,
    SAMBA_FORM_BINARY,
    SAMBA_FORM_COMPARE,
    SAMBA_FORM_WHERE,
    SAMBA_FORM_TERNARY,
    SAMBA_FORM_CONVERT,
    SAMBA_FORM_WRAP,
    SAMBA_FORM_ROUND,
    SAMBA_FORM_REDUCE,
    SAMBA_FORM_SPREAD,
    SAMBA_FORM_COLLECT
} samba_tile_form;
typedef enum samba_tile_cost {
    SAMBA_COST_ARITHMETIC,
    SAMBA_COST_TRANSCENDENTAL,
    SAMBA_COST_POWER,
    SAMBA_COST_COUNT
} samba_tile_cost;
typedef struct samba_tile_facts {
    const char *name;
    samba_tile_form form;
    samba_tile_cost cost;
} samba_tile_facts;
extern const samba_tile_facts samba_tile_table[SAMBA_TILE_COUNT]; /* plan/stage.c */

typedef enum samba_register_class { SAMBA_F32 = 0, SAMBA_F64 = 1, SAMBA_I64 = 2 } samba_register_class;
typedef enum samba_extent { SAMBA_FULL = 0, SAMBA_ROW = 1 } samba_extent;
samba_register_class samba_class_of(samba_dtype dtype); /* plan/stage.c */

typedef struct samba_register {
    uint8_t class_; /* samba_register_class */
    uint8_t extent; /* samba_extent */
    uint8_t wide;   /* lives from one loop step to another: holds whole rows when a row has several chunks */
    int16_t direct; /* operand whose memory may serve as this register where its elements are contiguous and of the register's
                        type (LOAD: instead of loading; otherwise: the result is computed in place, STORE becomes nothing; a ROW
                        register only when nothing but LOADs write it, as tiles side by side share their rows); -1 none */
} samba_register;

typedef struct samba_instruction {
    uint16_t op;        /* samba_tile */
    int16_t d, a, b, c; /* registers; -1 where the form has none */
    int16_t operand;    /* -1 where the form has none */
    double immediate;
} samba_instruction;

/* Steps run in order for each tile-row of the domain. A loop step runs once for each chunk of columns; any other once. The first
 * `setup` instructions run once per thread before all (constants, operands whose strides are all 0): their registers are filled
 * to the tile's capacity, so they serve as FULL and as ROW. */
typedef struct samba_step {
    int32_t begin, end; /* instructions */
    int32_t loop;
} samba_step;
typedef struct samba_program {
    int32_t register_count, instruction_count, step_count, setup;
    samba_register *registers;
    samba_instruction *instructions;
    samba_step *steps;
} samba_program;

typedef struct samba_operand {
    int32_t buffer; /* -1: none (RANDOM) */
    int32_t dtype;
    int64_t offset; /* elements */
    int64_t strides[SAMBA_MAX_RANK];
} samba_operand;

/* ---- contract: C[batch, m, n] = sum over k of A[batch, m, k] * B[batch, k, n] -------------------------------------
 * Each of m, n, k is up to 4 dims (first outermost; unused: rank 0 means size 1). The result's domain, over which the epilogue
 * program runs with BLOCK as its input, is [batch..., M, N] with M and N the products. Rows of a tile are of one batch element.
 * An operand is affine in its indices, and may also be seen through windows (convolution): a window adds a coordinate
 *   x = base + sum own[i]*index_own[i] + sum inner[i]*index_k[i]
 * the element counts as 0 unless 0 <= x < limit*dilation and dilation divides x, and lies at ... + (x/dilation)*stride. */
#define SAMBA_CONTRACT_RANK 4
#define SAMBA_CONTRACT_WINDOWS 3
typedef struct samba_window {
    int64_t base, limit, dilation, stride;
    int64_t own[SAMBA_CONTRACT_RANK], inner[SAMBA_CONTRACT_RANK];
} samba_window;
typedef struct samba_factor { /* A (own dims: m) or B (own dims: n) */
    int32_t buffer, dtype;
    int64_t offset;
    int64_t batch[SAMBA_CONTRACT_RANK], own[SAMBA_CONTRACT_RANK], inner[SAMBA_CONTRACT_RANK]; /* strides */
    int32_t window_count;
    samba_window windows[SAMBA_CONTRACT_WINDOWS];
} samba_factor;
typedef struct samba_contract {
    int32_t batch_rank, m_rank, n_rank, k_rank;
    int64_t batch[SAMBA_CONTRACT_RANK], m[SAMBA_CONTRACT_RANK], n[SAMBA_CONTRACT_RANK], k[SAMBA_CONTRACT_RANK];
    int32_t class_;     /* of the sums: SAMBA_F32 (libxsmm), SAMBA_F64 (libxsmm), SAMBA_I64 (plain) */
    int32_t whole_rows; /* the epilogue reduces rows or loops: a block must hold all of N */
    samba_factor a, b;
} samba_contract;

/* ---- pool: planes of h*w -> planes of oh*ow, all operands contiguous [planes, h, w] / [planes, oh, ow] ----
 * operands: max forward, avg forward: x, y. max gradient: x, dy, dx. avg gradient: dy, dx. `indices`: max forward whose y is
 * int64, the index in the plane. `adaptive`: window o of oh begins at floor(o h / oh) and ends before ceil((o + 1) h / oh); then
 * kernel, stride, padding and dilation say nothing. `resample` 1 + a mode: elements are weighted sums as tensor/resample.h says,
 * operands those of an average, and nothing else counts but the planes, align_corners, antialias and scale. `divisor`:
 * what an average divides by; 0: the elements of the window.
 * `sample` 1 + a mode: images are read at the positions of a grid, as ops/grid.c says; each of `images` has as many planes, and
 * a position for each element of oh*ow. Then nothing else counts but align_corners, gradient, `outside` (samba_grid_padding) and
 * `depth`: 0: images; else a plane is a volume of so many, and h counts the rows of all. Operands: x, grid, y;
 * gradient: grid, dy, dx; gradient `of_grid`: x, grid, dy, dgrid. */
typedef enum samba_sample { /* numbers are part of the file format */
                            SAMBA_SAMPLE_NEAREST = 1,
                            SAMBA_SAMPLE_LINEAR = 3,
                            SAMBA_SAMPLE_CUBIC = 4
} samba_sample;
enum { SAMBA_SAMPLE_ZEROS, SAMBA_SAMPLE_BORDER, SAMBA_SAMPLE_REFLECTION };
typedef struct samba_pool {
    int32_t average, gradient, count_include_pad, indices, adaptive, resample, align_corners, antialias;
    int32_t sample, outside, of_grid, unused;
    int64_t images, depth;
    int64_t divisor;
    double scale[2];
    int64_t planes, h, w, oh, ow, kernel[2], stride[2], padding[2], dilation[2];
} samba_pool;

/* ---- gather: for every element c of the domain, y[c] = table[c], but that along the domain's dim `axis` the row of the table is
 * index[c]. Scatter: table[c] is set to y[c], or becomes their sum, product, greatest or least, in the order of c along the axis.
 * operands: gather: table, index, y; scatter: index, y, table. Each has strides over the domain; the table's along the axis is 0,
 * since there it has `table_rows` rows, `table_stride` apart. Two elements meet in the table only where they differ along the
 * axis and have one index. `negative`: indices may count from the end.
 * One out of range reads as 0, writes nothing and raises the stage's fault. */
typedef enum samba_gather_mode {
    SAMBA_GATHER_READ,
    SAMBA_GATHER_SET,
    SAMBA_GATHER_ADD,
    SAMBA_GATHER_MUL,
    SAMBA_GATHER_AMAX,
    SAMBA_GATHER_AMIN,
    SAMBA_GATHER_MODE_COUNT
} samba_gather_mode; /* numbers are part of the file format */
typedef struct samba_gather_stage {
    int32_t mode, axis, negative, unused;
    int64_t table_rows, table_stride;
} samba_gather_stage;

/* ---- attention: softmax(q k^T * scale + mask) v for each head, or its gradients. The domain is that of the scores, (b, h, tq,
 * tk), which are never stored. Operands have strides for (b, head, position, element), over sizes of their own; parts that are
 * not there are left out. Query heads in a row, h / hkv of them, share a key head. */
typedef enum samba_attention_part {
    SAMBA_ATTENTION_Q,    /* (b, h, tq, d) */
    SAMBA_ATTENTION_K,    /* (b, hkv, tk, d) */
    SAMBA_ATTENTION_V,    /* (b, hkv, tk, dv) */
    SAMBA_ATTENTION_MASK, /* (b, h, tq, tk): bool, true may be seen, or of q's dtype, added to the scores */
    SAMBA_ATTENTION_P,    /* dropout's rate, float64, and seed, int64: one number each */
    SAMBA_ATTENTION_SEED,
    SAMBA_ATTENTION_RESULT, /* (b, h, tq, dv) */
    /* (b, h, tq, 1): log of the sum of exponentials of a query's scores; float64 for float64, else float32 */
    SAMBA_ATTENTION_LSE,
    SAMBA_ATTENTION_DOUT, /* (b, h, tq, dv): gradient of the result */
    SAMBA_ATTENTION_DQ,
    SAMBA_ATTENTION_DK,
    SAMBA_ATTENTION_DV,    /* as q, k, v */
    SAMBA_ATTENTION_START, /* of a cache: (b), int64 or int32, the position of each sequence's first query */
    SAMBA_ATTENTION_PARTS
} samba_attention_part;
typedef struct samba_attention {
    int32_t gradient;            /* reads result, lse and dout; writes dq, dk and dv */
    int32_t causal;              /* query i sees keys 0 .. i */
    int32_t masked, dropout;     /* are mask, and p and seed, there? */
    int32_t has_result, has_lse; /* forward writes them; both are there for the gradient */
    int64_t hkv, d, dv;
    double scale;
    /* > 0: k and v are a cache, whose slot p mod `slots` has the key of position p; tk is at least that. Query i stands at
     * position start + i and sees what ops/cache.c says. Then there is nothing of the above but the result. */
    int64_t slots;
    int64_t window; /* positions that a query sees, its own among them; 0: as many as slots */
    double cap;     /* > 0: scores are cap tanh(score / cap) */
} samba_attention;
/* Windows of 2 x 2 side by side: kernels read each whole before they write its gradient, so that may lie over what was pooled. */
bool samba_pool_fits_in_place(const samba_pool *pool);
/* Elements of each operand of a stage that samples, of whose sizes no product overflows; returns how many there are. */
int32_t samba_pool_sample_sizes(const samba_pool *pool, int64_t sizes[4]);
/* The number of each part's operand, -1: not there; returns the number of operands. plan/stage.c */
int32_t samba_attention_operands(const samba_attention *attention, int32_t operand_of[SAMBA_ATTENTION_PARTS]);

/* ---- line: along the middle dim of (outer, size, inner), all operands contiguous. Operands: x; cumprod_grad: dy; the values, if
 * they are wanted, of x's dtype; the indices, int64, if they are wanted (sort, choose, cummax, cummin). Margins: x; the labels,
 * int64, as many; the gradient: dy, one a line; the values.
 * ops/line.c and ops/margin.c say what the functions mean. */
typedef enum samba_line_function { /* numbers are part of the file format */
                                   SAMBA_LINE_SORT = 0,
                                   SAMBA_LINE_CUMSUM = 1,
                                   SAMBA_LINE_CUMPROD = 2,
                                   SAMBA_LINE_CUMPROD_GRAD = 3,
                                   SAMBA_LINE_LOGCUMSUMEXP = 4,
                                   SAMBA_LINE_CUMMAX = 5,
                                   SAMBA_LINE_CUMMIN = 6,
                                   SAMBA_LINE_MARGIN = 7,
                                   SAMBA_LINE_MARGIN_GRAD = 8,
                                   SAMBA_LINE_CHOOSE = 9, /* sort with `first` or `nan`, which older readers do not know */
                                   SAMBA_LINE_FUNCTION_COUNT = 10
} samba_line_function;
enum { SAMBA_LINE_MIDDLE = -1 }; /* of one result: that in the middle of those that are not NaN, from the least */
typedef struct samba_line {
    int32_t function, backwards; /* sort, choose: the greatest first; others: from the last element on */
    int32_t has_values, has_indices;
    int64_t outer, size, inner;
    int64_t count; /* results along the dim: sort may want but some, a margin is one; else size */
    int64_t first; /* choose: the first result's place in the order, or SAMBA_LINE_MIDDLE; others: 0 */
    int32_t nan;   /* choose: of a line that has NaN, all results are its first NaN; others: 0 */
} samba_line;
/* Operands that a line only reads: the first ones. plan/stage.c */
int32_t samba_line_sources(const samba_line *line);

/* ---- fourier: discrete Fourier transforms of the lines along the middle dim of (outer, size, inner). Operands, contiguous: x,
 * y, both float32 or float64. A complex tensor has one more dim, its last: real and imaginary part. Of a real line there are size
 * / 2 + 1 frequencies. ops/fourier.c says what scale and pairs mean. */
typedef enum samba_fourier_form { /* numbers are part of the file format */
                                  SAMBA_FOURIER_COMPLEX = 0,
                                  SAMBA_FOURIER_FROM_REAL = 1,
                                  SAMBA_FOURIER_TO_REAL = 2,
                                  SAMBA_FOURIER_FORM_COUNT = 3
} samba_fourier_form;
typedef struct samba_fourier {
    int32_t form, inverse;
    int64_t outer, size, inner;
    double scale, pairs;
} samba_fourier;
/* Elements of x and y, of sizes whose products with 2 do not overflow. plan/stage.c */
void samba_fourier_sizes(const samba_fourier *fourier, int64_t sizes[2]);

/* ---- ctc: the loss of each of `batch` rows of `steps` x `classes` log probabilities, or its gradient. Operands, contiguous: log
 * probabilities (steps, batch, classes), float32 or float64; targets (batch, most); input lengths and target lengths, (batch)
 * each; these three int64, whose values are checked while they are used; the gradient: dy (batch); the result. */
typedef struct samba_ctc {
    int32_t gradient, zero_infinity;
    int64_t steps, batch, classes, most, blank;
} samba_ctc;
/* Elements of each operand, of sizes of which no product overflows; returns how many there are. plan/stage.c */
int32_t samba_ctc_sizes(const samba_ctc *ctc, int64_t sizes[6]);

/* ---- linear: y (m, n) = x W, operands contiguous: x (m, k), float32; the weights as they are kept; of INT8 and INT4 their
 * scales; y, float32. ops/stored.c says what the forms mean. */
typedef enum samba_linear_form { /* numbers are part of the file format */
                                 SAMBA_LINEAR_FLOAT32 = 0,
                                 SAMBA_LINEAR_BFLOAT16 = 1,
                                 SAMBA_LINEAR_INT8 = 2,
                                 SAMBA_LINEAR_INT4 = 3,
                                 SAMBA_LINEAR_FORM_COUNT = 4
} samba_linear_form;
enum { SAMBA_LINEAR_GROUP = 32 }; /* elements of INT4 with one scale */
typedef struct samba_linear_stage {
    int32_t form, transposed; /* transposed: of floating-point weights, (k, n); else (n, k) */
    int64_t m, n, k;
} samba_linear_stage;

/* ---- matrix: a function of each matrix a (m, n) of a batch, as ops/matrix.c says. The domain is that of the result, (batch,
 * rows, columns). Operands: a; the right sides b of those that solve; the result. Their strides are over (batch, row, column), of
 * sizes of their own. m = n but for QR, SVD, LSTSQ and PINV; k is the lesser of both. A matrix that the function has no result of
 * gives NaN, and raises the stage's fault. */
typedef enum samba_matrix_function {                               /* numbers are part of the file format */
                                     SAMBA_MATRIX_CHOLESKY = 0,    /* (n, n): L */
                                     SAMBA_MATRIX_TRIANGULAR = 1,  /* b (n, right) -> (n, right) */
                                     SAMBA_MATRIX_LU = 2,          /* (n + 1, n): L and U, then the rows that were exchanged */
                                     SAMBA_MATRIX_LU_SOLVE = 3,    /* a as LU gives it, b (n, right) -> (n, right) */
                                     SAMBA_MATRIX_QR = 4,          /* (m + n, k): Q, then R transposed */
                                     SAMBA_MATRIX_EIGH = 5,        /* (1 + n, n): values, then vectors in columns */
                                     SAMBA_MATRIX_SVD = 6,         /* (m + 1 + n, k): U, values, V */
                                     SAMBA_MATRIX_EXP = 7,         /* (n, n) */
                                     SAMBA_MATRIX_LSTSQ = 8,       /* b (m, right) -> (n, right) */
                                     SAMBA_MATRIX_PINV = 9,        /* (n, m) */
                                     SAMBA_MATRIX_LU_INVERSE = 10, /* a as LU gives it -> (n, n) */
                                     SAMBA_MATRIX_FUNCTION_COUNT = 11
} samba_matrix_function;
typedef struct samba_matrix_stage {
    int32_t function;
    int32_t upper, unit; /* TRIANGULAR: which triangle counts; its diagonal is 1 */
    int32_t transposed;  /* LU_SOLVE: by the transpose of what was factorized */
    int32_t values;      /* EIGH, SVD: the values alone, (1, n) or (1, k) */
    int32_t singular;    /* LU: a matrix without an inverse has a result too */
    int64_t m, n, right;
    double atol, rtol; /* PINV; LSTSQ, whose atol is 0: singular values up to max(atol, rtol times the greatest) count as 0 */
} samba_matrix_stage;
/* Rows and columns of each operand, of sizes of which no product overflows; returns how many operands there are. plan/stage.c */
bool samba_matrix_solves(int32_t function); /* has right sides. plan/stage.c */
int32_t samba_matrix_sizes(const samba_matrix_stage *matrix, int64_t sizes[3][2]);

typedef enum samba_stage_kind {
    SAMBA_STAGE_TILE = 0,
    SAMBA_STAGE_CONTRACT = 1,
    SAMBA_STAGE_POOL = 2,
    SAMBA_STAGE_GATHER = 3,
    SAMBA_STAGE_ATTENTION = 4,
    SAMBA_STAGE_LINE = 5,
    /* The elements of the one operand, side by side, become their mean over all replicas (parallel/). A device leaves them as
     * they are: what replicas say to each other is the session's affair. */
    SAMBA_STAGE_EXCHANGE = 6,
    SAMBA_STAGE_LINEAR = 7,
    SAMBA_STAGE_FOURIER = 8,
    SAMBA_STAGE_CTC = 9,
    SAMBA_STAGE_MATRIX = 10,
    SAMBA_STAGE_KIND_COUNT = 11
} samba_stage_kind;
extern const char *const samba_stage_kind_names[SAMBA_STAGE_KIND_COUNT]; /* plan/stage.c: "tile" ... */

typedef struct samba_stage_operator { /* for people: words and a location of the plan (plan/plan.h) */
    int32_t op, type, location;       /* "relu", "float32(2, 3)" */
} samba_stage_operator;

typedef struct samba_stage {
    int32_t kind;
    char *name; /* "conv1: conv2d add relu", for people */
    int32_t operator_count;
    samba_stage_operator *operators; /* all that the stage computes */
    int64_t flops, bytes;
    /* domain: TILE, GATHER rank >= 1; EXCHANGE 1; CONTRACT batch_rank + 2; ATTENTION 4; MATRIX 3; others 0 */
    int32_t rank;
    int64_t domain[SAMBA_MAX_RANK];
    int32_t operand_count;
    samba_operand *operands;
    samba_program program; /* TILE, CONTRACT */
    samba_contract contract;
    samba_pool pool;
    samba_gather_stage gather;
    samba_attention attention;
    samba_line line;
    samba_linear_stage linear;
    samba_fourier fourier;
    samba_ctc ctc;
    samba_matrix_stage matrix;
} samba_stage;
typedef enum samba_access_kind { SAMBA_READS = 1, SAMBA_WRITES = 2 } samba_access_kind;
/* Whether the stage reads or writes the memory of an operand: either, both or 0. plan/stage.c */
int samba_stage_access(const samba_stage *stage, int32_t operand);
/* Sizes of a part of an ATTENTION stage, as its strides are: (b, head, position, element). plan/stage.c */
void samba_attention_sizes(const samba_stage *stage, samba_attention_part part, int64_t sizes[4]);

typedef struct samba_buffer { /* a range of the device arena */
    int64_t offset, bytes;    /* offset is a multiple of 64 */
} samba_buffer;
/* Does the stage read or write (`access`: one of samba_access_kind, or both) memory of the range? By whole buffers, so it may
 * touch less. plan/stage.c */
bool samba_stage_touches(const samba_stage *stage, const samba_buffer *buffers, samba_buffer range, int access);

#endif
