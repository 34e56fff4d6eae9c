/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of an image as columns (unfold) and back (fold): each tap of the kernel is a strided slice of the padded image, or such
 * a slice's gradient. Nothing is multiplied, so infinities stay where they are. */
#include "trace/trace.h"

#include <sambaflow/conv.h>

typedef struct windows { /* height, width */
    int64_t kernel[2], dilation[2], padding[2], stride[2];
    int64_t padded[2], count[2]; /* of the padded image; of the windows */
} windows;

static const samba_unfold_options defaults;

/* The windows of an image, or the error sticks. */
static bool count_windows(samba_graph *graph, const char *what, const int64_t *image, const int64_t *kernel,
                          const samba_unfold_options *o, windows *w)
{
    bool fits = kernel != NULL;
    for (int i = 0; fits && i < 2; i++) {
        int64_t reach = 0;
        w->kernel[i] = kernel[i];
        w->dilation[i] = o->dilation[i] ? o->dilation[i] : 1;
        w->padding[i] = o->padding[i];
        w->stride[i] = o->stride[i] ? o->stride[i] : 1;
        fits = kernel[i] >= 1 && w->dilation[i] >= 1 && w->stride[i] >= 1 && w->padding[i] >= 0 &&
               samba_mul_checked(2, w->padding[i], &w->padded[i]) && samba_add_checked(image[i], w->padded[i], &w->padded[i]) &&
               samba_mul_checked(w->dilation[i], kernel[i] - 1, &reach) && reach < w->padded[i];
        w->count[i] = fits ? (w->padded[i] - reach - 1) / w->stride[i] + 1 : 0;
    }
    if (fits && w->kernel[0] <= SAMBA_MAX_ARITY && w->kernel[0] * w->kernel[1] <= SAMBA_MAX_ARITY)
        return true;
    return samba_graph_refuse(
        graph, SAMBA_ERROR_ARGUMENT, what,
        "expected a kernel of 1 to %d elements, dilation and stride of 1 or more, padding of 0 or more and a window that fits "
        "the image, given "
        "kernel (%lld, %lld), dilation (%lld, %lld), padding (%lld, %lld), stride (%lld, %lld), and an image (%lld, %lld)",
        SAMBA_MAX_ARITY, (long long)(kernel ? kernel[0] : 0), (long long)(kernel ? kernel[1] : 0), (long long)o->dilation[0],
        (long long)o->dilation[1], (long long)o->padding[0], (long long)o->padding[1], (long long)o->stride[0],
        (long long)o->stride[1], (long long)image[0], (long long)image[1]);
}

/* (N, C, height, width) with `before` and `after` elements around it, and `interior` between neighbours. */
static samba_ref pad(samba_graph *graph, samba_ref a, const int64_t *before, const int64_t *after, const int64_t *interior)
{
    samba_attrs attrs = {.pad = {.before = {.count = 4, .at = {0, 0, before[0], before[1]}},
                                 .after = {.count = 4, .at = {0, 0, after[0], after[1]}},
                                 .interior = {.count = 4, .at = {0, 0, interior[0], interior[1]}}}};
    return samba_emit(graph, SAMBA_OP_pad, 1, &a, &attrs);
}

static samba_ref slice(samba_graph *graph, samba_ref a, const int64_t *start, const int64_t *stop, const int64_t *step)
{
    if (a == SAMBA_NONE)
        return a;
    samba_node node = *samba_node_at(graph, a);
    samba_attrs attrs = {.slice = {.start = {.count = 4, .at = {0, 0, start[0], start[1]}},
                                   .stop = {.count = 4, .at = {node.shape[0], node.shape[1], stop[0], stop[1]}},
                                   .step = {.count = 4, .at = {1, 1, step[0], step[1]}}}};
    return samba_emit(graph, SAMBA_OP_slice, 1, &a, &attrs);
}

