/* SPDX-License-Identifier: Apache-2.0
 *
 * The code of attention_tile.c for one element type: included there twice, with REAL, WEIGHT (its exp), GREATER (of two, the
 * second where they do not compare) and NAME defined. Lanes are always a multiple of 16. */
enum { NAME(LD) = SAMBA_ATTENTION_BLOCK };

/* Scores before anything else is done with them: their scale, and what the mask adds. */
static void NAME(adjust)(void *s_, const void *mask_, double factor_, int64_t rows, int64_t lanes)
{
    REAL factor = (REAL)factor_;
    for (int64_t r = 0; r < rows; r++) {
        REAL *restrict s = (REAL *)s_ + r * NAME(LD);
        const REAL *restrict mask = mask_ ? (const REAL *)mask_ + r * NAME(LD) : NULL;
        if (mask) {
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < lanes; i++)
                s[i] = s[i] * factor + mask[i] * (REAL)(1 / UNIT);
        } else {
            SAMBA_VECTOR_LOOP for (int64_t i = 0; i < lanes; i++)
                s[i] *= factor;
        }
    }
}

/* The greatest score of each of 16 lanes, eight keys at a time, so that a lane's maximum is not waited for at every key. */
static inline void NAME(maximum)(const REAL *restrict s, int64_t keys, REAL *restrict most)
{
    int64_t j = 0;
    for (int i = 0; i < STRIP; i++)
        most[i] = -(REAL)INFINITY;
    for (; j + 8 <= keys; j += 8) {
        const REAL *r = s + j * NAME(LD);
        SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++) {
            REAL m[4];
            for (int k = 0; k < 4; k++) {
                REAL x = r[2 * k * NAME(LD) + i], y = r[(2 * k + 1) * NAME(LD) + i];
                m[k] = GREATER(x, y);
            }
            m[0] = GREATER(m[0], m[1]);
            m[2] = GREATER(m[2], m[3]);
            m[0] = GREATER(m[0], m[2]);
            most[i] = GREATER(m[0], most[i]);
        }
    }
    for (; j < keys; j++) {
        SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++)
            most[i] = GREATER(s[j * NAME(LD) + i], most[i]);
    }
}

/* 16 lanes. A lane that has seen nothing keeps -infinity for its greatest score; 0 stands in its place, so that differences are
 * not NaN. A score that is greater by less than LEEWAY does not replace it: weights may well exceed 1, and earlier results stay
 * as they are. Four keys at a time here. pairs, where given, get the weights, and s keeps its scores.
 * Returns whether an alpha is not 1. */
static inline bool NAME(weigh_strip)(REAL *restrict s, uint32_t *restrict pairs, REAL factor, int64_t keys,
                                     REAL *restrict greatest, REAL *restrict sum, REAL *restrict alpha)
{
    REAL most[STRIP], total[STRIP];
    int64_t j = 0;
    int changed = 0;
    NAME(maximum)(s, keys, most);
    SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++) {
        REAL old = greatest[i], here = most[i] * factor;
        here = here > old + LEEWAY ? here : old;
        greatest[i] = here;
        most[i] = here == -(REAL)INFINITY ? 0 : here;
        alpha[i] = WEIGHT(old - most[i]);
        total[i] = sum[i] * alpha[i];
    }
    for (int i = 0; i < STRIP; i++)
        changed |= alpha[i] != 1;
    for (; j + 4 <= keys; j += 4) {
        REAL *restrict r = s + j * NAME(LD);
        uint32_t *restrict both = pairs ? pairs + j / 2 * NAME(LD) : NULL;
        SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++) {
            REAL a = WEIGHT(r[i] * factor - most[i]), b = WEIGHT(r[NAME(LD) + i] * factor - most[i]);
            REAL c = WEIGHT(r[2 * NAME(LD) + i] * factor - most[i]), d = WEIGHT(r[3 * NAME(LD) + i] * factor - most[i]);
            total[i] += (a + b) + (c + d);
            if (pairs) {
                both[i] = PAIR(a, b);
                both[NAME(LD) + i] = PAIR(c, d);
            } else {
                r[i] = a;
                r[NAME(LD) + i] = b;
                r[2 * NAME(LD) + i] = c;
                r[3 * NAME(LD) + i] = d;
            }
        }
    }
    for (; j < keys; j++) {
        SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++) {
            REAL p = WEIGHT(s[j * NAME(LD) + i] * factor - most[i]);
            total[i] += p;
            if (pairs)
                pairs[j / 2 * NAME(LD) + i] = j % 2 ? pairs[j / 2 * NAME(LD) + i] | PAIR(0, p) : PAIR(p, 0);
            else
                s[j * NAME(LD) + i] = p;
        }
    }
    SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++)
        sum[i] = total[i];
    return changed;
}

