/* SPDX-License-Identifier: MIT */
/*
 * The GPU backend's own objects. Argument structs of all calls lie in one image, as
 * on the CPU; a session copies it, fills in its device addresses and captures the
 * launches as graphs, which later runs replay.
 *
 * Buffers that a run binds are reached through a table of addresses in device
 * memory (kernels/gpu/env.h), so that a bind changes eight bytes and no graph. The
 * reference evaluator runs what has no kernel, on a mirror of the workspace in host
 * memory; only values that cross over are copied, where the plan says they must.
 */
#ifndef RLX_BACKENDS_GPU_H
#define RLX_BACKENDS_GPU_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/common/extent.h"
#include "backends/gpu/api.h"
#include "kernels/gpu/env.h"
#include "kernels/gpu/launch.h"
#include "kernels/gpu/input_gather.h"
#include "kernels/gpu/pointwise.h"

struct gpu_module;
struct gpu_tuned;
struct gpu_weight;
struct gpu_range;
struct gpu_resident;
struct gpu_experts;

/* Threads of a device that compile kernels. */
enum { GPU_MOST_COMPILERS = 8 };

struct gpu_device {
	struct rlx_device		 base;
	const struct rlx_gpu_vendor	*v;
	const struct gpu_driver		*d;
	const struct rlx_gpu_api	*api;
	int				 dev;
	void				*ctx;
	void				*stream;	/* of uploads; guarded by lock */
	/* Context and stream are there: gpu_enter(). Made by a thread of its own. */
	atomic_bool			 ready;
	pthread_t			 maker;		/* guarded by lock, as what follows */
	bool				 making;	/* it is still to be waited for */
	int				 made;		/* what its last call returned */
	int				 attr[GPU_ATTR_COUNT];
	char				 name[64], arch[48];
	/* What launches are planned for: as the table or the driver has it, or as measured. */
	_Atomic(const struct rlx_g_chip *) chip;
	struct rlx_g_chip		 described, measured;
	bool				 chip_is_derived;	/* no table has it */
	atomic_bool			 calibrated;	/* whether or not there was a need */
	pthread_mutex_t			 calibrating;
	atomic_bool			 lost;
	/* Some kernel does not wait for the preceding launch: none may begin before that ends. */
	atomic_bool			 in_order;
	pthread_mutex_t			 lock;		/* guards the lists */
	struct gpu_module		*modules;
	struct gpu_module		*to_compile;	/* of them, and nobody is at it yet */
	struct gpu_compiler {		/* threads that are, or have ended */
		struct gpu_device	*d;
		pthread_t		 thread;
		bool			 begun, ended;	/* to be joined; at once */
	} compiler[GPU_MOST_COMPILERS];
	unsigned int			 compilers;	/* of these to be used, as CPUs are */
	pthread_cond_t			 compiled;	/* something is */
	/* tune.c: what was measured; new: since it was written */
	struct gpu_tuned		*tuned;
	uint32_t			 n_tuned, cap_tuned;
	bool				 tune_read, tune_new;
	struct gpu_weight		*weights;
	struct gpu_range		*ranges;
	struct gpu_workspace		*workspaces;
	struct gpu_resident		*residents;
};

/*
 * Pointwise text whose operands all lie as the result does, or are one element: @function bytes of
 * it are the function of one element, which lacks its last brace, and a thread has @vec of them.
 */
struct gpu_ew_form {
	uint32_t	function;
	uint8_t		n_in, n_out, vec;
	uint8_t		walk[RLX_G_EW_IN];			/* enum walk */
	uint8_t		type[RLX_G_EW_IN + RLX_G_EW_OUT];	/* enum rlx_dtype; inputs first */
};

