// SPDX-License-Identifier: MIT
/* Reads rlxd.conf: INI by libinih, options by one table each. */
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/scaled.h"
#include "rlx/compile.h"
#include "tools/rlxd/conf.h"
#include "tools/rlxd/encoder_sizes.h"
#include "tools/rlx/address.h"
#include "tools/rlx/precision.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/tls.h"

enum { NAME_MAX_LEN = 40, FILE_MAX = 1 << 20 };

enum form {
	FORM_STR,	/* const char * */
	FORM_INT,	/* int64_t, with K, M, G */
	FORM_TIME,	/* int64_t nanoseconds, with us, ms, s, min */
	FORM_BOOL,
	FORM_WORD,	/* int64_t, index in words plus .low */
	FORM_MODE,	/* int64_t, octal */
	FORM_LIST,	/* struct conf_list of at most .high */
	FORM_LISTEN,	/* listen, n_listen; .low: insecure */
	FORM_BUCKETS,
};

struct option {
	const char	*name;
	enum form	 form;
	size_t		 at;
	int64_t		 low, high, def;
	const char	*words;		/* "a|b|c" */
	bool		 live;		/* of [server]: a reload changes it */
};

#define KIB 1024ll
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MS 1000000ll
#define SEC (1000 * MS)

#define AT(m) offsetof(struct conf_server, m)
static const struct option server_option[] = {
	{ "listen", FORM_LISTEN },
	{ "listen_insecure", FORM_LISTEN, 0, true },
	{ "tls_certificate", FORM_STR, AT(tls_certificate), .live = true },
	{ "tls_key", FORM_STR, AT(tls_key), .live = true },
	{ "tls_client_ca", FORM_STR, AT(tls_client_ca), .live = true },
	{ "fd_store", FORM_STR, AT(fd_store) },
	{ "standby", FORM_BOOL, AT(standby) },
	{ "hosts", FORM_LIST, AT(hosts), 0, CONF_LIST_MAX, .live = true },
	{ "otlp_endpoint", FORM_STR, AT(otlp_endpoint), .live = true },
	{ "cors_origins", FORM_LIST, AT(cors_origins), 0, CONF_LIST_MAX, .live = true },
	{ "threads", FORM_INT, AT(threads), 1, 64, 1 },
	{ "engine", FORM_WORD, AT(engine), 0, 2, 0, "auto|io_uring|epoll" },
	{ "max_connections", FORM_INT, AT(max_connections), 1, 1 << 20, 1024 },
	{ "ipv6_prefix", FORM_INT, AT(ipv6_prefix), 1, 128, 64 },
	{ "max_header", FORM_INT, AT(max_header), 512, 64 * KIB, 8 * KIB },
	{ "max_body", FORM_INT, AT(max_body), 1 * KIB, 4 * GIB, 64 * MIB },
	{ "max_memory", FORM_INT, AT(max_memory), 1 * MIB, 1024 * GIB, 1 * GIB },
	{ "header_timeout", FORM_TIME, AT(header_timeout_ns), 10 * MS, 3600 * SEC, 10 * SEC },
	{ "body_timeout", FORM_TIME, AT(body_timeout_ns), 10 * MS, 3600 * SEC, 60 * SEC },
	{ "idle_timeout", FORM_TIME, AT(idle_timeout_ns), 10 * MS, 86400 * SEC, 75 * SEC },
	{ "send_timeout", FORM_TIME, AT(send_timeout_ns), 10 * MS, 3600 * SEC, 60 * SEC },
	{ "request_timeout", FORM_TIME, AT(request_timeout_ns), MS, 3600 * SEC, 60 * SEC },
	{ "drain_timeout", FORM_TIME, AT(drain_timeout_ns), 0, 3600 * SEC, 30 * SEC },
	{ "inline_below", FORM_TIME, AT(inline_ns), 0, SEC, 5 * MS },
	{ "log", FORM_WORD, AT(log_json), 0, 1, 0, "text|json", true },
	{ "log_level", FORM_WORD, AT(log_level), LOG_ERROR, LOG_DEBUG, LOG_INFO,
	  "error|warning|notice|info|debug", true },
	{ "access_log", FORM_WORD, AT(access_log), 0, 2, CONF_ACCESS_ERRORS,
	  "none|errors|all", true },
	{ "shared_memory", FORM_WORD, AT(shared_memory), 0, 2, CONF_SHM_OFF,
	  "off|unix|local" },
	{ "max_regions", FORM_INT, AT(max_regions), 1, REGIONS_MAX, 256 },
	{ "max_region_bytes", FORM_INT, AT(max_region_bytes), 4 * KIB, 1024 * GIB, 64 * GIB },
};
#undef AT

