/* SPDX-License-Identifier: MIT */
/*
 * One kernel on the GPU and on the CPU (whose kernels have their own tests
 * against double), with the same arguments: results must agree.
 */
#ifndef RLX_TEST_AGAINST_CPU_H
#define RLX_TEST_AGAINST_CPU_H

#include "selftests/gpu/kernel_run.h"
#include "selftests/kernels/kcheck.h"

/* A pointer member of an argument struct. */
struct gpu_field {
	size_t	at, bytes;
	int	type;		/* of the elements */
	bool	out;		/* written; also read, as far as the kernel does */
	double	tol;		/* times 1 + |x|; integers and moved bits: 0 */
	size_t	before;		/* bytes of the buffer ahead of where the member points */
	size_t	unit;		/* its address is a multiple of that, where not the type's size */
};

#define GPU_IN(s, m, t, n)	\
	{ offsetof(s, m), (size_t)(n) * rlx_k_type_size(t), t, false, 0, 0, 0 }
#define GPU_OUT(s, m, t, n, e)	\
	{ offsetof(s, m), (size_t)(n) * rlx_k_type_size(t), t, true, e, 0, 0 }

struct gpu_case {
	const char		*name;
	gpu_launch_fn		*launch;
	rlx_k_fn		*cpu;
	const void		*args;
	size_t			size, units, scratch;
	const struct gpu_field	*field;
	int			n;
};

static inline double gpu_value(const void *p, size_t i, int type)
{
	_Float16 h;

	switch (type) {
	case RLX_F64: return ((const double *)p)[i];
	case RLX_F32: return ((const float *)p)[i];
	case RLX_BF16: return kc_from_bf16(((const uint16_t *)p)[i]);
	case RLX_F16:
		memcpy(&h, (const uint16_t *)p + i, 2);
		return (double)h;
	case RLX_I64: return (double)((const int64_t *)p)[i];
	case RLX_U64: return (double)((const uint64_t *)p)[i];
	case RLX_I32: return ((const int32_t *)p)[i];
	case RLX_U32: return ((const uint32_t *)p)[i];
	case RLX_I16: return ((const int16_t *)p)[i];
	case RLX_U16: return ((const uint16_t *)p)[i];
	case RLX_I8: return ((const int8_t *)p)[i];
	default: return ((const uint8_t *)p)[i];
	}
}

/* Numbers of a type in [lo, hi]; integers whole. */
static inline void gpu_fill(void *p, size_t n, int type, double lo, double hi,
			    uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		double x = rlx_test_uniform(seed, lo, hi);
		_Float16 h = (_Float16)x;

		switch (type) {
		case RLX_F64: ((double *)p)[i] = x; break;
		case RLX_F32: ((float *)p)[i] = (float)x; break;
		case RLX_BF16: ((uint16_t *)p)[i] = kc_to_bf16((float)x); break;
		case RLX_F16: memcpy((uint16_t *)p + i, &h, 2); break;
		case RLX_I64: ((int64_t *)p)[i] = (int64_t)floor(x); break;
		case RLX_U64:	/* some with the top bit */
			((uint64_t *)p)[i] = (uint64_t)floor(x) | rlx_test_rand(seed) << 63;
			break;
		case RLX_I32: ((int32_t *)p)[i] = (int32_t)floor(x); break;
		case RLX_U32: ((uint32_t *)p)[i] = (uint32_t)floor(x); break;
		case RLX_I16: ((int16_t *)p)[i] = (int16_t)floor(x); break;
		case RLX_U16: ((uint16_t *)p)[i] = (uint16_t)floor(x); break;
		case RLX_I8: ((int8_t *)p)[i] = (int8_t)floor(x); break;
		default: ((uint8_t *)p)[i] = (uint8_t)floor(x); break;
		}
	}
}

static inline void *gpu_alloc(size_t n, int type, double lo, double hi, uint64_t *seed)
{
	size_t bytes = n * rlx_k_type_size(type);
	void *p = malloc(bytes + 64);

	CHECK(p);
	memset(p, 0xa5, bytes + 64);
	if (lo < hi)
		gpu_fill(p, n, type, lo, hi, seed);
	return p;
}

