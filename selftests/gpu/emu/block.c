// SPDX-License-Identifier: MIT
// Runs a grid: fibers for the threads of a block, warps, barriers, a pool for blocks.
#include "emu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu_device.h"

enum lane_state { LANE_READY, LANE_WARP, LANE_PHASE, LANE_BARRIER, LANE_DONE };

struct async_copy {
	void		*dst;
	const void	*src;
	unsigned int	n, from;	/* bytes written, of which read */
	unsigned int	group;
};

/* A product of the lane's group, under way. */
struct product {
	struct emu_wgmma_op	op;
	unsigned int		group;
};

/* A tile on its way to shared memory, for a barrier. */
struct tile {
	void		*to;
	const void	*map;
	uint64_t	*bar;
	int		at[4], off[2];	/* off: in im2col mode */
	bool		waited;		/* who asked for it, for the launch ahead */
};

/* A barrier that counts: arrivals left of this phase, and bytes. */
struct bar {
	uint16_t	count, left;
	int32_t		bytes : 31;
	uint32_t	phase : 1;
};
_Static_assert(sizeof(struct bar) == 8, "a barrier has 8 bytes");

struct lane {
	void		*sp;
	enum lane_state	state;
	unsigned int	tid[3];
	int		line;		/* of the barrier it waits at */
	struct emu_warp_op op;
	unsigned int	shared_at;	/* next static shared variable */
	unsigned int	group;		/* of asynchronous copies */
	struct async_copy *copy;
	unsigned int	n_copy, cap_copy;
	struct product	*product;
	unsigned int	n_product, cap_product, products;	/* groups of them */
	const float	**loose;	/* sums that were waited for, and not settled */
	unsigned int	n_loose, cap_loose;
	const uint64_t	*bar;		/* it waits for the end of this phase of it */
	int		phase;
	bool		waited;		/* for the launch ahead */
};

/* One host thread's place to run blocks in. */
struct worker {
	struct emu_block	b;
	struct lane		*lane;
	char			*stacks;
	void			*sp;		/* of the scheduler */
	struct lane		*self;
	uint16_t		warp_epoch[EMU_MAX_THREADS / 32];
	unsigned int		bid[3], threads;
	unsigned int		shared_static;
	const struct emu_launch	*l;
	int			failed;
	uint64_t		resumed;	/* lanes, so far */
	struct tile		*tile;
	unsigned int		n_tile, cap_tile;
};

static __thread struct worker *worker EMU_TLS;
__thread struct emu_block *emu_block EMU_TLS;

#if defined(__x86_64__)
/*
 * Leave this stack, of which @from keeps the place, for another. In line and by a jump: processors
 * predict where calls return to by how they are nested, which those of fibers are not.
 */
static inline __attribute__((always_inline)) void emu_switch(void **from, void *to)
{
	/* a leaf function may have variables in the 128 bytes below its stack */
	__asm__ volatile("sub $128,%%rsp\n\tpush %%rbp\n\tlea 1f(%%rip),%%rax\n\tpush %%rax\n\t"
			 "mov %%rsp,(%0)\n\tmov %1,%%rsp\n\tpop %%rax\n\tjmp *%%rax\n"
			 "1:\tpop %%rbp\n\tadd $128,%%rsp"
			 : "+D"(from), "+S"(to)
			 :
			 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
			   "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
			   "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
			   "cc", "memory");
}
#else
#error "the emulator's fibers know x86-64 only"
#endif

static void lane_yield(enum lane_state s)
{
	struct worker *w = worker;

	w->self->state = s;
	emu_switch(&w->self->sp, w->sp);
}

/* A kernel did what it must not: the block ends here and never goes on. */
static int lane_fail(const char *what, const void *p, unsigned int n)
{
	struct worker *w = worker;

	if (!w->failed) {
		w->failed = EMU_ILLEGAL_ADDRESS;
		emu_complain("%s: block (%u,%u,%u) thread (%u,%u,%u): %s, %u bytes at %p",
			     w->l->kernel->name, w->bid[0], w->bid[1], w->bid[2],
			     w->self->tid[0], w->self->tid[1], w->self->tid[2],
			     what, n, p);
	}
	lane_yield(LANE_DONE);
	return 0;
}

