// SPDX-License-Identifier: MIT
/* The configuration of rlx train: sections and keys by one table, with defaults. */
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/scaled.h"
#include "tools/rlx/args.h"
#include "tools/rlx/train.h"

enum kind { K_UINT, K_NUM, K_WORD, K_STR, K_BYTES };

/* @words: of K_WORD, with | between them, in the order of the enum. */
static const struct key {
	const char	*section, *name;
	enum kind	 kind;
	size_t		 at;
	double		 def;
	const char	*words, *help;
} keys[] = {
#define KEY(s, n, f, k, d, w, h) { s, n, k, offsetof(struct train_config, f), d, w, h },
	KEY("model", "kind", kind, K_WORD, 0, "classifier|decoder|encoder", "what to train")
	KEY("model", "channels", channels, K_UINT, 32, NULL, "classifier: of the first filters")
	KEY("model", "hidden", hidden, K_UINT, 128, NULL, "classifier: of the last but one layer")
	KEY("model", "classes", classes, K_UINT, 10, NULL, "classifier: labels are below it")
	KEY("model", "layers", layers, K_UINT, 4, NULL, "decoder: blocks")
	KEY("model", "dim", dim, K_UINT, 128, NULL, "decoder: width")
	KEY("model", "heads", heads, K_UINT, 4, NULL, "decoder: of attention")
	KEY("model", "context", context, K_UINT, 128, NULL, "decoder: bytes that it sees; encoder: "
	    "tokens")
	KEY("model", "dropout", dropout, K_NUM, 0, NULL, "part of the activations dropped")
	KEY("model", "base", base, K_STR, 0, NULL, "encoder: folder of a BERT, whose weights stay")
	KEY("model", "targets", targets, K_STR, 0, NULL, "encoder: modules with adapters "
	    "(query,value)")
	KEY("model", "rank", rank, K_UINT, 8, NULL, "encoder: of adapters")
	KEY("model", "alpha", alpha, K_NUM, 16, NULL, "encoder: over rank, how adapters weigh")
	KEY("model", "temperature", temperature, K_NUM, 0.05, NULL, "encoder: of the loss")
	KEY("data", "folder", data, K_STR, 0, NULL, "where the files of train and test are")
	KEY("data", "train", train, K_STR, 0, NULL, "classifier: image=FILE,label=FILE of a loader")
	KEY("data", "test", test, K_STR, 0, NULL, "classifier: the same, to evaluate by")
	KEY("data", "text", text, K_STR, 0, NULL, "decoder, encoder: a text, or a folder of texts")
	KEY("optimizer", "kind", optimizer, K_WORD, RLX_ADAMW, "sgd|adamw|lion|muon|adafactor", "")
	KEY("optimizer", "lr", lr, K_NUM, 1e-3, NULL, "learning rate behind the warm-up")
	KEY("optimizer", "momentum", momentum, K_NUM, 0, NULL, "sgd, muon")
	KEY("optimizer", "nesterov", nesterov, K_UINT, 0, NULL, "sgd, muon: 1 or 0")
	KEY("optimizer", "beta1", beta1, K_NUM, 0, NULL, "adamw, lion; 0: its default")
	KEY("optimizer", "beta2", beta2, K_NUM, 0, NULL, "adamw, lion; 0: its default")
	KEY("optimizer", "eps", eps, K_NUM, 0, NULL, "adamw; 0: 1e-8")
	KEY("optimizer", "decay", decay, K_NUM, 0.01, NULL, "weight decay")
	KEY("schedule", "kind", schedule, K_WORD, RLX_COSINE, "constant|linear|cosine|wsd|rsqrt",
	    "")
	KEY("schedule", "warmup", warmup, K_UINT, 20, NULL, "steps")
	KEY("schedule", "cooldown", cooldown, K_UINT, 0, NULL, "wsd: steps at the end")
	KEY("schedule", "floor", floor, K_NUM, 0.1, NULL, "part of lr at the end")
	KEY("train", "steps", steps, K_UINT, 1000, NULL, "updates")
	KEY("train", "batch", batch, K_UINT, 32, NULL, "rows of a run")
	KEY("train", "accumulate", accumulate, K_UINT, 1, NULL, "runs of an update")
	KEY("train", "clip", clip, K_NUM, 1, NULL, "of the gradients' norm; 0: not")
	KEY("train", "ema", ema, K_NUM, 0, NULL, "average of weights; 0: none")
	KEY("train", "seed", seed, K_UINT, 1, NULL, "of first values and order")
	KEY("train", "threads", threads, K_UINT, 0, NULL, "of the CPU; 0: all")
	KEY("train", "ranks", ranks, K_UINT, 1, NULL, "processes, each with batches of its own")
	KEY("train", "zero", zero, K_UINT, 0, NULL, "1: each rank has a part of the optimizer's "
	    "states")
	KEY("train", "memory", memory, K_BYTES, 0, NULL, "bytes, or with K, M or G behind, "
	    "that the backward pass may have of the forward one; the rest is computed twice; 0: "
	    "no limit")
	KEY("train", "timeout", timeout, K_UINT, 600, NULL, "seconds until a rank is given up")
	KEY("train", "device", device, K_STR, 0, NULL, "(cpu)")
	KEY("train", "precision", precision, K_WORD, 0,
	    "f32|bf16|mixed-bf16|f16|mixed-f16|tf32", "")
	KEY("train", "scaling", scaling, K_WORD, 0, "none|static|dynamic", "of the loss")
	KEY("eval", "every", eval_every, K_UINT, 100, NULL, "steps; 0: never")
	KEY("eval", "batches", eval_batches, K_UINT, 20, NULL, "at most")
	KEY("eval", "patience", patience, K_UINT, 0, NULL, "stop after so many no better ones")
	KEY("eval", "sample", sample, K_UINT, 0, NULL, "decoder: bytes to print")
	KEY("output", "folder", folder, K_STR, 0, NULL, "of curve, checkpoints, data made of texts")
	KEY("output", "save_every", save_every, K_UINT, 0, NULL, "steps; 0: at the end")
	KEY("output", "gguf", gguf, K_WORD, GGUF_F32, "f32|f16|bf16|q8_0|none",
	    "decoder: matrices of model.gguf")
#undef KEY
};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]), LAYERS_MAX = 4096 };

