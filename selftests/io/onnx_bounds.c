// SPDX-License-Identifier: MIT
/* Small ONNX models that ask the importer for much, or for what is not there. */
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "model/format.h"
#include "model/model.h"
#include "selftests/io/onnx_model.h"

static const int64_t dim_2[] = { 2 };

/* Models of f32 x[2] -> y, of whatever type. */
static void begin(struct out *g)
{
	g->n = 0;
	put_info(g, 11, "x", ONNX_FLOAT, dim_2, 1);
	put_info(g, 12, "y", ONNX_FLOAT, NULL, 0);
}

static struct rlx_spec spec_x(void)
{
	return (struct rlx_spec){
		.kind = RLX_SPEC_TENSOR, .name = "x", .type = rlx_type(RLX_F32, 2),
	};
}

/* Items that are absent, and sequences whose number of tensors doubles with each node. */
TEST(sequences_hold_tensors)
{
	struct out g;
	char line[64];
	int i;

	begin(&g);
	put_node(&g, "SequenceConstruct x _ x > y");
	refuse(&g, 17, spec_x(), RLX_ETYPE, "input 1 is no tensor");
	begin(&g);
	put_node(&g, "SequenceConstruct x > s");
	put_node(&g, "SequenceInsert s s > y");
	refuse(&g, 17, spec_x(), RLX_ETYPE, "input 1 is no tensor");
	begin(&g);
	put_node(&g, "SequenceConstruct x x > s0");
	for (i = 0; i < 40; i++) {
		snprintf(line, sizeof(line), "SequenceConstruct s%d s%d > s%d", i, i, i + 1);
		put_node(&g, line);
	}
	put_node(&g, "Identity s40 > y");
	refuse(&g, 17, spec_x(), RLX_ETYPE, "input 0 is no tensor");
}

/* A loop of @trips steps over a sequence, so that it is unrolled; the body makes t of s. */
static void put_loop(struct out *g, const struct out *nodes, int64_t trips)
{
	struct out body = { .n = 0 }, n;

	body = *nodes;
	put_info(&body, 11, "i", ONNX_INT64, NULL, 0);
	put_info(&body, 11, "c", ONNX_BOOL, NULL, 0);
	put_info(&body, 11, "s", ONNX_FLOAT, NULL, 0);
	put_info(&body, 12, "c", ONNX_BOOL, NULL, 0);
	put_info(&body, 12, nodes->n ? "t" : "s", ONNX_FLOAT, NULL, 0);
	put_i64_tensor(g, 5, "trips", &trips, 0);
	put_node(g, "SequenceEmpty > none");
	node_of(&n, "Loop trips _ none > z");
	put_attr_graph(&n, "body", &body);
	put_msg(g, 1, &n);
	put_node(g, "SequenceLength z > y");
}

/* Work that grows faster than the file: each took more than 2 GB or 20 s. */
TEST(work_is_bounded_whatever_repeats_it)
{
	struct out g, body = { .n = 0 }, n;
	int i;

	/* every step copies a list that is one longer */
	begin(&g);
	put_node(&body, "SequenceInsert s x > t");
	put_loop(&g, &body, 200000);
	refuse(&g, 17, spec_x(), RLX_ENOSUP, "more than 262144 nodes after unrolling");
	/* steps that have no node */
	begin(&g);
	body.n = 0;
	put_loop(&g, &body, 1 << 20);
	refuse(&g, 17, spec_x(), RLX_ENOSUP, "more than 262144 nodes after unrolling");
	/* names that a step looks up */
	begin(&g);
	body.n = 0;
	put_node(&body, "SequenceInsert s x > u");
	node_of(&n, "SequenceErase u > t");
	for (i = 0; i < 3000; i++)
		put_str(&n, 2, "");
	put_msg(&body, 1, &n);
	put_loop(&g, &body, 100000);
	refuse(&g, 17, spec_x(), RLX_ENOSUP, "more than 262144 nodes after unrolling");
}

