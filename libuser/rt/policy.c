// SPDX-License-Identifier: MIT
/* Policies: their text, the environment, and what they say of a device. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "rt/policy.h"
#include "rt/rt.h"

enum { MOST_RUNS = 100000, DEFAULT_RUNS = 11 };

static const struct {
	const char *alias, *name;
} aliases[] = {
	{ "nvidia", "cuda" }, { "hip", "rocm" }, { "amd", "rocm" }, { "vk", "vulkan" },
};

/* A backend, or one of its devices, or what else stands for some. */
static bool known(const char *name)
{
	size_t len = strcspn(name, ":"), digits;

	if (!strcmp(name, "gpu") || (!strncmp(name, "pci:", 4) && name[4]))
		return true;
	if (!rlx_backend_known(name, len))
		return false;
	digits = name[len] ? strspn(name + len + 1, "0123456789") : 0;
	return !name[len] || (digits && digits < 6 && !name[len + 1 + digits]);
}

enum rlx_status rlx_policy_name(const char *what, const char *word, size_t len,
				char out[POLICY_NAME], struct rlx_error *err)
{
	char name[POLICY_NAME] = "", rest[POLICY_NAME] = "", all[128];
	size_t head, i;

	if (len < POLICY_NAME) {
		for (i = 0; i < len; i++)
			name[i] = (char)tolower((unsigned char)word[i]);
		head = strcspn(name, ":");
		for (i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
			if (strlen(aliases[i].alias) == head &&
			    !memcmp(name, aliases[i].alias, head)) {
				memcpy(rest, name + head, POLICY_NAME - head);
				snprintf(name, sizeof(name), "%s%.16s", aliases[i].name, rest);
				break;
			}
	}
	if (len >= POLICY_NAME || !known(name))
		return rlx_fail(err, RLX_EINVAL, "%s: no device is called '%.*s'; there are %s, "
				"gpu and pci:ADDRESS", what, (int)(len < 40 ? len : 40), word,
				rlx_backend_names(all, sizeof(all)));
	memcpy(out, name, POLICY_NAME);
	return RLX_OK;
}

static enum rlx_status read_names(const char *what, const char *text, size_t len,
				  const char *between, struct policy_names *l,
				  struct rlx_error *err)
{
	const char *end = text + len;
	enum rlx_status st;
	size_t n;

	l->n = 0;
	while (text < end) {
		n = strcspn(text, between);
		if (n > (size_t)(end - text))
			n = (size_t)(end - text);
		if (n && l->n == POLICY_NAMES)
			return rlx_fail(err, RLX_EINVAL, "%s: more than %d names", what,
					POLICY_NAMES);
		if (n) {
			st = rlx_policy_name(what, text, n, l->name[l->n], err);
			if (st)
				return st;
			l->n++;
		}
		text += n < (size_t)(end - text) ? n + 1 : n;
	}
	if (!l->n)
		return rlx_fail(err, RLX_EINVAL, "%s: a name of a device is missing", what);
	return RLX_OK;
}

/* A whole number of runs. */
static enum rlx_status read_runs(const char *what, const char *text, size_t len,
				 unsigned int *out, struct rlx_error *err)
{
	unsigned int v = 0;
	size_t i;

	for (i = 0; i < len && isdigit((unsigned char)text[i]) && v <= MOST_RUNS; i++)
		v = 10 * v + (unsigned int)(text[i] - '0');
	if (!len || i < len || v > MOST_RUNS)
		return rlx_fail(err, RLX_EINVAL, "%s: '%.*s' is no number of runs up to %d", what,
				(int)(len < 40 ? len : 40), text, MOST_RUNS);
	*out = v ? v : 1;
	return RLX_OK;
}

static bool is(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(text, word, len);
}

static enum rlx_status read_pick(struct rlx_policy *p, const char *v, size_t len,
				 struct rlx_error *err)
{
	p->runs = DEFAULT_RUNS;
	if (is(v, len, "cost"))
		p->pick = POLICY_PICK_COST;
	else if (is(v, len, "order"))
		p->pick = POLICY_PICK_ORDER;
	else if (len >= 7 && !memcmp(v, "measure", 7) && (len == 7 || v[7] == ':'))
		p->pick = POLICY_PICK_MEASURE;
	else
		return rlx_fail(err, RLX_EINVAL, "policy: pick=%.*s is none of cost, order, "
				"measure and measure:RUNS", (int)(len < 40 ? len : 40), v);
	if (p->pick == POLICY_PICK_MEASURE && len > 7)
		return read_runs("policy: pick", v + 8, len - 8, &p->runs, err);
	return RLX_OK;
}

static enum rlx_status read_native(struct rlx_policy *p, const char *v, size_t len,
				   struct rlx_error *err)
{
	if (!is(v, len, "yes") && !is(v, len, "no"))
		return rlx_fail(err, RLX_EINVAL, "policy: native=%.*s is neither yes nor no",
				(int)(len < 40 ? len : 40), v);
	p->native = v[0] == 'y';
	return RLX_OK;
}

enum { WORD_ALLOW, WORD_DENY, WORD_PREFER, WORD_CHAIN, WORD_DEVICE, WORD_PICK, WORD_NATIVE,
       N_WORDS };
static const char *const words[N_WORDS] = { "allow", "deny", "prefer", "chain", "device",
					    "pick", "native" };

static struct policy_names *list_of(struct rlx_policy *p, int word)
{
	struct policy_names *const l[] = { &p->allow, &p->deny, &p->prefer, &p->chain,
					   &p->device };

	return l[word];
}

/* One KEY=VALUE of @len bytes; @seen has a bit for each key that was there. */
static enum rlx_status read_word(struct rlx_policy *p, const char *w, size_t len,
				 unsigned int *seen, struct rlx_error *err)
{
	const char *eq = memchr(w, '=', len);
	size_t key = eq ? (size_t)(eq - w) : len, n = eq ? len - key - 1 : 0;
	char what[32];
	enum rlx_status st;
	int i;

	for (i = 0; i < N_WORDS && !is(w, key, words[i]); i++)
		;
	if (!eq || i == N_WORDS)
		return rlx_fail(err, RLX_EINVAL, "policy: '%.*s' is none of allow=, deny=, "
				"prefer=, chain=, device=, pick= and native=",
				(int)(len < 40 ? len : 40), w);
	if (*seen >> i & 1)
		return rlx_fail(err, RLX_EINVAL, "policy: %s= is there twice", words[i]);
	*seen |= 1u << i;
	if (i == WORD_PICK)
		return read_pick(p, eq + 1, n, err);
	if (i == WORD_NATIVE)
		return read_native(p, eq + 1, n, err);
	snprintf(what, sizeof(what), "policy: %s=", words[i]);
	st = read_names(what, eq + 1, n, ",;", list_of(p, i), err);
	if (!st && i == WORD_DEVICE && p->device.n > 1)
		return rlx_fail(err, RLX_EINVAL, "policy: device= is one device; write chain=");
	p->only |= !st && i == WORD_ALLOW;
	return st;
}

static struct rlx_policy *policy_new(void)
{
	struct rlx_policy *p = rlx_calloc(1, sizeof(*p));

	if (p) {
		atomic_init(&p->refs, 1);
		p->runs = DEFAULT_RUNS;
	}
	return p;
}

enum rlx_status rlx_policy_new(const char *text, struct rlx_policy **out,
			       struct rlx_error *err)
{
	static const char space[] = " \t\n\r";
	struct rlx_policy *p;
	enum rlx_status st = RLX_OK;
	unsigned int seen = 0;
	size_t n;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "policy: no place for it");
	*out = NULL;
	p = policy_new();
	if (!p)
		return rlx_fail(err, RLX_ENOMEM, "policy: out of memory");
	for (text = text ? text : ""; !st; text += n) {
		text += strspn(text, space);
		n = strcspn(text, space);
		if (!n)
			break;
		st = read_word(p, text, n, &seen, err);
	}
	if (!st && p->chain.n && p->device.n)
		st = rlx_fail(err, RLX_EINVAL, "policy: both device= and chain= are there");
	if (st)
		rlx_policy_put(p);
	else
		*out = p;
	return st;
}

