// SPDX-License-Identifier: MIT
/* resize: the op's coordinate rules turned into tables of taps and weights. */
#include "backends/common/lower.h"
#include "ir/element.h"
#include "kernels/resize.h"
#include "ops/resize_axis.h"

/* Beyond this an axis' table costs more than the image. */
enum { MOST_TAPS = 1 << 12, MOST_TABLE = 1 << 26 };

/* Neighbouring dimensions that keep their size count as one. */
struct run {
	struct op_resize_axis	ax;	/* of the first */
	int64_t			size;	/* before */
	bool			same;
};

/*
 * Is each output the input at its place, whatever the sizes and scales say? A weight of 0
 * elsewhere counts, for NaN spreads by it. @exact: not the sum of parts of it either, which may
 * be a little less.
 */
static bool stays(const struct rlx_op_resize *a, const struct op_resize_axis *ax, bool exact)
{
	double w[4], sum;
	int64_t at[4], o, i;
	bool same = ax->in == ax->out && ax->taps <= 4;

	for (o = 0; o < ax->out && same; o++) {
		same = !op_resize_outside(a, ax, o);
		if (a->mode == RLX_RESIZE_NEAREST) {
			same = same && op_resize_nearest(a, ax, o) == o;
			continue;
		}
		op_resize_weights(a, ax, o, w, at);
		for (i = 0, sum = 0; i < ax->taps; sum += w[i++])
			same = same && at[i] == o && (!exact || w[i] == 0 || w[i] == 1);
		same = same && sum == 1;
	}
	return same;
}

/* Is it summed in double, to the bit as the op says? */
static bool is_wide(enum rlx_dtype dt)
{
	return dt == RLX_F64 || rlx_dtype_is_int(dt);
}

/* Dimensions as runs; returns how many. */
static int find_runs(const struct rlx_lower *lo, struct run *r)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	int n = 0;

	for (uint32_t i = 0; i < x->rank; i++) {
		struct op_resize_axis ax = op_resize_axis_of(lo->args, x, i);

		ax.same = ax.same || stays(lo->args, &ax, is_wide(x->dtype));
		if (ax.same && n && r[n - 1].same) {
			r[n - 1].size *= ax.in;
			continue;
		}
		r[n++] = (struct run){ ax, ax.in, ax.same };
	}
	return n;
}

static int64_t out_of(const struct run *r)
{
	return r->same ? r->size : r->ax.out;
}

static bool is_outside(const struct rlx_lower *lo, const struct run *r, int n)
{
	for (int i = 0; i < n; i++)
		for (int64_t o = 0; !r[i].same && o < r[i].ax.out; o++)
			if (op_resize_outside(lo->args, &r[i].ax, o))
				return true;
	return false;
}

/* The tables of one axis, and room for the taps of one position. */
struct tables {
	int32_t	*index;
	float	*weight;	/* NULL: nearest, or wide */
	double	*wide;
	double	*w;
	int64_t	*at;
};

/* One position: its taps' inputs, or -1 outside, and weights where there are any. */
static void fill_position(const struct rlx_op_resize *a, const struct op_resize_axis *ax,
			  const struct tables *t, int64_t o)
{
	int64_t taps = t->w ? ax->taps : 1, i;

	if (op_resize_outside(a, ax, o)) {
		t->index[o * taps] = -1;
	} else if (t->wide) {
		op_resize_weights(a, ax, o, &t->wide[o * taps], t->at);
		for (i = 0; i < taps; i++)
			t->index[o * taps + i] = (int32_t)t->at[i];
	} else if (!t->weight) {
		t->index[o] = (int32_t)op_resize_nearest(a, ax, o);
	} else {
		op_resize_weights(a, ax, o, t->w, t->at);
		for (i = 0; i < taps; i++) {
			t->index[o * taps + i] = (int32_t)t->at[i];
			t->weight[o * taps + i] = (float)t->w[i];
		}
	}
}

static enum rlx_status fill_axis(struct rlx_lower *lo, const struct run *r,
				 struct rlx_k_resize_axis *to)
{
	const struct rlx_op_resize *a = lo->args;
	int64_t taps = a->mode == RLX_RESIZE_NEAREST ? 1 : r->ax.taps, o;
	bool wide = is_wide(rlx_lower_in(lo, 0)->dtype);
	struct tables t = { .index = NULL };

