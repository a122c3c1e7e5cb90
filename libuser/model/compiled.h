/* SPDX-License-Identifier: MIT */
/* What a runner and its clones compile: shared by them, each once, some of it ahead. */
#ifndef RLX_MODEL_COMPILED_H
#define RLX_MODEL_COMPILED_H

#include <pthread.h>
#include <sched.h>

#include "model/model.h"
#include "rt/rt.h"

/*
 * A first segment, compiled. Who made it alone writes to it until it is done; key and asked are
 * read by others, and so written, with the lock held.
 */
struct rlx_compiled {
	struct rlx_compiled	*next;
	unsigned int		 refs;
	bool			 imported, done;	/* asked and key are whole; so is the rest */
	struct rlx_key		 key;		/* types, then contents that were asked for */
	uint32_t		 n_types;
	uint64_t		 asked;
	cpu_set_t		 cpus;		/* where who asked for it may run */
	struct rlx_segment	 seg;
	struct rlx_program	*program;	/* NULL: nothing to run */
};

/* What a segment is built of; params are those that are set. */
struct rlx_wanted {
	struct rlx_model		*m;
	const struct rlx_compile_opts	*opts;
	const struct rlx_spec		*in;
	unsigned int			 n_in, n_param;
	struct rlx_named_tensor		*param;
	struct rlx_key			 types;		/* of inputs and params */
	cpu_set_t			 cpus;		/* where the caller may run */
};

struct rlx_prepared;

/* Of a runner and its clones; a reference is one of them. */
struct rlx_compiles {
	pthread_mutex_t		 lock;
	pthread_cond_t		 changed;	/* anything here */
	atomic_uint		 refs;
	struct rlx_compiled	*first;
	/* prepare.c: asked for by rlx_runner_prepare(), in this order; the thread that does it */
	struct rlx_prepared	*prepared;
	pthread_t		 thread;
	bool			 started, stop;
};

struct rlx_compiles *rlx_compiles_new(void);
struct rlx_compiles *rlx_compiles_get(struct rlx_compiles *p);
void rlx_compiles_put(struct rlx_compiles *p);

/* false: out of memory. Fini also then, and after zeros. */
bool rlx_wanted_init(struct rlx_wanted *w, const struct rlx_runner *r, const struct rlx_spec *in,
		     unsigned int n_in);
void rlx_wanted_fini(struct rlx_wanted *w);
/* The segment after @answer, of @in instead of w->in. [any] */
enum rlx_status rlx_wanted_build(const struct rlx_wanted *w, const struct rlx_spec *in,
				 const struct rlx_answer *answer, uint32_t n_answer,
				 struct rlx_segment *seg, struct rlx_error *err);
/*
 * Contents only where the import asked for them: others must not matter. Those of tensors are
 * copied, since who gave them may write there at any time, and what is built of them is kept under
 * them. NULL: out of memory.
 */
struct rlx_spec *rlx_specs_own(const struct rlx_spec *in, unsigned int n, uint64_t asked);
void rlx_specs_free(struct rlx_spec *s, unsigned int n);

/* What @w is compiled to: it is there, waited for, or made here. [any] */
enum rlx_status rlx_compiled_get(struct rlx_compiles *p, const struct rlx_wanted *w,
				 struct rlx_compiled **out, struct rlx_error *err);
void rlx_compiled_put(struct rlx_compiles *p, struct rlx_compiled *c);
void rlx_compiled_put_locked(struct rlx_compiles *p, struct rlx_compiled *c);
/* What a session of it takes, on host and device; NULL: nothing. */
uint64_t rlx_compiled_bytes(const struct rlx_program *p);

/*
 * prepare.c: the session made for a stage of @r, which has @c: nothing more is kept for it.
 * NULL: there is none.
 */
struct rlx_session *rlx_prepared_take(struct rlx_runner *r, const struct rlx_compiled *c);
/* @r goes: wait for what is compiled for it, and drop what is queued. */
void rlx_prepared_cancel(struct rlx_runner *r);

#endif
