/* SPDX-License-Identifier: Apache-2.0
 *
 * Warnings of what is built: a loss whose target has another shape than its input, as PyTorch warns, told by the context, by a
 * session and by a training. And files of one kind where another is wanted. */
#include "training.h"
#include "traced.h"
#include <sambaflow/train.h>
#include <sambaflow/warning.h>

static samba_value mse(samba_value x, samba_value y) { return samba_mse_loss(x, y, none, SAMBA_MEAN); }
static samba_value l1(samba_value x, samba_value y) { return samba_l1_loss(x, y, none, SAMBA_MEAN); }
static samba_value smooth(samba_value x, samba_value y) { return samba_smooth_l1_loss(x, y, 1, SAMBA_SUM); }
static samba_value huber(samba_value x, samba_value y) { return samba_huber_loss(x, y, 1, none, SAMBA_MEAN); }
static samba_value gaussian(samba_value x, samba_value y) { return samba_gaussian_nll_loss(x, y, x, NULL); }
static samba_value poisson(samba_value x, samba_value y) { return samba_poisson_nll_loss(x, y, NULL); }
static samba_value kl(samba_value x, samba_value y) { return samba_kl_div(x, y, false, SAMBA_SUM); }
static samba_value soft(samba_value x, samba_value y) { return samba_soft_margin_loss(x, y, SAMBA_MEAN); }

/* The loss of these inputs warns with these words, once though it is built twice; NULL: not at all. */
static void warns(const char *words, samba_value (*loss)(samba_value, samba_value), const char *inputs)
{
    trace(inputs);
    loss(in("x"), in("y"));
    loss(in("x"), in("y"));
    need(samba_graph_status(traced));
    const char *warning = samba_context_warning(context);
    if (words ? !strstr(warning, words) : warning[0] != '\0')
        fail_msg("%s: \"%s\" and not \"%s\"", inputs, warning, words ? words : "");
    assert_string_equal(samba_context_warning(context), "");
    untrace();
}

TEST(losses)
{
    static const char column[] = "x float32[4,1] y float32[4]", one[] = "x float32[4,3] y float32[3]",
                      alike[] = "x float32[4,1] y float32[4,1]", none_there[] = "x float32[0,1] y float32[0,1]";
    warns("mse_loss: the input (4, 1) and the target (4) broadcast to (4, 4), so that a value or a target", mse, column);
    warns("l1_loss: the input (4, 1) and the target", l1, column);
    warns("smooth_l1_loss: the input (4, 1) and the target", smooth, column);
    warns("huber_loss: the input (4, 1) and the target", huber, column);
    warns("gaussian_nll_loss: the input (4, 1) and the target", gaussian, column);
    warns("poisson_nll_loss: the input (4, 1) and the target", poisson, column);
    warns("kl_div: the input (4, 1) and the target", kl, column);
    warns("soft_margin_loss: the input (4, 1) and the target", soft, column);
    warns("broadcast to (4, 3)", huber, one); /* as PyTorch: of these four whatever is not alike */
    warns(NULL, gaussian, one);
    warns(NULL, mse, alike);
    warns(NULL, mse, none_there);
}

TEST(a_few_wait)
{
    char inputs[64];
    for (int i = 2; i < 20; i++) {
        snprintf(inputs, sizeof inputs, "x float32[%d,1] y float32[%d]", i, i);
        trace(inputs);
        mse(in("x"), in("y"));
        untrace();
    }
    int count = 0;
    while (samba_context_warning(context)[0])
        count++;
    assert_int_equal(count, 8);
    assert_string_equal(samba_context_warning(NULL), "");
}

/* ---- what programs see of it ---- */

MODEL(line)
{
    samba_value guess = samba_linear(samba_input(g, "x"), "line", 1);
    samba_output(g, "guess", guess);
    samba_loss(g, "loss", samba_mse_loss(guess, samba_input(g, "y"), none, SAMBA_MEAN));
}

