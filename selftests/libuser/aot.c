// SPDX-License-Identifier: MIT
/*
 * Plan files: what is loaded gives the bits of what was saved; files that are damaged, cut short,
 * forged or for another machine are refused; processes share their pages.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "model/plan_file.h"
#include "rlx/model.h"
#include "rlx/run.h"
#include "rt/rt.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/qdq_conv.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static char dir[] = "/tmp/rlx-aot-XXXXXX", path[64], other[64];
static pid_t owner;

static void remove_dir(void)
{
	if (getpid() != owner)
		return;
	unlink(path);
	unlink(other);
	rmdir(dir);
}

static void begin(void)
{
	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a.rlxp", dir);
	snprintf(other, sizeof(other), "%s/b.rlxp", dir);
	owner = getpid();
	atexit(remove_dir);
}

static struct rlx_program *compile(struct rlx_graph *g, unsigned int threads, uint32_t flags)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = threads,
				      .flags = flags };
	struct rlx_error err = { 0 };
	struct rlx_program *p;

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	return p;
}

static void save(const struct rlx_program *p, const char *to)
{
	struct rlx_error err = { 0 };

	CHECKF(!rlx_program_save(p, to, &err), "%s", err.text);
}

static struct rlx_program *load(unsigned int threads)
{
	struct rlx_load_opts o = { .size = sizeof(o), .threads = threads,
				   .flags = RLX_LOAD_VERIFY };
	struct rlx_error err = { 0 };
	struct rlx_program *p;

	CHECKF(!rlx_program_load(path, &o, &p, &err), "%s", err.text);
	return p;
}

static enum rlx_status refused(const char *part, uint32_t flags)
{
	struct rlx_load_opts o = { .size = sizeof(o), .threads = 1, .flags = flags };
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	enum rlx_status st = rlx_program_load(path, &o, &p, &err);

	rlx_program_put(p);
	CHECK(!st == !err.status && (!st || (err.text[0] && !p)));
	CHECKF(!st || strstr(err.text, part), "\"%s\" does not say \"%s\"", err.text, part);
	return st;
}

/* ---- round trips ---- */

typedef void fill_fn(struct rlx_session *s, const void *ctx);

static bool same_io(struct rlx_session *a, struct rlx_session *b, enum rlx_io io)
{
	struct rlx_program *p = rlx_session_program(a), *q = rlx_session_program(b);
	unsigned int i, n = rlx_program_io_count(p, io);

	CHECK_EQ(rlx_program_io_count(q, io), n);
	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(p, io, i);
		struct rlx_buf x, y;

		CHECK_STR(rlx_program_io_name(q, io, i), name);
		CHECK(rlx_type_equal(rlx_program_io_type(p, io, i),
				     rlx_program_io_type(q, io, i)));
		x = rlx_session_buf(a, io, name);
		y = rlx_session_buf(b, io, name);
		if (x.bytes != y.bytes ||
		    (x.bytes && memcmp(rlx_buf_ptr(x), rlx_buf_ptr(y), x.bytes)))
			return false;
	}
	return true;
}

static struct rlx_session *run(struct rlx_program *p, fill_fn *fill, const void *ctx,
			       enum rlx_status *out)
{
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	int i;

	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	fill(s, ctx);
	for (i = 0, *out = RLX_OK; i < 2 && !*out; i++)	/* states and kept values as well */
		*out = rlx_session_run(s);
	return s;
}

/* @p and what is loaded of it give the same, and so does that when it is saved again. */
static void round_trip_of(struct rlx_program *p, unsigned int threads, fill_fn *fill,
			  const void *ctx)
{
	struct rlx_session *a, *b;
	struct rlx_program *q;
	enum rlx_status was, is;
	int i;

	save(p, path);
	a = run(p, fill, ctx, &was);
	for (i = 0; i < 2; i++) {
		q = load(threads);
		b = run(q, fill, ctx, &is);
		CHECKF(is == was, "%s before, %s loaded", rlx_status_name(was),
		       rlx_status_name(is));
		CHECK(was || (same_io(a, b, RLX_IO_OUTPUT) && same_io(a, b, RLX_IO_STATE)));
		rlx_session_free(b);
		save(q, path);
		rlx_program_put(q);
	}
	rlx_session_free(a);
}

static void fill_small(struct rlx_session *s, const void *ctx)
{
	(void)ctx;
	CHECK(!small_net_fill(s, 7));
}

