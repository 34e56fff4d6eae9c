/* SPDX-License-Identifier: Apache-2.0
 *
 * Metric learning by triplets (Schroff et al., 2015): a digit, another of its class and one of another class go through one
 * network, which is to bring the first two nearer to each other than to the third, by a margin. New digits are then told by the
 * nearest neighbours of their 16 numbers, in classes that the network has no output for.
 *
 *     triplets [FOLDER OF THE DIGITS, examples/data] */
#include "program.h"

#include <sambaflow/sambaflow.h>

#include <math.h>

enum { BATCH = 64, PIXELS = 784, WIDTH = 16, TRAINED = 4000, DIGITS = 5000, CLASSES = 10, STEPS = 800, NEIGHBOURS = 5 };
enum { ANSWERED = 100 }; /* pictures in a run of the second graph, which divides all */

static samba_value embedding(samba_value image)
{
    samba_value hidden = samba_relu(samba_linear(image, "fc1", 128));
    return samba_normalize(samba_linear(hidden, "fc2", WIDTH), 2, 1, 1e-12);
}

/* All three in one batch of 3 BATCH rows: one product instead of three. */
static void learn(samba_graph *g, const void *options)
{
    (void)options;
    samba_value parts[3];
    samba_split(embedding(samba_input(g, "images")), BATCH, 0, 3, parts);
    samba_triplet_margin_options margin = samba_triplet_margin_defaults();
    margin.margin = 0.3;
    samba_loss(g, "loss", samba_triplet_margin_loss(parts[0], parts[1], parts[2], &margin));
}

static void answer(samba_graph *g, const void *options)
{
    (void)options;
    samba_output(g, "embedding", embedding(samba_input(g, "some")));
}

/* The class that most of the nearest neighbours have. */
static int64_t nearest(const float embeddings[][WIDTH], const int64_t *label, int asked)
{
    int neighbours[NEIGHBOURS], count = 0, votes[CLASSES] = {0}, best = 0;
    float distance[NEIGHBOURS];
    for (int i = 0; i < TRAINED; i++) {
        float sum = 0;
        for (int k = 0; k < WIDTH; k++)
            sum += (embeddings[i][k] - embeddings[asked][k]) * (embeddings[i][k] - embeddings[asked][k]);
        if (count == NEIGHBOURS && sum >= distance[count - 1])
            continue;
        int at = count < NEIGHBOURS ? count++ : count - 1;
        for (; at > 0 && distance[at - 1] > sum; at--)
            distance[at] = distance[at - 1], neighbours[at] = neighbours[at - 1];
        distance[at] = sum, neighbours[at] = i;
    }
    for (int i = 0; i < count; i++)
        votes[label[neighbours[i]]]++;
    for (int k = 1; k < CLASSES; k++)
        if (votes[k] > votes[best])
            best = k;
    return best;
}

int main(int argc, char **argv)
{
    static int of_class[CLASSES][TRAINED], count[CLASSES];
    static float embeddings[DIGITS][WIDTH];
    static int64_t label[DIGITS];
    samba_context *context;
    samba_session *session;
    samba_multigraph *graphs;
    samba_tensor *bytes, *labels, *random;
    char path[1024];
    must(NULL, samba_context_new(NULL, &context));
    const char *folder = argc > 1 ? argv[1] : "examples/data";
    snprintf(path, sizeof path, "%s/digits-images-idx3-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &bytes));
    snprintf(path, sizeof path, "%s/digits-labels-idx1-ubyte.gz", folder);
    must(context, samba_idx_read(context, path, &labels));
    const unsigned char *byte = samba_tensor_data(bytes), *kind = samba_tensor_data(labels);
    for (int i = 0; i < DIGITS; i++) {
        label[i] = kind[i];
        if (i < TRAINED)
            of_class[kind[i]][count[kind[i]]++] = i;
    }

    samba_tensor *images = named(context, "images", SAMBA_FLOAT32, SHAPE(3 * BATCH, PIXELS));
    samba_tensor *some = named(context, "some", SAMBA_FLOAT32, SHAPE(ANSWERED, PIXELS));
    samba_tensor *out = named(context, "embedding", SAMBA_FLOAT32, SHAPE(ANSWERED, WIDTH));
    samba_optimizer adamw = samba_adamw(0.002);
    samba_compile_options compile = samba_compile_defaults();
    must(context, samba_multigraph_new(context, &graphs));
    compile.name = "learn", compile.model = learn;
    compile.inputs = &images, compile.input_count = 1;
    compile.optimizers = &adamw, compile.optimizer_count = 1;
    must(context, samba_multigraph_add(graphs, &compile, false));
    compile.name = "answer", compile.model = answer;
    compile.inputs = &some;
    compile.optimizer_count = 0, compile.inference = true;
    must(context, samba_multigraph_add(graphs, &compile, false));
    samba_session_options device = samba_session_defaults();
    device.seed = seed();
    must(context, samba_multigraph_session(graphs, "triplets", &device, &session));

    float *pixel = samba_tensor_data(images);
    samba_run_options train = samba_run_defaults();
    train.graph_name = "learn";
    train.inputs = &images, train.input_count = 1;
    random = named(context, "random", SAMBA_INT64, SHAPE(BATCH, 5));
    const int64_t *r = samba_tensor_data(random);
    for (uint64_t step = 0; step < STEPS; step++) {
        must(context, samba_fill_integers(random, seed() * STEPS + step, 0, 1 << 30));
        for (int i = 0; i < BATCH; i++) {
            const int64_t *d = r + 5 * i, mine = d[0] % CLASSES, other = (mine + 1 + d[1] % (CLASSES - 1)) % CLASSES;
            const int three[] = {of_class[mine][d[2] % count[mine]], of_class[mine][d[3] % count[mine]],
                                 of_class[other][d[4] % count[other]]};
            for (int k = 0; k < 3; k++)
                for (int p = 0; p < PIXELS; p++)
                    pixel[(k * BATCH + i) * PIXELS + p] = (float)byte[three[k] * PIXELS + p] / 255;
        }
        must(context, samba_run(session, &train));
    }

    samba_run_options embed = samba_run_defaults();
    embed.graph_name = "answer";
    embed.inputs = &some, embed.input_count = 1;
    embed.outputs = &out, embed.output_count = 1;
    float *given = samba_tensor_data(some);
    const float *numbers = samba_tensor_data(out);
    for (int begin = 0; begin < DIGITS; begin += ANSWERED) {
        for (int i = 0; i < ANSWERED * PIXELS; i++)
            given[i] = (float)byte[begin * PIXELS + i] / 255;
        must(context, samba_run(session, &embed));
        for (int i = 0; i < ANSWERED * WIDTH; i++)
            embeddings[begin + i / WIDTH][i % WIDTH] = numbers[i];
    }
    int right = 0;
    for (int i = TRAINED; i < DIGITS; i++)
        right += nearest(embeddings, label, i) == label[i];
    const double accuracy = (double)right / (DIGITS - TRAINED);
    printf("%d neighbours of %d numbers tell %.3f of the digits right\n", NEIGHBOURS, WIDTH, accuracy);
    expect(accuracy > 0.9, "90 of 100 digits are right");

    samba_tensor_free(bytes), samba_tensor_free(labels), samba_tensor_free(random);
    samba_tensor_free(images), samba_tensor_free(some), samba_tensor_free(out);
    samba_session_free(session);
    samba_multigraph_free(graphs);
    samba_context_free(context);
    return 0;
}
