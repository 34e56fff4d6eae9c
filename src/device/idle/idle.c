/* SPDX-License-Identifier: Apache-2.0
 *
 * A second device that computes nothing, to show what one needs: this folder, its name in device.h, its row in session.c. */
#include "device/device.h"

#include <string.h>

typedef struct idle_device {
    samba_device base;
    samba_context *context;
    samba_host_memory memory;
} idle_device;

static samba_status idle_describe(const samba_device_options *options, samba_device_tell *tell, void *to)
{
    const samba_device_fact fact = {
        .group = "processor", .name = "name", .text = "none", .unit = "", .meaning = "sections do nothing"};
    (void)options;
    tell(to, &fact);
    return SAMBA_OK;
}

static samba_status idle_open(const samba_device_options *options, samba_device **device)
{
    idle_device *idle = samba_calloc(options->context, sizeof *idle);
    if (!idle)
        return SAMBA_ERROR_MEMORY;
    idle->base = (samba_device){.interface = &samba_device_idle, .isa = "idle"};
    idle->context = options->context;
    *device = &idle->base;
    return SAMBA_OK;
}

static void idle_close(samba_device *device)
{
    idle_device *idle = (idle_device *)device;
    samba_host_memory_free(&idle->memory);
    samba_free(idle->context, idle, sizeof *idle);
}

static samba_status idle_allocate(samba_device *device, int64_t bytes)
{
    idle_device *idle = (idle_device *)device;
    return samba_host_memory_new(idle->context, bytes, 1, &idle->memory);
}

static samba_status idle_write(samba_device *device, int64_t offset, const void *host, size_t size)
{
    memcpy(((idle_device *)device)->memory.data + offset, host, size);
    return SAMBA_OK;
}

static samba_status idle_read(samba_device *device, int64_t offset, void *host, size_t size)
{
    memcpy(host, ((idle_device *)device)->memory.data + offset, size);
    return SAMBA_OK;
}

static char *idle_map(samba_device *device, int64_t offset) { return ((idle_device *)device)->memory.data + offset; }

static samba_status idle_build(samba_device *device, const samba_plan *plan)
{
    (void)device;
    (void)plan;
    return SAMBA_OK;
}

static samba_status idle_run(samba_device *device, const samba_device_run *run)
{
    char *memory = ((idle_device *)device)->memory.data;
    for (int32_t i = 0; i < run->in_count; i++)
        memcpy(memory + run->in[i].offset, run->in[i].host, (size_t)run->in[i].bytes);
    for (int32_t i = 0; i < run->out_count; i++)
        memcpy(run->out[i].host, memory + run->out[i].offset, (size_t)run->out[i].bytes);
    return SAMBA_OK;
}

static samba_status idle_wait(samba_device *device)
{
    (void)device;
    return SAMBA_OK;
}

const samba_device_interface samba_device_idle = {"idle",     idle_describe, idle_open, idle_close, idle_allocate,
                                                  idle_write, idle_read,     idle_map,  idle_build, NULL,
                                                  idle_build, idle_run,      idle_wait};
