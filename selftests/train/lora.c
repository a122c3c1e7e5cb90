// SPDX-License-Identifier: MIT
/*
 * Adapters of low rank on an encoder out of files: merged they give what they gave beside their
 * weights, training leaves the weights alone, files are as PEFT has them, bad ones are refused.
 */
#include <sys/stat.h>

#include "rlx/bert.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/tiny_bert.h"
#include "selftests/lib/train_rig.h"

enum { BATCH = 6, SEQ = 9, RANK = 3, MOST = 16 };
static const double alpha = 5;

/* An encoder of toy size in a folder, and adapters for the linear layers of its blocks. */
struct rig {
	char			 dir[64], out[72];
	struct tiny_bert	 b;
	struct rlx_bert		*bert;
	struct rlx_graph	*g;		/* of out_of_memory */
	struct rlx_lora_weight	 w[MOST];
	struct rlx_lora		 how;
	struct rlx_error	 err;
	uint64_t		 seed;
};

static void rig_open(struct rig *r)
{
	const struct rlx_safetensors *f;
	uint32_t i;

	*r = (struct rig){ .dir = "/tmp/rlx-lora-XXXXXX", .seed = rlx_test_seed() };
	CHECK(mkdtemp(r->dir));
	snprintf(r->out, sizeof(r->out), "%s/out", r->dir);
	tb_init(&r->b, &r->seed);
	tb_write(&r->b, r->dir);
	CHECKF(!rlx_bert_open(r->dir, &r->bert, &r->err), "%s", r->err.text);
	f = rlx_bert_weights(r->bert);
	r->how = (struct rlx_lora){ .size = sizeof(r->how), .weight = r->w, .rank = RANK,
				    .alpha = alpha };
	for (i = 0; i < rlx_safetensors_count(f); i++) {
		const struct rlx_safetensor *t = rlx_safetensors_at(f, i);

		if (t->type.rank == 2 && strstr(t->name, "encoder."))
			r->w[r->how.n++] = (struct rlx_lora_weight){ t->name, t->data };
	}
	CHECK_EQ(r->how.n, 12);
}

static void rig_close(struct rig *r)
{
	char path[128];

	rlx_bert_put(r->bert);
	tb_fini(&r->b);
	snprintf(path, sizeof(path), "%s/adapter_model.safetensors", r->out);
	unlink(path);
	snprintf(path, sizeof(path), "%s/adapter_config.json", r->out);
	unlink(path);
	tb_remove(r->out);
	tb_remove(r->dir);
}

static struct rlx_graph *encoder(struct rig *r, struct rlx_bert *bert)
{
	struct rlx_bert_opts o = { .size = sizeof(o), .batch = BATCH, .seq = SEQ,
				   .pool = RLX_BERT_MEAN };
	struct rlx_graph *g;

	CHECKF(!rlx_bert_graph(bert, &o, &g, &r->err), "%s", r->err.text);
	return g;
}

static struct rlx_graph *adapted(struct rig *r)
{
	struct rlx_graph *g = encoder(r, r->bert), *with;

	CHECKF(!rlx_graph_lora(g, &r->how, &with, &r->err), "%s", r->err.text);
	rlx_graph_put(g);
	return with;
}

/* Tokens that depend on their place alone. */
static void fill(struct rlx_session *s)
{
	int64_t *ids = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "input_ids"));
	int64_t *len = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "lengths")), i;

	CHECK(ids && len);
	for (i = 0; i < BATCH * SEQ; i++)
		ids[i] = (i * 17 + i / 7) % TB_VOCAB;
	for (i = 0; i < BATCH; i++)
		len[i] = 1 + i * 5 % SEQ;
}

