// SPDX-License-Identifier: MIT
/* Running ONNX backend test cases; see onnx_case.h. */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/onnx/build.h"
#include "model/model.h"
#include "ir/element.h"
#include "selftests/lib/onnx_case.h"
#include "selftests/lib/rlx_test.h"

enum { MAX_IO = 64, LIMIT_SECONDS = 60 };

/* What is being compared, for messages. */
struct checker {
	const char	*what;
	double		 rtol, atol;
};

bool onnx_tensor_spec(const struct onnx_tensor *t, const char *name, struct rlx_spec *out)
{
	size_t d;

	*out = (struct rlx_spec){ .kind = RLX_SPEC_TENSOR, .name = name };
	if (t->ndims > RLX_MAX_RANK)
		return false;
	out->type.dtype = onnx_dtype_to_rlx(t->dtype);
	out->type.rank = (uint32_t)t->ndims;
	for (d = 0; d < t->ndims; d++)
		out->type.dim[d] = t->dims[d];
	out->data = t->data ? t->data : "";
	if (t->strings || t->dtype == ONNX_STRING) {
		out->kind = RLX_SPEC_STRINGS;
		out->str = t->strings;
		out->type.dtype = RLX_NODTYPE;
		out->data = NULL;
	}
	return out->type.dtype || out->kind == RLX_SPEC_STRINGS;
}

static bool spec_of_sequence(const struct onnx_seq_value *s, const char *name,
			     struct rlx_spec *out)
{
	struct rlx_spec *item = calloc(s->ntensors + 1, sizeof(*item));
	size_t i;

	CHECK(item);
	*out = (struct rlx_spec){ .kind = RLX_SPEC_LIST, .name = name, .item = item,
				   .n_item = (uint32_t)s->ntensors };
	for (i = 0; i < s->ntensors; i++)
		if (!onnx_tensor_spec(&s->tensors[i], "", &item[i]))
			return false;
	return true;
}

static const struct onnx_type *inner_type(const struct onnx_type *t)
{
	return t && t->optional && t->optional->elem ? t->optional->elem : t;
}

/* The files hold bfloat16 as the uint16 of its bits; the declaration tells. */
static void fix_bf16(const struct onnx_type *t, struct rlx_spec *s)
{
	if (t && t->tensor && onnx_dtype_to_rlx(t->tensor->elem) == RLX_BF16 &&
	    s->kind == RLX_SPEC_TENSOR && s->type.dtype == RLX_U16)
		s->type.dtype = RLX_BF16;
}

/* Read @path as what the model's declaration says. */
static bool load(const char *path, const struct onnx_value_info *v,
		 struct rlx_spec *out)
{
	const struct onnx_type *t = inner_type(v->type);
	char *name = strndup(v->name.p, v->name.n);
	struct rlx_error err = { 0 };
	struct onnx_file *f;

	if (v->type && v->type->optional) {
		const struct onnx_opt_value *o;

		CHECKF(!onnx_open(path, ONNX_ROOT_OPTIONAL, &f, &err), "%s", err.text);
		o = onnx_file_optional(f);
		*out = (struct rlx_spec){ .kind = RLX_SPEC_ABSENT, .name = name };
		return o->tensor ? onnx_tensor_spec(o->tensor, name, out) :
		       o->seq ? spec_of_sequence(o->seq, name, out) : true;
	}
	if (t && t->sequence) {
		CHECKF(!onnx_open(path, ONNX_ROOT_SEQUENCE, &f, &err), "%s", err.text);
		return spec_of_sequence(onnx_file_sequence(f), name, out);
	}
	CHECKF(!onnx_open(path, ONNX_ROOT_TENSOR, &f, &err), "%s", err.text);
	if (!onnx_tensor_spec(onnx_file_tensor(f), name, out))
		return false;
	fix_bf16(t, out);
	return true;
}

bool onnx_value_matches(double got, double want, double rtol, double atol)
{
	if (!isfinite(want))	/* else any number is within infinity of infinity */
		return isnan(want) ? isnan(got) : got == want;
	return fabs(got - want) <= atol + rtol * fabs(want);
}

static void compare_tensor(const struct checker *c, struct rlx_tensor got,
			   struct rlx_tensor want)
{
	int64_t n = rlx_type_count(&want.type), i;
	char a[96], b[96];

	rlx_type_print(&got.type, a, sizeof(a));
	rlx_type_print(&want.type, b, sizeof(b));
	CHECKF(rlx_type_equal(&got.type, &want.type), "%s is %s, not %s", c->what, a, b);
	for (i = 0; i < n; i++) {
		double x = el_get(&got, i), y = el_get(&want, i);

		if (el_is_int(want.type.dtype)) {
			CHECKF(el_geti(&got, i) == el_geti(&want, i),
			       "%s[%lld] is %lld, not %lld", c->what, (long long)i,
			       (long long)el_geti(&got, i), (long long)el_geti(&want, i));
			continue;
		}
		CHECKF(onnx_value_matches(x, y, c->rtol, c->atol),
		       "%s[%lld] is %.9g, not %.9g", c->what, (long long)i, x, y);
	}
}

