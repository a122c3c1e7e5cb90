// SPDX-License-Identifier: MIT
/* Convolutions of f64: GEMMs over the columns of the images (im2col), or without columns. */
#include "backends/common/conv_desc.h"
#include "backends/cpu/cpu.h"
#include "kernels/columns.h"
#include "kernels/gemm.h"
#include "kernels/move.h"

/* Columns are of so many images as these bytes hold, and of one at least. */
static const double PASS_BYTES = 1 << 26;
/* Beyond this one image's would take more than the machine is likely to have. */
static const double MOST_BYTES = 4294967296;

struct sizes {
	size_t	ic, oc, taps, in, out;	/* channels of a group; elements of a channel */
};

static struct sizes sizes_of(const struct rlx_conv *g)
{
	return (struct sizes){
		g->ic / g->groups, g->oc / g->groups, g->k[0] * g->k[1] * g->k[2],
		g->in[0] * g->in[1] * g->in[2], g->out[0] * g->out[1] * g->out[2],
	};
}

/* The window goes over the input or, of a transposed one, over the result. */
static void take_shape(struct rlx_k_columns *a, const struct rlx_conv *g)
{
	a->n = g->n;
	a->channels = g->transposed ? g->oc : g->ic;
	for (int i = 0; i < 3; i++) {
		a->in[i] = g->transposed ? g->out[i] : g->in[i];
		a->out[i] = g->transposed ? g->in[i] : g->out[i];
		a->k[i] = g->k[i];
		a->s[i] = g->s[i];
		a->d[i] = g->d[i];
		a->p[i] = g->p[i];
	}
}

static struct rlx_k_columns *columns_args(struct rlx_lower *lo, const struct rlx_conv *g)
{
	struct rlx_k_columns *a = rlx_lower_args(lo, sizeof(*a));

	take_shape(a, g);
	return a;
}

/* One product for each image and group; batches of A, the weights, and B follow them. */
static struct rlx_k_gemm *product_args(struct rlx_lower *lo, const struct rlx_conv *g,
				       size_t m, size_t n, size_t k)
{
	struct rlx_k_gemm *p = rlx_lower_args(lo, sizeof(*p));

	p->m = m;
	p->n = p->ldb = p->ldc = p->ldr = n;
	p->k = k;
	p->lda = g->transposed ? m : k;
	p->trans_a = g->transposed;
	p->alpha = 1;
	p->beta = 1;
	p->a_type = p->b_type = p->c_type = RLX_F64;
	p->batch[0] = g->n;
	p->batch[1] = g->groups;
	p->a_step[1] = m * k;
	p->b_step[0] = g->groups * k * n;
	p->b_step[1] = k * n;
	p->c_step[0] = p->r_step[0] = g->groups * m * n;
	p->c_step[1] = p->r_step[1] = m * n;
	return p;
}

static void multiply(struct rlx_lower *lo, const struct rlx_conv *g, struct rlx_k_gemm *p)
{
	rlx_lower_call(lo, RLX_KERNEL_gemm_f64, rlx_k_gemm_units(p, cpu_isa(lo)),
		       rlx_conv_work(g), rlx_k_gemm_f64_scratch(p, cpu_isa(lo)));
}

/* Each channel's bias over all of its result, which the product is added to. */
static void fill_bias(struct rlx_lower *lo, const struct rlx_conv *g, size_t out)
{
	struct rlx_k_copy *c = rlx_lower_args(lo, sizeof(*c));

	c->rank = 3;
	c->dim[0] = (int64_t)g->n;
	c->dim[1] = (int64_t)g->oc;
	c->dim[2] = (int64_t)out;
	c->src_stride[1] = 1;
	c->dst_stride[0] = (int64_t)(g->oc * out);
	c->dst_stride[1] = (int64_t)out;
	c->dst_stride[2] = 1;
	c->size = sizeof(double);
	rlx_k_copy_plan(c);
	rlx_lower_ref_in(lo, &c->src, 2, 0);
	rlx_lower_ref_out(lo, &c->dst, 0, 0);
	rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(c), (double)(g->n * g->oc * out), 0);
}

/* The @g->n images from @first on. */
static void forward(struct rlx_lower *lo, const struct rlx_conv *g, size_t first, uint32_t tmp)
{
	struct sizes s = sizes_of(g);
	uint64_t y = first * g->oc * s.out * sizeof(double);
	struct rlx_k_columns *a = columns_args(lo, g);
	struct rlx_k_gemm *p;

	rlx_lower_ref_in(lo, &a->image, 0, first * g->ic * s.in * sizeof(double));
	rlx_lower_ref_tmp(lo, &a->columns, tmp, 0);
	rlx_lower_call(lo, RLX_KERNEL_im2col_f64, g->n * g->ic * s.taps,
		       (double)(g->n * g->ic * s.taps) * (double)s.out, 0);
	p = product_args(lo, g, s.oc, s.out, s.ic * s.taps);
	rlx_lower_ref_in(lo, &p->a, 1, 0);
	rlx_lower_ref_tmp(lo, &p->b, tmp, 0);
	rlx_lower_ref_out(lo, &p->c, 0, y);
	if (rlx_lower_in(lo, 2))
		rlx_lower_ref_out(lo, &p->residual, 0, y);
	multiply(lo, g, p);
}

