/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that are composed while tracing, as C calls them, compiled and by the reference kernels. Values are exact, by
 * hand, or those that PyTorch gives (values/torch_functions.txt); all arguments: tests/operators. */
#include "traced.h"
#include <sambaflow/function.h>

enum { VALUES_MAX = 64 };
static struct {
    samba_tensor *given[VALUES_MAX];
    char wanted[VALUES_MAX][ROW_TEXT * 8];
    double tolerance[VALUES_MAX];
    int given_count, wanted_count;
    bool constants, compiled_only; /* constants: what is given is a part of the program */
} run;

/* An input, or a constant, of the type and the elements that the text says. */
static samba_value of(const char *text)
{
    static operator_row row;
    row_reader reader = {.file = text, .at = text};
    char name[16], type[ROW_TEXT];
    uint64_t unused = 0;
    assert_true(row_word(&reader, type) && run.given_count < VALUES_MAX);
    operand from = row_type(&reader, type);
    row.numbers_used = 0;
    row_numbers(&reader, &row, &from);
    snprintf(name, sizeof name, "x%d", run.given_count);
    samba_tensor *made = tensor(name, from.dtype, from.rank, from.shape);
    for (int64_t i = 0; i < samba_tensor_numel(made); i++) {
        double value = operand_value(&from, i, &unused);
        samba_store_double(from.dtype, (char *)samba_tensor_data(made) + (size_t)i * samba_dtype_size(from.dtype), value);
    }
    if (run.constants) {
        samba_value value = samba_constant_tensor(traced, made);
        samba_tensor_free(made);
        return value;
    }
    run.given[run.given_count++] = made;
    need(samba_graph_add_input(traced, made));
    return in(name);
}

static void gives_within(double tolerance, samba_value value, const char *text)
{
    char name[16];
    assert_true(run.wanted_count < VALUES_MAX && strlen(text) < sizeof run.wanted[0]);
    snprintf(name, sizeof name, "y%d", run.wanted_count);
    strcpy(run.wanted[run.wanted_count], text);
    run.tolerance[run.wanted_count++] = tolerance;
    samba_output(traced, name, samba_cast(value, SAMBA_FLOAT64));
    need(samba_graph_status(traced));
}

static void gives(samba_value value, const char *text) { gives_within(1e-12, value, text); }

/* The value that make_values.py has for the name. */
static void as_torch(double tolerance, const char *name, samba_value value)
{
    char line[4096], head[64];
    FILE *file = fopen(VALUES_FOLDER "/torch_functions.txt", "r");
    assert_non_null(file);
    snprintf(head, sizeof head, "%s = ", name);
    while (fgets(line, sizeof line, file) && strncmp(line, head, strlen(head)) != 0)
        ;
    assert_int_equal(fclose(file), 0);
    if (strncmp(line, head, strlen(head)) != 0)
        fail_msg("torch_functions.txt has no %s", name);
    gives_within(tolerance, value, line + strlen(head));
}

/* Runs what has been traced, compiled and by the reference kernels, and compares everything that it gives. */
static void check(void)
{
    static operator_row row;
    for (int by_reference = 0; by_reference < (run.compiled_only ? 1 : 2); by_reference++) {
        samba_function *function;
        samba_tensor *outputs[VALUES_MAX];
        operand wanted[VALUES_MAX];
        samba_function_options options = samba_function_defaults();
        options.reference = by_reference;
        need(samba_function_new(context, traced, &options, &function));
        row.numbers_used = 0;
        for (int i = 0; i < run.wanted_count; i++) {
            row_reader reader = {.file = run.wanted[i], .at = run.wanted[i]};
            char type[ROW_TEXT];
            assert_true(row_word(&reader, type));
            wanted[i] = row_type(&reader, type);
            row_numbers(&reader, &row, &wanted[i]);
            outputs[i] = tensor(NULL, SAMBA_FLOAT64, wanted[i].rank, wanted[i].shape);
        }
        need(samba_function_run(function, run.given, outputs));
        for (int i = 0; i < run.wanted_count; i++) {
            const double *y = samba_tensor_data(outputs[i]);
            for (int64_t e = 0; e < samba_tensor_numel(outputs[i]); e++) {
                double expected = wanted[i].values[e % wanted[i].value_count];
                if (y[e] != expected && isnan(expected) + isnan(y[e]) != 2 &&
                    !(fabs(y[e] - expected) <= run.tolerance[i] * (1 + fabs(expected))))
                    fail_msg("%s: element %lld is %.15g", run.wanted[i], (long long)e, y[e]);
            }
            samba_tensor_free(outputs[i]);
        }
        samba_function_free(function);
    }
}

