/* SPDX-License-Identifier: Apache-2.0
 *
 * matrix.c's functions of one float type, REAL: one matrix in and out. NAME(x): a function's name, EXPONENTIAL: that of exp.c. */
/* rows x columns from one place to another, by blocks, whose rows and columns share lines of cache; true: all are finite */
static bool NAME(copy)(int64_t rows, int64_t columns, const REAL *from, int64_t from_row, int64_t from_column, REAL *to,
                       int64_t to_row, int64_t to_column)
{
    enum { BLOCK = 64 / sizeof(REAL) };
    REAL all = 0;
    for (int64_t j0 = 0; j0 < columns; j0 += BLOCK)
        for (int64_t i0 = 0; i0 < rows; i0 += BLOCK) {
            const int64_t i1 = i0 + BLOCK < rows ? i0 + BLOCK : rows, j1 = j0 + BLOCK < columns ? j0 + BLOCK : columns;
            for (int64_t j = j0; j < j1; j++)
                for (int64_t i = i0; i < i1; i++) {
                    const REAL x = from[i * from_row + j * from_column];
                    to[i * to_row + j * to_column] = x;
                    all += x * 0; /* NaN where one is not finite */
                }
        }
    return all == 0;
}

/* rows x columns from an operand, by columns; true: all are finite */
static bool NAME(load)(const operand *from, int64_t element, int64_t rows, int64_t columns, REAL *to)
{
    const REAL *source = (const REAL *)(const void *)from->memory + element * from->batch;
    return NAME(copy)(rows, columns, source, from->row, from->column, to, 1, rows);
}

/* Element (i, j) of the part, which lies with these strides, to (row + i, j) of the result. */
static void NAME(store)(const operand *to, int64_t element, int64_t row, int64_t rows, int64_t columns, const REAL *part,
                        int64_t part_row, int64_t part_column)
{
    REAL *result = (REAL *)(void *)to->memory + element * to->batch + row * to->row;
    NAME(copy)(rows, columns, part, part_row, part_column, result, to->row, to->column);
}

static void NAME(spoil)(const matrix_state *s, int64_t element)
{
    const REAL none = (REAL)NAN;
    const int last = s->operand_count - 1;
    NAME(store)(&s->operands[last], element, 0, s->sizes[last][0], s->sizes[last][1], &none, 0, 0);
}

/* L lies in the lower triangle; what lies above becomes 0. False: LAPACK let NaN pass. */
static bool NAME(lower)(int64_t n, REAL *a)
{
    bool numbers = true;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < j; i++)
            a[j * n + i] = 0;
        numbers = numbers && !isnan(a[j * n + j]);
    }
    return numbers;
}

/* The sign of each column of u, (rows, columns), and with it of the rows of v, (columns, others) or NULL. */
static void NAME(turn)(int64_t rows, int64_t columns, REAL *u, REAL *v, int64_t others)
{
    for (int64_t j = 0; j < columns; j++) {
        REAL *column = u + j * rows, greatest = 0;
        int64_t at = 0;
        for (int64_t i = 0; i < rows; i++)
            greatest = (REAL)fabs(column[i]) > greatest ? (REAL)fabs(column[i]) : greatest;
        while (at < rows && (REAL)fabs(column[at]) <= greatest * (REAL)0.37)
            at++;
        if (at == rows || column[at] >= 0)
            continue;
        for (int64_t i = 0; i < rows; i++)
            column[i] = -column[i];
        for (int64_t i = 0; v && i < others; i++)
            v[i * columns + j] = -v[i * columns + j];
    }
}

