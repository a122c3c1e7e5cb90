// SPDX-License-Identifier: MIT
/* Files of tokenizers that are made to take time or memory without end. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "rlx/tokenizer.h"
#include "selftests/lib/rlx_test.h"

/* A text that grows. */
struct text {
	char	*p;
	size_t	 n;
	FILE	*f;
};

static void begin(struct text *x)
{
	x->f = open_memstream(&x->p, &x->n);
	CHECK(x->f);
}

/* Loads it, and frees the text; the error's, which the caller looks at, stands in @err. */
static enum rlx_status load(struct text *x, struct rlx_tokenizer **t, struct rlx_error *err)
{
	enum rlx_status st;

	CHECK(!fclose(x->f));
	*err = (struct rlx_error){ 0 };
	st = rlx_tokenizer_new_mem(x->p, x->n, NULL, t, err);
	CHECKF(!st == !!*t && st == err->status, "%s", err->text);
	free(x->p);
	return st;
}

static struct rlx_tokenizer_scratch *scratch(const struct rlx_tokenizer *t)
{
	struct rlx_tokenizer_scratch *s;

	CHECK_EQ(rlx_tokenizer_scratch_new(t, &s, NULL), RLX_OK);
	return s;
}

static enum rlx_status encode(struct rlx_tokenizer_scratch *s, const char *text, size_t n,
			      struct rlx_error *err)
{
	struct rlx_encoding e = { 0 };

	*err = (struct rlx_error){ 0 };
	return rlx_tokenizer_encode(s, text, n, NULL, &e, err);
}

#define MODEL	"\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0}}"

/* Each of @n makes 16 bytes of one. */
static void put_replace(FILE *f, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		fprintf(f, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
			"\"content\":\"aaaaaaaaaaaaaaaa\"}", i ? "," : "");
}

