/* SPDX-License-Identifier: MIT */
/*
 * Lowering: from plan steps to kernel calls, for every backend whose kernels take
 * the argument structs that the headers of kernels/ define.
 *
 * A plan step becomes zero or more calls (code.h). Each has an argument struct, made at
 * compile time, whose pointers to tensors are listed as references. A run then only walks
 * the list of calls.
 *
 *	enum rlx_status rlx_lower_softmax(struct rlx_lower *lo)
 *	{
 *		struct rlx_k_softmax *a = rlx_lower_args(lo, sizeof(*a));
 *		...
 *		a->n = ...;
 *		rlx_lower_ref_in(lo, &a->x, 0, 0);
 *		rlx_lower_ref_out(lo, &a->y, 0, 0);
 *		return rlx_lower_call(lo, RLX_KERNEL_softmax, rlx_k_softmax_units(a), work,
 *				  scratch);
 *	}
 *
 * Lowering functions are rows of lower.def, here for all backends and in a
 * backend's folder for its own. RLX_ENOSUP from one (a dtype, a mode) sends the
 * step to the reference evaluator on the host. Sticky: after a failure the
 * functions named rlx_lower_*() below do nothing.
 */
#ifndef RLX_BACKENDS_LOWER_H
#define RLX_BACKENDS_LOWER_H

#include <stdio.h>
#include <string.h>

#include "backends/common/code.h"
#include "backends/common/host.h"
#include "base/alloc.h"
#include "base/bump.h"
#include "base/shape.h"
#include "kernels/kernel.h"

/* Bring @args to @rows rows and return the units of that. */
typedef uint64_t rlx_units_fn(void *args, int64_t rows, enum rlx_isa isa);

/* CONTROL: the op's own evaluation, which runs compiled bodies. */
enum rlx_call_kind { RLX_CALL_KERNEL, RLX_CALL_HOST, RLX_CALL_COPY, RLX_CALL_CONTROL };

struct rlx_conv;
struct rlx_recurrence;
struct rlx_lower;
struct rlx_k_gemm;
struct rlx_k_conv_i8;
struct rlx_k_gemm_i8;

/* The backend's half. */
struct rlx_lower_ops {
	/* Append a call of the staged arguments. */
	enum rlx_status	(*call)(struct rlx_lower *lo, enum rlx_kernel_id id,
				uint64_t units, double work, size_t scratch);
	/* Append the step as it is: by the reference evaluator, or as a copy. */
	enum rlx_status	(*host_fallback)(struct rlx_lower *lo, enum rlx_call_kind kind);
	/* Optional: calls that the step has appended so far are forgotten. */
	void		(*undo)(struct rlx_lower *lo);
	/* Optional: may the host do lo->st, which no kernel does for @why? Else lo->err has it. */
	enum rlx_status	(*refuse)(struct rlx_lower *lo, const struct rlx_error *why);
	/* Make @field point at @bytes at @p, which live as long as the code. */
	void		(*persistent)(struct rlx_lower *lo, void *field, const void *p,
				      size_t bytes);
	/* Call the family that multiplies; a, residual and c are there already. */
	enum rlx_status	(*gemm)(struct rlx_lower *lo, struct rlx_k_gemm *g);
	/* Call kernel gemm_i8, whose arguments are there but for the right-hand side. */
	enum rlx_status	(*gemm_i8)(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q);
	/*
	 * Call what brings input 0 to what kernel conv_i8 reads; @plan has the shape and
	 * how x is. The temporary of the result, 0 if the kernel for it reads the input itself;
	 * NULL: it always does.
	 */
	uint32_t	(*conv_i8_group)(struct rlx_lower *lo, const struct rlx_k_conv_i8 *plan);
	/* Call kernel conv_i8, whose arguments are there but for the weights. */
	enum rlx_status	(*conv_i8)(struct rlx_lower *lo, struct rlx_k_conv_i8 *a);
	/* Optional: the level of kernels that read tables which are laid out for its vectors. */
	enum rlx_isa	(*isa)(const struct rlx_lower *lo);
	/* Kernels that others have in f32 alone take bf16 and f16 as well. */
	bool		has_16bit;
	/*
	 * Optional: may kernels read value @v, which the step does not name, where it is? Copies of
	 * it that nobody reads are left out then.
	 */
	bool		(*may_read)(struct rlx_lower *lo, uint32_t v);
	/* Call what convolves the step's inputs; there is something to compute. */
	enum rlx_status	(*conv)(struct rlx_lower *lo, const struct rlx_conv *g);
	/* Call what projects the inputs to r->tmp, then kernel rnn. */
	enum rlx_status	(*recur)(struct rlx_lower *lo, const struct rlx_recurrence *r);
};

/* Argument structs are at most this large. */
enum { RLX_LOWER_ARGS = 16384, RLX_LOWER_REFS = 512 };
/* Most temporaries of a step, and the first inputs, which some of those may stand for. */
enum { RLX_LOWER_TMPS = 16, RLX_LOWER_REPLACED = 2 };