/* What a call needs besides its arguments. */
struct gpu_call {
	struct rlx_call		base;		/* step: for copies the writer; or GPU_NO_STEP */
	uint8_t			kind;		/* enum gpu_call_kind */
	bool			again;		/* blocks read what calls put together did */
	bool			interp;		/* a kernel that reads its steps does it, too */
	uint32_t		val;		/* copies: what crosses over; kernels: scratch, or 0 */
	uint32_t		bad;		/* index of its status word + 1; 0: none */
	uint32_t		first_map;	/* of launch.n_map */
	uint64_t		scratch_at;	/* in the workspace */
	uint8_t			on_stream;		/* side by side with those of other streams */
	bool			awaited;	/* by one of another stream */
	bool			aside;		/* a sum that others need not wait for ... */
	bool			joins;		/* ... but this one waits for those before it */
	uint32_t		first_wait, n_wait;	/* in gpu_code.wait: after these calls */
	uint32_t		first_joined, n_joined;	/* in gpu_code.joined: 0 of others */
	const char		*text;		/* its kernel, if that was written; when lowering */
	const struct gpu_ew_form *form;		/* of text; NULL: none; when lowering */
	struct gpu_module	*module;	/* when all is lowered */
	uint32_t		 decision;	/* that chose its launch: explain.c; 0: none */
	void			*fn;		/* its function, when all have been loaded */
	uint32_t		 product;	/* EXPERTS: in base.product */
	struct rlx_g_launch	launch;
};

enum gpu_call_kind {
	GPU_KERNEL_CALL, GPU_HOST_CALL, GPU_IN_CALL, GPU_OUT_CALL,
	GPU_EXPERTS_CALL,		/* launches of a kernel, as experts.c says */
	GPU_UNPACK_CALL,		/* and of another, for those of the call behind it */
	GPU_COLLECTIVE_CALL,		/* its arguments are a struct gpu_collective */
};
#define GPU_NO_STEP	UINT32_MAX

/* Has it a kernel, with a status word and scratch? */
static inline bool gpu_is_launch(const struct gpu_call *call)
{
	return call->kind == GPU_KERNEL_CALL || call->kind == GPU_EXPERTS_CALL ||
	       call->kind == GPU_UNPACK_CALL;
}

/* What ranks do together: device addresses, or where the table has them. */
struct gpu_collective {
	uint64_t	src, dst;
	int64_t		count;		/* of the smaller one */
	int32_t		dtype, ranks;
};

/* Inputs, params and outputs in one row. */
struct gpu_io {
	uint8_t		io;		/* enum rlx_io */
	uint32_t	index;
	uint64_t	bytes;
	uint64_t	at;		/* in the staging memory */
	bool		on_device;	/* a kernel uses it */
	bool		on_host;	/* a step of the host's reads it: inputs */
	bool		out;		/* an output that a kernel wrote last */
	uint32_t	readers;	/* launches that read it */
	uint32_t	donated;		/* 1 + the other of an output and the input it replaces */
	bool		one;		/* a step counts on their lying in one place */
	uint32_t	writer;		/* step; GPU_NO_STEP if none */
};

struct gpu_code {
	struct rlx_code		 base;
	struct rlx_calls	 calls;		/* struct gpu_call */
	struct gpu_io		*io;
	uint32_t		 n_io, first_io[3];
	struct rlx_bump		 bump;
	unsigned char		*persistent;		/* tables, and where they are */
	uint64_t		 n_persistent, cap_persistent, persistent_at;
	struct gpu_weight	**weight;	/* per constant; NULL: not needed */
	uint32_t		 n_bad;		/* status words */
	uint64_t		 stage_bytes;
	uint64_t		 host_at;	/* scratch of host steps, in exec->work */
	uint32_t		 n_map;
	uint32_t		 most_tensors;
	uint32_t		 most_experts;	/* 1 + those of a product that is placed */
	bool			 gathers_inputs;		/* the first call brings small inputs */
	/* streams.c: how many there are, what calls wait for */
	uint32_t		 n_stream;
	uint32_t		*wait;
	uint32_t		 n_wait, cap_wait;
	/* join.c: the step of each part of joined calls */
	uint32_t		*joined;
	uint32_t		 n_joined, cap_joined;
};

static inline struct gpu_call *gpu_calls(const struct gpu_code *c)
{
	return c->calls.call;
}

/* How many steps a call does, and which the @i-th of them is. */
static inline uint32_t gpu_call_steps(const struct gpu_call *call)
{
	return call->n_joined ? call->n_joined : call->base.n_step;
}

static inline uint32_t gpu_call_step(const struct gpu_code *c, const struct gpu_call *call,
				     uint32_t i)
{
	if (call->n_joined)
		return c->joined[call->first_joined + i];
	return call->base.step == GPU_NO_STEP ? GPU_NO_STEP : call->base.step + i;
}

