/* SPDX-License-Identifier: Apache-2.0
 *
 * Host tensors to and from the device. A device tensor is C-contiguous; a host tensor may be any view. Contiguous runs of the
 * host move in one piece, everything else through a small block on the stack, so transfers need no memory.
 *
 * All reasons to refuse a transfer are checked before, by functions that change nothing. */
#include "runtime/runtime.h"

#include <stdio.h>
#include <string.h>

#define BLOCK 4096 /* bytes */

/* ---- finding ---- */
static samba_status fail_unknown(const samba_session *session, const char *name, int kind)
{
    samba_words words = {.used = 0};
    int count = 0;
    for (int32_t i = 0; i < session->plan.tensor_count; i++) {
        if (kind >= 0 && session->plan.tensors[i].kind != kind)
            continue;
        samba_words_add(&words, session->plan.tensors[i].name);
        session->candidates[count++] = session->plan.tensors[i].name;
    }
    const char *nearest = samba_nearest(name, session->candidates, count), *what = kind >= 0 ? samba_kind_names[kind] : "tensor";
    /* where the name is no slip, the model may lack the output */
    const bool made = kind == SAMBA_KIND_OUTPUT && !nearest;
    return samba_fail(session->context, SAMBA_ERROR_NAME, "there is no %s \"%.128s\"%s%.128s%s; %s%ss are: %s", what, name,
                      nearest ? " (did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?)" : "",
                      made ? "samba_output and samba_loss make one (in Python what forward returns); " : "", what,
                      samba_words_text(&words));
}

samba_status samba_session_find(const samba_session *session, const char *name, int kind, int32_t *tensor)
{
    *tensor = samba_names_find(&session->tensors, name);
    if (*tensor < 0)
        return fail_unknown(session, name, kind);
    int32_t found = session->plan.tensors[*tensor].kind;
    if (kind >= 0 && found != kind)
        return samba_fail(session->context, SAMBA_ERROR_NAME, "\"%.128s\" is %s %s, not an %s: between runs %s it", name,
                          strchr("aeiou", samba_kind_names[found][0]) ? "an" : "a", samba_kind_names[found],
                          samba_kind_names[kind],
                          kind == SAMBA_KIND_INPUT ? "samba_session_set (in Python update_tensor) writes"
                                                   : "samba_session_get (in Python get_tensors_by_name) reads");
    return SAMBA_OK;
}

/* ---- checks ---- */
static samba_status fail_shape(const samba_session *session, const samba_plan_tensor *tensor, const samba_tensor *host,
                               const char *what)
{
    char has[SAMBA_SHAPE_TEXT], given[SAMBA_SHAPE_TEXT], cure[2 * SAMBA_SHAPE_TEXT + 192];
    samba_shape_format(tensor->rank, tensor->shape, has, sizeof has);
    samba_shape_format(samba_tensor_rank(host), samba_tensor_shape(host), given, sizeof given);
    switch (tensor->kind) {
    case SAMBA_KIND_INPUT:
        snprintf(cure, sizeof cure,
                 "give %s, or compile the model for %s if its layers take that (several sizes: dims= or sizes= of compile; in C "
                 "samba_multigraph_add_size)",
                 has, given);
        break;
    case SAMBA_KIND_OUTPUT: snprintf(cure, sizeof cure, "give a host tensor of %s", has); break;
    case SAMBA_KIND_GRADIENT: snprintf(cure, sizeof cure, "give %s, as a gradient has the shape of what it is of", has); break;
    default: snprintf(cure, sizeof cure, "give a tensor of %s, or compile a model in which it is %s", has, given);
    }
    return samba_fail(session->context, SAMBA_ERROR_SHAPE, "%s \"%.128s\" has the shape %s in the %s and %s was given: %s", what,
                      tensor->name, has, session->source, given, cure);
}

