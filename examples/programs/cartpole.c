/* SPDX-License-Identifier: Apache-2.0
 *
 * Reinforcement learning: the policy gradient with a baseline (REINFORCE: Williams, 1992). A cart is pushed to the left or to the
 * right so that the pole on it does not fall (Barto, Sutton and Anderson, 1983); the equations of motion are here. 32 carts run
 * at once. One graph says what to do, for the 32 as they are now; another one learns from all that they did, in rows of which
 * those behind a fallen pole have a weight of 0. */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { CARTS = 32, LIMIT = 200, ROWS = CARTS * LIMIT, UPDATES = 100, TESTS = 3 };

static samba_value body(samba_value state) { return samba_tanh(samba_linear(state, "body", 32)); }

static void act(samba_graph *g, const void *options)
{
    (void)options;
    samba_output(g, "chances", samba_softmax(samba_linear(body(samba_input(g, "now")), "policy", 2), 1));
}

/* What was done is to become more likely by as much as it brought more than the baseline, which is a network's guess of it. */
static void learn(samba_graph *g, const void *options)
{
    (void)options;
    const int last[] = {1};
    samba_value state = samba_input(g, "state"), action = samba_input(g, "action");
    samba_value gain = samba_input(g, "gain"), weight = samba_input(g, "weight"); /* (ROWS); weights add up to 1 */
    samba_value logits = samba_linear(body(state), "policy", 2);
    samba_value hidden = samba_tanh(samba_linear(state, "baseline1", 32));
    samba_value baseline = samba_squeeze(samba_linear(hidden, "baseline2", 1), 1, last);
    samba_value advantage = samba_detach(samba_sub(gain, baseline));
    samba_cross_entropy_options each = samba_cross_entropy_defaults();
    each.reduction = SAMBA_NO_REDUCTION;
    samba_value unlikely = samba_cross_entropy_with(logits, action, &each); /* -log of the chance of what was done */
    samba_value policy = samba_dot(samba_mul(unlikely, advantage), weight);
    samba_value error = samba_dot(samba_square(samba_sub(gain, baseline)), weight);
    samba_loss(g, "loss", samba_add(policy, error));
}

/* A step of a fiftieth of a second. Whether the pole still stands and the cart is still there. */
static bool push(float *s, int64_t right)
{
    const float force = right ? 10 : -10, sine = sinf(s[2]), cosine = cosf(s[2]);
    const float part = (force + 0.05f * s[3] * s[3] * sine) / 1.1f;
    const float turn = (9.8f * sine - cosine * part) / (0.5f * (4 / 3.0f - 0.1f * cosine * cosine / 1.1f));
    const float speed = part - 0.05f * turn * cosine / 1.1f;
    s[0] += 0.02f * s[1], s[1] += 0.02f * speed;
    s[2] += 0.02f * s[3], s[3] += 0.02f * turn;
    return fabsf(s[0]) < 2.4f && fabsf(s[2]) < 0.2095f;
}

typedef struct play {
    samba_context *context;
    samba_session *session;
    samba_tensor *now, *chances, *random;
} play;

/* Runs the carts until all poles have fallen, LIMIT steps at most; `length` says how many steps each made. */
static void run_carts(const play *p, uint64_t draw, float *state, int64_t *action, int *length)
{
    samba_run_options ask = samba_run_defaults();
    ask.graph_name = "act";
    ask.inputs = &p->now, ask.input_count = 1;
    ask.outputs = &p->chances, ask.output_count = 1;
    float *now = samba_tensor_data(p->now);
    const float *chance = samba_tensor_data(p->chances), *random = samba_tensor_data(p->random);
    must(p->context, samba_fill_uniform(p->now, draw, -0.05, 0.05));
    must(p->context, samba_fill_uniform(p->random, draw + 1, 0, 1));
    bool stands[CARTS];
    int left = CARTS;
    for (int c = 0; c < CARTS; c++)
        stands[c] = true, length[c] = 0;
    for (int t = 0; t < LIMIT && left > 0; t++) {
        must(p->context, samba_run(p->session, &ask));
        for (int c = 0; c < CARTS; c++) {
            const int row = c * LIMIT + t;
            if (!stands[c])
                continue;
            for (int k = 0; k < 4; k++)
                state[4 * row + k] = now[4 * c + k];
            action[row] = random[row] < chance[2 * c + 1];
            length[c]++;
            stands[c] = push(now + 4 * c, action[row]);
            left -= !stands[c];
        }
    }
}

