// SPDX-License-Identifier: MIT
/*
 * Gradients through c64 on every device: random shapes against differences, a filter by its
 * spectrum against the same in real arithmetic, and what else derivatives are made for.
 */
#include "ir/graph.h"
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static void vjp(struct rig *r, rlx_value of, rlx_value seed, struct rlx_values wrt, rlx_value *d)
{
	struct rlx_ad a = { .size = sizeof(a), .of = { &of, 1 }, .seed = { &seed, seed.id != 0 },
			    .wrt = wrt };

	rlx_vjp(r->g, &a, d);
}

static rlx_value pairs(struct rig *r, rlx_value z)
{
	return rlx_emit(r->g, view_as_real, .x = z);
}

/* The real parts (0) or the imaginary ones (1) of z. */
static rlx_value part(struct rig *r, rlx_value z, int64_t which)
{
	struct rlx_type t = *rlx_type_of(r->g, z);
	rlx_value x = rlx_emit(r->g, slice, .x = pairs(r, z), .axes = RLX_INTS(-1),
			       .starts = RLX_INTS(which), .ends = RLX_INTS(which + 1));

	return rlx_emit(r->g, reshape, .x = x, .shape = { t.dim, t.rank });
}

static rlx_value product(struct rig *r, rlx_value a, rlx_value b)
{
	rlx_value ar = part(r, a, 0), ai = part(r, a, 1), br = part(r, b, 0), bi = part(r, b, 1);
	rlx_value re = rlx_emit(r->g, sub, .a = rlx_emit(r->g, mul, .a = ar, .b = br),
				.b = rlx_emit(r->g, mul, .a = ai, .b = bi));
	rlx_value im = rlx_emit(r->g, add, .a = rlx_emit(r->g, mul, .a = ar, .b = bi),
				.b = rlx_emit(r->g, mul, .a = ai, .b = br));
	struct rlx_type t = *rlx_type_of(r->g, re);

	t.dim[t.rank++] = 1;
	re = rlx_emit(r->g, reshape, .x = re, .shape = { t.dim, t.rank });
	im = rlx_emit(r->g, reshape, .x = im, .shape = { t.dim, t.rank });
	return rlx_emit(r->g, view_as_complex, .x = rlx_emit(r->g, concat, .axis = -1,
							     .xs = RLX_VALUES(re, im)));
}

static struct rlx_type any_type(struct rig *r, enum rlx_dtype dt, uint32_t least)
{
	struct rlx_type t = { dt, least + (uint32_t)(rlx_test_rand(&r->seed) % 3), { 0 } };
	uint32_t i;

	for (i = 0; i < t.rank; i++)
		t.dim[i] = 1 + (int64_t)(rlx_test_rand(&r->seed) % 7);
	return t;
}

/* One after the other: what takes c64 of any rank from 1 on, and gives c64 or floats. */
enum { KINDS = 14 };

static rlx_value apply(struct rig *r, unsigned int kind, rlx_value z)
{
	struct rlx_type t = *rlx_type_of(r->g, z);
	int64_t n = t.dim[t.rank - 1], two[RLX_MAX_RANK], last[2 * RLX_MAX_RANK] = { 0 };
	const int64_t picks[3] = { n - 1, 0, n - 1 };
	rlx_value at = rlx_constant(r->g, rlx_type(RLX_I64, 3), picks);
	uint32_t i;

	for (i = 0; i < t.rank; i++)
		two[i] = i ? 1 : 2;
	last[t.rank - 1] = 1;
	last[2 * t.rank - 1] = 2;
	switch (kind) {
	case 0: return rlx_emit(r->g, norm_sq, .x = z);
	case 1: return rlx_emit(r->g, conjugate, .x = z);
	case 2: return pairs(r, z);
	case 3: return rlx_emit(r->g, cast, .x = z, .to = RLX_F32);
	case 4: return rlx_emit(r->g, reshape, .x = z, .shape = RLX_INTS(-1));
	case 5: return rlx_emit(r->g, transpose, .x = z);
	case 6: return rlx_emit(r->g, concat, .axis = -1, .xs = RLX_VALUES(z, z));
	case 7: return rlx_emit(r->g, slice, .x = z, .axes = RLX_INTS(-1),
				.starts = RLX_INTS(-1), .ends = RLX_INTS(INT64_MIN),
				.steps = RLX_INTS(-2));
	case 8: return rlx_emit(r->g, gather, .x = z, .indices = at, .axis = -1);
	case 9: return rlx_emit(r->g, tile, .x = z, .repeats = { two, t.rank });
	case 10: return rlx_emit(r->g, pad, .x = z, .pads = { last, 2 * t.rank });
	case 11: return rlx_emit(r->g, fft, .x = z, .norm = RLX_FFT_ORTHO);
	case 12: return rlx_emit(r->g, irfft, .x = z, .n = RLX_INTS(2 * n + 1));
	default: return rlx_emit(r->g, expand, .x = rlx_emit(r->g, reshape, .x = z, .shape =
				 RLX_INTS(1, -1)), .shape = RLX_INTS(3, rlx_type_count(&t)));
	}
}

