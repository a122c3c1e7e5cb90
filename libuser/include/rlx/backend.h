/* SPDX-License-Identifier: MIT */
/* The vtable of a backend, for its implementers. Not an installed interface yet. */
#ifndef RLX_BACKEND_H
#define RLX_BACKEND_H

#include "rlx/attr.h"
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/moe.h"
#include "rlx/run.h"

struct rlx_graph;
struct rlx_plan;
struct rlx_infer;
struct rlx_collective;

#define RLX_BACKEND_ABI	10

/*
 * Where it pays that a pointwise step reads elements that only repeat (expand, tile, resize to the
 * nearest) by itself, instead of what a step of its own wrote of them. Zero: everywhere.
 * @few:   always, up to so many results
 * @row:   each element several times side by side: rows of so many results,
 * @run:   or so many times each, as must one element that is all of a row,
 * @large: or so many bytes of results;
 * @piece: longer pieces that repeat as a whole: so many bytes of each,
 * @whole: or a multiple of so many
 */
struct rlx_repeats {
	int64_t	few, row, run, large, piece, whole;
};

/*
 * What the passes should aim at. Zero: plain ops.
 * @fuse:     fused ops and regions are worth making
 * @channels: channels per block of the blocked convolution layout; 0: none;
 *	      RLX_CHANNELS_LAST: all in one, for convolutions of f16 and bf16
 * @bf16, @f16: GEMMs in that format are native
 * @mma16: those of attention and convolutions too, if their operands lie in it
 * @attention16: queries from which those of attention are, if its operands lie in @bf16; 0: none
 * @widen: what has no kernel in narrow floats is converted to wider ones that have
 * @widen_aside: at least what stands aside is, a bias or a mask, if that is all that is missing,
 *	  and what accumulates in its output
 */
struct rlx_target {
	bool		fuse, bf16, f16, mma16, widen, widen_aside;
	int		channels;
	int64_t		attention16;
	struct rlx_repeats repeats;
	/* Set by the core: whom to ask about an op, by its backend's .supports; NULL: nobody. */
	const struct rlx_device *dev;
};

/* Embedded first in the backend's own structs; the core fills and owns these. */
struct rlx_device {
	const struct rlx_backend *be;
	unsigned int		  threads;
	unsigned int		  ordinal;	/* which of the backend's; set before open */
	char			  name[16], isa[16];	/* by the probe; set before open */
};

/* A sub-graph of a control-flow step, compiled as a program of its own would be. */
struct rlx_body {
	uint32_t		 step;	/* of the plan around it */
	const struct rlx_graph	*of;	/* as the step's arguments have it */
	struct rlx_plan		*plan;
	struct rlx_code		*code;
};

/*
 * One of the ways that a backend saw to do a launch (a call) of a program. Text is
 * rlx_malloc()ed and the core's to free.
 */
struct rlx_choice {
	uint32_t	step, n_step;	/* of the plan */
	uint32_t	call;		/* those of one number are ways of one call */
	bool		chosen;		/* or its call has become a part of a later one's */
	bool		tuned;		/* because it was measured */
	double		ns;		/* predicted; 0: not known */
	const char	*why_not;	/* it cannot do it; static text, or NULL */
	char		*problem;	/* "gemm 16x384x1536 ..."; NULL: there was no choice */
	char		*what;		/* the kernel and its parameters */
};

/*
 * Who is told, while a plan is compiled, what it takes of constants: a plan file holds that.
 * @prepared: @data was, or will be, prepared of @of, as rlx_store_take() names it
 * @read: the contents of @of themselves are read, now or by runs
 */
struct rlx_gather {
	void	(*prepared)(struct rlx_gather *g, struct rlx_blob *of, const char *kind,
			    const int64_t param[4], size_t bytes, const void *data);
	void	(*read)(struct rlx_gather *g, struct rlx_blob *of);
};

/*
 * A product of rows with the experts that they chose, in the order of steps. @placed: set by
 * compile: where its experts are is as an exec's struct rlx_placement says, and runs count there.
 */
struct rlx_expert_product {
	uint32_t	step, layer;
	bool		placed;
};

