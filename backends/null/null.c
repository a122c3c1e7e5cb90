// SPDX-License-Identifier: MIT
/*
 * The null backend: accepts everything and computes nothing. The skeleton to
 * copy for a new backend, and what tests of plumbing run on.
 */
#include "rlx/backend.h"
#include "plan/place.h"

/* How many devices there are; here always one. */
static unsigned int null_probe(struct rlx_dev_info *info, unsigned int first, unsigned int max)
{
	if (!first && max)
		*info = (struct rlx_dev_info){
			.backend = "null", .name = "computes nothing", .threads = 1,
			.by_name = true,
		};
	return 1;
}

/* Open what the device needs for all programs: contexts, thread pools. */
static enum rlx_status null_open(struct rlx_device *dev, struct rlx_error *err)
{
	(void)err;
	dev->threads = 1;
	return RLX_OK;
}

static void null_close(struct rlx_device *dev)
{
	(void)dev;
}

/* Choose kernels, pack weights, place what they use, add own scratch to the workspace. */
static enum rlx_status null_compile(struct rlx_code *code, uint32_t flags,
				    struct rlx_error *err)
{
	enum rlx_status st = rlx_plan_place_steps(code->plan, err);

	(void)flags;
	code->work_bytes = code->plan->work_bytes;
	code->native = code->plan->n_step;
	return st;
}

static void null_release(struct rlx_code *code)
{
	(void)code;
}

/* Make what one session needs: argument blocks, command buffers. */
static enum rlx_status null_init(struct rlx_exec *exec)
{
	(void)exec;
	return RLX_OK;
}

static void null_fini(struct rlx_exec *exec)
{
	(void)exec;
}

/* Put an address that changed where the kernels will read it. */
static void null_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i)
{
	(void)exec;
	(void)io;
	(void)i;
}

/* Done when this returns, as there is no .wait. */
static enum rlx_status null_submit(struct rlx_exec *exec, bool away, uint64_t *out_point)
{
	(void)exec;
	(void)away;
	(void)out_point;
	return RLX_OK;
}

const struct rlx_backend rlx_backend_null = {
	.abi = RLX_BACKEND_ABI,
	.name = "null",
	.device_size = sizeof(struct rlx_device),
	.code_size = sizeof(struct rlx_code),
	.exec_size = sizeof(struct rlx_exec),
	.probe = null_probe, .open = null_open, .close = null_close,
	.compile = null_compile, .release = null_release,
	.init = null_init, .fini = null_fini, .bind = null_bind, .submit = null_submit,
};
