/* SPDX-License-Identifier: Apache-2.0
 *
 * LSTM, GRU and RNN.
 *
 * Layers as PyTorch has them are read as its functions, whose steps are fused; ONNX's gates stand in another order. What PyTorch
 * has not (other activations, peepholes, clipping, lengths of sequences) is a step of plain operators, once for each step. A step
 * behind a sequence's end leaves its state as it was, which also is what a reversed sequence begins with. */
#include "onnx/lists.h"

#include <sambaflow/activation.h>
#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/recurrent.h>
#include <sambaflow/shape.h>
#include <string.h>
#include <strings.h>

typedef enum cell { RNN, GRU, LSTM } cell;
static const int gates_of[] = {1, 3, 4}, functions_of[] = {1, 2, 3};

/* What a list of activations may name, and the alpha and beta that stand for what it does not say. */
enum { RELU, TANH, SIGMOID, AFFINE, LEAKY_RELU, THRESHOLDED_RELU, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, SOFTPLUS, FUNCTIONS };
static const struct {
    const char *name;
    bool has_alpha, has_beta;
    double alpha, beta;
} functions[FUNCTIONS] = {
    [RELU] = {"Relu", false, false, 0, 0},
    [TANH] = {"Tanh", false, false, 0, 0},
    [SIGMOID] = {"Sigmoid", false, false, 0, 0},
    [AFFINE] = {"Affine", true, true, 1, 0},
    [LEAKY_RELU] = {"LeakyRelu", true, false, 0.01, 0},
    [THRESHOLDED_RELU] = {"ThresholdedRelu", true, false, 1, 0},
    [SCALED_TANH] = {"ScaledTanh", true, true, 1, 1},
    [HARD_SIGMOID] = {"HardSigmoid", true, true, 0.2, 0.5},
    [ELU] = {"Elu", true, false, 1, 0},
    [SOFTSIGN] = {"Softsign", false, false, 0, 0},
    [SOFTPLUS] = {"Softplus", false, false, 0, 0},
};

typedef struct activation {
    int function;
    double alpha, beta;
} activation;

typedef struct layer {
    samba_onnx_node *node;
    cell kind;
    int gates, directions;
    bool reverse, batch_first, clips, input_forget, linear_before_reset;
    double clip;
    int64_t steps, batch, hidden;
    activation functions[2][3];
    samba_value x, w, r, b, lengths, h, c, p; /* zeroed: left out */
} layer;

/* ---- what the node says ---- */

/* Numbers belong to the functions in order: to each, where there is one a function, else to those that have such a number. */
static double number_of(const float *list, int64_t count, int64_t total, int64_t function, int64_t *taken, bool has,
                        double fallback)
{
    int64_t at = count == total ? function : *taken;
    if (!has)
        return fallback;
    ++*taken;
    return at < count ? (double)list[at] : fallback;
}

static void read_activations(layer *l)
{
    static const int defaults[][3] = {[RNN] = {TANH}, [GRU] = {SIGMOID, TANH}, [LSTM] = {SIGMOID, TANH, TANH}};
    int64_t count, alphas, betas, alpha_taken = 0, beta_taken = 0, each = functions_of[l->kind], total = each * l->directions;
    const char *const *names = samba_onnx_words(l->node, "activations", &count);
    const float *alpha = samba_onnx_floats(l->node, "activation_alpha", &alphas),
                *beta = samba_onnx_floats(l->node, "activation_beta", &betas);
    if (count != 0 && count != total) {
        samba_onnx_refuse(l->node, "%lld activations are given where %lld are expected", (long long)count, (long long)total);
        return;
    }
    for (int64_t i = 0; i < total; i++) {
        activation *a = &l->functions[i / each][i % each];
        a->function = defaults[l->kind][i % each];
        for (int k = 0; k < FUNCTIONS && count; k++)
            if (strcasecmp(functions[k].name, names[i]) == 0)
                a->function = k;
        if (count && strcasecmp(functions[a->function].name, names[i]) != 0) {
            samba_onnx_refuse(l->node, "the activation \"%.64s\" is not one of the operator's", names[i]);
            return;
        }
        a->alpha =
            number_of(alpha, alphas, total, i, &alpha_taken, functions[a->function].has_alpha, functions[a->function].alpha);
        a->beta = number_of(beta, betas, total, i, &beta_taken, functions[a->function].has_beta, functions[a->function].beta);
    }
}

