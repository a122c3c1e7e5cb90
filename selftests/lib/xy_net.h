/* SPDX-License-Identifier: MIT */
/*
 * A graph of one f32 input "x" and one f32 output "y" whose constants are drawn:
 *
 *	x = xy_begin(&n, rlx_type(RLX_F32, 3, 4));
 *	xy_end(&n, rlx_emit(n.g, matmul, .a = x, .b = xy_floats(&n, t, -1, 1)));
 *	xy_run(&n, n.g, &opts, x, y, NULL);
 */
#ifndef SELFTESTS_XY_NET_H
#define SELFTESTS_XY_NET_H

#include "rlx/compile.h"
#include "rlx/ops.h"
#include "rlx/run.h"

enum { XY_MOST = 1 << 20 };	/* elements of one tensor */

struct xy_net {
	struct rlx_graph	*g;
	struct rlx_type		 in, out;
	uint64_t		 seed;
};

/* A new graph from a fresh seed; its input. */
rlx_value xy_begin(struct xy_net *n, struct rlx_type in);
/* Name the output and finish. The graph is the caller's to put. */
void xy_end(struct xy_net *n, rlx_value y);

/* Constants: any bytes, of a type of 8 bits; f32 between @lo and @hi. */
rlx_value xy_bytes(struct xy_net *n, struct rlx_type t);
rlx_value xy_floats(struct xy_net *n, struct rlx_type t, double lo, double hi);

/* Data for the input. */
void xy_fill(struct xy_net *n, float *x, double lo, double hi);

/*
 * Compile @g, the net's graph or what was made of it, and run it from @x to @y. With @keep
 * the program is the caller's to put. A failure fails the test.
 */
void xy_run(const struct xy_net *n, struct rlx_graph *g, const struct rlx_compile_opts *o,
	    const float *x, float *y, struct rlx_program **keep);

/* Greatest difference of @y from @want, and of these the greatest, *@top. All are finite. */
double xy_off(const struct xy_net *n, const float *want, const float *y, double *top);

#endif
