// SPDX-License-Identifier: MIT
/* Slices of a request: checked against what is attached, mapped, leased. */
#include "serve/check.h"
#include "serve/service.h"

struct rlx_att *rlx_client_att(struct rlx_client *cl, uint32_t handle)
{
	uint32_t i = handle & ((1u << RLX_HANDLE_BITS) - 1);
	uint32_t max = cl->svc->opts.arenas_max;
	struct rlx_att *att;

	if (!handle)
		return NULL;
	if (cl->ops->wire == RLX_WIRE_KMOD) {	/* the kernel's handles */
		for (i = 1; i < max && cl->att[i - 1].handle != handle; i++)
			;
	}
	if (!i || i > max)
		return NULL;
	att = &cl->att[i - 1];
	return att->handle == handle && !att->closing ? att : NULL;
}

/* Leases are per slice: an arena named twice is held twice. */
int32_t rlx_job_resolve(struct rlx_client *cl, struct rlx_job *job,
			const struct rlx_request_slice *slice, uint32_t nr)
{
	uint32_t i;

	job->nr_leases = 0;
	for (i = 0; i < nr; i++) {
		const struct rlx_request_slice *s = &slice[i];
		struct rlx_att *att = rlx_client_att(cl, s->arena);
		int32_t st = att ? rlx_check_slice(s, att->size, att->access) :
			     -ENOENT;

		if (st) {
			rlx_job_unlease(cl, job);
			return st;
		}
		job->slice[i] = (struct rlx_work_slice){
			att->base + s->offset, s->offset, s->length,
			att->arena, s->access, s->arena,
		};
		job->lease[job->nr_leases++] = (uint16_t)(att - cl->att);
		att->leases++;
	}
	return 0;
}

/*
 * Read each byte once: a plain memcpy() may be turned into reads of the source
 * where the copy is used, and the client may write between two of them.
 */
static void copy_once(void *to, const char *from, uint64_t bytes)
{
	uint64_t i;

	if ((uintptr_t)from % 8 == 0 && bytes % 8 == 0) {
		for (i = 0; i < bytes / 8; i++)
			((uint64_t *)to)[i] = ((const volatile uint64_t *)from)[i];
		return;
	}
	for (i = 0; i < bytes; i++)
		((char *)to)[i] = ((const volatile char *)from)[i];
}

/* The list stands in the client's arena: copied, then the copy is checked. */
int32_t rlx_job_indirect(struct rlx_client *cl, struct rlx_job *job,
			 const struct rlx_request_slice *list)
{
	struct rlx_request_slice slice[RLX_REQUEST_SLICES_MAX];
	uint32_t nr = job->pub.nr_slices;
	uint64_t bytes = nr * (uint64_t)sizeof(slice[0]);
	struct rlx_att *att = rlx_client_att(cl, list->arena);
	int32_t st = att ? rlx_check_slice(list, att->size, att->access) :
		     -ENOENT;

	if (st)
		return st;
	if (!(list->access & RLX_ACCESS_READ))
		return -EACCES;
	if (list->length < bytes)
		return -ERANGE;
	copy_once(slice, att->base + list->offset, bytes);
	return rlx_job_resolve(cl, job, slice, nr);
}

void rlx_job_unlease(struct rlx_client *cl, struct rlx_job *job)
{
	uint32_t i;

	for (i = 0; i < job->nr_leases; i++)
		cl->att[job->lease[i]].leases--;
	job->nr_leases = 0;
}
