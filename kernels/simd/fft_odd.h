/* SPDX-License-Identifier: MIT */
/*
 * Radices 3, 5 and 7 in registers, 9 to 15 where there are 32 of them. 9 is 3 by 3; 15 is 3 by 5
 * without twiddle factors between, as these have no common factor (Good and Thomas).
 */
#ifndef RLX_SIMD_FFT_ODD_H
#define RLX_SIMD_FFT_ODD_H

RLX_INLINE cv cv_scale(cv a, FT by)
{
	return (cv){ a.re * by, a.im * by };
}

RLX_INLINE void three(cv *a, cv *b, cv *c)
{
	const cv sum = cv_add(*b, *c);
	const cv turn = cv_scale(cv_mul_i(cv_sub(*b, *c)), (FT)0.86602540378443864676);
	const cv rest = cv_sub(*a, cv_scale(sum, (FT)0.5));

	*a = cv_add(*a, sum);
	*b = cv_add(rest, turn);
	*c = cv_sub(rest, turn);
}

/*
 * Of a prime @r: element 0 and, of i and r - i, sums and differences; @c, @s: cos, sin of i / r, so
 * many numbers from one to the next.
 */
RLX_INLINE void small_prime(cv *v, const int r, const FT *c, const FT *s, const int step)
{
	cv sum[6], diff[6], all = v[0];

	RLX_UNROLL
	for (int i = 0; i < r / 2; i++) {
		sum[i] = cv_add(v[i + 1], v[r - 1 - i]);
		diff[i] = cv_mul_i(cv_sub(v[i + 1], v[r - 1 - i]));
		all = cv_add(all, sum[i]);
	}
	RLX_UNROLL
	for (int k = 1; k <= r / 2; k++) {
		cv a = v[0], b = cv_scale(diff[0], s[step * k]);

		RLX_UNROLL
		for (int i = 0; i < r / 2; i++)
			a = cv_add(a, cv_scale(sum[i], c[step * ((i + 1) * k % r)]));
		RLX_UNROLL
		for (int i = 1; i < r / 2; i++)
			b = cv_add(b, cv_scale(diff[i], s[step * ((i + 1) * k % r)]));
		v[k] = cv_add(a, b);
		v[r - k] = cv_sub(a, b);
	}
	v[0] = all;
}

RLX_INLINE void five(cv *v)
{
	const FT c1 = (FT)0.30901699437494742410, c2 = (FT)-0.80901699437494742410;
	const FT s1 = (FT)0.95105651629515357212, s2 = (FT)0.58778525229247312917;
	const FT c[5] = { 1, c1, c2, c2, c1 }, s[5] = { 0, s1, s2, -s2, -s1 };

	small_prime(v, 5, c, s, 1);
}

RLX_INLINE void seven(cv *v)
{
	const FT c1 = (FT)0.62348980185873353053, c2 = (FT)-0.22252093395631440429;
	const FT c3 = (FT)-0.90096886790241912624, s1 = (FT)0.78183148246802980871;
	const FT s2 = (FT)0.97492791218182360702, s3 = (FT)0.43388373911755812048;
	const FT c[7] = { 1, c1, c2, c3, c3, c2, c1 }, s[7] = { 0, s1, s2, s3, -s3, -s2, -s1 };

	small_prime(v, 7, c, s, 1);
}

RLX_INLINE void nine(cv *v)
{
	static const FT w[5][2] = {
		{ 0 }, { (FT)0.76604444311897803520, (FT)-0.64278760968653932632 },
		{ (FT)0.17364817766693034885, (FT)-0.98480775301220805937 }, { 0 },
		{ (FT)-0.93969262078590838405, (FT)-0.34202014332566873304 },
	};
	cv t[3][3];

	RLX_UNROLL
	for (int b = 0; b < 3; b++) {
		RLX_UNROLL
		for (int a = 0; a < 3; a++)
			t[b][a] = v[3 * a + b];
		three(&t[b][0], &t[b][1], &t[b][2]);
		RLX_UNROLL
		for (int k = 1; b && k < 3; k++)
			t[b][k] = cv_times(t[b][k], w[b * k]);
	}
	RLX_UNROLL
	for (int k = 0; k < 3; k++) {
		three(&t[0][k], &t[1][k], &t[2][k]);
		RLX_UNROLL
		for (int i = 0; i < 3; i++)
			v[k + 3 * i] = t[i][k];
	}
}

RLX_INLINE void fifteen(cv *v)
{
	cv t[3][5];

	RLX_UNROLL
	for (int a = 0; a < 3; a++) {
		RLX_UNROLL
		for (int b = 0; b < 5; b++)
			t[a][b] = v[(5 * a + 3 * b) % 15];
		five(t[a]);
	}
	RLX_UNROLL
	for (int k = 0; k < 5; k++) {
		three(&t[0][k], &t[1][k], &t[2][k]);
		RLX_UNROLL
		for (int i = 0; i < 3; i++)
			v[(10 * i + 6 * k) % 15] = t[i][k];
	}
}

#endif