static void lane_main(void)
{
	struct worker *w = worker;

	w->l->kernel->entry((const void *const *)w->l->params);
	w = worker;
	if (w->self->n_copy)
		lane_fail("ends with asynchronous copies under way", NULL, 0);
	if (w->self->n_product)
		lane_fail("ends with products under way", NULL, 0);
	if (w->self->n_loose)
		lane_fail("ends with sums of products that were not settled", NULL, 0);
	lane_yield(LANE_DONE);
	__builtin_trap();
}

static void lane_start(struct worker *w, unsigned int i)
{
	struct lane *l = &w->lane[i];
	void **sp = (void **)(w->stacks + (size_t)(i + 1) * EMU_STACK);
	const unsigned int *d = w->l->block;

	/* where emu_switch() goes on, with the stack as after a call */
	*--sp = NULL;
	*--sp = (void *)lane_main;
	l->sp = sp;
	l->state = LANE_READY;
	l->tid[0] = i % d[0];
	l->tid[1] = i / d[0] % d[1];
	l->tid[2] = i / d[0] / d[1];
	l->shared_at = 0;
	l->group = 0;
	l->n_copy = 0;
	l->n_product = l->products = 0;
	l->n_loose = 0;
	l->waited = false;
}

static void lane_resume(struct worker *w, unsigned int i)
{
	w->self = &w->lane[i];
	w->resumed++;
	w->b.thread = (uint16_t)i;
	w->b.warp_epoch = w->warp_epoch[i >> w->b.warp_bits];
	w->b.waited = w->self->waited;
	emu_switch(&w->sp, w->self->sp);
}

static void warp_fail(struct worker *w, unsigned int i, const char *what)
{
	if (!w->failed)
		emu_complain("%s: block (%u,%u,%u) thread %u: %s",
			     w->l->kernel->name, w->bid[0], w->bid[1],
			     w->bid[2], i, what);
	w->failed = EMU_LAUNCH_FAILED;
}

/* All lanes of the warp stand at an operation: is it the same, then do it. */
static void warp_operate(struct worker *w, unsigned int first, unsigned int n)
{
	struct emu_warp_op *op[64];

	for (unsigned int i = 0; i < n; i++) {
		struct lane *l = &w->lane[first + i];

		if (l->state != LANE_WARP || l->op.kind != w->lane[first].op.kind ||
		    l->op.line != w->lane[first].op.line) {
			warp_fail(w, first + i, "a warp diverges at an operation of all its lanes");
			return;
		}
		op[i] = &l->op;
	}
	if (n < (unsigned int)w->b.warp) {
		warp_fail(w, first, "an operation of a warp that is not full");
		return;
	}
	if (op[0]->kind == EMU_OP_SYNC)
		w->warp_epoch[first / (unsigned int)w->b.warp]++;
	else if (!emu_warp_do(op, (int)n))
		warp_fail(w, first, "an operation of a warp with a wrong lane");
	for (unsigned int i = 0; i < n; i++)
		w->lane[first + i].state = LANE_READY;
}

static bool phase_over(const struct lane *l)
{
	struct bar b;

	memcpy(&b, l->bar, sizeof(b));
	return (int)b.phase != l->phase;
}

/* Is there something for a lane to do that waits for a phase? */
static bool can_go_on(const struct worker *w, const struct lane *l)
{
	for (unsigned int i = 0; i < w->n_tile; i++)
		if (w->tile[i].bar == l->bar)
			return true;
	return phase_over(l);
}

/* Run a warp until all of it waits at a barrier or is done. */
static void warp_run(struct worker *w, unsigned int first, unsigned int n)
{
	while (!w->failed) {
		unsigned int at = 0, waiting = 0;

		for (unsigned int i = first; i < first + n && !w->failed; i++) {
			struct lane *l = &w->lane[i];

			if (l->state == LANE_READY || (l->state == LANE_PHASE && can_go_on(w, l)))
				lane_resume(w, i);
			at += l->state == LANE_WARP;
			waiting += l->state == LANE_PHASE;
		}
		/* others may have to go on before all of the warp can meet */
		if (w->failed || !at || waiting)
			return;
		warp_operate(w, first, n);
	}
}

static void block_barrier(struct worker *w)
{
	int line = 0;

	for (unsigned int i = 0; i < w->threads; i++) {
		struct lane *l = &w->lane[i];

		if (l->state != LANE_BARRIER)
			continue;
		if (line && l->line != line) {
			warp_fail(w, i, "threads of a block wait at different barriers");
			return;
		}
		line = l->line;
		l->state = LANE_READY;
	}
	w->b.epoch++;
}

