// SPDX-License-Identifier: MIT
/* Values of StableHLO text, and the ops that all others are said in. */
#include <math.h>
#include <string.h>

#include "backends/pjrt/emit.h"
#include "base/number.h"

static const struct hlo none;

struct hlo_type hlo_type(const struct rlx_type *t)
{
	struct hlo_type h = { .dtype = t->dtype, .rank = t->rank };

	memcpy(h.dim, t->dim, sizeof(t->dim));
	return h;
}

int64_t hlo_count(const struct hlo_type *t)
{
	int64_t n = 1;
	uint32_t d;

	for (d = 0; d < t->rank; d++)
		n *= t->dim[d];
	return n;
}

bool hlo_same_shape(const struct hlo_type *a, const struct hlo_type *b)
{
	return a->rank == b->rank && !memcmp(a->dim, b->dim, a->rank * sizeof(*a->dim));
}

struct hlo hlo_fail(struct hlo_emit *e, const char *why)
{
	if (!e->why)
		e->why = why;
	return none;
}

struct hlo hlo_new(struct hlo_emit *e, const struct hlo_type *t)
{
	struct hlo v = { ++e->last, *t };

	if (!hlo_dtype_name(t->dtype))
		return hlo_fail(e, "StableHLO has no such dtype");
	hlo_put(&e->text, "  %%%u = ", v.id);
	return v;
}

void hlo_put_signature(struct hlo_emit *e, const struct hlo *x, uint32_t n,
		       const struct hlo_type *to)
{
	uint32_t i;

	hlo_put(&e->text, " : (");
	for (i = 0; i < n; i++) {
		hlo_put(&e->text, "%s", i ? ", " : "");
		hlo_put_type(&e->text, &x[i].t);
	}
	hlo_put(&e->text, ") -> ");
	hlo_put_type(&e->text, to);
	hlo_put(&e->text, "\n");
}

static struct hlo named(struct hlo_emit *e, const char *op, const struct hlo_type *t)
{
	struct hlo v = hlo_new(e, t);

	hlo_put(&e->text, "%s%s ", strchr(op, '.') ? "" : "stablehlo.", op);
	return v;
}

struct hlo hlo_1(struct hlo_emit *e, const char *op, struct hlo x)
{
	struct hlo v;

	if (!x.id)
		return none;
	v = named(e, op, &x.t);
	hlo_put(&e->text, "%%%u", x.id);
	hlo_put(&e->text, " : ");
	hlo_put_type(&e->text, &x.t);
	if (strchr(op, '.')) {		/* those of CHLO name the result's type as well */
		hlo_put(&e->text, " -> ");
		hlo_put_type(&e->text, &x.t);
	}
	hlo_put(&e->text, "\n");
	return v;
}

struct hlo hlo_2(struct hlo_emit *e, const char *op, struct hlo a, struct hlo b)
{
	struct hlo v;

	if (!a.id || !b.id)
		return none;
	if (a.t.dtype != b.t.dtype || !hlo_same_shape(&a.t, &b.t))
		return hlo_fail(e, "operands of two types");
	v = named(e, op, &a.t);
	hlo_put(&e->text, "%%%u, %%%u : ", a.id, b.id);
	hlo_put_type(&e->text, &a.t);
	hlo_put(&e->text, "\n");
	return v;
}

struct hlo hlo_compare(struct hlo_emit *e, const char *how, struct hlo a, struct hlo b)
{
	struct hlo pair[2] = { a, b }, v;
	struct hlo_type t = a.t;

	if (!a.id || !b.id)
		return none;
	t.dtype = RLX_BOOL;
	v = named(e, "compare", &t);
	hlo_put(&e->text, "%s, %%%u, %%%u, %s", how, a.id, b.id,
		rlx_dtype_is_float(a.t.dtype) || a.t.dtype == RLX_C64 ? "FLOAT" :
		rlx_dtype_is_signed(a.t.dtype) ? "SIGNED" : "UNSIGNED");
	hlo_put_signature(e, pair, 2, &t);
	return v;
}

struct hlo hlo_select(struct hlo_emit *e, struct hlo cond, struct hlo a, struct hlo b)
{
	struct hlo v;

