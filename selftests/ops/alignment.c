// SPDX-License-Identifier: MIT
/*
 * Inputs and outputs at any address that fits their elements, ending at a page that
 * cannot be touched: every op's samples and random graphs give bit for bit what they give
 * of 64-byte aligned buffers, and write nothing beside their outputs.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

enum { PAGE = 4096, POISON = 0xa5, MOST_IO = 160, FUZZ_GRAPHS = 300 };

static char what[128];		/* is run now, for crashed() */

static void crashed(int sig)
{
	static const char head[] = "# beyond a buffer, or as if aligned: ";

	if (write(STDOUT_FILENO, head, sizeof(head) - 1) < 0 ||
	    write(STDOUT_FILENO, what, strlen(what)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0)
		_exit(2);
	signal(sig, SIG_DFL);
}

/* Memory of @bytes with pages on both sides that nobody may touch. */
struct place {
	char			*map, *at;
	size_t			 whole, bytes;
	struct rlx_arena	*arena;
};

/* @end: it ends where its pages do; else it begins @past bytes after their begin. */
static struct rlx_buf place_new(struct place *p, size_t bytes, bool end, size_t past)
{
	size_t inner = (bytes + past + PAGE) / PAGE * PAGE;

	p->whole = inner + 2 * PAGE;
	p->bytes = bytes;
	p->map = mmap(NULL, p->whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p->map != MAP_FAILED);
	CHECK(!mprotect(p->map + PAGE, inner, PROT_READ | PROT_WRITE));
	memset(p->map + PAGE, POISON, inner);
	p->at = p->map + PAGE + (end ? inner - bytes : past);
	CHECK(!rlx_arena_wrap(&(struct rlx_arena_user){ .base = p->map + PAGE, .size = inner },
			      &p->arena, NULL));
	return (struct rlx_buf){ p->arena, (uint64_t)(p->at - p->map - PAGE), bytes };
}

/* Is all of it beside the bytes as it was? */
static bool is_whole_beside(const struct place *p)
{
	const char *c = p->map + PAGE, *end = p->map + p->whole - PAGE;

	for (; c < end; c++)
		if ((c < p->at || c >= p->at + p->bytes) && *c != (char)POISON)
			return false;
	return true;
}

static void place_fini(struct place *p)
{
	rlx_arena_put(p->arena);
	munmap(p->map, p->whole);
}

struct binding {
	struct place	at[2][MOST_IO];		/* by enum rlx_io: inputs; [1]: outputs */
	unsigned int	n[2];
	enum rlx_status	status;
};

enum how { ALIGNED, RANDOM, TO_THE_END };

static void bind(struct binding *b, struct rlx_session *s, enum how how, void *const *in,
		 uint64_t *seed)
{
	struct rlx_program *p = rlx_session_program(s);
	unsigned int i;
	int o;

	for (o = 0; o < 2; o++) {
		enum rlx_io io = o ? RLX_IO_OUTPUT : RLX_IO_INPUT;

		b->n[o] = rlx_program_io_count(p, io);
		CHECK(b->n[o] <= MOST_IO);
		for (i = 0; i < b->n[o]; i++) {
			const struct rlx_type *t = rlx_program_io_type(p, io, i);
			size_t bytes = (size_t)rlx_type_bytes(t), unit = rlx_dtype_align(t->dtype);
			size_t past = how == RANDOM ? rlx_test_rand(seed) % (64 / unit) * unit : 0;
			struct rlx_buf buf = place_new(&b->at[o][i], bytes, how == TO_THE_END, past);

			if (!o && bytes)
				memcpy(b->at[o][i].at, in[i], bytes);
			if (!bytes)	/* a place of its own: there is nothing to bind */
				continue;
			CHECKF(!rlx_session_bind_at(s, io, i, buf), "%s: %s", what,
			       rlx_session_error(s)->text);
		}
	}
	for (i = 0; i < b->n[0]; i++)	/* without elements, but a value */
		if (!rlx_session_bound_at(s, RLX_IO_INPUT, i).arena)
			rlx_session_buf_at(s, RLX_IO_INPUT, i);
	b->status = rlx_session_run(s);
}

static void binding_fini(struct binding *b)
{
	unsigned int i;
	int o;

	for (o = 0; o < 2; o++)
		for (i = 0; i < b->n[o]; i++)
			place_fini(&b->at[o][i]);
}

/* Run the program of @g with the data @in of its inputs in each way; takes @g. */
static void check(struct rlx_graph *g, const char *device, uint32_t flags, void *const *in,
		  uint64_t *seed)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = flags };
	static struct binding truth, b;
	struct rlx_error err = { 0 };
	struct rlx_session *s = NULL;
	struct rlx_program *p = NULL;
	unsigned int i, how;

	if (rlx_compile(g, &o, &p, &err)) {	/* what is refused is tested elsewhere */
		rlx_graph_put(g);
		return;
	}
	rlx_graph_put(g);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s: %s", what, err.text);
	bind(&truth, s, ALIGNED, in, seed);
	for (how = RANDOM; how <= TO_THE_END; how++) {
		bind(&b, s, how, in, seed);
		WANT(b.status == truth.status, "%s: %d, not %d: %s", what, b.status, truth.status,
		     rlx_session_error(s)->text);
		for (i = 0; i < b.n[1]; i++) {
			WANT(truth.status || !memcmp(b.at[1][i].at, truth.at[1][i].at,
						     b.at[1][i].bytes),
			     "%s: output %u differs, %s", what, i,
			     how == RANDOM ? "at random addresses" : "before the end of a page");
			WANT(is_whole_beside(&b.at[1][i]), "%s: written beside output %u", what, i);
		}
		binding_fini(&b);
	}
	rlx_session_free(s);
	binding_fini(&truth);
	rlx_program_put(p);
}