static int begin(void **state)
{
    memset(&run, 0, sizeof run);
    trace("");
    return 0;
}

static int end(void **state)
{
    while (run.given_count > 0)
        samba_tensor_free(run.given[--run.given_count]);
    untrace();
    return 0;
}

static void again(void)
{
    end(NULL);
    begin(NULL);
}

static void products_of(bool constants)
{
    run.constants = constants;
    samba_value a = of("float64[2,3] 1 2 3 4 5 6"), b = of("float64[3,2] 1 2 3 4 5 6"), square = of("float64[2,2] 1 2 3 4");
    samba_value two = of("float64[2] 1 2"), three = of("float64[3] 1 2 3"), one = of("float64[1] 1");
    gives(samba_einsum("ij,jk->ki", 2, (samba_value[]){a, b}), "float64[2,2] 22 49 28 64");
    gives(samba_einsum("ii", 1, &square), "float64[] 5");
    gives(samba_einsum("...i->i...", 1, &a), "float64[3,2] 1 4 2 5 3 6");
    gives(samba_inner(a, a), "float64[2,2] 14 32 32 77");
    gives(samba_tensordot(a, a, 1, (const int[]){0}, (const int[]){-2}), "float64[3,3] 17 22 27 22 29 36 27 36 45");
    gives(samba_kron(two, of("float64[1,2] 1 2")), "float64[1,4] 1 2 2 4");
    gives(samba_diagonal(a, 1, 0, 1), "float64[2] 2 6");
    gives(samba_diagonal(a, -5, 0, 1), "float64[0]");
    gives(samba_addmm(of("float64[2] nan"), a, b, 0, 2), "float64[2,2] 44 56 98 128"); /* beta 0: the input does not count */
    gives(samba_addmv(one, a, three, 10, 1), "float64[2] 24 42");
    gives(samba_addbmm(of("float64[1,1] 1"), of("float64[2,1,3] 1 2 3 4 5 6"), of("float64[2,3,1] 1 2 3 4 5 6"), 1, 1),
          "float64[1,1] 92");
    gives(samba_multi_dot(3, (const samba_value[]){two, a, three}), "float64[] 78");
    gives(samba_mm(of("float64[3,0]"), of("float64[0,1]")), "float64[3,1] 0");
    check();
}

TEST(products)
{
    products_of(false);
    again();
    products_of(true);
}

TEST(reductions)
{
    samba_value x = of("float64[2,3] 1 2 nan 4 0 -6"), second;
    gives(samba_nanmean(x, 1, (const int[]){1}, false), "float64[2] 1.5 -0.66666666666666667");
    gives(samba_prod(x, 1, (const int[]){0}, true), "float64[1,3] 4 0 nan");
    gives(samba_std(of("float64[2] 1 2"), 0, NULL, 0, false), "float64[] 0.5");
    gives(samba_var(of("float64[1] 1"), 0, NULL, 1, false), "float64[] nan"); /* 0 of 0 */
    gives(samba_vector_norm(of("float64[2] -3 4"), -INFINITY, 0, NULL, false), "float64[] 3");
    samba_min(x, 1, false, &second);
    gives(second, "float64[2] 2 2");
    gives(samba_count_nonzero(x, 1, (const int[]){1}), "float64[2] 3 2");
    gives(samba_all(of("float64[2,0]"), 1, (const int[]){1}, false), "float64[2] 1");
    gives(samba_median(x, 1, false, &second), "float64[2] nan 0");
    gives(samba_median_of_all(x), "float64[] nan");
    gives(samba_median_of_all(of("float64[2,2] 2 1 2 2")), "float64[] 2");
    gives(samba_kthvalue(x, 2, -1, true, &second), "float64[2,1] 2 0");
    samba_topk(x, 2, 1, true, &second);
    gives(second, "float64[2,2] 2 1 0 1");
    check();
}

TEST(sorting)
{
    samba_value x = of("float64[2,3] 2 -1 5 0.5 7 -3"), places;
    gives(samba_sort(x, 1, false, &places), "float64[2,3] -1 2 5 -3 0.5 7");
    gives(places, "float64[2,3] 1 0 2 2 0 1");
    gives(samba_sort(x, 0, true, &places), "float64[2,3] 2 7 5 0.5 -1 -3");
    gives(samba_cummax(x, 1, &places), "float64[2,3] 2 2 5 0.5 7 7");
    gives(places, "float64[2,3] 0 0 2 0 1 1");
    gives(samba_cummin(x, 1, &places), "float64[2,3] 2 -1 -1 0.5 0.5 -3");
    gives(places, "float64[2,3] 0 1 1 0 0 2");
    check();
}

