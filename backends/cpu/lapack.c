// SPDX-License-Identifier: MIT
/* The functions of a LAPACK, and how they are called. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/lapack.h"
#include "base/lapack.h"

static struct {
	struct rlx_lapack	lapack;
	void			(*set_threads)(int n);
	int			(*get_threads)(void);
	bool			there;
	/* calls under way, and the count of threads before them */
	pthread_mutex_t		lock;
	unsigned int		calls;
	int			before;
} lib = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Whoever comes first decides: one call's threads are not worth a wait of another one. */
static void enter(unsigned int threads)
{
	pthread_mutex_lock(&lib.lock);
	if (!lib.calls++ && lib.set_threads) {
		lib.before = lib.get_threads();
		if (lib.before != (int)threads)
			lib.set_threads((int)threads);
	}
	pthread_mutex_unlock(&lib.lock);
}

static void leave(void)
{
	pthread_mutex_lock(&lib.lock);
	if (!--lib.calls && lib.set_threads && lib.get_threads() != lib.before)
		lib.set_threads(lib.before);
	pthread_mutex_unlock(&lib.lock);
}

/* A function by name, whatever its type; false: it is not there. */
static bool find(void *library, const char *type, const char *name, void *to)
{
	char symbol[32];
	void *p;

	snprintf(symbol, sizeof(symbol), "%s%s_", type, name);
	p = dlsym(library, symbol);
	memcpy(to, &p, sizeof(p));
	return p;
}

static bool find_all(void *library)
{
#define FUNCTION(name, args)	&& find(library, TYPE, #name, &PART.name)
#define TYPE	"s"
#define PART	lib.lapack.f32
	bool ok = true RLX_LAPACK_FUNCTIONS(float);
#undef TYPE
#undef PART
#define TYPE	"d"
#define PART	lib.lapack.f64
	return ok RLX_LAPACK_FUNCTIONS(double);
#undef TYPE
#undef PART
#undef FUNCTION
}

static void find_once(void)
{
	void *library = rlx_lapack_library(), *p;

	if (!library || !find_all(library))
		return;
	p = dlsym(library, "openblas_set_num_threads");
	memcpy(&lib.set_threads, &p, sizeof(p));
	p = dlsym(library, "openblas_get_num_threads");
	memcpy(&lib.get_threads, &p, sizeof(p));
	if (!lib.get_threads)
		lib.set_threads = NULL;
	lib.lapack.enter = enter;
	lib.lapack.leave = leave;
	lib.there = true;
}

const struct rlx_lapack *cpu_lapack(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!rlx_lapack_library())	/* or not now */
		return NULL;
	pthread_once(&once, find_once);
	return lib.there ? &lib.lapack : NULL;
}

/* Asked with -1 the functions write to work[0] how much they want, and read no matrix. */
typedef float f32_number;
typedef double f64_number;

#define ASK(name, T)							\
static int64_t name(const struct rlx_lapack_##T *f, uint8_t kind, int m, int n) \
{									\
	const int less = m < n ? m : n, ask = -1;			\
	T##_number want = 0, more = 0, none = 0;			\
	int ints[8], info = 0;						\
									\
	if (kind == RLX_K_QR) {						\
		f->geqrf(&m, &n, &none, &m, &none, &want, &ask, &info);	\
		f->orgqr(&m, &less, &less, &none, &m, &none, &more, &ask, &info); \
	} else if (kind == RLX_K_EIGH) {				\
		f->syevd("V", "L", &n, &none, &n, &none, &want, &ask, ints, &ask, &info, \
			 1, 1);						\
	} else if (kind == RLX_K_SVD) {					\
		f->gesdd("S", &n, &m, &none, &n, &none, &none, &n, &none, &less, &want, \
			 &ask, ints, &info, 1);				\
	}								\
	want = want > more ? want : more;				\
	return info ? -1 : (int64_t)want;				\
}
ASK(ask_f32, f32)
ASK(ask_f64, f64)
#undef ASK

int64_t cpu_lapack_workspace(const struct rlx_lapack *lapack, const struct rlx_k_linalg *a)
{
	const int64_t less = a->m < a->n ? a->m : a->n, most = INT32_MAX / 16;
	int64_t want;

	/* what functions index by products of these is theirs to count in 32 bits */
	if (a->m > most / (a->n + 1) || a->n > most / (a->k + 1) || a->n > most / 16 / (less + 1))
		return -1;
	want = a->type == RLX_F64 ? ask_f64(&lapack->f64, a->kind, (int)a->m, (int)a->n) :
				    ask_f32(&lapack->f32, a->kind, (int)a->m, (int)a->n);
	if (a->type != RLX_F64)
		want += want / 1000000;		/* it has been rounded to f32 */
	return want < 0 || want > INT32_MAX / 2 ? -1 : want + less;
}