/* ---- LU: the factors, and in a row below them which rows were exchanged ---- */
static bool NAME(lu)(const matrix_state *s, int64_t element, char *scratch)
{
    const operand *from = &s->operands[0], *to = &s->operands[1];
    const int64_t n = s->stage.n, pitch = s->pitch;
    REAL *a = (REAL *)(void *)scratch;
    const samba_lu lu = {.a = a,
                         .n = n,
                         .pitch = pitch,
                         .pivots = (int32_t *)(void *)(scratch + s->begin[SAMBA_LAPACK_INTEGERS]),
                         .room = scratch + s->begin[SAMBA_LAPACK_B]};
    for (int64_t i = 0; i < n; i++)
        memset(a + i * pitch + n, 0, sizeof *a * (size_t)(pitch - n));
    NAME(copy)(n, n, (const REAL *)(const void *)from->memory + element * from->batch, from->row, from->column, a, pitch, 1);
    if (!s->kernels->lu[s->task.wide](&lu) && !s->stage.singular)
        return false;
    NAME(store)(to, element, 0, n, n, a, pitch, 1);
    for (int64_t i = 0; i < n; i++)
        a[i] = (REAL)lu.pivots[i];
    NAME(store)(to, element, n, 1, n, a, 0, 1);
    return true;
}