static bool NAME(weigh)(void *s, double factor, int64_t keys, int64_t lanes, void *greatest, void *sum, void *alpha)
{
    bool changed = false;
    for (int64_t l = 0; l < lanes; l += STRIP)
        changed |=
            NAME(weigh_strip)((REAL *)s + l, NULL, (REAL)factor, keys, (REAL *)greatest + l, (REAL *)sum + l, (REAL *)alpha + l);
    return changed;
}

/* The numbers that are constant for a query. Where it sees nothing, no score is near. NaNs are plain ones:
 * rounding to bfloat16 adds to their bits. */
static inline void NAME(constants)(const REAL *restrict lse, const REAL *restrict delta, int64_t queries, REAL *restrict near,
                                   REAL *restrict less)
{
    SAMBA_VECTOR_LOOP for (int64_t r = 0; r < queries; r++) {
        REAL own = lse[r] == -(REAL)INFINITY ? (REAL)INFINITY : lse[r] * (REAL)(1 / UNIT);
        near[r] = own == own ? own : (REAL)NAN;
        less[r] = delta[r] == delta[r] ? delta[r] : (REAL)NAN;
    }
}

/* Lane by lane, so that a query's chain of operations is not waited for by the next. */
static void NAME(differentiate)(void *s_, void *dp_, const void *kept_, const void *lse_, const void *delta_, double factor_,
                                double scale_, int64_t queries, int64_t lanes)
{
    REAL factor = (REAL)factor_, scale = (REAL)scale_, lse[SAMBA_ATTENTION_BLOCK], delta[SAMBA_ATTENTION_BLOCK];
    NAME(constants)(lse_, delta_, queries, lse, delta);
    for (int64_t l = 0; l < lanes; l += STRIP) {
        REAL *restrict s = (REAL *)s_ + l, *restrict dp = (REAL *)dp_ + l;
        const REAL *restrict kept = kept_ ? (const REAL *)kept_ + l : NULL;
        for (int64_t r = 0; r < queries; r++, s += NAME(LD), dp += NAME(LD)) {
            if (kept) {
                SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++) {
                    REAL p = WEIGHT(LEAST(s[i] * factor - lse[r]));
                    s[i] = p * kept[i];
                    dp[i] = p * (dp[i] * kept[i] - delta[r]) * scale;
                }
                kept += NAME(LD);
            } else {
                SAMBA_VECTOR_LOOP for (int i = 0; i < STRIP; i++) {
                    REAL p = WEIGHT(LEAST(s[i] * factor - lse[r]));
                    s[i] = p;
                    dp[i] = p * (dp[i] - delta[r]) * scale;
                }
            }
        }
    }
}

static void NAME(scale_columns)(void *d_, const void *factors_, int64_t rows, int64_t lanes)
{
    const REAL *restrict factors = factors_;
    for (int64_t r = 0; r < rows; r++) {
        REAL *restrict d = (REAL *)d_ + r * NAME(LD);
        SAMBA_VECTOR_LOOP for (int64_t i = 0; i < lanes; i++)
            d[i] *= factors[i];
    }
}

static void NAME(keep)(void *d_, const float *restrict drawn, float p, double factor_, int64_t n)
{
    REAL *restrict d = d_, factor = (REAL)factor_;
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
        d[i] = drawn[i] >= p ? factor : 0;
}

static void NAME(admit)(void *d_, const uint8_t *restrict seen, int64_t stride, int64_t n)
{
    REAL *restrict d = d_;
    SAMBA_VECTOR_LOOP for (int64_t i = 0; i < n; i++)
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
            SAMBA_VECTOR_LOOP for (int l = 0; l < 16; l++)
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
