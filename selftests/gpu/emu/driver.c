// SPDX-License-Identifier: MIT
// Devices, contexts, copies, errors and the faults a test asks for.
#include "emu.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct emu_config emu_config;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized;
static int lost;		/* the result of every call from now on */

/* RLX_EMU_FAIL=NAME:NTH[:RESULT[!]],...  '!' breaks the device for good */
static struct fault {
	char		name[48];
	unsigned long	nth, seen;
	int		result;
	bool		sticky;
} fault[16];
static int n_fault;

void emu_complain(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "emulated gpu: %s\n", text);
}

void emu_break(int result)
{
	__atomic_store_n(&lost, result, __ATOMIC_SEQ_CST);
}

static int left[EMU_KINDS];

void emu_count(enum emu_kind kind, int by)
{
	__atomic_add_fetch(&left[kind], by, __ATOMIC_SEQ_CST);
}

/* What nobody has given back; for tests. How many there are, and which, into @text. */
EMU_API int emu_left(char *text, size_t size);
EMU_API int emu_left(char *text, size_t size)
{
	static const char *const names[EMU_KINDS] = {
		"memory", "shared memory", "addresses", "registered", "streams", "events",
		"modules", "graphs", "ready graphs",
	};
	int sum = 0;
	size_t n = 0;

	text[0] = 0;
	for (int i = 0; i < EMU_KINDS; i++) {
		int here = __atomic_load_n(&left[i], __ATOMIC_SEQ_CST);

		sum += here;
		if (here && n < size)
			n += (size_t)snprintf(text + n, size - n, " %d %s", here, names[i]);
	}
	return sum;
}

