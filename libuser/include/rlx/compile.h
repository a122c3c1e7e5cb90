/* SPDX-License-Identifier: MIT */
/* From a finished graph to an immutable program for one device. */
#ifndef RLX_COMPILE_H
#define RLX_COMPILE_H

#include "rlx/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rlx_program;
struct rlx_store;

/**
 * enum rlx_precision - what float ops compute in.
 * @RLX_PRECISION_AS_WRITTEN: the graph's own dtypes
 * @RLX_PRECISION_BF16:       matmul, conv and attention take bf16 and accumulate
 *                            in f32; everything else stays as written
 * @RLX_PRECISION_MIXED_BF16: bf16 between ops too; reductions accumulate in f32
 * @RLX_PRECISION_F16, @RLX_PRECISION_MIXED_F16: the same with f16
 * @RLX_PRECISION_TF32:       matmul of f32 may round what it takes to 10 bits of
 *                            fraction, and accumulates in f32, where the device's
 *                            tensor cores do that (NVIDIA's); elsewhere as written
 *
 * Inputs, outputs and params keep their dtypes under each of them; indices and
 * integers are never touched.
 */
enum rlx_precision {
	RLX_PRECISION_AS_WRITTEN,
	RLX_PRECISION_BF16,
	RLX_PRECISION_MIXED_BF16,
	RLX_PRECISION_F16,
	RLX_PRECISION_MIXED_F16,
	RLX_PRECISION_TF32,
};

/* What the compiler may leave out or must not do. */
enum rlx_compile_flags {
	RLX_COMPILE_NO_FUSE	= 1u << 0,	/* no regions, no fused ops */
	RLX_COMPILE_NO_SIMPLIFY	= 1u << 1,	/* the graph as built */
	RLX_COMPILE_NATIVE	= 1u << 2,	/* an op without a native kernel is an error */
	RLX_COMPILE_EXPLAIN	= 1u << 3,	/* keep what was weighed, for rlx explain */
	RLX_COMPILE_TUNE	= 1u << 4,	/* measure kernels; kept for the device */
	RLX_COMPILE_EXPERTS	= 1u << 5,	/* which experts were chosen, as outputs */
	RLX_COMPILE_PLACE	= 1u << 6,	/* sessions say where experts lie: rlx/moe.h */
	RLX_COMPILE_STRICT_BITS	= 1u << 7,	/* the same bits everywhere: docs/strict-bits.md */
};

/**
 * struct rlx_compile_opts - zero means the default everywhere.
 * @size:      sizeof(struct rlx_compile_opts), so that it may grow
 * @device:    "cpu", "cuda:1", a name of rlx_device_list(). NULL: what RLX_DEVICE names, or
 *             the first of RLX_DEVICE (a list) or RLX_DEVICE_CHAIN that there is and that
 *             can run the graph; "cpu" where neither is set (rlx/devices.h)
 * @threads:   worker threads of the device, the caller included; 0: all allowed. They
 *             run where the calling thread may run, as on one node of memory; programs
 *             of the same number and processors share them. Nothing to a GPU
 * @precision: see enum rlx_precision
 * @flags:     of enum rlx_compile_flags
 *             RLX_COMPILE_EXPERTS: behind the graph's outputs stand "experts.0", "experts.1" and
 *             so on, for each choice of matrices that grouped products (grouped_matmul,
 *             dequant_grouped_matmul, scaled_grouped_matmul) make, in their order: layer by
 *             layer. It is what chose, as topk made it, i64[batch, sequence, chosen] of a model
 *             out of a GGUF file; rlx_session_get() reads what the last run chose. Not of
 *             products in the bodies of control flow. RLX_EEXIST if the graph has such a name
 *             RLX_COMPILE_STRICT_BITS, or the environment's RLX_STRICT_BITS=1: what a row of a
 *             batch gives has the same bits alone and among others, by any number of threads
 *             and on each processor that has FMA. Ops as they are written alone
 *             (RLX_EINVAL under another precision), on backends that promise it (RLX_ENOSUP;
 *             cuda gives the CPU's bits or names the op that it does otherwise)
 *             RLX_COMPILE_PLACE: weights of experts stay in host memory, and each session says
 *             which of them its device has: rlx/moe.h
 * @store:     where prepared weights are looked for and put, see rlx/store.h;
 *             referenced by the program. NULL: memory of the process
 * @dump:      called after each pass with the graph as it then is, not with the bodies
 *             of control flow; may be NULL
 */
