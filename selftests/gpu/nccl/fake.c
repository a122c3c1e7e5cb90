// SPDX-License-Identifier: MIT
/*
 * NCCL for tests: the calls that communicators use, which sum and gather over shared memory in the
 * order of ranks, by the driver that is loaded. Like the real one it does not block: a thread does
 * what was begun. FAKE_NCCL names a call that fails: version, id, begin, sum or state.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { MOST = 8, SLOT = 4 << 20, OK = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, IN_PROGRESS = 7 };

struct id {
	int	pid, fd;
	char	rest[120];
};

struct shared {
	atomic_int	arrived, phase, left;
	char		slot[MOST][SLOT];
};

struct comm {
	struct shared	*sh;
	int		ranks, rank;
	pthread_t	thread;
	int		running;	/* a thread is to be joined */
	atomic_int	state, aborted;
	/* what is under way, of @count elements times @in from each rank, times @out to it */
	const void	*from;
	void		*to, *stream, *ctx;
	size_t		count;
	int		type, in, out;
};

static int fails(const char *call)
{
	const char *s = getenv("FAKE_NCCL");

	return s && !strcmp(s, call);
}

/* A call of the driver, which gives 0 or an error. */
#define CU(name, ...)	((int (*)(__VA_ARGS__))dlsym(driver(), name))

static void *driver(void)
{
	return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

API int ncclGetVersion(int *version);
API int ncclGetVersion(int *version)
{
	*version = fails("version") ? 21703 : 21800;
	return OK;
}

API const char *ncclGetErrorString(int rc);
API const char *ncclGetErrorString(int rc)
{
	return rc == SYSTEM_ERROR ? "unhandled system error" : rc == INVALID_ARGUMENT ?
	       "invalid argument" : rc == IN_PROGRESS ? "in progress" : "no error";
}

API const char *ncclGetLastError(struct comm *c);
API const char *ncclGetLastError(struct comm *c)
{
	(void)c;
	return "the fake was told to fail";
}

API int ncclGetUniqueId(struct id *id);
API int ncclGetUniqueId(struct id *id)
{
	if (fails("id"))
		return SYSTEM_ERROR;
	memset(id, 0, sizeof(*id));
	id->pid = getpid();
	id->fd = memfd_create("fake-nccl", 0);
	return id->fd < 0 || ftruncate(id->fd, sizeof(struct shared)) ? SYSTEM_ERROR : OK;
}

/* False: it was aborted. */
static int meet(struct comm *c)
{
	int phase = atomic_load(&c->sh->phase);

	if (atomic_fetch_add(&c->sh->arrived, 1) + 1 == c->ranks) {
		atomic_store(&c->sh->arrived, 0);
		atomic_store(&c->sh->phase, phase + 1);
		return 1;
	}
	while (atomic_load(&c->sh->phase) == phase) {
		if (atomic_load(&c->aborted))
			return 0;
		usleep(200);
	}
	return 1;
}

/* Of the elements from @at on. */
#define SUM(T)								\
	do {								\
		for (i = 0; i < n; i++) {				\
			T s = ((T *)c->sh->slot[0])[at + i];		\
			for (r = 1; r < c->ranks; r++)			\
				s += ((T *)c->sh->slot[r])[at + i];	\
			((T *)out)[i] = s;				\
		}							\
	} while (0)

static void compute(struct comm *c, char *out, size_t each)
{
	size_t n = c->count * (size_t)c->out, i;
	size_t at = c->in > c->out ? (size_t)c->rank * c->count : 0;
	int r;

	if (c->out > c->in)
		for (r = 0; r < c->ranks; r++)
			memcpy(out + (size_t)r * c->count * each, c->sh->slot[r], c->count * each);
	else if (c->type == 7)
		SUM(float);
	else if (c->type == 8)
		SUM(double);
	else if (c->type == 2)
		SUM(uint32_t);
	else
		SUM(uint64_t);
}

static void *work_main(void *arg)
{
	struct comm *c = arg;
	size_t each = c->type == 4 || c->type == 8 ? 8 : c->type ? 4 : 1;
	size_t in = c->count * (size_t)c->in * each, bytes = c->count * (size_t)c->out * each;
	char *out = malloc(bytes + 1);
	int rc;

	rc = !out || in > SLOT || CU("cuCtxSetCurrent", void *)(c->ctx) ||
	     CU("cuMemcpyDtoHAsync_v2", void *, uint64_t, size_t, void *)(
		c->sh->slot[c->rank], (uint64_t)(uintptr_t)c->from, in, c->stream) ||
	     CU("cuStreamSynchronize", void *)(c->stream) ? INVALID_ARGUMENT : OK;
	if (!rc && meet(c)) {
		compute(c, out, each);
		if (meet(c))
			rc = CU("cuMemcpyHtoDAsync_v2", uint64_t, const void *, size_t, void *)(
				(uint64_t)(uintptr_t)c->to, out, bytes, c->stream) ||
			     CU("cuStreamSynchronize", void *)(c->stream) ? INVALID_ARGUMENT : OK;
	}
	free(out);
	atomic_store(&c->state, rc);
	return NULL;
}

static void *begin_main(void *arg)
{
	struct comm *c = arg;

	meet(c);
	atomic_store(&c->state, OK);
	return NULL;
}

static int start(struct comm *c, void *(*fn)(void *))
{
	if (c->running)
		pthread_join(c->thread, NULL);
	atomic_store(&c->state, IN_PROGRESS);
	c->running = !pthread_create(&c->thread, NULL, fn, c);
	return c->running ? IN_PROGRESS : SYSTEM_ERROR;
}

API int ncclCommInitRankConfig(struct comm **out, int ranks, struct id id, int rank,
			       const size_t *config);
API int ncclCommInitRankConfig(struct comm **out, int ranks, struct id id, int rank,
			       const size_t *config)
{
	struct comm *c = calloc(1, sizeof(*c));
	char path[64];
	int fd;

	if (!c || fails("begin") || *config < 40 || ranks > MOST)
		return INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", id.pid, id.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	c->sh = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*c->sh), PROT_READ | PROT_WRITE, MAP_SHARED,
					   fd, 0);
	if (c->sh == MAP_FAILED)
		return SYSTEM_ERROR;
	close(fd);
	c->ranks = ranks;
	c->rank = rank;
	*out = c;
	return start(c, begin_main);
}