static int injected(const char *name)
{
	int result = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < n_fault && !result; i++) {
		struct fault *f = &fault[i];

		if (strcmp(f->name, "*") && strcmp(f->name, name))
			continue;
		if (++f->seen == f->nth) {
			result = f->result;
			if (f->sticky)
				emu_break(result);
		}
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int emu_enter(const char *name)
{
	int result = __atomic_load_n(&lost, __ATOMIC_SEQ_CST);

	if (!result && n_fault)
		result = injected(name);
	if (!result && !initialized)
		result = EMU_NOT_INITIALIZED;
	return result;
}

static long number(const char *name, long otherwise)
{
	const char *s = getenv(name);

	return s && *s ? strtol(s, NULL, 10) : otherwise;
}

/* RLX_EMU_ARCH=90,80: the last one is that of all behind it too. */
static void arch_read(const char *s)
{
	int arch = 90;

	for (int i = 0; i < EMU_DEVICES; i++) {
		if (s && *s) {
			arch = atoi(s);
			s = strchr(s, ',');
			s = s ? s + 1 : NULL;
		}
		emu_config.arch[i] = arch;
	}
}

static void faults_read(const char *s)
{
	while (s && *s && n_fault < 16) {
		struct fault *f = &fault[n_fault];
		char mark = 0;
		int n;

		f->result = EMU_UNKNOWN;
		n = sscanf(s, "%47[^:]:%lu:%d%c", f->name, &f->nth, &f->result, &mark);
		if (n < 2) {
			emu_complain("RLX_EMU_FAIL is not NAME:NTH[:RESULT[!]]: %s", s);
			return;
		}
		f->sticky = mark == '!';
		n_fault++;
		s = strchr(s, ',');
		if (s)
			s++;
	}
}

/* Kernels find the emulator's functions, though we may have been opened locally. */
static void promote(void)
{
	Dl_info info;

	if (dladdr((void *)emu_enter, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

EMU_API int cuInit(unsigned int flags);
EMU_API int cuInit(unsigned int flags)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!initialized) {
		emu_config.fast = number("RLX_EMU_FAST", 0);
		emu_config.warp = (int)number("RLX_EMU_WARP", 32) == 64 ? 64 : 32;
		emu_config.devices = (int)number("RLX_EMU_DEVICES", 1);
		if (emu_config.devices > EMU_DEVICES)
			emu_config.devices = EMU_DEVICES;
		arch_read(getenv("RLX_EMU_ARCH"));
		emu_config.peers = number("RLX_EMU_PEERS", 0);
		emu_config.memory = (uint64_t)number("RLX_EMU_MEM", 4096) << 20;
		emu_config.seed = (unsigned int)number("RLX_EMU_SEED", 1);
		faults_read(getenv("RLX_EMU_FAIL"));
		err = emu_mem_init();
		promote();
		initialized = !err;
	}
	pthread_mutex_unlock(&lock);
	if (!err && !emu_config.devices)
		err = EMU_NO_DEVICE;
	return err ? err : emu_enter("cuInit");
}

EMU_API int cuDriverGetVersion(int *out);
EMU_API int cuDriverGetVersion(int *out)
{
	*out = (int)number("RLX_EMU_DRIVER", 12090);
	return 0;
}

EMU_API int cuDeviceGetCount(int *out);
EMU_API int cuDeviceGetCount(int *out)
{
	int err = emu_enter("cuDeviceGetCount");

	if (!err)
		*out = emu_config.devices;
	return err;
}

EMU_API int cuDeviceGet(int *out, int i);
EMU_API int cuDeviceGet(int *out, int i)
{
	int err = emu_enter("cuDeviceGet");

	if (err)
		return err;
	if (i < 0 || i >= emu_config.devices)
		return EMU_INVALID_DEVICE;
	*out = i;
	return 0;
}

EMU_API int cuDeviceGetName(char *out, int n, int dev);
EMU_API int cuDeviceGetName(char *out, int n, int dev)
{
	int err = emu_enter("cuDeviceGetName");

	if (!err)
		snprintf(out, (size_t)n, "RLX emulated GPU");
	return err;
}

EMU_API int cuDeviceTotalMem_v2(size_t *out, int dev);
EMU_API int cuDeviceTotalMem_v2(size_t *out, int dev)
{
	int err = emu_enter("cuDeviceTotalMem");

	if (!err)
		*out = emu_config.memory;
	return err;
}

EMU_API int cuDeviceGetUuid_v2(void *out, int dev);
EMU_API int cuDeviceGetUuid_v2(void *out, int dev)
{
	int err = emu_enter("cuDeviceGetUuid");

	if (!err) {
		memset(out, 0x5a, 16);
		*(unsigned char *)out = (unsigned char)dev;
	}
	return err;
}

EMU_API int cuDeviceGetPCIBusId(char *out, int n, int dev);
EMU_API int cuDeviceGetPCIBusId(char *out, int n, int dev)
{
	int err = emu_enter("cuDeviceGetPCIBusId");

	if (!err)
		snprintf(out, (size_t)n, "0000:%02x:00.0", dev + 1);
	return err;
}

/* CUdevice_attribute, of an H200 */
static const int attribute[][2] = {
	{ 1, 1024 },	/* threads of a block */
	{ 2, 1024 }, { 3, 1024 }, { 4, 64 },
	{ 5, 2147483647 }, { 6, 65535 }, { 7, 65535 },
	{ 8, EMU_SHARED_STATIC },
	{ 12, 65536 },	/* registers of a block */
	{ 13, 1980000 },
	{ 16, 132 },	/* multiprocessors */
	{ 18, 0 },	/* integrated */
	{ 19, 1 },	/* maps host memory */
	{ 20, 0 },	/* compute mode */
	{ 31, 1 },	/* concurrent kernels */
	{ 34, 0 }, { 50, 0 },
	{ 36, 3201000 }, { 37, 6144 },
	{ 38, 50 << 20 },
	{ 39, 2048 },	/* threads of a multiprocessor */
	{ 40, 3 },	/* copy engines */
	{ 41, 1 },	/* unified addresses */
	{ 81, 228 << 10 }, { 97, EMU_SHARED_MAX },
	{ 91, 1 },	/* host pointers of registered memory serve the device */
	{ 99, 1 },	/* host memory may be registered */
	{ 113, 1 }, { 115, 1 }, { 124, 0 }, { 134, 0 },
};

EMU_API int cuDeviceGetAttribute(int *out, int what, int dev);
EMU_API int cuDeviceGetAttribute(int *out, int what, int dev)
{
	int err = emu_enter("cuDeviceGetAttribute");

	if (err)
		return err;
	if (what == 10) {
		*out = emu_config.warp;
		return 0;
	}
	if (dev < 0 || dev >= emu_config.devices)
		return EMU_INVALID_DEVICE;
	if (what == 33) {
		*out = dev + 1;
		return 0;
	}
	if (what == 75 || what == 76) {	/* of the chip: major, minor */
		*out = what == 75 ? emu_config.arch[dev] / 10 : emu_config.arch[dev] % 10;
		return 0;
	}
	for (size_t i = 0; i < sizeof(attribute) / sizeof(*attribute); i++)
		if (attribute[i][0] == what) {
			*out = attribute[i][1];
			return 0;
		}
	return EMU_INVALID_VALUE;
}

/* ---- contexts: one for each device, current for each thread ---- */

struct emu_context {
	int	device, refs;
};
static struct emu_context context[EMU_DEVICES];
static __thread struct emu_context *current[16];
static __thread int depth;

int emu_device(void)
{
	return current[depth] ? current[depth]->device : -1;
}

EMU_API int cuDevicePrimaryCtxRetain(struct emu_context **out, int dev);
EMU_API int cuDevicePrimaryCtxRetain(struct emu_context **out, int dev)
{
	int err = emu_enter("cuDevicePrimaryCtxRetain");
	long slow = number("RLX_EMU_CONTEXT_MS", 0);

	if (err)
		return err;
	if (dev < 0 || dev >= emu_config.devices)
		return EMU_INVALID_DEVICE;
	if (slow && !__atomic_load_n(&context[dev].refs, __ATOMIC_SEQ_CST))
		usleep((useconds_t)slow * 1000);
	context[dev].device = dev;
	__atomic_add_fetch(&context[dev].refs, 1, __ATOMIC_SEQ_CST);
	*out = &context[dev];
	return 0;
}

EMU_API int cuDevicePrimaryCtxRelease_v2(int dev);
EMU_API int cuDevicePrimaryCtxRelease_v2(int dev)
{
	int err = emu_enter("cuDevicePrimaryCtxRelease");

	if (dev < 0 || dev >= EMU_DEVICES || context[dev].refs <= 0)
		return EMU_INVALID_CONTEXT;
	__atomic_sub_fetch(&context[dev].refs, 1, __ATOMIC_SEQ_CST);
	return err;
}

EMU_API int cuDevicePrimaryCtxGetState(int dev, unsigned int *flags, int *active);
EMU_API int cuDevicePrimaryCtxGetState(int dev, unsigned int *flags, int *active)
{
	int err = emu_enter("cuDevicePrimaryCtxGetState");

	if (err)
		return err;
	if (dev < 0 || dev >= emu_config.devices)
		return EMU_INVALID_DEVICE;
	*flags = 0;
	*active = context[dev].refs > 0;
	return 0;
}

EMU_API int cuCtxSetCurrent(struct emu_context *c);
EMU_API int cuCtxSetCurrent(struct emu_context *c)
{
	int err = emu_enter("cuCtxSetCurrent");

	if (!err)
		current[depth] = c;
	return err;
}

EMU_API int cuCtxGetCurrent(struct emu_context **out);
EMU_API int cuCtxGetCurrent(struct emu_context **out)
{
	int err = emu_enter("cuCtxGetCurrent");

	if (!err)
		*out = current[depth];
	return err;
}

EMU_API int cuCtxGetDevice(int *out);
EMU_API int cuCtxGetDevice(int *out)
{
	int err = emu_enter("cuCtxGetDevice");

	if (!err && emu_device() < 0)
		err = EMU_INVALID_CONTEXT;
	if (!err)
		*out = emu_device();
	return err;
}

EMU_API int cuCtxPushCurrent_v2(struct emu_context *c);
EMU_API int cuCtxPushCurrent_v2(struct emu_context *c)
{
	int err = emu_enter("cuCtxPushCurrent");

	if (err)
		return err;
	if (depth == 15)
		return EMU_INVALID_CONTEXT;
	current[++depth] = c;
	return 0;
}

EMU_API int cuCtxPopCurrent_v2(struct emu_context **out);
EMU_API int cuCtxPopCurrent_v2(struct emu_context **out)
{
	int err = emu_enter("cuCtxPopCurrent");

	if (err)
		return err;
	if (out)
		*out = current[depth];
	current[depth] = NULL;
	if (depth)
		depth--;
	return 0;
}

EMU_API int cuCtxSynchronize(void);
EMU_API int cuCtxSynchronize(void)
{
	int err = emu_enter("cuCtxSynchronize");

	return err ? err : emu_sync_all();
}

/* ---- copies ---- */

static int copy(const char *name, void *dst, const void *src, size_t n,
		struct emu_stream *s)
{
	int err = emu_enter(name);

	if (err || !n)
		return err;
	return emu_submit(s, &(struct emu_task){ .kind = EMU_TASK_COPY,
						 .copy = { dst, src, n } });
}

static void *at(uint64_t d)
{
	return (void *)(uintptr_t)d;
}

static bool is_device(uint64_t d)
{
	return emu_mem_reserved(at(d)) || emu_mem_registered(at(d), 1);
}

/* What is not pinned is taken at once, as a driver does; the rest when its turn comes. */
static int copy_from(const char *name, uint64_t d, const void *h, size_t n,
		     struct emu_stream *s)
{
	int err;

	if (n && !is_device(d))
		return EMU_INVALID_VALUE;
	err = copy(name, at(d), h, n, s);
	if (!err && !emu_mem_reserved(h) && !emu_mem_registered(h, n))
		err = emu_stream_sync(s);
	return err;
}

static int copy_to(const char *name, void *h, uint64_t d, size_t n,
		   struct emu_stream *s)
{
	int err;

	if (n && !is_device(d))
		return EMU_INVALID_VALUE;
	err = copy(name, h, at(d), n, s);
	if (!err && !emu_mem_reserved(h) && !emu_mem_registered(h, n))
		err = emu_stream_sync(s);
	return err;
}

EMU_API int cuMemcpyHtoDAsync_v2(uint64_t d, const void *h, size_t n, struct emu_stream *s);
EMU_API int cuMemcpyHtoDAsync_v2(uint64_t d, const void *h, size_t n, struct emu_stream *s)
{
	return copy_from("cuMemcpyHtoDAsync", d, h, n, s);
}

EMU_API int cuMemcpyDtoHAsync_v2(void *h, uint64_t d, size_t n, struct emu_stream *s);
EMU_API int cuMemcpyDtoHAsync_v2(void *h, uint64_t d, size_t n, struct emu_stream *s)
{
	return copy_to("cuMemcpyDtoHAsync", h, d, n, s);
}

EMU_API int cuMemcpyHtoD_v2(uint64_t d, const void *h, size_t n);
EMU_API int cuMemcpyHtoD_v2(uint64_t d, const void *h, size_t n)
{
	int err = copy_from("cuMemcpyHtoD", d, h, n, NULL);

	return err ? err : emu_stream_sync(NULL);
}

EMU_API int cuMemcpyDtoH_v2(void *h, uint64_t d, size_t n);
EMU_API int cuMemcpyDtoH_v2(void *h, uint64_t d, size_t n)
{
	int err = emu_sync_all();

	if (!err)
		err = copy_to("cuMemcpyDtoH", h, d, n, NULL);
	return err ? err : emu_stream_sync(NULL);
}

EMU_API int cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t src, size_t n, struct emu_stream *s);
EMU_API int cuMemcpyDtoDAsync_v2(uint64_t d, uint64_t src, size_t n, struct emu_stream *s)
{
	if (n && (!is_device(d) || !is_device(src)))
		return EMU_INVALID_VALUE;
	return copy("cuMemcpyDtoDAsync", at(d), at(src), n, s);
}

EMU_API int cuMemcpyAsync(uint64_t d, uint64_t src, size_t n, struct emu_stream *s);
EMU_API int cuMemcpyAsync(uint64_t d, uint64_t src, size_t n, struct emu_stream *s)
{
	return copy("cuMemcpyAsync", at(d), at(src), n, s);
}

static int set(const char *name, uint64_t d, struct emu_task t, struct emu_stream *s)
{
	int err = emu_enter(name);

	if (err || !t.set.n)
		return err;
	if (!is_device(d))
		return EMU_INVALID_VALUE;
	t.kind = EMU_TASK_SET;
	t.set.dst = at(d);
	return emu_submit(s, &t);
}

EMU_API int cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, struct emu_stream *s);
EMU_API int cuMemsetD8Async(uint64_t d, unsigned char v, size_t n, struct emu_stream *s)
{
	return set("cuMemsetD8Async", d,
		   (struct emu_task){ .set = { .n = n, .value = v, .size = 1 } }, s);
}

