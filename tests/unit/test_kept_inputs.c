/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs that keep an earlier step's values (runtime/reuse.c). A run that is given some inputs anew is refused, by name and with
 * nothing changed, where it would read another as an earlier step had it; whoever asks for it, once, may have it. What is
 * everyday stays as it is: sections one after another, repetitions, accumulation, inputs that were set or lie in the caller's
 * memory, graphs that go on with each other's inputs. */
#include "training.h"
#include <sambaflow/functional.h>
#include <sambaflow/layers.h>

enum { ROWS = 6, IN = 5, OUT = 3 };
#define STALE "which still has the value of an earlier step while other inputs are given anew"

/* The mask is read by both phases, the label by FWD, and by BCKWD. */
MODEL(masked)
{
    samba_value x = samba_mul(samba_input(g, "x"), samba_input(g, "mask"));
    samba_loss(g, "loss",
               samba_cross_entropy(samba_linear(samba_tanh(samba_linear(x, "in", 7)), "out", OUT), samba_input(g, "label")));
}
MODEL(judging) { samba_output(g, "judged", samba_linear(samba_mul(samba_input(g, "x"), samba_input(g, "weight")), "judge", 1)); }

static samba_tensor *x[2], *mask[2], *label[2], *weight;

static int setup(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        const uint64_t seed = (uint64_t)i + 1;
        x[i] = kept(normal("x", SAMBA_FLOAT32, 2, SHAPE(i ? ROWS / 2 : ROWS, IN), seed));
        mask[i] = kept(normal("mask", SAMBA_FLOAT32, 1, SHAPE(IN), 10 + seed));
        label[i] = kept(tensor("label", SAMBA_INT64, 1, SHAPE(i ? ROWS / 2 : ROWS)));
        need(samba_fill_integers(label[i], seed, 0, OUT));
    }
    weight = kept(normal("weight", SAMBA_FLOAT32, 1, SHAPE(IN), 9));
    return 0;
}

static samba_compile_options training(int accumulation)
{
    static samba_optimizer o;
    static samba_tensor *inputs[3];
    inputs[0] = x[0], inputs[1] = mask[0], inputs[2] = label[0];
    o = samba_sgd(0.1);
    samba_compile_options options = training_of("masked", masked, NULL, 3, inputs, &o);
    options.grad_accumulation_steps = accumulation;
    return options;
}

static samba_session *open_masked(int accumulation)
{
    const samba_compile_options options = training(accumulation);
    return open_kept(&options, 1, 3);
}

/* A run of these inputs, NULL for none, and of these sections, NULL for the schedule. */
static samba_status run(samba_session *session, samba_tensor *a, samba_tensor *b, samba_tensor *c, const char *sections)
{
    samba_tensor *all[] = {a, b, c}, *given[3];
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (all[i])
            given[count++] = all[i];
    samba_run_options r = giving(count, given);
    return sections ? run_sections(session, &r, sections) : samba_run(session, &r);
}

static samba_status run_reusing(samba_session *session, int inputs, samba_tensor *const *given, int count,
                                const char *const *names)
{
    samba_run_options r = giving(inputs, given);
    r.reuse_input_count = count;
    r.reuse_inputs = names;
    return samba_run(session, &r);
}

TEST(stale_inputs_are_refused)
{
    samba_session *session = open_masked(1);
    need(run(session, x[0], mask[0], label[0], NULL));
    const uint64_t before = bits_of(session, COMPUTED);
    refuse(run(session, x[0], NULL, label[0], NULL), SAMBA_ERROR_STATE, "(FWD) reads the input \"mask\", " STALE);
    refuse(run(session, x[0], NULL, label[0], NULL), SAMBA_ERROR_STATE, "name it in reuse_inputs, once, to keep it");
    refuse(run(session, NULL, mask[1], NULL, NULL), SAMBA_ERROR_STATE,
           "the inputs \"x\", \"label\", which still have the values");
    refuse(run(session, x[0], NULL, label[0], "FWD"), SAMBA_ERROR_STATE, "\"mask\"");
    assert_true(bits_of(session, COMPUTED) == before);
    need(run(session, x[0], mask[1], label[0], NULL));
    need(run(session, NULL, NULL, NULL, NULL)); /* again, over what the device has */
    need(run(session, NULL, NULL, NULL, "FWD"));
    refuse(run(session, x[0], mask[1], NULL, "FWD"), SAMBA_ERROR_STATE, "\"label\", " STALE);
}