/* How a run reaches one buffer. */
struct gpu_slot {
	void			*host;
	struct gpu_range	*range;		/* registered; NULL: pageable */
	struct gpu_weight	*weight;	/* params */
	uint64_t		 at;		/* bound in the device's memory; 0: in the host's */
	bool			 direct;	/* and kernels use it there */
	bool			 mapped;	/* kernels use host memory in place */
	bool			 taken;		/* or its first one copies it */
	bool			 changed;
	bool			 persistent;		/* of a pair that stays on the device */
	bool			 fresh;		/* that input: bound since the last run */
	/* Of an input's content (struct rlx_content): the version here, and the last uploaded */
	uint64_t		 version, uploaded;
	/* Memory of its own, where an output would else replace it; 0: none */
	uint64_t		 apart;
	/*
	 * prefetch.c: a second place, which is the one that counts if @in_ahead; what is on its
	 * way to the other one, and that it is what the next run reads
	 */
	uint64_t		 ahead;
	bool			 in_ahead, came;
	const void		*coming;
	struct gpu_range	*coming_from;
	void			*arrived;
};

/* Launches between two things that the host must do. */
struct gpu_part {
	uint32_t	first, end;	/* calls */
	uint32_t	n_stream;
	/* ready to launch, without and with an active extent; NULL: not captured yet */
	void		*graph[2];
};

struct gpu_exec {
	struct rlx_exec		 base;
	void			*stream;
	uint64_t		 work, stage, table, zeros;	/* device memory */
	uint64_t		 bad;		/* status words: see bad_mapped */
	bool			 bad_mapped;	/* they lie behind places */
	bool			 bad_cleared;	/* every run leaves them so */
	unsigned char		*image;
	uint64_t		*places;	/* for table; behind it the host's status words */
	struct rlx_arena	*places_arena;
	struct gpu_range	*places_range;	/* registered; NULL: it could not be */
	struct gpu_slot		*slot;
	struct gpu_part		*part;
	uint32_t		 n_part;
	bool			 capturing;	/* a graph: launches may begin early */
	struct gpu_workspace	*workspace;	/* whose memory @work is */
	struct gpu_range	*work_range;	/* of exec->work, to copy faster */
	bool			 mapped;	/* maps of what stays where it is */
	bool			 skipping;	/* exec->skip was there when captured, and so: */
	uint8_t			*captured_skip;
	bool			 changed;	/* some slot is, or the extent */
	struct rlx_extent	 extent;
	uint64_t		 point;		/* runs submitted */
	/* collective.c: sums aside, and where they begin and end; made by the first one */
	void			*side, *sum_from, *sum_done;
	bool			 summing;	/* nobody has waited for them yet */
	struct rlx_tensor	*tensors;
	struct gpu_experts	*experts;	/* NULL: none are placed */
	void			**event;	/* timed.c: before the first call, after each */
	void			*upload;	/* prefetch.c: the stream; NULL: none yet */
};

/* stream_new: beside the default one; event_new: without a time. For both vendors. */
enum { GPU_STREAM_APART = 1, GPU_EVENT_PLAIN = 2 };

/* Smaller buffers are read and written in host memory by the kernels themselves. */
enum { GPU_MOST_MAPPED = 64 << 10 };

/* An output and the input that it replaces, in one place on the device? */
static inline bool gpu_is_pair(const struct gpu_code *c, uint32_t io)
{
	const struct gpu_io *a = &c->io[io];

	return a->donated && a->on_device && c->io[a->donated - 1].on_device &&
	       (a->one || c->io[a->donated - 1].one || a->bytes > GPU_MOST_MAPPED);
}

static inline struct gpu_device *gpu_device_of(const struct rlx_code *code)
{
	return (struct gpu_device *)code->dev;
}

static inline const struct gpu_code *gpu_exec_code(const struct gpu_exec *x)
{
	return (const struct gpu_code *)x->base.code;
}

static inline struct gpu_device *gpu_exec_device(const struct gpu_exec *x)
{
	return gpu_device_of(x->base.code);
}

/* cuda.c, rocm.c */
extern const struct rlx_gpu_vendor rlx_gpu_cuda, rlx_gpu_rocm;