/* The same of few rows, for which lines of columns are long. */
static bool NAME(little_lu)(const matrix_state *s, int64_t element, char *scratch)
{
    (void)scratch;
    const operand *from = &s->operands[0], *to = &s->operands[1];
    const int64_t n = s->stage.n;
    const REAL *source = (const REAL *)(const void *)from->memory + element * from->batch;
    REAL a[LITTLE][LITTLE], *result = (REAL *)(void *)to->memory + element * to->batch;
    bool regular = true;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            a[i][j] = source[i * from->row + j * from->column];
    for (int64_t c = 0; c < n; c++) {
        int64_t at = c;
        REAL greatest = -1;
        for (int64_t i = c; i < n; i++)
            if ((REAL)fabs(a[i][c]) > greatest) { /* never NaN */
                greatest = (REAL)fabs(a[i][c]);
                at = i;
            }
        for (int64_t j = 0; j < n; j++) {
            const REAL kept = a[c][j];
            a[c][j] = a[at][j];
            a[at][j] = kept;
        }
        result[n * to->row + c * to->column] = (REAL)at;
        if (a[c][c] == 0) {
            regular = false;
            continue;
        }
        for (int64_t i = c + 1; i < n; i++) {
            a[i][c] /= a[c][c];
            for (int64_t j = c + 1; j < n; j++)
                a[i][j] -= a[i][c] * a[c][j];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            result[i * to->row + j * to->column] = a[i][j];
    return regular || s->stage.singular;
}

/* ---- triangular systems, and those whose factors are known ---- */
/* Row i of the right sides, exchanged, is their row rows[i]. */
static bool NAME(exchanged)(const operand *from, int64_t element, int64_t n, int32_t *rows)
{
    const REAL *pivots = (const REAL *)(const void *)from->memory + element * from->batch + n * from->row;
    for (int64_t i = 0; i < n; i++)
        rows[i] = (int32_t)i;
    for (int64_t i = 0; i < n; i++) {
        const double at = (double)pivots[i * from->column];
        if (!(at >= (double)i && at < (double)n) || at != trunc(at))
            return false;
        const int32_t other = rows[(int64_t)at];
        rows[(int64_t)at] = rows[i];
        rows[i] = other;
    }
    return true;
}

/* a, or a copy of it; `anew`: scratch does not hold it yet. */
static const REAL *NAME(factors)(const matrix_state *s, int64_t element, bool anew, bool turned, char *scratch)
{
    const operand *from = &s->operands[0];
    const int64_t n = s->stage.n;
    const REAL *a = (const REAL *)(const void *)from->memory + element * from->batch;
    REAL *copied = (REAL *)(void *)scratch;
    if (s->begin[SAMBA_LAPACK_B] == 0)
        return a;
    if (anew)
        NAME(copy)(n, n, a, from->row, from->column, copied, turned ? 1 : n, turned ? n : 1);
    return copied;
}

/* Of a matrix of one row. */
static void NAME(divide)(int64_t count, const REAL *from, int64_t from_stride, REAL divisor, REAL *to, int64_t to_stride)
{
    if (from_stride == 1 && to_stride == 1)
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i] / divisor;
    else
        for (int64_t i = 0; i < count; i++)
            to[i * to_stride] = from[i * from_stride] / divisor;
}

/* Some columns of one matrix's right sides; `anew`: scratch has not held it. False: it is none that lu_factors made, and the
 * result is NaN. With P a = L U and the transpose wanted, it is U' and L' that are solved, and rows are exchanged at the end. */
static bool NAME(panel)(const matrix_state *s, int64_t element, int64_t panel, bool anew, char *scratch)
{
    const operand *from = &s->operands[0], *sides = &s->operands[1], *to = &s->operands[2];
    const int64_t n = s->stage.n, line = s->line, first = panel * line, left = s->stage.right - first;
    const bool factors = s->stage.function == SAMBA_MATRIX_LU_SOLVE, turned = factors && s->stage.transposed;
    REAL *b = (REAL *)(void *)(scratch + s->begin[SAMBA_LAPACK_B]);
    int32_t *rows = (int32_t *)(void *)(scratch + s->begin[SAMBA_LAPACK_INTEGERS]);
    const REAL *source = (const REAL *)(const void *)sides->memory + element * sides->batch + first * sides->column;
    REAL *result = (REAL *)(void *)to->memory + element * to->batch + first * to->column;
    const bool copied = s->begin[SAMBA_LAPACK_B] > 0, by_columns = from->column != 1;
    samba_triangle t = {.a = NAME(factors)(s, element, anew, turned, scratch),
                        .pitch = copied       ? n
                                 : by_columns ? from->column
                                              : from->row,
                        .n = n,
                        .line = line,
                        .columns = left < line ? left : line,
                        .room = line,
                        .turned = !copied && by_columns != turned,
                        .upper = turned ? false : s->stage.upper != 0,
                        .unit = factors ? !turned : s->stage.unit != 0};
    if (factors && !NAME(exchanged)(from, element, n, rows)) {
        const REAL none = (REAL)NAN;
        NAME(copy)(n, t.columns, &none, 0, 0, result, to->row, to->column);
        return false;
    }
    if (n == 1) {
        const REAL *a = t.a;
        NAME(divide)(t.columns, source, sides->column, t.unit && !factors ? 1 : *a, result, to->column);
        return true;
    }
    if (t.columns < line)
        memset(b, 0, sizeof *b * (size_t)(n * line));
    if (factors && !turned)
        for (int64_t i = 0; i < n; i++)
            NAME(copy)(1, t.columns, source + rows[i] * sides->row, 0, sides->column, b + i * line, 0, 1);
    else
        NAME(copy)(n, t.columns, source, sides->row, sides->column, b, line, 1);
    s->kernels->triangle[s->task.wide](&t, b);
    if (factors) {
        t.upper = true;
        t.unit = turned;
        s->kernels->triangle[s->task.wide](&t, b);
    }
    if (turned)
        for (int64_t i = 0; i < n; i++)
            NAME(copy)(1, t.columns, b + i * line, 0, 1, result + rows[i] * to->row, 0, to->column);
    else
        NAME(copy)(n, t.columns, b, line, 1, result, to->row, to->column);
    return true;
}

/* Some columns of U^-1 L^-1, which begin in the row of the first one's number; of the inverse of P^-1 L U they are those with the
 * numbers that `rows` has. */
static bool NAME(inverse)(const matrix_state *s, int64_t element, int64_t panel, bool anew, char *scratch)
{
    const operand *from = &s->operands[0], *to = &s->operands[1];
    const int64_t n = s->stage.n, line = s->line, first = panel * line, left = n - first, columns = left < line ? left : line;
    REAL *b = (REAL *)(void *)(scratch + s->begin[SAMBA_LAPACK_B]);
    int32_t *rows = (int32_t *)(void *)(scratch + s->begin[SAMBA_LAPACK_INTEGERS]);
    REAL *result = (REAL *)(void *)to->memory + element * to->batch;
    const REAL *a = NAME(factors)(s, element, anew, false, scratch);
    const int64_t pitch = s->begin[SAMBA_LAPACK_B] > 0 ? n : from->row;
    if (!NAME(exchanged)(from, element, n, rows)) {
        const REAL none = (REAL)NAN;
        NAME(copy)(n, columns, &none, 0, 0, result + first * to->column, to->row, to->column);
        return false;
    }
    if (n == 1) {
        *result = 1 / *a;
        return true;
    }
    memset(b, 0, sizeof *b * (size_t)(n * line));
    for (int64_t c = 0; c < columns; c++)
        b[(first + c) * line + c] = 1;
    samba_triangle t = {.a = a + first * pitch + first,
                        .pitch = pitch,
                        .n = n - first,
                        .line = line,
                        .columns = columns,
                        .room = line,
                        .unit = true};
    s->kernels->triangle[s->task.wide](&t, b + first * line);
    t = (samba_triangle){.a = a, .pitch = pitch, .n = n, .line = line, .columns = columns, .room = line, .upper = true};
    s->kernels->triangle[s->task.wide](&t, b);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            result[i * to->row + rows[first + c] * to->column] = b[i * line + c];
    return true;
}

/* ---- by reflections, which LAPACK makes ---- */

/* a, or its transpose where the task is of that, m x n by columns that lie `pitch` elements apart. */
static bool NAME(factorize)(const matrix_state *s, int64_t element, void *const parts[SAMBA_LAPACK_PARTS])
{
    const operand *from = &s->operands[0];
    const samba_lapack_task *t = &s->task;
    const REAL *source = (const REAL *)(const void *)from->memory + element * from->batch;
    REAL *a = parts[SAMBA_LAPACK_A];
    const bool finite = NAME(copy)(t->m, t->n, source, t->turned ? from->column : from->row, t->turned ? from->row : from->column,
                                   a, 1, t->pitch);
    if (t->function != SAMBA_MATRIX_QR && !finite)
        return false;
    for (int64_t j = 0; j < t->n; j++) /* what the last vector of a row of Q transposed has beyond it */
        memset(a + j * t->pitch + t->m, 0, sizeof *a * (size_t)(t->pitch - t->m));
    s->lapack->reflections(t, parts);
    return true;
}

static bool NAME(qr)(const matrix_state *s, int64_t element, char *scratch)
{
    void *parts[SAMBA_LAPACK_PARTS];
    place(s, scratch, parts);
    const operand *to = &s->operands[1];
    const int64_t m = s->stage.m, n = s->stage.n, k = m < n ? m : n, pitch = s->task.pitch;
    const REAL *a = parts[SAMBA_LAPACK_A], zero = 0;
    NAME(factorize)(s, element, parts);
    for (int64_t j = 0; j < n; j++) { /* row j of R transposed */
        const int64_t above = j + 1 < k ? j + 1 : k;
        REAL *row = (REAL *)(void *)to->memory + element * to->batch + (m + j) * to->row;
        NAME(copy)(1, above, a + j * pitch, 0, 1, row, 0, to->column);
        NAME(copy)(1, k - above, &zero, 0, 0, row + above * to->column, 0, to->column);
    }
    s->lapack->vectors(&s->task, parts);
    NAME(store)(to, element, 0, m, k, a, 1, pitch);
    return true;
}

/* R by rows into C. */
static void NAME(by_rows)(const matrix_state *s, void *const parts[SAMBA_LAPACK_PARTS])
{
    NAME(copy)(s->task.n, s->task.n, parts[SAMBA_LAPACK_A], 1, s->task.pitch, parts[SAMBA_LAPACK_C], s->task.n, 1);
}

/* Right sides, some at once, become x: with a = Q R it is R^-1 (Q^T b); with the transpose of a, which has no more rows than
 * columns, Q (R^-T b). */
static bool NAME(sides)(const matrix_state *s, const samba_lapack_task *task, void *const parts[SAMBA_LAPACK_PARTS], bool regular)
{
    REAL *b = parts[SAMBA_LAPACK_SIDES];
    if (!task->turned)
        s->lapack->reflect(task, parts, true);
    if (regular) {
        const samba_triangle t = {.a = parts[task->turned ? SAMBA_LAPACK_A : SAMBA_LAPACK_C],
                                  .pitch = task->turned ? task->pitch : task->n,
                                  .n = task->n,
                                  .line = task->line,
                                  .columns = task->right,
                                  .room = task->line,
                                  .upper = !task->turned};
        s->kernels->triangle[task->wide](&t, b);
    } else if (s->lapack->deficient(task, parts) != 0) {
        return false;
    }
    if (task->turned)
        s->lapack->reflect(task, parts, false);
    return true;
}

static bool NAME(lstsq)(const matrix_state *s, int64_t element, char *scratch)
{
    void *parts[SAMBA_LAPACK_PARTS];
    place(s, scratch, parts);
    const operand *sides = &s->operands[1], *to = &s->operands[2];
    const int64_t m = s->stage.m, n = s->stage.n, right = s->stage.right, line = s->task.line, most = s->task.right;
    const REAL zero = 0, *source = (const REAL *)(const void *)sides->memory + element * sides->batch;
    REAL *b = parts[SAMBA_LAPACK_SIDES], *result = (REAL *)(void *)to->memory + element * to->batch;
    if (m == 0) {
        NAME(store)(to, element, 0, n, right, &zero, 0, 0);
        return true;
    }
    if (!NAME(factorize)(s, element, parts))
        return false;
    const bool regular = s->lapack->regular(&s->task, parts);
    if (regular && !s->task.turned)
        NAME(by_rows)(s, parts);
    for (int64_t first = 0; first < right; first += most) {
        samba_lapack_task task = s->task;
        task.right = (int)(right - first < most ? right - first : most);
        memset(b, 0, sizeof *b * (size_t)(task.m * line));
        NAME(copy)(m, task.right, source + first * sides->column, sides->row, sides->column, b, line, 1);
        if (!NAME(sides)(s, &task, parts, regular))
            return false;
        NAME(copy)(n, task.right, b, line, 1, result + first * to->column, to->row, to->column);
    }
    return true;
}

/* R^-1 Q^T, or the transpose of that. */
static bool NAME(pinv)(const matrix_state *s, int64_t element, char *scratch)
{
    void *parts[SAMBA_LAPACK_PARTS];
    place(s, scratch, parts);
    const samba_lapack_task *task = &s->task;
    const int64_t pitch = task->pitch;
    REAL *a = parts[SAMBA_LAPACK_A];
    if (!NAME(factorize)(s, element, parts))
        return false;
    if (s->lapack->regular(task, parts)) {
        const samba_triangle t = {.a = parts[SAMBA_LAPACK_C],
                                  .pitch = task->n,
                                  .n = task->n,
                                  .line = pitch,
                                  .columns = task->m,
                                  .room = pitch,
                                  .upper = true};
        NAME(by_rows)(s, parts);
        s->lapack->vectors(task, parts);
        s->kernels->triangle[task->wide](&t, a);
    } else if (s->lapack->deficient(task, parts) != 0) {
        return false;
    }
    NAME(store)(&s->operands[1], element, 0, s->stage.n, s->stage.m, a, task->turned ? 1 : pitch, task->turned ? pitch : 1);
    return true;
}

/* ---- of one element, and of few columns ---- */
/* Its factors, below each other as they are of any matrix. */
static bool NAME(lone)(const matrix_state *s, int64_t element, char *scratch)
{
    (void)scratch;
    const operand *from = &s->operands[0], *to = &s->operands[1];
    const REAL a = ((const REAL *)(const void *)from->memory)[element * from->batch];
    const bool finite = a * 0 == 0;
    REAL *result = (REAL *)(void *)to->memory + element * to->batch;
    switch ((samba_matrix_function)s->stage.function) {
    case SAMBA_MATRIX_CHOLESKY: *result = (REAL)sqrt(a); return a > 0;
    case SAMBA_MATRIX_LU:
        result[0] = a;
        result[to->row] = 0; /* it stays where it is */
        return a != 0 || s->stage.singular;
    case SAMBA_MATRIX_QR:
        result[0] = 1;
        result[to->row] = a;
        return true;
    case SAMBA_MATRIX_EIGH:
        result[0] = a;
        if (!s->stage.values)
            result[to->row] = 1;
        return finite;
    default:
        result[s->stage.values ? 0 : to->row] = (REAL)fabs(a);
        if (!s->stage.values) {
            result[0] = 1;
            result[2 * to->row] = a < 0 ? -1 : 1;
        }
        return finite;
    }
}

/* The greatest element, or that of the lower triangle; false: one of all is not finite. */
static bool NAME(range)(int64_t rows, int64_t columns, const REAL *from, int64_t from_row, int64_t from_column, bool lower,
                        REAL *greatest)
{
    REAL all = 0, most = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const REAL x = (REAL)fabs(from[i * from_row + j * from_column]);
            all += x * 0;
            most = x > most && (!lower || j <= i) ? x : most;
        }
    *greatest = most;
    return all == 0;
}

