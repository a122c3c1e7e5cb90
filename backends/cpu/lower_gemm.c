// SPDX-License-Identifier: MIT
/* Which family multiplies; right-hand sides of constants and params are packed once. */
#include "backends/common/gemm.h"
#include "backends/cpu/cpu.h"
#include "kernels/copy.h"

/* The family that multiplies. */
struct family {
	const char		*name;
	enum rlx_dtype		 bias;
	enum rlx_kernel_id	 run;
	enum rlx_kernel_id	 pack;
	size_t			(*pack_size)(size_t n, size_t k, enum rlx_isa isa);
	size_t			(*units)(const struct rlx_k_gemm *g, enum rlx_isa isa);
	size_t			(*scratch)(const struct rlx_k_gemm *g, enum rlx_isa isa);
	uint64_t		(*set_rows)(void *args, int64_t rows, enum rlx_isa isa);
	enum rlx_dtype		packed;		/* what weights are packed in */
};

/*
 * So many blocks of rows, each of which lays out B, take longer than one packing of it; of each
 * thread, since what another one packed is in that one's cache.
 */
enum { PACKS_FROM = 3, PACKS_FROM_SHARED = 6 };

static uint64_t set_rows(void *args, int64_t rows, enum rlx_isa isa)
{
	struct rlx_k_gemm *g = args;

	g->m = (size_t)rows;
	return rlx_k_gemm_units(g, isa);
}

static uint64_t set_low_rows(void *args, int64_t rows, enum rlx_isa isa)
{
	struct rlx_k_gemm *g = args;

	g->m = (size_t)rows;
	return rlx_k_gemm_low_units(g, isa);
}

/*
 * About how many simple operations a product is: @low ones in tiles are some ten
 * times as fast. Tiles take few rows as well as many: a step of B then costs what
 * loading it does, and a row's bits may not depend on how many are with it.
 */
static double work_of(const struct rlx_k_gemm *g, bool low, enum rlx_isa isa)
{
	double per = low && isa >= RLX_ISA_V4_AMX ? 64 : 8;

	return 2.0 * (double)g->m * (double)g->n * (double)(g->k + 1) *
	       (double)rlx_k_gemm_batches(g) / per;
}

/* Dtypes that one of the families takes. @once: the right-hand side will be packed */
static bool pick_family(const struct rlx_lower *lo, const struct rlx_k_gemm *g, bool once,
			struct family *f)
{
	const enum rlx_dtype a = rlx_lower_in(lo, 0)->dtype, y = rlx_lower_out(lo, 0)->dtype;
	/* few of one of both: its elements are read once, and widened in registers */
	const bool few = !lo->strict && (g->m <= 2 * rlx_k_gemm_mr(cpu_isa(lo)) ||
					 rlx_k_gemm_few_columns(g, cpu_isa(lo)));
	/* better widened for a block of rows, where nothing multiplies bf16 as such */
	const bool many = !few && cpu_isa(lo) < RLX_ISA_V4X;
	enum rlx_dtype b = rlx_lower_in(lo, 1)->dtype;

	if (a == RLX_F64 || b == RLX_F64) {
		*f = (struct family){ "gemm_f64", RLX_F64, RLX_KERNEL_gemm_f64,
				      RLX_KERNEL_gemm_f64_pack, rlx_k_gemm_f64_pack_size,
				      rlx_k_gemm_units, rlx_k_gemm_f64_scratch, set_rows,
				      RLX_F64 };
		return a == RLX_F64 && b == RLX_F64 && y == RLX_F64;
	}
	if (b == RLX_BF16 && !g->compute && many && !once)
		b = RLX_F32;
	if (g->compute == RLX_BF16 || b == RLX_BF16) {
		*f = (struct family){ "gemm_bf16", RLX_F32, RLX_KERNEL_gemm_bf16,
				      RLX_KERNEL_gemm_bf16_pack, rlx_k_gemm_bf16_pack_size,
				      rlx_k_gemm_low_units, rlx_k_gemm_low_scratch,
				      set_low_rows, RLX_BF16 };
		if (many && once)
			f->run = RLX_KERNEL_gemm_f32;
		return (a == RLX_BF16 || a == RLX_F32) && (b == RLX_BF16 || b == RLX_F32) &&
		       (y == RLX_BF16 || y == RLX_F32);
	}
	*f = (struct family){ "gemm_f32", RLX_F32, RLX_KERNEL_gemm_f32,
			      RLX_KERNEL_gemm_f32_pack, rlx_k_gemm_f32_pack_size,
			      rlx_k_gemm_units, rlx_k_gemm_scratch, set_rows, RLX_F32 };
	if (b == RLX_F16) {
		if (once) {	/* stays that in memory */
			f->name = "gemm_f16";
			f->pack = RLX_KERNEL_gemm_f16_pack;
			f->pack_size = rlx_k_gemm_f16_pack_size;
			f->packed = RLX_F16;
		}
		/* columns that nobody packed are turned into rows of floats as well */
		if (few && (once || g->b_form != RLX_B_COLS || g->m <= RLX_K_GEMM_DOT_M ||
			    rlx_k_gemm_few_columns(g, cpu_isa(lo))))
			f->run = RLX_KERNEL_gemm_f16;
	}
	return rlx_lower_real(a) && rlx_lower_real(b) && rlx_lower_real(y);
}

