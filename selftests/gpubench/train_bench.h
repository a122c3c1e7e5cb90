/* SPDX-License-Identifier: MIT */
/* What benchmarks of training steps on GPUs share: a step opened, and so many of it. */
#ifndef GPUBENCH_TRAIN_BENCH_H
#define GPUBENCH_TRAIN_BENCH_H

#include "selftests/lib/train_decoder.h"

static inline void must(enum rlx_status st, const struct rlx_error *err)
{
	if (st) {
		fprintf(stderr, "%s: %s\n", rlx_status_name(st), err->text);
		exit(1);
	}
}

/* Of a loss made since train_begin(). */
static inline void open_step(struct train_rig *r, rlx_value loss, const struct rlx_train_opts *o,
			     const struct rlx_optimizer *how, const struct rlx_compile_opts *c)
{
	struct rlx_session_opts so = { .size = sizeof(so) };

	rlx_train_step(r->g, r->v, loss, rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), o, how);
	must(rlx_graph_finish(r->g), rlx_graph_error(r->g));
	must(rlx_compile(r->g, c, &r->p, &r->err), &r->err);
	must(rlx_states_new(r->p, NULL, &r->states, &r->err), &r->err);
	must(rlx_states_init(r->states, r->v, 1, &r->err), &r->err);
	so.states = r->states;
	must(rlx_session_new(r->p, &so, &r->s, &r->err), &r->err);
}

/* AdamW on a decoder's loss. */
static inline void open_adamw(struct train_rig *r, rlx_value loss,
			      const struct rlx_compile_opts *c)
{
	struct rlx_optimizer adamw = { .size = sizeof(adamw), .kind = RLX_ADAMW, .decay = 0.1 };
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 1 };

	open_step(r, loss, &o, &adamw, c);
}

static inline void run_steps(struct train_rig *r, int n)
{
	int i;

	for (i = 0; i < n; i++)
		must(rlx_session_run(r->s), rlx_session_error(r->s));
}

#endif