#define AT(m) offsetof(struct conf_model, m)
static const struct option model_option[] = {
	{ "path", FORM_STR, AT(path) },
	{ "kind", FORM_WORD, AT(kind), 0, 2, CONF_KIND_AUTO, "auto|bert|onnx" },
	{ "tokenizer", FORM_STR, AT(tokenizer) },
	{ "device", FORM_STR, AT(device) },
	{ "precision", FORM_WORD, AT(precision), 0, RLX_PRECISION_TF32, 0,
	  PRECISION_WORDS },
	{ "threads", FORM_INT, AT(threads), 0, 1024, 0 },
	{ "replicas", FORM_INT, AT(replicas), 1, 64, 1 },
	{ "max_batch", FORM_INT, AT(max_batch), 1, 1024, 0 },
	{ "batch_delay", FORM_TIME, AT(batch_delay_ns), 0, SEC, 0 },
	{ "max_queue", FORM_INT, AT(max_queue), 1, 1 << 20, 4096 },
	{ "max_tokens", FORM_INT, AT(max_tokens), 3, 1 << 20, 0 },
	{ "max_shapes", FORM_INT, AT(max_shapes), 1, 4096, 32 },
	{ "max_elements", FORM_INT, AT(max_elements), 0, 1ll << 40, 0 },
	{ "max_run_memory", FORM_INT, AT(max_run_memory), 1 * MIB, 1024 * GIB, 4 * GIB },
	{ "buckets", FORM_BUCKETS },
	{ "pool", FORM_WORD, AT(pool), 0, 1, 0, "mean|cls" },
	{ "strict_bits", FORM_BOOL, AT(strict_bits), 0, 1, 0 },
	{ "normalise", FORM_BOOL, AT(normalise), 0, 1, 1 },
	{ "truncate", FORM_BOOL, AT(truncate), 0, 1, 0 },
	{ "batch", FORM_BOOL, AT(batch), 0, 1, 0 },
};
#undef AT

#define AT(m) offsetof(struct conf_key, m)
static const struct option key_option[] = {
	{ "secret_file", FORM_STR, AT(secret_file) },
	{ "models", FORM_LIST, AT(models), 0, CONF_MODELS_MAX },
	{ "max_rows", FORM_INT, AT(max_rows), 1, 1 << 20, 4096 },
};
#undef AT

#define AT(m) offsetof(struct conf_channel, m)
static const struct option channel_option[] = {
	{ "address", FORM_STR, AT(address) },
	{ "mode", FORM_MODE, AT(mode), 0, 0777, 0 },
	{ "users", FORM_LIST, AT(users), 0, CONF_LIST_MAX },
	{ "groups", FORM_LIST, AT(groups), 0, CONF_LIST_MAX },
	{ "models", FORM_LIST, AT(models), 0, CONF_MODELS_MAX },
	{ "transport", FORM_WORD, AT(transport), 0, 2, CONF_TRANSPORT_AUTO, "auto|shm|kmod" },
	{ "spin", FORM_WORD, AT(spin), 0, 2, CONF_SPIN_AUTO, "auto|never|always" },
	{ "max_clients", FORM_INT, AT(max_clients), 1, 65536, 256 },
	{ "max_user_clients", FORM_INT, AT(max_user_clients), 1, 65536, 64 },
	{ "max_depth", FORM_INT, AT(max_depth), 1, 4096, 256 },
	{ "max_memory", FORM_INT, AT(max_memory), 4 * KIB, 1024 * GIB, 1 * GIB },
	{ "max_rows", FORM_INT, AT(max_rows), 1, 1 << 20, 4096 },
};
#undef AT

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const int64_t default_bucket[] = ENCODER_BUCKETS;

struct reader {
	struct conf		*c;
	const char		*text, *end, *name;
	unsigned int		 line;
	struct rlx_error	*err;
	const struct option	*option;	/* of the section under way */
	size_t			 n_option;
	void			*obj;
	uint64_t		 seen;
	const struct option	*empty;	/* a list that nothing stands in yet: lines may follow */
	unsigned int		 empty_line;
};

static enum rlx_status bad(struct reader *r, const char *fmt, ...) __rlx_printf(2, 3);

static enum rlx_status bad(struct reader *r, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return rlx_fail(r->err, RLX_EPARSE, "%s:%u: %s", r->name, r->line, text);
}