static inline void gpu_compare(const struct gpu_case *c, const struct gpu_field *f,
			       const void *cpu, const void *dev)
{
	size_t each = rlx_k_type_size(f->type);

	for (size_t i = 0; i < f->bytes / each; i++) {
		double want = gpu_value(cpu, i, f->type), got = gpu_value(dev, i, f->type);

		if (!memcmp((const char *)cpu + i * each, (const char *)dev + i * each, each) ||
		    (want != want && got != got) ||
		    (f->tol > 0 && fabs(got - want) <= f->tol * (1 + fabs(want))))
			continue;
		rlx_test_fail(__FILE__, __LINE__, "%s: element %zu is %.9g, not %.9g",
			      c->name, i, got, want);
	}
}

/*
 * Every other buffer lies at a random element of its allocation, some are named through
 * the table; what is around a written one must stay as it was.
 */
static inline void gpu_against_cpu(const struct gpu_case *c, uint64_t *seed)
{
	unsigned char args[8192], *edge[16];
	uint64_t table[16];
	void *dev[16];
	struct rlx_g_env env = { .units = c->units };
	char *got;

	memcpy(args, c->args, c->size);
	for (int i = 0; i < c->n; i++) {
		const struct gpu_field *f = &c->field[i];
		size_t off = rlx_test_rand(seed) % 2 * (rlx_test_rand(seed) % 5) *
			     (f->unit ? f->unit : rlx_k_type_size(f->type));
		char *host;
		void *p;

		dev[i] = NULL;
		memcpy(&host, args + f->at, sizeof(host));
		if (!host)
			continue;
		host -= f->before;
		edge[i] = malloc(off + f->bytes + 256);
		memset(edge[i], 0x5a, off + f->bytes + 256);
		memcpy(edge[i] + off, host, f->bytes);
		dev[i] = dev_of(edge[i], off + f->bytes + 256);
		free(edge[i]);
		edge[i] = (unsigned char *)NULL + off;
		off += f->before;
		p = (char *)dev[i] + off;
		table[i] = (uint64_t)(uintptr_t)dev[i];
		if (rlx_test_rand(seed) % 2)
			p = (void *)(uintptr_t)(RLX_G_INDIRECT | (uint64_t)i << 48 | off);
		memcpy(args + f->at, &p, sizeof(p));
	}
	env.table = dev_of(table, sizeof(table));
	kc_run(c->cpu, c->args, c->units, c->scratch, seed);
	gpu_run_kernel(c->launch, args, &env);
	for (int i = 0; i < c->n; i++) {
		const struct gpu_field *f = &c->field[i];
		size_t off = (size_t)(edge[i] - (unsigned char *)NULL);
		char *host;

		if (!dev[i])
			continue;
		memcpy(&host, (const char *)c->args + f->at, sizeof(host));
		host -= f->before;
		got = malloc(off + f->bytes + 256);
		dev_read(got, dev[i], off + f->bytes + 256);
		for (size_t b = 0; b < off + 256; b++)
			CHECKF(got[b < off ? b : b + f->bytes] == 0x5a,
			       "%s writes beside its buffer", c->name);
		gpu_compare(c, f, host, got + off);
		free(got);
		dev_free(dev[i]);
	}
	dev_free(env.table);
}

/* The case of one family: its kernel has the same name on both sides. */
#define GPU_AGAINST_CPU(nm, a, n_units, n_scratch, fields, seed)	\
	gpu_against_cpu(&(struct gpu_case){				\
		.name = #nm, .launch = rlx_g_##nm##_launch,	\
		.cpu = rlx_kernels_get(RLX_ISA_BASE)->nm, .args = &(a),	\
		.size = sizeof(a), .units = n_units, .scratch = n_scratch, \
		.field = fields, .n = (int)(sizeof(fields) / sizeof(*fields)) }, seed)

#endif
