// SPDX-License-Identifier: MIT
/*
 * Ops whose native kernels owe the evaluator's result to the bit, or nearly so, on data drawn by
 * chance: each dtype, axes of one element, nothing at all, and what is an error when it runs.
 */
#include <sys/resource.h>

#include "ir/element.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { ROUNDS = 40 };

/* Emit the op by what the seed says: the same graph and data from the same seed. */
typedef void build_fn(struct rig *r, uint64_t *seed);

static const enum rlx_dtype ints[] = {
	RLX_I64, RLX_U64, RLX_I32, RLX_U32, RLX_I16, RLX_U16, RLX_I8, RLX_U8,
};

#define PICK(list, seed) ((list)[rlx_test_rand(seed) % (sizeof(list) / sizeof((list)[0]))])

static int64_t pick(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

/*
 * Below the smallest normal number all are multiples of one unit, of which @tol is less than one.
 * e^x is off by one there, its quotient by a sum of at least 1 by half of one more: two results
 * are at most three apart.
 */
static bool same_element(const struct rlx_tensor *x, const struct rlx_tensor *y, int64_t i,
			 double tol)
{
	size_t size = rlx_dtype_size(x->type.dtype);
	const double least = tol > 0 ? 3 * 0x1p-1074 : 0;
	double a, b;

	if (!memcmp((char *)x->data + (size_t)i * size, (char *)y->data + (size_t)i * size, size))
		return true;
	if (el_is_int(x->type.dtype) || x->type.dtype == RLX_C64)
		return false;
	a = el_get(x, i);
	b = el_get(y, i);
	return (isnan(a) && isnan(b)) || a == b ||
	       fabs(a - b) <= tol * fmax(fabs(a), fabs(b)) + least;
}

static void compare(const struct rig *want, const struct rig *got, double tol, int round)
{
	unsigned int k;
	int64_t i, n;

	for (k = 0; k < want->n_out; k++) {
		n = rlx_type_count(&want->out[k].type);
		CHECK_EQ(n, rlx_type_count(&got->out[k].type));
		for (i = 0; i < n; i++)
			CHECKF(same_element(&want->out[k], &got->out[k], i, tol),
			       "round %d, %s: output %u [%lld] is %.17g, not %.17g", round,
			       rlx_dtype_name(want->out[k].type.dtype), k, (long long)i,
			       rig_get(got, k, i), rig_get(want, k, i));
	}
}

/* On the CPU as by the evaluator, errors too; how many rounds were well. */
static int agree(build_fn *build, double tol)
{
	uint64_t seed = rlx_test_seed(), draw;
	struct rig want, got;
	int round, well = 0;

	for (round = 0; round < ROUNDS; round++) {
		enum rlx_status st;

		rlx_test_rand(&seed);
		rig_init(&want, NULL);
		rig_init(&got, "cpu");
		want.seed = got.seed = draw = seed;
		build(&want, &draw);
		draw = seed;
		build(&got, &draw);
		st = rig_try(&want);
		CHECKF(rig_try(&got) == st, "round %d: %s; not %s", round, got.err.text,
		       want.err.text);
		if (!st)
			compare(&want, &got, tol, round);
		well += !st;
		rig_fini(&want);
		rig_fini(&got);
	}
	return well;
}

static struct rlx_type shape(uint64_t *seed, enum rlx_dtype dt, uint32_t rank, int64_t lo,
			     int64_t hi)
{
	struct rlx_type t = { .dtype = dt, .rank = rank };
	uint32_t d;

	for (d = 0; d < rank; d++)
		t.dim[d] = pick(seed, 0, 3) ? pick(seed, lo, hi) : 1;
	return t;
}

/* Of any bits: sums of some of them wrap. */
static rlx_value bits(struct rig *r, uint64_t *seed, struct rlx_type t)
{
	size_t n = (size_t)rlx_type_bytes(&t), i;
	unsigned char *p = malloc(n + 1);
	rlx_value v;

	CHECK(p);
	for (i = 0; i < n; i++)
		p[i] = (unsigned char)(rlx_test_rand(seed) >> 40);
	v = rig_input(r, t, p);
	free(p);
	return v;
}

static void mean(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = shape(seed, PICK(ints, seed), 3, 1, 33);
	const struct rlx_ints axes[] = {
		{ (int64_t[]){ 0 }, 1 }, { (int64_t[]){ 1 }, 1 }, { (int64_t[]){ 2 }, 1 },
		{ (int64_t[]){ 0, 2 }, 2 }, { NULL, 0 },
	};
	bool wide = pick(seed, 0, 1);
	rlx_value x = wide ? bits(r, seed, t) :
		      rig_random(r, t, rlx_dtype_is_signed(t.dtype) ? -100 : 0, 100);

	rig_output(r, rlx_emit(r->g, reduce, .x = x, .axes = PICK(axes, seed),
			       .kind = RLX_REDUCE_MEAN));
}

TEST(mean_of_integers) { CHECK_EQ(agree(mean, 0), ROUNDS); }

/* Of any bits, NaNs and infinities among them, the ends of rows and where they are. */
static void ends(struct rig *r, uint64_t *seed)
{
	static const enum rlx_dtype any[] = {
		RLX_F64, RLX_F32, RLX_F16, RLX_BF16, RLX_I64, RLX_U64, RLX_I32, RLX_U32, RLX_I16,
		RLX_U16, RLX_I8, RLX_U8,
	};
	struct rlx_type t = rlx_type(PICK(any, seed), pick(seed, 1, 4), pick(seed, 1, 1500));
	bool wide = pick(seed, 0, 1);
	rlx_value x = wide ? bits(r, seed, t) : rig_random(r, t, 0, 40);
	int32_t kind = (int32_t)pick(seed, RLX_REDUCE_MAX, RLX_REDUCE_MIN);
	int32_t axis = (int32_t)pick(seed, 0, 3) ? 1 : 0;

	rig_output(r, rlx_emit(r->g, reduce, .x = x, .kind = kind,
			       .axes = { (int64_t[]){ axis }, 1 }));
	rig_output(r, rlx_emit(r->g, arg_reduce, .x = x, .axis = axis,
			       .min = kind == RLX_REDUCE_MIN, .last_index = pick(seed, 0, 1)));
}

TEST(ends_of_rows) { CHECK_EQ(agree(ends, 0), ROUNDS); }

/* Integers wrap, whatever the order. */
static void wrapping(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = rlx_type(PICK(ints, seed), pick(seed, 1, 4), pick(seed, 1, 1500));
	rlx_value x = bits(r, seed, t);
	int32_t axis = (int32_t)pick(seed, 0, 1);

	rig_output(r, rlx_emit(r->g, reduce, .x = x, .axes = { (int64_t[]){ axis }, 1 },
			       .kind = pick(seed, 0, 1) ? RLX_REDUCE_SUM : RLX_REDUCE_PROD));
	rig_output(r, rlx_emit(r->g, cumsum, .x = x, .axis = axis,
			       .reverse = pick(seed, 0, 1), .exclusive = pick(seed, 0, 1)));
	rig_output(r, rlx_emit(r->g, cumprod, .x = x, .axis = axis,
			       .reverse = pick(seed, 0, 1), .exclusive = pick(seed, 0, 1)));
}

TEST(integers_wrap_along_rows) { CHECK_EQ(agree(wrapping, 0), ROUNDS); }

/* The sum of two large numbers of u64 is no negative one. */
EVERYWHERE(mean_of_large_u64)
{
	const uint64_t x[2] = { UINT64_C(1) << 63, 6 };
	const uint64_t *y;

	rig_output(r, rlx_emit(r->g, reduce, .x = rig_input(r, rlx_type(RLX_U64, 2), x),
			       .kind = RLX_REDUCE_MEAN));
	rig_run(r);
	y = r->out[0].data;
	CHECK_EQ(*y, (UINT64_C(1) << 62) + 3);
}

/* In a region, too, what where takes of an i8 is a u32 then, and not below others. */
EVERYWHERE(signed_among_unsigned)
{
	static const int8_t a[3] = { -5, 3, 9 };
	static const uint32_t b[3] = { 7, 7, 7 };
	static const bool c[3] = { true, true, false }, *less;
	rlx_value x = rlx_emit(r->g, where, .cond = rig_input(r, rlx_type(RLX_BOOL, 3), c),
			       .a = rig_input(r, rlx_type(RLX_I8, 3), a),
			       .b = rig_input(r, rlx_type(RLX_U32, 3), b));

	rig_output(r, rlx_emit(r->g, lt, .a = x, .b = rlx_scalar_const(r->g, RLX_U32, 6)));
	rig_run(r);
	less = r->out[0].data;
	CHECK(!less[0] && less[1] && !less[2]);
}

/* Pointwise ops on integers of any bits, some of another dtype or bool, in one region or more. */
static void integer_programs(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = shape(seed, PICK(ints, seed), 2, 1, 300);
	rlx_value v[12], a, b, y = { 0 };
	int n = 3, i;

	for (i = 0; i < n; i++) {
		struct rlx_type u = t;

		u.dim[0] = pick(seed, 0, 3) ? u.dim[0] : 1;
		u.dim[1] = pick(seed, 0, 3) ? u.dim[1] : 1;
		u.dtype = pick(seed, 0, 7) ? u.dtype : PICK(ints, seed);
		v[i] = pick(seed, 0, 1) ? bits(r, seed, u) : rig_random(r, u, 0, 9);
	}
	for (; n < 12; v[n++] = y) {
		a = v[pick(seed, 0, n - 1)];
		b = v[pick(seed, n > 4 ? n - 4 : 0, n - 1)];
		if (rlx_type_of(r->g, a)->dtype == RLX_BOOL) {
			y = rlx_emit(r->g, where, .cond = a, .a = v[0], .b = v[1]);
			continue;
		}
		if (rlx_type_of(r->g, b)->dtype == RLX_BOOL)
			b = v[2];
		switch (pick(seed, 0, 21)) {
#define CASE(i, n)	case i: y = rlx_emit(r->g, n, .a = a, .b = b); break;
		CASE(0, add) CASE(1, sub) CASE(2, mul) CASE(3, div) CASE(4, mod) CASE(5, fmod)
		CASE(6, max) CASE(7, min) CASE(8, eq) CASE(9, ne) CASE(10, lt) CASE(11, le)
		CASE(12, gt) CASE(13, ge) CASE(14, bit_and) CASE(15, bit_or) CASE(16, bit_xor)
		CASE(17, shl) CASE(18, shr)
#undef CASE
		case 19: y = rlx_emit(r->g, neg, .x = a); break;
		case 20: y = rlx_emit(r->g, sign, .x = a); break;
		default: y = rlx_emit(r->g, abs, .x = a);
		}
	}
	for (i = 3; i < n; i += 4)
		rig_output(r, v[i]);
}

TEST(pointwise_integers_of_any_width) { CHECK_EQ(agree(integer_programs, 0), ROUNDS); }

/* Softmax of doubles, lines of -inf and NaN among them, along any axis. */
static void softmax_of_doubles(struct rig *r, uint64_t *seed)
{
	static double data[7 * 40 * 9];
	struct rlx_type t = rlx_type(RLX_F64, pick(seed, 1, 7), pick(seed, 1, 40),
				     pick(seed, 1, 9));
	const double odd = PICK(((double[]){ -INFINITY, INFINITY, NAN, -1e300, 700 }), seed);
	int32_t axis = (int32_t)pick(seed, 0, 2);
	bool all = pick(seed, 0, 3) == 0;
	rlx_value x;
	int64_t i;

	for (i = 0; i < rlx_type_count(&t); i++)
		data[i] = all || pick(seed, 0, 15) == 0 ? odd :
			  rlx_test_uniform(seed, -40, 40);
	x = rig_input(r, t, data);
	if (pick(seed, 0, 1))
		rig_output(r, rlx_emit(r->g, softmax, .x = x, .axis = axis));
	else	/* near 0 a logarithm has the sum's error, which is near 1, and no less */
		rig_output(r, rlx_emit(r->g, exp, .x = rlx_emit(r->g, log_softmax, .x = x,
								.axis = axis)));
}

/* Logarithms of down to -745 are rounded to 2^-43, the relative error of what e^x makes of them */
TEST(softmax_of_doubles_along_any_axis)
{
	CHECK_EQ(agree(softmax_of_doubles, 0x1p-43 + 0x1p-50), ROUNDS);
}

/* Products of integers wrap as their dtype does, whatever the other's. */
static void products(struct rig *r, uint64_t *seed)
{
	int64_t m = pick(seed, 1, 9), k = pick(seed, 1, 150), n = pick(seed, 1, 30);
	enum rlx_dtype ta = PICK(ints, seed), tb = pick(seed, 0, 1) ? ta : PICK(ints, seed);
	rlx_value a, b;

	n = pick(seed, 0, 7) ? n : 600;
	a = bits(r, seed, rlx_type(ta, 2, m, k));
	b = pick(seed, 0, 1) ? bits(r, seed, rlx_type(tb, 2, k, n)) :
			       bits(r, seed, rlx_type(tb, k, n));
	rig_output(r, rlx_emit(r->g, matmul, .a = a, .b = b));
}

TEST(products_of_integers_wrap) { CHECK_EQ(agree(products, 0), ROUNDS); }

/* Windows of integers, some wholly in the padding; rounded up where the seed says so. */
static void windows(struct rig *r, uint64_t *seed)
{
	int64_t h = pick(seed, 3, 12), w = pick(seed, 3, 30), k = pick(seed, 1, 3);
	int64_t pad = pick(seed, 0, 2), s = pick(seed, 1, 3);
	struct rlx_type t = rlx_type(PICK(ints, seed), 2, 2, h, w);
	bool wide = pick(seed, 0, 1), where = pick(seed, 0, 1);
	rlx_value x = wide ? bits(r, seed, t) : rig_random(r, t, 0, 5), y;

	y = rlx_emit(r->g, pool, .x = x, .kernel = { (int64_t[]){ k, k }, 2 },
		     .stride = { (int64_t[]){ s, s }, 2 }, .ceil = pick(seed, 0, 1),
		     .pad = { (int64_t[]){ pad, pad, pad, pad }, 4 }, .indices = where);
	rig_output(r, y);
	if (where)
		rig_output(r, rlx_out(r->g, y, 1));
}

TEST(maxima_of_windows_of_integers) { CHECK_EQ(agree(windows, 0), ROUNDS); }

static void scatter_bool(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = shape(seed, RLX_BOOL, 2, 1, 9), at = t, upd = t;
	int32_t op = (int32_t)pick(seed, 0, RLX_SCATTER_MIN);
	rlx_value x = rig_random(r, t, 0, 1), i;

	at.dtype = PICK(((enum rlx_dtype[]){ RLX_I64, RLX_I32 }), seed);
	if (pick(seed, 0, 1)) {
		at.dim[0] = upd.dim[0] = pick(seed, 0, 20);
		i = rig_random(r, at, (double)-t.dim[0], (double)t.dim[0] - 1);
		rig_output(r, rlx_emit(r->g, scatter_elements, .x = x, .indices = i,
				       .updates = rig_random(r, upd, 0, 1), .axis = 0,
				       .reduction = op));
		return;
	}
	at.dim[0] = upd.dim[0] = pick(seed, 0, 20);
	at.dim[1] = 1;
	i = rig_random(r, at, (double)-t.dim[0], (double)t.dim[0] - 1);
	rig_output(r, rlx_emit(r->g, scatter_nd, .x = x, .indices = i,
			       .updates = rig_random(r, upd, 0, 1), .reduction = op));
}

TEST(scatter_of_bool) { CHECK_EQ(agree(scatter_bool, 0), ROUNDS); }

/* Many updates of few places, whose sums an update at a time would not grow in 16 bits. */
static void scatter_many(struct rig *r, uint64_t *seed)
{
	enum rlx_dtype dt = PICK(((enum rlx_dtype[]){ RLX_F16, RLX_BF16 }), seed);
	int64_t n = pick(seed, 0, 3000), places = pick(seed, 1, 3), inner = pick(seed, 1, 70);
	rlx_value x = rig_random(r, rlx_type(dt, places, inner), 0, 1);
	rlx_value u = rig_random(r, rlx_type(dt, n, inner), 0, 1), i;

	if (pick(seed, 0, 1)) {
		i = rig_random(r, rlx_type(RLX_I64, n, inner), 0, (double)places - 1);
		rig_output(r, rlx_emit(r->g, scatter_elements, .x = x, .indices = i,
				       .updates = u, .axis = 0, .reduction = RLX_SCATTER_ADD));
		return;
	}
	i = rig_random(r, rlx_type(RLX_I64, n, 1), 0, (double)places - 1);
	rig_output(r, rlx_emit(r->g, scatter_nd, .x = x, .indices = i, .updates = u,
			       .reduction = RLX_SCATTER_ADD));
}

/* A rounding of bf16 apart, at most. */
TEST(scatter_of_many_16bit_updates) { CHECK_EQ(agree(scatter_many, 0x1p-7), ROUNDS); }

static const enum rlx_dtype all[] = {
	RLX_F64, RLX_F32, RLX_F16, RLX_BF16, RLX_F8E4M3, RLX_F8E5M2, RLX_I64, RLX_U64, RLX_I32,
	RLX_U32, RLX_I16, RLX_U16, RLX_I8, RLX_U8, RLX_BOOL, RLX_C64,
};

static void complex_cast(struct rig *r, uint64_t *seed)
{
	struct rlx_type pairs = rlx_type(RLX_F32, pick(seed, 0, 3000), 2);
	rlx_value x = rig_random(r, rlx_type(PICK(all, seed), pairs.dim[0]), 0, 1);
	struct rlx_tensor *from;

	rig_output(r, rlx_emit(r->g, cast, .x = x, .to = RLX_C64));
	x = rig_random(r, rlx_type(RLX_C64, pairs.dim[0]), 0, 1);
	from = &r->in[r->n_in - 1];	/* both parts, some of them nothing that fits */
	for (int64_t i = 0; i < 2 * pairs.dim[0]; i++)
		((float *)from->data)[i] = pick(seed, 0, 50) ?
			(float)rlx_test_uniform(seed, -400, 400) :
			PICK(((float[]){ NAN, INFINITY, -INFINITY, 3e30f, -0.0f }), seed);
	rig_output(r, rlx_emit(r->g, cast, .x = x, .to = PICK(all, seed)));
}

TEST(cast_from_and_to_c64) { CHECK_EQ(agree(complex_cast, 0), ROUNDS); }

static void reversal(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = shape(seed, PICK(all, seed), 4, 0, 7), lens;
	int32_t time = (int32_t)pick(seed, 0, 3), batch = (int32_t)pick(seed, 0, 3);
	bool wrong = !pick(seed, 0, 5);

	batch = batch == time ? (time + 1) % 4 : batch;
	lens = rlx_type(PICK(((enum rlx_dtype[]){ RLX_I64, RLX_I32, RLX_U32 }), seed),
			t.dim[batch]);
	rig_output(r, rlx_emit(r->g, reverse_sequence, .x = rig_random(r, t, 0, 1),
			       .lens = rig_random(r, lens, wrong && lens.dtype != RLX_U32 ? -1 : 0,
						  (double)t.dim[time] + wrong),
			       .time_axis = time, .batch_axis = batch));
}

TEST(reverse_sequence_by_data)
{
	CHECK(agree(reversal, 0) >= ROUNDS / 2);
}

static const enum rlx_dtype reals[] = {
	RLX_F64, RLX_F32, RLX_F16, RLX_BF16, RLX_I64, RLX_U64, RLX_I32, RLX_U32, RLX_I16, RLX_U16,
	RLX_I8, RLX_U8, RLX_BOOL,
};

/* Few values, odd ones among floats. */
static rlx_value few(struct rig *r, uint64_t *seed, struct rlx_type t)
{
	static const double odd[] = { NAN, -NAN, -0.0, INFINITY, -INFINITY };
	bool ints_only = el_is_int(t.dtype);
	rlx_value x = rig_random(r, t, ints_only && !rlx_dtype_is_signed(t.dtype) ? 0 : -2,
				 t.dtype == RLX_BOOL ? 1 : 2);
	struct rlx_tensor *v = &r->in[r->n_in - 1];
	int64_t i;

	for (i = 0; i < rlx_type_count(&t); i++)
		if (!ints_only)
			el_set(v, i, pick(seed, 0, 6) ? (double)pick(seed, -1, 1) :
			       PICK(odd, seed));
		else if (t.dtype != RLX_BOOL && !pick(seed, 0, 9))
			el_seti(v, i, (int64_t)rlx_test_rand(seed));
	return x;
}

static int64_t count_set(const struct rlx_tensor *x)
{
	int64_t n = 0, i;

	for (i = 0; i < rlx_type_count(&x->type); i++)
		n += el_is_int(x->type.dtype) ? el_geti(x, i) != 0 : el_get(x, i) != 0;
	return n;
}

static void positions(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = shape(seed, PICK(reals, seed), (uint32_t)pick(seed, 0, 4), 0, 11);
	rlx_value x;
	int64_t n;

	if (t.rank == 1)	/* more than a block */
		t.dim[0] *= 4000;
	x = few(r, seed, t);
	n = count_set(&r->in[0]);
	if (n && !pick(seed, 0, 6))
		n--;
	rig_output(r, rlx_emit(r->g, nonzero, .x = x, .count = n));
}

TEST(nonzero_positions) { CHECK(agree(positions, 0) >= ROUNDS / 2); }

static void masked(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = shape(seed, PICK(all, seed), 3, 0, 9);
	bool flat = pick(seed, 0, 1);
	int32_t axis = (int32_t)pick(seed, -3, 2);
	int64_t n = flat ? rlx_type_count(&t) : t.dim[(axis + 3) % 3];
	rlx_value c = rig_random(r, rlx_type(RLX_BOOL, n ? pick(seed, 0, n) : 0), 0, 1);
	int64_t count = count_set(&r->in[0]);

	if (count && !pick(seed, 0, 6))
		count--;
	rig_output(r, rlx_emit(r->g, compress, .x = rig_random(r, t, 0, 1), .cond = c,
			       .axis = axis, .flat = flat, .count = count));
}

TEST(compress_by_data) { CHECK(agree(masked, 0) >= ROUNDS / 2); }

/* As many as the evaluator says there are. */
static int64_t count_distinct(const struct rlx_tensor *x, int32_t axis, bool flat)
{
	struct rig r;
	int64_t n;

	rig_init(&r, NULL);
	rig_output(&r, rlx_emit(r.g, unique_count, .x = rig_input(&r, x->type, x->data),
				.axis = axis, .flat = flat));
	rig_run(&r);
	n = el_geti(&r.out[0], 0);
	rig_fini(&r);
	return n;
}

static void distinct(struct rig *r, uint64_t *seed)
{
	struct rlx_type t = shape(seed, PICK(reals, seed), 3, 0, 9);
	bool flat = pick(seed, 0, 1);
	int32_t axis = (int32_t)pick(seed, -3, 2);
	rlx_value x, u;
	int64_t n;

	if (pick(seed, 0, 1))	/* short slices, so that some are alike */
		t.dim[(axis + 4) % 3] = t.dim[(axis + 5) % 3] = 1;
	if (pick(seed, 0, 1))	/* up to several blocks */
		t.dim[(axis + 3) % 3] *= t.dim[(axis + 4) % 3] * t.dim[(axis + 5) % 3] > 1 ? 30 :
					 2000;
	x = few(r, seed, t);
	n = count_distinct(&r->in[0], axis, flat);
	if (n && !pick(seed, 0, 6))
		n--;
	rig_output(r, rlx_emit(r->g, unique_count, .x = x, .axis = axis, .flat = flat));
	u = rlx_emit(r->g, unique, .x = x, .axis = axis, .flat = flat, .count = n,
		     .unsorted = pick(seed, 0, 1));
	for (uint32_t k = 0; k < 4; k++)
		rig_output(r, rlx_out(r->g, u, k));
}

TEST(unique_slices) { CHECK(agree(distinct, 0) >= ROUNDS / 2); }

static const enum rlx_dtype floats[] = { RLX_F64, RLX_F32, RLX_F16, RLX_BF16 };

static int64_t kept_boxes(const struct rig *of, const struct rlx_op_nms_count *a)
{
	struct rig r;
	int64_t n;

	rig_init(&r, NULL);
	rig_output(&r, rlx_emit(r.g, nms_count,
				.boxes = rig_input(&r, of->in[0].type, of->in[0].data),
				.scores = rig_input(&r, of->in[1].type, of->in[1].data),
				.max_per_class = a->max_per_class, .iou = a->iou, .score = a->score,
				.use_score = a->use_score, .center = a->center));
	rig_run(&r);
	n = el_geti(&r.out[0], 0);
	rig_fini(&r);
	return n;
}

/* Boxes and scores on a grid, so that some are equal; a few are no numbers. */
static void suppression(struct rig *r, uint64_t *seed)
{
	int64_t b = pick(seed, 0, 5) ? pick(seed, 1, 3) : 0, n = pick(seed, 0, 5) * 13;
	struct rlx_op_nms_count a = {
		.max_per_class = pick(seed, 0, 20), .iou = (float)pick(seed, 0, 10) / 10,
		.score = 0.3f, .use_score = pick(seed, 0, 1), .center = pick(seed, 0, 1),
	};
	rlx_value boxes = rig_random(r, rlx_type(PICK(floats, seed), b, n, 4), 0, 1);
	rlx_value scores = rig_random(r, rlx_type(PICK(floats, seed), b, pick(seed, 0, 4), n), 0,
				      1);
	int64_t count, i, k;

	for (k = 0; k < 2; k++)
		for (i = 0; i < rlx_type_count(&r->in[k].type); i++)
			el_set(&r->in[k], i, pick(seed, 0, 60) ? (double)pick(seed, 0, 12) / 8 :
			       PICK(((double[]){ NAN, INFINITY, -1, -0.0 }), seed));
	count = kept_boxes(r, &a);
	if (count && !pick(seed, 0, 6))
		count--;
	rig_output(r, rlx_emit(r->g, nms_count, .boxes = boxes, .scores = scores,
			       .max_per_class = a.max_per_class, .iou = a.iou, .score = a.score,
			       .use_score = a.use_score, .center = a.center));
	rig_output(r, rlx_emit(r->g, nms, .boxes = boxes, .scores = scores,
			       .max_per_class = a.max_per_class, .iou = a.iou, .score = a.score,
			       .use_score = a.use_score, .center = a.center, .count = count));
}

TEST(nms_keeps_the_same) { CHECK(agree(suppression, 0) >= ROUNDS / 2); }

/* Some without a pivot: rows of small integers, two of them alike. */
static void determinants(struct rig *r, uint64_t *seed)
{
	int64_t n = pick(seed, 0, 3) ? pick(seed, 1, 7) : pick(seed, 0, 40), i;
	struct rlx_type t = rlx_type(PICK(floats, seed), pick(seed, 0, 9), n, n);
	rlx_value x = rig_random(r, t, -2, 2);

	for (i = 0; i < rlx_type_count(&t); i++)
		if (n > 1 && i / n / n % 3 == 0)
			el_set(&r->in[0], i, i / n % n ? (double)pick(seed, -1, 1) : 1);
	rig_output(r, rlx_emit(r->g, det, .x = x));
}

/* The evaluator's own operations; other compilers may contract some. */
TEST(determinants_of_batches) { CHECK_EQ(agree(determinants, 1e-9), ROUNDS); }

static const enum rlx_dtype wide[] = {
	RLX_F64, RLX_I64, RLX_U64, RLX_I32, RLX_U32, RLX_I16, RLX_U16, RLX_I8, RLX_U8,
};

/*
 * One to three axes in any place change their size, some by halves, where sums tie; or any number
 * of short ones, which takes several kernels.
 */
static void resizing(struct rig *r, uint64_t *seed)
{
	const bool many = !pick(seed, 0, 2);
	struct rlx_type t = shape(seed, PICK(wide, seed), (uint32_t)pick(seed, 1, many ? 8 : 4), 1,
				  many ? 3 : 8);
	struct rlx_op_resize a = {
		.mode = (int32_t)pick(seed, 0, 2), .coord = (int32_t)pick(seed, 0, 6),
		.nearest = (int32_t)pick(seed, 0, 4), .cubic_a = pick(seed, 0, 1) ? -0.75f : -0.5f,
		.antialias = pick(seed, 0, 1), .exclude_outside = pick(seed, 0, 1),
		.extrapolation = (float)pick(seed, -3, 300) / 2,
	};
	int64_t sizes[RLX_MAX_RANK], changed = 0;
	double scales[RLX_MAX_RANK], roi[2 * RLX_MAX_RANK];
	rlx_value x;
	uint32_t d;

	for (d = 0; d < t.rank; d++) {
		bool change = (many || changed < 3) && pick(seed, 0, 3);

		changed += change;
		sizes[d] = !change ? t.dim[d] : pick(seed, 0, 1) ? 2 * t.dim[d] :
			   pick(seed, 1, many ? 4 : 11);
		scales[d] = (double)sizes[d] / (double)t.dim[d] + (change ? 0.05 : 0);
		roi[d] = change ? (double)pick(seed, -1, 1) / 8 : 0;
		roi[t.rank + d] = change ? (double)pick(seed, 6, 9) / 8 : 1;
	}
	a.sizes = (struct rlx_ints){ sizes, t.rank };
	if (!pick(seed, 0, 3))
		a.scales = (struct rlx_floats){ scales, t.rank };
	if (a.coord == RLX_COORD_TF_CROP_AND_RESIZE)
		a.roi = (struct rlx_floats){ roi, t.rank };
	if (a.roi.n)
		a.roi.n *= 2;
	x = el_is_int(t.dtype) && pick(seed, 0, 1) ? bits(r, seed, t) :
	    rig_random(r, t, rlx_dtype_is_signed(t.dtype) ? -100 : 0, 100);
	rig_output(r, rlx_emit(r->g, resize, .x = x, .sizes = a.sizes, .scales = a.scales,
			       .mode = a.mode, .coord = a.coord, .nearest = a.nearest,
			       .cubic_a = a.cubic_a, .exclude_outside = a.exclude_outside,
			       .antialias = a.antialias, .extrapolation = a.extrapolation,
			       .roi = a.roi));
}

/* Of any axes, as many as there are. */
static void tiling(struct rig *r, uint64_t *seed)
{
	static const enum rlx_dtype any[] = { RLX_F32, RLX_F16, RLX_U8, RLX_I64, RLX_F64, RLX_C64 };
	struct rlx_type t = shape(seed, PICK(any, seed), (uint32_t)pick(seed, 0, 8), 1, 3);
	int64_t repeats[RLX_MAX_RANK];
	uint32_t d;

	for (d = 0; d < t.rank; d++)
		repeats[d] = pick(seed, 0, 3) ? pick(seed, 1, 3) : 1;
	rig_output(r, rlx_emit(r->g, tile, .x = bits(r, seed, t), .repeats = { repeats, t.rank }));
}

TEST(tile_of_many_axes) { CHECK_EQ(agree(tiling, 0) + agree(tiling, 0), 2 * ROUNDS); }

TEST(resize_to_the_bit)
{
	CHECK_EQ(agree(resizing, 0) + agree(resizing, 0), 2 * ROUNDS);
}

/*
 * Weights in 4 bits, all of them above their zero point, and rows of x of which some have an
 * infinity, a NaN or numbers whose products with codes alone leave f32's range.
 */
static void wide_rows(struct rig *r, uint64_t *seed)
{
	static const float beyond[] = { INFINITY, -INFINITY, NAN, 1e38f };
	const bool is_signed = pick(seed, 0, 1), zp = !is_signed || pick(seed, 0, 1);
	const int64_t m = pick(seed, 1, 30), n = pick(seed, 1, 40) * 2, k = pick(seed, 1, 200);
	const int64_t block = pick(seed, 1, k), rows = (k + block - 1) / block;
	unsigned char code[200 * 80 / 2];
	float x[30 * 200], scale[200 * 80], zero[200 * 80];

	for (int64_t i = 0; i < k * n / 2; i++)
		code[i] = (rlx_test_rand(seed) >> 40 & 0x77) | (is_signed ? 0 : 0x88);
	for (int64_t i = 0; i < rows * n; i++) {
		scale[i] = (float)rlx_test_uniform(seed, 1e-4, 2e-4);
		zero[i] = (float)pick(seed, is_signed ? -8 : 0, is_signed ? -1 : 7);
	}
	for (int64_t i = 0; i < m * k; i++)
		x[i] = (float)rlx_test_uniform(seed, 0.5, 1);
	for (int64_t i = 0; i < m; i += pick(seed, 1, 3))
		x[i * k + pick(seed, 0, k - 1)] = PICK(beyond, seed);
	rig_output(r, rlx_emit(r->g, dequant_matmul,
		   .x = rig_input(r, rlx_type(RLX_F32, m, k), x),
		   .w = rlx_constant(r->g, rlx_type(RLX_U8, k * n / 2), code),
		   .scale = rlx_constant(r->g, rlx_type(RLX_F32, rows, n), scale),
		   .zp = zp ? rlx_constant(r->g, rlx_type(RLX_F32, rows, n), zero) : RLX_NONE,
		   .scheme = is_signed ? RLX_SCHEME_INT4_BLOCK : RLX_SCHEME_UINT4_BLOCK,
		   .block = block, .n = n));
}

TEST(weights_of_4_bits_by_wide_rows) { CHECK_EQ(agree(wide_rows, 2e-5), ROUNDS); }

/* Dilations wider than the image, where few taps ever touch it, by pads of about their reach */
static void far_taps(struct rig *r, uint64_t *seed)
{
	const uint32_t nd = (uint32_t)pick(seed, 1, 2), rank = 2 + nd;
	struct rlx_type x = { .dtype = RLX_F32, .rank = rank, .dim = { pick(seed, 1, 2), 4 } };
	struct rlx_type w = { .dtype = RLX_F32, .rank = rank, .dim = { 6, 4 } };
	int64_t stride[2], pad[4], dilation[2];

	for (uint32_t i = 0; i < nd; i++) {
		const int64_t taps = pick(seed, 1, 4);

		x.dim[2 + i] = pick(seed, 1, 9);
		w.dim[2 + i] = taps;
		stride[i] = pick(seed, 1, 3);
		dilation[i] = pick(seed, 1, 3) > 1 ? pick(seed, 5, 20000) : 1;
		pad[i] = pick(seed, 0, taps - 1) * dilation[i];
		pad[i] -= pad[i] ? pick(seed, 0, x.dim[2 + i] < pad[i] ? x.dim[2 + i] - 1 : 0) : 0;
		pad[nd + i] = (taps - 1) * dilation[i] - pad[i] + pick(seed, 0, 3);
	}
	rig_output(r, rlx_emit(r->g, conv, .x = rig_random(r, x, 1, 2), .w = rig_random(r, w, 1, 2),
			       .stride = { stride, nd }, .pad = { pad, 2 * nd },
			       .dilation = { dilation, nd }));
}

TEST(taps_that_never_touch_the_image)
{
	const struct rlimit few = { 4ul << 30, 4ul << 30 };	/* their pads would be 13 GB */

	CHECK(!setrlimit(RLIMIT_AS, &few));
	CHECK_EQ(agree(far_taps, 1e-5), ROUNDS);
}

TEST_MAIN()
