/* SPDX-License-Identifier: MIT */
/*
 * The four-step FFT of lines whose first step has as many elements as a vector has lanes: columns,
 * twiddle factors and the transpose of a square in registers, then rows. Short lines share vectors.
 * Included after fft_move.h.
 */
#ifndef RLX_SIMD_FFT_SQUARE_H
#define RLX_SIMD_FFT_SQUARE_H

static const FT *table(const void *p)
{
	return p;
}

static const FT *line_at(const void *base, const struct rlx_k_fft *a,
			 const struct rlx_k_fft_view *v, int64_t line)
{
	return (const FT *)base + line / a->inner * v->outer + line % a->inner * v->inner;
}

/* x[0 .. FW) times the vectors of @w, to @z, elsewhere; lanes become elements. */
RLX_INLINE void twiddle_square(const cv x[FW], const FT *w, cv *z)
{
#if RLX_VB == 32 && FW == 8	/* registers are for one square */
	FT *p = (FT *)z;
	FV r[FW];

	RLX_UNROLL
	for (int k = 0; k < 2; k++, p += FW) {
		RLX_UNROLL
		for (int64_t i = 0; i < FW; i++) {
			FV re = F_LOADU(w + 2 * i * FW), im = F_LOADU(w + (2 * i + 1) * FW);

			r[i] = k ? x[i].re * im + x[i].im * re : x[i].re * re - x[i].im * im;
		}
		F_TRANSPOSE(r);
		RLX_UNROLL
		for (int64_t i = 0; i < FW; i++)
			F_STOREU(p + 2 * i * FW, r[i]);
	}
#else
	RLX_UNROLL
	for (int64_t i = 0; i < FW; i++)
		z[i] = cv_mul(x[i], F_LOADU(w + 2 * i * FW), F_LOADU(w + (2 * i + 1) * FW));
	turn(z);
#endif
}

/* The same by @lane and the factors @w of a block. */
RLX_INLINE void twiddle_block(const cv x[FW], const FT *lane, const FT *w, cv *z)
{
	RLX_UNROLL
	for (int64_t i = 0; i < FW; i++) {
		cv c = cv_mul(x[i], F_LOADU(lane + 2 * i * FW), F_LOADU(lane + (2 * i + 1) * FW));

		z[i] = cv_times(c, w + 2 * i);
	}
	turn(z);
}

/* @count vectors of columns from @block on, whose element 0 is where @lines begin, to @z. */
static __attribute__((noinline)) void squares(const struct rlx_k_fft *a,
					      const struct fft_lines *lines, int64_t block,
					      int64_t count, cv *z)
{
	const FT *lane_w = table(a->lane_w), *from = lines->from;
	const FT *w = table(a->block_w) + block * 2 * FW, *all = table(a->square_w);
	const int64_t from_e = lines->from_e;
	cv v[FW];

	all += all ? block * 2 * FW * FW : 0;
	for (; count--; from += 2 * FW, z += FW) {
		RLX_UNROLL
		for (int i = 0; i < FW; i++)
			v[i] = cv_load(from + i * from_e, lines->swap);
		butterfly(v, FW);
		if (all) {
			twiddle_square(v, all, z);
			all += 2 * FW * FW;
		} else {
			twiddle_block(v, lane_w, w, z);
			w += 2 * FW;
		}
	}
}

#if RLX_VB > 16
#if FW > 4
typedef FT fft_half __attribute__((vector_size(RLX_VB / 2), aligned(sizeof(FT))));

/* A vector of the numbers from @at on of one line, or half of it of each of two. */
RLX_INLINE FV of_pieces(const FT *const *p, int64_t at, int count)
{
	if (count == 1)
		return F_LOADU(p[0] + at);
	return __builtin_shufflevector(*(const fft_half *)(p[0] + at),
				       *(const fft_half *)(p[1] + at), F_WHOLE);
}

/*
 * Lines of FW @c elements, @c columns of each in a vector: as many as that holds, from @x to @y.
 * The rows of a line are @c vectors then.
 */
