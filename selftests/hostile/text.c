// SPDX-License-Identifier: MIT
/* The text form of graphs, cut short at every byte and bent: an error or a graph. */
#include <time.h>

#include "base/alloc.h"
#include "rlx/dims.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static char *text_of(unsigned int parts, size_t *out_len)
{
	struct rlx_graph *g = small_net(parts, 1);
	char *p = NULL;
	FILE *f = open_memstream(&p, out_len);

	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	CHECK(f);
	CHECK_EQ(rlx_graph_print(g, f, false), 0);
	fclose(f);
	rlx_graph_put(g);
	return p;
}

/* With each name as small, and as large, as it may be: a graph without names, or a reason. */
static void bind(const struct rlx_graph *g, int64_t live)
{
	struct rlx_binding b[64];
	struct rlx_graph *out;
	struct rlx_dim_info d;
	struct rlx_error err;
	unsigned int i, k;
	enum rlx_status st;

	for (k = 0; k < 2; k++) {
		for (i = 0; i < 64 && rlx_graph_dim_at(g, i, &d); i++)
			b[i] = (struct rlx_binding){ d.name, k ? d.max : d.min };
		err = (struct rlx_error){ 0 };
		st = rlx_graph_bind(g, b, i, &out, &err);
		CHECKF(!st == !!out && st == err.status && st != RLX_EBUG, "%s", err.text);
		CHECK(!out || !rlx_graph_dim_count(out));
		rlx_graph_put(out);
	}
	CHECK(rlx_alloc_live() > live);
}

/* In a block of just that size, so that a sanitizer sees a read past its end. */
static enum rlx_status parse(const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1);
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };
	int64_t live = rlx_alloc_live();
	enum rlx_status st;

	CHECK(copy);
	memcpy(copy, text, len);
	st = rlx_graph_parse(copy, len, &g, &err);
	free(copy);
	CHECKF(!st == !!g, "%s and %s graph", rlx_status_name(st), g ? "a" : "no");
	CHECKF(st == err.status, "%s, its message %s", rlx_status_name(st),
	       rlx_status_name(err.status));
	CHECK(!st || err.text[0]);
	if (rlx_graph_dim_count(g))
		bind(g, live);
	rlx_graph_put(g);
	CHECKF(rlx_alloc_live() == live, "%lld blocks leaked: %s",
	       (long long)(rlx_alloc_live() - live), err.text);
	return st;
}

/* Numbers of values are names: a large one takes no more than a small one. */
TEST(large_numbers_of_values)
{
	enum { BODIES = 100 };
	static const unsigned int number[2] = { 1, 100000000 };
	clock_t took[2], begun;
	char *text, *at;
	size_t len;
	int i, k;
	FILE *f;

	for (k = 0; k < 2; k++) {
		text = NULL;
		f = open_memstream(&text, &len);
		CHECK(f);
		fputs("graph \"g\" { %1 = input(name=\"p\", type=bool[]) "
		      "%2 = input(name=\"x\", type=f32[2]) ", f);
		for (i = 0; i < BODIES; i++)
			fprintf(f, "%%%d = if(pred=%%1, xs=[%%2], then_g=graph \"t\" { "
				"%%%u = input(name=\"x\", type=f32[2]) return \"x\"=%%%u }, "
				"else_g=graph \"e\" { %%1 = input(name=\"x\", type=f32[2]) "
				"return \"x\"=%%1 }) ", i + 3, number[k], number[k]);
		fputs("return \"y\"=%3 }", f);
		fclose(f);
		begun = clock();
		CHECK_EQ(parse(text, len), 0);
		took[k] = clock() - begun;
		at = strstr(text, "%3 =");	/* and none is taken for another */
		CHECK(at && memcpy(at, "%2 =", 4));
		CHECK_EQ(parse(text, len), RLX_EPARSE);
		free(text);
	}
	CHECKF(took[1] < 10 * took[0] + CLOCKS_PER_SEC / 4, "%ld and %ld clocks", (long)took[0],
	       (long)took[1]);
}

static void cut_everywhere(unsigned int parts)
{
	size_t len, i, last;
	char *t = text_of(parts, &len);

	CHECK_EQ(parse(t, len), 0);
	for (last = len; last && strchr(" \n", t[last - 1]); last--)
		;
	for (i = 0; i < last; i++)
		CHECKF(parse(t, i), "the first %zu of %zu bytes are a graph", i, len);
	free(t);
}

TEST(cut_short_at_every_byte)
{
	cut_everywhere(SMALL_NET_EW | SMALL_NET_MOVE);
	cut_everywhere(SMALL_NET_SUB);
}

TEST(bytes_flipped)
{
	uint64_t seed = rlx_test_seed();
	size_t len, i, k;
	char *t = text_of(SMALL_NET_SUB | SMALL_NET_EW | SMALL_NET_MOVE, &len);
	char *bent = malloc(len);
	unsigned int good = 0;

	CHECK(bent);
	for (i = 0; i < 6000; i++) {
		memcpy(bent, t, len);
		for (k = 0; k < 1 + i % 4; k++)
			bent[rlx_test_rand(&seed) % len] ^=
				(char)(1u << rlx_test_rand(&seed) % 8);
		good += !parse(bent, len);
	}
	CHECK(good < i);	/* a flip within a number or name may be fine */
	free(bent);
	free(t);
}

