/* SPDX-License-Identifier: Apache-2.0
 *
 * HDF5 through its plugin, and reading a dataset as a tensor. libhdf5 may be used by one thread at a time, so a lock of the
 * process stands before it; that lock and the plugin are the only state, since a library that is loaded is the process's.
 * A file says how large a dataset is before anything of it is read: what is more than its bytes can unpack to is refused. */
#include "data/hdf5.h"
#include "base/null.h"
#include "data/data.h"

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

/* What is unpacked is at most so much more than what is stored, but for a little that may be fill values. */
static samba_status check_size(samba_context *context, const char *path, const char *name, const samba_hdf5_facts *facts)
{
    int64_t bytes = (int64_t)samba_dtype_size(facts->dtype), most;
    bool fits = true;
    for (int i = 0; i < facts->rank; i++)
        fits &= samba_mul_checked(bytes, facts->shape[i], &bytes);
    if (!samba_mul_checked(facts->stored, SAMBA_INFLATE_RATIO, &most) || !samba_add_checked(most, 1 << 20, &most))
        most = INT64_MAX;
    if (fits && bytes <= most)
        return SAMBA_OK;
    return samba_fail(context, SAMBA_ERROR_FORMAT,
                      "%s: the dataset '%s' says that it is larger than the %lld bytes that it takes can unpack to", path, name,
                      (long long)facts->stored);
}

static samba_status read_found(samba_context *context, const samba_hdf5_interface *hdf5, samba_hdf5_file *file, const char *path,
                               const char *name, samba_tensor **tensor)
{
    char message[SAMBA_HDF5_MESSAGE] = "";
    samba_hdf5_facts facts = {.rank = 0};
    samba_status status = hdf5->find(file, name, &facts, message);
    if (status != SAMBA_OK)
        return samba_fail(context, status, "%s: %s", path, message);
    SAMBA_TRY(check_size(context, path, name, &facts));
    SAMBA_TRY(samba_tensor_new(context, name, facts.dtype, facts.rank, facts.shape, tensor));
    status = hdf5->read(file, samba_tensor_data(*tensor), message);
    return status == SAMBA_OK ? status : samba_fail(context, status, "%s: %s", path, message);
}

samba_status samba_hdf5_read(samba_context *context, const char *path, const char *dataset, samba_tensor **tensor)
{
    SAMBA_NEED(NULL, context);
    SAMBA_NEED(context, tensor);
    *tensor = NULL;
    SAMBA_NEED(context, path);
    SAMBA_NEED(context, dataset);
    char message[SAMBA_HDF5_MESSAGE] = "";
    const samba_hdf5_interface *hdf5;
    samba_hdf5_file *file = NULL;
    SAMBA_TRY(samba_hdf5_begin(context, &hdf5));
    samba_status status = hdf5->open(path, &file, message);
    if (status != SAMBA_OK)
        status = samba_fail(context, status, "cannot read \"%s\": %s", path, message);
    else
        status = read_found(context, hdf5, file, path, dataset, tensor);
    hdf5->close(file, message);
    samba_hdf5_end();
    if (status != SAMBA_OK) {
        samba_tensor_free(*tensor);
        *tensor = NULL;
    }
    return status;
}
