// SPDX-License-Identifier: MIT
/* The registry of custom ops. */
#include <ctype.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/custom.h"
#include "ir/graph.h"

/*
 * The lock guards the lists. Names are never forgotten: what was computed of one registration
 * may outlive it (constants that programs share), and shall not be taken for the next one's.
 */
struct past {
	struct past	*next;
	unsigned int	 times;
	char		 name[RLX_CUSTOM_NAME];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rlx_custom *registered;
static struct past *names;

struct rlx_custom *rlx_custom_get(struct rlx_custom *c)
{
	if (c)
		atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

/* Kernels' texts and all other strings; of what is half made as well. */
static void custom_free(struct rlx_custom *c)
{
	struct rlx_custom_kernel *k = (struct rlx_custom_kernel *)(uintptr_t)c->op.kernel;
	unsigned int i;

	for (i = 0; k && i < c->op.n_kernel; i++) {
		rlx_free((char *)(uintptr_t)k[i].backend);
		rlx_free((char *)(uintptr_t)k[i].text);
		rlx_free((char *)(uintptr_t)k[i].entry);
	}
	rlx_free(k);
	rlx_free((char *)(uintptr_t)c->op.name);
	rlx_free(c);
}

void rlx_custom_put(struct rlx_custom *c)
{
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (c->op.release)
		c->op.release(c->op.ctx);
	custom_free(c);
}

/* The lock is held. The link that has it, or the one at the end. */
static struct rlx_custom **link_of(const char *name)
{
	struct rlx_custom **at = &registered;

	while (*at && strcmp((*at)->op.name, name))
		at = &(*at)->next;
	return at;
}

struct rlx_custom *rlx_custom_find(const char *name)
{
	struct rlx_custom *c;

	pthread_mutex_lock(&lock);
	c = rlx_custom_get(*link_of(name));
	pthread_mutex_unlock(&lock);
	return c;
}

const struct rlx_custom_op *rlx_custom_info(const struct rlx_custom *c)
{
	return c ? &c->op : NULL;
}

static bool is_word(const char *s, const char *also)
{
	size_t n = 0;

	while (s && s[n] && n < RLX_CUSTOM_NAME &&
	       (isalnum((unsigned char)s[n]) || strchr(also, s[n])))
		n++;
	return n && n < RLX_CUSTOM_NAME && !s[n];
}

static enum rlx_status check_kernels(const struct rlx_custom_op *op, struct rlx_error *err)
{
	unsigned int i;

	if (op->n_kernel && !op->kernel)
		return rlx_fail(err, RLX_EINVAL, "custom op '%s': %u kernels at NULL", op->name,
				op->n_kernel);
	for (i = 0; i < op->n_kernel; i++) {
		const struct rlx_custom_kernel *k = &op->kernel[i];

		if (!k->backend || (strcmp(k->backend, "cuda") && strcmp(k->backend, "rocm")))
			return rlx_fail(err, RLX_ENOSUP, "custom op '%s': there are no kernels for "
					"backend '%s', but for cuda and rocm", op->name,
					k->backend ? k->backend : "(NULL)");
		if (!k->text || !is_word(k->entry, "_") || isdigit((unsigned char)*k->entry))
			return rlx_fail(err, RLX_EINVAL, "custom op '%s': kernel %u has no text, "
					"or its entry is no name of a function", op->name, i);
	}
	return RLX_OK;
}

static enum rlx_status check(const struct rlx_custom_op *op, struct rlx_error *err)
{
	if (!is_word(op->name, "._-:/"))
		return rlx_fail(err, RLX_EINVAL, "custom op: a name has 1 to %d letters, digits "
				"and . _ - : /", RLX_CUSTOM_NAME - 1);
	if (!op->infer || !op->eval)
		return rlx_fail(err, RLX_EINVAL, "custom op '%s': %s is missing", op->name,
				op->infer ? "eval" : "infer");
	if (op->n_in > RLX_CUSTOM_IN || !op->n_out || op->n_out > RLX_CUSTOM_OUT)
		return rlx_fail(err, RLX_EINVAL, "custom op '%s': %u inputs and %u outputs; at "
				"most %d and 1 to %d are taken", op->name, op->n_in, op->n_out,
				RLX_CUSTOM_IN, RLX_CUSTOM_OUT);
	if (rlx_op_find(op->name, strlen(op->name)))
		return rlx_fail(err, RLX_EEXIST, "custom op '%s': the library has an op of that "
				"name; put the program's before it", op->name);
	return check_kernels(op, err);
}

/* A copy that owns what it refers to; NULL: out of memory. */
static struct rlx_custom *custom_new(const struct rlx_custom_op *op)
{
	struct rlx_custom *c = rlx_calloc(1, sizeof(*c));
	struct rlx_custom_kernel *k;
	unsigned int i;
	bool ok;

