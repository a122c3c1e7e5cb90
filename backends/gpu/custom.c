// SPDX-License-Identifier: MIT
/* Custom ops for which a program gave the text of a kernel: a launch that calls its function. */
#include <stdio.h>

#include "backends/gpu/gpu.h"
#include "kernels/gpu/custom.h"
#include "rlx/custom.h"

enum { MOST_THREADS = 1024, MOST_YZ = 65535, MOST_TEXT = 1024 };

_Static_assert((int)RLX_G_CUSTOM_IN == (int)RLX_CUSTOM_IN &&
	       (int)RLX_G_CUSTOM_OUT == (int)RLX_CUSTOM_OUT &&
	       (int)RLX_G_CUSTOM_PARAMS == (int)RLX_CUSTOM_PARAMS, "as the public header has it");

static const struct rlx_custom_kernel *kernel_of(const struct rlx_lower *lo,
						 const struct rlx_custom_op *op)
{
	const char *name = lo->code->dev->be->name;
	unsigned int i;

	for (i = 0; i < op->n_kernel; i++)
		if (!strcmp(op->kernel[i].backend, name))
			return &op->kernel[i];
	return NULL;
}

/* What the kernel says of a launch, or what is usual. A failure is the step's. */
static enum rlx_status ask(struct rlx_lower *lo, const struct rlx_custom_op *op,
			   const struct rlx_custom_kernel *k, struct rlx_custom_launch *l)
{
	const struct rlx_op_custom *a = lo->args;
	struct rlx_type in[RLX_CUSTOM_IN], out[RLX_CUSTOM_OUT];
	struct rlx_error why = { 0 };
	const struct rlx_custom_call c = { op->ctx, rlx_blob_data(a->attrs),
					   rlx_blob_bytes(a->attrs), &why };
	enum rlx_status st;
	uint32_t i;

	*l = (struct rlx_custom_launch){ .grid = { 1, 1, 1 }, .block = { 256, 1, 1 } };
	if (!k->launch) {
		l->param[0] = rlx_type_count(rlx_lower_out(lo, 0));
		if (l->param[0] > (int64_t)256 * INT32_MAX)
			return rlx_lower_unsupported(lo, "too many elements");
		l->grid[0] = (uint32_t)((l->param[0] + 255) / 256);
		return RLX_OK;
	}
	for (i = 0; i < lo->st->n_in; i++)
		in[i] = *rlx_lower_in(lo, i);
	for (i = 0; i < lo->st->n_out; i++)
		out[i] = *rlx_lower_out(lo, i);
	st = k->launch(&c, in, out, l);
	if (st == RLX_ENOSUP)
		return rlx_lower_unsupported(lo, why.status ? why.text :
					     "its kernel does not take these");
	if (st)
		lo->status = rlx_fail(lo->err, st, "%s: custom op '%s': launch%s%.400s",
				      lo->code->dev->be->name, op->name, why.status ? ": " :
				      " failed and gave no reason", why.status ? why.text : "");
	return lo->status;
}

static enum rlx_status check(struct rlx_lower *lo, const struct rlx_custom_op *op,
			     const struct rlx_custom_launch *l)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1];

	if (threads && threads <= MOST_THREADS)
		threads *= l->block[2];
	if (threads && threads <= MOST_THREADS && l->block[2] <= 64 && l->grid[0] <= INT32_MAX &&
	    l->grid[1] <= MOST_YZ && l->grid[2] <= MOST_YZ)
		return RLX_OK;
	lo->status = rlx_fail(lo->err, RLX_ERANGE, "%s: custom op '%s': launch asks for %u x %u x "
			      "%u blocks of %u x %u x %u threads; a block has 1 to %d",
			      lo->code->dev->be->name, op->name, l->grid[0], l->grid[1], l->grid[2],
			      l->block[0], l->block[1], l->block[2], MOST_THREADS);
	return lo->status;
}

/* The program's text, and the kernel that calls its function; kept with the step's others. */
static const char *write_text(struct rlx_lower *lo, const struct rlx_custom_kernel *k,
			      const struct rlx_custom_launch *l)
{
	static const char head[] = "#include \"kernels/gpu/dialect.h\"\n"
		"#include \"kernels/gpu/custom.h\"\n";
	size_t size = sizeof(head) + strlen(k->text) + strlen(k->entry) + MOST_TEXT;
	char *s = rlx_bump_new(&gpu_lower_of(lo)->texts, size, 1);

	if (!s) {
		rlx_lower_out_of_memory(lo);
		return NULL;
	}
	snprintf(s, size, "%s%s\nRLX_G_KERNEL(ew, struct rlx_g_custom, %u)\n{\n"
		 "const void *in[%u];\nvoid *out[%u];\n"
		 "for (int i = 0; i < %u; i++)\nin[i] = RLX_G_PTR(const void, a.in[i]);\n"
		 "for (int i = 0; i < %u; i++)\nout[i] = RLX_G_PTR(void, a.out[i]);\n"
		 "%s(in, out, (const long long *)a.param);\n}\n", head, k->text,
		 l->block[0] * l->block[1] * l->block[2], lo->st->n_in + 1, lo->st->n_out,
		 lo->st->n_in, lo->st->n_out, k->entry);
	return s;
}

static enum rlx_status call_text(struct rlx_lower *lo, const struct rlx_custom_kernel *k,
				 const struct rlx_custom_launch *how)
{
	struct rlx_g_launch l = { .can = true };
	struct rlx_g_custom *a = rlx_lower_args(lo, sizeof(*a));
	const char *text = write_text(lo, k, how);
	uint32_t i;

	if (!text)
		return lo->status;
	for (i = 0; i < lo->st->n_in; i++)
		rlx_lower_ref_in(lo, &a->in[i], i, 0);
	for (i = 0; i < lo->st->n_out; i++)
		rlx_lower_ref_out(lo, &a->out[i], i, 0);
	memcpy(a->param, how->param, sizeof(a->param));
	memcpy(l.grid, how->grid, sizeof(l.grid));
	memcpy(l.block, how->block, sizeof(l.block));
	if (gpu_apply_relocations(lo) || gpu_call(lo, &l))
		return lo->status;
	gpu_calls((struct gpu_code *)lo->code)[lo->calls->n_call - 1].text = text;
	return RLX_OK;
}

enum rlx_status gpu_lower_custom(struct rlx_lower *lo)
{
	const struct rlx_op_custom *args = lo->args;
	const struct rlx_custom_op *op = rlx_custom_info(args->op);
	const struct rlx_custom_kernel *k = kernel_of(lo, op);
	struct rlx_custom_launch l;

	if (!k)
		return rlx_lower_unsupported(lo, "it has no kernel for this device");
	if (lo->strict)
		return rlx_lower_unsupported(lo, "nothing is known of its kernel's roundings");
	if (!gpu_rtc_get(gpu_of(lo)->v, NULL))
		return rlx_lower_unsupported(lo, "there is no compiler for its kernel here");
	if (ask(lo, op, k, &l) || check(lo, op, &l))
		return lo->status;
	if (!l.grid[0] || !l.grid[1] || !l.grid[2])
		return RLX_OK;
	return call_text(lo, k, &l);
}