/* Products that choose by one value; the first one. @name: of its param; NULL: a constant */
struct rlx_expert_layer {
	const char	*name;
	uint32_t	choice;		/* of the graph's values */
	uint32_t	first;		/* of the products */
	uint32_t	experts;
	uint32_t	n_product;
	uint64_t	expert_bytes;	/* of one, in all products */
};

/* What a session asks for of a layer's experts, and what its runs count. */
struct rlx_placement {
	bool			*resident;	/* by expert: wanted in the device's memory */
	bool			 changed;	/* ... differs from what the exec last prepared */
	uint64_t		*hits;		/* by expert: rows of all runs */
	uint32_t		*rows;		/* by expert: of the run that is under way */
	struct rlx_moe_stats	 stats;
};

/* Add up p->rows of @experts; those of @here are in the device's memory, NULL: all are. */
static inline void rlx_placement_count(struct rlx_placement *p, uint32_t experts, const bool *here)
{
	for (uint32_t e = 0; e < experts; e++) {
		bool in = !here || here[e];

		p->hits[e] += p->rows[e];
		*(in ? &p->stats.rows_device : &p->stats.rows_host) += p->rows[e];
		*(in ? &p->stats.calls_device : &p->stats.calls_host) += p->rows[e] > 0;
	}
}

struct rlx_code {			/* a compiled plan */
	struct rlx_device	*dev;
	struct rlx_plan		*plan;	/* lives as long as the code; compile places it */
	struct rlx_store	*store;	/* for rlx_store_take(); NULL: none */
	/* By the plan's constants: where they are at run time; NULL: in their blobs. */
	const void		**home;
	struct rlx_gather	*gather;	/* NULL: nobody asks */
	bool			 lacks;		/* set by compile: contents that are absent */
	uint64_t		 work_bytes;	/* set by compile: plan's and its own */
	uint64_t		 device_bytes;	/* set by compile: an exec's, not the host's */
	/* Of control flow, in order of steps, if the backend has .bodies: made by the core. */
	struct rlx_body		*body;
	uint32_t		 n_body;
	/* Under RLX_COMPILE_PLACE; NULL: none. */
	struct rlx_expert_product *product;
	struct rlx_expert_layer	*layer;
	uint32_t		 n_product, n_layer;
	/* Set by compile, what the bodies have included. */
	uint64_t		 packed_bytes, pack_ns;
	unsigned int		 native, host;	/* steps */
	char			 on_host[200];	/* which those are, for a message; each once */
	/*
	 * Of the host's steps those whose values every run copies between device and host,
	 * and the plan's first such step. Set by compile; 0: the host works on their memory.
	 */
	unsigned int		 crossing;
	uint32_t		 first_crossing;
	/*
	 * Set by compile, of a device whose kernels are compiled for programs: those that were for
	 * this one, for they were found nowhere, and what that took, by all threads together.
	 */
	unsigned int		 kernels_compiled;
	uint64_t		 kernels_ns;
	/* Set by compile under RLX_COMPILE_EXPLAIN: choices, and the chip that they are for. */
	struct rlx_choice	*choice;
	uint32_t		 n_choice, cap_choice;
	char			 planned_for[160];
};

/*
 * Weights in a store. @kind, at most 15 bytes, and @param name a layout that a
 * backend prepares of a constant; the store's device has one meaning for each.
 */
enum rlx_took {
	RLX_TOOK_NONE,		/* not to be had: use memory of your own */
	RLX_TOOK_FOUND,		/* *@out_data is filled */
	RLX_TOOK_NEW,		/* fill it, then say rlx_store_ready(): others wait */
};

/*
 * What is prepared of a blob in no file is known by the blob's contents, which are kept beside it.
 * 64-byte aligned, and readable for 64 bytes beyond @bytes. @s NULL: NONE.
 */
enum rlx_took rlx_store_take(struct rlx_store *s, struct rlx_blob *of, const char *kind,
			     const int64_t param[4], size_t bytes, void **out_data);
void rlx_store_ready(struct rlx_store *s, const void *data);
/* What @of holds, compared, as the store has it; NULL: it has no room for it, or is none. */
const void *rlx_store_contents(struct rlx_store *s, struct rlx_blob *of);

/*
 * What an input holds. A device that has brought the same version need not do so again.
 * @version: another whenever it may have changed; 0: nobody knows, as it may at any time
 * @promised: the caller tells of changes: memory for a copy that stays is well spent
 */
