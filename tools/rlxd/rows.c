// SPDX-License-Identifier: MIT
/* Requests' tensors are divided into rows, and their results put together of rows. */
#include <string.h>

#include "base/alloc.h"
#include "tools/rlxd/budget.h"
#include "tools/rlxd/rows.h"

bool rows_are_independent(const struct model *m)
{
	return m->embeds || m->conf.batch;
}

/* What is one run, or one row, can be divided no further: who serves it says how large. */
static enum rlx_status check_elements(const struct model *m, const struct tensor *in,
				      unsigned int n_in, unsigned int rows, struct rlx_error *err)
{
	int64_t n = 0, max = m->conf.max_elements;
	unsigned int i;

	if (m->embeds || !max)
		return RLX_OK;
	for (i = 0; i < n_in; i++)
		n += rlx_type_count(&in[i].type);
	if (rows)
		n /= rows;
	return n <= max ? RLX_OK :
	       rlx_fail(err, RLX_ERANGE, "the inputs%s have %lld elements; model %s takes at most "
			"%lld (max_elements)%s", rows ? " of one row" : "", (long long)n, m->name,
			(long long)max, rows ? "" : "; send less at once");
}

enum rlx_status rows_count(const struct model *m, const struct tensor *in, unsigned int n_in,
			   unsigned int *out, struct rlx_error *err)
{
	unsigned int i;
	int64_t n;

	*out = 0;
	if (!rows_are_independent(m) || !n_in)
		return check_elements(m, in, n_in, 0, err);
	n = in[0].type.dim[0];
	for (i = 1; i < n_in; i++)
		if (in[i].type.dim[0] != n)
			return rlx_fail(err, RLX_ESHAPE, "input %s has %lld rows, input %s has "
					"%lld; the rows of model %s are independent: all inputs "
					"have as many", in[i].name, (long long)in[i].type.dim[0],
					in[0].name, (long long)n, m->name);
	if (n > m->conf.max_queue)
		return rlx_fail(err, RLX_ERANGE, "a batch of %lld rows; model %s takes at most "
				"%lld (max_queue); send fewer at once", (long long)n, m->name,
				(long long)m->conf.max_queue);
	*out = (unsigned int)n;
	return check_elements(m, in, n_in, *out, err);
}

void rows_fill(struct job *j, unsigned int n, struct tensor *in, unsigned int n_in,
	       struct tensor *result)
{
	unsigned int i;

	for (i = 0; i < n || !i; i++)
		j->rows[i] = (struct row){ .in = in, .n_in = n_in, .result = result,
					   .at = n ? (int64_t)i : ROW_WHOLE };
	j->n_rows = i;
}

struct rlx_type row_type(const struct row *row, unsigned int k)
{
	struct rlx_type t = row->in[k].type;

	if (row->at != ROW_WHOLE)
		t.dim[0] = 1;
	return t;
}

const void *row_input(const struct row *row, unsigned int k, size_t *out_bytes)
{
	const struct tensor *t = &row->in[k];

	*out_bytes = t->bytes;
	if (row->at == ROW_WHOLE)
		return t->data;
	*out_bytes /= (size_t)t->type.dim[0];
	return (const char *)t->data + (size_t)row->at * *out_bytes;
}

static const char no_memory[] = "no memory for the outputs: requests hold as much as max_memory "
	"allows, or the system has no more; try again later";

/* Charged to the request for as long as it lasts. */
static void *alloc_result(struct job *j, size_t bytes)
{
	bytes += !bytes;
	return j->account ? account_alloc(j->account, bytes, 1) : rlx_malloc(bytes);
}

/* The first row there is tells what all rows have. */
static enum rlx_status open_result(struct job *j, struct tensor *to, const char *name,
				   const struct rlx_type *all, struct rlx_error *err)
{
	int64_t bytes = rlx_type_bytes(all);
	bool fits = to->data || !j->account || account_fits(j->account, (uint64_t)bytes);

	if (bytes < 0)
		return rlx_fail(err, RLX_ESHAPE, "output %s is too large", name);
	if (to->data && to->bytes < (size_t)bytes)
		return rlx_fail(err, RLX_ERANGE, "output %s needs %lld bytes, there is room for "
				"%zu", name, (long long)bytes, to->bytes);
	if (!fits) {
		atomic_store(&j->too_large, true);
		return rlx_fail(err, RLX_ERANGE, "output %s needs %lld bytes, more than max_memory "
				"allows requests to hold", name, (long long)bytes);
	}
	if (!to->data)
		to->data = alloc_result(j, (size_t)bytes);
	if (!to->data)
		return rlx_fail(err, RLX_ENOMEM, "%s", no_memory);
	to->name = name;
	to->type = *all;
	to->bytes = (size_t)bytes;
	return RLX_OK;
}

/* With the model's lock held: other replicas have rows of the same request. */
static enum rlx_status open_row(const struct row *row, unsigned int k, const struct rlx_type *t,
				struct rlx_error *err)
{
	const struct model *m = row->job->model;
	struct tensor *to = &row->result[k];
	struct rlx_type all = *t;
	enum rlx_status st;

	if (row->at == ROW_WHOLE)
		return open_result(row->job, to, m->out[k].name, t, err);
	if (!t->rank || t->dim[0] != 1)
		return rlx_fail(err, RLX_ENOSUP, "output %s of model %s does not come in rows, one "
				"for each of the inputs; it is to be served with batch = no",
				m->out[k].name, m->name);
	all.dim[0] = row->job->n_rows;
	if (to->type.dtype == RLX_NODTYPE) {
		st = open_result(row->job, to, m->out[k].name, &all, err);
		if (st)
			return st;
	}
	return rlx_type_equal(&to->type, &all) ? RLX_OK :
	       rlx_fail(err, RLX_ENOSUP, "output %s of model %s differs in shape from row to "
			"row; it is to be served with batch = no", m->out[k].name, m->name);
}

enum rlx_status rows_open(struct row *const *rows, unsigned int n, const struct rlx_type *t,
			  struct rlx_error *err)
{
	struct model *m = rows[0]->job->model;
	enum rlx_status st = RLX_OK;
	unsigned int i, k;

	pthread_mutex_lock(&m->lock);
	for (i = 0; !st && i < n; i++)
		for (k = 0; !st && k < m->n_out; k++)
			st = open_row(rows[i], k, &t[k], err);
	pthread_mutex_unlock(&m->lock);
	return st;
}

void row_keep(const struct row *row, unsigned int k, const struct rlx_type *t, const void *p)
{
	size_t bytes = (size_t)rlx_type_bytes(t);
	char *to = (char *)(uintptr_t)row->result[k].data;

	if (bytes)
		memcpy(row->at == ROW_WHOLE ? to : to + (size_t)row->at * bytes, p, bytes);
}
