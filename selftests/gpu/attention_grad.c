// SPDX-License-Identifier: MIT
/*
 * The gradient of attention on a GPU, in 16 bits with random sizes, masks and heads, against f64
 * by the evaluator. RLX_TEST_CASES draws (6; more and longer ones take the emulator minutes).
 */
#include <math.h>

#include "rlx/grad.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { Q, K, V, W, BIAS, LENS };

struct draw {
	struct rlx_op_attention a;
	struct rlx_type	t[6];		/* of q, k, v, y's weights, bias, lens; none */
	enum rlx_dtype	real;
	int64_t		rows, keys;
	double		top;		/* of elements */
};

static int64_t pick(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

static struct draw draw(uint64_t *seed, int64_t most)
{
	static const int64_t width[] = { 64, 64, 32, 128, 96, 40, 7, 80, 24 };
	int64_t b = pick(seed, 1, 2), g = pick(seed, 1, 2), h = g * pick(seed, 1, 3);
	int64_t d = width[pick(seed, 0, 8)], e = pick(seed, 0, 3) ? d : width[pick(seed, 0, 8)];
	struct draw r = { .real = pick(seed, 0, 1) ? RLX_BF16 : RLX_F16, .top = 1.5 };

	r.rows = pick(seed, 1, most);
	r.keys = pick(seed, 0, 2) ? r.rows : pick(seed, 1, most);
	r.t[Q] = rlx_type(r.real, b, r.rows, h * d);
	r.t[K] = rlx_type(r.real, b, r.keys, g * d);
	r.t[V] = rlx_type(r.real, b, r.keys, g * e);
	r.t[W] = rlx_type(r.real, b, r.rows, h * e);
	r.a.heads = (int32_t)h;
	r.a.kv_heads = (int32_t)g;
	r.a.mask = (int32_t)pick(seed, 0, 3) % 3;
	r.a.mask = r.a.mask ? r.a.mask : pick(seed, 0, 1) ? RLX_MASK_CAUSAL : RLX_MASK_NONE;
	r.a.window = (int32_t)pick(seed, 1, r.keys);
	if (!pick(seed, 0, 2))
		r.a.softcap = 2.5f;
	if (!pick(seed, 0, 2))
		r.t[BIAS] = rlx_type(pick(seed, 0, 1) ? RLX_BOOL : RLX_F32, h, r.rows, r.keys);
	if (!pick(seed, 0, 2))
		r.t[LENS] = rlx_type(RLX_I32, b);
	return r;
}

/* The graph of @d in @r: dq, dk and dv are its outputs. */
static void build(struct rig *r, const struct draw *d, const rlx_value v[6])
{
	struct rlx_op_attention a = d->a;
	rlx_value y, grad[3];

	a.q = v[Q];
	a.k = v[K];
	a.v = v[V];
	a.bias = v[BIAS];
	a.lens = v[LENS];
	y = rlx_emit_raw(r->g, &rlx_op_attention, &a, sizeof(a), __FILE__, __LINE__);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
					.seed = { &v[W], 1 }, .wrt = { v, 3 } }, grad);
	rig_output(r, grad[0]);
	rig_output(r, grad[1]);
	rig_output(r, grad[2]);
	rig_output(r, y);
}

