/* SPDX-License-Identifier: MIT */
/*
 * Hopper (sm_90): mbarriers in shared memory that count threads and bytes, tiles that TMA
 * brings there by a tensor map, and wgmma, products of a warpgroup (four warps, 128 threads):
 * d[64][N] += a[64][16] b[16][N], of fp8 32 deep, which read both from shared memory.
 *
 * Tiles lie in rows of 128, 64 or 32 bytes, whose 16-byte parts TMA has swizzled (the tensor map
 * says so); they start at multiples of 1024 bytes.
 *
 * Source of the instructions' layouts: PTX ISA, "Asynchronous warpgroup level matrix
 * instructions" and "Tensor copies". Valid on sm_90a alone.
 */
#ifndef RLX_G_WGMMA_H
#define RLX_G_WGMMA_H

#include "kernels/gpu/dialect.h"

enum { GROUP = 128 };	/* threads whose products are one */

/* The next of @STAGES, and which of a barrier's two phases is that of its use. */
template <int STAGES> struct pipeline_state {
	int	stage, phase;

	DEV void next()
	{
		if (++stage == STAGES) {
			stage = 0;
			phase ^= 1;
		}
	}
};

/*
 * Where the 16-byte piece @c of row @r of a block stands: rows have 128 bytes, or 64,
 * which is for tiles that threads write.
 */
static DEV inline int tile_piece(int r, int c, int row)
{
	return c ^ (row == 128 ? r % 8 : r / 2 % 4);
}

/* Which elements of d a thread of the group holds. */
static DEV inline int wgmma_row(int i)
{
	return (int)threadIdx.x % GROUP / 32 * 16 + lane_id() / 4 + i / 2 % 2 * 8;
}

static DEV inline int wgmma_col(int i)
{
	return i / 4 * 8 + lane_id() % 4 * 2 + i % 2;
}

#if defined(RLX_EMU)

/* @n arrivals make a phase. */
static DEV inline void bar_init(uint64_t *bar, int n) { emu_bar_init(bar, n); }
static DEV inline void bar_inited(void) {}
static DEV inline void bar_arrive(uint64_t *bar) { emu_bar_arrive(bar, 0); }
static DEV inline void bar_expect(uint64_t *bar, int bytes) { emu_bar_arrive(bar, bytes); }
static DEV inline void bar_wait(uint64_t *bar, int phase) { emu_bar_wait(bar, phase); }

static DEV inline void bar_arrive_copies(uint64_t *bar)
{
	emu_copy_commit();
	emu_copy_wait(0);
	emu_bar_arrive(bar, 0);
}

typedef unsigned char *shared_at;
static DEV inline shared_at shared_from(void *p) { return (shared_at)p; }
static DEV inline void copy_16(shared_at to, const void *from) { copy_async(to, from, 16, 16); }
static DEV inline void copy_16_if(bool there, shared_at to, const void *from)
{
	copy_async(to, from, 16, there ? 16 : 0);
}

template <class T> static DEV inline void step_on(const T **p, int64_t bytes)
{
	*p = (const T *)((const char *)*p + bytes);
}

static DEV inline void tensor_map_acquire(const void *map) {}
static DEV inline void tma_load(void *to, const void *map, uint64_t *bar, const int *at)
{
	emu_tma_load(to, map, bar, at);
}

static DEV inline void tma_load_im2col(void *to, const void *map, uint64_t *bar, const int *at,
				       int right, int down)
{
	const int off[2] = { right, down };

	emu_tma_load_im2col(to, map, bar, at, off);
}

template <int N> static DEV inline void regs_more(void) {}
template <int N> static DEV inline void regs_fewer(void) {}

static DEV inline void order_first(int g, int groups) {}
static DEV inline void order_wait(int g) {}
static DEV inline void order_pass(int g, int groups) {}

