/* SPDX-License-Identifier: Apache-2.0
 *
 * What a library built without tokenizers answers when it is to prepare data. */
#include "base/null.h"

#include <sambaflow/prepare.h>

samba_prepare_options samba_prepare_defaults(void)
{
    return (samba_prepare_options){.struct_size = sizeof(samba_prepare_options)};
}

samba_status samba_prepare(samba_context *context, const char *input, const char *tokenizer, const char *output,
                           const samba_prepare_options *options, samba_prepare_result *result)
{
    (void)options;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, input);
    SAMBA_NEED(context, tokenizer);
    SAMBA_NEED(context, output);
    if (result)
        *result = (samba_prepare_result){0};
    return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                      "this SambaFlow was built without tokenizers, which data preparation needs; build it with -Dtext=enabled");
}