TEST(small_nets)
{
	static const uint32_t flags[] = { 0, RLX_COMPILE_NO_FUSE,
					  RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY };
	struct rlx_program *p;
	struct rlx_graph *g;
	unsigned int i, k;

	begin();
	for (i = 0; i < 8; i++)		/* each part, then all of them */
		for (k = 0; k < 3; k++) {
			g = small_net(i < 7 ? 1u << i : SMALL_NET_ALL, 2);
			p = compile(g, 1 + i % 2, flags[k]);
			rlx_graph_put(g);
			round_trip_of(p, 1 + i % 2, fill_small, NULL);
			rlx_program_put(p);
		}
}

/* Inputs of a drawn case, with the data of its leaves that are no constants. */
struct drawn {
	const struct fuzz_case	*c;
	void			*data[FUZZ_LEAVES];
};

static void fill_drawn(struct rlx_session *s, const void *ctx)
{
	struct rlx_program *p = rlx_session_program(s);
	const struct drawn *d = ctx;
	uint32_t k, n = 0;

	for (k = 0; k < d->c->n_leaf; k++)
		if (!d->c->leaf[k].fixed)
			CHECK(!rlx_session_set(s, RLX_IO_INPUT,
					       rlx_program_io_name(p, RLX_IO_INPUT, n++),
					       d->c->leaf[k].type, d->data[k]));
}

static void drawn_case(const struct fuzz_case *c)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = c->threads,
				      .flags = c->flags };
	struct drawn d = { .c = c };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_graph *g;
	uint32_t k;

	for (k = 0; k < c->n_leaf; k++)
		d.data[k] = fuzz_data(c, k);
	g = fuzz_graph(c, d.data, RLX_NODTYPE, 0, 0);
	if (!rlx_graph_error(g)->status && !rlx_compile(g, &o, &p, &err)) {
		round_trip_of(p, c->threads, fill_drawn, &d);
		rlx_program_put(p);
	}
	rlx_graph_put(g);
	for (k = 0; k < c->n_leaf; k++)
		free(d.data[k]);
}

TEST(drawn_graphs)
{
	uint64_t seed = rlx_test_seed();
	struct fuzz_case *c = malloc(sizeof(*c));
	int i;

	CHECK(c);
	begin();
	op_case_host_is_fine();
	for (i = 0; i < 150; i++) {
		if (i % 2)
			fuzz_draw_graph(c, rlx_test_rand(&seed));
		else
			fuzz_draw_op(c, rlx_test_rand(&seed));
		drawn_case(c);
	}
	free(c);
}

static void fill_x(struct rlx_session *s, const void *ctx)
{
	const struct xy_net *n = ctx;
	struct xy_net copy = *n;
	float *x = malloc((size_t)rlx_type_bytes(&n->in) + 1);

	CHECK(x);
	xy_fill(&copy, x, -2, 2);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", n->in, x));
	free(x);
}

static void net_round_trip(struct xy_net *n, rlx_value y)
{
	struct rlx_program *p;

	xy_end(n, y);
	p = compile(n->g, 1, 0);
	rlx_graph_put(n->g);
	round_trip_of(p, 1, fill_x, n);
	rlx_program_put(p);
}

TEST(quantized)
{
	struct qdq_conv c;
	struct xy_net n;
	rlx_value x;
	int i;

	begin();
	for (i = 0; i < 12; i++) {
		uint64_t seed = rlx_test_seed() + (uint64_t)i;

		do
			qdq_conv_draw(&c, &seed, 1 << 14, 0, 1e7);
		while (qdq_conv_input(&c).dtype != RLX_F32);
		x = xy_begin(&n, qdq_conv_input(&c));
		net_round_trip(&n, qdq_conv(&n, &c, x, false));
	}
}

/* A product with weights of @k by @n, which are packed and, if not small, left out as they are. */
static rlx_value product(struct xy_net *net, int64_t m, int64_t k, int64_t n)
{
	rlx_value x = xy_begin(net, rlx_type(RLX_F32, m, k));

	return rlx_emit(net->g, matmul, .a = x,
			.b = xy_floats(net, rlx_type(RLX_F32, k, n), -1, 1));
}

static void write_product(struct xy_net *n)
{
	struct rlx_program *p;

	xy_end(n, product(n, 3, 40, 50));
	p = compile(n->g, 1, 0);
	save(p, path);
	rlx_program_put(p);
}

