// SPDX-License-Identifier: MIT
/*
 * Elementary functions in single precision. GLSL's own promise too little (exp 3 + 2 |x| ulp,
 * sin 2^-11 absolute), and what they give differs by driver. Polynomials are those of
 * kernels/simd/math.h; a driver that fuses or flushes nothing is not counted on.
 */
#define H(p, x, c)	((p) * (x) + (c))

/* x 2^n for n from -252 on; by two factors, as one may not be a number */
float m_scale2(const in float x, const in int n)
{
	const int low = n >> 1;

	return x * uintBitsToFloat(uint(low + 127) << 23) *
	       uintBitsToFloat(uint(n - low + 127) << 23);
}

/*
 * The whole number next to x / ln 2, of less than 2^22, and as an integer: what is added leaves
 * no bits for a fraction. GPUs round and convert at an eighth of the rate at which they add.
 */
float m_exp_whole(const in float x, out int n)
{
	precise float t = x * 1.44269502 + 12582912.0;
	precise float whole = t - 12582912.0;

	n = int(floatBitsToUint(t) - 0x4b400000u);
	return whole;
}

/* x = n ln 2 + r; the high part has few bits, so that n times it is exact */
float m_exp_reduce(const in float x, const in float n)
{
	precise float r = x - n * 0.693145752;

	r = r - n * 1.42860677e-06;
	return r;
}

float m_exp_of(const in float x)
{
	int n;
	const float r = m_exp_reduce(x, m_exp_whole(x, n));
	float p = H(0.0013820742, r, 0.00836924836);

	p = H(p, r, 0.041668281);
	p = H(p, r, 0.166665167);
	p = H(p, r, 0.49999994);
	p = H(p * r, r, r) + 1.0;
	return m_scale2(p, n);
}

float m_exp(const in float x)
{
	return x != x ? x : x > 89.5 ? INFINITY : m_exp_of(x < -105.0 ? -105.0 : x);
}

/* e^x - 1 for |x| < 88 */
float m_expm1_mid(const in float x)
{
	int n;
	const float r = m_exp_reduce(x, m_exp_whole(x, n));
	const float s = uintBitsToFloat(uint(n + 127) << 23);
	float p = H(0.00138718786, r, 0.00836687628);

	p = H(p, r, 0.0416674316);
	p = H(p, r, 0.16666542);
	p = H(p, r, 0.49999997);
	p = H(p * r, r, r);
	return H(p, s, s - 1.0);
}

float m_expm1(const in float x)
{
	if (abs(x) < 2.98023224e-08 || x != x)
		return x;
	return x > 87.0 ? m_exp(x) : m_expm1_mid(x < -87.0 ? -87.0 : x);
}

/* x as 2^*e (1 + f), 1 + f from sqrt(1/2) to sqrt(2) */
float m_split(const in float x, out float e)
{
	const bool low = x < 1.17549435e-38;
	const int b = int(floatBitsToUint(low ? x * 16777216.0 : x) - 0x3f3504f3u);

	e = float(b >> 23) + (low ? -24.0 : 0.0);
	return uintBitsToFloat(uint(b & 0x7fffff) + 0x3f3504f3u) - 1.0;
}

float m_log(const in float x)
{
	float e, y;
	const float f = m_split(x, e), f2 = f * f;
	float p = H(0.0674954057, f, -0.116701834);

	if (!(x > 0.0) || x == INFINITY)
		return x == 0.0 ? -INFINITY : x > 0.0 ? x : NAN;
	p = H(p, f, 0.118834712);
	p = H(p, f, -0.124062084);
	p = H(p, f, 0.142203629);
	p = H(p, f, -0.166679904);
	p = H(p, f, 0.200020716);
	p = H(p, f, -0.250000089);
	p = H(p, f, 0.333333135);
	y = p * f * f2 + e * 1.42860677e-06;
	y = (y - 0.5 * f2) + f;
	return e * 0.693145752 + y;
}

