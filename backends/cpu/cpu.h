/* SPDX-License-Identifier: MIT */
/*
 * The CPU backend's own objects, and what a lowering function uses.
 *
 * A plan step becomes zero or more kernel calls. Each has an argument struct in
 * one contiguous image, made at compile time, in which pointers to tensors are
 * holes listed as relocations; a session copies the image and fills the holes
 * with its addresses. A run then only walks the list of calls.
 *
 *	enum rlx_status cpu_lower_softmax(struct cpu_lower *lo)
 *	{
 *		struct rlx_k_softmax *a = cpu_args(lo, sizeof(*a));
 *		...
 *		a->n = ...;
 *		cpu_ref_in(lo, &a->x, 0, 0);
 *		cpu_ref_out(lo, &a->y, 0, 0);
 *		return cpu_call(lo, lo->k->softmax, rlx_k_softmax_units(a), work, scratch);
 *	}
 *
 * Lowering functions are rows of lower.def. RLX_ENOSUP from one (a dtype, a mode)
 * sends the step to the reference evaluator on the host; it must then have made
 * no call. Sticky: after a failure the cpu_* functions do nothing.
 */
#ifndef RLX_BACKENDS_CPU_H
#define RLX_BACKENDS_CPU_H

#include "backends/common/host.h"
#include "base/bump.h"
#include "base/pool.h"
#include "kernels/kernel.h"

struct cpu_device {
	struct rlx_device		 base;
	enum rlx_isa			 isa;
	const struct rlx_kernels	*k;
	struct rlx_pool			*pool;
};

/* Bring @args to @rows rows and return the units of that. */
typedef uint64_t cpu_units_fn(void *args, int64_t rows, enum rlx_isa isa);

enum cpu_call_kind { CPU_CALL_KERNEL, CPU_CALL_HOST, CPU_CALL_COPY };

struct cpu_call {
	rlx_k_fn	*fn;
	uint64_t	 args;		/* offset in the image */
	uint64_t	 units, grain;	/* units 0: nothing to do */
	uint32_t	 step;		/* of the plan */
	uint8_t		 kind;		/* enum cpu_call_kind */
	uint8_t		 parallel;
	/* Active extent: see cpu_extent(). */
	int64_t		 rows;		/* 0: always all of it */
	cpu_units_fn	*set_rows;	/* NULL: units in proportion */
};

/* A pointer in the image. */
struct cpu_reloc {
	uint64_t		at;
	struct rlx_place	place;		/* WORK: offset in exec->work */
	bool			status;		/* the exec's status word instead */
};

struct cpu_prepared;

struct cpu_code {
	struct rlx_code		 base;
	struct cpu_call		*call;
	uint32_t		 n_call, cap_call;
	unsigned char		*image;
	uint64_t		 n_image, cap_image;
	struct cpu_reloc	*reloc;
	uint32_t		 n_reloc, cap_reloc;
	struct rlx_bump		 bump;		/* tables of cpu_keep() */
	struct cpu_prepared	**prepared;	/* referenced */
	uint32_t		 n_prepared, cap_prepared;
	uint64_t		 tmp_bytes;	/* most that one step takes */
	uint64_t		 scratch_bytes;	/* per thread */
	uint64_t		 host_bytes;	/* scratch of host steps */
	uint64_t		 tmp_at, scratch_at, host_at;	/* in exec->work */
};

struct cpu_exec {
	struct rlx_exec		 base;
	unsigned char		*image;
	struct rlx_tensor	*tensors;
	uint64_t		*units;		/* of each call, by the extent */
	uint8_t			*leads;		/* per value, see extent.c */
	int			 status;	/* set by kernels that meet bad data */
};

/* Argument structs are at most this large. */
enum { CPU_ARGS_MAX = 16384, CPU_STEP_RELOCS = 64 };

struct cpu_lower {
	struct cpu_code			*code;
	const struct cpu_device		*dev;
	const struct rlx_kernels	*k;	/* of the device's level; members may be NULL */
	const struct rlx_plan		*plan;
	const struct rlx_plan_step	*st;
	const void			*args;	/* st->args */
	struct rlx_error		*err;
	enum rlx_status			 status;
	struct cpu_prepared		*filling;
	uint64_t			 tmp;	/* taken by this step so far */
	uint32_t			 n_ref;
	struct cpu_reloc		 ref[CPU_STEP_RELOCS];
	_Alignas(64) unsigned char	 staged[CPU_ARGS_MAX];
	uint64_t			 n_staged;
	cpu_units_fn			*set_rows;
	int64_t				 rows;
};

