/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU's side of stages: preparing one for a machine and running it by threads.
 *
 * Preparing happens once, at load: pointers are resolved, kernels are chosen (libxsmm blocks made, ISA table taken), scratch is
 * measured. Running neither allocates nor fails. Only data can be bad then (an index out of range): that raises a fault, which
 * the session reports. Every thread of a team calls run for phases 0 .. phases-1; the caller puts a barrier between phases. */
#ifndef SAMBA_KERNEL_H
#define SAMBA_KERNEL_H

#include "plan/stage.h"

#define SAMBA_TILE_CAPACITY 512 /* elements of a register that is not wide; measured in docs/decisions/tile-programs.md */

typedef enum samba_isa { /* isa/sets.def */
#define ISA(name, ...) SAMBA_ISA_##name,
#include "device/cpu/isa/sets.def"
#undef ISA
                         SAMBA_ISA_COUNT
} samba_isa;
extern const char *const samba_isa_names[SAMBA_ISA_COUNT];
samba_isa samba_isa_best(void);                      /* of those that this CPU and build have */
const char *samba_isa_list(char *text, size_t size); /* the names of all that they have; gives text */
/* SAMBA_EACH_ISA(isa) { }: for those that this CPU and build have. */
#define SAMBA_EACH_ISA(isa)                                                                                                      \
    for (int isa = 0; isa < SAMBA_ISA_COUNT; isa++)                                                                              \
        if (samba_kernels_for((samba_isa)isa))
/* The same without those that use another's kernels. */
#define SAMBA_EACH_KERNELS(i)                                                                                                    \
    SAMBA_EACH_ISA (i)                                                                                                           \
        if ((int)samba_kernels_for((samba_isa)i)->isa == i)
/* The family of processors that a set belongs to, where this build has no kernels for it; NULL: it has, or no set is called so */
const char *samba_isa_elsewhere(const char *name);
/* device/cpu/machine.h: what is known of the machine; the only one that asks */
typedef struct samba_cpu_machine samba_cpu_machine;

typedef struct samba_pool_plan samba_pool_plan; /* pool/pool.h */
typedef struct samba_pool_scratch samba_pool_scratch;

typedef struct samba_blocks samba_blocks;                   /* product/blocks.h */
typedef struct samba_rows samba_rows;                       /* product/rows.h */
typedef struct samba_stored samba_stored;                   /* product/stored.h */
typedef struct samba_attention_tiles samba_attention_tiles; /* attention/attention.h */
typedef struct samba_combined samba_combined;               /* device/cpu/tile/tile.h */
typedef struct samba_updates samba_updates;                 /* device/cpu/tile/update.h */
typedef struct samba_moves samba_moves;                     /* device/cpu/tile/move.h */
typedef struct samba_extremes samba_extremes;               /* device/cpu/tile/extreme.h */
typedef struct samba_fourier_plan samba_fourier_plan;       /* fourier/fourier.h */
typedef struct samba_transform samba_transform;
typedef struct samba_triangle samba_triangle; /* matrix/triangle.h */
typedef struct samba_lu samba_lu;             /* matrix/lu.h */
typedef struct samba_few samba_few;           /* matrix/few.h */

typedef struct samba_margins { /* rows of a margin stage */
    const void *x, *dy;        /* dy: one a row; NULL: the loss is wanted, one a row, and not its gradient */
    const int64_t *labels;
    void *result;
    int64_t classes;
} samba_margins;
enum {
    SAMBA_RANK_MOST = 64,  /* elements of a line whose order is counted */
    SAMBA_RANK_LANES = 16, /* lines side by side */
};
enum { SAMBA_MARGIN_LANES = 16 }; /* room of a thread: twice its classes, rounded up to so many, of x's dtype */

/* n elements each. Sources may alias the result exactly. One function per (op, class); class is that of the sources; NULL where
 * the combination has no meaning. */