/* What rounding 1 + x lost is put back. */
float m_log1p(const in float x)
{
	precise float u = 1.0 + x;
	precise float lost = (u - 1.0) - x;

	if (abs(x) < 2.98023224e-08 || x == INFINITY)
		return x;
	return u == 0.0 ? -INFINITY : m_log(u) - lost / u;
}

float m_with_sign(const in float x, const in float of)
{
	return uintBitsToFloat((floatBitsToUint(x) & 0x7fffffffu) |
			       (floatBitsToUint(of) & 0x80000000u));
}

/* t / (t + 2) with t = e^2|x| - 1 loses nothing near 0. */
float m_tanh(const in float x)
{
	const float a = abs(x) > 10.0 ? 10.0 : abs(x), t = m_expm1_mid(a + a);

	if (a < 0.000122070312 || x != x)
		return x;
	return m_with_sign(t / (t + 2.0), x);
}

/* erf = 1 - e^P with P = log(erfc |x|), of which P / |x| is smooth */
float m_erf(const in float x)
{
	const float t = abs(x) > 4.0 ? 4.0 : abs(x);
	float p = H(9.38800076e-06, t, -0.000118861622);

	if (x != x)
		return x;
	p = H(p, t, 0.000637364225);
	p = H(p, t, -0.00167567725);
	p = H(p, t, 0.000169504565);
	p = H(p, t, 0.0191478226);
	p = H(p, t, -0.102776304);
	p = H(p, t, -0.636619568);
	p = H(p, t, -0.128379166);
	p = p * t - t;
	return m_with_sign(-m_expm1_mid(p), x);
}

/* ---- angles ---- */

/* 2 / pi, the first word before the point */
const uint M_TWO_BY_PI[8] = uint[8](0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
				    0xdb629599u, 0x3c439041u, 0xfe5163abu);

/*
 * Large x, of 2^13 and more: the fraction of x 2/pi by integers. Bits of 2/pi that make whole
 * turns are left out, and those too far behind.
 * Source: Payne and Hanek, "Radian reduction for trigonometric functions" (1983).
 */
float m_reduce_large(const in float x, out int quadrant)
{
	const uint u = floatBitsToUint(x) & 0x7fffffffu, m = (u & 0x7fffffu) | 0x800000u;
	const uint skip = uint(int(u >> 23) - 127 + 7), word = min(skip / 32u, 4u), by = skip % 32u;
	const uint64_t hi = uint64_t(M_TWO_BY_PI[word]) << 32 | M_TWO_BY_PI[word + 1];
	const uint64_t lo = uint64_t(M_TWO_BY_PI[word + 2]) << 32 | M_TWO_BY_PI[word + 3];
	const uint64_t first = by != 0 ? hi << by | lo >> (64 - by) : hi, next = (lo << by) >> 32;
	/* in units of 2^-62 quarters, modulo 4 of these */
	const uint64_t turn = first * uint64_t(m) + (next * uint64_t(m) >> 32);
	const int64_t part = int64_t(turn << 2) >> 2;

	quadrant = int(turn >> 62) + (part < 0 ? 1 : 0);
	return float(part) * (1.57079633 * 2.16840434e-19);
}

float m_trig_reduce(const in float x, out int quadrant)
{
	if (abs(x) > 8192.0) {
		const float r = m_reduce_large(x, quadrant);

		quadrant = x < 0.0 ? -quadrant : quadrant;
		return x < 0.0 ? -r : r;
	}

	const float n = roundEven(x * 0.636619747);
	precise float r = x - n * 1.5703125;

	r = r - n * 0.000483751297;
	r = r - n * 7.54953362e-08;
	r = r - n * 2.56334407e-12;
	quadrant = int(n);
	return r;
}

float m_trig(const in float x, const in int shift)
{
	int q;
	const float r = m_trig_reduce(x, q), z = r * r;
	float s = H(-0.000195082335, z, 0.00833210815);
	float c = H(2.44300882e-05, z, -0.00138872978);

	if (isinf(x) || x != x)
		return NAN;
	q += shift;
	s = H(s, z, -0.166666538);
	s = s * z * r + r;
	c = H(c, z, 0.0416666456);
	c = c * z * z + (1.0 - 0.5 * z);
	s = (q & 1) != 0 ? c : s;
	return (q & 2) != 0 ? -s : s;
}

