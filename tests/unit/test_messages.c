/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session says to misuse, word for word: read it from top to bottom. Does each sentence name what was asked, what was
 * given, what was expected and what to do? After each the device's weights are what they were. tests/python/messages/session.txt
 * is the same for Python, tests/operators/messages for operators. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "training.h"
#include "zeros.h"

#include <math.h>

#include <sambaflow/checkpoint.h>
#include <sambaflow/data.h>
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>
#include <sambaflow/multigraph.h>
#include <sambaflow/profile.h>

enum { ROWS = 4, IN = 6, CLASSES = 4 };

/* ---- what there is: a model with dropout, a session of it, and one of two graphs ---- */
static void model(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_value logits = samba_dropout(samba_linear(samba_input(g, "x"), "lin", CLASSES), "drop", 0.1);
    samba_output(g, "logits", logits);
    samba_loss(g, "loss", samba_cross_entropy(logits, samba_input(g, "target")));
}

static void answering(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_output(g, "answer", samba_linear(samba_input(g, "question"), "lin", CLASSES));
}

static void wide(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_output(g, "answer", samba_linear(samba_input(g, "question"), "lin", CLASSES + 1));
}

static void silent(samba_graph *g, const void *unused)
{
    (void)unused;
    samba_input(g, "question");
}

static samba_session *session, *several;
static samba_tensor *x, *target, *question, *logits, *loss, *weights;
static char pef[512], both[512], short_pef[512], foreign[512];

static samba_tensor *floats(const char *name, int rank, const int64_t *shape) { return tensor(name, SAMBA_FLOAT32, rank, shape); }

static samba_compile_options options(void)
{
    static samba_optimizer sgd;
    static samba_tensor *inputs[2];
    sgd = samba_sgd(0.1), inputs[0] = x, inputs[1] = target;
    samba_compile_options o = compile_of("graph", model, NULL, 2, inputs);
    o.optimizers = &sgd, o.optimizer_count = 1;
    return o;
}

static samba_compile_options inference(const char *name, samba_model its)
{
    static samba_tensor *inputs[1];
    inputs[0] = question;
    samba_compile_options o = compile_of(name, its, NULL, 1, inputs);
    o.inference = true;
    return o;
}

