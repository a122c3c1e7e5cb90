// SPDX-License-Identifier: MIT
/*
 * MiniLM-L6 with random weights on a GPU, in mixed f16 unless told otherwise, from input
 * ids in a host arena to the embedding in a host arena. The vector is compared with the
 * CPU's in f32 before anything is timed.
 *
 *	build/test/gpubench/minilm [DEVICE] [BATCH SEQ [PRECISION [steps]]]
 *	build/test/gpubench/minilm start
 *
 * DEVICE: cuda, vulkan. "steps" tells what each kind of step takes, one after the other; "start"
 * how long a new process takes to its first vector, and one to CUDA's context alone.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "rlx/bert.h"
#include "rt/session.h"
#include "selftests/lib/tiny_bert.h"

enum { WIDTH = 384, VOCAB = 30522, MOST_RUNS = 2000 };

static const char *chosen = "cuda";
static char dir[] = "/tmp/rlx-minilm-XXXXXX";

static void remove_dir(void)
{
	tb_remove(dir);
}

static void must(enum rlx_status st, const struct rlx_error *err)
{
	if (st) {
		fprintf(stderr, "minilm: %s: %s\n", rlx_status_name(st), err->text);
		exit(1);
	}
}

/* Weights about as large as trained ones are. */
static struct rlx_bert *make_model(void)
{
	static const struct tb_size size = { WIDTH, 6, 12, 1536, VOCAB, 512, 2 };
	static struct tiny_bert b;
	struct rlx_error err = { 0 };
	uint64_t seed = 1;
	struct rlx_bert *m;
	unsigned int i;
	int64_t k;

	if (!mkdtemp(dir))
		exit(1);
	atexit(remove_dir);
	tb_init_size(&b, &size, &seed);
	for (i = 0; i < b.n; i++)
		for (k = 0; b.t[i].type.rank == 2 && k < rlx_type_count(&b.t[i].type); k++)
			((float *)(uintptr_t)b.t[i].data)[k] *= 0.15f;
	tb_write(&b, dir);
	tb_fini(&b);
	must(rlx_bert_open(dir, &m, &err), &err);
	return m;
}

static struct rlx_session *open_session(struct rlx_bert *m, const char *device,
					enum rlx_precision precision, int64_t batch,
					int64_t seq)
{
	struct rlx_bert_opts o = {
		.size = sizeof(o), .batch = batch, .seq = seq, .pool = RLX_BERT_MEAN,
		.normalise = true,
	};
	struct rlx_compile_opts c = {
		.size = sizeof(c), .device = device, .precision = precision,
		.flags = RLX_COMPILE_NATIVE,
	};
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true };
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_program *p;
	struct rlx_graph *g;
	uint64_t t0 = rlx_now();

	must(rlx_bert_graph(m, &o, &g, &err), &err);
	must(rlx_compile(g, &c, &p, &err), &err);
	must(rlx_session_new(p, &so, &s, &err), &err);
	printf("# %s: %u steps, compiled in %.1f ms\n", device, p->plan->n_step,
	       (double)(rlx_now() - t0) * 1e-6);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static void *buf(struct rlx_session *s, enum rlx_io io, const char *name)
{
	void *p = rlx_buf_ptr(rlx_session_buf(s, io, name));

	if (!p)
		exit(1);
	return p;
}

static void fill(struct rlx_session *s, int64_t batch, int64_t seq, uint64_t seed)
{
	int64_t *ids = buf(s, RLX_IO_INPUT, "input_ids"), i;
	int64_t *len = buf(s, RLX_IO_INPUT, "lengths");

	for (i = 0; i < batch * seq; i++)
		ids[i] = (int64_t)rlx_test_uniform(&seed, 0, VOCAB);
	for (i = 0; i < batch; i++)
		len[i] = seq - (i % 4) * (seq / 8);
}

static void run(struct rlx_session *s)
{
	must(rlx_session_run(s), rlx_session_error(s));
}

