// SPDX-License-Identifier: MIT
/*
 * Whole models, here and in ONNX Runtime, in turns within one process and on the
 * same inputs. A ratio above 1 means that ours is faster; it is taken of the
 * fastest runs, since those meet the least noise. Both sides rest between turns,
 * so that neither's spinning threads slow the other.
 *
 *	build/test/bench/models [SECONDS [WORD]]
 *
 * SECONDS is the time each side gets in all per row (1); WORD picks the rows
 * whose label contains it.
 */
#include <time.h>

#include "base/clock.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_models.h"

enum { TURNS = 5, MAX_RUNS = 100000 };

struct row {
	struct rlx_model	m;
	enum rlx_precision	precision;
};

static const struct row rows[] = {
	{ RLX_MODEL_BERT("MiniLM 1x32 f32", "minilm.onnx", 1, 32), 0 },
	{ RLX_MODEL_BERT("MiniLM 1x128 f32", "minilm.onnx", 1, 128), 0 },
	{ RLX_MODEL_BERT("MiniLM 1x32 bf16", "minilm.onnx", 1, 32),
	  RLX_PRECISION_BF16 },
	{ RLX_MODEL_BERT("MiniLM 1x128 bf16", "minilm.onnx", 1, 128),
	  RLX_PRECISION_BF16 },
	{ RLX_MODEL_BERT("BERT-base 1x128 f32", "bert-base.onnx", 1, 128), 0 },
	{ RLX_MODEL_IMAGE("ResNet-50 f32", "resnet50.onnx", "input", 224, 224), 0 },
	{ RLX_MODEL_VAD("Silero VAD", "silero_vad.onnx"), 0 },
	{ RLX_MODEL_MAGIKA("Magika", 1), 0 },
	{ RLX_MODEL_PAGE("PP-OCR det 640x640", "ppocr_det.onnx", "x", 640, 640),
	  0 },
	{ RLX_MODEL_IMAGE("PP-OCR rec 48x320", "ppocr_rec.onnx", "x", 48, 320), 0 },
};

/* One side of a comparison: run() once, and what the runs took. */
struct side {
	enum rlx_status	(*run)(struct side *s);
	void		*ctx;
	double		*us;
	size_t		 n;
};

static double now_us(void)
{
	return 1e-3 * (double)rlx_now();
}

static enum rlx_status run_ours(struct side *s)
{
	return rlx_session_run(s->ctx);
}

static enum rlx_status run_peer(struct side *s)
{
	return rlx_peer_run(s->ctx, NULL);
}

/* One turn: at least a run, then as many as fit into @us. */
static enum rlx_status turn(struct side *s, double us)
{
	const struct timespec rest = { 0, 20 * 1000 * 1000 };
	double begin, end = now_us() + us;
	enum rlx_status st;

	nanosleep(&rest, NULL);
	st = s->run(s);		/* wakes the threads; not counted */
	do {
		begin = now_us();
		if (!st)
			st = s->run(s);
		if (s->n < MAX_RUNS)
			s->us[s->n++] = now_us() - begin;
	} while (!st && now_us() < end);
	return st;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Fastest, median and 99th percentile. */
static void sum_up(struct side *s, double out[3])
{
	qsort(s->us, s->n, sizeof(*s->us), by_value);
	out[0] = s->us[0];
	out[1] = s->us[s->n / 2];
	out[2] = s->us[s->n - 1 - s->n / 100];
}

static enum rlx_status session_of(const struct row *r, int threads,
				  void *const *data, struct rlx_session **out,
				  struct rlx_error *err)
{
	struct rlx_compile_opts opts = {
		.size = sizeof(opts), .threads = (unsigned int)threads,
		.precision = r->precision,
	};
	struct rlx_segment seg = { 0 };
	struct rlx_program *p = NULL;
	enum rlx_status st;
	unsigned int i;

