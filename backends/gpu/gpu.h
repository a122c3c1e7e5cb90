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

#include "backends/common/lower.h"
#include "backends/gpu/api.h"
#include "kernels/gpu/env.h"
#include "kernels/gpu/launch.h"

struct gpu_module;
struct gpu_weight;
struct gpu_range;

struct gpu_device {
	struct rlx_device		 base;
	const struct rlx_gpu_vendor	*v;
	const struct gpu_driver		*d;
	const struct rlx_gpu_api	*api;
	int				 dev;
	void				*ctx;
	void				*stream;	/* of uploads; guarded by lock */
	int				 attr[GPU_ATTR_COUNT];
	char				 name[64], arch[48];
	atomic_bool			 lost;
	pthread_mutex_t			 lock;		/* guards the lists */
	struct gpu_module		*modules;
	struct gpu_weight		*weights;
	struct gpu_range		*ranges;
};

/* What a call needs besides its arguments. */
struct gpu_call {
	uint8_t			kind;		/* enum gpu_call_kind */
	uint32_t		step;		/* of the plan; for copies the writer, or NEVER */
	uint32_t		val;		/* copies: what crosses over */
	uint32_t		bad;		/* index of its status word + 1; 0: none */
	uint64_t		args;		/* offset in the image */
	uint32_t		n_args;
	void			*fn;
	struct rlx_g_launch	launch;
};

enum gpu_call_kind { GPU_KERNEL_CALL, GPU_HOST_CALL, GPU_IN_CALL, GPU_OUT_CALL };
#define GPU_NO_STEP	UINT32_MAX

/* Inputs, params and outputs in one row. */
struct gpu_io {
	uint8_t		io;		/* enum rlx_io */
	uint32_t	index;
	uint64_t	bytes;
	uint64_t	at;		/* in the staging memory */
	bool		on_device;	/* a kernel uses it */
	bool		out;		/* an output that a kernel wrote last */
	uint32_t	writer;		/* step; GPU_NO_STEP if none */
};

struct gpu_code {
	struct rlx_code		 base;
	struct gpu_call		*call;
	uint32_t		 n_call, cap_call;
	unsigned char		*image;
	uint64_t		 n_image, cap_image;
	struct rlx_ref		*reloc;
	uint32_t		 n_reloc, cap_reloc;
	struct gpu_io		*io;
	uint32_t		 n_io, first_io[3];
	struct rlx_bump		 bump;
	unsigned char		*kept;		/* tables, and where they are */
	uint64_t		 n_kept, cap_kept, kept_at;
	struct gpu_weight	**weight;	/* per constant; NULL: not needed */
	uint32_t		 n_bad;		/* status words */
	uint64_t		 scratch_bytes, scratch_at;	/* in device work */
	uint64_t		 device_bytes;	/* workspace, scratch */
	uint64_t		 stage_bytes;
	uint64_t		 table_at, bad_at, host_at;	/* in exec->work */
	uint32_t		 most_tensors;
};

/* How a run reaches one buffer. */
struct gpu_slot {
	void			*host;
	struct gpu_range	*range;		/* registered; NULL: pageable */
	struct gpu_weight	*weight;	/* params */
	bool			 mapped;	/* kernels use host memory in place */
	bool			 changed;
};

/* Launches between two things that the host must do. */
struct gpu_part {
	uint32_t	first, end;	/* calls */
	void		*graph;		/* ready to launch; NULL: not captured yet */
};

struct gpu_exec {
	struct rlx_exec		 base;
	void			*stream;
	uint64_t		 work, stage, table, bad;	/* device memory */
	unsigned char		*image;
	struct gpu_slot		*slot;
	struct gpu_part		*part;
	uint32_t		 n_part;
	struct gpu_range	*work_range;	/* of exec->work, to copy faster */
	uint64_t		 captured_skip;	/* hash of exec->skip when captured */
	bool			 changed;	/* some slot is */
	struct rlx_tensor	*tensors;
};

static inline struct gpu_device *gpu_device_of(const struct rlx_code *code)
{
	return (struct gpu_device *)code->dev;
}

/* gpu.c: what the driver said, as a status; 0 is RLX_OK. @what: "copying in" */
enum rlx_status gpu_check(struct gpu_device *d, int rc, const char *what,
			  struct rlx_error *err);
/* Make the device's context that of this thread; RLX_ELOST if it failed before. */
enum rlx_status gpu_enter(struct gpu_device *d, struct rlx_error *err);

void gpu_close(struct rlx_device *dev);
void gpu_target(const struct rlx_device *dev, struct rlx_target *t);

/* mem.c */
enum rlx_status gpu_mem_new(struct gpu_device *d, uint64_t bytes, uint64_t *out,
			    struct rlx_error *err);
