// SPDX-License-Identifier: MIT
/* Matrix products: constant right-hand sides are packed once. */
#include "backends/cpu/batch.h"
#include "backends/cpu/cpu.h"

/* The product as both ops say it. */
struct product {
	const struct rlx_type	*a, *b, *y;
	bool			 trans_a, trans_b, has_bias, has_residual;
	double			 alpha, lo, hi;
	int			 act;
	bool			 bf16;		/* multiply in bf16 whatever the dtypes */
};

static const int8_t acts[RLX_ACT_COUNT] = {
	[RLX_ACT_NONE] = RLX_K_ACT_NONE, [RLX_ACT_RELU] = RLX_K_ACT_RELU,
	[RLX_ACT_GELU] = RLX_K_ACT_GELU_ERF,
	[RLX_ACT_GELU_TANH] = RLX_K_ACT_GELU_TANH,
	[RLX_ACT_SILU] = RLX_K_ACT_SILU, [RLX_ACT_SIGMOID] = RLX_K_ACT_SIGMOID,
	[RLX_ACT_TANH] = RLX_K_ACT_TANH,
	[RLX_ACT_HARD_SWISH] = RLX_K_ACT_HARD_SWISH,
	[RLX_ACT_HARD_SIGMOID] = -1, [RLX_ACT_CLIP] = RLX_K_ACT_CLIP,
};

static enum rlx_k_num num_of(enum rlx_dtype dt)
{
	return dt == RLX_BF16 ? RLX_NUM_BF16 : dt == RLX_F16 ? RLX_NUM_F16 :
	       RLX_NUM_F32;
}

/* The family that multiplies. */
struct family {
	const char	*name;
	enum rlx_dtype	 bias;
	rlx_k_fn	*run, *pack;
	size_t		(*pack_size)(size_t n, size_t k, enum rlx_isa isa);
};

/* Dtypes that one of the families takes. */
static bool pick_family(const struct cpu_lower *lo, const struct product *p, struct family *f)
{
	const enum rlx_dtype a = p->a->dtype, b = p->b->dtype, y = p->y->dtype;

	if (a == RLX_F64 || b == RLX_F64) {
		*f = (struct family){ "gemm_f64", RLX_F64, lo->k->gemm_f64,
				      lo->k->gemm_f64_pack, rlx_k_gemm_f64_pack_size };
		return a == RLX_F64 && b == RLX_F64 && y == RLX_F64;
	}
	if (a == RLX_BF16 || b == RLX_BF16 || p->bf16) {
		*f = (struct family){ "gemm_bf16", RLX_F32, lo->k->gemm_bf16,
				      lo->k->gemm_bf16_pack, rlx_k_gemm_bf16_pack_size };
		return (a == RLX_BF16 || a == RLX_F32) && (b == RLX_BF16 || b == RLX_F32) &&
		       (y == RLX_BF16 || y == RLX_F32);
	}
	*f = (struct family){ "gemm_f32", RLX_F32, lo->k->gemm_f32, lo->k->gemm_f32_pack,
			      rlx_k_gemm_f32_pack_size };
	return a == RLX_F32 && b == RLX_F32 && y == RLX_F32;
}

/* The right-hand side, packed by the family's kernel; NULL: failed. */
static const void *packed(struct cpu_lower *lo, const struct rlx_k_gemm *g,
			  const struct product *p, const struct family *f)
{
	enum rlx_isa isa = lo->dev->isa;
	const int64_t key[4] = { (int64_t)g->n, (int64_t)g->k, isa,
				 p->trans_b | num_of(p->b->dtype) << 1 };
	struct rlx_k_gemm_pack pack = {
		.k = g->k, .n = g->n, .b = cpu_const(lo, 1),
		.ldb = p->trans_b ? g->k : g->n, .trans = p->trans_b,
		.num = num_of(p->b->dtype),
	};
	bool is_new;

	pack.dst = cpu_prepare(lo, 1, f->name, key, f->pack_size(g->n, g->k, isa) + 64,
			       &is_new);
	if (pack.dst && is_new)
		f->pack(&pack, 0, rlx_k_gemm_panels(g->n, isa), NULL);
	return pack.dst;
}

static bool flat_weights(const struct product *p)
{
	return shape_span(p->b, 0, p->b->rank - 2) == 1 && !p->trans_a;
}

