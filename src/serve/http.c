/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the plugin for HTTP. */
#include "serve/http.h"
#include "base/base.h"

#include <dlfcn.h>

samba_status samba_http_open(samba_context *context, const samba_http_interface **interface)
{
    char reason[SAMBA_HTTP_MESSAGE];
    void *library = samba_plugin_open("http", false, reason, sizeof reason);
    if (!library)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "a server needs libsambaflow-http.so, which cannot be loaded (%.200s): build with -Dserve=enabled and "
                          "Debian's libmicrohttpd-dev, or name its folder in SAMBAFLOW_PLUGINS",
                          reason);
    samba_http_plugin_fn *ask;
    *(void **)&ask = dlsym(library, SAMBA_HTTP_SYMBOL);
    const samba_http_interface *found = ask ? ask() : NULL;
    if (!found || found->version != SAMBA_HTTP_VERSION || found->struct_size != sizeof *found)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "libsambaflow-http.so is of another version of sambaflow (its interface is %d, expected %d): install "
                          "the one that came with this program",
                          found ? found->version : 0, SAMBA_HTTP_VERSION);
    *interface = found;
    return SAMBA_OK;
}
