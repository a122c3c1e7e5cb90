// SPDX-License-Identifier: MIT
/*
 * Which kernel of kernels/vulkan/ takes an argument struct, with which parameters, and by how
 * many groups. Constant 0 is the size of a group; what shares rows by subgroups has one each.
 */
#include <stddef.h>

#include "backends/vulkan/vk.h"
#include "kernels/attention.h"
#include "kernels/conv.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/move.h"
#include "kernels/norm.h"
#include "kernels/pool.h"
#include "kernels/quant.h"
#include "kernels/reduce.h"
#include "kernels/resize.h"
#include "kernels/rope.h"
#include "kernels/softmax.h"
#include "kernels/sortk.h"

enum { THREADS = 64, MOST_CHUNKS = 128 };

static bool is_real(int type)
{
	return type == RLX_F32 || type == RLX_F16 || type == RLX_BF16;
}

static bool is_int(int type)
{
	return type >= RLX_I64 && type <= RLX_U8;
}

static void refuse(struct vk_launch *l, const char *why)
{
	l->can = false;
	l->why = why;
}

/* Kernel @name with groups of @threads. */
static void begin(struct vk_launch *l, const char *name, uint32_t threads)
{
	l->name = name;
	l->spec[0] = threads;
	l->n_spec = 1;
}

static void param(struct vk_launch *l, uint32_t value)
{
	l->spec[l->n_spec++] = value;
}

/* A group for each of @n things, or a thread. */
static void each_group(struct vk_launch *l, uint64_t n)
{
	l->groups = n;
}

static void each_thread(struct vk_launch *l, uint64_t n)
{
	l->groups = (n + l->spec[0] - 1) / l->spec[0];
}

/* What it takes a thread to get through @n by @by; the turn that ends a loop is one as well. */
static double loop(double n, double by)
{
	return n / by + 2;
}

static uint64_t count(const int64_t *dim, int rank)
{
	uint64_t n = 1;
	int d;

	for (d = 0; d < rank; d++)
		n *= (uint64_t)dim[d];
	return n;
}

/* ---- moving ---- */

static void launch_copy(const void *args, struct vk_launch *l)
{
	const struct rlx_k_copy *a = args;
	uint64_t inner = (uint64_t)a->dim[a->rank - 1], n = count(a->dim, a->rank);
	bool by_rows = inner >= THREADS && n / inner >= 4;

	begin(l, "copy", THREADS);
	param(l, a->size);
	param(l, (uint32_t)a->rank);
	param(l, by_rows);
	l->turns = loop(a->rank, 1) + (by_rows ? loop((double)inner, THREADS) : 0);
	if (by_rows)
		each_group(l, n / inner);
	else
		each_thread(l, n);
}

/* The lowering puts how many bytes behind the struct. */
static void launch_zero(const void *args, struct vk_launch *l)
{
	begin(l, "zero", THREADS);
	each_thread(l, *(const uint64_t *)((const char *)args + sizeof(struct rlx_k_zero)));
}

static void launch_index_copy(const void *args, struct vk_launch *l)
{
	const struct rlx_k_index_copy *a = args;

	begin(l, "index_copy", THREADS);
	param(l, a->size);
	param(l, (uint32_t)a->rank);
	l->turns = loop(a->rank, 1);
	each_thread(l, count(a->dim, a->rank));
}

static void launch_gather(const void *args, struct vk_launch *l)
{
	const struct rlx_k_gather *a = args;

	begin(l, "gather", a->inner <= 64 ? l->subgroup : THREADS);
	param(l, a->idx_type);
	l->turns = loop((double)a->inner, l->spec[0]);
	each_group(l, (uint64_t)(a->outer * a->n_idx));
}

static void launch_gather_elements(const void *args, struct vk_launch *l)
{
	const struct rlx_k_gather_elements *a = args;

	begin(l, "gather_elements", THREADS);
	param(l, a->size);
	param(l, (uint32_t)a->rank);
	param(l, a->idx_type);
	l->turns = loop(a->rank, 1);
	each_thread(l, count(a->dim, a->rank));
}

