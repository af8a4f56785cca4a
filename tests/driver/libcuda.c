/* A driver without a GPU: what of libcuda cuda-core and cuda-bindings ask for under this package, and Triton's JIT for
   its launches, in virtual time.

   Memory is the host's. Code is never executed: a kernel is its name, the length of its code and the layout of its
   parameters, read from the cubin or from PTX. CUDA_VISIBLE_DEVICES shows some of the GPUS. What the GPU is asked to do
   is written to STUB_DRIVER_LOG, a line a call; not what the garbage collector frees.

   The host and every stream have a clock of their own, in nanoseconds. A launch takes the host STUB_LAUNCH_NS and the
   launch of a graph STUB_GRAPH_NS; what it launches begins when the host has launched it and its stream is free. Events
   see multiples of STUB_EVENT_NS. Kernels take a millisecond for BYTES_A_MS of their code, but for these:

     spin    as many nanoseconds as its first parameter says
     cycles  as many cycles of CYCLES_A_US as its first parameter says
     empty   EMPTY_NS
     sweep   SWEEP_NS; it reads what a flush has written, so that the cache is cold and clean
     reuse   as many nanoseconds as its first parameter says, COLD times as many while the cache is cold
     fault   nothing, and poisons the context as an illegal address does

   A memset leaves the cache cold and dirty: the next kernel takes DIRTY_NS more. */

/*

   cuGetProcAddress finds no function that is not here: cuda-bindings then raises and names it, but cuda-core's own C++
   says CUDA_ERROR_NOT_FOUND of the call. */

#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_A_MS 128 /* ptxas pads code to as many */
#define MEMSET_NS 1000000000
#define SWEEP_NS 1000000000
#define EMPTY_NS 1500
#define DIRTY_NS 20000
#define CYCLES_A_US 1980 /* the clock that NVML tells without a GPU, too */
#define COLD 3
#define L2_BYTES 4096
#define SHARED_BYTES (48 << 10) /* of a block, unless the kernel's attribute allows more */
#define MOST_SHARED_BYTES (227 << 10)
#define MOST_THREADS 1024 /* of a block */
#define MULTIPROCESSORS 132
#define ON_THE_GPU (1ULL << 47) /* in an address: the host's own are no device addresses */
#define EIATTR_KPARAM_INFO 0x17 /* a record of .nv.info.KERNEL: where one parameter lies, and its size */
#define EIFMT_SVAL 0x04         /* such a record's value is the length of what follows it */

enum { GPUS = 2, MOST_KERNELS = 16, MOST_PARAMETERS = 16, MOST_NODES = 4096, MOST_STREAMS = 64 };

struct CUctx_st { CUdevice device; };
struct CUevent_st { int timed, recorded; int64_t at_ns; };
struct CUstream_st { unsigned flags; int64_t free_ns; };
struct CUkern_st {
    char name[64];
    int parameters, most_shared_bytes;
    int64_t code_ns;
    size_t offset[MOST_PARAMETERS], bytes[MOST_PARAMETERS];
};
struct CUlib_st { int count; struct CUkern_st kernels[MOST_KERNELS]; };
/* What a stream is given: a kernel with its first parameter, a memset, or an event. */
struct CUgraphNode_st { CUkernel kernel; uint64_t parameter; CUevent event; int is_memset; };
struct CUgraph_st { size_t count, kernels; struct CUgraphNode_st nodes[MOST_NODES]; };
struct CUgraphExec_st { struct CUgraph_st graph; };

static const struct { const char *name; int major; } GPU[GPUS] = {{"Stub H200", 9}, {"Stub A100", 8}};

static int visible[GPUS], visible_count = -1; /* -1 before cuInit */
static struct CUctx_st contexts[GPUS];
static CUcontext current;
static CUresult poison; /* what every later call fails with */
static int64_t host_ns;
static int64_t gate_ns; /* what every stream waits for */
static struct CUstream_st legacy;
static CUstream streams[MOST_STREAMS];
static int stream_count, cold, dirty;
static CUstream capturing; /* one at a time */
static CUgraph captured;
static int invalidated;

