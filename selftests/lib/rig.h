/* SPDX-License-Identifier: MIT */
/*
 * A graph with its input data, run by the reference evaluator or on a device:
 *
 *	x = rig_random(r, rlx_type(RLX_F32, 3, 4), -1, 1);
 *	rig_output(r, rlx_emit(r->g, exp, .x = x));
 *	rig_run(r);
 *	... rig_get(r, 0, i) against exp(rig_in(r, 0, i)) ...
 */
#ifndef SELFTESTS_RIG_H
#define SELFTESTS_RIG_H

#include "ir/opdef.h"
#include "rlx/run.h"

enum { RIG_MAX = 128 };

struct rig {
	const char		*device;	/* NULL: rlx_graph_eval() */
	enum rlx_precision	 precision;
	struct rlx_graph	*g;
	struct rlx_tensor	 in[RIG_MAX], out[RIG_MAX];
	unsigned int		 n_in, n_out;
	unsigned int		 steps;		/* of the compiled program */
	struct rlx_error	 err;
	uint64_t		 seed;
};

void rig_init(struct rig *r, const char *device);
void rig_fini(struct rig *r);
/* Start over with an empty graph on the same device; what is drawn then is other than before. */
void rig_reset(struct rig *r);

/* Inputs are named i0, i1 ...; data is copied. */
rlx_value rig_input(struct rig *r, struct rlx_type t, const void *data);
rlx_value rig_random(struct rig *r, struct rlx_type t, double lo, double hi);
/* Outputs are named o0, o1 ... */
void rig_output(struct rig *r, rlx_value v);

/* Finish, compile and run on poisoned outputs; the status, with a message in err. */
enum rlx_status rig_try(struct rig *r);
/* The same; a failure fails the test. */
void rig_run(struct rig *r);

/* Element @i of input or output @k as double. */
double rig_in(const struct rig *r, unsigned int k, int64_t i);
double rig_get(const struct rig *r, unsigned int k, int64_t i);

/* Fail unless output @k, element @i is @want up to @tol (1 + |want|). */
void rig_want(const struct rig *r, unsigned int k, int64_t i, double want, double tol);

/* Finish @g, compile it and make a session; a failure fails the test. Takes @g. */
struct rlx_session *rig_session(struct rlx_graph *g, const struct rlx_compile_opts *o);

/* Nodes of op @op, RLX_OP_matmul and so on, in @g. */
unsigned int rig_count(const struct rlx_graph *g, unsigned int op);

/* TEST(name) that runs a body of the same name by the evaluator and on every device. */
enum { RIG_DEVICES = 4 };
/* NULL for the evaluator, "ref", "cpu", and $RLX_TEST_GPU where that is set; how many. */
unsigned int rig_devices(const char *out[RIG_DEVICES]);
#define EVERYWHERE(n)							\
	static void body_##n(struct rig *r);				\
	TEST(n)								\
	{								\
		const char *device[RIG_DEVICES];			\
		unsigned int d, n = rig_devices(device);		\
									\
		for (d = 0; d < n; d++) {				\
			struct rig r;					\
									\
			rig_init(&r, device[d]);			\
			body_##n(&r);					\
			rig_fini(&r);					\
		}							\
	}								\
	static void body_##n(struct rig *r)

#endif
