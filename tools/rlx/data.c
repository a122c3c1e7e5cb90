// SPDX-License-Identifier: MIT
/* rlx data: record files made of others, looked at, verified. */
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "tools/rlx/data.h"
#include "tools/rlx/tool.h"
#include "train/dataset.h"
#include "train/record.h"

static int told(const struct rlx_error *err)
{
	return tool_fail("data", TOOL_FAILED, "%s",
			 *err->text ? err->text : rlx_status_name(err->status));
}

static void type_text(char *buf, size_t n, const struct rlx_type *t)
{
	if (t->rank)
		rlx_type_print(t, buf, n);
	else
		snprintf(buf, n, "%s", rlx_dtype_name(t->dtype));
}

static const char *kind_of(const struct dataset *d)
{
	if (!d->file)
		return "arrays";
	return d->stream ? "stream" : d->file->info.stride ? "records" : "variable records";
}

static void put_set(struct rlx_json_writer *w, const char *path, const struct dataset *d)
{
	char text[120];
	unsigned int i;

	rlx_json_put_begin(w, '{');
	rlx_json_put_key(w, "path");
	rlx_json_put_str(w, path);
	rlx_json_put_key(w, "kind");
	rlx_json_put_str(w, kind_of(d));
	rlx_json_put_key(w, "records");
	rlx_json_put_int(w, (int64_t)d->records);
	rlx_json_put_key(w, "chunks");
	rlx_json_put_int(w, (int64_t)d->chunks);
	rlx_json_put_key(w, "direct");
	rlx_json_put_bool(w, d->part[0].direct);
	rlx_json_put_key(w, "fingerprint");
	snprintf(text, sizeof(text), "%016llx", (unsigned long long)d->fingerprint);
	rlx_json_put_str(w, text);
	if (d->file) {
		rlx_json_put_key(w, "chunk_bytes");
		rlx_json_put_int(w, (int64_t)d->file->info.chunk_bytes);
		rlx_json_put_key(w, "stride");
		rlx_json_put_int(w, (int64_t)d->file->info.stride);
	}
	rlx_json_put_key(w, "fields");
	rlx_json_put_begin(w, '{');
	for (i = 0; i < d->fields; i++) {
		rlx_json_put_key(w, d->field[i].field.name);
		type_text(text, sizeof(text), &d->field[i].field.type);
		rlx_json_put_str(w, text);
	}
	rlx_json_put_end(w);
	rlx_json_put_end(w);
}

static void print_set(const char *path, const struct dataset *d)
{
	char text[120];
	unsigned int i;

	printf("%s: %llu %s\n", path, (unsigned long long)d->records,
	       d->file && d->stream ? "elements of a stream" : d->file ? kind_of(d) :
	       "records in arrays");
	for (i = 0; i < d->fields; i++) {
		type_text(text, sizeof(text), &d->field[i].field.type);
		printf("  %-22s %s\n", d->field[i].field.name, text);
	}
	if (d->file)
		printf("%llu chunks of %llu KiB, %llu bytes a record, crc32c of each%s\n",
		       (unsigned long long)d->chunks,
		       (unsigned long long)d->file->info.chunk_bytes / 1024,
		       (unsigned long long)d->file->info.stride,
		       d->file->record_crc ? " and of each record" : "");
	printf("fingerprint %016llx\n", (unsigned long long)d->fingerprint);
	for (i = 0; i < d->parts; i++)
		if (d->part[i].codec)
			printf("%s is compressed: decoded whole into memory when it is opened\n",
			       d->part[i].path);
		else if (!d->part[i].direct)
			printf("%s is read through the page cache: no direct I/O for it here\n",
			       d->part[i].path);
}

/* Of one file an object, of several an array of them: also where one cannot be opened. */
static int info_json(const struct arg_list *path)
{
	struct rlx_json_writer w;
	struct rlx_error err = { 0 };
	struct dataset d;
	unsigned int i;
	int rc = TOOL_OK;

	rlx_json_writer_begin(&w, stdout, true);
	if (path->n > 1)
		rlx_json_put_begin(&w, '[');
	for (i = 0; i < path->n && !rc; i++) {
		if (dataset_open(&d, path->v[i], false, &err)) {
			rc = told(&err);
			continue;
		}
		put_set(&w, path->v[i], &d);
		dataset_close(&d);
	}
	if (path->n > 1)
		rlx_json_put_end(&w);
	rlx_json_writer_end(&w);
	return rc;
}

static int info(const struct arg_list *path)
{
	struct rlx_error err = { 0 };
	struct dataset d;
	unsigned int i;

	for (i = 0; i < path->n; i++) {
		if (dataset_open(&d, path->v[i], false, &err))
			return told(&err);
		print_set(path->v[i], &d);
		dataset_close(&d);
	}
	return TOOL_OK;
}