/* Embeddings of @g, whose params are @p. */
static void embeddings(struct rlx_graph *g, const struct rlx_safetensor *p, unsigned int n,
		       float *to)
{
	struct rlx_error err = { 0 };
	struct rlx_program *prog;
	struct rlx_session *s;
	unsigned int i;

	CHECKF(!rlx_compile(g, NULL, &prog, &err), "%s", err.text);
	CHECKF(!rlx_session_new(prog, NULL, &s, &err), "%s", err.text);
	for (i = 0; i < n; i++)
		CHECKF(!rlx_session_set(s, RLX_IO_PARAM, p[i].name, p[i].type, p[i].data), "%s",
		       rlx_session_error(s)->text);
	fill(s);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "embedding", rlx_type(RLX_F32, BATCH, TB_H), to));
	rlx_session_free(s);
	rlx_program_put(prog);
}

static double apart(const float *a, const float *b)
{
	double most = 0, top = 0;
	int i;

	for (i = 0; i < BATCH * TB_H; i++) {
		most = rlx_test_worse(most, fabs((double)a[i] - (double)b[i]));
		top = rlx_test_worse(top, fabs((double)a[i]));
	}
	return most / top;
}

/* The adapters of @g, drawn; B is 0 if @zero. */
static unsigned int draw(struct rig *r, const struct rlx_graph *g, struct rlx_safetensor *p,
			 bool zero)
{
	unsigned int n = rlx_graph_io_count(g, RLX_IO_PARAM), i;
	int64_t k;

	CHECK_EQ(n, 2 * r->how.n);
	for (i = 0; i < n; i++) {
		struct rlx_type t = *rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_PARAM, i));
		float *v = malloc((size_t)rlx_type_bytes(&t));

		p[i] = (struct rlx_safetensor){ rlx_graph_io_name(g, RLX_IO_PARAM, i), t, v, 0 };
		for (k = 0; k < rlx_type_count(&t); k++)
			v[k] = zero && strstr(p[i].name, "lora_B") ? 0 :
			       (float)rlx_test_uniform(&r->seed, -0.5, 0.5);
	}
	return n;
}

/* The file with the adapters in it, beside the configuration. */
static void write_merged(struct rig *r, const struct rlx_safetensor *p, unsigned int n)
{
	char path[128], a[96], config[512];
	struct rlx_lora_merge m;
	unsigned int i, k;

	for (i = 0; i < r->b.n; i++) {
		struct rlx_safetensor *w = &r->b.t[i];
		int len = (int)strlen(w->name) - (int)strlen(".weight");

		snprintf(a, sizeof(a), "%.*s.lora_A.weight", len > 0 ? len : 0, w->name);
		for (k = 0; k < n && strcmp(p[k].name, a); k++)
			;
		if (k == n)
			continue;
		m = (struct rlx_lora_merge){ sizeof(m), w, &p[k], &p[k + 1], alpha / RANK, false };
		CHECKF(!rlx_lora_merge(&m, (void *)(uintptr_t)w->data, &r->err), "%s",
		       r->err.text);
	}
	CHECK(!mkdir(r->out, 0777));
	tb_text(r->out, "config.json", tb_config(&r->b.size, config, sizeof(config)));
	snprintf(path, sizeof(path), "%s/model.safetensors", r->out);
	CHECKF(!rlx_safetensors_write(path, r->b.t, r->b.n, NULL, &r->err), "%s", r->err.text);
}

TEST(merged_is_as_beside)
{
	float base[BATCH * TB_H], none[BATCH * TB_H], beside[BATCH * TB_H], merged[BATCH * TB_H];
	struct rlx_safetensor p[2 * MOST];
	struct rlx_graph *g, *with;
	struct rlx_bert *bert;
	struct rig r;
	unsigned int n, i;

	rig_open(&r);
	g = encoder(&r, r.bert);
	with = adapted(&r);
	embeddings(g, NULL, 0, base);
	n = draw(&r, with, p, true);
	embeddings(with, p, n, none);
	CHECKF(apart(base, none) == 0, "with B = 0 off by %g", apart(base, none));
	for (i = 0; i < n; i++)
		free((void *)(uintptr_t)p[i].data);
	n = draw(&r, with, p, false);
	embeddings(with, p, n, beside);
	CHECKF(apart(base, beside) > 0.01, "adapters change %g only", apart(base, beside));
	write_merged(&r, p, n);
	CHECKF(!rlx_bert_open(r.out, &bert, &r.err), "%s", r.err.text);
	rlx_graph_put(g);
	g = encoder(&r, bert);
	embeddings(g, NULL, 0, merged);
	CHECKF(apart(merged, beside) < 1e-5, "off by %g", apart(merged, beside));
	for (i = 0; i < n; i++)
		free((void *)(uintptr_t)p[i].data);
	rlx_graph_put(g);
	rlx_graph_put(with);
	rlx_bert_put(bert);
	rig_close(&r);
}

