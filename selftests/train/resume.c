// SPDX-License-Identifier: MIT
/* Training that is stopped and goes on: states of a session and where its loader stands. */
#include "base/alloc.h"
#include "rlx/ckpt.h"
#include "rlx/safetensors.h"
#include "rlx/train.h"
#include "selftests/lib/data_set.h"
#include "selftests/lib/train_rig.h"

enum { BATCH = 10, STEPS = 60, WIDTH = 8 };

static void write_records(const char *path)
{
	static const struct rlx_field f[2] = { { "x", { RLX_F32, 1, { WIDTH } } },
					       { "y", { RLX_F32, 1, { 1 } } } };
	uint64_t s = 77;
	struct rlx_record_writer *w;
	struct rlx_error err = { 0 };
	float x[WIDTH], y;
	const void *data[2] = { x, &y };
	int i, k;

	CHECKF(!rlx_record_create(path, f, 2, NULL, &w, &err), "%s", err.text);
	for (i = 0; i < 173; i++) {
		for (y = 1, k = 0; k < WIDTH; k++) {
			x[k] = (float)rlx_test_uniform(&s, -1, 1);
			y += x[k] * (float)k;
		}
		CHECK(!rlx_record_add(w, data, 1, &err));
	}
	CHECKF(!rlx_record_commit(w, &err), "%s", err.text);
}

/* A run: y = x w + b by AdamW, from a record file. */
struct run {
	struct rlx_graph	*g;
	struct rlx_vars		*v;
	struct rlx_program	*p;
	struct rlx_states	*states;
	struct rlx_session	*s;
	struct rlx_loader	*ld;
	struct rlx_ckpt		*ck;
	uint64_t		 step;
	bool			 resumed;
};

static void model(struct run *r)
{
	struct rlx_optimizer adamw = { .size = sizeof(adamw), .kind = RLX_ADAMW, .decay = 0.01 };
	struct rlx_train_opts o = { .size = sizeof(o), .clip_norm = 5, .ema = 0.9 };
	rlx_value x = rlx_loader_input(r->ld, r->g, "x"), y = rlx_loader_input(r->ld, r->g, "y");
	rlx_value w = rlx_var(r->g, r->v, "w", rlx_type(RLX_F32, WIDTH, 1), RLX_NORMAL(0.3), 0);
	rlx_value b = rlx_var(r->g, r->v, "b", rlx_type(RLX_F32, 1), RLX_ZEROS, 0);

	x = rlx_emit(r->g, add, .a = rlx_emit(r->g, matmul, .a = x, .b = w), .b = b);
	rlx_train_step(r->g, r->v, rlx_loss_mse(r->g, x, y),
		       rlx_input(r->g, "lr", rlx_scalar(RLX_F32)), &o, &adamw);
}

static void run_begin(struct run *r, const char *records, const char *dir, unsigned int workers,
		      uint32_t layout)
{
	struct rlx_loader_opts lo = {
		.size = sizeof(lo), .path = records, .batch = BATCH, .shuffle = true, .seed = 4,
		.workers = workers, .layout = layout,
	};
	struct rlx_compile_opts co = { .size = sizeof(co), .device = "cpu" };
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true };
	struct rlx_error err = { 0 };
	enum rlx_status st;

	*r = (struct run){ .g = rlx_graph_new("resume"), .v = rlx_vars_new() };
	CHECKF(!rlx_loader_open(&lo, &r->ld, &err), "%s", err.text);
	model(r);
	CHECKF(!rlx_graph_finish(r->g), "%s", rlx_graph_error(r->g)->text);
	CHECKF(!rlx_compile(r->g, &co, &r->p, &err), "%s", err.text);
	CHECKF(!rlx_states_new(r->p, NULL, &r->states, &err), "%s", err.text);
	CHECKF(!rlx_ckpt_open(dir, NULL, &r->ck, &err), "%s", err.text);
	st = rlx_ckpt_load(r->ck, r->states, r->ld, &r->step);
	r->resumed = !st;
	if (st == RLX_ENOENT)
		st = rlx_states_init(r->states, r->v, 1, &err);
	CHECKF(!st, "%s %s", rlx_ckpt_error(r->ck)->text, err.text);
	so.states = r->states;
	CHECKF(!rlx_session_new(r->p, &so, &r->s, &err), "%s", err.text);
}

