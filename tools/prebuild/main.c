// SPDX-License-Identifier: MIT
/*
 * Builds GPU kernels for hosts that have a driver and no compiler: those of
 * kernels/gpu/prebuilt.def, for every chip that the compilers found here know.
 *
 *	prebuild [-q[FIRST]] FOLDER [JOBS]
 *
 * Needs no GPU. Says what it leaves out, which is then compiled where it runs.
 *
 * -q is for who wants to know whether all of them compile: with little optimization, but
 * for every eighth, from the one FIRST says, else from any, which is compiled as it is to run.
 * Nothing loads what the others are compiled to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/gpu/kernel_binary.h"

struct prebuilt {
	enum rlx_g_variant	variant;
	union rlx_g_param	param;
	int			only;	/* number of the one chip that can; 0: all */
	const char		*text;	/* of pointwise code; NULL: a variant */
};

static const struct prebuilt list[] = {
#define PREBUILT(n, ...)		{ RLX_G_##n, { .n = { __VA_ARGS__ } }, 0 },
#define PREBUILT_ON(chip, n, ...)	{ RLX_G_##n, { .n = { __VA_ARGS__ } }, chip },
#define PREBUILT_TEXT(source)		{ .text = source },
#include "kernels/gpu/prebuilt.def"
};
enum { COUNT = sizeof(list) / sizeof(list[0]), FULL_EACH = 8 };

/* Those of the list that are compiled as they are to run, even with -q. */
static int full_from;

static struct gpu_kernel kernel_of(const struct prebuilt *p)
{
	if (p->text)
		return gpu_kernel_of_text(p->text, false);
	return gpu_kernel_of(p->variant, &p->param, 0);
}

static bool build(const struct rlx_gpu_vendor *v, const struct gpu_chip *c,
		  const struct prebuilt *p, bool quick, const char *dir, struct rlx_error *err)
{
	const struct gpu_kernel k = kernel_of(p);
	/* of what one chip alone runs nobody wants text */
	const struct gpu_target t = { c, p->only ? NULL : gpu_chip_text(v, c), quick };

	*err = (struct rlx_error){ 0 };
	return !gpu_image_build(v, &t, &k, dir, err);
}

static void say(const struct gpu_chip *c, const struct prebuilt *p, const struct rlx_error *err)
{
	const struct gpu_kernel k = kernel_of(p);
	char params[512];

	gpu_params_text(&k, params, sizeof(params));
	fprintf(stderr, "prebuild: %s: %s%s: %s\n", c->option, k.name, params, err->text);
}

/* One of @jobs: every so many-th of the list. */
static int share(const struct rlx_gpu_vendor *v, const struct gpu_chip *c, bool quick,
		 const char *dir, int first, int jobs)
{
	bool text = c->serves == GPU_CHIP_TEXT;
	struct rlx_error err;
	int i, wrong = 0;

	for (i = first; i < COUNT; i += jobs) {
		const struct prebuilt *p = &list[i];

		if (p->only && (text || v != &rlx_gpu_cuda ||
				p->only != c->major * 10 + c->minor))
			continue;
		if (build(v, c, p, quick && i % FULL_EACH != full_from, dir, &err))
			continue;
		say(c, p, &err);
		wrong = 1;
	}
	return wrong;
}

/* Some compilers fall over chips that they do not know: a child asks. Or over the option. */
static bool knows(const struct rlx_gpu_vendor *v, const struct gpu_chip *c, bool quick,
		  const char *dir)
{
	struct rlx_error err;
	pid_t pid;
	int st;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		st = build(v, c, &list[0], quick, dir, &err) ? 0 : 1;
		if (st && !quick)
			printf("left out: %s: %s\n", c->option, err.text);
		fflush(stdout);
		_exit(st);
	}
	if ((pid < 0 || waitpid(pid, &st, 0) < 0 || WIFSIGNALED(st)) && !quick)
		printf("left out: %s: the compiler does not know it\n", c->option);
	return pid > 0 && !st;
}

/* @made: then set to the chip whose kernels came of the same compilations. */
static int chip(const struct rlx_gpu_vendor *v, const struct gpu_chip *c, bool quick,
		const char *dir, int jobs, const struct gpu_chip **made)
{
	int i, st, wrong = 0, here = 0;

	quick = quick && knows(v, c, true, dir);
	if (!quick && !knows(v, c, false, dir))
		return 0;
	*made = gpu_chip_text(v, c);
	fflush(stdout);
	for (i = 0; i < jobs; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(share(v, c, quick, dir, i, jobs));
		here += pid > 0;
		wrong |= pid < 0;
	}
	for (i = 0; i < here; i++)
		wrong |= wait(&st) < 0 || st;
	return wrong;
}

int main(int argc, char **argv)
{
	static const struct rlx_gpu_vendor *const vendors[] = { &rlx_gpu_cuda, &rlx_gpu_rocm };
	bool quick = argc > 1 && !strncmp(argv[1], "-q", 2);
	const char *why, *first = quick ? argv[1] + 2 : "";
	int jobs, wrong = 0;
	const struct gpu_chip *c, *made = NULL;
	unsigned int i;

	argc -= quick;
	argv += quick;
	jobs = argc > 2 ? atoi(argv[2]) : 1;
	if (argc < 2 || argc > 3 || jobs < 1 || strspn(first, "0123456789") != strlen(first)) {
		fprintf(stderr, "usage: prebuild [-q[FIRST]] FOLDER [JOBS]\n");
		return 2;
	}
	if (quick) {
		full_from = (int)((*first ? strtoull(first, NULL, 10) : (uint64_t)time(NULL)) %
				  FULL_EACH);
		printf("in full: each %dth from %d on (-q%d)\n", FULL_EACH, full_from, full_from);
	}
	for (i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++) {
		if (!gpu_rtc_get(vendors[i], &why)) {
			printf("left out: all kernels for %s's chips: %s\n", vendors[i]->title, why);
			continue;
		}
		for (c = vendors[i]->chips; c->option; c++)
			if (c != made)
				wrong |= chip(vendors[i], c, quick, argv[1], jobs, &made);
	}
	return wrong;
}