/* Elements of W[out, in] or [in, out], in each dtype, against the sums written out. */
TEST(merged_elements)
{
	static const enum rlx_dtype dts[] = { RLX_F64, RLX_F32 };
	double w64[35], got64[35], a[14], b[10], want;
	float w32[35], got32[35];
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlx_lora_merge m;
	unsigned int k, turn;
	int o, i;

	for (i = 0; i < 35; i++)
		w64[i] = w32[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < 14; i++)
		a[i] = rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < 10; i++)
		b[i] = i / 2 == 1 ? 0 : rlx_test_uniform(&seed, -1, 1);
	for (k = 0; k < 2; k++)
		for (turn = 0; turn < 2; turn++) {
			struct rlx_safetensor w = { "w", turn ? rlx_type(dts[k], 7, 5) :
				rlx_type(dts[k], 5, 7), k ? (void *)w32 : w64, 0 };
			struct rlx_safetensor ta = { "a", rlx_type(RLX_F64, 2, 7), a, 0 };
			struct rlx_safetensor tb = { "b", rlx_type(RLX_F64, 5, 2), b, 0 };

			m = (struct rlx_lora_merge){ sizeof(m), &w, &ta, &tb, 0.25, turn };
			CHECKF(!rlx_lora_merge(&m, k ? (void *)got32 : got64, &err), "%s",
			       err.text);
			for (o = 0; o < 5; o++)
				for (i = 0; i < 7; i++) {
					int at = turn ? i * 5 + o : o * 7 + i;
					double got = k ? (double)got32[at] : got64[at];

					want = w64[at] + 0.25 * (b[2 * o] * a[i] + b[2 * o + 1] *
								 a[7 + i]);
					CHECKF(fabs(got - want) <= (k ? 1e-7 : 1e-15), "%d %d: "
					       "%.17g, not %.17g", o, i, got, want);
					CHECK(o != 1 || got == w64[at]);
				}
			tb.type.dim[1] = 3;
			CHECK(rlx_lora_merge(&m, got64, &err) == RLX_ESHAPE);
			tb.type.dim[1] = 2;
			w.type.dtype = RLX_I32;
			CHECK(rlx_lora_merge(&m, got64, &err) == RLX_ETYPE);
			m.scale = NAN;
			CHECK(rlx_lora_merge(&m, got64, &err) == RLX_EINVAL);
			m.size = 0;
			CHECK(rlx_lora_merge(&m, got64, &err) == RLX_EINVAL);
		}
}

/* ---- training ---- */

static void build_step(struct rig *r, struct train_rig *t)
{
	struct rlx_optimizer adamw = { .size = sizeof(adamw), .kind = RLX_ADAMW };
	struct rlx_graph *with = adapted(r);
	rlx_value e, half[2];

	train_begin(t);
	rlx_lora_inline(t->g, t->v, with, NULL, &e);
	rlx_graph_put(with);
	rlx_split(t->g, e, 0, 2, half);
	rlx_train_step(t->g, t->v, rlx_loss_info_nce(t->g, half[0], half[1], 0.1),
		       rlx_input(t->g, "lr", rlx_scalar(RLX_F32)), NULL, &adamw);
}

static uint64_t file_hash(const char *dir)
{
	uint64_t h = 0xcbf29ce484222325u;
	char path[128];
	FILE *f;
	int c;

	snprintf(path, sizeof(path), "%s/model.safetensors", dir);
	f = fopen(path, "rb");
	CHECK(f);
	while ((c = getc(f)) != EOF)
		h = (h ^ (unsigned int)c) * 0x100000001b3u;
	fclose(f);
	return h;
}