/* Of the driver's errors the one that others make too; HIP numbers them as CUDA does. */
enum { GPU_OUT_OF_MEMORY = 2 };

/* Data of a tensor crosses: to the device's memory, and back. */
static inline void gpu_count_in(struct gpu_exec *x, uint64_t bytes)
{
	x->base.moved.in++;
	x->base.moved.in_bytes += bytes;
}

static inline void gpu_count_out(struct gpu_exec *x, uint64_t bytes)
{
	x->base.moved.out++;
	x->base.moved.out_bytes += bytes;
}

/* gpu.c: what the driver said, as a status; 0 is RLX_OK. @what: "copying in" */
enum rlx_status gpu_check(struct gpu_device *d, int rc, const char *what,
			  struct rlx_error *err);
/*
 * Make the device's context that of this thread, which waits for it if it is still being
 * made; RLX_ELOST if it failed before.
 */
enum rlx_status gpu_enter(struct gpu_device *d, struct rlx_error *err);
/* The same of the latter, at once. */
enum rlx_status gpu_alive(struct gpu_device *d, struct rlx_error *err);

/* chip.c: of a device whose attributes and name are known; an H200. */
void gpu_chip_describe(struct gpu_device *d);
/* calibrate.c: once, before a program is compiled: numbers of a chip that nobody knows. */
void gpu_calibrate(struct gpu_device *d);
static inline const struct rlx_g_chip *gpu_chip(const struct gpu_device *d)
{
	return atomic_load_explicit(&d->chip, memory_order_acquire);
}

const struct rlx_g_chip *gpu_chip_usual(void);

/* cost.c: how much of the chip a launch keeps busy, of 1 */
double gpu_launch_share(const struct rlx_g_launch *l);
/* What a call takes: as found when it was chosen, else by what its steps move and compute. */
struct gpu_code;
struct gpu_call;
double gpu_call_ns(const struct gpu_code *c, const struct gpu_call *call);

void gpu_close(struct rlx_device *dev);
void gpu_target(const struct rlx_device *dev, struct rlx_target *t);

/* memory.c */
enum rlx_status gpu_mem_new(struct gpu_device *d, uint64_t bytes, uint64_t *out,
			    struct rlx_error *err);
void gpu_mem_free(struct gpu_device *d, uint64_t at);
/*
 * Bytes of host memory that stay as they are, resident on the device from
 * gpu_weights_load() on: shared by all who ask with the same address and size. Needs no
 * context. @blob: keeps them alive, may be NULL: then what is there is uploaded
 * again, for others too.
 */
enum rlx_status gpu_weight_get(struct gpu_device *d, const void *p, uint64_t bytes,
			       struct rlx_blob *blob, struct gpu_weight **out,
			       struct rlx_error *err);
/* Bring what is not there yet of @n weights, of which some may be NULL, to the device. */
enum rlx_status gpu_weights_load(struct gpu_device *d, struct gpu_weight **w, uint32_t n,
				 struct rlx_error *err);
/* The host's bytes have changed: bring them over again. */
enum rlx_status gpu_weight_renew(struct gpu_device *d, struct gpu_weight *w,
				 struct rlx_error *err);
/* Is its memory a resident arena's, so that nobody brings it over? */
bool gpu_weight_is_resident(const struct gpu_weight *w);
/* Are its bytes there, and are those of an arena that is resident? */
bool gpu_weight_is_here(struct gpu_device *d, const struct gpu_weight *w);
bool gpu_is_resident(struct gpu_device *d, const void *p, uint64_t bytes);
uint64_t gpu_weight_at(const struct gpu_weight *w);
void gpu_weight_put(struct gpu_device *d, struct gpu_weight *w);
/*
 * So many bytes of device memory for what a run leaves between its steps. @host: the host's
 * workspace where the caller gave one, which no two sessions use at once: they share the device's
 * as well, as far as the first one's is large enough. NULL: it is the session's own.
 */
enum rlx_status gpu_workspace_get(struct gpu_device *d, const void *host, uint64_t bytes,
				  struct gpu_workspace **out, struct rlx_error *err);
