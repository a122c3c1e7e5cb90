/* SPDX-License-Identifier: MIT */
/*
 * A small TAP harness. A test program lists functions with TEST(name) { ... },
 * ends with TEST_MAIN(), and runs all or those named on its command line; each
 * runs in a child with a timeout, so a crash or hang is one failure.
 */
#ifndef RLX_TEST_H
#define RLX_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Built with the thread sanitizer? With the address sanitizer? */
#if defined(__has_feature)
#define RLX_TEST_TSAN	__has_feature(thread_sanitizer)
#define RLX_TEST_ASAN	__has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define RLX_TEST_TSAN	1
#else
#define RLX_TEST_TSAN	0
#endif
#ifdef __SANITIZE_ADDRESS__
#define RLX_TEST_ASAN	1
#else
#define RLX_TEST_ASAN	0
#endif
#endif

struct rlx_test {
	const char	*name;
	void		(*fn)(void);
	struct rlx_test	*next;
};

void rlx_test_add(struct rlx_test *t);
int rlx_test_main(int argc, char **argv);
/*
 * The same by the conventions of the kernel's selftests, for programs that its runner may run:
 * KTAP with the plan in front, and exit status 0 (passed), 1 (failed) or 4 (all were skipped).
 */
int rlx_test_ktap(int argc, char **argv);
/* Is @name among the arguments, or are there none? */
bool rlx_test_wanted(const char *name, int argc, char **argv);
void rlx_test_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
/* The reason must stand in selftests/expect/skips.txt, else it is a failure. */
void rlx_test_skip(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#define TEST(n)								\
	static void test_##n(void);					\
	static struct rlx_test rlx_test_##n = { #n, test_##n, NULL };	\
	__attribute__((constructor)) static void add_##n(void)		\
	{								\
		rlx_test_add(&rlx_test_##n);				\
	}								\
	static void test_##n(void)

#ifdef RLX_TEST_KTAP
#define RLX_TEST_RUN	rlx_test_ktap
#else
#define RLX_TEST_RUN	rlx_test_main
#endif
#define TEST_MAIN()							\
	int main(int argc, char **argv)					\
	{								\
		return RLX_TEST_RUN(argc, argv);			\
	}

#define CHECK(c)							\
	do {								\
		if (!(c))						\
			rlx_test_fail(__FILE__, __LINE__, "%s", #c);	\
	} while (0)
#define CHECKF(c, ...)							\
	do {								\
		if (!(c))						\
			rlx_test_fail(__FILE__, __LINE__, __VA_ARGS__);	\
	} while (0)
#define CHECK_EQ(a, b)							\
	do {								\
		long long a_ = (long long)(a), b_ = (long long)(b);	\
		if (a_ != b_)						\
			rlx_test_fail(__FILE__, __LINE__,		\
				      "%s is %lld, not %s (%lld)",	\
				      #a, a_, #b, b_);			\
	} while (0)
#define CHECK_STR(a, b)							\
	do {								\
		const char *a_ = (a), *b_ = (b);			\
		if (!a_ || strcmp(a_, b_))				\
			rlx_test_fail(__FILE__, __LINE__,		\
				      "%s is \"%s\", not \"%s\"",	\
				      #a, a_ ? a_ : "(null)", b_);	\
	} while (0)

/* A fresh seed each process; RLX_TEST_SEED replays one. Printed on failure. */
uint64_t rlx_test_seed(void);
uint64_t rlx_test_rand(uint64_t *state);
double rlx_test_uniform(uint64_t *state, double lo, double hi);

/* The larger error; NaN, of which fmax() knows nothing, stays. */
static inline double rlx_test_worse(double worst, double error)
{
	return worst != worst || error <= worst ? worst : error;
}

/*
 * Is less gone than @seconds since @from, by CLOCK_MONOTONIC in ns, or than as much longer as what
 * else runs makes this machine slow?
 */
bool rlx_test_within(uint64_t from, double seconds);

/* Seconds of processor time that this process has taken: for times that are held against others. */
double rlx_test_cpu(void);

#endif