static CUresult called(const char *format, ...) {
    FILE *log = fopen(getenv("STUB_DRIVER_LOG"), "a");
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log, format, arguments);
    va_end(arguments);
    fputc('\n', log);
    fclose(log);
    return poison ? poison : current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static const char *kind(CUstream stream) {
    if (!stream || stream == CU_STREAM_LEGACY) return "legacy"; /* Triton's JIT names it by 0 */
    return stream->flags & CU_STREAM_NON_BLOCKING ? "non-blocking" : "blocking";
}

static int64_t setting(const char *name) {
    const char *given = getenv(name);
    return given ? atoll(given) : 0;
}

/* For tests that look at the host's clock too. */
int64_t stub_host_ns(void) { return host_ns; }

static int64_t later(int64_t one, int64_t other) { return one > other ? one : other; }

static int is_blocking(CUstream stream) { return !(stream->flags & CU_STREAM_NON_BLOCKING); }

/* The legacy stream waits for every blocking one, so it cannot be used while one of them is captured. */
static int waits_for_capture(CUstream stream) { return capturing && stream == CU_STREAM_LEGACY && is_blocking(capturing); }

static int64_t kernel_ns(const struct CUgraphNode_st *node) {
    const char *name = node->kernel->name;
    if (!strcmp(name, "sweep")) return SWEEP_NS;
    if (!strcmp(name, "empty")) return EMPTY_NS;
    if (!strcmp(name, "spin")) return (int64_t)node->parameter;
    if (!strcmp(name, "cycles")) return (int64_t)node->parameter * 1000 / CYCLES_A_US;
    if (!strcmp(name, "reuse")) return (int64_t)node->parameter * (cold ? COLD : 1);
    return node->kernel->code_ns;
}

static int64_t node_ns(const struct CUgraphNode_st *node) {
    if (node->is_memset) return cold = dirty = 1, MEMSET_NS;
    if (!node->kernel) return 0;
    int64_t took = kernel_ns(node) + (dirty ? DIRTY_NS : 0);
    cold = !strcmp(node->kernel->name, "sweep"), dirty = 0;
    return took;
}

/* Streams that are not non-blocking wait for the legacy stream, and it for them. */
static void execute(const struct CUgraphNode_st *node, CUstream stream) {
    int64_t begin = later(later(host_ns, gate_ns), stream == CU_STREAM_LEGACY ? legacy.free_ns : stream->free_ns);
    if (stream == CU_STREAM_LEGACY)
        for (int i = 0; i < stream_count; i++)
            begin = is_blocking(streams[i]) ? later(begin, streams[i]->free_ns) : begin;
    else if (is_blocking(stream)) begin = later(begin, legacy.free_ns);
    int64_t end = begin + node_ns(node);
    *(stream == CU_STREAM_LEGACY ? &legacy.free_ns : &stream->free_ns) = end;
    if (node->event) *node->event = (struct CUevent_st){.timed = node->event->timed, .recorded = 1, .at_ns = end};
}

static CUresult enqueue(CUresult state, CUstream stream, struct CUgraphNode_st node) {
    if (state) return state;
    if (!stream) stream = CU_STREAM_LEGACY;
    if (waits_for_capture(stream)) return invalidated = 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (!capturing || stream != capturing) return execute(&node, stream), CUDA_SUCCESS;
    if (captured->count == MOST_NODES) return CUDA_ERROR_OUT_OF_MEMORY;
    captured->kernels += node.kernel != NULL;
    captured->nodes[captured->count++] = node;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *found) {
    static const char *const NEWEST_FIRST[] = {"_v3", "_v2", ""};
    void *ourselves = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *function = NULL;
    if (getenv("STUB_OLD_DRIVER") && strstr("cuCtxRecordEvent cuCtxWaitEvent", name)) return CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < 3 && !*function; i++) {
        char symbol[128];
        snprintf(symbol, sizeof symbol, "%s%s", name, NEWEST_FIRST[i]);
        *function = dlsym(ourselves, symbol);
    }
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    switch ((int)error) {
#define ERROR(value) case value: return *name = #value, CUDA_SUCCESS
    ERROR(CUDA_ERROR_INVALID_VALUE);
    ERROR(CUDA_ERROR_NO_DEVICE);
    ERROR(CUDA_ERROR_INVALID_IMAGE);
    ERROR(CUDA_ERROR_INVALID_CONTEXT);
    ERROR(CUDA_ERROR_NOT_FOUND);
    ERROR(CUDA_ERROR_NOT_READY);
    ERROR(CUDA_ERROR_OUT_OF_MEMORY);
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS);
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) { return cuGetErrorName(error, text); }