static void one(uint64_t *seed, int64_t most)
{
	struct draw d = draw(seed, most);
	unsigned int k, n = 0;
	rlx_value dev[6] = { 0 }, ref[6] = { 0 };
	double far, worst, tol = d.real == RLX_BF16 ? 3e-2 : 4e-3;
	struct rig r, want;
	int64_t i;

	rig_init(&r, op_case_gpu());
	rig_init(&want, NULL);
	for (k = 0; k < 6; k++) {
		struct rlx_type t = d.t[k];
		int64_t count = rlx_type_count(&t);
		double *x;

		if (!t.dtype)
			continue;
		dev[k] = rig_random(&r, t, k == BIAS && t.dtype == RLX_BOOL ? 0 : k == LENS ? 1 :
				    -d.top, k == LENS ? (double)d.keys : d.top);
		if (!rlx_dtype_is_float(t.dtype)) {
			ref[k] = rig_input(&want, t, r.in[n++].data);
			continue;
		}
		x = calloc((size_t)count + 1, sizeof(*x));
		CHECK(x != NULL);
		for (i = 0; i < count; i++)
			x[i] = rig_in(&r, n, i);
		n++;
		t.dtype = RLX_F64;
		ref[k] = rig_input(&want, t, x);
		free(x);
	}
	build(&r, &d, dev);
	build(&want, &d, ref);
	rig_run(&want);
	rig_run(&r);
	for (k = 0; k < 4; k++) {
		int64_t count = rlx_type_count(&want.out[k].type);

		far = worst = 0;
		for (i = 0; i < count; i++) {
			double w = rig_get(&want, k, i), have = rig_get(&r, k, i);

			far = fmax(far, fabs(w));
			worst = isnan(have) ? INFINITY : fmax(worst, fabs(have - w));
		}
		CHECKF(worst <= tol * (far + 0.05),
		       "output %u is %g off, of %g: %lld heads of %lld/%lld, %lld rows, %lld keys, "
		       "mask %d%s%s%s, %s", k, worst, far, (long long)d.a.heads,
		       (long long)(d.t[Q].dim[2] / d.a.heads),
		       (long long)(d.t[W].dim[2] / d.a.heads), (long long)d.rows,
		       (long long)d.keys, d.a.mask, d.t[BIAS].dtype ? ", bias" : "",
		       d.t[LENS].dtype ? ", lens" : "", d.a.softcap > 0 ? ", softcap" : "",
		       rlx_dtype_name(d.real));
	}
	rig_fini(&r);
	rig_fini(&want);
}

TEST(random_sizes)
{
	const char *cases = getenv("RLX_TEST_CASES");
	uint64_t seed = rlx_test_seed();
	int i, n = cases ? atoi(cases) : 6;

	for (i = 0; i < n; i++)
		one(&seed, i % 6 < 5 ? 80 : 200);
}

static rlx_value third(struct rig *r, rlx_value x, int64_t k)
{
	return rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(2), .starts = RLX_INTS(32 * k),
			.ends = RLX_INTS(32 * k + 32));
}

/* Gradients of parts of @x [2, 64, 96], joined as they are or as @flat rows. */
static void packed(struct rig *r, bool flat, struct rlx_tensor in[3])
{
	rlx_value p, dy, w, x, q, k, v, y, d, part[3];
	int i;

	if (in[0].data) {
		p = rig_input(r, in[0].type, in[0].data);
		dy = rig_input(r, in[1].type, in[1].data);
		w = rig_input(r, in[2].type, in[2].data);
	} else {
		p = rig_random(r, rlx_type(RLX_F16, 2, 64, 96), -0.5, 0.5);
		dy = rig_random(r, rlx_type(RLX_F16, 2, 64, 32), -1, 1);
		w = rig_random(r, rlx_type(RLX_F16, 96, 16), -1, 1);
		memcpy(in, r->in, 3 * sizeof(*in));
	}
	x = rlx_emit(r->g, add, .a = p, .b = p);
	q = third(r, x, 0);
	k = third(r, x, 1);
	v = third(r, x, 2);
	y = rlx_emit(r->g, attention, .q = q, .k = k, .v = v, .heads = 2, .lse = true);
	d = rlx_emit(r->g, attention_grad, .q = q, .k = k, .v = v, .y = y, .dy = dy,
		     .lse = rlx_out(r->g, y, 1), .heads = 2);
	for (i = 0; i < 3; i++) {
		part[i] = rlx_out(r->g, d, (uint32_t)i);
		if (flat)
			part[i] = rlx_emit(r->g, reshape, .x = part[i],
					   .shape = RLX_INTS(128, 32));
	}
	x = rlx_emit(r->g, concat, .xs = { part, 3 }, .axis = -1);
	rig_output(r, rlx_emit(r->g, matmul, .a = x, .b = w));
	rig_run(r);
}

TEST(joined_gradients)
{
	int i, flat;

	for (flat = 0; flat < 2; flat++) {
		struct rlx_tensor in[3] = { 0 };
		struct rig r, want;

		rig_init(&r, op_case_gpu());
		rig_init(&want, "cpu");
		packed(&r, flat, in);
		packed(&want, flat, in);
		for (i = 0; i < 2 * 64 * 16; i++)
			rig_want(&r, 0, i, rig_get(&want, 0, i), 2e-2);
		rig_fini(&r);
		rig_fini(&want);
	}
}

TEST_MAIN()
