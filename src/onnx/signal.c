/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals: windows, and Fourier transforms as products with matrices of cosines and sines, which are constants. */
#include "onnx/lists.h"

#include <sambaflow/elementwise.h>
#include <sambaflow/linalg.h>
#include <sambaflow/shape.h>
#include <math.h>
#include <string.h>

#define T(name) SAMBA__ONNX__TENSOR_PROTO__DATA_TYPE__##name
#define PI 3.14159265358979323846

/* ---- constants of known sizes ---- */

static double *room_for(samba_onnx_node *node, int64_t count)
{
    double *values = NULL;
    if (count < 0 || count > (int64_t)1 << 24)
        samba_onnx_refuse(node, "a result of %lld elements is not supported", (long long)count);
    else if (samba_onnx_afford(node, 8 * (double)count, 4 * (double)count) &&
             SAMBA_ROOM(&node->reader->arena, values, count + 1) != SAMBA_OK)
        samba_onnx_refuse(node, "%s", samba_error_message(node->reader->context));
    return values;
}

static samba_dtype said_dtype(samba_onnx_node *node)
{
    int32_t type = (int32_t)samba_onnx_int(node, "output_datatype", T(FLOAT));
    samba_dtype dtype = samba_onnx_dtype(type);
    if (dtype == SAMBA_DTYPE_COUNT)
        samba_onnx_refuse(node, "%s is no dtype that SambaFlow has", samba_onnx_type_name(type));
    return dtype;
}

/* a - b cos(2 pi n / N) + c cos(4 pi n / N), N the size, or one less where the window is not periodic. */
static void window(samba_onnx_node *node, double a, double b, double c)
{
    int64_t size = samba_onnx_known_int(node, 0, "the size", 0);
    bool periodic = samba_onnx_flag(node, "periodic", true);
    samba_dtype dtype = said_dtype(node);
    double *values = node->refused ? NULL : room_for(node, size);
    if (node->refused)
        return;
    double length = (double)(periodic ? size : size - 1);
    for (int64_t i = 0; i < size; i++) {
        double angle = length > 0 ? 2 * PI * (double)i / length : 0;
        values[i] = a - b * cos(angle) + c * cos(2 * angle);
    }
    samba_onnx_out(node, 0, samba_onnx_doubles_value(node, dtype, 1, &size, values));
}

void samba_onnx_hann_window(samba_onnx_node *node);
void samba_onnx_hann_window(samba_onnx_node *node) { window(node, 0.5, 0.5, 0); }
void samba_onnx_hamming_window(samba_onnx_node *node);
void samba_onnx_hamming_window(samba_onnx_node *node) { window(node, 25.0 / 46, 21.0 / 46, 0); }
void samba_onnx_blackman_window(samba_onnx_node *node);
void samba_onnx_blackman_window(samba_onnx_node *node) { window(node, 0.42, 0.5, 0.08); }

/* Triangles over the bins of a spectrum, whose corners are even steps of the mel scale. */
void samba_onnx_mel_weight_matrix(samba_onnx_node *node);
void samba_onnx_mel_weight_matrix(samba_onnx_node *node)
{
    int64_t bins = samba_onnx_known_int(node, 0, "num_mel_bins", 0), length = samba_onnx_known_int(node, 1, "dft_length", 0);
    int64_t rate = samba_onnx_known_int(node, 2, "sample_rate", 0);
    double lower = samba_onnx_known_double(node, 3, "lower_edge_hertz", 0),
           upper = samba_onnx_known_double(node, 4, "upper_edge_hertz", 0);
    samba_dtype dtype = said_dtype(node);
    int64_t rows = length / 2 + 1;
    if (!node->refused && (bins < 1 || bins > 1 << 16 || length < 1 || length > 1 << 24 || rate < 1))
        samba_onnx_refuse(node, "%lld bins of a transform of %lld samples are not supported", (long long)bins, (long long)length);
    double *values = node->refused ? NULL : room_for(node, rows * bins);
    if (node->refused)
        return;
    double low = 2595 * log10(1 + lower / 700), high = 2595 * log10(1 + upper / 700), step = (high - low) / (double)(bins + 2);
    for (int64_t i = 0; i < bins; i++) {
        int64_t corner[3];
        for (int k = 0; k < 3; k++) {
            double hertz = 700 * (pow(10, (low + step * (double)(i + k)) / 2595) - 1);
            double place = floor((double)(length + 1) * hertz / (double)rate);
            corner[k] = samba_double_to_int64(place);
            if (!(place >= 0 && place < (double)rows)) { /* nor NaN */
                samba_onnx_refuse(node, "its edges lie beyond the spectrum's %lld bins", (long long)rows);
                return;
            }
        }
        int64_t rise = corner[1] - corner[0], fall = corner[2] - corner[1];
        if (rise == 0)
            values[corner[1] * bins + i] = 1;
        for (int64_t j = corner[0]; rise > 0 && j <= corner[1]; j++)
            values[j * bins + i] = (double)(j - corner[0]) / (double)rise;
        for (int64_t j = corner[1]; j < corner[2]; j++)
            values[j * bins + i] = (double)(corner[2] - j) / (double)fall;
    }
    const int64_t shape[2] = {rows, bins};
    samba_onnx_out(node, 0, samba_onnx_doubles_value(node, dtype, 2, shape, values));
}

