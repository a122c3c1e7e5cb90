// SPDX-License-Identifier: MIT
/* rlx compile: a model's program in a plan file, which starts without compiling. */
#include <stdio.h>
#include <string.h>

#include "rlx/aot.h"
#include "tools/rlx/subject.h"

struct compile_args {
	struct subject_args	m;
	const char		*output;
	bool			json;
};

static int several(const struct subject *s)
{
	return tool_fail("compile", TOOL_FAILED,
			 "%s: a size depends on computed data, so there are several programs, and "
			 "a plan file holds one: run the model itself", s->path);
}

/* Outputs that the importer knows are in no program. */
static int check_outputs(const struct subject *s, const struct rlx_program *p)
{
	struct rlx_named_tensor v = { .name = "" };
	unsigned int i;

	for (i = 0; i < subject_outputs(s); i++)
		if (!subject_output(s, i, &v) ||
		    rlx_program_io_find(p, RLX_IO_OUTPUT, v.name) < 0)
			return tool_fail("compile", TOOL_FAILED, "%s: output %u, '%s', is no tensor "
					 "that the program computes: a plan file would lack it",
					 s->path, i, v.name);
	return TOOL_OK;
}

static int tell(const struct compile_args *a, const struct rlx_program *p)
{
	struct rlx_program_file_info f;
	struct rlx_program_info info;
	struct rlx_error err = { 0 };
	struct out o;

	rlx_program_info(p, &info);
	if (rlx_program_file_info(a->output, &f, &err))
		return tool_fail("compile", TOOL_FAILED, "%s", err.text);
	out_begin(&o, a->json);
	out_str(&o, "file", a->output);
	out_str(&o, "for", f.layout);
	out_int(&o, "steps", info.steps);
	out_bytes(&o, "bytes", f.bytes);
	out_bytes(&o, "prepared", f.prepared_bytes);
	out_bytes(&o, "as_they_are", f.raw_bytes);
	out_num(&o, "compiled_in", (double)info.compile_ns * 1e-6, 4, "ms");
	return out_end(&o) ? TOOL_OK :
	       tool_fail("compile", TOOL_FAILED, "cannot write to standard output");
}

static int save(const struct compile_args *a, const struct subject *s)
{
	struct rlx_program *p = s->session ? rlx_session_program(s->session) : NULL;
	struct rlx_error err = { 0 };
	int rc;

	if (!p)
		return several(s);
	rc = check_outputs(s, p);
	if (rc)
		return rc;
	if (rlx_program_save(p, a->output, &err))
		return tool_fail("compile", TOOL_FAILED, "%s", err.text);
	return tell(a, p);
}

int cmd_compile(int argc, char **argv)
{
	struct compile_args a = { .m.seed = 1 };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		{ "output", ARG_STR, &a.output, "FILE", "the plan file (-o FILE); is needed" },
		SUBJECT_ARGS(&a.m),
		{ "threads", ARG_UINT, &a.m.threads, "N", "to run it once; 0: all allowed" },
		{ "json", ARG_FLAG, &a.json, NULL, "print JSON" },
	};
	const struct args args = {
		"compile", "MODEL --output FILE [OPTION ...]",
		"Compiles a model for the sizes given, runs it once and writes its program to\n"
		"a plan file. rlx run, rlx bench, rlxd and programs (rlx_program_load()) start\n"
		"it without compiling, on machines of this instruction set and with a library\n"
		"of these sources; RLX_ISA chooses a lower level. Inputs whose contents give\n"
		"sizes keep what they are given here.",
		arg, N_ELEM(arg), SUBJECT_MORE, &rest, 1, 1,
	};
	struct subject s = { .cmd = "compile" };
	int rc;

	if (!args_parse(&args, argc, argv, &rc))
		goto out_free;
	rc = a.output ? TOOL_OK :
	     tool_fail("compile", TOOL_USAGE, "--output is needed: the plan file to write");
	rc = rc ? rc : subject_open(&s, "compile", rest.v[0]);
	rc = rc ? rc : subject_inputs(&s, &a.m);
	rc = rc ? rc : subject_compile(&s, &a.m, (struct rlx_compile_opts){ 0 });
	rc = rc ? rc : save(&a, &s);
out_free:
	subject_close(&s);
	subject_args_free(&a.m);
	arg_list_free(&rest);
	return rc;
}
