// SPDX-License-Identifier: MIT
/*
 * The ONNX reader on files written here byte by byte: every storage form of a
 * tensor, external data, and malformed input of each kind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/onnx/proto.h"
#include "selftests/io/onnx_write.h"
#include "selftests/lib/rlx_test.h"

static struct onnx_file *open_as(const struct out *o, enum onnx_root root)
{
	struct rlx_error err = { 0 };
	struct onnx_file *f;

	CHECKF(!onnx_open_mem(keep_copy(o->b, o->n), o->n, "mem", root, &f,
			      &err), "%s", err.text);
	return f;
}

/* Fails with @st and a text that contains @text. */
static void refuse(const struct out *o, enum onnx_root root,
		   enum rlx_status st, const char *text)
{
	struct rlx_error err = { 0 };
	struct onnx_file *f;
	uint8_t *p = malloc(o->n ? o->n : 1);

	CHECK(p);
	memcpy(p, o->b, o->n);
	CHECK_EQ(onnx_open_mem(p, o->n, "mem", root, &f, &err), st);
	CHECK(!f);
	CHECKF(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
	free(p);
}

TEST(raw_data_is_used_in_place)
{
	static const float v[3] = { 1.5f, -2, 3e30f };
	struct out o = { .n = 0 };
	const struct onnx_tensor *t;
	struct onnx_file *f;

	tensor_head(&o, "w", ONNX_FLOAT, 3);
	put_bytes(&o, 9, v, sizeof(v));
	f = open_as(&o, ONNX_ROOT_TENSOR);
	t = onnx_file_tensor(f);
	CHECK(onnx_str_is(t->name, "w"));
	CHECK_EQ(t->ndims, 1);
	CHECK_EQ(t->nbytes, 12);
	CHECK(!memcmp(t->data, v, 12));
	CHECK(!onnx_file_model(f));
	onnx_put(f);
}

/* int32_data carries eleven element types; values are little-endian after. */
TEST(typed_integers_are_narrowed)
{
	static const int dtypes[] = {
		ONNX_INT8, ONNX_UINT8, ONNX_INT16, ONNX_UINT16, ONNX_INT32,
		ONNX_BOOL, ONNX_FLOAT16, ONNX_BFLOAT16, ONNX_F8E4M3FN,
	};
	unsigned int i, k;

	for (i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		unsigned int size = onnx_dtype_bits(dtypes[i]) / 8;
		bool neg = dtypes[i] == ONNX_INT8 || dtypes[i] == ONNX_INT16 ||
			   dtypes[i] == ONNX_INT32;
		const int64_t v[3] = { 1, neg ? -1 : 0, 0 };
		const struct onnx_tensor *t;
		struct out o = { .n = 0 }, pack = { .n = 0 };
		struct onnx_file *f;

		tensor_head(&o, "t", dtypes[i], 3);
		/* One value unpacked, two packed: both forms in one. */
		put_int(&o, 5, (uint64_t)v[0]);
		varint(&pack, (uint64_t)v[1]);
		varint(&pack, (uint64_t)v[2]);
		put_msg(&o, 5, &pack);
		f = open_as(&o, ONNX_ROOT_TENSOR);
		t = onnx_file_tensor(f);
		CHECK_EQ(t->nbytes, 3 * size);
		for (k = 0; k < 3; k++)
			CHECK(!memcmp((const char *)t->data + k * size, &v[k],
				      size));
		onnx_put(f);
	}
}

TEST(typed_floats_in_pieces_are_joined)
{
	static const float v[2] = { 2, 3 };
	const float want[3] = { 1, 2, 3 };
	const struct onnx_tensor *t;
	struct out o = { .n = 0 };
	struct onnx_file *f;

	tensor_head(&o, "t", ONNX_FLOAT, 3);
	put_f32(&o, 4, 1);
	put_bytes(&o, 4, v, sizeof(v));
	f = open_as(&o, ONNX_ROOT_TENSOR);
	t = onnx_file_tensor(f);
	CHECK(!memcmp(t->data, want, sizeof(want)));
	onnx_put(f);
}

TEST(type_may_follow_the_data)
{
	const struct onnx_tensor *t;
	struct out o = { .n = 0 };
	struct onnx_file *f;

	put_int(&o, 7, (uint64_t)-5);
	put_int(&o, 1, 1);
	put_int(&o, 2, ONNX_INT64);
	f = open_as(&o, ONNX_ROOT_TENSOR);
	t = onnx_file_tensor(f);
	CHECK_EQ(t->nbytes, 8);
	CHECK_EQ(*(const int64_t *)t->data, -5);
	onnx_put(f);
}

TEST(empty_and_scalar_tensors)
{
	static const float one = 1;
	struct out o = { .n = 0 };
	struct onnx_file *f;

	tensor_head(&o, "e", ONNX_FLOAT, 0);
	put_int(&o, 1, 1ull << 40);
	f = open_as(&o, ONNX_ROOT_TENSOR);
	CHECK_EQ(onnx_file_tensor(f)->nbytes, 0);
	CHECK(!onnx_file_tensor(f)->data);
	onnx_put(f);
	o.n = 0;
	put_int(&o, 2, ONNX_FLOAT);
	put_bytes(&o, 9, &one, 4);
	f = open_as(&o, ONNX_ROOT_TENSOR);
	CHECK_EQ(onnx_file_tensor(f)->ndims, 0);
	CHECK_EQ(onnx_file_tensor(f)->count, 1);
	onnx_put(f);
}

TEST(wrong_tensors_are_refused)
{
	struct out o = { .n = 0 };

	tensor_head(&o, "t", ONNX_FLOAT, 3);
	put_bytes(&o, 9, "abcdefgh", 8);
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "TensorProto.raw_data");
	o.n = 0;
	tensor_head(&o, "t", ONNX_INT8, 1);
	put_int(&o, 5, 128);
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "outside int8");
	o.n = 0;
	tensor_head(&o, "t", ONNX_FLOAT, -1);
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "dim 0 is -1");
	o.n = 0;
	tensor_head(&o, "t", 99, 1);
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "element type 99");
	o.n = 0;
	tensor_head(&o, "t", ONNX_DOUBLE, INT64_MAX);
	put_int(&o, 1, INT64_MAX);
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "2^64");
	o.n = 0;
	tensor_head(&o, "t", ONNX_STRING, 2);
	put_str(&o, 6, "only one");
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "holds 1 strings");
	o.n = 0;
	tensor_head(&o, "t", ONNX_FLOAT, 1 << 30);
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "holds 0 bytes");
	o.n = 0;
	tensor_head(&o, "t", ONNX_FLOAT, 1);
	put_int(&o, 4, 7);
	refuse(&o, ONNX_ROOT_TENSOR, RLX_EPARSE, "wire type 0");
}