/* Rows of few columns into float64, by columns, times a factor. */
static void NAME(widen)(int64_t rows, int64_t columns, const REAL *from, int64_t from_row, int64_t from_column, double factor,
                        double *to, int64_t pitch)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            to[j * pitch + i] = (double)from[i * from_row + j * from_column] * factor;
}

/* What is not negated, or is where it says so. */
static void NAME(narrow)(int64_t rows, int64_t columns, const double *from, int64_t pitch, const bool *negative, REAL *to,
                         int64_t to_row, int64_t to_column)
{
    for (int64_t j = 0; j < columns; j++) {
        const double sign = negative && negative[j] ? -1 : 1;
        for (int64_t i = 0; i < rows; i++)
            to[i * to_row + j * to_column] = (REAL)(from[j * pitch + i] * sign);
    }
}

static bool NAME(few)(const matrix_state *s, int64_t element, char *scratch)
{
    const operand *from = &s->operands[0], *to = &s->operands[1];
    const bool svd = s->stage.function == SAMBA_MATRIX_SVD, turned = s->stage.m < s->stage.n;
    const int64_t m = turned ? s->stage.n : s->stage.m, k = turned ? s->stage.m : s->stage.n;
    const int64_t row = turned ? from->column : from->row, column = turned ? from->row : from->column;
    const REAL *source = (const REAL *)(const void *)from->memory + element * from->batch;
    REAL *result = (REAL *)(void *)to->memory + element * to->batch, greatest;
    samba_few few = {.step = SAMBA_FEW_FIRST,
                     .m = m,
                     .k = (int)k,
                     .exact = sizeof(REAL) == 8,
                     .values = s->stage.values != 0,
                     .turned = turned,
                     .blocks = (double *)(void *)scratch};
    if (!NAME(range)(m, k, source, row, column, !svd, &greatest))
        return false;
    int exponent = 0; /* squares of what is beyond these would be too great or too small */
    if (greatest > 0 && !((double)greatest > 1e-100 && (double)greatest < 1e100))
        frexp((double)greatest, &exponent);
    const double factor = ldexp(1, exponent < -1000 ? 1000 : -exponent); /* of the least ones there are, no more */
    NAME(widen)(k, k, source, row, column, factor, few.first[0], SAMBA_FEW);
    if (svd)
        s->kernels->few_svd(&few);
    for (few.step = 0; few.step < samba_few_blocks(m, k); few.step++) {
        const int64_t i = k + few.step * SAMBA_FEW_ROWS, pitch = samba_few_pitch(m - i), rows = m - i < pitch ? m - i : pitch;
        double *block = few.blocks + (i - k) * k;
        if (pitch > rows)
            memset(block, 0, sizeof *block * (size_t)(k * pitch));
        NAME(widen)(rows, k, source + i * row, row, column, factor, block, pitch);
        s->kernels->few_svd(&few);
    }
    few.step = SAMBA_FEW_REST;
    (svd ? s->kernels->few_svd : s->kernels->few_eigh)(&few);
    for (int64_t j = 0; j < k; j++)
        few.spectrum[j] /= factor;
    REAL *values = result + (svd && !few.values ? s->stage.m * to->row : 0), *below = values + to->row;
    NAME(narrow)(1, k, few.spectrum, 1, NULL, values, 0, to->column);
    if (few.values)
        return true;
    REAL *vectors = svd && turned ? result : below, *others = turned ? below : result;
    NAME(narrow)(k, k, few.vectors[0], SAMBA_FEW, NULL, vectors, to->row, to->column);
    if (!svd)
        return true;
    NAME(narrow)(k, k, few.first[0], SAMBA_FEW, NULL, others, to->row, to->column);
    for (int64_t i = k; i < m; i += SAMBA_FEW_ROWS) {
        const int64_t pitch = samba_few_pitch(m - i), rows = m - i < pitch ? m - i : pitch;
        NAME(narrow)(rows, k, few.blocks + (i - k) * k, pitch, few.negative, others + i * to->row, to->row, to->column);
    }
    return true;
}