static bool has_shape(samba_value value, int rank, const int64_t *shape)
{
    int64_t own[SAMBA_MAX_RANK];
    samba_onnx_shape(value, own);
    return !value.graph || samba_shape_equal(samba_value_rank(value), own, rank, shape);
}

static bool read_layer(samba_onnx_node *node, cell kind, layer *l)
{
    static const char *const ways[] = {"forward", "reverse", "bidirectional", NULL};
    memset(l, 0, sizeof *l);
    l->node = node;
    l->kind = kind;
    l->gates = gates_of[kind];
    l->x = samba_onnx_need(node, 0);
    l->w = samba_onnx_need(node, 1);
    l->r = samba_onnx_need(node, 2);
    l->b = samba_onnx_in(node, 3);
    l->lengths = samba_onnx_in(node, 4);
    l->h = samba_onnx_in(node, 5);
    if (kind == LSTM) {
        l->c = samba_onnx_in(node, 6);
        l->p = samba_onnx_in(node, 7);
        l->input_forget = samba_onnx_flag(node, "input_forget", false);
    }
    if (kind == GRU)
        l->linear_before_reset = samba_onnx_flag(node, "linear_before_reset", false);
    int way = samba_onnx_choice(node, "direction", "forward", ways);
    int64_t hidden = samba_onnx_int(node, "hidden_size", 0);
    l->batch_first = node->version >= 14 && samba_onnx_flag(node, "layout", false);
    l->clips = samba_onnx_attribute(node, "clip") != NULL;
    l->clip = samba_onnx_float(node, "clip", 0);
    l->reverse = way == 1;
    l->directions = way == 2 ? 2 : 1;
    if (node->refused)
        return false;
    if (samba_value_rank(l->x) != 3 || samba_value_rank(l->w) != 3 || samba_value_rank(l->r) != 3) {
        samba_onnx_refuse(node, "X, W and R of rank 3 are expected");
        return false;
    }
    int64_t d = l->directions, g = l->gates;
    l->hidden = samba_value_size(l->r, 2);
    l->steps = samba_value_size(l->x, l->batch_first ? 1 : 0);
    l->batch = samba_value_size(l->x, l->batch_first ? 0 : 1);
    const int64_t n = l->hidden, w[] = {d, g * n, samba_value_size(l->x, 2)}, r[] = {d, g * n, n}, b[] = {d, 2 * g * n},
                  p[] = {d, 3 * n};
    const int64_t state[] = {l->batch_first ? l->batch : d, l->batch_first ? d : l->batch, n};
    if ((hidden && hidden != n) || !has_shape(l->w, 3, w) || !has_shape(l->r, 3, r) || !has_shape(l->b, 2, b) ||
        !has_shape(l->p, 2, p) || !has_shape(l->h, 3, state) || !has_shape(l->c, 3, state) ||
        !has_shape(l->lengths, 1, &l->batch)) {
        samba_onnx_refuse(node, "the shapes of its inputs do not fit a hidden size of %lld and %d directions", (long long)n,
                          l->directions);
        return false;
    }
    if (l->steps < 1 || l->steps > 1 << 14) { /* each is operators of its own */
        samba_onnx_refuse(node, "a sequence of %lld steps is not supported", (long long)l->steps);
        return false;
    }
    read_activations(l);
    if (l->batch_first) {
        l->x = samba_transpose(l->x, 0, 1);
        if (l->h.graph)
            l->h = samba_transpose(l->h, 0, 1);
        if (l->c.graph)
            l->c = samba_transpose(l->c, 0, 1);
    }
    return !node->refused;
}

/* y (T, directions, N, H), h and c (directions, N, H) */
static void give(const layer *l, samba_value y, samba_value h, samba_value c)
{
    static const int batch_first[4] = {2, 0, 1, 3};
    samba_onnx_out(l->node, 0, l->batch_first ? samba_permute(y, batch_first) : y);
    samba_onnx_out(l->node, 1, l->batch_first ? samba_transpose(h, 0, 1) : h);
    if (l->kind == LSTM)
        samba_onnx_out(l->node, 2, l->batch_first ? samba_transpose(c, 0, 1) : c);
}