/* Sum of w y, numbers of c64 as pairs. */
static double weighed(const struct rig *r, unsigned int out, unsigned int w)
{
	const struct rlx_type *t = &r->out[out].type;
	int64_t n = rlx_type_count(t) * (t->dtype == RLX_C64 ? 2 : 1), i;
	const float *y = r->out[out].data, *by = r->in[w].data;
	double sum = 0;

	for (i = 0; i < n; i++)
		sum += (double)y[i] * (double)by[i];
	return sum;
}

/* y(z + v) - y(z - v), which is linear or quadratic, and so twice the slope: by v. */
static void differences(struct rig *r, unsigned int kind)
{
	struct rlx_type t = any_type(r, RLX_C64, 1), f = t, w;
	rlx_value z, v, up, down, y, seed, d;
	double want, got = 0, size = 0;
	int64_t i;

	f.dtype = RLX_F32;
	f.dim[f.rank++] = 2;
	z = rig_random(r, f, -2, 2);
	v = rig_random(r, f, -1, 1);
	up = rlx_emit(r->g, view_as_complex, .x = rlx_emit(r->g, add, .a = z, .b = v));
	down = rlx_emit(r->g, view_as_complex, .x = rlx_emit(r->g, sub, .a = z, .b = v));
	z = rlx_emit(r->g, view_as_complex, .x = z);
	y = apply(r, kind, z);
	w = *rlx_type_of(r->g, y);
	seed = w.dtype == RLX_C64 ? RLX_NONE : rig_random(r, w, -1, 1);
	if (!seed.id) {
		w.dtype = RLX_F32;
		w.dim[w.rank++] = 2;
		seed = rlx_emit(r->g, view_as_complex, .x = rig_random(r, w, -1, 1));
	}
	vjp(r, y, seed, RLX_VALUES(z), &d);
	rig_output(r, apply(r, kind, up));
	rig_output(r, apply(r, kind, down));
	rig_output(r, pairs(r, d));
	rig_run(r);
	want = (weighed(r, 0, 2) - weighed(r, 1, 2)) / 2;
	for (i = 0; i < rlx_type_count(&f); i++) {
		got += rig_get(r, 2, i) * rig_in(r, 1, i);
		size += fabs(rig_get(r, 2, i) * rig_in(r, 1, i));
	}
	CHECKF(fabs(got - want) <= 2e-5 * (size + 1),
	       "kind %u of [%lld ..] rank %u: gradient %.8g, difference %.8g", kind,
	       (long long)t.dim[0], t.rank, got, want);
}

EVERYWHERE(random_shapes)
{
	unsigned int kind, k;

	for (kind = 0; kind < KINDS; kind++)
		for (k = 0; k < 3; k++) {
			uint64_t seed = r->seed;

			rig_reset(r);
			r->seed = seed;
			differences(r, kind);
		}
}

/* irfft(rfft(x) rfft(k)) is a matrix of k's elements times x. */
EVERYWHERE(filter_by_its_spectrum)
{
	enum { N = 15, ROWS = 4 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, ROWS, N), -1, 1), k, y, loss, d[2], index;
	int64_t at[N * N];
	int i, j;

	k = rig_random(r, rlx_type(RLX_F32, N), -1, 1);
	y = product(r, rlx_emit(r->g, rfft, .x = x, .joined = true),
		    rlx_emit(r->g, rfft, .x = k, .joined = true));
	y = rlx_emit(r->g, irfft, .x = y, .n = RLX_INTS(N));
	loss = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, tanh, .x = y));
	vjp(r, loss, RLX_NONE, RLX_VALUES(x, k), d);
	rig_output(r, loss);
	rig_output(r, d[0]);
	rig_output(r, d[1]);
	for (i = 0; i < N; i++)
		for (j = 0; j < N; j++)
			at[j * N + i] = (i - j + N) % N;
	index = rlx_constant(r->g, rlx_type(RLX_I64, N, N), at);
	y = rlx_emit(r->g, matmul, .a = x, .b = rlx_emit(r->g, gather, .x = k,
							 .indices = index));
	loss = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, tanh, .x = y));
	vjp(r, loss, RLX_NONE, RLX_VALUES(x, k), d);
	rig_output(r, loss);
	rig_output(r, d[0]);
	rig_output(r, d[1]);
	rig_run(r);
	rig_want(r, 0, 0, rig_get(r, 3, 0), 1e-5);
	for (i = 0; i < ROWS * N; i++)
		rig_want(r, 1, i, rig_get(r, 4, i), 1e-5);
	for (i = 0; i < N; i++)
		rig_want(r, 2, i, rig_get(r, 5, i), 1e-5);
}