static void run_end(struct run *r)
{
	rlx_session_free(r->s);
	rlx_ckpt_close(r->ck);
	rlx_loader_close(r->ld);
	rlx_states_put(r->states);
	rlx_program_put(r->p);
	rlx_graph_put(r->g);
	rlx_vars_free(r->v);
}

static float step(struct run *r)
{
	*(float *)rlx_buf_ptr(rlx_session_buf(r->s, RLX_IO_INPUT, "lr")) = 0.1f;
	CHECKF(!rlx_loader_feed(r->ld, r->s), "%s", rlx_loader_error(r->ld)->text);
	CHECKF(!rlx_session_run(r->s), "%s", rlx_session_error(r->s)->text);
	r->step++;
	return *(float *)rlx_buf_ptr(rlx_session_buf(r->s, RLX_IO_OUTPUT, "loss"));
}

TEST(losses_go_on_bit_for_bit)
{
	float want[STEPS], got;
	uint64_t s = rlx_test_seed();
	char dir[100], records[100];
	unsigned int round, i;
	struct run r;

	snprintf(records, sizeof(records), "%s", data_path("r.rlxr"));
	write_records(records);
	run_begin(&r, records, data_path("whole"), 1, RLX_LAYOUT_RESIDENT);
	CHECK(!r.resumed);
	for (i = 0; i < STEPS; i++)
		want[i] = step(&r);
	CHECKF(want[STEPS - 1] < want[0] / 2, "%g to %g", (double)want[0], (double)want[STEPS - 1]);
	run_end(&r);
	for (round = 0; round < 8; round++) {
		unsigned int stop = 1 + rlx_test_rand(&s) % (STEPS - 2), again;

		snprintf(dir, sizeof(dir), "%s/stopped-%u", data_dir, round);
		run_begin(&r, records, dir, 2, RLX_LAYOUT_RESIDENT);
		for (i = 0; i < stop; i++)
			CHECK_EQ(step(&r) == want[i], 1);
		CHECKF(!rlx_ckpt_save(r.ck, r.s, r.ld, r.step), "%s", rlx_ckpt_error(r.ck)->text);
		for (again = rlx_test_rand(&s) % 5; again; again--)
			step(&r);	/* lost with the process */
		run_end(&r);
		run_begin(&r, records, dir, 1 + round % 3, round % 2 ? RLX_LAYOUT_ROWS : 0);
		CHECK(r.resumed);
		CHECK_EQ(r.step, stop);
		for (; r.step < STEPS;) {
			i = (unsigned int)r.step;
			got = step(&r);
			CHECKF(got == want[i], "stopped at %u: step %u: %a, not %a", stop, i,
			       (double)got, (double)want[i]);
		}
		run_end(&r);
	}
}