TEST(weights_stay_frozen)
{
	struct train_rig t;
	double first = 0, last = 0;
	uint64_t file;
	unsigned int i;
	struct rig r;

	rig_open(&r);
	file = file_hash(r.dir);
	build_step(&r, &t);
	train_open(&t, "cpu", 1, NULL, 3);
	/* A, B and two moments of each; the count of steps: nothing of the weights */
	CHECK_EQ(rlx_program_io_count(t.p, RLX_IO_STATE), 3 * 2 * r.how.n + 1);
	CHECK_EQ(rlx_program_io_count(t.p, RLX_IO_PARAM), 0);
	fill(t.s);
	for (i = 0; i < 40; i++) {
		*(float *)train_at(&t, RLX_IO_INPUT, "lr") = 0.01f;
		train_run(&t);
		last = train_loss(&t);
		first = i ? first : last;
	}
	CHECKF(last < 0.5 * first, "the loss goes from %g to %g", first, last);
	for (i = 0; i < r.b.n; i++) {
		const struct rlx_safetensor *w = rlx_safetensors_find(rlx_bert_weights(r.bert),
								      r.b.name[i]);

		CHECKF(w && !memcmp(w->data, r.b.t[i].data, (size_t)rlx_type_bytes(&w->type)),
		       "%s is not what it was", r.b.name[i]);
	}
	CHECK_EQ(file_hash(r.dir), file);
	train_end(&t);
	rig_close(&r);
}

/* ---- files ---- */

static bool holds(const char *path, const char *what)
{
	char text[4096] = "";
	FILE *f = fopen(path, "rb");
	size_t n;

	CHECKF(f, "%s", path);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	return strstr(text, what);
}

TEST(written_as_peft_reads)
{
	struct rlx_safetensor p[2 * MOST];
	struct rlx_lora_file f = { .size = sizeof(f), .tensor = p, .rank = RANK, .alpha = alpha,
				   .base = "tiny \"bert\"" };
	const struct rlx_safetensor *t;
	struct rlx_safetensors *back;
	struct rlx_graph *with;
	char path[128];
	struct rig r;
	unsigned int i;

	rig_open(&r);
	with = adapted(&r);
	f.n = draw(&r, with, p, false);
	for (i = 0; i < 2; i++)		/* the second replaces the first */
		CHECKF(!rlx_lora_write(r.out, &f, &r.err), "%s", r.err.text);
	snprintf(path, sizeof(path), "%s/adapter_model.safetensors", r.out);
	CHECKF(!rlx_safetensors_open(path, &back, &r.err), "%s", r.err.text);
	CHECK_EQ(rlx_safetensors_count(back), f.n);
	t = rlx_safetensors_find(back, "base_model.model.encoder.layer.1.attention.self.value."
				 "lora_B.weight");
	CHECK(t && t->type.dim[0] == TB_H && t->type.dim[1] == RANK);
	for (i = 0; i < f.n && strcmp(p[i].name, t->name + strlen("base_model.model.")); i++)
		;
	CHECK(i < f.n && !memcmp(t->data, p[i].data, (size_t)rlx_type_bytes(&t->type)));
	rlx_safetensors_close(back);
	snprintf(path, sizeof(path), "%s/adapter_config.json", r.out);
	CHECK(holds(path, "\"peft_type\": \"LORA\"") && holds(path, "\"r\": 3") &&
	      holds(path, "\"lora_alpha\": 5") && holds(path, "tiny \\\"bert\\\"") &&
	      holds(path, "\"encoder.layer.0.intermediate.dense\""));
	for (i = 0; i < f.n; i++)
		free((void *)(uintptr_t)p[i].data);
	rlx_graph_put(with);
	rig_close(&r);
}

static void refuse_file(const struct rlx_lora_file *f, const char *dir, enum rlx_status want,
			const char *text)
{
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_lora_write(dir, f, &err);

	CHECKF(st == want && strstr(err.text, text), "%d, %s; not %d, %s", (int)st, err.text,
	       (int)want, text);
}

