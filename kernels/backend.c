/*
 * backend.c - finds a back end by name. The cpu one is linked; the cuda one is a module, so that
 * this program runs where there is no CUDA.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda_module.h"
#include "kernels/ops.h"

#define MODULE_NAME "minisgl_cuda.so"

/* The folder of the running program, or "." */
static void find_program_folder(char *out, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", out, size - 1);

    out[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(out, size, ".");
}

/* Beside the program, where a bundle has it, or in the build tree's kernels folder. */
static struct status find_module(char *out, size_t size)
{
    static const char *const places[] = {"", "../kernels/", "../kernels/cuda/", "../../kernels/",
                                         "../../kernels/cuda/"};
    const char *named = getenv("MINISGL_CUDA_MODULE");
    char folder[PATH_MAX];

    if (named && *named) {
        if ((size_t)snprintf(out, size, "%s", named) >= size)
            return status_error(STATUS_INVALID, "MINISGL_CUDA_MODULE: the path is too long");
        return status_ok();
    }
    find_program_folder(folder, sizeof(folder));
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        size_t len = (size_t)snprintf(out, size, "%s/%s%s", folder, places[i], MODULE_NAME);
        if (len < size && access(out, R_OK) == 0)
            return status_ok();
    }
    return status_error(STATUS_UNSUPPORTED,
                        "cuda: no %s beside the program: it was built without CUDA", MODULE_NAME);
}

static struct status open_cuda(struct backend *out)
{
    char path[PATH_MAX + 64];
    struct status status = find_module(path, sizeof(path));

    if (status.code)
        return status;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays until the process ends */
    if (!module)
        return status_error(STATUS_UNSUPPORTED, "cuda: %s", dlerror());
    cuda_backend_function backend_of = NULL;
    void *symbol = dlsym(module, CUDA_BACKEND_SYMBOL);
    memcpy(&backend_of, &symbol, sizeof(symbol)); /* C has no cast from object to function */
    const struct backend *backend = symbol ? backend_of(BACKEND_ABI_VERSION) : NULL;
    if (!backend) {
        dlclose(module);
        return status_error(STATUS_UNSUPPORTED, "cuda: %s is of another version of this program",
                            MODULE_NAME);
    }
    *out = *backend;
    return status_ok();
}

struct status backend_open(const char *name, struct backend *out)
{
    if (strcmp(name, "cpu") == 0) {
        *out = (struct backend){.device = &device_cpu, .kernels = &kernels_cpu};
        return status_ok();
    }
    if (strcmp(name, "cuda") == 0)
        return open_cuda(out);
    return status_error(STATUS_UNSUPPORTED, "no back end '%s': there are cpu and cuda", name);
}