	if (!cond.id || !a.id || !b.id)
		return none;
	v = named(e, "select", &a.t);
	hlo_put(&e->text, "%%%u, %%%u, %%%u : ", cond.id, a.id, b.id);
	hlo_put_type(&e->text, &cond.t);
	hlo_put(&e->text, ", ");
	hlo_put_type(&e->text, &a.t);
	hlo_put(&e->text, "\n");
	return v;
}

/*
 * A maximum that XLA for CPUs makes (xla_cpu_enable_fast_min_max) may leave NaN out, which
 * StableHLO does not allow: whether there is one is found apart.
 */
struct hlo hlo_or_nan(struct hlo_emit *e, struct hlo m, struct hlo nan)
{
	return hlo_select(e, nan, hlo_number(e, &m.t, NAN), m);
}

struct hlo hlo_extremum(struct hlo_emit *e, bool min, struct hlo a, struct hlo b)
{
	struct hlo m = hlo_2(e, min ? "minimum" : "maximum", a, b);

	if (!rlx_dtype_is_float(a.t.dtype))
		return m;
	return hlo_or_nan(e, m, hlo_2(e, "or", hlo_compare(e, "NE", a, a),
				      hlo_compare(e, "NE", b, b)));
}

/* ---- constants ---- */

/* A float by its bits, which no digits can say of NaN and infinities. */
static void put_float(struct hlo_emit *e, enum rlx_dtype dt, double x)
{
	float f = (float)x;
	uint64_t d;
	uint32_t s;

	if (isfinite(x) && (dt == RLX_F64 || isfinite(f))) {
		locale_t before = rlx_point_begin();

		hlo_put(&e->text, "%.17e", x);
		rlx_point_end(before);
		return;
	}
	memcpy(&d, &x, sizeof(d));
	memcpy(&s, &f, sizeof(s));
	if (dt == RLX_F64)
		hlo_put(&e->text, "0x%016llX", (unsigned long long)d);
	else if (dt == RLX_F32)
		hlo_put(&e->text, "0x%08X", s);
	else if (dt == RLX_BF16)
		hlo_put(&e->text, "0x%04X", s >> 16 | (isnan(f) ? 1 : 0));
	else if (dt == RLX_F16)
		hlo_put(&e->text, "0x%04X", isnan(f) ? 0x7e00u : f < 0 ? 0xfc00u : 0x7c00u);
	else
		hlo_fail(e, "no such constant in this dtype");
}

static void put_integer(struct hlo_emit *e, enum rlx_dtype dt, int64_t x)
{
	unsigned int bits = 8 * (unsigned int)rlx_dtype_size(dt);

	if (dt == RLX_BOOL)
		hlo_put(&e->text, x ? "true" : "false");
	else if (rlx_dtype_is_unsigned(dt))
		hlo_put(&e->text, "%llu", (unsigned long long)
			(bits == 64 ? (uint64_t)x : (uint64_t)x & ((UINT64_C(1) << bits) - 1)));
	else
		hlo_put(&e->text, "%lld", (long long)
			((int64_t)((uint64_t)x << (64 - bits)) >> (64 - bits)));
}

static void end_constant(struct hlo_emit *e, const struct hlo_type *t)
{
	hlo_put(&e->text, "> : ");
	hlo_put_type(&e->text, t);
	hlo_put(&e->text, "\n");
}

struct hlo hlo_integer(struct hlo_emit *e, const struct hlo_type *t, int64_t x)
{
	struct hlo v;

	if (rlx_dtype_is_float(t->dtype))
		return hlo_number(e, t, (double)x);
	v = named(e, "constant", t);
	hlo_put(&e->text, "dense<");
	put_integer(e, t->dtype, x);
	end_constant(e, t);
	return v;
}

struct hlo hlo_number(struct hlo_emit *e, const struct hlo_type *t, double x)
{
	struct hlo v;

	if (!rlx_dtype_is_float(t->dtype))
		return hlo_integer(e, t, (int64_t)x);
	v = named(e, "constant", t);
	hlo_put(&e->text, "dense<");
	put_float(e, t->dtype, x);
	end_constant(e, t);
	return v;
}

struct hlo hlo_nothing(struct hlo_emit *e, const struct hlo_type *t)
{
	struct hlo v = named(e, "constant", t);

	hlo_put(&e->text, "dense<");
	end_constant(e, t);
	return v;
}

struct hlo hlo_lowest(struct hlo_emit *e, const struct hlo_type *t, bool highest)
{
	unsigned int bits = 8 * (unsigned int)rlx_dtype_size(t->dtype);
	int64_t least;