static void set_defaults(void *obj, const struct option *o, size_t n)
{
	for (; n--; o++) {
		void *to = (char *)obj + o->at;

		if (o->form == FORM_INT || o->form == FORM_TIME || o->form == FORM_WORD ||
		    o->form == FORM_MODE)
			*(int64_t *)to = o->def;
		else if (o->form == FORM_BOOL)
			*(bool *)to = o->def;
	}
}

/* A time of 0 may have no unit. */
static const struct rlx_unit times[] = {
	{ "us", 1000 }, { "ms", MS }, { "s", SEC }, { "min", 60 * SEC }, { NULL, 0 },
};

static bool scaled_time(const char *s, int64_t *out)
{
	const char *rest;

	return rlx_scaled(s, times, out) || (rlx_whole_number(s, out, &rest) && !*out &&
					     !rest[strspn(rest, " ")]);
}

static enum rlx_status set_number(struct reader *r, const struct option *o,
				  const char *value, int64_t *out)
{
	bool time = o->form == FORM_TIME;
	const char *what = time ? "a time such as 250us, 5ms, 10s or 2min" :
			   "a number, with K, M or G for a size";

	if (!(time ? scaled_time(value, out) : rlx_scaled(value, rlx_size_units, out)))
		return bad(r, "%s = '%s' is not %s", o->name, value, what);
	if (*out < o->low || *out > o->high)
		return time ? bad(r, "%s = %s is outside %lld to %lld ms", o->name, value,
				  (long long)(o->low / MS), (long long)(o->high / MS)) :
			      bad(r, "%s = %s is outside %lld to %lld", o->name, value,
				  (long long)o->low, (long long)o->high);
	return RLX_OK;
}

static enum rlx_status set_word(struct reader *r, const struct option *o,
				const char *value, int64_t *out)
{
	const char *s = o->words;
	size_t len = strlen(value), n;
	int64_t i;

	for (i = 0; *s; i++) {
		n = strcspn(s, "|");
		if (n == len && !memcmp(s, value, n)) {
			*out = i + o->low;
			return RLX_OK;
		}
		s += n + (s[n] == '|');
	}
	return bad(r, "%s = '%s' is none of %s", o->name, value, o->words);
}

static enum rlx_status set_mode(struct reader *r, const struct option *o,
				const char *value, int64_t *out)
{
	size_t n = strspn(value, "01234567");

	if (!n || n > 4 || value[n] || strtol(value, NULL, 8) > o->high)
		return bad(r, "%s = '%s' is no mode such as 0660", o->name, value);
	*out = strtol(value, NULL, 8);
	return RLX_OK;
}

static enum rlx_status set_bool(struct reader *r, const struct option *o,
				const char *value, bool *out)
{
	if (!strcmp(value, "yes") || !strcmp(value, "true") || !strcmp(value, "on"))
		*out = true;
	else if (!strcmp(value, "no") || !strcmp(value, "false") || !strcmp(value, "off"))
		*out = false;
	else
		return bad(r, "%s = '%s' is neither yes nor no", o->name, value);
	return RLX_OK;
}

static const char *keep(struct reader *r, const char *s, size_t n)
{
	const char *p = rlx_bump_str(&r->c->mem, s, n);

	if (!p)
		rlx_fail(r->err, RLX_ENOMEM, "%s: out of memory", r->name);
	return p;
}

static enum rlx_status add_bucket(struct reader *r, const char *s, size_t n)
{
	struct conf_model *m = r->obj;
	const char *rest;
	int64_t v;

	if (!rlx_whole_number(s, &v, &rest) || rest != s + n || v < 1 || v > 1 << 20)
		return bad(r, "bucket '%.*s' is not a number of tokens", (int)n, s);
	if (m->n_bucket == CONF_BUCKETS_MAX)
		return bad(r, "more than %d buckets", CONF_BUCKETS_MAX);
	if (m->n_bucket && m->bucket[m->n_bucket - 1] >= v)
		return bad(r, "buckets must grow: %lld behind %lld", (long long)v,
			   (long long)m->bucket[m->n_bucket - 1]);
	m->bucket[m->n_bucket++] = v;
	return RLX_OK;
}

