// SPDX-License-Identifier: MIT
/* The program cache: equal graphs share, others do not, the oldest goes. */
#include <pthread.h>

#include "rlx/cache.h"
#include "selftests/lib/rlx_test.h"

/* y = x + k */
static struct rlx_graph *add_graph(float k)
{
	struct rlx_graph *g = rlx_graph_new("add");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3));

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = rlx_scalar_const(g, RLX_F32, (double)k)));
	CHECK_EQ(rlx_graph_finish(g), 0);
	return g;
}

static struct rlx_program *compile(struct rlx_cache *c, float k, const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = add_graph(k);
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;

	CHECKF(!rlx_cache_compile(c, g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

TEST(equal_graphs_share_a_program)
{
	struct rlx_cache *c = rlx_cache_new(0);
	struct rlx_program *a = compile(c, 1, "cpu"), *b = compile(c, 1, "cpu");
	struct rlx_program *other = compile(c, 2, "cpu"), *ref = compile(c, 1, "ref");
	struct rlx_cache_stats s;

	CHECK(a == b);
	CHECK(a != other && a != ref);
	rlx_cache_stats(c, &s);
	CHECK_EQ(s.hits, 1);
	CHECK_EQ(s.misses, 3);
	CHECK_EQ(s.held, 3);
	rlx_cache_free(c);
	CHECK_STR(rlx_program_io_name(a, RLX_IO_OUTPUT, 0), "y");
	rlx_program_put(a);
	rlx_program_put(b);
	rlx_program_put(other);
	rlx_program_put(ref);
}

/* y = x x, rounded as the precision says or as written. */
static struct rlx_program *in_scope(struct rlx_cache *c, uint32_t scope)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .precision = RLX_PRECISION_MIXED_BF16 };
	struct rlx_graph *g = rlx_graph_new("scoped");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3, 3));
	struct rlx_program *p = NULL;

	rlx_scope_begin(g, scope);
	x = rlx_emit(g, matmul, .a = x, .b = x);
	rlx_scope_end(g);
	rlx_output(g, "y", x);
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_cache_compile(c, g, &o, &p, NULL), 0);
	rlx_graph_put(g);
	return p;
}

TEST(scopes_are_told_apart)
{
	struct rlx_cache *c = rlx_cache_new(0);
	struct rlx_program *rounded = in_scope(c, 0), *written = in_scope(c, RLX_SCOPE_AS_WRITTEN);
	struct rlx_program *again = in_scope(c, RLX_SCOPE_AS_WRITTEN);

	CHECK(rounded != written);
	CHECK(again == written);
	rlx_cache_free(c);
	rlx_program_put(rounded);
	rlx_program_put(written);
	rlx_program_put(again);
}

TEST(the_least_recently_used_goes)
{
	struct rlx_cache *c = rlx_cache_new(2);
	struct rlx_cache_stats s;

	rlx_program_put(compile(c, 1, "null"));
	rlx_program_put(compile(c, 2, "null"));
	rlx_program_put(compile(c, 1, "null"));
	rlx_program_put(compile(c, 3, "null"));	/* drops 2 */
	rlx_program_put(compile(c, 1, "null"));
	rlx_cache_stats(c, &s);
	CHECK_EQ(s.hits, 2);
	CHECK_EQ(s.held, 2);
	rlx_program_put(compile(c, 2, "null"));
	rlx_cache_stats(c, &s);
	CHECK_EQ(s.hits, 2);
	rlx_cache_free(c);
}

TEST(failures_are_told_and_not_kept)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "nope" };
	struct rlx_cache *c = rlx_cache_new(0);
	struct rlx_graph *g = add_graph(1);
	struct rlx_error err = { 0 };
	struct rlx_cache_stats s;
	struct rlx_program *p;

	CHECK_EQ(rlx_cache_compile(c, g, &o, &p, &err), RLX_ENODEV);
	CHECK(!p && strstr(err.text, "nope"));
	rlx_cache_stats(c, &s);
	CHECK_EQ(s.held, 0);
	CHECK_EQ(rlx_cache_compile(c, NULL, NULL, &p, &err), RLX_EINVAL);
	rlx_graph_put(g);
	rlx_cache_free(c);
}

static void *many(void *arg)
{
	int i;

	for (i = 0; i < 40; i++)
		rlx_program_put(compile(arg, (float)(i % 5), "cpu"));
	return NULL;
}

TEST(threads_compile_each_graph_once)
{
	struct rlx_cache *c = rlx_cache_new(0);
	struct rlx_cache_stats s;
	pthread_t t[4];
	int i;

	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, many, c));
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	rlx_cache_stats(c, &s);
	CHECK_EQ(s.misses, 5);
	CHECK_EQ(s.hits, 155);
	rlx_cache_free(c);
}

TEST_MAIN()
