/* SPDX-License-Identifier: MIT */
/*
 * The language of the GPU kernels: one source for CUDA (NVRTC, without any headers),
 * HIP (hipcc or hiprtc) and the test suite's emulator.
 *
 *	RLX_G_KERNEL(softmax, struct rlx_k_softmax, 256)
 *	{
 *		SHARED(float, part, [8]);
 *		const float *x = RLX_G_PTR(const float, a.x);
 *		... a is the argument struct, env the struct rlx_g_env ...
 *	}
 *
 * RLX_G_KERNEL_PDL is for a kernel that can begin before the launch preceding it has
 * ended, with what no launch writes (weights); it calls pdl_wait() by itself. So
 * does RLX_G_KERNEL_ALONE, of which a multiprocessor has one block at a time (and each
 * thread all the registers it can).
 *
 * Indices, __syncthreads() and mathematics have CUDA's names. Shared memory comes
 * from SHARED() and SHARED_DYNAMIC() only, at the top of the kernel. Operations
 * of a warp (WARP threads: 32 or 64) take all of its lanes, so blocks are whole
 * warps. -DRLX_WARP=n and -DRLX_ARCH=n (sm_90: 90) come from whoever compiles.
 */
#ifndef RLX_G_DIALECT_H
#define RLX_G_DIALECT_H

#if defined(RLX_EMU)
#include "kernels/gpu/dialect_emu.h"
#elif defined(__HIP__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)
#include "kernels/gpu/dialect_hip.h"
#else
#include "kernels/gpu/dialect_cuda.h"
#endif

#include "kernels/gpu/env.h"
#include "kernels/type.h"

#if defined(RLX_EMU) || defined(__HIP__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)
/* Pointers are to any memory there. */
static DEV inline void load_words_any(uint32_t v[4], const void *p, bool there)
{
	load_words(v, p, there);
}

/* Copies that nobody reads again soon are as any others there. */
typedef unsigned char *once_at;

static DEV inline once_at once_from(const void *p)
{
	return (unsigned char *)p;
}

static DEV inline void copy_once(once_at to, const void *src, int from)
{
	copy_async(to, src, 16, from);
}

template <class T> static DEV inline T compute_anew(T x)
{
	return x;
}

/* *p if @in, else zeros; CUDA does it without a branch. */
template <class T> static DEV inline T load_if(const T *p, bool in)
{
	return in ? *p : T();
}

/* The same of 16 bits, as a word. */
static DEV inline uint32_t load_short(const uint16_t *p, bool in)
{
	return in ? *p : 0;
}

/* *p if @in, else words of @other; T has 2, 4, 8 or 16 bytes and is aligned to them. */
template <class T> static DEV inline T load_or(const T *p, bool in, uint32_t other)
{
	uint32_t w[4] = { other, other, other, other };
	T v;

	if (in)
		return *p;
	memcpy(&v, w, sizeof(v));
	return v;
}

/* @v as one store, which the compiler would split by its members; T is as for load_or(). */
template <class T> static DEV inline void store_whole(T *p, T v)
{
	memcpy(p, &v, sizeof(v));
}

static DEV inline float max_nan(float x, float y)
{
	return x > y || x != x ? x : y;
}

/* Words at @p, 16-byte aligned, that another block wrote since this launch began. */
static DEV inline void load_new(uint32_t v[4], const void *p)
{
	for (int i = 0; i < 4; i++)
		v[i] = ((const volatile uint32_t *)p)[i];
}

/* Four of the bytes of @a, then @b: which, by the digits of @which from the lowest on */
static DEV inline uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v |= (uint32_t)(both >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
	return v;
}