/* ── devices and contexts ── */

CUresult cuInit(unsigned flags) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    char *rest = strdup(mask ? mask : "0,1");
    visible_count = 0;
    for (char *name, *end; visible_count < GPUS && (name = strsep(&rest, ","));) {
        long number = strtol(name, &end, 10);
        if (end == name || *end || number < 0 || number >= GPUS) break; /* it hides all that follow */
        visible[visible_count++] = (int)number;
    }
    return visible_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) { return *version = CUDA_VERSION, CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int *count) {
    *count = visible_count;
    return visible_count < 0 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return ordinal < visible_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    return snprintf(name, (size_t)length, "%s", GPU[visible[device]].name), CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return *value = GPU[visible[device]].major, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return *value = 0, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return *value = L2_BYTES, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return *value = 1, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return *value = MOST_SHARED_BYTES, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return *value = MOST_SHARED_BYTES + 1024, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: return *value = 65536, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return *value = MULTIPROCESSORS, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return *value = 32, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return *value = CYCLES_A_US * 1000, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return *value = CYCLES_A_US * 1000, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return *value = 5120, CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    contexts[device].device = device;
    return *context = &contexts[device], CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return CUDA_SUCCESS; }

CUresult cuCtxGetCurrent(CUcontext *context) { return *context = current, CUDA_SUCCESS; }

CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    if (context) called("cuCtxSetCurrent device %d", context->device);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    if (visible_count < 0) return CUDA_ERROR_NOT_INITIALIZED;
    return current ? *device = current->device, CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static int64_t all_free_ns(void) {
    int64_t free_ns = legacy.free_ns;
    for (int i = 0; i < stream_count; i++) free_ns = later(free_ns, streams[i]->free_ns);
    return free_ns;
}

CUresult cuCtxSynchronize(void) { return host_ns = later(host_ns, all_free_ns()), called("cuCtxSynchronize"); }

/* Of all streams at once; not while one of them is captured. STUB_OLD_DRIVER knows neither. */
CUresult cuCtxRecordEvent(CUcontext context, CUevent event) {
    if (capturing) return invalidated = 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    *event = (struct CUevent_st){.timed = event->timed, .recorded = 1, .at_ns = later(host_ns, all_free_ns())};
    return called("cuCtxRecordEvent");
}

CUresult cuCtxWaitEvent(CUcontext context, CUevent event) {
    if (capturing) return invalidated = 1, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return gate_ns = later(gate_ns, event->at_ns), called("cuCtxWaitEvent");
}

/* ── memory ── */

static void *memory(CUdeviceptr address) { return address & ON_THE_GPU ? (void *)(address & ~ON_THE_GPU) : NULL; }

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) { return *pool = NULL, CUDA_SUCCESS; }

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    return *(cuuint64_t *)value = 0, CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) { return CUDA_SUCCESS; }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    *total = 1 << 30, *free_bytes = getenv("STUB_FREE_BYTES") ? (size_t)setting("STUB_FREE_BYTES") : *total;
    return called("cuMemGetInfo");
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    CUresult state = called("cuMemAllocFromPoolAsync %zu bytes on %s", bytes, kind(stream));
    if (waits_for_capture(stream)) return invalidated = 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (getenv("STUB_FREE_BYTES") && bytes > (size_t)setting("STUB_FREE_BYTES")) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = (CUdeviceptr)malloc(bytes) | ON_THE_GPU;
    return bytes ? state : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) { return free(memory(address)), poison; }

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
    CUresult state = called("cuMemsetD8Async %zu bytes to %d on %s", bytes, value, kind(stream));
    if (!memory(address)) return CUDA_ERROR_INVALID_VALUE;
    memset(memory(address), value, bytes);
    return enqueue(state, stream, (struct CUgraphNode_st){.is_memset = 1});
}

