/* SPDX-License-Identifier: MIT */
/*
 * Products of small matrices by a whole wave: d[M][N] += a[M][K] b[K][N], halves in
 * and f32 out. Which elements a lane holds is said by row() and col() functions;
 * CUDA's tensor cores (M 16, N 8, K 16), AMD's of gfx90a and gfx942 (16, 16, 16), and
 * shuffles where there is neither. The emulator does either by the wave's width.
 */
#ifndef RLX_G_MMA_H
#define RLX_G_MMA_H

#include "kernels/gpu/dialect.h"

enum { MMA_M = 16, MMA_K = 16 };

#if RLX_WAVE == 32

enum { MMA_N = 8, MMA_A = 4, MMA_B = 2, MMA_C = 4 };	/* words of a, b; floats of c */

static DEV inline int mma_a_row(int i) { return lane_id() / 4 + i / 2 % 2 * 8; }
static DEV inline int mma_a_col(int i) { return lane_id() % 4 * 2 + i % 2 + i / 4 * 8; }
static DEV inline int mma_b_row(int i) { return lane_id() % 4 * 2 + i % 2 + i / 2 * 8; }
static DEV inline int mma_b_col(int i) { return lane_id() / 4; }
static DEV inline int mma_c_row(int i) { return lane_id() / 4 + i / 2 * 8; }
static DEV inline int mma_c_col(int i) { return lane_id() % 4 * 2 + i % 2; }

#else

enum { MMA_N = 16, MMA_A = 2, MMA_B = 2, MMA_C = 4 };

static DEV inline int mma_a_row(int i) { return lane_id() % 16; }
static DEV inline int mma_a_col(int i) { return lane_id() / 16 * 4 + i; }
static DEV inline int mma_b_row(int i) { return lane_id() / 16 * 4 + i; }
static DEV inline int mma_b_col(int i) { return lane_id() % 16; }
static DEV inline int mma_c_row(int i) { return lane_id() / 16 * 4 + i; }
static DEV inline int mma_c_col(int i) { return lane_id() % 16; }

#endif

/* The kinds of halves: T is f16 or bf16. */
template <class T> struct mma_kind;
template <> struct mma_kind<f16> { enum { bf = 0 }; };
template <> struct mma_kind<bf16> { enum { bf = 1 }; };

#if defined(RLX_EMU)

template <class T> static DEV inline void mma(float *c, const uint32_t *a, const uint32_t *b)
{
	struct emu_wave_op op = { EMU_OP_MMA, __LINE__, 0,
				  mma_kind<T>::bf ? EMU_MMA_BF16 : EMU_MMA_F16, 0, a, b, c };

	emu_wave(&op);
}

#define MMA_LDMATRIX	(RLX_WAVE == 32)
static DEV inline void ldmatrix(uint32_t *d, const void *row, int n, bool trans)
{
	struct emu_wave_op op = { EMU_OP_LDMATRIX, __LINE__, n, trans, 0, row, 0, d };

	emu_wave(&op);
}

#elif defined(__HIP__) || defined(__HIPCC__) || defined(__HIPCC_RTC__)

#define MMA_LDMATRIX	0
static DEV inline void ldmatrix(uint32_t *d, const void *row, int n, bool trans) {}

#if RLX_WAVE == 64 && (defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx942__))
typedef float mma_f32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 mma_f16x4 __attribute__((ext_vector_type(4)));
typedef short mma_i16x4 __attribute__((ext_vector_type(4)));

template <class T> static DEV inline void mma(float *c, const uint32_t *a, const uint32_t *b)
{
	mma_f32x4 d;

	__builtin_memcpy(&d, c, sizeof(d));
	if constexpr (mma_kind<T>::bf) {
		mma_i16x4 x, y;

		__builtin_memcpy(&x, a, sizeof(x));
		__builtin_memcpy(&y, b, sizeof(y));
		d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, d, 0, 0, 0);
	} else {
		mma_f16x4 x, y;

		__builtin_memcpy(&x, a, sizeof(x));
		__builtin_memcpy(&y, b, sizeof(y));
		d = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, d, 0, 0, 0);
	}
	__builtin_memcpy(c, &d, sizeof(d));
}
#else
#define MMA_BY_SHUFFLES	1
#endif

