// SPDX-License-Identifier: MIT
/*
 * Regions that join parts as source text: a kernel whose blocks are each of one part, over the
 * function of one element that pointwise.c writes.
 */
#include <stddef.h>
#include <string.h>

#include "backends/common/parts.h"
#include "backends/gpu/pointwise_text.h"
#include "base/alloc.h"

/* Elements that lie side by side, in operands too, whatever part. */
static bool rows_fit(const struct rlx_parts *p, int64_t v)
{
	uint32_t k;

	if (p->outer == 1 && !p->split)
		return true;
	for (k = 0; k < p->n; k++)
		if (rlx_parts_row(p, rlx_lower_part_length(p, k)) % v)
			return false;
	return true;
}

/* Elements of a thread, as vector_of() has it. */
static int64_t vector_of_parts(const struct writer *w, const struct rlx_parts *p)
{
	size_t widest = rlx_dtype_size(w->out_type[0]);
	int64_t v;
	uint32_t k;

	if (p->outer * p->total * p->inner < VECTORS_FROM)
		return 1;
	for (k = 0; k < w->n_in; k++)
		widest = larger(widest, rlx_dtype_size(w->type[k]));
	v = VECTOR_BYTES / (int64_t)widest;
	v = v > MOST_VEC ? MOST_VEC : v;
	while (v > 1 && (v * (w->n_in + 1) > 32 || v * w->n_op > 96 || !rows_fit(p, v)))
		v /= 2;
	return v;
}

/* Operand @k of the vector at row o, column c of the part, which are d and q along and inside. */
static void put_part_load(struct writer *w, const struct rlx_parts *p, uint32_t k)
{
	const uint8_t has = p->operand[k].has;
	const char *inner = has & RLX_EW_INNER ? "a.inner" : "1";

	if (p->operand[k].own)
		put(w, "const void *x%u = RLX_G_PTR(const void, ew_own(a, k, %u));\n", k,
		    p->operand[k].own - 1);
	else
		put(w, "const void *x%u = RLX_G_PTR(const void, a.in[%u]);\n", k, k);
	put(w, "int64_t p%u = 0;\n", k);
	if (has & RLX_EW_OUTER)
		put(w, "p%u += o * %s * %s;\n", k, has & RLX_EW_ALONG ? "part.length" : "1", inner);
	if (has & RLX_EW_ALONG)
		put(w, "p%u += d * %s;\n", k, inner);
	if (has & RLX_EW_INNER)
		put(w, "p%u += q;\n", k);
	if (has & RLX_EW_INNER || (!p->split && has & RLX_EW_ALONG))
		put(w, "i%u.load(x%u, p%u, left);\n", k, k, k);
	else
		put(w, "i%u.repeat(x%u, p%u);\n", k, k, k);
}

/* End the function, and the kernel that calls it: a block has vectors of @v elements of a part. */
static void put_parts_kernel(struct writer *w, const struct rlx_parts *p, int v)
{
	uint32_t k;

	put(w, "}\nRLX_G_KERNEL_PDL(ew, struct rlx_g_ew_parts, %d)\n{\n", THREADS);
	put(w, "const uint32_t k = ew_part_of(a, blockIdx.x);\n"
	    "const struct rlx_g_ew_part part = ew_part(a, k);\n"
	    "const int64_t row = part.length * a.inner;\n"
	    "const int64_t i = ((blockIdx.x - part.block) * %d + threadIdx.x) * %d;\n"
	    "const int64_t left = a.outer * row - i;\n"
	    "pdl_wait();\nif (left <= 0)\nreturn;\n", THREADS, v);
	put(w, p->outer == 1 ? "const int64_t o = 0, c = i;\n" :
	    "const int64_t o = left + i < (1ll << 31) ? (uint32_t)i / (uint32_t)row : i / row;\n"
	    "const int64_t c = i - o * row;\n");
	put(w, p->split ? "const int64_t d = row < (1ll << 31) ? "
	    "(uint32_t)c / (uint32_t)a.inner : c / a.inner;\n"
	    "const int64_t q = c - d * a.inner;\n" :
	    p->inner == 1 ? "const int64_t d = c, q = 0;\n" : "const int64_t d = 0, q = c;\n");
	for (k = 0; k < w->n_in; k++) {
		put(w, "ew_vec<%d, %d> i%u;\n", (int)w->type[k], v, k);
		put_part_load(w, p, k);
	}
	put(w, "ew_vec<%d, %d> o0;\n#pragma unroll\nfor (int j = 0; j < %d; j++) {\n%s r0;\none(",
	    (int)w->out_type[0], v, v, class_of(w->out_type[0]));
	for (k = 0; k < w->n_in; k++)
		put(w, "i%u.get(j), ", k);
	put(w, "r0);\no0.set(j, r0);\n}\n"
	    "o0.store(RLX_G_PTR(void, a.out), (o * a.total + part.at) * a.inner + c, left);\n}\n");
}

