/* SPDX-License-Identifier: MIT */
/*
 * MMA, products of small matrices by a whole warp: d[M][N] += a[M][K] b[K][N], K of them
 * 32 bytes: 16 f16 or bf16, or 8 f32, of which the upper 19 bits are read (TF32, CUDA alone),
 * with f32 sums, or 32 signed bytes with int sums. Which elements a lane holds is said by
 * row() and col() functions for 16-bit floats, and for all types in words of 4 bytes along k:
 * bytes have the places of f16 or bf16 there. CUDA's tensor cores (M 16, N 8), AMD's of gfx90a
 * and gfx942 (16, 16), and shuffles where there is neither. The emulator does either by
 * the warp's width.
 */
#ifndef RLX_G_MMA_H
#define RLX_G_MMA_H

#include "kernels/gpu/dialect.h"

enum { MMA_M = 16, MMA_K = 16, MMA_WORDS = 8 };	/* K: of 16-bit floats; WORDS: of any */

#if RLX_WARP == 32

enum { MMA_N = 8, MMA_A = 4, MMA_B = 2, MMA_C = 4 };	/* words of a, b; floats of c */

static DEV inline int mma_a_row(int i) { return lane_id() / 4 + i / 2 % 2 * 8; }
static DEV inline int mma_a_col(int i) { return lane_id() % 4 * 2 + i % 2 + i / 4 * 8; }
static DEV inline int mma_b_row(int i) { return lane_id() % 4 * 2 + i % 2 + i / 2 * 8; }
static DEV inline int mma_b_col(int i) { return lane_id() / 4; }
static DEV inline int mma_c_row(int i) { return lane_id() / 4 + i / 2 * 8; }
static DEV inline int mma_c_col(int i) { return lane_id() % 4 * 2 + i % 2; }
static DEV inline int mma_a_word(int w) { return lane_id() % 4 + w / 2 * 4; }
static DEV inline int mma_b_word(int w) { return lane_id() % 4 + w * 4; }
/* Lane and index of the word of a (b) in that row (column) */
static DEV inline int mma_a_lane(int row, int word) { return row % 8 * 4 + word % 4; }
static DEV inline int mma_a_at(int row, int word) { return row / 8 + word / 4 * 2; }
static DEV inline int mma_b_lane(int col, int word) { return col * 4 + word % 4; }
static DEV inline int mma_b_at(int word) { return word / 4; }

#else

enum { MMA_N = 16, MMA_A = 2, MMA_B = 2, MMA_C = 4 };

static DEV inline int mma_a_row(int i) { return lane_id() % 16; }
static DEV inline int mma_a_col(int i) { return lane_id() / 16 * 4 + i; }
static DEV inline int mma_b_row(int i) { return lane_id() / 16 * 4 + i; }
static DEV inline int mma_b_col(int i) { return lane_id() % 16; }
static DEV inline int mma_c_row(int i) { return lane_id() / 16 * 4 + i; }
static DEV inline int mma_c_col(int i) { return lane_id() % 16; }
static DEV inline int mma_a_word(int w) { return lane_id() / 16 * 2 + w; }
static DEV inline int mma_b_word(int w) { return lane_id() / 16 * 2 + w; }
static DEV inline int mma_a_lane(int row, int word) { return row + word / 2 * 16; }
static DEV inline int mma_a_at(int row, int word) { return word % 2; }
static DEV inline int mma_b_lane(int col, int word) { return col + word / 2 * 16; }
static DEV inline int mma_b_at(int word) { return word % 2; }

#endif

enum { MMA_LINES = MMA_A / 2 };	/* rows of a that a lane has words of: of w, row w % MMA_LINES */

/* The kinds of elements, and what their products are summed up in. */
enum mma_type { MMA_F16, MMA_BF16, MMA_I8, MMA_TF32 };
template <class T> struct mma_kind;
template <> struct mma_kind<f16> { enum { bf = 0, type = MMA_F16 }; typedef float sum; };
template <> struct mma_kind<bf16> { enum { bf = 1, type = MMA_BF16 }; typedef float sum; };
template <> struct mma_kind<float> { enum { type = MMA_TF32 }; typedef float sum; };
template <> struct mma_kind<int8_t> { enum { type = MMA_I8 }; typedef int sum; };
#define MMA_SUM(T)	typename mma_kind<T>::sum

#if defined(RLX_EMU)

