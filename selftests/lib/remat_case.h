/* SPDX-License-Identifier: MIT */
/* Steps of decoders whose backward pass computes some of the forward one once more. */
#ifndef REMAT_CASE_H
#define REMAT_CASE_H

#include "selftests/lib/train_decoder.h"

enum remat_marks { REMAT_NONE, REMAT_BLOCKS, REMAT_NESTED };

struct remat_case {
	struct train_decoder	size;
	const char		*device;
	enum rlx_precision	precision;
	uint64_t		memory;
	enum remat_marks	marks;
	bool			dropout;
	uint32_t		flags;		/* of compiling */
};

/* The loss, with scopes around blocks, and around pairs of them if they are to nest. */
static inline rlx_value remat_loss(struct train_rig *r, const struct remat_case *c)
{
	const struct train_decoder *z = &c->size;
	const struct rlx_type t = rlx_type(RLX_I32, z->batch, z->context);
	rlx_value x = rlx_input(r->g, "x", t), y = rlx_input(r->g, "y", t), head;
	int l;

	x = rlx_emit(r->g, gather, .indices = x, .x = rlx_var(r->g, r->v, "tok",
		     rlx_type(RLX_F32, 256, z->dim), RLX_NORMAL(0.02), 0));
	for (l = 0; l < z->layers; l++) {
		if (c->marks == REMAT_NESTED && l % 2 == 0)
			rlx_scope_begin(r->g, RLX_SCOPE_REMAT);
		if (c->marks)
			rlx_scope_begin(r->g, RLX_SCOPE_REMAT);
		rlx_vars_enter(r->v, rlx_name("blocks.%d", l));
		x = train_block(r, z, x);
		if (c->dropout)
			x = rlx_dropout(r->g, x, 0.2, rlx_train_count(r->g, r->v), l);
		rlx_vars_leave(r->v);
		if (c->marks)
			rlx_scope_end(r->g);
		if (c->marks == REMAT_NESTED && (l % 2 || l + 1 == z->layers))
			rlx_scope_end(r->g);
	}
	head = rlx_var(r->g, r->v, "head", rlx_type(RLX_F32, z->dim, 256), RLX_NORMAL(0.02), 0);
	return rlx_loss_linear_ce(r->g, train_norm(r, "ln", x, z->dim), head, y, NULL);
}

/* The graph of a step, which may have an error. */
static inline void remat_build(struct train_rig *r, const struct remat_case *c)
{
	struct rlx_optimizer sgd = { .size = sizeof(sgd), .kind = RLX_SGD, .momentum = 0.9 };
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1, .memory = c->memory };
	rlx_value loss;

	train_begin(r);
	loss = remat_loss(r, c);
	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &sgd);
}

/* Compiled and open; gives the bytes of its workspace. */
static inline uint64_t remat_open(struct train_rig *r, const struct remat_case *c)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = c->device, .threads = 2,
				      .precision = c->precision, .flags = c->flags };
	struct rlx_session_opts so = { .size = sizeof(so) };
	struct rlx_program_info info;

	remat_build(r, c);
	CHECKF(!rlx_graph_finish(r->g), "%s", rlx_graph_error(r->g)->text);
	CHECKF(!rlx_compile(r->g, &o, &r->p, &r->err), "%s", r->err.text);
	CHECKF(!rlx_states_new(r->p, NULL, &r->states, &r->err), "%s", r->err.text);
	CHECKF(!rlx_states_init(r->states, r->v, 3, &r->err), "%s", r->err.text);
	so.states = r->states;
	CHECKF(!rlx_session_new(r->p, &so, &r->s, &r->err), "%s", r->err.text);
	rlx_program_info(r->p, &info);
	*(float *)train_at(r, RLX_IO_INPUT, "lr") = 0.1f;
	return info.work_bytes;
}

/* Both take @steps on the same batches: losses and states are the same bits. */
static inline void remat_compare(struct train_rig *a, struct train_rig *b,
				 const struct train_decoder *z, int steps)
{
	unsigned int i, n = rlx_program_io_count(a->p, RLX_IO_STATE);
	int s;

	for (s = 0; s < steps; s++) {
		train_decoder_batch(a, z, s);
		train_decoder_batch(b, z, s);
		train_run(a);
		train_run(b);
		CHECKF(train_loss(a) == train_loss(b), "step %d: loss %.9g, not %.9g", s,
		       train_loss(b), train_loss(a));
	}
	CHECK_EQ(n, rlx_program_io_count(b->p, RLX_IO_STATE));
	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(a->p, RLX_IO_STATE, i);
		struct rlx_buf x = rlx_session_bound(a->s, RLX_IO_STATE, name);
		struct rlx_buf y = rlx_session_bound(b->s, RLX_IO_STATE, name);

		CHECKF(x.bytes == y.bytes && !memcmp(rlx_buf_ptr(x), rlx_buf_ptr(y), x.bytes),
		       "%s differs", name);
	}
}

#endif