/* A whole model with every kind of attribute and a nested graph. */
static void sample_model(struct out *o)
{
	struct out a = { .n = 0 }, n = { .n = 0 }, g = { .n = 0 };
	struct out sub = { .n = 0 }, t = { .n = 0 }, ops = { .n = 0 };
	struct out ty = { .n = 0 }, tt = { .n = 0 }, sh = { .n = 0 };
	struct out d = { .n = 0 }, v = { .n = 0 };

	put_str(&n, 1, "x");
	put_str(&n, 1, "");
	put_str(&n, 2, "y");
	put_str(&n, 4, "If");
	put_str(&a, 1, "ints");
	put_int(&a, 20, ONNX_ATTR_INTS);
	put_int(&a, 8, 7);
	put_bytes(&a, 8, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
	put_msg(&n, 5, &a);
	a.n = 0;
	put_str(&a, 1, "alpha");	/* no type: IR version 1 */
	put_f32(&a, 2, 0.5f);
	put_msg(&n, 5, &a);
	a.n = 0;
	put_str(&a, 1, "then");
	put_str(&sub, 2, "inner");
	put_msg(&a, 6, &sub);
	put_int(&a, 20, ONNX_ATTR_GRAPH);
	put_msg(&n, 5, &a);
	put_msg(&g, 1, &n);
	tensor_head(&t, "w", ONNX_INT64, 1);
	put_int(&t, 7, 42);
	put_msg(&g, 5, &t);
	put_str(&d, 2, "batch");
	put_msg(&sh, 1, &d);
	d.n = 0;
	put_int(&d, 1, 3);
	put_msg(&sh, 1, &d);
	put_int(&tt, 1, ONNX_FLOAT);
	put_msg(&tt, 2, &sh);
	put_msg(&ty, 1, &tt);
	put_str(&v, 1, "x");
	put_msg(&v, 2, &ty);
	put_msg(&g, 11, &v);
	put_int(&g, 999, 5);		/* unknown field: skipped */
	put_int(o, 1, 8);
	put_int(&ops, 2, 17);
	put_msg(o, 8, &ops);
	put_msg(o, 7, &g);
}

TEST(model_with_all_parts)
{
	const struct onnx_attr *a;
	const struct onnx_model *m;
	const struct onnx_graph *g;
	struct out o = { .n = 0 };
	struct onnx_file *f, *again;

	sample_model(&o);
	f = open_as(&o, ONNX_ROOT_MODEL);
	again = onnx_get(f);
	onnx_put(f);
	m = onnx_file_model(again);
	g = m->graph;
	CHECK_EQ(m->ir_version, 8);
	CHECK_EQ(onnx_opset_find(m->opsets, m->nopsets,
				 (struct rlx_str){ "ai.onnx", 7 }), 17);
	CHECK_EQ(onnx_opset_find(m->opsets, m->nopsets,
				 (struct rlx_str){ "other", 5 }), 0);
	CHECK_EQ(g->nnodes, 1);
	CHECK_EQ(g->nodes[0].ninputs, 2);
	CHECK_EQ(g->nodes[0].inputs[1].n, 0);
	a = onnx_attr_find(&g->nodes[0], "ints");
	CHECK_EQ(a->nints, 3);
	CHECK_EQ(a->ints[0], 7);
	CHECK_EQ(a->ints[1], 1);
	CHECK_EQ(a->ints[2], -1);
	a = onnx_attr_find(&g->nodes[0], "alpha");
	CHECK_EQ(a->type, ONNX_ATTR_FLOAT);
	CHECK(a->f == 0.5f);
	a = onnx_attr_find(&g->nodes[0], "then");
	CHECK(onnx_str_is(a->g->name, "inner"));
	CHECK(!onnx_attr_find(&g->nodes[0], "absent"));
	CHECK_EQ(*(const int64_t *)g->initializers[0].data, 42);
	CHECK_EQ(g->inputs[0].type->tensor->shape->ndims, 2);
	CHECK(g->inputs[0].type->tensor->shape->dims[0].has & ONNX_DIM_PARAM);
	CHECK_EQ(g->inputs[0].type->tensor->shape->dims[1].value, 3);
	onnx_put(again);
}

/* Every proper prefix is either refused or a shorter valid message. */
TEST(truncated_models_never_read_past_the_end)
{
	struct out o = { .n = 0 };
	struct onnx_file *f;
	size_t n, refused = 0;

	sample_model(&o);
	for (n = 0; n < o.n; n++) {
		struct rlx_error err = { 0 };
		uint8_t *p = malloc(n + 1);

		CHECK(p);
		memcpy(p, o.b, n);
		p = realloc(p, n ? n : 1);
		if (onnx_open_mem(p, n, "cut", ONNX_ROOT_MODEL, &f, &err)) {
			refused++;
			CHECK(strstr(err.text, "cut: byte "));
		}
		onnx_put(f);
		free(p);
	}
	CHECK_EQ(refused, o.n);
}

TEST(every_flipped_bit_is_survived)
{
	struct out o = { .n = 0 };
	size_t i;

	sample_model(&o);
	for (i = 0; i < o.n * 8; i++) {
		struct rlx_error err = { 0 };
		struct onnx_file *f;

		o.b[i / 8] ^= 1u << i % 8;
		if (onnx_open_mem(o.b, o.n, "flip", ONNX_ROOT_MODEL, &f, &err))
			CHECK(err.status && err.text[0]);
		onnx_put(f);
		o.b[i / 8] ^= 1u << i % 8;
	}
}

TEST(errors_name_byte_and_field)
{
	struct out o = { .n = 0 }, g = { .n = 0 };

	refuse(&o, ONNX_ROOT_MODEL, RLX_EPARSE, "no graph");
	put_int(&o, 1, 8);
	put_str(&o, 1, "not a number");
	refuse(&o, ONNX_ROOT_MODEL, RLX_EPARSE,
	       "byte 2, ModelProto.ir_version: wire type 2");
	o.n = 0;
	varint(&o, 7 << 3 | 2);
	varint(&o, 1ull << 62);
	refuse(&o, ONNX_ROOT_MODEL, RLX_EPARSE, "length 4611686018427387904");
	o.n = 0;
	put_msg(&o, 7, &g);
	put_msg(&o, 7, &g);
	refuse(&o, ONNX_ROOT_MODEL, RLX_EPARSE, "ModelProto.graph: appears");
	o.n = 0;
	put_msg(&o, 7, &g);
	refuse(&o, ONNX_ROOT_MODEL, RLX_EPARSE, "ir_version");
	o.n = 0;
	byte(&o, 7 << 3 | 3);	/* a group */
	refuse(&o, ONNX_ROOT_MODEL, RLX_EPARSE, "wire type 3");
	o.n = 0;
	raw(&o, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
	refuse(&o, ONNX_ROOT_MODEL, RLX_EPARSE, "malformed field key");
	o.n = 0;
	put_msg(&g, 15, &o);
	put_int(&o, 1, 8);
	put_msg(&o, 7, &g);
	refuse(&o, ONNX_ROOT_MODEL, RLX_ENOSUP, "sparse_initializer");
}

TEST(deep_nesting_is_refused)
{
	static struct out o, next;
	int i;

	put_int(&o, 2, 1);
	for (i = 0; i < 200; i++) {
		next.n = 0;
		put_msg(&next, 5, &o);	/* a sequence in a sequence */
		o = next;
	}
	refuse(&o, ONNX_ROOT_SEQUENCE, RLX_EPARSE, "nest more than");
}

TEST(sequences_and_optionals)
{
	struct out t = { .n = 0 }, s = { .n = 0 }, o = { .n = 0 };
	struct onnx_file *f;

	f = open_as(&s, ONNX_ROOT_SEQUENCE);
	CHECK_EQ(onnx_file_sequence(f)->ntensors, 0);
	onnx_put(f);
	tensor_head(&t, "", ONNX_INT32, 1);
	put_int(&t, 5, 9);
	put_int(&s, 2, 1);
	put_msg(&s, 3, &t);
	put_msg(&s, 3, &t);
	put_int(&o, 2, 3);
	put_msg(&o, 5, &s);
	f = open_as(&o, ONNX_ROOT_OPTIONAL);
	CHECK_EQ(onnx_file_optional(f)->seq->ntensors, 2);
	CHECK(!onnx_file_optional(f)->tensor);
	CHECK_EQ(*(const int32_t *)onnx_file_optional(f)->seq->tensors[1].data,
		 9);
	onnx_put(f);
}

/* A model with one float tensor of @n elements kept in @location. */
static void external_model(struct out *o, const char *location,
			   const char *offset, const char *length, int n)
{
	struct out t = { .n = 0 }, kv = { .n = 0 }, g = { .n = 0 };
	const char *pairs[3][2] = {
		{ "location", location }, { "offset", offset },
		{ "length", length },
	};
	int i;

	tensor_head(&t, "w", ONNX_FLOAT, n);
	for (i = 0; i < 3; i++) {
		if (!pairs[i][1])
			continue;
		kv.n = 0;
		put_str(&kv, 1, pairs[i][0]);
		put_str(&kv, 2, pairs[i][1]);
		put_msg(&t, 13, &kv);
	}
	put_int(&t, 14, 1);
	put_msg(&g, 5, &t);
	o->n = 0;
	put_int(o, 1, 8);
	put_msg(o, 7, &g);
}

static void write_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	CHECK(f);
	CHECK_EQ(fwrite(p, 1, n, f), n);
	CHECK(!fclose(f));
}

static char dir[64];

static enum rlx_status open_dir(const struct out *o, struct onnx_file **f,
				struct rlx_error *err)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/m.onnx", dir);
	write_file(path, o->b, o->n);
	*err = (struct rlx_error){ 0 };
	return onnx_open(path, ONNX_ROOT_MODEL, f, err);
}