struct rlx_compile_opts {
	size_t		 size;
	const char	*device;
	unsigned int	 threads;
	enum rlx_precision precision;
	uint32_t	 flags;
	void		(*dump)(void *ctx, const char *pass,
				const struct rlx_graph *g);
	void		*dump_ctx;
	struct rlx_store *store;
};

/**
 * rlx_compile - compile @g for a device.
 * @g:    finished; referenced, not changed
 * @opts: NULL for the defaults
 *
 * Where the device has kernels of an op for wider floats alone, its inputs are converted
 * to them and its results rounded to the dtypes that the graph gives. What has no kernel at
 * all runs by the reference evaluator, slowly; a line of rlx/log.h says so.
 *
 * Context: any thread; allocates. The program may be shared by threads.
 * Ownership: one reference to *@out is the caller's (rlx_program_put()).
 * Return: RLX_ENODEV (no such device), RLX_ENOSUP (an op nobody can run, or not
 * natively under RLX_COMPILE_NATIVE), RLX_EINVAL (a store for another device; an unknown
 * precision or flag; no opts.size), RLX_ENOMEM, or the graph's own error.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_compile(struct rlx_graph *g, const struct rlx_compile_opts *opts,
	    struct rlx_program **out, struct rlx_error *err);

RLX_EXPORT struct rlx_program *rlx_program_get(struct rlx_program *p);
RLX_EXPORT void rlx_program_put(struct rlx_program *p);

/* Inputs, params, outputs and states of a program, in the graph's order. */
RLX_EXPORT unsigned int rlx_program_io_count(const struct rlx_program *p,
					     enum rlx_io io);
RLX_EXPORT const char *rlx_program_io_name(const struct rlx_program *p,
					   enum rlx_io io, unsigned int i);
RLX_EXPORT const struct rlx_type *rlx_program_io_type(const struct rlx_program *p,
						      enum rlx_io io, unsigned int i);
/* Index of a name, -1 if there is none. */
RLX_EXPORT int rlx_program_io_find(const struct rlx_program *p, enum rlx_io io,
				   const char *name);

/**
 * struct rlx_program_info - what compiling gave.
 * @device:       name of the device as it is listed: "cpu", "cuda:1"
 * @isa:          instruction set level of the kernels, "" if it has none
 * @threads:      threads a run may use
 * @nodes, @steps: ops in the graph given and steps that run, those of the bodies of
 *                control flow included where the device compiles them
 * @native, @host: steps with a kernel, and steps run by the reference evaluator
 * @work_bytes:   workspace of one session, @naive_bytes without reuse of storage
 * @session_bytes: what a session takes of the arena it is given: its workspace,
 *                inputs, outputs and states
 * @const_bytes:  constants read in place, @packed_bytes: prepared copies of them
 * @flops, @bytes: of one run, by the ops' cost functions; of control flow the flops of
 *                its bodies: the larger branch of an if, each iteration of a scan, one of a while
 * @compile_ns:   wall time of rlx_compile() and the part spent packing weights
 * @kernels_compiled: of a GPU's kernels those that were compiled for this program, being neither
 *                prebuilt nor in the cache, and @kernels_ns what compilers took for them, all of
 *                their threads together. A kernel of two programs counts for the first
 */
struct rlx_program_info {
	const char	*device, *isa;
	unsigned int	 threads, nodes, steps, native, host;
	uint64_t	 work_bytes, naive_bytes, session_bytes;
	uint64_t	 const_bytes, packed_bytes;
	double		 flops, bytes;
	uint64_t	 compile_ns, pack_ns;
	unsigned int	 kernels_compiled;
	uint64_t	 kernels_ns;
};

/**
 * rlx_program_info - tell it; all 0 and "" for NULL.
 * Context: any thread; neither sleeps nor allocates. Ownership: strings live as long as @p.
 */
RLX_EXPORT void rlx_program_info(const struct rlx_program *p,
				 struct rlx_program_info *out);

/**
 * rlx_program_report - per op kind: how many steps, native or host, and what was
 * fused; how many attention blocks there are (queries, keys and values of one input, attention,
 * projection), and how many of them in layers with norms behind or ahead. Also printed by
 * rlx_compile() to stderr if RLX_DISPATCH_REPORT is set.
 * Context: any thread; allocates, writes. Return: RLX_EINVAL (NULL), RLX_ENOMEM, RLX_EIO (@f has
 * its error flag set).
 */