TEST(files_refused)
{
	float v[8] = { 0 };
	struct rlx_safetensor p[3] = {
		{ "m.lora_A.weight", rlx_type(RLX_F32, 2, 4), v, 0 },
		{ "m.lora_B.weight", rlx_type(RLX_F32, 4, 2), v, 0 },
		{ "n.lora_B.weight", rlx_type(RLX_F32, 4, 2), v, 0 },
	};
	struct rlx_lora_file f = { .size = sizeof(f), .tensor = p, .n = 3, .rank = 2, .alpha = 1 };
	char dir[] = "/tmp/rlx-lora-XXXXXX", in[64];

	CHECK(mkdtemp(dir));
	refuse_file(&f, dir, RLX_EINVAL, "'n.lora_B.weight' is no half of an adapter whose other");
	p[2].name = "m.lora_A.weight";
	refuse_file(&f, dir, RLX_EINVAL, "other half");
	f.n = 2;
	f.rank = 4;
	refuse_file(&f, dir, RLX_ESHAPE, "'m.lora_A.weight' is not of rank 4");
	f.rank = 2;
	p[0].name = "lora_A.weight";
	refuse_file(&f, dir, RLX_EINVAL, "'lora_A.weight' is no half");
	p[0].name = NULL;
	refuse_file(&f, dir, RLX_EINVAL, "no half");
	p[0].name = "m.lora_A.weight";
	f.alpha = NAN;
	refuse_file(&f, dir, RLX_EINVAL, "alpha is not finite");
	f.alpha = 1;
	f.size = 0;
	refuse_file(&f, dir, RLX_EINVAL, "size");
	f.size = sizeof(f);
	snprintf(in, sizeof(in), "%s/a/b", dir);
	refuse_file(&f, in, RLX_ENOENT, "cannot be made");
	rmdir(dir);
}

/* ---- graphs ---- */

static void refuse(struct rlx_graph *g, const struct rlx_lora *how, enum rlx_status want,
		   const char *text)
{
	struct rlx_graph *out = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_graph_lora(g, how, &out, &err);

	CHECKF(st == want && !out && strstr(err.text, text), "%d, %s; not %d, %s", (int)st,
	       err.text, (int)want, text);
}