	if (!c)
		return NULL;
	atomic_init(&c->refs, 1);
	c->op = *op;
	c->op.name = rlx_strdup(op->name);
	k = rlx_calloc(op->n_kernel + 1u, sizeof(*k));
	c->op.kernel = k;
	ok = c->op.name && k;
	for (i = 0; ok && i < op->n_kernel; i++) {
		k[i].launch = op->kernel[i].launch;
		k[i].backend = rlx_strdup(op->kernel[i].backend);
		k[i].text = rlx_strdup(op->kernel[i].text);
		k[i].entry = rlx_strdup(op->kernel[i].entry);
		ok = k[i].backend && k[i].text && k[i].entry;
	}
	if (ok)
		return c;
	custom_free(c);
	return NULL;
}

/* The lock is held. How often the name has been there; false: out of memory. */
static bool count_name(const char *name, unsigned int *out_times)
{
	struct past *p;

	for (p = names; p && strcmp(p->name, name); p = p->next)
		;
	if (!p) {
		p = rlx_calloc(1, sizeof(*p));
		if (!p)
			return false;
		memcpy(p->name, name, strlen(name) + 1);
		p->next = names;
		names = p;
	}
	*out_times = p->times++;
	return true;
}

static enum rlx_status no_memory(const char *name, struct rlx_error *err)
{
	return rlx_fail(err, RLX_ENOMEM, "custom op '%s': out of memory", name);
}

/* Bring the caller's struct to the size this library knows. */
static enum rlx_status fit(const struct rlx_custom_op *op, struct rlx_custom_op *own,
			   struct rlx_error *err)
{
	const char *p = (const char *)op;
	size_t i;

	if (!op || op->size < offsetof(struct rlx_custom_op, kernel))
		return rlx_fail(err, RLX_EINVAL,
				"custom op: no description, or its size is not set");
	*own = (struct rlx_custom_op){ 0 };
	memcpy(own, op, op->size < sizeof(*own) ? op->size : sizeof(*own));
	for (i = sizeof(*own); i < op->size; i++)
		if (p[i])
			return rlx_fail(err, RLX_ENOSUP, "custom op: the caller was built for a "
					"newer library and uses a member that this one lacks");
	own->size = sizeof(*own);
	return check(own, err);
}

enum rlx_status rlx_custom_register(const struct rlx_custom_op *op, struct rlx_error *err)
{
	struct rlx_custom **at, *c;
	struct rlx_custom_op own;
	enum rlx_status st = fit(op, &own, err);

	if (st)
		return st;
	c = custom_new(&own);
	if (!c)
		return no_memory(own.name, err);
	pthread_mutex_lock(&lock);
	at = link_of(own.name);
	if (*at)
		st = rlx_fail(err, RLX_EEXIST, "custom op '%s' is registered; unregister it before",
			      own.name);
	else if (!count_name(own.name, &c->times))
		st = no_memory(own.name, err);
	else
		*at = c;
	pthread_mutex_unlock(&lock);
	if (st)
		custom_free(c);
	return st;
}

enum rlx_status rlx_custom_unregister(const char *name, struct rlx_error *err)
{
	struct rlx_custom **at, *c = NULL;
	enum rlx_status st = RLX_OK;

	if (!name)
		return rlx_fail(err, RLX_EINVAL, "custom op: no name");
	pthread_mutex_lock(&lock);
	at = link_of(name);
	if (!*at) {
		st = rlx_fail(err, RLX_ENOENT, "no custom op '%s' is registered", name);
	} else if (atomic_load_explicit(&(*at)->refs, memory_order_acquire) > 1) {
		st = rlx_fail(err, RLX_EBUSY, "custom op '%s' stands in graphs or programs; put "
			      "them before", name);
	} else {
		c = *at;
		*at = c->next;
	}
	pthread_mutex_unlock(&lock);
	rlx_custom_put(c);	/* calls release(), which may register another */
	return st;
}