static samba_status check_host(const samba_session *session, int32_t index, const samba_tensor *host, const char *what)
{
    const samba_plan_tensor *tensor = &session->plan.tensors[index];
    if (samba_tensor_dtype(host) != (samba_dtype)tensor->dtype)
        return samba_fail(session->context, SAMBA_ERROR_DTYPE,
                          "%s \"%.128s\" is %s in the %s and %s was given: copy it into a tensor of %s", what, tensor->name,
                          samba_dtype_name((samba_dtype)tensor->dtype), session->source,
                          samba_dtype_name(samba_tensor_dtype(host)), samba_dtype_name((samba_dtype)tensor->dtype));
    if (!samba_shape_equal(tensor->rank, tensor->shape, samba_tensor_rank(host), samba_tensor_shape(host)))
        return fail_shape(session, tensor, host, what);
    if (!samba_tensor_has_data(host) && samba_tensor_numel(host) > 0)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "%s \"%.128s\" is an empty tensor: it has no memory to transfer", what, tensor->name);
    return SAMBA_OK;
}

static bool in_range(const samba_plan_tensor *tensor, int64_t value)
{
    return (value >= tensor->low && value < tensor->high) || (tensor->has_ignore && value == tensor->ignore);
}

/* Its sign says whether a value is outside:
 * below 0, counted from the least good one, or less than nothing is left to the greatest. */
static inline uint64_t outside(int64_t value, uint64_t low, uint64_t width)
{
    uint64_t above = (uint64_t)value - low;
    return above | (width - above);
}

/* The usual case in loops that vectorise: contiguous int64 or int32, all values good. False: look closer. */
static bool all_in_range(const samba_plan_tensor *tensor, const samba_tensor *host)
{
    int64_t numel = samba_tensor_numel(host), ignore = tensor->has_ignore ? tensor->ignore : tensor->low;
    uint64_t low = (uint64_t)tensor->low, width = (uint64_t)tensor->high - 1 - low, bad = 0;
    if (tensor->low >= tensor->high || (int64_t)width < 0 || !samba_tensor_is_contiguous(host))
        return false;
    if (tensor->dtype == SAMBA_INT64 && ignore >= tensor->low && ignore < tensor->high) { /* no other value may be ignored */
        const int64_t *values = samba_tensor_data(host);
        _Pragma("omp simd reduction(| : bad)") for (int64_t i = 0; i < numel; i++) bad |= outside(values[i], low, width);
    } else if (tensor->dtype == SAMBA_INT64) {
        const int64_t *values = samba_tensor_data(host);
        for (int64_t i = 0; i < numel; i++)
            bad |= values[i] == ignore ? 0 : outside(values[i], low, width);
    } else if (tensor->dtype == SAMBA_INT32) {
        const int32_t *values = samba_tensor_data(host);
        for (int64_t i = 0; i < numel; i++)
            bad |= values[i] == ignore ? 0 : outside(values[i], low, width);
    } else {
        return false;
    }
    return (int64_t)bad >= 0;
}

/* The first value outside, and its index; false: there is none. */
static bool find_outside(const samba_plan_tensor *tensor, const samba_tensor *host, int64_t index[SAMBA_MAX_RANK], int64_t *value)
{
    if (samba_tensor_numel(host) == 0 || all_in_range(tensor, host))
        return false;
    memset(index, 0, SAMBA_MAX_RANK * sizeof *index);
    do {
        int64_t element = 0;
        for (int i = 0; i < tensor->rank; i++)
            element += index[i] * samba_tensor_strides(host)[i];
        *value =
            samba_load_int64((samba_dtype)tensor->dtype, (const char *)samba_tensor_data(host) +
                                                             element * (int64_t)samba_dtype_size((samba_dtype)tensor->dtype));
        if (!in_range(tensor, *value))
            return true;
    } while (samba_shape_next(tensor->rank, tensor->shape, index));
    return false;
}

/* `told` ends the message: where the values came from. */
static samba_status check_range(const samba_session *session, const samba_plan_tensor *tensor, const samba_tensor *host,
                                const char *what, const char *told)
{
    int64_t index[SAMBA_MAX_RANK], value;
    if (!find_outside(tensor, host, index, &value))
        return SAMBA_OK;
    char where[SAMBA_SHAPE_TEXT] = "";
    int used = 0;
    for (int i = 0; i < tensor->rank; i++)
        used += snprintf(where + used, sizeof where - (size_t)used, "%s%lld%s", i ? ", " : "[", (long long)index[i],
                         i + 1 == tensor->rank ? "]" : "");
    char allowed[80] = "";
    used = tensor->high > tensor->low
               ? snprintf(allowed, sizeof allowed, ": it takes %lld to %lld", (long long)tensor->low, (long long)tensor->high - 1)
               : 0;
    if (used && tensor->has_ignore)
        snprintf(allowed + used, sizeof allowed - (size_t)used, ", or %lld", (long long)tensor->ignore);
    return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "%s %.128s%s = %lld is outside [%lld, %lld) (%.128s)%s%s", what,
                      tensor->name, where, (long long)value, (long long)tensor->low, (long long)tensor->high, tensor->range_user,
                      allowed, told);
}

