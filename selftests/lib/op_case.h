/* SPDX-License-Identifier: MIT */
/* A sample of an op as a graph with random inputs, run on any backend. */
#ifndef SELFTESTS_OP_CASE_H
#define SELFTESTS_OP_CASE_H

#include "ir/opdef.h"
#include "rlx/run.h"

struct op_case {
	const struct rlx_op_def	*def;
	struct rlx_sample	 s;
	void			*args;
	void			*data[RLX_SAMPLE_IN];	/* of the types in s.in */
	bool			 fixed;			/* all inputs but the first are constants */
};

/*
 * Sample @i of @def, inputs drawn with @seed. f32 inputs become @real (0: stay).
 * False: there is no such sample. Free with op_case_fini().
 */
bool op_case_init(struct op_case *c, const struct rlx_op_def *def, unsigned int i,
		  enum rlx_dtype real, uint64_t *seed);
/* The same case with every input of dtype @from converted to @to. */
void op_case_convert(struct op_case *to_case, const struct op_case *c,
		     enum rlx_dtype from, enum rlx_dtype to);
void op_case_fini(struct op_case *c);

/* The case as a finished graph: inputs "0", "1" ..., outputs "0", "1" ... */
struct rlx_graph *op_case_graph(const struct op_case *c);

/* No warnings of steps that the host runs, where every op is tried. */
void op_case_host_is_fine(void);

struct op_result {
	unsigned int	n_out;
	struct rlx_type	type[RLX_MAX_OUT];
	void		*data[RLX_MAX_OUT];
};

/* Compile and run on @device, outputs poisoned before. Status and message in @err. */
enum rlx_status op_case_run(const struct op_case *c, const char *device,
			    struct op_result *out, struct rlx_error *err);
void op_result_fini(struct op_result *r);

/*
 * The bound @tol as output @k can keep it: integers differ by whole steps, of which a sample's
 * tolerance may be a part ("one step" of 255 where the largest is 170).
 */
double op_result_bound(const struct op_result *truth, unsigned int k, double tol);

/*
 * Largest difference over the largest |truth| of output @k; infinities and NaNs
 * must agree in place and kind (else INFINITY is returned).
 */
double op_result_error(const struct op_result *got, const struct op_result *truth,
		       unsigned int k);

/* The backend that tests of GPUs are about: $RLX_TEST_GPU, or "cuda". */
const char *op_case_gpu(void);

/* Report and go on: one run shows every op that is wrong. */
extern unsigned int op_case_failures;
#define WANT(c, ...)							\
	do {								\
		if (!(c)) {						\
			printf("# " __VA_ARGS__);			\
			printf("\n");					\
			op_case_failures++;				\
		}							\
	} while (0)

/*
 * All samples of all ops on @device, floats of dtype @real; @fixed: inputs but the
 * first are constants. Goes on after a failure, to show every op that is wrong.
 */
void op_case_all(const char *device, enum rlx_dtype real, bool fixed);
/* Of the ops that @wants wants. */
void op_case_some(const char *device, enum rlx_dtype real, bool fixed,
		  bool (*wants)(const struct rlx_op_def *def));

#endif
