/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of blocks.c for one element type: included there twice, with REAL, VECTOR, INDICES (integers as wide as REAL), NAME,
 * BLOCK, TRANSPOSE, SQUARE (isa/square.h) and TOTALS (one vector of the sums of each one's lanes)
 * defined. Each function body is written once with its sizes as constants of an inlined call,
 * so that all sums of a small block live in registers. */
#define NAME_LANES ((int)(VECTOR_BYTES / sizeof(REAL)))

INLINE VECTOR NAME(load)(const REAL *p)
{
    VECTOR v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
INLINE void NAME(store)(REAL *p, VECTOR v) { __builtin_memcpy(p, &v, sizeof v); }
/* The last vector of a row holds `last` lanes. With masks a part costs what a whole does; without, only true parts do. */
INLINE VECTOR NAME(load_last)(const REAL *p, bool part, int last) { return part ? NAME(load_part)(p, last) : NAME(load)(p); }
INLINE void NAME(store_last)(REAL *p, bool part, int last, VECTOR v)
{
    if (part)
        NAME(store_part)(p, last, v);
    else
        NAME(store)(p, v);
}

/* One block of sums in registers. Rows and vectors lie anywhere: a[i] and b[j] point to them at l = 0, c[j] to the first row's
 * sums. A block of one vector takes each row's element from memory as it multiplies;
 * wider ones spread it once for all vectors. */
INLINE void NAME(offsets_of)(const int rows, const int vectors, const bool part, const REAL *const *a, const int64_t *ak,
                             const REAL *const *b, const int64_t *bk, REAL *const *c, int64_t ldc, const int *lanes, int64_t k,
                             bool first)
{
    VECTOR sums[MAX_ROWS][MAX_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++)
            sums[i][j] = (VECTOR){0};
    }
    if (!first) {
        UNROLL for (int i = 0; i < rows; i++) {
            UNROLL for (int j = 0; j < vectors; j++)
                sums[i][j] = NAME(load_last)(c[j] + i * ldc, part, lanes[j]);
        }
    }
    for (int64_t l = 0; l < k; l++) {
        int64_t at_a = ak[l], at_b = bk[l];
        VECTOR x[MAX_VECTORS];
        UNROLL for (int j = 0; j < vectors; j++)
            x[j] = NAME(load_last)(b[j] + at_b, part, lanes[j]);
        UNROLL for (int i = 0; i < rows; i++) {
            VECTOR y = a[i][at_a] - (VECTOR){0}; /* in all lanes; minus 0 keeps -0 */
            UNROLL for (int j = 0; j < vectors; j++)
                sums[i][j] += y * x[j];
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < vectors; j++)
            NAME(store_last)(c[j] + i * ldc, part, lanes[j], sums[i][j]);
    }
}

static void NAME(offsets_small)(int rows, int vectors, bool part, const REAL *const *a, const int64_t *ak, const REAL *const *b,
                                const int64_t *bk, REAL *const *c, int64_t ldc, const int *lanes, int64_t k, bool first)
{
#define CASE(rows, vectors, part)                                                                                                \
    case ((rows)*8 + (vectors)) * 2 + (part): NAME(offsets_of)(rows, vectors, part, a, ak, b, bk, c, ldc, lanes, k, first); break;
#if VECTOR_MASKED
#define ROW(rows, vectors) CASE(rows, vectors, 1)
    (void)part;
    switch ((rows * 8 + vectors) * 2 + 1) {
#else
#define ROW(rows, vectors) CASE(rows, vectors, 0) CASE(rows, vectors, 1)
    switch ((rows * 8 + vectors) * 2 + part) {
#endif
        /* clang-format off */
        ROW(1, 1) ROW(2, 1) ROW(3, 1) ROW(4, 1) ROW(5, 1) ROW(6, 1) ROW(7, 1) ROW(8, 1)
        ROW(1, 2) ROW(2, 2) ROW(3, 2) ROW(4, 2) ROW(5, 2)
#if VECTOR_FUSED
        ROW(6, 2)
#endif
#if VECTOR_REGISTERS >= 32
        ROW(9, 1)
        ROW(7, 2) ROW(8, 2) ROW(9, 2) ROW(10, 2) ROW(11, 2) ROW(12, 2)
        ROW(1, 3) ROW(2, 3) ROW(3, 3) ROW(4, 3) ROW(5, 3) ROW(6, 3) ROW(7, 3) ROW(8, 3)
        ROW(1, 4) ROW(2, 4) ROW(3, 4) ROW(4, 4) ROW(5, 4) ROW(6, 4)
#endif
        /* clang-format on */
    }
#undef ROW
#undef CASE
}

/* Vectors are the runs' pieces; they and the rows are dealt evenly, so that none is left to a short and slow last part. */
static void NAME(offsets)(const void *a_, const int64_t *ao, const int64_t *ak, const void *b_, const int64_t *bo,
                          const int64_t *bk, void *c_, int64_t ldc, int64_t rows, int64_t cols, int64_t run, int64_t k,
                          const samba_range *needed, bool first)
{
    if (cols < 1)
        return; /* attention without keys: its run is empty too */
    int64_t runs = cols / run, pieces = (run + NAME_LANES - 1) / NAME_LANES;
    int64_t all = runs * pieces + (cols - runs * run + NAME_LANES - 1) / NAME_LANES;
    for (int64_t done = 0, groups = (all + MAX_VECTORS - 1) / MAX_VECTORS; done<all; groups -= groups> 1) {
        const REAL *b[MAX_VECTORS], *a[MAX_ROWS];
        REAL *c[MAX_VECTORS];
        int lanes[MAX_VECTORS], vectors = 0;
        samba_range span = {0, k};
        bool part = false;
        int64_t share = (all - done + groups - 1) / groups, end = done + (share < MAX_VECTORS ? share : MAX_VECTORS);
        for (; done < end; done++, vectors++) {
            int64_t at = done % pieces * NAME_LANES, start = done / pieces * run;
            int64_t left = cols - start < run ? cols - start - at : run - at;
            if (needed) {
                samba_range own = needed[done / pieces];
                bool alike = own.begin == span.begin && own.end == span.end;
                if (vectors > 0 && !alike && (vectors > 1 || own.begin >= span.end || own.end <= span.begin))
                    break; /* side by side all would need what one needs */
                span.begin = vectors > 0 && span.begin < own.begin ? span.begin : own.begin;
                span.end = vectors > 0 && span.end > own.end ? span.end : own.end;
            }
            b[vectors] = (const REAL *)b_ + bo[start] + at;
            c[vectors] = (REAL *)c_ + start + at;
            lanes[vectors] = left < NAME_LANES ? (int)left : NAME_LANES;
            part |= left < NAME_LANES;
        }
        int64_t parts = (rows + rows_of[vectors] - 1) / rows_of[vectors], i = 0;
        for (int64_t row = 0; row < parts; row++) {
            int64_t last = (row + 1) * rows / parts;
            int height = (int)(last - i);
            for (int r = 0; r < height; r++)
                a[r] = (const REAL *)a_ + ao[i + r];
            NAME(offsets_small)
            (height, vectors, part, a, ak + span.begin, b, bk + span.begin, c, ldc, lanes, span.end - span.begin, first);
            for (int j = 0; j < vectors; j++)
                c[j] += height * ldc;
            i = last;
        }
    }
}

void BLOCK(const REAL *a, int64_t lda, int64_t ska, const REAL *b, int64_t ldb, REAL *c, int64_t ldc, int64_t mr, int64_t nr,
           int64_t k, bool first)
{
    enum { STEP = 256, ROWS = 48 };
    int64_t ak[STEP], bk[STEP], ao[ROWS], bo[1] = {0}, l = 0;
    for (int i = 0; i < STEP && i < k; i++) {
        ak[i] = i * ska;
        bk[i] = i * ldb;
    }
    for (int i = 0; i < ROWS; i++)
        ao[i] = i * lda;
    do {
        int64_t depth = k - l < STEP ? k - l : STEP;
        for (int64_t i = 0; i < mr; i += ROWS)
            NAME(offsets)
        (a + i * lda + l * ska, ao, ak, b + l * ldb, bo, bk, c + i * ldc, ldc, mr - i < ROWS ? mr - i : ROWS, nr, nr, depth, NULL,
         first && l == 0);
        l += STEP;
    } while (l < k);
}

/* Lane i of the result: the sum of v[i]'s lanes. Each step adds neighbours and puts two vectors into one. */
INLINE VECTOR NAME(totals)(VECTOR *v)
{
    UNROLL for (int s = 1; s < NAME_LANES; s *= 2) {
        INDICES low, high;
        UNROLL for (int i = 0; i < NAME_LANES; i++) {
            low[i] = i & s ? NAME_LANES + i - s : i;
            high[i] = i & s ? NAME_LANES + i : i + s;
        }
        UNROLL for (int i = 0; i < NAME_LANES / 2; i++)
            if (i < NAME_LANES / (2 * s))
                v[i] = SHUFFLE2(v[2 * i], v[2 * i + 1], low) + SHUFFLE2(v[2 * i], v[2 * i + 1], high);
    }
    return v[0];
}

INLINE void NAME(dot_step)(const int rows, const int cols, const bool part, int last, const REAL *const *a, int64_t at_a,
                           const REAL *const *b, int64_t at_b, VECTOR *sums)
{
    VECTOR x[DOT_COLS];
    UNROLL for (int j = 0; j < cols; j++)
        x[j] = NAME(load_last)(b[j] + at_b, part, last);
    UNROLL for (int i = 0; i < rows; i++) {
        VECTOR y = NAME(load_last)(a[i] + at_a, part, last);
        UNROLL for (int j = 0; j < cols; j++)
            sums[i * cols + j] += y * x[j];
    }
}

INLINE void NAME(dot_of)(const int rows, const int cols, const REAL *a_, const int64_t *ao, const int64_t *ak, const REAL *b_,
                         const int64_t *bo, const int64_t *bk, REAL *c, int64_t ldc, int64_t k, int64_t run, bool first)
{
    enum { SUMS = DOT_SUMS + NAME_LANES - 1 }; /* the last vectors are put together with zeros */
    VECTOR sums[SUMS];
    REAL lanes[SUMS];
    const REAL *a[DOT_ROWS], *b[DOT_COLS];
    UNROLL for (int i = 0; i < SUMS; i++)
        if (i < (rows * cols + NAME_LANES - 1) / NAME_LANES * NAME_LANES)
            sums[i] = (VECTOR){0};
    UNROLL for (int i = 0; i < rows; i++)
        a[i] = a_ + ao[i];
    UNROLL for (int j = 0; j < cols; j++)
        b[j] = b_ + bo[j];
    for (int64_t begin = 0; begin < k; begin += run) {
        int64_t at_a = ak[begin], at_b = bk[begin], n = k - begin < run ? k - begin : run, l = 0;
        for (; l + NAME_LANES <= n; l += NAME_LANES)
            NAME(dot_step)(rows, cols, false, NAME_LANES, a, at_a + l, b, at_b + l, sums);
        if (l < n)
            NAME(dot_step)(rows, cols, true, (int)(n - l), a, at_a + l, b, at_b + l, sums);
    }
    UNROLL for (int i = 0; i < rows * cols; i += NAME_LANES)
        NAME(store)(lanes + i, TOTALS(sums + i));
    UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int j = 0; j < cols; j++)
            c[i * ldc + j] = lanes[i * cols + j] + (first ? 0 : c[i * ldc + j]);
    }
}