static enum rlx_status add_item(struct reader *r, const struct option *o, const char *s,
				size_t n)
{
	struct conf_list *l = (struct conf_list *)((char *)r->obj + o->at);
	struct conf_server *sv = r->obj;
	struct rlx_error why = { 0 };

	if (o->form == FORM_BUCKETS)
		return add_bucket(r, s, n);
	if (o->form == FORM_LISTEN) {
		if (sv->n_listen == CONF_LISTEN_MAX)
			return bad(r, "more than %d addresses", CONF_LISTEN_MAX);
		return conf_listen(s, n, o->low, &sv->listen[sv->n_listen++], &why) ?
		       bad(r, "%s", why.text) : RLX_OK;
	}
	if (l->n == o->high)
		return bad(r, "%s: more than %lld", o->name, (long long)o->high);
	l->v[l->n] = keep(r, s, n);
	return l->v[l->n++] ? RLX_OK : RLX_ENOMEM;
}

static enum rlx_status set_list(struct reader *r, const struct option *o, const char *s)
{
	enum rlx_status st = RLX_OK;
	size_t n;

	s += strspn(s, " \t,");
	r->empty = *s ? NULL : o;
	r->empty_line = r->line;
	while (!st && *(s += strspn(s, " \t,"))) {
		n = strcspn(s, " \t,");
		st = add_item(r, o, s, n);
		s += n;
	}
	return st;
}

/*
 * Where a list without items ends: to leave it out means all or a default, which who wrote it,
 * perhaps by a variable that was not set, did not ask for.
 */
static enum rlx_status refuse_empty(struct reader *r)
{
	if (!r->empty)
		return RLX_OK;
	r->line = r->empty_line;
	return bad(r, "%s is empty: name what is meant, or leave the option out", r->empty->name);
}

static enum rlx_status set_option(struct reader *r, const struct option *o,
				  const char *value)
{
	void *to = (char *)r->obj + o->at;

	switch (o->form) {
	case FORM_STR:
		if (!*value)
			return bad(r, "%s is empty", o->name);
		*(const char **)to = keep(r, value, strlen(value));
		return *(const char **)to ? RLX_OK : RLX_ENOMEM;
	case FORM_INT:
	case FORM_TIME:
		return set_number(r, o, value, to);
	case FORM_BOOL:
		return set_bool(r, o, value, to);
	case FORM_WORD:
		return set_word(r, o, value, to);
	case FORM_MODE:
		return set_mode(r, o, value, to);
	default:
		return set_list(r, o, value);
	}
}

static bool good_name(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		      (s[i] >= '0' && s[i] <= '9') || (i && strchr("._-", s[i]))))
			return false;
	return n && n <= NAME_MAX_LEN;
}

/* Sections that have a name: where theirs go in struct conf. */
struct kind {
	const char		*word;
	const struct option	*option;
	size_t			 n_option, at, size, name_at, line_at, count_at;
	unsigned int		 max;
};