	*to = (struct rlx_k_resize_axis){ .in = (size_t)r->size, .out = (size_t)r->size,
					  .taps = 1 };
	if (r->same)
		return RLX_OK;
	if (r->ax.in > INT32_MAX || taps > MOST_TAPS || r->ax.out > MOST_TABLE / taps)
		return rlx_lower_unsupported(lo, "the tables of an axis would be too large");
	t.index = rlx_lower_keep(lo, (size_t)(r->ax.out * taps), sizeof(*t.index));
	if (a->mode != RLX_RESIZE_NEAREST) {
		if (wide)
			t.wide = rlx_lower_keep(lo, (size_t)(r->ax.out * taps), sizeof(*t.wide));
		else
			t.weight = rlx_lower_keep(lo, (size_t)(r->ax.out * taps),
						  sizeof(*t.weight));
		t.w = rlx_lower_keep(lo, (size_t)taps, sizeof(*t.w));
		t.at = rlx_lower_keep(lo, (size_t)taps, sizeof(*t.at));
	}
	if (lo->status)
		return lo->status;
	for (o = 0; o < r->ax.out; o++)
		fill_position(a, &r->ax, &t, o);
	*to = (struct rlx_k_resize_axis){ .in = (size_t)r->ax.in, .out = (size_t)r->ax.out,
					  .taps = (size_t)taps };
	rlx_lower_ref_keep(lo, &to->index, t.index, (size_t)(r->ax.out * taps) * sizeof(*t.index));
	rlx_lower_ref_keep(lo, &to->weight, t.weight,
			   (size_t)(r->ax.out * taps) * sizeof(*t.weight));
	rlx_lower_ref_keep(lo, &to->wide, t.wide, (size_t)(r->ax.out * taps) * sizeof(*t.wide));
	return RLX_OK;
}

/* Where kernels are written in vectors: which inputs a vector of outputs is made of. */
static void fill_blocks(struct rlx_lower *lo, struct rlx_k_resize_axis *a)
{
	struct rlx_resize_block *block;
	enum rlx_isa isa;
	size_t n, bytes;
	void *lane;

	if (!lo->ops->isa || lo->status)
		return;
	isa = lo->ops->isa(lo);
	if (!rlx_resize_has_blocks(a, isa))
		return;
	n = (a->out + rlx_resize_lanes(a, isa) - 1) / rlx_resize_lanes(a, isa);
	bytes = 4 * n * rlx_isa_vector_bytes(isa);
	block = rlx_lower_keep(lo, n, sizeof(*block));
	lane = rlx_lower_keep(lo, bytes / sizeof(double), sizeof(double));
	if (lo->status)
		return;
	rlx_resize_blocks(a, isa, block, lane);
	rlx_lower_ref_keep(lo, &a->block, block, n * sizeof(*block));
	rlx_lower_ref_keep(lo, &a->lane, lane, bytes);
}

/* What of the runs a kernel takes, and what it makes of them. */
struct pass {
	enum rlx_kernel_id	 id;
	size_t			 lanes;		/* floats of an element; 0: bytes */
	const struct run	*r;		/* n of them change, up to three */
	int			 n;
	size_t			 planes, rest;	/* what lies before them and behind, each as one */
	enum rlx_dtype		 from, to;
	uint32_t		 src, dst;	/* temporaries; 0: the input, the output */
};

/* Which kernel, and how many floats it takes for one element (0: bytes). */
static enum rlx_kernel_id pick_kernel(struct rlx_lower *lo, const struct run *r, int n,
				      size_t *lanes)
{
	const struct rlx_op_resize *a = lo->args;
	enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;

	*lanes = 0;
	/* axes are summed in another order there */
	if (dt == RLX_F32 && !lo->strict && n > 1 && r[n - 1].same && lo->block &&
	    r[n - 1].size == lo->block && n - 1 - r[0].same <= 3) {
		*lanes = lo->block;
		return RLX_KERNEL_resize_c;
	}
	if (a->mode == RLX_RESIZE_NEAREST && dt != RLX_C64 && !is_outside(lo, r, n))
		return RLX_KERNEL_resize_nearest;
	*lanes = 1;
	if (dt == RLX_F32)
		return RLX_KERNEL_resize_f32;
	if (is_wide(dt))
		return RLX_KERNEL_resize_wide;
	rlx_lower_unsupported(lo, "no kernel interpolates, or extrapolates, this dtype");
	return RLX_KERNEL_COUNT;
}