static void write_file(char *path, size_t size, const char *name, const char *data, size_t count)
{
    snprintf(path, size, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    x = floats("x", 2, SHAPE(ROWS, IN)), target = tensor("target", SAMBA_INT64, 1, SHAPE(ROWS)),
    question = floats("question", 2, SHAPE(2, IN));
    need(samba_fill_normal(x, 7, 0, 1));
    logits = floats("logits", 2, SHAPE(ROWS, CLASSES)), loss = floats("loss", 0, NULL);
    samba_compile_options o = options(), answer = inference("answer", answering);
    need(samba_compile(context, &o, pef, sizeof pef));
    session = open_session(pef, 1, 1);
    samba_multigraph *m;
    need(samba_multigraph_new(context, &m));
    o.name = "train";
    need(samba_multigraph_add(m, &o, false));
    need(samba_multigraph_add(m, &answer, false));
    need(samba_multigraph_compile(m, "several", folder, both, sizeof both));
    samba_multigraph_free(m);
    several = open_session(both, 1, 1);
    weights = get(session, "lin.weight");
    write_file(short_pef, sizeof short_pef, "short.pef", "SAMBAPEF", 8);
    write_file(foreign, sizeof foreign, "foreign.pef",
               "a text that is no PEF and long enough to have the size of its header, which has 128 bytes: it says so, and what "
               "to give instead of it.",
               134);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    samba_tensor *const all[] = {x, target, question, logits, loss, weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        samba_tensor_free(all[i]);
    samba_session_free(session);
    samba_session_free(several);
    return 0;
}

/* ---- saying ---- */
static int wrong; /* sentences of a test that are not as they stand here */

/* The message with the scratch folder as FOLDER. */
static void shorten(char *message, size_t size)
{
    snprintf(message, size, "%s", samba_error_message(context));
    for (char *at; (at = strstr(message, folder));) {
        memcpy(at, "FOLDER", 6);
        memmove(at + 6, at + strlen(folder), strlen(at + strlen(folder)) + 1);
    }
}

#define says(call, status, sentence) says_at((call), (status), (sentence), __FILE__, __LINE__)
static void says_at(samba_status given, samba_status expected, const char *sentence, const char *file, int line)
{
    char message[2048];
    shorten(message, sizeof message);
    if (given != expected || strcmp(message, sentence) != 0) {
        print_error("%s:%d: %s: %s\n", file, line, samba_status_name(given), message);
        wrong++;
    }
    samba_tensor *now = get(session, "lin.weight");
    assert_memory_equal(samba_tensor_data(now), samba_tensor_data(weights), ROWS * IN * sizeof(float));
    samba_tensor_free(now);
}

static void done(void)
{
    int count = wrong;
    wrong = 0;
    assert_int_equal(count, 0);
}

/* ---- calls ---- */
static samba_status run_inputs(samba_tensor *a, samba_tensor *b)
{
    samba_run_options r = samba_run_defaults();
    r.inputs = (samba_tensor *[]){a, b}, r.input_count = 2;
    return samba_run(session, &r);
}

/* With a tensor that is made for it. */
static samba_status run_made(const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *made = tensor(name, dtype, rank, shape);
    samba_status status = run_inputs(made, target);
    samba_tensor_free(made);
    return status;
}

static samba_status run_output(samba_session *its, const char *graph, samba_tensor *output)
{
    samba_run_options r = samba_run_defaults();
    r.outputs = &output, r.output_count = 1, r.graph_name = graph;
    return samba_run(its, &r);
}

static samba_status run_output_made(const char *name, int rank, const int64_t *shape)
{
    samba_tensor *made = floats(name, rank, shape);
    samba_status status = run_output(session, NULL, made);
    samba_tensor_free(made);
    return status;
}

static samba_status run_types(samba_session *its, const char *graph, const char *type)
{
    samba_run_options r = samba_run_defaults();
    r.section_types = &type, r.section_type_count = 1, r.graph_name = graph;
    return samba_run(its, &r);
}

static samba_status run_ids(samba_session *its, const char *graph, int a, int b)
{
    samba_run_options r = samba_run_defaults();
    r.section_ids = (const int[]){a, b}, r.section_id_count = 2, r.graph_name = graph;
    return samba_run(its, &r);
}

static samba_status run_calls(int from, int until)
{
    samba_run_options r = samba_run_defaults();
    r.run_from_call_id = from, r.run_until_call_id = until;
    return samba_run(session, &r);
}

static samba_status run_gradient(const char *name, samba_dtype dtype, int rank, const int64_t *shape)
{
    samba_tensor *made = tensor(name, dtype, rank, shape);
    samba_run_options r = samba_run_defaults();
    r.output_gradients = &made, r.output_gradient_count = 1;
    samba_status status = samba_run(session, &r);
    samba_tensor_free(made);
    return status;
}

static samba_status run_hyper(const char *name, double value)
{
    samba_run_options r = samba_run_defaults();
    r.hyperparameters = &(samba_hyperparameter){name, value}, r.hyperparameter_count = 1;
    return samba_run(session, &r);
}

static samba_status run_input_of(const char *graph, samba_tensor *input)
{
    samba_run_options r = samba_run_defaults();
    r.inputs = &input, r.input_count = 1, r.graph_name = graph;
    return samba_run(several, &r);
}

/* ---- an input of a wrong name, shape or dtype names tensor, expected and given ---- */
static void inputs(void **unused)
{
    (void)unused;
    says(run_made("y", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN)), SAMBA_ERROR_NAME,
         "there is no input \"y\"; inputs are: \"x\", \"target\"");
    says(run_made("X", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN)), SAMBA_ERROR_NAME,
         "there is no input \"X\" (did you mean \"x\"?); inputs are: \"x\", \"target\"");
    says(run_made("", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN)), SAMBA_ERROR_NAME,
         "there is no input \"\"; inputs are: \"x\", \"target\"");
    says(run_made("lin.weight", SAMBA_FLOAT32, 2, SHAPE(CLASSES, IN)), SAMBA_ERROR_NAME,
         "\"lin.weight\" is of kind parameter, not input: samba_session_set moves it");
    says(run_made("x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN + 1)), SAMBA_ERROR_SHAPE,
         "input \"x\" has the shape (4, 6) in the PEF and (4, 7) was given");
    says(run_made("x", SAMBA_FLOAT32, 0, NULL), SAMBA_ERROR_SHAPE,
         "input \"x\" has the shape (4, 6) in the PEF and () was given");
    says(run_made("x", SAMBA_FLOAT64, 2, SHAPE(ROWS, IN)), SAMBA_ERROR_DTYPE,
         "input \"x\" is float32 in the PEF and float64 was given: copy it into a tensor of float32");
    says(run_inputs(x, x), SAMBA_ERROR_NAME, "input \"x\" was given twice");
    says(run_inputs(x, NULL), SAMBA_ERROR_ARGUMENT, "input 1 of the run is NULL");
    samba_tensor *empty;
    need(samba_tensor_empty(context, "x", SAMBA_FLOAT32, 2, SHAPE(ROWS, IN), &empty));
    says(run_inputs(empty, target), SAMBA_ERROR_ARGUMENT, "input \"x\" is an empty tensor: it has no memory to transfer");
    samba_tensor_free(empty);
    ((int64_t *)samba_tensor_data(target))[2] = 9;
    says(run_inputs(x, target), SAMBA_ERROR_ARGUMENT, "input target[2] = 9 is outside [0, 4) (cross_entropy)");
    ((int64_t *)samba_tensor_data(target))[2] = 0;
    samba_run_options r = samba_run_defaults();
    r.input_count = 2;
    says(samba_run(session, &r), SAMBA_ERROR_ARGUMENT,
         "2 inputs, 0 outputs, 0 gradients and 0 hyperparameters: a count or its list is missing");
    r.struct_size = 0;
    says(samba_run(session, &r), SAMBA_ERROR_ARGUMENT,
         "samba_run: its options say a struct_size of 0 and this library knows 120: start from the function that gives defaults, "
         "and compile "
         "against this library's headers");
    done();
}