/* Does a lane stand at a barrier in shared memory, or a warp before all have come? */
static bool some_wait(const struct worker *w)
{
	for (unsigned int i = 0; i < w->threads; i++)
		if (w->lane[i].state == LANE_PHASE || w->lane[i].state == LANE_WARP)
			return true;
	return false;
}

static int block_run(struct worker *w)
{
	unsigned int warp = (unsigned int)w->b.warp;
	bool some = true;

	w->failed = 0;
	w->n_tile = 0;
	w->b.epoch++;
	memset(w->b.shared, 0xff, w->b.shared_bytes);
	for (unsigned int i = 0; i < w->threads; i++)
		lane_start(w, i);
	while (some && !w->failed) {
		uint64_t resumed = w->resumed;
		unsigned int done = 0;

		for (unsigned int i = 0; i < w->threads && !w->failed; i += warp)
			warp_run(w, i, w->threads - i < warp ? w->threads - i : warp);
		if (!w->failed && some_wait(w)) {
			if (w->resumed == resumed)
				warp_fail(w, 0, "threads wait for a phase that does not end");
			continue;
		}
		for (unsigned int i = 0; i < w->threads; i++)
			done += w->lane[i].state == LANE_DONE;
		some = done < w->threads;
		if (some && done && !w->failed)
			warp_fail(w, 0, "some threads of a block ended, others wait at a barrier");
		if (some && !w->failed)
			block_barrier(w);
	}
	if (w->n_tile && !w->failed)
		warp_fail(w, 0, "the block ends before a tile has come");
	return w->failed;
}

static struct worker *worker_new(void)
{
	struct worker *w = calloc(1, sizeof(*w));
	size_t bytes = (size_t)EMU_MAX_THREADS * EMU_STACK;

	if (!w)
		return NULL;
	w->lane = calloc(EMU_MAX_THREADS, sizeof(*w->lane));
	w->stacks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	w->b.shared = mmap(NULL, EMU_SHARED_MAX + 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!w->lane || w->stacks == MAP_FAILED || w->b.shared == MAP_FAILED ||
	    emu_access_init(&w->b))
		return NULL;
	w->b.stacks = w->stacks;
	w->b.stacks_end = w->stacks + bytes;
	w->b.warp = emu_config.warp;
	w->b.fail = lane_fail;
	return w;
}

/* ---- what kernels call: see emu_device.h ---- */

EMU_API struct emu_dim emu_thread_idx(void)
{
	const unsigned int *t = worker->self->tid;

	return (struct emu_dim){ t[0], t[1], t[2] };
}

EMU_API struct emu_dim emu_block_idx(void)
{
	const unsigned int *t = worker->bid;

	return (struct emu_dim){ t[0], t[1], t[2] };
}

EMU_API struct emu_dim emu_block_dim(void)
{
	const unsigned int *t = worker->l->block;

	return (struct emu_dim){ t[0], t[1], t[2] };
}

EMU_API struct emu_dim emu_grid_dim(void)
{
	const unsigned int *t = worker->l->grid;

	return (struct emu_dim){ t[0], t[1], t[2] };
}

EMU_API void emu_barrier(int line)
{
	worker->self->line = line;
	lane_yield(LANE_BARRIER);
}

EMU_API void emu_warp(struct emu_warp_op *op)
{
	struct lane *l = worker->self;

	if (op->kind == EMU_OP_LDMATRIX && !emu_config.fast &&
	    l - worker->lane - worker->b.thread / 32 * 32 < 8 * op->lane)
		emu_access(op->a, 16, false);
	l->op = *op;
	lane_yield(LANE_WARP);
	l = worker->self;
	op->value = l->op.value;
}

/*
 * Static variables follow the dynamic part; every thread asks in the same order. They
 * count against what the attribute allows the dynamic part to be, as on the device.
 */