struct rlx_lower {
	const struct rlx_lower_ops	*ops;
	struct rlx_code			*code;
	struct rlx_calls		*calls;	/* the code's */
	struct rlx_calls_mark		 begin;	/* of the step */
	struct rlx_plan			*plan;
	const struct rlx_plan_step	*st;
	const void			*args;	/* st->args */
	struct rlx_error		*err;
	struct rlx_bump			*bump;	/* tables of rlx_lower_keep() */
	bool				 trial;	/* rlx_lower_try(): what tables hold is for nobody */
	bool				 strict; /* RLX_COMPILE_STRICT_BITS: see lower_gemm.c */
	enum rlx_status			 status;
	int64_t				 block;	/* of the blocked layout; 0: none */
	uint32_t			*lies_in; /* by value: that is a part of this one, where
						   * its step writes it; NULL: none is */
	uint32_t			 n_tmp;	/* of this step */
	uint32_t			 replaced[RLX_LOWER_REPLACED];	/* rlx_lower_replace() */
	uint32_t			 n_ref;
	struct rlx_ref			 ref[RLX_LOWER_REFS];
	_Alignas(64) unsigned char	 staged[RLX_LOWER_ARGS];
	uint64_t			 n_staged;
	rlx_units_fn			*set_rows;
	int64_t				 rows;
	struct rlx_checked		 checked;
};

typedef enum rlx_status rlx_lower_fn(struct rlx_lower *lo);
#define LOWER(op) rlx_lower_fn rlx_lower_##op;
#include "backends/common/lower.def"
#undef LOWER

/* lower_norm.c: input 0 over @axes; with @squares, which the CPU's kernel alone knows, squared */
enum rlx_status rlx_lower_reduction(struct rlx_lower *lo, struct rlx_ints axes, int32_t kind,
				    bool squares);

/* lower_empty.c: no input of the step has elements, so that all of its results are known. */
bool rlx_lower_is_empty(const struct rlx_lower *lo);
/* Evaluates such a step here, by the op's own rule, and lowers to copies of what came out. */
rlx_lower_fn rlx_lower_empty;

/*
 * lower_gemm.c: if batches of inputs 0 and 1 broadcast along more dimensions than kernels walk,
 * repeat the elements of one, or of both, first. To be called before the step's own arguments.
 */
enum rlx_status rlx_lower_batches(struct rlx_lower *lo);

/* lower_move.c: a step without an op, which copies input 0's bytes */
rlx_lower_fn rlx_lower_copy;

/*
 * Lower lo->st by @fn (NULL: there is none), or leave it to the host, which
 * @flags may forbid. Counts it in the code.
 */
enum rlx_status rlx_lower_step(struct rlx_lower *lo, rlx_lower_fn *fn, uint32_t flags);
/*
 * What is left when nothing takes lo->st, which is its second half; for backends without
 * kernels. @why: what it lacks.
 */
enum rlx_status rlx_lower_to_host(struct rlx_lower *lo, uint32_t flags,
				  const struct rlx_error *why);

/* Add @name to the code's list, unless it is there or too long for what is left. */
static inline void rlx_note_on_host(struct rlx_code *code, const char *name)
{
	size_t at = strlen(code->on_host), left = sizeof(code->on_host) - at;

	if (!strstr(code->on_host, name) && strlen(name) + 3 < left)
		snprintf(code->on_host + at, left, "%s%s", at ? ", " : "", name);
}

/* Types of the step's inputs (NULL: absent) and outputs. */
const struct rlx_type *rlx_lower_in(const struct rlx_lower *lo, uint32_t k);
const struct rlx_type *rlx_lower_out(const struct rlx_lower *lo, uint32_t k);
/* Does anybody read output @k, or a view of it? */
bool rlx_lower_out_is_read(const struct rlx_lower *lo, uint32_t k);
/* Where input @k is, or the temporary that stands for it; of value 0 if it is absent. */
const struct rlx_place *rlx_lower_place(const struct rlx_lower *lo, uint32_t k);
/* Is input @k a constant? */
bool rlx_lower_is_const(const struct rlx_lower *lo, uint32_t k);
/* Address of input @k if it is a constant, whose contents are read then; else NULL. */
const void *rlx_lower_const(const struct rlx_lower *lo, uint32_t k);
/* Is input @k, unlike the step, of params alone, so that it stays as it is from run to run? */
bool rlx_lower_of_params(const struct rlx_lower *lo, uint32_t k);

/*
 * What input @k is a slice of, along the last axis and with a step of 1, if that is still there:
 * its value, and in *@out_off the bytes ahead of the slice's first element in it. 0: none.
 */
uint32_t rlx_lower_slice_of(struct rlx_lower *lo, uint32_t k, uint64_t *out_off);
/*
 * Is slice @st one run of its input's bytes, in order, from *@out_off on? Not if it is empty.
 */
bool rlx_lower_slice_run(const struct rlx_plan *p, const struct rlx_plan_step *st,
			 uint64_t *out_off);
/* As rlx_lower_ref_in(), but of what input @k is a slice of, if it is one run of bytes. */
void rlx_lower_ref_rows(struct rlx_lower *lo, void *field, uint32_t k);
/*
 * What output @k is joined to by the only step that reads it, a concat along the last axis, and
 * the bytes ahead of its first element there. 0: none.
 */
