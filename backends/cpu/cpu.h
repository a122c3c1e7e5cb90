/* SPDX-License-Identifier: MIT */
/*
 * The CPU backend's own objects. Argument structs of all calls lie in one image; a
 * session copies it and fills them in with its addresses.
 */
#ifndef RLX_BACKENDS_CPU_H
#define RLX_BACKENDS_CPU_H

#include "backends/common/extent.h"
#include "base/pool.h"
#include "kernels/linalg.h"

struct cpu_device {
	struct rlx_device		 base;
	enum rlx_isa			 isa;
	struct rlx_pool			*pool;
	struct rlx_k_team		 team;	/* the pool, to kernels */
};

struct cpu_call {
	struct rlx_call	 base;
	rlx_k_fn	*fn;
	uint64_t	 units;		/* 0: nothing to do */
	uint32_t	 body;		/* CONTROL: the step's first one in code->body */
	uint8_t		 kind;		/* enum rlx_call_kind */
	bool		 parallel;
	bool		 packs;		/* for whom reads it first: struct cpu_param_pack */
	bool		 unpacked;	/* reads weights as they are, while @pack is not there */
	uint32_t	 layer;		/* 1 + that whose rows it is the first to send to experts */
	uint32_t	 pack;		/* 1 + that which it reads, or does without; 0: none */
	rlx_units_fn	*set_rows;	/* with an active extent; NULL: units in proportion */
};

struct cpu_prepared;

/* Prepared memory that a code reads, of the store or of the process. */
struct cpu_packed {
	const void	*data;
	uint64_t	 bytes;
};

/* Weights of params alone, packed when a call first reads them so, until a param changes. */
struct cpu_param_pack {
	const char	*kind;		/* with these as struct cpu_packing has them */
	int64_t		 key[4];
	const void	*of;
	size_t		 n_of;
	uint32_t	 val, tmp;	/* of the plan: what is packed, and where to */
	uint32_t	 call;		/* that packs */
	uint32_t	 param;		/* 1 + the one that it is; 0: made of any */
	bool		 optional;	/* calls that read it have one that does without */
};

struct cpu_code {
	struct rlx_code		 base;
	struct rlx_calls	 calls;		/* struct cpu_call */
	struct rlx_bump		 bump;		/* tables of rlx_lower_keep() */
	enum rlx_isa		 isa;		/* of kernels whose units an extent asks for */
	struct cpu_prepared	**prepared;	/* referenced */
	uint32_t		 n_prepared, cap_prepared;
	struct cpu_packed	*packed;	/* compiled: bodies' as well, each once */
	uint32_t		 n_packed, cap_packed;
	uint64_t		 scratch_bytes;	/* per thread */
	uint64_t		 host_bytes;	/* scratch of host steps */
	uint64_t		 scratch_at, host_at;	/* in exec->work */
	uint64_t		 body_at;	/* of whichever body runs */
	struct cpu_param_pack	*param_pack;
	uint32_t		 n_param_pack, cap_param_pack;
};

/* What an exec knows of a struct cpu_param_pack. */
struct cpu_pack_use {
	bool	packed;		/* it is there */
	bool	hasty;		/* the weights before these changed sooner than packing paid */
	uint8_t	uses;		/* of these weights, packed or not; up to so many that it pays */
};

struct cpu_exec {
	struct rlx_exec		 base;
	unsigned char		*image;
	struct rlx_tensor	*tensors;
	uint64_t		*units;		/* of each call, by the extent */
	struct rlx_extent	 extent;
	int			 status;	/* set by kernels that meet bad data */
	struct cpu_pack_use	*pack_use;	/* of the code's param_pack */
	struct cpu_exec		**body;		/* of the code's bodies */
};

struct cpu_lower {
	struct rlx_lower	 base;
	struct cpu_prepared	*filling;
	void			*filling_stored;	/* in the code's store */
	bool			 dry;		/* a trial: nothing is packed or kept */
	enum rlx_isa		 isa;		/* of the step's kernels */
};

static inline const struct cpu_call *cpu_calls(const struct cpu_code *c)
{
	return c->calls.call;
}

static inline const struct cpu_device *cpu_device_of(const struct rlx_lower *lo)
{
	return (const struct cpu_device *)lo->code->dev;
}

/* The level of the step at hand: the device's, but see cpu_compile() of strict bits. */
static inline enum rlx_isa cpu_isa(const struct rlx_lower *lo)
{
	return ((const struct cpu_lower *)lo)->isa;
}

/* Of that level; members may be NULL. */
static inline const struct rlx_kernels *cpu_kernels(const struct rlx_lower *lo)
{
	return rlx_kernels_get(cpu_isa(lo));
}

#ifdef __x86_64__
__attribute__((target("avx"))) static inline void cpu_clear_upper(void)
{
	__builtin_ia32_vzeroupper();
}
#else
static inline void cpu_clear_upper(void)
{
}
#endif

/*
 * Units of a kernel of level @isa. GCC leaves the upper halves of vector registers in use where it
 * compiles for size, and then SSE code, whoever's it is, takes up to three times as long.
 */
static inline void cpu_run_units(enum rlx_isa isa, rlx_k_fn *fn, const void *args, size_t begin,
				 size_t end, void *scratch)
{
	fn(args, begin, end, scratch);
	if (isa > RLX_ISA_BASE)
		cpu_clear_upper();
}

/*
 * Memory prepared once from constant input @k and shared by all programs of the
 * process, or of the store, that ask with the same @kind and @param (packed
 * weights). *@out_new: the caller must fill it now, before the next call of a
 * lower_* function. NULL: out of memory.
 */
void *cpu_prepare(struct rlx_lower *lo, uint32_t k, const char *kind,
		  const int64_t param[4], size_t bytes, bool *out_new);