TEST(graphs_refused)
{
	struct rlx_graph *g = rlx_graph_new("g"), *with = NULL;
	struct rlx_lora_weight w[2] = { { "w", NULL }, { "v", NULL } };
	struct rlx_lora how = { .size = sizeof(how), .weight = w, .n = 1, .rank = 2, .alpha = 1 };
	struct rlx_type t = rlx_type(RLX_F32, 4, 4);
	rlx_value x = rlx_input(g, "x", t), m = rlx_param(g, "w", t), a = rlx_param(g, "left", t);
	rlx_value both = rlx_param(g, "both", t), out = rlx_param(g, "out", t);
	rlx_value i8 = rlx_param(g, "i8", rlx_type(RLX_I8, 4, 4));
	struct rlx_error err = { 0 };
	rlx_value y = rlx_emit(g, matmul, .a = x, .b = m);

	refuse(g, &how, RLX_EINVAL, "finished graph");
	rlx_output(g, "cubes", rlx_emit(g, relu, .x = rlx_param(g, "cube",
						rlx_type(RLX_F32, 2, 2, 2))));
	rlx_param(g, "unused", t);
	rlx_param(g, "n.lora_A.weight", t);
	y = rlx_emit(g, matmul, .a = a, .b = y);
	y = rlx_emit(g, fused_matmul, .a = y, .b = both, .trans_b = true);
	y = rlx_emit(g, matmul, .a = y, .b = both);
	y = rlx_emit(g, add, .a = y, .b = rlx_emit(g, cast, .to = RLX_F32,
		.x = rlx_emit(g, matmul, .a = i8, .b = i8)));
	rlx_output(g, "y", rlx_emit(g, matmul, .a = y, .b = rlx_emit(g, mul, .a = out, .b = y)));
	rlx_output(g, "w2", rlx_emit(g, transpose, .x = rlx_param(g, "n", t)));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	w[0].name = "left";
	refuse(g, &how, RLX_ENOSUP, "weight 'left' is input 0 of op 'matmul'");
	w[0].name = "out";
	refuse(g, &how, RLX_ENOSUP, "weight 'out' is input 0 of op 'mul'");
	w[0].name = "both";
	refuse(g, &how, RLX_ESHAPE, "rows of weight 'both', another over its columns");
	w[0].name = "i8";
	refuse(g, &how, RLX_ETYPE, "'i8' is i8[4,4], no floats");
	w[0].name = "n";
	refuse(g, &how, RLX_ENOSUP, "weight 'n' is output 'w2' as well");
	w[0].name = "unused";
	refuse(g, &how, RLX_ENOENT, "no product with weight 'unused'");
	w[0] = (struct rlx_lora_weight){ "w", &how };
	refuse(g, &how, RLX_ENOENT, "its data must be where the graph has it");
	w[0] = w[1] = (struct rlx_lora_weight){ "w", NULL };
	how.n = 2;
	refuse(g, &how, RLX_EEXIST, "'w' comes twice");
	w[1].name = "";
	refuse(g, &how, RLX_EINVAL, "weight 1 has no name");
	how.n = 0;
	refuse(g, &how, RLX_EINVAL, "no weight");
	how.n = 1;
	how.rank = 0;
	refuse(g, &how, RLX_EINVAL, "rank is 0");
	how.rank = 2;
	how.alpha = 0;
	refuse(g, &how, RLX_EINVAL, "alpha 0");
	how.alpha = 1e-60;
	refuse(g, &how, RLX_EINVAL, "another alpha");
	how.alpha = INFINITY;
	refuse(g, &how, RLX_EINVAL, "alpha inf");
	how.alpha = 1;
	w[0].name = "cube";
	refuse(g, &how, RLX_ESHAPE, "'cube' is f32[2,2,2], no matrix");
	w[0].name = "w";
	CHECKF(!rlx_graph_lora(g, &how, &with, &err), "%s", err.text);
	refuse(with, &how, RLX_EEXIST, "w.lora_A.weight");
	rlx_graph_put(with);
	rlx_graph_put(g);
}

/* ---- memory ---- */

static enum rlx_status all_of_it(void *ctx)
{
	struct rlx_safetensor p[2 * MOST];
	struct rlx_lora_file f = { .size = sizeof(f), .tensor = p, .rank = RANK, .alpha = 1 };
	static float v[TB_INNER * TB_H];
	struct rlx_graph *with = NULL, *into;
	struct rlx_vars *vars;
	struct rlx_error err = { 0 };
	struct rig *r = ctx;
	enum rlx_status st;
	unsigned int i;
	rlx_value y;

	r->how.n = 2;
	st = rlx_graph_lora(r->g, &r->how, &with, &err);
	if (st)
		return st;
	into = rlx_graph_new("into");
	vars = rlx_vars_new();
	st = into ? rlx_lora_inline(into, vars, with, NULL, &y) : RLX_ENOMEM;
	f.n = rlx_graph_io_count(with, RLX_IO_PARAM);
	for (i = 0; i < f.n; i++)
		p[i] = (struct rlx_safetensor){ rlx_graph_io_name(with, RLX_IO_PARAM, i),
			*rlx_type_of(with, rlx_graph_io_value(with, RLX_IO_PARAM, i)), v, 0 };
	st = st ? st : rlx_lora_write(r->out, &f, &err);
	rlx_graph_put(with);
	rlx_graph_put(into);
	rlx_vars_free(vars);
	return st;
}

TEST(out_of_memory)
{
	struct rig r;

	rig_open(&r);
	r.g = encoder(&r, r.bert);
	CHECK(!all_of_it(&r));
	CHECK(rlx_oom_sweep(all_of_it, &r) > 50);
	rlx_graph_put(r.g);
	rig_close(&r);
}

TEST_MAIN()
