// SPDX-License-Identifier: MIT
/*
 * ONNX files of the backend test cases with some fields that are others, and so their inputs:
 * each is refused with a message, or compiled and run, by the evaluation in f64 and by kernels,
 * and then by both with results of the same types.
 *
 *	RLX_MUTANTS=100000 build/test/hostile/onnx_mutants
 *	RLX_MUTANT=SEED build/test/hostile/onnx_mutants
 *
 * The first tries so many (otherwise as many as 20 seconds allow), the second one alone, whose
 * files are left in /tmp/rlx-mutant.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/onnx/build.h"
#include "model/model.h"
#include "selftests/lib/onnx_case.h"
#include "selftests/lib/proto_mutate.h"
#include "selftests/lib/rlx_test.h"

enum { BATCH = 200, SECONDS = 20, CASE_SECONDS = 20, INPUTS = 16, MOST = 1 << 16, CASES = 4096 };

static const char *const groups[] = { "node", "simple", "pytorch-operator" };
static char *cases[CASES];
static unsigned int n_cases;

/* What a process that tries them has come to. */
struct progress {
	uint64_t	seed;
	unsigned int	done, opened, ran, apart;
	char		text[512];
};

static void find_cases(void)
{
	const char *data = getenv("RLX_ONNX_DATA");
	char path[512];
	unsigned int g;

	data = data ? data : "/usr/share/libonnx-testdata/data";
	for (g = 0; g < 3; g++) {
		struct dirent **list;
		int count, i;

		snprintf(path, sizeof(path), "%s/%s", data, groups[g]);
		count = scandir(path, &list, NULL, alphasort);
		for (i = 0; i < count; i++) {
			char *s;

			if (list[i]->d_name[0] != '.' && n_cases < CASES &&
			    asprintf(&s, "%s/%s", path, list[i]->d_name) > 0)
				cases[n_cases++] = s;
			free(list[i]);
		}
		if (count >= 0)
			free(list);
	}
	if (!n_cases)
		rlx_test_skip("libonnx-testdata is not installed");
}

static size_t read_small(const char *path, uint8_t *to)
{
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(to, 1, MOST, f) : 0;

	if (f)
		fclose(f);
	return n < MOST ? n : 0;
}

static void write_small(const char *path, const uint8_t *p, size_t n)
{
	int fd;

	unlink(path);	/* what is cut and written anew some file systems bring to the disk */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
}

/* ---- one of them ---- */

struct mutant {
	char			dir[64], model[80];
	struct onnx_file	*file[INPUTS];
	struct rlx_spec		in[INPUTS];
	uint8_t			*bytes[INPUTS];
	unsigned int		n;
};

/* Inputs as the case has them, a third of them changed; what cannot be read is not given. */
static void draw_inputs(struct mutant *x, const char *of, uint64_t *seed)
{
	static uint8_t was[MOST], to[2 * MOST];
	char path[600], name[80];
	unsigned int i;
	size_t n;

	for (i = 0; i < INPUTS; i++) {
		struct rlx_error err = { 0 };

		snprintf(path, sizeof(path), "%s/test_data_set_0/input_%u.pb", of, i);
		n = read_small(path, was);
		if (!n)
			break;
		memcpy(to, was, n);
		if (rlx_test_rand(seed) % 3 == 0)
			n = proto_mutate(was, n, to, sizeof(to), seed);
		snprintf(name, sizeof(name), "%s/input_%u.pb", x->dir, i);
		write_small(name, to, n);
		x->bytes[x->n] = malloc(n ? n : 1);	/* of that size: ASan sees what is beyond */
		CHECK(x->bytes[x->n]);
		memcpy(x->bytes[x->n], to, n);
		if (onnx_open_mem(x->bytes[x->n], n, "input", ONNX_ROOT_TENSOR, &x->file[x->n],
				  &err)) {
			CHECK(err.text[0]);
			free(x->bytes[x->n]);
			continue;
		}
		x->n++;
	}
}