#define KIND(w, type, max) \
	{ #w, w##_option, COUNT(w##_option), offsetof(struct conf, w), sizeof(struct type), \
	  offsetof(struct type, name), offsetof(struct type, line), \
	  offsetof(struct conf, n_##w), max }
static const struct kind kinds[] = {
	KIND(model, conf_model, CONF_MODELS_MAX),
	KIND(key, conf_key, CONF_KEYS_MAX),
	KIND(channel, conf_channel, CONF_CHANNELS_MAX),
};
#undef KIND

static enum rlx_status begin_named(struct reader *r, const struct kind *k, const char *name,
				   size_t n)
{
	unsigned int *count = (unsigned int *)((char *)r->c + k->count_at), i;
	char *first, *obj;
	const char *has;

	memcpy(&first, (char *)r->c + k->at, sizeof(first));
	for (i = 0; i < *count; i++) {
		obj = first + i * k->size;
		has = *(const char **)(obj + k->name_at);
		if (!strncmp(has, name, n) && !has[n])
			return bad(r, "[%s %s] stands in line %u already", k->word, has,
				   *(unsigned int *)(obj + k->line_at));
	}
	if (*count == k->max)
		return bad(r, "more than %u %ss", k->max, k->word);
	first = rlx_realloc(first, (*count + 1) * k->size);
	if (!first)
		return rlx_fail(r->err, RLX_ENOMEM, "%s: out of memory", r->name);
	memcpy((char *)r->c + k->at, &first, sizeof(first));
	obj = first + *count * k->size;
	memset(obj, 0, k->size);
	set_defaults(obj, k->option, k->n_option);
	*(unsigned int *)(obj + k->line_at) = r->line;
	has = *(const char **)(obj + k->name_at) = keep(r, name, n);
	if (!has)
		return RLX_ENOMEM;
	++*count;
	r->obj = obj;
	r->option = k->option;
	r->n_option = k->n_option;
	return RLX_OK;
}

/* Told here and not by libinih, which passes no line, no section without options
 * and cuts names. */
static enum rlx_status begin_section(struct reader *r, const char *s, size_t n)
{
	const char *end = memchr(s, ']', n);
	size_t i;

	if (refuse_empty(r))
		return RLX_EPARSE;
	if (!end)
		return bad(r, "a section begins with '[' but has no ']'");
	s++;
	n = (size_t)(end - s);
	for (i = 1; i < (size_t)(r->end - end) && end[i] && strchr(" \t\r", end[i]); i++)
		;
	if (end + i < r->end && end[i] != '\n' && end[i] != ';' && end[i] != '#')
		return bad(r, "something stands behind ']'");
	r->seen = 0;
	if (n == 6 && !memcmp(s, "server", 6)) {
		r->obj = &r->c->server;
		r->option = server_option;
		r->n_option = COUNT(server_option);
		return RLX_OK;
	}
	for (i = 0; i < COUNT(kinds); i++) {
		size_t k = strlen(kinds[i].word);

		if (n > k && !memcmp(s, kinds[i].word, k) && s[k] == ' ' &&
		    good_name(s + k + 1, n - k - 1))
			return begin_named(r, &kinds[i], s + k + 1, n - k - 1);
	}
	return bad(r, "unknown section [%.*s]; there are [server], [model NAME], [key NAME] and "
		   "[channel NAME], a name being at most %d letters, digits, '.', '_', '-'",
		   (int)(n < 60 ? n : 60), s, NAME_MAX_LEN);
}

/* libinih's source of lines: refuses what its buffers would silently cut. */
static char *next_line(char *str, int num, void *ctx)
{
	struct reader *r = ctx;
	const char *nl;
	size_t n, skip;

	if (r->text == r->end || r->err->status)
		return NULL;
	r->line++;
	nl = memchr(r->text, '\n', (size_t)(r->end - r->text));
	n = nl ? (size_t)(nl + 1 - r->text) : (size_t)(r->end - r->text);
	if (n >= (size_t)num) {
		bad(r, "the line has more than %d bytes", num - 2);
		return NULL;
	}
	if (memchr(r->text, 0, n)) {
		bad(r, "the line holds a zero byte");
		return NULL;
	}
	for (skip = 0; skip < n && (r->text[skip] == ' ' || r->text[skip] == '\t'); skip++)
		;
	/* Indented, it goes on with the line before, as an address may: [::1]:8000. */
	if (skip < n && r->text[skip] == '[' && skip && !r->seen) {
		bad(r, "a section begins in the first column");
		return NULL;
	}
	if (!skip && *r->text == '[' && begin_section(r, r->text, n))
		return NULL;
	memcpy(str, r->text, n);
	str[n] = 0;
	r->text += n;
	return str;
}

/* libinih's sink. @section is not looked at: see begin_section(). */
static int take_option(void *ctx, const char *section, const char *name,
		       const char *value)
{
	struct reader *r = ctx;
	size_t i;

	if (r->err->status)
		return 0;
	if (!r->obj) {
		bad(r, "'%s' stands before the first section", name);
		return 0;
	}
	if (r->empty && strcmp(r->empty->name, name) && refuse_empty(r))
		return 0;
	for (i = 0; i < r->n_option; i++) {
		const struct option *o = &r->option[i];

		if (strcmp(o->name, name))
			continue;
		if (r->seen & 1ull << i && o->form < FORM_LIST) {
			bad(r, "%s is given twice in one section", name);
			return 0;
		}
		r->seen |= 1ull << i;
		return !set_option(r, o, value ? value : "");
	}
	bad(r, "no option '%s' in this section; see rlxd.conf(5)", name);
	return 0;
}

static const struct conf_model *find_model(const struct conf *c, const char *name)
{
	unsigned int i;

	for (i = 0; i < c->n_model; i++)
		if (!strcmp(c->model[i].name, name))
			return &c->model[i];
	return NULL;
}

enum rlx_status conf_listen(const char *p, size_t n, bool insecure, struct conf_listen *out,
			    struct rlx_error *err)
{
	const char *text = out->text, *s = text;

	*out = (struct conf_listen){ .insecure = insecure };
	if (n >= sizeof(out->text))
		return rlx_fail(err, RLX_EINVAL, "'%.60s...' is too long for an address", p);
	memcpy(out->text, p, n);
	out->tls = !strncmp(text, "tls:", 4);
	s += out->tls ? 4 : 0;
	if (insecure && out->tls)
		return rlx_fail(err, RLX_EINVAL, "%s: listen_insecure is for plain HTTP; TLS goes "
				"to listen", text);
	if (!strncmp(s, "unix:", 5) && (out->tls || s[5] != '/'))
		return rlx_fail(err, RLX_EINVAL, out->tls ? "%s: TLS is for addresses of the "
				"network" : "%s: an absolute path is needed", text);
	if (!address_parse(s, &out->addr, &out->len))
		return rlx_fail(err, RLX_EINVAL, "'%s' is no address: 127.0.0.1:PORT, [::1]:PORT, "
				"unix:/PATH of at most 107 bytes, or tls:ADDRESS:PORT", text);
	if (!out->tls && !insecure && !address_is_local(&out->addr))
		return rlx_fail(err, RLX_EACCES, "%s is not an address of this machine alone; "
				"write tls:%s, with tls_certificate, tls_key and a [key NAME] "
				"section, or listen on 127.0.0.1:PORT, [::1]:PORT or unix:/PATH; "
				"listen_insecure takes it for plain HTTP", text, text);
	return RLX_OK;
}

static enum rlx_status check_tls(struct reader *r)
{
	const struct conf_server *sv = &r->c->server;
	unsigned int i;

	if (!sv->tls_certificate != !sv->tls_key || (sv->tls_client_ca && !sv->tls_key))
		return bad(r, "tls_certificate and tls_key belong together, and tls_client_ca "
			   "to them");
	for (i = 0; i < sv->n_listen; i++) {
		if (!sv->listen[i].tls)
			continue;
		if (!sv->tls_key)
			return bad(r, "listen = %s needs tls_certificate and tls_key in [server]",
				   sv->listen[i].text);
		if (!r->c->n_key)
			return bad(r, "listen = %s needs a [key NAME] section: without one, whoever "
				   "reaches it could ask everything", sv->listen[i].text);
	}
	return RLX_OK;
}

static enum rlx_status check_models(struct reader *r, const char *kind, const char *name,
				    const struct conf_list *l)
{
	unsigned int i;

	for (i = 0; i < l->n; i++)
		if (!find_model(r->c, l->v[i]))
			return bad(r, "[%s %s] may use model %s, but there is no [model %s]", kind,
				   name, l->v[i], l->v[i]);
	return RLX_OK;
}

static enum rlx_status check_channel(struct reader *r, const struct conf_channel *ch)
{
	const char *a = ch->address;

	if (!a)
		return bad(r, "[channel %s] has no address", ch->name);
	if ((*a != '/' && *a != '@') || !a[1])
		return bad(r, "[channel %s]: address = %s is neither /PATH nor @NAME", ch->name, a);
	if (ch->max_depth & (ch->max_depth - 1))
		return bad(r, "[channel %s]: max_depth = %lld is no power of two", ch->name,
			   (long long)ch->max_depth);
	return RLX_OK;
}

/* What one option alone cannot tell. */
static enum rlx_status check(struct reader *r)
{
	struct conf *c = r->c;
	unsigned int i;
	struct url url;

	for (i = 0; i < c->n_model; i++) {
		struct conf_model *m = &c->model[i];

		r->line = m->line;
		if (!m->path)
			return bad(r, "[model %s] has no path", m->name);
		if (!m->n_bucket) {
			memcpy(m->bucket, default_bucket, sizeof(default_bucket));
			m->n_bucket = COUNT(default_bucket);
		}
	}
	for (i = 0; i < c->n_key; i++) {
		struct conf_key *key = &c->key[i];

		r->line = key->line;
		if (!key->secret_file)
			return bad(r, "[key %s] has no secret_file", key->name);
		if (check_models(r, "key", key->name, &key->models))
			return RLX_EPARSE;
	}
	for (i = 0; i < c->n_channel; i++) {
		struct conf_channel *ch = &c->channel[i];

		r->line = ch->line;
		if (check_models(r, "channel", ch->name, &ch->models) || check_channel(r, ch))
			return RLX_EPARSE;
	}
	if (c->server.otlp_endpoint && !address_url(c->server.otlp_endpoint, "4318", "/", &url))
		return bad(r, "otlp_endpoint = %.100s is no http://HOST:PORT/PATH; a collector "
			   "that wants TLS is reached through one on this machine",
			   c->server.otlp_endpoint);
	if (r->c->server.standby && !r->c->server.fd_store)
		return bad(r, "standby needs an fd store: the next server takes over from it");
	return check_tls(r);
}

enum rlx_status conf_parse(const char *text, size_t len, const char *name,
			   struct conf **out, struct rlx_error *err)
{
	struct rlx_error own = { 0 };
	struct reader r = { .text = text, .end = text + len, .name = name, .err = &own };
	struct conf *c = rlx_calloc(1, sizeof(*c));
	int rc;

	*out = NULL;
	if (!c)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", name);
	r.c = c;
	set_defaults(&c->server, server_option, COUNT(server_option));
	rc = ini_parse_stream(next_line, &r, take_option, &r);
	if (rc && !own.status) {
		r.line = rc > 0 ? (unsigned int)rc : r.line;
		bad(&r, "neither a section, a comment nor NAME = VALUE");
	}
	if (!own.status && !refuse_empty(&r))
		check(&r);
	if (own.status) {
		conf_free(c);
		return rlx_fail(err, own.status, "%s", own.text);
	}
	*out = c;
	return RLX_OK;
}

enum rlx_status conf_check_private(int fd, const char *path, struct rlx_error *err)
{
	struct stat sb;

	if (fstat(fd, &sb))
		return rlx_fail(err, RLX_EIO, "%s: %m", path);
	/* What is no file, as a pipe, is who passed it. */
	if (!S_ISREG(sb.st_mode))
		return RLX_OK;
	if (sb.st_mode & 07)
		return rlx_fail(err, RLX_EACCES, "%s holds a secret, and its mode %03o lets every "
				"user of this machine at it: chmod 600, or 640 and a group of the "
				"server alone", path, (unsigned int)sb.st_mode & 0777);
	if (sb.st_mode & 020 || (sb.st_mode & 040 && sb.st_uid == geteuid() && sb.st_uid))
		log_event(LOG_WARN, "a group can read or write a secret", L_STR("file", path),
			  L_STR("do", "chmod 600"));
	return RLX_OK;
}

/* A whole small file; one byte more than @max means it is too large. */
static enum rlx_status slurp(const char *path, bool secret, char *to, size_t max,
			     size_t *out_len, struct rlx_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum rlx_status st = RLX_OK;
	size_t n = 0;
	ssize_t got = 0;

	if (fd < 0)
		return rlx_fail(err, errno == EACCES ? RLX_EACCES : RLX_ENOENT, "%s: %m", path);
	if (secret)
		st = conf_check_private(fd, path, err);
	while (!st && n < max + 1 && (got = read(fd, to + n, max + 1 - n)) > 0)
		n += (size_t)got;
	close(fd);
	if (st)
		return st;
	if (got < 0)
		return rlx_fail(err, RLX_EIO, "%s: %m", path);
	if (n > max)
		return rlx_fail(err, RLX_ERANGE, "%s has more than %zu bytes", path, max);
	*out_len = n;
	return RLX_OK;
}

static enum rlx_status load_secret(struct conf_key *key, struct rlx_error *err)
{
	char text[CONF_SECRET_MAX + 3];		/* with the end of its line, and one more */
	struct rlx_error why = { 0 };
	enum rlx_status st;
	size_t n = 0, i;

	st = slurp(key->secret_file, true, text, CONF_SECRET_MAX + 2, &n, &why);
	if (st && st != RLX_ERANGE) {
		rlx_fail(err, st, "%s", why.text);
		goto out;
	}
	while (n && strchr("\r\n", text[n - 1]))
		n--;
	if (n < 16 || n > CONF_SECRET_MAX) {
		st = rlx_fail(err, RLX_EINVAL, "%s: [key %s] needs a secret of 16 to %d "
			      "bytes on one line", key->secret_file, key->name, CONF_SECRET_MAX);
		goto out;
	}
	for (i = 0; i < n && !strchr(" \t\r\n\v\f", text[i]); i++)	/* finds a zero, too */
		;
	if (i < n) {
		st = rlx_fail(err, RLX_EINVAL, "%s: a secret is one line without blanks",
			      key->secret_file);
		goto out;
	}
	memcpy(key->secret, text, n);
	key->secret_len = n;
out:
	explicit_bzero(text, sizeof(text));
	return st;
}

enum rlx_status conf_load(const char *path, struct conf **out, struct rlx_error *err)
{
	char *text = rlx_malloc(FILE_MAX + 2);
	enum rlx_status st;
	unsigned int i;
	size_t n;

	*out = NULL;
	if (!text)
		return rlx_fail(err, RLX_ENOMEM, "%s: out of memory", path);
	st = slurp(path, false, text, FILE_MAX, &n, err);
	if (!st)
		st = conf_parse(text, n, path, out, err);
	rlx_free(text);
	for (i = 0; !st && i < (*out)->n_key; i++)
		st = load_secret(&(*out)->key[i], err);
	if (!st && (*out)->server.tls_key)
		st = tls_ctx_new(&(*out)->server, &(*out)->tls, err);
	if (st) {
		conf_free(*out);
		*out = NULL;
	}
	return st;
}

void conf_free(struct conf *c)
{
	if (!c)
		return;
	rlx_bump_fini(&c->mem);
	tls_ctx_free(c->tls);
	if (c->key)
		explicit_bzero(c->key, c->n_key * sizeof(*c->key));
	rlx_free(c->key);
	rlx_free(c->model);
	rlx_free(c->channel);
	rlx_free(c);
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

bool conf_model_equal(const struct conf_model *a, const struct conf_model *b)
{
	return same(a->name, b->name) && same(a->path, b->path) &&
	       same(a->tokenizer, b->tokenizer) && same(a->device, b->device) &&
	       a->kind == b->kind && a->pool == b->pool && a->precision == b->precision &&
	       a->strict_bits == b->strict_bits &&
	       a->threads == b->threads && a->replicas == b->replicas &&
	       a->max_batch == b->max_batch && a->batch_delay_ns == b->batch_delay_ns &&
	       a->max_queue == b->max_queue && a->max_tokens == b->max_tokens &&
	       a->max_shapes == b->max_shapes && a->max_elements == b->max_elements &&
	       a->max_run_memory == b->max_run_memory && a->normalise == b->normalise &&
	       a->truncate == b->truncate && a->batch == b->batch &&
	       a->n_bucket == b->n_bucket &&
	       !memcmp(a->bucket, b->bucket, a->n_bucket * sizeof(*a->bucket));
}

/* The addresses of an option are the same, in whatever order. */
static bool same_listen(const struct conf_server *a, const struct conf_server *b, bool insecure)
{
	unsigned int i, k, n = 0;

	for (i = 0; i < b->n_listen; i++)
		n += b->listen[i].insecure == insecure;
	for (i = 0; i < a->n_listen; i++) {
		if (a->listen[i].insecure != insecure)
			continue;
		for (k = 0; k < b->n_listen; k++)
			if (b->listen[k].insecure == insecure &&
			    !strcmp(a->listen[i].text, b->listen[k].text))
				break;
		if (k == b->n_listen)
			return false;
		n--;
	}
	return !n;
}

static bool same_option(const struct option *o, const struct conf_server *a,
			const struct conf_server *b)
{
	const void *x = (const char *)a + o->at, *y = (const char *)b + o->at;

	switch (o->form) {
	case FORM_STR:
		return same(*(const char *const *)x, *(const char *const *)y);
	case FORM_BOOL:
		return *(const bool *)x == *(const bool *)y;
	case FORM_LISTEN:
		return same_listen(a, b, o->low);
	default:	/* lists of [server] are live */
		return *(const int64_t *)x == *(const int64_t *)y;
	}
}

const char *conf_server_change(const struct conf_server *a, const struct conf_server *b,
			       unsigned int *at)
{
	const struct option *o;

	while (*at < COUNT(server_option)) {
		o = &server_option[(*at)++];
		if (!o->live && !same_option(o, a, b))
			return o->name;
	}
	return NULL;
}

static bool same_list(const struct conf_list *a, const struct conf_list *b)
{
	unsigned int i;

	if (a->n != b->n)
		return false;
	for (i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]))
			return false;
	return true;
}

bool conf_channels_equal(const struct conf *a, const struct conf *b)
{
	unsigned int i;

	if (a->n_channel != b->n_channel)
		return false;
	for (i = 0; i < a->n_channel; i++) {
		const struct conf_channel *x = &a->channel[i], *y = &b->channel[i];

		if (!same(x->name, y->name) || !same(x->address, y->address) ||
		    !same_list(&x->users, &y->users) || !same_list(&x->groups, &y->groups) ||
		    x->mode != y->mode || x->transport != y->transport || x->spin != y->spin ||
		    x->max_clients != y->max_clients ||
		    x->max_user_clients != y->max_user_clients || x->max_depth != y->max_depth ||
		    x->max_memory != y->max_memory)
			return false;
	}
	return true;
}

bool conf_list_allows(const struct conf_list *l, const char *name)
{
	unsigned int i;

	for (i = 0; i < l->n; i++)
		if (!strcmp(l->v[i], name))
			return true;
	return !l->n;
}
