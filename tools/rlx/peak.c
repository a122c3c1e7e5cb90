// SPDX-License-Identifier: MIT
/*
 * The machine's limits. Multiply-add chains are written in assembler, since a
 * compiler is free to do less; enough of them that none waits for its result.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/rlx/out.h"
#include "tools/rlx/peak.h"

enum { ROUNDS = 4, MAX_THREADS = 256 };
static const size_t read_bytes = (size_t)128 << 20;

enum gate { SHUT, OPEN, OFF };

struct job {
	int		 what;		/* enum below */
	const char	*mem;
	size_t		 bytes;
	atomic_int	*gate;		/* all begin together, or not at all */
	double		 amount, end;	/* flops or bytes of this thread */
};

enum { FMA_BASE, FMA_V3, FMA_V4, DOT_BF16, TILE_BF16, READ };

#if defined(__x86_64__)
#define R4(insn, r, a, b, c, d)						\
	insn r "30, %%" r "31, %%" r #a "\n" insn r "30, %%" r "31, %%" r #b "\n" \
	insn r "30, %%" r "31, %%" r #c "\n" insn r "30, %%" r "31, %%" r #d "\n"
#define ZMM24(insn)							\
	R4(insn " %%", "zmm", 0, 1, 2, 3) R4(insn " %%", "zmm", 4, 5, 6, 7) \
	R4(insn " %%", "zmm", 8, 9, 10, 11)				\
	R4(insn " %%", "zmm", 16, 17, 18, 19)				\
	R4(insn " %%", "zmm", 20, 21, 22, 23)				\
	R4(insn " %%", "zmm", 24, 25, 26, 27)
#define YMM(r)	"vfmadd231ps %%ymm14, %%ymm15, %%ymm" #r "\n"
#define XMM(r)	"mulps %%xmm14, %%xmm" #r "\naddps %%xmm15, %%xmm" #r "\n"
#define TWELVE(m) m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11)
#define XZERO(r) "xorps %%xmm" #r ", %%xmm" #r "\n"
#define ZZERO(r) "vpxord %%zmm" #r ", %%zmm" #r ", %%zmm" #r "\n"
#define UPPER(m) m(16) m(17) m(18) m(19) m(20) m(21) m(22) m(23) m(24) m(25) m(26) m(27) m(30) m(31)
/*
 * @clear: all that the loop uses is 0, as what ran before may have left subnormal numbers there,
 * which take a hundred times as long. @after: leaves the upper halves clean for SSE.
 */
#define LOOP(n, clear, after, body)					\
	__asm__ volatile(clear "1:\n" body "sub $1, %0\njnz 1b\n" after "\n" \
		: "+r"(n) : : "cc", "xmm0", "xmm1", "xmm2", "xmm3",	\
		"xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
		"xmm11", "xmm14", "xmm15")

/* Four tiles of sums, 16 x 16 over 32 elements of bf16. */
static double spin_tiles(void)
{
	struct {
		uint8_t		palette, start_row, reserved[14];
		uint16_t	colsb[16];
		uint8_t		rows[16];
	} shape = { .palette = 1 };
	size_t n = 200000, i;
	double done = (double)n * 4 * 2 * 16 * 16 * 32;

	for (i = 0; i < 8; i++) {
		shape.rows[i] = 16;
		shape.colsb[i] = 64;
	}
	__asm__ volatile("ldtilecfg %1\n1:\n"
			 "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\ntdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"
			 "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\ntdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"
			 "sub $1, %0\njnz 1b\ntilerelease\n" : "+r"(n) : "m"(shape) : "cc");
	return done;
}

static double spin(int what)
{
	size_t n = 400000;
	double done = (double)n * 2;

	if (what == TILE_BF16)
		return spin_tiles();
	if (what == FMA_BASE) {
		LOOP(n, TWELVE(XZERO) XZERO(14) XZERO(15), "", TWELVE(XMM));
		return done * 12 * 4;
	}
	if (what == FMA_V3) {
		LOOP(n, "vzeroall\n", "vzeroall", TWELVE(YMM));
		return done * 12 * 8;
	}
	if (what == FMA_V4) {
		LOOP(n, "vzeroall\n" UPPER(ZZERO), "vzeroall", ZMM24("vfmadd231ps"));
		return done * 24 * 16;
	}
	LOOP(n, "vzeroall\n" UPPER(ZZERO), "vzeroall", ZMM24("vdpbf16ps"));
	return done * 24 * 32;
}
#else
typedef float v4 __attribute__((vector_size(16)));

