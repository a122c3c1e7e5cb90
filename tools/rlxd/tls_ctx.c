// SPDX-License-Identifier: MIT
/* Certificates and keys out of their files. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/rlx/openssl.h"
#include "tools/rlxd/conf.h"
#include "tools/rlxd/log.h"
#include "tools/rlxd/tls.h"

/* Forward secrecy and authenticated encryption; TLS 1.3 has nothing else. */
static const char ciphers_of_1_2[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			   const unsigned char *in, unsigned int in_len, void *ctx)
{
	static const unsigned char ours[] = "\x08http/1.1";
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* Nobody is there to type one. */
static int no_passphrase(char *to, int size, int writing, void *ctx)
{
	*(bool *)ctx = true;
	return 0;
}

static enum rlx_status can_read(const char *option, const char *path, bool secret,
				struct rlx_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum rlx_status st = RLX_OK;

	if (fd < 0)
		return rlx_fail(err, errno == EACCES ? RLX_EACCES : RLX_ENOENT, "%s = %s: %m",
				option, path);
	if (secret)
		st = conf_check_private(fd, path, err);
	close(fd);
	return st;
}

static const char *reason(void)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	return why ? why : "unknown";
}

static enum rlx_status bad_file(const char *option, const char *path, const char *what,
				struct rlx_error *err)
{
	return rlx_fail(err, RLX_EPARSE, "%s = %s: %s (%s)", option, path, what, reason());
}

static void warn_of_time(SSL_CTX *ctx, const char *path)
{
	const X509 *x = SSL_CTX_get0_certificate(ctx);

	if (X509_cmp_current_time(X509_get0_notAfter(x)) < 0)
		log_event(LOG_WARN, "the certificate has expired, clients will refuse it",
			  L_STR("file", path));
	else if (X509_cmp_current_time(X509_get0_notBefore(x)) > 0)
		log_event(LOG_WARN, "the certificate is not valid yet, clients will refuse it",
			  L_STR("file", path));
}

static enum rlx_status load_own(SSL_CTX *ctx, const struct conf_server *cf, struct rlx_error *err)
{
	enum rlx_status st = can_read("tls_certificate", cf->tls_certificate, false, err);
	bool locked = false;

	if (!st)
		st = can_read("tls_key", cf->tls_key, true, err);
	if (st)
		return st;
	if (SSL_CTX_use_certificate_chain_file(ctx, cf->tls_certificate) != 1)
		return bad_file("tls_certificate", cf->tls_certificate,
				"not the chain of a certificate in PEM form", err);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(ctx, &locked);
	if (SSL_CTX_use_PrivateKey_file(ctx, cf->tls_key, SSL_FILETYPE_PEM) != 1 &&
	    ERR_GET_REASON(ERR_peek_error()) != X509_R_KEY_VALUES_MISMATCH)
		return bad_file("tls_key", cf->tls_key, locked ?
				"needs a passphrase; write it without one, for nobody is there "
				"to type it" : "not a private key in PEM form", err);
	if (SSL_CTX_check_private_key(ctx) != 1)
		return rlx_fail(err, RLX_EINVAL, "tls_key = %s is not the key of tls_certificate = "
				"%s", cf->tls_key, cf->tls_certificate);
	warn_of_time(ctx, cf->tls_certificate);
	return RLX_OK;
}

static enum rlx_status load_client_ca(SSL_CTX *ctx, const char *path, struct rlx_error *err)
{
	enum rlx_status st = can_read("tls_client_ca", path, false, err);
	STACK_OF(X509_NAME) *names;

	if (st)
		return st;
	names = SSL_load_client_CA_file(path);
	if (!names || SSL_CTX_load_verify_file(ctx, path) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return bad_file("tls_client_ca", path, "no certificates in PEM form", err);
	}
	SSL_CTX_set_client_CA_list(ctx, names);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return RLX_OK;
}

enum rlx_status tls_ctx_new(const struct conf_server *cf, SSL_CTX **out, struct rlx_error *err)
{
	enum rlx_status st = openssl_open(err);
	SSL_CTX *ctx;

	*out = NULL;
	if (st)
		return st;
	ctx = SSL_CTX_new(TLS_server_method());
	ERR_clear_error();
	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, ciphers_of_1_2) != 1 ||
	    SSL_CTX_set_session_id_context(ctx, (const unsigned char *)"rlxd", 4) != 1)
		st = rlx_fail(err, RLX_ENOMEM, "OpenSSL: %s", reason());
	if (!st) {
		/* A body's end is told by HTTP: a missing farewell cuts nothing short. */
		SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
				    SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_ENABLE_KTLS);
		SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
				 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
		SSL_CTX_set_read_ahead(ctx, 1);
		SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
		st = load_own(ctx, cf, err);
	}
	if (!st && cf->tls_client_ca)
		st = load_client_ca(ctx, cf->tls_client_ca, err);
	ERR_clear_error();
	if (st) {
		SSL_CTX_free(ctx);
		return st;
	}
	*out = ctx;
	return RLX_OK;
}

void tls_ctx_free(SSL_CTX *ctx)
{
	if (ctx)
		SSL_CTX_free(ctx);
}

int64_t tls_ctx_expiry(const SSL_CTX *ctx)
{
	struct tm tm;

	if (!ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(ctx)), &tm))
		return 0;
	return (int64_t)timegm(&tm);
}