/* The right-hand side, packed by the family's kernel. */
static void pack(struct rlx_lower *lo, struct rlx_k_gemm *g, const struct family *f)
{
	const bool trans = g->b_form == RLX_B_COLS;
	enum rlx_isa isa = cpu_isa(lo);
	const int64_t key[4] = { (int64_t)g->n, (int64_t)g->k,
				 trans | g->b_type << 1 | isa << 4, (int64_t)g->ldb };
	struct rlx_k_gemm_pack pack = {
		.k = g->k, .n = g->n, .ldb = g->ldb, .trans = trans, .type = g->b_type,
	};

	g->b_form = RLX_B_PACKED;
	g->b_type = f->packed;
	cpu_pack(lo, &g->b, &(struct cpu_packing){
		f->name, key, f->pack, 1, &pack, sizeof(pack),
		offsetof(struct rlx_k_gemm_pack, b), offsetof(struct rlx_k_gemm_pack, dst),
		rlx_k_gemm_panels(g->n, isa), f->pack_size(g->n, g->k, isa) + 64 });
}

/*
 * Would so many blocks of rows lay out a right-hand side that each run has anew (an activation, a
 * gradient, a weight that training moves), each all of it, that once for all of them is better?
 */
static bool packs_each_run(const struct rlx_lower *lo, const struct rlx_k_gemm *g,
			   const struct family *f)
{
	const size_t threads = cpu_device_of(lo)->base.threads;
	const size_t from = threads > 1 ? PACKS_FROM_SHARED * threads : PACKS_FROM;

	return !lo->strict && rlx_k_gemm_batches(g) == 1 && !rlx_k_gemm_is_thin(g, cpu_isa(lo)) &&
	       f->units(g, cpu_isa(lo)) >= from * rlx_k_gemm_panels(g->n, cpu_isa(lo));
}

/* Few columns of floats, which rows hold, as columns: rows of memory. */
static void pack_columns(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	const uint8_t size = (uint8_t)rlx_k_type_size(g->b_type);
	const int64_t n = (int64_t)g->n, k = (int64_t)g->k;
	const int64_t key[4] = { n, k, size, (int64_t)g->ldb };
	struct rlx_k_copy copy = {
		.rank = 2, .dim = { n, k }, .src_stride = { 1, (int64_t)g->ldb },
		.dst_stride = { k, 1 }, .size = size,
	};

	rlx_k_copy_plan(&copy);
	g->b_form = RLX_B_COLS;
	g->ldb = g->k;
	cpu_pack(lo, &g->b, &(struct cpu_packing){
		"gemm columns", key, RLX_KERNEL_copy, 1, &copy, sizeof(copy),
		offsetof(struct rlx_k_copy, src), offsetof(struct rlx_k_copy, dst),
		(uint64_t)rlx_k_copy_units(&copy), g->n * g->k * size + 64 });
}

/* Fewer rows may be cut into taller blocks: room for the tallest. */
static size_t most_scratch(const struct family *f, const struct rlx_k_gemm *g,
			   enum rlx_isa isa)
{
	size_t tallest = 256, most = 0, bytes;
	struct rlx_k_gemm fewer = *g;

	if (g->m > tallest)
		fewer.m = (size_t)1 << 24;	/* no block is cut short for its sake */
	for (; fewer.m; fewer.m = fewer.m > tallest ? 0 : fewer.m - 1) {
		bytes = f->scratch(&fewer, isa);
		most = bytes > most ? bytes : most;
	}
	return most;
}

static uint64_t set_int_rows(void *args, int64_t rows, enum rlx_isa isa)
{
	struct rlx_k_gemm *g = args;

	(void)isa;
	g->m = (size_t)rows;
	return rlx_k_gemm_int_blocks(g);
}