TEST(weights_and_what_training_wants_are_two_files)
{
	struct rlx_safetensors *f;
	struct rlx_error err = { 0 };
	char path[200];
	struct run r;
	float w[WIDTH];

	write_records(data_path("r.rlxr"));
	run_begin(&r, data_path("r.rlxr"), data_path("c"), 1, 0);
	step(&r);
	CHECK(!rlx_ckpt_save(r.ck, r.s, r.ld, 1) && !rlx_ckpt_wait(r.ck, -1));
	memcpy(w, rlx_buf_ptr(rlx_session_bound(r.s, RLX_IO_STATE, "w")), sizeof(w));
	snprintf(path, sizeof(path), "%s/latest/model.safetensors", data_path("c"));
	CHECKF(!rlx_safetensors_open(path, &f, &err), "%s", err.text);
	CHECK_EQ(rlx_safetensors_count(f), 2);
	CHECK(!memcmp(rlx_safetensors_find(f, "w")->data, w, sizeof(w)));
	rlx_safetensors_close(f);
	snprintf(path, sizeof(path), "%s/latest/optim.safetensors", data_path("c"));
	CHECKF(!rlx_safetensors_open(path, &f, &err), "%s", err.text);
	CHECK_EQ(rlx_safetensors_count(f) + 2, rlx_states_count(r.states));
	CHECK(rlx_safetensors_find(f, "ema.w"));
	rlx_safetensors_close(f);
	run_end(&r);
}

/* Sums of gradients over runs are what training wants. */
TEST(sums_over_runs_are_no_weights)
{
	struct rlx_optimizer sgd = { .size = sizeof(sgd), .kind = RLX_SGD };
	struct rlx_train_opts o = { .size = sizeof(o), .accumulate = 2 };
	struct rlx_safetensors *f;
	struct rlx_ckpt *ck;
	char path[200];
	struct train_rig r;
	rlx_value w;

	train_begin(&r);
	w = rlx_var(r.g, r.v, "w", rlx_scalar(RLX_F32), RLX_ONES, 0);
	rlx_train_step(r.g, r.v, rlx_emit(r.g, mul, .a = w, .b = w),
		       rlx_scalar_const(r.g, RLX_F32, 0.1), &o, &sgd);
	train_open(&r, "cpu", 1, NULL, 1);
	train_run(&r);
	CHECKF(!rlx_ckpt_open(data_path("sums"), NULL, &ck, &r.err), "%s", r.err.text);
	CHECK(!rlx_ckpt_save(ck, r.s, NULL, 1) && !rlx_ckpt_wait(ck, -1));
	snprintf(path, sizeof(path), "%s/latest/model.safetensors", data_path("sums"));
	CHECKF(!rlx_safetensors_open(path, &f, &r.err), "%s", r.err.text);
	CHECKF(rlx_safetensors_count(f) == 1 && rlx_safetensors_find(f, "w"),
	       "%u tensors are weights", rlx_safetensors_count(f));
	rlx_safetensors_close(f);
	rlx_ckpt_close(ck);
	train_end(&r);
}

TEST(a_step_with_its_data_allocates_nothing)
{
	uint64_t before;
	struct run r;
	int i;

	write_records(data_path("r.rlxr"));
	run_begin(&r, data_path("r.rlxr"), data_path("c"), 2, 0);
	for (i = 0; i < 20; i++)
		step(&r);
	before = rlx_alloc_count();
	for (i = 0; i < 300; i++)
		step(&r);
	CHECK_EQ(rlx_alloc_count() - before, 0);
	run_end(&r);
}

TEST(another_data_set_is_not_gone_on_with)
{
	struct rlx_loader_opts lo = { .size = sizeof(lo),
				      .path = data_path("r.rlxr"),
				      .batch = BATCH };
	struct rlx_error err = { 0 };
	struct rlx_loader *ld;
	uint64_t at;
	struct run r;

	write_records(data_path("r.rlxr"));
	run_begin(&r, data_path("r.rlxr"), data_path("c"), 1, 0);
	step(&r);
	CHECK(!rlx_ckpt_save(r.ck, r.s, r.ld, 1) && !rlx_ckpt_wait(r.ck, -1));
	write_records(data_path("r.rlxr"));
	CHECKF(!rlx_loader_open(&lo, &ld, &err), "%s", err.text);
	CHECK_EQ(rlx_ckpt_load(r.ck, r.states, ld, &at), RLX_ESTALE);
	CHECK(strstr(rlx_ckpt_error(r.ck)->text, "the data set changed"));
	rlx_loader_close(ld);
	run_end(&r);
}

TEST_MAIN()