/* ---- Fourier transforms ---- */

/* factor[row] times the cosine or sine of 2 pi row column / length. */
static samba_value waves(samba_onnx_node *node, samba_dtype dtype, int64_t rows, int64_t columns, int64_t length, bool sine,
                         const double *factor)
{
    const int64_t shape[2] = {rows, columns};
    double *values = room_for(node, rows * columns);
    if (!values)
        return (samba_value){NULL, 0, 0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double angle = 2 * PI * (double)(i * j % length) / (double)length;
            values[i * columns + j] = (factor ? factor[i] : 1) * (sine ? sin(angle) : cos(angle));
        }
    return samba_onnx_doubles_value(node, dtype, 2, shape, values);
}

typedef struct transform {
    int64_t size, length, out; /* samples that count, samples with zeros behind them, frequencies that are wanted */
    bool inverse, half;        /* half: of a signal of real numbers the frequencies above the middle are known from those below */
} transform;

/* Of the last dim of real and imaginary (zeroed: 0) parts; the imaginary result is zeroed where it is not wanted. */
static samba_value transform_parts(samba_onnx_node *node, const transform *t, samba_value real, samba_value imaginary,
                                   samba_value *result_imaginary)
{
    samba_dtype dtype = samba_value_dtype(real);
    samba_value none = {NULL, 0, 0};
    double *factor = room_for(node, t->size), scale = t->inverse ? 1 / (double)t->length : 1;
    *result_imaginary = none;
    if (!factor)
        return none;
    for (int64_t i = 0; i < t->size; i++) {
        factor[i] = scale;
        if (t->inverse && t->half && i > 0 && 2 * i != t->length)
            factor[i] *= 2; /* and its twin above the middle */
    }
    samba_value cosine = waves(node, dtype, t->size, t->out, t->length, false, factor);
    samba_value sine = waves(node, dtype, t->size, t->out, t->length, true, factor);
    if (node->refused)
        return none;
    samba_value y = samba_matmul(real, cosine), z = samba_matmul(real, sine);
    if (imaginary.graph) { /* (real + i imaginary) (cos -+ i sin) */
        samba_value crossed = samba_matmul(imaginary, sine);
        y = t->inverse ? samba_sub(y, crossed) : samba_add(y, crossed);
    }
    if (t->inverse && t->half)
        return y;
    z = t->inverse ? z : samba_neg(z);
    if (imaginary.graph) {
        samba_value straight = samba_matmul(imaginary, cosine);
        z = samba_add(z, straight);
    }
    *result_imaginary = z;
    return y;
}

/* (..., n, 1 or 2) as parts (..., n), and parts as (..., n, 1 or 2). */
static void split_parts(samba_value a, samba_value *real, samba_value *imaginary)
{
    *real = samba_select(a, -1, 0);
    if (samba_value_size(a, -1) == 2)
        *imaginary = samba_select(a, -1, 1);
}
static samba_value join_parts(samba_value real, samba_value imaginary)
{
    const samba_value parts[2] = {real, imaginary};
    return samba_stack(imaginary.graph ? 2 : 1, parts, -1);
}