static void all_ops(const char *device, enum rlx_dtype real, bool fixed)
{
	unsigned int d, i, k, n, seen = 0;
	void *in[RLX_SAMPLE_IN];
	struct op_case c;
	uint64_t seed;

	signal(SIGSEGV, crashed);
	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; seed = rlx_test_seed() + d * 1000 + i,
		     op_case_init(&c, rlx_op_defs[d], i, real, &seed); i++) {
			c.fixed = fixed;
			for (k = n = 0; k < c.s.n_in; k++)
				if (c.s.in[k].dtype && !(k && fixed))
					in[n++] = c.data[k];
			snprintf(what, sizeof(what), "%s sample %u of %s (%s)", device, i,
				 c.def->name, rlx_dtype_name(real));
			if (!c.s.f32_only || real == RLX_F32) {
				check(op_case_graph(&c), device, 0, in, &seed);
				seen++;
			}
			op_case_fini(&c);
		}
	CHECKF(seen > 100, "only %u samples", seen);
	CHECKF(!op_case_failures, "%u failures, seed %llu", op_case_failures,
	       (unsigned long long)rlx_test_seed());
}

TEST(ops_f32) { all_ops("cpu", RLX_F32, false); }
TEST(ops_f32_with_constants) { all_ops("cpu", RLX_F32, true); }
TEST(ops_f64) { all_ops("cpu", RLX_F64, false); }
TEST(ops_f16) { all_ops("cpu", RLX_F16, false); }
TEST(ops_bf16) { all_ops("cpu", RLX_BF16, false); }
TEST(ops_bf16_with_constants) { all_ops("cpu", RLX_BF16, true); }
TEST(ops_of_the_evaluator) { all_ops("ref", RLX_F32, false); }

TEST(random_graphs)
{
	uint64_t seed = rlx_test_seed();
	struct fuzz_case *c = malloc(sizeof(*c));
	void *data[FUZZ_LEAVES], *in[FUZZ_LEAVES];
	unsigned int i, n, failed;
	uint32_t k;

	CHECK(c);
	signal(SIGSEGV, crashed);
	for (i = 0; i < FUZZ_GRAPHS; i++) {
		uint64_t one = rlx_test_rand(&seed);

		fuzz_draw_graph(c, one);
		snprintf(what, sizeof(what), "graph of seed %llu", (unsigned long long)one);
		for (k = n = 0; k < c->n_leaf; k++) {
			data[k] = fuzz_data(c, k);
			if (!c->leaf[k].fixed)
				in[n++] = data[k];
		}
		failed = op_case_failures;
		check(fuzz_graph(c, data, RLX_NODTYPE, 0, 0), "cpu", c->flags, in, &seed);
		if (op_case_failures > failed)
			fuzz_print(c, stderr);
		for (k = 0; k < c->n_leaf; k++)
			free(data[k]);
	}
	free(c);
	CHECKF(!op_case_failures, "%u failures, seed %llu", op_case_failures,
	       (unsigned long long)rlx_test_seed());
}

TEST_MAIN()