typedef void samba_map_fn(void *d, const void *a, const void *b, const void *c, int64_t n);
enum { SAMBA_COLLECT_BFLOAT16 = 3 }; /* behind the register classes */
/* reduce: rows x cols -> rows; first: start anew, else go on from what d holds */
typedef struct samba_kernels { /* one table per ISA: device/cpu/tile/kernels.c compiled with other flags (device/cpu/isa/isa.h) */
    samba_isa isa;
    int lanes;            /* float elements of a vector */
    int vector_registers; /* of the processor that it was compiled for */
    bool fused;           /* a multiply-add is one instruction, rounded once */
    bool masked;          /* a part of a vector costs what a whole one does */
    const samba_blocks *blocks;
    const samba_rows *rows;
    const samba_stored *stored;
    const samba_attention_tiles *attention;
    samba_map_fn *map[SAMBA_TILE_COUNT][3];                                  /* but for cast, which is convert */
    samba_map_fn *convert[3][3];                                             /* [from][to] */
    void (*load[SAMBA_DTYPE_COUNT])(void *d, const void *source, int64_t n); /* to class of dtype, contiguous */
    void (*store[SAMBA_DTYPE_COUNT])(void *destination, const void *a, int64_t n);
    void (*load_strided[SAMBA_DTYPE_COUNT])(void *d, const void *source, int64_t stride, int64_t n); /* stride in elements */
    void (*store_strided[SAMBA_DTYPE_COUNT])(void *destination, const void *a, int64_t stride, int64_t n);
    void (*fill[3])(void *d, const void *value, int64_t n);
    void (*spread[3])(void *d, const void *a, int64_t rows, int64_t cols);
    void (*reduce_sum[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    void (*reduce_prod[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    void (*reduce_amax[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    void (*reduce_amin[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    /* best holds the greatest value so far (class of a), d its index; col0 is the first column's index */
    void (*reduce_argmax[3])(int64_t *d, void *best, const void *a, int64_t rows, int64_t cols, int64_t col0, bool first);
    /* the same of tiles that stand: a[r,c] is a[c * rows + r] */
    void (*standing_amax[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    void (*standing_amin[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first);
    void (*standing_sum[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first);  /* one column after the other */
    void (*standing_prod[3])(void *d, const void *a, int64_t rows, int64_t cols, bool first); /* as sums */
    void (*standing_argmax[3])(int64_t *d, void *best, const void *a, int64_t rows, int64_t cols, int64_t col0, bool first);
    /* Of n lines at once, whose elements number `index` are x: best so far and where it stands, the latest of equal ones, NaN for
     * good. at < 0: nothing yet. They are written to x and indices too. */
    void (*running_extremes[3])(void *best, int64_t *at, void *x, int64_t *indices, int64_t index, int64_t n, bool greatest);
    /* d[i] = *sum + x[0] + ... + x[i], or with what stands behind it, then *sum is of all; d may be x */
    void (*running_sum)(float *d, const float *x, int64_t n, double *sum, bool back);
    /* sums[c] += a[r,c], or a[r,c] b[r,c]; b may be NULL; f32: sums are double */
    void (*collect_rows[3])(void *sums, const void *a, const void *b, int64_t rows, int64_t cols);
    /* sums[c] += a[r * pitch + c]; what is `ahead` elements further is asked for. Of each class, then of bfloat16 in memory;
     * `numbers`: of what is not NaN, f32 and bfloat16 alone. */
    void (*collect_memory[SAMBA_COLLECT_BFLOAT16 + 1])(void *sums, const void *a, int64_t pitch, int64_t rows, int64_t cols,
                                                       int64_t ahead);
    void (*collect_numbers[SAMBA_COLLECT_BFLOAT16 + 1])(void *sums, const void *a, int64_t pitch, int64_t rows, int64_t cols,
                                                        int64_t ahead);
    /* sums[r * stride] += all of a[r], each row by total_* below */
    void (*collect_totals[3])(void *sums, int64_t stride, const void *a, int64_t rows, int64_t cols);
    double (*total_f32)(const float *a, int64_t n); /* sum in double */
    double (*total_f64)(const double *a, int64_t n);
    int64_t (*total_i64)(const int64_t *a, int64_t n); /* wraps */
    const samba_combined *combined;
    /* value[i] = gelu_tanh(x[i]), grad[i] = y[i] * gelu_tanh'(x[i]), the same bits as one by one */
    void (*gelu_tanh_both)(float *grad, float *value, const float *x, const float *y, int64_t n);
    const samba_updates *updates;
    const samba_moves *moves;
    const samba_extremes *extremes;
    void (*random)(float *d, uint64_t seed, uint64_t index, int64_t n); /* consecutive indices */
    /* Planes in a row: operands in the stage's order, `result` the last */
    void (*pool_f32)(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second, void *result,
                     const samba_pool_scratch *scratch);
    void (*pool_f64)(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second, void *result,
                     const samba_pool_scratch *scratch);
    void (*pool_i64)(const samba_pool_plan *plan, int64_t planes, const void *first, const void *second, void *result,
                     const samba_pool_scratch *scratch);
    /* Units of a stage that samples images (pool/sample_plane.h): operands in the stage's order */
    void (*sample_f32)(const samba_pool *pool, void *const *operands, int64_t begin, int64_t end, void *scratch);
    void (*sample_f64)(const samba_pool *pool, void *const *operands, int64_t begin, int64_t end, void *scratch);
    /* Where `count` of a line's n elements stand, from number `first` of their order on (line/ranks.c): keys have room for
     * SAMBA_RANK_MOST; of SAMBA_RANK_LANES lines, those of one element, and of one result, after each other */
    void (*line_order)(int32_t *order, int32_t *keys, int64_t n, int64_t first, int64_t count);
    void (*lines_order)(int32_t *order, const int32_t *keys, int64_t n, int64_t first, int64_t count);
    /* Rows [begin, end) of margins (line/margins.c); false: a label is no class */
    bool (*margin_f32)(const samba_margins *margins, int64_t begin, int64_t end, void *room);
    bool (*margin_f64)(const samba_margins *margins, int64_t begin, int64_t end, void *room);
    /* Blocks of lines of a Fourier stage; a complex transform of one line, with room for as much. fourier/fourier.h */
    void (*fourier_f32)(const samba_fourier_plan *plan, int64_t begin, int64_t end, void *scratch);
    void (*fourier_f64)(const samba_fourier_plan *plan, int64_t begin, int64_t end, void *scratch);
    void (*transform_f64)(const samba_transform *transform, double *re, double *im, double *room);
    /* Triangular systems of equations, float32 and float64: matrix/triangle.h */
    void (*triangle[2])(const samba_triangle *triangle, void *b);
    /* LU, of the same; false: singular. matrix/lu.h */
    bool (*lu[2])(const samba_lu *lu);
    /* Matrices of few columns, and small symmetric ones: matrix/few.h */
    void (*few_svd)(samba_few *few);
    void (*few_eigh)(samba_few *few);
    /* C (mr x nr, ld ldc) (+)= A (mr x k; row stride lda, k stride ska) * B (k x nr, row stride ldb, columns contiguous): plain
     * block kernels behind the same interface as libxsmm's, for CPUs it does not know and for forced ISAs */
    void (*block_f32)(const float *a, int64_t lda, int64_t ska, const float *b, int64_t ldb, float *c, int64_t ldc, int64_t mr,
                      int64_t nr, int64_t k, bool first);
    void (*block_f64)(const double *a, int64_t lda, int64_t ska, const double *b, int64_t ldb, double *c, int64_t ldc, int64_t mr,
                      int64_t nr, int64_t k, bool first);
    /* d[c*ldd + r] = s[r*lds + c] for rows x cols of 4- or 8-byte elements */
    void (*transpose4)(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
    void (*transpose8)(void *d, int64_t ldd, const void *s, int64_t lds, int64_t rows, int64_t cols);
    void (*interleave2)(void *d, const void *a, const void *b, int64_t n); /* d[2i] = a[i], d[2i+1] = b[i], of 2 bytes each */
} samba_kernels;
#define ISA(name, ...)                                                                                                           \
    extern const samba_kernels samba_kernels_##name;                                                                             \
    extern const samba_blocks samba_blocks_##name;                                                                               \
    extern const samba_rows samba_rows_##name;                                                                                   \
    extern const samba_stored samba_stored_##name;                                                                               \
    extern const samba_attention_tiles samba_attention_tiles_##name;
#include "device/cpu/isa/sets.def"
#undef ISA
const samba_kernels *samba_kernels_for(samba_isa isa); /* NULL where this build or CPU lacks it */

typedef struct samba_preparing { /* what preparing needs to know */
    samba_context *context;
    const samba_cpu_machine *machine;
    int threads;  /* of the team that will run it: 1 when the stage is too small to share */
    char *memory; /* the device arena */
    const samba_buffer *buffers;
    samba_arena *arena;      /* prepared state lives here */
    volatile int32_t *fault; /* set to stage_index + 1 by a stage that met bad data */
    int64_t *fault_element;  /* samba_fault_raise */
    int32_t stage_index;
    bool far;             /* what the stage touches is in no cache */
    const bool *constant; /* per buffer: the same in all runs, so that packs of it may be kept; NULL: none */
    const char *road;     /* of a contraction: the one to take, UNSUPPORTED where it does not lead there; NULL: the cheapest */
    bool compared;        /* samba_prepared.shape is wanted */
} samba_preparing;

/* Of stages of matrices: the least of `stage << 40 | element`, plus one, over all that have no result, whichever thread came
 * first; 0: none has. */
static inline void samba_fault_raise(volatile int32_t *fault, int64_t *fault_element, int32_t stage, int64_t element)
{
    const int64_t last = ((int64_t)1 << 40) - 2, at = ((int64_t)(stage - 1) << 40 | (element < last ? element : last)) + 1;
    int64_t least = __atomic_load_n(fault_element, __ATOMIC_RELAXED);
    while ((least == 0 || at < least) &&
           !__atomic_compare_exchange_n(fault_element, &least, at, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    *fault = stage;
}
/* What is wrong with that matrix, as the message. matrix/matrix.c */
samba_status samba_matrix_fail(samba_context *context, const samba_stage *stages, int64_t fault_element);

/* An operand's first element. */
static inline char *samba_operand_memory(const samba_preparing *prepare, const samba_operand *operand)
{
    return prepare->memory + prepare->buffers[operand->buffer].offset +
           operand->offset * (int64_t)samba_dtype_size((samba_dtype)operand->dtype);
}

/* What a prepared stage says of how its work is dealt. load.h asks; nothing that runs does. */
typedef struct samba_held { /* what a unit holds on to, and the cache that it is meant for */
    const char *what;       /* static */
    int cache;              /* 1 is the nearest; of 3, what all threads hold together */
    int64_t bytes;
} samba_held;
typedef struct samba_moved { /* from core to core in a run */
    double shared;           /* bytes of scratch that are read where another thread wrote them */
    double reads[2];         /* contractions: bytes that all threads read of a and of b, a byte as often as it is read */
    bool in_order;           /* each thread writes one part of the results, in the order of memory */
} samba_moved;
enum { SAMBA_HELD = 4 }; /* of a stage, at most */
typedef struct samba_dealing {
    /* Units of a phase. *free: threads take them as they come free; else thread t has those from units * t / threads on. */
    int64_t (*units)(const void *state, int phase, int threads, bool *free);
    double (*work)(const void *state, int phase, int threads, int64_t unit); /* ns of one core, about */
    void (*moved)(const void *state, int threads, samba_moved *moved);       /* zeroed; NULL: all is in order */
    int (*held)(const void *state, samba_held held[SAMBA_HELD]);             /* how many; NULL: nothing */
} samba_dealing;

typedef struct samba_prepared {
    /* scratch: this stage's shared scratch at 0, thread t's own at shared_scratch + t*thread_scratch;
     * 64-byte aligned, not initialised */
    void (*run)(const void *state, char *scratch, int phase, int thread, int threads);
    const void *state;
    int phases;
    /* the first of them, which pack constants into kept memory: run before all and when constants have changed */
    int refresh_phases;
    int64_t shared_scratch, thread_scratch; /* bytes, multiples of 64 */
    int64_t kept_bytes; /* of memory that only this stage touches and that lasts as long as it: zeroed, 64-byte aligned */
    const char *road;   /* of a contraction: the name of its row in product/roads.def; for people and tests */
    uint64_t shape;     /* of a contraction, where it was wanted: two that are alike are computed alike */
    char **kept;        /* where its address goes, before anything runs; NULL where kept_bytes is 0 */
    const samba_dealing *dealing;
} samba_prepared;

/* tile/program.c, product/frame.c, pool/pool.c, gather/gather.c, attention/attention.c, line/line.c, line/ctc.c,
 * fourier/fourier.c, product/stored.c, matrix/matrix.c.
 * The stage must outlive the prepared state. */
samba_status samba_prepare_stage(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_tile(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_contract(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_pool(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_gather(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_attention(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_line(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_fourier(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_ctc(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_linear(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);
samba_status samba_prepare_matrix(const samba_preparing *prepare, const samba_stage *stage, samba_prepared *prepared);

/* ---- tile programs as a part of other stages (device/cpu/tile/tile.c) ---- */
typedef struct samba_tile_program samba_tile_program; /* a stage's program with pointers resolved */
samba_status samba_tile_program_new(const samba_preparing *prepare, const samba_stage *stage, const samba_tile_program **program);
int64_t samba_tile_thread_scratch(const samba_tile_program *program); /* registers and partial results of one thread */
/* Once per thread before the first region: setup instructions, partial results to their start values. */
void samba_tile_begin(const samba_tile_program *program, char *thread_scratch);
/* Runs the steps over rows [row0, row0+rows) x columns [col0, col0+cols) of the domain (row: flattened index over all dims but
 * the last). block, when not NULL, is what BLOCK gives: row-major with row stride block_ld, its first element at (row0, col0). */
void samba_tile_region(const samba_tile_program *program, char *thread_scratch, int64_t row0, int64_t rows, int64_t col0,
                       int64_t cols, const void *block, int64_t block_ld);
/* Adds the memory that such a region reads and writes, row by row, to a queue of prefetches (fetch.h). */
struct samba_fetch;
void samba_tile_fetch(const samba_tile_program *program, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                      struct samba_fetch *fetch);
/* After a barrier, by each thread its part: combines the threads' partial results in thread order and stores them. `scratches`:
 * thread 0's scratch, others at multiples of `pitch` bytes. No-op for programs without COLLECT. */
void samba_tile_finish(const samba_tile_program *program, char *scratches, int64_t pitch, int thread, int threads);
bool samba_tile_has_collect(const samba_tile_program *program);
/* ns that a thread's part of this takes, about, and bytes of all that come from other threads. */
double samba_tile_finish_work(const samba_tile_program *program, int thread, int threads);
double samba_tile_partial_bytes(const samba_tile_program *program);

#endif
