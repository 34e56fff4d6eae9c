/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of a decoder, each in the scope of its name, so that parameters have transformers' names: linear layers, norms, the
 * MLP. Every linear layer is one of samba_linear_with, which adapters and frozen bases know. */
#include "lm/lm.h"

#include <math.h>

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

void samba_lm_enter(samba_lm_build *b, const char *name)
{
    if (name && name[0])
        samba_scope_push(b->graph, name);
}

void samba_lm_leave(samba_lm_build *b, const char *name)
{
    if (name && name[0])
        samba_scope_pop(b->graph);
}

/* `start`: NAN: a normal distribution, as the config has it. */
static samba_initializer initializer_of(const samba_lm_build *b, double start)
{
    if (b->lm->has_weights)
        return (samba_initializer){.kind = SAMBA_INIT_NONE};
    if (start != start)
        return (samba_initializer){SAMBA_INIT_NORMAL, 0, b->m->initializer_range};
    return (samba_initializer){SAMBA_INIT_CONSTANT, start, 0};
}

samba_value samba_lm_parameter(samba_lm_build *b, const char *name, int rank, const int64_t *shape, double start)
{
    return samba_parameter(b->graph, name, SAMBA_FLOAT32, rank, shape, initializer_of(b, start));
}

samba_value samba_lm_linear(samba_lm_build *b, samba_value x, const char *name, int64_t out_features, bool bias)
{
    const samba_initializer weight = initializer_of(b, NAN), offset = initializer_of(b, 0);
    return samba_linear_with(
        x, name, out_features,
        &(samba_linear_options){
            .no_bias = !bias, .weight = &weight, .bias = &offset, .transposed = b->m->transposed && b->inside});
}

samba_value samba_lm_normalize(samba_lm_build *b, samba_value x, const char *name, const samba_lm_norm *norm)
{
    const int64_t size = samba_value_size(x, -1);
    samba_value weight = {0}, bias = {0}, y;
    if (!name)
        return x;
    samba_lm_enter(b, name);
    if (!norm->no_weight)
        weight = samba_lm_parameter(b, "weight", 1, &size, norm->plus_one ? 0 : 1);
    if (norm->plus_one)
        weight = samba_add_scalar(weight, 1);
    if (!norm->rms && !norm->no_weight && !norm->no_bias)
        bias = samba_lm_parameter(b, "bias", 1, &size, 0);
    y = norm->rms ? samba_functional_rms_norm(x, 1, &size, weight, norm->eps)
                  : samba_functional_layer_norm(x, 1, &size, weight, bias, norm->eps);
    samba_lm_leave(b, name);
    return y;
}

samba_value samba_lm_drop(samba_lm_build *b, samba_value x, const char *name, double p)
{
    return p > 0 && !b->options.no_dropout ? samba_dropout(x, name, p) : x;
}

samba_value samba_lm_cap(samba_value x, double cap)
{
    return cap > 0 ? samba_mul_scalar(samba_tanh(samba_mul_scalar(x, 1 / cap)), cap) : x;
}

static samba_value activate(samba_value x, samba_lm_activation activation)
{
    switch (activation) {
    case SAMBA_LM_GELU: return samba_gelu(x);
    case SAMBA_LM_GELU_TANH: return samba_gelu_tanh(x);
    case SAMBA_LM_SILU: return samba_silu(x);
    case SAMBA_LM_RELU: return samba_relu(x);
    default: return samba_tanh(x);
    }
}

samba_value samba_lm_mlp(samba_lm_build *b, samba_value x)
{
    const samba_lm_shape *m = b->m;
    const samba_lm_names *n = &m->names;
    const int64_t inner = m->intermediate_size;
    samba_value y;
    samba_lm_enter(b, n->mlp);
    if (n->gate_up) {
        samba_value both = samba_lm_linear(b, x, n->gate_up, 2 * inner, m->mlp_bias), parts[2];
        samba_split(both, inner, -1, 2, parts);
        y = samba_mul(activate(parts[0], m->activation), parts[1]);
    } else if (n->gate) {
        samba_value gate = activate(samba_lm_linear(b, x, n->gate, inner, m->mlp_bias), m->activation);
        y = samba_mul(gate, samba_lm_linear(b, x, n->up, inner, m->mlp_bias));
    } else
        y = activate(samba_lm_linear(b, x, n->up, inner, m->mlp_bias), m->activation);
    y = samba_lm_linear(b, y, n->down, m->hidden_size, m->mlp_bias);
    samba_lm_leave(b, n->mlp);
    return y;
}