static samba_status listen(samba_context *of __attribute__((unused)), void *user, samba_train_event *event)
{
    if (event->kind == SAMBA_TRAIN_WARNING && strstr(event->text, "mse_loss at line: the input (4, 1) and the target (4)"))
        ++*(int *)user;
    else if (event->kind == SAMBA_TRAIN_WARNING && strstr(event->text, "mse_loss: the input (4, 1) and the target (4)"))
        ++*(int *)user;
    return SAMBA_OK;
}

TEST(a_training_tells)
{
    OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(4, 3), 1), *y = normal("y", SAMBA_FLOAT32, 1, SHAPE(4), 2);
    samba_tensor *inputs[] = {x, y};
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options o = training_of("line", line, NULL, 2, inputs, &sgd);
    samba_source *source;
    int told = 0;
    OWN_SESSION *session = compile_and_open(&o, 1, 1);
    need(samba_source_tensors(context, 2, inputs, &source));
    samba_train_options by = samba_train_defaults();
    by.train = source;
    by.epochs = 3;
    by.on_event = listen;
    by.user = &told;
    need(samba_train(session, &by, NULL));
    assert_int_equal(told, 1);
    by.steps = 4;
    refuse(samba_train(session, &by, NULL), SAMBA_ERROR_ARGUMENT, "steps is 4, and 3 epochs of 1 steps end before");
    by.steps = 0;
    by.loss = "lose";
    refuse(samba_train(session, &by, NULL), SAMBA_ERROR_NAME,
           "has no output 'lose' (did you mean 'loss'?); it has 'guess', 'loss'");
    by.loss = NULL;
    by.graph_name = "lime";
    refuse(samba_train(session, &by, NULL), SAMBA_ERROR_NAME, "no graph 'lime' (did you mean 'line'?); it has 'line'");
    by.graph_name = NULL;
    by.monitor = "lost";
    refuse(samba_train(session, &by, NULL), SAMBA_ERROR_NAME, "monitor is 'lost' (did you mean 'loss'?)");
    samba_source_free(source);
}

/* ---- files ---- */

TEST(files_of_another_kind)
{
    OWN_TENSOR *x = normal("x", SAMBA_FLOAT32, 2, SHAPE(4, 3), 1), *y = normal("y", SAMBA_FLOAT32, 2, SHAPE(4, 1), 2);
    samba_tensor *inputs[] = {x, y};
    samba_optimizer sgd = samba_sgd(0.1);
    samba_compile_options o = training_of("files", line, NULL, 2, inputs, &sgd);
    char pef[512], weights[256], checkpoint[256];
    samba_session *other;
    samba_checkpoint *found;
    need(samba_compile(context, &o, pef, sizeof pef));
    OWN_SESSION *session = open_session(pef, 1, 1);
    snprintf(weights, sizeof weights, "%s/w.safetensors", folder);
    snprintf(checkpoint, sizeof checkpoint, "%s/saved", folder);
    need(samba_session_save(session, weights, true));
    samba_checkpoint_options by = samba_checkpoint_defaults();
    by.folder = checkpoint;
    need(samba_checkpoint_prepare(context, checkpoint));
    need(samba_checkpoint_save(session, &by));
    refuse(samba_session_new(context, weights, NULL, &other), SAMBA_ERROR_FORMAT, "is not a PEF but weights, a safetensors file");
    refuse(samba_session_new(context, folder, NULL, &other), SAMBA_ERROR_FILE, "is a folder and no PEF: give the .pef file");
    refuse(samba_session_load(session, pef), SAMBA_ERROR_FORMAT, "no safetensors file but a PEF, a compiled model");
    refuse(samba_checkpoint_open(context, weights, &found), SAMBA_ERROR_FILE, "is no checkpoint, which is a folder");
    refuse(samba_checkpoint_open(context, pef, &found), SAMBA_ERROR_FILE, "is no checkpoint, which is a folder");
    refuse(samba_session_load(session, checkpoint), SAMBA_ERROR_FILE, "of a folder of checkpoints one of its checkpoint-<step>");
}

TEST_MAIN(losses, a_few_wait, a_training_tells, files_of_another_kind)