static void launch_trilu(const void *args, struct vk_launch *l)
{
	const struct rlx_k_trilu *a = args;

	begin(l, "trilu", THREADS);
	param(l, a->size);
	param(l, a->upper);
	each_thread(l, (uint64_t)(a->batch * a->rows * a->cols));
}

static void launch_gather_nd(const void *args, struct vk_launch *l)
{
	const struct rlx_k_gather_nd *a = args;

	begin(l, "gather_nd", a->inner <= 64 ? l->subgroup : THREADS);
	param(l, a->idx_type);
	l->turns = loop(a->k, 1) + loop((double)a->inner, l->spec[0]);
	each_group(l, (uint64_t)(a->batch * a->n));
}

/* Updates that compute are of f32 and integers. */
static bool scatter(struct vk_launch *l, const char *name, int type, int op, int idx_type)
{
	if (op != RLX_K_SCATTER_NONE && type != RLX_F32 && !is_int(type)) {
		refuse(l, "no Vulkan kernel updates this dtype");
		return false;
	}
	begin(l, name, THREADS);
	param(l, (uint32_t)type);
	param(l, (uint32_t)rlx_k_type_size(type));
	param(l, (uint32_t)op);
	param(l, (uint32_t)idx_type);
	return true;
}

static void launch_scatter_elements(const void *args, struct vk_launch *l)
{
	const struct rlx_k_scatter_elements *a = args;
	uint64_t n = count(a->dim, a->rank);

	if (!scatter(l, "scatter_elements", a->type, a->op, a->idx_type))
		return;
	param(l, (uint32_t)a->rank);
	l->turns = loop(a->rank, 1) + loop((double)a->dim[a->axis], 1);
	each_thread(l, n ? n / (uint64_t)a->dim[a->axis] : 0);
}

static void launch_scatter_nd(const void *args, struct vk_launch *l)
{
	const struct rlx_k_scatter_nd *a = args;

	l->turns = loop((double)a->n * loop(a->k + 1, 1), 1);
	if (scatter(l, "scatter_nd", a->type, a->op, a->idx_type))
		each_thread(l, a->n ? (uint64_t)a->inner : 0);
}

static void launch_reverse(const void *args, struct vk_launch *l)
{
	const struct rlx_k_reverse *a = args;

	begin(l, "reverse", a->post <= 64 ? l->subgroup : THREADS);
	param(l, a->lens_type);
	param(l, a->time);
	l->turns = loop((double)a->post, l->spec[0]);
	each_group(l, (uint64_t)(a->pre * a->dim[0] * a->mid * a->dim[1]));
}

static void launch_iota(const void *args, struct vk_launch *l)
{
	const struct rlx_k_iota *a = args;

	if (!is_real(a->type) && !is_int(a->type) && a->type != RLX_F64) {
		refuse(l, "no Vulkan kernel counts in this dtype");
		return;
	}
	begin(l, "iota", THREADS);
	param(l, a->type);
	each_thread(l, (uint64_t)a->n);
}

static void launch_rope(const void *args, struct vk_launch *l)
{
	const struct rlx_k_rope *a = args;

	begin(l, "rope", THREADS);
	param(l, a->type);
	param(l, a->table_type);
	param(l, a->pos_type);
	param(l, a->pairs);
	each_thread(l, (uint64_t)(a->batch * a->len * a->heads *
				  (a->head_dim - a->n_rot / 2)));
}

static void resize(const struct rlx_k_resize *a, struct vk_launch *l, bool nearest)
{
	begin(l, "resize", THREADS);
	param(l, nearest);
	param(l, nearest ? (uint32_t)a->esize : 4);
	if (!nearest)
		l->turns = loop((double)a->axis[0].taps * loop((double)a->axis[1].taps *
				loop((double)a->axis[2].taps, 1), 1), 1);
	each_thread(l, a->planes * a->axis[0].out * a->axis[1].out * a->axis[2].out);
}