static DEV inline void wgmma_see(void) {}
template <class T, int N> static DEV inline void wgmma_settle(T (&d)[N]) { emu_wgmma_settle(d); }
static DEV inline void wgmma_hold(float x) {}
static DEV inline void wgmma_fence(void) {}
static DEV inline void wgmma_commit(void) { emu_wgmma_commit(); }
template <int LEFT> static DEV inline void wgmma_wait(void) { emu_wgmma_wait(LEFT); }

/* A place in a tile, the bytes from there to the next block of columns, those of a row. */
struct tile_at {
	const unsigned char	*p;
	int			across, row;
};

template <int ROW = 128> static DEV inline tile_at tile_from(const void *p, int across)
{
	return tile_at{ (const unsigned char *)p, across, ROW };
}

static DEV inline tile_at tile_plus(tile_at t, int bytes)
{
	return tile_at{ t.p + bytes, t.across, t.row };
}

template <int N, bool BF, bool TA, bool TB>
static DEV inline void wgmma(float *d, tile_at a, tile_at b, bool more)
{
	struct emu_wgmma_op op = { d, a.p, b.p, b.across, b.row, N, BF, TA, TB, more, 0, {} };

	emu_wgmma(&op);
}

template <int N, bool A5, bool B5>
static DEV inline void wgmma_f8(float *d, tile_at a, tile_at b, bool more)
{
	struct emu_wgmma_op op = { d, a.p, b.p, b.across, b.row, N, 0, false, false, more,
				   1 | A5 << 1 | B5 << 2, {} };

	emu_wgmma(&op);
}

template <int N, bool BF>
static DEV inline void wgmma_lanes(float *d, const uint32_t *a, tile_at b)
{
	struct emu_wgmma_op op = { d, 0, b.p, b.across, b.row, N, BF, false, true, true, 0, {} };

	for (int i = 0; i < 4; i++)	/* of this lane's rows: four lanes have a part */
		for (int l = 0; l < 4; l++) {
			uint32_t w = shuffle(a[i], lane_id() / 4 * 4 + l);

			op.lanes[i % 2][i / 2 * 8 + l * 2] = (uint16_t)w;
			op.lanes[i % 2][i / 2 * 8 + l * 2 + 1] = (uint16_t)(w >> 16);
		}
	emu_wgmma(&op);
}

#else

static DEV inline void bar_init(uint64_t *bar, int n)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
		     :: "r"(shared_address(bar)), "r"(n) : "memory");
}

static DEV inline void bar_inited(void)
{
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static DEV inline void bar_arrive(uint64_t *bar)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
		     :: "r"(shared_address(bar)) : "memory");
}

/* Arrive when all that this thread copies by copy_async() or copy_16() has. */
static DEV inline void bar_arrive_copies(uint64_t *bar)
{
	asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
		     :: "r"(shared_address(bar)) : "memory");
}

/*
 * For many copies in a row: 16 bytes to shared memory by its own addresses, and a
 * pointer that goes on by one addition each, which the compiler may not make products.
 */
typedef uint32_t shared_at;

static DEV inline shared_at shared_from(const void *p)
{
	uint32_t at = shared_address(p);

	asm volatile("" : "+r"(at));
	return at;
}

static DEV inline void copy_16(shared_at to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
		     :: "r"(to), "l"(from) : "memory");
}

/* Zeros where nothing is @there, of which nothing is read. */
static DEV inline void copy_16_if(bool there, shared_at to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		     :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}

template <class T> static DEV inline void step_on(const T **p, int64_t bytes)
{
	asm volatile("add.s64 %0, %0, %1;" : "+l"(*p) : "l"(bytes));
}

/* Arrive; the phase has so many bytes to come. */
static DEV inline void bar_expect(uint64_t *bar, int bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
		     :: "r"(shared_address(bar)), "r"(bytes) : "memory");
}

static DEV inline void bar_wait(uint64_t *bar, int phase)
{
	asm volatile("{\n.reg .pred done;\nagain:\n"
		     "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
		     "@!done bra again;\n}"
		     :: "r"(shared_address(bar)), "r"(phase) : "memory");
}

