// SPDX-License-Identifier: MIT
/*
 * Programs timed on the device for who asks by lines on standard input (sweep/sweep.py): their
 * operands and results lie in its memory, and what a run launches is one CUDA graph. That is what
 * any run but the first does: steps that read params alone (weights turned, biases widened) are
 * left out of it, as rlx_session_run() leaves them out. Inputs stand for what a step ahead left on
 * the device.
 *
 *	prepare N		then N times: BYTES OPERANDS, a graph as text, OPERANDS lines of
 *				NAME SEED SCALE; N lines of reply: ok, or error TEXT
 *	open I REPEATS		ok LAUNCHES HOST, or error TEXT; in a graph so many runs each
 *	time			us US, of one run in one turn
 *	sample N		N numbers of the first output, from its first to its last element
 *	close			ok
 *
 * It ends with 3 where the device is lost to it.
 *
 * Element i of an operand with SEED is mix(i, SEED) times SCALE; the peer makes the same.
 */
#include <pthread.h>
#include <unistd.h>

#include "backends/gpu/gpu.h"
#include "rlx/compile.h"
#include "rlx/graph.h"
#include "rt/session.h"
#include "selftests/gpu/against_cpu.h"

enum { MOST_CASES = 256, MOST_PARAMS = 64, THREADS = 8 };

struct param {
	char		name[32];
	uint32_t	seed;
	float		scale;
};

struct program_case {
	char			*text;
	size_t			bytes;
	struct param		param[MOST_PARAMS];
	unsigned int		n_param;
	struct rlx_program	*program;
	struct rlx_error	err;
};

static struct program_case cases[MOST_CASES];
static unsigned int n_case;

static struct {
	struct rlx_session	*s;
	void			*graph, *event[2];
	unsigned int		repeats;
} now_open;

/* ---- compiling, all of a family at once ---- */

static void compile(struct program_case *c)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cuda" };
	struct rlx_graph *g;

	if (rlx_graph_parse(c->text, c->bytes, &g, &c->err))
		return;
	if (rlx_compile(g, &o, &c->program, &c->err))
		c->program = NULL;
	rlx_graph_put(g);
}

static void *compile_some(void *arg)
{
	static atomic_uint next;
	unsigned int i;

	if (!arg) {		/* before any thread begins */
		atomic_store(&next, 0);
		return NULL;
	}
	while ((i = atomic_fetch_add(&next, 1)) < n_case)
		if (!cases[i].err.status)
			compile(&cases[i]);
	return NULL;
}

static void drop_cases(void)
{
	while (n_case) {
		struct program_case *c = &cases[--n_case];

		if (c->program)
			rlx_program_put(c->program);
		free(c->text);
		*c = (struct program_case){ .n_param = 0 };
	}
}

static bool read_case(struct program_case *c)
{
	unsigned int n;

	if (scanf("%zu %u\n", &c->bytes, &n) != 2 || n > MOST_PARAMS || c->bytes > 1 << 20)
		return false;
	c->text = malloc(c->bytes + 1);
	if (!c->text || fread(c->text, 1, c->bytes, stdin) != c->bytes)
		return false;
	for (c->n_param = 0; c->n_param < n; c->n_param++)
		if (scanf("%31s %u %f", c->param[c->n_param].name, &c->param[c->n_param].seed,
			  &c->param[c->n_param].scale) != 3)
			return false;
	return true;
}

static bool prepare(unsigned int n)
{
	pthread_t thread[THREADS];
	unsigned int i;

	drop_cases();
	if (n > MOST_CASES)
		return false;
	/* or small inputs and outputs would be read and written over the bus */
	gpu_start();
	gpu->attr[GPU_ATTR_MAPPED] = 0;
	for (; n_case < n; n_case++)
		if (!read_case(&cases[n_case]))
			return false;
	compile_some(NULL);
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, compile_some, &cases[0]));
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < n_case; i++)
		printf(cases[i].program ? "ok\n" : "error %s\n", cases[i].err.text);
	return true;
}

/* ---- one of them ---- */

/* From -0.5 on to 0.5; sweep.py has the same. */
static float mix(uint64_t i, uint32_t seed)
{
	uint32_t u = (uint32_t)(i * 2654435761u + (uint64_t)seed * 40503u);

	u ^= u >> 16;
	u *= 0x85ebca6bu;
	u ^= u >> 13;
	return (float)(u & 0xffff) / 65536 - 0.5f;
}