uint64_t gpu_workspace_at(const struct gpu_workspace *w);
void gpu_workspace_put(struct gpu_device *d, struct gpu_workspace *w);
/* Register an arena once for all sessions. NULL: it cannot be; then it is copied. */
struct gpu_range *gpu_range_get(struct gpu_device *d, struct rlx_arena *a);
/* Device address of a byte of the arena; 0: kernels cannot use it in place. */
uint64_t gpu_range_at(const struct gpu_range *r, const void *p);
void gpu_range_put(struct gpu_device *d, struct gpu_range *r);

/* buffer.c: see struct rlx_backend_memory */
enum rlx_status gpu_buffer_new(struct rlx_device *dev, uint64_t bytes, uint64_t *out_at,
			       struct rlx_error *err);
void gpu_buffer_free(struct rlx_device *dev, uint64_t at);
enum rlx_status gpu_buffer_copy(struct rlx_device *dev, uint64_t at, void *host, uint64_t bytes,
				bool in, struct rlx_error *err);
/* Some slot has changed: where all are on the device, and whether kernels may use that. */
void gpu_take_buffers(struct gpu_exec *x);
/*
 * Of a slot that is bound there what a run begins with, to @place if kernels do not use it where
 * it is; of an output what it ends with, @bytes of it. 0, or what the driver said.
 */
int gpu_stage_buffer(struct gpu_exec *x, uint32_t i, uint64_t place);
int gpu_settle_buffer(struct gpu_exec *x, uint32_t i, uint64_t bytes);

/* resident.c */
extern const struct rlx_backend_memory gpu_memory;
/* Who has these bytes on the device, and where; used until unuse(). The lock is held. */
struct gpu_resident *gpu_resident_find(struct gpu_device *d, const void *p, uint64_t bytes,
				       uint64_t *out_at);
void gpu_resident_unuse(struct gpu_device *d, struct gpu_resident *r);

/* A row of kernels/gpu/kernels.def: its name, file, and its parameters' as "A, B". */
struct gpu_variant {
	const char	*name, *file, *params;
};
extern const struct gpu_variant gpu_variants[RLX_G_VARIANTS];

/* A kernel: function rlx_g_@name of the module that @source makes with @params of @param. */
struct gpu_kernel {
	const char		*name, *source, *params;
	const union rlx_g_param	*param;
	uint32_t		 shared;	/* of gpu_function_get(): see gpu_module_load() */
	bool			 ordered;	/* compiled so that nothing is contracted */
};
/* variant.c: that of a row; @param stays the caller's. */
struct gpu_kernel gpu_kernel_of(enum rlx_g_variant v, const union rlx_g_param *param,
				uint32_t shared);
/* That of pointwise code, which stays the caller's. @ordered: for strict bits */
struct gpu_kernel gpu_kernel_of_text(const char *source, bool ordered);
/* The @i-th parameter as "NAME=value"; false: there are fewer. */
bool gpu_param_text(const struct gpu_kernel *k, unsigned int i, char *buf, size_t size);
/* All of them, each behind a blank. */
void gpu_params_text(const struct gpu_kernel *k, char *buf, size_t size);
/*
 * module.c: found, or begun to be compiled by other threads, which needs no context; then
 * waited for and loaded, so that @shared bytes of dynamic shared memory may be asked for.
 * The device keeps them.
 */
enum rlx_status gpu_module_get(struct gpu_device *d, const struct gpu_kernel *k,
			       struct gpu_module **out, struct rlx_error *err);
enum rlx_status gpu_module_load(struct gpu_device *d, struct gpu_module *m, uint32_t shared,
				void **out, struct rlx_error *err);
/* What compiling it took, since somebody asked; 0: nothing, for it was found. */
uint64_t gpu_module_compile_ns(struct gpu_device *d, struct gpu_module *m);
/* Got and loaded. */
enum rlx_status gpu_function_get(struct gpu_device *d, const struct gpu_kernel *k,
				 void **out, struct rlx_error *err);
void gpu_modules_free(struct gpu_device *d);

/* With an active extent: what env.live and env.checked of a call point to. */
struct gpu_live {
	int64_t	rows, checked;
};

/*
 * From exec->table on: addresses, the pieces that struct rlx_g_input_gather speaks of, maps of
 * the launches' tiles, and what of each call carries data.
 */