RLX_INLINE void shared_square(const struct rlx_k_fft *a, const FT *const *x, FT *const *y, int c)
{
	const bool swap = a->inverse;
	const FT *lane_w = table(a->lane_w);
	const int pieces = FW / c / 2;
	cv v[FW], z[FW];

	RLX_UNROLL
	for (int i = 0; i < FW; i++) {
		FV p = of_pieces(x, 2 * c * i, pieces);
		FV q = of_pieces(x + pieces, 2 * c * i, pieces);
		FV re = __builtin_shufflevector(p, q, F_EVEN);
		FV im = __builtin_shufflevector(p, q, F_ODD);

		v[i] = swap ? (cv){ im, re } : (cv){ re, im };
	}
	butterfly(v, FW);
	twiddle_square(v, lane_w, z);
	RLX_UNROLL
	for (int l = 0; l < FW / c; l++) {
		butterfly(z + c * l, c);
		RLX_UNROLL
		for (int k = 0; k < c; k++)
			cv_store(y[l] + 2 * FW * k, z[c * l + k], swap);
	}
}

RLX_INLINE void shared_squares(const struct rlx_k_fft *a, size_t begin, size_t end, int c)
{
	for (; begin < end; begin += FW / c) {
		const FT *x[4];
		FT *y[4];

		RLX_UNROLL
		for (int l = 0; l < FW / c; l++) {	/* beyond the end the last one again */
			size_t at = begin + l < end ? begin + l : end - 1;

			x[l] = line_at(a->x, a, &a->in, (int64_t)at);
			y[l] = (FT *)line_at(a->y, a, &a->out, (int64_t)at);
		}
		shared_square(a, x, y, c);
	}
}

static __attribute__((noinline)) void shared_by_half(const struct rlx_k_fft *a, size_t begin,
						     size_t end)
{
	shared_squares(a, begin, end, FW / 2);
}

static __attribute__((noinline)) void shared_by_quarter(const struct rlx_k_fft *a, size_t begin,
							size_t end)
{
	shared_squares(a, begin, end, FW / 4);
}

static void short_lines(const struct rlx_k_fft *a, size_t begin, size_t end)
{
	if (a->core[1].n == FW / 2)
		shared_by_half(a, begin, end);
	else
		shared_by_quarter(a, begin, end);
}
#else
RLX_INLINE void short_lines(const struct rlx_k_fft *a, size_t begin, size_t end) { }
#endif

/* Lines of FW or FW / 2 elements, as many as a vector has lanes: in registers. */
RLX_INLINE void short_lane(const struct fft_tile *x, const struct fft_tile *y, int n, FT scale,
			   bool swap)
{
	const int each = 2 * n / FW;	/* vectors of a line */
	cv v[FW];

	RLX_UNROLL
	for (int j = 0; j < each; j++) {
		FV r[FW];

		load_turned(x->p + j * FW, x->to_l, r);
		RLX_UNROLL
		for (int i = 0; i < FW / 2; i++)
			v[j * FW / 2 + i] = swap ? (cv){ r[2 * i + 1], r[2 * i] } :
						   (cv){ r[2 * i], r[2 * i + 1] };
	}
	butterfly(v, n);
	RLX_UNROLL
	for (int j = 0; j < each; j++) {
		FV r[FW];

		RLX_UNROLL
		for (int i = 0; i < FW / 2; i++) {
			cv c = v[j * FW / 2 + i];

			r[2 * i] = (swap ? c.im : c.re) * scale;
			r[2 * i + 1] = (swap ? c.re : c.im) * scale;
		}
		F_TRANSPOSE(r);
		RLX_UNROLL
		for (int l = 0; l < FW; l++)
			F_STOREU(y->p + l * y->to_l + j * FW, r[l]);
	}
}

#define SHORT_LANE(name, n)								\
static __attribute__((noinline)) void name(const struct fft_tile *x, const struct fft_tile *y, \
					   FT scale, bool swap)				\
{											\
	short_lane(x, y, n, scale, swap);						\
}
SHORT_LANE(half_lane, FW / 2)
SHORT_LANE(whole_lane, FW)

/* Return: whether these lines were such. */
static bool short_lanes(const struct rlx_k_fft *a, const struct fft_tile *in,
			const struct fft_tile *out)
{
	if ((a->n != FW && a->n != FW / 2) || a->split || a->core[0].chirp_n ||
	    in->nl < FW || !rlx_k_fft_dense(&a->in, a->n) || !rlx_k_fft_dense(&a->out, a->n))
		return false;
	if (a->n == FW)
		whole_lane(in, out, (FT)a->scale, a->inverse);
	else
		half_lane(in, out, (FT)a->scale, a->inverse);
	return true;
}
#endif

#endif