/* One matrix; false: it has no result. */
static bool NAME(one)(const matrix_state *s, int64_t element, char *scratch)
{
    void *parts[SAMBA_LAPACK_PARTS];
    place(s, scratch, parts);
    REAL *a = parts[SAMBA_LAPACK_A], *b = parts[SAMBA_LAPACK_B], *c = parts[SAMBA_LAPACK_C], *values = parts[SAMBA_LAPACK_VALUES];
    const int64_t m = s->stage.m, n = s->stage.n, k = m < n ? m : n;
    const operand *to = &s->operands[s->operand_count - 1];
    const samba_matrix_function function = (samba_matrix_function)s->stage.function;
    const bool finite = NAME(load)(&s->operands[0], element, m, n, a),
               spectrum = function == SAMBA_MATRIX_EIGH || function == SAMBA_MATRIX_SVD;
    if (spectrum && !finite)
        return false;
    if (function == SAMBA_MATRIX_EXP) {
        EXPONENTIAL(s->lapack, (int)n, a, a, b);
        NAME(store)(to, element, 0, n, n, a, 1, n);
        return true;
    }
    const int status = s->lapack->run(&s->task, parts);
    if (status != 0)
        return false;
    switch (function) {
    case SAMBA_MATRIX_CHOLESKY:
        if (!NAME(lower)(n, a))
            return false;
        NAME(store)(to, element, 0, n, n, a, 1, n);
        break;
    case SAMBA_MATRIX_EIGH:
        NAME(store)(to, element, 0, 1, n, values, 0, 1);
        if (!s->stage.values) {
            NAME(turn)(n, n, a, NULL, 0);
            NAME(store)(to, element, 1, n, n, a, 1, n);
        }
        break;
    case SAMBA_MATRIX_SVD:
        NAME(store)(to, element, s->stage.values ? 0 : m, 1, k, values, 0, 1);
        if (!s->stage.values) {
            NAME(turn)(m, k, b, c, n);
            NAME(store)(to, element, 0, m, k, b, 1, m);
            NAME(store)(to, element, m + 1, n, k, c, k, 1);
        }
        break;
    case SAMBA_MATRIX_LU: /* these have functions of their own */
    case SAMBA_MATRIX_TRIANGULAR:
    case SAMBA_MATRIX_LU_SOLVE:
    case SAMBA_MATRIX_LU_INVERSE:
    case SAMBA_MATRIX_QR:
    case SAMBA_MATRIX_LSTSQ:
    case SAMBA_MATRIX_PINV:
    case SAMBA_MATRIX_EXP:
    case SAMBA_MATRIX_FUNCTION_COUNT: break;
    }
    return true;
}