TEST(resampling)
{
    samba_interpolate_options options = {.mode = SAMBA_RESAMPLE_LINEAR, .size = {3, 8}};
    samba_value image = of("float64[1,2,7,5] #21");
    as_torch(1e-12, "bilinear", samba_interpolate(image, &options));
    options.antialias = true;
    as_torch(1e-12, "bilinear antialias", samba_interpolate(image, &options));
    options = (samba_interpolate_options){.mode = SAMBA_RESAMPLE_BICUBIC, .antialias = true, .size = {2, 4}};
    as_torch(1e-12, "bicubic antialias", samba_interpolate(image, &options));
    options = (samba_interpolate_options){.mode = SAMBA_RESAMPLE_BICUBIC, .align_corners = true, .size = {9, 3}};
    as_torch(1e-12, "bicubic corners", samba_interpolate(image, &options));
    options = (samba_interpolate_options){.mode = SAMBA_RESAMPLE_NEAREST_EXACT, .size = {3, 8}};
    as_torch(1e-12, "nearest-exact", samba_interpolate(image, &options));
    as_torch(0, "adaptive_max_pool1d indices", samba_adaptive_max_pool1d_indices(of("float64[1,2,7] #22"), 3));
    as_torch(0, "adaptive_max_pool2d indices", samba_adaptive_max_pool2d_indices(of("float64[1,2,7,5] #22"), SHAPE(3, 2)));
    as_torch(0, "adaptive_max_pool3d indices", samba_adaptive_max_pool3d_indices(of("float64[1,2,7,5,3] #22"), SHAPE(3, 2, 2)));
    check();
}

/* A value of float64 elements by text, as one of `dtype`. */
static samba_value floats(samba_dtype dtype, const char *text)
{
    char typed[64];
    snprintf(typed, sizeof typed, "%s%s", samba_dtype_name(dtype), text);
    return of(typed);
}

/* Defaults of options, and what is recognized as another function. */
static void losses_in(samba_dtype dtype, double tolerance)
{
    samba_value x = floats(dtype, "[2,3] #17"), y = floats(dtype, "[2,3] #18"), signs = floats(dtype, "[2,3] 1 -1 1 -1 -1 1");
    samba_value label = of("int64[2] 2 0"), two = samba_constant(traced, 2, dtype, 0, NULL);
    as_torch(tolerance, "mse", samba_mse_loss(x, y, none, SAMBA_MEAN));
    as_torch(tolerance, "huber", samba_huber_loss(x, y, 1, none, SAMBA_SUM));
    as_torch(tolerance, "triplet", samba_triplet_margin_loss(x, y, samba_neg(x), NULL));
    as_torch(tolerance, "poisson", samba_poisson_nll_loss(x, y, NULL));
    as_torch(tolerance, "gaussian", samba_gaussian_nll_loss(x, y, two, NULL));
    as_torch(tolerance, "multi_margin", samba_multi_margin_loss(x, label, NULL));
    as_torch(tolerance, "hinge", samba_hinge_embedding_loss(x, signs, 1, SAMBA_MEAN));
    as_torch(tolerance, "softmin", samba_softmin(x, 1));
    as_torch(tolerance, "distances", samba_cdist(x, y, 2, SAMBA_CDIST_MM));
    samba_value loss = samba_nll_loss(samba_log_softmax(x, -1), label, NULL);
    samba_node_info info;
    need(samba_graph_node(traced, loss.index, &info));
    assert_string_equal(info.op, "cross_entropy");
    as_torch(tolerance, "cross_entropy", loss);
    as_torch(tolerance, "cross_entropy",
             samba_nll_loss(samba_sub(x, samba_logsumexp(x, 1, (const int[]){1}, true)), label, NULL));
    as_torch(tolerance, "cross_entropy", samba_cross_entropy(x, label));
    check();
}

TEST(losses)
{
    losses_in(SAMBA_FLOAT64, 1e-12);
    again();
    losses_in(SAMBA_FLOAT32, 1e-6); /* sums of 6 floats */
    again();
    samba_value x = of("float64[2,3] nan"), y = of("float64[2,3] #18");
    gives(samba_cdist(x, y, 2, SAMBA_CDIST_MM), "float64[2,2] nan");
    check();
    again();
    samba_value label = samba_add(of("int64[2] 2 0"), of("int64[] 4")); /* compiled code cannot refuse a label */
    x = of("float64[2,3] #17");
    gives(samba_nll_loss(samba_log_softmax(x, 1), label, NULL), "float64[] inf");
    run.compiled_only = true;
    check();
}

