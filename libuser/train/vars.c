// SPDX-License-Identifier: MIT
/* Variables: names in scopes, their types and what they begin with. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "train/vars.h"
#include "train/zero.h"

enum { LONGEST_NAME = 159 };	/* of rlx_name() */

struct rlx_fill rlx_fill_kaiming(double fan)
{
	double lim = fan > 0 ? __builtin_sqrt(6 / fan) : 0;

	return rlx_fill_of(RLX_FILL_UNIFORM, -lim, lim);
}

const char *rlx_name(const char *fmt, ...)
{
	static _Thread_local char ring[8][LONGEST_NAME + 1];
	static _Thread_local unsigned int at;
	char *s = ring[at++ % 8];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(s, sizeof(ring[0]), fmt, ap);
	va_end(ap);
	return n >= 0 && n <= LONGEST_NAME ? s : NULL;
}

struct rlx_vars *rlx_vars_new(void)
{
	return rlx_calloc(1, sizeof(struct rlx_vars));
}

void rlx_vars_free(struct rlx_vars *v)
{
	uint32_t i;

	if (!v)
		return;
	for (i = 0; i < v->n; i++) {
		rlx_free(v->e[i].name);
		rlx_free(v->e[i].like);
	}
	rlx_free(v->e);
	rlx_free(v->next);
	rlx_free(v->scope);
	rlx_free(v->from);
	rlx_free(v);
}

static uint32_t scope_len(const struct rlx_vars *v)
{
	return v->scope ? (uint32_t)strlen(v->scope) : 0;
}

void rlx_vars_enter(struct rlx_vars *v, const char *scope)
{
	uint32_t at;
	size_t n;

	if (!v)
		return;
	at = scope_len(v);
	if (!scope) {
		v->no_name = true;
		return;
	}
	n = strlen(scope);
	if (n > UINT32_MAX / 2 ||
	    !rlx_grow(&v->scope, &v->cap_scope, at + (uint32_t)n + 2, 1) ||
	    !rlx_grow(&v->from, &v->cap_from, v->n_from + 1, sizeof(*v->from))) {
		v->no_memory = true;
		return;
	}
	v->from[v->n_from++] = at;
	memcpy(v->scope + at, scope, n);
	strcpy(v->scope + at + n, ".");
}

void rlx_vars_leave(struct rlx_vars *v)
{
	if (v && v->n_from)
		v->scope[v->from[--v->n_from]] = 0;
}

struct var *vars_find(const struct rlx_vars *v, const char *name)
{
	uint32_t i;

	for (i = 0; v && i < v->n; i++)
		if (!strcmp(v->e[i].name, name))
			return &v->e[i];
	return NULL;
}

bool rlx_train_keeps(const char *name)
{
	static const char *const first[] = { "train.", "grad.", "sgd.", "adamw.", "lion.", "muon.",
					     "adafactor.", ZERO_PREFIX };
	unsigned int i;

	for (i = 0; name && i < sizeof(first) / sizeof(*first); i++)
		if (!strncmp(name, first[i], strlen(first[i])))
			return true;
	return false;
}

void float_store(enum rlx_dtype dt, void *to, int64_t i, double x)
{
	switch (dt) {
	case RLX_F64:	((double *)to)[i] = x;	break;
	case RLX_F32:	((float *)to)[i] = (float)x;	break;
	case RLX_F16:
		((uint16_t *)to)[i] = (uint16_t)rlx_minifloat_from(RLX_MF_F16, x, 0);
		break;
	default:
		((uint16_t *)to)[i] = (uint16_t)rlx_minifloat_from(RLX_MF_BF16, x, 0);
	}
}

rlx_value *vars_next(const struct rlx_vars *v, const struct rlx_graph *g, uint32_t var)
{
	uint32_t i;

	for (i = 0; i < v->n_next; i++)
		if (v->next[i].v.id && v->next[i].g == g && v->next[i].var == var)
			return &v->next[i].v;
	return NULL;
}