static int verify(const struct arg_list *path)
{
	int rc = TOOL_OK;
	unsigned int i;

	for (i = 0; i < path->n; i++) {
		struct rlx_error err = { 0 };
		struct rlx_record *r = NULL;
		enum rlx_status st = rlx_record_open(path->v[i], &r, &err);

		if (!st)
			st = rlx_record_verify(r, &err);
		rlx_record_close(r);
		if (!st) {
			printf("%s: whole\n", path->v[i]);
		} else {
			fprintf(stderr, "rlx data: %s\n", err.text);
			rc = st == RLX_EIO || st == RLX_EPARSE ? TOOL_MISMATCH : TOOL_FAILED;
		}
	}
	return rc;
}

static int check(const struct data_args *a, const char *verb)
{
	bool convert = !strcmp(verb, "convert");

	if (convert && !a->output)
		return tool_fail("data", TOOL_USAGE, "convert: say where to write (--output FILE)");
	if (!convert && (a->output || a->text || a->stream || a->images ||
			 a->chunk != UINT64_MAX || a->tokenizer || a->end))
		return tool_fail("data", TOOL_USAGE, "%s takes no options of convert", verb);
	if (a->json && strcmp(verb, "info"))
		return tool_fail("data", TOOL_USAGE, "--json is for info");
	if (a->chunk != UINT64_MAX && (a->chunk < RECORD_CHUNK_MIN / 1024 ||
				       a->chunk > RECORD_CHUNK_MAX / 1024))
		return tool_fail("data", TOOL_USAGE, "--chunk is %llu, want 64 to 4096, a power of "
				 "two", (unsigned long long)a->chunk);
	if (a->text + a->stream + a->images > 1)
		return tool_fail("data", TOOL_USAGE, "--text, --stream, --images: one of them");
	if ((a->tokenizer || a->end) && !a->text)
		return tool_fail("data", TOOL_USAGE, "--tokenizer and --end are for --text");
	return TOOL_OK;
}

static int run(const struct data_args *a, struct arg_list *rest)
{
	struct arg_list input = { rest->v + 1, rest->n - 1 };
	const char *verb = rest->v[0];

	if (strcmp(verb, "convert") && strcmp(verb, "info") && strcmp(verb, "verify"))
		return tool_fail("data", TOOL_USAGE, "no verb '%s': convert, info, verify", verb);
	if (check(a, verb))
		return TOOL_USAGE;
	if (*verb == 'c')
		return data_convert(a, &input);
	if (*verb == 'v')
		return verify(&input);
	return a->json ? info_json(&input) : info(&input);
}

int cmd_data(int argc, char **argv)
{
	struct data_args a = { .chunk = UINT64_MAX };
	struct arg_list rest = { 0 };
	const struct arg arg[] = {
		{ "output", ARG_STR, &a.output, "FILE.rlxr",
		  "convert: written whole, or not at all" },
		{ "text", ARG_FLAG, &a.text, NULL,
		  "convert: files and folders of text, to one stream of tokens" },
		{ "tokenizer", ARG_STR, &a.tokenizer, "FILE",
		  "tokenizer.json or vocab.txt (without it: bytes)" },
		{ "end", ARG_STR, &a.end, "TOKEN",
		  "put behind each text: its spelling, or a number" },
		{ "stream", ARG_FLAG, &a.stream, NULL, "convert: an .npy of rank 1 to a stream" },
		{ "images", ARG_FLAG, &a.images, NULL,
		  "convert: a folder of folders, one a class, of PNG and PNM images" },
		{ "chunk", ARG_UINT, &a.chunk, "KIB", "of a chunk: 64 to 4096, a power of two" },
		{ "json", ARG_FLAG, &a.json, NULL, "info: as JSON, of several an array" },
	};
	const struct args args = {
		"data", "convert|info|verify INPUT ... [OPTION ...]",
		"Makes record files (.rlxr) for training, tells what is in a data set, and checks\n"
		"that a record file is whole. An input is one that the loader of librlx-train\n"
		"reads: .rlxr, .npy, .npz, IDX, .safetensors, the array formats gzipped too, or\n"
		"several by names of fields, NAME=FILE,NAME=FILE.",
		arg, N_ELEM(arg), NULL, &rest, 2, UINT32_MAX,
		.mismatch = "a file that was verified is not whole",
	};
	int rc;

	if (args_parse(&args, argc, argv, &rc))
		rc = run(&a, &rest);
	arg_list_free(&rest);
	return rc;
}
