/* SPDX-License-Identifier: MIT */
/*
 * The Vulkan backend's own objects. Kernels reach all memory by address: argument structs of
 * all calls lie in one image, whose relocations a session fills in with its addresses, and a
 * dispatch pushes where its struct is. Nothing of Vulkan is linked: the loader is opened when
 * a device is asked for.
 *
 * A program's memory is the caller's: arenas are imported by the driver (windows) and used in
 * place, the workspace as well, so that the reference evaluator works on the same bytes. What
 * cannot be imported is staged, copied by the host and counted.
 */
#ifndef RLX_BACKENDS_VULKAN_H
#define RLX_BACKENDS_VULKAN_H

#define VK_NO_PROTOTYPES
#include <pthread.h>
#include <stdatomic.h>
#include <vulkan/vulkan.h>

#include "backends/common/extent.h"
#include "plan/plan.h"

/* ---- instance.c: the loader, and which devices can be used ---- */

struct vk_instance_api {
#define GLOBAL(n)	PFN_vk##n n;
#define INST(n)		PFN_vk##n n;
#define DEV(n)
#include "backends/vulkan/vk.def"
#undef GLOBAL
#undef INST
#undef DEV
};

struct vk_device_api {
#define GLOBAL(n)
#define INST(n)
#define DEV(n)		PFN_vk##n n;
#include "backends/vulkan/vk.def"
#undef GLOBAL
#undef INST
#undef DEV
};

enum { VK_MOST_DEVICES = 16, VK_WHY = 224 };

/* What a device can that not all can. */
struct vk_has {
	bool	external_host, pci, subgroup_size, sm_count;
	bool	signed_zero[2];		/* f32, f64: kernels may ask that zeros keep signs */
};

struct vk_physical {
	VkPhysicalDevice		 pd;
	VkPhysicalDeviceProperties	 props;
	VkPhysicalDeviceMemoryProperties memory;
	VkPhysicalDeviceIDProperties	 id;
	VkDriverId			 driver;
	char				 driver_text[64];
	int				 driver_number;	/* 580.159.4 is 580159004 */
	uint32_t			 units;		/* 0: not known */
	uint64_t			 host_align, most_buffer;
	uint32_t			 subgroup, family;
	char				 pci[32];
	struct vk_has			 has;
};

struct vk_driver {
	void			*lib;
	VkInstance		 instance;
	struct vk_instance_api	 api;
	struct vk_physical	 device[VK_MOST_DEVICES];
	unsigned int		 devices;
	char			 why[VK_WHY];	/* there is none */
};

/* Made when first asked for, and kept. NULL: *@why says why; also where no device is of use. */
const struct vk_driver *vk_driver_get(const char **why);
const char *vk_result_name(VkResult r);

/* ---- device.c ---- */

struct vk_block;
struct vk_weight;
struct vk_window;
struct vk_pipeline;

struct vk_device {
	struct rlx_device		 base;
	const struct vk_driver		*driver;
	const struct vk_physical	*is;
	struct vk_device_api		 api;
	VkDevice			 dev;
	VkQueue				 queue;
	VkPipelineLayout		 layout;
	VkPipelineCache			 cache;
	uint64_t			 cached;	/* bytes of it that the disk has */
	atomic_bool			 lost;
	pthread_mutex_t			 queue_lock;	/* around submissions */
	pthread_mutex_t			 lock;		/* guards the lists */
	struct vk_block			*blocks;
	struct vk_weight		*weights;
	struct vk_window		*windows;
	struct vk_pipeline		*pipelines;
};

/* What the driver said, as a status; VK_SUCCESS is RLX_OK. @what: "importing memory" */
enum rlx_status vk_check(struct vk_device *d, VkResult r, const char *what,
			 struct rlx_error *err);
/* RLX_ELOST if it failed before. */
enum rlx_status vk_alive(struct vk_device *d, struct rlx_error *err);
enum rlx_status vk_open(struct rlx_device *dev, struct rlx_error *err);
void vk_close(struct rlx_device *dev);