/* ---- an output that is not there ---- */
static void outputs(void **unused)
{
    (void)unused;
    says(run_output_made("logit", 2, SHAPE(ROWS, CLASSES)), SAMBA_ERROR_NAME,
         "there is no output \"logit\" (did you mean \"logits\"?); outputs are: \"logits\", \"loss\"");
    says(run_output_made("x", 2, SHAPE(ROWS, IN)), SAMBA_ERROR_NAME,
         "\"x\" is of kind input, not output: samba_session_get moves it");
    says(run_output_made("logits", 2, SHAPE(ROWS, IN)), SAMBA_ERROR_SHAPE,
         "output \"logits\" has the shape (4, 4) in the PEF and (4, 6) was given");
    says(run_output(session, NULL, NULL), SAMBA_ERROR_ARGUMENT, "output 0 of the run is NULL");
    done();
}

/* ---- section types that are not in the PEF list those that are; ids; call ids ---- */
static void sections(void **unused)
{
    (void)unused;
    says(run_types(session, NULL, "FORWARD"), SAMBA_ERROR_NAME,
         "there is no section type \"FORWARD\"; this PEF has: \"FWD\", \"BCKWD\", \"OPT\"");
    says(run_types(session, NULL, "zero_grad"), SAMBA_ERROR_NAME,
         "there is no section type \"zero_grad\"; this PEF has: \"FWD\", \"BCKWD\", \"OPT\"");
    says(run_types(session, NULL, NULL), SAMBA_ERROR_NAME,
         "there is no section type \"(null)\"; this PEF has: \"FWD\", \"BCKWD\", \"OPT\"");
    says(run_ids(session, NULL, 0, 3), SAMBA_ERROR_ARGUMENT, "there is no section 3: this PEF's ids are 0 to 2");
    says(run_ids(session, NULL, -1, 0), SAMBA_ERROR_ARGUMENT, "there is no section -1: this PEF's ids are 0 to 2");
    samba_run_options r = samba_run_defaults();
    const char *type = "FWD";
    r.section_types = &type, r.section_type_count = 1;
    r.section_ids = (const int[]){0}, r.section_id_count = 1;
    says(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "both section types and section ids were given: give one of them");
    r.section_type_count = -1;
    says(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "-1 section types and 1 section ids: a count or its list is missing");
    says(run_calls(3, -1), SAMBA_ERROR_ARGUMENT, "run_from_call_id 3: this PEF's calls are 0 to 2");
    says(run_calls(-2, -1), SAMBA_ERROR_ARGUMENT, "run_from_call_id -2: this PEF's calls are 0 to 2");
    says(run_calls(-1, 0), SAMBA_ERROR_ARGUMENT,
         "run_until_call_id 0: the call before which the run ends is 1 to 3, of a schedule of 3");
    says(run_calls(-1, 4), SAMBA_ERROR_ARGUMENT,
         "run_until_call_id 4: the call before which the run ends is 1 to 3, of a schedule of 3");
    says(run_calls(2, 2), SAMBA_ERROR_ARGUMENT,
         "run_from_call_id 2 is not before run_until_call_id 2, where the run ends: there is nothing between them");
    r.section_type_count = 1, r.section_id_count = 0, r.run_from_call_id = 0;
    says(samba_run(session, &r), SAMBA_ERROR_ARGUMENT,
         "call ids are of the schedule, which section types and section ids replace: give one of them");
    done();
}