/* The first rows are computed by the CPU too. */
static void check(struct rlx_session *s, struct rlx_bert *m, int64_t batch, int64_t seq)
{
	int64_t rows = batch < 4 ? batch : 4, r, k;
	struct rlx_session *t = open_session(m, "cpu", RLX_PRECISION_AS_WRITTEN, rows, seq);
	float *y = buf(s, RLX_IO_OUTPUT, "embedding"), *z;
	double least = 2;

	fill(s, batch, seq, 7);
	memset(y, 0xff, (size_t)batch * WIDTH * sizeof(*y));
	fill(t, rows, seq, 7);
	run(s);
	run(t);
	z = buf(t, RLX_IO_OUTPUT, "embedding");
	for (r = 0; r < rows; r++) {
		double yy = 0, zz = 0, yz = 0;

		for (k = 0; k < WIDTH; k++) {
			double a = (double)y[r * WIDTH + k], b = (double)z[r * WIDTH + k];

			yy += a * a;
			zz += b * b;
			yz += a * b;
		}
		if (!(yz / sqrt(yy * zz) >= least))
			least = yz / sqrt(yy * zz);
	}
	rlx_session_free(t);
	printf("# %lld x %lld: least cosine with the CPU's f32 %.7f\n", (long long)batch,
	       (long long)seq, least);
	if (!(least > 0.999)) {
		fprintf(stderr, "minilm: the vectors are wrong\n");
		exit(1);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Input ids written, run, result read, as a server does it. */
static void measure(struct rlx_session *s, int64_t batch, int64_t seq, const char *precision)
{
	static double us[MOST_RUNS];
	const float *y = buf(s, RLX_IO_OUTPUT, "embedding");
	uint64_t end = rlx_now() + 1000000000, t0;
	double sum = 0;
	int n = 0, i;

	for (i = 0; i < 20; i++)
		run(s);
	while (n < MOST_RUNS && (rlx_now() < end || n < 10)) {
		fill(s, batch, seq, (uint64_t)n);
		t0 = rlx_now();
		run(s);
		us[n++] = (double)(rlx_now() - t0) * 1e-3;
		sum += (double)y[n % WIDTH];
	}
	qsort(us, (size_t)n, sizeof(*us), by_value);
	printf("MiniLM-L6 %s %lld x %lld, host to host: median %.4f ms, least %.4f, p99 %.4f "
	       "(%d runs)%s\n", precision, (long long)batch, (long long)seq, us[n / 2] * 1e-3,
	       us[0] * 1e-3, us[n * 99 / 100] * 1e-3, n, sum == sum ? "" : " NaN");
}

/* By kind: "op output": time of a step, how many, in all. */
static void steps(struct rlx_session *s)
{
	const struct rlx_plan *p = s->p->plan;
	uint64_t *ns = calloc(p->n_step, sizeof(*ns));
	enum { RUNS = 20 };
	uint32_t i;
	char type[96];

	if (!ns)
		exit(1);
	s->exec->step_ns = ns;
	for (i = 0; i < RUNS; i++)
		run(s);
	s->exec->step_ns = NULL;
	for (i = 0; i < p->n_step; i++) {
		const struct rlx_plan_step *st = &p->step[i];

		rlx_type_print(&p->val[st->out[0]].type, type, sizeof(type));
		printf("#  %3u %-20s %-20s %8.2f us\n", i, st->def ? st->def->name : "copy",
		       type, (double)ns[i] * 1e-3 / RUNS);
	}
	free(ns);
}

/* @word: as `rlx bench --precision` takes it */
static void shape(struct rlx_bert *m, int64_t batch, int64_t seq, const char *word, bool tell)
{
	static const char *const words[] = { "f32", "bf16", "mixed-bf16", "f16",
					     "mixed-f16", "tf32" };
	struct rlx_session *s;
	int p = 0;

	while (p < 5 && strcmp(word, words[p]))
		p++;
	s = open_session(m, chosen, (enum rlx_precision)p, batch, seq);
	check(s, m, batch, seq);
	measure(s, batch, seq, word);
	if (tell)
		steps(s);
	rlx_session_free(s);
}

/* ---- from the start of a process ---- */

/* What a new process does, as its first argument says, and when it was started. */
static int started(const char *what, const char *at, uint64_t t0)
{
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_bert *m;

	if (!strcmp(what, "context")) {
		void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *ctx;
		int (*init)(unsigned int), (*retain)(void **, int);

		if (!lib)
			return 1;
		*(void **)&init = dlsym(lib, "cuInit");
		*(void **)&retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
		if (!init || !retain || init(0) || retain(&ctx, 0))
			return 1;
	} else {
		must(rlx_bert_open(at, &m, &err), &err);
		s = open_session(m, "cuda", RLX_PRECISION_MIXED_F16, 1, 16);
		fill(s, 1, 16, 3);
		run(s);
	}
	printf("process start to %s: %.1f ms\n", what, (double)(rlx_now() - t0) * 1e-6);
	return 0;
}

static void start(const char *what)
{
	char t0[32];
	int status;
	pid_t pid;

	fflush(NULL);
	snprintf(t0, sizeof(t0), "%llu", (unsigned long long)rlx_now());
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "minilm", what, dir, t0, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		fprintf(stderr, "minilm: a process for \"%s\" failed\n", what);
}

int main(int argc, char **argv)
{
	bool all;
	static const char *const words[] = { "mixed-f16", "f32", "tf32" };
	struct rlx_bert *m;
	int i;

	if (argc == 4 && (!strcmp(argv[1], "context") || !strcmp(argv[1], "first vector")))
		return started(argv[1], argv[2], strtoull(argv[3], NULL, 10));
	if (argc > 1 && (!strcmp(argv[1], "cuda") || !strcmp(argv[1], "vulkan"))) {
		chosen = argv[1];
		argv++;
		argc--;
	}
	all = argc == 1;
	m = make_model();
	if (argc > 2)
		shape(m, atoll(argv[1]), atoll(argv[2]), argc > 3 ? argv[3] : "mixed-f16",
		      argc > 4);
	for (i = 0; all && i < 6; i++)
		shape(m, i % 2 ? 32 : 1, i % 2 ? 512 : 16, words[i / 2], false);
	if (all || argc == 2)	/* kernels are compiled by now, or by the first one */
		for (i = 0; i < 3; i++) {
			start("first vector");
			start("context");
		}
	rlx_bert_put(m);
	return 0;
}
