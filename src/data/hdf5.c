/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin for HDF5. libhdf5 may be used by one thread at a time, so a lock of the process stands before it; that lock and the
 * plugin are the only state, since a library that is loaded is the process's. */
#include "data/hdf5.h"
#include "base/base.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static const samba_hdf5_interface *plugin;

static samba_status load(samba_context *context)
{
    char reason[SAMBA_HDF5_MESSAGE];
    void *library = samba_plugin_open("hdf5", false, reason, sizeof reason);
    if (!library)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "HDF5 needs libsambaflow-hdf5.so, which cannot be loaded (%.300s): build with -Dhdf5=enabled and "
                          "Debian's libhdf5-dev, or name its folder in SAMBAFLOW_PLUGINS",
                          reason);
    samba_hdf5_plugin_fn *ask;
    *(void **)&ask = dlsym(library, SAMBA_HDF5_SYMBOL);
    const samba_hdf5_interface *interface = ask ? ask() : NULL;
    if (!interface || interface->version != SAMBA_HDF5_VERSION || interface->struct_size != sizeof *interface)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "libsambaflow-hdf5.so is of another version of sambaflow (its interface is %d, expected %d): install "
                          "the one that came with this library",
                          interface ? interface->version : 0, SAMBA_HDF5_VERSION);
    plugin = interface;
    return SAMBA_OK;
}

samba_status samba_hdf5_begin(samba_context *context, const samba_hdf5_interface **interface)
{
    pthread_mutex_lock(&busy);
    samba_status status = plugin ? SAMBA_OK : load(context);
    *interface = plugin;
    if (status != SAMBA_OK)
        pthread_mutex_unlock(&busy);
    return status;
}

void samba_hdf5_end(void) { pthread_mutex_unlock(&busy); }