/* What takes an op's weights once more as they are keeps them. */
TEST(weights_left_out)
{
	struct rlx_program_file_info info;
	struct rlx_error err = { 0 };
	struct rlx_program *q, *again;
	struct xy_net n;
	rlx_value x, w;

	begin();
	write_product(&n);
	CHECKF(!rlx_program_file_info(path, &info, &err), "%s", err.text);
	CHECK_EQ(info.left_out, 1);
	CHECK_EQ(info.raw_bytes, 0);
	CHECK(info.prepared_bytes >= 40 * 50 * 4 && info.usable && info.graphs == 1);
	q = load(1);
	CHECK(rlx_graph_lacks_contents(rlx_program_graph(q)));
	CHECK_EQ(rlx_compile((struct rlx_graph *)(uintptr_t)rlx_program_graph(q), NULL, &again,
			     &err), RLX_ENOSUP);
	rlx_program_put(q);
	rlx_graph_put(n.g);

	x = xy_begin(&n, rlx_type(RLX_F32, 40, 50));
	w = xy_floats(&n, rlx_type(RLX_F32, 50, 50), -1, 1);
	x = rlx_emit(n.g, matmul, .a = x, .b = w);
	x = rlx_emit(n.g, matmul, .a = rlx_emit(n.g, mul, .a = w, .b = w), .b =
		     rlx_emit(n.g, transpose, .x = x, .perm = { (int64_t[]){ 1, 0 }, 2 }));
	net_round_trip(&n, x);
}

/* ---- as a model ---- */

static enum rlx_status run_model(void *ctx)
{
	const struct xy_net *n = ctx;
	struct rlx_compile_opts o = { .size = sizeof(o), .threads = 1 };
	struct rlx_named_tensor in = { "x", n->in, calloc(1, (size_t)rlx_type_bytes(&n->in)) };
	struct rlx_runner *r = NULL;
	struct rlx_model *m = NULL;
	struct rlx_named_tensor out;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_model_open(path, &m, &err);

	CHECK(in.data);
	if (!st)
		st = rlx_runner_new(m, &o, &r, &err);
	if (!st)
		st = rlx_runner_run(r, &in, 1, &err);
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), err.text);
	if (!st) {
		CHECK(rlx_runner_output_count(r) == 1 && rlx_runner_output(r, 0, &out));
		CHECK(!strcmp(out.name, "y") && rlx_type_equal(&out.type, &n->out));
		CHECK(*(const float *)out.data == 0);
	}
	rlx_runner_free(r);
	rlx_model_put(m);
	free((void *)(uintptr_t)in.data);
	return st;
}

TEST(model)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .precision = RLX_PRECISION_BF16 };
	struct rlx_named_tensor in = { .name = "x" };
	struct rlx_error err = { 0 };
	struct rlx_runner *r;
	struct rlx_model *m;
	struct xy_net n;
	float zeros[256] = { 0 };

	begin();
	write_product(&n);
	rlx_graph_put(n.g);
	CHECK_EQ(run_model(&n), 0);
	CHECK(rlx_oom_sweep(run_model, &n) > 50);
	CHECK(!rlx_model_open(path, &m, &err) && !rlx_runner_new(m, &o, &r, &err));
	in.data = zeros;
	in.type = n.in;
	CHECK_EQ(rlx_runner_run(r, &in, 1, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "compiled already"), "%s", err.text);
	in.type.dim[0]--;
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_runner_run(r, &in, 1, &err), RLX_ESHAPE);
	CHECKF(strstr(err.text, "input 'x' is f32[2,40], and was compiled for f32[3,40]"), "%s",
	       err.text);
	in.name = "z";
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_runner_run(r, &in, 1, &err), RLX_ENOENT);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* Params and states are a session's, of which a model knows nothing. */
TEST(no_model)
{
	struct rlx_graph *g = small_net(SMALL_NET_NORM, 1);
	struct rlx_program *p = compile(g, 1, 0);
	struct rlx_error err = { 0 };
	struct rlx_model *m;

	begin();
	save(p, path);
	rlx_program_put(p);
	rlx_graph_put(g);
	p = load(1);
	CHECK_EQ(rlx_program_io_count(p, RLX_IO_PARAM), 1);
	CHECK_EQ(rlx_model_open(path, &m, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "a param, 'shift'"), "%s", err.text);
	rlx_program_put(p);
}

