// SPDX-License-Identifier: MIT
/* Who asks and what they may use. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/rlxd/origin.h"
#include "tools/rlxd/region.h"
#include "tools/rlxd/req.h"
#include "tools/rlxd/server.h"

enum { CLIENTS_KEPT = 256 };

/* Differences of all bytes, so that time tells nothing of where the first one is. */
static bool secret_is(const struct conf_key *k, const char candidate[CONF_SECRET_MAX],
		      size_t n)
{
	unsigned char diff = n != k->secret_len;
	size_t i;

	for (i = 0; i < CONF_SECRET_MAX; i++)
		diff |= (unsigned char)(k->secret[i] ^ candidate[i]);
	/* The compiler is not to see that one difference would do. */
	__asm__ volatile("" : "+r"(diff));
	return !diff;
}

static const struct conf_key *find_key(const struct conf *c, struct slice s)
{
	char candidate[CONF_SECRET_MAX] = { 0 };
	const struct conf_key *found = NULL;
	unsigned int i;

	if (!s.n || s.n > CONF_SECRET_MAX)
		return NULL;
	memcpy(candidate, s.p, s.n);
	for (i = 0; i < c->n_key; i++)
		if (secret_is(&c->key[i], candidate, s.n))
			found = &c->key[i];
	explicit_bzero(candidate, sizeof(candidate));
	return found;
}

static struct slice secret_of(const struct http_head *h)
{
	struct slice a = h->authorization;

	if (a.n > 7 && !strncasecmp(a.p, "bearer ", 7)) {
		for (a.p += 7, a.n -= 7; a.n && *a.p == ' '; a.p++)
			a.n--;
		return a;
	}
	return h->api_key;
}

/* With the server's lock held. Clients without requests are dropped now and then. */
static struct client *client_get(struct server *s, const char *name, int64_t max_rows)
{
	struct client *c, **p;

	for (c = s->clients; c; c = c->next)
		if (!strcmp(c->name, name))
			break;
	if (!c && s->n_client >= CLIENTS_KEPT)
		for (p = &s->clients; (c = *p); ) {
			if (atomic_load(&c->refs)) {
				p = &c->next;
				continue;
			}
			*p = c->next;
			rlx_free(c);
			s->n_client--;
		}
	if (!c) {
		c = rlx_calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		snprintf(c->name, sizeof(c->name), "%s", name);
		c->next = s->clients;
		s->clients = c;
		s->n_client++;
	}
	c->max_rows = max_rows;
	atomic_fetch_add(&c->refs, 1);
	return c;
}

/*
 * What a request may use and see: without keys everything. Where there are some, one that
 * has none, as for metrics, is told of no model, unless it comes from who runs the server.
 */
static void set_rights(struct req *r, const struct conf *c, const struct conf_key *key)
{
	unsigned int i;

	r->sees_all = key ? !key->models.n :
		      !c->n_key || (r->uid >= 0 && (!r->uid || (uid_t)r->uid == geteuid()));
	r->may_use = r->sees_all ? ~0ull : 0;
	for (i = 0; key && i < r->set->n; i++)
		if (conf_list_allows(&key->models, r->set->model[i]->name))
			r->may_use |= 1ull << i;
}

/*
 * Who shows a key, or had our certificate checked, or came by a unix socket, is no page
 * that was told a name of its own for our address; and health tells a page nothing. With
 * s->lock held.
 */
static bool is_for_us(const struct server *s, const struct req *r, const struct http_head *h)
{
	const struct listener *l = r->conn->listener;

	return l->tls || l->is_unix || r->route->open == OPEN_ALL ||
	       origin_host_is_ours(h->host, &s->conf->server.hosts);
}

bool server_admit(struct req *r, const struct http_head *h, bool open)
{
	struct server *s = r->loop->server;
	const struct conf_key *key = NULL;
	char name[64];
	bool ok, ours;

	pthread_mutex_lock(&s->lock);
	/* Whoever comes by TLS needs one, also after a reload that names none. */
	ok = open || (!s->conf->n_key && !r->conn->listener->tls);
	if (s->conf->n_key)
		key = find_key(s->conf, secret_of(h));
	ok |= key != NULL;
	ours = key || is_for_us(s, r, h);
	if (ok && ours) {
		if (key)
			snprintf(name, sizeof(name), "key:%s", key->name);
		r->client = client_get(s, key ? name : r->conn->client, key ? key->max_rows : 0);
		r->set = model_set_get(s->set);
		set_rights(r, s->conf, key);
	}
	pthread_mutex_unlock(&s->lock);
	if (!ok) {
		req_fail(r, 401, h->authorization.n || h->api_key.n ?
			 "this key is not known here" :
			 "a key is needed: send Authorization: Bearer KEY");
		return false;
	}
	if (!ours) {
		req_fail(r, 403, "'%.*s' is not known to be a name of this server; ask by its "
			 "address or localhost, or name it with hosts in rlxd.conf",
			 (int)(h->host.n < 100 ? h->host.n : 100), h->host.p);
		return false;
	}
	if (!r->client) {
		req_fail(r, 503, "out of memory; try again later");
		return false;
	}
	return true;
}