/* ---- by PyTorch's functions ---- */

static bool is_plain(const layer *l)
{
    bool plain = !l->clips && !l->p.graph && !l->lengths.graph && !l->input_forget && (l->kind != GRU || l->linear_before_reset);
    for (int d = 0; d < l->directions; d++) {
        const activation *f = l->functions[d];
        if (l->kind == RNN)
            plain &= (f[0].function == TANH || f[0].function == RELU) && f[0].function == l->functions[0][0].function;
        else
            plain &= f[0].function == SIGMOID && f[1].function == TANH && (l->kind == GRU || f[2].function == TANH);
    }
    return plain;
}

/* A direction's rows of weights or biases (gates * H, ...), in PyTorch's order of gates. */
static samba_value in_order(const layer *l, samba_value rows)
{
    static const int orders[][4] = {[RNN] = {0}, [GRU] = {1, 0, 2}, [LSTM] = {0, 2, 3, 1}};
    samba_value parts[4];
    for (int i = 0; i < l->gates; i++)
        parts[i] = samba_narrow(rows, 0, orders[l->kind][i] * l->hidden, l->hidden);
    return l->gates == 1 ? rows : samba_concat(l->gates, parts, 0);
}

static void read_plain(const layer *l)
{
    samba_value weights[8], state[2] = {l->h, l->c}, x = l->x, y;
    const int first = 0;
    int count = 0;
    for (int d = 0; d < l->directions; d++) {
        samba_value w = samba_select(l->w, 0, d), r = samba_select(l->r, 0, d);
        weights[count++] = in_order(l, w);
        weights[count++] = in_order(l, r);
        if (l->b.graph) {
            samba_value b = samba_select(l->b, 0, d);
            int64_t half = l->gates * l->hidden;
            samba_value b_w = samba_narrow(b, 0, 0, half), b_r = samba_narrow(b, 0, half, half);
            weights[count++] = in_order(l, b_w);
            weights[count++] = in_order(l, b_r);
        }
    }
    samba_recurrent_options options = {.no_bias = !l->b.graph,
                                       .bidirectional = l->directions == 2,
                                       .relu = l->kind == RNN && l->functions[0][0].function == RELU};
    if (l->reverse)
        x = samba_flip(x, 1, &first);
    if (l->kind == LSTM)
        y = samba_functional_lstm(x, count, weights, &options, state);
    else if (l->kind == GRU)
        y = samba_functional_gru(x, count, weights, &options, state);
    else
        y = samba_functional_rnn(x, count, weights, &options, state);
    if (l->reverse)
        y = samba_flip(y, 1, &first);
    const int64_t apart[4] = {l->steps, l->batch, l->directions, l->hidden};
    samba_value split = samba_reshape(y, 4, apart);
    give(l, samba_transpose(split, 1, 2), state[0], state[1]);
}

/* ---- step by step ---- */

static samba_value activate(const layer *l, const activation *f, samba_value a)
{
    if (l->clips) {
        samba_value low = samba_onnx_number(l->node, -l->clip), high = samba_onnx_number(l->node, l->clip);
        a = samba_clamp(a, low, high);
    }
    switch (f->function) {
    case RELU: return samba_relu(a);
    case TANH: return samba_tanh(a);
    case SIGMOID: return samba_sigmoid(a);
    case LEAKY_RELU: return samba_leaky_relu(a, f->alpha);
    case ELU: return samba_elu(a, f->alpha);
    case SOFTSIGN: return samba_softsign(a);
    case SOFTPLUS: return samba_softplus(a);
    case SCALED_TANH: return samba_mul_scalar(samba_tanh(samba_mul_scalar(a, f->beta)), f->alpha);
    case THRESHOLDED_RELU: {
        samba_value least = samba_onnx_number(l->node, f->alpha), zero = samba_onnx_like(l->node, 0, a),
                    passes = samba_ge(a, least);
        return samba_where(passes, a, zero);
    }
    default: break;
    }
    samba_value scaled = samba_mul_scalar(a, f->alpha), line = samba_add_scalar(scaled, f->beta);
    if (f->function == AFFINE)
        return line;
    samba_value zero = samba_onnx_number(l->node, 0), one = samba_onnx_number(l->node, 1); /* HardSigmoid */
    return samba_clamp(line, zero, one);
}

