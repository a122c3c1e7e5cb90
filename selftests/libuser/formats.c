// SPDX-License-Identifier: MIT
/* Which format a model file has: told by its first bytes, and by what a folder holds. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
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

TEST_MAIN()