/* What is looked for where it depends on more than fits in numbers; @kind and @key as above. */
struct cpu_wanted {
	const char	*kind;
	const int64_t	*key;
	uint64_t	 hash;		/* of all else, added to key[3] */
	/* Is what was @found of that? It may be of an equal hash: then the next is tried. */
	bool		(*is_same)(const void *ctx, const void *found);
	const void	*ctx;
};

/* As cpu_prepare(). */
void *cpu_prepare_same(struct rlx_lower *lo, uint32_t k, const struct cpu_wanted *w, size_t bytes,
		       bool *out_new);

/*
 * How a kernel is asked to pack input @input; @kind and @key are those of cpu_prepare(). With
 * @n_of it depends on the bytes @of too, which are then put behind it and compared.
 */
struct cpu_packing {
	const char		*kind;
	const int64_t		*key;
	enum rlx_kernel_id	 kernel;
	uint32_t		 input;
	void			*args;		/* of @n_args bytes, without: */
	uint32_t		 n_args, src_at, dst_at;	/* where these pointers are in it */
	uint64_t		 units, bytes;	/* of what it writes */
	const void		*of;		/* in memory of rlx_lower_keep(), if a param's */
	size_t			 n_of;
};

/*
 * @field of the staged arguments becomes the packed input. A constant is packed now; what is of
 * params alone (rlx_lower_of_params()) by a call that runs when it must (struct cpu_param_pack);
 * anything else by a call ahead of the staged one in each run.
 */
void cpu_pack(struct rlx_lower *lo, void *field, const struct cpu_packing *p);
/* The last call does what the one before it does, without the weights that this has packed. */
void cpu_pack_optional(struct rlx_lower *lo);

#define LOWER(op) rlx_lower_fn cpu_lower_##op;
#include "backends/cpu/lower.def"
#undef LOWER
/* lower_det.c: for lower_linalg.c */
rlx_lower_fn cpu_lower_small_det;
/* NULL: op @index has no native kernel. */
rlx_lower_fn *cpu_lowering(unsigned int index);

/* lower_gemm.c lower_conv.c lower_rnn.c: see rlx_lower_ops */
enum rlx_status cpu_gemm(struct rlx_lower *lo, struct rlx_k_gemm *g);
enum rlx_status cpu_gemm_i8(struct rlx_lower *lo, struct rlx_k_gemm_i8 *q);
enum rlx_status cpu_conv(struct rlx_lower *lo, const struct rlx_conv *g);
struct rlx_k_conv_nd;
/* As sums along the taps, if that is faster than by @nd; false: it is not taken. */
bool cpu_conv_taps(struct rlx_lower *lo, const struct rlx_conv *g, const struct rlx_k_conv_nd *nd);
struct rlx_k_conv_bf16;
/* As a gradient in weights, if that is faster than by @by, or NULL: f32; false: it is not taken. */
bool cpu_conv_wgrad(struct rlx_lower *lo, const struct rlx_conv *g,
		    const struct rlx_k_conv_bf16 *by);
enum rlx_status cpu_conv_f64(struct rlx_lower *lo, const struct rlx_conv *g);
uint32_t cpu_conv_i8_group(struct rlx_lower *lo, const struct rlx_k_conv_i8 *plan);
enum rlx_status cpu_conv_i8(struct rlx_lower *lo, struct rlx_k_conv_i8 *a);
enum rlx_status cpu_recur(struct rlx_lower *lo, const struct rlx_recurrence *r);

enum rlx_isa cpu_isa_detect(void);
const char *cpu_isa_name(enum rlx_isa isa);
/* Does a convolution by pairs of bf16 gain over one in f32 at @isa, on this processor? */
bool cpu_pairs_gain(enum rlx_isa isa);

/* prepared.c */
struct cpu_prepared *cpu_prepared_get(struct rlx_blob *blob, const char *kind,
				      const int64_t param[4], size_t bytes,
				      bool *out_new);
void *cpu_prepared_data(struct cpu_prepared *p);
/* Whoever got *@out_new has filled it; others who asked wait for this. */
void cpu_prepared_ready(struct cpu_prepared *p);
void cpu_prepared_put(struct cpu_prepared *p);
/* Note what @body reads as read by @c as well; false: out of memory. */
bool cpu_packed_add(struct cpu_code *c, const struct cpu_code *body);
/* All are noted: keep each once. Return: their bytes. */
uint64_t cpu_packed_count(struct cpu_code *c);

/* extent.c: the run has another extent than the last one */
void cpu_set_extent(struct cpu_exec *x);

/*
 * control.c: the first body of step @step or of one behind it; what bodies add to a code's
 * counts; their execs, cpu_fini() frees them
 */
uint32_t cpu_first_body(const struct rlx_code *code, uint32_t step);
enum rlx_status cpu_add_bodies(struct rlx_code *code, struct rlx_error *err);
/* Is input @k of control flow looked at? Constants that were brought into bodies are not. */
bool cpu_control_reads(const struct rlx_lower *lo, uint32_t k);
bool cpu_bodies_init(struct cpu_exec *x);
void cpu_bodies_fini(struct cpu_exec *x);
enum rlx_status cpu_run_control(struct cpu_exec *x, const struct cpu_call *call);

/* lower.c, exec.c */
bool cpu_supports(const struct rlx_device *dev, const struct rlx_infer *q, struct rlx_error *why);
enum rlx_status cpu_compile(struct rlx_code *code, uint32_t flags,
			    struct rlx_error *err);
void cpu_release(struct rlx_code *code);
enum rlx_status cpu_init(struct rlx_exec *exec);
void cpu_fini(struct rlx_exec *exec);
void cpu_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
enum rlx_status cpu_submit(struct rlx_exec *exec, bool away, uint64_t *out_point);

#endif
