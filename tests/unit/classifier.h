/* SPDX-License-Identifier: Apache-2.0
 *
 * A classifier with or without dropout, its samples and its runs: what tests of schedules train; all is kept (training.h). */
#ifndef CLASSIFIER_H
#define CLASSIFIER_H

#include "training.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

/* ---- a classifier of 24 samples, or of a part of them ---- */
enum { SAMPLES = 24, PIXELS = 19, CLASSES = 7 };
typedef struct settings {
    double p; /* of dropout; < 0: none */
} settings;
__attribute__((unused)) static const settings plain = {-1}, dropping = {0.3};

static inline void classifier(samba_graph *g, const void *options)
{
    const settings *s = options;
    samba_value hidden = samba_gelu(samba_linear(samba_input(g, "image"), "fc1", 33));
    if (s->p >= 0)
        hidden = samba_dropout(hidden, "drop1", s->p);
    hidden = samba_add(hidden, samba_relu(samba_linear(samba_layer_norm(hidden, "norm"), "fc2", 33)));
    if (s->p >= 0)
        hidden = samba_dropout(hidden, "drop2", s->p);
    samba_value scale = samba_parameter(g, "scale", SAMBA_FLOAT32, 0, NULL, (samba_initializer){SAMBA_INIT_CONSTANT, 1.5, 0});
    samba_value logits = samba_mul(samba_linear(hidden, "fc3", CLASSES), scale);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

typedef struct batch {
    samba_tensor *inputs[2];
} batch;

static inline batch batch_new(int64_t samples)
{
    batch b = {{kept(normal("image", SAMBA_FLOAT32, 2, SHAPE(samples, PIXELS), 8)),
                kept(tensor("label", SAMBA_INT64, 1, SHAPE(samples)))}};
    need(samba_fill_integers(b.inputs[1], 9, 0, CLASSES));
    return b;
}

static inline batch batch_part(const batch *whole, int64_t from, int64_t to)
{
    batch b;
    for (int i = 0; i < 2; i++) {
        need(samba_tensor_slice(whole->inputs[i], 0, from, to, 1, &b.inputs[i]));
        kept(b.inputs[i]);
    }
    return b;
}

static inline const samba_optimizer *adamw(void)
{
    static samba_optimizer o;
    o = samba_adamw(0.01);
    o.max_grad_norm = 0.5;
    return &o;
}

static inline samba_compile_options classifier_options(const settings *s, const batch *b, const samba_optimizer *optimizer)
{
    return training_of("classifier", classifier, s, 2, b->inputs, optimizer);
}

static inline samba_session *classifier_new(const settings *s, const batch *b, int accumulation, int threads, uint64_t seed)
{
    samba_compile_options options = classifier_options(s, b, adamw());
    options.grad_accumulation_steps = accumulation;
    return open_kept(&options, threads, seed);
}

static inline void run(samba_session *session, const batch *b)
{
    samba_run_options r = giving(2, b->inputs);
    need(samba_run(session, &r));
}

static inline void set_inputs(samba_session *session, const batch *b)
{
    for (int i = 0; i < 2; i++)
        need(samba_session_set(session, b->inputs[i]));
}

#endif
