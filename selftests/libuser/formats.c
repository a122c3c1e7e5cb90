// SPDX-License-Identifier: MIT
/* Which format a model file has: told by its first bytes, and by what a folder holds. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/aot.h"
#include "rlx/model.h"
#include "selftests/io/onnx_write.h"

enum { ROWS = 3, COLS = 2 };

static char dir[] = "/tmp/rlx-formats-XXXXXX";
static char file[64];

static void remove_all(void)
{
	unlink(file);
	rmdir(dir);
}

static void begin(void)
{
	CHECK(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/model", dir);
	atexit(remove_all);
}

static void put_file(const void *p, size_t n)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
}

/* y = x w, with a table of texts that nothing uses. */
static void put_model(struct out *o, float w[ROWS * COLS])
{
	static const int64_t in[] = { -1, ROWS }, out[] = { -1, COLS };
	struct out g = { .n = 0 }, t = { .n = 0 }, s = { .n = 0 };
	int i;

	for (i = 0; i < ROWS * COLS; i++)
		w[i] = (float)i - 2;
	put_str(&t, 8, "w");
	put_int(&t, 2, ONNX_FLOAT);
	put_int(&t, 1, ROWS);
	put_int(&t, 1, COLS);
	put_bytes(&t, 9, w, sizeof(float) * ROWS * COLS);
	put_str(&s, 8, "texts");
	put_int(&s, 2, ONNX_STRING);
	put_int(&s, 1, 1);
	put_str(&s, 6, "a text");
	put_info(&g, 11, "x", ONNX_FLOAT, in, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, out, 2);
	put_msg(&g, 5, &t);
	put_msg(&g, 5, &s);
	put_node(&g, "MatMul x w > y");
	model_of(o, &g, 13);
}

static void refused(const char *path, enum rlx_status st, const char *const *word)
{
	struct rlx_error err = { 0 };
	struct rlx_model *m = (void *)1;
	int64_t live = rlx_alloc_live();

	CHECK_EQ(rlx_model_open(path, &m, &err), st);
	CHECK(!m && err.status == st);
	CHECKF(strstr(err.text, path), "no path in: %s", err.text);
	for (; *word; word++)
		CHECKF(strstr(err.text, *word), "\"%s\" is not in: %s", *word, err.text);
	CHECK_EQ(rlx_model_open(path, &m, NULL), st);
	CHECK_EQ(rlx_alloc_live(), live);
}

TEST(unknown_files)
{
	static const struct {
		const char	*bytes;
		size_t		 n;
		const char	*word[5];
	} files[] = {
		{ "", 0, { "ONNX", "BERT", "config.json", "is empty" } },
		{ "GGML\3\0\0\0", 8, { "ONNX", "BERT", "GGUF",
					"47 47 4d 4c 03 00 00 00 (\"GGML....\")" } },
		{ "GGUF\3\0\0\0", 8, { "byte 8", "ends in the middle" } },
		{ "{\"a\": 1}\n", 9, { "ONNX", "7b 22 61" } },
		{ "PK\3\4", 4, { "ONNX", "(\"PK..\")" } },
		{ "\xa2", 1, { "ONNX", "begins with a2 (\".\")" } },
		{ "a text of more than sixteen bytes", 33, { "(\"a text of more t\")" } },
	};
	unsigned int i;

	begin();
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		put_file(files[i].bytes, files[i].n);
		refused(file, RLX_EPARSE, files[i].word);
	}
}

TEST(what_is_no_file)
{
	static const char *const folder[] = { "ONNX", "BERT", "it is a folder", NULL };
	static const char *const none[] = { NULL };

	begin();
	refused(dir, RLX_EPARSE, folder);
	refused(file, RLX_ENOENT, none);
	CHECK(!mkfifo(file, 0600));
	refused(file, RLX_EBADFD, none);
}