/* The shape that takes the fewest blocks; both sides are dealt evenly. */
static void NAME(dot)(const void *a_, const int64_t *ao, const int64_t *ak, const void *b_, const int64_t *bo, const int64_t *bk,
                      void *c_, int64_t ldc, int64_t rows, int64_t cols, int64_t k, int64_t run, bool first)
{
    const REAL *a = (const REAL *)a_, *b = (const REAL *)b_;
    int64_t row_parts = 0, col_parts = 0;
    for (int s = 0; s < (int)(sizeof dot_shapes / sizeof *dot_shapes); s++) {
        int64_t down = (rows + dot_shapes[s][0] - 1) / dot_shapes[s][0],
                across = (cols + dot_shapes[s][1] - 1) / dot_shapes[s][1];
        if (s > 0 && down * across >= row_parts * col_parts)
            continue;
        row_parts = down;
        col_parts = across;
    }
    for (int64_t y = 0; y < col_parts; y++)
        for (int64_t x = 0; x < row_parts; x++) {
            int64_t i = x * rows / row_parts, height = (x + 1) * rows / row_parts - i;
            int64_t j = y * cols / col_parts, width = (y + 1) * cols / col_parts - j;
            REAL *c = (REAL *)c_ + i * ldc + j;
#define CASE(rows, cols)                                                                                                         \
    case (rows)*16 + (cols): NAME(dot_of)(rows, cols, a, ao + i, ak, b, bo + j, bk, c, ldc, k, run, first); break;
            switch (height * 16 + width) {
                /* clang-format off */
                CASE(1, 1) CASE(2, 1) CASE(3, 1) CASE(4, 1)
                CASE(1, 2) CASE(2, 2) CASE(3, 2) CASE(4, 2)
#if VECTOR_REGISTERS >= 32
                CASE(5, 1) CASE(6, 1) CASE(5, 2) CASE(6, 2)
                CASE(1, 3) CASE(2, 3) CASE(3, 3) CASE(4, 3) CASE(5, 3) CASE(6, 3)
                CASE(1, 4) CASE(2, 4) CASE(3, 4) CASE(4, 4) CASE(5, 4) CASE(6, 4)
                CASE(1, 5) CASE(2, 5) CASE(3, 5) CASE(4, 5) CASE(5, 5)
                CASE(1, 6) CASE(2, 6) CASE(1, 7) CASE(2, 7) CASE(1, 8) CASE(2, 8) CASE(1, 9) CASE(2, 9) CASE(1, 10) CASE(2, 10)
#endif
                /* clang-format on */
            }
#undef CASE
        }
}