/* Parts from @k on, @v elements a thread, as many as arguments have room for. */
static int64_t call_parts(struct writer *w, const struct rlx_parts *p, int64_t v, uint32_t *k,
			  int64_t *at)
{
	struct rlx_lower *lo = w->lo;
	struct rlx_g_ew_parts *a = rlx_lower_args(lo, sizeof(*a));
	uint32_t most = RLX_G_EW_PART_WORDS / (3 + p->n_own), i, j;
	struct rlx_g_ew_part *part = (void *)a->table;
	uint64_t *own;
	int64_t blocks = 0;

	a->outer = p->outer;
	a->total = p->total;
	a->inner = p->inner;
	a->n_own = p->n_own;
	a->n_part = p->n - *k < most ? p->n - *k : most;
	own = a->table + 3 * (size_t)a->n_part;
	rlx_lower_ref_out(lo, &a->out, 0, 0);
	for (j = 0; j < p->n_operand; j++)
		if (!p->operand[j].own)
			rlx_lower_ref_in(lo, &a->in[j], p->operand[j].first, 0);
	for (i = 0; i < a->n_part; i++, ++*k) {
		int64_t length = rlx_lower_part_length(p, *k);

		part[i] = (struct rlx_g_ew_part){ blocks, *at, length };
		*at += length;
		blocks += (p->outer * length * p->inner + THREADS * v - 1) / (THREADS * v);
		for (j = 0; j < p->n_operand; j++)
			if (p->operand[j].own)
				rlx_lower_ref_in(lo, &own[i * p->n_own + p->operand[j].own - 1],
						 p->operand[j].first + *k, 0);
	}
	return blocks;
}

static enum rlx_status lower_parts_by(struct writer *w, const struct rlx_parts *p)
{
	struct rlx_lower *lo = w->lo;
	uint32_t value[RLX_G_EW_IN], j, k = 0;
	int64_t at = 0, v, blocks;

	w->n_in = p->n_operand;
	w->n_out = 1;
	w->out_type[0] = rlx_lower_out(lo, 0)->dtype;
	for (j = 0; j < p->n_operand; j++)
		w->type[j] = rlx_lower_in(lo, p->operand[j].first)->dtype;
	gpu_put_head(w);
	for (j = 0; j < p->n_operand; j++)
		value[j] = p->operand[j].value;
	if (gpu_put_body(w, p->body, value))
		return lo->status;
	v = vector_of_parts(w, p);
	put_parts_kernel(w, p, (int)v);
	if (!w->ok)
		return rlx_lower_unsupported(lo, "the region is too large");
	while (k < p->n && !lo->status) {
		blocks = call_parts(w, p, v, &k, &at);
		if (blocks > INT32_MAX)
			return rlx_lower_unsupported(lo, "parts of so many elements");
		if (blocks && !gpu_apply_relocations(lo))
			gpu_call_text(w, blocks);
	}
	return lo->status;
}

static bool supports_parts(const struct rlx_lower *lo, const struct rlx_parts *p)
{
	uint32_t k;

	for (k = 0; k < lo->st->n_in; k++)
		if (!supports_dtype(rlx_lower_in(lo, k)->dtype))
			return false;
	return p->n_operand <= RLX_G_EW_IN && supports_dtype(rlx_lower_out(lo, 0)->dtype) &&
	       gpu_rtc_get(gpu_of(lo)->v, NULL);
}

enum rlx_status gpu_lower_parts(struct rlx_lower *lo)
{
	struct rlx_parts p;
	struct writer *w;

	if (!rlx_lower_parts(lo, &p) || !supports_parts(lo, &p))
		return rlx_lower_unsupported(lo, "parts that broadcast, too many operands, or no "
					     "compiler");
	w = gpu_writer_alloc(lo);
	if (!w)
		return lo->status;
	memset(w, 0, offsetof(struct writer, text));
	w->lo = lo;
	w->ok = true;
	lower_parts_by(w, &p);
	rlx_free(w);
	return lo->status;
}