/* ---- what is refused ---- */

static uint8_t *read_file(size_t *out_n)
{
	struct rlx_error err = { 0 };
	struct rlx_file f;
	uint8_t *p;

	CHECKF(!rlx_file_map(&f, path, &err), "%s", err.text);
	*out_n = f.n;
	p = malloc(f.n + 1);
	CHECK(p);
	memcpy(p, f.p, f.n);
	rlx_file_unmap(&f);
	return p;
}

static void write_file(const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
}

/* Of the metadata every byte counts, always; of the arrays if that is asked for. */
TEST(each_byte_changed)
{
	enum rlx_status st;
	struct plan_header h;
	struct xy_net n;
	uint8_t *p, was;
	size_t bytes, i, caught = 0, step;
	int fd;

	begin();
	write_product(&n);
	rlx_graph_put(n.g);
	p = read_file(&bytes);
	memcpy(&h, p, sizeof(h));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && h.meta < bytes);
	for (i = 0; i < bytes; i += step) {
		step = i < h.meta ? 1 : 7;
		was = p[i];
		p[i] ^= (uint8_t)(1u << i % 8);
		CHECK_EQ(pwrite(fd, p + i, 1, (off_t)i), 1);
		p[i] = was;
		st = refused("", i < h.meta ? 0 : RLX_LOAD_VERIFY);
		CHECKF(i >= h.meta || st == RLX_EPARSE || st == RLX_ENOSUP, "byte %zu: %s", i,
		       rlx_status_name(st));
		caught += i >= h.meta && st == RLX_EPARSE;
		CHECK_EQ(pwrite(fd, p + i, 1, (off_t)i), 1);
	}
	CHECK(caught >= 40 * 50 * 4 / 7);
	close(fd);
	free(p);
	CHECK_EQ(refused("", RLX_LOAD_VERIFY), 0);
}

TEST(each_length)
{
	struct xy_net n;
	size_t bytes, i;
	uint8_t *p;

	begin();
	write_product(&n);
	rlx_graph_put(n.g);
	p = read_file(&bytes);
	for (i = bytes; i-- > 0;) {
		CHECK(!truncate(path, (off_t)i));
		CHECK_EQ(refused(i < 8 ? "no plan file" : "cut short", 0), RLX_EPARSE);
	}
	write_file(p, bytes);
	CHECK(!truncate(path, (off_t)bytes + 1));
	CHECK_EQ(refused("stands behind it", 0), RLX_EPARSE);
	write_file("graph \"x\" {}", 12);
	CHECK_EQ(refused("no plan file", 0), RLX_EPARSE);
	unlink(path);
	CHECK_EQ(refused("No such file", 0), RLX_ENOENT);
	free(p);
}

/* Change something of metadata @p, whose hash then fits. */
static void forge(uint8_t *p, uint64_t *seed)
{
	struct plan_header *h = (struct plan_header *)(void *)p;
	const uint64_t meta = h->meta, tables = h->entry + h->n_entry * sizeof(struct plan_entry);
	uint64_t n = 1 + rlx_test_rand(seed) % 3, at, v;

	for (; n > 0; n--) {
		v = rlx_test_rand(seed);
		/* a word of header or tables, or any byte, more of the text than of these */
		at = (v >> 8) % (v % 2 ? tables : meta);
		at = at < offsetof(struct plan_header, meta) ? meta - 1 - at : at;
		v = rlx_test_rand(seed);
		switch (v % 4) {
		case 0: p[at] = (uint8_t)(v >> 8); break;
		case 1: p[at] = "0123456789-[],%\"{}"[(v >> 8) % 18]; break;
		case 2: p[at] ^= (uint8_t)(1u << (v >> 8) % 8); break;
		default:
			at &= ~(uint64_t)7;
			v = (v >> 8) % 3 ? (v >> 16) >> (v >> 8) % 48 : -(v >> 16 & 255);
			memcpy(p + at, &v, sizeof(v));
		}
	}
	if (h->meta <= meta && h->meta >= sizeof(*h))
		plan_file_hash(h, h->hash);
}

