/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers as objects of JSON, with the fields that OpenAI's have; what its clients expect to be there and is never given here is
 * null. Each function returns NULL where there is no memory. */
#include "serve/serve.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

void samba_serve_head_init(samba_serve_head *head, samba_serve_kind kind, const char *model)
{
    unsigned char random[12] = {0};
    const char *front = kind == SAMBA_SERVE_CHAT ? "chatcmpl-" : "cmpl-";
    (void)!getrandom(random, sizeof random, 0); /* an id tells answers apart in logs, no more */
    *head = (samba_serve_head){.kind = kind, .model = model, .created = (int64_t)time(NULL)};
    const size_t length = strlen(front);
    memcpy(head->id, front, length);
    samba_hex_encode(random, sizeof random, head->id + length);
}

static json_t *object_of(const samba_serve_head *head, bool is_piece, json_t *choices)
{
    const char *name = head->kind != SAMBA_SERVE_CHAT ? "text_completion"
                       : is_piece                     ? "chat.completion.chunk"
                                                      : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", head->id, "object", name, "created", (json_int_t)head->created, "model",
                     head->model, "choices", choices);
}

static const char *reason(samba_serve_end end)
{
    return end == SAMBA_SERVE_STOP ? "stop" : end == SAMBA_SERVE_LENGTH ? "length" : NULL;
}

json_t *samba_serve_usage(const samba_serve_job *job)
{
    json_int_t prompt = 0, made = 0, cached = 0;
    for (int64_t i = 0; i < job->prompt_count; i++)
        prompt += job->prompts[i].count;
    for (int64_t i = 0; i < job->text_count; i++) {
        made += job->texts[i].made;
        cached += job->texts[i].cached;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", made, "total_tokens",
                     prompt + made, "prompt_tokens_details", "cached_tokens", cached);
}

static json_t *whole_text(const samba_serve_job *job, int64_t i, bool is_chat)
{
    const samba_serve_text *t = &job->texts[i];
    const char *text = t->text ? t->text : "";
    const size_t length = (size_t)t->length;
    return is_chat ? json_pack("{s:I, s:{s:s, s:s%, s:n}, s:n, s:s?}", "index", (json_int_t)i, "message", "role", "assistant",
                               "content", text, length, "refusal", "logprobs", "finish_reason", reason(t->end))
                   : json_pack("{s:I, s:s%, s:n, s:s?}", "index", (json_int_t)i, "text", text, length, "logprobs",
                               "finish_reason", reason(t->end));
}

json_t *samba_serve_whole(const samba_serve_head *head, const samba_serve_job *job)
{
    json_t *choices = json_array();
    for (int64_t i = 0; i < job->text_count; i++)
        if (json_array_append_new(choices, whole_text(job, i, head->kind == SAMBA_SERVE_CHAT)) != 0) {
            json_decref(choices);
            return NULL;
        }
    json_t *object = object_of(head, false, choices);
    if (json_object_set_new(object, "usage", samba_serve_usage(job)) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *piece_of(const samba_serve_head *head, int64_t i, const char *bytes, int64_t length, samba_serve_end end,
                        bool first)
{
    if (head->kind != SAMBA_SERVE_CHAT)
        return json_pack("{s:I, s:s%, s:n, s:s?}", "index", (json_int_t)i, "text", bytes, (size_t)length, "logprobs",
                         "finish_reason", reason(end));
    json_t *delta = first        ? json_pack("{s:s, s:s}", "role", "assistant", "content", "")
                    : length > 0 ? json_pack("{s:s%}", "content", bytes, (size_t)length)
                                 : json_object();
    return json_pack("{s:I, s:o, s:n, s:s?}", "index", (json_int_t)i, "delta", delta, "logprobs", "finish_reason", reason(end));
}

json_t *samba_serve_piece(const samba_serve_head *head, const samba_serve_job *job, int64_t i, const char *bytes, int64_t length,
                          samba_serve_end end, bool first)
{
    json_t *piece = piece_of(head, i, bytes, length, end, first), *choices = json_pack("[o]", piece);
    json_t *object = object_of(head, true, choices);
    if (job->request->usage && json_object_set_new(object, "usage", json_null()) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *samba_serve_last(const samba_serve_head *head, const samba_serve_job *job)
{
    json_t *object = object_of(head, true, json_array());
    if (json_object_set_new(object, "usage", samba_serve_usage(job)) == 0)
        return object;
    json_decref(object);
    return NULL;
}

json_t *samba_serve_error(int status, const char *message, const char *param, const char *code)
{
    char shown[1200]; /* of any bytes, UTF-8 */
    samba_show(message, true, shown, sizeof shown);
    return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", shown, "type",
                     status >= 500 ? "server_error" : "invalid_request_error", "param", param && param[0] ? param : NULL, "code",
                     code);
}
