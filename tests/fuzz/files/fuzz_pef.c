/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as a PEF whose checksums are right: read, checked, its stages prepared, and every section run, in memory that holds
 * zeros, small numbers or anything, by one thread or two. What passes the check may compute nonsense and may fault, and touches
 * nothing but its memory.
 *
 * Inputs are changed as messages: numbers of any field become others of the plan or ones at the edges of their range, items of
 * lists are dropped, doubled or exchanged. Plans that would take more work or memory than a moment's are left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../pef/plans.h"
#include "files.h"
#include "plan/check.h"
#include "pef/pef.pb-c.h"
#include "runtime/runtime.h"

#include <math.h>
#include <sambaflow/compile.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_MEMORY ((int64_t)4 << 20)
#define MOST_WORK 2e7
/* Of addresses that nothing stands behind, in an emulator: qemu-user keeps a few bytes of each page, all memory of terabytes. */
#define MOST_EMULATED ((int64_t)1 << 30)

/* ---- a file around a message ---- */
typedef struct file {
    char *bytes;
    size_t size;
} file;

static file seal_message(const void *message, size_t length, const void *constants, size_t constants_size)
{
    size_t offset = (size_t)samba_pef_align((int64_t)(sizeof(samba_pef_header) + length));
    file f = {calloc(1, offset + constants_size), offset + constants_size};
    samba_pef_header header = {.version = SAMBA_PEF_VERSION,
                               .endian = SAMBA_PEF_ENDIAN,
                               .number = SAMBA_PEF_NUMBER,
                               .file_length = (int64_t)f.size,
                               .tile_count = SAMBA_TILE_COUNT,
                               .tile_signature = samba_pef_tile_signature(SAMBA_TILE_COUNT),
                               .message_offset = sizeof header,
                               .message_length = (int64_t)length,
                               .blobs_offset = (int64_t)offset,
                               .blobs_length = (int64_t)constants_size};
    memcpy(header.magic, SAMBA_PEF_MAGIC, sizeof header.magic);
    if (!f.bytes)
        abort();
    memcpy(f.bytes, &header, sizeof header);
    memcpy(f.bytes + sizeof header, message, length);
    if (constants_size > 0)
        memcpy(f.bytes + offset, constants, constants_size);
    seal(f.bytes, f.size);
    return f;
}

/* Where an input says that its parts are, as far as it has them. */
typedef struct parts {
    const uint8_t *message, *constants;
    size_t length, constants_size;
} parts;
static parts parts_of(const uint8_t *data, size_t size)
{
    samba_pef_header header;
    parts p = {data, data, 0, 0};
    if (size < sizeof header)
        return p;
    memcpy(&header, data, sizeof header);
    size_t rest = size - sizeof header;
    p.message = data + sizeof header;
    p.length = header.message_length >= 0 && (uint64_t)header.message_length <= rest ? (size_t)header.message_length : rest;
    size_t offset = (size_t)samba_pef_align((int64_t)(sizeof header + p.length));
    p.constants = offset < size ? data + offset : data;
    p.constants_size = offset < size ? size - offset : 0;
    return p;
}

/* ---- how much a plan asks for ---- */
static double sizes(int count, const int64_t *list)
{
    double product = 1;
    for (int i = 0; i < count; i++)
        product *= list[i] > 1 ? (double)list[i] : 1;
    return product;
}

static double work_of(const samba_stage *s)
{
    const samba_pool *p = &s->pool;
    double work = sizes(s->rank, s->domain) * (1 + s->program.instruction_count);
    if (s->kind == SAMBA_STAGE_CONTRACT)
        work *= 1 + sizes(s->contract.k_rank, s->contract.k);
    if (s->kind == SAMBA_STAGE_POOL)
        work += sizes(1, &p->planes) * (sizes(2, (int64_t[]){p->h, p->w}) +
                                        sizes(2, (int64_t[]){p->oh, p->ow}) *
                                            (p->adaptive ? sizes(2, (int64_t[]){p->h, p->w}) : sizes(2, p->kernel))) +
                (double)(p->stride[1] + p->kernel[1]) * (double)p->dilation[0];
    if (s->kind == SAMBA_STAGE_ATTENTION)
        work *= 1 + (double)(s->attention.d + s->attention.dv);
    if (s->kind == SAMBA_STAGE_FOURIER)
        work += 64 * sizes(3, (int64_t[]){s->fourier.outer, s->fourier.size, s->fourier.inner});
    if (s->kind == SAMBA_STAGE_CTC)
        work += 64 * sizes(3, (int64_t[]){s->ctc.steps, s->ctc.batch, s->ctc.classes + 2 * (s->ctc.most & INT32_MAX)});
    if (s->kind == SAMBA_STAGE_LINE)
        work += 64 * sizes(3, (int64_t[]){s->line.outer, s->line.size, s->line.inner});
    return work;
}

