/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining and cutting: what simplify makes of sums of pads and of concats of parts that lie side by side, that pieces of a concat
 * are computed in its memory, and that values stay those of the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "training.h"

#include "reference.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

static samba_value in(samba_graph *g) { return samba_input(g, "x"); }
static samba_value weigh(samba_graph *g, samba_value v, const char *name) /* a parameter in each element */
{
    int64_t shape[8];
    int rank = samba_value_rank(v);
    for (int i = 0; i < rank; i++)
        shape[i] = samba_value_size(v, i);
    return samba_mul(
        v, samba_parameter(g, name, samba_value_dtype(v), rank, shape, (samba_initializer){SAMBA_INIT_NORMAL, 0.1, 0.7}));
}
static void lose(samba_graph *g, samba_value v) { samba_loss(g, "loss", samba_sum(samba_mul(v, v), 0, NULL, false)); }

/* ---- gradients of cuts ---- */
static void split_used_in_any_order(samba_graph *g, const void *o)
{
    (void)o;
    samba_value part[3];
    samba_split(weigh(g, in(g), "w"), 5, 1, 3, part); /* (4, 13, 6): 5 5 3 */
    samba_value a = samba_sum(samba_exp(part[1]), 0, NULL, false), b = samba_sum(samba_tanh(part[2]), 0, NULL, false);
    samba_loss(g, "loss", samba_add(samba_add(a, b), samba_sum(samba_sigmoid(part[0]), 0, NULL, false)));
}
static void part_left_out(samba_graph *g, const void *o) /* zeros remain: still a sum of pads */
{
    (void)o;
    samba_value part[3];
    samba_split(weigh(g, in(g), "w"), 5, 1, 3, part);
    samba_loss(g, "loss",
               samba_add(samba_sum(samba_exp(part[0]), 0, NULL, false), samba_sum(samba_tanh(part[2]), 0, NULL, false)));
}
static void overlapping(samba_graph *g, const void *o)
{
    (void)o;
    samba_value w = weigh(g, in(g), "w"), a = samba_slice(w, 1, 0, 8, 1), b = samba_slice(w, 1, 6, 13, 1);
    samba_loss(g, "loss", samba_add(samba_sum(samba_exp(a), 0, NULL, false), samba_sum(samba_tanh(b), 0, NULL, false)));
}
static void strided(samba_graph *g, const void *o)
{
    (void)o;
    samba_value w = weigh(g, in(g), "w"), a = samba_slice(w, 2, 0, 6, 2), b = samba_slice(w, 2, 1, 6, 2);
    samba_loss(g, "loss", samba_add(samba_sum(samba_exp(a), 0, NULL, false), samba_sum(samba_tanh(b), 0, NULL, false)));
}

static void parameter_in_parts(samba_graph *g, const void *o) /* its gradient is put together in the memory of w.grad */
{
    (void)o;
    samba_value w = samba_parameter(g, "w", SAMBA_FLOAT32, 1, SHAPE(18), (samba_initializer){SAMBA_INIT_NORMAL, 0.1, 0.7}),
                part[3], y = in(g);
    samba_split(w, 6, 0, 3, part);
    for (int i = 0; i < 3; i++)
        y = samba_tanh(samba_add(samba_mul(y, part[i]), y));
    lose(g, y);
}