static void launch_resize(const void *args, struct vk_launch *l)
{
	resize(args, l, false);
}

static void launch_resize_nearest(const void *args, struct vk_launch *l)
{
	resize(args, l, true);
}

/* The results are worked out one after the other: for sorting of long lines the host is faster. */
enum { MOST_TOPK = 1 << 22 };

static void launch_topk(const void *args, struct vk_launch *l)
{
	const struct rlx_k_topk *a = args;

	if ((!is_real(a->type) && !is_int(a->type)) || a->k > MOST_TOPK / a->n) {
		refuse(l, "no Vulkan kernel orders this dtype, or so many");
		return;
	}
	begin(l, "topk", THREADS);
	param(l, a->type);
	param(l, (uint32_t)rlx_k_type_size(a->type));
	param(l, a->idx_type);
	param(l, a->smallest);
	l->turns = loop((double)a->k * loop((double)a->n + 1, 1), 1);
	each_thread(l, (uint64_t)(a->outer * a->inner));
}

static void quant(const struct rlx_k_quant *a, struct vk_launch *l, bool back)
{
	int small = back ? a->x_type : a->y_type, real = back ? a->y_type : a->x_type;

	if (!is_real(real) || !is_int(small) || rlx_k_type_size(small) > (back ? 4 : 2) ||
	    small == RLX_U32) {
		refuse(l, "no Vulkan kernel quantizes to, or from, this dtype");
		return;
	}
	begin(l, "quant", THREADS);
	param(l, a->x_type);
	param(l, a->y_type);
	param(l, a->scale_type);
	param(l, back);
	each_thread(l, (uint64_t)(a->outer * a->axis * a->inner));
}

static void launch_quantize(const void *args, struct vk_launch *l)
{
	quant(args, l, false);
}

static void launch_dequantize(const void *args, struct vk_launch *l)
{
	quant(args, l, true);
}

/* ---- rows ---- */

/* What held.glsl has for parameters: rows of @n, of which a thread has @quads at once. */
static void held(struct vk_launch *l, uint64_t n, uint64_t quads)
{
	while (l->n_spec < 6)
		param(l, 0);
	param(l, (uint32_t)quads);
	param(l, n % 4 == 0);
	param(l, l->spec[0] / l->subgroup);
}

/* Quads for each of @threads, four at most */
static uint64_t quads_of(uint64_t n, uint64_t threads)
{
	uint64_t quads = 1;

	while (quads < 4 && quads * threads * 4 < n)
		quads *= 2;
	return quads;
}

/*
 * Rows of a group each: as held.glsl has it. Enough subgroups that a thread has four quads of
 * its own at most, all of which it keeps, up to 1024 threads, or what the device has.
 */
static void hold_rows(struct vk_launch *l, uint64_t n)
{
	const uint64_t most = l->most_threads < 1024 ? l->most_threads : 1024;
	uint64_t threads = l->subgroup;

	while (threads * 16 < n && threads * 2 <= most)
		threads *= 2;
	l->spec[0] = (uint32_t)threads;
	held(l, n, quads_of(n, threads));
	/* and a row of subgroups, twice in each pass */
	l->turns = 3 * (loop((double)n, (double)threads * 4) + 2 * loop(l->spec[8], 1));
}

static void launch_softmax(const void *args, struct vk_launch *l)
{
	const struct rlx_k_softmax *a = args;
	bool by_rows = a->inner == 1 && a->n >= (int64_t)l->subgroup;

	begin(l, "softmax", THREADS);
	param(l, a->x_type);
	param(l, a->y_type);
	param(l, a->log);
	param(l, by_rows);
	l->turns = 3 * loop((double)a->n, 1);
	if (by_rows) {
		hold_rows(l, (uint64_t)a->n);
		each_group(l, (uint64_t)a->outer);
	} else {
		each_thread(l, (uint64_t)(a->outer * a->inner));
	}
}

