// SPDX-License-Identifier: MIT
/* Opening what a training needs, checkpoints, and text that a decoder writes. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlx/train_job.h"

enum { PATH = 4096 };

bool train_job_failed(struct train_job *j, const struct rlx_error *e)
{
	if (!j->err.status)
		rlx_error_set(&j->err, e->status ? e->status : RLX_ENOMEM, NULL, 0, "%s",
			      e->status ? e->text : "out of memory");
	return false;
}

/* ---- data ---- */

/* "image=a,label=b" with the data's folder in front of a and b. */
static bool within_folder(struct train_job *j, const char *files, char *to, size_t room)
{
	size_t n = 0, i;
	bool name = !strchr(files, '=');

	for (i = 0; files[i] && n < room; i++) {
		if (name && j->c.data)
			n += (size_t)snprintf(to + n, room - n, "%s/", j->c.data);
		name = files[i] == '=';
		if (n < room)
			to[n++] = files[i];
	}
	if (n < room) {
		to[n] = 0;
		return true;
	}
	rlx_fail(&j->err, RLX_EINVAL, "[data]: names of files are too long");
	return false;
}

static bool open_loader(struct train_job *j, const char *files, bool train,
			struct rlx_loader **out)
{
	char path[2 * PATH];
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = path, .batch = (unsigned int)j->c.batch,
		.shuffle = train, .seed = j->c.seed,
		.rank = train ? j->rank : 0, .world = train ? j->ranks : 1,
	};

	if (j->c.kind != TRAIN_CLASSIFIER)
		o.path = files;
	else if (!within_folder(j, files, path, sizeof(path)))
		return false;
	if (j->c.kind == TRAIN_DECODER)
		o.sample = (unsigned int)j->c.context + 1;
	return !rlx_loader_open(&o, out, &j->err);
}

static bool open_data(struct train_job *j)
{
	const char *what = j->c.kind == TRAIN_ENCODER ? "pairs" : "text";
	char train[PATH], test[PATH];

	/* others find what rank 0 makes */
	if (j->rank && !train_ranks_wait(j))
		return false;
	if (!j->rank && mkdir(j->c.folder, 0777) && errno != EEXIST) {
		rlx_fail(&j->err, RLX_EACCES, "folder %s cannot be made: %s", j->c.folder,
			 strerror(errno));
		return false;
	}
	if (j->c.kind == TRAIN_CLASSIFIER)
		return open_loader(j, j->c.train, true, &j->ld) &&
		       (!j->c.test || open_loader(j, j->c.test, false, &j->test)) &&
		       (j->rank || train_ranks_wait(j));
	snprintf(train, sizeof(train), "%s/%s.rlxr", j->c.folder, what);
	snprintf(test, sizeof(test), "%s/%s-test.rlxr", j->c.folder, what);
	/* a run that goes on wants the data that it had: the loader compares */
	if (!j->rank && access(test, F_OK) && !(j->c.kind == TRAIN_ENCODER ?
	    train_pairs(&j->c, &j->err) : train_text(j->c.text, j->c.folder, &j->err)))
		return false;
	return open_loader(j, train, true, &j->ld) && open_loader(j, test, false, &j->test) &&
	       (j->rank || train_ranks_wait(j));
}

/* ---- programs ---- */

static bool compile(struct train_job *j, struct rlx_graph *g, struct rlx_states *states,
		    struct train_side *to)
{
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = j->c.device, .threads = (unsigned int)j->c.threads,
		.precision = (enum rlx_precision)j->c.precision,
	};
	struct rlx_session_opts so = { .size = sizeof(so), .states = states };
	bool ok = !rlx_graph_finish(g) || train_job_failed(j, rlx_graph_error(g));

	ok = ok && !rlx_compile(g, &o, &to->p, &j->err);
	if (ok && to == &j->train) {
		ok = !rlx_states_new(to->p, NULL, &j->states, &j->err) &&
		     !rlx_states_init(j->states, j->v, j->c.seed, &j->err);
		so.states = j->states;
	}
	ok = ok && !rlx_session_new(to->p, &so, &to->s, &j->err);
	if (ok && to == &j->train && j->comm)
		ok = !rlx_session_collective(to->s, rlx_comm_collective(j->comm)) &&
		     train_ranks_agree(j, "program's hash", rlx_graph_hash(g));
	rlx_graph_put(g);
	return ok;
}

static void model(struct train_job *j, struct rlx_graph *g, bool train, struct train_out *out)
{
	struct rlx_loader *ld = train ? j->ld : j->test;

	if (j->c.kind == TRAIN_CLASSIFIER)
		train_classifier(g, j->v, ld, &j->c, train, out);
	else if (j->c.kind == TRAIN_ENCODER)
		train_encoder_loss(g, j->v, ld, &j->c, &j->encoder, out);
	else
		train_decoder(g, j->v, rlx_loader_input(ld, g, "tokens"), &j->c, train, out);
}