static inline uint64_t gpu_tensor_maps_at(const struct gpu_code *c)
{
	return rlx_align64((uint64_t)c->n_io * sizeof(uint64_t) +
			     (uint64_t)c->first_io[RLX_IO_PARAM] * sizeof(struct rlx_g_piece));
}

static inline uint64_t gpu_live_at(const struct gpu_code *c)
{
	return gpu_tensor_maps_at(c) + (uint64_t)c->n_map * RLX_G_TENSOR_MAP_BYTES;
}

static inline uint64_t gpu_table_bytes(const struct gpu_code *c)
{
	return gpu_live_at(c) + (uint64_t)c->calls.n_call * sizeof(struct gpu_live);
}

/* Behind it, the host's alone: status words; how many rows each expert of a product has. */
static inline int32_t *gpu_bad_words(const struct gpu_exec *x)
{
	return (void *)((char *)x->places + rlx_align64(gpu_table_bytes(gpu_exec_code(x))));
}

static inline uint32_t *gpu_count_words(const struct gpu_exec *x)
{
	return (uint32_t *)gpu_bad_words(x) + gpu_exec_code(x)->n_bad;
}

/* tensor_map.c: what @m says of a matrix at @at, as TMA has it */
enum rlx_status gpu_tensor_map_make(struct gpu_device *d, const struct rlx_g_tensor_map *m,
				    uint64_t at, void *out, struct rlx_error *err);

/* From this generation on kernels wait for the preceding launch by themselves (dialect). */
enum { GPU_PDL_MAJOR = 9 };

/* What a launch function is told. */
static inline struct rlx_g_launch gpu_launch_for(const struct gpu_device *d, uint64_t units)
{
	bool nvidia = d->api->map_tiles && d->attr[GPU_ATTR_WARP] == 32;

	return (struct rlx_g_launch){
		.units = units, .chip = gpu_chip(d),
		.processors = (uint32_t)d->attr[GPU_ATTR_SM_COUNT],
		.most_shared = (uint32_t)d->attr[GPU_ATTR_SHARED],
		.arch = nvidia ? (uint32_t)(d->attr[GPU_ATTR_MAJOR] * 10 +
					    d->attr[GPU_ATTR_MINOR]) : 0,
	};
}

/* source.c: text of kernels/gpu/<name>; NULL: there is none */
const char *gpu_source(const char *name);
unsigned int gpu_headers(const char *const **names, const char *const **texts);

/* Which kernel takes @args, and how it is launched: rlx_g_<name>_launch(). */
typedef void gpu_launch_fn(const void *args, struct rlx_g_launch *l);

/* lower.c */
struct gpu_lower {
	struct rlx_lower	 base;
	uint8_t			*where;		/* per value: where its storage is right */
	uint8_t			*saved;		/* the same when the step began */
	uint32_t		*writer;	/* per value: step that wrote it last */
	uint64_t		 persistent;
	uint32_t		 n_val;		/* of the plan before temporaries were added */
	uint32_t		 scratch;	/* of the step's launches; 0: none wants it */
	struct rlx_bump		 texts;		/* of pointwise kernels */
	/* explain.c */
	struct rlx_g_judge	 judge;
	bool			 explain, tune;	/* RLX_COMPILE_EXPLAIN, _TUNE */
	uint64_t		 tune_until;	/* rlx_now(): no more is measured then */
	struct rlx_choice	*choice;	/* .call: the decision that it was of */
	uint32_t		 n_choice, cap_choice, n_decision;
	uint32_t		 decision;	/* the next call's; 0: none */
};

static inline struct gpu_device *gpu_of(const struct rlx_lower *lo)
{
	return gpu_device_of(lo->code);
}

static inline struct gpu_lower *gpu_lower_of(struct rlx_lower *lo)
{
	return (struct gpu_lower *)lo;
}

/* Where a call's pointer points to: @at, or what the table of a run's buffers has. */
static inline uint64_t gpu_looked_up(const uint64_t *table, uint64_t at)
{
	return at & RLX_G_INDIRECT ? table[at >> 48 & 0x7fff] + (at & 0xffffffffffff) : at;
}