/* ---- sections that cannot run now ---- */
static void order(void **unused)
{
    (void)unused;
    says(run_types(session, NULL, "BCKWD"), SAMBA_ERROR_STATE,
         "section 1 (BCKWD) needs the activations of a forward run, and there was none yet: run FWD before it");
    says(run_types(session, NULL, "OPT"), SAMBA_ERROR_STATE,
         "section 2 (OPT) needs gradients and no backward section has run yet: run FWD and BCKWD before it");
    says(run_types(session, NULL, "FWD"), SAMBA_ERROR_STATE,
         "section 0 (FWD) reads the inputs \"x\", \"target\", which were never given: give them to this run, or set them before");
    need(give_zeros(context, session));
    need(run_types(session, NULL, "FWD"));
    need(run_types(session, NULL, "BCKWD"));
    says(run_types(session, NULL, "BCKWD"), SAMBA_ERROR_STATE,
         "section 1 (BCKWD) needs the activations of a forward run, and it has used up those of the last: run FWD before it");
    done();
}

/* ---- gradients of outputs ---- */
static void gradients(void **unused)
{
    (void)unused;
    says(run_gradient("loss.grad", SAMBA_FLOAT32, 1, SHAPE(2)), SAMBA_ERROR_SHAPE,
         "gradient \"loss.grad\" has the shape () in the PEF and (2) was given");
    says(run_gradient("loss.grad", SAMBA_FLOAT64, 0, NULL), SAMBA_ERROR_DTYPE,
         "gradient \"loss.grad\" is float32 in the PEF and float64 was given: copy it into a tensor of float32");
    says(run_gradient("loss", SAMBA_FLOAT32, 0, NULL), SAMBA_ERROR_NAME,
         "there is no gradient \"loss\" of an output; gradients start from: \"loss.grad\"");
    says(run_gradient("logits.grad", SAMBA_FLOAT32, 2, SHAPE(ROWS, CLASSES)), SAMBA_ERROR_NAME,
         "there is no gradient \"logits.grad\" of an output; gradients start from: \"loss.grad\"");
    says(run_gradient("lin.weight.grad", SAMBA_FLOAT32, 2, SHAPE(CLASSES, IN)), SAMBA_ERROR_NAME,
         "there is no gradient \"lin.weight.grad\" of an output; gradients start from: \"loss.grad\"");
    samba_run_options r = samba_run_defaults();
    r.output_gradients = (samba_tensor *[]){NULL}, r.output_gradient_count = 1;
    says(samba_run(session, &r), SAMBA_ERROR_ARGUMENT, "gradient 0 of the run is NULL");
    done();
}

/* ---- an unknown hyperparameter lists the known ---- */
static void hyperparameters(void **unused)
{
    (void)unused;
    says(run_hyper("learning_rate", 1), SAMBA_ERROR_NAME,
         "there is no hyperparameter \"learning_rate\"; they are: \"drop.p\", \"drop.seed\", \"lr\", \"weight_decay\", "
         "\"momentum\", \"dampening\"");
    says(run_hyper("weight_decy", 1), SAMBA_ERROR_NAME,
         "there is no hyperparameter \"weight_decy\" (did you mean \"weight_decay\"?); they are: \"drop.p\", \"drop.seed\", "
         "\"lr\", "
         "\"weight_decay\", \"momentum\", \"dampening\"");
    says(run_hyper("lr", (double)NAN), SAMBA_ERROR_ARGUMENT, "hyperparameter \"lr\" = nan: it must be a finite number");
    says(run_hyper("lr", (double)INFINITY), SAMBA_ERROR_ARGUMENT, "hyperparameter \"lr\" = inf: it must be a finite number");
    says(run_hyper("p", 1.5), SAMBA_ERROR_ARGUMENT, "hyperparameter \"p\" = 1.5: the dropout rate \"drop.p\" must be in [0, 1]");
    says(run_hyper("drop.seed", 0.5), SAMBA_ERROR_ARGUMENT,
         "hyperparameter \"drop.seed\" = 0.5: \"drop.seed\" takes an integer of at most 53 bits");
    says(run_hyper(NULL, 1), SAMBA_ERROR_ARGUMENT, "a hyperparameter has no name");
    says(samba_session_set_hyperparameters(session, 1, NULL), SAMBA_ERROR_ARGUMENT, "1 hyperparameters without values");
    done();
}