static void draw(struct mutant *x, uint64_t seed)
{
	static uint8_t a[MOST], b[2 * MOST];
	const char *of = cases[rlx_test_rand(&seed) % n_cases];
	char path[600];
	size_t n;

	snprintf(path, sizeof(path), "%s/model.onnx", of);
	n = read_small(path, a);
	n = n && rlx_test_rand(&seed) % 8 ? proto_mutate(a, n, b, sizeof(b), &seed) :
	    (memcpy(b, a, n), n);
	snprintf(x->model, sizeof(x->model), "%s/model.onnx", x->dir);
	write_small(x->model, b, n);
	x->n = 0;
	draw_inputs(x, of, &seed);
}

static void let_go(struct mutant *x)
{
	for (; x->n; x->n--) {
		onnx_put(x->file[x->n - 1]);
		free(x->bytes[x->n - 1]);
	}
}

/* Files may ask for any memory; this test has not so much. */
static enum rlx_status admit(void *ctx, uint64_t bytes, struct rlx_error *err)
{
	if (bytes < 256u << 20)
		return RLX_OK;
	err->status = RLX_ERANGE;
	snprintf(err->text, sizeof(err->text), "more than this test has");
	return RLX_ERANGE;
}

/* The inputs under the names that the model has now. */
static unsigned int specs(struct mutant *x, struct rlx_model *m, char (*name)[128])
{
	struct rlx_model_io io;
	unsigned int i, n = 0;

	for (i = 0; i < x->n; i++) {
		if (!rlx_model_io_at(m, RLX_IO_INPUT, i, &io))
			break;
		snprintf(name[i], sizeof(name[i]), "%s", io.name);
		n += onnx_tensor_spec(onnx_file_tensor(x->file[i]), name[i], &x->in[n]);
	}
	return n;
}

/* What came of it: the status, and the types of the results. */
struct outcome {
	enum rlx_status	st;
	unsigned int	n;
	struct rlx_type	type[INPUTS];
	struct rlx_error	err;
};

static volatile uint64_t sink;

static void look(struct rlx_runner *r, struct outcome *o)
{
	uint64_t sum = 0, k, bytes;
	struct rlx_named_tensor t;

	for (o->n = 0; o->n < INPUTS && o->n < rlx_runner_output_count(r); o->n++) {
		o->type[o->n] = (struct rlx_type){ 0 };
		if (!rlx_runner_output(r, o->n, &t))
			continue;
		o->type[o->n] = t.type;
		bytes = (uint64_t)rlx_type_bytes(&t.type);
		for (k = 0; k < bytes; k++)
			sum += ((const uint8_t *)t.data)[k];
	}
	sink += sum;
}

static void run_on(struct mutant *x, struct rlx_model *m, const char *device, struct outcome *o)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = device, .threads = 1 };
	char name[INPUTS][128];
	struct rlx_error err = { 0 };
	struct rlx_runner *r = NULL;
	unsigned int n = specs(x, m, name);

	o->n = 0;
	o->st = rlx_runner_new(m, &opts, &r, &err);
	if (!o->st) {
		r->admit = admit;
		o->st = rlx_runner_run_specs(r, x->in, n, &err);
	}
	if (!o->st)
		look(r, o);
	CHECKF(!o->st || err.text[0], "%s without a message", rlx_status_name(o->st));
	o->err = err;
	rlx_runner_free(r);
}

