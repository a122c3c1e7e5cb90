// SPDX-License-Identifier: MIT
/* LSTM, GRU and RNN: weights are packed once or, known only then, at each run. */
#include <string.h>

#include "backends/common/rnn_desc.h"
#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "kernels/ew.h"
#include "kernels/gemm.h"
#include "kernels/move.h"

/* The kernels of a dtype. */
struct family {
	const char		*w, *r, *bias, *late;	/* kinds of prepared memory */
	enum rlx_dtype		 dtype;
	enum rlx_k_ew_class	 cls;
	enum rlx_kernel_id	 gemm, pack, run;
	size_t			(*w_size)(size_t n, size_t k, enum rlx_isa isa);
	size_t			(*scratch)(const struct rlx_k_gemm *g, enum rlx_isa isa);
};

static const struct family f32 = {
	"rnn_w", "rnn_r", "rnn_bias", "rnn_late", RLX_F32, RLX_EW_F32, RLX_KERNEL_gemm_f32,
	RLX_KERNEL_rnn_pack, RLX_KERNEL_rnn, rlx_k_gemm_f32_pack_size, rlx_k_gemm_scratch,
};
static const struct family f64 = {
	"rnn_w_f64", "rnn_r_f64", "rnn_bias_f64", "rnn_late_f64", RLX_F64, RLX_EW_F64,
	RLX_KERNEL_gemm_f64, RLX_KERNEL_rnn_f64_pack, RLX_KERNEL_rnn_f64,
	rlx_k_gemm_f64_pack_size, rlx_k_gemm_f64_scratch,
};

/* Memory that is filled at compile time, or a temporary. */
struct where {
	char		*p;		/* NULL: the temporary */
	uint32_t	 tmp;
};

/* What the kernels read instead of the op's weights. */
struct weights {
	const struct family	*f;
	char			*w;	/* packed; NULL: as the op has it */
	size_t			 w_bytes;
	bool			 has_bias, has_late;
	struct where		 bias;	/* of x's products: [dirs, gates, hidden] */
	struct where		 late;	/* of the last gate of a GRU that resets late */
};

static bool takes(struct rlx_lower *lo, enum rlx_dtype dt)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (rlx_lower_in(lo, k) && k != 4 && rlx_lower_in(lo, k)->dtype != dt)
			return false;
	return true;
}

static void refer(struct rlx_lower *lo, void *field, const struct where *at, uint64_t off)
{
	if (at->p)
		*(const void **)field = at->p + off;
	else
		rlx_lower_ref_tmp(lo, field, at->tmp, off);
}

/* W of all directions, packed for the product, if it is a constant. */
static void pack_w(struct rlx_lower *lo, const struct rlx_recurrence *r, struct weights *w)
{
	enum rlx_isa isa = cpu_isa(lo);
	size_t n = (size_t)(r->gates * r->hidden), k = (size_t)r->in;
	const int64_t key[4] = { (int64_t)n, (int64_t)k, isa, r->dirs };
	const char *from;
	rlx_k_fn *pack = w->f == &f64 ? cpu_kernels(lo)->gemm_f64_pack :
					cpu_kernels(lo)->gemm_f32_pack;
	bool is_new;

	if (!rlx_lower_is_const(lo, 1) || !k)
		return;
	w->w_bytes = rlx_align64(w->f->w_size(n, k, isa));
	w->w = cpu_prepare(lo, 1, w->f->w, key, w->w_bytes * (size_t)r->dirs + 64, &is_new);
	if (!w->w || !is_new)
		return;
	from = rlx_lower_const(lo, 1);
	for (int64_t d = 0; d < r->dirs; d++) {
		struct rlx_k_gemm_pack p = {
			.k = k, .n = n, .ldb = k, .trans = true, .type = w->f->dtype,
			.dst = w->w + (size_t)d * w->w_bytes,
			.b = from + (size_t)d * n * k * r->size,
		};

		pack(&p, 0, rlx_k_gemm_panels(n, isa), NULL);
	}
}

/* R of all directions, for @field of the staged arguments. */
static void pack_r(struct rlx_lower *lo, const struct rlx_recurrence *r, const struct weights *w,
		   const void **field)
{
	size_t n = rlx_k_rnn_packed(r->cell, r->hidden, r->size) * (size_t)r->dirs;
	const int64_t key[4] = { r->cell, r->hidden, r->dirs, 0 };
	struct rlx_k_rnn_pack p = { .dirs = r->dirs, .hidden = r->hidden, .cell = r->cell };

	cpu_pack(lo, field, &(struct cpu_packing){
		w->f->r, key, w->f->pack, 2, &p, sizeof(p), offsetof(struct rlx_k_rnn_pack, r),
		offsetof(struct rlx_k_rnn_pack, dst), (uint64_t)r->dirs, n * r->size + 64 });
}

/* To element @at go @n of the bias from @from on, and if @also is not 0 those from there on. */
struct rows {
	int64_t	at, from, also, n;
};

static void add_now(const struct weights *w, const struct where *to, const void *bias,
		    struct rows l)
{
	const double *b64 = bias;
	const float *b32 = bias;
	int64_t i;

	for (i = 0; i < l.n && w->f == &f64; i++)
		((double *)to->p)[l.at + i] = b64[l.from + i] + (l.also ? b64[l.also + i] : 0);
	for (i = 0; i < l.n && w->f == &f32; i++)
		((float *)to->p)[l.at + i] = b32[l.from + i] + (l.also ? b32[l.also + i] : 0);
}

static void add_each_run(struct rlx_lower *lo, const struct weights *w, const struct where *to,
			 struct rows l)
{
	uint64_t size = rlx_dtype_size(w->f->dtype);
	struct rlx_k_ew *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t k;

