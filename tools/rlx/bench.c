// SPDX-License-Identifier: MIT
/*
 * rlx bench: a model's time, in turns with another engine's, so that whatever
 * disturbs the machine disturbs both.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ir/element.h"
#include "rlx/device.h"
#include "rt/rt.h"
#include "tools/rlx/peak.h"
#include "tools/rlx/peer_ort.h"
#include "tools/rlx/subject.h"

#define PEER_HERE	"build/models/libonnxruntime.so"
#define PEER_ENV	"RLX_ORT_LIB"

struct bench_args {
	struct subject_args	m;
	const char		*threads, *peer;
	double			seconds;
	int			format;
	bool			profile;
};

/* Run times of one engine in ms. */
struct times {
	double		*v;
	uint32_t	 n, cap;
	double		 sorted_p50, p95, p99, min;
};

/* One measurement: both engines with one number of threads. */
struct bench {
	const struct bench_args	*a;
	struct subject		*s;
	struct rlx_peer		*peer;
	struct peak		 peak;
	struct times		 own, other;
	double			*ratio;		/* other's block by ours */
	uint32_t		 n_ratio, cap_ratio;
	double			 max_rel, cosine;
	struct left_out		 left;		/* of each timed run */
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(const double *sorted, uint32_t n, double q)
{
	double at = q * (n - 1);
	uint32_t i = (uint32_t)at;

	return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

static void times_finish(struct times *t)
{
	if (!t->n)
		return;
	qsort(t->v, t->n, sizeof(*t->v), by_value);
	t->min = t->v[0];
	t->sorted_p50 = quantile(t->v, t->n, 0.5);
	t->p95 = quantile(t->v, t->n, 0.95);
	t->p99 = quantile(t->v, t->n, 0.99);
}

static bool add(double **v, uint32_t *n, uint32_t *cap, double x)
{
	if (!rlx_grow(v, cap, *n + 1, sizeof(**v)))
		return false;
	(*v)[(*n)++] = x;
	return true;
}

static enum rlx_status one_run(struct bench *b, bool peer, struct rlx_error *err)
{
	return peer ? rlx_peer_run(b->peer, err) : subject_run(b->s, err);
}

/*
 * About @seconds of runs of one engine. The other's threads may still spin for a
 * while, so a pause and a run that is not counted come first.
 */
static enum rlx_status block(struct bench *b, bool peer, double seconds,
			     double *median, struct rlx_error *err)
{
	struct times *t = peer ? &b->other : &b->own;
	uint32_t first = t->n;
	double begin, at, next;
	enum rlx_status st;

	usleep(3000);
	st = one_run(b, peer, err);
	begin = at = now();
	while (!st && (t->n == first || at - begin < seconds)) {
		st = one_run(b, peer, err);
		next = now();
		if (!st && !add(&t->v, &t->n, &t->cap, (next - at) * 1e3))
			st = rlx_fail(err, RLX_ENOMEM, "out of memory");
		at = next;
	}
	if (st)
		return st;
	/* a block is sorted in place: order between blocks does not matter later */
	qsort(t->v + first, t->n - first, sizeof(*t->v), by_value);
	*median = quantile(t->v + first, t->n - first, 0.5);
	return RLX_OK;
}

static enum rlx_status measure(struct bench *b, struct rlx_error *err)
{
	double end = now() + b->a->seconds, each = b->a->seconds / 20, own, other;
	struct progress p;
	enum rlx_status st = RLX_OK;
	double begin = now();

	progress_begin(&p, "bench", (uint64_t)(b->a->seconds * 10) + 1);
	each = each > 0.5 ? 0.5 : each;
	while (!st && (!b->own.n || now() < end || (b->peer && b->n_ratio < 3))) {
		st = block(b, false, each, &own, err);
		if (!st && b->peer) {
			st = block(b, true, each, &other, err);
			if (!st && !add(&b->ratio, &b->n_ratio, &b->cap_ratio, other / own))
				st = rlx_fail(err, RLX_ENOMEM, "out of memory");
		}
		progress_at(&p, (uint64_t)((now() - begin) * 10));
	}
	progress_end(&p);
	times_finish(&b->own);
	times_finish(&b->other);
	if (b->n_ratio)
		qsort(b->ratio, b->n_ratio, sizeof(*b->ratio), by_value);
	return st;
}

/* Largest error by the largest |value|, and the cosine, over all float outputs. */
static enum rlx_status parity(struct bench *b, struct rlx_error *err)
{
	const struct rlx_peer_value *decl;
	size_t n = rlx_peer_outputs(b->peer, &decl), k;
	struct rlx_named_tensor v;
	struct rlx_peer_value pv;
	unsigned int i;
	int64_t e;

	b->max_rel = 0;
	b->cosine = 1;
	for (i = 0; i < subject_outputs(b->s); i++) {
		double most = 0, err_most = 0, dot = 0, xx = 0, yy = 0;
		struct rlx_tensor x, y;

		if (!subject_output(b->s, i, &v))
			continue;
		for (k = 0; k < n && strcmp(decl[k].name, v.name); k++)
			;
		if (k == n)
			return rlx_fail(err, RLX_ENOENT, "the peer has no output '%s'", v.name);
		if (rlx_peer_output(b->peer, k, &pv, err))
			return err->status;
		if (!rlx_type_equal(&pv.type, &v.type))
			return rlx_fail(err, RLX_ESHAPE,
					"output '%s' has another type with the peer", v.name);
		x = (struct rlx_tensor){ v.type, (void *)(uintptr_t)v.data };
		y = (struct rlx_tensor){ pv.type, (void *)(uintptr_t)pv.data };
		for (e = 0; e < rlx_type_count(&v.type); e++) {
			double p = el_get(&x, e), q = el_get(&y, e), d = fabs(p - q);

			most = fabs(q) > most ? fabs(q) : most;
			err_most = d > err_most || isnan(d) ? d : err_most;
			dot += p * q;
			xx += p * p;
			yy += q * q;
		}
		err_most = most > 0 ? err_most / most : err_most;
		b->max_rel = err_most > b->max_rel || isnan(err_most) ? err_most : b->max_rel;
		dot = xx > 0 && yy > 0 ? dot / sqrt(xx * yy) : xx == yy;
		b->cosine = dot < b->cosine ? dot : b->cosine;
	}
	return RLX_OK;
}

static enum rlx_status open_peer(struct bench *b, const char *lib, unsigned int threads,
				 struct rlx_error *err)
{
	struct rlx_peer_value *v = rlx_calloc(b->s->n_in + 1, sizeof(*v));
	enum rlx_status st = v ? RLX_OK : rlx_fail(err, RLX_ENOMEM, "out of memory");
	unsigned int i;

	for (i = 0; !st && i < b->s->n_in; i++)
		v[i] = (struct rlx_peer_value){
			b->s->in[i].name, b->s->in[i].type, b->s->in[i].data,
			(size_t)rlx_type_bytes(&b->s->in[i].type),
		};
	if (!st)
		st = rlx_peer_open(lib, b->s->path, (int)threads, &b->peer, err);
	if (!st)
		st = rlx_peer_bind(b->peer, v, b->s->n_in, err);
	if (!st)
		st = rlx_peer_run(b->peer, err);
	rlx_free(v);
	return st;
}

static const struct table_col columns[] = {
	{ "threads", 0 }, { "engine", -1 }, { "runs", 0 }, { "min_ms", 3 },
	{ "p50_ms", 3 }, { "p95_ms", 3 }, { "p99_ms", 3 }, { "gflops", 1 },
	{ "gbytes", 2 }, { "fma_pct", 1 }, { "mem_pct", 1 },
	{ "ratio", 2 }, { "ratio_low", 2 }, { "ratio_high", 2 },
	{ "max_rel", 9, true }, { "cosine", 9, true }, { "compile_ms", 1, true },
	{ "pack_ms", 1, true }, { "left_out", 0, true },
	{ "peak_gflops", 1, true }, { "peak_gbytes", 1, true },
	{ "model", -1, true }, { "precision", -1, true },
};

enum { C_THREADS, C_ENGINE, C_RUNS, C_MIN, C_P50, C_P95, C_P99, C_GFLOPS, C_GBYTES,
       C_FMA, C_MEM, C_RATIO, C_LOW, C_HIGH, C_REL, C_COS, C_COMPILE, C_PACK,
       C_LEFT, C_PEAK, C_PEAK_MEM, C_MODEL, C_PRECISION, N_COLUMNS };

static void report(struct bench *b, double threads, bool peer,
		   const struct rlx_program_info *info, struct table *t)
{
#define WORD(word) word,
	static const char *const words[] = { PRECISION_LIST(WORD, WORD) };
#undef WORD
	const struct times *x = peer ? &b->other : &b->own;
	double s = x->sorted_p50 * 1e-3;
	bool bf16 = !peer && (b->a->m.precision == RLX_PRECISION_BF16 ||
			      b->a->m.precision == RLX_PRECISION_MIXED_BF16);
	double peak = bf16 ? b->peak.gflops_bf16 : b->peak.gflops;
	struct table_cell c[N_COLUMNS];
	unsigned int i;

	for (i = 0; i < N_COLUMNS; i++)
		c[i] = (struct table_cell){ NULL, NAN };
	c[C_THREADS].num = threads;
	c[C_ENGINE].text = peer ? "onnxruntime" : "rlx";
	c[C_RUNS].num = x->n;
	c[C_MIN].num = x->min;
	c[C_P50].num = x->sorted_p50;
	c[C_P95].num = x->p95;
	c[C_P99].num = x->p99;
	c[C_PEAK].num = peak;
	c[C_PEAK_MEM].num = b->peak.gbytes;
	c[C_MODEL].text = b->s->path;
	c[C_PRECISION].text = words[peer ? 0 : b->a->m.precision];
	if (info) {
		c[C_GFLOPS].num = (info->flops - (peer ? 0 : b->left.flops)) / s * 1e-9;
		c[C_FMA].num = 100 * c[C_GFLOPS].num / peak;
	}
	if (info && !peer) {
		c[C_GBYTES].num = (info->bytes - b->left.bytes) / s * 1e-9;
		c[C_MEM].num = 100 * c[C_GBYTES].num / b->peak.gbytes;
		c[C_COMPILE].num = (double)info->compile_ns * 1e-6;
		c[C_PACK].num = (double)info->pack_ns * 1e-6;
		c[C_LEFT].num = b->left.steps;
	}
	if (!peer && b->peer) {
		c[C_RATIO].num = quantile(b->ratio, b->n_ratio, 0.5);
		c[C_LOW].num = b->ratio[0];
		c[C_HIGH].num = b->ratio[b->n_ratio - 1];
		c[C_REL].num = b->max_rel;
		c[C_COS].num = b->cosine;
	}
	table_row(t, c);
}

/* "cuda:1 (NVIDIA H200)" */
static void print_device(const char *name)
{
	struct rlx_dev_info d[16];
	unsigned int n = rlx_device_list(d, N_ELEM(d)), i;
	size_t len = strlen(name);

	printf("%s", name);
	if (len > 2 && !strcmp(name + len - 2, ":0"))	/* it is listed without */
		len -= 2;
	for (i = 0; i < n && i < N_ELEM(d); i++)
		if (strlen(d[i].backend) == len && !memcmp(d[i].backend, name, len))
			printf(" (%s)", d[i].name);
}

/* What the times are not of. */
static void print_left_out(const struct left_out *l)
{
	if (!l->steps)
		return;
	printf("left out of these runs and their rates: %u step%s of params and constants "
	       "alone, run before\n", l->steps, l->steps == 1 ? "" : "s");
	if (l->all)
		puts("no output depends on an input: what is timed hands out what was there; "
		     "to time the work, make inputs of the params");
}

/* For people: what the table has no room for. @on_cpu: its threads count. */
static void print_notes(const struct bench *b, unsigned int threads, bool on_cpu,
			const struct rlx_program_info *info)
{
	if (on_cpu)
		printf("%u thread%s", threads, threads == 1 ? "" : "s");
	else
		print_device(rlx_device_choice(b->a->m.device));
	if (b->peak.gflops > 0)
		printf(": peak %.1f GFLOP/s", b->peak.gflops);
	if (b->peak.gflops_bf16 > b->peak.gflops)
		printf(" (bf16 %.1f)", b->peak.gflops_bf16);
	if (b->peak.gbytes > 0)
		printf(", reading %.1f GB/s", b->peak.gbytes);
	if (info)
		printf("; compiled in %.1f ms, of which %s %.1f; %u steps, %u on the host",
		       (double)info->compile_ns * 1e-6,
		       on_cpu ? "packing weights" : "bringing weights there",
		       (double)info->pack_ns * 1e-6, info->steps, info->host);
	if (b->peer)
		printf("; against the peer: largest error %.2g of the largest value, "
		       "cosine %.7f",
		       b->max_rel, b->cosine);
	putchar('\n');
	print_left_out(&b->left);
}

static int bench_threads(struct subject *s, const struct bench_args *a,
			 unsigned int threads, const char *lib, struct table *t)
{
	struct bench b = { .a = a, .s = s, .max_rel = NAN, .cosine = NAN };
	struct subject_args m = a->m;
	struct rlx_program_info info;
	struct rlx_error err = { 0 };
	bool on_cpu;
	int rc;

	m.threads = threads;
	rc = subject_compile(s, &m, (struct rlx_compile_opts){ 0 });
	if (rc)
		goto out_drop;
	if (a->profile) {
		rc = profile(s, a->seconds, (enum table_format)a->format);
		goto out_drop;
	}
	if (s->session)
		rlx_program_info(rlx_session_program(s->session), &info);
	b.peak = (struct peak){ NAN, NAN, NAN };	/* and stays so for other devices */
	on_cpu = !strncmp(rlx_device_choice(a->m.device), "cpu", 3);
	if (on_cpu)
		peak_measure(s->session ? info.isa : "", threads, &b.peak);
	if (lib && open_peer(&b, lib, threads, &err))
		goto out_told;
	if (b.peer && parity(&b, &err))
		goto out_told;
	if (measure(&b, &err))
		goto out_told;
	if (s->session && !left_out(s, &b.left)) {
		rlx_fail(&err, RLX_ENOMEM, "out of memory");
		goto out_told;
	}
	/* once more: a neighbour may have slowed the first */
	if (on_cpu)
		peak_measure(s->session ? info.isa : "", threads, &b.peak);
	report(&b, on_cpu ? threads : NAN, false, s->session ? &info : NULL, t);
	if (b.peer)
		report(&b, threads, true, s->session ? &info : NULL, t);
	if (a->format == TABLE_TEXT)
		print_notes(&b, threads, on_cpu, s->session ? &info : NULL);
out_told:
	if (err.status)
		rc = tool_fail("bench", TOOL_FAILED, "%s: %s", s->path, err.text);
	rlx_peer_close(b.peer);
	rlx_free(b.own.v);
	rlx_free(b.other.v);
	rlx_free(b.ratio);
out_drop:
	subject_drop(s);
	return rc;
}

/* "--peer onnxruntime" finds the library; "--peer onnxruntime=PATH" names it. */
static int peer_lib(const char *peer, const char **lib)
{
	static const char name[] = "onnxruntime";
	size_t n = sizeof(name) - 1;

	*lib = NULL;
	if (!peer)
		return TOOL_OK;
	if (strncmp(peer, name, n) || (peer[n] && peer[n] != '='))
		return tool_fail("bench", TOOL_USAGE,
				 "--peer is '%s', want onnxruntime or onnxruntime=FILE", peer);
	*lib = peer[n] ? peer + n + 1 : getenv(PEER_ENV) ? getenv(PEER_ENV) : PEER_HERE;
	if (access(*lib, R_OK))
		return tool_fail("bench", TOOL_FAILED,
				 "the peer's library is not at %s: name it with --peer onnxruntime=FILE or "
				 PEER_ENV ", or run 'make models'", *lib);
	return TOOL_OK;
}

/* The number at *@at, which goes on behind it and its comma; 0: none from 1 to 4096 is there. */
static unsigned int next_threads(const char **at)
{
	size_t n = strcspn(*at, ",");
	char num[8];
	uint64_t v = 0;

	snprintf(num, sizeof(num), "%.*s", (int)(n < 5 ? n : 5), *at);
	if (!parse_u64(num, 4096, &v) || ((*at)[n] && !(*at)[n + 1]))
		return 0;
	*at += n + ((*at)[n] == ',');
	return (unsigned int)v;
}

/* All of --threads is looked at before anything is measured. */
static int check_threads(const char *threads)
{
	const char *at = threads;
	bool ok;

	do
		ok = next_threads(&at);
	while (ok && *at);
	return ok ? TOOL_OK : tool_fail("bench", TOOL_USAGE, "--threads is '%s', want numbers from "
					"1 to 4096 with commas between", threads);
}

static int bench(struct subject *s, const struct bench_args *a)
{
	struct table t = { .col = columns, .n_col = N_COLUMNS };
	const char *at = a->threads, *lib = NULL;
	int rc = a->profile && (a->peer || strchr(a->threads, ',')) ?
		 tool_fail("bench", TOOL_USAGE, "--profile looks at rlx alone, without --peer, "
			   "and with one number of --threads") :
		 peer_lib(a->peer, &lib);

	if (!rc && lib && s->graph)
		rc = tool_fail("bench", TOOL_USAGE, "%s: the peer reads ONNX files only", s->path);
	rc = rc ? rc : check_threads(a->threads);
	while (!rc && *at)
		rc = bench_threads(s, a, next_threads(&at), lib, &t);
	if (t.n_row && !table_print(&t, (enum table_format)a->format) && !rc)
		rc = tool_fail("bench", TOOL_FAILED, "cannot write to standard output");
	table_fini(&t);
	return rc;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_args a = { .m = { .seed = 1 }, .threads = "1", .seconds = 3 };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		SUBJECT_ARGS(&a.m),
		{ "threads", ARG_STR, &a.threads, "N,N,...", "one measurement each (1)" },
		{ "seconds", ARG_NUM, &a.seconds, "S", "time of one measurement (3)" },
		{ "peer", ARG_STR, &a.peer, "ENGINE",
		  "onnxruntime[=FILE]: measure in turns with it" },
		{ "profile", ARG_FLAG, &a.profile, NULL,
		  "where the time goes: a row for each kind of step" },
		{ "format", ARG_WORD, &a.format, TABLE_WORDS, "(table)" },
	};
	const struct args args = {
		"bench", "MODEL [OPTION ...]",
		"Times a model: percentiles, rates, and on a CPU their share of what this\n"
		"machine reaches at most, measured in the same process. A ratio is the\n"
		"peer's time by ours, the median over turns, with its range. Bytes are what\n"
		"the ops read and write; above the memory's rate they come out of caches.\n"
		"Steps of params and constants alone are run before and are in none of this.",
		arg, N_ELEM(arg),
		SUBJECT_MORE "\n\nThe peer's library is --peer onnxruntime=FILE, else "
		PEER_ENV ", else\n" PEER_HERE ".", &rest, 1, 1,
	};
	struct subject s = { .cmd = "bench" };
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	if (a.seconds <= 0 || a.seconds > 86400)
		rc = tool_fail("bench", TOOL_USAGE, "--seconds must be above 0, at most a day");
	rc = rc ? rc : subject_open(&s, "bench", rest.v[0]);
	rc = rc ? rc : subject_inputs(&s, &a.m);
	rc = rc ? rc : bench(&s, &a);
out_free:
	subject_close(&s);
	subject_args_free(&a.m);
	arg_list_free(&rest);
	return rc;
}