/* ---- concats of what lies side by side ---- */
static void rejoined(samba_graph *g, const void *o)
{
    (void)o;
    samba_value w = weigh(g, in(g), "w"), part[3];
    samba_split(samba_exp(w), 5, 1, 3, part);
    samba_output(g, "y", samba_concat(3, part, 1));
    lose(g, samba_concat(3, part, 1));
}
/* Heads of a packed (B, T, 3 H, D) value, each taken out as (B, H, T, D) and put back as (B, T, H D), side by side. */
static void heads(samba_graph *g, const void *o)
{
    (void)o;
    samba_value packed = samba_exp(samba_reshape(weigh(g, in(g), "w"), 4, SHAPE(2, 5, 12, 3))), part[3];
    for (int i = 0; i < 3; i++) {
        part[i] = samba_permute(samba_slice(packed, 2, 4 * i, 4 * i + 4, 1), (const int[]){0, 2, 1, 3});
        part[i] = samba_reshape(samba_permute(part[i], (const int[]){0, 2, 1, 3}), 3, SHAPE(2, 5, 12));
    }
    samba_output(g, "y", samba_concat(3, part, 2)); /* (2, 5, 36) */
    lose(g, samba_concat(3, part, 2));
}
static void heads_in_front(samba_graph *g, const void *o) /* joined along a dim of its own: a permute of the base */
{
    (void)o;
    samba_value packed = samba_exp(samba_reshape(weigh(g, in(g), "w"), 4, SHAPE(2, 5, 12, 3))), part[3];
    for (int i = 0; i < 3; i++)
        part[i] = samba_reshape(samba_permute(samba_slice(packed, 2, 4 * i, 4 * i + 4, 1), (const int[]){0, 2, 1, 3}), 5,
                                SHAPE(1, 2, 4, 5, 3));
    samba_output(g, "y", samba_concat(3, part, 0));
    lose(g, samba_mul(samba_concat(3, part, 0), samba_concat(3, part, 0)));
}
static void other_order(samba_graph *g, const void *o) /* the same parts, swapped: a true concat */
{
    (void)o;
    samba_value w = samba_exp(weigh(g, in(g), "w")), part[3];
    samba_split(w, 5, 1, 3, part);
    samba_output(g, "y", samba_concat(3, (samba_value[]){part[1], part[0], part[2]}, 1));
    lose(g, samba_concat(3, (samba_value[]){part[1], part[0], part[2]}, 1));
}
static void nested(samba_graph *g, const void *o)
{
    (void)o;
    samba_value w = weigh(g, in(g), "w"), a = samba_exp(w), b = samba_tanh(w), c = samba_sigmoid(w);
    samba_value y = samba_concat(2, (samba_value[]){samba_concat(2, (samba_value[]){a, b}, 1), c}, 1); /* 39 */
    samba_output(g, "y", samba_concat(1, &y, 0));
    lose(g, samba_slice(y, 1, 15, 24, 2)); /* of b alone */
}

/* ---- pieces in place ---- */
static void pieces(samba_graph *g, const void *o)
{
    (void)o;
    samba_value x = in(g), f = samba_reshape(x, 2, SHAPE(20, 6));
    samba_value a = samba_linear(f, "fc", 9), b = samba_softmax(samba_exp(f), -1),
                c = samba_sum(samba_tanh(f), 1, (const int[]){1}, true);
    /* a product, a map after a row reduction, a row's value: (20, 16) */
    samba_value y = samba_concat(3, (samba_value[]){a, b, c}, 1);
    /* (40, 6) */
    samba_value z = samba_concat(
        2,
        (samba_value[]){samba_sigmoid(f), samba_permute(samba_gelu(samba_permute(f, (const int[]){1, 0})), (const int[]){1, 0})},
        0);
    samba_output(g, "y", y), samba_output(g, "z", z);
    lose(g, samba_linear(y, "out", 7));
}
static void pieces_in_pieces(samba_graph *g, const void *o)
{
    (void)o;
    samba_value f = samba_reshape(in(g), 2, SHAPE(20, 6));
    samba_value inner = samba_concat(2, (samba_value[]){samba_linear(f, "fc", 9), samba_exp(f)}, 1);      /* (20, 15) */
    samba_value y = samba_concat(2, (samba_value[]){inner, samba_linear(samba_sigmoid(f), "gc", 15)}, 0); /* (40, 15) */
    samba_output(g, "y", y);
    lose(g, y);
}
/* an input that is also an output, one that stands there twice, a leaf */
static void read_elsewhere(samba_graph *g, const void *o)
{
    (void)o;
    samba_value f = samba_reshape(in(g), 2, SHAPE(20, 6)), a = samba_linear(f, "fc", 6), b = samba_exp(a), c = samba_tanh(f);
    samba_output(g, "b", b);
    samba_value y = samba_concat(5, (samba_value[]){b, c, c, f, samba_constant(g, 0.5, SAMBA_FLOAT32, 2, SHAPE(20, 1))}, 1);
    samba_output(g, "y", y);
    lose(g, y);
}

