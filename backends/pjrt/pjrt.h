/* SPDX-License-Identifier: MIT */
/*
 * The PJRT backend's own objects. A program's steps that StableHLO can say are put together,
 * those next to each other, into modules, which the plugin compiles; the others are the host's.
 * Values that cross from one to the other, or to the caller, have places in host memory; a
 * module's other values are the plugin's affair.
 */
#ifndef RLX_BACKENDS_PJRT_H
#define RLX_BACKENDS_PJRT_H

#include "backends/common/extent.h"
#include "backends/pjrt/api.h"
#include "backends/pjrt/emit.h"
#include "rlx/backend.h"

/* ---- plugin.c: a plugin, once opened for ever ---- */

enum { PJRT_WHY = 320 };

struct pjrt_plugin {
	struct pjrt_plugin	*next;
	char			*path;
	const struct pjrt_api	*api;		/* NULL: why says why there is none */
	struct pjrt_client	*client;
	struct pjrt_hw		*hw;		/* its first device */
	bool			 is_cpu;
	char			 platform[32], kind[64], version[16];
	char			 why[PJRT_WHY];
};

/* Of $RLX_PJRT_PLUGIN; NULL: *@why says what is missing. */
struct pjrt_plugin *pjrt_plugin_get(const char **why);

/*
 * Call a function of the plugin's, whose argument struct is complete. What it says is in @err,
 * behind @what; e.g. "compiling conv (node 3)".
 */
enum rlx_status pjrt_call(const struct pjrt_plugin *p, enum pjrt_slot slot, void *args,
			  const char *what, struct rlx_error *err);
/* Destroy an object by the function at @slot; NULL: none */
void pjrt_destroy(const struct pjrt_plugin *p, enum pjrt_slot slot, void *object);
/* Wait for, and destroy, an event. */
enum rlx_status pjrt_await(const struct pjrt_plugin *p, struct pjrt_event *event,
			   const char *what, struct rlx_error *err);

/* ---- buffer.c ---- */

/*
 * A buffer of @t at @data, 64 bytes of it aligned, which must stay and be left alone while there
 * is one. *@in_place: the device reads it where it is; else it was copied. On failure there is
 * none, and *@out is left as it was.
 */
enum rlx_status pjrt_import(const struct pjrt_plugin *p, const struct rlx_type *t,
			    const void *data, struct pjrt_buffer **out, bool *in_place,
			    struct rlx_error *err);
/* Begin to copy a buffer of @t to @to, row by row; *@out: until that is done */
enum rlx_status pjrt_export(const struct pjrt_plugin *p, struct pjrt_buffer *b,
			    const struct rlx_type *t, void *to, struct pjrt_event **out,
			    struct rlx_error *err);

/* ---- what programs and sessions are ---- */

struct pjrt_device {
	struct rlx_device	 base;
	struct pjrt_plugin	*plugin;
};

/* Indices that step @step looks at, @n of them: two results of the module */
struct pjrt_check {
	uint32_t	step;
	int64_t		n;
};

/* Steps in ascending order; values of the plan that come in and go out, as parameters are. */
struct pjrt_module {
	uint32_t		*step, n_step, cap_step;
	uint32_t		*in, n_in, cap_in;
	uint32_t		*out, *writer, n_out, cap_out, cap_writer;
	struct pjrt_check	*check;
	uint32_t		 n_check, cap_check;
	struct pjrt_loaded	*program;
};

/* @module NULL: step @step, by the reference evaluator */
struct pjrt_segment {
	uint32_t		 step;
	struct pjrt_module	*module;
};

/* @reader: by step.once and roots of storage, 1 + the last step that reads it; while compiled */
struct pjrt_code {
	struct rlx_code		 base;
	uint32_t		*reader[2];
	struct pjrt_segment	*segment;
	uint32_t		 n_segment, cap_segment;
	struct pjrt_buffer	**weight;	/* by constant */
	uint64_t		 host_at;	/* of the workspace: scratch of host steps */
	uint32_t		 most_in, most_out, most_tensors;
};

/* An input or param that later runs find. */
struct pjrt_persistent {
	struct pjrt_buffer	*buffer;	/* NULL: to be brought */
	bool			 in_place;	/* it is the host's memory */
	uint64_t		 version;	/* of an input: struct rlx_content */
};

struct pjrt_exec {
	struct rlx_exec		 base;
	struct pjrt_persistent	*param, *input;
	struct pjrt_buffer	**in, **out;
	bool			*own;		/* in[i] is to be destroyed */
	struct pjrt_event	**event;
	struct rlx_tensor	*tensors;
	struct rlx_extent	 extent;
};

static inline struct pjrt_plugin *pjrt_plugin_of(const struct rlx_code *code)
{
	return ((const struct pjrt_device *)code->dev)->plugin;
}

/* ---- module.c: a module's text, and its compilation ---- */

/* Which values come in and go out, and the text: "module @m { ...". Freed with rlx_free(). */
enum rlx_status pjrt_module_text(struct pjrt_code *c, struct pjrt_module *m, char **out,
				 struct rlx_error *err);
enum rlx_status pjrt_module_compile(struct pjrt_code *c, struct pjrt_module *m,
				    struct rlx_error *err);
void pjrt_module_free(struct pjrt_code *c, struct pjrt_module *m);

/* ---- compile.c, exec.c ---- */

enum rlx_status pjrt_compile(struct rlx_code *code, uint32_t flags, struct rlx_error *err);
void pjrt_release(struct rlx_code *code);

enum rlx_status pjrt_init(struct rlx_exec *exec);
void pjrt_fini(struct rlx_exec *exec);
void pjrt_bind(struct rlx_exec *exec, enum rlx_io io, unsigned int i);
bool pjrt_has(const struct rlx_exec *exec, enum rlx_io io, unsigned int i);
enum rlx_status pjrt_submit(struct rlx_exec *exec, bool away, uint64_t *out_point);

#endif