static bool same(const struct policy_names *a, const struct policy_names *b)
{
	return a->n == b->n && !memcmp(a->name, b->name, a->n * sizeof(a->name[0]));
}

static enum rlx_status read_env(struct rlx_policy *p, const char *prefix, struct rlx_error *err)
{
	static const char *const vars[] = { "DEVICES", "DENY_DEVICES", "PREFER_DEVICES",
					    "DEVICE_CHAIN", "DEVICE", "BENCHMARK_PICK" };
	enum { RUNS = 5 };
	struct policy_names l;
	enum rlx_status st;
	char name[80];
	const char *v;
	int i;

	for (i = 0; i <= RUNS; i++) {
		int n = snprintf(name, sizeof(name), "%s_%s", prefix, vars[i]);

		if (n < 0 || (size_t)n >= sizeof(name))
			return rlx_fail(err, RLX_EINVAL, "policy: the prefix '%.20s...' is too long",
					prefix);
		v = getenv(name);
		if (!v || !v[strspn(v, " ,;\t\n")])
			continue;
		if (i == RUNS) {
			p->pick = POLICY_PICK_MEASURE;
			st = read_runs(name, v, strlen(v), &p->runs, err);
		} else {
			memset(&l, 0, sizeof(l));
			st = read_names(name, v, strlen(v), " ,;\t\n", &l, err);
		}
		if (st)
			return st;
		if (i < WORD_DEVICE)
			*list_of(p, i) = l;
		p->only |= i == WORD_ALLOW;
		if (i != WORD_DEVICE)
			continue;
		if (p->chain.n && !same(&p->chain, &l))
			return rlx_fail(err, RLX_EINVAL, "%s_DEVICE and %s_DEVICE_CHAIN name "
					"different devices; unset one", prefix, prefix);
		*(l.n > 1 ? &p->chain : p->chain.n ? &l : &p->device) = l;
	}
	return RLX_OK;
}