/* The map has been written since the launch before. */
static DEV inline void tensor_map_acquire(const void *map)
{
	asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
		     :: "l"(map) : "memory");
}

static DEV inline void tma_load(void *to, const void *map, uint64_t *bar, const int *at)
{
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile"
		     ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
		     :: "r"(shared_address(to)), "l"(map), "r"(shared_address(bar)),
			"r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]) : "memory");
}

/*
 * Of images: channels from at[0] on of the pixels that follow the one at (at[1], at[2]) of
 * image at[3], where the first tap is, for the tap so many pixels to the right and down.
 */
static DEV inline void tma_load_im2col(void *to, const void *map, uint64_t *bar, const int *at,
				       int right, int down)
{
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
		     ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
		     :: "r"(shared_address(to)), "l"(map), "r"(shared_address(bar)),
			"r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
			"h"((uint16_t)right), "h"((uint16_t)down) : "memory");
}

template <int N> static DEV inline void regs_more(void)
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));
}

template <int N> static DEV inline void regs_fewer(void)
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N));
}

/*
 * Groups that take turns at the tensor cores, @g of them 0, 1 .. @groups - 1, then 0
 * again: order_first() once, then order_wait() and order_pass() each time.
 */
static DEV inline void order_wait(int g)
{
	asm volatile("bar.sync %0, %1;" :: "r"(1 + g), "n"(2 * GROUP) : "memory");
}

static DEV inline void order_pass(int g, int groups)
{
	asm volatile("bar.arrive %0, %1;" :: "r"(1 + (g + 1) % groups), "n"(2 * GROUP) : "memory");
}

static DEV inline void order_first(int g, int groups)
{
	if (g == groups - 1)
		order_pass(g, groups);
}

/* Products see what threads wrote before the barrier that was waited for. */
static DEV inline void wgmma_see(void)
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/*
 * Registers that products use are to be ready here, or not to be used before: the
 * compiler, unlike the assembler, does not know that sums come with the wait, and may read
 * them ahead of it.
 */
template <int N> static DEV inline void wgmma_settle(float (&d)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile("" : "+f"(d[i]) :: "memory");
}

template <int N> static DEV inline void wgmma_settle(uint32_t (&d)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile("" : "+r"(d[i]) :: "memory");
}

/*
 * What makes @x, 0 or more, is to be computed before the wait that follows: the
 * assembler would leave it all for after that. The nap is never taken.
 */
static DEV inline void wgmma_hold(float x)
{
	asm volatile("{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n"
		     "@p nanosleep.u32 1;\n}" :: "f"(x) : "memory");
}

/* Before a run of products, whose registers nobody touches until they are waited for */
static DEV inline void wgmma_fence(void)
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static DEV inline void wgmma_commit(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT> static DEV inline void wgmma_wait(void)
{
	asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(LEFT) : "memory");
}

/* A place in a tile, and the steps from there to the next 8 rows and block of columns. */
typedef uint64_t tile_at;

template <int ROW = 128> static DEV inline tile_at tile_from(const void *p, int across)
{
	return (uint64_t)(shared_address(p) >> 4 & 0x3fff) | (uint64_t)(across >> 4) << 16 |
	       (uint64_t)(8 * ROW >> 4) << 32 |
	       (uint64_t)(ROW == 128 ? 1 : ROW == 64 ? 2 : 3) << 62;
}

static DEV inline tile_at tile_plus(tile_at t, int bytes)
{
	return t + (uint64_t)(bytes >> 4);
}

#define WGMMA_R0	"%0,%1,%2,%3,%4,%5,%6,%7,"			\
			"%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_R1	"%16,%17,%18,%19,%20,%21,%22,%23,"			\
			"%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_R2	"%32,%33,%34,%35,%36,%37,%38,%39,"			\
			"%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_R3	"%48,%49,%50,%51,%52,%53,%54,%55,"			\
			"%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_R4	"%64,%65,%66,%67,%68,%69,%70,%71,"			\
			"%72,%73,%74,%75,%76,%77,%78,%79"
