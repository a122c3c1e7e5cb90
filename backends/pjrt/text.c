// SPDX-License-Identifier: MIT
/* Text that grows, and how StableHLO writes types. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/pjrt/emit.h"
#include "base/alloc.h"

static bool reserve(struct hlo_text *t, size_t more)
{
	size_t cap = t->cap ? t->cap : 4096;
	char *p;

	while (cap - t->n <= more)
		cap *= 2;
	if (cap == t->cap)
		return true;
	p = rlx_realloc(t->p, cap);
	if (!p) {
		t->failed = true;
		return false;
	}
	t->p = p;
	t->cap = cap;
	return true;
}

void hlo_put(struct hlo_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->failed)
		return;
	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)		/* over 2 GiB at once */
		t->failed = true;
	if (n < 0 || !reserve(t, (size_t)n + 1))
		return;
	va_start(ap, fmt);
	vsnprintf(t->p + t->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	t->n += (size_t)n;
}

void hlo_put_text(struct hlo_text *t, const struct hlo_text *more)
{
	t->failed = t->failed || more->failed;
	if (t->failed || !more->n || !reserve(t, more->n))
		return;
	memcpy(t->p + t->n, more->p, more->n);
	t->n += more->n;
	t->p[t->n] = 0;
}

const char *hlo_dtype_name(enum rlx_dtype dt)
{
	switch (dt) {
	case RLX_F64: return "f64";
	case RLX_F32: return "f32";
	case RLX_F16: return "f16";
	case RLX_BF16: return "bf16";
	case RLX_F8E4M3: return "f8E4M3FN";
	case RLX_F8E5M2: return "f8E5M2";
	case RLX_I64: return "i64";
	case RLX_I32: return "i32";
	case RLX_I16: return "i16";
	case RLX_I8: return "i8";
	case RLX_U64: return "ui64";
	case RLX_U32: return "ui32";
	case RLX_U16: return "ui16";
	case RLX_U8: return "ui8";
	case RLX_BOOL: return "i1";
	case RLX_C64: return "complex<f32>";
	default: return NULL;
	}
}

void hlo_put_type(struct hlo_text *t, const struct hlo_type *type)
{
	uint32_t d;

	hlo_put(t, "tensor<");
	for (d = 0; d < type->rank; d++)
		hlo_put(t, "%lldx", (long long)type->dim[d]);
	hlo_put(t, "%s>", hlo_dtype_name(type->dtype) ? : "?");
}

void hlo_put_list(struct hlo_text *t, const int64_t *v, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		hlo_put(t, "%s%lld", i ? ", " : "", (long long)v[i]);
}