/* The host waits for a copy, and the copy for all that the legacy stream waits for. */
static CUresult copied(CUresult state) {
    struct CUevent_st event = {0};
    state = enqueue(state, CU_STREAM_LEGACY, (struct CUgraphNode_st){.event = &event});
    host_ns = later(host_ns, event.at_ns);
    return state;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    CUresult state = copied(called("cuMemcpyHtoD %zu bytes", bytes));
    if (!memory(to)) return CUDA_ERROR_INVALID_VALUE;
    if (!state) memcpy(memory(to), from, bytes);
    return state;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    CUresult state = copied(called("cuMemcpyDtoH %zu bytes", bytes));
    if (!memory(from)) return CUDA_ERROR_INVALID_VALUE;
    if (!state) memcpy(to, memory(from), bytes);
    return state;
}

/* ── events ── */

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    *event = calloc(1, sizeof **event);
    (*event)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    return poison;
}

CUresult cuEventDestroy(CUevent event) { return free(event), poison; }

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    CUresult state = called("cuEventRecord on %s", kind(stream));
    if (capturing && stream == capturing && flags != CU_EVENT_RECORD_EXTERNAL) event = NULL; /* no node of the graph */
    return event ? enqueue(state, stream, (struct CUgraphNode_st){.event = event}) : state;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult cuEventQuery(CUevent event) {
    return poison ? poison : event->at_ns <= host_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
    return host_ns = later(host_ns, event->at_ns), called("cuEventSynchronize");
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    int64_t *free_ns = stream == CU_STREAM_LEGACY ? &legacy.free_ns : &stream->free_ns;
    return *free_ns = later(*free_ns, event->at_ns), called("cuStreamWaitEvent on %s", kind(stream));
}

/* Refused: events without time, events never recorded, an end that nobody waited for. */
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    int64_t step = later(setting("STUB_EVENT_NS"), 1);
    *milliseconds = (float)((end->at_ns / step - start->at_ns / step) * step) / 1e6f;
    if (!start->timed || !end->timed || !start->recorded || !end->recorded) return CUDA_ERROR_INVALID_VALUE;
    return poison ? poison : end->at_ns <= host_ns ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* ── kernels ── */

static void read_parameters(struct CUkern_st *kernel, const unsigned char *info, size_t length) {
    for (size_t at = 0, value; at + 4 <= length; at += 4 + (info[at] == EIFMT_SVAL ? value : 0)) {
        value = (size_t)(info[at + 2] | info[at + 3] << 8);
        if (info[at] != EIFMT_SVAL || info[at + 1] != EIATTR_KPARAM_INFO) continue;
        struct { uint32_t index; uint16_t ordinal, offset; uint32_t bytes_above_bit_18; } record;
        memcpy(&record, info + at + 4, sizeof record);
        kernel->offset[record.ordinal] = record.offset;
        kernel->bytes[record.ordinal] = record.bytes_above_bit_18 >> 18;
        kernel->parameters++;
    }
}

static CUkernel kernel_named(CUlibrary library, const char *name) {
    for (int i = 0; i < library->count; i++)
        if (!strcmp(library->kernels[i].name, name)) return &library->kernels[i];
    return NULL;
}