/* What is known of a pointer before anything has an address, to @field. */
void gpu_put_known(struct gpu_code *c, const struct rlx_ref *r, void *field);
/* The same of all that is staged. */
enum rlx_status gpu_apply_relocations(struct rlx_lower *lo);
/* Append a launch, which reads the staged arguments. */
enum rlx_status gpu_call(struct rlx_lower *lo, const struct rlx_g_launch *l);
/* The same, of what was chosen, if it can and there is anything to do. */
enum rlx_status gpu_call_launch(struct rlx_lower *lo, const struct rlx_g_launch *l);
/* What launch functions are told, and who has the last word. */
struct rlx_g_launch gpu_launch_of(struct rlx_lower *lo, uint64_t units);
/* Append the launch that @how says. */
enum rlx_status gpu_call_kernel(struct rlx_lower *lo, gpu_launch_fn *how, uint64_t units);
/* Is input @k written by nothing of the program? */
bool gpu_is_fixed(const struct rlx_lower *lo, uint32_t k);
/* Does output 0 lie where input 0 does? */
bool gpu_in_place(const struct rlx_lower *lo);
rlx_lower_fn *gpu_lowering(unsigned int index);
bool gpu_supports(const struct rlx_device *dev, const struct rlx_infer *q, struct rlx_error *why);
enum rlx_status gpu_compile(struct rlx_code *code, uint32_t flags, struct rlx_error *err);
void gpu_release(struct rlx_code *code);

/*
 * strict.c: with strict bits no step goes to the host, whose evaluation rounds otherwise than the
 * CPU's kernels do, but what has no floats; the step that does is named in lo->err.
 */
enum rlx_status gpu_refuse_host(struct rlx_lower *lo, const struct rlx_error *why);
/* Are there numbers that round among what the step reads and writes? */
bool gpu_step_rounds(const struct rlx_lower *lo);

/* lower_decoder.c: the staged GEMM becomes what gemv_stream takes */
void gpu_stage_gemv_stream(struct rlx_lower *lo);
/* lower_fp8.c: is a or b in fp8? Then the staged GEMM @g, which refers to a. */
bool gpu_gemm_is_fp8(const struct rlx_lower *lo);
enum rlx_status gpu_gemm_fp8(struct rlx_lower *lo, struct rlx_k_gemm *g);

/* explain.c: the kernel of @l with its parameters, and its grid */
void gpu_launch_text(const struct rlx_g_launch *l, char *buf, size_t size);
/* Who chooses while @gl is lowered; forgets what was chosen; frees. */
void gpu_judge_init(struct gpu_lower *gl, uint32_t flags);
void gpu_judge_reset(struct gpu_lower *gl);
void gpu_judge_fini(struct gpu_lower *gl);
/* Into the code's .choice what there was for each of its calls, if that was asked for. */
enum rlx_status gpu_explain(const struct gpu_lower *gl);

#define LOWER(op) rlx_lower_fn gpu_lower_##op;
#include "backends/gpu/lower.def"
#undef LOWER

/* lower_conv.c lower_rnn.c: see rlx_lower_ops */
enum rlx_status gpu_conv(struct rlx_lower *lo, const struct rlx_conv *g);
enum rlx_status gpu_conv_i8(struct rlx_lower *lo, struct rlx_k_conv_i8 *a);
enum rlx_status gpu_recur(struct rlx_lower *lo, const struct rlx_recurrence *r);