static void try_one(struct mutant *x, struct progress *p)
{
	struct outcome by_ref, by_cpu;
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;
	unsigned int i;

	if (rlx_model_open(x->model, &m, &err)) {
		CHECK(err.text[0]);
		return;
	}
	p->opened++;
	run_on(x, m, "cpu", &by_cpu);
	run_on(x, m, "ref", &by_ref);
	rlx_model_put(m);
	p->ran += !by_cpu.st;
	/* Memory that is asked for differs, and is refused by one alone. */
	if (by_cpu.st == RLX_ENOMEM || by_ref.st == RLX_ENOMEM || by_cpu.st == RLX_ERANGE ||
	    by_ref.st == RLX_ERANGE)
		return;
	CHECKF(by_cpu.st == by_ref.st, "cpu: %s (%s), ref: %s (%s)", rlx_status_name(by_cpu.st),
	       by_cpu.err.text, rlx_status_name(by_ref.st), by_ref.err.text);
	for (i = 0; !by_cpu.st && i < by_cpu.n; i++)
		CHECKF(rlx_type_equal(&by_cpu.type[i], &by_ref.type[i]), "types of output %u", i);
}

/* ---- many ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void limit(void)
{
	struct rlimit r = { (rlim_t)4 << 30, (rlim_t)4 << 30 };

	if (!RLX_TEST_ASAN && !RLX_TEST_TSAN)
		setrlimit(RLIMIT_AS, &r);
}

static void try_batch(struct mutant *x, struct progress *p, uint64_t seed, uint64_t n, double end)
{
	limit();
	for (p->done = 0; p->done < n && !(end > 0 && now() > end); p->done++) {
		alarm(CASE_SECONDS);
		p->seed = rlx_test_rand(&seed);
		draw(x, p->seed);
		try_one(x, p);
		let_go(x);
	}
	exit(0);	/* and ASan looks for leaks */
}

static void end_dir(const struct mutant *x)
{
	char path[128];
	unsigned int i;

	unlink(x->model);
	for (i = 0; i < INPUTS; i++) {
		snprintf(path, sizeof(path), "%s/input_%u.pb", x->dir, i);
		unlink(path);
	}
	rmdir(x->dir);
}

/* False: one of them crashed; a file may ask for as much time as it likes. */
static bool one_batch(struct mutant *x, struct progress *p, uint64_t seed, uint64_t n, double end,
		      unsigned int *late)
{
	pid_t pid;
	int st;

	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		try_batch(x, p, seed, n, end);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	if (WIFEXITED(st) && !WEXITSTATUS(st))
		return true;
	printf("# RLX_MUTANT=%llu: %s\n", (unsigned long long)p->seed, WIFSIGNALED(st) ?
	       strsignal(WTERMSIG(st)) : "failed");
	*late += WIFSIGNALED(st) && WTERMSIG(st) == SIGALRM;
	return WIFSIGNALED(st) && WTERMSIG(st) == SIGALRM;
}

TEST(files_with_other_fields)
{
	struct progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *most = getenv("RLX_MUTANTS"), *one = getenv("RLX_MUTANT");
	uint64_t seed = rlx_test_seed(), left = most ? strtoull(most, NULL, 0) : UINT64_MAX;
	uint64_t done = 0, n;
	struct mutant x = { .dir = "/tmp/rlx-mutant-XXXXXX" };
	double end = most ? 0 : now() + SECONDS;
	unsigned int bad = 0, late = 0;

	CHECK(p != MAP_FAILED);
	find_cases();
	if (one) {
		strcpy(x.dir, "/tmp/rlx-mutant");
		mkdir(x.dir, 0700);
		draw(&x, strtoull(one, NULL, 0));
		try_one(&x, p);
		let_go(&x);
		return;
	}
	CHECK(mkdtemp(x.dir));
	while (left && bad < 10 && (most || now() < end)) {
		n = left < BATCH ? left : BATCH;
		bad += !one_batch(&x, p, seed, n, end, &late);
		rlx_test_rand(&seed);
		left -= n;
		done += p->done;
	}
	end_dir(&x);
	printf("# %llu files, %u opened, %u ran, %u took longer than %d s, seed %llu\n",
	       (unsigned long long)done, p->opened, p->ran, late, CASE_SECONDS,
	       (unsigned long long)rlx_test_seed());
	CHECKF(!bad, "%u of %llu", bad, (unsigned long long)done);
	CHECK(most || p->ran > done / 20);
}

TEST_MAIN()
