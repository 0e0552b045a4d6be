/* A libnvidia-ml.so.1 for tests: the C functions that nvidia-ml-py calls for pal-probe.
 *
 * In: the file that FAKE_NVML names, read again at each call, so that a test can change it at any moment:
 *     count=2                       devices
 *     0.uuid=GPU-0  0.power=312000  what device 0 says, in NVML's own units; `*.` speaks for all devices
 *     1.fail.nvmlDeviceGetUUID=15   that function answers with an error code (15: the GPU is lost)
 *     1.hang.nvmlDeviceGetUUID=1    that function never answers
 *     1.crash.nvmlDeviceGetUUID=1   that function kills its process
 * Out: NVML's return codes and structs, laid out as in NVIDIA's nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };
enum { NO_DEVICE = -1, LINE = 512, MOST_DEVICES = 64 };

struct device { int index; };
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct memory { unsigned long long total, free, used; };
struct utilization { unsigned gpu, memory; };
struct process { unsigned pid; unsigned long long memory; unsigned instance, compute_instance; };
struct gpm_support { unsigned version, supported; };
struct gpm_info { char *short_name, *long_name, *unit; };
struct gpm_metric { unsigned id; int result; double value; struct gpm_info info; };
struct gpm_get { unsigned version, count; void *first, *second; struct gpm_metric metrics[]; };

static struct device devices[MOST_DEVICES];
static int initialized;

/* The text of `key` for a device; the last line that matches wins. */
static int look(int index, const char *key, char *value, size_t room)
{
	const char *path = getenv("FAKE_NVML");
	FILE *file = path ? fopen(path, "r") : NULL;
	char line[LINE], wanted[LINE], any[LINE];
	int found = 0;

	if (!file)
		return 0;
	if (index == NO_DEVICE)
		snprintf(wanted, sizeof(wanted), "%s", key);
	else
		snprintf(wanted, sizeof(wanted), "%d.%s", index, key);
	snprintf(any, sizeof(any), "*.%s", key);
	while (fgets(line, sizeof(line), file)) {
		char *equals = strchr(line, '=');
		if (!equals)
			continue;
		*equals = '\0';
		if (strcmp(line, wanted) && strcmp(line, any))
			continue;
		equals[1 + strcspn(equals + 1, "\n")] = '\0';
		snprintf(value, room, "%s", equals + 1);
		found = 1;
	}
	fclose(file);
	return found;
}

static long long number(int index, const char *key, long long otherwise)
{
	char text[LINE];
	return look(index, key, text, sizeof(text)) ? atoll(text) : otherwise;
}

/* What is to go wrong in this function, if anything. */
static int trouble(int index, const char *function)
{
	char key[LINE];

	if (!initialized)
		return UNINITIALIZED;
	snprintf(key, sizeof(key), "crash.%s", function);
	if (number(index, key, 0))
		abort();
	snprintf(key, sizeof(key), "hang.%s", function);
	while (number(index, key, 0))
		usleep(50000);
	snprintf(key, sizeof(key), "fail.%s", function);
	return (int)number(index, key, SUCCESS);
}

#define BEGIN(device) \
	do { \
		int code_ = trouble((device)->index, __func__); \
		if (code_ != SUCCESS) \
			return code_; \
	} while (0)

/* A value that the file does not name is one that the card does not offer. */
#define NUMBER(device, key, target, type) \
	do { \
		BEGIN(device); \
		char text_[LINE]; \
		if (!look((device)->index, key, text_, sizeof(text_))) \
			return NOT_SUPPORTED; \
		*(target) = (type)strtoull(text_, NULL, 0); \
		return SUCCESS; \
	} while (0)

#define TEXT(device, key, target, room) \
	do { \
		BEGIN(device); \
		return look((device)->index, key, target, room) ? SUCCESS : NOT_SUPPORTED; \
	} while (0)

int nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	initialized = 1;
	return trouble(NO_DEVICE, __func__);
}

int nvmlShutdown(void) { initialized = 0; return SUCCESS; }

const char *nvmlErrorString(int code)
{
	static char text[64];
	if (code == 15)
		return "GPU is lost";
	snprintf(text, sizeof(text), "error %d", code);
	return text;
}

int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
	snprintf(text, room, "550.54.15");
	look(NO_DEVICE, "driver", text, room);
	return trouble(NO_DEVICE, __func__);
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)number(NO_DEVICE, "count", 0);
	return trouble(NO_DEVICE, __func__);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
	if (index >= MOST_DEVICES || index >= number(NO_DEVICE, "count", 0))
		return INVALID;
	devices[index].index = (int)index;
	*device = &devices[index];
	BEGIN(*device);
	return SUCCESS;
}

int nvmlDeviceGetUUID(struct device *d, char *text, unsigned room) { TEXT(d, "uuid", text, room); }
int nvmlDeviceGetName(struct device *d, char *text, unsigned room) { TEXT(d, "name", text, room); }
int nvmlDeviceGetSerial(struct device *d, char *text, unsigned room) { TEXT(d, "serial", text, room); }
int nvmlDeviceGetMinorNumber(struct device *d, unsigned *value) { NUMBER(d, "minor", value, unsigned); }
int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned *value) { NUMBER(d, "cap", value, unsigned); }
int nvmlDeviceGetPowerManagementDefaultLimit(struct device *d, unsigned *value) { NUMBER(d, "cap.default", value, unsigned); }
int nvmlDeviceGetPowerUsage(struct device *d, unsigned *value) { NUMBER(d, "power", value, unsigned); }
int nvmlDeviceGetRetiredPagesPendingStatus(struct device *d, unsigned *value) { NUMBER(d, "pages.pending", value, unsigned); }
int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, unsigned long long *value) { NUMBER(d, "reasons", value, unsigned long long); }
int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, unsigned long long *value) { NUMBER(d, "old.reasons", value, unsigned long long); }