/* Whoever writes the hash as well gets an error, or a program that runs. */
static unsigned int forged(const uint8_t *good, size_t bytes, uint64_t *seed, fill_fn *fill,
			   int times)
{
	uint8_t *p = malloc(bytes);
	unsigned int loaded = 0;
	struct rlx_error err;

	for (; p && times > 0; times--) {
		struct rlx_load_opts o = { .size = sizeof(o), .threads = 1 };
		struct rlx_program *q = NULL;
		struct rlx_session *s = NULL;

		memcpy(p, good, bytes);
		forge(p, seed);
		write_file(p, bytes);
		err = (struct rlx_error){ 0 };
		if (rlx_program_load(path, &o, &q, &err)) {
			CHECK(err.status && err.text[0]);
			continue;
		}
		loaded++;
		if (q->info.session_bytes < 64 << 20 && !rlx_session_new(q, NULL, &s, &err)) {
			fill(s, NULL);
			(void)!rlx_session_run(s);
		}
		rlx_session_free(s);
		rlx_program_put(q);
	}
	free(p);
	return loaded;
}

/* Inputs by what the program says they are, whatever that is. */
static void fill_any(struct rlx_session *s, const void *ctx)
{
	static const enum rlx_io all[] = { RLX_IO_INPUT, RLX_IO_PARAM, RLX_IO_STATE };
	struct rlx_program *p = rlx_session_program(s);
	unsigned int i, k;

	(void)ctx;
	for (k = 0; k < 3; k++)
		for (i = 0; i < rlx_program_io_count(p, all[k]); i++) {
			const char *name = rlx_program_io_name(p, all[k], i);
			const struct rlx_type *t = rlx_program_io_type(p, all[k], i);
			void *x = calloc(1, (size_t)rlx_type_bytes(t) + 1);

			CHECK(x);
			(void)!rlx_session_set(s, all[k], name, *t, x);
			free(x);
		}
}

TEST(forged)
{
	uint64_t seed = rlx_test_seed();
	unsigned int part, loaded = 0;
	struct rlx_program *p;
	struct rlx_graph *g;
	uint8_t *good;
	size_t n;

	begin();
	op_case_host_is_fine();
	for (part = 1; part <= SMALL_NET_SUB; part *= 2) {
		g = small_net(part, 1);
		p = compile(g, 1, 0);
		rlx_graph_put(g);
		save(p, path);
		rlx_program_put(p);
		good = read_file(&n);
		loaded += forged(good, n, &seed, fill_any, 300);
		free(good);
	}
	CHECK(loaded > 10);	/* else nothing but the hash was tried */
}

/* ---- another machine, another build ---- */

TEST(another_machine)
{
	struct plan_header *h;
	struct xy_net n;
	uint8_t *p;
	size_t bytes;
	char text[64], *isa = NULL;

	begin();
	write_product(&n);
	rlx_graph_put(n.g);
	p = read_file(&bytes);
	h = (struct plan_header *)(void *)p;
	CHECK(strncmp(h->layout, "cpu ", 4) == 0);
	if (getenv("RLX_ISA"))
		isa = strdup(getenv("RLX_ISA"));
	setenv("RLX_ISA", "base", 1);
	snprintf(text, sizeof(text), "made for %s by version %s", h->layout, RLX_VERSION);
	if (strcmp(h->layout, "cpu base")) {
		CHECK_EQ(refused(text, 0), RLX_ENOSUP);
		CHECK_EQ(refused("this machine runs cpu base: compile the model again", 0),
			 RLX_ENOSUP);
	}
	if (isa)
		setenv("RLX_ISA", isa, 1);
	else
		unsetenv("RLX_ISA");
	free(isa);
	h->sources[3] ^= 1;
	plan_file_hash(h, h->hash);
	write_file(p, bytes);
	CHECK_EQ(refused("a library of other sources", 0), RLX_ENOSUP);
	h->sources[3] ^= 1;
	h->format++;
	write_file(p, bytes);
	CHECK_EQ(refused("format 2, known here is 1", 0), RLX_ENOSUP);
	h->format--;
	snprintf(h->layout, sizeof(h->layout), "abacus v1");
	plan_file_hash(h, h->hash);
	write_file(p, bytes);
	CHECK_EQ(refused("no device 'abacus'", 0), RLX_ENODEV);
	free(p);
}

