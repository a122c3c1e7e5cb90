/* SPDX-License-Identifier: MIT */
/*
 * Discrete Fourier transforms in a thread's registers, of any length that is made of small primes:
 * dft(), for the kernels' complex numbers of two of num, a type that the includer has.
 */
#ifndef RLX_G_FFT_DFT_H
#define RLX_G_FFT_DFT_H

template <class M> struct alignas(2 * sizeof(M)) pair {
	M	re, im;
};
typedef pair<num> complex;

static DEV inline complex make(num re, num im)
{
	complex c = { re, im };

	return c;
}

static DEV inline complex times(complex a, complex b)
{
	return make(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

static DEV inline complex plus(complex a, complex b)
{
	return make(a.re + b.re, a.im + b.im);
}

static DEV inline complex minus(complex a, complex b)
{
	return make(a.re - b.re, a.im - b.im);
}

static DEV inline complex swapped(complex a)
{
	return make(a.im, a.re);
}

static DEV inline complex conjugate(complex a)
{
	return make(a.re, -a.im);
}

/* sin of u / r quarters of a turn, by its series from 0 to pi / 2 */
static constexpr DEV double sine(int u, int r)
{
	const int rest = u % r, q = u / r % 4;
	const double x = 1.57079632679489661923 * (q & 1 ? r - rest : rest) / r;
	double term = x, sum = x;

	for (int i = 2; i < 28; i += 2)
		sum += term *= -x * x / (i * (i + 1));
	return q & 2 ? -sum : sum;
}

template <int R> struct circle {
	num	re[R], im[R];

	constexpr DEV circle() : re(), im()
	{
		for (int k = 0; k < R; k++) {
			re[k] = (num)sine(4 * k + R, R);
			im[k] = (num)-sine(4 * k, R);
		}
	}
};

/* c times the R-th root of 1 to the k */
template <int R> static DEV inline complex turned(complex c, int k)
{
	constexpr circle<R> w;

	k %= R;
	return !k ? c : 4 * k == R ? make(c.im, -c.re) : 2 * k == R ? make(-c.re, -c.im) :
	       4 * k == 3 * R ? make(-c.im, c.re) : times(c, make(w.re[k], w.im[k]));
}

template <int R> static DEV inline void prime(complex *v)
{
	constexpr circle<R> w;
	constexpr int H = R / 2;
	complex sum[H + 1], dif[H + 1];
	const complex first = v[0];

#pragma unroll
	for (int j = 1; j <= H; j++) {
		sum[j] = plus(v[j], v[R - j]);
		dif[j] = minus(v[j], v[R - j]);
		v[0] = plus(v[0], sum[j]);
	}
#pragma unroll
	for (int k = 1; k <= H; k++) {
		complex p = first, q = { 0, 0 };

#pragma unroll
		for (int j = 1; j <= H; j++) {
			p.re += sum[j].re * w.re[j * k % R];
			p.im += sum[j].im * w.re[j * k % R];
			q.re += dif[j].im * w.im[j * k % R];
			q.im -= dif[j].re * w.im[j * k % R];
		}
		v[k] = minus(p, q);
		v[R - k] = plus(p, q);
	}
}

template <int R> static DEV inline void dft(complex *v)
{
	constexpr int A = R % 4 == 0 ? 4 : R % 2 == 0 ? 2 : R % 3 == 0 ? 3 : R % 5 == 0 ? 5 : R;
	constexpr int B = R / A;

	if constexpr (R == 2) {
		const complex a = v[0];

		v[0] = plus(a, v[1]);
		v[1] = minus(a, v[1]);
	} else if constexpr (R == 4) {
		const complex a = plus(v[0], v[2]), b = minus(v[0], v[2]);
		const complex c = plus(v[1], v[3]), d = minus(v[1], v[3]);

		v[0] = plus(a, c);
		v[1] = make(b.re + d.im, b.im - d.re);
		v[2] = minus(a, c);
		v[3] = make(b.re - d.im, b.im + d.re);
	} else if constexpr (B > 1) {
		complex u[R];

#pragma unroll
		for (int b = 0; b < B; b++) {
			complex t[A];

#pragma unroll
			for (int a = 0; a < A; a++)
				t[a] = v[a * B + b];
			dft<A>(t);
#pragma unroll
			for (int k = 0; k < A; k++)
				u[k * B + b] = turned<R>(t[k], b * k);
		}
#pragma unroll
		for (int k = 0; k < A; k++) {
			dft<B>(u + k * B);
#pragma unroll
			for (int j = 0; j < B; j++)
				v[k + A * j] = u[k * B + j];
		}
	} else if constexpr (R > 1) {
		prime<R>(v);
	}
}

/* ---- real lines as pairs ---- */

/* Elements k and n - k of a spectrum. */
struct both {
	complex	at, mirrored;
};

/*
 * Of n pairs of a real line, from half of the line's spectrum: @a is its element k, @b the
 * conjugate of element n - k, @root e^(-pi i k / n). Not halved.
 */
static DEV inline both pairs_of_half(complex a, complex b, complex root)
{
	const complex sum = plus(a, b);
	const complex turn = times(make(root.im, root.re), minus(a, b));

	return both{ plus(sum, turn), conjugate(minus(sum, turn)) };
}

/* And the other way round; @b is the conjugate of the pairs' element n - k. */
static DEV inline both half_of_pairs(complex a, complex b, complex root)
{
	const complex mean = make((a.re + b.re) / 2, (a.im + b.im) / 2);
	const complex turn = times(make(root.im / 2, -root.re / 2), minus(a, b));

	return both{ plus(mean, turn), conjugate(minus(mean, turn)) };
}

#endif
