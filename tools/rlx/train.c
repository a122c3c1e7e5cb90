// SPDX-License-Identifier: MIT
/* rlx train: a classifier or a decoder from a configuration to weights. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/inspect.h"
#include "tools/rlx/terminal.h"
#include "tools/rlx/tool.h"
#include "tools/rlx/train_job.h"
#include "train/comm.h"

/* After so many steps in turn without a finite norm there is nothing to hope for. */
enum { MOST_SKIPPED = 20 };

/* What a loop knows of where it is. */
struct loop {
	struct train_job	*j;
	struct rlx_schedule	 plan;
	uint64_t		 step, skipped, worse;
	double			 begin, best, loss, sum;
	uint64_t		 n_sum;
	bool			 tty;
	char			 bad[256];	/* where the last step's NaN comes from */
};

static bool told(struct train_job *j, const struct rlx_error *e)
{
	if (!j->err.status)
		rlx_error_set(&j->err, e->status ? e->status : RLX_EIO, NULL, 0, "%s", e->text);
	return false;
}

static double scalar(struct train_side *side, const char *output)
{
	const float *p = rlx_buf_ptr(rlx_session_bound(side->s, RLX_IO_OUTPUT, output));

	return p ? (double)*p : NAN;
}

static bool norm_is_finite(const struct train_side *side)
{
	const int32_t *ok = rlx_buf_ptr(rlx_session_bound(side->s, RLX_IO_OUTPUT, "ok"));

	return ok && *ok;
}

/* The states are those before the run, as a step without a finite norm replaces none. */
static void find_bad(struct loop *l)
{
	const struct rlx_inspected *v;
	struct rlx_inspection *all;

	if (l->j->comm || rlx_session_inspect(l->j->train.s, &all, NULL))
		return;		/* other ranks do not run along */
	v = rlx_inspection_first_bad(all, 0);
	v = v ? v : rlx_inspection_first_bad(all, RLX_INSPECT_INF);
	if (v)
		snprintf(l->bad, sizeof(l->bad), " (%s comes first in value %%%u, %s%s%.80s of "
			 "%s:%u)", v->nan ? "NaN" : "infinity", v->id, v->op, v->name ? " " : "",
			 v->name ? v->name : "", v->file ? v->file : "?", v->line);
	rlx_inspection_free(all);
}

/*
 * One run on the next batch, beside which the one after it comes to the device; where it cannot,
 * whoever asks for that batch is told. @last_try: look where a norm that is not finite comes from,
 * while the batch is there.
 */
static bool run_batch(struct train_job *j, struct rlx_loader *ld, struct train_side *side,
		      struct loop *last_try)
{
	enum rlx_status ahead;
	uint64_t run;

	if (rlx_loader_feed(ld, side->s))
		return told(j, rlx_loader_error(ld));
	if (rlx_session_submit(side->s, &run))
		return told(j, rlx_session_error(side->s));
	ahead = rlx_loader_prefetch(ld, side->s);
	(void)ahead;
	if (rlx_session_wait(side->s, run, -1))
		return told(j, rlx_session_error(side->s));
	if (last_try && !norm_is_finite(side))
		find_bad(last_try);
	return true;
}

/* One update: its runs, each on a batch of its own. */
static bool take_step(struct loop *l)
{
	struct train_job *j = l->j;
	float *lr = rlx_buf_ptr(rlx_session_buf(j->train.s, RLX_IO_INPUT, "lr"));
	uint64_t k;

	if (!lr)
		return told(j, rlx_session_error(j->train.s));
	*lr = (float)rlx_schedule_at(&l->plan, l->step);
	l->loss = 0;
	for (k = 0; k < j->c.accumulate; k++) {
		if (j->comm && j->c.accumulate > 1 &&
		    rlx_session_collective(j->train.s, k + 1 < j->c.accumulate ?
					   rlx_comm_idle(j->comm) : rlx_comm_collective(j->comm)))
			return told(j, rlx_session_error(j->train.s));
		bool last_try = k + 1 == j->c.accumulate && l->skipped + 1 == MOST_SKIPPED;

		if (!run_batch(j, j->ld, &j->train, last_try ? l : NULL))
			return false;
		l->loss += scalar(&j->train, "loss") / (double)j->c.accumulate;
	}
	l->skipped = norm_is_finite(&j->train) ? 0 : l->skipped + 1;
	l->sum += l->loss;
	l->n_sum++;
	l->step++;
	if (l->skipped < MOST_SKIPPED)
		return true;
	rlx_fail(&j->err, RLX_ERANGE, "step %llu: the gradients' norm was not finite %d times in "
		 "turn%s; take a smaller lr, a longer warm-up, or [train] scaling = dynamic",
		 (unsigned long long)l->step, MOST_SKIPPED, l->bad);
	return false;
}

