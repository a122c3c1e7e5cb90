// SPDX-License-Identifier: MIT
/* See spv.h. Opcodes and their layout are those of the SPIR-V specification, section 3. */
#include <string.h>

#include "backends/vulkan/spv.h"
#include "base/alloc.h"

enum {
	OP_NAME = 5, OP_MEMBER_NAME = 6, OP_LINE = 8, OP_TYPE_VOID = 19, OP_TYPE_INT = 21,
	OP_TYPE_FLOAT = 22, OP_CONSTANT = 43, OP_FUNCTION = 54, OP_FUNCTION_PARAMETER = 55,
	OP_FUNCTION_END = 56, OP_FUNCTION_CALL = 57, OP_STORE = 62, OP_COPY_MEMORY = 63,
	OP_DECORATE = 71, OP_CONTROL_BARRIER = 224, OP_MEMORY_BARRIER = 225,
	OP_LOOP_MERGE = 246, OP_SELECTION_MERGE = 247, OP_LABEL = 248, OP_BRANCH = 249,
	OP_BRANCH_CONDITIONAL = 250, OP_SWITCH = 251, OP_KILL = 252, OP_RETURN = 253,
	OP_RETURN_VALUE = 254, OP_UNREACHABLE = 255, OP_NO_LINE = 317,
};

enum { HEADER = 5 };

static uint32_t op_of(uint32_t w) { return w & 0xffff; }
static uint32_t len_of(uint32_t w) { return w >> 16; }

/* Where an instruction of a function has the id that it makes; 0: it makes none. */
static uint32_t result_at(uint32_t op)
{
	switch (op) {
	case OP_LABEL:
		return 1;
	case OP_LINE: case OP_NO_LINE: case OP_STORE: case OP_COPY_MEMORY:
	case OP_CONTROL_BARRIER: case OP_MEMORY_BARRIER: case OP_LOOP_MERGE:
	case OP_SELECTION_MERGE: case OP_BRANCH: case OP_BRANCH_CONDITIONAL: case OP_SWITCH:
	case OP_KILL: case OP_RETURN: case OP_RETURN_VALUE: case OP_UNREACHABLE:
	case OP_FUNCTION_END:
		return 0;
	default:
		return 2;
	}
}

static void note_type(struct spv_library *l, const uint32_t *w)
{
	if (op_of(*w) == OP_TYPE_VOID)
		l->type[SPV_VOID] = w[1];
	if (op_of(*w) == OP_TYPE_INT && w[2] == 32 && !w[3])
		l->type[SPV_U32] = w[1];
	if (op_of(*w) == OP_TYPE_INT && w[2] == 64)
		l->type[w[3] ? SPV_I64 : SPV_U64] = w[1];
	if (op_of(*w) == OP_TYPE_FLOAT && w[2] >= 32)
		l->type[w[2] == 32 ? SPV_F32 : SPV_F64] = w[1];
}

/* What lies before functions; then those. */
static bool scan(struct spv_library *l)
{
	struct spv_function *f = NULL;
	const uint32_t *w = l->w;
	uint32_t at, n = 0, r;

	for (at = HEADER; at < l->words; at += len_of(w[at])) {
		if (!len_of(w[at]) || len_of(w[at]) > l->words - at)
			return false;
		if (op_of(w[at]) == OP_FUNCTION && !l->first)
			l->first = at;
		if (!l->first)
			note_type(l, w + at);
		if (op_of(w[at]) == OP_FUNCTION) {
			f = &l->f[n];
			*f = (struct spv_function){ .id = w[at + 2], .from = at,
						    .result = w[at + 1], .name = "" };
			n++;
		}
		r = result_at(op_of(w[at]));
		if (f && r)
			l->owner[w[at + r]] = (int32_t)(f - l->f);
		if (f && op_of(w[at]) == OP_FUNCTION_END)
			f->end = at + 1;
	}
	return n == l->n;
}

static void name_functions(struct spv_library *l)
{
	uint32_t at, i;

	for (at = HEADER; at < l->first; at += len_of(l->w[at]))
		for (i = 0; op_of(l->w[at]) == OP_NAME && i < l->n; i++)
			if (l->f[i].id == l->w[at + 1])
				l->f[i].name = (const char *)&l->w[at + 2];
}

