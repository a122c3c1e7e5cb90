// SPDX-License-Identifier: MIT
/*
 * Every sample of every op on a device: f32, bf16 and f16 results against the
 * float64 evaluation of the same (rounded) inputs, on poisoned outputs. A process
 * for each CPU takes its share, for most of the time goes into compiling.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

static double tolerance(const struct op_case *c, enum rlx_dtype real)
{
	double unit = real == RLX_BF16 ? 0x1p-7 : real == RLX_F16 ? 0x1p-10 : 0;

	return c->s.tol + unit * 2;
}

/* Integer and bool results may differ where a rounded float decides; only f32. */
static void check_case(struct op_case *c, unsigned int i, const char *device,
		       enum rlx_dtype real, bool fixed)
{
	struct op_result got, truth;
	struct op_case wide;
	struct rlx_error err;
	unsigned int k;
	double e;

	op_case_convert(&wide, c, real, RLX_F64);
	/* some ops and sub-graphs fix a dtype: the truth is then evaluated in it */
	if (op_case_run(&wide, "ref", &truth, &err))
		op_case_run(c, "ref", &truth, &err);
	WANT(!err.status, "%s sample %u: ref: %s", c->def->name, i, err.text);
	if (err.status)
		goto out_fini;
	c->fixed = fixed;
	op_case_run(c, device, &got, &err);
	WANT(!err.status, "%s sample %u (%s): %s: %s", c->def->name, i,
	     rlx_dtype_name(real), device, err.text);
	if (err.status)
		goto out_fini_truth;
	WANT(got.n_out == truth.n_out, "%s sample %u: outputs", c->def->name, i);
	for (k = 0; k < got.n_out; k++) {
		if (!rlx_dtype_is_float(got.type[k].dtype) && real != RLX_F32)
			continue;
		e = op_result_error(&got, &truth, k);
		WANT(e <= op_result_bound(&truth, k, tolerance(c, real)),
		     "%s sample %u output %u (%s) on %s: error %.3g over %.3g",
		     c->def->name, i, k, rlx_dtype_name(real), device, e,
		     tolerance(c, real));
	}
	op_result_fini(&got);
out_fini_truth:
	op_result_fini(&truth);
out_fini:
	op_case_fini(&wide);
}

enum { MOST_SHARES = 16 };

/* A whole test for one of several processes. */
struct share {
	const char	*device;
	enum rlx_dtype	 real;
	bool		 fixed;
	bool		(*wants)(const struct rlx_op_def *def);
	unsigned int	 mine, of;
};

/* Checks every @of-th sample, and counts all. Inputs do not depend on the share. */
static unsigned int check_share(const struct share *s)
{
	unsigned int d, i, n = 0;
	struct op_case c;
	uint64_t seed;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; seed = rlx_test_seed() + d * 1000 + i,
		     op_case_init(&c, rlx_op_defs[d], i, s->real, &seed); i++) {
			if ((!c.s.f32_only || s->real == RLX_F32) &&
			    (!s->wants || s->wants(rlx_op_defs[d])) && n++ % s->of == s->mine)
				check_case(&c, i, s->device, s->real, s->fixed);
			op_case_fini(&c);
		}
	return n;
}

static pid_t start_share(const struct share *s)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);	/* the harness stops its own child alone */
	check_share(s);
	fflush(NULL);
	exit(op_case_failures > 100 ? 100 : (int)op_case_failures);
}

void op_case_some(const char *device, enum rlx_dtype real, bool fixed,
		  bool (*wants)(const struct rlx_op_def *def))
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct share s = { device, real, fixed, wants, 0,
			   cpus < 1 ? 1 : cpus < MOST_SHARES ? (unsigned int)cpus : MOST_SHARES };
	pid_t pid[MOST_SHARES];
	unsigned int i, n;
	int st;

	rlx_test_seed();	/* one for all */
	for (i = 1; i < s.of; i++) {
		s.mine = i;
		pid[i] = start_share(&s);
		CHECK(pid[i] > 0);
	}
	s.mine = 0;
	n = check_share(&s);
	for (i = 1; i < s.of; i++) {
		CHECK_EQ(waitpid(pid[i], &st, 0), pid[i]);
		CHECKF(WIFEXITED(st), "a process ended by signal %d", WTERMSIG(st));
		op_case_failures += (unsigned int)WEXITSTATUS(st);
	}
	CHECKF(n > 100, "only %u samples", n);
	CHECKF(!op_case_failures, "%u of %u samples failed", op_case_failures, n);
}

void op_case_all(const char *device, enum rlx_dtype real, bool fixed)
{
	op_case_some(device, real, fixed, NULL);
}