float m_sin(const in float x) { return m_trig(x, 0); }
float m_cos(const in float x) { return m_trig(x, 1); }
float m_tan(const in float x) { return m_sin(x) / m_cos(x); }

/* Of a / b, 0 <= a; by tan(pi/8) to where the polynomial, in x^2, is right */
float m_atan_of(const in float a, const in float b)
{
	const bool turn = a > b;
	const float x = turn ? b / a : a / b;
	const bool half_turn = x > 0.414213562;
	const float t = half_turn ? (x - 1.0) / (x + 1.0) : x, z = t * t;
	float p = H(-0.0643843802, z, 0.107395355), y;

	p = H(p, z, -0.142635473);
	p = H(p, z, 0.199995274);
	p = H(p, z, -0.333333317);
	y = p * z * t + t;
	if (half_turn)
		y = 0.785398163 + (y - 2.18556941e-08);
	return turn ? 1.57079633 - (y + 4.37113883e-08) : y;
}

float m_atan(const in float x)
{
	return x != x ? x : m_with_sign(m_atan_of(abs(x), 1.0), x);
}

float m_atan2(const in float y, const in float x)
{
	float a = abs(y), b = abs(x), r;

	if (x != x || y != y)
		return NAN;
	if (a == INFINITY && b == INFINITY)
		a = b = 1.0;
	if (max(a, b) > 1e30) {		/* no quotient is too small then */
		a *= 7.88860905e-31;
		b *= 7.88860905e-31;
	}
	r = a == 0.0 ? 0.0 : m_atan_of(a, b);
	if (floatBitsToUint(x) >> 31 != 0)
		r = 3.14159274 - (r + 8.74227766e-08);
	return m_with_sign(r, y);
}

float m_asin(const in float x)
{
	const float c = (1.0 - x) * (1.0 + x);

	return c >= 0.0 ? m_with_sign(m_atan_of(abs(x), sqrt(c)), x) : NAN;
}

float m_acos(const in float x)
{
	return abs(x) <= 1.0 ? 2.0 * m_atan_of(sqrt(1.0 - x), sqrt(1.0 + x)) : NAN;
}

/* ---- hyperbolic ---- */

float m_sinh(const in float x)
{
	const float a = abs(x), t = m_expm1(a > 80.0 ? 80.0 : a), h = m_exp(0.5 * a);

	if (x != x)
		return x;
	return m_with_sign(a > 80.0 ? 0.5 * h * h : 0.5 * (t + t / (t + 1.0)), x);
}

float m_cosh(const in float x)
{
	const float a = abs(x), e = m_exp(a > 80.0 ? 80.0 : a), h = m_exp(0.5 * a);

	return x != x ? x : a > 80.0 ? 0.5 * h * h : 0.5 * e + 0.5 / e;
}

float m_asinh(const in float x)
{
	const float a = abs(x);

	if (x != x)
		return x;
	return m_with_sign(a > 1e9 ? m_log(a) + 0.693147182 :
			   m_log1p(a + a * a / (1.0 + sqrt(a * a + 1.0))), x);
}

float m_acosh(const in float x)
{
	const float t = x - 1.0;

	if (!(x >= 1.0))
		return NAN;
	return x > 1e9 ? m_log(x) + 0.693147182 : m_log1p(t + sqrt(2.0 * t + t * t));
}

float m_atanh(const in float x)
{
	const float a = abs(x);

	return m_with_sign(0.5 * m_log1p(2.0 * a / (1.0 - a)), x);
}

/* ---- powers and remainders ---- */

/* The product is high + low; the halves' products are exact. */
float m_product(const in float a, const in float b, out float low)
{
	const float ah = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
	const float bh = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
	precise float al = a - ah, bl = b - bh, p = a * b;
	precise float l = ((ah * bh - p) + ah * bl + al * bh) + al * bl;

	low = l;
	return p;
}

