/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the library that need others, an MPI or HDF5, are plugins: libraries loaded when something asks for them, so that the
 * library itself needs none. One is found beside the library or program that has this code, in a folder sambaflow there, where it
 * was installed, or where the system looks for libraries. */
#define _GNU_SOURCE /* dladdr */
#include "base/base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder of the library or program that has this code, with the '/' behind it; "" where nobody knows. A program goes by
 * what it calls itself, which may be no path. */
static void own_folder(char *folder, size_t size)
{
    Dl_info info;
    char program[1024];
    const char *path = dladdr((void *)(uintptr_t)&samba_plugin_open, &info) ? info.dli_fname : NULL;
    if (path && !strchr(path, '/')) {
        const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[length > 0 ? length : 0] = '\0';
        path = program;
    }
    const char *slash = path ? strrchr(path, '/') : NULL;
    snprintf(folder, size, "%.*s", slash ? (int)(slash + 1 - path) : 0, slash ? path : "");
}

/* SAMBAFLOW_PLUGINS names the only folder to look into. */
void *samba_plugin_open(const char *name, bool global, char *reason, size_t size)
{
    char folder[1024], path[1200];
    const char *named = getenv("SAMBAFLOW_PLUGINS");
    own_folder(folder, sizeof folder);
    const struct place_of_plugin {
        const char *folder, *ending;
    } places[] = {{folder, ""}, {folder, "sambaflow/"}, {SAMBA_PLUGINS, "/"}, {"", ""}}, only = {named, "/"};
    reason[0] = '\0';
    for (int i = 0; i < (named ? 1 : SAMBA_COUNT(places)); i++) {
        const struct place_of_plugin *at = named ? &only : &places[i];
        if (i < 2 && !named && !folder[0])
            continue;
        snprintf(path, sizeof path, "%s%slibsambaflow-%s.so", at->folder, at->ending, name);
        void *library = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (library)
            return library;
        const char *error = dlerror();
        if (error && (!reason[0] || !strstr(error, "No such file")))
            snprintf(reason, size, "%s", error);
    }
    return NULL;
}