static void compare(const struct checker *c, const struct rlx_runner *r,
		    const struct rlx_spec *got, const struct rlx_spec *want,
		    const char *name)
{
	char item[256];
	uint32_t i;

	CHECKF(got->kind == want->kind, "%s is of kind %d, not %d", c->what, got->kind,
	       want->kind);
	if (want->kind == RLX_SPEC_TENSOR) {
		struct rlx_tensor g = { got->type, (void *)(uintptr_t)(got->data ?
					got->data : rlx_runner_find(r, name)) };
		struct rlx_tensor w = { want->type, (void *)(uintptr_t)want->data };

		CHECKF(g.data || !rlx_type_bytes(&g.type), "%s is nowhere", c->what);
		compare_tensor(c, g, w);
	}
	if (want->kind == RLX_SPEC_STRINGS) {
		int64_t n = rlx_type_count(&want->type);

		CHECKF(n == rlx_type_count(&got->type), "%s: counts differ", c->what);
		for (i = 0; i < n; i++)
			CHECKF(onnx_str_eq(got->str[i], want->str[i]),
			       "%s[%u] is '%.*s', not '%.*s'", c->what, i,
			       ONNX_STR(got->str[i]), ONNX_STR(want->str[i]));
	}
	if (want->kind == RLX_SPEC_LIST) {
		CHECKF(got->n_item == want->n_item, "%s has %u items, not %u", c->what,
		       got->n_item, want->n_item);
		for (i = 0; i < want->n_item; i++) {
			snprintf(item, sizeof(item), "%s[%u]", name, i);
			compare(c, r, &got->item[i], &want->item[i], item);
		}
	}
}

static bool is_default(const struct onnx_graph *g, struct rlx_str name)
{
	size_t i;

	for (i = 0; i < g->ninitializers; i++)
		if (onnx_str_eq(g->initializers[i].name, name))
			return true;
	return false;
}

static void run_set(const char *dir, int set, struct rlx_runner *r,
		    const struct onnx_graph *g)
{
	struct rlx_spec in[MAX_IO], want;
	struct checker c = { .rtol = 1e-3, .atol = 1e-5 };
	struct rlx_error err = { 0 };
	unsigned int n = 0, files = 0, i;
	char path[1024];

	for (i = 0; i < g->ninputs && i < MAX_IO; i++) {
		snprintf(path, sizeof(path), "%s/test_data_set_%d/input_%u.pb", dir, set, files);
		if (access(path, R_OK)) {
			CHECKF(is_default(g, g->inputs[i].name), "no %s", path);
			continue;
		}
		files++;
		CHECKF(load(path, &g->inputs[i], &in[n]), "%s: a dtype we lack", path);
		n++;
	}
	CHECKF(!rlx_runner_run_specs(r, in, n, &err), "%s", err.text);
	CHECK_EQ(rlx_runner_output_count(r), g->noutputs);
	for (i = 0; i < g->noutputs; i++) {
		snprintf(path, sizeof(path), "%s/test_data_set_%d/output_%u.pb", dir, set, i);
		CHECKF(load(path, &g->outputs[i], &want), "%s: a dtype we lack", path);
		c.what = want.name;
		compare(&c, r, &r->last->seg.out[i], &want, want.name);
	}
}

static void run_case(const char *dir, const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_error err = { 0 };
	struct rlx_model *m = NULL;
	struct rlx_runner *r = NULL;
	char path[1024];
	int set;

	snprintf(path, sizeof(path), "%s/model.onnx", dir);
	CHECKF(!rlx_model_open(path, &m, &err), "%s", err.text);
	CHECKF(!rlx_runner_new(m, &o, &r, &err), "%s", err.text);
	for (set = 0; set < 16; set++) {
		snprintf(path, sizeof(path), "%s/test_data_set_%d", dir, set);
		if (access(path, R_OK))
			break;
		run_set(dir, set, r, onnx_file_model(m->file)->graph);
	}
	CHECKF(set > 0, "no test data in %s", dir);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* In a child: a crash or a hang is one failure. */
static bool case_passes(const char *dir, const char *device)
{
	int st;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(LIMIT_SECONDS);
		run_case(dir, device);
		fflush(NULL);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &st, 0) != pid)
		return false;
	if (WIFSIGNALED(st))
		printf("# crashed: %s\n", strsignal(WTERMSIG(st)));
	return WIFEXITED(st) && !WEXITSTATUS(st);
}

int onnx_cases_main(const char *device, int argc, char **argv)
{
	static const char *const groups[] = {
		"node", "simple", "pytorch-operator", "pytorch-converted",
	};
	const char *data = getenv("RLX_ONNX_DATA");
	unsigned int n = 0, bad = 0, g;

	setvbuf(stdout, NULL, _IOLBF, 0);
	data = data ? data : "/usr/share/libonnx-testdata/data";
	for (g = 0; g < 4; g++) {
		struct dirent **list;
		char path[512], name[400];
		int count, i;

		snprintf(path, sizeof(path), "%s/%s", data, groups[g]);
		count = scandir(path, &list, NULL, alphasort);
		for (i = 0; i < count; i++) {
			snprintf(name, sizeof(name), "%s/%s", groups[g], list[i]->d_name);
			snprintf(path, sizeof(path), "%s/%.200s", data, name);
			if (list[i]->d_name[0] != '.' && rlx_test_wanted(name, argc, argv)) {
				bool ok = case_passes(path, device);

				printf("%sok %u %s\n", ok ? "" : "not ", ++n, name);
				bad += !ok;
			}
			free(list[i]);
		}
		if (count >= 0)
			free(list);
	}
	if (!n)
		printf("# no cases under %s: install libonnx-testdata or set RLX_ONNX_DATA\n",
		       data);
	printf("1..%u\n", n);
	return bad || !n;
}