	if (rlx_dtype_is_float(t->dtype))
		return hlo_number(e, t, highest ? INFINITY : -INFINITY);
	if (!rlx_dtype_is_signed(t->dtype))
		return hlo_integer(e, t, highest ? -1 : 0);
	least = (int64_t)(~UINT64_C(0) << (bits - 1));
	return hlo_integer(e, t, highest ? ~least : least);
}

struct hlo hlo_vector(struct hlo_emit *e, enum rlx_dtype dt, const double *v, int64_t n)
{
	struct hlo_type t = { dt, 1, { n } };
	struct hlo r = named(e, "constant", &t);
	int64_t i;

	hlo_put(&e->text, n ? "dense<[" : "dense<");
	for (i = 0; i < n; i++) {
		hlo_put(&e->text, "%s", i ? ", " : "");
		put_float(e, dt, v[i]);
	}
	hlo_put(&e->text, n ? "]" : "");
	end_constant(e, &t);
	return r;
}

struct hlo hlo_indices(struct hlo_emit *e, const int64_t *v, int64_t n)
{
	struct hlo_type t = { RLX_I64, 1, { n } };
	struct hlo r = named(e, "constant", &t);

	hlo_put(&e->text, n ? "dense<[" : "dense<");
	hlo_put_list(&e->text, v, (uint32_t)n);
	hlo_put(&e->text, n ? "]" : "");
	end_constant(e, &t);
	return r;
}

struct hlo hlo_iota(struct hlo_emit *e, const struct hlo_type *t, uint32_t axis)
{
	struct hlo v = named(e, "iota", t);

	hlo_put(&e->text, "dim = %u : ", axis);
	hlo_put_type(&e->text, t);
	hlo_put(&e->text, "\n");
	return v;
}

/* ---- dtypes ---- */

struct hlo hlo_convert(struct hlo_emit *e, struct hlo x, enum rlx_dtype to)
{
	struct hlo_type t = x.t;
	struct hlo v;

	if (!x.id || x.t.dtype == to)
		return x;
	t.dtype = to;
	v = named(e, "convert", &t);
	hlo_put(&e->text, "%%%u", x.id);
	hlo_put_signature(e, &x, 1, &t);
	return v;
}

struct hlo hlo_widen(struct hlo_emit *e, struct hlo x)
{
	return rlx_dtype_is_float(x.t.dtype) && rlx_dtype_size(x.t.dtype) < 4 ?
	       hlo_convert(e, x, RLX_F32) : x;
}

/* Truncated, kept within the range, NaN is 0: what conversion does beyond it is not said. */
static struct hlo to_integer(struct hlo_emit *e, struct hlo x, enum rlx_dtype to)
{
	unsigned int bits = 8 * (unsigned int)rlx_dtype_size(to);
	bool sign = rlx_dtype_is_signed(to);
	struct hlo_type t;
	struct hlo r, over, under, zero;

	x = hlo_widen(e, x);
	t = x.t;
	t.dtype = to;
	over = hlo_compare(e, "GE", x, hlo_number(e, &x.t, ldexp(1, (int)(bits - sign))));
	under = hlo_compare(e, "LE", x, hlo_number(e, &x.t, sign ? -ldexp(1, (int)bits - 1) : 0));
	zero = hlo_compare(e, "NE", x, x);
	r = hlo_convert(e, x, to);
	r = hlo_select(e, over, hlo_lowest(e, &t, true), r);
	r = hlo_select(e, under, hlo_lowest(e, &t, false), r);
	return hlo_select(e, zero, hlo_integer(e, &t, 0), r);
}

struct hlo hlo_cast(struct hlo_emit *e, struct hlo x, enum rlx_dtype to)
{
	const enum rlx_dtype from = x.t.dtype;

	if (!x.id || from == to)
		return x;
	if (from == RLX_C64 || to == RLX_C64)
		return hlo_fail(e, "complex numbers are not cast");
	if (to == RLX_BOOL)
		return hlo_compare(e, "NE", x, hlo_integer(e, &x.t, 0));
	if (rlx_dtype_is_float(from) && !rlx_dtype_is_float(to))
		return to_integer(e, x, to);
	return hlo_convert(e, x, to);
}

/* ---- shapes ---- */