bool spv_library_init(struct spv_library *l, const uint32_t *w, size_t words)
{
	uint32_t at, i;

	*l = (struct spv_library){ .w = w, .words = (uint32_t)words };
	for (at = HEADER; at < words && len_of(w[at]); at += len_of(w[at]))
		l->n += op_of(w[at]) == OP_FUNCTION;
	l->f = rlx_calloc(l->n + 1, sizeof(*l->f));
	l->owner = rlx_calloc(w[3], sizeof(*l->owner));
	if (!l->f || !l->owner)
		goto out_free;
	for (i = 0; i < w[3]; i++)
		l->owner[i] = -1;
	if (!scan(l))
		goto out_free;
	name_functions(l);
	return true;
out_free:
	spv_library_fini(l);
	return false;
}

void spv_library_fini(struct spv_library *l)
{
	rlx_free(l->f);
	rlx_free(l->owner);
	*l = (struct spv_library){ .w = NULL };
}

const struct spv_function *spv_find(const struct spv_library *l, const char *name)
{
	size_t n = strlen(name);
	uint32_t i;

	for (i = 0; i < l->n; i++)
		if (!strncmp(l->f[i].name, name, n) && l->f[i].name[n] == '(')
			return &l->f[i];
	return NULL;
}

/* ---- writing ---- */

bool spv_begin(struct spv_module *m, const struct spv_library *l)
{
	*m = (struct spv_module){ .lib = l, .bound = l->w[3],
				  .called = rlx_calloc(l->n + 1, 1) };
	m->ok = m->called;
	return m->ok;
}

void spv_end(struct spv_module *m)
{
	rlx_free(m->constant);
	rlx_free(m->body);
	rlx_free(m->called);
}

uint32_t spv_stub(struct spv_module *m, const char *name)
{
	const struct spv_function *f = spv_find(m->lib, name);

	m->missing = m->missing || !f;
	m->ok = m->ok && f && m->n_stub < SPV_MOST_STUBS;
	if (!m->ok)
		return 0;
	m->stub[m->n_stub].f = f;
	m->stub[m->n_stub].from = m->stub[m->n_stub].end = m->n_body;
	m->n_stub++;
	m->called[f - m->lib->f] = true;
	return m->lib->w[f->from + len_of(m->lib->w[f->from]) + 2];
}

/* The number of the stub that is @f; n_stub: none is. */
static uint32_t stub_of(const struct spv_module *m, const struct spv_function *f)
{
	uint32_t i;

	for (i = 0; i < m->n_stub && m->stub[i].f != f; i++)
		;
	return i;
}

static void put(uint32_t **w, uint32_t *n, uint32_t *cap, bool *ok, const uint32_t *p, uint32_t k)
{
	*ok = *ok && rlx_grow(w, cap, *n + k, sizeof(**w));
	if (!*ok)
		return;
	memcpy(*w + *n, p, k * sizeof(*p));
	*n += k;
}

uint32_t spv_constant(struct spv_module *m, enum spv_type type, uint64_t bits)
{
	bool wide = type == SPV_U64 || type == SPV_I64 || type == SPV_F64;
	const uint32_t w[] = { (wide ? 5u : 4u) << 16 | OP_CONSTANT, m->lib->type[type], m->bound,
			       (uint32_t)bits, (uint32_t)(bits >> 32) };

	m->ok = m->ok && m->lib->type[type];
	put(&m->constant, &m->n_constant, &m->cap_constant, &m->ok, w, wide ? 5 : 4);
	return m->bound++;
}

uint32_t spv_call(struct spv_module *m, const char *name, const uint32_t *arg, uint32_t n)
{
	const struct spv_function *f = spv_find(m->lib, name);
	uint32_t w[4];

	m->missing = m->missing || !f;
	m->ok = m->ok && f && m->n_stub;
	if (!m->ok)
		return 0;
	m->called[f - m->lib->f] = true;
	w[0] = (4 + n) << 16 | OP_FUNCTION_CALL;
	w[1] = f->result;
	w[2] = m->bound++;
	w[3] = f->id;
	put(&m->body, &m->n_body, &m->cap_body, &m->ok, w, 4);
	put(&m->body, &m->n_body, &m->cap_body, &m->ok, arg, n);
	m->stub[m->n_stub - 1].end = m->n_body;
	return w[2];
}