	a->cls = (uint8_t)w->f->cls;
	a->rank = 1;
	a->dim[0] = l.n;
	a->n_in = l.also ? 2 : 1;
	for (k = 0; k < a->n_in; k++) {
		a->in[k].type = (uint8_t)w->f->dtype;
		a->in[k].stride[0] = 1;
		rlx_lower_ref_in(lo, &a->in[k].p, 3, (uint64_t)(k ? l.also : l.from) * size);
	}
	a->n_step = 1;
	a->step[0] = (struct rlx_k_ew_step){ .op = l.also ? RLX_EW_add : RLX_EW_copy,
					     .src = { 0, 1, 0 } };
	a->n_out = 1;
	a->out[0].type = (uint8_t)w->f->dtype;
	a->out[0].src = (uint8_t)RLX_EW_STEP(0);
	rlx_lower_ref_tmp(lo, &a->out[0].p, to->tmp, (uint64_t)l.at * size);
	rlx_k_ew_plan(cpu_isa(lo), a);
	rlx_lower_call(lo, RLX_KERNEL_ew, rlx_k_ew_units(a), (double)l.n, rlx_k_ew_scratch(a));
}

/* Memory for @n elements made of the bias. Return: they are to be computed, now or by calls. */
static bool make(struct rlx_lower *lo, const struct rlx_recurrence *r, const char *kind,
		 int64_t n, struct where *to)
{
	const int64_t key[4] = { n, r->dirs, r->cell, r->linear_before_reset };
	uint64_t bytes = (uint64_t)n * r->size + 64;
	bool is_new = true;

	if (rlx_lower_is_const(lo, 3))
		to->p = cpu_prepare(lo, 3, kind, key, bytes, &is_new);
	else
		to->tmp = rlx_lower_tmp(lo, bytes);
	return is_new && !lo->status;
}

static void add(struct rlx_lower *lo, const struct weights *w, const struct where *to,
		struct rows l)
{
	if (!l.n)
		return;
	if (to->p)
		add_now(w, to, rlx_lower_const(lo, 3), l);
	else
		add_each_run(lo, w, to, l);
}

/* Wb + Rb a gate, but only Wb for the last gate of a GRU that resets late, whose Rb is apart. */
static void sum_bias(struct rlx_lower *lo, const struct rlx_recurrence *r, struct weights *w)
{
	int64_t n = r->gates * r->hidden, h = r->hidden, d, at;
	int64_t sums = r->linear_before_reset ? n - h : n;

	w->has_bias = rlx_lower_in(lo, 3);
	w->has_late = w->has_bias && r->linear_before_reset;
	if (w->has_bias && make(lo, r, w->f->bias, n * r->dirs, &w->bias))
		for (d = 0; d < r->dirs; d++) {
			at = 2 * d * n;
			add(lo, w, &w->bias, (struct rows){ d * n, at, at + n, sums });
			add(lo, w, &w->bias, (struct rows){ d * n + sums, at + sums, 0, n - sums });
		}
	if (w->has_late && make(lo, r, w->f->late, h * r->dirs, &w->late))
		for (d = 0; d < r->dirs; d++)
			add(lo, w, &w->late, (struct rows){ d * h, 2 * d * n + n + sums, 0, h });
}

static enum rlx_status project(struct rlx_lower *lo, const struct rlx_recurrence *r,
			       const struct weights *w)
{
	size_t n = (size_t)(r->gates * r->hidden), size = r->size;
	int64_t d;

	for (d = 0; d < r->dirs && !lo->status && r->steps && r->batch && n; d++) {
		struct rlx_k_gemm *g = rlx_lower_args(lo, sizeof(*g));

		g->m = (size_t)(r->steps * r->batch);
		g->n = n;
		g->k = g->lda = g->ldb = (size_t)r->in;
		g->ldc = n * (size_t)r->dirs;
		g->alpha = 1;
		g->a_type = g->b_type = g->c_type = w->f->dtype;
		g->b_form = w->w ? RLX_B_PACKED : RLX_B_COLS;
		if (w->w)
			g->b = w->w + (size_t)d * w->w_bytes;
		else
			rlx_lower_ref_in(lo, &g->b, 1, (uint64_t)d * n * g->k * size);
		if (w->has_bias)
			refer(lo, &g->bias, &w->bias, (uint64_t)d * n * size);
		rlx_lower_ref_in(lo, &g->a, 0, 0);
		rlx_lower_ref_tmp(lo, &g->c, r->tmp, (uint64_t)d * n * size);
		rlx_lower_call(lo, w->f->gemm, rlx_k_gemm_units(g, cpu_isa(lo)),
			       (double)g->m * (double)n * (double)g->k / 4,
			       w->f->scratch(g, cpu_isa(lo)));
	}
	return lo->status;
}

enum rlx_status cpu_recur(struct rlx_lower *lo, const struct rlx_recurrence *r)
{
	struct weights w = { .f = r->size == 8 ? &f64 : &f32 };
	struct rlx_k_rnn *a;

	if (!takes(lo, w.f->dtype))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	pack_w(lo, r, &w);
	if (!lo->status)
		sum_bias(lo, r, &w);
	if (lo->status || project(lo, r, &w))
		return lo->status;
	a = rlx_recurrence_args(lo, r);
	pack_r(lo, r, &w, &a->r);
	if (w.has_late)
		refer(lo, &a->rb, &w.late, 0);
	return rlx_lower_call(lo, w.f->run, rlx_k_rnn_units(a), rlx_recurrence_work(r),
			      rlx_k_rnn_scratch(a, r->size));
}