template <class T>
static DEV inline void mma(MMA_SUM(T) *c, const uint32_t *a, const uint32_t *b)
{
	static const int types[] = { EMU_MMA_F16, EMU_MMA_BF16, EMU_MMA_I8, EMU_MMA_TF32 };
	struct emu_warp_op op = { EMU_OP_MMA, __LINE__, 0, types[mma_kind<T>::type], 0, a, b, c };

	emu_warp(&op);
}

#define MMA_LDMATRIX	(RLX_WARP == 32)
static DEV inline void ldmatrix(uint32_t *d, const void *row, int n, bool trans)
{
	struct emu_warp_op op = { EMU_OP_LDMATRIX, __LINE__, n, trans, 0, row, 0, d };

	emu_warp(&op);
}

#elif defined(__HIP__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)

#define MMA_LDMATRIX	0
static DEV inline void ldmatrix(uint32_t *d, const void *row, int n, bool trans) {}

#if RLX_WARP == 64 && (defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx942__))
typedef float mma_f32x4 __attribute__((ext_vector_type(4)));
typedef int mma_i32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 mma_f16x4 __attribute__((ext_vector_type(4)));
typedef short mma_i16x4 __attribute__((ext_vector_type(4)));

template <class V> static DEV inline V mma_bits(const uint32_t *w)
{
	V v;

	__builtin_memcpy(&v, w, sizeof(v));
	return v;
}

static DEV inline mma_f32x4 mma_plus(f16, mma_f32x4 d, const uint32_t *a, const uint32_t *b)
{
	return __builtin_amdgcn_mfma_f32_16x16x16f16(mma_bits<mma_f16x4>(a),
						     mma_bits<mma_f16x4>(b), d, 0, 0, 0);
}

static DEV inline mma_f32x4 mma_plus(bf16, mma_f32x4 d, const uint32_t *a, const uint32_t *b)
{
	return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(mma_bits<mma_i16x4>(a),
							 mma_bits<mma_i16x4>(b), d, 0, 0, 0);
}

static DEV inline mma_i32x4 mma_plus(int8_t, mma_i32x4 d, const uint32_t *a, const uint32_t *b)
{
#ifdef __gfx90a__	/* half of k at a time: any order serves that a and b have in common */
	d = __builtin_amdgcn_mfma_i32_16x16x16i8((int)a[0], (int)b[0], d, 0, 0, 0);
	return __builtin_amdgcn_mfma_i32_16x16x16i8((int)a[1], (int)b[1], d, 0, 0, 0);
#else
	return __builtin_amdgcn_mfma_i32_16x16x32_i8(mma_bits<long>(a), mma_bits<long>(b), d,
						     0, 0, 0);
#endif
}

template <class T>
static DEV inline void mma(MMA_SUM(T) *c, const uint32_t *a, const uint32_t *b)
{
	typedef MMA_SUM(T) four __attribute__((ext_vector_type(4)));
	four d;

	__builtin_memcpy(&d, c, sizeof(d));
	d = mma_plus(T(), d, a, b);
	__builtin_memcpy(c, &d, sizeof(d));
}
#else
#define MMA_BY_SHUFFLES	1
#endif

#else	/* CUDA */

#define MMA_PTX(KIND, C)							\
	asm volatile("mma.sync.aligned." KIND " {%0,%1,%2,%3}, {%4,%5,%6,%7}, "	\
		     "{%8,%9}, {%0,%1,%2,%3};"					\
		     : C(c[0]), C(c[1]), C(c[2]), C(c[3])			\
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),		\
		       "r"(b[0]), "r"(b[1]))
template <class T>
static DEV inline void mma(MMA_SUM(T) *c, const uint32_t *a, const uint32_t *b)
{
	if constexpr (mma_kind<T>::type == MMA_I8)
		MMA_PTX("m16n8k32.row.col.s32.s8.s8.s32", "+r");
	else if constexpr (mma_kind<T>::type == MMA_TF32)
		MMA_PTX("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
	else if constexpr (mma_kind<T>::bf)
		MMA_PTX("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
	else
		MMA_PTX("m16n8k16.row.col.f32.f16.f16.f32", "+f");
}
#undef MMA_PTX

#define MMA_LDMATRIX	1
static DEV inline void ldmatrix(uint32_t *d, const void *row, int n, bool trans)
{
	uint32_t at = shared_address(row);

	if (n == 4 && !trans)
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
			     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
			     : "r"(at) : "memory");
	else if (n == 4)
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
			     "{%0,%1,%2,%3}, [%4];"
			     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
			     : "r"(at) : "memory");
	else if (!trans)
		asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
			     : "=r"(d[0]), "=r"(d[1]) : "r"(at) : "memory");
	else
		asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
			     : "=r"(d[0]), "=r"(d[1]) : "r"(at) : "memory");
}

