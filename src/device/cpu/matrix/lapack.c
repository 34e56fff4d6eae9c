/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding LAPACK's plugin. The plugin and the lock before it are the only state, since a library that is loaded is the
 * process's. */
#include "device/cpu/matrix/matrix.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static const samba_lapack_interface *plugin;

/* A variable that is the user's where it is set, else what is said here. */
static bool set(const char *variable, const char *value)
{
    return value[0] && !getenv(variable) && setenv(variable, value, 1) == 0;
}

/* OpenBLAS chooses kernels as it is loaded, by a list of the processors that there were when it was made: of a newer one it takes
 * those of SSE. It also starts threads, which nobody needs. Variables of the environment say otherwise; they are there while the
 * plugin is loaded. */
static void *open_for(samba_isa isa, char *reason, size_t size)
{
    static const char *const processors[SAMBA_ISA_COUNT] = {
#define ISA(name, family, kernels, flags, features, libxsmm, pairs, amx, openblas) openblas,
#include "device/cpu/isa/sets.def"
#undef ISA
    };
    const bool named = set("OPENBLAS_CORETYPE", processors[isa]), alone = set("OPENBLAS_NUM_THREADS", "1");
    void *library = samba_plugin_open("lapack", false, reason, size);
    if (named)
        unsetenv("OPENBLAS_CORETYPE");
    if (alone)
        unsetenv("OPENBLAS_NUM_THREADS");
    return library;
}

static samba_status load(samba_context *context, samba_isa isa)
{
    char reason[512];
    void *library = open_for(isa, reason, sizeof reason);
    if (!library)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "linear algebra needs libsambaflow-lapack.so, which cannot be loaded (%.300s): build with "
                          "-Dlapack=enabled and Debian's liblapacke-dev, or name its folder in SAMBAFLOW_PLUGINS",
                          reason);
    samba_lapack_plugin_fn *ask;
    *(void **)&ask = dlsym(library, SAMBA_LAPACK_SYMBOL);
    const samba_lapack_interface *interface = ask ? ask() : NULL;
    if (!interface || interface->version != SAMBA_LAPACK_VERSION || interface->struct_size != sizeof *interface)
        return samba_fail(context, SAMBA_ERROR_UNSUPPORTED,
                          "libsambaflow-lapack.so is of another version of sambaflow (its interface is %d, expected %d): install "
                          "the one that came with this library",
                          interface ? interface->version : 0, SAMBA_LAPACK_VERSION);
    plugin = interface;
    return SAMBA_OK;
}

samba_status samba_lapack_find(samba_context *context, samba_isa isa, const samba_lapack_interface **lapack)
{
    pthread_mutex_lock(&loading);
    samba_status status = plugin ? SAMBA_OK : load(context, isa);
    *lapack = plugin;
    pthread_mutex_unlock(&loading);
    return status;
}
