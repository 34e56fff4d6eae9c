/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses by name, of an output and a label that becomes an input: "cross_entropy:logits,label". Each is PyTorch's function of
 * that name with its defaults; token_cross_entropy is that of logits (..., classes) and labels of the dims before, as language
 * models have them. "output:loss" is an output of the model that is a loss by itself. */
#include "cli/cli.h"

#include <sambaflow/loss.h>
#include <sambaflow/shape.h>
#include <string.h>

enum { OUTPUT, CROSS_ENTROPY, TOKEN_CROSS_ENTROPY, NLL, MSE, L1, SMOOTH_L1, HUBER, BCE, BCE_WITH_LOGITS };
static const char *const kinds[] = {"output", "cross_entropy", "token_cross_entropy", "nll", "mse", "l1", "smooth_l1",
                                    "huber",  "bce",           "bce_with_logits"};
#define KINDS "output, cross_entropy, token_cross_entropy, nll, mse, l1, smooth_l1, huber, bce or bce_with_logits"

static bool take_name(char name[SAMBA_CLI_NAME], const char *text, size_t length)
{
    if (length == 0 || length >= SAMBA_CLI_NAME)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    return true;
}

samba_status samba_cli_loss_take(samba_context *context, const char *text, samba_cli_loss *loss)
{
    const char *colon = strchr(text, ':'), *comma = colon ? strchr(colon, ',') : NULL;
    if (strncmp(text, "output:", 7) == 0 && !comma) {
        loss->kind = OUTPUT;
        if (take_name(loss->output, text + 7, strlen(text + 7)))
            return SAMBA_OK;
    }
    if (!comma || !take_name(loss->output, colon + 1, (size_t)(comma - colon - 1)) ||
        !take_name(loss->label, comma + 1, strlen(comma + 1)))
        return samba_fail(context, SAMBA_ERROR_ARGUMENT,
                          "--loss: expected KIND:OUTPUT,LABEL, as cross_entropy:logits,label, given '%s'", text);
    for (loss->kind = 0; loss->kind < SAMBA_COUNT(kinds); loss->kind++)
        if (strlen(kinds[loss->kind]) == (size_t)(colon - text) && strncmp(kinds[loss->kind], text, (size_t)(colon - text)) == 0)
            return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_ARGUMENT, "--loss: '%.*s' is no loss: expected " KINDS, (int)(colon - text), text);
}

samba_status samba_cli_loss_label(samba_context *context, const samba_cli_loss *loss, samba_dtype dtype, int rank,
                                  const int64_t *shape, samba_app_input *label)
{
    *label = (samba_app_input){.name = loss->label, .dtype = dtype, .rank = rank};
    memcpy(label->shape, shape, (size_t)rank * sizeof *shape);
    if (loss->kind > NLL)
        return SAMBA_OK;
    int classes = loss->kind == TOKEN_CROSS_ENTROPY ? rank - 1 : 1;
    if (rank < 2)
        return samba_fail(context, SAMBA_ERROR_SHAPE, "--loss %s: output '%s' has shape %s, (batch, classes, ...) is expected",
                          kinds[loss->kind], loss->output, SAMBA_SHAPE(rank, shape));
    label->dtype = SAMBA_INT64;
    label->classes = shape[classes];
    label->rank = rank - 1;
    for (int i = classes; i < rank - 1; i++)
        label->shape[i] = shape[i + 1];
    return SAMBA_OK;
}

samba_value samba_cli_loss_of(const samba_cli_loss *loss, samba_value output, samba_value label)
{
    const samba_value none = {NULL, 0, 0};
    switch (loss->kind) {
    case OUTPUT: return output;
    case CROSS_ENTROPY: return samba_cross_entropy(output, label);
    case TOKEN_CROSS_ENTROPY: {
        const int64_t rows[2] = {-1, samba_value_size(output, -1)}, all = -1;
        samba_value logits = samba_reshape(output, 2, rows), line = samba_reshape(label, 1, &all);
        return samba_cross_entropy(logits, line);
    }
    case NLL: return samba_nll_loss(output, label, NULL);
    case MSE: return samba_mse_loss(output, label, none, SAMBA_MEAN);
    case L1: return samba_l1_loss(output, label, none, SAMBA_MEAN);
    case SMOOTH_L1: return samba_smooth_l1_loss(output, label, 1, SAMBA_MEAN);
    case HUBER: return samba_huber_loss(output, label, 1, none, SAMBA_MEAN);
    case BCE: return samba_binary_cross_entropy(output, label, none, SAMBA_MEAN);
    default: return samba_binary_cross_entropy_with_logits(output, label, none, none, SAMBA_MEAN);
    }
}
