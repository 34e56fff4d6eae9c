/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients to buckets, each of which replicas exchange as one range of memory: large enough that a network's latency is little
 * beside its bandwidth, and several, so that the first travel while BCKWD still makes the last. Neighbours in memory join until
 * there are BUCKET_BYTES, from the last parameters, whose gradients BCKWD makes first, to the first. Bytes that alignment leaves
 * between two gradients travel along; nobody reads them. A bucket is a section of REDUCE; BCKWD ends a section where a bucket is
 * complete, and OPT where the next update reads another bucket (section.c).
 *
 * Needs: offsets. Gives: fewer exchanges, in the order in which they can begin; where BCKWD is cut. Breaks nothing. */
#include "compiler/compiler.h"

#include <stdlib.h>

#define BUCKET_BYTES ((int64_t)4 << 20)

typedef struct range {
    int64_t begin, end;
} range;

/* One of FWD or BCKWD is of statistics, and stays as it is. */
static bool is_of_gradients(const samba_compiler *c, int32_t stage)
{
    return c->plan.stages[stage].kind == SAMBA_STAGE_EXCHANGE && c->growth.made[stage].phase == SAMBA_REDUCE;
}

static range range_of(const samba_plan *plan, const samba_stage *exchange)
{
    const samba_operand *o = &exchange->operands[0];
    const int64_t size = (int64_t)samba_dtype_size((samba_dtype)o->dtype),
                  begin = plan->buffers[o->buffer].offset + o->offset * size;
    return (range){begin, begin + exchange->domain[0] * size};
}

/* The last stage of BCKWD that writes into the range; `first` - 1 where none does. */
static int32_t completed_by(const samba_compiler *c, int32_t first, int32_t end, range r)
{
    const samba_plan *plan = &c->plan;
    const samba_buffer at = {r.begin, r.end - r.begin};
    int32_t last = end - 1;
    while (last >= first && (c->growth.made[last].phase != SAMBA_BCKWD ||
                             !samba_stage_touches(&plan->stages[last], plan->buffers, at, SAMBA_WRITES)))
        last--;
    return last;
}

typedef struct bucket {
    range at;
    int32_t first, count; /* of the exchanges that it is made of, in the order of memory, the last of it first */
    int32_t complete;     /* the stage of BCKWD that completes it */
} bucket;

typedef struct exchange {
    range at;
    samba_stage stage;
} exchange;

static int later_first(const void *left, const void *right)
{
    const exchange *a = left, *b = right;
    return a->at.begin != b->at.begin ? (a->at.begin < b->at.begin ? 1 : -1) : 0;
}

static int complete_first(const void *left, const void *right)
{
    const bucket *a = left, *b = right;
    return a->complete != b->complete ? (a->complete > b->complete ? 1 : -1) : a->first - b->first;
}

/* Is there room in the bucket for one that lies before it? */
static bool joins(const bucket *b, const exchange *exchanges, const exchange *next)
{
    const int32_t dtype = exchanges[b->first].stage.operands[0].dtype;
    const int64_t gap = b->at.begin - next->at.end;
    return next->stage.operands[0].dtype == dtype && gap < SAMBA_ALIGNMENT &&
           gap % (int64_t)samba_dtype_size((samba_dtype)dtype) == 0 && b->at.end - b->at.begin < BUCKET_BYTES;
}