void gpu_mem_free(struct gpu_device *d, uint64_t at);
/*
 * Bytes of host memory that stay as they are, resident on the device: shared by all
 * who ask with the same address and size. @blob: keeps them alive, may be NULL.
 */
enum rlx_status gpu_weight_get(struct gpu_device *d, const void *p, uint64_t bytes,
			       struct rlx_blob *blob, struct gpu_weight **out,
			       struct rlx_error *err);
/* The host's bytes have changed: bring them over again. */
enum rlx_status gpu_weight_renew(struct gpu_device *d, struct gpu_weight *w,
				 struct rlx_error *err);
uint64_t gpu_weight_at(const struct gpu_weight *w);
void gpu_weight_put(struct gpu_device *d, struct gpu_weight *w);
/* Register an arena once for all sessions. NULL: it cannot be; then it is copied. */
struct gpu_range *gpu_range_get(struct gpu_device *d, struct rlx_arena *a);
/* Device address of a byte of the arena; 0: kernels cannot use it in place. */
uint64_t gpu_range_at(const struct gpu_range *r, const void *p);
void gpu_range_put(struct gpu_device *d, struct gpu_range *r);

/* A kernel: function rlx_g_@name of the module that @source makes with @key. */
struct gpu_kernel {
	const char	*name, *source;
	const int32_t	*key;		/* four: RLX_K0 .. RLX_K3 */
};
/* module.c: compiled, or found in the cache, and loaded */
enum rlx_status gpu_function_get(struct gpu_device *d, const struct gpu_kernel *k,
				 void **out, struct rlx_error *err);
void gpu_modules_free(struct gpu_device *d);

/* source.c: text of kernels/gpu/<name>; NULL: there is none */
const char *gpu_source(const char *name);
unsigned int gpu_headers(const char *const **names, const char *const **texts);

/* lower.c */
struct gpu_lower {
	struct rlx_lower	 base;
	uint8_t			*where;		/* per value: where its storage is right */
	uint8_t			*saved;		/* the same when the step began */
	uint32_t		*writer;	/* per value: step that wrote it last */
	uint32_t		 calls, relocs;	/* when the step began */
	uint64_t		 kept;
	bool			 dry;		/* only asking whether it can */
};

static inline struct gpu_device *gpu_of(const struct rlx_lower *lo)
{
	return gpu_device_of(lo->code);
}

static inline struct gpu_lower *gpu_lower_of(struct rlx_lower *lo)
{
	return (struct gpu_lower *)lo;
}

/* Write what holes of the staged arguments can hold by now. */
enum rlx_status gpu_fill_holes(struct rlx_lower *lo);
/* Append a launch of @fn, which reads the staged arguments. */
enum rlx_status gpu_call(struct rlx_lower *lo, void *fn, const struct rlx_g_launch *l);
rlx_lower_fn *gpu_lowering(unsigned int index);
enum rlx_can gpu_can(const struct rlx_device *dev, const struct rlx_infer *q);
enum rlx_status gpu_compile(struct rlx_code *code, uint32_t flags, struct rlx_error *err);
void gpu_release(struct rlx_code *code);

#define LOWER(op) rlx_lower_fn gpu_lower_##op;
#include "backends/gpu/lower.def"
#undef LOWER

/* exec.c */
enum rlx_status gpu_init(struct rlx_exec *exec);
void gpu_fini(struct rlx_exec *exec);
void gpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
enum rlx_status gpu_run(struct rlx_exec *exec);

/* A vendor's struct rlx_backend: what must know the vendor, and the rest. */
#define GPU_BACKEND(v)							\
	static unsigned int v##_probe(struct rlx_dev_info *info, unsigned int max) \
	{								\
		return gpu_probe(&v, info, max);			\
	}								\
	static const char *v##_why(void)				\
	{								\
		return gpu_why(&v);					\
	}								\
	static enum rlx_status v##_open(struct rlx_device *dev, struct rlx_error *err) \
	{								\
		return gpu_open(&v, dev, err);				\
	}								\
	RLX_EXPORT const struct rlx_backend rlx_backend_##v = {		\
		.abi = RLX_BACKEND_ABI, .name = #v,			\
		.device_size = sizeof(struct gpu_device),		\
		.code_size = sizeof(struct gpu_code),			\
		.exec_size = sizeof(struct gpu_exec),			\
		.probe = v##_probe, .why = v##_why,			\
		.open = v##_open, .close = gpu_close,			\
		.target = gpu_target, .can = gpu_can,			\
		.compile = gpu_compile, .release = gpu_release,		\
		.init = gpu_init, .fini = gpu_fini, .bind = gpu_bind,	\
		.run = gpu_run,						\
	}

#endif