EMU_API void *emu_shared(unsigned int bytes)
{
	struct worker *w = worker;
	unsigned int at = (w->l->shared + 127) / 128 * 128 + w->self->shared_at;
	unsigned int end = w->self->shared_at + bytes, most = w->l->kernel->max_dynamic;

	if (end > EMU_SHARED_STATIC || at + bytes > EMU_SHARED_MAX ||
	    (most ? most + end > EMU_SHARED_MAX : w->l->shared + end > EMU_SHARED_STATIC))
		lane_fail("too much static shared memory beside the dynamic", NULL, bytes);
	w->self->shared_at += (bytes + 127) / 128 * 128;
	if (at + bytes > w->b.shared_bytes) {
		memset(w->b.shared + w->b.shared_bytes, 0xff,
		       at + bytes - w->b.shared_bytes);
		w->b.shared_bytes = at + bytes;
	}
	return w->b.shared + at;
}

EMU_API void *emu_shared_dynamic(void)
{
	return worker->b.shared;
}

/* One more entry in a list of @size bytes each; NULL: no memory. */
static void *one_more(void *list, unsigned int n, unsigned int *cap, size_t size)
{
	void *p, *old;

	memcpy(&old, list, sizeof(old));
	if (n == *cap) {
		p = realloc(old, (size_t)(*cap ? *cap * 2 : 32) * size);
		if (!p) {
			lane_fail("no memory for what is under way", NULL, 0);
			return NULL;
		}
		*cap = *cap ? *cap * 2 : 32;
		memcpy(list, &p, sizeof(p));
		old = p;
	}
	return (char *)old + n * size;
}

/* The bytes arrive when they are waited for, the latest that hardware may be. */
EMU_API void emu_copy_async(void *dst, const void *src, unsigned int n,
			    unsigned int from)
{
	struct lane *l = worker->self;
	struct async_copy *c;

	if (((uintptr_t)dst | (from ? (uintptr_t)src : 0)) % n)
		lane_fail("an asynchronous copy that is not aligned", dst, n);
	/* hardware may as well be quick: a reader of now is in its way */
	if (!emu_config.fast) {
		emu_access(dst, n, true);
		if (from)
			emu_access(src, from, false);
	}
	c = one_more(&l->copy, l->n_copy, &l->cap_copy, sizeof(*c));
	if (c) {
		*c = (struct async_copy){ dst, src, n, from, l->group };
		l->n_copy++;
	}
}

EMU_API void emu_copy_commit(void)
{
	worker->self->group++;
}

EMU_API void emu_copy_wait(unsigned int left)
{
	struct lane *l = worker->self;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < l->n_copy; i++) {
		struct async_copy *c = &l->copy[i];

		if (c->group + left >= l->group) {
			l->copy[kept++] = *c;
			continue;
		}
		if (!emu_config.fast)
			emu_access(c->dst, c->n, true);
		memcpy(c->dst, c->src, c->from);
		memset((char *)c->dst + c->from, 0, c->n - c->from);
	}
	l->n_copy = kept;
}

static void check_bar(const uint64_t *bar)
{
	uint64_t at = (uint64_t)((const unsigned char *)bar - worker->b.shared);

	if (at + 8 > worker->b.shared_bytes || at % 8)
		lane_fail("a barrier that is not in shared memory", bar, 8);
}

EMU_API void emu_bar_init(uint64_t *bar, int n)
{
	struct bar b = { .count = (uint16_t)n, .left = (uint16_t)n };

	check_bar(bar);
	memcpy(bar, &b, sizeof(b));
}

/* @arrivals and @bytes more, or fewer. */
static void bar_change(uint64_t *bar, int arrivals, int bytes)
{
	struct bar b;

	check_bar(bar);
	memcpy(&b, bar, sizeof(b));
	if (arrivals > b.left)
		lane_fail("an arrival too many", bar, 8);
	b.left = (uint16_t)(b.left - arrivals);
	b.bytes += bytes;
	if (!b.left && !b.bytes) {
		b.left = b.count;
		b.phase ^= 1;
		worker->b.epoch++;	/* orders all before and after, of whatever barrier */
	}
	memcpy(bar, &b, sizeof(b));
}

EMU_API void emu_bar_arrive(uint64_t *bar, int bytes)
{
	bar_change(bar, 1, bytes);
}

/* The tiles that a barrier counts have come. */
static void tiles_arrive(struct worker *w, const uint64_t *bar)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < w->n_tile; i++) {
		struct tile t = w->tile[i];

		if (t.bar != bar) {
			w->tile[kept++] = t;
			continue;
		}
		w->b.waited = t.waited;
		emu_tile_copy(t.to, t.map, t.at, t.off);
		w->b.waited = w->self->waited;
		bar_change(t.bar, 0, -(int)emu_tile_bytes(t.map));
	}
	w->n_tile = kept;
}