static void launch_norm(const void *args, struct vk_launch *l)
{
	const struct rlx_k_norm *a = args;

	begin(l, "norm", l->subgroup);
	param(l, a->x_type);
	param(l, a->y_type);
	param(l, a->residual_type);
	param(l, a->param_type);
	param(l, a->rms);
	hold_rows(l, (uint64_t)a->n);
	each_group(l, (uint64_t)a->rows);
}

static void launch_group_norm(const void *args, struct vk_launch *l)
{
	const struct rlx_k_group_norm *a = args;
	const double channels = a->groups ? (double)(a->channels / a->groups) : 0;

	begin(l, "group_norm", l->subgroup);
	l->turns = 2 * loop(channels * (double)a->inner, l->subgroup) +
		   loop(channels * loop((double)a->inner + l->subgroup, l->subgroup), 1);
	each_group(l, (uint64_t)(a->batch * a->groups));
}

static void launch_reduce(const void *args, struct vk_launch *l)
{
	const struct rlx_k_reduce *a = args;
	bool last = a->axes >> (a->rank - 1) & 1;
	/* lanes of integers are not put together */
	bool shared = last && is_real(a->type) && a->n_red >= (int64_t)l->subgroup;

	if ((!is_real(a->type) && !is_int(a->type)) || a->squares) {
		refuse(l, "no Vulkan kernel reduces this dtype");
		return;
	}
	begin(l, "reduce", shared ? l->subgroup : THREADS);
	param(l, a->type);
	param(l, a->op);
	param(l, (uint32_t)a->rank);
	param(l, a->axes);
	param(l, shared);
	if (shared)
		held(l, (uint64_t)a->n_red, quads_of((uint64_t)a->n_red, l->subgroup));
	/* compilers do not unroll what works an offset out: it ends within */
	l->turns = (a->rank + 1) * loop((double)a->n_red, shared ? l->subgroup : 1) + a->rank;
	if (shared)
		each_group(l, (uint64_t)a->n_out);
	else
		each_thread(l, (uint64_t)a->n_out);
}

static void launch_argreduce(const void *args, struct vk_launch *l)
{
	const struct rlx_k_argreduce *a = args;

	if (!is_real(a->type) && !is_int(a->type)) {
		refuse(l, "no Vulkan kernel compares this dtype");
		return;
	}
	begin(l, "argreduce", THREADS);
	param(l, a->type);
	param(l, a->idx_type);
	param(l, a->min);
	param(l, a->last);
	l->turns = loop((double)a->n, 1);
	each_thread(l, (uint64_t)(a->outer * a->inner));
}

static void launch_scan(const void *args, struct vk_launch *l)
{
	const struct rlx_k_scan *a = args;

	if (!is_real(a->type) && !is_int(a->type)) {
		refuse(l, "no Vulkan kernel sums this dtype up");
		return;
	}
	begin(l, "scan", THREADS);
	param(l, a->type);
	param(l, a->prod);
	param(l, a->exclusive);
	param(l, a->reverse);
	l->turns = loop((double)a->n, 1);
	each_thread(l, (uint64_t)(a->outer * a->inner));
}

/* ---- GEMM ---- */

static bool whole_vectors(const size_t step[2])
{
	return step[0] % 8 == 0 && step[1] % 8 == 0;
}

/* Of f16 or bf16, in rows of whole vectors, and enough to fill half of a fragment. */
static bool supports_coopmat(const struct rlx_k_gemm *g, const struct vk_launch *l)
{
	return (g->a_type == RLX_F16 ? l->coopmat :
		g->a_type == RLX_BF16 && l->coopmat_bf16) && g->b_type == g->a_type &&
	       is_real(g->c_type) && g->m >= 8 && g->n % 8 == 0 && g->k % 8 == 0 && g->k &&
	       (!g->trans_a || g->m % 8 == 0) &&
	       g->m <= INT32_MAX && g->n <= INT32_MAX && g->k <= INT32_MAX &&
	       g->lda % 8 == 0 && g->ldb % 8 == 0 && g->ldc % 8 == 0 &&
	       whole_vectors(g->a_step) && whole_vectors(g->b_step) && whole_vectors(g->c_step);
}

