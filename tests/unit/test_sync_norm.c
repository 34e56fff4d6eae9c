/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_batch_norm as far as one process sees it: without replicas it is batch_norm, bit by bit; its exchanges are sections of
 * their own, which change no number in a run of one process; and what cannot have them is refused. tests/parallel has several
 * replicas. */
#include "graph/graph.h"
#include "training.h"

#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/multigraph.h>

enum { SAMPLES = 6, CHANNELS = 5, STEPS = 3 };

typedef struct setting {
    bool plain; /* batch_norm in its place */
    bool fused; /* inside an op_fusion */
    samba_dtype dtype;
    samba_batch_norm_layer layer;
} setting;

static samba_value norm(const setting *s, samba_value x, const char *name)
{
    return (s->plain ? samba_batch_norm : samba_sync_batch_norm)(x, name, &s->layer);
}

/* Two norms, of the input's dims and of rows, one behind the other. */
static void model(samba_graph *g, const void *settings)
{
    const setting *s = settings;
    samba_value x = samba_input(g, "x"),
                w = samba_parameter(g, "w", s->dtype, 0, NULL, (samba_initializer){SAMBA_INIT_CONSTANT, 1.5, 0});
    if (s->fused)
        samba_op_fusion_push(g, "both");
    x = samba_tanh(norm(s, samba_mul(x, w), "first"));
    if (s->fused)
        samba_op_fusion_pop(g);
    if (samba_value_rank(x) > 2)
        x = samba_flatten(x, 1, -1);
    x = norm(s, samba_linear(x, "lin", 7), "second");
    samba_output(g, "y", x);
    samba_loss(g, "loss", samba_mean(samba_exp(samba_mul_scalar(x, 0.5)), 0, NULL, false));
}

static samba_tensor *input_of(int rank, samba_dtype dtype)
{
    return kept(normal("x", dtype, rank, SHAPE(SAMPLES, CHANNELS, 9, 3, 3), 7));
}

static samba_compile_options options_of(const setting *s, samba_tensor *const *x, bool parallel)
{
    static samba_optimizer sgd;
    sgd = samba_sgd(0.1);
    samba_compile_options options = training_of("normed", model, s, 1, x, &sgd);
    options.data_parallel = parallel;
    return options;
}

static samba_session *session_of(const setting *s, samba_tensor *const *x, bool parallel)
{
    samba_compile_options options = options_of(s, x, parallel);
    return open_kept(&options, 2, 3);
}

/* Steps, and a run that does not train. */
static void train(samba_session *session, samba_tensor *const *x, bool parallel)
{
    for (int i = 0; i <= STEPS; i++) {
        samba_run_options run = giving(1, x);
        run.data_parallel = parallel;
        run.data_parallel_mode = parallel && i % 2 ? "inorder" : NULL;
        run.train = i < STEPS;
        static const char *const forward[] = {"FWD"};
        run.section_types = forward;
        run.section_type_count = i == STEPS;
        need(samba_run(session, &run));
    }
}

static void compare(samba_session *ours, samba_session *theirs, double tolerance)
{
    for (int i = 0; i < samba_session_tensor_count(ours); i++) {
        samba_tensor_info info;
        need(samba_session_tensor_info(ours, i, &info));
        if (!((LEARNED | 1u << SAMBA_KIND_OUTPUT) >> info.kind & 1))
            continue;
        OWN_TENSOR *a = get(ours, info.name), *b = get(theirs, info.name);
        for (int64_t k = 0; k < samba_tensor_numel(a); k++)
            if (!(fabs(element_of(a, k) - element_of(b, k)) <= tolerance * fmax(1, fabs(element_of(b, k)))))
                fail_msg("%s[%lld] is %.12g, by batch_norm %.12g", info.name, (long long)k, element_of(a, k), element_of(b, k));
    }
}

TEST(test_alone)
{
    static const samba_batch_norm_layer layers[] = {
        {.eps = 0}, {.no_affine = true}, {.no_running_stats = true}, {.cumulative = true, .eps = 1e-3}, {.momentum = 0.3}};
    for (int i = 0; i < LENGTH(layers); i++) {
        const int rank = 2 + i % 4;
        const samba_dtype dtype = i % 2 ? SAMBA_FLOAT64 : SAMBA_FLOAT32;
        samba_tensor *x = input_of(rank, dtype);
        setting ours = {.dtype = dtype, .layer = layers[i]}, theirs = {.plain = true, .dtype = dtype, .layer = layers[i]};
        samba_session *usual = session_of(&theirs, &x, false), *lone = session_of(&ours, &x, false),
                      *parallel = session_of(&ours, &x, true), *silent = session_of(&ours, &x, true);
        train(usual, &x, false);
        train(lone, &x, false);
        train(parallel, &x, true);
        train(silent, &x, false);
        assert_same_bits(lone, usual, COMPUTED);
        assert_same_bits(parallel, silent, COMPUTED);
        compare(parallel, usual, dtype == SAMBA_FLOAT64 ? 1e-13 : 1e-5); /* some roundings of 6e-8 in each of three steps */
        refuse(run_sections(lone,
                            &(samba_run_options){.struct_size = sizeof(samba_run_options),
                                                 .data_parallel = true,
                                                 .run_from_call_id = -1,
                                                 .run_until_call_id = -1},
                            ""),
               SAMBA_ERROR_ARGUMENT, "\"normed\" has no section of type REDUCE");
        drop_kept(NULL);
    }
}

