/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining and cutting: what simplify makes of sums of pads and of concats of parts that lie side by side, that pieces of a concat
 * are computed in its memory, and that values stay those of the reference. */
#include "training.h"
#include "reference.h"

#define JOIN(dim, ...) samba_concat(LENGTH(((samba_value[]){__VA_ARGS__})), (samba_value[]){__VA_ARGS__}, dim)
static samba_value parameter(samba_graph *g, int rank, const int64_t *shape)
{
    return samba_parameter(g, "w", SAMBA_FLOAT32, rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0.1, 0.7});
}
static samba_value weigh(samba_graph *g, samba_value v) /* a parameter in each element */
{
    int64_t shape[SAMBA_MAX_RANK];
    for (int i = 0; i < samba_value_rank(v); i++)
        shape[i] = samba_value_size(v, i);
    return samba_mul(v, parameter(g, samba_value_rank(v), shape));
}
static samba_value total(samba_value v) { return samba_sum(v, 0, NULL, false); }
static samba_value transposed(samba_value v) { return samba_transpose(v, 0, 1); }
static void lose(samba_graph *g, samba_value v) { samba_loss(g, "loss", total(samba_mul(v, v))); }
static void end(samba_graph *g, samba_value v)
{
    samba_output(g, "y", v);
    lose(g, v);
}

/* ---- gradients of cuts: x is (4, 13, 6), in parts of 5, 5 and 3 ---- */
static void split_used_in_any_order(samba_graph *g, samba_value x)
{
    samba_value part[3];
    samba_split(weigh(g, x), 5, 1, 3, part);
    samba_value a = total(samba_exp(part[1])), b = total(samba_tanh(part[2]));
    samba_loss(g, "loss", samba_add(samba_add(a, b), total(samba_sigmoid(part[0]))));
}
static void part_left_out(samba_graph *g, samba_value x) /* zeros remain: still a sum of pads */
{
    samba_value part[3];
    samba_split(weigh(g, x), 5, 1, 3, part);
    samba_loss(g, "loss", samba_add(total(samba_exp(part[0])), total(samba_tanh(part[2]))));
}
static void overlapping_and_strided(samba_graph *g, samba_value x)
{
    samba_value w = weigh(g, x), a = samba_slice(w, 1, 0, 8, 1), b = samba_slice(w, 1, 6, 13, 1);
    samba_value c = samba_slice(w, 2, 0, 6, 2), d = samba_slice(w, 2, 1, 6, 2);
    samba_loss(
        g, "loss",
        samba_add(samba_add(total(samba_exp(a)), total(samba_tanh(b))), samba_add(total(samba_sin(c)), total(samba_cos(d)))));
}
static void parameter_in_parts(samba_graph *g, samba_value y) /* its gradient is put together in the memory of w.grad */
{
    samba_value part[3];
    samba_split(parameter(g, 1, SHAPE(18)), 6, 0, 3, part);
    for (int i = 0; i < 3; i++)
        y = samba_tanh(samba_add(samba_mul(y, part[i]), y));
    lose(g, y);
}

/* ---- concats of what lies side by side ---- */
static void rejoined(samba_graph *g, samba_value x)
{
    samba_value part[3];
    samba_split(samba_exp(weigh(g, x)), 5, 1, 3, part);
    end(g, samba_concat(3, part, 1));
}
/* Heads of a packed (B, T, 3 H, D) value, each taken out as (B, H, T, D) and put back as (B, T, H D), side by side. */
static void heads(samba_graph *g, samba_value x)
{
    samba_value packed = samba_exp(samba_reshape(weigh(g, x), 4, SHAPE(2, 5, 12, 3))), part[3];
    for (int i = 0; i < 3; i++) {
        part[i] = samba_permute(samba_slice(packed, 2, 4 * i, 4 * i + 4, 1), (const int[]){0, 2, 1, 3});
        part[i] = samba_reshape(samba_permute(part[i], (const int[]){0, 2, 1, 3}), 3, SHAPE(2, 5, 12));
    }
    end(g, samba_concat(3, part, 2)); /* (2, 5, 36) */
}
static void heads_in_front(samba_graph *g, samba_value x) /* joined along a dim of its own: a permute of the base */
{
    samba_value packed = samba_exp(samba_reshape(weigh(g, x), 4, SHAPE(2, 5, 12, 3))), part[3];
    for (int i = 0; i < 3; i++)
        part[i] = samba_reshape(samba_permute(samba_slice(packed, 2, 4 * i, 4 * i + 4, 1), (const int[]){0, 2, 1, 3}), 5,
                                SHAPE(1, 2, 4, 5, 3));
    samba_value y = samba_concat(3, part, 0);
    samba_output(g, "y", y);
    lose(g, samba_mul(y, y));
}
static void other_order(samba_graph *g, samba_value x) /* the same parts, swapped: a true concat */
{
    samba_value part[3];
    samba_split(samba_exp(weigh(g, x)), 5, 1, 3, part);
    end(g, JOIN(1, part[1], part[0], part[2]));
}
static void nested(samba_graph *g, samba_value x)
{
    samba_value w = weigh(g, x), y = JOIN(1, JOIN(1, samba_exp(w), samba_tanh(w)), samba_sigmoid(w)); /* 39 */
    samba_output(g, "y", JOIN(0, y));
    lose(g, samba_slice(y, 1, 15, 24, 2)); /* of the second alone */
}

