/* SPDX-License-Identifier: MIT */
/* The vtable of a backend, for its implementers. Not an installed interface yet. */
#ifndef RLX_BACKEND_H
#define RLX_BACKEND_H

#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/run.h"

struct rlx_graph;
struct rlx_plan;
struct rlx_infer;

#define RLX_BACKEND_ABI	1

enum rlx_can {
	RLX_CAN_NOT,		/* neither here nor on the host */
	RLX_CAN_HOST,		/* by the reference evaluator, on the same memory */
	RLX_CAN_NATIVE,
};

/*
 * What the passes should aim at. Zero: plain ops.
 * @fuse:     fused ops and regions are worth making
 * @channels: channels per block of the blocked convolution layout; 0: none
 * @bf16, @f16: products in that format are native
 * @mma16: those of attention and convolutions too, if their operands lie in it
 * @widen: what has no kernel in narrow floats is converted to wider ones that have
 * @slack: steps for which the storage of small values outlives them
 */
struct rlx_target {
	bool		fuse, bf16, f16, mma16, widen;
	unsigned int	channels, slack;
	/* As the backend's .can, with the device at hand. */
	enum rlx_can	(*can)(const struct rlx_target *t, const struct rlx_infer *q);
	const void	*dev;
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

struct rlx_code {			/* a compiled plan */
	struct rlx_device	*dev;
	/* Lives as long as the code; compile may put one with places of its own here. */
	const struct rlx_plan	*plan;
	struct rlx_store	*store;	/* for rlx_store_take(); NULL: none */
	/* By the plan's constants: where they are at run time; NULL: in their blobs. */
	const void		**home;
	uint64_t		 work_bytes;	/* set by compile: plan's and its own */
	uint64_t		 device_bytes;	/* set by compile: an exec's, not the host's */
	/* Of control flow, in order of steps, if the backend has .bodies: made by the core. */
	struct rlx_body		*body;
	uint32_t		 n_body;
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

/* 64-byte aligned, and readable for 64 bytes beyond @bytes. @s NULL: NONE. */
enum rlx_took rlx_store_take(struct rlx_store *s, struct rlx_blob *of, const char *kind,
			     const int64_t param[4], size_t bytes, void **out_data);
void rlx_store_ready(struct rlx_store *s, const void *data);

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
	const uint8_t		*skip;		/* per plan step: 1 leaves it out; NULL: none */
	int64_t			 extent, upper;	/* active extent; extent 0: off */
	struct rlx_error	*err;
	uint64_t		 copied;	/* bytes that a CPU moved: run adds, the core takes */
	struct rlx_transfers	 moved;		/* run and fetch add, the core keeps them */
	uint64_t		*step_ns;	/* per plan step: add its time; NULL: nobody asks */
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
	/* May an op with these types run here. Pure. [any] */
	enum rlx_can	(*can)(const struct rlx_device *dev, const struct rlx_infer *q);

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
	/* Optional: exec->extent changed. NULL: extents are not honoured. */
	void		(*extent)(struct rlx_exec *exec);
	/*
	 * Optional: output @i becomes, if @on, the input it replaces (the plan's over).
	 * True: from the next run on both are one in the device's memory, filled from the
	 * input whenever that is bound.
	 */
	bool		(*keep)(struct rlx_exec *exec, unsigned int i, bool on);
	/* With keep: bring what is kept, output or input @i, to exec->ptr[io][i]. */
	enum rlx_status	(*fetch)(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
	/* Run all steps and return when done. Codes run at once from many threads. [any] */
	enum rlx_status	(*run)(struct rlx_exec *exec);
	/*
	 * Optional, both or none: a run of which the device needs nobody until it is done.
	 * start leaves *@out_begun false, and nothing begun, if this one is not such.
	 * finish waits, @timeout_ns < 0 for ever, and gives what run would have;
	 * RLX_ETIME: it goes on. Nothing but finish is called in between. [any]
	 */
	enum rlx_status	(*start)(struct rlx_exec *exec, bool *out_begun);
	enum rlx_status	(*finish)(struct rlx_exec *exec, int64_t timeout_ns);

	/*
	 * Optional, all three or none: rlx/resident.h. The first @bytes of @a in the
	 * device's memory: brought there, or, if @fd is not -1, there by another process.
	 * It stays while something uses it. [any]
	 */
	enum rlx_status	(*resident)(struct rlx_device *dev, struct rlx_arena *a, uint64_t bytes,
				    int fd, void **out, struct rlx_error *err);
	enum rlx_status	(*resident_fd)(struct rlx_device *dev, void *r, int *out,
				       struct rlx_error *err);
	void		(*resident_put)(struct rlx_device *dev, void *r);
};

#endif