struct hlo hlo_reshape(struct hlo_emit *e, struct hlo x, const struct hlo_type *shape)
{
	struct hlo_type t = *shape;
	struct hlo v;

	t.dtype = x.t.dtype;
	if (!x.id || hlo_same_shape(&x.t, &t))
		return x;
	if (hlo_count(&x.t) != hlo_count(&t))
		return hlo_fail(e, "a reshape to another size");
	v = named(e, "reshape", &t);
	hlo_put(&e->text, "%%%u", x.id);
	hlo_put_signature(e, &x, 1, &t);
	return v;
}

struct hlo hlo_transpose(struct hlo_emit *e, struct hlo x, const int64_t *perm)
{
	struct hlo_type t = x.t;
	struct hlo v;
	uint32_t d;

	if (!x.id)
		return none;
	for (d = 0; d < t.rank; d++)
		t.dim[d] = x.t.dim[perm[d]];
	v = named(e, "transpose", &t);
	hlo_put(&e->text, "%%%u, dims = [", x.id);
	hlo_put_list(&e->text, perm, t.rank);
	hlo_put(&e->text, "]");
	hlo_put_signature(e, &x, 1, &t);
	return v;
}

struct hlo hlo_broadcast(struct hlo_emit *e, struct hlo x, const struct hlo_type *shape,
			 const int64_t *dims)
{
	struct hlo_type t = *shape;
	int64_t last[HLO_RANK];
	struct hlo v;
	uint32_t d;

	t.dtype = x.t.dtype;
	if (!x.id || (!dims && hlo_same_shape(&x.t, &t)))
		return x;
	if (x.t.rank > t.rank)
		return hlo_fail(e, "a broadcast to fewer dimensions");
	for (d = 0; d < x.t.rank; d++)
		last[d] = d + t.rank - x.t.rank;
	v = named(e, "broadcast_in_dim", &t);
	hlo_put(&e->text, "%%%u, dims = [", x.id);
	hlo_put_list(&e->text, dims ? dims : last, x.t.rank);
	hlo_put(&e->text, "]");
	hlo_put_signature(e, &x, 1, &t);
	return v;
}

struct hlo hlo_reduce(struct hlo_emit *e, const char *op, struct hlo x, struct hlo init,
		      uint32_t mask)
{
	struct hlo pair[2] = { x, init }, v;
	struct hlo_type t = { .dtype = x.t.dtype };
	int64_t axes[HLO_RANK];
	uint32_t d, n = 0;

	if (!x.id || !init.id)
		return none;
	for (d = 0; d < x.t.rank; d++)
		if (mask >> d & 1)
			axes[n++] = d;
		else
			t.dim[t.rank++] = x.t.dim[d];
	if (!n)
		return x;
	v = hlo_new(e, &t);
	hlo_put(&e->text, "stablehlo.reduce(%%%u init: %%%u) applies stablehlo.%s across "
		"dimensions = [", x.id, init.id, op);
	hlo_put_list(&e->text, axes, n);
	hlo_put(&e->text, "]");
	hlo_put_signature(e, pair, 2, &t);
	return v;
}

struct hlo hlo_spread(struct hlo_emit *e, struct hlo x, const struct hlo_type *shape,
		      uint32_t mask)
{
	int64_t dims[HLO_RANK];
	uint32_t d, n = 0;

	for (d = 0; d < shape->rank; d++)
		if (!(mask >> d & 1))
			dims[n++] = d;
	return hlo_broadcast(e, x, shape, dims);
}

struct hlo hlo_concat(struct hlo_emit *e, const struct hlo *x, uint32_t n, uint32_t axis)
{
	struct hlo_type t = x[0].t;
	struct hlo v;
	uint32_t i;

	t.dim[axis] = 0;
	for (i = 0; i < n; i++) {
		if (!x[i].id)
			return none;
		t.dim[axis] += x[i].t.dim[axis];
	}
	v = named(e, "concatenate", &t);
	for (i = 0; i < n; i++)
		hlo_put(&e->text, "%%%u, ", x[i].id);
	hlo_put(&e->text, "dim = %u", axis);
	hlo_put_signature(e, x, n, &t);
	return v;
}