/* Loss and part of right answers over batches that are not trained on. */
static bool evaluate(struct loop *l, double *loss, double *right)
{
	struct train_job *j = l->j;
	struct rlx_loader_info info;
	uint64_t n, i;

	rlx_loader_info(j->test, &info);
	n = info.epoch_batches < j->c.eval_batches ? info.epoch_batches : j->c.eval_batches;
	*loss = *right = 0;
	if (rlx_loader_seek(j->test, &j->test_begin))
		return told(j, rlx_loader_error(j->test));
	if (!train_job_copy(j, &j->eval))
		return false;
	for (i = 0; i < n; i++) {
		if (!run_batch(j, j->test, &j->eval, NULL))
			return false;
		*loss += scalar(&j->eval, "loss") / (double)n;
		if (j->c.kind == TRAIN_CLASSIFIER)
			*right += scalar(&j->eval, "right") / (double)(n * j->c.batch);
		if (j->c.kind == TRAIN_ENCODER && !train_encoder_keep(&j->encoder, rlx_buf_ptr(
		    rlx_session_bound(j->eval.s, RLX_IO_OUTPUT, "rows")), j->c.batch,
		    i * j->c.batch)) {
			rlx_fail(&j->err, RLX_ENOMEM, "out of memory");
			return false;
		}
	}
	if (j->c.kind == TRAIN_ENCODER)
		*right = train_encoder_right(&j->encoder);
	return true;
}

static void show_progress(struct loop *l, bool line)
{
	uint64_t done = l->step - l->j->first, left = l->j->c.steps - l->step;
	double took = now() - l->begin, rate = (double)done / fmax(took, 1e-9);
	uint64_t eta = (uint64_t)((double)left / fmax(rate, 1e-9));

	if (!l->tty && !line)
		return;
	if (l->tty)
		terminal_put(stdout, "\r\033[K");
	printf("step %llu/%llu  loss %.4f  %.1f steps/s  %.0f rows/s  %llu:%02llu left%s",
	       (unsigned long long)l->step, (unsigned long long)l->j->c.steps,
	       l->sum / (double)(l->n_sum ? l->n_sum : 1), rate,
	       rate * (double)(l->j->c.batch * l->j->c.accumulate * l->j->ranks),
	       (unsigned long long)(eta / 60), (unsigned long long)(eta % 60), line ? "" : " ");
	fflush(stdout);
}

/* Evaluate, sample, write the curve; *@stop: it has not become better for long. */
static bool report_alone(struct loop *l, bool *stop)
{
	struct train_job *j = l->j;
	struct train_point p = { l->step, l->sum / (double)(l->n_sum ? l->n_sum : 1), NAN, NAN };
	double right = 0;

	show_progress(l, true);
	if (j->eval.s) {
		if (!evaluate(l, &p.test, &right))
			return false;
		printf("  test %.4f", p.test);
		if (j->c.kind != TRAIN_DECODER) {
			p.accuracy = 100 * right;
			printf("  %.2f %% right", p.accuracy);
		}
		l->worse = p.test < l->best ? 0 : l->worse + 1;
		l->best = fmin(l->best, p.test);
		*stop = j->c.patience && l->worse >= j->c.patience;
	}
	putchar('\n');
	fflush(stdout);
	l->sum = 0;
	l->n_sum = 0;
	if (j->sample.s && !train_job_sample(j, l->step, j->c.sample))
		return false;
	if (!train_curve_add(&j->curve, p)) {
		rlx_fail(&j->err, RLX_ENOMEM, "out of memory");
		return false;
	}
	return train_curve_write(&j->curve, j->c.folder, &j->err);
}

/* What an encoder is before it is trained: adapters are to make it better. */
static bool report_before(struct loop *l)
{
	double loss, right;

	if (l->j->c.kind != TRAIN_ENCODER || !l->j->eval.s || l->j->first)
		return true;
	if (!evaluate(l, &loss, &right))
		return false;
	printf("before: test %.4f  %.2f %% right\n", loss, 100 * right);
	fflush(stdout);
	return true;
}

/* Rank 0 does, and tells the others whether to go on. */
static bool report(struct loop *l, bool *stop)
{
	bool ok = l->j->rank || report_alone(l, stop);

	l->n_sum = 0;
	l->sum = 0;
	return ok && train_ranks_tell(l->j, stop);
}

/* Likewise it writes what all of them have. */
static bool save(struct train_job *j, uint64_t step)
{
	return (j->rank && !train_job_all_write(j)) || train_job_save(j, step);
}

