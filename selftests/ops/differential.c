// SPDX-License-Identifier: MIT
/*
 * Ops and small graphs drawn by chance, by each backend against the evaluation in f64:
 * new ones each time. What is wrong is made small and printed.
 *
 *	RLX_FUZZ_CASES=100000 build/test/ops/differential
 *	RLX_FUZZ_CASE=SEED build/test/ops/differential single_ops
 *	RLX_FUZZ_OP=pool build/test/ops/differential single_ops
 *
 * The first draws that many cases of each kind (otherwise as many as 30 seconds allow);
 * the second only that of the seed that a failure told; the third that op alone, whose
 * seeds mean nothing without it. RLX_TEST_GPU names a device to test in place of the
 * host's backends. planted_in_ops and _graphs see whether errors would be found.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ir/element.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/rlx_test.h"

enum { BATCH = 256, SECONDS = 30, MOST_FINDINGS = 5, CASE_SECONDS = 60 };

typedef void draw_fn(struct fuzz_case *c, uint64_t seed);

/* What a process that checks cases has come to. */
struct progress {
	uint64_t	seed;		/* of the case at hand */
	const char	*device;
	uint32_t	done;
	double		end;		/* draw none after this time; 0: no end */
	char		text[FUZZ_TEXT];
};

static const char *const *devices(void)
{
	static const char *host[] = { "ref", "cpu", NULL }, *gpu[2];

	gpu[0] = getenv("RLX_TEST_GPU");
	return gpu[0] ? gpu : host;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* In a process of its own: @n cases, or up to the first that is wrong. */
static void check_batch(draw_fn *draw, struct progress *p, uint64_t seed, uint32_t n)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	const char *const *d;

	CHECK(c);
	for (p->done = 0; p->done < n && !(p->end > 0 && now() > p->end); p->done++) {
		alarm(CASE_SECONDS);
		p->seed = rlx_test_rand(&seed);
		draw(c, p->seed);
		for (d = devices(); *d; d++) {
			p->device = *d;
			if (!fuzz_check(c, *d, p->text))
				_exit(1);
		}
	}
	_exit(0);
}

/* Tell of one case what is wrong with it, made small; true: nothing is. */
static bool report(draw_fn *draw, const struct progress *p)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	char text[FUZZ_TEXT] = "", line[4096];
	FILE *f = tmpfile();
	bool right;

	CHECK(c && f);
	draw(c, p->seed);
	right = fuzz_check_apart(c, p->device, text);
	if (!right) {
		fuzz_shrink(c, p->device);
		fuzz_check_apart(c, p->device, text);
	}
	printf("# RLX_FUZZ_CASE=%llu: %s\n", (unsigned long long)p->seed, right ? "right" : text);
	fuzz_print(c, f);
	rewind(f);
	while (fgets(line, sizeof(line), f))
		printf("# %s", line);
	fclose(f);
	free(c);
	return right;
}

static bool one_batch(draw_fn *draw, struct progress *p, uint64_t *seed, uint32_t n)
{
	pid_t pid;
	int st;

	p->done = 0;
	p->text[0] = 0;
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		check_batch(draw, p, *seed, n);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	*seed = rlx_test_rand(seed);	/* far from the states of this batch's cases */
	if (WIFEXITED(st) && !WEXITSTATUS(st))
		return true;
	if (WIFSIGNALED(st))
		printf("# %s: %s\n", p->device, strsignal(WTERMSIG(st)));
	else
		printf("# %s\n", p->text);
	if (report(draw, p))
		printf("# not wrong by itself, only behind others of its process\n");
	return false;
}

static void fuzz(draw_fn *draw)
{
	struct progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *cases = getenv("RLX_FUZZ_CASES"), *one = getenv("RLX_FUZZ_CASE");
	uint64_t seed = rlx_test_seed(), left = cases ? strtoull(cases, NULL, 0) : UINT64_MAX;
	uint64_t done = 0;
	unsigned int found = 0;

	CHECK(p != MAP_FAILED);
	CHECKF(fuzz_has_ops(), "RLX_FUZZ_OP=%s: no such op is drawn", getenv("RLX_FUZZ_OP"));
	p->end = cases ? 0 : now() + SECONDS;
	if (one) {
		p->seed = strtoull(one, NULL, 0);
		for (const char *const *d = devices(); *d; d++) {
			p->device = *d;
			found += !report(draw, p);
		}
		CHECKF(!found, "it is wrong");
		return;
	}
	while (left && found < MOST_FINDINGS && (cases || now() < p->end)) {
		found += !one_batch(draw, p, &seed, left < BATCH ? (uint32_t)left : BATCH);
		left -= left < BATCH ? left : BATCH;
		done += p->done;
	}
	printf("# %llu cases, seed %llu\n", (unsigned long long)done,
	       (unsigned long long)rlx_test_seed());
	CHECKF(!found, "%u of %llu cases", found, (unsigned long long)done);
}

/* ---- errors that are planted in what a device gave ---- */

struct plant {
	uint64_t	seed;
	bool		done;		/* there was a place for it */
};

/*
 * One float that is a number gets a thousandth of the largest more, or half of it where 16 bits or
 * fewer; an integer is 1 off.
 */
static void plant(void *ctx, struct rlx_tensor *out, unsigned int n)
{
	struct plant *p = ctx;
	struct rlx_tensor t = n ? out[rlx_test_rand(&p->seed) % n] : (struct rlx_tensor){ 0 };
	int64_t count = n ? rlx_type_count(&t.type) : 0, i, at;
	double most = 1, v;

	if (!count || t.type.dtype == RLX_C64)
		return;
	at = (int64_t)(rlx_test_rand(&p->seed) % (uint64_t)count);
	p->done = true;
	if (el_is_int(t.type.dtype)) {
		el_seti(&t, at, el_geti(&t, at) ^ 1);
		return;
	}
	for (i = 0; i < count; i++) {
		v = fabs(el_get(&t, i));
		most = isfinite(v) && v > most ? v : most;
	}
	v = el_get(&t, at);
	el_set(&t, at, v + most * (rlx_dtype_size(t.type.dtype) > 2 ? 0.001 : 0.5));
	p->done = isfinite(v) && el_get(&t, at) != v;
}

/* Of so many cases of @draw at least @want out of 100 errors are found. */
static void find_planted(draw_fn *draw, unsigned int cases, unsigned int want)
{
	struct fuzz_case *c = malloc(sizeof(*c));
	unsigned int planted = 0, found = 0, i;
	struct plant p = { rlx_test_seed(), false };
	char text[FUZZ_TEXT];

	CHECK(c);
	for (i = 0; i < cases; i++) {
		draw(c, rlx_test_rand(&p.seed));
		p.done = false;
		text[0] = 0;
		found += !fuzz_check_spoiled(c, "ref", plant, &p, text) && p.done;
		planted += p.done;
	}
	printf("# %u of %u planted errors found\n", found, planted);
	CHECKF(planted > cases / 4, "%u of %u had a place for one", planted, cases);
	CHECKF(found * 100 >= planted * want, "%u of %u found", found, planted);
	free(c);
}

TEST(planted_in_ops) { find_planted(fuzz_draw_op, 600, 90); }
TEST(planted_in_graphs) { find_planted(fuzz_draw_graph, 600, 85); }

TEST(single_ops) { fuzz(fuzz_draw_op); }
TEST(small_graphs) { fuzz(fuzz_draw_graph); }

TEST_MAIN()