static bool build_step(struct train_job *j)
{
	struct rlx_optimizer how = {
		.size = sizeof(how), .kind = j->c.optimizer, .nesterov = j->c.nesterov,
		.momentum = j->c.momentum, .beta1 = j->c.beta1, .beta2 = j->c.beta2,
		.eps = j->c.eps, .decay = j->c.decay,
	};
	struct rlx_train_opts o = {
		.size = sizeof(o), .clip_norm = j->c.clip, .ema = j->c.ema,
		.accumulate = (unsigned int)j->c.accumulate, .scaling = j->c.scaling,
		.ranks = j->ranks, .zero = j->c.zero, .memory = j->c.memory,
	};
	struct rlx_graph *g = rlx_graph_new("train");
	struct train_out out;

	model(j, g, true, &out);
	rlx_train_step(g, j->v, out.loss, rlx_input(g, "lr", rlx_scalar(RLX_F32)), &o, &how);
	return compile(j, g, NULL, &j->train);
}

static bool build_eval(struct train_job *j)
{
	struct rlx_graph *g;
	struct train_out out;

	if (!j->test || !j->c.eval_every || j->rank)
		return true;
	g = rlx_graph_new("eval");
	model(j, g, false, &out);
	rlx_output(g, "loss", out.loss);
	if (out.right.id)
		rlx_output(g, "right", out.right);
	if (j->c.kind == TRAIN_ENCODER)
		rlx_output(g, "rows", out.logits);
	return compile(j, g, NULL, &j->eval);
}

static bool build_sample(struct train_job *j)
{
	struct rlx_graph *g;
	rlx_value x;

	if (j->c.kind != TRAIN_DECODER || !j->c.sample || j->rank)
		return true;
	g = rlx_graph_new("sample");
	x = rlx_input(g, "tokens", rlx_type(RLX_I32, 1, (int64_t)j->c.context));
	rlx_output(g, "logits", train_decoder_logits(g, j->v, x, &j->c, false));
	return compile(j, g, NULL, &j->sample);
}

/* ---- checkpoints ---- */

bool train_job_all_write(const struct train_job *j)
{
	return j->comm && j->ranks > 1 && j->c.zero;
}

bool train_job_save(struct train_job *j, uint64_t step)
{
	return (!rlx_ckpt_save(j->ckpt, j->train.s, j->ld, step) &&
		!rlx_ckpt_wait(j->ckpt, -1)) || train_job_failed(j, rlx_ckpt_error(j->ckpt));
}

static const void *state_data(void *ctx, const char *name, struct rlx_type *type)
{
	struct train_job *j = ctx;
	int i = rlx_program_io_find(j->train.p, RLX_IO_STATE, name);

	if (i < 0)
		return NULL;
	*type = *rlx_program_io_type(j->train.p, RLX_IO_STATE, (unsigned int)i);
	return rlx_buf_ptr(rlx_session_bound_at(j->train.s, RLX_IO_STATE, (unsigned int)i));
}

bool train_job_export(struct train_job *j)
{
	struct train_states from = { state_data, j };

	if (j->c.kind == TRAIN_ENCODER)
		return train_encoder_write(&j->encoder, &j->c, &from, &j->err);
	return train_onnx(&j->c, j->v, j->ld, &from, &j->err) &&
	       (j->c.kind != TRAIN_DECODER || j->c.gguf == GGUF_NONE ||
		train_gguf(&j->c, &from, &j->err));
}

static bool open_checkpoints(struct train_job *j)
{
	char path[PATH];
	struct rlx_ckpt_opts o = { .size = sizeof(o) };
	unsigned int i, n = rlx_program_io_count(j->train.p, RLX_IO_STATE);
	enum rlx_status st;

	snprintf(path, sizeof(path), "%s/checkpoints", j->c.folder);
	/* rank 0 writes them, or all do; it clears up first, then all read the same one */
	if (train_job_all_write(j))
		o.comm = j->comm;
	else
		o.readonly = j->rank;
	if (j->rank && !o.comm && !train_ranks_wait(j))
		return false;
	if (rlx_ckpt_open(path, &o, &j->ckpt, &j->err))
		return false;
	if (!j->rank && !o.comm && !train_ranks_wait(j))
		return false;
	st = rlx_ckpt_load(j->ckpt, j->states, j->ld, &j->first);
	if (st == RLX_ENOENT)
		return true;
	if (st)
		return train_job_failed(j, rlx_ckpt_error(j->ckpt));
	/* a device is to take what was loaded */
	for (i = 0; i < n; i++)
		if (!rlx_buf_ptr(rlx_session_buf_at(j->train.s, RLX_IO_STATE, i)))
			return train_job_failed(j, rlx_session_error(j->train.s));
	return true;
}

