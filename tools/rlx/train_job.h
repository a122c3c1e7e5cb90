/* SPDX-License-Identifier: MIT */
/* A training under way: programs, sessions, data, checkpoints. */
#ifndef RLX_TOOLS_TRAIN_JOB_H
#define RLX_TOOLS_TRAIN_JOB_H

#include "rlx/ckpt.h"
#include "rlx/comm.h"
#include "tools/rlx/train.h"
#include "tools/rlx/train_encoder.h"

/* A program with its session. */
struct train_side {
	struct rlx_program	*p;
	struct rlx_session	*s;
};

struct train_job {
	struct train_config	 c;
	struct rlx_error	 err;
	struct rlx_vars		*v;
	struct rlx_loader	*ld, *test;
	struct rlx_loader_pos	 test_begin;	/* evaluations are of the same batches */
	struct rlx_states	*states;
	struct train_encoder	 encoder;
	struct train_side	 train, eval, sample;
	struct rlx_ckpt		*ckpt;
	struct train_curve	 curve;
	uint64_t		 first;		/* step that a checkpoint gave */
	/* rank 0 alone evaluates, prints and writes, but for train_job_all_write() */
	struct rlx_comm		*comm;		/* NULL: there is one rank */
	unsigned int		 rank, ranks;
};

/* Each gives false with its reason in j->err. */
bool train_job_open(struct train_job *j);
bool train_job_failed(struct train_job *j, const struct rlx_error *e);
void train_job_close(struct train_job *j);
bool train_job_save(struct train_job *j, uint64_t step);
/* Has each rank states that no other has, so that all of them save? */
bool train_job_all_write(const struct train_job *j);
/* ONNX and .gguf, or an encoder's adapters and merged weights: of the states as they are. */
bool train_job_export(struct train_job *j);
/* Bring the states that @side has from the training session's. */
bool train_job_copy(struct train_job *j, struct train_side *side);
/* Print @n bytes that the decoder goes on with; @step decides the draws. */
bool train_job_sample(struct train_job *j, uint64_t step, uint64_t n);

/* ---- train_ranks.c ---- */

/* Start @ranks processes with this configuration, and wait for them; what to exit with. */
int train_ranks_start(unsigned int ranks, const char *config);
/* Has a launcher made this process one of several ranks? */
bool train_ranks_is_one(void);
/* Become it: the rank's device and part of the threads, and no output but rank 0's. */
bool train_ranks_join(struct train_job *j);
/* With one rank these do nothing. The same on all; all are here; rank 0's word goes to all. */
bool train_ranks_agree(struct train_job *j, const char *what, uint64_t value);
bool train_ranks_wait(struct train_job *j);
bool train_ranks_tell(struct train_job *j, bool *what);

#endif
