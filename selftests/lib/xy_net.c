// SPDX-License-Identifier: MIT
/* Graphs of one input and one output; see xy_net.h. */
#include "rlx/graph.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

static int64_t count(const struct rlx_type *t)
{
	int64_t n = rlx_type_count(t);

	CHECK(n >= 0 && n <= XY_MOST);
	return n;
}

rlx_value xy_begin(struct xy_net *n, struct rlx_type in)
{
	*n = (struct xy_net){ .g = rlx_graph_new("net"), .in = in, .seed = rlx_test_seed() };
	return rlx_input(n->g, "x", in);
}

void xy_end(struct xy_net *n, rlx_value y)
{
	rlx_output(n->g, "y", y);
	CHECKF(!rlx_graph_finish(n->g), "%s", rlx_graph_error(n->g)->text);
	n->out = *rlx_type_of(n->g, y);
}

rlx_value xy_bytes(struct xy_net *n, struct rlx_type t)
{
	static uint8_t b[XY_MOST];
	int64_t i;

	for (i = 0; i < count(&t); i++)
		b[i] = (uint8_t)rlx_test_rand(&n->seed);
	return rlx_constant(n->g, t, b);
}

rlx_value xy_floats(struct xy_net *n, struct rlx_type t, double lo, double hi)
{
	static float f[XY_MOST];
	int64_t i;

	for (i = 0; i < count(&t); i++)
		f[i] = (float)rlx_test_uniform(&n->seed, lo, hi);
	return rlx_constant(n->g, t, f);
}

void xy_fill(struct xy_net *n, float *x, double lo, double hi)
{
	int64_t i;

	for (i = 0; i < count(&n->in); i++)
		x[i] = (float)rlx_test_uniform(&n->seed, lo, hi);
}

void xy_run(const struct xy_net *n, struct rlx_graph *g, const struct rlx_compile_opts *o,
	    const float *x, float *y, struct rlx_program **keep)
{
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	int64_t i;

	CHECK(n->out.dtype == RLX_F32);
	for (i = 0; i < count(&n->out); i++)
		y[i] = NAN;
	CHECKF(!rlx_compile(g, o, &p, &err), "%s: %s", o->device, err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s: %s", o->device, err.text);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", n->in, x), 0);
	CHECKF(!rlx_session_run(s), "%s: %s", o->device, rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", n->out, y), 0);
	rlx_session_free(s);
	if (keep)
		*keep = p;
	else
		rlx_program_put(p);
}

double xy_off(const struct xy_net *n, const float *want, const float *y, double *top)
{
	double off = 0;
	int64_t i;

	*top = 0;
	for (i = 0; i < count(&n->out); i++) {
		CHECK(isfinite(want[i]) && isfinite(y[i]));
		*top = fmax(*top, fabs((double)want[i]));
		off = fmax(off, fabs((double)y[i] - (double)want[i]));
	}
	return off;
}