/* A product as large as the output, whose last reader writes a piece of it: not over what the other piece has put there. */
static void piece_beside_another(samba_graph *g, const void *o)
{
    (void)o;
    samba_value x = samba_slice(samba_reshape(in(g), 2, SHAPE(20, 6)), 0, 0, 4, 1),
                w = samba_parameter(g, "w", SAMBA_FLOAT32, 2, SHAPE(6, 6), (samba_initializer){SAMBA_INIT_NORMAL, 0, 1});
    samba_value upper = samba_exp(samba_slice(x, 0, 0, 2, 1)), p = samba_matmul(x, w),
                lower = samba_tanh(samba_slice(p, 0, 0, 2, 1));
    samba_output(g, "y", samba_concat(2, (samba_value[]){lower, upper}, 0)); /* (4, 6) */
    samba_loss(g, "loss", samba_sum(w, 0, NULL, false));
}
typedef struct concat_case {
    const char *name;
    samba_model model;
    int pads, concats; /* nodes after simplify */
    int copied;        /* stages left of concats; -1: not counted */
} concat_case;
static const concat_case cases[] = {
    {"split_used_in_any_order", split_used_in_any_order, 0, 1, 0},
    {"part_left_out", part_left_out, 2, 0, 0},
    {"overlapping", overlapping, 2, 0, 0},
    {"strided", strided, 2, 0, 0},
    {"parameter_in_parts", parameter_in_parts, 0, 1, 0},
    {"rejoined", rejoined, 0, 0, 0},
    {"heads", heads, 0, 0, 0},
    {"heads_in_front", heads_in_front, 0, 1, 3},
    {"other_order", other_order, 0, 2, -1},
    {"nested", nested, 1, 1, 3},
    {"pieces", pieces, 0, 2, 0},
    {"pieces_in_pieces", pieces_in_pieces, 0, 2, 0},
    {"read_elsewhere", read_elsewhere, 0, 1, 5},
    {"piece_beside_another", piece_beside_another, 0, 1, 0},
};

static int occurrences(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        count++;
    return count;
}

typedef struct dumped {
    int pads, concats, copied;
    char *simplified, *log;
} dumped;
static void take(void *user, const char *pass, const char *text)
{
    dumped *d = user;
    char **to = strcmp(pass, "simplify") == 0 ? &d->simplified : strcmp(pass, "section") == 0 ? &d->log : NULL;
    if (to)
        *to = strdup(text);
}

static void check_case(void **state)
{
    const concat_case *c = *state;
    samba_tensor *x = normal("x", SAMBA_FLOAT32, 3,
                             strncmp(c->name, "heads", 5) == 0                     ? SHAPE(2, 5, 36)
                             : strstr(c->name, "piece") || strstr(c->name, "read") ? SHAPE(4, 5, 6)
                                                                                   : SHAPE(4, 13, 6),
                             5);
    dumped d = {0};
    samba_compile_options options = compile_of(c->name, c->model, NULL, 1, &x);
    options.dump_after = "all";
    options.dump = take;
    options.dump_user = &d;
    char path[512];
    need(samba_compile(context, &options, path, sizeof path));
    int pads = occurrences(d.simplified, "= pad"), concats = occurrences(d.simplified, "= concat"),
        copied = occurrences(d.log, "  concat\n");
    if (pads != c->pads || concats != c->concats || (c->copied >= 0 && copied != c->copied)) {
        fprintf(stderr, "%s\n%s\n", d.simplified, d.log);
        fail_msg("%s: %d pads, %d concats, %d stages of concats; expected %d, %d, %d", c->name, pads, concats, copied, c->pads,
                 c->concats, c->copied);
    }
    for (int threads = 1; threads <= 2; threads++) {
        samba_session *session = open_session(path, threads, 3);
        samba_run_options r = samba_run_defaults();
        r.inputs = &x;
        r.input_count = 1;
        need(samba_run(session, &r));
        compare_with_reference(&(reference_case){c->name, c->model, NULL, 1, &x, false, 0, NULL, 0, SAMBA_FP32}, session);
        samba_session_free(session);
    }
    free(d.simplified);
    free(d.log);
    samba_tensor_free(x);
}

int main(void)
{
    if (!training_begin())
        return 1;
    enum { COUNT = sizeof cases / sizeof cases[0] };
    struct CMUnitTest tests[COUNT];
    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, check_case, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    return training_end(_cmocka_run_group_tests("concat", tests, COUNT, NULL, NULL));
}