#define WGMMA_R5	"%80,%81,%82,%83,%84,%85,%86,%87,"			\
			"%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_R6	"%96,%97,%98,%99,%100,%101,%102,%103,"			\
			"%104,%105,%106,%107,%108,%109,%110,%111"
#define WGMMA_R7	"%112,%113,%114,%115,%116,%117,%118,%119,"			\
			"%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA_O8(i)	"+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
			"+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_O32(i)	WGMMA_O8(i), WGMMA_O8(i + 8), WGMMA_O8(i + 16), WGMMA_O8(i + 24)
#define WGMMA_R32	WGMMA_R0 "," WGMMA_R1
#define WGMMA_R64	WGMMA_R32 "," WGMMA_R2 "," WGMMA_R3
#define WGMMA_R96	WGMMA_R64 "," WGMMA_R4 "," WGMMA_R5
#define WGMMA_R128	WGMMA_R96 "," WGMMA_R6 "," WGMMA_R7

/* Operands are numbered: the registers first, then %A .. %E. */
#define WGMMA(N, KIND, R, A, B, C, D, E, ...)				\
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" C ", 0;\n"	\
		     "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." KIND \
		     " {" R "}, %" A ", %" B ", p, 1, 1, %" D ", %" E ";\n}" \
		     : __VA_ARGS__ : "l"(a), "l"(b), "r"((int)more), "n"(TA), "n"(TB))
/*
 * @more: add to what is there. @TA, @TB: k runs down the rows of the tile of a, b;
 * else along them.
 */
template <int N, bool BF, bool TA, bool TB>
static DEV inline void wgmma(float *d, tile_at a, tile_at b, bool more)
{
	static_assert(N == 32 || N == 64 || N == 128 || N == 160 || N == 192 || N == 256,
		      "no such product");
#define WGMMA_BOTH(...)							\
	do {								\
		if constexpr (BF)					\
			WGMMA_ONE("bf16.bf16", __VA_ARGS__);		\
		else							\
			WGMMA_ONE("f16.f16", __VA_ARGS__);		\
	} while (0)
#define WGMMA_ONE(KIND, N, R, A, B, C, D, E, ...)			\
	WGMMA(N, KIND, R, A, B, C, D, E, __VA_ARGS__)
	if constexpr (N == 32)
		WGMMA_BOTH("32", WGMMA_R0, "16", "17", "18", "19", "20", WGMMA_O8(0), WGMMA_O8(8));
	if constexpr (N == 64)
		WGMMA_BOTH("64", WGMMA_R32, "32", "33", "34", "35", "36", WGMMA_O32(0));
	if constexpr (N == 128)
		WGMMA_BOTH("128", WGMMA_R64, "64", "65", "66", "67", "68", WGMMA_O32(0),
			   WGMMA_O32(32));
	if constexpr (N == 160)
		WGMMA_BOTH("160", WGMMA_R64 "," WGMMA_R4, "80", "81", "82", "83", "84",
			   WGMMA_O32(0), WGMMA_O32(32), WGMMA_O8(64), WGMMA_O8(72));
	if constexpr (N == 192)
		WGMMA_BOTH("192", WGMMA_R96, "96", "97", "98", "99", "100", WGMMA_O32(0),
			   WGMMA_O32(32), WGMMA_O32(64));
	if constexpr (N == 256)
		WGMMA_BOTH("256", WGMMA_R128, "128", "129", "130", "131", "132", WGMMA_O32(0),
			   WGMMA_O32(32), WGMMA_O32(64), WGMMA_O32(96));
}

