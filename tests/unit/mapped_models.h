/* SPDX-License-Identifier: Apache-2.0
 *
 * Three models of some modules each, for tests of sections and schedules: a classifier with dropout, AdamW and clipped gradients;
 * a network of convolutions with batch normalization, whose FWD changes statistics; a model of tokens, whose logits are computed
 * by rows, so that FWD has a part that BCKWD makes again. `mapped_options` compiles one; the caller frees the inputs.
 * Include after training.h. */
#ifndef SAMBA_TEST_MAPPED_MODELS_H
#define SAMBA_TEST_MAPPED_MODELS_H

#include "base/base.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

enum { MAPPED_MODELS = 3, MAPPED_CLASSES = 130, MAPPED_CHUNK = 64 }; /* of the tokens, of which two chunks and two are given */

MODEL(mapped_dense)
{
    samba_value x = samba_input(g, "x");
    for (int i = 0; i < 4; i++) {
        char name[24];
        snprintf(name, sizeof name, "block%d", i);
        samba_scope_push(g, name);
        if (i == 1)
            samba_op_fusion_push(g, "kept");
        samba_value hidden = samba_gelu(samba_linear(x, "fc1", 24));
        if (i == 1)
            samba_op_fusion_pop(g);
        x = samba_layer_norm(samba_linear(samba_dropout(hidden, "drop", 0.2), "fc2", 16), "norm");
        samba_scope_pop(g);
    }
    samba_value logits = samba_linear(x, "head", 5);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

MODEL(mapped_images)
{
    samba_value x = samba_reshape(samba_input(g, "x"), 4, SHAPE(-1, 1, 4, 4));
    for (int i = 0; i < 2; i++) {
        samba_scope_push(g, i ? "second" : "first");
        x = samba_relu(samba_batch_norm(samba_conv2d(x, "conv", 4 + 2 * i, SHAPE(3, 3), NULL), "norm", NULL));
        samba_scope_pop(g);
        if (i == 0)
            x = samba_pad(x, 2, SHAPE(1, 1, 1, 1), SAMBA_PAD_CONSTANT, 0);
    }
    samba_value logits = samba_linear(samba_flatten(x, 1, -1), "head", 5);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "label")));
}

MODEL(mapped_tokens)
{
    samba_value x = samba_embedding(samba_input(g, "label"), "tokens", MAPPED_CLASSES, 16);
    x = samba_dropout(samba_layer_norm(samba_relu(samba_linear(samba_add(x, samba_input(g, "x")), "mix", 16)), "norm"), "drop",
                      0.1);
    samba_loss(g, "loss", samba_cross_entropy(samba_linear(x, "head", MAPPED_CLASSES), samba_input(g, "label")));
}

static void mapped_inputs(int model, samba_tensor **inputs)
{
    int64_t samples = model == 2 ? 2 * MAPPED_CHUNK + 2 : 12;
    inputs[0] = normal("x", SAMBA_FLOAT32, 2, SHAPE(samples, 16), 3);
    inputs[1] = tensor("label", SAMBA_INT64, 1, SHAPE(samples));
    need(samba_fill_integers(inputs[1], 4, 0, model == 2 ? MAPPED_CLASSES : 5));
}

static samba_compile_options mapped_options(int model, samba_tensor **inputs, int accumulation, int64_t fast_memory,
                                            samba_mapping mapping)
{
    static const samba_model models[MAPPED_MODELS] = {mapped_dense, mapped_images, mapped_tokens};
    static const char *const names[MAPPED_MODELS] = {"dense", "images", "tokens"};
    static samba_optimizer optimizer;
    optimizer = model == 1 ? samba_sgd(0.1) : samba_adamw(0.01);
    optimizer.momentum = model == 1 ? 0.9 : 0;
    optimizer.max_grad_norm = model == 1 ? 0 : 0.5;
    samba_compile_options options = training_of(names[model], models[model], NULL, 2, inputs, &optimizer);
    options.grad_accumulation_steps = accumulation;
    options.chunk_bytes = model == 2 ? MAPPED_CHUNK * MAPPED_CLASSES * 4 : 0;
    options.fast_memory = fast_memory;
    options.mapping = mapping;
    return options;
}

/* The least fast memory that the model can have, as the refusal of less says. */
static inline int64_t mapped_least(int model, samba_tensor **inputs, int accumulation)
{
    samba_compile_options options = mapped_options(model, inputs, accumulation, 1, SAMBA_MAPPING_SECTION);
    refuse(samba_compile(context, &options, NULL, 0), SAMBA_ERROR_ARGUMENT, "fast memory of 1 byte cannot hold stage 0");
    const char *needs = strstr(samba_error_message(context), "needs ");
    assert_non_null(needs);
    return strtoll(needs + strlen("needs "), NULL, 10);
}

#endif