/* The memory of an input that the process shares with the device; NULL: none. */
static char *own_memory(const samba_session *session, int32_t index)
{
    const samba_plan_tensor *tensor = &session->plan.tensors[index];
    const samba_device_interface *device = session->device->interface;
    return tensor->kind == SAMBA_KIND_INPUT && device->map && !session->in_place
               ? device->map(session->device, samba_session_offset(session, tensor->buffer))
               : NULL;
}

/* Elements of the input's own memory are where they belong, or cannot be taken from there. */
static samba_status check_own(const samba_session *session, int32_t index, const samba_tensor *host)
{
    const char *own = own_memory(session, index), *data = samba_tensor_data(host);
    size_t bytes = (size_t)session->plan.buffers[session->plan.tensors[index].buffer].bytes;
    if (!own || (uintptr_t)data - (uintptr_t)own >= bytes || (data == own && samba_tensor_is_contiguous(host)))
        return SAMBA_OK;
    return samba_fail(
        session->context, SAMBA_ERROR_ARGUMENT,
        "input \"%.128s\" is another view of the memory that samba_session_input gave: give that tensor itself, or a copy",
        session->plan.tensors[index].name);
}

static samba_status check_form(const samba_session *session, int32_t index, const samba_tensor *host, const char *what)
{
    SAMBA_TRY(check_host(session, index, host, what));
    return check_own(session, index, host);
}

samba_status samba_check_host_source(const samba_session *session, int32_t index, const samba_tensor *host, const char *what)
{
    SAMBA_TRY(check_form(session, index, host, what));
    const samba_plan_tensor *tensor = &session->plan.tensors[index];
    return tensor->has_range ? check_range(session, tensor, host, what, "") : SAMBA_OK;
}

samba_status samba_check_own_input(const samba_session *session, int32_t index)
{
    const samba_plan_tensor *tensor = &session->plan.tensors[index];
    char *own = own_memory(session, index);
    samba_tensor *host;
    if (!own)
        return SAMBA_OK;
    SAMBA_TRY(samba_tensor_from_memory(session->context, tensor->name, (samba_dtype)tensor->dtype, tensor->rank, tensor->shape,
                                       NULL, own, NULL, NULL, &host));
    samba_status status = check_range(session, tensor, host, "input", ": it was set before, and this run was given no other");
    samba_tensor_free(host);
    return status;
}

samba_status samba_check_host_target(const samba_session *session, int32_t index, const samba_tensor *host, const char *what)
{
    SAMBA_TRY(check_host(session, index, host, what));
    if (!samba_shape_is_apart(samba_tensor_rank(host), samba_tensor_shape(host), samba_tensor_strides(host)))
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT,
                          "%s \"%.128s\" is a view whose elements share memory, or lie between each other: give a tensor with "
                          "memory for each element",
                          what, session->plan.tensors[index].name);
    return SAMBA_OK;
}

/* ---- moving ---- */
typedef struct rows { /* a host view as rows of elements that have one stride */
    int outer_rank;
    int64_t length, stride;
} rows;

static rows rows_of(const samba_tensor *host)
{
    const int64_t *shape = samba_tensor_shape(host), *strides = samba_tensor_strides(host);
    int rank = samba_tensor_rank(host), dim = rank;
    rows result = {.length = 1, .stride = 1};
    while (dim > 0 && (shape[dim - 1] == 1 || strides[dim - 1] == result.length)) /* a contiguous end is one row */
        result.length *= shape[--dim];
    if (result.length == 1 && dim > 0) {
        dim--;
        result = (rows){.length = shape[dim], .stride = strides[dim]};
    }
    result.outer_rank = dim;
    return result;
}

