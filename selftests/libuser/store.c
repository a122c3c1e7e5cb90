// SPDX-License-Identifier: MIT
/* Stores of prepared weights: adopted by another process, refused when not in order. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/tokenizer/share.h"
#include "mem/arena.h"
#include "rlx/backend.h"
#include "rlx/bert.h"
#include "rlx/run.h"
#include "rlx/store.h"
#include "rlx/tokenizer.h"
#include "ir/store.h"
#include "selftests/lib/tiny_bert.h"
#include "selftests/mem/provider.h"

enum { SEQ = 8, OUT = TB_H };

static char dir[] = "/tmp/rlx-store-XXXXXX", weights[64];
static pid_t owner;

static void remove_dir(void)
{
	char path[64];

	if (getpid() != owner)
		return;
	snprintf(path, sizeof(path), "%s/config.json", dir);
	unlink(path);
	unlink(weights);
	rmdir(dir);
}

static void write_model(void)
{
	uint64_t seed = rlx_test_seed();
	struct tiny_bert b;

	if (!owner) {
		CHECK(mkdtemp(dir));
		snprintf(weights, sizeof(weights), "%s/model.safetensors", dir);
		owner = getpid();
		atexit(remove_dir);
	}
	tb_init(&b, &seed);
	tb_write(&b, dir);
	tb_fini(&b);
}

static struct rlx_arena *arena_of(uint64_t bytes)
{
	struct rlx_arena_opts o = { .size = bytes, .name = "store", .provider = provider() };
	struct rlx_error err = { 0 };
	struct rlx_arena *a;

	if (!on_kmod())
		o.flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK;
	CHECKF(!rlx_arena_new(&o, &a, &err), "%s", err.text);
	return a;
}

static struct rlx_store *store_of(uint64_t bytes)
{
	struct rlx_arena *a = arena_of(bytes);
	struct rlx_error err = { 0 };
	struct rlx_store *s;

	CHECKF(!rlx_store_new(a, NULL, &s, &err), "%s", err.text);
	rlx_arena_put(a);
	return s;
}

static struct rlx_program *compile(struct rlx_bert *b, int64_t batch, struct rlx_store *s)
{
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = batch, .seq = SEQ,
				   .pool = RLX_BERT_MEAN };
	struct rlx_compile_opts c = { .size = sizeof(c), .threads = 1, .store = s };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_graph *g;

	CHECKF(!rlx_bert_graph(b, &o, &g, &err), "%s", err.text);
	CHECKF(!rlx_compile(g, &c, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

static void run(struct rlx_program *p, float out[OUT])
{
	int64_t ids[SEQ] = { 3, 1, 4, 1, 5, 9, 2, 6 }, len = 5;
	struct rlx_error err = { 0 };
	struct rlx_session *s;

	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "input_ids", rlx_type(RLX_I64, 1, SEQ), ids));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "lengths", rlx_type(RLX_I64, 1), &len));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "embedding", rlx_type(RLX_F32, 1, OUT), out));
	rlx_session_free(s);
}

/* What the model gives, with a store or without. */
static void embed(struct rlx_store *s, float out[OUT])
{
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_bert *b;

	memset(out, 0xff, OUT * sizeof(*out));
	CHECKF(!rlx_bert_open(dir, &b, &err), "%s", err.text);
	p = compile(b, 1, s);
	rlx_bert_put(b);
	run(p, out);
	rlx_program_put(p);
}

static struct rlx_store_info info_of(struct rlx_store *s)
{
	struct rlx_store_info i;

	rlx_store_info(s, &i);
	return i;
}

static struct rlx_store *sealed(void)
{
	struct rlx_store *s = store_of(4 << 20);
	struct rlx_error err = { 0 };
	float out[OUT];

	embed(s, out);
	CHECKF(!rlx_store_seal(s, &err), "%s", err.text);
	return s;
}

/* As another process does it: by the descriptor alone. */
static enum rlx_status adopt(int fd, struct rlx_store **out, struct rlx_error *err)
{
	struct rlx_arena *a;
	enum rlx_status st;

	CHECK(!rlx_arena_open_fd(fd, RLX_ARENA_RDONLY | RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, &a,
				 err));
	st = rlx_store_open(a, NULL, out, err);
	rlx_arena_put(a);
	return st;
}

