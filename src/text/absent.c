/* SPDX-License-Identifier: Apache-2.0
 *
 * What a library built without tokenizers answers. */
#include "base/null.h"

#include <sambaflow/text.h>

static samba_status absent(samba_context *context)
{
    return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                      "this SambaFlow was built without tokenizers and chat templates; build it with -Dtext=enabled");
}

samba_status samba_tokenizer_open(samba_context *context, const char *path, samba_tokenizer **tokenizer)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tokenizer);
    *tokenizer = NULL;
    SAMBA_NEED(context, path);
    return absent(context);
}

samba_status samba_tokenizer_open_memory(samba_context *context, const void *data, size_t size, samba_tokenizer **tokenizer)
{
    (void)size;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tokenizer);
    *tokenizer = NULL;
    SAMBA_NEED(context, data);
    return absent(context);
}

/* There is no tokenizer that these could be called with. */
void samba_tokenizer_free(samba_tokenizer *tokenizer) { (void)tokenizer; }

samba_status samba_tokenizer_encode(samba_context *context, const samba_tokenizer *tokenizer, const char *text, size_t length,
                                    bool special, samba_token_list *list)
{
    (void)length;
    (void)special;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, list);
    *list = (samba_token_list){NULL, 0};
    SAMBA_NEED(context, tokenizer);
    SAMBA_NEED(context, text);
    return absent(context);
}

void samba_token_list_free(samba_context *context, samba_token_list *list)
{
    (void)context;
    (void)list;
}

samba_status samba_token_encoder_new(samba_context *context, const samba_tokenizer *tokenizer, samba_token_encoder **encoder)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, encoder);
    *encoder = NULL;
    SAMBA_NEED(context, tokenizer);
    return absent(context);
}

samba_status samba_token_encoder_run(samba_token_encoder *encoder, const char *text, size_t length, bool special,
                                     const int32_t **ids, int64_t *count)
{
    (void)encoder;
    (void)text;
    (void)length;
    (void)special;
    (void)ids;
    (void)count;
    return SAMBA_ERROR_ARGUMENT;
}

void samba_token_encoder_free(samba_token_encoder *encoder) { (void)encoder; }

samba_status samba_tokenizer_decode(samba_context *context, const samba_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                    bool skip_special, samba_token_text *text)
{
    (void)ids;
    (void)count;
    (void)skip_special;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, text);
    *text = (samba_token_text){NULL, 0};
    SAMBA_NEED(context, tokenizer);
    return absent(context);
}

void samba_token_text_free(samba_context *context, samba_token_text *text)
{
    (void)context;
    (void)text;
}

samba_status samba_token_stream_new(samba_context *context, const samba_tokenizer *tokenizer, bool skip_special,
                                    samba_token_stream **stream)
{
    (void)skip_special;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, stream);
    *stream = NULL;
    SAMBA_NEED(context, tokenizer);
    return absent(context);
}

samba_status samba_token_stream_next(samba_token_stream *stream, int32_t id, const char **text, size_t *length)
{
    (void)stream;
    (void)id;
    (void)text;
    (void)length;
    return SAMBA_ERROR_ARGUMENT;
}

samba_status samba_token_stream_end(samba_token_stream *stream, const char **text, size_t *length)
{
    (void)stream;
    (void)text;
    (void)length;
    return SAMBA_ERROR_ARGUMENT;
}

void samba_token_stream_free(samba_token_stream *stream) { (void)stream; }

int64_t samba_tokenizer_size(const samba_tokenizer *tokenizer)
{
    (void)tokenizer;
    return 0;
}

int32_t samba_tokenizer_id(const samba_tokenizer *tokenizer, const char *token)
{
    (void)tokenizer;
    (void)token;
    return -1;
}

const char *samba_tokenizer_token(const samba_tokenizer *tokenizer, int32_t id)
{
    (void)tokenizer;
    (void)id;
    return NULL;
}

int32_t samba_tokenizer_special(const samba_tokenizer *tokenizer, samba_special purpose)
{
    (void)tokenizer;
    (void)purpose;
    return -1;
}

samba_status samba_chat_template_open(samba_context *context, const char *folder, const char *text,
                                      samba_chat_template **chat_template)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, chat_template);
    *chat_template = NULL;
    if (!folder && !text)
        return samba_fail(context, SAMBA_ERROR_ARGUMENT, "samba_chat_template_open: neither a folder nor a template is given");
    return absent(context);
}

void samba_chat_template_free(samba_chat_template *chat_template) { (void)chat_template; }

bool samba_chat_template_marks(const samba_chat_template *chat_template)
{
    (void)chat_template;
    return false;
}

samba_status samba_chat_render(samba_context *context, const samba_chat_template *chat_template, const char *messages,
                               size_t length, const samba_chat_options *options, samba_chat_text *text)
{
    (void)length;
    (void)options;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, text);
    *text = (samba_chat_text){NULL, 0, NULL, 0};
    SAMBA_NEED(context, chat_template);
    SAMBA_NEED(context, messages);
    return absent(context);
}

void samba_chat_text_free(samba_context *context, samba_chat_text *text)
{
    (void)context;
    (void)text;
}