TEST(asking_once_is_enough)
{
    static const char *const names[] = {"mask"}, *const misspelt[] = {"maks"}, *const missing[] = {NULL};
    samba_tensor *const two[] = {x[0], label[0]}, *const three[] = {x[0], label[0], mask[0]};
    samba_session *session = open_masked(1);
    refuse(run_reusing(session, 2, two, 1, names), SAMBA_ERROR_STATE, "\"mask\", which was never given");
    need(run_reusing(session, 3, three, 0, NULL));
    refuse(run_reusing(session, 2, two, 1, misspelt), SAMBA_ERROR_NAME, "there is no input \"maks\" (did you mean \"mask\"?)");
    refuse(run_reusing(session, 3, three, 1, names), SAMBA_ERROR_ARGUMENT,
           "input \"mask\" is given to this run and named in reuse_inputs");
    refuse(run_reusing(session, 2, two, 1, missing), SAMBA_ERROR_ARGUMENT, "reuse_inputs: name 0 is NULL");
    refuse(run_reusing(session, 2, two, 1, NULL), SAMBA_ERROR_ARGUMENT, "reuse_inputs: 1 names");
    refuse(run_reusing(session, 2, two, 0, NULL), SAMBA_ERROR_STATE, "\"mask\", " STALE); /* a refused run asked for nothing */
    need(run_reusing(session, 2, two, 1, names));
    need(run_reusing(session, 2, two, 0, NULL));
    need(run_reusing(session, 3, three, 0, NULL)); /* another mask, which stays likewise */
    need(run_reusing(session, 2, two, 0, NULL));
    refuse(run_reusing(session, 1, two, 0, NULL), SAMBA_ERROR_STATE, "\"label\", " STALE);
}

TEST(sessions_may_ask)
{
    static const char *const names[] = {"mask", "label"}, *const misspelt[] = {"x", "lable"}, *const output[] = {"loss"};
    char path[512];
    samba_session *session;
    const samba_compile_options options = training(1);
    need(samba_compile(context, &options, path, sizeof path));
    refuse(samba_session_new(context, path, SESSION(.reuse_input_count = 2, .reuse_inputs = misspelt), &session),
           SAMBA_ERROR_NAME, "there is no input \"lable\" (did you mean \"label\"?)");
    refuse(samba_session_new(context, path, SESSION(.reuse_input_count = 1, .reuse_inputs = output), &session), SAMBA_ERROR_NAME,
           "\"loss\" is an output, not an input");
    refuse(samba_session_new(context, path, SESSION(.reuse_input_count = 1), &session), SAMBA_ERROR_ARGUMENT,
           "reuse_inputs: 1 names");
    need(samba_session_new(context, path, SESSION(.reuse_input_count = 2, .reuse_inputs = names), &session));
    kept_session(session);
    need(run(session, x[0], mask[0], label[0], NULL));
    need(run(session, x[0], NULL, NULL, NULL));
    refuse(run(session, NULL, mask[0], NULL, NULL), SAMBA_ERROR_STATE, "\"x\", " STALE);
}

/* What the caller has set, or holds, is the caller's to know of. */
TEST(set_and_held_inputs_stay)
{
    samba_session *session = open_masked(1);
    need(samba_session_set(session, mask[0]));
    for (int i = 0; i < 3; i++)
        need(run(session, x[0], NULL, label[0], NULL));
    need(run(session, x[0], mask[1], label[0], NULL)); /* from here on it is a run's */
    refuse(run(session, x[0], NULL, label[0], NULL), SAMBA_ERROR_STATE, "\"mask\", " STALE);
    need(samba_session_set(session, mask[0]));
    need(run(session, x[0], NULL, label[0], NULL));
    samba_tensor *own;
    need(samba_session_input(session, "mask", &own));
    kept(own);
    need(run(session, x[0], own, label[0], NULL));
    for (int i = 0; i < 3; i++)
        need(run(session, x[0], NULL, label[0], NULL));
}