/* Bytes before the first tensor's, in whole pages. */
static off_t header_pages(void)
{
	FILE *f = fopen(weights, "rb");
	uint64_t n;

	CHECK(f && fread(&n, sizeof(n), 1, f) == 1);
	fclose(f);
	return (off_t)((n + 8 + 4095) & ~4095ull);
}

static void in_child(void (*fn)(int fd, const float *want), int fd, const float *want)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		fn(fd, want);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECKF(!status, "the child ended with status 0x%x", status);
}

/* The file is cut behind its header: a run that reads a weight from it dies of SIGBUS. */
static void adopt_and_cut(int fd, const float *want)
{
	struct rlx_error err = { 0 };
	struct rlx_program *p, *q;
	struct rlx_store *s;
	struct rlx_bert *b;
	float out[OUT];

	CHECKF(!adopt(fd, &s, &err), "%s", err.text);
	CHECKF(!rlx_bert_open(dir, &b, &err), "%s", err.text);
	p = compile(b, 1, s);
	CHECK_EQ(info_of(s).missed, 0);
	CHECK_EQ(info_of(s).made, 0);
	CHECK_EQ(info_of(s).found, info_of(s).entries);
	/* Another batch has the same weights. */
	q = compile(b, 3, s);
	CHECK_EQ(info_of(s).missed, 0);
	CHECK(!truncate(weights, header_pages()));
	run(p, out);
	CHECK(!memcmp(out, want, sizeof(out)));
	rlx_program_put(q);
	rlx_program_put(p);
	rlx_bert_put(b);
	rlx_store_put(s);
}

TEST(another_process_finds_all)
{
	float want[OUT], out[OUT];
	struct rlx_store *s;

	write_model();
	embed(NULL, want);
	s = store_of(4 << 20);
	embed(s, out);
	CHECK(!memcmp(out, want, sizeof(out)));
	CHECK(info_of(s).made > 30);
	CHECK_EQ(info_of(s).made, info_of(s).entries);
	CHECK(!rlx_store_seal(s, NULL));
	CHECK_EQ(rlx_store_seal(s, NULL), RLX_EACCES);
	/* Whose maker goes on with it, and itself finds it there. */
	embed(s, out);
	CHECK(!memcmp(out, want, sizeof(out)));
	CHECK_EQ(info_of(s).missed, 0);
	in_child(adopt_and_cut, rlx_arena_fd(rlx_store_arena(s)), want);
	rlx_store_put(s);
}

TEST(a_changed_file_is_another)
{
	float want[OUT], out[OUT];
	struct rlx_store *s;

	write_model();
	s = sealed();
	write_model();
	embed(NULL, want);
	embed(s, out);
	CHECK(!memcmp(out, want, sizeof(out)));
	CHECK(info_of(s).missed > 30);
	rlx_store_put(s);
}

TEST(programs_outlive_model_and_store)
{
	float want[OUT], out[OUT];
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_store *s;
	struct rlx_bert *b;

	write_model();
	embed(NULL, want);
	s = store_of(4 << 20);
	CHECK(!rlx_bert_open(dir, &b, &err));
	p = compile(b, 1, s);
	CHECKF(!rlx_store_seal(s, &err), "%s", err.text);
	rlx_store_put(s);
	rlx_bert_put(b);
	CHECK(!truncate(weights, header_pages()));
	run(p, out);
	CHECK(!memcmp(out, want, sizeof(out)));
	rlx_program_put(p);
}

TEST(a_small_arena_takes_what_it_can)
{
	float want[OUT], out[OUT];
	uint64_t bytes;

	write_model();
	embed(NULL, want);
	for (bytes = 4096; bytes <= 16 << 10; bytes *= 2) {
		struct rlx_store *s = store_of(bytes);

		embed(s, out);
		CHECK(!memcmp(out, want, sizeof(out)));
		CHECK(info_of(s).missed > 0);
		CHECK(info_of(s).bytes <= bytes);
		rlx_store_put(s);
	}
}

struct damage {
	const char	*name;
	void		(*fn)(char *p, struct rlx_store_header *h, struct rlx_store_entry *e);
	bool		 whole;		/* the hash is made good again */
	enum rlx_status	 want;
	const char	*text;
};

#define DAMAGE(n, ...)								\
	static void n(char *p, struct rlx_store_header *h, struct rlx_store_entry *e) \
	{									\
		__VA_ARGS__;							\
	}