EMU_API int cuMemsetD32Async(uint64_t d, unsigned int v, size_t n, struct emu_stream *s);
EMU_API int cuMemsetD32Async(uint64_t d, unsigned int v, size_t n, struct emu_stream *s)
{
	return set("cuMemsetD32Async", d,
		   (struct emu_task){ .set = { .n = n, .value = v, .size = 4 } }, s);
}

/* ---- errors, symbols ---- */

#define ERRORS(X)							\
	X(0, SUCCESS) X(1, ERROR_INVALID_VALUE) X(2, ERROR_OUT_OF_MEMORY) \
	X(3, ERROR_NOT_INITIALIZED) X(46, ERROR_DEVICE_UNAVAILABLE)	\
	X(100, ERROR_NO_DEVICE) X(101, ERROR_INVALID_DEVICE)		\
	X(200, ERROR_INVALID_IMAGE) X(201, ERROR_INVALID_CONTEXT)	\
	X(209, ERROR_NO_BINARY_FOR_GPU) X(214, ERROR_ECC_UNCORRECTABLE)	\
	X(218, ERROR_INVALID_PTX) X(222, ERROR_UNSUPPORTED_PTX_VERSION)	\
	X(300, ERROR_INVALID_SOURCE) X(400, ERROR_INVALID_HANDLE)	\
	X(500, ERROR_NOT_FOUND) X(600, ERROR_NOT_READY)			\
	X(700, ERROR_ILLEGAL_ADDRESS) X(701, ERROR_LAUNCH_OUT_OF_RESOURCES) \
	X(712, ERROR_HOST_MEMORY_ALREADY_REGISTERED)			\
	X(713, ERROR_HOST_MEMORY_NOT_REGISTERED)			\
	X(716, ERROR_MISALIGNED_ADDRESS) X(719, ERROR_LAUNCH_FAILED)	\
	X(800, ERROR_NOT_PERMITTED) X(801, ERROR_NOT_SUPPORTED)		\
	X(900, ERROR_STREAM_CAPTURE_UNSUPPORTED)			\
	X(901, ERROR_STREAM_CAPTURE_INVALIDATED)			\
	X(903, ERROR_STREAM_CAPTURE_UNMATCHED)				\
	X(904, ERROR_STREAM_CAPTURE_UNJOINED)				\
	X(910, ERROR_GRAPH_EXEC_UPDATE_FAILURE) X(999, ERROR_UNKNOWN)

EMU_API int cuGetErrorName(int err, const char **out);
EMU_API int cuGetErrorName(int err, const char **out)
{
	*out = NULL;
	switch (err) {
#define X(n, name) case n: *out = "CUDA_" #name; return 0;
	ERRORS(X)
#undef X
	}
	return EMU_INVALID_VALUE;
}

EMU_API int cuGetErrorString(int err, const char **out);
EMU_API int cuGetErrorString(int err, const char **out)
{
	return cuGetErrorName(err, out);
}

EMU_API int cuGetProcAddress_v2(const char *name, void **out, int version,
				uint64_t flags, int *found);
EMU_API int cuGetProcAddress_v2(const char *name, void **out, int version,
				uint64_t flags, int *found)
{
	char with[128];

	snprintf(with, sizeof(with), "%s_v2", name);
	*out = dlsym(RTLD_DEFAULT, with);
	if (!*out)
		*out = dlsym(RTLD_DEFAULT, name);
	if (found)
		*found = *out ? 0 : 1;
	return *out ? 0 : EMU_NOT_FOUND;
}
