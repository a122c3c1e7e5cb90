/* SPDX-License-Identifier: MIT */
/* A training step that runs: program, states, session, and looking into it. */
#ifndef TRAIN_RIG_H
#define TRAIN_RIG_H

#include "rlx/train.h"
#include "selftests/lib/rlx_test.h"

struct train_rig {
	struct rlx_graph	*g;
	struct rlx_vars		*v;
	struct rlx_program	*p;
	struct rlx_states	*states;
	struct rlx_session	*s;
	struct rlx_error	 err;
};

static inline void train_begin(struct train_rig *r)
{
	*r = (struct train_rig){ .g = rlx_graph_new("step"), .v = rlx_vars_new() };
}

/* Compile and open; with states that are given, or its own, which begin by @seed. */
static inline void train_open(struct train_rig *r, const char *device, unsigned int threads,
			      struct rlx_states *states, uint64_t seed)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .threads = threads };
	struct rlx_session_opts so = { .size = sizeof(so) };

	CHECKF(!rlx_graph_finish(r->g), "%s", rlx_graph_error(r->g)->text);
	CHECKF(!rlx_compile(r->g, &o, &r->p, &r->err), "%s", r->err.text);
	if (states) {
		r->states = rlx_states_get(states);
	} else {
		CHECKF(!rlx_states_new(r->p, NULL, &r->states, &r->err), "%s", r->err.text);
		CHECKF(!rlx_states_init(r->states, r->v, seed, &r->err), "%s", r->err.text);
	}
	so.states = r->states;
	CHECKF(!rlx_session_new(r->p, &so, &r->s, &r->err), "%s", r->err.text);
}

static inline void train_end(struct train_rig *r)
{
	rlx_session_free(r->s);
	rlx_states_put(r->states);
	rlx_program_put(r->p);
	rlx_vars_free(r->v);
	rlx_graph_put(r->g);
}

/* Memory of an input or state; an output's after a run. */
static inline void *train_at(struct train_rig *r, enum rlx_io io, const char *name)
{
	struct rlx_buf b = io == RLX_IO_OUTPUT ? rlx_session_bound(r->s, io, name) :
			   rlx_session_buf(r->s, io, name);

	CHECKF(rlx_buf_ptr(b), "%s: %s", name, rlx_session_error(r->s)->text);
	return rlx_buf_ptr(b);
}

static inline void train_run(struct train_rig *r)
{
	CHECKF(!rlx_session_run(r->s), "%s", rlx_session_error(r->s)->text);
}

static inline double train_loss(struct train_rig *r)
{
	const struct rlx_type *t = rlx_program_io_type(r->p, RLX_IO_OUTPUT,
			(unsigned int)rlx_program_io_find(r->p, RLX_IO_OUTPUT, "loss"));
	void *p = train_at(r, RLX_IO_OUTPUT, "loss");

	return t->dtype == RLX_F64 ? *(double *)p : (double)*(float *)p;
}

#endif