/* exec.c */
enum rlx_status gpu_init(struct rlx_exec *exec);
void gpu_fini(struct rlx_exec *exec);
void gpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
bool gpu_keep(struct rlx_exec *exec, unsigned int i, bool on);
enum rlx_status gpu_fetch(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
bool gpu_has(const struct rlx_exec *exec, enum rlx_io io, unsigned int i);
enum rlx_status gpu_submit(struct rlx_exec *exec, bool away, uint64_t *out_point);
enum rlx_status gpu_wait(struct rlx_exec *exec, uint64_t point, int64_t timeout_ns);

/* prefetch.c */
enum rlx_status gpu_prefetch(struct rlx_exec *exec, unsigned int i, struct rlx_arena *a,
			     const void *p);
/* Input @i is bound to slot->host from now on: is that what was prefetched? */
void gpu_prefetch_take(struct gpu_exec *x, uint32_t i);
/* Wait for it in front of a run. The driver's number of an error */
int gpu_prefetch_wait(struct gpu_exec *x, uint32_t i);
void gpu_prefetch_fini(struct gpu_exec *x);

/* Is a step left out, as no output that is wanted needs it? */
static inline bool gpu_skips(const struct gpu_exec *x, uint32_t step)
{
	return x->base.skip && step != GPU_NO_STEP && x->base.skip[step];
}

/* graph.c: a launch of @fn by @l; @may_pdl: before the one ahead in that stream has ended (PDL) */
int gpu_launch_kernel(struct gpu_device *d, const struct rlx_g_launch *l, void *fn, void **args,
		      void *s, bool may_pdl);
/* graph.c: all calls in order, from graphs where launches stand side by side */
enum rlx_status gpu_run_parts(struct gpu_exec *x);
/* One call, not waited for unless it is the host's. */
enum rlx_status gpu_run_call(struct gpu_exec *x, uint32_t i);

/* collective.c */
enum rlx_status gpu_mark_sums(struct gpu_code *c, struct rlx_error *err);
enum rlx_status gpu_run_collective(struct gpu_exec *x, const struct gpu_call *call);
/* What comes next in the stream comes after all sums. */
enum rlx_status gpu_join_sums(struct gpu_exec *x);
void gpu_side_free(struct gpu_exec *x);

/* One pass of the call's launch, with @args in place of its own, in the run's stream. */
enum rlx_status gpu_launch_pass(struct gpu_exec *x, const struct gpu_call *call, void *args,
				uint32_t pass);

/*
 * experts.c, when compiling: the step's product, if it may leave its experts in host memory, else
 * NULL; it has been lowered, to the call behind the first @before, to two of which the first one
 * unpacks an expert, or to none.
 */
struct rlx_expert_product *gpu_experts_placed(struct rlx_lower *lo);
void gpu_experts_lowered(struct rlx_lower *lo, struct rlx_expert_product *p, uint32_t before);
/*
 * What an exec needs for that; before a run, slots as its placement asks; the product itself;
 * after a failure, nothing is under way.
 */
enum rlx_status gpu_experts_init(struct gpu_exec *x);
void gpu_experts_fini(struct gpu_exec *x);
enum rlx_status gpu_experts_prepare(struct gpu_exec *x);
enum rlx_status gpu_run_experts(struct gpu_exec *x, const struct gpu_call *call);
void gpu_experts_settle(struct gpu_exec *x);

/* timed.c: all calls, adding what each took to exec->step_ns */
enum rlx_status gpu_run_timed(struct gpu_exec *x);
void gpu_timed_free(struct gpu_exec *x);

/* A vendor's struct rlx_backend: what must know the vendor, and the rest. */
#define GPU_BACKEND(n, strict)						\
	static unsigned int n##_probe(struct rlx_dev_info *info, unsigned int first, \
				      unsigned int max)			\
	{								\
		return gpu_probe(&rlx_gpu_##n, info, first, max);	\
	}								\
	static const char *n##_why(void)				\
	{								\
		return gpu_why(&rlx_gpu_##n);				\
	}								\
	static enum rlx_status n##_open(struct rlx_device *dev, struct rlx_error *err) \
	{								\
		return gpu_open(&rlx_gpu_##n, dev, err);		\
	}								\
	RLX_EXPORT const struct rlx_backend rlx_backend_##n = {		\
		.abi = RLX_BACKEND_ABI, .name = #n, .own_threads = true,	\
		.strict_bits = strict,					\
		.align = RLX_PLAN_ALIGN,				\
		.device_size = sizeof(struct gpu_device),		\
		.code_size = sizeof(struct gpu_code),			\
		.exec_size = sizeof(struct gpu_exec),			\
		.probe = n##_probe, .why = n##_why,			\
		.open = n##_open, .close = gpu_close,			\
		.target = gpu_target, .supports = gpu_supports,		\
		.compile = gpu_compile, .release = gpu_release,		\
		.init = gpu_init, .fini = gpu_fini, .bind = gpu_bind,	\
		.submit = gpu_submit, .wait = gpu_wait,			\
		.keep = gpu_keep, .fetch = gpu_fetch, .has = gpu_has,	\
		.prefetch = gpu_prefetch,				\
		.memory = &gpu_memory,					\
	}

#endif