static void *operand(const struct rlx_type *t, const struct param *p)
{
	int64_t n = rlx_type_count(t), i;
	uint16_t *v = malloc((size_t)rlx_type_bytes(t) + 1);
	double *wide = (double *)v;

	CHECK(v);
	for (i = 0; i < n; i++) {
		float x = mix((uint64_t)i, p->seed) * p->scale;
		_Float16 h = (_Float16)x;

		if (t->dtype == RLX_F64)
			wide[i] = (double)x;
		else if (t->dtype == RLX_F32)
			memcpy(v + 2 * i, &x, sizeof(x));
		else if (t->dtype == RLX_F16)
			memcpy(&v[i], &h, sizeof(h));
		else
			v[i] = kc_to_bf16(x);
	}
	return v;
}

static void close_case(void)
{
	const struct rlx_gpu_api *api = gpu->api;

	if (now_open.graph)
		api->graph_exec_free(now_open.graph);
	for (int i = 0; i < 2; i++)
		if (now_open.event[i])
			api->event_free(now_open.event[i]);
	if (now_open.s)
		rlx_session_free(now_open.s);
	memset(&now_open, 0, sizeof(now_open));
}

static enum rlx_status set_all(struct rlx_session *s, const struct program_case *c, enum rlx_io io)
{
	enum rlx_status st = RLX_OK;
	unsigned int i, k;

	for (i = 0; i < rlx_program_io_count(c->program, io) && !st; i++) {
		const struct rlx_type *t = rlx_program_io_type(c->program, io, i);
		const char *name = rlx_program_io_name(c->program, io, i);
		void *v;

		for (k = 0; k < c->n_param && strcmp(c->param[k].name, name); k++)
			;
		CHECKF(k < c->n_param, "nobody said what %s is", name);
		if (t->dtype != RLX_F64 && t->dtype != RLX_F32 && t->dtype != RLX_F16 &&
		    t->dtype != RLX_BF16)
			return RLX_ETYPE;
		v = operand(t, &c->param[k]);
		st = rlx_session_set(s, io, name, *t, v);
		free(v);
	}
	return st;
}

/* Does a run launch it: is any of its steps not one of params alone? */
static bool runs(const struct gpu_exec *x, const struct gpu_call *call)
{
	bool any = call->base.step == GPU_NO_STEP;

	for (uint32_t i = 0; i < call->base.n_step && !any; i++)
		any = !gpu_skips(x, call->base.step + i);
	return any && call->kind == GPU_KERNEL_CALL;
}

/*
 * From now on small results stay on the device too, as the peer's do; kernels write them into the
 * host's memory else, over the bus, and what is timed is that.
 */
static enum rlx_status keep_results(struct gpu_exec *x, struct rlx_error *err)
{
	const struct gpu_code *c = (const struct gpu_code *)x->base.code;

	for (uint32_t i = c->first_io[RLX_IO_OUTPUT]; i < c->n_io; i++)
		if (x->slot[i].mapped) {
			x->slot[i].mapped = false;
			x->places[i] = x->stage + c->io[i].at;
		}
	return gpu_check(gpu, gpu->api->copy_in(x->table, x->places, gpu_table_bytes(c),
						x->stream), "copying addresses in", err);
}

/* All launches of @repeats runs as one graph, as the backend captures those of one. */
static enum rlx_status capture(struct gpu_exec *x, unsigned int repeats, struct rlx_error *err)
{
	const struct gpu_code *c = (const struct gpu_code *)x->base.code;
	const struct rlx_gpu_api *api = gpu->api;
	enum rlx_status st = gpu_enter(gpu, err), end;
	void *graph = NULL;

	if (!st)
		st = gpu_check(gpu, api->capture_begin(x->stream, 1), "capturing", err);
	if (st)
		return st;
	x->capturing = true;
	for (unsigned int r = 0; r < repeats; r++)
		for (uint32_t i = 0; i < c->calls.n_call && !st; i++)
			st = runs(x, &gpu_calls(c)[i]) ? gpu_run_call(x, i) : RLX_OK;
	x->capturing = false;
	end = gpu_check(gpu, api->capture_end(x->stream, &graph), "capturing", err);
	st = st ? st : end;
	if (!st)
		st = gpu_check(gpu, api->graph_ready(&now_open.graph, graph, 0), "a graph", err);
	if (graph)
		api->graph_free(graph);
	return st;
}

static enum rlx_status open_case(struct program_case *c, unsigned int repeats,
				 struct rlx_error *err)
{
	struct gpu_exec *x;
	enum rlx_status st;

