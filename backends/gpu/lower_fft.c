// SPDX-License-Identifier: MIT
/* Fourier transforms: tables, and a launch for each axis. */
#include "backends/common/fft_desc.h"
#include "backends/gpu/gpu.h"

/* Numbers of complex tables, f64 or f32. */
struct tables {
	struct rlx_lower	*lo;
	bool			 f64;
};

static void put(const struct tables *t, void *p, int64_t i, double x)
{
	if (t->f64)
		((double *)p)[i] = x;
	else
		((float *)p)[i] = (float)x;
}

static void *new_table(const struct tables *t, int64_t n)
{
	return rlx_lower_keep(t->lo, (size_t)n * 2, t->f64 ? 8 : 4);
}

static void use_table(const struct tables *t, void *field, const void *p, int64_t n)
{
	rlx_lower_ref_keep(t->lo, field, p, (size_t)n * 2 * (t->f64 ? 8 : 4));
}

static void roots(const struct tables *t, struct rlx_k_fft_gpu *a)
{
	void *p = new_table(t, a->n);
	double re, im;

	for (int64_t k = 0; p && k < a->n; k++) {
		rlx_fft_root(k, a->n, &re, &im);
		put(t, p, 2 * k, re);
		put(t, p, 2 * k + 1, -im);
	}
	use_table(t, &a->roots, p, a->n);
}

static void chirp(const struct tables *t, struct rlx_k_fft_gpu *a)
{
	const int64_t n = a->chirp_n, all = a->n;
	double *b = rlx_calloc((size_t)all * 10, sizeof(*b)), re, im;
	void *p = new_table(t, n), *spectrum = new_table(t, all);
	int64_t k;

	if (!b)
		rlx_lower_out_of_memory(t->lo);
	for (k = 0; b && p && spectrum && k < n; k++) {
		rlx_fft_root((int64_t)((__int128)k * k % (2 * n)), 2 * n, &re, &im);
		put(t, p, 2 * k, re);
		put(t, p, 2 * k + 1, -im);
		b[2 * k] = re;
		b[2 * k + 1] = im;
		if (k)
			memcpy(b + 2 * (all - k), b + 2 * k, 2 * sizeof(*b));
	}
	if (b && p && spectrum)
		rlx_fft_dft(b, all, false, b + 2 * all);
	for (k = 0; b && p && spectrum && k < 2 * all; k++)
		put(t, spectrum, k, b[k] / (double)all);
	use_table(t, &a->chirp, p, n);
	use_table(t, &a->spectrum, spectrum, all);
	rlx_free(b);
}

/* Radices of @n; false if a prime factor is too large. */
static bool factorise(struct rlx_k_fft_gpu *a, int64_t n)
{
	int64_t r;

	a->n = n;
	a->n_factor = 0;
	for (; n % 4 == 0; n /= 4)
		a->factor[a->n_factor++] = 4;
	for (r = 2; r <= RLX_K_FFT_RADIX && n > 1; r++)
		for (; n % r == 0; n /= r)
			a->factor[a->n_factor++] = (uint8_t)r;
	/* one pass by sums reads after it has written: in place it wants a copy ahead of it */
	if (a->n_factor < 2) {
		a->factor[1] = a->factor[0];
		a->factor[0] = 1;
		a->n_factor++;
	}
	return n == 1;
}

/* The smallest length of 2, 3 and 5 alone that is @least or more. */
static int64_t padded(int64_t least)
{
	int64_t best = INT64_MAX, p5, p3, n;

	for (p5 = 1; p5 <= 625; p5 *= 5)
		for (p3 = p5; p3 <= p5 * 729; p3 *= 3) {
			for (n = p3; n < least; n *= 2)
				;
			best = n < best ? n : best;
		}
	return best;
}

static enum rlx_status one_axis(struct rlx_lower *lo, const struct rlx_fft_step *s, bool inverse,
				struct rlx_fft_place x, struct rlx_fft_place y)
{
	const enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;
	const struct tables t = { lo, dt == RLX_F64 };
	struct rlx_k_fft_gpu *a = rlx_lower_args(lo, sizeof(*a));

	a->outer = s->outer;
	a->inner = s->inner;
	a->inverse = inverse;
	a->scale = s->scale;
	a->type = (uint8_t)(dt == RLX_C64 ? RLX_F32 : dt);
	a->in = rlx_fft_view(s->real_in ? RLX_K_FFT_REAL : s->real_out ? RLX_K_FFT_HALF :
			     RLX_K_FFT_COMPLEX, s->d, s->real_out ? s->n / 2 + 1 : s->n, s->inner);
	a->out = rlx_fft_view(s->real_out ? RLX_K_FFT_REAL : RLX_K_FFT_COMPLEX, s->out, s->out,
			      s->inner);
	if (!factorise(a, s->n)) {
		a->chirp_n = s->n;
		factorise(a, padded(2 * s->n - 1));
	}
	if (!lo->trial) {
		roots(&t, a);
		if (a->chirp_n)
			chirp(&t, a);
	}
	rlx_fft_refer(lo, &a->x, x);
	rlx_fft_refer(lo, &a->y, y);
	return gpu_call_kernel(lo, rlx_g_fft_launch, 0);
}

enum rlx_status gpu_lower_fft(struct rlx_lower *lo)
{
	const enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;

	return rlx_fft_steps(lo, dt == RLX_C64 ? 4 : rlx_dtype_size(dt), one_axis);
}

enum rlx_status gpu_lower_rfft(struct rlx_lower *lo)
{
	return gpu_lower_fft(lo);
}

enum rlx_status gpu_lower_irfft(struct rlx_lower *lo)
{
	return gpu_lower_fft(lo);
}