/* Entries whose parameters are addresses, if they have any. */
static CUresult load_ptx(CUlibrary *library, const char *text) {
    *library = calloc(1, sizeof **library);
    while ((text = strstr(text, ".entry "))) {
        struct CUkern_st *kernel = &(*library)->kernels[(*library)->count++];
        const char *end = strchr(text, ')');
        sscanf(text, ".entry %63[^(](", kernel->name);
        kernel->most_shared_bytes = SHARED_BYTES;
        for (; (text = strstr(text, ".param")) && text < end; text++) {
            kernel->offset[kernel->parameters] = 8 * (size_t)kernel->parameters;
            kernel->bytes[kernel->parameters++] = 8;
        }
        text = end;
    }
    return called("cuLibraryLoadData %d kernels of PTX", (*library)->count);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned count,
                           CUlibraryOption *library_options, void **library_values, unsigned library_count) {
    const unsigned char *image = code;
    const Elf64_Ehdr *header = code;
    if (!strncmp(code, ".version", 8)) return load_ptx(library, code);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG)) return CUDA_ERROR_INVALID_IMAGE;
    const Elf64_Shdr *sections = (const void *)(image + header->e_shoff);
    const char *names = (const char *)image + sections[header->e_shstrndx].sh_offset;
    *library = calloc(1, sizeof **library);
    for (int i = 0; i < header->e_shnum && (*library)->count < MOST_KERNELS; i++) {
        struct CUkern_st *kernel = &(*library)->kernels[(*library)->count];
        if (sscanf(names + sections[i].sh_name, ".nv.info.%63s", kernel->name) != 1) continue;
        kernel->most_shared_bytes = SHARED_BYTES;
        read_parameters(kernel, image + sections[i].sh_offset, sections[i].sh_size);
        (*library)->count++;
    }
    for (int i = 0; i < header->e_shnum; i++) {
        const char *name = names + sections[i].sh_name;
        CUkernel kernel = strncmp(name, ".text.", 6) ? NULL : kernel_named(*library, name + 6);
        if (kernel) kernel->code_ns = (int64_t)(sections[i].sh_size / BYTES_A_MS) * 1000000;
    }
    return called("cuLibraryLoadData %d kernels", (*library)->count);
}

CUresult cuLibraryUnload(CUlibrary library) { return free(library), poison; }

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    *kernel = kernel_named(library, name);
    return *kernel ? called("cuLibraryGetKernel %s", name) : CUDA_ERROR_NOT_FOUND;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes) {
    if (index >= (size_t)kernel->parameters) return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->offset[index];
    if (bytes) *bytes = kernel->bytes[index];
    return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    CUresult state = called("cuKernelSetAttribute %s %d=%d on device %d", kernel->name, attribute, value, device);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > MOST_SHARED_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    return kernel->most_shared_bytes = value, state;
}

/* ── what Triton's JIT takes for the same: modules and functions ── */

CUresult cuModuleLoadData(CUmodule *module, const void *code) {
    return cuLibraryLoadData((CUlibrary *)module, code, NULL, NULL, 0, NULL, NULL, 0);
}

CUresult cuModuleUnload(CUmodule module) { return cuLibraryUnload((CUlibrary)module); }

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    return cuLibraryGetKernel((CUkernel *)function, (CUlibrary)module, name);
}

/* Of registers and stack it knows nothing, since it executes nothing. */
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    return *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? MOST_THREADS : 0, CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return cuKernelSetAttribute(attribute, value, (CUkernel)function, current ? current->device : 0);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) { return poison; }

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) { return *value = 0, CUDA_SUCCESS; }

CUresult cuCtxSetLimit(CUlimit limit, size_t value) { return poison; }

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER || !memory(address)) return CUDA_ERROR_INVALID_VALUE;
    return *(CUdeviceptr *)value = address, CUDA_SUCCESS;
}

