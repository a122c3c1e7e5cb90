/* SPDX-License-Identifier: MIT */
/*
 * Rows of a request's tensors. Where a model's rows are independent each of them waits,
 * runs and is taken back by itself, whichever way the request came: so no request is one
 * long run that others wait for.
 */
#ifndef RLXD_ROWS_H
#define RLXD_ROWS_H

#include "tools/rlxd/model.h"

/* Do rows of @m's tensors, along their first dimension, not depend on each other? */
bool rows_are_independent(const struct model *m);
/*
 * *@out: how many rows of @in are run apart from each other; 0: the request is one run.
 * Return: RLX_ESHAPE for inputs that differ in rows; RLX_ERANGE for more of them than ever
 * wait, or more elements than one run may have.
 */
enum rlx_status __rlx_must_check
rows_count(const struct model *m, const struct tensor *in, unsigned int n_in, unsigned int *out,
	   struct rlx_error *err);
/*
 * j->rows, @n of them, become those of @in; with @n 0 the one there is becomes all of it.
 * Results go to @result, one for each output of the model: where its data points to, of
 * which there are so many bytes, or, if that is NULL, to memory of the job's account,
 * which the first row allocates and the job's owner frees.
 */
void rows_fill(struct job *j, unsigned int n, struct tensor *in, unsigned int n_in,
	       struct tensor *result);
/* @row's part of input @k, and how many bytes it has. */
const void *row_input(const struct row *row, unsigned int k, size_t *out_bytes);
/* Likewise its type. */
struct rlx_type row_type(const struct row *row, unsigned int k);
/*
 * The results of @n rows of a batch have room for what comes of them: output k of each is a
 * @t[k]. Their types are unknown until a first row is there, by whichever replica ran it.
 * Takes the model's lock, once for all.
 */
enum rlx_status __rlx_must_check
rows_open(struct row *const *rows, unsigned int n, const struct rlx_type *t,
	  struct rlx_error *err);
/* Then copy output @k of @row, of type @t, from @p to its place in the result. */
void row_keep(const struct row *row, unsigned int k, const struct rlx_type *t, const void *p);

#endif
