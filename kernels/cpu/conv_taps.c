// SPDX-License-Identifier: MIT
/*
 * Plain convolution with few output pixels and many taps, as of a weight's gradient: each result
 * is a scalar product of two long rows, one of all taps of an output channel, one of what they
 * meet of an image. conv_taps_pad lays both on one grid, between whose rows zeros stand; on it an
 * output pixel is a shift, and a vector of neighbouring taps meets neighbouring elements.
 */
#include "kernels/conv.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(conv_taps);

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 16")
#endif

/* Else each multiply-add would read it again. */
#ifdef __x86_64__
#define IN_REGISTER(v)	__asm__("" : "+v"(v))
#else
#define IN_REGISTER(v)	(void)(v)
#endif

#ifdef RLX_V512
enum { ROWS = RLX_CONV_TAPS_ROWS };
#else
enum { ROWS = RLX_CONV_TAPS_ROWS / 2 };
#endif
enum { SHIFTS = 3 };

/*
 * @n vectors of ROWS rows of @w by those of SHIFTS places in x, added to @sums: sums of parts, as
 * the error of one in floats grows with its terms.
 */
static void tile(float *sums, const float *w, size_t row, const float *x, const ptrdiff_t *at,
		 size_t n)
{
	const float *x0 = x + at[0], *x1 = x + at[1], *x2 = x + at[2];
	vf acc[ROWS][SHIFTS];

	UNROLL
	for (int i = 0; i < ROWS; i++) {
		UNROLL
		for (int j = 0; j < SHIFTS; j++)
			acc[i][j] = vf_zero();
	}
	for (size_t k = 0; k < n * RLX_VL; k += RLX_VL) {
		const vf v[SHIFTS] = { vf_loadu(x0 + k), vf_loadu(x1 + k), vf_loadu(x2 + k) };

		UNROLL
		for (int i = 0; i < ROWS; i++) {
			vf b = vf_loadu(w + (size_t)i * row + k);

			IN_REGISTER(b);
			UNROLL
			for (int j = 0; j < SHIFTS; j++)
				acc[i][j] = vf_fma(b, v[j], acc[i][j]);
		}
	}
	UNROLL
	for (int i = 0; i < ROWS; i++) {
		UNROLL
		for (int j = 0; j < SHIFTS; j++) {
			float *sum = sums + (i * SHIFTS + j) * RLX_VL;

			vf_storeu(sum, vf_loadu(sum) + acc[i][j]);
		}
	}
}

/* Where pixel @t along @j reads for the first tap; *@phase: in which phase of those it has. */
static ptrdiff_t shift_of(const struct rlx_k_conv_taps *a, size_t j, size_t t, size_t *phase)
{
	const struct rlx_conv_grid *g = &a->grid[j];

	const size_t of = rlx_conv_taps_phase(g, t % g->phases);

	*phase = *phase * g->phases + t % g->phases;
	return ((ptrdiff_t)(t * g->s) - (ptrdiff_t)(g->p + of)) / (ptrdiff_t)g->d;
}

/* Result @r of channel group @group: image by image, pixel by pixel. */
static ptrdiff_t place_of(const struct rlx_k_conv_taps *a, size_t group, size_t r)
{
	const struct rlx_conv_grid *g = a->grid;
	size_t t = r % a->pixels, phase = 0;
	ptrdiff_t at;

	at = shift_of(a, 0, t / (g[1].out * g[2].out), &phase) * (ptrdiff_t)g[1].size;
	at = (at + shift_of(a, 1, t / g[2].out % g[1].out, &phase)) * (ptrdiff_t)g[2].size;
	at += shift_of(a, 2, t % g[2].out, &phase);
	return at + (ptrdiff_t)((r / a->pixels * a->phases + phase) * a->x_row + group * a->terms);
}

/* Sums of rows [@o, @o_end) of a group, whose vectors are at @sums, by results [@r, @r_end). */
static void store(const struct rlx_k_conv_taps *a, size_t group, const size_t o[2],
		  const size_t r[2], const float *sums)
{
	const size_t ocg = a->oc / a->groups, tiles = (r[1] - r[0] + SHIFTS - 1) / SHIFTS;

	for (size_t i = o[0]; i < o[1] && i < ocg; i++)
		for (size_t k = 0; k < r[1] - r[0]; k++) {
			size_t at = ((i - o[0]) / ROWS * tiles + k / SHIFTS) * ROWS +
				    (i - o[0]) % ROWS, n = r[0] + k;

			a->y[(n / a->pixels * a->oc + group * ocg + i) * a->pixels +
			     n % a->pixels] =
				vf_hsum(vf_loadu(sums + (at * SHIFTS + k % SHIFTS) * RLX_VL));
		}
}

static void unit_run(const struct rlx_k_conv_taps *a, size_t group, const size_t o[2],
		     const size_t r[2], void *scratch)
{
	const size_t tiles = (r[1] - r[0] + SHIFTS - 1) / SHIFTS, each = ROWS * SHIFTS * RLX_VL;
	const float *w = a->w + group * a->rows * a->w_row;
	ptrdiff_t *at = scratch;
	float *sums = (float *)(at + tiles * SHIFTS), *s;
	size_t k, i, t, n;

	for (i = 0; i < tiles * SHIFTS; i++)
		at[i] = place_of(a, group, r[0] + i < r[1] ? r[0] + i : r[1] - 1);
	for (i = 0; i < (o[1] - o[0]) / ROWS * tiles * each; i++)
		sums[i] = 0;
	for (k = 0; k < a->terms; k += RLX_CONV_TAPS_PART) {
		n = a->terms - k < RLX_CONV_TAPS_PART ? a->terms - k : RLX_CONV_TAPS_PART;
		for (s = sums, i = o[0]; i < o[1]; i += ROWS)
			for (t = 0; t < tiles; t++, s += each)
				tile(s, w + i * a->w_row + k, a->w_row, a->x + k, at + t * SHIFTS,
				     (n + RLX_VL - 1) / RLX_VL);
	}
	store(a, group, o, r, sums);
}

void RLX_K(conv_taps)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_taps *a = args;
	const size_t cuts = (a->n * a->pixels + a->results - 1) / a->results;
	const size_t parts = (a->rows + a->part - 1) / a->part;

	for (size_t u = begin; u < end; u++) {
		size_t i = u / cuts % parts * a->part, k = u % cuts * a->results;
		size_t o[2] = { i, i + a->part < a->rows ? i + a->part : a->rows };
		size_t r[2] = { k, k + a->results < a->n * a->pixels ? k + a->results :
				   a->n * a->pixels };

		unit_run(a, u / cuts / parts, o, r, scratch);
	}
}