#define WGMMA_F8(N, KIND, R, A, B, C, ...)				\
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" C ", 0;\n"	\
		     "wgmma.mma_async.sync.aligned.m64n" N "k32.f32." KIND \
		     " {" R "}, %" A ", %" B ", p, 1, 1;\n}"		\
		     : __VA_ARGS__ : "l"(a), "l"(b), "r"((int)more))
#define WGMMA_F8_ONE(KIND, N, ...)	WGMMA_F8(N, KIND, __VA_ARGS__)
#define WGMMA_F8_ALL(...)						\
	do {								\
		if constexpr (A5 && B5)					\
			WGMMA_F8_ONE("e5m2.e5m2", __VA_ARGS__);		\
		else if constexpr (A5)					\
			WGMMA_F8_ONE("e5m2.e4m3", __VA_ARGS__);		\
		else if constexpr (B5)					\
			WGMMA_F8_ONE("e4m3.e5m2", __VA_ARGS__);		\
		else							\
			WGMMA_F8_ONE("e4m3.e4m3", __VA_ARGS__);		\
	} while (0)

/* Of fp8, e5m2 where A5, B5, else e4m3; k runs along the rows of both tiles. */
template <int N, bool A5, bool B5>
static DEV inline void wgmma_f8(float *d, tile_at a, tile_at b, bool more)
{
	static_assert(N == 64 || N == 128 || N == 192, "no such product");
	if constexpr (N == 64)
		WGMMA_F8_ALL("64", WGMMA_R32, "32", "33", "34", WGMMA_O32(0));
	if constexpr (N == 128)
		WGMMA_F8_ALL("128", WGMMA_R64, "64", "65", "66", WGMMA_O32(0), WGMMA_O32(32));
	if constexpr (N == 192)
		WGMMA_F8_ALL("192", WGMMA_R96, "96", "97", "98", WGMMA_O32(0), WGMMA_O32(32),
			     WGMMA_O32(64));
}

#define WGMMA_LANES(N, KIND, R, A, B, ...)				\
	asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"		\
		     "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." KIND \
		     " {" R "}, " A ", %" B ", p, 1, 1, 1;\n}"		\
		     : __VA_ARGS__ : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define WGMMA_LANES_BOTH(...)						\
	do {								\
		if constexpr (BF)					\
			WGMMA_LANES_ONE("bf16.bf16", __VA_ARGS__);	\
		else							\
			WGMMA_LANES_ONE("f16.f16", __VA_ARGS__);	\
	} while (0)
#define WGMMA_LANES_ONE(KIND, N, ...)	WGMMA_LANES(N, KIND, __VA_ARGS__)

/* d += a b, with a in registers, as mma() has it; k runs down the rows of the tile of b. */
template <int N, bool BF>
static DEV inline void wgmma_lanes(float *d, const uint32_t *a, tile_at b)
{
	static_assert(N == 32 || N == 64 || N == 96 || N == 128 || N == 256, "no such product");
	if constexpr (N == 32)
		WGMMA_LANES_BOTH("32", WGMMA_R0, "{%16,%17,%18,%19}", "20", WGMMA_O8(0),
				 WGMMA_O8(8));
	if constexpr (N == 64)
		WGMMA_LANES_BOTH("64", WGMMA_R32, "{%32,%33,%34,%35}", "36", WGMMA_O32(0));
	if constexpr (N == 96)
		WGMMA_LANES_BOTH("96", WGMMA_R32 "," WGMMA_R2, "{%48,%49,%50,%51}", "52",
				 WGMMA_O32(0), WGMMA_O8(32), WGMMA_O8(40));
	if constexpr (N == 128)
		WGMMA_LANES_BOTH("128", WGMMA_R64, "{%64,%65,%66,%67}", "68", WGMMA_O32(0),
				 WGMMA_O32(32));
	if constexpr (N == 256)
		WGMMA_LANES_BOTH("256", WGMMA_R128, "{%128,%129,%130,%131}", "132", WGMMA_O32(0),
				 WGMMA_O32(32), WGMMA_O32(64), WGMMA_O32(96));
}

#endif

#endif
