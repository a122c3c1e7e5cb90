// SPDX-License-Identifier: MIT
// Checks every access of a kernel; the calls are those g++ -fsanitize=thread makes.
#include "emu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emu_device.h"

/* Who touched a byte of shared memory last, and after which barrier. */
struct emu_mark {
	uint32_t	w_epoch, r_epoch;
	uint16_t	w_thread, w_warp, r_warp;
	uint16_t	r_thread : 14, r_many : 2;	/* 1: others of the warp, 2: other warps */
};
_Static_assert(sizeof(struct emu_mark) == 16 && EMU_MAX_THREADS <= 1 << 14,
	       "marks are compared and copied as a whole");

int emu_access_init(struct emu_block *b)
{
	b->marks = mmap(NULL, (EMU_SHARED_MAX + 4096) * sizeof(*b->marks),
			PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	b->epoch = 1;
	return b->marks == MAP_FAILED;
}

/* Epochs run on from one block to the next, so marks need no clearing. */
void emu_access_reset(struct emu_block *b)
{
	b->epoch += 2;
	b->warp = emu_config.warp;
	b->warp_bits = __builtin_ctz((unsigned int)b->warp);
}

static bool other_warp(const struct emu_block *b, uint16_t thread)
{
	return (thread ^ b->thread) >> b->warp_bits;
}

/* Did another thread touch it with nothing between that orders the two? */
static bool unordered(const struct emu_block *b, uint32_t epoch, uint16_t thread,
		      uint16_t warp_epoch)
{
	if (epoch != b->epoch || thread == b->thread)
		return false;
	return other_warp(b, thread) || warp_epoch == b->warp_epoch;
}

static const char *race(struct emu_block *b, struct emu_mark *m, bool write)
{
	if (unordered(b, m->w_epoch, m->w_thread, m->w_warp))
		return write ? "writes shared memory that another thread wrote" :
			       "reads shared memory that another thread writes";
	if (write) {
		if (unordered(b, m->r_epoch, m->r_thread, m->r_warp) ||
		    (m->r_epoch == b->epoch &&
		     (m->r_many > 1 || (m->r_many && m->r_warp == b->warp_epoch))))
			return "writes shared memory that another thread reads";
		m->w_epoch = b->epoch;
		m->w_thread = b->thread;
		m->w_warp = b->warp_epoch;
		return NULL;
	}
	if (m->r_epoch != b->epoch || m->r_warp != b->warp_epoch) {
		if (m->r_epoch != b->epoch || m->r_many < 2)
			m->r_many = m->r_epoch == b->epoch && other_warp(b, m->r_thread) ? 2 : 0;
	} else if (m->r_thread != b->thread) {
		int far = other_warp(b, m->r_thread);

		if (m->r_many < 1 + far)
			m->r_many = (uint16_t)(1 + far);
	}
	m->r_epoch = b->epoch;
	m->r_thread = b->thread;
	m->r_warp = b->warp_epoch;
	return NULL;
}

/*
 * An access to @n bytes of shared memory, of which *@at is the one where something is wrong. Bytes
 * of one word mostly have the same marks: then to each happens what does to the first.
 */
static const char *race_all(struct emu_block *b, uint64_t *at, unsigned int n, bool write)
{
	struct emu_mark *first = &b->marks[*at], *m, before = *first;
	const char *what = race(b, first, write);

	for (m = first + 1; m < first + n && !what; m++) {
		if (!memcmp(m, &before, sizeof(before)))
			*m = *first;
		else
			what = race(b, m, write);
	}
	*at += (uint64_t)(m - 1 - first);
	return what;
}

/*
 * Of memory that other launches see, in their place one by one: what is wrong where one may begin
 * before the launch ahead has ended?
 */
static const char *too_early(const struct emu_block *b, const void *p, unsigned int n, bool write)
{
	if (!b->waited && write)
		return "a write before the launch ahead was waited for";
	if (!emu_mem_reserved(p) || !b->run)
		return NULL;
	if (write)
		emu_mem_wrote(p, n, b->run);
	else if (b->early && !b->waited && emu_mem_is_of(p, n, b->run))
		return "a read, before the launch ahead was waited for, of what one ahead writes";
	return NULL;
}

static __attribute__((noinline)) void check(struct emu_block *b, const void *p, unsigned int n,
					    bool write)
{
	const char *early, *what;
	const char *c = p;
	uint64_t at;

	if (n <= 16 && !(n & (n - 1)) && (uintptr_t)p % n) {
		b->fail("a misaligned access", p, n);
		return;
	}
	at = (uint64_t)((const unsigned char *)p - b->shared);
	if (at < EMU_SHARED_MAX + 4096) {
		if (at + n > b->shared_bytes) {
			b->fail("an access beyond the shared memory", p, n);
			return;
		}
		what = race_all(b, &at, n, write);
		if (what)
			b->fail(what, (const char *)NULL + at, n);
		return;
	}
	if (c >= b->kernel->text && c < b->kernel->text_end)
		return;
	early = too_early(b, p, n, write);
	if (early) {
		b->fail(early, p, n);
		return;
	}
	if (emu_mem_reserved(p)) {
		if (!emu_mem_device(p, n, b->kernel->device))
			b->fail(write ? "a write outside of any allocation of its device" :
					"a read outside of any allocation of its device", p, n);
		return;
	}
	if (!emu_mem_registered(p, n))
		b->fail(write ? "a write to host memory that is not registered" :
				"a read of host memory that is not registered",
			p, n);
}

/* Of a thread's own stack, where most accesses are, nothing is asked. */
static inline void look(const void *p, unsigned int n, bool write)
{
	struct emu_block *b = emu_block;

	if (b && (uint64_t)((const char *)p - b->stacks) >= (uint64_t)(b->stacks_end - b->stacks))
		check(b, p, n, write);
}

void emu_access(const void *p, unsigned int n, bool write)
{
	look(p, n, write);
}

#define HOOKS(n)							\
	EMU_API void __tsan_read##n(void *p);				\
	EMU_API void __tsan_read##n(void *p) { look(p, n, false); } \
	EMU_API void __tsan_write##n(void *p);				\
	EMU_API void __tsan_write##n(void *p) { look(p, n, true); } \
	EMU_API void __tsan_unaligned_read##n(void *p);			\
	EMU_API void __tsan_unaligned_read##n(void *p) { look(p, n, false); } \
	EMU_API void __tsan_unaligned_write##n(void *p);		\
	EMU_API void __tsan_unaligned_write##n(void *p) { look(p, n, true); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

/* Blocks are fibers of one thread: what they write is there at once. */
EMU_API void __tsan_atomic_thread_fence(int order);
EMU_API void __tsan_atomic_thread_fence(int order)
{
	(void)order;
}

EMU_API void __tsan_read_range(void *p, unsigned long n);
EMU_API void __tsan_read_range(void *p, unsigned long n)
{
	look(p, (unsigned int)n, false);
}

EMU_API void __tsan_write_range(void *p, unsigned long n);
EMU_API void __tsan_write_range(void *p, unsigned long n)
{
	look(p, (unsigned int)n, true);
}

EMU_API void __tsan_init(void);
EMU_API void __tsan_init(void)
{
}

EMU_API void __tsan_func_entry(void *pc);
EMU_API void __tsan_func_entry(void *pc)
{
}

EMU_API void __tsan_func_exit(void *pc);
EMU_API void __tsan_func_exit(void *pc)
{
}

/* ---- atomics: no race among themselves, so only checked for where they are ---- */

static void atomic_access(void *p, unsigned int n)
{
	struct emu_block *b = emu_block;
	uint64_t at = (uint64_t)((unsigned char *)p - b->shared);

	if (emu_config.fast)
		return;
	if (at >= EMU_SHARED_MAX)
		emu_access(p, n, true);
	else if (at + n > b->shared_bytes || at % n)
		b->fail("an atomic operation beyond the shared memory", p, n);
}

static uint64_t combine(uint64_t old, uint64_t v, int kind, int type)
{
	enum { F32 = 2, I64 = 7, I32 = 8 };

	if (type == F32 && kind == 0) {
		float a, b;

		memcpy(&a, &old, 4);
		memcpy(&b, &v, 4);
		a += b;
		memcpy(&old, &a, 4);
		return old;
	}
	switch (kind) {
	case 0:
		return old + v;
	case 1:
		if (type == I32)
			return (int32_t)v < (int32_t)old ? v : old;
		return type == I64 ? ((int64_t)v < (int64_t)old ? v : old) :
				     (v < old ? v : old);
	case 2:
		if (type == I32)
			return (int32_t)v > (int32_t)old ? v : old;
		return type == I64 ? ((int64_t)v > (int64_t)old ? v : old) :
				     (v > old ? v : old);
	case 4:
		return old | v;
	default:
		return v;
	}
}

EMU_API uint64_t emu_atomic_cas(void *p, uint64_t expected, uint64_t v, int bytes)
{
	atomic_access(p, (unsigned int)bytes);
	if (bytes == 4) {
		uint32_t e = (uint32_t)expected;

		__atomic_compare_exchange_n((uint32_t *)p, &e, (uint32_t)v, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		return e;
	}
	__atomic_compare_exchange_n((uint64_t *)p, &expected, v, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return expected;
}

EMU_API uint64_t emu_atomic(void *p, uint64_t v, int kind, int type)
{
	int bytes = type == 7 || type == 11 ? 8 : 4;
	uint64_t old;

	atomic_access(p, (unsigned int)bytes);
	do {
		old = bytes == 4 ? __atomic_load_n((uint32_t *)p, __ATOMIC_SEQ_CST) :
				   __atomic_load_n((uint64_t *)p, __ATOMIC_SEQ_CST);
	} while (emu_atomic_cas(p, old, combine(old, v, kind, type), bytes) != old);
	return old;
}