struct rlx_content {
	uint64_t	version;
	bool		promised;
};

/* The product that step @step is, of those in order of steps; NULL: none. */
static inline struct rlx_expert_product *rlx_expert_product(const struct rlx_code *c,
							    uint32_t step)
{
	uint32_t from = 0, end = c->n_product, mid;

	while (from < end) {
		mid = from + (end - from) / 2;
		if (c->product[mid].step == step)
			return &c->product[mid];
		if (c->product[mid].step < step)
			from = mid + 1;
		else
			end = mid;
	}
	return NULL;
}

/*
 * One session's use of a code. @work is @code->work_bytes long and 64-byte
 * aligned; the others hold one address per input, param, output, aligned as the backend
 * says, and the arena that it lies in. Nothing is read or written beyond what is there.
 */
struct rlx_exec {
	const struct rlx_code	*code;
	void			*work;
	struct rlx_arena	*work_arena;
	void			**ptr[3];	/* by enum rlx_io */
	struct rlx_arena	**arena[3];
	/*
	 * Of an input or output that is bound in the device's memory its address there, which is
	 * all that counts: ptr is room for what steps of the host's read and write. Else 0.
	 */
	uint64_t		*at[3];
	/* Of the next run, as they are when it is submitted. */
	const uint8_t		*skip;		/* per plan step: 1 leaves it out; NULL: none */
	int64_t			 extent, upper;	/* active extent; extent 0: off */
	const struct rlx_content *content;	/* by input; NULL: nobody knows */
	uint64_t		*step_ns;	/* per plan step: add its time; NULL: nobody asks */
	struct rlx_error	*err;
	const struct rlx_collective *collective;	/* of all_reduce steps; NULL: none */
	struct rlx_placement	*placement;	/* by layer of experts; runs add to its counts */
	uint64_t		 copied;	/* bytes that a CPU moved: runs add, the core takes */
	struct rlx_transfers	 moved;		/* runs and fetch add, the core keeps them */
	bool			 work_kept;	/* what a run left in @work the next one finds */
};

/* 0: input @i may be another by the next run. */
static inline uint64_t rlx_input_version(const struct rlx_exec *exec, uint32_t i)
{
	return exec->content ? exec->content[i].version : 0;
}

/*
 * Arenas in a device's own memory: rlx/resident.h. All are there. [any]
 * @upload: the first @bytes of @a: brought there, or, if @fd is not -1, there by another
 * process. It stays while something uses it.
 * @share: a descriptor of it, for another process. @put: it is not needed any more.
 *
 * Buffers there: rlx/device_buffer.h, that execs are told of by .at.
 * @buffer_new: @bytes that read as zero. @buffer_free: of its address, after a loss too.
 * @buffer_copy: @bytes to @at from @host, or if not @in back; done on return.
 */
struct rlx_backend_memory {
	enum rlx_status	(*upload)(struct rlx_device *dev, struct rlx_arena *a, uint64_t bytes,
				  int fd, void **out, struct rlx_error *err);
	enum rlx_status	(*share)(struct rlx_device *dev, void *r, int *out,
				 struct rlx_error *err);
	void		(*put)(struct rlx_device *dev, void *r);
	enum rlx_status	(*buffer_new)(struct rlx_device *dev, uint64_t bytes, uint64_t *out_at,
				      struct rlx_error *err);
	void		(*buffer_free)(struct rlx_device *dev, uint64_t at);
	enum rlx_status	(*buffer_copy)(struct rlx_device *dev, uint64_t at, void *host,
				       uint64_t bytes, bool in, struct rlx_error *err);
};

/*
 * struct rlx_backend - one kind of device. Static, const, never freed.
 *
 * The core allocates devices, codes and execs with the sizes given here, zeroed.
 * Members are required unless marked optional, may sleep, and are not called
 * twice at once for one object; "[any]" means any thread, also at once. A failing
 * member leaves its message in @err and the object as it was.
 */