/* Loops over sequences of a size that somebody may have. */
TEST(loops_over_sequences_are_unrolled)
{
	struct rlx_spec x = spec_x();
	struct out g, body = { .n = 0 }, o;
	struct rlx_segment seg;
	struct onnx_file *f;

	begin(&g);
	put_node(&body, "SequenceInsert s x > t");
	put_loop(&g, &body, 3000);
	model_of(&o, &g, 17);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.need, RLX_NEED_NOTHING);
	rlx_segment_fini(&seg);
	onnx_put(f);
}

/* One weight for each of @count columns, all of them the last of 2^23. */
static void put_weights(struct out *n, size_t count)
{
	struct out a = { .n = 0 }, b = { .n = 0 };
	size_t i;

	put_str(&a, 1, "weights");
	put_str(&b, 1, "ngram_indexes");
	for (i = 0; i < count; i++) {
		put_f32(&a, 7, 1);
		put_int(&b, 8, (1 << 23) - 2);
	}
	put_int(&a, 20, ONNX_ATTR_FLOATS);
	put_int(&b, 20, ONNX_ATTR_INTS);
	put_msg(n, 5, &a);
	put_msg(n, 5, &b);
}

/* [rows, 0] of integers, and a node that counts n-grams of them. */
static void begin_tfidf(struct out *g, struct out *n, int64_t rows)
{
	static const int64_t two[] = { 1, 2 }, from[] = { 0, 0 };
	struct out t = { .n = 0 }, a = { .n = 0 };

	begin(g);
	put_str(&t, 8, "s");
	put_int(&t, 2, ONNX_INT64);
	put_int(&t, 1, (uint64_t)rows);
	put_int(&t, 1, 0);
	put_msg(g, 5, &t);
	node_of(n, "TfIdfVectorizer s > y");
	put_str(&a, 1, "mode");
	put_str(&a, 4, "IDF");
	put_int(&a, 20, ONNX_ATTR_STRING);
	put_msg(n, 5, &a);
	put_attr_ints(n, "pool_int64s", two, 2);
	put_attr_ints(n, "ngram_counts", from, 2);
	put_attr_i(n, "max_gram_length", 2);
}

/* Rows without elements are work, too, and so is looking for weights of columns. */
TEST(n_grams_are_counted_within_bounds)
{
	static const int64_t none = 0;
	struct rlx_spec x = spec_x();
	struct rlx_segment seg;
	struct onnx_file *f;
	struct out g, n, o;

	begin_tfidf(&g, &n, 8000000);
	put_attr_ints(&n, "ngram_indexes", &none, 1);
	put_attr_i(&n, "max_skip_count", 65536);
	put_msg(&g, 1, &n);
	refuse(&g, 17, x, RLX_ENOSUP, "8000000 rows of 0 are more than is supported");
	/* 2^23 columns by 6,000 weights: in one pass, where it took 50 times 10^9 steps */
	begin_tfidf(&g, &n, 1);
	put_weights(&n, 6000);
	put_msg(&g, 1, &n);
	model_of(&o, &g, 17);
	f = open_model(&o);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	CHECK_EQ(seg.out[0].type.dim[1], (1 << 23) - 1);
	rlx_segment_fini(&seg);
	onnx_put(f);
}

/* What is looked through at every node was as long as a file has it. */
TEST(lists_of_each_node_are_short)
{
	struct out g = { .n = 0 }, n, o, v = { .n = 0 };
	struct rlx_error err = { 0 };
	struct onnx_file *f;
	int i;

	node_of(&n, "Relu x > y");
	for (i = 0; i < 65; i++)
		put_attr_i(&n, "a", i);
	put_msg(&g, 1, &n);
	model_of(&o, &g, 17);
	CHECK_EQ(onnx_open_mem(o.b, o.n, "mem", ONNX_ROOT_MODEL, &f, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "NodeProto: 65 attributes, at most 64 are supported"), "%s",
	       err.text);
	begin(&g);
	put_node(&g, "Relu x > y");
	model_of(&o, &g, 17);
	put_str(&v, 1, "other");
	put_int(&v, 2, 1);
	for (i = 0; i < 64; i++)
		put_msg(&o, 8, &v);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(onnx_open_mem(o.b, o.n, "mem", ONNX_ROOT_MODEL, &f, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "65 opset imports, at most 64 are supported"), "%s", err.text);
}

