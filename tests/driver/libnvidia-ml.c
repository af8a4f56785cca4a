/* NVML without a GPU: what of libnvidia-ml pynvml asks for under this package, about the two GPUs of libcuda.c and a MIG
   device of the first. Its energy counter moves by ENERGY_MJ whenever it is read. STUB_NVML_REASONS is why the clocks
   are not higher, as a number. STUB_NVML_SM_MHZ is the SM clock, and STUB_NVML_APPLICATION_MHZ the application clock that
   somebody has set. On every GPU this process computes, under the number STUB_NVML_AS, or unlisted where that is empty;
   and beside it STUB_NVML_PID, but where STUB_NVML_DURING is "FROM-TO" only when a process asks for the FROM-th to TO-th
   time, counted from one.

   A lock of the clocks is the GPU's, whoever set it: a file "locked-UUID" beside this library, which holds the clock. The
   error in a file "refusal" beside it meets whoever locks or resets; the process that does has hardly any environment.

   The header is not in the cuda extra, so the types are written down here as its documentation gives them. */

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENERGY_MJ 600

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { CLOCK_SM = 1, CLOCK_MEM = 2, BASE_MHZ = 1755 };
enum { GPUS = 2, DEVICES = 3 };

struct device { const char *name, *uuid; struct device *whole; };
struct process { unsigned pid; unsigned long long memory_bytes; unsigned gpu_instance, compute_instance; };
typedef struct device *device;

static struct device devices[DEVICES] = {
    {"Stub H200", "GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", NULL},
    {"Stub A100", "GPU-bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb", NULL},
    {"Stub H200 MIG 1g", "MIG-aaaa", devices}};

/* NVML answers for a MIG device no question about the whole GPU. */
static int of_the_whole(device one, unsigned *value, unsigned answer) {
    *value = answer;
    return one->whole ? NOT_SUPPORTED : SUCCESS;
}

static int text(char *buffer, unsigned length, const char *answer) {
    return snprintf(buffer, length, "%s", answer) < (int)length ? SUCCESS : INSUFFICIENT_SIZE;
}

static unsigned environment(const char *name, unsigned otherwise) {
    const char *given = getenv(name);
    return given ? (unsigned)atoi(given) : otherwise;
}

static const char *beside_this_library(const char *name, const char *uuid) {
    static char path[4096];
    Dl_info here;
    dladdr((void *)beside_this_library, &here);
    snprintf(path, sizeof path, "%.*s/%s%s", (int)(strrchr(here.dli_fname, '/') - here.dli_fname), here.dli_fname, name, uuid);
    return path;
}

static unsigned number_in(const char *path, unsigned otherwise) {
    FILE *file = fopen(path, "r");
    if (!file) return otherwise;
    fscanf(file, "%u", &otherwise);
    fclose(file);
    return otherwise;
}

int nvmlInitWithFlags(unsigned flags) { return SUCCESS; }

const char *nvmlErrorString(int error) {
    return error == NOT_FOUND ? "Not Found" : error == NOT_SUPPORTED ? "Not Supported" : "An error of the stub";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length) { return text(version, length, "580.65.06"); }

int nvmlDeviceGetCount_v2(unsigned *count) { return *count = GPUS, SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *found) {
    *found = &devices[index];
    return index < GPUS ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device *found) {
    for (int i = 0; i < DEVICES; i++)
        if (!strcmp(devices[i].uuid, uuid)) return *found = &devices[i], SUCCESS;
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(device one, char *uuid, unsigned length) { return text(uuid, length, one->uuid); }

int nvmlDeviceGetName(device one, char *name, unsigned length) { return text(name, length, one->name); }

int nvmlDeviceIsMigDeviceHandle(device one, unsigned *answer) { return *answer = one->whole != NULL, SUCCESS; }

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device mig, device *whole) { return *whole = mig->whole, SUCCESS; }

int nvmlDeviceGetClockInfo(device one, unsigned clock, unsigned *mhz) {
    unsigned sm_mhz = number_in(beside_this_library("locked-", one->uuid), environment("STUB_NVML_SM_MHZ", 1980));
    return of_the_whole(one, mhz, clock == CLOCK_SM ? sm_mhz : clock == CLOCK_MEM ? 3201 : 0);
}

int nvmlDeviceGetDefaultApplicationsClock(device one, unsigned clock, unsigned *mhz) {
    return of_the_whole(one, mhz, BASE_MHZ);
}

int nvmlDeviceGetApplicationsClock(device one, unsigned clock, unsigned *mhz) {
    return of_the_whole(one, mhz, environment("STUB_NVML_APPLICATION_MHZ", BASE_MHZ));
}

int nvmlDeviceSetGpuLockedClocks(device one, unsigned least_mhz, unsigned most_mhz) {
    int refusal = number_in(beside_this_library("refusal", ""), SUCCESS);
    if (refusal || least_mhz != most_mhz) return refusal ? refusal : INVALID_ARGUMENT;
    FILE *file = fopen(beside_this_library("locked-", one->uuid), "w");
    fprintf(file, "%u", most_mhz);
    return fclose(file);
}

int nvmlDeviceResetGpuLockedClocks(device one) {
    int refusal = number_in(beside_this_library("refusal", ""), SUCCESS);
    return refusal ? refusal : (unlink(beside_this_library("locked-", one->uuid)), SUCCESS);
}

int nvmlDeviceGetCurrentClocksEventReasons(device one, unsigned long long *reasons) {
    const char *given = getenv("STUB_NVML_REASONS");
    *reasons = given ? strtoull(given, NULL, 0) : 0;
    return one->whole ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device one, unsigned long long *reasons) {  // its name before 2023
    return nvmlDeviceGetCurrentClocksEventReasons(one, reasons);
}

int nvmlDeviceGetPowerUsage(device one, unsigned *milliwatts) { return of_the_whole(one, milliwatts, 412500); }

int nvmlDeviceGetPowerManagementLimit(device one, unsigned *milliwatts) { return of_the_whole(one, milliwatts, 700000); }

int nvmlDeviceGetTemperature(device one, unsigned sensor, unsigned *celsius) { return of_the_whole(one, celsius, 61); }

int nvmlDeviceGetTotalEnergyConsumption(device one, unsigned long long *millijoules) {
    static unsigned long long consumed;
    *millijoules = consumed += ENERGY_MJ;
    return one->whole ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device one, unsigned *count, struct process *processes) {
    static int answered;
    const char *own = getenv("STUB_NVML_AS"), *other = getenv("STUB_NVML_PID"), *during = getenv("STUB_NVML_DURING");
    int first = 1, last = INT_MAX;
    if (during) sscanf(during, "%d-%d", &first, &last);
    unsigned pids[2], room = *count;
    *count = 0;
    if (!own || *own) pids[(*count)++] = own ? (unsigned)atoi(own) : (unsigned)getpid();
    if (other && answered + 1 >= first && answered + 1 <= last) pids[(*count)++] = (unsigned)atoi(other);
    if (room < *count) return INSUFFICIENT_SIZE; /* it is asked again, with room for as many */
    for (unsigned i = 0; i < *count; i++) processes[i].pid = pids[i];
    return answered++, SUCCESS;
}
