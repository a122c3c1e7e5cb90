// SPDX-License-Identifier: MIT
/*
 * GEMM with weights of 4 or 8 bits, which are packed anew once and stay so, and with rows of
 * blocks, which are read as they are.
 */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/map.h"
#include "ir/element.h"
#include "kernels/blocks.h"
#include "kernels/gemm_wq.h"

enum { W = 1, SCALE, ZP };

static bool is_4bit(int scheme)
{
	return scheme == RLX_SCHEME_INT4_BLOCK || scheme == RLX_SCHEME_UINT4_BLOCK;
}

static struct rlx_tensor constant(const struct rlx_lower *lo, uint32_t k)
{
	return (struct rlx_tensor){ .type = *rlx_lower_in(lo, k),
				    .data = (void *)(uintptr_t)rlx_lower_const(lo, k) };
}

/* Element @e of the weight as the kernel has it: 4 bits from 0 on, of which signed ones are 8. */
static uint8_t code(const uint8_t *w, size_t e, int scheme)
{
	uint8_t v = is_4bit(scheme) ? w[e / 2] >> (e % 2 * 4) & 15 : w[e];

	return scheme == RLX_SCHEME_INT4_BLOCK ? v ^ 8 : v;
}

/* @len rows of the columns of a panel, from element @e on. */
static void pack_codes(const struct rlx_lower *lo, const struct rlx_k_gemm_wq *a, size_t e,
		       size_t len, uint8_t *to)
{
	int scheme = ((const struct rlx_op_dequant_matmul *)lo->args)->scheme;
	size_t cols = rlx_k_gemm_wq_cols((enum rlx_isa)a->isa), i, j;
	size_t n = a->n - e % a->n < cols ? a->n - e % a->n : cols;

	for (i = 0; i < len; i++, e += a->n)
		for (j = 0; j < n; j++) {
			uint8_t v = code(rlx_lower_const(lo, W), e + j, scheme);

			if (a->bits == 4)
				to[i / 2 * cols + j] |= (uint8_t)(v << (i % 2 * 4));
			else
				to[i * cols + j] = v;
		}
}

/* Scales, and zero points if there are, of block @b of the panel of column @col; how many. */
static size_t factors(const struct rlx_lower *lo, const struct rlx_k_gemm_wq *a, size_t b,
		      size_t col, float to[2 * RLX_K_GEMM_WQ_COLS])
{
	struct rlx_tensor s = constant(lo, SCALE), z = a->zeros ? constant(lo, ZP) : s;
	size_t cols = rlx_k_gemm_wq_cols((enum rlx_isa)a->isa), n = cols * (a->zeros ? 2 : 1), j;

	memset(to, 0, n * sizeof(*to));
	for (j = 0; j < cols && col + j < a->n; j++) {
		int64_t at = (int64_t)(b * a->n + col + j);

		to[j] = (float)el_get(&s, at);
		if (a->zeros)	/* codes of signed numbers were moved up */
			to[cols + j] = (float)el_get(&z, at) + (float)a->zero;
	}
	return n;
}

static size_t rows_of(const struct rlx_k_gemm_wq *a, size_t b)
{
	return a->k - b * a->block < a->block ? a->k - b * a->block : a->block;
}

static void pack(const struct rlx_lower *lo, const struct rlx_k_gemm_wq *a, char *to)
{
	size_t cols = rlx_k_gemm_wq_cols((enum rlx_isa)a->isa), col, b, n;

	memset(to, 0, rlx_k_gemm_wq_panels(a) * rlx_k_gemm_wq_panel_bytes(a));
	for (col = 0; col < a->n; col += cols)
		for (b = 0; b < rlx_k_gemm_wq_blocks(a); b++) {
			float *f = (float *)(void *)to;

			n = factors(lo, a, b, col, f);
			pack_codes(lo, a, b * a->block * a->n + col, rows_of(a, b),
				   (uint8_t *)(f + n));
			to += rlx_k_gemm_wq_block_bytes(a, rows_of(a, b));
		}
}

struct product {
	const struct rlx_lower		*lo;
	const struct rlx_k_gemm_wq	*a;
};

/* Has what was @found these scales and zero points? The weight is that of the key. */
static bool is_same(const void *ctx, const void *found)
{
	const struct product *p = ctx;
	const struct rlx_k_gemm_wq *a = p->a;
	size_t cols = rlx_k_gemm_wq_cols((enum rlx_isa)a->isa), col, b, n;
	float f[2 * RLX_K_GEMM_WQ_COLS];
	const char *at = found;

	for (col = 0; col < a->n; col += cols)
		for (b = 0; b < rlx_k_gemm_wq_blocks(a); b++) {
			n = factors(p->lo, a, b, col, f);
			if (memcmp(f, at, n * sizeof(*f)))
				return false;
			at += rlx_k_gemm_wq_block_bytes(a, rows_of(a, b));
		}
	return true;
}

