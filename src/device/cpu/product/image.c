/* SPDX-License-Identifier: Apache-2.0
 *
 * What is a convolution: see image.h. */
#include "device/cpu/product/image.h"

static bool describe_axis(const samba_contract *c, int dim, samba_image_axis *a, bool *is_tap)
{
    const samba_factor *b = &c->b;
    *a = (samba_image_axis){.size = dim < 0 ? 1 : c->n[dim], .taps = 1, .own = 1, .tap = -1};
    a->limit = a->size;
    a->memory = dim < 0 ? 0 : b->own[dim];
    for (int w = 0; w < b->window_count && dim >= 0; w++) {
        const samba_window *window = &b->windows[w];
        if (window->own[dim] == 0)
            continue;
        if (a->tap >= 0 || a->memory != 0 || window->dilation != 1 || window->own[dim] < 0)
            return false;
        a->memory = window->stride;
        a->base = window->base;
        a->own = window->own[dim];
        a->limit = window->limit;
        for (int i = 0; i < c->k_rank; i++)
            if (window->inner[i] != 0) {
                if (a->tap >= 0 || is_tap[i] || b->inner[i] != 0)
                    return false;
                a->tap = i;
                a->taps = c->k[i];
                a->tap_step = window->inner[i];
                is_tap[i] = true;
            }
    }
    return true;
}

static bool recognize(const samba_contract_problem *problem, samba_dtype dtype, samba_image_axis *y, samba_image_axis *x)
{
    const samba_contract *c = &problem->contract;
    const samba_factor *b = &c->b;
    bool is_tap[SAMBA_CONTRACT_RANK] = {false};
    if (c->class_ != SAMBA_F32 || (samba_dtype)c->a.dtype != dtype || (samba_dtype)b->dtype != dtype || c->a.window_count ||
        c->m_rank != 1 || c->n_rank > 2 || c->batch_rank > 1 || (c->batch_rank == 1 && c->a.batch[0] != 0) || problem->k == 0)
        return false;
    for (int w = 0; w < b->window_count; w++) {
        int dims = 0;
        for (int i = 0; i < c->n_rank; i++)
            dims += b->windows[w].own[i] != 0;
        if (dims != 1)
            return false;
    }
    return describe_axis(c, c->n_rank == 2 ? 0 : -1, y, is_tap) && describe_axis(c, c->n_rank - 1, x, is_tap);
}

bool samba_image_recognize(const samba_contract_problem *problem, samba_image_axis *y, samba_image_axis *x)
{
    return recognize(problem, SAMBA_FLOAT32, y, x);
}

bool samba_image_recognize_pairs(const samba_contract_problem *problem, samba_image_axis *y, samba_image_axis *x, int *channel)
{
    const samba_contract *c = &problem->contract;
    if (!problem->machine->pairs || !recognize(problem, SAMBA_BFLOAT16, y, x) || x->memory != 1)
        return false;
    *channel = -1;
    for (int i = 0; i < c->k_rank; i++) {
        bool tap = i == y->tap || i == x->tap;
        if (!tap && *channel >= 0)
            return false; /* of several dims, where pairs have no one stride */
        *channel = tap ? *channel : i;
    }
    return *channel >= 0 && c->k[*channel] > 1;
}

int64_t samba_image_offset(const samba_contract *contract, int64_t image)
{
    return image * (contract->batch_rank ? contract->b.batch[0] : 0);
}