void TRANSPOSE(void *d_, int64_t ldd, const void *s_, int64_t lds, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i += NAME_LANES)
        for (int64_t j = 0; j < cols; j += NAME_LANES) {
            const REAL *s = (const REAL *)s_ + i * lds + j;
            REAL *d = (REAL *)d_ + j * ldd + i;
            int height = (int)(rows - i < NAME_LANES ? rows - i : NAME_LANES);
            int width = (int)(cols - j < NAME_LANES ? cols - j : NAME_LANES);
            VECTOR v[NAME_LANES];
            if (height == NAME_LANES && width == NAME_LANES) {
                /* by one address that moves: sixteen, which the compiler else keeps, do not fit the registers */
                __asm__("" : "+r"(s), "+r"(d));
                UNROLL for (int r = 0; r < NAME_LANES; r++, s += lds)
                    v[r] = NAME(load)(s);
                SQUARE(v);
                UNROLL for (int r = 0; r < NAME_LANES; r++, d += ldd)
                    NAME(store)(d, v[r]);
                continue;
            }
            UNROLL for (int r = 0; r < NAME_LANES; r++)
                v[r] = r < height ? NAME(load_last)(s + r * lds, true, width) : (VECTOR){0};
            SQUARE(v);
            UNROLL for (int r = 0; r < NAME_LANES; r++)
                if (r < width)
                    NAME(store_last)(d + r * ldd, true, height, v[r]);
        }
}
#undef NAME_LANES
