/* SPDX-License-Identifier: MIT */
/*
 * The little of the kernel that the pure files of kmod/ use, for user space: a
 * spinlock is a mutex that knows its owner, a WARN counts, and the rest is as there.
 */
#ifndef RLX_SHIM_KERNEL_H
#define RLX_SHIM_KERNEL_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#define U32_MAX		UINT32_MAX
#define U64_MAX		UINT64_MAX
#define READ_ONCE(x)	__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define smp_mb()	__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define __must_hold(l)
#ifndef __always_inline
#define __always_inline	inline __attribute__((always_inline))
#endif
#define container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))
#define swap(a, b)	\
	do { __typeof__(a) swap_ = (a); (a) = (b); (b) = swap_; } while (0)
#define min(a, b)	((a) < (b) ? (a) : (b))
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* WARN_ON_ONCE() here warns each time, so that a test can look at the count. */
extern unsigned int rlx_shim_warned;
#define WARN_ON_ONCE(c)	rlx_shim_warn((c), #c, __FILE__, __LINE__)
static inline bool rlx_shim_warn(bool c, const char *what, const char *file, int line)
{
	if (c) {
		__atomic_add_fetch(&rlx_shim_warned, 1, __ATOMIC_RELAXED);
		fprintf(stderr, "%s:%d: WARN_ON_ONCE(%s)\n", file, line, what);
	}
	return c;
}

/* ---- bits ---- */
#define BITS_PER_LONG	(8 * (int)sizeof(long))
#define BITS_TO_LONGS(n) (((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define BIT(n)		(1UL << (n))

static inline unsigned long __ffs(unsigned long w)
{
	return (unsigned long)__builtin_ctzl(w);
}

static inline void __set_bit(unsigned long n, unsigned long *map)
{
	map[n / BITS_PER_LONG] |= 1UL << (n % BITS_PER_LONG);
}

static inline u32 array_index_nospec(u32 i, u32 n)
{
	return i < n ? i : 0;
}

/* ---- lists ---- */
struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *h)
{
	h->next = h->prev = h;
}

static inline void list_add(struct list_head *n, struct list_head *h)
{
	n->next = h->next;
	n->prev = h;
	h->next->prev = n;
	h->next = n;
}

static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	list_add(n, h->prev);
}

static inline void list_del_init(struct list_head *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	INIT_LIST_HEAD(n);
}

static inline void list_move(struct list_head *n, struct list_head *h)
{
	list_del_init(n);
	list_add(n, h);
}

static inline void list_move_tail(struct list_head *n, struct list_head *h)
{
	list_del_init(n);
	list_add_tail(n, h);
}

static inline bool list_empty(const struct list_head *h)
{
	return h->next == h;
}

#define list_entry(p, type, member)	container_of(p, type, member)
#define list_first_entry(h, type, member) list_entry((h)->next, type, member)
#define list_last_entry(h, type, member) list_entry((h)->prev, type, member)
#define list_for_each_entry(e, h, member)				\
	for (e = list_first_entry(h, __typeof__(*e), member);		\
	     &e->member != (h);						\
	     e = list_entry(e->member.next, __typeof__(*e), member))

/* ---- locks ---- */
typedef struct {
	pthread_mutex_t	mutex;
	pthread_t	owner;
	bool		held;
} spinlock_t;

static inline void spin_lock_init(spinlock_t *l)
{
	pthread_mutex_init(&l->mutex, NULL);
	l->held = false;
}

static inline void spin_lock(spinlock_t *l)
{
	pthread_mutex_lock(&l->mutex);
	l->owner = pthread_self();
	l->held = true;
}

static inline void spin_unlock(spinlock_t *l)
{
	l->held = false;
	pthread_mutex_unlock(&l->mutex);
}

#define lockdep_assert_held(l) \
	((void)WARN_ON_ONCE(!(l)->held || !pthread_equal((l)->owner, pthread_self())))

#endif