/* One exchange forward and one backward for each norm of float32; of float64 two forward. */
TEST(test_sections)
{
    for (int wide = 0; wide < 2; wide++) {
        const setting s = {.dtype = wide ? SAMBA_FLOAT64 : SAMBA_FLOAT32};
        samba_tensor *x = input_of(3, s.dtype);
        samba_compile_options options = options_of(&s, &x, true);
        samba_plan plan = compiled_plan(&options);
        int exchanges[6] = {0};
        for (int32_t i = 0; i < plan.section_count; i++) {
            const samba_plan_section *section = &plan.sections[i];
            if (plan.stages[section->first_stage].kind != SAMBA_STAGE_EXCHANGE)
                continue;
            exchanges[section->phase]++;
            if (section->phase != SAMBA_REDUCE)
                assert_int_equal(section->stage_count, 1);
        }
        assert_int_equal(exchanges[SAMBA_FWD], wide ? 4 : 2);
        assert_int_equal(exchanges[SAMBA_BCKWD], 2);
        assert_int_equal(exchanges[SAMBA_REDUCE], 1);
        samba_plan_free(&plan);
    }
}

/* Less memory, less fast memory and micro-batches change no number. */
TEST(test_other_plans)
{
    const setting s = {.dtype = SAMBA_FLOAT32};
    samba_tensor *x = input_of(4, SAMBA_FLOAT32);
    samba_session *usual = session_of(&s, &x, true);
    train(usual, &x, true);
    for (int i = 0; i < 3; i++) {
        samba_compile_options options = options_of(&s, &x, true);
        options.fast_memory = i == 0 ? 40000 : 0;
        options.memory_budget = i == 1 ? 120000 : 0;
        options.precision = SAMBA_FP32;
        options.grad_accumulation_steps = i == 2 ? 2 : 1;
        samba_session *other = open_kept(&options, 2, 3);
        train(other, &x, true);
        if (i < 2)
            assert_same_bits(other, usual, LEARNED);
    }
    samba_compile_options options = options_of(&s, &x, true);
    options.precision = SAMBA_BF16;
    train(open_kept(&options, 2, 3), &x, true);
}

TEST(test_one_element)
{
    const setting s = {.dtype = SAMBA_FLOAT32};
    samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(1, CHANNELS), 7));
    train(session_of(&s, &x, true), &x, true);
}

TEST(test_refused)
{
    const setting s = {.dtype = SAMBA_FLOAT32}, fused = {.dtype = SAMBA_FLOAT32, .fused = true};
    samba_tensor *x = input_of(3, SAMBA_FLOAT32);
    samba_compile_options options = options_of(&s, &x, true);
    options.mapping = SAMBA_MAPPING_SPATIAL;
    refuse(samba_compile(context, &options, NULL, 0), SAMBA_ERROR_ARGUMENT,
           "compile: mapping 'spatial' makes FWD and BCKWD one section, and stage");
    options.data_parallel = false;
    need(samba_compile(context, &options, NULL, 0));
    options = options_of(&fused, &x, true);
    refuse(samba_compile(context, &options, NULL, 0), SAMBA_ERROR_ARGUMENT,
           "compile: op_fusion keeps stages together that stage");
    options.data_parallel = false;
    need(samba_compile(context, &options, NULL, 0));

    samba_session *session = session_of(&s, &x, true);
    const samba_hyperparameter count = {"replica_count", 2};
    refuse(samba_session_set_hyperparameters(session, 1, &count), SAMBA_ERROR_ARGUMENT,
           "\"replica_count\" is the number of replicas that train together, which a run finds");
    samba_run_options alone = giving(1, &x), together = giving(1, &x);
    together.data_parallel = true;
    need(run_sections(session, &alone, "FWD"));
    refuse(
        run_sections(session, &together, "BCKWD"), SAMBA_ERROR_STATE,
        "(BCKWD) goes on from a forward run with data_parallel false, whose sync_batch_norm had the statistics of this replica");
    need(run_sections(session, &alone, "BCKWD"));
    refuse(run_sections(session, &together, "REDUCE"), SAMBA_ERROR_STATE,
           "(REDUCE) goes on from a forward run with data_parallel");
    need(run_sections(session, &together, "FWD"));
    refuse(run_sections(session, &alone, "BCKWD"), SAMBA_ERROR_STATE, "had the statistics of all replicas");
    need(run_sections(session, &together, "BCKWD"));
    need(run_sections(session, &together, "REDUCE OPT"));
    alone.train = false; /* without exchanges anyway */
    need(run_sections(session, &alone, "FWD"));
    need(run_sections(session, &alone, "BCKWD"));
}