static bool add_next(struct rlx_vars *v, const struct rlx_graph *g, uint32_t var, rlx_value next)
{
	uint32_t i;

	for (i = 0; i < v->n_next && v->next[i].v.id; i++)
		;
	if (i == v->n_next && !rlx_grow(&v->next, &v->cap_next, i + 1, sizeof(*v->next)))
		return false;
	v->n_next = i == v->n_next ? i + 1 : v->n_next;
	v->next[i] = (struct var_next){ .g = g, .var = var, .v = next };
	return true;
}

static rlx_value no_memory(struct rlx_graph *g)
{
	rlx_graph_fail(g, RLX_ENOMEM, "variables: out of memory");
	return RLX_NONE;
}

static rlx_value no_name(struct rlx_graph *g, const char *what)
{
	rlx_graph_fail(g, RLX_EINVAL, "a %s needs a name, which rlx_name() makes of up to %d bytes",
		       what, LONGEST_NAME);
	return RLX_NONE;
}

bool vars_check(struct rlx_graph *g, const struct rlx_vars *v)
{
	if (v->no_memory)
		no_memory(g);
	else if (v->no_name)
		no_name(g, "scope");
	return !v->no_memory && !v->no_name;
}

static char *joined(const char *a, const char *b)
{
	size_t n = strlen(a) + strlen(b) + 1;
	char *s = rlx_malloc(n);

	if (s)
		snprintf(s, n, "%s%s", a, b);
	return s;
}

static struct var *add_var(struct rlx_vars *v, char *name)
{
	if (!rlx_grow(&v->e, &v->cap, v->n + 1, sizeof(*v->e)))
		return NULL;
	v->e[v->n] = (struct var){ .name = name, .lr = 1 };
	return &v->e[v->n++];
}

/* The variable of a full name, which becomes the set's: of the graph, or made there. */
static rlx_value state_of(struct rlx_graph *g, struct rlx_vars *v, char *name,
			  struct rlx_type type, struct rlx_fill fill, uint32_t flags)
{
	struct var *e = vars_find(v, name);
	char have[96], want[96];
	rlx_value s, *next;

	if (e && !rlx_type_equal(&e->type, &type)) {
		rlx_type_print(&e->type, have, sizeof(have));
		rlx_type_print(&type, want, sizeof(want));
		rlx_graph_fail(g, RLX_ESHAPE, "variable '%s' is %s, not %s", name, have, want);
		rlx_free(name);
		return RLX_NONE;
	}
	if (e) {
		rlx_free(name);
	} else {
		e = add_var(v, name);
		if (!e) {
			rlx_free(name);
			return no_memory(g);
		}
		e->type = type;
		e->fill = fill;
		e->flags = flags;
	}
	s = rlx_graph_io_find(g, RLX_IO_STATE, e->name);
	if (s.id)
		return s;
	/* a graph that had this one's address and is gone may have left one */
	next = vars_next(v, g, (uint32_t)(e - v->e));
	if (next)
		*next = RLX_NONE;
	return rlx_state(g, e->name, type);
}

rlx_value rlx_var(struct rlx_graph *g, struct rlx_vars *v, const char *name,
		  struct rlx_type type, struct rlx_fill fill, uint32_t flags)
{
	const uint32_t known = RLX_VAR_NO_DECAY | RLX_VAR_MATRIX | RLX_VAR_FROZEN | RLX_VAR_BUFFER;
	char *full;

