/* SPDX-License-Identifier: MIT */
/* Private structs of the runtime: devices, programs, sessions. */
#ifndef RLX_RT_RT_H
#define RLX_RT_RT_H

#include <stdatomic.h>

#include "plan/plan.h"
#include "rlx/backend.h"
#include "rlx/run.h"
#include "rlx/store.h"

/*
 * Devices are opened on first use and shared: one per (backend, threads asked
 * for), counted. The lock is private to registry.c.
 */
enum rlx_status rlx_device_get(const char *name, unsigned int threads,
			       struct rlx_device **out, struct rlx_error *err);
void rlx_device_put(struct rlx_device *dev);
/* @name, or what stands for none: RLX_DEVICE in the environment, else "cpu". */
const char *rlx_device_choice(const char *name);
/* Is there a backend of that name, whether or not it has devices? Opens none. */
bool rlx_backend_known(const char *name, size_t len);
/* The names of all, between commas. Return: @buf. */
const char *rlx_backend_names(char *buf, size_t size);
/* What weights prepared for a device depend on: its backend and instruction set. */
void rlx_layout_name(const struct rlx_backend *be, const char *isa, char *out, size_t size);
/* The same of a device that need not be open: it is looked for. */
enum rlx_status rlx_device_layout(const char *name, char *out, size_t size,
				  struct rlx_error *err);

/*
 * A backend of LOADED(): in load_opened.c of a library of its own, in load_linked.c of the
 * program itself; a library has one of the two. NULL: *@why says why.
 */
const struct rlx_backend *rlx_backend_load(const char *name, const char **why);

struct rlx_program {
	atomic_uint		 refs;
	struct rlx_device	*dev;
	struct rlx_graph	*g;		/* after all passes */
	struct rlx_plan		*plan;
	struct rlx_code		*code;
	struct rlx_store	*store;		/* NULL: none */
	struct rlx_program_info	 info;
	uint32_t		 flags;		/* of enum rlx_compile_flags, as compiled */
	char			*fused;		/* the passes' own lines; may be NULL */
};

/*
 * Entry @*i of what callers see as @*io, in the plan's own lists, where states are inputs and
 * their next values outputs. False: there is none.
 */
bool rlx_program_entry(const struct rlx_program *p, enum rlx_io *io, unsigned int *i);

/*
 * Graphs that have been through the passes: a program's, then those of the bodies of its control
 * flow, in the order in which they are compiled, each before those that it calls.
 */
struct rlx_passed {
	struct rlx_graph	*const *g;
	uint32_t		 n, at;		/* @at: of the next one */
	uint32_t		 depth;		/* of calls, now */
};

/*
 * body.c: append @p's graphs to *@g, of *@n in room for *@cap, in the order of struct rlx_passed;
 * no references are taken. False: out of memory.
 */
bool rlx_program_graphs(const struct rlx_program *p, struct rlx_graph ***g, uint32_t *n,
			uint32_t *cap);

/* body.c: what a program's graph, and those that its control flow calls, are built with. */
struct rlx_build {
	struct rlx_device	*dev;
	struct rlx_device	*plan_for;	/* whose plan it is to be; NULL: that of @dev */
	struct rlx_store	*store;
	struct rlx_compile_opts	 opts;
	FILE			*report;
	struct rlx_error	*err;
	struct rlx_passed	*passed;	/* NULL: run the passes */
	struct rlx_gather	*gather;	/* of codes; NULL: nobody asks */
};

struct rlx_target rlx_device_target(const struct rlx_device *dev);
enum rlx_status rlx_build_passes(const struct rlx_build *b, struct rlx_graph *g,
				 struct rlx_graph **out);
/* *@out: rlx_code_free(); @plan must live as long. */
enum rlx_status rlx_build_code(const struct rlx_build *b, struct rlx_plan *plan,
			       struct rlx_code **out);
void rlx_code_free(struct rlx_code *code);
/* experts.c: list @code's products of rows with experts, by layers. RLX_ENOMEM */
enum rlx_status rlx_experts_find(struct rlx_code *code, struct rlx_error *err);
/* Is it control flow, whose graphs are bodies? Of fused ops they are none. */
bool rlx_calls_bodies(const struct rlx_op_def *def);

/*
 * compile.c: bring the caller's options, which may be NULL, to the size this
 * library knows, and check them.
 */
enum rlx_status rlx_compile_take(const struct rlx_compile_opts *in, struct rlx_compile_opts *o,
				 struct rlx_error *err);

/* compile.c: does RLX_STRICT_BITS ask for RLX_COMPILE_STRICT_BITS? */
bool rlx_strict_by_environment(void);

/*
 * compile.c: what rlx_compile() does, after the passes: of @o device, threads, flags and store
 * count. RLX_EPARSE if the bodies do not fit, or contents are absent that are read.
 */
enum rlx_status rlx_program_of(struct rlx_passed *passed, const struct rlx_compile_opts *o,
			       struct rlx_program **out, struct rlx_error *err);

#endif