/* Before the first sum: ranks that have other data or begin elsewhere would train nonsense. */
static bool agree(struct train_job *j)
{
	struct rlx_loader_pos pos;

	rlx_loader_tell(j->ld, &pos);
	return train_ranks_agree(j, "data set's fingerprint", pos.fingerprint) &&
	       train_ranks_agree(j, "step to begin at", j->first);
}

bool train_job_open(struct train_job *j)
{
	j->v = rlx_vars_new();
	j->ranks = 1;
	if (train_ranks_is_one() && !train_ranks_join(j))
		return false;
	if (!train_ranks_agree(j, "configuration's hash", train_config_hash(&j->c)) ||
	    (j->c.kind == TRAIN_ENCODER && !train_encoder_open(&j->encoder, &j->c, &j->err)) ||
	    !open_data(j))
		return false;
	if (j->test)
		rlx_loader_tell(j->test, &j->test_begin);
	return build_step(j) && build_eval(j) && build_sample(j) &&
	       open_checkpoints(j) && agree(j);
}

static void side_close(struct train_side *side)
{
	rlx_session_free(side->s);
	rlx_program_put(side->p);
}

void train_job_close(struct train_job *j)
{
	side_close(&j->sample);
	side_close(&j->eval);
	side_close(&j->train);
	rlx_comm_free(j->comm);		/* the session has it no more */
	rlx_ckpt_close(j->ckpt);
	rlx_loader_close(j->test);
	rlx_loader_close(j->ld);
	rlx_states_put(j->states);
	rlx_vars_free(j->v);
	rlx_free(j->curve.e);
	train_encoder_close(&j->encoder);
	train_config_free(&j->c);
}

bool train_job_copy(struct train_job *j, struct train_side *side)
{
	unsigned int i, n = rlx_program_io_count(side->p, RLX_IO_STATE);

	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(side->p, RLX_IO_STATE, i);
		struct rlx_buf from = rlx_session_bound(j->train.s, RLX_IO_STATE, name);
		struct rlx_buf to = rlx_session_buf_at(side->s, RLX_IO_STATE, i);

		if (!rlx_buf_ptr(from) || !rlx_buf_ptr(to))
			return train_job_failed(j, rlx_session_error(rlx_buf_ptr(from) ? side->s :
								 j->train.s));
		memcpy(rlx_buf_ptr(to), rlx_buf_ptr(from), (size_t)rlx_type_bytes(
		       rlx_program_io_type(side->p, RLX_IO_STATE, i)));
	}
	return true;
}

/* ---- text ---- */

/* A byte by its probability at temperature 0.8; @u is within 0 and 1. */
static int drawn(const float *logit, double u)
{
	double p[256], sum = 0;
	float most = -INFINITY;
	int i;

	for (i = 0; i < 256; i++)
		most = logit[i] > most ? logit[i] : most;
	for (i = 0; i < 256; i++)
		sum += p[i] = exp(((double)logit[i] - (double)most) / 0.8);
	for (i = 0, u *= sum; i < 255 && u >= p[i]; i++)
		u -= p[i];
	return i;
}

bool train_job_sample(struct train_job *j, uint64_t step, uint64_t n)
{
	int64_t context = (int64_t)j->c.context, have = 1, i;
	uint64_t state = step * 0x9e3779b97f4a7c15u + 1;
	int32_t *t;
	const float *y;
	int c;

	if (!train_job_copy(j, &j->sample))
		return false;
	t = rlx_buf_ptr(rlx_session_buf(j->sample.s, RLX_IO_INPUT, "tokens"));
	if (!t)
		return train_job_failed(j, rlx_session_error(j->sample.s));
	for (i = 0; i < context; i++)
		t[i] = '\n';
	for (; n; n--) {
		if (rlx_session_run(j->sample.s))
			return train_job_failed(j, rlx_session_error(j->sample.s));
		y = rlx_buf_ptr(rlx_session_bound(j->sample.s, RLX_IO_OUTPUT, "logits"));
		state = state * 6364136223846793005u + 1442695040888963407u;
		c = drawn(y + (have - 1) * 256, (double)(state >> 11) * 0x1p-53);
		if (have == context)
			memmove(t, t + 1, (size_t)(context - 1) * sizeof(*t));
		else
			have++;
		t[have - 1] = c;
		putchar(c == '\n' || (c >= 32 && c < 127) ? c : '?');
	}
	putchar('\n');
	return true;
}