static void transposed(struct rlx_lower *lo, const struct rlx_conv *g, size_t first, uint32_t tmp)
{
	struct sizes s = sizes_of(g);
	struct rlx_k_gemm *p = product_args(lo, g, s.oc * s.taps, s.in, s.ic);
	struct rlx_k_columns *a;

	rlx_lower_ref_in(lo, &p->a, 1, 0);
	rlx_lower_ref_in(lo, &p->b, 0, first * g->ic * s.in * sizeof(double));
	rlx_lower_ref_tmp(lo, &p->c, tmp, 0);
	multiply(lo, g, p);
	a = columns_args(lo, g);
	rlx_lower_ref_out(lo, &a->image, 0, first * g->oc * s.out * sizeof(double));
	rlx_lower_ref_tmp(lo, &a->columns, tmp, 0);
	rlx_lower_ref_in(lo, &a->bias, 2, 0);
	rlx_lower_call(lo, RLX_KERNEL_col2im_f64, g->n * g->oc,
		       (double)(g->n * g->oc * s.taps) * (double)s.in, 0);
}

/*
 * Where A is one row (one channel of y in a group) or, transposed, one column (one of x), the
 * product reads its columns once, and they cost more than it. A window of one element has none to
 * speak of.
 */
static bool is_direct(const struct rlx_conv *g)
{
	struct sizes s = sizes_of(g);

	return (g->transposed ? s.ic : s.oc) == 1 && s.taps > 1;
}

static void direct(struct rlx_lower *lo, const struct rlx_conv *g)
{
	enum { RUN = 2048 };	/* doubles of y that taps are added to, and as many of x: 32 KiB */
	struct rlx_k_conv_f64 *a = rlx_lower_args(lo, sizeof(*a));

	take_shape(&a->c, g);
	a->groups = g->groups;
	a->others = g->transposed ? g->ic : g->oc;
	a->transposed = g->transposed;
	a->rows = RUN / a->c.out[2] + 1;
	rlx_lower_ref_in(lo, g->transposed ? &a->c.columns : &a->c.image, 0, 0);
	rlx_lower_ref_out(lo, g->transposed ? &a->c.image : &a->c.columns, 0, 0);
	rlx_lower_ref_in(lo, &a->w, 1, 0);
	rlx_lower_ref_in(lo, &a->c.bias, 2, 0);
	rlx_lower_call(lo, RLX_KERNEL_conv_f64, rlx_k_conv_f64_units(a), rlx_conv_work(g),
		       rlx_k_conv_f64_scratch(a));
}

enum rlx_status cpu_conv_f64(struct rlx_lower *lo, const struct rlx_conv *g)
{
	struct rlx_conv pass = *g;
	struct sizes s = sizes_of(g);
	double image = (double)s.taps * sizeof(double) *
		       (g->transposed ? (double)g->oc * (double)s.in :
					(double)g->ic * (double)s.out);
	size_t at, n = g->n;
	uint32_t tmp;
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (rlx_lower_in(lo, k) && rlx_lower_in(lo, k)->dtype != RLX_F64)
			return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (rlx_lower_out(lo, 0)->dtype != RLX_F64)
		return rlx_lower_unsupported(lo, "a cast of its own rounds the result");
	if (g->block || g->act != RLX_ACT_NONE || rlx_lower_in(lo, 3))
		return rlx_lower_unsupported(lo, "in f64 nothing is fused with the sums");
	if (is_direct(g)) {
		direct(lo, g);
		return lo->status;
	}
	if (image > MOST_BYTES)
		return rlx_lower_unsupported(lo, "an image's columns would take over 4 GiB");
	if (image * (double)n > PASS_BYTES)
		n = image < PASS_BYTES ? (size_t)(PASS_BYTES / image) : 1;
	tmp = rlx_lower_tmp(lo, (uint64_t)image * n);
	if (!g->transposed && rlx_lower_in(lo, 2))
		fill_bias(lo, g, s.out);
	for (at = 0; at < g->n && !lo->status; at += pass.n) {
		pass.n = g->n - at < n ? g->n - at : n;
		if (g->transposed)
			transposed(lo, &pass, at, tmp);
		else
			forward(lo, &pass, at, tmp);
	}
	return lo->status;
}