/* ---- several graphs ---- */
static void graphs(void **unused)
{
    (void)unused;
    samba_multigraph *m;
    samba_compile_options answer = inference("answer", answering), other = inference("other", wide);
    need(samba_multigraph_new(context, &m));
    says(samba_multigraph_compile(m, "none", folder, NULL, 0), SAMBA_ERROR_STATE,
         "multigraph: there is no graph to compile: add one with samba_multigraph_add");
    need(samba_multigraph_add(m, &answer, false));
    says(samba_multigraph_add(m, &answer, false), SAMBA_ERROR_NAME,
         "there is a graph \"answer\" already: give this one another name, or overwrite it");
    need(samba_multigraph_add(m, &answer, true));
    need(samba_multigraph_add(m, &other, false));
    says(samba_multigraph_compile(m, "both", folder, NULL, 0), SAMBA_ERROR_NAME,
         "\"lin.weight\" is a parameter float32(4, 6) in graph \"answer\" and a parameter float32(5, 6) in graph \"other\": what "
         "graphs share by "
         "name is of one kind, dtype and shape; give one of them another name");
    samba_multigraph_free(m);
    says(run_types(several, "prefill", "FWD"), SAMBA_ERROR_NAME,
         "there is no graph \"prefill\"; this PEF has: \"train\", \"answer\"");
    says(run_types(several, NULL, "FWD"), SAMBA_ERROR_ARGUMENT,
         "this PEF has 2 graphs, and the run does not say which: give it a graph_name of: \"train\", \"answer\"");
    says(run_types(session, "answer", "FWD"), SAMBA_ERROR_NAME, "there is no graph \"answer\"; this PEF has: \"graph\"");
    says(run_input_of("train", question), SAMBA_ERROR_NAME,
         "graph \"train\" has no input \"question\", another one has; its inputs are: \"x\", \"target\"");
    says(run_output(several, "answer", logits), SAMBA_ERROR_NAME,
         "graph \"answer\" has no output \"logits\", another one has; its outputs are: \"answer\"");
    says(run_types(several, "answer", "OPT"), SAMBA_ERROR_NAME, "there is no section of type \"OPT\"; this graph has: \"FWD\"");
    says(run_ids(several, "answer", 0, 0), SAMBA_ERROR_ARGUMENT, "there is no section 0: this graph's ids are 3 to 3");
    says(run_types(several, "answer", "FWD"), SAMBA_ERROR_STATE,
         "section 3 (FWD) reads the input \"question\", which was never given: give it to this run, or set it before");
    need(give_zeros(context, several));
    need(run_types(several, "train", "FWD"));
    need(run_types(several, "answer", "FWD"));
    says(run_types(several, "train", "BCKWD"), SAMBA_ERROR_STATE,
         "section 1 (BCKWD) needs the activations of a forward run, and another graph has run since: run FWD before it");
    done();
}

/* ---- tensors by name ---- */
static void tensors(void **unused)
{
    (void)unused;
    samba_tensor *found, *wait = floats("lin.wait", 1, SHAPE(2)), *small = floats("lin.weight", 2, SHAPE(2, 2));
    says(samba_session_set(session, wait), SAMBA_ERROR_NAME,
         "there is no tensor \"lin.wait\" (did you mean \"lin.weight\"?); tensors are: \"x\", \"target\", \"lin.weight\", "
         "\"lin.bias\", "
         "\"loss.grad\", \"lin.weight.grad\", \"lin.bias.grad\", \"optim0.step\", \"lin.weight.momentum_buffer\", "
         "\"lin.bias.momentum_buffer\", \"logits\", \"loss\"");
    says(samba_session_get(session, small), SAMBA_ERROR_SHAPE,
         "parameter \"lin.weight\" has the shape (4, 6) in the PEF and (2, 2) was given");
    says(samba_session_set(session, NULL), SAMBA_ERROR_ARGUMENT, "samba_session_set was given no tensor");
    says(samba_session_get_by_name(session, "lin.wait", &found), SAMBA_ERROR_NAME,
         "there is no tensor \"lin.wait\" (did you mean \"lin.weight\"?); tensors are: \"x\", \"target\", \"lin.weight\", "
         "\"lin.bias\", "
         "\"loss.grad\", \"lin.weight.grad\", \"lin.bias.grad\", \"optim0.step\", \"lin.weight.momentum_buffer\", "
         "\"lin.bias.momentum_buffer\", \"logits\", \"loss\"");
    says(samba_session_get_by_name(session, NULL, &found), SAMBA_ERROR_ARGUMENT, "samba_session_get_by_name was given no name");
    says(samba_session_input(session, "lin.weight", &found), SAMBA_ERROR_NAME,
         "\"lin.weight\" is of kind parameter, not input: samba_session_set moves it");
    samba_tensor_info info;
    samba_section_info section;
    samba_hyperparameter value;
    samba_graph_info graph;
    samba_time time;
    says(samba_session_tensor_info(session, 99, &info), SAMBA_ERROR_ARGUMENT, "there is no tensor 99: the PEF has 12");
    says(samba_session_section_info(session, 3, &section), SAMBA_ERROR_ARGUMENT, "there is no section 3: the PEF has 3");
    says(samba_session_hyperparameter(session, -1, &value), SAMBA_ERROR_ARGUMENT, "there is no hyperparameter -1: the PEF has 6");
    says(samba_session_graph_info(session, 1, &graph), SAMBA_ERROR_ARGUMENT, "there is no graph 1: the PEF has 1");
    says(samba_session_section_time(session, 3, &time), SAMBA_ERROR_ARGUMENT, "there is no section 3: the PEF has 3");
    says(samba_session_profile(session, (samba_profile)3, 0), SAMBA_ERROR_ARGUMENT,
         "samba_session_profile: 3 is not SAMBA_PROFILE_OFF, SAMBA_PROFILE_SECTIONS or SAMBA_PROFILE_STAGES");
    samba_tensor_free(wait);
    samba_tensor_free(small);
    done();
}

