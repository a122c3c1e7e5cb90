/* SPDX-License-Identifier: MIT */
/*
 * The Vulkan backend's own objects. Kernels reach all memory by address: argument structs of
 * all calls lie in one image, whose relocations a session fills in with its addresses, and a
 * dispatch pushes where its struct is. Nothing of Vulkan is linked: the loader is opened when
 * a device is asked for.
 *
 * A program's memory is the caller's: arenas are imported by the driver (windows) and used in
 * place, the workspace as well, so that the reference evaluator works on the same bytes. What
 * cannot be imported is staged, copied by the host and counted. Of a discrete device, whose
 * memory is its own, kernels use that, and windows are where copies come from and go to.
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
	bool	coopmat, coopmat_bf16;	/* fragments of VK_FRAGMENT in each direction */
	bool	signed_zero[2];		/* f32, f64: kernels may ask that zeros keep signs */
	bool	f16;		/* and that f16 is rounded to nearest even, and never flushed */
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
	uint64_t			 host_align, most_buffer, most_turns;
	uint32_t			 subgroup, family;
	char				 pci[32];
	struct vk_has			 has;
};

struct vk_driver {
	void			*lib;
	VkInstance		 instance;
	PFN_vkGetInstanceProcAddr get;
	struct vk_instance_api	 api;
	struct vk_physical	 device[VK_MOST_DEVICES];
	unsigned int		 devices;
	char			 why[VK_WHY];	/* there is none */
};

/* Made when first asked for, and kept. NULL: *@why says why; also where no device is of use. */
const struct vk_driver *vk_driver_get(const char **why);
/*
 * Of a device that has the extension, as @p->has says: does it let compute pipelines ask for
 * subgroups of its usual size, and for whole ones? If not, @p has nothing of the kind.
 */
void vk_subgroup_size_find(const struct vk_driver *d, struct vk_physical *p);
const char *vk_result_name(VkResult r);

/* ---- device.c ---- */

struct vk_block;
struct vk_weight;
struct vk_window;
struct vk_pipeline;

/* A timeline of one user's, and what its last submission raises it to. */
struct vk_line {
	VkSemaphore	timeline;
	uint64_t	point;
};

/* Memory that host and device see, out of a block shared with others; 64-byte aligned. */
struct vk_span {
	struct vk_block	*block;
	uint64_t	 at, bytes;
	char		*map;		/* NULL: it is the device's alone */
};

/* How bytes come to memory that is the device's alone: transfer.c */
struct vk_upload {
	pthread_mutex_t	lock;
	struct vk_line	line;
	VkCommandPool	pool;
	VkCommandBuffer	commands;	/* NULL: nothing was added */
	struct vk_span	stage;
	uint64_t	used;		/* of the stage */
};

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
	bool				 discrete;	/* its memory is not the host's */
	pthread_mutex_t			 queue_lock;	/* around submissions */
	pthread_mutex_t			 lock;		/* guards the lists */
	struct vk_block			*blocks;
	struct vk_weight		*weights;
	struct vk_window		*windows;
	struct vk_pipeline		*pipelines;
	struct vk_upload		 upload;
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

/* ---- queue.c: submissions ---- */

enum rlx_status vk_line_new(struct vk_device *d, struct vk_line *l, struct rlx_error *err);
void vk_line_free(struct vk_device *d, struct vk_line *l);
enum rlx_status vk_line_submit(struct vk_device *d, struct vk_line *l, const VkCommandBuffer *c,
			       uint32_t n, struct rlx_error *err);
/* Until what was submitted last has ended, also if that fails; RLX_ETIME: it goes on. */
enum rlx_status vk_line_wait(struct vk_device *d, const struct vk_line *l, uint64_t timeout_ns,
			     struct rlx_error *err);
/* A pool, and a command buffer of it that is being recorded; NULL after a failure. */
VkResult vk_pool_new(struct vk_device *d, VkCommandPool *out);
VkResult vk_commands_begin(struct vk_device *d, VkCommandPool pool, VkCommandBuffer *out);

/* ---- memory.c: the driver's memory ---- */

