/* SPDX-License-Identifier: MIT */
/*
 * What kinds of model files there are, and what each does. A new one is a file with a
 * struct rlx_model_format, and a row in format.c.
 */
#ifndef RLX_MODEL_FORMAT_H
#define RLX_MODEL_FORMAT_H

#include "io/formats/file.h"
#include "io/segment.h"
#include "rlx/model.h"

enum { RLX_PROBE_BYTES = 16 };

/* What is known of a path before any format has a look at it. */
struct rlx_probe {
	const char	*path;
	bool		 folder;
	uint64_t	 bytes;		/* of a file */
	uint8_t		 first[RLX_PROBE_BYTES];	/* as many as there are, then zeros */
	uint8_t		 word[RLX_PROBE_BYTES];	/* likewise, behind white space */
};

/*
 * @name:  as messages tell it
 * @looks: what is opened, as messages tell it: "a folder with config.json"
 */
struct rlx_model_format {
	const char	*name, *looks;
	/* Is the path of this format, by what is cheap to see? It may be broken yet. */
	bool		 (*probe)(const struct rlx_probe *p);
	/*
	 * Fill m->file, and io and tensor with what lives as long, in m->bump if it must be
	 * made. After a failure close() is called if m->file is set. It may make it a model of
	 * another format, by m->format, whose functions are then all that is called.
	 */
	enum rlx_status	 (*open)(struct rlx_model *m, const char *path, struct rlx_error *err);
	void		 (*close)(struct rlx_model *m);
	/* As rlx_model_mapped(). [any] */
	const struct rlx_file *(*mapped)(const struct rlx_model *m, unsigned int i);
	/* The next segment for these inputs and answers; rlx_segment_fini() ends it. [any] */
	enum rlx_status	 (*build)(struct rlx_model *m, const struct rlx_instance *want,
				  struct rlx_segment *seg, struct rlx_error *err);
	/* Optional: the program of a segment; NULL: its graph is compiled. [any] */
	enum rlx_status	 (*program)(struct rlx_model *m, const struct rlx_segment *seg,
				    const struct rlx_compile_opts *o, struct rlx_program **out,
				    struct rlx_error *err);
	/* Optional: compare weights with hashes that the file has of them. [any] */
	enum rlx_status	 (*verify)(const struct rlx_model *m, struct rlx_error *err);
};

extern const struct rlx_model_format rlx_format_onnx, rlx_format_bert, rlx_format_gguf,
	rlx_format_plan, rlx_format_text;

/* The format of @path; NULL, with a message that lists the formats there are. */
const struct rlx_model_format *rlx_format_find(const char *path, struct rlx_error *err);

#endif