static const char template[] =
	"graph \"t\" {\n  dim b[1,64]\n  dim s[3,512]\n"
	"  %1 = input(name=\"x\", type=f32[b,(s*2),4])\n"
	"  %2 = input(name=\"w\", type=f32[1,1,3,3])\n"
	"  %3 = reshape(x=%1, shape=[b,1,(s*2),4]) : f32[b,1,(s*2),4]\n"
	"  %4 = conv(x=%3, w=%2) : f32[b,1,%4[2],2]\n"
	"  %5 = reshape(x=%4, shape=[((b*%4[2])/1),2]) : f32[(b*%4[2]),2]\n"
	"  %6 = iota(type=i64[s]) : i64[s]\n"
	"  return \"y\"=%5, \"z\"=%6\n}\n";

/* The same of sizes that have names; where it still is a graph, it is bound. */
TEST(templates)
{
	static const char *const words[] = {
		"b", "s", "(b", "b)", "(b*s)", "(s+-9)", "(b/b)", "%4[2]", "%1[0]", "%6[9]", "[b]",
		"dim c[0,0]\n", "dim b[1,64]\n", "dim q[0,9223372036854775807]\n", "dim ", "64",
		"0", "9223372036854775807", "-4611686018427387904", "((((((((((((((((((", "1", "2",
	};
	uint64_t seed = rlx_test_seed();
	size_t len = sizeof(template) - 1, i, at, n, cut;
	char bent[sizeof(template) + 64];
	unsigned int good = 0;

	CHECK_EQ(parse(template, len), 0);
	for (i = 0; i < len - 2; i++)
		CHECKF(parse(template, i), "the first %zu of %zu bytes are a graph", i, len);
	for (i = 0; i < 20000; i++) {
		const char *w = words[rlx_test_rand(&seed) % (sizeof(words) / sizeof(words[0]))];

		n = rlx_test_rand(&seed) % 3 ? strlen(w) : 0;
		at = rlx_test_rand(&seed) % len;
		cut = rlx_test_rand(&seed) % (len - at < 6 ? len - at : 6);
		memcpy(bent, template, at);
		memcpy(bent + at, w, n);
		memcpy(bent + at + n, template + at + cut, len - at - cut);
		if (!n)
			bent[at] ^= (char)(1u << rlx_test_rand(&seed) % 8);
		good += !parse(bent, len - cut + n);
	}
	CHECKF(good > 100 && good < i, "%u of %zu are graphs", good, i);
}

/* Pieces of the text moved about: tokens in places where they do not belong. */
TEST(pieces_moved)
{
	static const char *const words[] = {
		"%", "%99999999999999999999", "%-1", "\"", "graph \"g\" {", "}", "return",
		"[", "]", "9223372036854775808", "-9223372036854775808", "1e999", "nan",
		"f32", "f32[9223372036854775807, 9]", "f32[-1]", "f32[1,1,1,1,1,1,1,1,1,1]",
		"=", ",", "(", ")", "add(a=%1, b=%1)", "\\", "\n", "", "x\"", ":",
		"reshape(x=%1, shape=[4611686018427387904, 4])", "input(", "constant(",
	};
	uint64_t seed = rlx_test_seed();
	size_t len, at, n, cut, room;
	char *t = text_of(SMALL_NET_SUB | SMALL_NET_EW, &len), *bent;
	int i;

	bent = malloc(len + 64);
	CHECK(bent);
	for (i = 0; i < 4000; i++) {
		const char *w = words[rlx_test_rand(&seed) % (sizeof(words) / sizeof(words[0]))];

		n = strlen(w);
		at = rlx_test_rand(&seed) % len;
		room = len - at;
		cut = rlx_test_rand(&seed) % (room < 40 ? room : 40);
		memcpy(bent, t, at);
		memcpy(bent + at, w, n);
		memcpy(bent + at + n, t + at + cut, room - cut);
		parse(bent, len - cut + n);
	}
	free(bent);
	free(t);
}

TEST(nesting_has_an_end)
{
	static char deep[400000];
	size_t n = 0;
	int i;

	for (i = 0; i < 10000; i++)
		n += (size_t)snprintf(deep + n, sizeof(deep) - n,
				      "graph \"g\" { %%1 = if(then_g=");
	CHECK_EQ(parse(deep, n), RLX_EPARSE);
	memset(deep, '[', sizeof(deep));
	CHECK_EQ(parse(deep, sizeof(deep)), RLX_EPARSE);
}

/* A value may only be read after it is made: text cannot form a cycle. */
TEST(cycles)
{
	static const char ahead[] =
		"graph \"g\" { %1 = input(name=\"x\", type=f32[2])\n"
		"%2 = add(a=%1, b=%3)\n%3 = neg(x=%2)\nreturn \"y\" = %3 }";
	static const char self[] =
		"graph \"g\" { %1 = input(name=\"x\", type=f32[2])\n"
		"%2 = add(a=%1, b=%2)\nreturn \"y\" = %2 }";
	static const char twice[] =
		"graph \"g\" { %1 = input(name=\"x\", type=f32[2])\n"
		"%1 = neg(x=%1)\nreturn \"y\" = %1 }";
	static const char good[] =
		"graph \"g\" { %1 = input(name=\"x\", type=f32[2])\n"
		"%2 = neg(x=%1)\nreturn \"y\" = %2 }";

	CHECK_EQ(parse(good, sizeof(good) - 1), 0);
	CHECK_EQ(parse(ahead, sizeof(ahead) - 1), RLX_EPARSE);
	CHECK_EQ(parse(self, sizeof(self) - 1), RLX_EPARSE);
	CHECK_EQ(parse(twice, sizeof(twice) - 1), RLX_EPARSE);
}

TEST_MAIN()
