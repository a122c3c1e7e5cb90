/* SPDX-License-Identifier: MIT */
/*
 * The emulator of a GPU behind CUDA's driver API: what its files share.
 *
 * Threads of a block are fibers of one host thread, switched at barriers and at
 * operations of a warp; blocks run on a pool of host threads (block.c). Kernels
 * are host code made by g++ with the calls of a race detector, which land in
 * access.c: each access of a kernel is checked against the device's allocations,
 * registered host memory and shared memory, and for races in shared memory.
 */
#ifndef RLX_EMU_H
#define RLX_EMU_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_API		__attribute__((visibility("default")))

/* Results, as the driver numbers them. */
enum emu_result {
	EMU_OK = 0,
	EMU_INVALID_VALUE = 1,
	EMU_OUT_OF_MEMORY = 2,
	EMU_NOT_INITIALIZED = 3,
	EMU_NO_DEVICE = 100,
	EMU_INVALID_DEVICE = 101,
	EMU_INVALID_IMAGE = 200,
	EMU_INVALID_CONTEXT = 201,
	EMU_INVALID_SOURCE = 300,
	EMU_INVALID_HANDLE = 400,
	EMU_NOT_FOUND = 500,
	EMU_NOT_READY = 600,
	EMU_ILLEGAL_ADDRESS = 700,
	EMU_OUT_OF_RESOURCES = 701,
	EMU_ALREADY_REGISTERED = 712,
	EMU_NOT_REGISTERED = 713,
	EMU_LAUNCH_FAILED = 719,
	EMU_NOT_PERMITTED = 800,
	EMU_NOT_SUPPORTED = 801,
	EMU_CAPTURE_UNSUPPORTED = 900,
	EMU_CAPTURE_INVALIDATED = 901,
	EMU_CAPTURE_UNMATCHED = 903,
	EMU_CAPTURE_UNJOINED = 904,
	EMU_UPDATE_FAILED = 910,
	EMU_UNKNOWN = 999,
};

/* Limits of sm_90. */
enum {
	EMU_MAX_THREADS = 1024,
	EMU_SHARED_STATIC = 48 << 10,
	EMU_SHARED_MAX = 227 << 10,
	/* no power of two, by which all stacks would have the same few places of a cache */
	EMU_STACK = (132 << 10) + 320,
};

enum { EMU_DEVICES = 8 };

/* driver.c: settings from the environment, read once by cuInit(). */
struct emu_config {
	bool		fast;		/* no access checks */
	bool		peers;		/* devices reach each other's shared memory */
	int		warp;		/* 32 or 64 */
	int		devices, arch[EMU_DEVICES];	/* 90: sm_90 */
	uint64_t	memory;		/* bytes of a device */
	unsigned int	seed;		/* of the order of blocks and graph nodes */
};
extern struct emu_config emu_config;

/* The first thing each call of the API does: is it made to fail, is the device gone? */
int emu_enter(const char *name);
/* The device whose context this thread has; -1: none. */
int emu_device(void);
/* Objects of the driver that are there; emu_left() tells of them. */
enum emu_kind {
	EMU_MEMORY, EMU_SHARE, EMU_ADDRESS, EMU_PIN, EMU_STREAM, EMU_EVENT, EMU_MODULE, EMU_GRAPH,
	EMU_EXEC, EMU_KINDS,
};
void emu_count(enum emu_kind kind, int by);
/* The device broke: every later call gives @result. */
void emu_break(int result);
/* Says on stderr what a kernel or a caller did wrong. */
void emu_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* mem.c */
int emu_mem_init(void);
/* Device memory is out of reach for everybody except between these two. */
void emu_mem_open(void);
void emu_mem_close(void);
/* Does [p, p + n) lie in one allocation, of @device's, -1: of any? */
bool emu_mem_device(const void *p, uint64_t n, int device);
bool emu_mem_registered(const void *p, uint64_t n);
bool emu_mem_reserved(const void *p);	/* in the device's address range at all */
/* Run @run of a graph, not 0, wrote these bytes of the device's; has a launch of it? */
void emu_mem_wrote(const void *p, uint64_t n, uint32_t run);
bool emu_mem_is_of(const void *p, uint64_t n, uint32_t run);