TEST(truncated_onnx)
{
	struct out o;
	float w[ROWS * COLS];
	struct rlx_model *m;
	size_t n;

	begin();
	put_model(&o, w);
	for (n = 0; n < o.n; n++) {
		struct rlx_error err = { 0 };
		enum rlx_status st;

		put_file(o.b, n);
		st = rlx_model_open(file, &m, &err);
		CHECKF(st == RLX_EPARSE && !m, "%zu of %zu bytes: %s", n, o.n, rlx_status_name(st));
		CHECKF(strstr(err.text, file), "%s", err.text);
	}
	put_file(o.b, o.n);
	CHECK_EQ(rlx_model_open(file, &m, NULL), 0);
	rlx_model_put(m);
}

TEST(tensors_of_onnx)
{
	struct rlx_type want = rlx_type(RLX_F32, ROWS, COLS);
	struct rlx_error err = { 0 };
	struct rlx_named_tensor t;
	float w[ROWS * COLS];
	struct rlx_model *m;
	struct out o;

	begin();
	put_model(&o, w);
	put_file(o.b, o.n);
	CHECKF(!rlx_model_open(file, &m, &err), "%s", err.text);
	CHECK_EQ(rlx_model_tensor_count(m), 2);
	CHECK(rlx_model_tensor_at(m, 0, &t) && !strcmp(t.name, "w"));
	CHECK(rlx_type_equal(&t.type, &want) && !memcmp(t.data, w, sizeof(w)));
	CHECK(rlx_model_tensor_at(m, 1, &t) && !strcmp(t.name, "texts"));
	CHECK(t.type.dtype == RLX_NODTYPE && !t.data);
	CHECK(!rlx_model_tensor_at(m, 2, &t));
	CHECK_EQ(rlx_model_tensor_count(NULL), 0);
	CHECK(!rlx_model_tensor_at(NULL, 0, &t));
	rlx_model_put(m);
}

/* ---- the text form ---- */

static void run_model(float y[4 * COLS])
{
	static const float x[4 * ROWS] = { 1, 2, 3, -1, 0.5f, 7, 0, 0, 1e-3f, 9, -9, 0.25f };
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 4, ROWS), x }, out;
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_runner *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;

	CHECKF(!rlx_model_open(file, &m, &err), "%s", err.text);
	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &out) && !strcmp(out.name, "y"));
	memcpy(y, out.data, 4 * COLS * sizeof(*y));
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* One model in three forms: as it came, as the text of its graph, and compiled. */
TEST(r031_one_model_in_three_forms)
{
	struct rlx_named_tensor in = { .name = "x", .type = rlx_type(RLX_F32, 4, ROWS) };
	struct rlx_compile_opts co = { .size = sizeof(co), .device = "cpu" };
	float w[ROWS * COLS], y[3][4 * COLS];
	struct rlx_program *p = NULL;
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;
	struct out o;
	FILE *f;

	begin();
	put_model(&o, w);
	put_file(o.b, o.n);
	run_model(y[0]);
	CHECKF(!rlx_model_open(file, &m, &err), "%s", err.text);
	CHECKF(!rlx_model_graph(m, &in, 1, &g, &err), "%s", err.text);
	rlx_model_put(m);
	f = fopen(file, "w");
	CHECK(f && fputs("\n\t \n", f) >= 0 && !rlx_graph_print(g, f, false) && !fclose(f));
	run_model(y[1]);
	CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
	CHECKF(!rlx_program_save(p, file, &err), "%s", err.text);
	run_model(y[2]);
	CHECK(y[0][0] != 0 && !memcmp(y[0], y[1], sizeof(y[0])) &&
	      !memcmp(y[0], y[2], sizeof(y[0])));
	rlx_program_put(p);
	rlx_graph_put(g);
}

static void put_text(const char *s)
{
	put_file(s, strlen(s));
}