/* A tensor map's content is the hardware's own, and nothing here reads it. */
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    return memset(map, 0, sizeof *map), poison;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra) {
    CUkernel kernel = (CUkernel)function;
    char parameters[MOST_PARAMETERS * (2 * sizeof(CUtensorMap) + 1) + 1] = "";
    for (int i = 0, at = 0; i < kernel->parameters; i++) {
        at += sprintf(parameters + at, " ");
        for (size_t byte = 0; byte < kernel->bytes[i]; byte++)
            at += sprintf(parameters + at, "%02x", ((unsigned char *)arguments[i])[byte]);
    }
    CUresult state = called("cuLaunchKernelEx %s grid %u,%u,%u block %u,%u,%u shared %u on %s:%s", kernel->name,
                            config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
                            config->blockDimZ, config->sharedMemBytes, kind(config->hStream), parameters);
    if (!state && (int)config->sharedMemBytes > kernel->most_shared_bytes) return CUDA_ERROR_INVALID_VALUE;
    struct CUgraphNode_st node = {.kernel = kernel};
    if (kernel->parameters) memcpy(&node.parameter, arguments[0], kernel->bytes[0] < 8 ? kernel->bytes[0] : 8);
    host_ns += setting("STUB_LAUNCH_NS");
    state = enqueue(state, config->hStream, node);
    if (!state && !strcmp(kernel->name, "fault")) poison = CUDA_ERROR_ILLEGAL_ADDRESS; /* the launch itself succeeds */
    return state;
}

/* ── streams, and graphs captured from them ── */

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0, CUDA_SUCCESS; }

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
    *stream = calloc(1, sizeof **stream);
    (*stream)->flags = flags;
    if (stream_count < MOST_STREAMS) streams[stream_count++] = *stream;
    return poison;
}

CUresult cuStreamDestroy(CUstream stream) {
    for (int i = 0; i < stream_count; i++)
        if (streams[i] == stream) streams[i] = streams[--stream_count];
    return free(stream), poison;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    static const char *const MODES[] = {"global", "thread_local", "relaxed"};
    capturing = stream;
    captured = calloc(1, sizeof *captured);
    return called("cuStreamBeginCapture %s on %s", MODES[mode], kind(stream));
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    if (stream != capturing) return CUDA_ERROR_ILLEGAL_STATE;
    CUresult state = invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    *graph = invalidated ? NULL : captured;
    capturing = NULL, invalidated = 0;
    return called("cuStreamEndCapture on %s", kind(stream)), state;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    *status = stream != capturing ? CU_STREAM_CAPTURE_STATUS_NONE
              : invalidated       ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return waits_for_capture(stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : poison;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count) {
    if (graph) *graph = captured;
    return cuStreamIsCapturing(stream, status);
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    for (size_t i = 0; nodes && i < *count; i++) nodes[i] = &graph->nodes[i];
    return *count = graph->count, CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    return *type = CU_GRAPH_NODE_TYPE_KERNEL, CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *parameters) {
    return *parameters = (CUDA_KERNEL_NODE_PARAMS){.kern = node->kernel}, CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    *exec = calloc(1, sizeof **exec);
    (*exec)->graph = *graph;
    return called("cuGraphInstantiateWithParams %zu kernels", graph->kernels);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    return called("cuGraphUpload %zu kernels on %s", exec->graph.kernels, kind(stream));
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    CUresult state = called("cuGraphLaunch %zu kernels on %s", exec->graph.kernels, kind(stream));
    host_ns += setting("STUB_GRAPH_NS");
    for (size_t i = 0; !state && i < exec->graph.count; i++) execute(&exec->graph.nodes[i], stream);
    return state;
}

CUresult cuGraphDestroy(CUgraph graph) { return free(graph), poison; }

CUresult cuGraphExecDestroy(CUgraphExec exec) { return free(exec), poison; }

/* What a graph keeps alive for its owner lives here as long as the process. */

CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy, unsigned count, unsigned flags) {
    return *object = pointer, CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) { return CUDA_SUCCESS; }

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) { return CUDA_SUCCESS; }

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    return memset(uuid->bytes, visible[device] ? 0xbb : 0xaa, sizeof uuid->bytes), CUDA_SUCCESS;
}