TEST(another_device)
{
	struct rlx_load_opts o = { .size = sizeof(o), .device = "ref" };
	struct rlx_compile_opts c = { .size = sizeof(c), .device = "ref" };
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct xy_net n;

	begin();
	write_product(&n);
	CHECK_EQ(rlx_program_load(path, &o, &p, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "this machine runs ref"), "%s", err.text);
	err = (struct rlx_error){ 0 };
	CHECKF(!rlx_compile(n.g, &c, &p, &err), "%s", err.text);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_program_save(p, path, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "programs of 'ref'"), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(n.g);
	CHECK_EQ(refused("", 0), 0);	/* what was there stays */
}

/* ---- the file system, memory, processes ---- */

TEST(where_it_cannot_be_written)
{
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct xy_net n;

	begin();
	write_product(&n);
	p = compile(n.g, 1, 0);
	rlx_graph_put(n.g);
	CHECK_EQ(rlx_program_save(p, "/nowhere/at/all.rlxp", &err), RLX_ENOENT);
	CHECKF(strstr(err.text, "/nowhere/at/all.rlxp"), "%s", err.text);
	CHECK_EQ(rlx_program_save(p, NULL, &err), RLX_EINVAL);
	CHECK_EQ(rlx_program_save(NULL, path, &err), RLX_EINVAL);
	CHECK_EQ(rlx_program_load(NULL, NULL, &p, &err), RLX_EINVAL);
}

static enum rlx_status saved_and_loaded(void *ctx)
{
	struct rlx_load_opts o = { .size = sizeof(o), .threads = 1, .flags = RLX_LOAD_VERIFY };
	struct rlx_error err = { 0 };
	struct rlx_program *q = NULL;
	struct rlx_session *s = NULL;
	enum rlx_status st = rlx_program_save(ctx, path, &err);

	if (!st)
		st = rlx_program_load(path, &o, &q, &err);
	if (!st)
		st = rlx_session_new(q, NULL, &s, &err);
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), err.text);
	rlx_session_free(s);
	rlx_program_put(q);
	return st;
}

TEST(no_memory)
{
	struct rlx_program *p;
	struct rlx_graph *g;

	begin();
	g = small_net(SMALL_NET_MLP | SMALL_NET_SUB, 2);
	p = compile(g, 1, 0);
	rlx_graph_put(g);
	CHECK_EQ(saved_and_loaded(p), 0);
	CHECK(rlx_oom_sweep(saved_and_loaded, p) > 100);
	rlx_program_put(p);
}

/* KiB of @key for mappings of the plan file, in /proc/self/smaps. */
static unsigned long mapped_kib(const char *key)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long sum = 0, v;
	char line[512];
	bool ours = false;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (strchr(line, '-') && strchr(line, '-') < line + 17)
			ours = strstr(line, path);
		else if (ours && !strncmp(line, key, strlen(key)) &&
			 sscanf(line + strlen(key), ": %lu", &v) == 1)
			sum += v;
	}
	fclose(f);
	return sum;
}

/* Two that run one file have its weights in the same pages, and none of their own. */
TEST(shared_pages)
{
	enum { SIDE = 512 };
	struct rlx_session *s;
	struct rlx_program *p, *q;
	enum rlx_status st;
	struct xy_net n;
	int go[2], done;
	pid_t child;
	char c;

	begin();
	xy_end(&n, product(&n, 2, SIDE, SIDE));
	p = compile(n.g, 1, 0);
	save(p, path);
	rlx_program_put(p);
	CHECK(!pipe(go));
	child = fork();
	CHECK(child >= 0);
	q = load(1);
	s = run(q, fill_x, &n, &st);
	CHECK_EQ(st, 0);
	if (!child) {
		c = 'r';
		CHECK(write(go[1], &c, 1) == 1);
		sleep(30);
		_exit(0);
	}
	CHECK(read(go[0], &c, 1) == 1);
	CHECKF(mapped_kib("Rss") >= SIDE * SIDE * 4 / 1024, "%lu", mapped_kib("Rss"));
	CHECK_EQ(mapped_kib("Private_Dirty"), 0);
	CHECKF(mapped_kib("Shared_Clean") >= SIDE * SIDE * 4 / 1024, "%lu of %lu KiB",
	       mapped_kib("Shared_Clean"), mapped_kib("Rss"));
	kill(child, SIGKILL);
	CHECK_EQ(waitpid(child, &done, 0), child);
	rlx_session_free(s);
	rlx_program_put(q);
	CHECK_EQ(mapped_kib("Size"), 0);
	rlx_graph_put(n.g);
}

TEST_MAIN()