/* Processor time of importing 80,000 calls of the last of @count functions, in ms. */
static long call_time(int count)
{
	struct out g, body = { .n = 0 }, o, fn, ops = { .n = 0 }, n;
	struct rlx_spec x = spec_x();
	struct timespec from, to;
	struct rlx_segment seg;
	struct onnx_file *f;
	char name[32];
	int i;

	begin(&g);
	snprintf(name, sizeof(name), "f%04d s > t", count - 1);
	node_of(&n, name);
	put_str(&n, 7, "mine");
	put_msg(&body, 1, &n);
	put_loop(&g, &body, 80000);
	model_of(&o, &g, 17);
	put_int(&ops, 2, 17);
	for (i = 0; i < count; i++) {
		fn.n = 0;
		snprintf(name, sizeof(name), "f%04d", i);
		put_str(&fn, 1, name);
		put_str(&fn, 4, "a");
		put_str(&fn, 5, "a");
		put_str(&fn, 10, "mine");
		put_msg(&fn, 9, &ops);
		put_msg(&o, 25, &fn);
	}
	f = open_model(&o);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	build(f, (struct rlx_instance){ &x, 1 }, &seg);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	rlx_segment_fini(&seg);
	onnx_put(f);
	return (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
}

/* However many there are; each call was compared with all of them. */
TEST(functions_are_found_at_once)
{
	long one = LONG_MAX, many = LONG_MAX;
	int i;

	for (i = 0; i < 3; i++) {	/* others on the machine slow either down at times */
		long a = call_time(1), b = call_time(1500);

		one = a < one ? a : one;
		many = b < many ? b : many;
	}
	fprintf(stderr, "# 1 function: %ld ms, 1500: %ld ms\n", one, many);
	CHECKF(many < 2 * one + 20, "1 function: %ld ms, 1500: %ld ms", one, many);
}

/* Processor time in us of opening a model of @count inputs and building it, ten times. */
static long name_time(const char *path, int count)
{
	static char name[4096][8];
	static struct rlx_spec spec[4096];
	struct rlx_instance want = { .spec = spec, .n_spec = (unsigned int)count };
	struct out g = { .n = 0 }, o, t;
	struct timespec from, to;
	struct rlx_error err = { 0 };
	struct rlx_segment seg;
	struct rlx_model *m;
	FILE *file;
	int i;

	for (i = 0; i < count; i++) {
		snprintf(name[i], sizeof(name[i]), "x%04d", i);
		spec[count - 1 - i] = (struct rlx_spec){
			.kind = RLX_SPEC_TENSOR, .name = name[i], .type = rlx_type(RLX_F32),
		};
		t.n = 0;
		put_str(&t, 1, name[i]);
		put_msg(&g, 11, &t);
		t.n = 0;
		snprintf(name[i], sizeof(name[i]), "y%04d", i);
		tensor_head(&t, name[i], ONNX_FLOAT, 0);
		put_msg(&g, 5, &t);
		name[i][0] = 'x';
	}
	model_of(&o, &g, 17);
	file = fopen(path, "w");
	CHECK(file && fwrite(o.b, 1, o.n, file) == o.n && !fclose(file));
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	for (i = 0; i < 10; i++) {
		CHECKF(!rlx_model_open(path, &m, &err), "%s", err.text);
		CHECKF(!m->format->build(m, &want, &seg, &err), "%s", err.text);
		rlx_segment_fini(&seg);
		rlx_model_put(m);
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
}

/* Each input was compared with every initializer, and each given one with every input. */
TEST(inputs_are_found_at_once)
{
	char path[] = "/tmp/rlx-onnx-bounds-XXXXXX";
	int fd = mkstemp(path);
	long few = LONG_MAX, many = LONG_MAX;
	int i;

	CHECK(fd >= 0 && !close(fd));
	for (i = 0; i < 3; i++) {
		long a = name_time(path, 500), b = name_time(path, 2500);

		few = a < few ? a : few;
		many = b < many ? b : many;
	}
	unlink(path);
	fprintf(stderr, "# 500 inputs: %ld us, 2500: %ld us\n", few, many);
	CHECKF(many < 12 * few, "500 inputs: %ld us, 2500: %ld us", few, many);
}

TEST_MAIN()