bool server_may_use(const struct req *r, const char *name)
{
	unsigned int i;

	for (i = 0; i < r->set->n; i++)
		if (!strcmp(r->set->model[i]->name, name))
			return r->may_use >> i & 1;
	return false;
}

struct client *server_client(struct server *s, const char *name)
{
	struct client *c;

	pthread_mutex_lock(&s->lock);
	c = client_get(s, name, 0);
	pthread_mutex_unlock(&s->lock);
	return c;
}

void client_of_address(const struct sockaddr_storage *a, unsigned int bits, char *name,
		       size_t size)
{
	const struct in_addr *v4 = a->ss_family == AF_INET ?
				   &((const struct sockaddr_in *)a)->sin_addr : NULL;
	struct in6_addr v6 = ((const struct sockaddr_in6 *)a)->sin6_addr;
	unsigned int i;
	size_t n;

	if (!v4 && a->ss_family != AF_INET6) {
		snprintf(name, size, "unknown");
		return;
	}
	if (!v4 && IN6_IS_ADDR_V4MAPPED(&v6))
		v4 = (const struct in_addr *)&v6.s6_addr[12];
	if (v4) {
		inet_ntop(AF_INET, v4, name, (socklen_t)size);
		return;
	}
	/* Neighbours of a link have theirs in one prefix. */
	if (IN6_IS_ADDR_LINKLOCAL(&v6))
		bits = 128;
	for (i = bits / 8; i < 16; i++)
		v6.s6_addr[i] &= i > bits / 8 ? 0 : (uint8_t)(0xff00 >> bits % 8);
	inet_ntop(AF_INET6, &v6, name, (socklen_t)size);
	n = strlen(name);
	if (bits < 128)
		snprintf(name + n, size - n, "/%u", bits);
}

const char *client_key(const struct client *c)
{
	return c && !strncmp(c->name, "key:", 4) ? c->name + 4 : "";
}

void client_put(struct client *c)
{
	if (c)
		atomic_fetch_sub(&c->refs, 1);
}

/* With the server's lock held. NULL: a reload took the section away. */
static const struct conf_channel *find_channel(const struct conf *c, const char *name)
{
	unsigned int i;

	for (i = 0; i < c->n_channel; i++)
		if (!strcmp(c->channel[i].name, name))
			return &c->channel[i];
	return NULL;
}

struct model *server_channel_model(struct server *s, const char *channel, struct client *c,
				   const char *name, unsigned int index, uint64_t *out_n)
{
	const struct conf_channel *ch;
	struct model *found = NULL, *m;
	unsigned int i, n = 0;

	pthread_mutex_lock(&s->lock);
	ch = find_channel(s->conf, channel);
	if (ch)
		c->max_rows = ch->max_rows;
	for (i = 0; ch && i < s->set->n && (!found || out_n); i++) {
		m = s->set->model[i];
		if ((*name && !out_n && strcmp(m->name, name)) ||
		    !conf_list_allows(&ch->models, m->name))
			continue;
		if (!found && (*name ? !strcmp(m->name, name) : n == index))
			found = model_get(m);
		n++;
	}
	if (out_n)
		*out_n = n;
	pthread_mutex_unlock(&s->lock);
	return found;
}

void server_put(struct req *r)
{
	client_put(r->client);
	model_set_put(r->set);
	r->client = NULL;
	r->set = NULL;
}

/* Can a region's owner still come? Nobody without a key, if there are keys. */
static bool has_key(void *ctx, const char *name)
{
	const struct conf *c = ctx;
	unsigned int i;

	for (i = 0; i < c->n_key; i++)
		if (!strcmp(c->key[i].name, name))
			return true;
	return !*name && !c->n_key;
}

void server_swap(struct server *s, struct conf *c, struct model_set *set)
{
	struct model_set *old_set;
	struct conf *old;

	pthread_mutex_lock(&s->lock);
	old = s->conf;
	old_set = s->set;
	s->conf = c;
	s->set = set;
	pthread_mutex_unlock(&s->lock);
	conf_free(old);
	model_set_put(old_set);
	region_prune(has_key, c);
}