/* One direction's weights; `peephole` of the gates i, o and f. */
typedef struct direction {
    const layer *l;
    const activation *f;
    samba_value r, b_r; /* recurrent weights, and of a GRU the hidden gate's bias, where it is inside the reset */
    samba_value peephole[3];
    samba_value h, c;
} direction;

static samba_value gate(const direction *d, samba_value gates, int i)
{
    return samba_narrow(gates, 1, i * d->l->hidden, d->l->hidden);
}

static samba_value with_peephole(const direction *d, samba_value gate, int i, samba_value c)
{
    if (!d->l->p.graph)
        return gate;
    samba_value seen = samba_mul(d->peephole[i], c);
    return samba_add(gate, seen);
}

static samba_value step_lstm(const direction *d, samba_value input, samba_value *next_c)
{
    const layer *l = d->l;
    samba_value none = {NULL, 0, 0}, recurrent = samba_functional_linear(d->h, d->r, none), gates = samba_add(input, recurrent);
    samba_value gate_i = gate(d, gates, 0), gate_o = gate(d, gates, 1), gate_f = gate(d, gates, 2), gate_c = gate(d, gates, 3), f;
    samba_value i = activate(l, &d->f[0], with_peephole(d, gate_i, 0, d->c));
    if (l->input_forget) { /* 1 - i */
        samba_value one = samba_onnx_number(l->node, 1);
        f = samba_sub(one, i);
    } else
        f = activate(l, &d->f[0], with_peephole(d, gate_f, 2, d->c));
    samba_value input_cell = activate(l, &d->f[1], gate_c), kept = samba_mul(f, d->c), new = samba_mul(i, input_cell),
                c = samba_add(kept, new);
    samba_value o = activate(l, &d->f[0], with_peephole(d, gate_o, 1, c)), shown = activate(l, &d->f[2], c);
    *next_c = c;
    return samba_mul(o, shown);
}

static samba_value step_gru(const direction *d, samba_value input)
{
    const layer *l = d->l;
    int64_t n = l->hidden;
    samba_value none = {NULL, 0, 0}, r_gates = samba_narrow(d->r, 0, 0, 2 * n), r_hidden = samba_narrow(d->r, 0, 2 * n, n), inner;
    samba_value recurrent = samba_functional_linear(d->h, r_gates, none), both = samba_narrow(input, 1, 0, 2 * n);
    samba_value gates = samba_add(both, recurrent), gate_z = gate(d, gates, 0), gate_r = gate(d, gates, 1),
                gate_h = gate(d, input, 2);
    samba_value z = activate(l, &d->f[0], gate_z), r = activate(l, &d->f[0], gate_r);
    if (l->linear_before_reset) {
        samba_value product = samba_functional_linear(d->h, r_hidden, d->b_r);
        inner = samba_mul(r, product);
    } else {
        samba_value reset = samba_mul(r, d->h);
        inner = samba_functional_linear(reset, r_hidden, none);
    }
    samba_value candidate = activate(l, &d->f[1], samba_add(gate_h, inner)), old = samba_mul(z, d->h),
                one = samba_onnx_number(l->node, 1);
    samba_value rest = samba_sub(one, z), new = samba_mul(rest, candidate);
    return samba_add(new, old);
}

static samba_value step_rnn(const direction *d, samba_value input)
{
    samba_value none = {NULL, 0, 0}, recurrent = samba_functional_linear(d->h, d->r, none);
    return activate(d->l, &d->f[0], samba_add(input, recurrent));
}

/* A state of direction d before the first step. */
static samba_value begin(const layer *l, samba_value state, int d)
{
    const int64_t shape[2] = {l->batch, l->hidden};
    return state.graph ? samba_select(state, 0, d) : samba_constant(l->node->graph, 0, samba_value_dtype(l->x), 2, shape);
}