/* f32 with 10 bits of fraction, rounded to nearest, ties away from zero */
static DEV inline uint32_t round_tf32(uint32_t u)
{
	return (u & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : (u + 0x1000) & 0xffffe000;
}

/* c plus four products of signed bytes */
static DEV inline int dot_i8(int a, int b, int c)
{
	uint32_t sum = (uint32_t)c;

	for (int i = 0; i < 32; i += 8)
		sum += (uint32_t)((int)(int8_t)(a >> i) * (int)(int8_t)(b >> i));
	return (int)sum;
}
#endif

#define WARP		RLX_WARP

/* Rank of a thread in its warp; blocks are one-dimensional in x. */
static DEV inline int lane_id(void)
{
	return (int)(threadIdx.x % WARP);
}

static DEV inline int warp_id(void)
{
	return (int)(threadIdx.x / WARP);
}

/* Of @rows that a launch has, those that carry data; nothing that a launch writes. */
static DEV inline int64_t live_rows(const struct rlx_g_env &env, int64_t rows)
{
	return env.live ? *env.live : rows;
}

/* The same of @n indices, or other things that are looked at one by one. */
static DEV inline int64_t live_checked(const struct rlx_g_env &env, int64_t n)
{
	return env.checked ? *env.checked : n;
}

static DEV inline uint64_t rlx_g_at(const void *p, const struct rlx_g_env &env)
{
	uint64_t u = (uint64_t)p;

	if (!(u & RLX_G_INDIRECT))
		return u;
	return env.table[(u >> 48) & 0x7fff] + (u & 0xffffffffffff);
}

#define RLX_G_PTR(T, p)	((T *)rlx_g_at((p), env))

#ifndef INFINITY
#define INFINITY	bits_f32(0x7f800000)
#endif
#ifndef NAN
#define NAN		bits_f32(0x7fc00000)
#endif

/* ---- element types ---- */

struct f16 { uint16_t u; };
struct bf16 { uint16_t u; };
struct f8e4m3 { uint8_t u; };
struct f8e5m2 { uint8_t u; };

static DEV inline float bits_f32(uint32_t u)
{
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static DEV inline uint32_t f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static DEV inline float to_f32(float x) { return x; }
static DEV inline float to_f32(f16 x) { return f16_to_f32(x.u); }
static DEV inline float to_f32(bf16 x) { return bits_f32((uint32_t)x.u << 16); }

static DEV inline float to_f32(f8e5m2 x)
{
	return f16_to_f32((uint16_t)(x.u << 8));
}

static DEV inline float to_f32(f8e4m3 x)
{
	uint32_t m = x.u & 0x7f, sign = (uint32_t)(x.u & 0x80) << 24;

	if (m == 0x7f)
		return bits_f32(sign | 0x7fc00000);
	if (m < 8)	/* below the normal ones: units of 2^-9 */
		return bits_f32(sign | f32_bits((float)m * 0.001953125f));
	return bits_f32(sign | ((m << 20) + (120u << 23)));
}

template <class T> DEV T from_f32(float x);
template <> DEV inline float from_f32<float>(float x) { return x; }
template <> DEV inline f16 from_f32<f16>(float x) { return f16{ f32_to_f16(x) }; }
template <> DEV inline bf16 from_f32<bf16>(float x) { return bf16{ f32_to_bf16(x) }; }

/*
 * To fp8 by bits: the number in units of its last place, rounded to even. @m: bits
 * of the fraction, @low: exponent of the smallest normal number.
 */
static DEV inline uint32_t f32_to_f8(float x, int m, int low)
{
	uint32_t u = f32_bits(x) & 0x7fffffff;
	int e = (int)(u >> 23) - 127, shift;
	uint32_t whole = (u & 0x7fffff) | 0x800000, half, rest;

	if (e < low - m - 1)
		return 0;
	shift = 23 - m + (e < low ? low - e : 0);
	half = 1u << (shift - 1);
	rest = whole & ((1u << shift) - 1);
	whole >>= shift;
	if (rest > half || (rest == half && (whole & 1)))
		whole++;
	/* the hidden bit is worth one step of the exponent */
	return e < low ? whole : whole + ((uint32_t)(e - low) << m);
}

/* Beyond the largest value, infinities included: that value. */
static DEV inline f8e4m3 f32_to_e4m3(float x)
{
	uint32_t sign = f32_bits(x) >> 24 & 0x80, r;

	if (x != x)
		return f8e4m3{ (uint8_t)(sign | 0x7f) };
	r = (f32_bits(x) & 0x7fffffff) >= 0x44000000 ? 0x7f : f32_to_f8(x, 3, -6);
	if (r > 0x7e)
		r = 0x7e;
	return f8e4m3{ (uint8_t)(sign | r) };
}

static DEV inline f8e5m2 f32_to_e5m2(float x)
{
	uint32_t sign = f32_bits(x) >> 24 & 0x80, r;

	if (x != x)
		return f8e5m2{ (uint8_t)(sign | 0x7f) };
	r = (f32_bits(x) & 0x7fffffff) >= 0x47800000 ? 0x7c : f32_to_f8(x, 2, -14);
	if (r > 0x7b)
		r = 0x7b;
	return f8e5m2{ (uint8_t)(sign | r) };
}

template <> DEV inline f8e4m3 from_f32<f8e4m3>(float x) { return f32_to_e4m3(x); }
template <> DEV inline f8e5m2 from_f32<f8e5m2>(float x) { return f32_to_e5m2(x); }

/* double to a narrow float rounds once: to odd in f32 first, then to even */
static DEV inline float f64_to_odd(double x)
{
	float f = (float)x;

	if ((double)f != x && x == x && (f32_bits(f) & 0x7f800000) != 0x7f800000) {
		uint32_t u = f32_bits(f);
		bool over = ((double)f > x) == (x > 0);

		if (over)
			u--;
		f = bits_f32(u | 1);
	}
	return f;
}

/*
 * By enum rlx_dtype: mem is what lies in memory, acc what one computes in; get()
 * and put() convert by the rules of kernels/cast.h.
 */
template <int T> struct rlx_t;

#define RLX_G_TYPE(T, M, A, GET, PUT)					\
	template <> struct rlx_t<T> {					\
		typedef M mem;						\
		typedef A acc;						\
		static DEV inline A get(M x) { return GET; }		\
		static DEV inline M put(A x) { return PUT; }		\
	};
RLX_G_TYPE(RLX_F64, double, double, x, x)
RLX_G_TYPE(RLX_F32, float, float, x, x)
RLX_G_TYPE(RLX_F16, f16, float, to_f32(x), from_f32<f16>(x))
RLX_G_TYPE(RLX_BF16, bf16, float, to_f32(x), from_f32<bf16>(x))
RLX_G_TYPE(RLX_F8E4M3, f8e4m3, float, to_f32(x), from_f32<f8e4m3>(x))
RLX_G_TYPE(RLX_F8E5M2, f8e5m2, float, to_f32(x), from_f32<f8e5m2>(x))
RLX_G_TYPE(RLX_I64, int64_t, int64_t, x, x)
RLX_G_TYPE(RLX_I32, int32_t, int64_t, x, (int32_t)x)
RLX_G_TYPE(RLX_I16, int16_t, int64_t, x, (int16_t)x)
RLX_G_TYPE(RLX_I8, int8_t, int64_t, x, (int8_t)x)
RLX_G_TYPE(RLX_U64, uint64_t, uint64_t, x, x)
RLX_G_TYPE(RLX_U32, uint32_t, int64_t, (int64_t)x, (uint32_t)x)
RLX_G_TYPE(RLX_U16, uint16_t, int64_t, x, (uint16_t)x)
RLX_G_TYPE(RLX_U8, uint8_t, int64_t, x, (uint8_t)x)
RLX_G_TYPE(RLX_BOOL, uint8_t, int64_t, x != 0, x != 0)
#undef RLX_G_TYPE

/* An f32, bf16 or f16 whose type is known only at run time (uniform, so cheap). */
static DEV inline float load_float(const void *p, int64_t i, int type)
{
	if (type == RLX_F32)
		return ((const float *)p)[i];
	if (type == RLX_BF16)
		return to_f32(((const bf16 *)p)[i]);
	return to_f32(((const f16 *)p)[i]);
}

/* A float of 16 bits or more */
static DEV inline double load_real(const void *p, int64_t i, int type)
{
	return type == RLX_F64 ? ((const double *)p)[i] : (double)load_float(p, i, type);
}

static DEV inline void store_float(void *p, int64_t i, int type, float x)
{
	if (type == RLX_F32)
		((float *)p)[i] = x;
	else if (type == RLX_BF16)
		((bf16 *)p)[i] = from_f32<bf16>(x);
	else
		((f16 *)p)[i] = from_f32<f16>(x);
}

static DEV inline bool type_is_small_float(int type)
{
	return type == RLX_F32 || type == RLX_BF16 || type == RLX_F16;
}

/* Element @i of an index tensor: i64, i32 or u32. */
static DEV inline int64_t load_index(const void *p, int64_t i, int type)
{
	if (type == RLX_I64)
		return ((const int64_t *)p)[i];
	if (type == RLX_I32)
		return ((const int32_t *)p)[i];
	return ((const uint32_t *)p)[i];
}

/*
 * Before pdl_wait() and after it: what launches ahead may have yet to write, and then
 * have written. In the emulator, where they have, half of the blocks find it changed; its checks
 * do not see this one.
 */
#ifdef RLX_EMU
static __attribute__((noinline, no_sanitize_thread))
int64_t load_index_before_wait(const void *p, int64_t i, int type)
{
	int64_t v = type == RLX_I64 ? ((const int64_t *)p)[i] : type == RLX_I32 ?
		((const int32_t *)p)[i] : ((const uint32_t *)p)[i];

	return v - blockIdx.x % 2;
}
#else
static DEV inline int64_t load_index_before_wait(const void *p, int64_t i, int type)
{
	return load_index(p, i, type);
}
#endif

static DEV inline int64_t load_index_again(const void *p, int64_t i, int type)
{
	if (type == RLX_I64)
		return ((const volatile int64_t *)p)[i];
	if (type == RLX_I32)
		return ((const volatile int32_t *)p)[i];
	return ((const volatile uint32_t *)p)[i];
}

/* ---- across a warp and a block ---- */

template <class T> static DEV inline T warp_xor(T v, int mask)
{
	return shuffle(v, lane_id() ^ mask);
}

struct op_sum {
	template <class T> static DEV inline T of(T a, T b) { return a + b; }
};
/* NaN wins */
struct op_max {
	template <class T> static DEV inline T of(T a, T b)
	{
		return a > b || a != a ? a : b;
	}
};

/* Of this thread's value and those of the lanes below. */
template <class OP, class T> static DEV inline T warp_scan(T v)
{
	for (int d = 1; d < WARP; d *= 2) {
		T below = shuffle(v, lane_id() < d ? lane_id() : lane_id() - d);

		if (lane_id() >= d)
			v = OP::of(below, v);
	}
	return v;
}

template <class OP, class T> static DEV inline T warp_reduce(T v)
{
	for (int m = WARP / 2; m; m /= 2)
		v = OP::of(v, warp_xor(v, m));
	return v;
}

/* The sum over a warp; CUDA has an instruction. */
#ifndef HAS_WARP_COUNT
static DEV inline int warp_count(int v)
{
	return warp_reduce<op_sum>(v);
}
#endif

/*
 * Over the block, in one fixed order; @smem has one T for each warp. Every thread
 * gets the result. Ends with a barrier, so @smem may be used again at once.
 */
template <class OP, class T> static DEV inline T block_reduce(T v, T *smem)
{
	int warps = (int)(blockDim.x / WARP);

	v = warp_reduce<OP>(v);
	if (warps == 1)
		return v;
	if (lane_id() == 0)
		smem[warp_id()] = v;
	__syncthreads();
	v = smem[0];
	for (int i = 1; i < warps; i++)
		v = OP::of(v, smem[i]);
	__syncthreads();
	return v;
}

#define MAX_WARPS	32	/* of a block, where WARP is 32 */

#endif