static samba_status move_row(samba_session *session, samba_dtype dtype, int64_t offset, char *host, const rows *row, bool in)
{
    samba_device *device = session->device;
    const int64_t size = (int64_t)samba_dtype_size(dtype), room = BLOCK / size;
    if (row->stride == 1)
        return in ? device->interface->write(device, offset, host, (size_t)(row->length * size))
                  : device->interface->read(device, offset, host, (size_t)(row->length * size));
    _Alignas(8) char block[BLOCK];
    for (int64_t done = 0; done < row->length; done += room) {
        int64_t count = row->length - done < room ? row->length - done : room;
        char *element = host + done * row->stride * size;
        if (in) {
            samba_copy_elements(dtype, block, 1, dtype, element, row->stride, count);
            SAMBA_TRY(device->interface->write(device, offset + done * size, block, (size_t)(count * size)));
        } else {
            SAMBA_TRY(device->interface->read(device, offset + done * size, block, (size_t)(count * size)));
            samba_copy_elements(dtype, element, row->stride, dtype, block, 1, count);
        }
    }
    return SAMBA_OK;
}

/* Where the elements of a tensor are: all, or those of this replica's part. */
static samba_shard shard_of(const samba_session *session, int32_t tensor, const samba_tensor *host)
{
    if (session->shards.tensors && session->shards.tensors[tensor].is)
        return session->shards.tensors[tensor];
    return (samba_shard){.count = samba_tensor_numel(host),
                         .offset = samba_session_offset(session, session->plan.tensors[tensor].buffer)};
}

static samba_status move(samba_session *session, int32_t tensor, const samba_tensor *host, bool in)
{
    samba_dtype dtype = samba_tensor_dtype(host);
    if (samba_tensor_numel(host) == 0)
        return SAMBA_OK;
    const rows row = rows_of(host);
    const samba_shard here = shard_of(session, tensor, host);
    const int64_t size = (int64_t)samba_dtype_size(dtype), *strides = samba_tensor_strides(host);
    int64_t index[SAMBA_MAX_RANK] = {0}, at = 0;
    do {
        int64_t element = 0;
        for (int i = 0; i < row.outer_rank; i++)
            element += index[i] * strides[i];
        const int64_t begin = at > here.first ? at : here.first,
                      end = at + row.length < here.first + here.count ? at + row.length : here.first + here.count;
        const rows part = {row.outer_rank, end - begin, row.stride};
        if (begin < end)
            SAMBA_TRY(move_row(session, dtype, here.offset + (begin - here.first) * size,
                               (char *)samba_tensor_data(host) + (element + (begin - at) * row.stride) * size, &part, in));
        at += row.length;
    } while (samba_shape_next(row.outer_rank, samba_tensor_shape(host), index));
    return SAMBA_OK;
}

bool samba_transfer_is_copy(const samba_session *session, int32_t tensor, const samba_tensor *host, samba_device_copy *copy)
{
    int64_t bytes = samba_tensor_numel(host) * (int64_t)samba_dtype_size(samba_tensor_dtype(host));
    const char *own = own_memory(session, tensor);
    if (own && own == samba_tensor_data(host))
        bytes = 0; /* it is there */
    *copy =
        (samba_device_copy){samba_session_offset(session, session->plan.tensors[tensor].buffer), samba_tensor_data(host), bytes};
    return samba_tensor_is_contiguous(host) || bytes == 0;
}

samba_status samba_transfer_in(samba_session *session, int32_t tensor, const samba_tensor *host)
{
    const char *own = own_memory(session, tensor);
    samba_weights_are_set(session, tensor);
    return own && own == samba_tensor_data(host) ? SAMBA_OK : move(session, tensor, host, true);
}

samba_status samba_transfer_out(samba_session *session, int32_t tensor, samba_tensor *host)
{
    SAMBA_TRY(samba_weights_need(session, tensor));
    return move(session, tensor, host, false);
}

/* ---- by name ---- */
static samba_status set(samba_session *session, const samba_tensor *host)
{
    int32_t tensor;
    if (!host)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_set was given no tensor");
    SAMBA_TRY(samba_session_find(session, samba_tensor_name(host), -1, &tensor));
    tensor = samba_sizes_of_shape(session, tensor, host);
    SAMBA_TRY(check_form(session, tensor, host, samba_kind_names[session->plan.tensors[tensor].kind]));
    const samba_plan_tensor *facts = &session->plan.tensors[tensor];
    samba_given_note(session, tensor, SAMBA_GIVEN_BY_SET);
    SAMBA_TRY(samba_transfer_in(session, tensor, host));
    int64_t index[SAMBA_MAX_RANK], value;
    samba_note_input(session, tensor, facts->has_range && find_outside(facts, host, index, &value));
    return SAMBA_OK;
}