API int ncclCommGetAsyncError(struct comm *c, int *rc);
API int ncclCommGetAsyncError(struct comm *c, int *rc)
{
	*rc = fails("state") ? SYSTEM_ERROR : atomic_load(&c->state);
	return OK;
}

static int put(struct comm *c, const void *from, void *to, size_t count, int type, void *stream)
{
	if (fails("sum") || CU("cuCtxGetCurrent", void **)(&c->ctx))
		return INVALID_ARGUMENT;
	c->from = from;
	c->to = to;
	c->count = count;
	c->type = type;
	c->stream = stream;
	return start(c, work_main);
}

#define SUM_PARAMS const void *from, void *to, size_t count, int type, int op, struct comm *c, \
		   void *stream
API int ncclAllReduce(SUM_PARAMS);
API int ncclAllReduce(SUM_PARAMS)
{
	c->in = c->out = 1;
	return op ? INVALID_ARGUMENT : put(c, from, to, count, type, stream);
}

API int ncclReduceScatter(SUM_PARAMS);
API int ncclReduceScatter(SUM_PARAMS)
{
	c->in = c->ranks;
	c->out = 1;
	return op ? INVALID_ARGUMENT : put(c, from, to, count, type, stream);
}

#define GATHER_PARAMS const void *from, void *to, size_t count, int type, struct comm *c, \
		      void *stream
API int ncclAllGather(GATHER_PARAMS);
API int ncclAllGather(GATHER_PARAMS)
{
	c->in = 1;
	c->out = c->ranks;
	return put(c, from, to, count, type, stream);
}

static int end(struct comm *c)
{
	if (c->running)
		pthread_join(c->thread, NULL);
	munmap(c->sh, sizeof(*c->sh));
	free(c);
	return OK;
}

API int ncclCommAbort(struct comm *c);
API int ncclCommAbort(struct comm *c)
{
	atomic_store(&c->aborted, 1);
	return end(c);
}

API int ncclCommFinalize(struct comm *c);
API int ncclCommFinalize(struct comm *c)
{
	(void)c;
	return OK;
}

API int ncclCommDestroy(struct comm *c);
API int ncclCommDestroy(struct comm *c)
{
	return end(c);
}
