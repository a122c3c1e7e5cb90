// SPDX-License-Identifier: MIT
/*
 * A run on cpu allocates nothing and takes no lock. The program's own malloc and
 * pthread_mutex_lock stand before libc's and count, in all threads, while told to.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static atomic_bool watching;
static atomic_ulong heap_calls, lock_calls;

/* The sanitizers stand there themselves; then the library's own count must do. */
#if !RLX_TEST_ASAN && !RLX_TEST_TSAN
#define COUNTS_ALL	1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void heap_call(void)
{
	if (atomic_load_explicit(&watching, memory_order_relaxed))
		atomic_fetch_add(&heap_calls, 1);
}

void *malloc(size_t size)
{
	heap_call();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	heap_call();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	heap_call();
	return __libc_realloc(p, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	heap_call();
	return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	heap_call();
	*out = __libc_memalign(align, size);
	return *out ? 0 : ENOMEM;
}

static int (*real_lock)(pthread_mutex_t *);

__attribute__((constructor)) static void find_lock(void)
{
	void *p = dlsym(RTLD_NEXT, "pthread_mutex_lock");

	memcpy(&real_lock, &p, sizeof(p));
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
	if (atomic_load_explicit(&watching, memory_order_relaxed))
		atomic_fetch_add(&lock_calls, 1);
	return real_lock ? real_lock(m) : 0;	/* alone before the constructors */
}
#else
#define COUNTS_ALL	0
#endif

static struct rlx_session *session(unsigned int threads)
{
	struct rlx_session *s = rig_session(small_net(SMALL_NET_ALL, 4),
		&(struct rlx_compile_opts){
			.size = sizeof(struct rlx_compile_opts), .device = "cpu",
			.threads = threads, .flags = RLX_COMPILE_NATIVE });

	CHECK_EQ(small_net_fill(s, rlx_test_seed()), 0);
	return s;
}

static void runs(struct rlx_session *s, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

static void check_quiet(struct rlx_session *s)
{
	uint64_t before;

	runs(s, 2);
	before = rlx_alloc_count();
	atomic_store(&watching, true);
	runs(s, 100);
	atomic_store(&watching, false);
	CHECK_EQ(rlx_alloc_count(), before);
	CHECK_EQ(atomic_load(&heap_calls), 0);
	CHECK_EQ(atomic_load(&lock_calls), 0);
}

/* Else a run that called past the counters would pass. */
TEST(the_counters_count)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	void *volatile p;

	if (!COUNTS_ALL)
		return;
	atomic_store(&watching, true);
	p = malloc(10);
	free(p);
	p = calloc(3, 5);
	free(p);
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	atomic_store(&watching, false);
	CHECK_EQ(atomic_load(&heap_calls), 2);
	CHECK_EQ(atomic_load(&lock_calls), 1);
}

TEST(one_thread)
{
	struct rlx_session *s = session(1);

	check_quiet(s);
	rlx_session_free(s);
}

TEST(two_threads)
{
	struct rlx_session *s = session(2);

	check_quiet(s);
	rlx_session_free(s);
}

/* The thread that a submit started stays; runs by call do not meet it. */
TEST(after_a_submit)
{
	struct rlx_session *s = session(1);
	uint64_t point;

	CHECK_EQ(rlx_session_submit(s, &point), 0);
	CHECK_EQ(rlx_session_wait(s, point, -1), 0);
	check_quiet(s);
	rlx_session_free(s);
}

TEST(with_an_output_left_out_and_an_extent)
{
	static const char *const some[] = { "mlp", "conv" };
	struct rlx_session *s = session(1);

	CHECK_EQ(rlx_session_want(s, some, 2), 0);
	CHECK_EQ(rlx_session_extent(s, 3, 4), 0);
	check_quiet(s);
	rlx_session_free(s);
}

TEST_MAIN()