samba_value samba_unfold(samba_value input, const int64_t kernel[2], const samba_unfold_options *options)
{
    static const int64_t none[2] = {0, 0};
    samba_graph *graph;
    windows w;
    if (!samba_trace_enter("unfold", 1, &input, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    if (x.rank != 3 && x.rank != 4)
        return samba_trace_fail(graph, SAMBA_ERROR_SHAPE, "unfold", "expected an input (N, C, H, W) or (C, H, W), given %s",
                                SAMBA_TYPE_OF(&x));
    const int64_t *image = x.shape + x.rank - 2, images = x.rank == 4 ? x.shape[0] : 1, channels = x.shape[x.rank - 3];
    if (!count_windows(graph, "unfold", image, kernel, options ? options : &defaults, &w))
        return samba_trace_none(graph);
    samba_ref a = samba_emit_reshape(graph, input.index, 4, (int64_t[]){images, channels, image[0], image[1]});
    if (w.padding[0] || w.padding[1])
        a = pad(graph, a, w.padding, w.padding, none);
    samba_ref parts[SAMBA_MAX_ARITY];
    int count = 0;
    for (int64_t i = 0; i < w.kernel[0]; i++)
        for (int64_t j = 0; j < w.kernel[1]; j++) {
            int64_t start[2] = {i * w.dilation[0], j * w.dilation[1]};
            int64_t stop[2] = {start[0] + (w.count[0] - 1) * w.stride[0] + 1, start[1] + (w.count[1] - 1) * w.stride[1] + 1};
            parts[count++] = samba_emit_reshape(graph, slice(graph, a, start, stop, w.stride), 5,
                                                (int64_t[]){images, channels, 1, w.count[0], w.count[1]});
        }
    samba_attrs attrs = {.axis = {.dim = 2}};
    samba_ref columns = count == 1 ? parts[0] : samba_emit(graph, SAMBA_OP_concat, count, parts, &attrs);
    int64_t shape[3] = {images, channels * count, w.count[0] * w.count[1]};
    return samba_trace_value(graph, samba_emit_reshape(graph, columns, x.rank - 1, x.rank == 4 ? shape : shape + 1));
}

samba_value samba_fold(samba_value input, const int64_t output_size[2], const int64_t kernel[2],
                       const samba_unfold_options *options)
{
    static const int64_t one[2] = {1, 1};
    samba_graph *graph;
    windows w;
    if (!samba_trace_enter("fold", 1, &input, &graph))
        return samba_trace_none(graph);
    samba_node x = samba_trace_node(input);
    static const int64_t unknown[2] = {0, 0};
    if (!count_windows(graph, "fold", output_size ? output_size : unknown, kernel, options ? options : &defaults, &w))
        return samba_trace_none(graph);
    int64_t taps = w.kernel[0] * w.kernel[1], all = w.count[0] * w.count[1];
    if ((x.rank != 2 && x.rank != 3) || x.shape[x.rank - 2] % taps != 0 || x.shape[x.rank - 1] != all)
        return samba_trace_fail(
            graph, SAMBA_ERROR_SHAPE, "fold",
            "expected (N, C * %lld, %lld) or without N, for %lld elements of the kernel and %lld windows, given %s",
            (long long)taps, (long long)all, (long long)taps, (long long)all, SAMBA_TYPE_OF(&x));
    int64_t images = x.rank == 3 ? x.shape[0] : 1, channels = x.shape[x.rank - 2] / taps;
    samba_dtype dtype = x.dtype, wide = dtype == SAMBA_BFLOAT16 || dtype == SAMBA_FLOAT16 ? SAMBA_FLOAT32 : dtype;
    samba_ref columns =
        samba_emit_reshape(graph, samba_emit_cast(graph, input.index, wide), 4, (int64_t[]){images, channels, taps, all});
    samba_ref sum = SAMBA_NONE;
    for (int64_t i = 0; i < taps; i++) {
        int64_t at[2] = {i / w.kernel[1] * w.dilation[0], i % w.kernel[1] * w.dilation[1]}, between[2], after[2];
        for (int d = 0; d < 2; d++) {
            between[d] = w.stride[d] - 1;
            after[d] = w.padded[d] - at[d] - (w.count[d] - 1) * w.stride[d] - 1;
        }
        samba_ref part = slice(graph, columns, (int64_t[]){i, 0}, (int64_t[]){i + 1, all}, one);
        part = samba_emit_reshape(graph, part, 4, (int64_t[]){images, channels, w.count[0], w.count[1]});
        part = pad(graph, part, at, after, between);
        sum = i == 0 ? part : samba_emit2(graph, SAMBA_OP_add, sum, part);
    }
    int64_t stop[2] = {w.padding[0] + output_size[0], w.padding[1] + output_size[1]},
            shape[4] = {images, channels, output_size[0], output_size[1]};
    if (w.padding[0] || w.padding[1])
        sum = slice(graph, sum, w.padding, stop, one);
    sum = samba_emit_cast(graph, sum, dtype);
    return samba_trace_value(graph, samba_emit_reshape(graph, sum, x.rank + 1, x.rank == 3 ? shape : shape + 1));
}