DAMAGE(no_magic, h->magic[0] ^= 1)
DAMAGE(all_zero, memset(p, 0, sizeof(*h)))
DAMAGE(all_ones, memset(p, 0xff, sizeof(*h)))
DAMAGE(format, h->format++)
DAMAGE(entry_size, h->entry_bytes += 8)
DAMAGE(build, h->build[3] ^= 0x40)
DAMAGE(isa, memset(h->layout, 0, sizeof(h->layout)); strcpy(h->layout, "cpu v9"))
DAMAGE(endless_isa, memset(h->layout, 'x', sizeof(h->layout)))
DAMAGE(used_far, h->used = 1ull << 40)
DAMAGE(table_far, h->table = UINT64_MAX - 63)
DAMAGE(table_odd, h->table++)
DAMAGE(table_at_end, h->table = 4 << 20)
DAMAGE(many_entries, h->n_entry = UINT32_MAX)
DAMAGE(endless_entries, h->n_entry = UINT64_MAX / sizeof(*e))
DAMAGE(fewer_entries, h->n_entry--)
DAMAGE(hash, h->hash ^= 1ull << 63)
DAMAGE(table_bit, e[h->n_entry - 1].key.param[0] ^= 1)
DAMAGE(entry_odd, e[1].at++)
DAMAGE(entry_far, e[1].at = 1ull << 50)
DAMAGE(entry_wraps, e[1].at = (uint64_t)-64; e[1].key.bytes = 128)
DAMAGE(entry_long, e[1].key.bytes = h->used)
DAMAGE(entry_endless, e[1].key.bytes = UINT64_MAX)
#undef DAMAGE

static const struct damage damages[] = {
#define D(n, whole, want, text) { #n, n, whole, want, text }
	D(no_magic, true, RLX_EPARSE, "no sealed store"),
	D(all_zero, false, RLX_EPARSE, "no sealed store"),
	D(all_ones, false, RLX_EPARSE, "no sealed store"),
	D(format, true, RLX_ENOSUP, "format is 2"),
	D(entry_size, true, RLX_ENOSUP, "format"),
	D(build, true, RLX_ENOSUP, "another build"),
	D(isa, true, RLX_ENOSUP, "for 'cpu v9', this is 'cpu "),
	D(endless_isa, true, RLX_ENOSUP, "for 'xxxx"),
	D(used_far, true, RLX_EPARSE, "cut short"),
	D(table_far, false, RLX_EPARSE, "cut short"),
	D(table_odd, false, RLX_EPARSE, "cut short"),
	D(table_at_end, false, RLX_EPARSE, "cut short"),
	D(many_entries, false, RLX_EPARSE, "cut short"),
	D(endless_entries, false, RLX_EPARSE, "cut short"),
	D(fewer_entries, false, RLX_EPARSE, "damaged"),
	D(hash, false, RLX_EPARSE, "damaged"),
	D(table_bit, false, RLX_EPARSE, "damaged"),
	D(entry_odd, true, RLX_EPARSE, "entry 1 has"),
	D(entry_far, true, RLX_EPARSE, "entry 1 has"),
	D(entry_wraps, true, RLX_EPARSE, "entry 1 has"),
	D(entry_long, true, RLX_EPARSE, "entry 1 has"),
	D(entry_endless, true, RLX_EPARSE, "entry 1 has"),
#undef D
};