/* Of f = |z|^2 sums, z read three times and of the highest rank: 2 z, then what that gives. */
EVERYWHERE(forward_twice_and_mapped)
{
	const struct rlx_type t = rlx_type(RLX_C64, 1, 1, 1, 2, 1, 1, 1, 3);
	const struct rlx_type f = rlx_type(RLX_F32, 6, 2);
	rlx_value x = rig_random(r, f, -1, 1), u = rig_random(r, f, -1, 1), z, v, y, d;
	struct rlx_ad a = { .size = sizeof(a), .of = { &y, 1 }, .wrt = { &z, 1 },
			    .tangent = { &v, 1 } };
	struct rlx_vmap m = { .size = sizeof(m), .of = { &d, 1 }, .over = { &z, 1 } };
	rlx_value all = rig_random(r, rlx_type(RLX_F32, 2, 12), -1, 1), dot, hv, mapped;
	double slope;
	int64_t i;

	z = rlx_emit(r->g, reshape, .x = rlx_emit(r->g, view_as_complex, .x = x),
		     .shape = { t.dim, t.rank });
	v = rlx_emit(r->g, reshape, .x = rlx_emit(r->g, view_as_complex, .x = u),
		     .shape = { t.dim, t.rank });
	y = rlx_emit(r->g, add, .a = rlx_emit(r->g, norm_sq, .x = z),
		     .b = rlx_emit(r->g, norm_sq, .x = rlx_emit(r->g, conjugate, .x = z)));
	y = rlx_emit(r->g, add, .a = y, .b = rlx_emit(r->g, cast, .x = z, .to = RLX_F32));
	y = rlx_emit(r->g, reduce, .x = y);
	rlx_jvp(r->g, &a, &dot);
	rlx_hvp(r->g, &a, &hv);
	rig_output(r, dot);
	rig_output(r, rlx_emit(r->g, view_as_real, .x = rlx_emit(r->g, reshape, .x = hv,
								 .shape = RLX_INTS(6))));
	/* the gradient of each of two, of rank 1 */
	z = rlx_emit(r->g, view_as_complex, .x = x);
	y = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, norm_sq, .x = z));
	vjp(r, y, RLX_NONE, RLX_VALUES(z), &d);
	all = rlx_emit(r->g, reshape, .x = all, .shape = RLX_INTS(2, 6, 2));
	all = rlx_emit(r->g, view_as_complex, .x = all);
	m.with = (struct rlx_values){ &all, 1 };
	rlx_vmap(r->g, &m, &mapped);
	rig_output(r, pairs(r, mapped));
	rig_run(r);
	for (i = 0; i < 12; i++) {
		rig_want(r, 1, i, 4 * rig_in(r, 1, i), 1e-5);
		rig_want(r, 2, i, 2 * rig_in(r, 2, i), 1e-5);
		rig_want(r, 2, 12 + i, 2 * rig_in(r, 2, 12 + i), 1e-5);
	}
	for (slope = 0, i = 0; i < 12; i++)	/* 4 x by its tangent, and 1 by real parts */
		slope += (4 * rig_in(r, 0, i) + !(i % 2)) * rig_in(r, 1, i);
	rig_want(r, 0, 0, slope, 1e-5);
}

/* A c64 value has no gradient of its own without seeds; integers have none at all. */
TEST(refusals)
{
	struct rlx_graph *g = rlx_graph_new("g");
	rlx_value z = rlx_input(g, "z", rlx_scalar(RLX_C64)), d;

	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &z, 1 },
				     .wrt = { &z, 1 } }, &d);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_ETYPE);
	CHECKF(strstr(rlx_graph_error(g)->text, "this one is c64"), "%s",
	       rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

TEST_MAIN()
