/* SPDX-License-Identifier: MIT */
/* What rlxd.conf says: the server, its models, and who may use them. */
#ifndef RLXD_CONF_H
#define RLXD_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bump.h"
#include "rlx/compile.h"

enum {
	CONF_LISTEN_MAX	 = 16,
	CONF_MODELS_MAX	 = 64,
	CONF_KEYS_MAX	 = 256,
	CONF_CHANNELS_MAX = 16,
	CONF_LIST_MAX	 = 64,
	CONF_BUCKETS_MAX = 16,
	CONF_SECRET_MAX	 = 128,
};

enum conf_kind { CONF_KIND_AUTO, CONF_KIND_BERT, CONF_KIND_ONNX };

enum conf_access { CONF_ACCESS_NONE, CONF_ACCESS_ERRORS, CONF_ACCESS_ALL };

/* Who may name POSIX shared memory: nobody, peers of a unix socket whose own it
 * is, or every peer of this machine. */
enum conf_shm { CONF_SHM_OFF, CONF_SHM_UNIX, CONF_SHM_LOCAL };

struct conf_list {
	const char	*v[CONF_LIST_MAX];
	unsigned int	 n;
};

struct conf_model {
	const char	*name, *path, *tokenizer, *device;
	int64_t		 kind, pool, precision;
	bool		 strict_bits;
	int64_t		 threads, replicas, max_batch, batch_delay_ns, max_queue;
	int64_t		 max_tokens;		/* 0: as the model's files say */
	int64_t		 max_shapes;
	int64_t		 max_elements;		/* of one run, or row; 0: any */
	int64_t		 max_run_memory;	/* of one run */
	bool		 normalise, truncate, batch;
	int64_t		 bucket[CONF_BUCKETS_MAX];
	unsigned int	 n_bucket;
	unsigned int	 line;
};

struct conf_key {
	const char	*name, *secret_file;
	char		 secret[CONF_SECRET_MAX];	/* zeros behind it */
	size_t		 secret_len;
	struct conf_list models;			/* none: all */
	int64_t		 max_rows;
	unsigned int	 line;
};

/* Spinning of a channel's thread while nothing comes. */
enum conf_spin { CONF_SPIN_AUTO, CONF_SPIN_NEVER, CONF_SPIN_ALWAYS };

enum conf_transport { CONF_TRANSPORT_AUTO, CONF_TRANSPORT_SHM, CONF_TRANSPORT_KMOD };

struct conf_channel {
	const char	*name, *address;
	struct conf_list users, groups, models;		/* no models: all */
	int64_t		 mode;		/* 0: as users and groups need it */
	int64_t		 transport, spin;
	int64_t		 max_clients, max_user_clients, max_depth, max_memory, max_rows;
	unsigned int	 line;
};

/* Without pointers: what a server copied outlives the configuration. */
struct conf_listen {
	char			 text[120];
	struct sockaddr_storage	 addr;
	socklen_t		 len;
	bool			 tls, insecure;	/* insecure: plain, wherever it can be reached */
};

struct conf_server {
	struct conf_listen listen[CONF_LISTEN_MAX];
	unsigned int	 n_listen;
	const char	*tls_certificate, *tls_key, *tls_client_ca, *fd_store;
	const char	*otlp_endpoint;
	struct conf_list hosts, cors_origins;	/* as in conf.server: a reload changes them */
	int64_t		 threads, max_connections, max_header, max_body, max_memory;
	int64_t		 header_timeout_ns, body_timeout_ns, idle_timeout_ns;
	int64_t		 request_timeout_ns, send_timeout_ns, drain_timeout_ns;
	int64_t		 inline_ns;
	int64_t		 log_level, log_json, shared_memory, engine;
	_Atomic(int64_t) access_log;	/* a reload changes it below who asks */
	int64_t		 max_regions, max_region_bytes;	/* of shared memory, of one owner */
	int64_t		 ipv6_prefix;	/* bits of an address by which clients differ */
	bool		 standby;
};

struct conf {
	struct conf_server	 server;
	struct conf_model	 *model;
	struct conf_key		 *key;
	struct conf_channel	 *channel;
	unsigned int		 n_model, n_key, n_channel;
	struct ssl_ctx_st	*tls;		/* NULL: there is no certificate */
	struct rlx_bump		 mem;
};

/*
 * Read a file; secrets and certificates are read from the files it names. On failure @err names
 * file, line, what is wrong and what would be right.
 */
enum rlx_status __rlx_must_check
conf_load(const char *path, struct conf **out, struct rlx_error *err);

/* The same from memory; secrets are not read, so that it touches no file. */
enum rlx_status __rlx_must_check
conf_parse(const char *text, size_t len, const char *name, struct conf **out,
	   struct rlx_error *err);
void conf_free(struct conf *c);

/*
 * "127.0.0.1:8000", "[::1]:8000", "localhost:8000", "unix:/path", or "tls:" and an
 * address. Without TLS others than this machine's own are refused, unless @insecure:
 * whoever can reach them could read and ask everything.
 */
enum rlx_status __rlx_must_check
conf_listen(const char *p, size_t n, bool insecure, struct conf_listen *out,
	    struct rlx_error *err);
/*
 * A secret is in file @path, which @fd is. RLX_EACCES if everybody can read or write it; a
 * group that can is told in the log, unless it is how we can: another user's file, of a
 * group of ours.
 */
enum rlx_status __rlx_must_check
conf_check_private(int fd, const char *path, struct rlx_error *err);

/* True if two sections would give the same model. */
bool conf_model_equal(const struct conf_model *a, const struct conf_model *b);
/*
 * The next option of [server] from *@at on that differs and that only a start can change, *@at
 * then being what is behind it; NULL: there is no other one.
 */
const char *conf_server_change(const struct conf_server *a, const struct conf_server *b,
			       unsigned int *at);
/* True if the same channels stand in both, but for what they allow their clients. */
bool conf_channels_equal(const struct conf *a, const struct conf *b);
/* Does a list of models name this one? One that names none names all. */
bool conf_list_allows(const struct conf_list *l, const char *name);

#endif