RLX_EXPORT enum rlx_status rlx_program_report(const struct rlx_program *p, FILE *f);

/**
 * rlx_program_print - the plan as text, which says what rlx_program_step() and
 * rlx_program_place() do.
 * rlx_program_svg - its memory over time as an SVG image.
 * Context: any thread; writes. Return: RLX_EINVAL (NULL), RLX_EIO (@f has its error flag set).
 */
RLX_EXPORT enum rlx_status rlx_program_print(const struct rlx_program *p, FILE *f);
RLX_EXPORT enum rlx_status rlx_program_svg(const struct rlx_program *p, FILE *f);

/* The graph after all passes; lives as long as @p. */
RLX_EXPORT const struct rlx_graph *rlx_program_graph(const struct rlx_program *p);

/**
 * enum rlx_place_kind - what has a value's bytes.
 * @RLX_PLACE_NONE:  nothing: no kernel of the device stores it, as an output of an op that nobody
 *                   reads. What passes fused is no value of rlx_program_graph() any more
 * @RLX_PLACE_CONST: a constant of the program's
 * @RLX_PLACE_INPUT, @RLX_PLACE_PARAM, @RLX_PLACE_OUTPUT, @RLX_PLACE_STATE: what a session has
 *                   there: rlx_session_bound(); a state has its next value, too
 * @RLX_PLACE_WORK:  the workspace
 */
enum rlx_place_kind {
	RLX_PLACE_NONE,
	RLX_PLACE_CONST,
	RLX_PLACE_INPUT,
	RLX_PLACE_PARAM,
	RLX_PLACE_OUTPUT,
	RLX_PLACE_WORK,
	RLX_PLACE_STATE,
};

/**
 * struct rlx_value_place - where a value of a program lies, and when.
 * @size:   set by the caller to its sizeof; what lies beyond is not written
 * @index:  of an input, param, output or state: that of rlx_program_io_name(); of a constant:
 *          its number among the program's; else 0
 * @offset: into the workspace, in bytes, a multiple of 64; else 0
 * @bytes:  that it takes there; 0 of RLX_PLACE_NONE
 * @shares: the value whose bytes these are: it is reshaped from that or written over it; itself:
 *          they are its own
 * @first, @last: the plan's steps that write it and last read it, in the order of
 *          rlx_program_step(); of what is there before: 0 and the last one. The number of steps:
 *          it is read after the last, being an output, or kept for later runs. Of values that share
 *          bytes, each has its own. Devices may run independent steps in another order, and
 *          keep what is in use there
 */
struct rlx_value_place {
	size_t			 size;
	enum rlx_place_kind	 kind;
	unsigned int		 index;
	uint64_t		 offset, bytes;
	rlx_value		 shares;
	unsigned int		 first, last;
};

/**
 * rlx_program_place - tell where a value lies.
 * @v: of rlx_program_graph(), or of a step of rlx_program_step(): the plan adds copies to outputs
 *
 * The plan of the program itself; the bodies of its control flow have their own.
 * Context: any thread; neither sleeps nor allocates. Return: RLX_EINVAL (no @p or @out, or
 * @out->size is not set), RLX_ERANGE (there is no such value).
 */
RLX_EXPORT enum rlx_status rlx_program_place(const struct rlx_program *p, rlx_value v,
					     struct rlx_value_place *out);

/**
 * struct rlx_program_step - one step of a program's plan; pointers live as long as the program.
 * @size: set by the caller to its sizeof; what lies beyond is not written
 * @op:   "copy": of an input, state or shared value to an output's place
 * @file, @line: where the op was emitted; NULL and 0: nobody knows
 * @in, @out: ids of the values that it takes and gives; an input that is left out is 0
 * @once: it depends on params and constants alone; runs leave it out while these stay
 */
struct rlx_program_step {
	size_t		 size;
	const char	*op, *file;
	unsigned int	 line, n_in, n_out;
	const uint32_t	*in, *out;
	bool		 once;
};

/**
 * rlx_program_step - describe step @i of the plan, in the order of rlx_program_print().
 * Context, Return: as rlx_program_place(); RLX_ERANGE from the number of steps on.
 */
RLX_EXPORT enum rlx_status rlx_program_step(const struct rlx_program *p, unsigned int i,
					    struct rlx_program_step *out);

#ifdef __cplusplus
}
#endif
#endif