/* 1 KB of a file, and loading took 16 bytes to the power of the normalizers. */
TEST(normalizers_that_multiply)
{
	struct rlx_tokenizer *t;
	struct rlx_error err;
	struct text x;

	begin(&x);
	fprintf(x.f, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
	put_replace(x.f, 6);
	fprintf(x.f, "]},\"added_tokens\":[{\"id\":1,\"content\":\"a\"}]," MODEL "}");
	CHECK_EQ(load(&x, &t, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "added token 0: normalizing"), "%s", err.text);
}

TEST(normalizers_that_multiply_a_text)
{
	struct rlx_tokenizer_scratch *s;
	struct rlx_tokenizer *t;
	struct rlx_error err;
	struct text x;
	char *text = malloc(2000);

	begin(&x);
	fprintf(x.f, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
	put_replace(x.f, 3);
	fprintf(x.f, "]}," MODEL "}");
	CHECKF(!load(&x, &t, &err), "%s", err.text);
	s = scratch(t);
	memset(text, 'a', 2000);
	CHECKF(!encode(s, "a", 1, &err), "%s", err.text);	/* 4096 bytes are few */
	CHECK_EQ(encode(s, text, 2000, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "over 64 times"), "%s", err.text);
	CHECKF(!encode(s, "bb", 2, &err), "%s", err.text);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
	free(text);
}

/* Each pair of them doubles the text: each character gets the mark of each before it. */
TEST(pretokenizers_that_double)
{
	struct rlx_tokenizer_scratch *s;
	struct rlx_tokenizer *t;
	struct rlx_error err;
	struct text x;
	unsigned int i;

	begin(&x);
	fprintf(x.f, "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
	for (i = 0; i < 24; i++)
		fprintf(x.f, "{\"type\":\"FixedLength\",\"length\":1},{\"type\":\"Metaspace\","
			"\"replacement\":\"%c\",\"split\":false},", i & 1 ? '_' : '~');
	fprintf(x.f, "{\"type\":\"FixedLength\",\"length\":1}]}," MODEL "}");
	CHECKF(!load(&x, &t, &err), "%s", err.text);
	s = scratch(t);
	CHECK_EQ(encode(s, "aaaaaaaa", 8, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "over 64 times"), "%s", err.text);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

TEST(decoders_that_multiply)
{
	static int64_t ids[2000];
	char room[8192];
	struct rlx_decoding d = { .ids = ids, .n = 1, .text = room, .capacity = sizeof(room) };
	struct rlx_tokenizer_scratch *s;
	struct rlx_tokenizer *t;
	struct rlx_error err;
	struct text x;

	begin(&x);
	fprintf(x.f, "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
	put_replace(x.f, 3);
	fprintf(x.f, "]}," MODEL "}");
	CHECKF(!load(&x, &t, &err), "%s", err.text);
	s = scratch(t);
	CHECKF(!rlx_tokenizer_decode(s, &d, &err) && d.len == 4096, "%s", err.text);
	d.n = 2000;
	CHECK_EQ(rlx_tokenizer_decode(s, &d, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "over 64 times"), "%s", err.text);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

/* It looks at one letter in 4096 ways, and then finds that no b follows. */
#define HARD	"\"pattern\":{\"Regex\":\"(|)(|)(|)(|)(|)(|)(|)(|)(|)(|)(|)(|)ab\"}"

/* How long a text is tried has a bound, not how long each of its pieces is. */
TEST(patterns_that_are_hard_on_each_piece)
{
	static const char *const files[] = {
		"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
		"{\"type\":\"FixedLength\",\"length\":1},{\"type\":\"Split\"," HARD "}]},"
		MODEL "}",
		"{\"normalizer\":{\"type\":\"Replace\",\"content\":\"\"," HARD "},\"added_tokens\":"
		"[{\"id\":1,\"content\":\"b\",\"normalized\":false}]," MODEL "}",
		"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\","
		"\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"},{\"type\":\"Replace\","
		"\"pattern\":{\"Regex\":\"a+\"},\"content\":\"\"}]},\"added_tokens\":"
		"[{\"id\":1,\"content\":\"b\",\"normalized\":false}]," MODEL "}",
	};
	struct rlx_tokenizer_scratch *s;
	struct rlx_tokenizer *t;
	struct rlx_error err;
	char text[800], *many = calloc(1, 30001);
	struct text x;
	size_t i;

	memset(many, 'a', 30000);
	for (i = 0; i < sizeof(text); i++)
		text[i] = i & 1 ? 'b' : 'a';
	for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
		begin(&x);
		fprintf(x.f, files[i], many);
		CHECKF(!load(&x, &t, &err), "%s", err.text);
		s = scratch(t);
		CHECKF(!encode(s, text, 2, &err), "%zu: %s", i, err.text);
		CHECKF(encode(s, text, sizeof(text), &err) == RLX_ENOSUP, "%zu", i);
		CHECKF(strstr(err.text, "too many steps"), "%s", err.text);
		rlx_tokenizer_scratch_free(s);
		rlx_tokenizer_free(t);
	}
	free(many);
}

TEST(patterns_that_are_hard_on_each_string)
{
	static int64_t ids[800];
	char room[800];
	struct rlx_decoding d = { .ids = ids, .n = 1, .text = room, .capacity = sizeof(room) };
	struct rlx_tokenizer_scratch *s;
	struct rlx_tokenizer *t;
	struct rlx_error err;
	struct text x;

	begin(&x);
	fprintf(x.f, "{\"decoder\":{\"type\":\"Replace\",\"content\":\"\"," HARD "}," MODEL "}");
	CHECKF(!load(&x, &t, &err), "%s", err.text);
	s = scratch(t);
	CHECKF(!rlx_tokenizer_decode(s, &d, &err) && d.len == 1, "%s", err.text);
	d.n = 800;
	CHECK_EQ(rlx_tokenizer_decode(s, &d, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "too many steps"), "%s", err.text);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

/* What is looked for at each byte of a text is short: it may be there but for its end. */
TEST(tokens_that_are_long)
{
	static const char *const files[] = {
		"{\"added_tokens\":[{\"id\":1,\"content\":\"%s\",\"normalized\":false}]," MODEL "}",
		"{\"added_tokens\":[{\"id\":1,\"content\":\"%s\"}]," MODEL "}",
		"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"%s\",1]]}}",
		/* one that grows to its length */
		"{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%s\"},\"added_tokens\":"
		"[{\"id\":1,\"content\":\"a\"}]," MODEL "}",
	};
	struct rlx_tokenizer *t;
	struct rlx_error err;
	char token[1026];
	struct text x;
	size_t i, n;

	for (i = 0; i < sizeof(files) / sizeof(*files); i++)
		for (n = 1023; n <= 1025; n++) {
			memset(token, 'a', n);
			token[n] = 0;
			begin(&x);
			fprintf(x.f, files[i], token);
			CHECKF(load(&x, &t, &err) == (n + (i == 3) <= 1024 ? RLX_OK : RLX_ENOSUP),
			       "%zu, %zu bytes: %s", i, n, err.text);
			rlx_tokenizer_free(t);
		}
}

static void put_base64(FILE *f, const uint8_t *p, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
				     "opqrstuvwxyz0123456789+/";
	size_t i;

	for (i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | p[i + 1] << 8 | p[i + 2];

		fprintf(f, "%c%c%c%c", digits[v >> 18], digits[v >> 12 & 63], digits[v >> 6 & 63],
			digits[v & 63]);
	}
}

/* A map of 'A' to what stands at @off of @n bytes at @to. */
static enum rlx_status load_map(const uint8_t *to, size_t n, uint32_t off, struct rlx_tokenizer **t,
				struct rlx_error *err)
{
	const uint32_t trie = 4 * 0x42;
	uint8_t *blob = calloc(1, 4 + trie + n + 3);
	struct text x;

	/* unit 0: offset 1; 'A' at 1 ^ 0x41 = 0x40; its leaf at 0x40 ^ 1 */
	blob[0] = trie & 255;
	blob[1] = trie >> 8;
	blob[4 + 1] = 4;
	blob[4 + 4 * 0x40] = 'A';
	blob[4 + 4 * 0x40 + 1] = 4 | 1;
	blob[4 + 4 * 0x41] = (uint8_t)off;
	memcpy(blob + 4 + trie, to, n);
	begin(&x);
	fprintf(x.f, "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
	CHECK((4 + trie + n) % 3 == 0);
	put_base64(x.f, blob, 4 + trie + n);
	fprintf(x.f, "\"}," MODEL "}");
	free(blob);
	return load(&x, t, err);
}

/* How long @n times @c takes, once they have their place. */
static double time_of(const struct rlx_tokenizer *t, char c, size_t n)
{
	struct rlx_tokenizer_scratch *s = scratch(t);
	char *text = malloc(n);
	struct rlx_error err;
	double begun = 0;
	int i;

	memset(text, c, n);
	for (i = 0; i < 2; i++) {
		begun = rlx_test_cpu();
		CHECKF(!encode(s, text, n, &err), "%s", err.text);
	}
	free(text);
	rlx_tokenizer_scratch_free(s);
	return rlx_test_cpu() - begun;
}

/* A replacement that is none costs no look at all that follows, for each character. */
TEST(replacements_without_end)
{
	const size_t n = 8 << 20;
	uint8_t *to = malloc(n);
	struct rlx_tokenizer *t;
	struct rlx_error err;
	double plain, hard;
	int i;

	for (i = 0; i < 2; i++) {	/* no zero follows; within a character */
		memset(to, 'a', n);
		memcpy(to, "\xc3\xa9", 2);
		to[n - 1] = i ? 0 : 'a';
		CHECKF(!load_map(to, n, (uint32_t)i, &t, &err), "%s", err.text);
		plain = time_of(t, 'B', 20000);
		hard = time_of(t, 'A', 20000);
		CHECKF(hard < 100 * plain + 0.1, "%d: %g s, others %g s", i, hard, plain);
		rlx_tokenizer_free(t);
	}
	to[n / 2] = 0xff;
	CHECK_EQ(load_map(to, n, 0, &t, &err), RLX_EPARSE);
	CHECKF(strstr(err.text, "not UTF-8"), "%s", err.text);
	free(to);
}

enum { COLLIDING = 1500 };	/* of TK_PROBES_MAX */

/* The next spelling whose place in @slots slots is one of the first eight. */
static void next_colliding(uint32_t slots, uint64_t *count, char *text)
{
	do
		sprintf(text, "%llx", (unsigned long long)++*count);
	while ((tk_hash_end(tk_hash(TK_HASH0, (uint8_t *)text, strlen(text))) & (slots - 1)) > 7);
}

/* A file whose tokens fall on one slot is refused: each look would pass all of them. */
TEST(tokens_made_to_collide)
{
	struct rlx_tokenizer *t;
	struct rlx_error err;
	uint64_t count = 0;
	struct text x;
	char text[32];
	int n, most;

	for (most = 100; most <= COLLIDING; most += COLLIDING - 100) {
		begin(&x);
		fprintf(x.f, "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{");
		for (n = 0; n < COLLIDING; n++) {
			next_colliding(4096, &count, text);
			if (n >= most)		/* others for the rest */
				sprintf(text, "z%d", n);
			fprintf(x.f, "%s\"%s\":%d", n ? "," : "", text, n);
		}
		fprintf(x.f, "}}}");
		CHECKF(load(&x, &t, &err) == (most < COLLIDING ? RLX_OK : RLX_ENOSUP), "%s",
		       err.text);
		CHECKF(!err.status || strstr(err.text, "too many tokens have one hash"), "%s",
		       err.text);
		rlx_tokenizer_free(t);
	}
}

/* Ids are the file's to choose, and a merge's place is that of two. */
TEST(merges_made_to_collide)
{
	struct rlx_tokenizer *t;
	struct rlx_error err;
	struct text x;
	char *as = malloc(COLLIDING + 2);
	int n;

	memset(as, 'a', COLLIDING + 1);
	begin(&x);
	fprintf(x.f, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
	for (n = 1; n <= COLLIDING + 1; n++)
		fprintf(x.f, "%s\"%.*s\":%d", n > 1 ? "," : "", n, as, 4096 * n);
	fprintf(x.f, "},\"merges\":[");
	for (n = 1; n <= COLLIDING; n++)
		fprintf(x.f, "%s\"%.*s a\"", n > 1 ? "," : "", n, as);
	fprintf(x.f, "]}}");
	CHECK_EQ(load(&x, &t, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "too many tokens have one hash"), "%s", err.text);
	free(as);
}

/* The place of an edge, by its node and byte, among 8192. */
static uint32_t edge_place(uint32_t node, char byte)
{
	return (uint32_t)((node << 8 | (uint8_t)byte) * 0x9e3779b97f4a7c15u >> 32) & 8191;
}

TEST(edges_made_to_collide)
{
	struct rlx_tokenizer *t;
	struct rlx_error err;
	uint32_t node = 1;
	struct text x;
	char c, best;
	int n, i;

	begin(&x);
	fprintf(x.f, "{\"model\":{\"type\":\"Unigram\",\"vocab\":[");
	for (n = 0; n < 4; n++, node++) {	/* the first byte's edge has no slot */
		fprintf(x.f, "%s[\"%c", n ? "," : "", '0' + n);
		for (i = 0; i < 1000; i++, node++) {
			for (best = c = 'A'; c <= 'z'; c++)
				if (c != '\\' && edge_place(node, c) < edge_place(node, best))
					best = c;
			fputc(best, x.f);
		}
		fprintf(x.f, "\",-1]");
	}
	fprintf(x.f, "]}}");
	CHECK_EQ(load(&x, &t, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "too many tokens have one hash"), "%s", err.text);
}

/* What each text goes through has an end, however long the file. */
TEST(parts_without_end)
{
	static const char *const form[] = {
		"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s]}," MODEL "}",
		"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s]}," MODEL "}",
		"{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[%s]}," MODEL "}",
	};
	static const char *const part[] = {
		"{\"type\":\"NFC\"}", "{\"type\":\"Whitespace\"}", "{\"type\":\"Fuse\"}",
	};
	struct rlx_tokenizer *t;
	struct rlx_error err;
	char list[65 * 32];
	struct text x;
	size_t i, k, n;

	for (i = 0; i < 3; i++)
		for (k = 64; k <= 65; k++) {
			for (n = 0, list[0] = 0; n < k; n++)
				sprintf(list + strlen(list), "%s%s", n ? "," : "", part[i]);
			begin(&x);
			fprintf(x.f, form[i], list);
			CHECKF(load(&x, &t, &err) == (k == 64 ? RLX_OK : RLX_ENOSUP), "%zu: %s", k,
			       err.text);
			rlx_tokenizer_free(t);
		}
}

/* A path that is a pipe nobody writes: refused, not waited for. */
TEST(a_pipe_is_no_file)
{
	char dir[] = "/tmp/rlx-test-XXXXXX", path[64];
	struct rlx_tokenizer *t;
	struct rlx_error err = { 0 };

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
	CHECK(!mkfifo(path, 0600));
	alarm(10);
	CHECK_EQ(rlx_tokenizer_new_file(path, NULL, &t, &err), RLX_EBADFD);
	alarm(0);
	CHECK(!t && strstr(err.text, "not a regular file"));
	unlink(path);
	rmdir(dir);
}

TEST_MAIN()