struct rlx_backend {
	uint32_t	 abi;			/* RLX_BACKEND_ABI */
	uint32_t	 device_size, code_size, exec_size;
	const char	*name;
	/* Its processors are its own: @threads, and where the caller may run, are nothing to it. */
	bool		own_threads;
	/* Control flow calls compiled bodies: code->body is there when it is compiled. */
	bool		bodies;
	/*
	 * What compile takes of constants it tells .gather, all of it, and finds in a store what it
	 * has prepared once: programs can be written to plan files.
	 */
	bool		plan_files;
	/* Of RLX_COMPILE_STRICT_BITS programs give what others' that say so give, bit by bit. */
	bool		strict_bits;
	/* Of an address that is bound; 0: what elements of the dtype need, no more. */
	uint32_t	align;

	/* How many devices are there; tells of @max, or as many, from @first on. [any] */
	unsigned int	(*probe)(struct rlx_dev_info *info, unsigned int first,
				 unsigned int max);
	/* Optional: why there is none, where probe finds none. Static text. [any] */
	const char	*(*why)(void);
	/* @dev->threads is what was asked for (0: all); set it to what it has. */
	enum rlx_status	(*open)(struct rlx_device *dev, struct rlx_error *err);
	void		(*close)(struct rlx_device *dev);

	/* Optional: leaves the target at zero. [any] */
	void		(*target)(const struct rlx_device *dev, struct rlx_target *t);
	/*
	 * Is there a kernel for an op with these types? If not, @why says what it lacks. Where
	 * there is no memory to tell, it is RLX_ENOMEM, and the answer nothing.
	 * Optional: every op is taken, and what has no kernel done by its evaluation. Pure. [any]
	 */
	bool		(*supports)(const struct rlx_device *dev, const struct rlx_infer *q,
				    struct rlx_error *why);

	/* Turn @code->plan into something that runs. */
	enum rlx_status	(*compile)(struct rlx_code *code, uint32_t flags,
				   struct rlx_error *err);
	void		(*release)(struct rlx_code *code);

	/* @exec->code, work and err are set; addresses come with bind. */
	enum rlx_status	(*init)(struct rlx_exec *exec);
	void		(*fini)(struct rlx_exec *exec);
	/*
	 * exec->ptr[io][i] changed, or for a param what is there: params are else
	 * taken to stay as they are, so that a device may keep a copy.
	 */
	void		(*bind)(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
	/*
	 * Begin a run of all steps. Without .wait it has ended on return. Else exec and
	 * buffers are the run's until wait has told what came of it, and *@out_point is where
	 * it stands in the exec's runs, which are counted from 1. @away: only if the device
	 * needs nobody until the run has ended; else *@out_point is 0, and nothing begun.
	 * After a failure nothing is under way. Codes run at once from many threads. [any]
	 */
	enum rlx_status	(*submit)(struct rlx_exec *exec, bool away, uint64_t *out_point);
	/*
	 * Optional: until the run of @point, the last one submitted, has ended; what came of
	 * it. @timeout_ns < 0: for ever. RLX_ETIME: it goes on. [any]
	 */
	enum rlx_status	(*wait)(struct rlx_exec *exec, uint64_t point, int64_t timeout_ns);
	/*
	 * Optional: output @i becomes, if @on, the input it replaces (the plan's over).
	 * True: from the next run on both are one in the device's memory, filled from the
	 * input whenever that is bound.
	 */
	bool		(*keep)(struct rlx_exec *exec, unsigned int i, bool on);
	/* With keep: bring what is kept, output or input @i, to exec->ptr[io][i]. */
	enum rlx_status	(*fetch)(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
	/*
	 * Optional, of devices with memory of their own: is input or param @i there as it is now,
	 * so that the next run need not bring it; or output or input @i, which is kept? Moves
	 * nothing. Nobody runs the exec.
	 */
	bool		(*has)(const struct rlx_exec *exec, enum rlx_io io, unsigned int i);
	/*
	 * Optional, of devices with memory of their own: input @i will be bound to @p, of @a, by
	 * its next bind, and nobody writes there before the run behind it has ended: it may be
	 * brought from now on, beside the run under way, which is not waited for. What cannot be
	 * brought so is no failure. @p NULL: not that one after all; no run is under way.
	 */
	enum rlx_status	(*prefetch)(struct rlx_exec *exec, unsigned int i, struct rlx_arena *a,
				    const void *p);
	/* NULL: there is none but the host's. */
	const struct rlx_backend_memory *memory;
};

#endif
