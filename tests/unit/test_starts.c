/* SPDX-License-Identifier: Apache-2.0
 *
 * Where backward begins. A small model whose gradient is a formula: h = w x, s = sum(h^2), t = 3 s, q = sum(w^4). Outputs stand
 * in every order of up to three, as outputs and as losses; the gradient of w in a trained session is held against the formula. */
#include "training.h"

enum { SIZE = 4 };

/* What the model can give. From "class", "far" and "half" no gradient comes back. */
enum { H, S, T, Q, ROWS, CLASS, FAR, HALF, KINDS };
static const char *const names[KINDS] = {"h", "s", "t", "q", "rows", "class", "far", "half"};

typedef struct outputs {
    int count, kinds[3];
    int losses; /* bits: which are losses */
} outputs;

static samba_value value_of(samba_graph *g, int kind)
{
    samba_value x = samba_input(g, "x"),
                w = samba_parameter(g, "w", SAMBA_FLOAT64, 1, SHAPE(SIZE), (samba_initializer){SAMBA_INIT_CONSTANT, 1, 0});
    samba_value h = samba_mul(w, x), s = samba_sum(samba_mul(h, h), 0, NULL, false), square = samba_mul(w, w);
    switch (kind) {
    case H: return h;
    case S: return s;
    case T: return samba_mul_scalar(s, 3);
    case Q: return samba_sum(samba_mul(square, square), 0, NULL, false);
    case ROWS: return samba_reshape(h, 2, SHAPE(2, SIZE / 2));
    case CLASS: return samba_argmax(h, 0, false);
    case FAR: return samba_detach(samba_mul_scalar(s, 5));
    default: return samba_cast(samba_gt(h, samba_mul_scalar(h, 0.5)), SAMBA_FLOAT64);
    }
}

static void model(samba_graph *g, const void *options)
{
    const outputs *o = options;
    for (int i = 0; i < o->count; i++)
        (o->losses >> i & 1 ? samba_loss : samba_output)(g, names[o->kinds[i]], value_of(g, o->kinds[i]));
}

/* ds/dw and its like at w, times what each output's gradient starts from. */
static double slope(int kind, double w, double x, double start)
{
    switch (kind) {
    case H:
    case ROWS: return start * x;
    case S: return start * 2 * w * x * x;
    case T: return start * 6 * w * x * x;
    case Q: return start * 4 * w * w * w;
    default: return 0;
    }
}

static bool feeds(int kind, int other)
{
    return (kind == H && (other == S || other == T || other == ROWS)) || (kind == S && other == T);
}

static double start_of(const outputs *o, int i)
{
    if (o->losses)
        return o->losses >> i & 1;
    for (int k = 0; k < o->count; k++)
        if (feeds(o->kinds[i], o->kinds[k]))
            return 0;
    return 1;
}

static samba_session *session_of(const outputs *o, samba_tensor *x)
{
    samba_compile_options options = compile_of("starts", model, o, 1, &x);
    return open_kept(&options, 0, 0);
}

/* A run with these gradients of outputs, after which w has the gradient that begins with `starts`. */
static void check(const outputs *o, samba_session *session, const double *starts, samba_tensor *x, int count,
                  samba_tensor *const *given)
{
    samba_run_options options = giving(1, &x);
    options.output_gradients = given, options.output_gradient_count = count;
    need(samba_run(session, &options));
    int64_t size;
    double *found = get_doubles(session, "w", ".grad", &size);
    for (int e = 0; e < SIZE; e++) {
        double expected = 0;
        for (int i = 0; i < o->count; i++)
            expected += slope(o->kinds[i], 1 /* ones */, ((const double *)samba_tensor_data(x))[e], starts[i]);
        if (!(fabs(found[e] - expected) <= 1e-12 * (1 + fabs(expected))))
            fail_msg("%d outputs from \"%s\" on, losses %d, %d gradients given: w.grad[%d] is %.17g, expected %.17g", o->count,
                     names[o->kinds[0]], o->losses, count, e, found[e], expected);
    }
    free(found);
}

static bool differentiable(int kind) { return kind < CLASS; }
static bool begins(const outputs *o, int i) { return differentiable(o->kinds[i]) && (!o->losses || o->losses >> i & 1); }