/* The outputs of all steps, (T, N, H); d->h and d->c become the last states. */
static samba_value run_direction(const layer *l, int number, direction *d, samba_value *outputs)
{
    int64_t n = l->hidden, half = l->gates * n;
    samba_value w = samba_select(l->w, 0, number), bias = {NULL, 0, 0}, lengths = {NULL, 0, 0};
    *d = (direction){.l = l, .f = l->functions[number], .r = samba_select(l->r, 0, number)};
    if (l->b.graph) { /* biases are added to the inputs of all steps at once, but for one that the reset multiplies */
        samba_value b = samba_select(l->b, 0, number), b_w = samba_narrow(b, 0, 0, half), b_r = samba_narrow(b, 0, half, half);
        if (l->kind == GRU && l->linear_before_reset) {
            const int64_t rest[2] = {0, n};
            d->b_r = samba_narrow(b_r, 0, 2 * n, n);
            samba_value outside = samba_narrow(b_r, 0, 0, 2 * n);
            b_r = samba_pad(outside, 1, rest, SAMBA_PAD_CONSTANT, 0);
        }
        bias = samba_add(b_w, b_r);
    }
    for (int i = 0; i < 3 && l->p.graph; i++) {
        samba_value p = samba_select(l->p, 0, number);
        d->peephole[i] = samba_narrow(p, 0, i * n, n);
    }
    d->h = begin(l, l->h, number);
    if (l->kind == LSTM)
        d->c = begin(l, l->c, number);
    samba_value inputs = samba_functional_linear(l->x, w, bias), zero = samba_onnx_like(l->node, 0, l->x);
    if (l->lengths.graph)
        lengths = samba_unsqueeze(l->lengths, 1);
    bool backward = l->reverse || number == 1;
    for (int64_t i = 0; i < l->steps && l->node->graph->status == SAMBA_OK; i++) {
        int64_t t = backward ? l->steps - 1 - i : i;
        samba_value input = samba_select(inputs, 0, t), c = {NULL, 0, 0};
        samba_value h = l->kind == LSTM ? step_lstm(d, input, &c) : l->kind == GRU ? step_gru(d, input) : step_rnn(d, input);
        outputs[t] = h;
        if (l->lengths.graph) {
            samba_value now = samba_integer(l->node->graph, t), inside = samba_gt(lengths, now);
            outputs[t] = samba_where(inside, h, zero);
            h = samba_where(inside, h, d->h);
            if (l->kind == LSTM)
                c = samba_where(inside, c, d->c);
        }
        d->h = h;
        d->c = c;
    }
    return samba_stack((int)l->steps, outputs, 0);
}

static void read_recurrent(samba_onnx_node *node, cell kind)
{
    layer l;
    direction d;
    samba_value *outputs, y[2], h[2], c[2] = {{NULL, 0, 0}};
    if (!read_layer(node, kind, &l))
        return;
    if (is_plain(&l)) {
        read_plain(&l);
        return;
    }
    if (l.steps > SAMBA_MAX_ARITY) { /* which are stacked */
        samba_onnx_refuse(node, "%lld steps of a layer that PyTorch has not are not supported; at most %d are",
                          (long long)l.steps, SAMBA_MAX_ARITY);
        return;
    }
    if (SAMBA_ROOM(&node->reader->arena, outputs, l.steps) != SAMBA_OK)
        return;
    for (int i = 0; i < l.directions; i++) {
        y[i] = run_direction(&l, i, &d, outputs);
        h[i] = d.h;
        c[i] = d.c;
    }
    samba_value all = samba_stack(l.directions, y, 1), last = samba_stack(l.directions, h, 0);
    give(&l, all, last, kind == LSTM ? samba_stack(l.directions, c, 0) : last);
}

void samba_onnx_lstm(samba_onnx_node *node);
void samba_onnx_lstm(samba_onnx_node *node) { read_recurrent(node, LSTM); }
void samba_onnx_gru(samba_onnx_node *node);
void samba_onnx_gru(samba_onnx_node *node) { read_recurrent(node, GRU); }
void samba_onnx_rnn(samba_onnx_node *node);
void samba_onnx_rnn(samba_onnx_node *node) { read_recurrent(node, RNN); }