/* A sealed copy of @s with something wrong in it. */
static int damaged(struct rlx_store *s, const struct damage *d, size_t bytes)
{
	int fd = memfd_create("damaged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct rlx_error err = { 0 };
	struct rlx_store_header *h;
	struct rlx_store_entry *e;
	struct rlx_arena *a;
	char *p;

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	memcpy(p, rlx_arena_base(rlx_store_arena(s)), bytes);
	h = (void *)p;
	e = (void *)(p + h->table);
	if (d) {
		d->fn(p, h, e);
		if (d->whole)
			h->hash = rlx_store_hash(h, e);
	}
	munmap(p, bytes);
	CHECK(!rlx_arena_open_fd(fd, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, &a, &err));
	CHECKF(!rlx_arena_seal(a, RLX_SEAL_WRITE, &err), "%s", err.text);
	rlx_arena_put(a);
	return fd;
}

TEST(damaged_ones_are_refused)
{
	struct rlx_store *s, *got;
	unsigned int i;
	int fd;

	write_model();
	s = sealed();
	fd = damaged(s, NULL, 4 << 20);
	CHECK(!adopt(fd, &got, NULL));		/* the copy itself is good */
	rlx_store_put(got);
	close(fd);
	for (i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		const struct damage *d = &damages[i];
		struct rlx_error err = { 0 };
		enum rlx_status st;

		fd = damaged(s, d, 4 << 20);
		st = adopt(fd, &got, &err);
		CHECKF(st == d->want && strstr(err.text, d->text) && !got, "%s: %s: %s", d->name,
		       rlx_status_name(st), err.text);
		close(fd);
	}
	rlx_store_put(s);
}

TEST(cut_ones_are_refused)
{
	struct rlx_error err = { 0 };
	struct rlx_store *s, *got;
	uint64_t used;
	size_t n;
	int fd;

	write_model();
	s = sealed();
	used = (info_of(s).bytes + 4095) & ~4095ull;
	for (n = 4096; n <= used - 4096; n += 4096) {
		const struct rlx_store_header *h = rlx_arena_base(rlx_store_arena(s));
		int raw = memfd_create("cut", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		struct rlx_arena *a;

		CHECK(raw >= 0 && write(raw, h, n) == (ssize_t)n);
		CHECK(!rlx_arena_open_fd(raw, RLX_ARENA_LAZY | RLX_ARENA_NOLOCK, &a, &err));
		CHECK(!rlx_arena_seal(a, RLX_SEAL_WRITE, &err));
		rlx_arena_put(a);
		CHECK_EQ(adopt(raw, &got, &err), RLX_EPARSE);
		CHECKF(strstr(err.text, "cut short"), "%s", err.text);
		err = (struct rlx_error){ 0 };
		close(raw);
	}
	fd = memfd_create("nothing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(!ftruncate(fd, 64));
	CHECK_EQ(adopt(fd, &got, &err), RLX_ERANGE);
	close(fd);
	rlx_store_put(s);
}

TEST(only_sealed_ones_are_adopted)
{
	struct rlx_error err = { 0 };
	struct rlx_store *s, *got;
	float out[OUT];

	write_model();
	s = store_of(4 << 20);
	embed(s, out);
	CHECK_EQ(adopt(rlx_arena_fd(rlx_store_arena(s)), &got, &err), RLX_EACCES);
	CHECKF(strstr(err.text, "not sealed"), "%s", err.text);
	rlx_store_put(s);
}

TEST(arguments)
{
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = 1, .seq = SEQ };
	struct rlx_compile_opts c = { .size = sizeof(c) };
	struct rlx_error err = { 0 };
	struct rlx_store *s = (void *)1;
	struct rlx_arena *a = arena_of(1 << 20);
	struct rlx_program *p;
	struct rlx_graph *g;
	struct rlx_bert *b;

	CHECK_EQ(rlx_store_new(NULL, NULL, &s, &err), RLX_EINVAL);
	CHECK_EQ(rlx_store_new(a, NULL, NULL, &err), RLX_EINVAL);
	CHECK_EQ(rlx_store_new(a, "nothing", &s, &err), RLX_ENODEV);
	CHECK(!s);
	CHECK_EQ(rlx_store_seal(NULL, &err), RLX_EINVAL);
	CHECK(!rlx_store_arena(NULL));
	CHECK(!rlx_store_get(NULL));
	rlx_store_put(NULL);
	/* Without a name it is the device that programs are compiled for. */
	setenv("RLX_DEVICE", "ref", 1);
	CHECK(!rlx_store_new(a, NULL, &s, &err));
	CHECKF(!strncmp(info_of(s).layout, "ref", 3), "%s", info_of(s).layout);
	rlx_store_put(s);
	unsetenv("RLX_DEVICE");
	/* Another device has other layouts. */
	write_model();
	err = (struct rlx_error){ 0 };
	CHECK(!rlx_store_new(a, "ref", &s, &err));
	CHECK(!rlx_bert_open(dir, &b, &err));
	CHECK(!rlx_bert_graph(b, &o, &g, &err));
	c.store = s;
	c.device = "cpu";
	CHECK_EQ(rlx_compile(g, &c, &p, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "the store is for 'ref"), "%s", err.text);
	rlx_graph_put(g);
	rlx_bert_put(b);
	rlx_store_put(s);
	rlx_arena_put(a);
}

TEST(seal_waits_for_nobody)
{
	struct rlx_blob *b = rlx_blob_copy("weights", 8);
	struct rlx_store *s = store_of(1 << 20);
	const int64_t param[4] = { 1, 2, 3, 4 }, other[4] = { 1, 2, 3, 5 };
	void *p, *q;

	CHECK_EQ(rlx_store_take(s, b, "kind", param, 100, &p), RLX_TOOK_NEW);
	CHECK_EQ(rlx_store_seal(s, NULL), RLX_EBUSY);
	memset(p, 7, 100);
	rlx_store_ready(s, p);
	CHECK_EQ(rlx_store_take(s, b, "kind", param, 100, &q), RLX_TOOK_FOUND);
	CHECK(p == q);
	CHECK_EQ(rlx_store_take(s, b, "a kind with a long name", param, 8, &q), RLX_TOOK_NONE);
	CHECK_EQ(rlx_store_take(s, b, "kind", param, SIZE_MAX, &q), RLX_TOOK_NONE);
	CHECK_EQ(rlx_store_take(s, b, "kind", param, SIZE_MAX - 63, &q), RLX_TOOK_NONE);
	CHECK_EQ(rlx_store_take(s, b, "kind", param, 1 << 20, &q), RLX_TOOK_NONE);
	CHECK_EQ(rlx_store_take(NULL, b, "kind", param, 8, &q), RLX_TOOK_NONE);
	CHECK(!rlx_store_seal(s, NULL));
	CHECK_EQ(rlx_store_take(s, b, "kind", other, 100, &q), RLX_TOOK_NONE);
	CHECK_EQ(rlx_store_take(s, b, "kind", param, 100, &q), RLX_TOOK_FOUND);
	CHECK(p == q && *(char *)q == 7);
	rlx_store_put(s);
	rlx_blob_put(b);
}

static struct rlx_store *shared;

static void *compile_again(void *want)
{
	int i;

	for (i = 0; i < 20; i++) {
		float out[OUT];

		embed(shared, out);
		if (memcmp(out, want, sizeof(out)))
			return want;
	}
	return NULL;
}

/* A tokenizer of a vocab.txt whose words it still tells apart, shared or not. */
static struct rlx_tokenizer *shared_words(const char *text, struct rlx_store *s)
{
	struct rlx_error err = { 0 };
	struct rlx_tokenizer *t;
	const char *word = text, *end;
	int64_t id;
	size_t n;

	CHECKF(!rlx_tokenizer_new_mem(text, strlen(text), NULL, &t, &err), "%s", err.text);
	rlx_tokenizer_share(t, s);
	for (id = 0; *word; id++, word = end + 1) {
		end = strchr(word, '\n');
		CHECK_EQ(rlx_tokenizer_id(t, word, (size_t)(end - word)), id);
		CHECK(!memcmp(rlx_tokenizer_token(t, id, &n), word, (size_t)(end - word)));
		CHECK_EQ(n, end - word);
	}
	CHECK_EQ(rlx_tokenizer_id(t, "nothing", 7), -1);
	return t;
}

TEST(vocabularies_are_shared)
{
	static const char one[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##able\nword\n";
	static const char other[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##able\nlord\n";
	struct rlx_store *s = store_of(1 << 20), *tiny = store_of(4096);
	struct rlx_tokenizer *t[6] = { shared_words(one, s), shared_words(one, s) };
	struct rlx_store_info info = info_of(s);
	unsigned int i;

	CHECK_EQ(info.entries, 3);
	CHECK_EQ(info.found, 3);
	CHECK(!rlx_store_seal(s, NULL));
	t[2] = shared_words(one, s);
	CHECK_EQ(info_of(s).found, 6);
	CHECK_EQ(info_of(s).missed, 0);
	t[3] = shared_words(other, s);
	CHECK(info_of(s).missed > 0);
	t[4] = shared_words(one, NULL);
	t[5] = shared_words(one, tiny);
	for (i = 0; i < 6; i++)
		rlx_tokenizer_free(t[i]);
	rlx_store_put(tiny);
	rlx_store_put(s);
}

TEST(threads_share_entries)
{
	pthread_t t[4];
	float want[OUT];
	uint32_t alone;
	void *bad;
	int i;

	write_model();
	embed(NULL, want);
	shared = sealed();
	alone = info_of(shared).entries;
	rlx_store_put(shared);
	shared = store_of(4 << 20);
	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&t[i], NULL, compile_again, want));
	for (i = 0; i < 4; i++) {
		CHECK(!pthread_join(t[i], &bad));
		CHECK(!bad);
	}
	CHECK_EQ(info_of(shared).entries, alone);
	CHECK_EQ(info_of(shared).missed, 0);
	CHECK(!rlx_store_seal(shared, NULL));
	rlx_store_put(shared);
}

TEST_MAIN()