/* The compiler's own multiply-adds; twelve chains that it may not merge. */
static double spin(int what)
{
	v4 acc[12], x = { 1, 1, 1, 1 }, y = { 0 };
	size_t n = 400000, i;
	int k;

	memset(acc, 0, sizeof(acc));
	for (i = 0; i < n; i++)
		for (k = 0; k < 12; k++) {
			acc[k] = acc[k] * x + y;
			__asm__ volatile("" : "+w"(acc[k]));
		}
	return what < READ ? (double)n * 2 * 12 * 4 : 0;
}
#endif

typedef uint64_t v8 __attribute__((vector_size(64)));

static double read_all(const char *p, size_t n)
{
	v8 a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	const v8 *v = (const v8 *)p;
	size_t i;

	for (i = 0; i < n / sizeof(*v); i += 4) {
		a ^= v[i];
		b ^= v[i + 1];
		c ^= v[i + 2];
		d ^= v[i + 3];
	}
	a ^= b ^ c ^ d;
	__asm__ volatile("" : : "m"(a));	/* the reads must happen */
	return (double)n;
}

static void *work(void *arg)
{
	struct job *j = arg;
	int gate;

	while ((gate = atomic_load(j->gate)) == SHUT)
		sched_yield();
	if (gate == OPEN)
		j->amount = j->what == READ ? read_all(j->mem, j->bytes) : spin(j->what);
	j->end = now();
	return NULL;
}

/* Giga-somethings a second of all threads together; 0 if it could not be. */
static double once(int what, unsigned int threads, const char *mem)
{
	struct job job[MAX_THREADS];
	pthread_t t[MAX_THREADS];
	size_t part = read_bytes / threads / 256 * 256;
	double begin, end = 0, sum = 0;
	atomic_int gate = SHUT;
	unsigned int i, n;

	for (i = 0; i < threads; i++)
		job[i] = (struct job){ what, mem ? mem + part * i : NULL, part, &gate };
	for (n = 1; n < threads; n++)
		if (pthread_create(&t[n], NULL, work, &job[n]))
			break;
	begin = now();
	atomic_store(&gate, n == threads ? OPEN : OFF);
	work(&job[0]);
	for (i = 1; i < n; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < n; i++) {
		sum += job[i].amount;
		end = job[i].end > end ? job[i].end : end;
	}
	return n == threads ? sum / (end - begin) * 1e-9 : 0;
}

static double best(int what, unsigned int threads, const char *mem)
{
	double top = 0, x;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		x = once(what, threads, mem);
		top = x > top ? x : top;
	}
	return top > 0 ? top : NAN;
}

/* NAN is nothing yet. */
static void raise_to(double *top, double x)
{
	if (isnan(*top) || x > *top)
		*top = x;
}

void peak_measure(const char *isa, unsigned int threads, struct peak *out)
{
	int fma = !strcmp(isa, "v3") ? FMA_V3 : *isa == 'v' ? FMA_V4 : FMA_BASE;
	char *mem;

	threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
	raise_to(&out->gflops, best(fma, threads, NULL));
	raise_to(&out->gflops_bf16, out->gflops);
	if (!strcmp(isa, "v4_amx"))
		raise_to(&out->gflops_bf16, best(TILE_BF16, threads, NULL));
	else if (!strcmp(isa, "v4x"))
		raise_to(&out->gflops_bf16, best(DOT_BF16, threads, NULL));
	mem = mmap(NULL, read_bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		return;
	madvise(mem, read_bytes, MADV_HUGEPAGE);
	memset(mem, 1, read_bytes);
	raise_to(&out->gbytes, best(READ, threads, mem));
	munmap(mem, read_bytes);
}