	if (!g || rlx_graph_error(g)->status)
		return RLX_NONE;
	if (!v)
		return no_memory(g);
	if (!vars_check(g, v))
		return RLX_NONE;
	if (flags & ~known) {
		rlx_graph_fail(g, RLX_EINVAL, "variable: unknown flags 0x%x", flags & ~known);
		return RLX_NONE;
	}
	if (!name || !*name)
		return no_name(g, "variable");
	if (!rlx_dtype_is_float(type.dtype) && !(flags & (RLX_VAR_BUFFER | RLX_VAR_FROZEN))) {
		rlx_graph_fail(g, RLX_ETYPE, "variable '%s' is %s, no float: it cannot be trained; "
			       "RLX_VAR_FROZEN or RLX_VAR_BUFFER says that it is not", name,
			       rlx_dtype_name(type.dtype));
		return RLX_NONE;
	}
	if (flags & RLX_VAR_MATRIX && type.rank != 2 && type.rank != 4) {
		rlx_graph_fail(g, RLX_EINVAL, "variable '%s' has rank %u: RLX_VAR_MATRIX is for 2 "
			       "and 4", name, type.rank);
		return RLX_NONE;
	}
	full = joined(v->scope ? v->scope : "", name);
	if (!rlx_train_keeps(full))
		return full ? state_of(g, v, full, type, fill, flags) : no_memory(g);
	rlx_graph_fail(g, RLX_EINVAL, "variable '%s': names that begin so are those of states that "
		       "steps make; see rlx_train_keeps()", full);
	rlx_free(full);
	return RLX_NONE;
}

rlx_value vars_state(struct rlx_graph *g, struct rlx_vars *v, const char *prefix,
		     const char *name, struct rlx_type type, struct rlx_fill fill)
{
	char *full;

	if (!g || rlx_graph_error(g)->status)
		return RLX_NONE;
	full = v ? joined(prefix, name) : NULL;
	return full ? state_of(g, v, full, type, fill, VAR_INTERNAL) : no_memory(g);
}

void vars_like(struct rlx_graph *g, struct rlx_vars *v, const char *prefix, const char *name)
{
	char *full = joined(prefix, name);
	struct var *e = full ? vars_find(v, full) : NULL;

	if (e && !e->like)
		e->like = rlx_strdup(name);
	if (!full || (e && !e->like))
		no_memory(g);
	rlx_free(full);
}

void rlx_var_next(struct rlx_graph *g, struct rlx_vars *v, rlx_value buffer, rlx_value next)
{
	const struct rlx_type *have = rlx_type_of(g, next);
	uint32_t i;

	if (!g || rlx_graph_error(g)->status)
		return;
	for (i = 0; v && i < v->n; i++)
		if (v->e[i].flags & RLX_VAR_BUFFER &&
		    rlx_graph_io_find(g, RLX_IO_STATE, v->e[i].name).id == buffer.id && buffer.id)
			break;
	if (!v || i == v->n) {
		rlx_graph_fail(g, RLX_EINVAL, "rlx_var_next: value %u is no RLX_VAR_BUFFER of this "
			       "set", buffer.id);
	} else if (!have || !rlx_type_equal(have, &v->e[i].type)) {
		rlx_graph_fail(g, RLX_ESHAPE, "the next value of '%s' is not of its type",
			       v->e[i].name);
	} else if (vars_next(v, g, i)) {
		rlx_graph_fail(g, RLX_EEXIST, "'%s' has a next value already", v->e[i].name);
	} else if (!add_next(v, g, i, next)) {
		no_memory(g);
	}
}

unsigned int rlx_vars_lr(struct rlx_vars *v, const char *prefix, double scale)
{
	unsigned int n = 0;
	uint32_t i;

	for (i = 0; v && prefix && i < v->n; i++)
		if (!(v->e[i].flags & VAR_INTERNAL) &&
		    !strncmp(v->e[i].name, prefix, strlen(prefix))) {
			v->e[i].lr *= scale;
			n++;
		}
	return n;
}

unsigned int rlx_vars_count(const struct rlx_vars *v)
{
	return v ? v->n : 0;
}

const char *rlx_vars_name(const struct rlx_vars *v, unsigned int i)
{
	return v && i < v->n ? v->e[i].name : NULL;
}