/* What kernels/vulkan/coopmat.glsl asks for: tiles of @rows by @cols, a quarter a subgroup */
static void coopmat_tiles(struct vk_launch *l, uint32_t rows, uint32_t cols, uint32_t type)
{
	const uint32_t depth = 32;	/* of slices */
	int i;

	param(l, rows);
	param(l, type);
	param(l, rows / 2 / VK_FRAGMENT);
	param(l, cols / 2 / VK_FRAGMENT);
	for (i = 0; i < 3; i++)
		param(l, VK_FRAGMENT);
	param(l, cols);
	param(l, depth);
}

static uint64_t tiles_of(uint64_t m, uint64_t n, uint64_t rows, uint64_t cols)
{
	return (m + rows - 1) / rows * ((n + cols - 1) / cols);
}

/* Tiles of 128 by 128 where there is one for each unit, else of 64 by 64; four subgroups */
static void launch_gemm_coopmat(const struct rlx_k_gemm *g, struct vk_launch *l)
{
	uint64_t batches = rlx_k_gemm_batches(g);
	uint32_t tile = tiles_of(g->m, g->n, 128, 128) * batches >= l->units ? 128 : 64;

	begin(l, "gemm_coopmat", 4 * l->subgroup);
	param(l, g->c_type);
	param(l, g->trans_a);
	param(l, g->b_form == RLX_B_COLS);
	param(l, g->act);
	coopmat_tiles(l, tile, tile, g->a_type);
	each_group(l, tiles_of(g->m, g->n, tile, tile) * batches);
}

enum { GEMM_COLS = 4, GEMM_ROWS = 16, GEMM_DEPTH = 4 };

static uint64_t gemm_groups(const struct rlx_k_gemm *g, const struct vk_launch *l, uint64_t rows,
			    uint64_t cols)
{
	const uint64_t wide = cols * l->subgroup;

	return (g->m + rows - 1) / rows * ((g->n + wide - 1) / wide) * rlx_k_gemm_batches(g);
}

static void launch_gemm(const void *args, struct vk_launch *l)
{
	const struct rlx_k_gemm *g = args;
	uint64_t cols = g->n > 2 * (uint64_t)l->subgroup ? GEMM_COLS : g->n > l->subgroup ? 2 : 1;
	uint64_t rows = 1;

	if (g->k > UINT32_MAX || g->b_form == RLX_B_PACKED || g->scales || !is_real(g->a_type) ||
	    !is_real(g->b_type)) {
		refuse(l, "no Vulkan kernel multiplies these operands");
		return;
	}
	if (supports_coopmat(g, l)) {
		launch_gemm_coopmat(g, l);
		return;
	}
	begin(l, "gemm", l->subgroup);
	param(l, g->a_type);
	param(l, g->b_type);
	param(l, g->c_type);
	param(l, g->trans_a);
	param(l, g->b_form == RLX_B_COLS);
	param(l, g->act);
	while (rows < g->m && rows < GEMM_ROWS && rows < 2 * (uint64_t)l->subgroup)
		rows *= 2;
	while (cols > 1 && gemm_groups(g, l, rows, cols) < l->units)
		cols /= 2;
	while (rows > 4 && gemm_groups(g, l, rows, cols) < l->units)
		rows /= 2;
	param(l, (uint32_t)cols);
	param(l, (uint32_t)rows);
	param(l, l->units ? GEMM_DEPTH : 1);
	l->turns = loop((double)g->k, 1);
	each_group(l, gemm_groups(g, l, rows, cols));
}

/* Of doubles and integers. */
static void launch_gemm_plain(const void *args, struct vk_launch *l)
{
	const struct rlx_k_gemm *g = args;

	if (g->act != RLX_ACT_NONE) {
		refuse(l, "no Vulkan kernel follows a GEMM of doubles by an activation");
		return;
	}
	begin(l, "gemm_plain", THREADS);
	l->turns = loop((double)g->k, 1);
	param(l, g->a_type);
	param(l, g->b_type);
	param(l, g->c_type);
	param(l, g->trans_a);
	param(l, g->b_form == RLX_B_COLS);
	each_thread(l, g->m * g->n * rlx_k_gemm_batches(g));
}