static enum rlx_status fill(struct cpu_lower *lo, struct rlx_k_gemm *g,
			    const struct product *p, const struct family *f)
{
	const struct rlx_type *a = p->a, *b = p->b;

	g->m = (size_t)p->y->dim[p->y->rank - 2];
	g->n = (size_t)p->y->dim[p->y->rank - 1];
	g->k = (size_t)a->dim[a->rank - (p->trans_a ? 2 : 1)];
	/* one matrix on the right: all rows on the left are one matrix too */
	if (flat_weights(p))
		g->m = (size_t)shape_span(p->y, 0, p->y->rank - 1);
	else if (!batch_plan(g, p->a, p->b, p->y))
		return cpu_no(lo, "over two batch dimensions that do not collapse");
	g->lda = p->trans_a ? g->m : g->k;
	g->ldb = p->trans_b ? g->k : g->n;
	g->ldc = g->ldr = g->n;
	g->trans_a = p->trans_a;
	g->b_form = p->trans_b ? RLX_B_COLS : RLX_B_ROWS;
	g->alpha = p->alpha;
	g->beta = 1;
	g->act = (enum rlx_k_act)acts[p->act];
	g->lo = p->lo;
	g->hi = p->hi;
	g->a_num = num_of(a->dtype);
	g->b_num = num_of(p->b->dtype);
	g->c_num = num_of(p->y->dtype);
	if (g->n > SIZE_MAX / 64 / (g->k + 4))
		return cpu_no(lo, "the right-hand side is too large");
	if (cpu_const(lo, 1) && shape_span(b, 0, b->rank - 2) == 1 && g->k) {
		g->b = packed(lo, g, p, f);
		g->b_form = RLX_B_PACKED;
		if (!g->b)
			return lo->status;
	}
	return RLX_OK;
}

static uint64_t set_rows(void *args, int64_t rows, enum rlx_isa isa)
{
	struct rlx_k_gemm *g = args;

	g->m = (size_t)rows;
	return rlx_k_gemm_units(g, isa);
}

/* Fewer rows may be cut into taller blocks: room for the tallest. */
static size_t most_scratch(const struct rlx_k_gemm *g, enum rlx_isa isa)
{
	size_t tallest = 8 * rlx_k_gemm_mr(isa), most = 0, bytes;
	struct rlx_k_gemm fewer = *g;

	if (g->m > tallest)
		fewer.m = (size_t)1 << 24;	/* no block is cut short for its sake */
	for (; fewer.m; fewer.m = fewer.m > tallest ? 0 : fewer.m - 1) {
		bytes = rlx_k_gemm_scratch(&fewer, isa);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static enum rlx_status lower_product(struct cpu_lower *lo, const struct product *p)
{
	struct rlx_k_gemm *g = cpu_args(lo, sizeof(*g));
	enum rlx_isa isa = lo->dev->isa;
	enum rlx_status st;
	struct family f;

	if (!pick_family(lo, p, &f) || acts[p->act] < 0)
		return cpu_no(lo, "no kernel for these dtypes or this activation");
	st = fill(lo, g, p, &f);
	if (st)
		return st;
	cpu_ref_in(lo, &g->a, 0, 0);
	if (g->b_form != RLX_B_PACKED)
		cpu_ref_in(lo, &g->b, 1, 0);
	if (p->has_bias) {
		if (cpu_in(lo, 2)->dtype != f.bias ||
		    rlx_type_count(cpu_in(lo, 2)) != (int64_t)g->n)
			return cpu_no(lo, "the bias is not f32 (f64), one for each column");
		cpu_ref_in(lo, &g->bias, 2, 0);
	}
	if (p->has_residual) {
		if (cpu_in(lo, 3)->dtype != p->y->dtype)
			return cpu_no(lo, "the residual is not of the result's dtype");
		cpu_ref_in(lo, &g->residual, 3, 0);
	}
	cpu_ref_out(lo, &g->c, 0, 0);
	if (flat_weights(p) && !g->batch[0] && !g->batch[1])
		cpu_extent(lo, (int64_t)g->m, set_rows);
	return cpu_call(lo, f.run, rlx_k_gemm_units(g, isa),
			2.0 * (double)g->m * (double)g->n * (double)(g->k + 1) *
			(double)rlx_k_gemm_batches(g) / 8,
			most_scratch(g, isa));
}

enum rlx_status cpu_lower_matmul(struct cpu_lower *lo)
{
	struct product p = {
		.a = cpu_in(lo, 0), .b = cpu_in(lo, 1), .y = cpu_out(lo, 0),
		.alpha = 1,
	};

	return lower_product(lo, &p);
}

enum rlx_status cpu_lower_fused_matmul(struct cpu_lower *lo)
{
	const struct rlx_op_fused_matmul *f = lo->args;
	struct product p = {
		.a = cpu_in(lo, 0), .b = cpu_in(lo, 1), .y = cpu_out(lo, 0),
		.trans_a = f->trans_a, .trans_b = f->trans_b,
		.has_bias = cpu_in(lo, 2), .has_residual = cpu_in(lo, 3),
		.alpha = f->alpha != 0 ? (double)f->alpha : 1,
		.act = f->act, .lo = (double)f->act_lo, .hi = (double)f->act_hi,
		.bf16 = f->compute == RLX_BF16,
	};

	if (f->compute == RLX_F16)
		return cpu_no(lo, "no f16 products");
	return lower_product(lo, &p);
}