TEST(rotary_embeddings)
{
    const struct {
        const char *name;
        bool interleaved, positions, given; /* given: cosines and sines, here of equal angles for all pairs of a position */
        int64_t dims;
        double base;
    } cases[] = {{"rotary", false, false, false, 0, 10000},        {"rotary interleaved", true, false, false, 0, 10000},
                 {"rotary of a part", false, true, false, 4, 100}, {"rotary interleaved of a part", true, true, false, 6, 500},
                 {"rotary given", false, false, true, 0, 10000},   {"rotary interleaved given", true, false, true, 4, 10000}};
    samba_value wide = of("float64[2,5,8] #19"), single = of("float32[2,5,8] #19"), at = of("int64[5] 3 0 7 1 2");
    for (int k = 0; k < 2 * SAMBA_COUNT(cases); k++) {
        const int i = k / 2;
        const samba_dtype dtype = k % 2 ? SAMBA_FLOAT32 : SAMBA_FLOAT64;
        samba_rotary_options o = samba_rotary_defaults();
        o.interleaved = cases[i].interleaved;
        o.base = cases[i].base;
        o.dims = cases[i].dims;
        if (cases[i].positions)
            o.positions = at;
        if (cases[i].given) {
            samba_value angles = samba_expand(samba_reshape(samba_cast(at, dtype), 2, SHAPE(5, 1)), 2,
                                              SHAPE(5, cases[i].dims ? cases[i].dims : 8));
            o.cos = samba_cos(angles), o.sin = samba_sin(angles);
        }
        as_torch(1e-5, cases[i].name, samba_rotary_embedding(k % 2 ? single : wide, &o)); /* angles up to 7 in float32 */
    }
    check();
}

TEST(refusals)
{
    samba_cross_entropy_options smooth = samba_cross_entropy_defaults();
    smooth.label_smoothing = 0.1;
    samba_rotary_options odd = samba_rotary_defaults(), wide = odd, half = odd, places = odd, flat = odd;
    odd.dims = 5, wide.dims = 10, flat.base = 0;
    untrace();
    trace("x float32[4,5] label int64[4] wide float32[2,5,8]");
    wrong(samba_mse_loss(in("x"), in("x"), none, (samba_reduction)7),
          "mse_loss: expected the reduction SAMBA_MEAN, SAMBA_SUM or SAMBA_NO_REDUCTION, given 7");
    wrong(samba_l1_loss(in("x"), in("x"), none, SAMBA_BATCH_MEAN), "l1_loss: expected the reduction");
    wrong(samba_l1_loss(in("x"), in("x"), in("label"), SAMBA_MEAN), "l1_loss: expected values of one shape, or of");
    wrong(samba_nll_loss(in("x"), in("label"), &smooth), "nll_loss: label_smoothing must be 0, given 0.1; cross_entropy has it");
    wrong(samba_kl_div(none, in("x"), false, SAMBA_SUM), "kl_div: operand 0 is a value of no graph");
    wrong(samba_weight_norm(in("x"), in("x"), 7), "weight_norm: dim 7 is out of range");
    wrong(samba_cdist(in("x"), in("x"), 2, (samba_cdist_mode)3), "cdist: mode must be a samba_cdist_mode, given 3");
    wrong(samba_rotary_embedding(in("wide"), &odd),
          "rotary_embedding: expected an input (..., T, D) and an even number of turned "
          "features, 2 to D, given float32(2, 5, 8) and 5");
    wrong(samba_rotary_embedding(in("wide"), &wide), "2 to D, given float32(2, 5, 8) and 10");
    half.cos = in("wide");
    wrong(samba_rotary_embedding(in("wide"), &half), "give cos and sin together");
    places.positions = in("label");
    wrong(samba_rotary_embedding(in("wide"), &places), "cos and sin (or positions) that broadcast");
    wrong(samba_rotary_embedding(in("wide"), &flat), "base must be more than 0, given 0");
    wrong(samba_rotary_embedding(in("label"), NULL), "expected a floating-point value, given int64");
}

TEST_MAIN_WITH(begin, end, products, reductions, sorting, resampling, losses, rotary_embeddings, refusals)
