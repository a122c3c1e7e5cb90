// SPDX-License-Identifier: MIT
// The emulator's compiler: NVRTC's calls, answered by the host's C++ compiler.
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EMU_API		__attribute__((visibility("default")))

enum {
	RTC_OK = 0,
	RTC_OUT_OF_MEMORY = 1,
	RTC_INVALID_INPUT = 3,
	RTC_INVALID_PROGRAM = 4,
	RTC_INVALID_OPTION = 5,
	RTC_COMPILATION = 6,
	RTC_INTERNAL = 11,
};

/* Tells this library from the real one. */
EMU_API extern const int rlx_emulated;
const int rlx_emulated = 1;

struct program {
	char		*source, *log;
	int		n;		/* headers */
	char		**text, **name;
	char		*image;
	uint64_t	bytes;
};

struct head {		/* as module.c reads it */
	char		magic[8];
	uint64_t	bytes;
};

static char *contents(const char *path, uint64_t *bytes)
{
	struct stat st;
	char *p = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st))
		p = malloc((size_t)st.st_size + 1);
	for (off_t at = 0; p && at < st.st_size;) {
		ssize_t n = read(fd, p + at, (size_t)(st.st_size - at));

		if (n <= 0) {
			free(p);
			p = NULL;
			break;
		}
		at += n;
	}
	close(fd);
	if (p) {
		p[st.st_size] = 0;
		*bytes = (uint64_t)st.st_size;
	}
	return p;
}

/* Write @text to dir/name, making folders on the way. */
static bool write_file(const char *dir, const char *name, const char *text)
{
	char path[4096];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (char *s = strchr(path + strlen(dir) + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = 0;
		mkdir(path, 0700);
		*s = '/';
	}
	f = fopen(path, "we");
	if (!f)
		return false;
	ok = fputs(text, f) >= 0;
	return !fclose(f) && ok;
}

static int unlink_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	return remove(path);
}

