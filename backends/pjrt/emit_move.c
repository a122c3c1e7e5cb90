// SPDX-License-Identifier: MIT
/* Ops that move elements, or make them of their positions. */
#include "backends/pjrt/emit.h"
#include "base/shape.h"
#include "ops/slice_axis.h"

void hlo_emit_transpose(struct hlo_emit *e)
{
	const struct rlx_op_transpose *a = e->args;
	const struct hlo x = e->in[0];
	int64_t perm[HLO_RANK];
	uint32_t d;

	for (d = 0; d < x.t.rank; d++)
		perm[d] = a->perm.n ? shape_axis(a->perm.v[d], x.t.rank) : x.t.rank - 1 - d;
	e->out[0] = hlo_transpose(e, x, perm);
}

void hlo_emit_expand(struct hlo_emit *e)
{
	struct hlo_type t = hlo_type(&e->type[0]);

	e->out[0] = hlo_broadcast(e, e->in[0], &t, NULL);
}

void hlo_emit_concat(struct hlo_emit *e)
{
	const struct rlx_op_concat *a = e->args;

	e->out[0] = hlo_concat(e, e->in, e->n_in, shape_axis(a->axis, e->type[0].rank));
}

void hlo_emit_slice(struct hlo_emit *e)
{
	struct op_slice_axis ax[RLX_MAX_RANK];
	int64_t start[HLO_RANK], step[HLO_RANK], n[HLO_RANK];
	struct rlx_type x = { e->in[0].t.dtype, e->in[0].t.rank, { 0 } };
	uint32_t d, back = 0;

	for (d = 0; d < x.rank; d++)
		x.dim[d] = e->in[0].t.dim[d];
	op_slice_axes(e->args, &x, ax);
	for (d = 0; d < x.rank; d++) {
		if (ax[d].step < 0 && ax[d].n)
			back |= 1u << d;
		start[d] = back >> d & 1 ? x.dim[d] - 1 - ax[d].start : ax[d].start;
		step[d] = ax[d].step < 0 ? -ax[d].step : ax[d].step;
		n[d] = ax[d].n;
	}
	e->out[0] = hlo_slice(e, hlo_reverse(e, e->in[0], back), start, step, n);
}

/*
 * Which element of an axis of @d each of @n positions shows, by the rule of op_pad_from(): by
 * arithmetic, for a table would be text, more than 2 GiB of it for a long axis.
 */
static struct hlo sources(struct hlo_emit *e, int64_t n, int64_t d, int32_t mode, int64_t low)
{
	const struct hlo_type t = { RLX_I64, 1, { n } };
	const int64_t period = mode == RLX_PAD_WRAP || d == 1 ? d : 2 * (d - 1);
	struct hlo zero = hlo_integer(e, &t, 0), round = hlo_integer(e, &t, period), p;

	p = hlo_2(e, "subtract", hlo_iota(e, &t, 0), hlo_integer(e, &t, low));
	if (mode == RLX_PAD_EDGE)
		return hlo_2(e, "minimum", hlo_2(e, "maximum", p, zero),
			     hlo_integer(e, &t, d - 1));
	p = hlo_2(e, "remainder", p, round);
	p = hlo_select(e, hlo_compare(e, "LT", p, zero), hlo_2(e, "add", p, round), p);
	return mode == RLX_PAD_WRAP ? p :
	       hlo_2(e, "minimum", p, hlo_2(e, "subtract", round, p));
}

void hlo_emit_pad(struct hlo_emit *e)
{
	const struct rlx_op_pad *a = e->args;
	static const struct hlo_type none;
	struct hlo x = e->in[0], value = e->n_in > 1 ? e->in[1] : (struct hlo){ 0 };
	int64_t low[HLO_RANK] = { 0 }, high[HLO_RANK] = { 0 };
	struct hlo_type one = { .dtype = x.t.dtype };
	uint32_t d;

	for (d = 0; d < x.t.rank && a->pads.n; d++) {
		low[d] = a->pads.v[d];
		high[d] = a->pads.v[d + x.t.rank];
	}
	if (a->mode == RLX_PAD_CONSTANT) {
		if (!value.id && x.t.dtype == RLX_C64) {
			hlo_fail(e, "a complex 0");
			return;
		}
		value = value.id ? hlo_reshape(e, value, &none) : hlo_integer(e, &one, 0);
		e->out[0] = hlo_pad(e, x, value, low, high);
		return;
	}
	for (d = 0; d < x.t.rank; d++)
		if (low[d] || high[d])
			x = hlo_take(e, x, d, sources(e, e->type[0].dim[d], x.t.dim[d], a->mode,
						      low[d]));
	e->out[0] = x;
}

void hlo_emit_tile(struct hlo_emit *e)
{
	const struct rlx_op_tile *a = e->args;
	struct hlo x = e->in[0];
	struct hlo_type t, flat;
	int64_t dims[HLO_RANK];
	uint32_t d, i;

	for (d = 0; d < x.t.rank && d < a->repeats.n; d++) {
		if (a->repeats.v[d] == 1)
			continue;
		flat = t = x.t;
		for (i = x.t.rank; i > d; i--)
			t.dim[i] = t.dim[i - 1];
		t.rank++;
		t.dim[d] = a->repeats.v[d];
		for (i = 0; i < x.t.rank; i++)
			dims[i] = i < d ? i : i + 1;
		flat.dim[d] *= a->repeats.v[d];
		x = hlo_reshape(e, hlo_broadcast(e, x, &t, dims), &flat);
	}
	e->out[0] = x;
}