samba_status samba_session_set(samba_session *session, const samba_tensor *host)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_set"));
    return samba_session_leave(session, set(session, host));
}

static samba_status get(samba_session *session, samba_tensor *host)
{
    int32_t tensor;
    if (!host)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_get was given no tensor");
    SAMBA_TRY(samba_session_find(session, samba_tensor_name(host), -1, &tensor));
    tensor = samba_sizes_of_shape(session, tensor, host);
    SAMBA_TRY(samba_sizes_check(session, tensor));
    SAMBA_TRY(samba_check_whole(session, tensor));
    SAMBA_TRY(samba_check_host_target(session, tensor, host, samba_kind_names[session->plan.tensors[tensor].kind]));
    return samba_transfer_out(session, tensor, host);
}

samba_status samba_session_get(samba_session *session, samba_tensor *host)
{
    SAMBA_TRY(samba_session_enter(session, "samba_session_get"));
    return samba_session_leave(session, get(session, host));
}

static samba_status make_input(samba_session *session, const char *name, samba_tensor **host)
{
    int32_t tensor;
    if (!name)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_input was given no name");
    SAMBA_TRY(samba_session_find(session, name, SAMBA_KIND_INPUT, &tensor));
    const samba_plan_tensor *facts = &session->plan.tensors[tensor];
    char *own = own_memory(session, tensor);
    if (!own)
        return samba_fail(session->context, SAMBA_ERROR_UNSUPPORTED,
                          "device %s does not work in this process's memory: make a tensor for \"%.128s\" and have it copied",
                          session->device->interface->name, facts->name);
    samba_given_note(session, tensor, SAMBA_GIVEN_BY_HOLDER); /* what it holds is the caller's doing from here on */
    return samba_tensor_from_memory(session->context, facts->name, (samba_dtype)facts->dtype, facts->rank, facts->shape, NULL,
                                    own, NULL, NULL, host);
}

samba_status samba_session_input(samba_session *session, const char *name, samba_tensor **host)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, host);
    *host = NULL;
    SAMBA_TRY(samba_session_enter(session, "samba_session_input"));
    return samba_session_leave(session, make_input(session, name, host));
}

samba_status samba_session_copy(samba_session *session, int32_t tensor, samba_tensor **host)
{
    const samba_plan_tensor *facts = &session->plan.tensors[tensor];
    samba_tensor *fresh;
    SAMBA_TRY(samba_check_whole(session, tensor));
    const char *whole = samba_whole_state(session, tensor);
    SAMBA_TRY(samba_tensor_new(session->context, facts->name, (samba_dtype)facts->dtype, facts->rank, facts->shape, &fresh));
    samba_status status = SAMBA_OK;
    if (!whole)
        status = samba_transfer_out(session, tensor, fresh);
    else if (samba_tensor_numel(fresh) > 0)
        memcpy(samba_tensor_data(fresh), whole, (size_t)samba_tensor_numel(fresh) * samba_dtype_size((samba_dtype)facts->dtype));
    if (status == SAMBA_OK)
        *host = fresh;
    else
        samba_tensor_free(fresh);
    return status;
}

static samba_status get_by_name(samba_session *session, const char *name, samba_tensor **host)
{
    int32_t tensor;
    if (!name)
        return samba_fail(session->context, SAMBA_ERROR_ARGUMENT, "samba_session_get_by_name was given no name");
    SAMBA_TRY(samba_session_find(session, name, -1, &tensor));
    SAMBA_TRY(samba_sizes_check(session, tensor));
    return samba_session_copy(session, tensor, host);
}

samba_status samba_session_get_by_name(samba_session *session, const char *name, samba_tensor **host)
{
    SAMBA_NEED(NULL, session);
    SAMBA_NEED(session->context, host);
    *host = NULL;
    SAMBA_TRY(samba_session_enter(session, "samba_session_get_by_name"));
    return samba_session_leave(session, get_by_name(session, name, host));
}