static bool begins(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* An option of ours for one of NVRTC's: NULL none, "" not known. */
static const char *option(const char *o)
{
	if (begins(o, "-D") || begins(o, "-U") || begins(o, "-std=c++"))
		return o;
	if (begins(o, "--std=c++") || begins(o, "--define-macro="))
		return begins(o, "--std") ? o + 1 : "";
	if (!strcmp(o, "--fmad=false") || !strcmp(o, "-fmad=false"))
		return "-ffp-contract=off";
	if (begins(o, "--gpu-architecture=sm_") || begins(o, "-arch=sm_") ||
	    begins(o, "--gpu-architecture=compute_") || begins(o, "-arch=compute_") ||
	    !strcmp(o, "-default-device") || !strcmp(o, "--device-as-default-execution-space") ||
	    !strcmp(o, "-lineinfo") || !strcmp(o, "--generate-line-info") ||
	    begins(o, "--fmad=") || begins(o, "-fmad=") || begins(o, "--maxrregcount="))
		return NULL;
	return "";
}

static bool fast(void)
{
	const char *s = getenv("RLX_EMU_FAST");

	return s && *s && *s != '0';
}

static uint64_t mix(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return (h ^ 0xff) * 0x100000001b3u;
}

/* Where images are kept, and headers. */
static const char *cache_dir(char *own, size_t room)
{
	const char *dir = getenv("RLX_EMU_CACHE"), *tmp = getenv("TMPDIR");

	if (!dir || !*dir) {
		snprintf(own, room, "%s/rlx-emu-%u", tmp ? tmp : "/tmp", (unsigned int)getuid());
		dir = own;
	}
	mkdir(dir, 0700);
	return dir;
}

static void hash_headers(const struct program *p, uint64_t h[2])
{
	for (int k = 0; k < 2; k++) {
		h[k] = mix(k ? 0x84222325cbf29ce4u : 0xcbf29ce484222325u, "headers");
		for (int i = 0; i < p->n; i++)
			h[k] = mix(mix(h[k], p->name[i]), p->text[i]);
	}
}

/* What stands behind the last slash of @path's @n bytes. */
static const char *last_part(const char *path, size_t n)
{
	const char *slash = memrchr(path, '/', n);

	return slash ? slash + 1 : path;
}

/* Might an include of what stands up to @end, whatever the folder, mean header @name? */
static bool may_mean(const char *name, const char *say, const char *end)
{
	const char *last = last_part(say, (size_t)(end - say));
	size_t n = (size_t)(end - last);

	name = last_part(name, strlen(name));
	return strlen(name) == n && !memcmp(name, last, n);
}

/*
 * Set @read[k] for the headers that @text may include, and those that they do, whatever stands
 * around: more are no harm. False: it includes by other means than a name.
 */
static bool find_read(const struct program *p, const char *text, bool *read)
{
	const char *begin = text, *hash, *end;

	while ((text = strstr(text, "include"))) {
		hash = text;
		text += strlen("include");
		while (hash > begin && (hash[-1] == ' ' || hash[-1] == '\t'))
			hash--;
		if (hash == begin || hash[-1] != '#')
			continue;
		text += strspn(text, " \t");
		end = *text == '"' || *text == '<' ? strchr(text + 1, *text == '"' ? '"' : '>') :
						      NULL;
		if (!end)
			return false;
		for (int k = 0; k < p->n; k++) {
			if (read[k] || !may_mean(p->name[k], text + 1, end))
				continue;
			read[k] = true;
			if (!find_read(p, p->text[k], read))
				return false;
		}
	}
	return true;
}

/* Of the headers that the source reads, so that a change of another leaves its image as it is. */
static void hash_read(const struct program *p, uint64_t h[2])
{
	bool *read = calloc((size_t)p->n + 1, sizeof(*read));

	if (!read || !find_read(p, p->source, read)) {
		hash_headers(p, h);
		free(read);
		return;
	}
	for (int k = 0; k < 2; k++) {
		h[k] = mix(k ? 0x84222325cbf29ce4u : 0xcbf29ce484222325u, "read");
		for (int i = 0; i < p->n; i++)
			if (read[i])
				h[k] = mix(mix(h[k], p->name[i]), p->text[i]);
	}
	free(read);
}

static const char *compiler(void)
{
	const char *cxx = getenv("RLX_EMU_CXX");

	return cxx && *cxx ? cxx : "g++";
}

/* What programs are compiled with besides their own options, with checks and without. */
static const char *const how_checked[] = { "-O1", "-fsanitize=thread",
	"--param=tsan-instrument-func-entry-exit=0", NULL };
static const char *const how_fast[] = { "-O2", NULL };
static const char *const how_all[] = { "-march=native", "-fPIC", "-w", "-fno-strict-aliasing",
	"-fno-math-errno", "-fno-exceptions", "-fno-rtti", "-nostdinc", "-DRLX_EMU=1", "-x", "c++",
	"-c", NULL };

static const char *const *how(void)
{
	return fast() ? how_fast : how_checked;
}

static uint64_t mix_all(uint64_t h, const char *const *list)
{
	while (*list)
		h = mix(h, *list++);
	return h;
}

/* Which compiler it is: an image of another, or of one since renewed, is not the same. */
static void compiler_text(char *text, size_t room)
{
	const char *cxx = compiler(), *dir = strchr(cxx, '/') ? NULL : getenv("PATH");
	char path[4096];
	struct stat st;
	int found;

	snprintf(path, sizeof(path), "%s", cxx);
	found = !stat(path, &st) && !dir;
	for (; dir && !found; dir = strchr(dir, ':') ? strchr(dir, ':') + 1 : NULL) {
		snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(dir, ":"), dir, cxx);
		found = !stat(path, &st);
	}
	snprintf(text, room, "%s %lld %lld", path, found ? (long long)st.st_size : 0,
		 found ? (long long)st.st_mtime : 0);
}

static void cache_path(const struct program *p, int n, const char *const *opt,
		       char *path, size_t room)
{
	char own[512], by[4200];
	uint64_t h[2];

	compiler_text(by, sizeof(by));
	hash_read(p, h);
	for (int k = 0; k < 2; k++) {
		h[k] = mix(mix_all(mix_all(h[k], how()), how_all), by);
		h[k] = mix(h[k], p->source);
		for (int i = 0; i < n; i++)
			h[k] = mix(h[k], opt[i]);
	}
	snprintf(path, room, "%s/%016llx%016llx", cache_dir(own, sizeof(own)),
		 (unsigned long long)h[0], (unsigned long long)h[1]);
}

/*
 * A folder with the program's headers: all have the same hundred, which take as long to write as
 * a small kernel to compile. It appears whole, whoever else makes it.
 */