static bool is_modest(const samba_plan *plan)
{
    double work = 0;
    for (int32_t i = 0; i < plan->stage_count; i++)
        work += work_of(&plan->stages[i]);
    return plan->memory_bytes <= MOST_MEMORY && work < MOST_WORK;
}

/* ---- one run ---- */
static void fill(char *memory, int64_t bytes, uint64_t kind)
{
    uint64_t state = kind;
    for (int64_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t value = samba_fuzz_next(&state);
        if (kind % 4 == 0)
            value = 0;
        else if (kind % 4 == 1)
            value %= 5;
        else if (kind % 4 == 2) {
            float pair[2] = {(float)(int64_t)(value % 64) - 32, (float)(int64_t)(value >> 32 & 63) - 32};
            memcpy(&value, pair, sizeof value);
        }
        memcpy(memory + i, &value, sizeof value);
    }
}

static void run_plan(samba_context *context, samba_plan *plan, int threads, uint64_t kind)
{
    samba_session_options options = samba_session_defaults();
    samba_session *session;
    options.threads = threads;
    if (samba_session_of_plan(context, plan, plan->memory_bytes, "PEF", &options, &session) != SAMBA_OK)
        return;
    samba_device *device = session->device;
    int32_t count = session->plan.section_count, *sections = calloc((size_t)count + 1, sizeof *sections);
    if (!sections)
        abort();
    for (int32_t i = 0; i < count; i++)
        sections[i] = i;
    if (kind % 8 < 4)
        fill(device->interface->map(device, 0), session->plan.memory_bytes, kind);
    samba_device_run run = {.sections = sections, .section_count = count};
    for (int i = 0; i < 2; i++)
        if (device->interface->run(device, &run) == SAMBA_OK)
            (void)device->interface->wait(device);
    free(sections);
    samba_session_free(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parts p = parts_of(data, size);
    file f = seal_message(p.message, p.length, p.constants, p.constants_size);
    uint64_t kind = samba_hash(data, size, 0);
    samba_context *context;
    if (samba_context_new(NULL, &context) != SAMBA_OK)
        abort();
    for (int threads = 1; threads <= (kind % 16 == 0 ? 2 : 1); threads++) {
        samba_plan plan;
        samba_text text;
        if (samba_pef_decode(context, "input", f.bytes, f.size, &plan) != SAMBA_OK)
            break;
        samba_fuzz_accepted++;
        samba_text_init(&text, context);
        samba_plan_log(context, &plan, &text);
        samba_text_clear(&text);
        if (is_modest(&plan))
            run_plan(context, &plan, threads, kind / 16);
        else {
            samba_memory_info memory;
            int used;
            const char *isa;
            if (!getenv("SAMBAFLOW_EMULATED") || plan.memory_bytes <= MOST_EMULATED)
                (void)samba_plan_memory(context, &plan, 1, NULL, &memory, &used, &isa);
            samba_plan_free(&plan);
        }
    }
    samba_context_free(context);
    free(f.bytes);
    return 0;
}

/* ---- changing a message ---- */
typedef struct blocks { /* all memory of a message, freed at once */
    struct block {
        struct block *next;
        _Alignas(16) char data[];
    } *first;
} blocks;

static void *take(void *user, size_t size)
{
    blocks *all = user;
    struct block *block = calloc(1, sizeof *block + size);
    if (!block)
        return NULL;
    block->next = all->first;
    all->first = block;
    return block->data;
}

static void give(void *user, void *block) { (void)user, (void)block; }

static void free_blocks(blocks *all)
{
    while (all->first) {
        struct block *next = all->first->next;
        free(all->first);
        all->first = next;
    }
}

typedef struct spot { /* a field of a message of the tree */
    ProtobufCMessage *message;
    const ProtobufCFieldDescriptor *field;
} spot;
typedef struct changer {
    blocks memory;
    uint64_t state;
    spot spots[4096];
    int count;
    int64_t numbers[256]; /* some of the plan's own */
    int number_count;
} changer;

static size_t *count_of(const spot *s) { return (size_t *)(void *)((char *)s->message + s->field->quantifier_offset); }
static void *value_of(const spot *s) { return (char *)s->message + s->field->offset; }
static uint64_t draw(changer *c, uint64_t below) { return samba_fuzz_next(&c->state) % below; }

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 4;
    }
}

