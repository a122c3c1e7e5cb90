// SPDX-License-Identifier: MIT
/* Images of graphs: every node and edge is there, names cannot break out. */
#include "base/alloc.h"
#include "rlx/graph.h"
#include "selftests/lib/rlx_test.h"

static const char nasty[] = "a\"b<c>&\\\n";

/* x -> relu -> add(with x) -> softmax, and a constant that is not drawn. */
static struct rlx_graph *sample(void)
{
	struct rlx_graph *g = rlx_graph_new(nasty);
	rlx_value x = rlx_input(g, nasty, rlx_type(RLX_F32, 2, 3)), y;

	y = rlx_emit(g, relu, .x = x);
	y = rlx_emit(g, add, .a = y, .b = x);
	y = rlx_emit(g, mul, .a = y, .b = rlx_scalar_const(g, RLX_F32, 2));
	rlx_output(g, nasty, rlx_emit(g, softmax, .x = y, .axis = -1));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

static char *text_of(enum rlx_status (*fn)(const struct rlx_graph *, FILE *),
		     const struct rlx_graph *g)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	CHECK(f);
	CHECK(!fn(g, f));
	CHECK(!fclose(f));
	return text;
}

static unsigned int count(const char *text, const char *what)
{
	unsigned int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

TEST(dot_has_all_nodes_and_edges)
{
	struct rlx_graph *g = sample();
	char *text = text_of(rlx_graph_dot, g);

	CHECK_EQ(count(text, "[label="), 5);	/* x relu add mul softmax */
	CHECK_EQ(count(text, " -> n"), 5);	/* relu add(2) mul softmax */
	CHECK_EQ(count(text, " -> o0"), 1);
	CHECK(strstr(text, "mul +1 const\\nf32[2,3]"));
	CHECK(strstr(text, "a\\\"b<c>&\\\\?"));	/* in quotes, and still so */
	free(text);
	rlx_graph_put(g);
}

/* Well formed as far as a tag counter can tell, and every edge goes down. */
TEST(svg_edges_go_down)
{
	struct rlx_graph *g = sample();
	char *text = text_of(rlx_graph_svg, g), *at;
	double x1, y1, c[4], x2, y2;
	unsigned int edges = 0;

	CHECK_EQ(count(text, "<g>"), 5);
	CHECK_EQ(count(text, "</g>"), 5);
	CHECK_EQ(count(text, "<text"), count(text, "</text>"));
	CHECK(!strstr(text, "b<c>"));
	CHECK(strstr(text, "a&#34;b&#60;c&#62;&#38;\\?"));
	for (at = text; (at = strstr(at, "<path d=\"")); at++, edges++) {
		CHECK(sscanf(at, "<path d=\"M%lf %lf C%lf %lf %lf %lf %lf %lf", &x1, &y1, &c[0],
			     &c[1], &c[2], &c[3], &x2, &y2) == 8);
		CHECKF(y1 < y2, "an edge from %g to %g", y1, y2);
		CHECK(x1 >= 0 && x2 >= 0);
	}
	CHECK_EQ(edges, 5);
	free(text);
	rlx_graph_put(g);
}

/* Boxes of one row do not overlap, however many there are. */
TEST(a_wide_row)
{
	struct rlx_graph *g = rlx_graph_new("wide");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4)), y, sum = x;
	double left, top, width, end = -1;
	unsigned int i, seen = 0;
	char *text, *at;

	for (i = 0; i < 100; i++) {
		y = rlx_emit(g, exp, .x = x);
		sum = rlx_emit(g, add, .a = sum, .b = y);
	}
	rlx_output(g, "y", sum);
	CHECK(!rlx_graph_finish(g));
	text = text_of(rlx_graph_svg, g);
	for (at = text; (at = strstr(at, "exp</title>")); at++, seen++) {
		CHECK(sscanf(at, "exp</title><rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &left,
			     &top, &width) == 3);
		CHECKF(left > end, "a box at %g, the last ended at %g", left, end);
		end = left + width;
	}
	CHECK_EQ(seen, 100);
	free(text);
	rlx_graph_put(g);
}

TEST(nothing_to_draw_on)
{
	struct rlx_graph *g = sample();
	FILE *full = fopen("/dev/full", "w");

	CHECK_EQ(rlx_graph_dot(NULL, stdout), RLX_EINVAL);
	CHECK_EQ(rlx_graph_svg(g, NULL), RLX_EINVAL);
	CHECK(full);
	setvbuf(full, NULL, _IONBF, 0);
	CHECK_EQ(rlx_graph_svg(g, full), RLX_EIO);
	clearerr(full);
	CHECK_EQ(rlx_graph_dot(g, full), RLX_EIO);
	fclose(full);
	rlx_graph_put(g);
}

TEST(no_memory_anywhere)
{
	struct rlx_graph *g = sample();
	FILE *f = fopen("/dev/null", "w");
	enum rlx_status st = RLX_ENOMEM;
	int64_t live = rlx_alloc_live();
	uint64_t n;

	CHECK(f);
	for (n = 1; st; n++) {
		rlx_alloc_fail_nth(n);
		st = rlx_graph_svg(g, f);
		rlx_alloc_fail_nth(0);
		CHECK(!st || st == RLX_ENOMEM);
		CHECK_EQ(rlx_alloc_live(), live);
		CHECK(n < 100);
	}
	CHECK(n > 3);
	fclose(f);
	rlx_graph_put(g);
}

TEST_MAIN()