TEST(external_data)
{
	static const float v[4] = { 1, 2, 3, 4 };
	struct rlx_error err;
	struct onnx_file *f;
	struct out o;
	char path[100], away[100], link[120], model[120];

	strcpy(dir, "/tmp/rlx-onnx-XXXXXX");
	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/w.bin", dir);
	write_file(path, v, sizeof(v));
	external_model(&o, "w.bin", "4", "8", 2);
	CHECKF(!open_dir(&o, &f, &err), "%s", err.text);
	CHECK(!memcmp(onnx_file_model(f)->graph->initializers[0].data, v + 1,
		      8));
	onnx_put(f);
	external_model(&o, "w.bin", "8", NULL, 2);
	CHECK(!open_dir(&o, &f, &err));
	onnx_put(f);
	external_model(&o, "w.bin", "12", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_ERANGE);
	external_model(&o, "w.bin", "9223372036854775800", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_ERANGE);
	external_model(&o, "w.bin", "0x4", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EPARSE);
	external_model(&o, "w.bin", "0", "12", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EPARSE);
	external_model(&o, "none.bin", "0", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_ENOENT);
	CHECK(strstr(err.text, "none.bin"));
	external_model(&o, "../w.bin", "0", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EACCES);
	external_model(&o, "a/../../w.bin", "0", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EACCES);
	external_model(&o, path, "0", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EACCES);
	external_model(&o, NULL, "0", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EPARSE);
	snprintf(away, sizeof(away), "%s/out.bin", dir);
	CHECK(!symlink("/proc/self/status", away));
	external_model(&o, "out.bin", "0", "8", 2);
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EACCES);
	CHECK(!unlink(away));
	CHECK(!mkfifo(away, 0600));
	CHECK_EQ(open_dir(&o, &f, &err), RLX_EBADFD);
	/* A cache: a folder of links, all to one place. */
	CHECK(!unlink(away) && !mkdir(away, 0700));
	snprintf(link, sizeof(link), "%s/w.bin", away);
	CHECK(!symlink("../w.bin", link));
	external_model(&o, "w.bin", "4", "8", 2);
	CHECK(!open_dir(&o, &f, &err));
	onnx_put(f);
	snprintf(model, sizeof(model), "%s/m.onnx", away);
	CHECK(!symlink("../m.onnx", model));
	CHECKF(!onnx_open(model, ONNX_ROOT_MODEL, &f, &err), "%s", err.text);
	onnx_put(f);
	CHECK(!unlink(link) && !symlink("/proc/self/status", link));
	CHECK_EQ(onnx_open(model, ONNX_ROOT_MODEL, &f, NULL), RLX_EACCES);
	CHECK(!unlink(link) && !unlink(model) && !rmdir(away));
	CHECK(!unlink(path));
	refuse(&o, ONNX_ROOT_MODEL, RLX_ENOSUP, "open it by path");
	snprintf(path, sizeof(path), "%s/m.onnx", dir);
	CHECK(!unlink(path) && !rmdir(dir));
}