#endif

#ifdef MMA_BY_SHUFFLES
/* @sum plus what two words of elements multiply to. */
static DEV inline int mma_words(int8_t, uint32_t x, uint32_t y, int sum)
{
	return dot_i8((int)x, (int)y, sum);
}

template <class T> static DEV inline float mma_words(T, uint32_t x, uint32_t y, float sum)
{
	sum += to_f32(T{ (uint16_t)x }) * to_f32(T{ (uint16_t)y });
	return sum + to_f32(T{ (uint16_t)(x >> 16) }) * to_f32(T{ (uint16_t)(y >> 16) });
}

/* For chips without such an instruction: every lane collects its rows and columns. */
template <class T>
static DEV inline void mma(MMA_SUM(T) *c, const uint32_t *a, const uint32_t *b)
{
	MMA_SUM(T) sum[MMA_C] = {};

	for (int i = 0; i < MMA_C; i++)
		for (int k = 0; k < MMA_WORDS; k++) {
			int row = mma_c_row(i), col = mma_c_col(i);
			uint32_t x = 0, y = 0;

			for (int w = 0; w < MMA_A; w++) {
				uint32_t v = shuffle(a[w], mma_a_lane(row, k));

				x = w == mma_a_at(row, k) ? v : x;
			}
			for (int w = 0; w < MMA_B; w++) {
				uint32_t v = shuffle(b[w], mma_b_lane(col, k));

				y = w == mma_b_at(k) ? v : y;
			}
			sum[i] = mma_words(T(), x, y, sum[i]);
		}
	for (int i = 0; i < MMA_C; i++)
		c[i] += sum[i];
}
#endif

static DEV inline uint32_t two_halves(uint16_t low, uint16_t high)
{
	return (uint32_t)low | (uint32_t)high << 16;
}

/* Lane q of four gives word j to lane j and gets, as word j, that of lane j. */
static DEV inline void exchange(uint32_t *w)
{
	bool odd = lane_id() & 1, upper = lane_id() & 2;

#pragma unroll
	for (int i = 0; i < 4; i += 2) {
		uint32_t got = warp_xor(odd ? w[i] : w[i + 1], 1);

		w[i] = odd ? got : w[i];
		w[i + 1] = odd ? w[i + 1] : got;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		uint32_t got = warp_xor(upper ? w[i] : w[i + 2], 2);

		w[i] = upper ? got : w[i];
		w[i + 2] = upper ? w[i + 2] : got;
	}
}

/* Two numbers as a word of two 16-bit floats. */
template <class T> static DEV inline uint32_t pack_halves(float low, float high)
{
#if defined(RLX_EMU) || defined(__HIP__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)
	return two_halves(from_f32<T>(low).u, from_f32<T>(high).u);
#else
	uint32_t u;

	if constexpr (mma_kind<T>::bf)
		asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
	else
		asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
	return u;
#endif
}

/* Two numbers as fp8 in the lower half of a word; what is beyond becomes the largest. */
template <bool E5> static DEV inline uint32_t pack_f8(float low, float high)
{
#if defined(RLX_EMU) || RLX_ARCH < 89
	if constexpr (E5)
		return f32_to_e5m2(low).u | (uint32_t)f32_to_e5m2(high).u << 8;
	return f32_to_e4m3(low).u | (uint32_t)f32_to_e4m3(high).u << 8;
#else
	uint16_t u;

	if constexpr (E5)
		asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(u) : "f"(high), "f"(low));
	else
		asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(u) : "f"(high), "f"(low));
	return u;
#endif
}

/* Word @word of row @row along k, where element (row, k) lies at s[k * ld + row] if
 * @trans, else at s[row * ld + k], whose rows start at 16 bytes. */