static bool is_number(ProtobufCType type)
{
    return type != PROTOBUF_C_TYPE_STRING && type != PROTOBUF_C_TYPE_BYTES && type != PROTOBUF_C_TYPE_DOUBLE &&
           type != PROTOBUF_C_TYPE_MESSAGE;
}

static int64_t read_number(const void *at, ProtobufCType type)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    if (size_of(type) == 8)
        memcpy(&wide, at, 8);
    else
        memcpy(&narrow, at, 4);
    return size_of(type) == 8 ? wide : narrow;
}

/* All fields below the message; of too many the later ones at random in the place of others. */
static void collect_fields(changer *c, ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        spot s = {message, &message->descriptor->fields[i]};
        bool list = s.field->label == PROTOBUF_C_LABEL_REPEATED;
        size_t items = list ? *count_of(&s) : 1;
        if (c->count < SAMBA_COUNT(c->spots))
            c->spots[c->count++] = s;
        else if (draw(c, 4) == 0)
            c->spots[draw(c, SAMBA_COUNT(c->spots))] = s;
        if (s.field->type == PROTOBUF_C_TYPE_MESSAGE) {
            ProtobufCMessage **messages = list ? *(ProtobufCMessage ***)value_of(&s) : (ProtobufCMessage **)value_of(&s);
            for (size_t k = 0; k < items; k++)
                if (messages[k])
                    collect_fields(c, messages[k]);
        } else if (is_number(s.field->type)) {
            const char *numbers = list ? *(const char **)value_of(&s) : (const char *)value_of(&s);
            for (size_t k = 0; k < items; k++)
                c->numbers[c->number_count < SAMBA_COUNT(c->numbers) ? c->number_count++
                                                                     : (int)draw(c, SAMBA_COUNT(c->numbers))] =
                    read_number(numbers + k * size_of(s.field->type), s.field->type);
        }
    }
}

/* Beyond the ends it begins anew. */
static int64_t other_number(changer *c, int64_t old)
{
    const uint64_t number = (uint64_t)old;
    switch (draw(c, 8)) {
    case 0: return (int64_t)(number + 1);
    case 1: return (int64_t)(number - 1);
    case 2: return (int64_t)(number * 2);
    case 3: return (int64_t)draw(c, 9) - 1;
    case 4: return (int64_t)(((uint64_t)1 << draw(c, 63)) - draw(c, 3) + 1);
    case 5: return (int64_t)(number + draw(c, 129) - 64);
    case 6: return (int64_t)draw(c, 2048);
    default: return c->numbers[draw(c, (uint64_t)c->number_count + (c->number_count == 0))];
    }
}

static void change_value(changer *c, void *at, ProtobufCType type)
{
    static const double doubles[] = {0,      -0.0,    1,        -1,        0.5, 1e-300,       1e300,
                                     9.3e18, -9.3e18, INFINITY, -INFINITY, NAN, 4294967296.0, 3};
    switch (type) {
    case PROTOBUF_C_TYPE_STRING: {
        const size_t length = draw(c, 12);
        char *text = take(&c->memory, length + 1);
        for (size_t i = 0; text && i < length; i++)
            text[i] = (char)(1 + draw(c, 255));
        if (text)
            memcpy(at, &text, sizeof text);
        return;
    }
    case PROTOBUF_C_TYPE_DOUBLE: memcpy(at, &doubles[draw(c, SAMBA_COUNT(doubles))], 8); return;
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return;
    case PROTOBUF_C_TYPE_BOOL: *(protobuf_c_boolean *)at = !*(protobuf_c_boolean *)at; return;
    default: {
        int64_t value = other_number(c, read_number(at, type));
        memcpy(at, &value, size_of(type));
    }
    }
}