static uint64_t hash_of(const struct rlx_lower *lo, uint32_t k, uint64_t seed)
{
	if (!rlx_lower_in(lo, k))
		return seed;
	return rlx_hash_bytes(rlx_lower_const(lo, k), (size_t)rlx_type_bytes(rlx_lower_in(lo, k)),
			      seed + rlx_lower_in(lo, k)->dtype);
}

/* What is packed is of the weight, its scales and zero points. */
static const void *packed(struct rlx_lower *lo, const struct rlx_k_gemm_wq *a, int scheme)
{
	const int64_t key[4] = {
		(int64_t)a->k, (int64_t)a->n,
		(int64_t)((uint64_t)a->block << 16 | (uint64_t)scheme << 8 | a->isa), 0,
	};
	size_t bytes = rlx_k_gemm_wq_panels(a) * rlx_k_gemm_wq_panel_bytes(a);
	bool is_new;
	void *to = cpu_prepare_same(lo, W, &(struct cpu_wanted){
		"gemm_wq", key, hash_of(lo, ZP, hash_of(lo, SCALE, 0)), is_same,
		&(struct product){ lo, a } }, bytes + 64, &is_new);

	if (to && is_new)
		pack(lo, a, to);
	return to;
}

static bool known(const struct rlx_lower *lo, uint32_t k)
{
	return !rlx_lower_in(lo, k) || rlx_lower_is_const(lo, k);
}

static uint64_t set_rows(void *args, int64_t rows, enum rlx_isa isa)
{
	struct rlx_k_gemm_wq *a = args;

	(void)isa;
	a->m = (size_t)rows;
	return rlx_k_gemm_wq_units(a);
}

static uint64_t set_rows_of_blocks(void *args, int64_t rows, enum rlx_isa isa)
{
	struct rlx_k_gemm_blocks *a = args;

	(void)isa;
	a->m = (size_t)rows;
	return rlx_k_gemm_blocks_units(a);
}

/* @w may be any value: nothing is made of it. */
static enum rlx_status lower_blocks(struct rlx_lower *lo, const struct rlx_op_dequant_matmul *d)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_gemm_blocks *a = rlx_lower_args(lo, sizeof(*a));

	a->m = (size_t)shape_span(x, 0, x->rank - 1);
	a->k = (size_t)x->dim[x->rank - 1];
	a->n = (size_t)d->n;
	a->scheme = (uint8_t)d->scheme;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_in(lo, &a->w, W, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_extent(lo, (int64_t)a->m, set_rows_of_blocks);
	return rlx_lower_call(lo, RLX_KERNEL_gemm_blocks, rlx_k_gemm_blocks_units(a),
			      (double)a->m * (double)a->n * (double)a->k / 4,
			      rlx_k_blocks_scratch(a->m));
}

enum rlx_status cpu_lower_dequant_matmul(struct rlx_lower *lo)
{
	const struct rlx_op_dequant_matmul *d = lo->args;
	const struct rlx_type *x = rlx_lower_in(lo, 0);
	struct rlx_k_gemm_wq *a;

	if (x->dtype == RLX_F32 && rlx_block_elements(d->scheme))
		return lower_blocks(lo, d);
	if (x->dtype != RLX_F32 || d->scheme > RLX_SCHEME_UINT4_BLOCK)
		return rlx_lower_unsupported(lo, "no kernel for this dtype or scheme");
	if (!rlx_lower_is_const(lo, W) || !known(lo, SCALE) || !known(lo, ZP) ||
	    !x->dim[x->rank - 1])
		return rlx_lower_unsupported(
			lo, "weights known only at run time, or nothing to sum");
	a = rlx_lower_args(lo, sizeof(*a));
	a->m = (size_t)shape_span(x, 0, x->rank - 1);
	a->k = (size_t)x->dim[x->rank - 1];
	a->n = (size_t)d->n;
	a->block = d->block && (size_t)d->block < a->k ? (size_t)d->block : a->k;
	a->bits = is_4bit(d->scheme) ? 4 : 8;
	a->zero = d->scheme == RLX_SCHEME_INT4_BLOCK ? 8 : 0;
	a->zeros = rlx_lower_in(lo, ZP);
	a->isa = (uint8_t)cpu_isa(lo);
	a->w = packed(lo, a, d->scheme);
	if (lo->status)
		return lo->status;
	rlx_lower_ref_in(lo, &a->x, 0, 0);
	rlx_lower_ref_out(lo, &a->y, 0, 0);
	rlx_lower_extent(lo, (int64_t)a->m, set_rows);
	return rlx_lower_call(lo, RLX_KERNEL_gemm_wq, rlx_k_gemm_wq_units(a),
			      (double)a->m * (double)a->n * (double)a->k / 4,
			      rlx_k_gemm_wq_scratch(a));
}
