/* SPDX-License-Identifier: Apache-2.0
 *
 * What a library built without ONNX answers. */
#include "base/null.h"

#include <sambaflow/onnx.h>

static samba_status absent(samba_context *context)
{
    return samba_fail(context, SAMBA_ERROR_UNSUPPORTED, "this SambaFlow was built without ONNX; build it with -Donnx=enabled");
}

samba_status samba_onnx_open(samba_context *context, const char *path, samba_onnx **model)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, path);
    SAMBA_NEED(context, model);
    *model = NULL;
    return absent(context);
}

samba_status samba_onnx_open_memory(samba_context *context, const void *data, size_t size, const char *folder, samba_onnx **model)
{
    (void)size;
    (void)folder;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, data);
    SAMBA_NEED(context, model);
    *model = NULL;
    return absent(context);
}

/* There is no model that these could be called with. */
void samba_onnx_free(samba_onnx *model) { (void)model; }

int samba_onnx_input_count(const samba_onnx *model)
{
    (void)model;
    return 0;
}

samba_status samba_onnx_input(const samba_onnx *model, int index, samba_onnx_tensor_info *info)
{
    (void)model;
    (void)index;
    (void)info;
    return SAMBA_ERROR_ARGUMENT;
}

int samba_onnx_output_count(const samba_onnx *model)
{
    (void)model;
    return 0;
}

samba_status samba_onnx_output(const samba_onnx *model, int index, samba_onnx_tensor_info *info)
{
    (void)model;
    (void)index;
    (void)info;
    return SAMBA_ERROR_ARGUMENT;
}

samba_onnx_options samba_onnx_defaults(void) { return (samba_onnx_options){.struct_size = sizeof(samba_onnx_options)}; }

samba_status samba_onnx_read(samba_onnx *model, samba_graph *graph, const samba_onnx_options *options)
{
    (void)model;
    (void)graph;
    (void)options;
    return SAMBA_ERROR_ARGUMENT;
}

bool samba_onnx_built_in(const samba_onnx *model, int index)
{
    (void)model;
    (void)index;
    return false;
}

samba_status samba_onnx_weights(samba_onnx *model, samba_tensor_list *list)
{
    (void)model;
    (void)list;
    return SAMBA_ERROR_ARGUMENT;
}

samba_status samba_onnx_apply(samba_onnx *model, samba_graph *graph, const samba_onnx_options *options, int count,
                              const samba_onnx_binding *bindings, samba_value *outputs)
{
    (void)model;
    (void)graph;
    (void)options;
    (void)count;
    (void)bindings;
    (void)outputs;
    return SAMBA_ERROR_ARGUMENT;
}

int samba_onnx_initializer_count(const samba_onnx *model)
{
    (void)model;
    return 0;
}

samba_status samba_onnx_initializer(const samba_onnx *model, int index, samba_onnx_initializer_info *info)
{
    (void)model;
    (void)index;
    (void)info;
    return SAMBA_ERROR_ARGUMENT;
}

samba_status samba_onnx_initializer_value(samba_onnx *model, int index, samba_tensor **tensor)
{
    (void)model;
    (void)index;
    (void)tensor;
    return SAMBA_ERROR_ARGUMENT;
}

samba_onnx_write_options samba_onnx_write_defaults(void)
{
    return (samba_onnx_write_options){.struct_size = sizeof(samba_onnx_write_options)};
}

samba_status samba_onnx_write(samba_context *context, const samba_graph *graph, const samba_onnx_write_options *options,
                              const char *path)
{
    (void)options;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, graph);
    SAMBA_NEED(context, path);
    return absent(context);
}

samba_status samba_onnx_write_session(samba_context *context, samba_session *session, const char *graph_name, int opset,
                                      const char *path)
{
    (void)graph_name;
    (void)opset;
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, session);
    SAMBA_NEED(context, path);
    return absent(context);
}
