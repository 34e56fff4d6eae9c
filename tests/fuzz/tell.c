/* SPDX-License-Identifier: Apache-2.0
 *
 * What was drawn, so that what never was is seen. */
#include "fuzz.h"

fuzz_counts fuzz_count;

static void operators(const char *title, samba_op_class class_)
{
    printf("%s:", title);
    for (int op = 0; op < SAMBA_OP_COUNT; op++)
        if (samba_ops[op].class_ == class_)
            printf(" %s %lld", samba_ops[op].name, (long long)fuzz_count.operators[op]);
    printf("\n");
}

static double percent(int64_t part, int64_t all) { return all > 0 ? 100.0 * (double)part / (double)all : 0; }

/* A layer stands in the list as often as it is likelier than others. */
static int64_t layer(int index, int made)
{
    int64_t sum = 0;
    for (int i = 0; i < fuzz_layer_count; i++)
        sum += strcmp(fuzz_layer_name(i), fuzz_layer_name(index)) == 0 ? fuzz_count.layers[i][made] : 0;
    return sum;
}

static bool is_first(int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(fuzz_layer_name(i), fuzz_layer_name(index)) == 0)
            return false;
    return true;
}

void fuzz_tell(void)
{
    const fuzz_counts *c = &fuzz_count;
    operators("composites", SAMBA_COMPOSITE);
    operators("kernels", SAMBA_KERNEL);
    operators("contractions", SAMBA_CONTRACT);
    operators("views", SAMBA_VIEW);
    operators("moves", SAMBA_MOVE);
    operators("reductions", SAMBA_REDUCE_CLASS);
    printf("layers and functions:");
    for (int i = 0; i < fuzz_layer_count; i++)
        if (is_first(i))
            printf(" %s %lld", fuzz_layer_name(i), (long long)layer(i, 1));
    printf("\nreshapes: flatten %lld squeeze %lld unsqueeze %lld; chains of views:", (long long)c->flatten, (long long)c->squeeze,
           (long long)c->unsqueeze);
    for (int i = 1; i < SAMBA_COUNT(c->chains); i++)
        if (c->chains[i] > 0)
            printf(" %d: %lld", i, (long long)c->chains[i]);
    printf("\ndims of 1: %lld (%.0f %%); values with a leading 1: %lld (%.0f %%); graphs of batch 1: %lld, of many dims of 1: "
           "%lld\n",
           (long long)c->ones, percent(c->ones, c->dims), (long long)c->leading_ones, percent(c->leading_ones, c->ranked),
           (long long)c->batches_of_one, (long long)c->many_ones);
    printf("buffers: %lld, assigned: %lld\n", (long long)c->buffers, (long long)c->assigned);
    printf("directions compared with differences: %lld (%lld without a slope), left out at kinks: %lld\n",
           (long long)c->directions, (long long)c->flat, (long long)c->skipped);
    printf("compiled for training: %lld graphs, %lld parameters, %lld runs; %lld accumulate, %lld spatial, %lld in a memory "
           "budget, %lld in small fast memory\n",
           (long long)c->trained, (long long)c->parameters, (long long)c->runs, (long long)c->accumulated, (long long)c->spatial,
           (long long)c->budgets, (long long)c->small_memory);
    printf("ONNX models written and read again: %lld, refused: %lld\n", (long long)c->onnx, (long long)c->onnx_refused);
    printf("never drawn (gradients make the rest):");
    for (int op = 0; op < SAMBA_OP_COUNT; op++)
        if (c->operators[op] == 0 && samba_ops[op].class_ != SAMBA_LEAF && !strstr(samba_ops[op].name, "_grad") &&
            op != SAMBA_OP_attention_lse && op != SAMBA_OP_custom_gradient && op != SAMBA_OP_grad_output)
            printf(" %s", samba_ops[op].name);
    for (int i = 0; i < fuzz_layer_count; i++)
        if (is_first(i) && layer(i, 1) == 0)
            printf(" %s (layer, left out %lld times)", fuzz_layer_name(i), (long long)layer(i, 0));
    printf("\n");
}