EMU_API void emu_bar_wait(uint64_t *bar, int phase)
{
	struct lane *l = worker->self;

	check_bar(bar);
	l->bar = bar;
	l->phase = phase;
	for (tiles_arrive(worker, bar); !phase_over(l); tiles_arrive(worker, bar))
		lane_yield(LANE_PHASE);
}

static void tile_begin(void *to, const void *map, uint64_t *bar, const int *at, const int *off)
{
	struct worker *w = worker;
	uint64_t first = (uint64_t)((unsigned char *)to - w->b.shared);
	unsigned int n = emu_tile_bytes(map);
	struct tile *t;

	if (!n || (uintptr_t)map % 64)
		lane_fail("a tile by what is not a map", map, 128);
	else if (!emu_tile_may(map, at, off))
		lane_fail("a tile by a map of another mode, or from outside of its box", map, 128);
	if (first % 1024 || first + n > w->b.shared_bytes)
		lane_fail("a tile to where none can be", to, n);
	t = one_more(&w->tile, w->n_tile, &w->cap_tile, sizeof(*t));
	if (t) {
		*t = (struct tile){ to, map, bar, { at[0], at[1], at[2], at[3] },
				    { off ? off[0] : 0, off ? off[1] : 0 }, w->self->waited };
		w->n_tile++;
	}
}

EMU_API void emu_tma_load(void *to, const void *map, uint64_t *bar, const int *at)
{
	tile_begin(to, map, bar, at, NULL);
}

EMU_API void emu_tma_load_im2col(void *to, const void *map, uint64_t *bar, const int *at,
				 const int *off)
{
	tile_begin(to, map, bar, at, off);
}

/* True: @d was waited for since it was last settled or added to. */
static bool no_longer_loose(struct lane *l, const float *d)
{
	unsigned int i = 0;

	while (i < l->n_loose && l->loose[i] != d)
		i++;
	if (i == l->n_loose)
		return false;
	l->loose[i] = l->loose[--l->n_loose];
	return true;
}

static void now_loose(struct lane *l, const float *d)
{
	const float **p;

	no_longer_loose(l, d);	/* once is enough */
	p = one_more(&l->loose, l->n_loose, &l->cap_loose, sizeof(*p));
	if (p) {
		*p = d;
		l->n_loose++;
	}
}

EMU_API void emu_wgmma_settle(const void *d)
{
	no_longer_loose(worker->self, d);
}

EMU_API void emu_wgmma(const struct emu_wgmma_op *op)
{
	struct lane *l = worker->self;
	struct product *p;

	if (no_longer_loose(l, op->d) && !op->more)
		lane_fail("a product over sums that were not settled", op->d, 4);
	p = one_more(&l->product, l->n_product, &l->cap_product, sizeof(*p));

	if (p) {
		*p = (struct product){ *op, l->products };
		l->n_product++;
	}
}

EMU_API void emu_wgmma_commit(void)
{
	worker->self->products++;
}

EMU_API void emu_wgmma_wait(int left)
{
	struct lane *l = worker->self;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < l->n_product; i++) {
		struct product *p = &l->product[i];

		if (p->group + (unsigned int)left >= l->products) {
			l->product[kept++] = *p;
			continue;
		}
		emu_wgmma_part(&p->op, (int)(l - worker->lane) % 128);
		now_loose(l, p->op.d);
	}
	l->n_product = kept;
}

/* ---- the pool ---- */

static struct {
	pthread_mutex_t		lock;
	pthread_cond_t		work, done;
	const struct emu_launch	*l;
	atomic_uint_fast64_t	next;
	uint64_t		blocks, step;
	atomic_int		failed;
	atomic_bool		waited;		/* some thread, for the launch ahead */
	int			helpers, active;
	uint64_t		generation;
	bool			started;
} pool = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
};

EMU_API void emu_pdl_wait(void)
{
	worker->self->waited = worker->b.waited = true;
	/* all threads say so: a look is cheaper, where several write */
	if (!atomic_load_explicit(&pool.waited, memory_order_relaxed))
		atomic_store(&pool.waited, true);
}

static pthread_mutex_t grid_lock = PTHREAD_MUTEX_INITIALIZER;