static void launch_attention(const void *args, struct vk_launch *l)
{
	const struct rlx_k_attention *a = args;
	uint64_t chunks = ((uint64_t)a->v_dim + l->subgroup - 1) / l->subgroup;

	if (chunks > MOST_CHUNKS || a->q_len > INT32_MAX || a->kv_len > INT32_MAX ||
	    a->batch > INT32_MAX) {
		refuse(l, "no Vulkan kernel for so long heads, or so much");
		return;
	}
	begin(l, "attention", l->subgroup);
	param(l, a->q_type);
	param(l, a->kv_type);
	param(l, a->out_type);
	param(l, a->bias_type);
	param(l, a->lens_type);
	param(l, a->causal);
	param(l, (uint32_t)chunks);
	l->turns = loop(loop((double)a->kv_len, l->subgroup) *
			(loop((double)a->head_dim, 1) + loop(l->subgroup, 1) + 1), 1);
	each_group(l, (uint64_t)(a->batch * a->heads * a->q_len));
}

/* Over three dimensions, what is in the middle taking @each turns */
static double window(const size_t k[3], double each)
{
	return loop((double)k[0] * loop((double)k[1] * loop((double)k[2] * (each + 1), 1), 1), 1);
}

/* Coordinates are 32 bits there; here no product of two may wrap either. */
static bool has_short_dims(const struct rlx_k_conv_nd *a)
{
	const size_t most = INT32_MAX / 2;
	size_t i;

	for (i = 0; i < 3; i++)
		if (a->in[i] > most || a->out[i] > most || a->k[i] > most || a->s[i] > most ||
		    a->d[i] > most || a->p[i] > most ||
		    a->in[i] * a->s[i] + a->k[i] * a->d[i] + a->p[i] > most ||
		    a->out[i] * a->s[i] > most)
			return false;
	return true;
}

/* Enough channels and taps to fill half of a fragment, and counts of 31 bits */
static bool conv_supports_coopmat(const struct rlx_k_conv_nd *a, const struct vk_launch *l)
{
	const double ic = (double)(a->ic / a->groups), taps = (double)(a->k[0] * a->k[1] * a->k[2]);
	const double image = (double)(a->in[0] * a->in[1]) * (double)a->in[2];
	const double pixels = (double)(a->out[0] * a->out[1]) * (double)a->out[2];
	const double most = INT32_MAX / 2;

	return (a->type == RLX_F16 ? l->coopmat : a->type == RLX_BF16 && l->coopmat_bf16) &&
	       !a->transposed && a->oc / a->groups >= VK_FRAGMENT / 2 &&
	       ic * taps >= VK_FRAGMENT / 2 && ic * taps <= most && ic * image <= most &&
	       (double)a->n * pixels <= most;
}

/* Are the columns of the product the image itself, in rows of whole vectors? */
static bool conv_is_pointwise(const struct rlx_k_conv_nd *a)
{
	size_t i;

	for (i = 0; i < 3; i++)
		if (a->k[i] != 1 || a->s[i] != 1 || a->p[i] || a->in[i] != a->out[i])
			return false;
	return a->in[0] * a->in[1] * a->in[2] % 8 == 0;
}