static bool header_dir(const struct program *p, char *path, size_t room)
{
	char own[512], dir[4096];
	uint64_t h[2];
	bool ok = true;

	hash_headers(p, h);
	snprintf(path, room, "%s/headers-%016llx%016llx", cache_dir(own, sizeof(own)),
		 (unsigned long long)h[0], (unsigned long long)h[1]);
	if (!access(path, F_OK))
		return true;
	snprintf(dir, sizeof(dir), "%s/XXXXXX", cache_dir(own, sizeof(own)));
	if (!mkdtemp(dir))
		return false;
	for (int i = 0; i < p->n && ok; i++)
		ok = write_file(dir, p->name[i], p->text[i]);
	if (ok && !rename(dir, path))
		return true;
	nftw(dir, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
	return ok && !access(path, F_OK);
}

/*
 * Run the compiler; its words go to @log. Not by fork(), which would copy the page tables of a
 * process that has shadow memory for all that it checks.
 */
static int run(char **argv, const char *log)
{
	posix_spawn_file_actions_t to;
	int status, err;
	pid_t pid;

	if (posix_spawn_file_actions_init(&to))
		return -1;
	err = posix_spawn_file_actions_addopen(&to, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!err)
		err = posix_spawn_file_actions_adddup2(&to, 1, 2);
	if (!err)
		err = posix_spawnp(&pid, argv[0], &to, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&to);
	if (err)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int compile(struct program *p, const char *dir, const char *headers, int n,
		   const char *const *opt)
{
	char src[512], obj[512], so[512], log[512], inc[4100], *argv[128];
	const char *cxx = compiler();
	uint64_t bytes;
	int a = 0, err;

	snprintf(src, sizeof(src), "%s/program.cu", dir);
	snprintf(obj, sizeof(obj), "%s/program.o", dir);
	snprintf(so, sizeof(so), "%s/program.so", dir);
	snprintf(log, sizeof(log), "%s/program.log", dir);
	snprintf(inc, sizeof(inc), "-I%s", headers);
	argv[a++] = (char *)cxx;
	argv[a++] = "-std=c++17";
	for (int i = 0; i < n && a < 100; i++) {
		const char *o = option(opt[i]);

		if (o && !*o) {
			free(p->log);
			p->log = malloc(strlen(opt[i]) + 64);
			if (p->log)
				sprintf(p->log, "the emulator does not know option %s\n",
					opt[i]);
			return RTC_INVALID_OPTION;
		}
		if (o)
			argv[a++] = (char *)o;
	}
	for (const char *const *o = how(); *o; o++)
		argv[a++] = (char *)*o;
	for (const char *const *o = how_all; *o; o++)
		argv[a++] = (char *)*o;
	argv[a++] = inc;
	argv[a++] = src;
	argv[a++] = "-o";
	argv[a++] = obj;
	argv[a] = NULL;
	err = run(argv, log);
	if (!err) {
		/* the calls of the checks are the emulator's, not a sanitizer's */
		char *link[] = { (char *)cxx, "-shared", "-nostdlib", obj, "-o", so,
				 "-lm", "-lgcc", NULL };

		err = run(link, log);
	}
	free(p->log);
	p->log = contents(log, &bytes);
	if (err)
		return RTC_COMPILATION;
	p->image = contents(so, &p->bytes);
	return p->image ? RTC_OK : RTC_INTERNAL;
}

EMU_API int nvrtcVersion(int *major, int *minor);
EMU_API int nvrtcVersion(int *major, int *minor)
{
	*major = 12;
	*minor = fast() ? 8 : 9;	/* lest caches give one's images to the other */
	return 0;
}

EMU_API int nvrtcDestroyProgram(struct program **prog);
EMU_API int nvrtcDestroyProgram(struct program **prog)
{
	struct program *p = *prog;

	if (!p)
		return RTC_INVALID_PROGRAM;
	for (int i = 0; i < p->n; i++) {
		free(p->text[i]);
		free(p->name[i]);
	}
	free(p->text);
	free(p->name);
	free(p->source);
	free(p->log);
	free(p->image);
	free(p);
	*prog = NULL;
	return 0;
}

EMU_API int nvrtcCreateProgram(struct program **out, const char *source,
			       const char *name, int n, const char *const *text,
			       const char *const *names);
EMU_API int nvrtcCreateProgram(struct program **out, const char *source,
			       const char *name, int n, const char *const *text,
			       const char *const *names)
{
	struct program *p = calloc(1, sizeof(*p));

	if (!p || !source || n < 0)
		goto out_free;
	p->source = strdup(source);
	p->text = calloc((size_t)n + 1, sizeof(*p->text));
	p->name = calloc((size_t)n + 1, sizeof(*p->name));
	if (!p->source || !p->text || !p->name)
		goto out_free;
	for (p->n = 0; p->n < n; p->n++) {
		p->text[p->n] = strdup(text[p->n]);
		p->name[p->n] = strdup(names[p->n]);
		if (!p->text[p->n] || !p->name[p->n]) {
			p->n++;
			goto out_free;
		}
	}
	*out = p;
	return 0;

out_free:
	if (p)
		nvrtcDestroyProgram(&p);
	return source && n >= 0 ? RTC_OUT_OF_MEMORY : RTC_INVALID_INPUT;
}

/* Put the new image into the cache whole, whoever else does the same. */
static void cache_store(const struct program *p, const char *path)
{
	struct head head = { "RLXEMU1", p->bytes };
	char tmp[4200];
	FILE *f;
	bool ok;

	snprintf(tmp, sizeof(tmp), "%s.%d", path, (int)getpid());
	f = fopen(tmp, "we");
	if (!f)
		return;
	ok = fwrite(&head, sizeof(head), 1, f) == 1 &&
	     fwrite(p->image, p->bytes, 1, f) == 1;
	if (fclose(f) || !ok || rename(tmp, path))
		unlink(tmp);
}

static bool cache_load(struct program *p, const char *path)
{
	uint64_t bytes;
	char *all = contents(path, &bytes);
	struct head head;

	if (!all)
		return false;
	if (bytes > sizeof(head)) {
		memcpy(&head, all, sizeof(head));
		if (!memcmp(head.magic, "RLXEMU1", 8) &&
		    head.bytes == bytes - sizeof(head)) {
			memmove(all, all + sizeof(head), head.bytes);
			p->image = all;
			p->bytes = head.bytes;
			return true;
		}
	}
	free(all);
	return false;
}

/* How many programs were being compiled at the same time at most. */
EMU_API extern int emu_most_at_once;
int emu_most_at_once;

static void linger(void)
{
	static int now;
	const char *ms = getenv("RLX_EMU_COMPILE_MS");
	int n = __atomic_add_fetch(&now, 1, __ATOMIC_SEQ_CST);

	if (n > __atomic_load_n(&emu_most_at_once, __ATOMIC_SEQ_CST))
		__atomic_store_n(&emu_most_at_once, n, __ATOMIC_SEQ_CST);
	if (ms)
		usleep((useconds_t)atoi(ms) * 1000);
	__atomic_sub_fetch(&now, 1, __ATOMIC_SEQ_CST);
}

EMU_API int nvrtcCompileProgram(struct program *p, int n, const char *const *opt);
EMU_API int nvrtcCompileProgram(struct program *p, int n, const char *const *opt)
{
	char dir[] = "/tmp/rlx-emu-XXXXXX", path[4096], headers[4096];
	bool ok;
	int err;

	if (!p)
		return RTC_INVALID_PROGRAM;
	linger();
	cache_path(p, n, opt, path, sizeof(path));
	if (cache_load(p, path))
		return RTC_OK;
	if (!mkdtemp(dir))
		return RTC_INTERNAL;
	ok = header_dir(p, headers, sizeof(headers)) && write_file(dir, "program.cu", p->source);
	err = ok ? compile(p, dir, headers, n, opt) : RTC_INTERNAL;
	nftw(dir, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
	if (!err)
		cache_store(p, path);
	return err;
}

EMU_API int nvrtcGetProgramLogSize(struct program *p, size_t *out);
EMU_API int nvrtcGetProgramLogSize(struct program *p, size_t *out)
{
	*out = p->log ? strlen(p->log) + 1 : 1;
	return 0;
}

EMU_API int nvrtcGetProgramLog(struct program *p, char *out);
EMU_API int nvrtcGetProgramLog(struct program *p, char *out)
{
	strcpy(out, p->log ? p->log : "");
	return 0;
}

EMU_API int nvrtcGetCUBINSize(struct program *p, size_t *out);
EMU_API int nvrtcGetCUBINSize(struct program *p, size_t *out)
{
	if (!p->image)
		return RTC_INVALID_PROGRAM;
	*out = sizeof(struct head) + p->bytes;
	return 0;
}

EMU_API int nvrtcGetCUBIN(struct program *p, char *out);
EMU_API int nvrtcGetCUBIN(struct program *p, char *out)
{
	struct head head = { "RLXEMU1", p->bytes };

	if (!p->image)
		return RTC_INVALID_PROGRAM;
	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), p->image, p->bytes);
	return 0;
}

EMU_API int nvrtcGetPTXSize(struct program *p, size_t *out);
EMU_API int nvrtcGetPTXSize(struct program *p, size_t *out)
{
	return nvrtcGetCUBINSize(p, out);
}

EMU_API int nvrtcGetPTX(struct program *p, char *out);
EMU_API int nvrtcGetPTX(struct program *p, char *out)
{
	return nvrtcGetCUBIN(p, out);
}

EMU_API const char *nvrtcGetErrorString(int err);
EMU_API const char *nvrtcGetErrorString(int err)
{
	switch (err) {
	case RTC_OK:
		return "NVRTC_SUCCESS";
	case RTC_OUT_OF_MEMORY:
		return "NVRTC_ERROR_OUT_OF_MEMORY";
	case RTC_INVALID_INPUT:
		return "NVRTC_ERROR_INVALID_INPUT";
	case RTC_INVALID_PROGRAM:
		return "NVRTC_ERROR_INVALID_PROGRAM";
	case RTC_INVALID_OPTION:
		return "NVRTC_ERROR_INVALID_OPTION";
	case RTC_COMPILATION:
		return "NVRTC_ERROR_COMPILATION";
	default:
		return "NVRTC_ERROR_INTERNAL_ERROR";
	}
}