TEST(paths_that_are_no_files)
{
	struct rlx_error err = { 0 };
	struct onnx_file *f;

	CHECK_EQ(onnx_open("/nonexistent/m.onnx", ONNX_ROOT_MODEL, &f, &err),
		 RLX_ENOENT);
	CHECK(strstr(err.text, "/nonexistent/m.onnx"));
	CHECK_EQ(onnx_open("/tmp", ONNX_ROOT_MODEL, &f, NULL), RLX_EBADFD);
	CHECK_EQ(onnx_open("/dev/null", ONNX_ROOT_MODEL, &f, NULL),
		 RLX_EBADFD);
	CHECK_EQ(onnx_open(NULL, ONNX_ROOT_MODEL, &f, NULL), RLX_EINVAL);
	CHECK_EQ(onnx_open_mem(NULL, 3, "x", ONNX_ROOT_MODEL, &f, NULL),
		 RLX_EINVAL);
}

TEST(no_allocation_failure_leaks_or_crashes)
{
	struct out o = { .n = 0 };
	uint64_t n;

	sample_model(&o);
	for (n = 1; n < 1000; n++) {
		struct rlx_error err = { 0 };
		struct onnx_file *f;
		enum rlx_status st;

		rlx_alloc_fail_nth(n);
		st = onnx_open_mem(o.b, o.n, "oom", ONNX_ROOT_MODEL, &f, &err);
		rlx_alloc_fail_nth(0);
		onnx_put(f);
		if (!st)
			break;
		CHECK_EQ(st, RLX_ENOMEM);
		CHECK(err.text[0]);
	}
	CHECK(n > 2 && n < 1000);
}

#define CORPUS	"/usr/share/libonnx-testdata/data"

static unsigned int parse_tree(const char *path, int depth)
{
	struct rlx_error err = { 0 };
	unsigned int n = 0;
	struct dirent *e;
	struct onnx_file *f;
	char sub[512];
	DIR *d = opendir(path);

	if (!d)
		return 0;
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, e->d_name);
		if (depth < 3)
			n += parse_tree(sub, depth + 1);
		if (strcmp(e->d_name, "model.onnx"))
			continue;
		CHECKF(!onnx_open(sub, ONNX_ROOT_MODEL, &f, &err), "%s",
		       err.text);
		onnx_put(f);
		n++;
	}
	closedir(d);
	return n;
}

TEST(every_conformance_model_parses)
{
	if (access(CORPUS, R_OK))
		rlx_test_skip("libonnx-testdata is not installed");
	CHECK(parse_tree(CORPUS, 0) >= 1000);
}

TEST_MAIN()