static void blocks_run(const struct emu_launch *l)
{
	struct worker *w = worker;
	uint64_t i;

	if (!w)
		w = worker = worker_new();
	if (!w) {
		atomic_store(&pool.failed, EMU_OUT_OF_MEMORY);
		return;
	}
	w->l = l;
	w->b.kernel = l->kernel;
	w->b.early = l->early;
	w->b.run = l->run;
	w->b.shared_bytes = l->shared;
	w->threads = l->block[0] * l->block[1] * l->block[2];
	emu_block = &w->b;
	emu_access_reset(&w->b);
	while (!atomic_load(&pool.failed) &&
	       (i = atomic_fetch_add(&pool.next, 1)) < pool.blocks) {
		/* a walk through all blocks in an order that is not theirs */
		i = (uint64_t)((unsigned __int128)i * pool.step % pool.blocks);
		w->bid[0] = (unsigned int)(i % l->grid[0]);
		w->bid[1] = (unsigned int)(i / l->grid[0] % l->grid[1]);
		w->bid[2] = (unsigned int)(i / l->grid[0] / l->grid[1]);
		if (block_run(w))
			atomic_store(&pool.failed, w->failed);
	}
	emu_block = NULL;
}

static void *helper(void *arg)
{
	uint64_t seen = 0;

	pthread_mutex_lock(&pool.lock);
	for (;;) {
		const struct emu_launch *l;

		while (pool.generation == seen || !pool.l)
			pthread_cond_wait(&pool.work, &pool.lock);
		seen = pool.generation;
		l = pool.l;
		pool.active++;
		pthread_mutex_unlock(&pool.lock);
		blocks_run(l);
		pthread_mutex_lock(&pool.lock);
		if (--pool.active == 0)
			pthread_cond_signal(&pool.done);
	}
	return arg;
}

static void pool_start(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t t;

	pool.started = true;
	for (long i = 1; i < n && i < 8; i++)
		if (!pthread_create(&t, NULL, helper, NULL)) {
			pthread_detach(t);
			pool.helpers++;
		}
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	return b ? gcd(b, a % b) : a;
}

int emu_check_launch(const struct emu_launch *l)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
	uint32_t most = EMU_SHARED_STATIC;

	if (l->kernel->max_dynamic > most)
		most = l->kernel->max_dynamic;
	for (int i = 0; i < 3; i++)
		if (!l->grid[i] || !l->block[i])
			return EMU_INVALID_VALUE;
	if (l->grid[0] > 0x7fffffff || l->grid[1] > 65535 || l->grid[2] > 65535 ||
	    l->block[0] > 1024 || l->block[1] > 1024 || l->block[2] > 64 ||
	    threads > EMU_MAX_THREADS || l->shared > most)
		return EMU_INVALID_VALUE;
	return threads > (uint64_t)l->kernel->max_threads ? EMU_OUT_OF_RESOURCES : 0;
}

int emu_run_grid(const struct emu_launch *l)
{
	int err;

	pthread_mutex_lock(&grid_lock);
	if (!pool.started)
		pool_start();
	emu_mem_open();
	pthread_mutex_lock(&pool.lock);
	pool.blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	pool.step = pool.blocks * 5 / 8 + emu_config.seed % 97 + 1;
	while (gcd(pool.step, pool.blocks) != 1)
		pool.step++;
	atomic_store(&pool.next, 0);
	atomic_store(&pool.failed, 0);
	atomic_store(&pool.waited, false);
	if (pool.blocks > 1 && pool.helpers) {
		pool.l = l;
		pool.generation++;
		pthread_cond_broadcast(&pool.work);
	}
	pthread_mutex_unlock(&pool.lock);
	blocks_run(l);
	pthread_mutex_lock(&pool.lock);
	pool.l = NULL;
	while (pool.active)
		pthread_cond_wait(&pool.done, &pool.lock);
	err = atomic_load(&pool.failed);
	if (!err && !atomic_load(&pool.waited)) {	/* nor would who waits for this one */
		emu_complain("%s: ends and has not waited for the launch ahead", l->kernel->name);
		err = EMU_LAUNCH_FAILED;
	}
	pthread_mutex_unlock(&pool.lock);
	emu_mem_close();
	pthread_mutex_unlock(&grid_lock);
	return err;
}