static double mean_of(const int *length)
{
    double sum = 0;
    for (int c = 0; c < CARTS; c++)
        sum += length[c];
    return sum / CARTS;
}

int main(void)
{
    samba_context *context;
    samba_multigraph *graphs;
    play p;
    must(NULL, samba_context_new(NULL, &context));
    samba_tensor *inputs[] = {
        named(context, "state", SAMBA_FLOAT32, SHAPE(ROWS, 4)), named(context, "action", SAMBA_INT64, SHAPE(ROWS)),
        named(context, "gain", SAMBA_FLOAT32, SHAPE(ROWS)), named(context, "weight", SAMBA_FLOAT32, SHAPE(ROWS))};
    p = (play){.context = context,
               .now = named(context, "now", SAMBA_FLOAT32, SHAPE(CARTS, 4)),
               .chances = named(context, "chances", SAMBA_FLOAT32, SHAPE(CARTS, 2)),
               .random = named(context, "random", SAMBA_FLOAT32, SHAPE(ROWS))};
    samba_optimizer adam = samba_adam(0.01);
    samba_compile_options compile = samba_compile_defaults();
    must(context, samba_multigraph_new(context, &graphs));
    compile.name = "learn", compile.model = learn;
    compile.inputs = inputs, compile.input_count = 4;
    compile.optimizers = &adam, compile.optimizer_count = 1;
    must(context, samba_multigraph_add(graphs, &compile, false));
    compile.name = "act", compile.model = act;
    compile.inputs = &p.now, compile.input_count = 1;
    compile.optimizer_count = 0, compile.inference = true;
    must(context, samba_multigraph_add(graphs, &compile, false));
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_multigraph_session(graphs, "cartpole", &device, &p.session));

    float *state = samba_tensor_data(inputs[0]), *gain = samba_tensor_data(inputs[2]), *weight = samba_tensor_data(inputs[3]);
    int64_t *action = samba_tensor_data(inputs[1]);
    int length[CARTS];
    double first = 0, end = 0;
    samba_run_options update = samba_run_defaults();
    update.graph_name = "learn";
    update.inputs = inputs, update.input_count = 4;
    for (uint64_t u = 0; u < UPDATES; u++) {
        run_carts(&p, 2 * (seed() * UPDATES * 2 + u), state, action, length);
        const double mean = mean_of(length);
        first = u == 0 ? mean : first;
        /* A step brings 1, and what comes later counts less: by 0.98 a step. In tens, which a network likes better. */
        for (int c = 0; c < CARTS; c++)
            for (int t = LIMIT - 1; t >= 0; t--) {
                const int row = c * LIMIT + t;
                weight[row] = t < length[c] ? (float)(1 / (CARTS * mean)) : 0;
                gain[row] = t < length[c] ? 0.1f + (t + 1 < length[c] ? 0.98f * gain[row + 1] : 0) : 0;
            }
        must(context, samba_run(p.session, &update));
    }
    for (uint64_t k = 0; k < TESTS; k++) {
        run_carts(&p, 2 * (seed() * UPDATES * 2 + UPDATES + k), state, action, length);
        end += mean_of(length) / TESTS;
    }
    printf("poles stand for %.0f steps of %d, for %.0f in the beginning\n", end, LIMIT, first);
    expect(first < 40 && end > 150, "poles that stand for 150 steps");

    for (int i = 0; i < 4; i++)
        samba_tensor_free(inputs[i]);
    samba_tensor_free(p.now), samba_tensor_free(p.chances), samba_tensor_free(p.random);
    samba_session_free(p.session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