static inline struct vk_device *vk_device_of(const struct rlx_code *code)
{
	return (struct vk_device *)code->dev;
}

/* ---- memory.c: the driver's memory ---- */

/* Bytes [from, from + bytes) of an arena, or memory of the driver's, mapped at @map. */
struct vk_piece {
	VkDeviceMemory	 mem;
	VkBuffer	 buf;
	uint64_t	 from, bytes, at;
	char		*map;
};

/* What the import of memory is told. */
struct vk_import {
	VkExternalMemoryHandleTypeFlagBits	handle;
	const void				*how;	/* chained to the allocation */
	uint32_t				types;	/* that the handle allows */
};

/* @p->bytes of it, imported or, @in NULL, new and mapped. A failure leaves nothing. */
VkResult vk_piece_new(struct vk_device *d, struct vk_piece *p, const struct vk_import *in);
/* The same of the host's memory, which the driver imports. */
VkResult vk_piece_import(struct vk_device *d, struct vk_piece *p, void *at);
void vk_piece_free(struct vk_device *d, struct vk_piece *p);

/* Memory that host and device see, out of a block shared with others; 64-byte aligned. */
struct vk_span {
	struct vk_block	*block;
	uint64_t	 at, bytes;
	char		*map;
};
enum rlx_status vk_span_new(struct vk_device *d, uint64_t bytes, struct vk_span *out,
			    struct rlx_error *err);
/*
 * For tests on devices that are processors: each span has pages of its own, and what is beyond
 * its end (before its start) is no memory, so that a kernel that goes there ends the process.
 * All that is bound is staged then.
 */
enum vk_guard { VK_GUARD_NONE, VK_GUARD_END, VK_GUARD_START };
extern enum vk_guard vk_guard;
void vk_span_free(struct vk_device *d, struct vk_span *s);

/* A constant on the device, once for all programs. */
enum rlx_status vk_weight_get(struct vk_device *d, const void *p, uint64_t bytes,
			      struct rlx_blob *blob, struct vk_weight **out,
			      struct rlx_error *err);
uint64_t vk_weight_at(const struct vk_weight *w);
void vk_weight_put(struct vk_device *d, struct vk_weight *w);
void vk_memory_free(struct vk_device *d);

/* ---- window.c: arenas on the device ---- */

/* Shared by all who ask for the arena, which it keeps. NULL: out of memory. */
struct vk_window *vk_window_get(struct vk_device *d, struct rlx_arena *a);
/*
 * Where the device has @bytes at @p of the arena, imported now if they are not yet, and until
 * the window is put. 0: it cannot have them in place; vk_window_why() says why.
 */
uint64_t vk_window_at(struct vk_device *d, struct vk_window *w, const void *p, uint64_t bytes);
const char *vk_window_why(const struct vk_window *w);
void vk_window_put(struct vk_device *d, struct vk_window *w);

/* ---- pipeline.c ---- */

enum { VK_MOST_SPEC = 12 };

/* A kernel as it is compiled: SPIR-V, and its specialization constants from 0 on. */
struct vk_kernel {
	const char	*name;
	const uint32_t	*code;
	size_t		 words;
	uint32_t	 spec[VK_MOST_SPEC], n_spec;
};

/* The kernel of kernels/vulkan/<name>.comp; false: there is none. */
bool vk_kernel_find(const char *name, struct vk_kernel *out);
/* Compiled once for all who ask alike, and kept until the device is closed. */
enum rlx_status vk_pipeline_get(struct vk_device *d, const struct vk_kernel *k, VkPipeline *out,
				struct rlx_error *err);
void vk_pipelines_free(struct vk_device *d);
/* The driver's cache, from disk and back: disk.c */
void vk_cache_load(struct vk_device *d);
void vk_cache_store(struct vk_device *d);

/* ---- launches: launch.c ---- */