static void run_case(const outputs *o)
{
    bool any = false, wrong = false;
    double starts[3], told;
    for (int i = 0; i < o->count; i++) {
        any = any || begins(o, i);
        wrong = wrong || (o->losses >> i & 1 && !differentiable(o->kinds[i]));
    }
    if (!any || wrong)
        return;
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT64, 1, SHAPE(SIZE), 5)), *given[3];
    samba_session *session = session_of(o, x);
    int count = 0;
    for (int i = 0; i < o->count; i++) {
        starts[i] = start_of(o, i);
        need(samba_session_start(session, names[o->kinds[i]], &told));
        assert_true(begins(o, i) ? told == starts[i] : isnan(told));
    }
    check(o, session, starts, x, 0, NULL);
    for (int i = 0; i < o->count; i++) { /* given gradients: 2, 3, 4 in every element */
        char name[32];
        if (!begins(o, i))
            continue;
        snprintf(name, sizeof name, "%s.grad", names[o->kinds[i]]);
        starts[i] = 2 + i;
        given[count] = kept(get(session, name));
        need(samba_fill_uniform(given[count++], 1, starts[i], starts[i]));
    }
    check(o, session, starts, x, count, given);
    drop_kept(NULL);
}

TEST(test_all_orders)
{
    for (int count = 1; count <= 3; count++)
        for (int code = 0; code < KINDS * KINDS * KINDS; code++) {
            outputs o = {.count = count, .kinds = {code % KINDS, code / KINDS % KINDS, code / KINDS / KINDS}};
            bool twice =
                (count > 1 && o.kinds[0] == o.kinds[1]) || (count > 2 && (o.kinds[2] == o.kinds[0] || o.kinds[2] == o.kinds[1]));
            if (twice || (count < 3 && code >= KINDS * KINDS) || (count < 2 && code >= KINDS))
                continue;
            for (o.losses = 0; o.losses < 1 << count; o.losses++)
                if (count < 3 || code % 5 == o.losses % 5) /* of three a fifth */
                    run_case(&o);
        }
}

TEST(test_told)
{
    outputs o = {.count = 2, .kinds = {S, H}};
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT64, 1, SHAPE(SIZE), 5));
    samba_session *session = session_of(&o, x);
    double start;
    refuse(samba_session_start(session, "nothing", &start), SAMBA_ERROR_NAME, "nothing");
    refuse(samba_session_start(session, "w", &start), SAMBA_ERROR_NAME, "parameter");
    refuse(samba_session_start(session, "s", NULL), SAMBA_ERROR_ARGUMENT, "start");
    refuse(samba_session_start(session, NULL, &start), SAMBA_ERROR_ARGUMENT, "output");
    OWN_GRAPH *graph;
    double starts[2];
    need(samba_graph_new(context, "told", &graph));
    need(samba_graph_add_input(graph, x));
    model(graph, &o);
    need(samba_graph_starts(graph, 2, starts));
    assert_true(starts[0] == 1 && starts[1] == 0);
    refuse(samba_graph_starts(graph, 1, starts), SAMBA_ERROR_ARGUMENT, "has 2 outputs and losses, given room for 1");
    refuse(samba_graph_starts(graph, 2, NULL), SAMBA_ERROR_ARGUMENT, "NULL");
    assert_int_equal(samba_graph_starts(NULL, 0, NULL), SAMBA_ERROR_ARGUMENT);
}

MODEL(coloured) { samba_output(g, "red \x1b[31m", value_of(g, S)); }

/* A name goes to terminals and into logs; what it would have them do is shown instead. */
TEST(test_names_are_shown)
{
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT64, 1, SHAPE(SIZE), 5));
    samba_compile_options options = compile_of("coloured", coloured, NULL, 1, &x);
    char *log = compiled_log(&options);
    assert_non_null(strstr(log, "backward    from red \\x1b[31m, with ones\n"));
    assert_null(strchr(log, '\x1b'));
    free(log);
}

TEST_MAIN_WITH(NULL, drop_kept, test_all_orders, test_told, test_names_are_shown)