/* log x in two floats, for x of normal size above 0 */
float m_log_two(const in float x, out float low)
{
	float e, pl;
	const float f = m_split(x, e), g = 2.0 + f;
	precise float gl = f - (g - 2.0), s = f / g;
	precise float sp = m_product(s, g, pl);
	precise float sl = (((f - sp) - pl) - s * gl) / g, z = s * s;
	float p = H(0.233406665, z, 0.285503872);
	precise float r, hi, t;

	p = H(p, z, 0.400001269);
	p = H(p, z, 0.666666665);
	/* e ln 2 in two parts, 2 s in two parts, the rest */
	hi = e * 0.693145752;
	r = 2.0 * s;
	t = hi + r;
	r = abs(hi) > abs(r) ? (hi - t) + r : (r - t) + hi;
	r = r + (2.0 * sl + e * 1.42860677e-06) + p * z * s;
	hi = t + r;
	low = (t - hi) + r;
	return hi;
}

/* |a| to the power b, neither a 0 nor an infinity */
float m_pow_of(const in float a, const in float b)
{
	float low, pl;
	const float l = m_log_two(a, low);
	precise float p = m_product(l, b, pl);

	pl = pl + low * b;
	if (!(abs(p) < 200.0))
		return p > 0.0 ? INFINITY : 0.0;
	/* e^p (1 + pl), where e^p may be beyond what results are */
	const float n = roundEven(p * 1.44269502), r = m_exp_reduce(p, n) + pl;
	float q = H(0.0013820742, r, 0.00836924836);

	q = H(q, r, 0.041668281);
	q = H(q, r, 0.166665167);
	q = H(q, r, 0.49999994);
	q = H(q * r, r, r) + 1.0;
	return n > 129.0 ? INFINITY : n < -151.0 ? 0.0 : m_scale2(q, int(n));
}

float m_pow(const in float a, const in float b)
{
	const bool whole = floor(b) == b, odd = whole && abs(b) < 16777216.0 && (int(b) & 1) != 0;
	const float m = abs(a);
	float r;

	if (b == 0.0 || a == 1.0)
		return 1.0;
	if (a != a || b != b)
		return NAN;
	if (abs(b) == INFINITY)
		return m == 1.0 ? 1.0 : (m > 1.0) == (b > 0.0) ? INFINITY : 0.0;
	if (m == 0.0 || m == INFINITY)
		r = (m == 0.0) == (b > 0.0) ? 0.0 : INFINITY;
	else if (a < 0.0 && !whole)
		return NAN;
	else
		r = m_pow_of(m, b);
	return odd && floatBitsToUint(a) >> 31 != 0 ? -r : r;
}

/* Exact: the mantissas are divided as integers, 32 bits of the quotient at a time. */
float m_fmod(const in float a, const in float b)
{
	const uint x = floatBitsToUint(a) & 0x7fffffffu, y = floatBitsToUint(b) & 0x7fffffffu;
	const int ey = int(max(y >> 23, 1u));
	int left = int(max(x >> 23, 1u)) - ey;
	const uint64_t my = uint64_t(y >= 0x800000u ? (y & 0x7fffffu) | 0x800000u : y);
	uint64_t m = uint64_t(x >= 0x800000u ? (x & 0x7fffffu) | 0x800000u : x);

	if (x >= 0x7f800000u || y > 0x7f800000u || y == 0)
		return NAN;
	if (x < y)
		return a;
	for (; left > 0; left -= 32)
		m = (m << min(left, 32)) % my;
	m %= my;
	/* in units of the divisor's last place */
	return m_with_sign(m_scale2(float(uint(m)), ey - 150), a);
}

/* The sign of the divisor, which 0 has too */
float m_mod(const in float a, const in float b)
{
	const float r = m_fmod(a, b);

	if (r == 0.0)	/* a choice between -0 and 0 may be taken for none */
		return m_with_sign(0.0, b);
	return (r < 0.0) != (b < 0.0) ? r + b : r;
}