/* One exchange of a whole bucket. */
static samba_status write_exchange(samba_compiler *c, const bucket *b, const exchange *exchanges, samba_stage *stage)
{
    samba_plan *plan = &c->plan;
    const samba_stage *first = &exchanges[b->first].stage;
    const int64_t size = (int64_t)samba_dtype_size((samba_dtype)first->operands[0].dtype);
    const int64_t bytes = b->at.end - b->at.begin;
    samba_stage *parts;
    samba_text text;
    *stage = *first;
    if (b->count == 1)
        return SAMBA_OK;
    SAMBA_TRY(SAMBA_ROOM(&plan->arena, stage->operands, 1));
    stage->operands[0] = (samba_operand){.dtype = first->operands[0].dtype, .strides = {1}};
    SAMBA_TRY(samba_plan_add_buffer(c, bytes, true, &stage->operands[0].buffer));
    plan->buffers[stage->operands[0].buffer].offset = b->at.begin;
    stage->domain[0] = bytes / size;
    stage->bytes = 2 * bytes;
    samba_text_init(&text, c->context);
    samba_text_add(&text, "%d gradients: replica_mean", b->count);
    SAMBA_TRY(samba_text_keep(&text, &plan->arena, &stage->name));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, parts, b->count));
    for (int32_t i = 0; i < b->count; i++)
        parts[i] = exchanges[b->first + i].stage;
    return samba_stage_operators_join(c, stage, parts, b->count);
}

/* The exchanges first .. end - 1 of a graph whose stages begin at `begin`: buckets in their place, of *kept on. */
static samba_status fill(samba_compiler *c, int32_t begin, int32_t first, int32_t end, int32_t *kept)
{
    samba_plan *plan = &c->plan;
    bucket *buckets;
    exchange *exchanges;
    int32_t count = 0;
    const int32_t all = end - first;
    const samba_made_stage made = c->growth.made[first];
    SAMBA_TRY(SAMBA_ROOM(&c->arena, buckets, all));
    SAMBA_TRY(SAMBA_ROOM(&c->arena, exchanges, all));
    for (int32_t i = 0; i < all; i++)
        exchanges[i] = (exchange){range_of(plan, &plan->stages[first + i]), plan->stages[first + i]};
    qsort(exchanges, (size_t)all, sizeof *exchanges, later_first);
    for (int32_t i = 0; i < all; i++) {
        if (count == 0 || !joins(&buckets[count - 1], exchanges, &exchanges[i]))
            buckets[count++] = (bucket){.at = {0, exchanges[i].at.end}, .first = i};
        buckets[count - 1].at.begin = exchanges[i].at.begin;
        buckets[count - 1].count++;
    }
    for (int32_t i = 0; i < count; i++) {
        buckets[i].complete = completed_by(c, begin, *kept, buckets[i].at);
        if (buckets[i].complete >= begin)
            c->growth.made[buckets[i].complete].completes = true;
    }
    qsort(buckets, (size_t)count, sizeof *buckets, complete_first);
    for (int32_t i = 0; i < count; i++, ++*kept) {
        c->growth.made[*kept] = made;
        SAMBA_TRY(write_exchange(c, &buckets[i], exchanges, &plan->stages[*kept]));
    }
    return SAMBA_OK;
}

samba_status samba_pass_buckets(samba_compiler *c)
{
    samba_plan *plan = &c->plan;
    int32_t kept = 0, begin = 0;
    for (int32_t s = 0, next; s < plan->stage_count; s = next) {
        next = s + 1;
        if (s > 0 && c->growth.made[s].graph != c->growth.made[s - 1].graph)
            begin = kept;
        if (!is_of_gradients(c, s)) {
            samba_plan_move_stage(c, s, kept++);
            continue;
        }
        while (next < plan->stage_count && is_of_gradients(c, next) && samba_made_alike(c, next, s))
            next++;
        SAMBA_TRY(fill(c, begin, s, next, &kept));
    }
    plan->stage_count = kept;
    return SAMBA_OK;
}

int32_t samba_bucket_read(const samba_compiler *c, int32_t stage, int32_t end)
{
    const samba_plan *plan = &c->plan;
    if (c->growth.made[stage].phase != SAMBA_OPT)
        return -1;
    for (int32_t s = 0; s < end; s++) {
        if (!is_of_gradients(c, s) || c->growth.made[s].graph != c->growth.made[stage].graph)
            continue;
        const range r = range_of(plan, &plan->stages[s]);
        if (samba_stage_touches(&plan->stages[stage], plan->buffers, (samba_buffer){r.begin, r.end - r.begin},
                                SAMBA_READS | SAMBA_WRITES))
            return s;
    }
    return -1;
}