static enum rlx_status lower_pass(struct rlx_lower *lo, const struct pass *p)
{
	const struct rlx_op_resize *op = lo->args;
	struct rlx_k_resize *a = rlx_lower_args(lo, sizeof(*a));
	struct rlx_tensor fill = { rlx_scalar(p->to), &a->fill };
	int i, first = 3 - p->n - (p->rest > 1);
	size_t scratch;
	double work = (double)p->planes, taps = 1;

	a->planes = p->planes;
	a->outside = op->extrapolation;
	a->esize = rlx_dtype_size(p->to);
	a->x_type = (uint8_t)p->from;
	a->type = (uint8_t)p->to;
	a->nearest = op->mode == RLX_RESIZE_NEAREST;
	el_set(&fill, 0, (double)op->extrapolation);
	for (i = 0; i < 3; i++) {
		const size_t size = i >= first + p->n ? p->rest : 1;

		a->axis[i] = (struct rlx_k_resize_axis){ .in = size, .out = size, .taps = 1 };
		if (i >= first && i < first + p->n && fill_axis(lo, &p->r[i - first], &a->axis[i]))
			return lo->status;
		taps *= (double)a->axis[i].taps;
		work *= (double)a->axis[i].out;
	}
	if (p->lanes == 1)
		fill_blocks(lo, &a->axis[2]);
	scratch = p->id == RLX_KERNEL_resize_wide ? rlx_resize_wide_scratch(a) :
		  p->lanes ? rlx_resize_scratch(a, p->lanes) : 0;
	if (p->src)
		rlx_lower_ref_tmp(lo, &a->x, p->src, 0);
	else
		rlx_lower_ref_in(lo, &a->x, 0, 0);
	if (p->dst)
		rlx_lower_ref_tmp(lo, &a->y, p->dst, 0);
	else
		rlx_lower_ref_out(lo, &a->y, 0, 0);
	if (p->lanes > 1)
		work *= (double)p->lanes;
	return rlx_lower_call(lo, p->id, p->planes * a->axis[0].out * a->axis[1].out,
			      work * (taps + 1), scratch);
}

/*
 * A pass over two axes, which leaves others to later ones: sums are of one axis after the other
 * anyway. Of integers those in between are doubles, as if they were in one kernel.
 */
static enum rlx_status lower_some(struct rlx_lower *lo, struct pass *p, const struct run *end)
{
	const struct rlx_op_resize *op = lo->args;
	double bytes;

	p->n = 2;
	if (op->mode != RLX_RESIZE_NEAREST && is_outside(lo, p->r, 2))
		return rlx_lower_unsupported(lo, "over three axes change their size, and what is "
						 "outside would be interpolated");
	if (op->mode != RLX_RESIZE_NEAREST && is_wide(p->from))
		p->to = RLX_F64;
	p->rest = 1;
	for (const struct run *r = p->r + 2; r < end; r++)
		p->rest *= (size_t)r->size;
	bytes = (double)p->planes * (double)out_of(&p->r[0]) * (double)out_of(&p->r[1]) *
		(double)p->rest * (double)rlx_dtype_size(p->to);
	if (bytes > 0x1p60)
		return rlx_lower_out_of_memory(lo);
	p->dst = rlx_lower_tmp(lo, (uint64_t)bytes);
	return lower_pass(lo, p);
}

enum rlx_status rlx_lower_resize(struct rlx_lower *lo)
{
	const struct rlx_type *y = rlx_lower_out(lo, 0);
	struct pass p = { .planes = 1, .rest = 1, .from = y->dtype, .to = y->dtype };
	struct run r[RLX_MAX_RANK];
	int n = find_runs(lo, r), i;

	if (!rlx_type_count(y))
		return lo->status;
	p.id = pick_kernel(lo, r, n, &p.lanes);
	n -= p.lanes > 1;
	for (p.r = r; !lo->status; p.r += 2) {
		if (r + n - p.r > 1 && p.r->same)
			p.planes *= (size_t)p.r++->size;
		if (r + n - p.r <= 3)
			break;
		if (lower_some(lo, &p, r + n))
			break;
		for (i = 0; i < 2; i++)
			p.planes *= (size_t)out_of(&p.r[i]);
		p.src = p.dst;
		p.from = p.to;
	}
	if (lo->status)
		return lo->status;
	p.n = (int)(r + n - p.r);
	p.rest = 1;
	p.dst = 0;
	p.to = y->dtype;
	return lower_pass(lo, &p);
}
