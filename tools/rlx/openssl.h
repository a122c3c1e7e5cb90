/* SPDX-License-Identifier: MIT */
/*
 * OpenSSL, loaded when it is first needed: a process that speaks no TLS has none of its
 * memory. Calls look as they always do, once openssl_open() has said yes.
 */
#ifndef RLX_TOOLS_OPENSSL_H
#define RLX_TOOLS_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "rlx/status.h"

/* Any thread, any number of times. */
enum rlx_status __rlx_must_check openssl_open(struct rlx_error *err);

#define CALL(name) __typeof__(name) *name;
extern struct openssl {
#include "tools/rlx/openssl.def"
} openssl;
#undef CALL

#ifndef OPENSSL_BY_TABLE
#include "tools/openssl_names.h"	/* #define SSL_new openssl.SSL_new, and so on */
#endif

#endif