static bool finish(struct train_job *j, uint64_t step)
{
	return (step == j->first || save(j, step)) && (j->rank || train_job_export(j)) &&
	       train_ranks_wait(j);
}

static bool train(struct train_job *j)
{
	struct loop l = {
		.j = j, .step = j->first, .begin = now(), .best = INFINITY,
		.tty = isatty(STDOUT_FILENO),
		.plan = { .kind = j->c.schedule, .lr = j->c.lr, .floor = j->c.floor,
			  .warmup = j->c.warmup, .steps = j->c.steps, .decay = j->c.cooldown },
	};
	bool stop = false;

	if (j->first)
		printf("goes on at step %llu of %s/checkpoints\n", (unsigned long long)j->first,
		       j->c.folder);
	if (j->first && !train_curve_read(&j->curve, j->c.folder, j->first, &j->err))
		return false;
	if (!report_before(&l))
		return false;
	while (l.step < j->c.steps && !stop) {
		if (!take_step(&l))
			return false;
		show_progress(&l, false);
		if (j->c.eval_every && l.step % j->c.eval_every == 0 && !report(&l, &stop))
			return false;
		if (j->c.save_every && l.step % j->c.save_every == 0 && l.step < j->c.steps &&
		    !save(j, l.step))
			return false;
	}
	if (stop)
		printf("stops: %llu evaluations without a better one\n",
		       (unsigned long long)j->c.patience);
	if (l.n_sum && !report(&l, &stop))
		return false;
	return finish(j, l.step);
}

static int run(struct train_job *j)
{
	char who[32];

	if (train_job_open(j) && train(j))
		return TOOL_OK;
	rlx_comm_fail(j->comm, j->err.text);
	snprintf(who, sizeof(who), "rank %u: ", j->rank);
	if (!j->rank || !strncmp(j->err.text, who, strlen(who)))
		*who = 0;
	return tool_fail("train", TOOL_FAILED, "%s%s%s", who, j->err.text, j->err.status ==
			 RLX_ETIME ? "; [train] timeout is how long is waited" : "");
}

int cmd_train(int argc, char **argv)
{
	struct arg_list rest = { 0 };
	uint64_t ranks = UINT64_MAX;
	bool keys = false;
	const struct arg arg[] = {
		{ "ranks", ARG_UINT, &ranks, "N", "so many processes of this host, as by [train] "
		  "ranks,\neach with batches, and with a GPU of its own" },
		{ "keys", ARG_FLAG, &keys, NULL, "print all keys with their defaults" },
	};
	const struct args args = {
		"train", "CONFIG | --keys",
		"Trains a classifier of images, a decoder of bytes of text, or adapters (LoRA) of\n"
		"an encoder, by sections and keys of a file; shows progress, writes the losses as\n"
		"CSV and SVG, checkpoints, and goes on at the last one when it is called again.",
		arg, N_ELEM(arg),
		"The file has lines \"key = value\" in sections: [model] kind, [data],\n"
		"[optimizer], [schedule], [train] steps and batch, [eval], [output] folder.\n"
		"Weights are in FOLDER/checkpoints/step-N/model.safetensors, the model in\n"
		"FOLDER/model.onnx, a decoder also in FOLDER/model.gguf; of an encoder the\n"
		"adapters, as PEFT reads them, in FOLDER/adapter, and its weights with them in\n"
		"FOLDER/merged.\n\n"
		"A configuration that cannot be read or is wrong counts as wrong usage.",
		&rest, 0, 1,
	};
	struct train_job j = { .first = 0 };
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	if (ranks < UINT64_MAX && (!ranks || ranks > COMM_MOST)) {
		rc = tool_fail("train", TOOL_USAGE, "--ranks is %llu, want 1 to %d",
			       (unsigned long long)ranks, COMM_MOST);
	} else if (keys) {
		train_config_print(stdout);
	} else if (rest.n != 1) {
		rc = tool_fail("train", TOOL_USAGE, "a configuration is needed; see --keys");
	} else if (!train_config_read(&j.c, rest.v[0], &j.err)) {
		rc = tool_fail("train", TOOL_USAGE, "%s", j.err.text);
		train_config_free(&j.c);
	} else {
		j.c.ranks = ranks < UINT64_MAX ? ranks : j.c.ranks;
		rc = j.c.ranks > 1 && !train_ranks_is_one() ?
		     train_ranks_start((unsigned int)j.c.ranks, rest.v[0]) : run(&j);
		if (train_ranks_is_one() || j.c.ranks < 2)
			train_job_close(&j);
		else
			train_config_free(&j.c);
	}
out_free:
	arg_list_free(&rest);
	return rc;
}