/* Those that are called by what is; a call's own id stands among its function's. */
static void close_calls(struct spv_module *m)
{
	const struct spv_library *l = m->lib;
	bool more = true;
	uint32_t i, at;

	while (more) {
		more = false;
		for (i = 0; i < l->n; i++)
			for (at = l->f[i].from; m->called[i] && at < l->f[i].end &&
			     stub_of(m, &l->f[i]) == m->n_stub; at += len_of(l->w[at])) {
				int32_t to;

				if (op_of(l->w[at]) != OP_FUNCTION_CALL)
					continue;
				to = l->owner[l->w[at + 3]];
				more = more || !m->called[to];
				m->called[to] = true;
			}
	}
}

/* What stands before functions, without names, and without what is said of those left out */
static void copy_head(const struct spv_module *m, uint32_t *out, uint32_t *n)
{
	const struct spv_library *l = m->lib;
	uint32_t at, op;
	int32_t of;

	memcpy(out, l->w, HEADER * sizeof(*out));
	*n = HEADER;
	for (at = HEADER; at < l->first; at += len_of(l->w[at])) {
		op = op_of(l->w[at]);
		if (op == OP_NAME || op == OP_MEMBER_NAME)
			continue;
		of = op == OP_DECORATE ? l->owner[l->w[at + 1]] : -1;
		if (of >= 0 && (!m->called[of] || stub_of(m, &l->f[of]) < m->n_stub))
			continue;
		memcpy(out + *n, l->w + at, len_of(l->w[at]) * sizeof(*out));
		*n += len_of(l->w[at]);
	}
}

/* The stub's head, its parameter and label, and the calls */
static void copy_stub(const struct spv_module *m, uint32_t i, uint32_t *out, uint32_t *n)
{
	const uint32_t tail[] = { 1 << 16 | OP_RETURN, 1 << 16 | OP_FUNCTION_END };
	const uint32_t from = m->stub[i].from, words = m->stub[i].end - from;
	const struct spv_function *f = m->stub[i].f;
	const struct spv_library *l = m->lib;
	uint32_t at;

	for (at = f->from; op_of(l->w[at]) != OP_LABEL; at += len_of(l->w[at]))
		;
	at += len_of(l->w[at]);
	memcpy(out + *n, l->w + f->from, (at - f->from) * sizeof(*out));
	*n += at - f->from;
	if (words)
		memcpy(out + *n, m->body + from, words * sizeof(*out));
	*n += words;
	memcpy(out + *n, tail, sizeof(tail));
	*n += 2;
}

bool spv_write(struct spv_module *m, uint32_t **out, size_t *words)
{
	const struct spv_function *entry = spv_find(m->lib, "main");
	const struct spv_library *l = m->lib;
	uint32_t *w = NULL, n, i;

	if (m->ok)
		w = rlx_malloc((l->words + m->n_constant + m->n_body + 8) * sizeof(*w));
	if (!w)
		return false;
	for (i = 0; !entry && i < l->n; i++)	/* the entry point's name has no parameters */
		if (!strcmp(l->f[i].name, "main"))
			entry = &l->f[i];
	if (entry)
		m->called[entry - l->f] = true;
	close_calls(m);
	copy_head(m, w, &n);
	if (m->n_constant)
		memcpy(w + n, m->constant, m->n_constant * sizeof(*w));
	n += m->n_constant;
	for (i = 0; i < l->n; i++) {
		const struct spv_function *f = &l->f[i];

		if (stub_of(m, f) < m->n_stub) {
			copy_stub(m, stub_of(m, f), w, &n);
		} else if (m->called[i]) {
			memcpy(w + n, l->w + f->from, (f->end - f->from) * sizeof(*w));
			n += f->end - f->from;
		}
	}
	w[3] = m->bound;
	*out = w;
	*words = n;
	return true;
}