	st = rlx_model_import(&r->m, data, &seg, err);
	if (st)
		return st;
	st = rlx_compile(seg.g, &opts, &p, err);
	if (!st)
		st = rlx_session_new(p, NULL, out, err);
	for (i = 0; !st && i < rlx_model_inputs(&r->m); i++) {
		if (rlx_program_io_find(p, RLX_IO_INPUT, r->m.in[i].name) < 0)
			continue;	/* folded into the graph */
		st = rlx_session_set(*out, RLX_IO_INPUT, r->m.in[i].name,
				     r->m.in[i].type, data[i]);
		if (st)
			*err = *rlx_session_error(*out);
	}
	rlx_segment_fini(&seg);
	rlx_program_put(p);
	return st;
}

static enum rlx_status measure(struct side *ours, struct side *peer,
			       double seconds, struct rlx_error *err)
{
	enum rlx_status st;
	int i;

	for (i = 0; i < TURNS; i++) {
		st = turn(ours, seconds / TURNS * 1e6);
		if (st) {
			*err = *rlx_session_error(ours->ctx);
			return st;
		}
		st = turn(peer, seconds / TURNS * 1e6);
		if (st)
			return rlx_fail(err, st, "the peer failed");
	}
	return RLX_OK;
}

static void print_row(const struct row *r, int threads, struct side *ours,
		      struct side *peer)
{
	struct rlx_program_info info;
	double a[3], b[3];

	sum_up(ours, a);
	sum_up(peer, b);
	rlx_program_info(rlx_session_program(ours->ctx), &info);
	printf("%-20s %d %9.1f %9.1f %9.1f  %9.1f %9.1f %9.1f ", r->m.label,
	       threads, a[0], a[1], a[2], b[0], b[1], b[2]);
	printf("%6.2fx %6.2fx  %7.1f  %u/%u\n", b[0] / a[0], b[1] / a[1],
	       (double)info.compile_ns / 1e6, info.native,
	       info.native + info.host);
}

static enum rlx_status bench(const struct row *r, int threads, double seconds)
{
	struct side ours = { .run = run_ours }, peer = { .run = run_peer };
	void *data[RLX_MODEL_INPUTS] = { NULL };
	struct rlx_error err = { 0 };
	struct rlx_session *s = NULL;
	struct rlx_peer *p = NULL;
	enum rlx_status st;

	ours.us = calloc(MAX_RUNS, sizeof(*ours.us));
	peer.us = calloc(MAX_RUNS, sizeof(*peer.us));
	if (!ours.us || !peer.us) {
		st = rlx_fail(&err, RLX_ENOMEM, "no memory for times");
		goto out;
	}
	rlx_model_fill(&r->m, rlx_test_seed(), data);
	st = rlx_model_peer(&r->m, data, threads, &p, &err);
	if (!st)
		st = session_of(r, threads, data, &s, &err);
	ours.ctx = s;
	peer.ctx = p;
	if (!st)
		st = measure(&ours, &peer, seconds, &err);
	if (!st)
		print_row(r, threads, &ours, &peer);
out:
	if (st)
		printf("%-20s %d  %s: %s\n", r->m.label, threads,
		       rlx_status_name(st), err.text);
	fflush(stdout);
	rlx_session_free(s);
	rlx_peer_close(p);
	rlx_model_drop(&r->m, data);
	free(ours.us);
	free(peer.us);
	return st;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	const char *word = argc > 2 ? argv[2] : "";
	int threads, bad = 0;
	size_t i;

	printf("%-20s %s %9s %9s %9s  %9s %9s %9s  %6s %7s  %7s  %s\n",
	       "model (us)", "t", "min", "p50", "p99", "ort min", "p50", "p99",
	       "by min", "by p50", "ms comp", "native");
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (threads = 1; threads <= 2; threads++)
			if (strstr(rows[i].m.label, word))
				bad |= bench(&rows[i], threads, seconds) != RLX_OK;
	return bad;
}