static void change_list(changer *c, const spot *s)
{
    size_t *count = count_of(s), width = size_of(s->field->type), from = *count > 0 ? draw(c, *count) : 0;
    char **list = value_of(s), item[sizeof(ProtobufCBinaryData)];
    if (*count > 0 && draw(c, 3) > 0 && s->field->type != PROTOBUF_C_TYPE_MESSAGE) {
        change_value(c, *list + from * width, s->field->type);
        return;
    }
    switch (*count > 0 ? draw(c, 3) : 3) {
    case 0: /* one less */
        memmove(*list + from * width, *list + (from + 1) * width, (*count - from - 1) * width);
        --*count;
        return;
    case 1: { /* one twice */
        char *longer = take(&c->memory, (*count + 1) * width);
        if (!longer)
            return;
        memcpy(longer, *list, *count * width);
        memcpy(longer + *count * width, *list + from * width, width);
        *list = longer;
        ++*count;
        return;
    }
    case 2: { /* two exchanged */
        size_t to = draw(c, *count);
        memcpy(item, *list + from * width, width);
        memcpy(*list + from * width, *list + to * width, width);
        memcpy(*list + to * width, item, width);
        return;
    }
    default: return;
    }
}

/* One of the plan's numbers becomes another wherever it stands, or nearly: a size that only one field has is refused at once. */
static void change_everywhere(changer *c)
{
    const int64_t old = c->number_count ? c->numbers[draw(c, (uint64_t)c->number_count)] : 0;
    const int64_t new = draw(c, 2) ? (int64_t)draw(c, 2) : other_number(c, old);
    const uint64_t some = 1 + draw(c, 4);
    for (int i = 0; i < c->count; i++) {
        const spot *s = &c->spots[i];
        const ProtobufCType type = s->field->type;
        if (!is_number(type))
            continue;
        const bool list = s->field->label == PROTOBUF_C_LABEL_REPEATED;
        char *values = list ? *(char **)value_of(s) : value_of(s);
        for (size_t k = 0; k < (list ? *count_of(s) : 1); k++)
            if (read_number(values + k * size_of(type), type) == old && (some == 1 || draw(c, some) > 0))
                memcpy(values + k * size_of(type), &new, size_of(type));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    parts p = parts_of(data, size);
    static changer c;
    c.state = seed;
    c.count = c.number_count = 0;
    ProtobufCAllocator allocator = {take, give, &c.memory};
    Samba__Pef__Plan *plan = seed % 16 ? samba__pef__plan__unpack(&allocator, p.length, p.message) : NULL;
    if (!plan) {
        free_blocks(&c.memory);
        return LLVMFuzzerMutate(data, size, room);
    }
    collect_fields(&c, &plan->base);
    for (uint64_t changes = 1 + draw(&c, 3); changes > 0 && c.count > 0; changes--) {
        const spot *s = &c.spots[draw(&c, (uint64_t)c.count)];
        if (draw(&c, 4) == 0)
            change_everywhere(&c);
        else if (s->field->label == PROTOBUF_C_LABEL_REPEATED)
            change_list(&c, s);
        else
            change_value(&c, value_of(s), s->field->type);
    }
    size_t length = samba__pef__plan__get_packed_size(plan);
    uint8_t *message = malloc(length + 1);
    if (!message)
        abort();
    samba__pef__plan__pack(plan, message);
    file f = seal_message(message, length, p.constants, p.constants_size);
    size_t result = f.size <= room ? f.size : size;
    if (f.size <= room)
        memcpy(data, f.bytes, f.size);
    free(f.bytes);
    free(message);
    free_blocks(&c.memory);
    return result;
}

/* ---- inputs to begin with: the plans, and each stage of them alone, since one that is wrong has all refused ---- */
static void write_plan(samba_context *context, const samba_plan *plan, const char *folder, const char *name, int32_t number)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d.pef", folder, name, number);
    if (samba_pef_write(context, plan, path) != SAMBA_OK)
        fprintf(stderr, "%s: %s\n", path, samba_error_message(context));
}

void samba_fuzz_seeds(const char *folder)
{
    for (int i = 0; i < 2; i++) {
        samba_context *context;
        samba_plan plan;
        if (samba_context_new(NULL, &context) != SAMBA_OK)
            abort();
        if (i == 0)
            make_train_plan(&plan, context, 4);
        else
            make_zoo_plan(&plan, context);
        const char *name = i ? "zoo" : "train";
        samba_stage *stages = plan.stages;
        int32_t count = plan.stage_count;
        write_plan(context, &plan, folder, name, count);
        for (int32_t k = 0; k < count; k++) {
            plan.stages = &stages[k];
            plan.stage_count = 1;
            for (int32_t s = 0; s < plan.section_count; s++) {
                plan.sections[s].first_stage = s > 0;
                plan.sections[s].stage_count = s == 0;
            }
            write_plan(context, &plan, folder, name, k);
        }
        plan.stages = stages;
        samba_plan_free(&plan);
        samba_context_free(context);
    }
}