	gpu_start();
	close_case();
	st = rlx_session_new(c->program, NULL, &now_open.s, err);
	if (st)
		return st;
	st = set_all(now_open.s, c, RLX_IO_PARAM);
	if (!st)
		st = set_all(now_open.s, c, RLX_IO_INPUT);
	for (int i = 0; i < 2 && !st; i++)	/* the second knows what it need not do again */
		st = rlx_session_run(now_open.s);
	if (st) {
		*err = *rlx_session_error(now_open.s);
		return st;
	}
	x = (struct gpu_exec *)now_open.s->exec;
	now_open.repeats = repeats;
	st = keep_results(x, err);
	st = st ? st : capture(x, repeats, err);
	for (int i = 0; i < 2 && !st; i++)
		st = gpu_check(gpu, gpu->api->event_new(&now_open.event[i], 0), "events", err);
	return st;
}

static void reply_open(unsigned int i, unsigned int repeats)
{
	struct rlx_error err = { .text = "not compiled" };
	struct rlx_program_info info;
	const struct gpu_code *c;
	unsigned int launches = 0;

	if (i >= n_case || !cases[i].program || !repeats ||
	    open_case(&cases[i], repeats, &err)) {
		printf("error %s\n", err.text);
		return;
	}
	c = (const struct gpu_code *)cases[i].program->code;
	for (uint32_t k = 0; k < c->calls.n_call; k++)
		launches += runs((struct gpu_exec *)now_open.s->exec, &gpu_calls(c)[k]);
	rlx_program_info(cases[i].program, &info);
	printf("ok %u %u\n", launches, info.host);
}

/* The median of some graphs' times, of one run. */
static void reply_time(void)
{
	const struct rlx_gpu_api *api = gpu->api;
	struct gpu_exec *x = now_open.s ? (struct gpu_exec *)now_open.s->exec : NULL;
	float best = 1e30f, ms;
	int rc = !now_open.graph;

	for (int i = 0; i < 6 && !rc; i++) {
		rc = api->event_record(now_open.event[0], x->stream);
		rc = rc ? rc : api->graph_launch(now_open.graph, x->stream);
		rc = rc ? rc : api->event_record(now_open.event[1], x->stream);
		rc = rc ? rc : api->stream_wait(x->stream);
		rc = rc ? rc : api->event_elapsed(&ms, now_open.event[0], now_open.event[1]);
		best = !rc && ms < best ? ms : best;
	}
	if (rc)
		printf("error the device says %d\n", rc);
	else
		printf("us %.4f\n", (double)best * 1e3 / now_open.repeats);
}

static void reply_sample(int64_t n)
{
	struct rlx_program *p = now_open.s ? now_open.s->p : NULL;
	const struct rlx_type *t = p ? rlx_program_io_type(p, RLX_IO_OUTPUT, 0) : NULL;
	const void *v;
	int64_t count;

	if (!t || n < 2) {
		printf("error nothing is open\n");
		return;
	}
	count = rlx_type_count(t);
	v = rlx_buf_ptr(rlx_session_buf(now_open.s, RLX_IO_OUTPUT,
					rlx_program_io_name(p, RLX_IO_OUTPUT, 0)));
	for (int64_t i = 0; i < n; i++) {
		int64_t at = count > 1 ? i * (count - 1) / (n - 1) : 0;

		printf("%s%.7g", i ? " " : "ok ", gpu_value(v, (size_t)at, (int)t->dtype));
	}
	printf("\n");
}

int main(void)
{
	char word[16];
	unsigned int a, b;
	bool ok = true;

	while (ok && scanf("%15s", word) == 1) {
		if (!strcmp(word, "prepare")) {
			ok = scanf("%u", &a) == 1 && prepare(a);
		} else if (!strcmp(word, "open")) {
			ok = scanf("%u %u", &a, &b) == 2;
			reply_open(a, b);
		} else if (!strcmp(word, "time")) {
			reply_time();
		} else if (!strcmp(word, "sample")) {
			ok = scanf("%u", &a) == 1;
			reply_sample(a);
		} else if (!strcmp(word, "close")) {
			if (gpu)
				close_case();
			printf("ok\n");
		} else {
			ok = false;
		}
		fflush(stdout);
		if (gpu && atomic_load(&gpu->lost))
			_exit(3);
	}
	if (gpu)
		close_case();
	drop_cases();
	if (!ok)
		fprintf(stderr, "programs: that is no request: %s\n", word);
	return !ok;
}
