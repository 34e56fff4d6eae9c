/* SPDX-License-Identifier: Apache-2.0
 *
 * A PEF for replicas, of a model with one input, as tests of replicas compile it. */

#ifndef SAMBA_TESTS_ONE_INPUT_H
#define SAMBA_TESTS_ONE_INPUT_H

#include <sambaflow/sambaflow.h>

/* Into folder/name/name.pef. */
static inline samba_status compile_one_input(samba_context *context, const char *folder, const char *name, samba_model model,
                                             samba_tensor *input, samba_optimizer optimizer)
{
    samba_compile_options options = samba_compile_defaults();
    options.name = name;
    options.model = model;
    options.input_count = 1;
    options.inputs = &input;
    options.optimizer_count = 1;
    options.optimizers = &optimizer;
    options.output_folder = folder;
    options.data_parallel = true;
    return samba_compile(context, &options, NULL, 0);
}

#endif
