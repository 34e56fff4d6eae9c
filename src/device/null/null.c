/* SPDX-License-Identifier: Apache-2.0
 *
 * The null device: memory and copies are real, sections do nothing. All of a session but the kernels can be tested with it. */
#include "device/device.h"

#include <string.h>

typedef struct null_device {
    samba_device base;
    samba_context *context;
    samba_host_memory memory;
} null_device;

static samba_status null_describe(const samba_device_options *options, samba_device_tell *tell, void *to)
{
    const samba_device_fact fact = {
        .group = "processor", .name = "name", .text = "none", .unit = "", .meaning = "sections do nothing"};
    (void)options;
    tell(to, &fact);
    return SAMBA_OK;
}

static samba_status null_open(const samba_device_options *options, samba_device **device)
{
    null_device *null = samba_calloc(options->context, sizeof *null);
    if (!null)
        return SAMBA_ERROR_MEMORY;
    null->base = (samba_device){.interface = &samba_device_null, .isa = "null"};
    null->context = options->context;
    *device = &null->base;
    return SAMBA_OK;
}

static void null_close(samba_device *device)
{
    null_device *null = (null_device *)device;
    samba_host_memory_free(&null->memory);
    samba_free(null->context, null, sizeof *null);
}

static samba_status null_allocate(samba_device *device, const samba_plan *plan, int64_t bytes)
{
    (void)plan;
    null_device *null = (null_device *)device;
    return samba_host_memory_new(null->context, bytes, 1, &null->memory);
}

static samba_status null_write(samba_device *device, int64_t offset, const void *host, size_t size)
{
    memcpy(((null_device *)device)->memory.data + offset, host, size);
    return SAMBA_OK;
}

static samba_status null_read(samba_device *device, int64_t offset, void *host, size_t size)
{
    memcpy(host, ((null_device *)device)->memory.data + offset, size);
    return SAMBA_OK;
}

static char *null_map(samba_device *device, int64_t offset) { return ((null_device *)device)->memory.data + offset; }

static samba_status null_build(samba_device *device, const samba_plan *plan)
{
    (void)device;
    (void)plan;
    return SAMBA_OK;
}

static samba_status null_run(samba_device *device, const samba_device_run *run)
{
    char *memory = ((null_device *)device)->memory.data;
    for (int32_t i = 0; i < run->in_count; i++)
        memcpy(memory + run->in[i].offset, run->in[i].host, (size_t)run->in[i].bytes);
    for (int32_t i = 0; i < run->out_count; i++)
        memcpy(run->out[i].host, memory + run->out[i].offset, (size_t)run->out[i].bytes);
    return SAMBA_OK;
}

static samba_status null_wait(samba_device *device)
{
    (void)device;
    return SAMBA_OK;
}

const samba_device_interface samba_device_null = {"null",    null_describe, null_open,  null_close, null_allocate, null_write,
                                                  null_read, null_map,      null_build, NULL,       null_build,    null_run,
                                                  null_wait, NULL,          NULL,       NULL};
