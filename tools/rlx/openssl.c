// SPDX-License-Identifier: MIT
/* Finds OpenSSL's functions: in its library or, OPENSSL_LINKED, in this program. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define OPENSSL_BY_TABLE
#include "tools/rlx/openssl.h"

struct openssl openssl;

#ifdef OPENSSL_LINKED
enum rlx_status openssl_open(struct rlx_error *err)
{
	(void)err;
#define CALL(name) .name = name,
	openssl = (struct openssl){
#include "tools/rlx/openssl.def"
	};
#undef CALL
	return RLX_OK;
}
#else
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[200];	/* written once */

static void load(void)
{
#define CALL(name) { #name, offsetof(struct openssl, name) },
	static const struct {
		const char	*name;
		size_t		 at;
	} calls[] = {
#include "tools/rlx/openssl.def"
	};
#undef CALL
	void *lib = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL), *p;
	unsigned int i;

	for (i = 0; lib && i < sizeof(calls) / sizeof(calls[0]); i++) {
		p = dlsym(lib, calls[i].name);	/* those of libcrypto, too */
		if (!p)
			break;
		memcpy((char *)&openssl + calls[i].at, &p, sizeof(p));
	}
	if (!lib || i < sizeof(calls) / sizeof(calls[0]))
		snprintf(missing, sizeof(missing), "%.190s", dlerror());
}

enum rlx_status openssl_open(struct rlx_error *err)
{
	pthread_once(&once, load);
	return missing[0] ? rlx_fail(err, RLX_ENOSUP, "TLS needs OpenSSL 3: %s", missing) :
			    RLX_OK;
}
#endif