enum rlx_status rlx_policy_env(const char *prefix, struct rlx_policy **out,
			       struct rlx_error *err)
{
	struct rlx_policy *p;
	enum rlx_status st;

	if (!out)
		return rlx_fail(err, RLX_EINVAL, "policy: no place for it");
	*out = NULL;
	p = policy_new();
	if (!p)
		return rlx_fail(err, RLX_ENOMEM, "policy: out of memory");
	st = read_env(p, prefix ? prefix : "RLX", err);
	if (st)
		rlx_policy_put(p);
	else
		*out = p;
	return st;
}

struct rlx_policy *rlx_policy_get(struct rlx_policy *p)
{
	if (p)
		atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void rlx_policy_put(struct rlx_policy *p)
{
	if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
		rlx_free(p);
}

enum rlx_status rlx_policy_print(const struct rlx_policy *p, FILE *f)
{
	const struct policy_names *const l[] = { &p->allow, &p->deny, &p->prefer, &p->chain,
						 &p->device };
	unsigned int i, k;

	if (!p || !f)
		return RLX_EINVAL;
	for (i = 0; i < sizeof(l) / sizeof(l[0]); i++)
		for (k = 0; k < l[i]->n; k++)
			fprintf(f, "%s%s%s%s", k ? "" : words[i], k ? "," : "=", l[i]->name[k],
				k + 1 == l[i]->n ? " " : "");
	switch (p->pick) {
	case POLICY_PICK_COST:
		fprintf(f, "pick=cost");
		break;
	case POLICY_PICK_ORDER:
		fprintf(f, "pick=order");
		break;
	case POLICY_PICK_MEASURE:
		fprintf(f, "pick=measure:%u", p->runs);
		break;
	}
	return fprintf(f, "%s\n", p->native ? " native=yes" : "") < 0 || ferror(f) ? RLX_EIO
										    : RLX_OK;
}

/* "cuda:1" of "cuda", 1: the first has its backend's name alone. */
static bool is_device(const char *name, const struct rlx_dev_info *d)
{
	size_t len = strcspn(d->backend, ":");
	unsigned long mine = d->backend[len] ? strtoul(d->backend + len + 1, NULL, 10) : 0;

	if (strncmp(name, d->backend, len))
		return false;
	return !name[len] ? !mine : name[len] == ':' && strtoul(name + len + 1, NULL, 10) == mine;
}

bool rlx_policy_names(const char *name, const struct rlx_dev_info *d)
{
	size_t len = strcspn(d->backend, ":");

	if (!strcmp(name, "gpu"))
		return !d->by_name && (!strncmp(d->backend, "cuda", 4) ||
				       !strncmp(d->backend, "rocm", 4) ||
				       !strncmp(d->backend, "vulkan", 6));
	if (!strncmp(name, "pci:", 4))
		return d->pci[0] && !strcasecmp(name + 4, d->pci);
	return (strlen(name) == len && !memcmp(name, d->backend, len)) || is_device(name, d);
}

bool rlx_policy_names_one(const char *name, const struct rlx_dev_info *d)
{
	if (!strcmp(name, "gpu") || !strncmp(name, "pci:", 4))
		return rlx_policy_names(name, d);
	return is_device(name, d);
}

unsigned int rlx_policy_place(const struct policy_names *l, const struct rlx_dev_info *d)
{
	unsigned int i;

	for (i = 0; i < l->n && !rlx_policy_names(l->name[i], d); i++)
		;
	return i;
}

static bool has(const struct policy_names *l, const struct rlx_dev_info *d)
{
	return rlx_policy_place(l, d) < l->n;
}

enum rlx_status rlx_policy_allows(const struct rlx_policy *p, const struct rlx_dev_info *d,
				  struct rlx_error *why)
{
	if (has(&p->deny, d))
		return rlx_fail(why, RLX_EACCES, "%s: the policy denies it", d->backend);
	if (p->only && !has(&p->allow, d))
		return rlx_fail(why, RLX_EACCES, "%s: the policy allows others alone", d->backend);
	if (d->by_name && !has(&p->allow, d) && !has(&p->prefer, d) && !has(&p->chain, d) &&
	    !has(&p->device, d))
		return rlx_fail(why, RLX_EACCES, "%s: it is used where it is named, and no "
				"policy names it", d->backend);
	return RLX_OK;
}

enum rlx_status rlx_policy_device(const char *name, char out[24], struct rlx_error *err)
{
	enum { MOST = 64 };
	struct rlx_dev_info *d;
	unsigned int n, i;

	snprintf(out, 24, "%s", name);
	if (strcmp(name, "gpu") && strncmp(name, "pci:", 4))
		return RLX_OK;
	d = rlx_calloc(MOST, sizeof(*d));
	if (!d)
		return rlx_fail(err, RLX_ENOMEM, "devices: out of memory");
	n = rlx_device_list(d, MOST);
	for (i = 0; i < n && i < MOST && !rlx_policy_names_one(name, &d[i]); i++)
		;
	if (i < n && i < MOST)
		snprintf(out, 24, "%s", d[i].backend);
	rlx_free(d);
	return i < n && i < MOST ? RLX_OK : rlx_fail(err, RLX_ENODEV, "there is no device '%s'",
						      name);
}

bool rlx_policy_goes_on(enum rlx_status st)
{
	return st == RLX_ENODEV || st == RLX_ENOSUP || st == RLX_ENOMEM || st == RLX_ELOST ||
	       st == RLX_ETIME;
}

void rlx_reasons_add(struct rlx_reasons *r, const char *text)
{
	if (r->len < sizeof(r->text))
		r->len += (size_t)snprintf(r->text + r->len, sizeof(r->text) - r->len, "%s%s",
					   r->len ? "; " : "", text);
}