/* What memory is for; all the same where host and device share theirs. */
enum vk_where {
	VK_SHARED,	/* the host writes, kernels read */
	VK_STAGING,	/* copied from and to; the host reads it fast */
	VK_LOCAL,	/* kernels' alone */
};

/* Bytes of a buffer from @off on, and their address on the device; 0: there is none. */
struct vk_region {
	VkBuffer	 buf;
	uint64_t	 off, at;
};

/* Bytes [from, from + bytes) of an arena, or memory of the driver's, mapped at @map. */
struct vk_piece {
	VkDeviceMemory	 mem;
	VkBuffer	 buf;
	uint64_t	 from, bytes, at;
	char		*map;
	enum vk_where	 where;		/* set before it is made */
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

enum rlx_status vk_span_new(struct vk_device *d, enum vk_where where, uint64_t bytes,
			    struct vk_span *out, struct rlx_error *err);
struct vk_region vk_span_region(const struct vk_span *s);
/*
 * For tests on devices that are processors: each span has pages of its own, and what is beyond
 * its end (before its start) is no memory, so that a kernel that goes there ends the process.
 * All that is bound is staged then.
 */
enum vk_guard { VK_GUARD_NONE, VK_GUARD_END, VK_GUARD_START };
extern enum vk_guard vk_guard;
void vk_span_free(struct vk_device *d, struct vk_span *s);

/*
 * A constant, or a param, on the device once for all programs. It is there when it was loaded;
 * what no blob keeps as it is is loaded anew for each who gets it.
 */
enum rlx_status vk_weight_get(struct vk_device *d, const void *p, uint64_t bytes,
			      struct rlx_blob *blob, struct vk_weight **out,
			      struct rlx_error *err);
/* Those of @n that are not NULL. */
enum rlx_status vk_weights_load(struct vk_device *d, struct vk_weight **w, uint32_t n,
				struct rlx_error *err);
uint64_t vk_weight_at(const struct vk_weight *w);
/* Are its bytes there, and not to be uploaded again? */
bool vk_weight_is_here(struct vk_device *d, const struct vk_weight *w);
void vk_weight_put(struct vk_device *d, struct vk_weight *w);
void vk_memory_free(struct vk_device *d);

/* ---- window.c: arenas on the device ---- */

/* Shared by all who ask for the arena, which it keeps. NULL: out of memory. */
struct vk_window *vk_window_get(struct vk_device *d, struct rlx_arena *a);
/*
 * Where the device has @bytes at @p of the arena, imported now if they are not yet, and until
 * the window is put. Address 0: it cannot have them in place; @why says why.
 */
struct vk_region vk_window_at(struct vk_device *d, struct vk_window *w, const void *p,
			      uint64_t bytes, char why[VK_WHY]);
bool vk_window_is_of(const struct vk_window *w, const struct rlx_arena *a);
void vk_window_put(struct vk_device *d, struct vk_window *w);

/* ---- pipeline.c ---- */

/* All kernels have the constant VK_HAS_F16: kernels/vulkan/lib.glsl. */
enum { VK_MOST_SPEC = 17, VK_HAS_F16 = VK_MOST_SPEC };

/* A kernel as it is compiled: SPIR-V, and its specialization constants from 0 on. */
struct vk_kernel {
	const char	*name;
	const uint32_t	*code;
	size_t		 words;
	uint32_t	 spec[VK_MOST_SPEC], n_spec;
	double		 turns;		/* struct vk_launch */
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

/* ---- coopmat.c ---- */

/* @VK_COOPMAT_TYPE: which of such a kernel's parameters is the dtype of A and B */
enum { VK_FRAGMENT = 16, VK_COOPMAT_TYPE = 6 };
#define VK_COOPMAT	"VK_KHR_cooperative_matrix"
#define VK_BFLOAT16	"VK_KHR_shader_bfloat16"

/* What the driver is told to switch on, which headers have since 1.3.255, and 1.4.319. */
struct vk_coopmat_features {
	VkStructureType	type;
	void		*next;
	VkBool32	on, robust;
};
struct vk_bfloat16_features {
	VkStructureType	type;
	void		*next;
	VkBool32	on, dot, coopmat;
};
#define VK_COOPMAT_FEATURES	((VkStructureType)1000506000)
#define VK_BFLOAT16_FEATURES	((VkStructureType)1000141000)

/* Does the device, which has the extension, multiply such fragments of f16, bf16 into f32? */
void vk_coopmat_find(const struct vk_driver *d, VkPhysicalDevice pd, bool *f16, bool *bf16);
/* Is a module written for NV's extension? Then what it is for KHR's; NULL: out of memory. */
bool vk_coopmat_is(const uint32_t *w, size_t words);
uint32_t *vk_coopmat_text(const uint32_t *w, size_t words, bool bf16, size_t *out_words);

/* ---- launches: launch.c ---- */

/*
 * How a kernel takes its arguments. @can false: not at all, @why says why. @groups 0: there is
 * nothing to do. Kernels stride over their work, so there may be fewer groups than it has parts.
 */
struct vk_launch {
	const char	*name;
	uint32_t	 spec[VK_MOST_SPEC], n_spec;
	uint64_t	 groups;
	/* At most so many turns of loops for each part of the work; unrolled ones are none. */
	double		 turns;
	uint32_t	 subgroup;	/* the device's */
	uint32_t	 most_threads;	/* in a group */
	uint32_t	 units;		/* a GPU's, or a guess; 0: it is a processor */
	bool		 coopmat, coopmat_bf16;	/* it has cooperative matrices of f16, bf16 */
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
	uint32_t		transfer, n_fetch, n_upload;	/* of a host's step: vk_code.transfer */
	VkPipeline		pipeline;
};

/* Of an input, param or output. */
struct vk_io {
	uint32_t		writer;		/* 1 + a step whose kernel writes there; 0: none */
	bool			used;		/* by a kernel */
	bool			on_host;	/* input: a step of the host's reads it */
};

struct vk_code {
	struct rlx_code		 base;
	struct rlx_calls	 calls;		/* struct vk_call */
	struct rlx_bump		 bump;
	unsigned char		*persistent;		/* tables, and where the device has them */
	uint64_t		 n_persistent, cap_persistent;
	struct vk_span		 persistent_at;
	struct vk_weight	**weight;	/* per constant; NULL: not needed */
	uint32_t		 n_bad;
	uint64_t		 host_at;	/* scratch of host steps, in exec->work */
	struct vk_io		*io;		/* by slot */
	uint32_t		*transfer;		/* values; discrete: what a host's step reads, writes */
	uint32_t		 n_transfer, cap_transfer;
	uint32_t		 most_tensors;
};

struct vk_lower {
	struct rlx_lower	 base;
	uint64_t		 persistent;		/* when the step began */
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
	struct vk_region	 host;		/* address 0: not bound */
	struct vk_span		 stage;		/* where it cannot be in place */
	bool			 changed;	/* bound since the last run */
	/* discrete: what kernels use, a copy of what is bound */
	struct vk_span		 local;
	struct vk_weight	*weight;	/* of a param */
	bool			 persistent;		/* of a pair that stays there */
	bool			 fresh;		/* kept input: what is bound is still to be uploaded */
	/* Of an input (struct rlx_content): the version in @local, and the last one uploaded */
	uint64_t		 version, uploaded;
	bool			 apart;		/* input: no output takes its place */
	bool			 moved;		/* input: exec->in brings it */
};

/* Dispatches between two steps of the host. */
struct vk_segment {
	uint32_t	first, end;	/* calls; empty: a step of the host's alone */
	VkCommandBuffer	commands;	/* of a step of the host's: before it, and after */
	VkCommandBuffer	upload;
};

/* Command buffers that go to the queue together. */
enum { VK_MOST_BATCH = 8 };

struct vk_exec {
	struct rlx_exec		 base;
	VkCommandBuffer		 batch[VK_MOST_BATCH];
	uint32_t		 n_batch;
	VkCommandPool		 pool;
	struct vk_line		 line;
	uint64_t		 runs;
	bool			 pending;	/* the last run is for wait to end */
	struct vk_span		 image, status;
	struct vk_slot		*slot[3], work;
	struct vk_segment	*segment;
	uint32_t		 n_segment;
	bool			 recorded, timed, staged;
	bool			 changed;	/* some slot */
	uint8_t			*skip;		/* as recorded */
	struct rlx_extent	 extent;
	struct rlx_tensor	*tensors;
	/* discrete */
	VkCommandPool		 copies;
	VkCommandBuffer		 in, out;	/* before a run and after it; NULL: nothing */
	struct rlx_transfers	 each;		/* what these move */
	bool			 moves;		/* @copies are as things are, but for inputs' .moved */
	struct vk_weight	**params;
};

enum rlx_status vk_init(struct rlx_exec *exec);
void vk_fini(struct rlx_exec *exec);
void vk_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
enum rlx_status vk_submit(struct rlx_exec *exec, bool away, uint64_t *out_point);
enum rlx_status vk_wait(struct rlx_exec *exec, uint64_t point, int64_t timeout_ns);

/* Is plan step @step left out of the run? */
static inline bool vk_skips(const struct vk_exec *x, uint32_t step)
{
	return x->base.skip && x->base.skip[step];
}

/* @bytes crossed. */
static inline void vk_count(struct rlx_transfers *t, bool in, uint64_t bytes)
{
	t->in += in;
	t->in_bytes += in ? bytes : 0;
	t->out += !in;
	t->out_bytes += in ? 0 : bytes;
}

/* Before the code is emitted: which call needs which. */
void vk_find_dependences(struct vk_code *c);
/* @c comes next, if it is one; with others, and at the latest when the run waits. */
enum rlx_status vk_enqueue(struct vk_exec *x, VkCommandBuffer c);
/* Until all of that has ended; did a kernel meet bad data? */
enum rlx_status vk_settle(struct vk_exec *x);
/* Commands for all segments, anew. */
enum rlx_status vk_record(struct vk_exec *x);
/* Reach @bytes at @p, in place or by a copy. */
enum rlx_status vk_reach(struct vk_exec *x, struct vk_slot *s, struct rlx_arena *a, void *p,
			 uint64_t bytes, struct rlx_error *err);
/* Kernels find slot @slot at @address. */
void vk_at_slot(struct vk_exec *x, uint32_t slot, uint64_t address);

/* ---- transfer.c: to memory that is the device's alone, and back ---- */

/* The upload's lock is held; what was added is there when it has ended. */
enum rlx_status vk_upload_add(struct vk_device *d, const struct vk_span *to, const void *from,
			      uint64_t bytes, struct rlx_error *err);
enum rlx_status vk_upload_end(struct vk_device *d, struct rlx_error *err);
/* The same for one. */
enum rlx_status vk_upload(struct vk_device *d, const struct vk_span *to, const void *from,
			  uint64_t bytes, struct rlx_error *err);
void vk_upload_free(struct vk_device *d);

/*
 * Before a run: what was bound since the last is reached; on a discrete device params are
 * uploaded, and copies recorded. What fails is tried again by the next run.
 */
enum rlx_status vk_take_changes(struct vk_exec *x);
/* Has a run uploaded its inputs? Then what is kept is not uploaded again. */
void vk_took_inputs(struct vk_exec *x, bool all);
/* Bytes [@at, @at + @bytes) of a buffer by the host, if the driver cannot reach it. */
void vk_stage(struct vk_exec *x, enum rlx_io io, uint32_t i, uint64_t at, uint64_t bytes,
	      bool in);
/* Around a run: all that a discrete device's copies take from there, and bring there. */
void vk_stage_inputs(struct vk_exec *x);
void vk_stage_outputs(struct vk_exec *x);
/* Before a step of the host's, for which the device has ended all; and behind it. */
enum rlx_status vk_fetch_operands(struct vk_exec *x, const struct vk_segment *s);
enum rlx_status vk_upload_results(struct vk_exec *x, const struct vk_segment *s);

/* May these values share bytes? An output may lie where the input that it replaces does. */
bool vk_overlaps(const struct rlx_plan *p, uint32_t a, uint32_t b);

/* An output that stays as the input it replaces: struct rlx_backend */
bool vk_keep(struct rlx_exec *exec, unsigned int i, bool on);
enum rlx_status vk_fetch(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
bool vk_has(const struct rlx_exec *exec, enum rlx_io io, unsigned int i);

/* ---- residency.c: when compiling, what a run will have to move ---- */

enum rlx_status vk_find_crossing(struct vk_code *c, struct rlx_error *err);

#endif