/* ---- making a session ---- */
static void sessions(void **unused)
{
    (void)unused;
    samba_session *none;
    samba_session_options o = samba_session_defaults();
    says(samba_session_new(context, NULL, NULL, &none), SAMBA_ERROR_ARGUMENT, "samba_session_new was given no path of a PEF");
    says(samba_session_new(context, pef, NULL, NULL), SAMBA_ERROR_ARGUMENT,
         "samba_session_new was given no place for the session");
    says(samba_session_new(context, "/nowhere/a.pef", NULL, &none), SAMBA_ERROR_FILE,
         "cannot read \"/nowhere/a.pef\": No such file or directory");
    says(samba_session_new(context, folder, NULL, &none), SAMBA_ERROR_FILE,
         "cannot read \"FOLDER\": it is a directory; give the path of a file");
    says(samba_session_new(context, short_pef, NULL, &none), SAMBA_ERROR_FORMAT,
         "\"FOLDER/short.pef\" is truncated: a PEF's header has 128 bytes, the file has 8");
    says(samba_session_new(context, foreign, NULL, &none), SAMBA_ERROR_FORMAT,
         "\"FOLDER/foreign.pef\" is not a PEF: it does not begin with SAMBAPEF; give the .pef file that compile wrote");
    o.threads = -1;
    says(samba_session_new(context, pef, &o, &none), SAMBA_ERROR_ARGUMENT,
         "-1 threads: give 1 to 4096, or 0 for as many as OpenMP offers");
    o.threads = 0, o.device = "rdu";
    says(samba_session_new(context, pef, &o, &none), SAMBA_ERROR_UNSUPPORTED,
         "there is no device \"rdu\"; devices are: \"cpu\", \"null\"");
    done();
}

/* ---- weights as files ---- */
static void files(void **unused)
{
    (void)unused;
    samba_checkpoint *checkpoint;
    samba_checkpoint_options o = samba_checkpoint_defaults();
    says(samba_session_load(session, "/nowhere/a.safetensors"), SAMBA_ERROR_FILE,
         "cannot read \"/nowhere/a.safetensors\": No such file or directory");
    says(samba_session_load(session, short_pef), SAMBA_ERROR_FORMAT,
         "FOLDER/short.pef: no safetensors file, or cut short: its header of 5063541597263446355 bytes exceeds the format's "
         "limit of 100 MB");
    says(samba_session_load(session, NULL), SAMBA_ERROR_ARGUMENT, "samba_session_load was given no path");
    says(samba_session_save(session, "/nowhere/a.safetensors", true), SAMBA_ERROR_FILE,
         "cannot write \"/nowhere/a.safetensors\": No such file or directory");
    says(samba_session_save(session, NULL, true), SAMBA_ERROR_ARGUMENT, "samba_session_save was given no path");
    says(samba_checkpoint_save(session, &o), SAMBA_ERROR_ARGUMENT, "samba_checkpoint_save was given no folder");
    says(samba_checkpoint_load(session, NULL), SAMBA_ERROR_ARGUMENT, "samba_checkpoint_load was given no checkpoint");
    says(samba_checkpoint_open(context, pef, &checkpoint), SAMBA_ERROR_FILE,
         "\"FOLDER/graph/graph.pef\" is no checkpoint, which is a folder: samba_session_load takes files of weights");
    done();
}