#else	/* CUDA */

template <class T> static DEV inline void mma(float *c, const uint32_t *a, const uint32_t *b)
{
	if constexpr (mma_kind<T>::bf)
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
			     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
			       "r"(b[0]), "r"(b[1]));
	else
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
			     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
			       "r"(b[0]), "r"(b[1]));
}

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
/* For chips without such an instruction: every lane collects its rows and columns. */
template <class T> static DEV inline void mma(float *c, const uint32_t *a, const uint32_t *b)
{
	float sum[MMA_C] = {};

	for (int i = 0; i < MMA_C; i++)
		for (int k = 0; k < MMA_K; k++) {
			int row = mma_c_row(i), col = mma_c_col(i);
			float x = 0, y = 0;

			/* the word and the lane that hold a[row][k] and b[k][col] */
			for (int w = 0; w < MMA_A; w++) {
#if RLX_WAVE == 32
				bool mine = w == row / 8 + k / 8 * 2;
				int from = row % 8 * 4 + k % 8 / 2;
#else
				bool mine = w == k % 4 / 2;
				int from = row + k / 4 * 16;
#endif
				uint32_t v = shuffle(a[w], from);
				T h = { (uint16_t)(v >> k % 2 * 16) };

				x = mine ? to_f32(h) : x;
			}
			for (int w = 0; w < MMA_B; w++) {
#if RLX_WAVE == 32
				bool mine = w == k / 8;
				int from = col * 4 + k % 8 / 2;
#else
				bool mine = w == k % 4 / 2;
				int from = col + k / 4 * 16;
#endif
				uint32_t v = shuffle(b[w], from);
				T h = { (uint16_t)(v >> k % 2 * 16) };

				y = mine ? to_f32(h) : y;
			}
			sum[i] += x * y;
		}
	for (int i = 0; i < MMA_C; i++)
		c[i] += sum[i];
}
#endif

static DEV inline uint32_t two_halves(uint16_t low, uint16_t high)
{
	return (uint32_t)low | (uint32_t)high << 16;
}

/*
 * The fragment of a from shared memory, where element (row, k) lies at
 * s[row * ld + k], or at s[k * ld + row] if @trans. Rows start at 16 bytes.
 */
template <class T> static DEV inline void mma_load_a(uint32_t *a, const T *s, int ld,
						     bool trans)
{
	if constexpr (MMA_LDMATRIX) {
		int l = lane_id();

		if (trans)
			ldmatrix(a, s + (l % 8 + l / 16 * 8) * ld + l / 8 % 2 * 8, 4, true);
		else
			ldmatrix(a, s + l % 16 * ld + l / 16 * 8, 4, false);
		return;
	}
	for (int i = 0; i < MMA_A; i++) {
		int r0 = mma_a_row(2 * i), c0 = mma_a_col(2 * i);
		int r1 = mma_a_row(2 * i + 1), c1 = mma_a_col(2 * i + 1);

		a[i] = two_halves(trans ? s[c0 * ld + r0].u : s[r0 * ld + c0].u,
				  trans ? s[c1 * ld + r1].u : s[r1 * ld + c1].u);
	}
}

/* Of b: element (k, col) at s[col * ld + k], or at s[k * ld + col] if @trans. */
template <class T> static DEV inline void mma_load_b(uint32_t *b, const T *s, int ld,
						     bool trans)
{
	if constexpr (MMA_LDMATRIX) {
		int l = lane_id();

		if (trans)
			ldmatrix(b, s + l % 16 * ld, 2, true);
		else
			ldmatrix(b, s + l % 8 * ld + l / 8 % 2 * 8, 2, false);
		return;
	}
	for (int i = 0; i < MMA_B; i++) {
		int r0 = mma_b_row(2 * i), c0 = mma_b_col(2 * i);
		int r1 = mma_b_row(2 * i + 1), c1 = mma_b_col(2 * i + 1);

		b[i] = two_halves(trans ? s[r0 * ld + c0].u : s[c0 * ld + r0].u,
				  trans ? s[r1 * ld + c1].u : s[c1 * ld + r1].u);
	}
}

#endif