uint32_t rlx_lower_part_of(const struct rlx_lower *lo, uint32_t k, uint64_t *out_off);

/* A zeroed argument struct for the next call; valid until rlx_lower_call(). */
void *rlx_lower_args(struct rlx_lower *lo, size_t size);
/* @field is a pointer member of that struct: input @k, output @k plus @off bytes. */
void rlx_lower_ref_in(struct rlx_lower *lo, void *field, uint32_t k, uint64_t off);
void rlx_lower_ref_out(struct rlx_lower *lo, void *field, uint32_t k, uint64_t off);
/* The word that a kernel sets when it meets bad data (an index out of range). */
void rlx_lower_ref_status(struct rlx_lower *lo, void *field);
/* A value that calls of this step alone use, from the first to the last that does. */
uint32_t rlx_lower_tmp(struct rlx_lower *lo, uint64_t bytes);
void rlx_lower_ref_tmp(struct rlx_lower *lo, void *field, uint32_t tmp, uint64_t off);
/* From here on temporary @tmp, of type @t and as many bytes, is the step's input @k, 0 or 1. */
void rlx_lower_replace(struct rlx_lower *lo, uint32_t k, uint32_t tmp, const struct rlx_type *t);
/* Zeroed memory that lives as long as the code (index tables); NULL: none left. */
void *rlx_lower_keep(struct rlx_lower *lo, size_t n, size_t size);
/* Such memory, filled by now. */
void rlx_lower_ref_keep(struct rlx_lower *lo, void *field, const void *p, size_t bytes);
/* What refers to @field, another pointer member, is of @to now. */
void rlx_lower_ref_move(struct rlx_lower *lo, void *field, void *to);
/* For backends: one more entry of lo->ref. */
void rlx_lower_ref_add(struct rlx_lower *lo, void *field, struct rlx_ref ref);
/* For backends: append a call, staged or, with @host, of the step as it is. NULL: lo->status */
void *rlx_lower_append(struct rlx_lower *lo, bool host);

/*
 * Append a call of the staged arguments. @units as the family's header says;
 * @work about how many simple operations all of it is, which decides whether
 * threads share it; @scratch bytes per thread.
 */
enum rlx_status rlx_lower_call(struct rlx_lower *lo, enum rlx_kernel_id id, uint64_t units,
			       double work, size_t scratch);
/* Hand the staged GEMM to the backend, which adds B and the bias and chooses its kernel. */
enum rlx_status rlx_lower_gemm(struct rlx_lower *lo, struct rlx_k_gemm *g);
/*
 * Say, before rlx_lower_call(), that the call's work is along the output's leading
 * axis, of @rows rows. An active extent then asks @set_rows to bring the arguments
 * to fewer rows; without one it runs the first units only, in proportion, rounded
 * up: they must be in row order and of one size. Scratch must do for any number.
 */
void rlx_lower_extent(struct rlx_lower *lo, int64_t rows, rlx_units_fn *set_rows);
/*
 * Say, before rlx_lower_call(), that the kernel looks at @n things one by one (indices,
 * tuples of them, rows) and sets the status word for a bad one. @field, an int64_t of
 * the argument struct, is how many of them carry data, the first ones: @n, or what an
 * active extent leaves of the step's inputs (rlx_extent_aligned()). Those beyond hold
 * anything: they are no fault, and scatter nothing.
 */
void rlx_lower_checked(struct rlx_lower *lo, int64_t *field, int64_t n);
/* RLX_ENOSUP: this form has no kernel. */
enum rlx_status rlx_lower_unsupported(struct rlx_lower *lo, const char *why);
enum rlx_status rlx_lower_out_of_memory(struct rlx_lower *lo);

/* The word that rlx_lower_ref_status() is about was set: RLX_ERANGE, with what it means. */
enum rlx_status rlx_lower_bad_data(const struct rlx_plan_step *st, struct rlx_error *err);

/* support.c: the step by @fn (NULL: there is none); RLX_ENOSUP, with what is lacking */
enum rlx_status rlx_lower_by(struct rlx_lower *lo, rlx_lower_fn *fn);
/*
 * Is an op with the types of @q taken by @fn? @lo and its code are good for nothing else.
 * @constants: inputs that @q says are constants are so in the plan; else all are inputs.
 * Without memory the answer is yes: only what has no kernel is done otherwise.
 */
bool rlx_lower_try(struct rlx_lower *lo, rlx_lower_fn *fn, const struct rlx_infer *q,
		   bool constants, struct rlx_error *why);

static inline bool rlx_lower_real(enum rlx_dtype dt)
{
	return dt == RLX_F32 || dt == RLX_BF16 || dt == RLX_F16;
}

/* The type by which the kernels scatter elements that are only moved. */
static inline uint8_t rlx_lower_scatter_type(enum rlx_dtype dt)
{
	return (uint8_t)(dt == RLX_C64 ? RLX_U64 : dt);
}

#endif