static bool is_signal(samba_onnx_node *node, samba_value a)
{
    int rank = samba_value_rank(a);
    if (node->refused)
        return false;
    if (rank < 2 || (samba_value_size(a, -1) != 1 && samba_value_size(a, -1) != 2) ||
        !samba_dtype_is_floating_point(samba_value_dtype(a))) {
        samba_onnx_refuse(node, "real numbers (..., samples, 1) or complex ones (..., samples, 2) are expected");
        return false;
    }
    return true;
}

void samba_onnx_dft(samba_onnx_node *node);
void samba_onnx_dft(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), real, imaginary = {NULL, 0, 0}, z;
    bool inverse = samba_onnx_flag(node, "inverse", false), half = samba_onnx_flag(node, "onesided", false);
    int64_t length = samba_onnx_known_int(node, 1, "dft_length", -1);
    int64_t axis = node->version < 20 ? samba_onnx_int(node, "axis", 1) : samba_onnx_known_int(node, 2, "the axis", -2);
    if (!is_signal(node, a))
        return;
    int rank = samba_value_rank(a), last = rank - 2;
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis > last) {
        samba_onnx_refuse(node, "the axis is none of the signal's");
        return;
    }
    int dim = (int)axis;
    int64_t size = samba_value_size(a, dim);
    if (length < 0)
        length = inverse && half ? 2 * (size - 1) : size;
    if (length < 1 || length > 1 << 20) {
        samba_onnx_refuse(node, "a transform of %lld samples is not supported", (long long)length);
        return;
    }
    transform t = {.length = length, .inverse = inverse, .half = half};
    int64_t most = inverse && half ? length / 2 + 1 : length;
    t.size = size < most ? size : most;
    t.out = half && !inverse ? length / 2 + 1 : length;
    split_parts(a, &real, &imaginary);
    real = samba_narrow(samba_movedim(real, 1, &dim, &last), -1, 0, t.size);
    if (imaginary.graph)
        imaginary = samba_narrow(samba_movedim(imaginary, 1, &dim, &last), -1, 0, t.size);
    samba_value y = transform_parts(node, &t, real, imaginary, &z);
    if (node->refused)
        return;
    y = samba_movedim(y, 1, &last, &dim);
    if (z.graph)
        z = samba_movedim(z, 1, &last, &dim);
    samba_onnx_out(node, 0, join_parts(y, z));
}

/* Transforms of frames, each `step` samples behind the one before. */
void samba_onnx_stft(samba_onnx_node *node);
void samba_onnx_stft(samba_onnx_node *node)
{
    samba_value a = samba_onnx_need(node, 0), real, imaginary = {NULL, 0, 0}, window = samba_onnx_in(node, 2), z;
    int64_t step = samba_onnx_known_int(node, 1, "frame_step", 0), length = samba_onnx_known_int(node, 3, "frame_length", 0);
    bool half = samba_onnx_flag(node, "onesided", true);
    if (!is_signal(node, a))
        return;
    if (length == 0)
        length = window.graph ? samba_value_size(window, 0) : samba_value_size(a, -2);
    if (samba_value_rank(a) != 3 || step < 1 || length < 1 || length > samba_value_size(a, 1) ||
        (window.graph && (samba_value_rank(window) != 1 || samba_value_size(window, 0) != length))) {
        samba_onnx_refuse(node, "a signal (N, samples, 1 or 2) of frames of %lld samples is expected", (long long)length);
        return;
    }
    transform t = {.size = length, .length = length, .out = half ? length / 2 + 1 : length, .half = half};
    split_parts(a, &real, &imaginary);
    real = samba_windows(real, 1, length, step);
    if (window.graph)
        real = samba_mul(real, window);
    if (imaginary.graph)
        imaginary = samba_windows(imaginary, 1, length, step);
    if (imaginary.graph && window.graph)
        imaginary = samba_mul(imaginary, window);
    samba_value y = transform_parts(node, &t, real, imaginary, &z);
    if (!node->refused)
        samba_onnx_out(node, 0, join_parts(y, z));
}