/* Steps are positive. */
struct hlo hlo_slice(struct hlo_emit *e, struct hlo x, const int64_t *start, const int64_t *step,
		     const int64_t *n)
{
	struct hlo_type t = x.t;
	struct hlo v;
	uint32_t d;

	if (!x.id)
		return none;
	for (d = 0; d < t.rank; d++)
		t.dim[d] = n[d];
	if (hlo_same_shape(&t, &x.t))
		return x;
	v = named(e, "slice", &t);
	hlo_put(&e->text, "%%%u [", x.id);
	for (d = 0; d < t.rank; d++)
		hlo_put(&e->text, "%s%lld:%lld:%lld", d ? ", " : "", (long long)start[d],
			(long long)(n[d] ? start[d] + (n[d] - 1) * step[d] + 1 : start[d]),
			(long long)step[d]);
	hlo_put(&e->text, "]");
	hlo_put_signature(e, &x, 1, &t);
	return v;
}

struct hlo hlo_pad(struct hlo_emit *e, struct hlo x, struct hlo value, const int64_t *low,
		   const int64_t *high)
{
	static const int64_t interior[HLO_RANK];
	struct hlo pair[2] = { x, value }, v;
	struct hlo_type t = x.t;
	uint32_t d;

	if (!x.id || !value.id)
		return none;
	for (d = 0; d < t.rank; d++)
		t.dim[d] += low[d] + high[d];
	v = named(e, "pad", &t);
	hlo_put(&e->text, "%%%u, %%%u, low = [", x.id, value.id);
	hlo_put_list(&e->text, low, t.rank);
	hlo_put(&e->text, "], high = [");
	hlo_put_list(&e->text, high, t.rank);
	hlo_put(&e->text, "], interior = [");
	hlo_put_list(&e->text, interior, t.rank);
	hlo_put(&e->text, "]");
	hlo_put_signature(e, pair, 2, &t);
	return v;
}

struct hlo hlo_reverse(struct hlo_emit *e, struct hlo x, uint32_t mask)
{
	int64_t axes[HLO_RANK];
	uint32_t d, n = 0;
	struct hlo v;

	for (d = 0; d < x.t.rank; d++)
		if (mask >> d & 1)
			axes[n++] = d;
	if (!x.id || !n)
		return x;
	v = named(e, "reverse", &x.t);
	hlo_put(&e->text, "%%%u, dims = [", x.id);
	hlo_put_list(&e->text, axes, n);
	hlo_put(&e->text, "] : ");
	hlo_put_type(&e->text, &x.t);
	hlo_put(&e->text, "\n");
	return v;
}

static bool is_among(const int64_t *v, uint32_t n, int64_t x)
{
	while (n--)
		if (v[n] == x)
			return true;
	return false;
}

/* Full precision is asked for: a device's own choice for f32 may be bf16. */
struct hlo hlo_dot(struct hlo_emit *e, struct hlo a, struct hlo b, const struct hlo_dot *d,
		   enum rlx_dtype dt)
{
	struct hlo x[2] = { a, b }, v;
	struct hlo_type t = { .dtype = dt };
	uint32_t i, k;

	if (!a.id || !b.id)
		return none;
	for (i = 0; i < d->n_batch; i++)
		t.dim[t.rank++] = a.t.dim[d->batch[0][i]];
	for (k = 0; k < 2; k++)
		for (i = 0; i < x[k].t.rank; i++)
			if (!is_among(d->batch[k], d->n_batch, i) &&
			    !is_among(d->contract[k], d->n_contract, i)) {
				if (t.rank == HLO_RANK)
					return hlo_fail(e, "too many dimensions");
				t.dim[t.rank++] = x[k].t.dim[i];
			}
	v = named(e, "dot_general", &t);
	hlo_put(&e->text, "%%%u, %%%u, ", a.id, b.id);
	if (d->n_batch) {
		hlo_put(&e->text, "batching_dims = [");
		hlo_put_list(&e->text, d->batch[0], d->n_batch);
		hlo_put(&e->text, "] x [");
		hlo_put_list(&e->text, d->batch[1], d->n_batch);
		hlo_put(&e->text, "], ");
	}
	hlo_put(&e->text, "contracting_dims = [");
	hlo_put_list(&e->text, d->contract[0], d->n_contract);
	hlo_put(&e->text, "] x [");
	hlo_put_list(&e->text, d->contract[1], d->n_contract);
	hlo_put(&e->text, "], precision = [HIGHEST, HIGHEST]");
	hlo_put_signature(e, x, 2, &t);
	return v;
}