static void *field(struct train_config *c, const struct key *k)
{
	return (char *)c + k->at;
}

static bool take(struct train_config *c, const struct key *k, const char *v, struct rlx_error *err)
{
	void *to = field(c, k);
	int i;

	switch (k->kind) {
	case K_UINT:
		if (parse_u64(v, 1u << 30, to))
			return true;
		break;
	case K_BYTES:
		if (rlx_scaled(v, rlx_size_units, to))
			return true;
		break;
	case K_NUM:
		if (parse_num(v, to) && *(double *)to >= 0 && *(double *)to <= FLT_MAX)
			return true;
		break;
	case K_WORD:
		i = word_index(k->words, v);
		if (i >= 0) {
			*(int *)to = i;
			return true;
		}
		rlx_fail(err, RLX_EINVAL, "%s is '%s'; there are %s", k->name, v, k->words);
		return false;
	case K_STR:
		if (!*v) {
			rlx_fail(err, RLX_EINVAL, "%s is empty: leave the line out", k->name);
			return false;
		}
		rlx_free(*(char **)to);
		*(char **)to = rlx_strdup(v);
		if (*(char **)to)
			return true;
		rlx_fail(err, RLX_ENOMEM, "out of memory");
		return false;
	}
	rlx_fail(err, RLX_EINVAL, "%s is '%s'; a %s from 0 on is needed", k->name, v,
		 k->kind == K_UINT ? "whole number" : k->kind == K_BYTES ?
		 "number of bytes, as 512M," : "number");
	return false;
}