/*
 * How a kernel takes its arguments. @can false: not at all, @why says why. @groups 0: there is
 * nothing to do. Kernels stride over their work, so there may be fewer groups than it has parts.
 */
struct vk_launch {
	const char	*name;
	uint32_t	 spec[VK_MOST_SPEC], n_spec;
	uint64_t	 groups;
	uint32_t	 subgroup;	/* the device's */
	bool		 can;
	const char	*why;
};
typedef void vk_launch_fn(const void *args, struct vk_launch *l);
/* NULL: no kernel here */
vk_launch_fn *vk_launch_of(enum rlx_kernel_id id);

/* ---- lower.c, pointwise.c ---- */

struct vk_call {
	struct rlx_call		base;
	uint8_t			kind;		/* enum rlx_call_kind: KERNEL or HOST */
	uint32_t		bad;		/* index of its status word + 1; 0: none */
	uint32_t		groups;
	uint32_t		after;		/* 1 + the last call that it needs; 0: none */
	VkPipeline		pipeline;
};

struct vk_code {
	struct rlx_code		 base;
	struct rlx_calls	 calls;		/* struct vk_call */
	struct rlx_bump		 bump;
	unsigned char		*kept;		/* tables, and where the device has them */
	uint64_t		 n_kept, cap_kept;
	struct vk_span		 kept_at;
	struct vk_weight	**weight;	/* per constant; NULL: not needed */
	uint32_t		 n_bad;
	uint64_t		 host_at;	/* scratch of host steps, in exec->work */
	uint32_t		 most_tensors;
};

struct vk_lower {
	struct rlx_lower	 base;
	uint64_t		 kept;		/* when the step began */
};

static inline struct vk_call *vk_calls(const struct vk_code *c)
{
	return c->calls.call;
}

#define LOWER(op) rlx_lower_fn vk_lower_##op;
#include "backends/vulkan/lower.def"
#undef LOWER

/* Append a dispatch of the staged arguments. */
enum rlx_status vk_call_kernel(struct rlx_lower *lo, const struct vk_kernel *k, uint64_t groups);
bool vk_supports(const struct rlx_device *dev, const struct rlx_infer *q, struct rlx_error *why);
enum rlx_status vk_compile(struct rlx_code *code, uint32_t flags, struct rlx_error *err);
void vk_release(struct rlx_code *code);

/* ---- exec.c, record.c ---- */

/* How a run reaches one buffer. */
struct vk_slot {
	struct vk_window	*window;
	uint64_t		 at;		/* 0: not bound */
	struct vk_span		 stage;		/* where it cannot be in place */
};

/* Dispatches between two steps of the host. */
struct vk_segment {
	uint32_t	first, end;	/* calls; empty: a step of the host's alone */
	VkCommandBuffer	commands;
};

struct vk_exec {
	struct rlx_exec		 base;
	VkCommandPool		 pool;
	VkSemaphore		 timeline;
	uint64_t		 point;		/* of the last submission */
	uint64_t		 runs;
	bool			 pending;	/* the last run is for wait to end */
	struct vk_span		 image;		/* behind it the status words */
	struct vk_slot		*slot[3], work;
	struct vk_segment	*segment;
	uint32_t		 n_segment;
	bool			 recorded, timed, staged;
	uint8_t			*skip;		/* as recorded */
	struct rlx_extent	 extent;
	struct rlx_tensor	*tensors;
};

static inline uint64_t vk_bad_at(const struct vk_code *c)
{
	return rlx_align64(c->calls.n_args);
}

enum rlx_status vk_init(struct rlx_exec *exec);
void vk_fini(struct rlx_exec *exec);
void vk_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
enum rlx_status vk_submit(struct rlx_exec *exec, bool away, uint64_t *out_point);
enum rlx_status vk_wait(struct rlx_exec *exec, uint64_t point, int64_t timeout_ns);

/* Before the code is emitted: which call needs which. */
void vk_find_dependences(struct vk_code *c);
/* Commands for all segments, anew. */
enum rlx_status vk_record(struct vk_exec *x);

#endif