/* Floats in double, rounded once; integers wrap */
void hlo_emit_iota(struct hlo_emit *e)
{
	const struct rlx_op_iota *a = e->args;
	struct hlo_type t = hlo_type(&e->type[0]);
	struct hlo p, y;

	t.dtype = rlx_dtype_is_float(t.dtype) ? RLX_F64 : RLX_I64;
	p = t.rank ? hlo_iota(e, &t, shape_axis(a->axis, t.rank)) : hlo_integer(e, &t, 0);
	y = hlo_2(e, "multiply", p, hlo_number(e, &t, a->step));
	y = hlo_2(e, "add", y, hlo_number(e, &t, a->start));
	e->out[0] = hlo_cast(e, y, e->type[0].dtype);
}

void hlo_emit_trilu(struct hlo_emit *e)
{
	const struct rlx_op_trilu *a = e->args;
	const struct hlo x = e->in[0];
	struct hlo_type t = x.t;
	struct hlo off;

	if (t.dtype == RLX_C64) {
		hlo_fail(e, "a complex 0");
		return;
	}
	t.dtype = RLX_I64;
	off = hlo_2(e, "subtract", hlo_iota(e, &t, t.rank - 1), hlo_iota(e, &t, t.rank - 2));
	e->out[0] = hlo_select(e, hlo_compare(e, a->upper ? "GE" : "LE", off,
					      hlo_integer(e, &t, a->k)), x,
			       hlo_integer(e, &x.t, 0));
}

/* Positions hop f + i, frame by frame */
void hlo_emit_frame(struct hlo_emit *e)
{
	const struct rlx_op_frame *a = e->args;
	uint32_t axis = shape_axis(a->axis, e->in[0].t.rank);
	struct hlo_type t = { RLX_I64, 2, { e->type[0].dim[axis], a->length } };
	struct hlo at = hlo_2(e, "multiply", hlo_iota(e, &t, 0), hlo_integer(e, &t, a->hop));

	at = hlo_2(e, "add", at, hlo_iota(e, &t, 1));
	e->out[0] = hlo_take(e, e->in[0], axis, at);
}

/* ---- complex numbers ---- */

static struct hlo part(struct hlo_emit *e, const char *which, struct hlo x)
{
	struct hlo_type t = x.t;
	struct hlo v;

	t.dtype = RLX_F32;
	v = hlo_new(e, &t);
	hlo_put(&e->text, "stablehlo.%s %%%u : (", which, x.id);
	hlo_put_type(&e->text, &x.t);
	hlo_put(&e->text, ") -> ");
	hlo_put_type(&e->text, &t);
	hlo_put(&e->text, "\n");
	return v;
}

static struct hlo join_parts(struct hlo_emit *e, struct hlo re, struct hlo im)
{
	struct hlo_type t = re.t;
	struct hlo v;

	if (!re.id || !im.id)
		return (struct hlo){ 0 };
	t.dtype = RLX_C64;
	v = hlo_new(e, &t);
	hlo_put(&e->text, "stablehlo.complex %%%u, %%%u : ", re.id, im.id);
	hlo_put_type(&e->text, &t);
	hlo_put(&e->text, "\n");
	return v;
}

/* The column @which of pairs @x[n, 2] */
static struct hlo column(struct hlo_emit *e, struct hlo x, int64_t which)
{
	return hlo_slice(e, x, (int64_t[]){ 0, which }, (int64_t[]){ 1, 1 },
			 (int64_t[]){ x.t.dim[0], 1 });
}

struct hlo hlo_view(struct hlo_emit *e, struct hlo x, const struct hlo_type *want)
{
	int64_t n = hlo_count(want->dtype == RLX_C64 ? want : &x.t);
	struct hlo_type one = { RLX_F32, 2, { n, 1 } }, two = { RLX_F32, 2, { n, 2 } };

	if (!x.id || x.t.dtype == want->dtype)
		return hlo_reshape(e, x, want);
	if (x.t.dtype == RLX_F32 && want->dtype == RLX_C64) {
		x = hlo_reshape(e, x, &two);
		x = join_parts(e, column(e, x, 0), column(e, x, 1));
	} else if (x.t.dtype == RLX_C64 && want->dtype == RLX_F32) {
		const struct hlo part_of[2] = {
			hlo_reshape(e, part(e, "real", x), &one),
			hlo_reshape(e, part(e, "imag", x), &one),
		};

		x = hlo_concat(e, part_of, 2, 1);
	} else {
		return hlo_fail(e, "a view of another dtype");
	}
	return hlo_reshape(e, x, want);
}

void hlo_emit_norm_sq(struct hlo_emit *e)
{
	struct hlo re = part(e, "real", e->in[0]), im = part(e, "imag", e->in[0]);

	e->out[0] = hlo_2(e, "add", hlo_2(e, "multiply", re, re), hlo_2(e, "multiply", im, im));
}

void hlo_emit_conjugate(struct hlo_emit *e)
{
	struct hlo re = part(e, "real", e->in[0]);

	e->out[0] = join_parts(e, re, hlo_1(e, "negate", part(e, "imag", e->in[0])));
}
