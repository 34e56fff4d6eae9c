/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of attention_tile.c for one element type: included there twice, with REAL, WEIGHT (its exp) and NAME defined. Lanes are
 * always a multiple of 16. */
enum { NAME(LD) = SAMBA_ATTENTION_BLOCK };

/* Scores before anything else is done with them: their scale, and what the mask adds. */
static void NAME(adjust)(void *s_, const void *mask_, double factor_, int64_t rows, int64_t lanes)
{
    REAL factor = (REAL)factor_;
    for (int64_t r = 0; r < rows; r++) {
        REAL *restrict s = (REAL *)s_ + r * NAME(LD);
        const REAL *restrict mask = mask_ ? (const REAL *)mask_ + r * NAME(LD) : NULL;
        if (mask) {
            SAMBA_VECTOR_LOOP
            for (int64_t i = 0; i < lanes; i++)
                s[i] = s[i] * factor + mask[i] * (REAL)(1 / UNIT);
        } else {
            SAMBA_VECTOR_LOOP
            for (int64_t i = 0; i < lanes; i++)
                s[i] *= factor;
        }
    }
}

/* `s` four rows at a time, so that a lane's maximum is not waited for at every row. */
static void NAME(maximum)(const REAL *restrict s, int64_t keys, int64_t lanes, REAL *restrict most)
{
    int64_t j = 0;
    for (; j + 4 <= keys; j += 4) {
        const REAL *r = s + j * NAME(LD);
        SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < lanes; i++) {
            REAL a = r[i], b = r[NAME(LD) + i], c = r[2 * NAME(LD) + i], d = r[3 * NAME(LD) + i], m = most[i];
            a = a > b ? a : b;
            c = c > d ? c : d;
            a = a > c ? a : c;
            most[i] = a > m ? a : m;
        }
    }
    for (; j < keys; j++) {
        const REAL *r = s + j * NAME(LD);
        SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < lanes; i++)
            most[i] = r[i] > most[i] ? r[i] : most[i];
    }
}

/* A lane that has seen nothing keeps -infinity for its greatest score; 0 stands in its place, so that differences are not NaN. Four rows
 * at a time here too. */
static void NAME(weigh)(void *s_, double factor_, int64_t keys, int64_t lanes, void *greatest_, void *sum_, void *alpha_)
{
    REAL *restrict s = s_, *restrict greatest = greatest_, *restrict sum = sum_, *restrict alpha = alpha_, factor = (REAL)factor_;
    REAL most[SAMBA_ATTENTION_BLOCK];
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < lanes; i++)
        most[i] = -(REAL)INFINITY;
    NAME(maximum)(s, keys, lanes, most);
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < lanes; i++) {
        REAL old = greatest[i], here = most[i] * factor;
        here = here > old ? here : old;
        greatest[i] = here;
        most[i] = here == -(REAL)INFINITY ? 0 : here;
        alpha[i] = WEIGHT(old - most[i]);
        sum[i] *= alpha[i];
    }
    int64_t j = 0;
    for (; j + 4 <= keys; j += 4) {
        REAL *restrict r = s + j * NAME(LD);
        SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < lanes; i++) {
            REAL a = WEIGHT(r[i] * factor - most[i]), b = WEIGHT(r[NAME(LD) + i] * factor - most[i]);
            REAL c = WEIGHT(r[2 * NAME(LD) + i] * factor - most[i]), d = WEIGHT(r[3 * NAME(LD) + i] * factor - most[i]);
            r[i] = a;
            r[NAME(LD) + i] = b;
            r[2 * NAME(LD) + i] = c;
            r[3 * NAME(LD) + i] = d;
            sum[i] += (a + b) + (c + d);
        }
    }
    for (; j < keys; j++) {
        SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < lanes; i++) {
            REAL p = WEIGHT(s[j * NAME(LD) + i] * factor - most[i]);
            s[j * NAME(LD) + i] = p;
            sum[i] += p;
        }
    }
}

static void NAME(differentiate)(void *s_, void *dp_, const void *kept_, const void *lse_, const void *delta_, double factor_, double scale_,
                                int64_t queries, int64_t lanes)
{
    REAL factor = (REAL)factor_, scale = (REAL)scale_;
    for (int64_t i = 0; i < queries; i++) {
        REAL *restrict s = (REAL *)s_ + i * NAME(LD), *restrict dp = (REAL *)dp_ + i * NAME(LD);
        const REAL *restrict kept = kept_ ? (const REAL *)kept_ + i * NAME(LD) : NULL;
        REAL lse = ((const REAL *)lse_)[i], delta = ((const REAL *)delta_)[i];
        lse = lse == -(REAL)INFINITY ? (REAL)INFINITY : lse * (REAL)(1 / UNIT);
        if (kept) {
            SAMBA_VECTOR_LOOP
            for (int64_t j = 0; j < lanes; j++) {
                REAL p = WEIGHT(LEAST(s[j] * factor - lse));
                s[j] = p * kept[j];
                dp[j] = p * (dp[j] * kept[j] - delta) * scale;
            }
        } else {
            SAMBA_VECTOR_LOOP
            for (int64_t j = 0; j < lanes; j++) {
                REAL p = WEIGHT(LEAST(s[j] * factor - lse));
                s[j] = p;
                dp[j] = p * (dp[j] - delta) * scale;
            }
        }
    }
}

static void NAME(scale_columns)(void *d_, const void *factors_, int64_t rows, int64_t lanes)
{
    const REAL *restrict factors = factors_;
    for (int64_t r = 0; r < rows; r++) {
        REAL *restrict d = (REAL *)d_ + r * NAME(LD);
        SAMBA_VECTOR_LOOP
        for (int64_t i = 0; i < lanes; i++)
            d[i] *= factors[i];
    }
}

static void NAME(keep)(void *d_, const float *restrict drawn, float p, double factor_, int64_t n)
{
    REAL *restrict d = d_, factor = (REAL)factor_;
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < n; i++)
        d[i] = drawn[i] >= p ? factor : 0;
}

static void NAME(admit)(void *d_, const uint8_t *restrict seen, int64_t stride, int64_t n)
{
    REAL *restrict d = d_;
    SAMBA_VECTOR_LOOP
    for (int64_t i = 0; i < n; i++)
        d[i] = seen[i * stride] ? 0 : -(REAL)INFINITY;
}

static void NAME(dots)(void *d_, const void *a_, int64_t lda, const void *b_, int64_t ldb, int64_t rows, int64_t n)
{
    REAL *restrict d = d_;
    for (int64_t r = 0; r < rows; r++) {
        const REAL *restrict a = (const REAL *)a_ + r * lda, *restrict b = (const REAL *)b_ + r * ldb;
        REAL lanes[16] = {0};
        int64_t i = 0;
        for (; i + 16 <= n; i += 16) {
            SAMBA_VECTOR_LOOP
            for (int l = 0; l < 16; l++)
                lanes[l] += a[i + l] * b[i + l];
        }
        for (; i < n; i++)
            lanes[i % 16] += a[i] * b[i];
        for (int width = 8; width > 0; width /= 2)
            for (int l = 0; l < width; l++)
                lanes[l] += lanes[l + width];
        d[r] = lanes[0];
    }
}