template <class T>
static DEV inline uint32_t mma_word(const T *s, int ld, int row, int word, bool trans)
{
	enum { PER = 4 / sizeof(T) };
	T v[PER];
	uint32_t w;

	if (!trans)
		return ((const uint32_t *)(s + row * ld))[word];
	for (int i = 0; i < PER; i++)
		v[i] = s[(word * PER + i) * ld + row];
	memcpy(&w, v, sizeof(w));
	return w;
}

/*
 * The fragment of a from shared memory, where element (row, k) lies at
 * s[row * ld + k], or at s[k * ld + row] if @trans. Rows start at 16 bytes.
 */
template <class T> static DEV inline void mma_load_a(uint32_t *a, const T *s, int ld,
						     bool trans)
{
	if (MMA_LDMATRIX && (!trans || sizeof(T) == 2)) {
		int l = lane_id();

		if (trans)
			ldmatrix(a, s + (l % 8 + l / 16 * 8) * ld + l / 8 % 2 * 8, 4, true);
		else
			ldmatrix(a, s + l % 16 * ld + l / 16 * (16 / sizeof(T)), 4, false);
		return;
	}
	for (int i = 0; i < MMA_A; i++)
		a[i] = mma_word(s, ld, mma_a_row(2 * i), mma_a_word(i), trans);
}

/* Of b: element (k, col) at s[col * ld + k], or at s[k * ld + col] if @trans. */
template <class T> static DEV inline void mma_load_b(uint32_t *b, const T *s, int ld,
						     bool trans)
{
	if (MMA_LDMATRIX && (!trans || sizeof(T) == 2)) {
		int l = lane_id();

		if (trans)
			ldmatrix(b, s + l % 16 * ld, 2, true);
		else
			ldmatrix(b, s + l % 8 * ld + l / 8 % 2 * (16 / sizeof(T)), 2, false);
		return;
	}
	for (int i = 0; i < MMA_B; i++)
		b[i] = mma_word(s, ld, mma_b_col(2 * i), mma_b_word(i), trans);
}

/* The same of two products whose columns are side by side, of 16-bit floats. */
template <class T>
static DEV inline void mma_load_b_two(uint32_t (*b)[MMA_B], const T *s, int ld, bool trans)
{
	if (MMA_LDMATRIX && sizeof(T) == 2) {
		int l = lane_id();

		if (trans)
			ldmatrix(b[0], s + l % 16 * ld + l / 16 * MMA_N, 4, true);
		else
			ldmatrix(b[0], s + (l % 8 + l / 16 * MMA_N) * ld + l / 8 % 2 * 8, 4, false);
		return;
	}
	for (int j = 0; j < 2; j++)
		mma_load_b(b[j], s + j * MMA_N * (trans ? 1 : ld), ld, trans);
}

/*
 * Bytes at s[k * ld + col], turned by pairs of products: the instruction turns pairs of
 * bytes, so that b[0] gets the even ones of 16 columns and b[1] the odd ones. Of each
 * matrix the upper half is two rows off the lower, so that none of eight rows which are
 * read together shares a bank, where ld is an odd number of 16 bytes.
 */
template <class T> struct mma_pairs { enum { yes = MMA_LDMATRIX && sizeof(T) == 1 }; };

template <class T>
static DEV inline void mma_load_b_pair(uint32_t (*b)[MMA_B], const T *s, int ld)
{
	int l = lane_id(), flip = l % 8 / 4;
	uint32_t even = l % 4 < 2 ? 0x6420 : 0x2064, w[4];

	ldmatrix(w, s + (l / 16 * 16 + l % 8 / 2 * 4 + (l / 8 % 2 ^ flip) * 2 + l % 2) * ld, 4,
		 true);
	for (int i = 0; i < 2; i++) {
		b[0][i] = pick_bytes(w[2 * i], w[2 * i + 1], even);
		b[1][i] = pick_bytes(w[2 * i], w[2 * i + 1], even + 0x1111);
	}
}

/* Over the lanes that hold parts of a row of a (a column of b). */
template <class V> static DEV inline V mma_across(V v)
{
	for (int m = WARP == 32 ? 1 : 16; m < (WARP == 32 ? 4 : 64); m *= 2)
		v += warp_xor(v, m);
	return v;
}

/* Column @col of the @j'th product in the columns of a warp. */
template <class T> static DEV inline int mma_col(int j, int col, bool trans)
{
	if (mma_pairs<T>::yes && trans)
		return j / 2 * 2 * MMA_N + col * 2 + j % 2;
	return j * MMA_N + col;
}

#endif
