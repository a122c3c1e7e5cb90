// SPDX-License-Identifier: MIT
/*
 * Where the largest or smallest element of each line lies (arg-reduction).
 *
 * Algorithm: threads walk a line LANES apart, then lanes meet by shuffles and warps in shared
 * memory. The order is total (a NaN first, then the value, then the smaller or the larger index),
 * so the result does not depend on who meets whom. Where results are few, rows of the grid have
 * parts of each line, and a second launch chooses among what they left in scratch.
 *
 * Tiles: along the last axis a block of 256 threads a line, else a thread a column.
 * Traffic: x once, which is the bound: 256 neighbours at a time, of columns 32 if there are as
 * many side by side; 16 bytes of scratch for each part, up to 1,024 of a line.
 * Limits: all types; indices i32 or i64; lines of one element at least.
 */
#include "kernels/gpu/accumulate.h"
#include "kernels/reduce.h"

/*
 * ARGREDUCE_LANES: 256 or 1 threads for each result. Rows of the grid each have a part of the
 * line: a second pass chooses among what they left in scratch.
 */
#define LANES	ARGREDUCE_LANES

typedef acc_of<IS_FLOAT, elem::acc>::type acc;

struct best {
	acc	v;
	int64_t	at;	/* -1: nothing yet */
};

/* Whether @y takes the place of @x. */
static DEV inline bool better(const struct rlx_k_argreduce &a, struct best x, struct best y)
{
	if (x.at < 0 || y.at < 0)
		return y.at >= 0;
	if (y.v != y.v && x.v == x.v)
		return true;
	if (x.v != x.v && y.v == y.v)
		return false;
	if (a.min ? less_than(y.v, x.v) : less_than(x.v, y.v))
		return true;
	if (x.v == y.v || x.v != x.v)
		return a.last ? y.at > x.at : y.at < x.at;
	return false;
}

static DEV inline struct best over_lanes(const struct rlx_k_argreduce &a, struct best b,
					 struct best *smem)
{
	for (int m = WARP / 2; m; m /= 2) {
		struct best o = { warp_xor(b.v, m), warp_xor(b.at, m) };

		if (better(a, b, o))
			b = o;
	}
	if (lane_id() == 0)
		smem[warp_id()] = b;
	__syncthreads();
	b = smem[0];
	for (int i = 1; i < 256 / WARP; i++)
		if (better(a, b, smem[i]))
			b = smem[i];
	__syncthreads();
	return b;
}

static DEV inline void store(const struct rlx_k_argreduce &a, const struct rlx_g_env &env,
			     int64_t o, struct best b)
{
	void *idx = RLX_G_PTR(void, a.idx);

	if (a.idx_type == RLX_I32)
		((int32_t *)idx)[o] = (int32_t)b.at;
	else
		((int64_t *)idx)[o] = b.at;
}

/* Every LANES-th element of the part of line @o that this row of the grid has. */
static DEV inline struct best walk(const struct rlx_k_argreduce &a, const mem *x, int64_t o)
{
	const mem *line = x + o / a.inner * a.n * a.inner + o % a.inner;
	int64_t each = (a.n + gridDim.y - 1) / gridDim.y, from = blockIdx.y * each;
	int64_t to = from + each < a.n ? from + each : a.n;
	struct best b = { 0, -1 };

#pragma unroll 4
	for (int64_t i = from + threadIdx.x % LANES; i < to; i += LANES) {
		struct best c = { (acc)elem::get(line[i * a.inner]), i };

		if (better(a, b, c))
			b = c;
	}
	return b;
}

RLX_G_KERNEL(argreduce, struct rlx_k_argreduce, 256)
{
	SHARED(struct best, smem, [MAX_WARPS]);
	const mem *x = RLX_G_PTR(const mem, a.x);
	struct best *parts = (struct best *)env.scratch;
	int64_t groups = 256 / LANES, step = (int64_t)gridDim.x * groups;

	if (env.pass && blockIdx.y)
		return;
	for (int64_t o = blockIdx.x * groups + threadIdx.x / LANES; o < a.outer * a.inner;
	     o += step) {
		struct best b = { 0, -1 };

		if (!env.pass)
			b = walk(a, x, o);
		else
			for (unsigned int i = threadIdx.x % LANES; i < gridDim.y; i += LANES)
				if (better(a, b, parts[o * gridDim.y + i]))
					b = parts[o * gridDim.y + i];
		if (LANES > 1)
			b = over_lanes(a, b, smem);
		if (threadIdx.x % LANES)
			continue;
		if (gridDim.y > 1 && !env.pass)
			parts[o * gridDim.y + blockIdx.y] = b;
		else
			store(a, env, o, b);
	}
}
