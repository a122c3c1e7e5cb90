// SPDX-License-Identifier: MIT
/*
 * Determinants: LU decomposition with partial pivoting, a block a matrix.
 *
 * Algorithm: for each column the largest element on or below the diagonal is found by shuffles and
 * in shared memory, its row swapped up, and the rest eliminated, a warp a row, lanes along it; the
 * determinant is the product of pivots. A pivot of 0 ends it.
 * Tiles: 64 threads up to 16 rows, else 256. Up to 64 rows the matrix is in shared memory (32 KiB
 * of f64), larger ones are in scratch: 256 MiB in all, or one matrix if that is larger.
 * Traffic: x once; the n^3 / 3 multiply-adds read and write shared memory, or the L2 and beyond.
 * The bound is latency: three barriers for each column.
 * Limits: float types of 16 bits or more, computed in f64. One multiprocessor a matrix: right for
 * many small ones; the lowering gives more than 4,096 rows to the host.
 */
#include "kernels/det.h"
#include "kernels/gpu/dialect.h"

typedef rlx_t<DET_TYPE> type;	/* of the elements */

/* The largest element of a column, the first of such; a NaN at the top stays there. */
struct peak {
	double	v;
	int64_t	at;
};

static DEV inline struct peak higher(struct peak a, struct peak b)
{
	return b.v > a.v || (b.v == a.v && b.at < a.at) ? b : a;
}

static DEV inline struct peak find_peak(const double *m, int64_t n, int64_t k,
					struct peak *smem)
{
	struct peak p = { -1, k };

	for (int64_t i = k + threadIdx.x; i < n; i += blockDim.x) {
		double v = fabs(m[i * n + k]);
		struct peak o = { v == v ? v : i == k ? (double)INFINITY : -1, i };

		p = higher(p, o);
	}
	for (int mask = WARP / 2; mask; mask /= 2) {
		struct peak o = { warp_xor(p.v, mask), warp_xor(p.at, mask) };

		p = higher(p, o);
	}
	if (lane_id() == 0)
		smem[warp_id()] = p;
	__syncthreads();
	p = smem[0];
	for (int i = 1; i < (int)(blockDim.x / WARP); i++)
		p = higher(p, smem[i]);
	return p;
}

static DEV inline void swap_rows(double *m, int64_t n, int64_t k, int64_t p)
{
	for (int64_t j = k + threadIdx.x; j < n; j += blockDim.x) {
		double t = m[k * n + j];

		m[k * n + j] = m[p * n + j];
		m[p * n + j] = t;
	}
}

/* Warps take rows below the pivot's, lanes their columns; the pivot's is left. */
static DEV inline void eliminate(double *m, int64_t n, int64_t k)
{
	for (int64_t i = k + 1 + warp_id(); i < n; i += blockDim.x / WARP) {
		double f = m[i * n + k] / m[k * n + k];

		for (int64_t j = k + 1 + lane_id(); j < n; j += WARP)
			m[i * n + j] -= f * m[k * n + j];
	}
}

static DEV inline double one_det(double *m, int64_t n, struct peak *smem)
{
	double det = 1;

	for (int64_t k = 0; k < n; k++) {
		struct peak p = find_peak(m, n, k, smem);

		if (p.v == 0)
			return 0;
		if (p.at != k) {
			swap_rows(m, n, k, p.at);
			det = -det;
		}
		__syncthreads();
		det *= m[k * n + k];
		eliminate(m, n, k);
		__syncthreads();
	}
	return det;
}

RLX_G_KERNEL(det, struct rlx_k_det, 256)
{
	SHARED(struct peak, smem, [MAX_WARPS]);
	SHARED_DYNAMIC(matrix);
	const type::mem *x = RLX_G_PTR(const type::mem, a.x);
	type::mem *y = RLX_G_PTR(type::mem, a.y);
	int64_t n = a.n;
	double *m = DET_IN_SCRATCH ? (double *)env.scratch + blockIdx.x * n * n :
				     (double *)matrix, det;

	for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
		for (int64_t i = threadIdx.x; i < n * n; i += blockDim.x)
			m[i] = (double)type::get(x[b * n * n + i]);
		__syncthreads();
		det = one_det(m, n, smem);
		if (threadIdx.x == 0)
			y[b] = type::put((type::acc)det);
		__syncthreads();
	}
}