/* Sections of one step read what the step was given, however they are run. */
TEST(steps_in_parts)
{
    samba_session *session = open_masked(1);
    for (int i = 0; i < 3; i++) {
        need(run(session, x[0], mask[0], label[0], "FWD"));
        need(run(session, NULL, NULL, NULL, "BCKWD"));
        need(run(session, NULL, NULL, NULL, "OPT"));
        need(run(session, x[0], mask[0], label[0], "FWD"));
        need(run(session, x[0], mask[0], label[0], "BCKWD OPT")); /* as programs of the documents give them again */
        samba_tensor *const given[] = {x[0], mask[0], label[0]};
        samba_run_options first = giving(3, given), rest = samba_run_defaults();
        first.run_until_call_id = 1, rest.run_from_call_id = 1;
        need(samba_run(session, &first));
        need(samba_run(session, &rest));
    }
    need(run(session, NULL, NULL, NULL, "FWD")); /* repeats, and so does what goes on from it */
    need(run(session, NULL, NULL, NULL, "BCKWD"));
    need(run(session, x[0], NULL, NULL, "OPT")); /* reads none: it is there for the next step */
    need(run(session, NULL, mask[0], label[0], "FWD"));
    need(run(session, NULL, NULL, NULL, "BCKWD"));
}

TEST(micro_batches_are_steps)
{
    samba_session *session = open_masked(3);
    for (int i = 0; i < 4; i++)
        need(run(session, x[0], mask[0], label[0], NULL));
    refuse(run(session, x[0], NULL, label[0], NULL), SAMBA_ERROR_STATE, "\"mask\", " STALE);
    need(run(session, x[0], mask[0], label[0], NULL));
}

static samba_status run_graph(samba_session *session, const char *graph, int count, samba_tensor *const *given)
{
    samba_run_options r = giving(count, given);
    r.graph_name = graph;
    return samba_run(session, &r);
}

static samba_session *open_graphs(samba_multigraph *graphs, const char *name)
{
    char path[512];
    need(samba_multigraph_compile(graphs, name, folder, path, sizeof path));
    samba_multigraph_free(graphs);
    return kept_session(open_session(path, 1, 3));
}

/* A graph goes on with what another was given in the same step; each knows by itself what it has read. */
TEST(graphs_read_for_themselves)
{
    samba_multigraph *graphs;
    samba_tensor *inputs[] = {x[0], mask[0], label[0]}, *others[] = {x[0], weight};
    samba_compile_options train = training(1), judge = inference_of("judge", judging, NULL, 2, others);
    train.inputs = inputs, train.name = "train";
    need(samba_multigraph_new(context, &graphs));
    need(samba_multigraph_add(graphs, &train, false));
    need(samba_multigraph_add(graphs, &judge, false));
    samba_session *session = open_graphs(graphs, "judged");
    for (int i = 0; i < 3; i++) {
        need(run_graph(session, "train", 3, inputs));
        need(run_graph(session, "judge", 1, &weight)); /* x is train's of this step */
    }
    refuse(run_graph(session, "judge", 1, &weight), SAMBA_ERROR_STATE, "\"x\", " STALE); /* which it has read already */
    need(run_graph(session, "judge", 0, NULL));
}

/* Of sizes a step is one of the function: what one size has read the next has not to read again. */
TEST(sizes_are_one_function)
{
    samba_multigraph *graphs;
    need(samba_multigraph_new(context, &graphs));
    for (int i = 0; i < 2; i++) {
        samba_tensor *inputs[] = {x[i], mask[0], label[i]};
        samba_compile_options options = training(1);
        options.inputs = inputs;
        need(samba_multigraph_add_size(graphs, &options, i ? "3" : "6"));
    }
    samba_session *session = open_graphs(graphs, "sized");
    static const char *const names[] = {"mask"};
    for (int i = 0; i < 4; i++)
        need(run(session, x[i % 2], mask[0], label[i % 2], NULL));
    refuse(run(session, x[0], NULL, label[0], NULL), SAMBA_ERROR_STATE, "\"mask\", " STALE);
    refuse(run(session, x[1], NULL, label[1], NULL), SAMBA_ERROR_STATE, "\"mask\", " STALE);
    samba_tensor *const given[] = {x[1], label[1]};
    need(run_reusing(session, 2, given, 1, names));
    for (int i = 0; i < 4; i++)
        need(run(session, x[i % 2], NULL, label[i % 2], NULL));
}

TEST_MAIN_WITH(setup, drop_kept, stale_inputs_are_refused, asking_once_is_enough, sessions_may_ask, set_and_held_inputs_stay,
               steps_in_parts, micro_batches_are_steps, graphs_read_for_themselves, sizes_are_one_function)