int nvmlDeviceGetTemperature(struct device *d, unsigned sensor, unsigned *value)
{
	(void)sensor;
	NUMBER(d, "temperature", value, unsigned);
}

int nvmlDeviceGetClockInfo(struct device *d, unsigned kind, unsigned *value)
{
	NUMBER(d, kind == 1 ? "sm" : "mem", value, unsigned);
}

int nvmlDeviceGetTotalEccErrors(struct device *d, unsigned kind, unsigned counter, unsigned long long *value)
{
	(void)counter;
	NUMBER(d, kind == 0 ? "ecc.corrected" : "ecc.uncorrected", value, unsigned long long);
}

static int two(int index, const char *key, unsigned *current, unsigned *pending)
{
	char text[LINE];
	if (!look(index, key, text, sizeof(text)))
		return NOT_SUPPORTED;
	*current = *pending = (unsigned)atoi(text);
	return SUCCESS;
}

int nvmlDeviceGetMigMode(struct device *d, unsigned *current, unsigned *pending)
{
	BEGIN(d);
	return two(d->index, "mig", current, pending);
}

int nvmlDeviceGetEccMode(struct device *d, unsigned *current, unsigned *pending)
{
	BEGIN(d);
	return two(d->index, "ecc", current, pending);
}

int nvmlDeviceGetPciInfo_v3(struct device *d, struct pci *pci)
{
	BEGIN(d);
	memset(pci, 0, sizeof(*pci));
	return look(d->index, "pci", pci->bus_id, sizeof(pci->bus_id)) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMemoryInfo(struct device *d, struct memory *memory)
{
	BEGIN(d);
	memory->total = (unsigned long long)number(d->index, "memory", 0);
	memory->free = memory->total;
	memory->used = 0;
	return memory->total ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetRetiredPages(struct device *d, unsigned cause, unsigned *count, unsigned long long *pages)
{
	long long there;

	BEGIN(d);
	there = number(d->index, cause == 0 ? "pages.single" : "pages.double", -1);
	if (there < 0)
		return NOT_SUPPORTED;
	for (long long i = 0; pages && i < there && i < *count; i++)
		pages[i] = (unsigned long long)i << 12;
	if (!pages || *count < there) {
		*count = (unsigned)there;
		return there ? INSUFFICIENT_SIZE : SUCCESS;
	}
	*count = (unsigned)there;
	return SUCCESS;
}

int nvmlDeviceGetRemappedRows(struct device *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
	BEGIN(d);
	*corrected = (unsigned)number(d->index, "rows.corrected", 0);
	*uncorrected = (unsigned)number(d->index, "rows.uncorrected", 0);
	*pending = (unsigned)number(d->index, "rows.pending", 0);
	*failed = 0;
	return number(d->index, "rows.corrected", -1) < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetUtilizationRates(struct device *d, struct utilization *used)
{
	BEGIN(d);
	used->gpu = (unsigned)number(d->index, "util", 0);
	used->memory = (unsigned)number(d->index, "util.memory", 0);
	return number(d->index, "util", -1) < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *count, struct process *processes)
{
	char text[LINE] = "";
	unsigned there = 0;

	BEGIN(d);
	look(d->index, "pids", text, sizeof(text));
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		if (processes && there < *count)
			processes[there] = (struct process){ .pid = (unsigned)atoi(word), .memory = 1 << 30 };
		there++;
	}
	if (!processes || *count < there) {
		*count = there;
		return there ? INSUFFICIENT_SIZE : SUCCESS;
	}
	*count = there;
	return SUCCESS;
}

int nvmlGpmQueryDeviceSupport(struct device *d, struct gpm_support *support)
{
	BEGIN(d);
	support->supported = (unsigned)number(d->index, "gpm", 0);
	return SUCCESS;
}

int nvmlGpmSampleAlloc(void **sample)
{
	*sample = calloc(1, sizeof(struct device));
	return *sample ? SUCCESS : UNKNOWN;
}

int nvmlGpmSampleFree(void *sample) { free(sample); return SUCCESS; }

int nvmlGpmSampleGet(struct device *d, struct device *sample)
{
	BEGIN(d);
	*sample = *d;
	return SUCCESS;
}

int nvmlGpmMetricsGet(struct gpm_get *get)
{
	struct device *d = get->second;

	BEGIN(d);
	for (unsigned i = 0; i < get->count; i++) {
		char key[32];
		snprintf(key, sizeof(key), "gpm.%u", get->metrics[i].id);
		get->metrics[i].value = (double)number(d->index, key, 0);
		get->metrics[i].result = number(d->index, key, -1) < 0 ? NOT_SUPPORTED : SUCCESS;
	}
	return SUCCESS;
}