/* A file may say anything. */
TEST(test_wrong_files)
{
    const setting s = {.dtype = SAMBA_FLOAT32};
    samba_tensor *x = input_of(3, SAMBA_FLOAT32);
    samba_compile_options options = options_of(&s, &x, true);
    for (int change = 0; change < 5; change++) {
        samba_plan plan = compiled_plan(&options);
        int32_t at = 0;
        while (plan.stages[plan.sections[at].first_stage].kind != SAMBA_STAGE_EXCHANGE)
            at++;
        samba_plan_section *section = &plan.sections[at];
        assert_int_equal(section->phase, SAMBA_FWD);
        need(samba_plan_check(context, &plan));
        if (change == 0) /* beside another stage */
            section->stage_count++, section[1].first_stage++, section[1].stage_count--;
        else if (change == 1)
            section->phase = SAMBA_OPT;
        else if (change == 2)
            section->redone_by = SAMBA_BCKWD;
        else if (change == 3)
            section->forward_stages = 1;
        else
            plan.stages[section->first_stage].domain[0] = 1 << 20;
        refuse(samba_plan_check(context, &plan), SAMBA_ERROR_FORMAT, change < 4 ? "are exchanges between replicas" : "buffer");
        samba_plan_free(&plan);
    }
}

/* A graph that trains with replicas and one for inference of the same model. */
TEST(test_several_graphs)
{
    const setting s = {.dtype = SAMBA_FLOAT32};
    samba_tensor *x = input_of(3, SAMBA_FLOAT32);
    samba_multigraph *m;
    char path[512];
    need(samba_multigraph_new(context, &m));
    samba_compile_options options = options_of(&s, &x, true), inference = inference_of("inference", model, &s, 1, &x);
    need(samba_multigraph_add(m, &options, false));
    need(samba_multigraph_add(m, &inference, false));
    need(samba_multigraph_compile(m, "both", folder, path, sizeof path));
    samba_multigraph_free(m);
    samba_session *both = kept_session(open_session(path, 2, 3)), *usual = session_of(&s, &x, true);
    for (int i = 0; i < STEPS; i++) {
        samba_run_options run = giving(1, &x);
        run.data_parallel = true;
        need(samba_run(usual, &run));
        run.graph_name = "normed";
        need(samba_run(both, &run));
        run.graph_name = "inference";
        need(samba_run(both, &run));
    }
    OWN_TENSOR *a = get(usual, "first.running_var"), *b = get(both, "first.running_var");
    assert_memory_equal(samba_tensor_data(a), samba_tensor_data(b), CHANNELS * sizeof(float));
}

/* Text may name the operator: of one process it is its operand, forward and backward. */
TEST(test_text)
{
    for (int parallel = 0; parallel < 2; parallel++) {
        samba_graph *graph;
        need(samba_graph_parse(context,
                               "graph \"g\"\n%0 = input name=\"x\" dtype=float32 shape=[3] : float32[3]\n"
                               "%1 = parameter name=\"p\" dtype=float32 shape=[3] init=1 init_a=2 init_b=0 : float32[3]\n"
                               "%2 = mul %0 %1 : float32[3] @FWD\n%3 = replica_mean %2 : float32[3] @FWD\n"
                               "output \"y\" %3 @FWD\n",
                               &graph));
        samba_optimizer sgd = samba_sgd(0.1);
        samba_compile_options options = samba_compile_defaults();
        options.graph = graph;
        options.optimizers = &sgd;
        options.optimizer_count = 1;
        options.output_folder = folder;
        options.data_parallel = parallel;
        samba_session *session = open_kept(&options, 1, 1);
        samba_graph_free(graph);
        samba_tensor *x = kept(normal("x", SAMBA_FLOAT32, 1, SHAPE(3), 7));
        samba_run_options run = giving(1, &x);
        run.data_parallel = parallel;
        need(samba_run(session, &run));
        OWN_TENSOR *y = get(session, "y"), *gradient = get(session, "p.grad");
        for (int i = 0; i < 3; i++)
            assert_true(element_of(y, i) == 2 * element_of(x, i));
        assert_memory_equal(samba_tensor_data(gradient), samba_tensor_data(x), 3 * sizeof(float));
    }
}

TEST_MAIN_WITH(NULL, drop_kept, test_alone, test_sections, test_other_plans, test_one_element, test_refused, test_wrong_files,
               test_several_graphs, test_text)