/* Sizes by name and params are as rlx_model_from_graph() has them. */
TEST(r031_text_with_sizes_and_params)
{
	float x[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, b[2] = { 100, 200 };
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 5, 2), x }, out;
	struct rlx_runner *r = NULL;
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;
	struct rlx_model_io io;

	begin();
	put_text("graph \"n\" { dim n[1,64] %1 = input(name=\"x\", type=f32[n,2]) "
		 "%2 = param(name=\"b\", type=f32[2]) %3 = add(a=%1, b=%2) return \"y\"=%3 }");
	CHECKF(!rlx_model_open(file, &m, &err), "%s", err.text);
	unlink(file);		/* is read */
	CHECK(rlx_model_io_at(m, RLX_IO_INPUT, 0, &io) && io.dim[0] == -1 && io.dim[1] == 2);
	CHECK_STR(io.dim_name[0], "n");
	CHECKF(!rlx_runner_new(m, NULL, &r, &err), "%s", err.text);
	CHECK_EQ(rlx_runner_run(r, &in, 1, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "'b'"));
	err = (struct rlx_error){ 0 };
	CHECKF(!rlx_runner_set(r, "b", rlx_type(RLX_F32, 2), b, &err), "%s", err.text);
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &out) && ((const float *)out.data)[9] == 210);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* What the parser takes is opened, however it is spaced. */
TEST(r031_text_however_it_is_spaced)
{
	static const char *const head[] = { "graph ", "graph", "graph\t", "\r\n graph\n" };
	struct rlx_error err = { 0 };
	struct rlx_model *m;
	char text[128];
	size_t i;

	begin();
	for (i = 0; i < sizeof(head) / sizeof(head[0]); i++) {
		snprintf(text, sizeof(text), "%s\"g\" {%%1 = input(name=\"x\", type=f32[2]) "
			 "return \"y\"=%%1}", head[i]);
		put_text(text);
		CHECKF(!rlx_model_open(file, &m, &err), "%zu: %s", i, err.text);
		rlx_model_put(m);
	}
	unlink(file);
}

/* Errors tell the path, and of a text the line and column as the parser does. */
TEST(r031_texts_that_cannot_be_read)
{
	static const struct {
		const char	*text;
		enum rlx_status	 st;
		const char	*word[3];
	} t[] = {
		{ "graph ", RLX_EPARSE, { "line 1, column 7" } },
		{ "\n\ngraph \"t\" {\n  %1 = input(name=", RLX_EPARSE, { "line 4, column" } },
		{ "graph \"t\" {\n  %1 = no_such_op(x=%0)\n return \"y\"=%1 }", RLX_EPARSE,
		  { "line 2", "no_such_op" } },
		{ "graph \"t\" { %1 = input(name=\"x\", type=f32[2]) return \"y\"=%1 } rest",
		  RLX_EPARSE, { "line 1", "text after the graph" } },
		{ "graph \"t\" {\n %1 = constant(type=f32[99], data=<396 bytes>)\n"
		  " return \"y\"=%1 }", RLX_EPARSE, { "line 2" } },
		{ "graphs of all kinds", RLX_EPARSE, { "no model of a known format",
						       "begins with the word graph" } },
	};
	static const char state[] = "graph \"t\" { %1 = input(name=\"s\", type=f32[2], state=true) "
				    "return \"s\"=%1 }";
	static const char *const states[] = { "state 's'", NULL };
	struct rlx_graph *g = rlx_graph_new("t");
	uint64_t seed = rlx_test_seed();
	char text[sizeof(state) + 64], *s = NULL;
	unsigned int i;
	size_t n;
	FILE *f;

	begin();
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		put_text(t[i].text);
		refused(file, t[i].st, t[i].word);
	}
	rlx_output(g, "y", rlx_emit(g, neg, .x = rlx_state(g, "s", rlx_type(RLX_F32, 2))));
	CHECK(!rlx_graph_finish(g));
	f = open_memstream(&s, &n);
	CHECK(f && !rlx_graph_print(g, f, false) && !fclose(f));
	put_file(s, n);
	refused(file, RLX_ENOSUP, states);
	for (i = 0; i < 300; i++) {	/* whatever it is, it ends, and leaves nothing */
		struct rlx_model *m = NULL;
		int64_t live = rlx_alloc_live();

		memcpy(text, state, sizeof(state));
		text[rlx_test_rand(&seed) % (sizeof(state) - 1)] = (char)rlx_test_rand(&seed);
		put_file(text, sizeof(state) - 1);
		if (!rlx_model_open(file, &m, &(struct rlx_error){ 0 }))
			rlx_model_put(m);
		CHECK_EQ(rlx_alloc_live(), live);
	}
	free(s);
	rlx_graph_put(g);
}

TEST_MAIN()