/* module.c */
struct emu_kernel {
	char		*name;
	void		(*entry)(const void *const *params);
	const unsigned int *size;	/* bytes of each parameter, 0 ends */
	int		max_threads;
	uint32_t	max_dynamic;	/* shared memory, as set by attribute */
	int		device;
	const char	*text, *text_end;	/* the mapped module */
};

/*
 * block.c
 * @early: it may begin before the launch ahead has ended; @run: of the graph that it is in, 0:
 * in none
 */
struct emu_launch {
	struct emu_kernel *kernel;
	unsigned int	grid[3], block[3], shared;
	bool		early;
	uint32_t	run;
	void		*params[8];
	void		*store;		/* where params point */
};
int emu_run_grid(const struct emu_launch *l);
int emu_check_launch(const struct emu_launch *l);

/* access.c: what of the running block access checks need. */
struct emu_block {
	unsigned char	*shared;	/* the block's shared memory */
	uint32_t	shared_bytes;
	uint32_t	epoch;		/* barriers so far */
	uint16_t	thread, warp_epoch;	/* of the running fiber */
	int		warp, warp_bits;	/* 2^warp_bits threads */
	const char	*stacks, *stacks_end;
	const struct emu_kernel *kernel;
	bool		early, waited;	/* the launch's; the fiber: for the launch ahead */
	uint32_t	run;
	struct emu_mark	*marks;
	int		(*fail)(const char *what, const void *p, unsigned int n);
};
/* Every access of a kernel asks for it: from where the thread's register points, without a call. */
#define EMU_TLS		__attribute__((tls_model("initial-exec")))
extern __thread struct emu_block *emu_block EMU_TLS;
void emu_access(const void *p, unsigned int n, bool write);
void emu_access_reset(struct emu_block *b);
int emu_access_init(struct emu_block *b);

/* warp.c */
float emu_from_half(uint16_t h, bool brain);

/* tile.c */
struct emu_wgmma_op;
unsigned int emu_tile_bytes(const void *map);
bool emu_tile_may(const void *map, const int *at, const int *off);
void emu_tile_copy(void *to, const void *map, const int *at, const int *off);
void emu_wgmma_part(const struct emu_wgmma_op *op, int t);

/* stream.c */
enum emu_task_kind {
	EMU_TASK_KERNEL, EMU_TASK_COPY, EMU_TASK_SET, EMU_TASK_HOST,
	EMU_TASK_RECORD, EMU_TASK_WAIT, EMU_TASK_GRAPH, EMU_TASK_EMPTY,
};

struct emu_task {
	struct emu_task	*next;
	enum emu_task_kind kind;
	union {
		struct emu_launch launch;
		struct {
			void		*dst;
			const void	*src;
			uint64_t	n;
		} copy;
		struct {
			void		*dst;
			uint64_t	n;	/* elements */
			uint32_t	value;
			int		size;
		} set;
		struct {
			void		(*fn)(void *arg);
			void		*arg;
		} host;
		struct {
			struct emu_event *event;
			uint64_t	seq;
		} event;
		struct emu_exec	*exec;
	};
	/* in a graph: nodes that come before */
	struct emu_task	**dep;
	int		n_dep, index;
	bool		done;
};

struct emu_stream;
struct emu_event;
struct emu_graph;
struct emu_exec;
/* Of what runs there; without a stream, of this thread's context. */
int emu_stream_device(const struct emu_stream *s);
/* Put a copy of @t on the stream, or into the graph it captures. */
int emu_submit(struct emu_stream *s, const struct emu_task *t);
int emu_task_run(struct emu_task *t);
struct emu_task *emu_task_copy(const struct emu_task *t);
void emu_task_free(struct emu_task *t);
int emu_stream_sync(struct emu_stream *s);
int emu_sync_all(void);
struct emu_stream *emu_stream_null(void);

/* graph.c */
struct emu_graph *emu_graph_new(void);
void emu_graph_put(struct emu_graph *g);
struct emu_task *emu_graph_add(struct emu_graph *g, const struct emu_task *t,
			       struct emu_task **dep, int n_dep);
/* Set .done of these nodes and of all that come before, and of no others. */
void emu_graph_mark(struct emu_graph *g, struct emu_task **node, int n);
int emu_exec_run(struct emu_exec *x);
void emu_exec_hold(struct emu_exec *x);
void emu_exec_put(struct emu_exec *x);

#endif