/* ---- compiling: optimizers, losses, sizes, names; what does not fit is said with sizes ---- */
/* ---- NULL where something is needed ---- */
static void nothing(void **unused)
{
    (void)unused;
    samba_tensor_list list;
    samba_dtype dtype;
    says(samba_session_tensor_info(session, 0, NULL), SAMBA_ERROR_ARGUMENT,
         "samba_session_tensor_info was given no place for what it tells");
    says(samba_session_section_info(session, 0, NULL), SAMBA_ERROR_ARGUMENT,
         "samba_session_section_info was given no place for what it tells");
    says(samba_session_graph_info(session, 0, NULL), SAMBA_ERROR_ARGUMENT,
         "samba_session_graph_info was given no place for what it tells");
    says(samba_session_stage_info(session, 0, NULL), SAMBA_ERROR_ARGUMENT,
         "samba_session_stage_info was given no place for what it tells");
    says(samba_session_section_time(session, 0, NULL), SAMBA_ERROR_ARGUMENT,
         "samba_session_section_time was given no place for the time");
    says(samba_session_stage_time(session, 0, NULL), SAMBA_ERROR_ARGUMENT,
         "samba_session_stage_time was given no place for the time");
    says(samba_safetensors_write(context, NULL, 1, &x, NULL), SAMBA_ERROR_ARGUMENT, "samba_safetensors_write was given no path");
    says(samba_safetensors_write(context, "a.safetensors", -1, &x, NULL), SAMBA_ERROR_ARGUMENT,
         "a.safetensors: -1 tensors, and their list is given");
    says(samba_safetensors_write(context, "a.safetensors", 1, NULL, NULL), SAMBA_ERROR_ARGUMENT,
         "a.safetensors: 1 tensors, and their list is NULL");
    says(samba_safetensors_write(context, "a.safetensors", 2, (samba_tensor *[]){x, NULL}, NULL), SAMBA_ERROR_ARGUMENT,
         "a.safetensors: tensor 1 of 2 is NULL");
    says(samba_tensors_read(context, NULL, "x", &list), SAMBA_ERROR_ARGUMENT, "samba_tensors_read was given no path");
    says(samba_tensors_read(context, "a.npy", "x", NULL), SAMBA_ERROR_ARGUMENT,
         "samba_tensors_read was given no place for the list");
    says(samba_dtype_from_name(context, NULL, &dtype), SAMBA_ERROR_ARGUMENT, "samba_dtype_from_name was given no name");
    says(samba_dtype_from_name(context, "int8", NULL), SAMBA_ERROR_ARGUMENT,
         "samba_dtype_from_name was given no place for the dtype");
    assert_int_equal(samba_tensor_set_memory(NULL, &list), SAMBA_ERROR_ARGUMENT); /* no context, no message */
    assert_int_equal(samba_context_new(NULL, NULL), SAMBA_ERROR_ARGUMENT);
    done();
}