/* ---- pieces in place: f is x as (20, 6) ---- */
static void pieces(samba_graph *g, samba_value f)
{
    /* a product, a map after a row reduction, a row's value: (20, 16) */
    samba_value y =
        JOIN(1, samba_linear(f, "fc", 9), samba_softmax(samba_exp(f), -1), samba_sum(samba_tanh(f), 1, (const int[]){1}, true));
    samba_output(g, "y", y);
    samba_output(g, "z", JOIN(0, samba_sigmoid(f), transposed(samba_gelu(transposed(f))))); /* (40, 6) */
    lose(g, samba_linear(y, "out", 7));
}
static void pieces_in_pieces(samba_graph *g, samba_value f)
{
    samba_value inner = JOIN(1, samba_linear(f, "fc", 9), samba_exp(f)); /* (20, 15) */
    end(g, JOIN(0, inner, samba_linear(samba_sigmoid(f), "gc", 15)));    /* (40, 15) */
}
/* an input that is also an output, one that stands there twice, a leaf */
static void read_elsewhere(samba_graph *g, samba_value f)
{
    samba_value b = samba_exp(samba_linear(f, "fc", 6)), c = samba_tanh(f);
    samba_output(g, "b", b);
    end(g, JOIN(1, b, c, c, f, samba_constant(g, 0.5, SAMBA_FLOAT32, 2, SHAPE(20, 1))));
}
/* A product as large as the output, whose last reader writes a piece of it: not over what the other piece has put there. */
static void piece_beside_another(samba_graph *g, samba_value f)
{
    samba_value x = samba_slice(f, 0, 0, 4, 1), w = parameter(g, 2, SHAPE(6, 6));
    samba_value upper = samba_exp(samba_slice(x, 0, 0, 2, 1)), p = samba_matmul(x, w);
    samba_output(g, "y", JOIN(0, samba_tanh(samba_slice(p, 0, 0, 2, 1)), upper)); /* (4, 6) */
    samba_loss(g, "loss", total(w));
}

typedef struct concat_case {
    const char *name;
    void (*build)(samba_graph *g, samba_value x);
    int rank;
    int64_t shape[3];  /* of x */
    int pads, concats; /* nodes after simplify */
    int copied;        /* stages left of concats; -1: not counted */
} concat_case;
static const concat_case cases[] = {
    {"split_used_in_any_order", split_used_in_any_order, 3, {4, 13, 6}, 0, 1, 0},
    {"part_left_out", part_left_out, 3, {4, 13, 6}, 2, 0, 0},
    {"overlapping_and_strided", overlapping_and_strided, 3, {4, 13, 6}, 4, 0, 0},
    {"parameter_in_parts", parameter_in_parts, 3, {4, 13, 6}, 0, 1, 0},
    {"rejoined", rejoined, 3, {4, 13, 6}, 0, 0, 0},
    {"heads", heads, 3, {2, 5, 36}, 0, 0, 0},
    {"heads_in_front", heads_in_front, 3, {2, 5, 36}, 0, 1, 3},
    {"other_order", other_order, 3, {4, 13, 6}, 0, 2, -1},
    {"nested", nested, 3, {4, 13, 6}, 1, 1, 3},
    {"pieces", pieces, 2, {20, 6}, 0, 2, 0},
    {"pieces_in_pieces", pieces_in_pieces, 2, {20, 6}, 0, 2, 0},
    {"read_elsewhere", read_elsewhere, 2, {20, 6}, 0, 1, 5},
    {"piece_beside_another", piece_beside_another, 2, {20, 6}, 0, 1, 0},
};

static void model(samba_graph *g, const void *options) { ((const concat_case *)options)->build(g, samba_input(g, "x")); }

TEST(joined_and_cut)
{
    for (int i = 0; i < LENGTH(cases); i++) {
        const concat_case *c = &cases[i];
        samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, c->rank, c->shape, 5));
        const reference_case compared = {c->name, model, c, 1, &x, .precision = SAMBA_FP32};
        char path[512];
        pass_texts texts = compile_case(&compared, 0, path);
        int pads = occurrences(texts.simplified, "= pad"), concats = occurrences(texts.simplified, "= concat"),
            copied = occurrences(texts.planned, "  concat\n");
        if (pads != c->pads || concats != c->concats || (c->copied >= 0 && copied != c->copied)) {
            fprintf(stderr, "%s\n%s\n", texts.simplified, texts.planned);
            fail_msg("%s: %d pads, %d concats, %d stages of concats; expected %d, %d, %d", c->name, pads, concats, copied,
                     c->pads, c->concats, c->copied);
        }
        check_teams(&compared, path);
        free_texts(&texts);
    }
}

TEST_MAIN_WITH(NULL, drop_kept, joined_and_cut)