/* Cut blanks off both ends, in place. */
static char *trimmed(char *s)
{
	char *end = s + strlen(s);

	while (end > s && isspace((unsigned char)end[-1]))
		*--end = 0;
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

static bool set(struct train_config *c, const char *section, char *line, struct rlx_error *err)
{
	char *eq = strchr(line, '='), *name, *v;
	const struct key *k;

	if (!eq) {
		rlx_fail(err, RLX_EPARSE, "'%s' is neither [section] nor key = value", line);
		return false;
	}
	*eq = 0;
	name = trimmed(line);
	v = trimmed(eq + 1);
	for (k = keys; k < keys + N_KEYS; k++)
		if (!strcmp(k->section, section) && !strcmp(k->name, name))
			return take(c, k, v, err);
	rlx_fail(err, RLX_ENOENT, "[%s] has no key '%s'; rlx train --keys lists them", section,
		 name);
	return false;
}

static bool check(const struct train_config *c, struct rlx_error *err)
{
	const char *bad = NULL;

	if (!c->steps || !c->batch || !c->accumulate || !c->ranks || !c->timeout)
		bad = "[train] steps, batch, accumulate, ranks and timeout must be 1 at least";
	else if (c->zero > 1)
		bad = "[train] zero is 1 or 0";
	else if (c->zero && (c->optimizer == RLX_MUON || c->optimizer == RLX_ADAFACTOR))
		bad = "[train] zero gives each rank a part of a tensor, and muon and adafactor "
		      "need whole ones: [optimizer] kind is sgd, adamw or lion";
	else if (!c->folder)
		bad = "[output] folder is missing: where the curve and checkpoints go";
	else if (c->kind == TRAIN_CLASSIFIER && !c->train)
		bad = "[data] train is missing: image=FILE,label=FILE";
	else if (c->kind == TRAIN_ENCODER && !c->base)
		bad = "[model] base is missing: a folder with config.json and model.safetensors";
	else if (c->kind == TRAIN_ENCODER && (!c->rank || !(c->alpha > 0) ||
					      !(c->temperature > 0) || c->context < 4))
		bad = "[model] rank, alpha and temperature must be above 0, context 4 at least";
	else if (c->kind == TRAIN_ENCODER && c->batch < 2)
		bad = "[train] batch must be 2 at least: pairs are told from others of the batch";
	else if (c->kind == TRAIN_ENCODER && c->dropout > 0)
		bad = "[model] dropout is not for an encoder";
	else if (c->kind != TRAIN_CLASSIFIER && !c->text)
		bad = "[data] text is missing: a file or folder of texts";
	else if (c->kind == TRAIN_DECODER && (!c->heads || !c->layers || !c->context ||
					      c->dim % c->heads || !c->dim))
		bad = "[model] dim must be a multiple of heads; layers and context 1 at least";
	else if (c->kind == TRAIN_DECODER && c->layers > LAYERS_MAX)
		bad = "[model] layers must be 4096 at most";
	else if (c->kind == TRAIN_CLASSIFIER && (!c->channels || !c->hidden || !c->classes))
		bad = "[model] channels, hidden and classes must be 1 at least";
	else if (c->kind == TRAIN_DECODER && c->gguf == GGUF_Q8_0 && c->dim % 32)
		bad = "[output] gguf = q8_0 stores blocks of 32: [model] dim must be a multiple";
	else if (c->eval_every && !c->eval_batches)
		bad = "[eval] batches must be 1 at least; every = 0 is to never evaluate";
	else if (c->dropout >= 1 || c->ema >= 1)
		bad = "[model] dropout and [train] ema are below 1";
	if (bad)
		rlx_fail(err, RLX_EINVAL, "%s", bad);
	return !bad;
}

static bool enter(char section[32], const char *s, size_t n, struct rlx_error *err)
{
	const struct key *k;

	for (k = keys; k < keys + N_KEYS; k++)
		if (strlen(k->section) == n && !memcmp(k->section, s, n)) {
			snprintf(section, 32, "%s", k->section);
			return true;
		}
	rlx_fail(err, RLX_ENOENT, "there is no section [%.*s]; rlx train --keys lists them", (int)n,
		 s);
	return false;
}

static void take_line(struct train_config *c, char section[32], char *line, struct rlx_error *err)
{
	char *s = trimmed(line);
	size_t n = strlen(s);

	if (!n || *s == '#' || *s == ';')
		return;
	if (*s == '[' && s[n - 1] == ']')
		enter(section, s + 1, n - 2, err);
	else
		set(c, section, s, err);
}

static bool read_lines(struct train_config *c, const char *path, FILE *f, struct rlx_error *err)
{
	char line[1024], section[32] = "";
	struct rlx_error e = { 0 };
	unsigned int n = 0;
	size_t len;

	while (!e.status && fgets(line, sizeof(line), f)) {
		n++;
		len = strlen(line);
		if (feof(f) || (len && line[len - 1] == '\n'))
			take_line(c, section, line, &e);
		else if (len == sizeof(line) - 1)
			rlx_fail(&e, RLX_EPARSE, "the line has over %zu bytes", sizeof(line) - 2);
		else
			rlx_fail(&e, RLX_EPARSE, "a byte of 0: this is no text");
	}
	if (e.status)
		rlx_fail(err, e.status, "%s:%u: %s", path, n, e.text);
	else if (ferror(f))
		rlx_fail(err, RLX_EIO, "%s cannot be read: %s", path, strerror(errno));
	else if (!check(c, &e))
		rlx_fail(err, e.status, "%s: %s", path, e.text);
	return !err->status;
}

bool train_config_read(struct train_config *c, const char *path, struct rlx_error *err)
{
	const struct key *k;
	FILE *f = fopen(path, "re");
	bool ok;

	*c = (struct train_config){ 0 };
	for (k = keys; k < keys + N_KEYS; k++)
		if (k->kind == K_UINT || k->kind == K_BYTES)
			*(uint64_t *)field(c, k) = (uint64_t)k->def;
		else if (k->kind == K_NUM)
			*(double *)field(c, k) = k->def;
		else if (k->kind == K_WORD)
			*(int *)field(c, k) = (int)k->def;
	if (!f) {
		rlx_fail(err, errno == ENOENT ? RLX_ENOENT : RLX_EACCES, "%s cannot be opened: %s",
			 path, strerror(errno));
		return false;
	}
	ok = read_lines(c, path, f, err);
	fclose(f);
	return ok;
}

void train_config_free(struct train_config *c)
{
	const struct key *k;

	for (k = keys; k < keys + N_KEYS; k++)
		if (k->kind == K_STR)
			rlx_free(*(char **)field(c, k));
}

uint64_t train_config_hash(const struct train_config *c)
{
	static const size_t bytes[] = { [K_UINT] = 8, [K_NUM] = 8, [K_WORD] = sizeof(int) };
	uint64_t h = 1;
	const struct key *k;
	const void *p;
	const char *s;

	for (k = keys; k < keys + N_KEYS; k++) {
		p = (const char *)c + k->at;
		s = k->kind == K_STR ? *(char *const *)p : NULL;
		if (k->kind == K_BYTES)		/* steps are the same */
			continue;
		if (k->kind != K_STR && k->at != offsetof(struct train_config, threads))
			h = rlx_hash_bytes(p, bytes[k->kind], h);
		else if (s && k->at != offsetof(struct train_config, device))
			h = rlx_hash_bytes(s, strlen(s), h);
	}
	return h;
}

bool train_config_device(struct train_config *c, const char *name, struct rlx_error *err)
{
	char *s = rlx_strdup(name);

	if (!s) {
		rlx_fail(err, RLX_ENOMEM, "out of memory");
		return false;
	}
	rlx_free(c->device);
	c->device = s;
	return true;
}

/* The default word, then all that there are. */
static void print_words(FILE *f, const struct key *k)
{
	const char *s = k->words;
	int i;

	for (i = (int)k->def; i && s; i--)
		s = strchr(s, '|') + 1;
	fprintf(f, "  %s = %.*s    %s%s%s\n", k->name, (int)strcspn(s, "|"), s, k->words,
		*k->help ? ": " : "", k->help);
}

void train_config_print(FILE *f)
{
	const char *section = "";
	const struct key *k;

	for (k = keys; k < keys + N_KEYS; k++) {
		if (strcmp(section, k->section))
			fprintf(f, "  [%s]\n", k->section);
		section = k->section;
		if (k->kind == K_WORD)
			print_words(f, k);
		else if (k->kind == K_STR)
			fprintf(f, "  %s = TEXT    %s\n", k->name, k->help);
		else
			fprintf(f, "  %s = %g    %s\n", k->name, k->def, k->help);
	}
}