/* Types of the step's inputs (NULL: absent) and outputs. */
const struct rlx_type *cpu_in(const struct cpu_lower *lo, uint32_t k);
const struct rlx_type *cpu_out(const struct cpu_lower *lo, uint32_t k);
/* Address of input @k if it is a constant, else NULL. */
const void *cpu_const(const struct cpu_lower *lo, uint32_t k);

/* A zeroed argument struct for the next call; valid until cpu_call(). */
void *cpu_args(struct cpu_lower *lo, size_t size);
/* @field is a pointer member of that struct: input @k, output @k plus @off bytes. */
void cpu_ref_in(struct cpu_lower *lo, void *field, uint32_t k, uint64_t off);
void cpu_ref_out(struct cpu_lower *lo, void *field, uint32_t k, uint64_t off);
/* The word that a kernel sets when it meets bad data (an index out of range). */
void cpu_ref_status(struct cpu_lower *lo, void *field);
/* Memory that lives from this call of the step to its last one. */
uint64_t cpu_tmp(struct cpu_lower *lo, uint64_t bytes);
void cpu_ref_tmp(struct cpu_lower *lo, void *field, uint64_t tmp);

/*
 * Append a call of the staged arguments. @units as the family's header says;
 * @work about how many simple operations all of it is, which decides whether
 * threads share it; @scratch bytes per thread.
 */
enum rlx_status cpu_call(struct cpu_lower *lo, rlx_k_fn *fn, uint64_t units,
			 double work, size_t scratch);
/*
 * Say, before cpu_call(), that the call's work is along the output's leading axis,
 * of @rows rows. An active extent then asks @set_rows to bring the arguments to
 * fewer rows; without one it runs the first units only, in proportion, rounded
 * up: they must be in row order and of one size. Scratch must do for any number.
 */
void cpu_extent(struct cpu_lower *lo, int64_t rows, cpu_units_fn *set_rows);
/* cpu_call() that fails with RLX_ENOSUP if @fn is NULL. */
enum rlx_status cpu_no(struct cpu_lower *lo, const char *why);

/*
 * Memory prepared once from constant input @k and shared by all programs of the
 * process that ask with the same @kind and @param (packed weights). *@out_new:
 * the caller must fill it now, before the next cpu_* call. NULL: out of memory.
 */
void *cpu_prepare(struct cpu_lower *lo, uint32_t k, const char *kind,
		  const int64_t param[4], size_t bytes, bool *out_new);

/* Zeroed memory that lives as long as the code (index tables); NULL: none left. */
void *cpu_keep(struct cpu_lower *lo, size_t n, size_t size);

typedef enum rlx_status cpu_lower_fn(struct cpu_lower *lo);
#define LOWER(op) cpu_lower_fn cpu_lower_##op;
#include "backends/cpu/lower.def"
#undef LOWER
/* NULL: op @index has no native kernel. */
cpu_lower_fn *cpu_lowering(unsigned int index);

/* takes.c: is this form of the op one that its kernel takes? */
bool cpu_takes(const struct rlx_infer *q);
bool cpu_takes_step(const struct cpu_lower *lo);

enum rlx_isa cpu_isa_detect(void);
const char *cpu_isa_name(enum rlx_isa isa);

/* prepared.c */
struct cpu_prepared *cpu_prepared_get(struct rlx_blob *blob, const char *kind,
				      const int64_t param[4], size_t bytes,
				      bool *out_new);
void *cpu_prepared_data(struct cpu_prepared *p);
/* Whoever got *@out_new has filled it; others who asked wait for this. */
void cpu_prepared_ready(struct cpu_prepared *p);
void cpu_prepared_put(struct cpu_prepared *p);

/* extent.c: exec->extent changed */
void cpu_set_extent(struct rlx_exec *exec);

/* lower.c, exec.c */
enum rlx_status cpu_compile(struct rlx_code *code, uint32_t flags,
			    struct rlx_error *err);
void cpu_release(struct rlx_code *code);
enum rlx_status cpu_init(struct rlx_exec *exec);
void cpu_fini(struct rlx_exec *exec);
void cpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
enum rlx_status cpu_run(struct rlx_exec *exec);

#endif