/* Integers, which nothing is packed for or fused with. */
static enum rlx_status gemm_int(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	rlx_lower_ref_in(lo, &g->b, 1, 0);
	if (rlx_gemm_rows_lead(g))
		rlx_lower_extent(lo, (int64_t)g->m, set_int_rows);
	return rlx_lower_call(lo, RLX_KERNEL_gemm_int,
			      rlx_k_gemm_int_blocks(g) * rlx_k_gemm_batches(g),
			      (double)g->m * (double)g->n * (double)(g->k + 1) *
			      (double)rlx_k_gemm_batches(g) / 4, 0);
}

/* The staged product, by the family's kernel. */
static enum rlx_status call(struct rlx_lower *lo, const struct rlx_k_gemm *g,
			    const struct family *f)
{
	enum rlx_isa isa = cpu_isa(lo);

	if (rlx_gemm_rows_lead(g))
		rlx_lower_extent(lo, (int64_t)g->m, f->set_rows);
	return rlx_lower_call(lo, f->run, f->units(g, isa),
			      work_of(g, f->run == RLX_KERNEL_gemm_bf16, isa),
			      most_scratch(f, g, isa));
}

enum rlx_status cpu_gemm(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	const struct rlx_type *a = rlx_lower_in(lo, 0), *b = rlx_lower_in(lo, 1);
	const bool few = rlx_k_gemm_few_columns(g, cpu_isa(lo));
	const bool once = rlx_gemm_packs_once(lo, g, few);
	struct rlx_k_gemm as_is;
	struct family f;
	uint32_t n_ref;

	g->strict = lo->strict;
	g->b_packs = rlx_gemm_b_packs(g, once, cpu_isa(lo));
	as_is = *g;
	if (rlx_dtype_is_int(rlx_lower_out(lo, 0)->dtype) && !rlx_dtype_is_float(a->dtype) &&
	    !rlx_dtype_is_float(b->dtype))
		return gemm_int(lo, g);
	if (g->compute == RLX_F16)
		return rlx_lower_unsupported(lo, "no f16 GEMM");
	if (!pick_family(lo, g, once, &f))
		return rlx_lower_unsupported(lo, "no kernel for these dtypes");
	if (rlx_gemm_bias(lo, g, f.bias))
		return lo->status;
	n_ref = lo->n_ref;
	if (once) {
		if (few)
			pack_columns(lo, g);
		else
			pack(lo, g, &f);
		if (call(lo, g, &f) || rlx_lower_is_const(lo, 1))
			return lo->status;
		lo->n_ref = n_ref;
		*g = as_is;
		pick_family(lo, g, false, &f);
	}
	if (!once && packs_each_run(lo, g, &f))
		pack(lo, g, &f);
	else
		rlx_lower_ref_in(lo, &g->b, 1, 0);
	call(lo, g, &f);
	if (once)
		cpu_pack_optional(lo);
	return lo->status;
}

static void pack_bytes(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q)
{
	enum rlx_isa isa = cpu_isa(lo);
	const int64_t key[4] = { (int64_t)q->g.n, (int64_t)q->g.k, isa, q->b_signed };
	struct rlx_k_gemm_i8_pack pack = {
		.k = q->g.k, .n = q->g.n, .ldb = q->g.n, .b_signed = q->b_signed,
	};

	q->g.b_form = RLX_B_PACKED;
	cpu_pack(lo, &q->g.b, &(struct cpu_packing){
		"gemm_i8", key, RLX_KERNEL_gemm_i8_pack, 1, &pack, sizeof(pack),
		offsetof(struct rlx_k_gemm_i8_pack, b),
		offsetof(struct rlx_k_gemm_i8_pack, dst), rlx_k_gemm_panels(q->g.n, isa),
		rlx_k_gemm_i8_pack_size(q->g.n, q->g.k, isa) + 64 });
}

static enum rlx_status call_i8(struct rlx_lower *lo, const struct rlx_k_gemm *g)
{
	enum rlx_isa isa = cpu_isa(lo);

	return rlx_lower_call(lo, RLX_KERNEL_gemm_i8, rlx_k_gemm_low_units(g, isa),
			      work_of(g, true, isa) / 2, rlx_k_gemm_low_scratch(g, isa));
}

enum rlx_status cpu_gemm_i8(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q)
{
	const struct rlx_k_gemm as_is = q->g;
	const bool once = rlx_gemm_b_stays(lo, &q->g);
	uint32_t n_ref = lo->n_ref;

	if (once) {
		pack_bytes(lo, q);
		if (call_i8(lo, &q->g) || rlx_lower_is_const(lo, 1))
			return lo->status;
		lo->n_ref = n_ref;
		q->g = as_is;
	}
	rlx_lower_ref_in(lo, &q->g.b, 1, 0);
	call_i8(lo, &q->g);
	if (once)
		cpu_pack_optional(lo);
	return lo->status;
}
