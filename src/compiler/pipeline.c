/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes in order. Each is `status pass(compiler)`, headed in its own file by what it needs, gives and breaks. Up to `fuse` a
 * pass replaces the graph, which the verifier can check and `dump_after` can print;
 * from `fuse` on the graph stands still and passes fill the plan. */
#include "compiler/compiler.h"

#include <string.h>

/* One list, from which the table, the names and the message of an unknown name are made. */
#define PASSES(PASS)                                                                                                             \
    PASS(trace)     /* the user's model */                                                                                       \
    PASS(precision) /* casts of mixed precision: before autodiff, so that gradients follow them */                               \
    PASS(alone)     /* no exchanges where there are no replicas: before autodiff, whose gradients have them too */               \
    PASS(autodiff)  /* + BCKWD */                                                                                                \
    PASS(replicas)  /* + REDUCE, where replicas train together: needs gradients */                                               \
    PASS(optimizer) /* + GRADNORM, OPT: needs gradients */                                                                       \
    PASS(expand)    /* composites -> core operators: after autodiff, which knows closed gradients */                             \
    PASS(simplify)  /* what the others left behind */                                                                            \
    PASS(chunk)     /* large values rows by rows: needs core operators, and copies nodes as remat does */                        \
    PASS(remat)     /* recompute what costs less than to keep: needs final forward nodes */                                      \
    PASS(budget)    /* that at the price at which the passes up to `memory` give a plan that fits */                             \
    PASS(hold)      /* old values of what is overwritten, for sinks and later nodes: the final graph */                          \
    PASS(fuse)                                                                                                                   \
    PASS(bufferize)                                                                                                              \
    PASS(lower)                                                                                                                  \
    PASS(memory)                                                                                                                 \
    PASS(buckets)  /* joins exchanges of gradients that memory has laid side by side */                                          \
    PASS(coalesce) /* joins what memory has laid side by side */                                                                 \
    PASS(section)

static const struct {
    const char *name;
    samba_pass_fn *run;
} passes[] = {
#define PASS(name) {#name, samba_pass_##name},
    PASSES(PASS)
#undef PASS
};

enum {
#define PASS(name) PASS_##name,
    PASSES(PASS)
#undef PASS
        PASS_COUNT
};

static const char *const names[PASS_COUNT + 1] = {
#define PASS(name) #name,
    PASSES(PASS)
#undef PASS
};

const char *const *samba_pass_names(void) { return names; }

static samba_status dump(samba_compiler *compiler, const char *pass, bool lowered)
{
    if (lowered) {
        samba_text text;
        samba_text_init(&text, compiler->context);
        samba_status status = samba_plan_log(compiler->context, &compiler->plan, &text);
        if (status == SAMBA_OK)
            compiler->options->dump(compiler->options->dump_user, pass, text.data);
        samba_text_clear(&text);
        return status;
    }
    char *text;
    SAMBA_TRY(samba_graph_print(compiler->graph, &text));
    compiler->options->dump(compiler->options->dump_user, pass, text);
    samba_text_free(compiler->context, text);
    return SAMBA_OK;
}

static samba_status check_dump(samba_compiler *compiler, const char *wanted)
{
    bool known = !wanted || strcmp(wanted, "all") == 0;
    for (int i = 0; i < PASS_COUNT && !known; i++)
        known = strcmp(wanted, passes[i].name) == 0;
    if (!known) {
        const char *near = samba_nearest(wanted, names, PASS_COUNT);
        return samba_fail(compiler->context, SAMBA_ERROR_NAME,
                          "there is no pass '%s' to dump after%s%s%s: passes are"
#define PASS(name) " " #name
                          PASSES(PASS)
#undef PASS
                              ", or all",
                          wanted, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
    return SAMBA_OK;
}

/* Of the given passes in a row. */
static samba_status run(samba_compiler *compiler, int first, int end)
{
    const samba_compile_options *options = compiler->options;
    const char *wanted = options->dump_after;
    SAMBA_TRY(check_dump(compiler, wanted));
    for (int i = first; i < end; i++) {
        SAMBA_TRY(passes[i].run(compiler));
        const bool lowered = i >= PASS_lower;
        if (options->verify && !lowered)
            SAMBA_TRY(samba_graph_verify(compiler->graph));
        if (wanted && options->dump && (strcmp(wanted, "all") == 0 || strcmp(wanted, passes[i].name) == 0))
            SAMBA_TRY(dump(compiler, passes[i].name, lowered));
    }
    return SAMBA_OK;
}

enum { FIRST_OF_PLAN = PASS_memory }; /* that sees all graphs of a PEF */

samba_status samba_run_graph_passes(samba_compiler *compiler) { return run(compiler, 0, FIRST_OF_PLAN); }

samba_status samba_run_plan_passes(samba_compiler *compiler) { return run(compiler, FIRST_OF_PLAN, PASS_COUNT); }

samba_status samba_try_passes(samba_compiler *compiler)
{
    for (int i = PASS_budget + 1; i <= PASS_memory; i++)
        SAMBA_TRY(passes[i].run(compiler));
    return SAMBA_OK;
}

samba_status samba_run_passes(samba_compiler *compiler) { return run(compiler, 0, PASS_COUNT); }

void samba_compiler_take_graph(samba_compiler *compiler, samba_graph *graph)
{
    if (compiler->graph != compiler->traced)
        samba_graph_free(compiler->graph);
    compiler->graph = graph;
}

samba_status samba_compiler_rewrite(samba_compiler *compiler, samba_rewrite_fn *rewrite, void *user)
{
    samba_graph *out;
    SAMBA_TRY(samba_graph_rewrite(compiler->graph, rewrite, user, &out));
    samba_compiler_take_graph(compiler, out);
    return SAMBA_OK;
}