/* Tiles no higher than there are channels, and lower ones where not all units have one */
static void launch_conv_coopmat(const struct rlx_k_conv_nd *a, struct vk_launch *l)
{
	uint64_t m = a->oc / a->groups, pixels = a->out[0] * a->out[1] * a->out[2];
	uint64_t n = a->n * pixels;
	const uint32_t cols = 64;
	uint32_t rows = m > 64 ? 128 : 64, wide = 8;

	while (pixels % wide)
		wide /= 2;
	if (tiles_of(m, n, rows, cols) * a->groups < l->units)
		rows = 64;
	begin(l, "conv_coopmat", 4 * l->subgroup);
	param(l, a->bias_type);
	param(l, (uint32_t)a->k[2]);
	param(l, (uint32_t)a->k[1]);
	param(l, a->act);
	coopmat_tiles(l, rows, cols, a->type);
	param(l, (uint32_t)a->k[0]);
	param(l, wide);
	param(l, conv_is_pointwise(a));
	each_group(l, tiles_of(m, n, rows, cols) * a->groups);
}

static void launch_conv(const void *args, struct vk_launch *l)
{
	const struct rlx_k_conv_nd *a = args;
	uint64_t oc = a->oc / a->groups, pixels = a->out[0] * a->out[1] * a->out[2];
	uint32_t channels = oc % 8 == 0 ? 8 : oc % 4 == 0 ? 4 : oc % 2 == 0 ? 2 : 1;

	if (!has_short_dims(a)) {
		refuse(l, "no Vulkan kernel convolves so long dimensions");
		return;
	}
	if (conv_supports_coopmat(a, l)) {
		launch_conv_coopmat(a, l);
		return;
	}
	begin(l, "conv", THREADS);
	param(l, a->type);
	param(l, a->bias_type);
	param(l, a->act);
	param(l, a->transposed);
	param(l, channels);
	l->turns = window(a->k, loop((double)(a->ic / a->groups), 1));
	each_thread(l, a->n * (a->oc / channels) * pixels);
}

static void launch_pool(const void *args, struct vk_launch *l)
{
	const struct rlx_k_pool *a = args;

	begin(l, "pool", THREADS);
	param(l, a->type);
	param(l, a->kind);
	param(l, a->include_pad);
	param(l, a->column_major);
	l->turns = 2 * window(a->k, 1);		/* of norms there are two passes */
	each_thread(l, a->planes * a->out[0] * a->out[1] * a->out[2]);
}

vk_launch_fn *vk_launch_of(enum rlx_kernel_id id)
{
	switch (id) {
	case RLX_KERNEL_copy: return launch_copy;
	case RLX_KERNEL_zero: return launch_zero;
	case RLX_KERNEL_index_copy: return launch_index_copy;
	case RLX_KERNEL_gather: return launch_gather;
	case RLX_KERNEL_gather_elements: return launch_gather_elements;
	case RLX_KERNEL_gather_nd: return launch_gather_nd;
	case RLX_KERNEL_scatter_elements: return launch_scatter_elements;
	case RLX_KERNEL_scatter_nd: return launch_scatter_nd;
	case RLX_KERNEL_trilu: return launch_trilu;
	case RLX_KERNEL_reverse: return launch_reverse;
	case RLX_KERNEL_iota: return launch_iota;
	case RLX_KERNEL_rope: return launch_rope;
	case RLX_KERNEL_resize_f32: return launch_resize;
	case RLX_KERNEL_resize_nearest: return launch_resize_nearest;
	case RLX_KERNEL_topk: return launch_topk;
	case RLX_KERNEL_quantize: return launch_quantize;
	case RLX_KERNEL_dequantize: return launch_dequantize;
	case RLX_KERNEL_softmax: return launch_softmax;
	case RLX_KERNEL_norm: return launch_norm;
	case RLX_KERNEL_group_norm: return launch_group_norm;
	case RLX_KERNEL_reduce: return launch_reduce;
	case RLX_KERNEL_argreduce: return launch_argreduce;
	case RLX_KERNEL_scan: return launch_scan;
	case RLX_KERNEL_gemm_f32: return launch_gemm;
	case RLX_KERNEL_gemm_f64:
	case RLX_KERNEL_gemm_int: return launch_gemm_plain;
	case RLX_KERNEL_attention: return launch_attention;
	case RLX_KERNEL_conv_nd: return launch_conv;
	case RLX_KERNEL_pool_f32: return launch_pool;
	default: return NULL;
	}
}