static void compiling(void **unused)
{
    (void)unused;
    samba_compile_options o = options(), none = inference("graph", silent);
    samba_optimizer sgd = samba_sgd((double)NAN);
    o.optimizers = &sgd;
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT, "optimizer 0 has lr nan: expected a number in [0, inf)");
    sgd = samba_sgd(0.1), sgd.parameter_count = 1, sgd.parameters = (const char *[]){"lin.wait"};
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_NAME,
         "optimizer 'optim0': no parameter matches 'lin.wait' (did you mean 'lin.weight'?)");
    says(samba_compile(context, &none, NULL, 0), SAMBA_ERROR_ARGUMENT,
         "model 'graph' has no output: name what it computes with samba_output or samba_loss");
    o = options(), o.input_count = 1;
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_NAME, "there is no input \"target\"; the inputs are: \"x\"");
    o = options(), o.grad_accumulation_steps = 0;
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT, "compile: grad_accumulation_steps is 0, expected 1 or more");
    o = options(), o.memory_budget = 1;
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT,
         "compile: a memory budget of 1 bytes cannot be met: the least found for model 'graph' is 1728 bytes, parameters, "
         "gradients and "
         "optimizer state included; give that much, or a smaller batch");
    o = options(), o.precision = (samba_precision)7;
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT,
         "compile: precision is 7, expected SAMBA_FP32 (0) or SAMBA_BF16 (1)");
    o = options(), o.fast_memory = 1;
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT,
         "compile: fast memory of 1 bytes cannot hold stage 0 'drop: cast sub reciprocal cast', which uses 16 bytes: model "
         "'graph' needs 432 "
         "bytes, or smaller batches");
    o = options(), o.mapping = SAMBA_MAPPING_SPATIAL, o.fast_memory = 400;
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT,
         "compile: mapping 'spatial' keeps FWD and BCKWD in fast memory at once: that takes 568 bytes (the model has 192 of "
         "parameters, 256 of "
         "gradients, 512 of activations), and fast memory has 400: give that much, a smaller batch, or mapping 'section'");
    static const char *const later[2] = {"%1 = exp %0 : float32[2] @BCKWD\noutput \"y\" %1 @BCKWD\n",
                                         "%1 = exp %0 : float32[2] @FWD\noutput \"y\" %1 @FWD\nassign %0 %1 @OPT\n"};
    for (int i = 0; i < 2; i++) {
        char text[256];
        samba_graph *parsed;
        snprintf(text, sizeof text,
                 "graph \"g\"\n%%0 = state name=\"s\" dtype=float32 shape=[2] init=0 init_a=0 init_b=0 kind=1 : float32[2]\n%s",
                 later[i]);
        need(samba_graph_parse(context, text, &parsed));
        o = samba_compile_defaults(), o.graph = parsed;
        says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT,
             i == 0
                 ? "compile: node %1, exp, is of BCKWD; a graph to compile is of FWD alone, of which the compiler makes the rest"
                 : "compile: sink 1 is of OPT; a graph to compile is of FWD alone, of which the compiler makes the rest");
        samba_graph_free(parsed);
    }
    o = options(), o.pef_name = "../up";
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_ARGUMENT,
         "compile: '../up' cannot name a PEF: expected a file name without '/'");
    o = options(), o.output_folder = "/dev/null";
    says(samba_compile(context, &o, NULL, 0), SAMBA_ERROR_FILE, "cannot make the directory \"/dev/null\": File exists");
    done();
}

/* ---- the model is the one that was compiled: the first difference, with operators, shapes and names ---- */
static samba_status compare(const char *model_text)
{
    samba_graph *compiled, *given;
    need(samba_graph_parse(context, samba_session_graph_text(several), &compiled));
    char text[4096];
    snprintf(text, sizeof text, "graph \"train\"\n%s", model_text);
    need(samba_graph_parse(context, text, &given));
    samba_status status = samba_graph_compare(compiled, given);
    samba_graph_free(compiled);
    samba_graph_free(given);
    return status;
}

#define X(rows) "%0 = input name=\"x\" dtype=float32 shape=[" #rows ",6] : float32[" #rows ",6]\n"
static void comparing(void **unused)
{
    (void)unused;
    says(compare(X(8)), SAMBA_ERROR_STATE,
         "the model differs from the one that was compiled. First difference: compiled was  %0 = input name=\"x\" dtype=float32 "
         "shape=[4,6] : "
         "float32[4,6]  and the model has  %0 = input name=\"x\" dtype=float32 shape=[8,6] : float32[8,6]");
    says(compare(X(4) "%1 = relu %0 : float32[4,6] @FWD at \"net.py:7\"\n"), SAMBA_ERROR_STATE,
         "the model differs from the one that was compiled. First difference: compiled was  %1 = input name=\"target\" "
         "dtype=int64 shape=[4] : "
         "int64[4]  and the model has  %1 = relu %0 : float32[4,6] @FWD (in net.py:7)");
    says(compare("%0 = input name=\"image\" dtype=float32 shape=[4,6] : float32[4,6]\n"), SAMBA_ERROR_STATE,
         "the model differs from the one that was compiled. First difference: compiled was  %0 = input name=\"x\" dtype=float32 "
         "shape=[4,6] : "
         "float32[4,6]  and the model has  %0 = input name=\"image\" dtype=float32 shape=[4,6] : float32[4,6]");
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(order),    cmocka_unit_test(inputs),    cmocka_unit_test(outputs),
                                       cmocka_unit_test(sections), cmocka_unit_test(gradients), cmocka_unit_test(hyperparameters),
                                       cmocka_unit_test(graphs),   cmocka_unit_test(tensors),   cmocka_unit_test(sessions),
                                       cmocka_unit_test(files),    cmocka_unit_test(nothing),   cmocka_unit_test(compiling),
                                       cmocka_unit_test(comparing)};
    if (!training_begin())
        return 1;
    return training_end(cmocka_run_group_tests(tests, setup, teardown));
}
