// SPDX-License-Identifier: MIT
/* The rlx command: help, wrong usage, info, run, bench, dump, ops. */
#include <sys/inotify.h>
#include <sys/stat.h>

#include "rlx/npy.h"
#include "selftests/cli/cli.h"
#include "selftests/io/onnx_write.h"

static const char relu[] =
	"graph \"t\" {\n"
	"  %1 = input(name=\"x\", type=f32[4,3])\n"
	"  %2 = relu(x=%1) : f32[4,3]\n"
	"  return \"y\"=%2\n"
	"}\n";

static void relu_model(void)
{
	cli_begin();
	cli_write("relu.rlx", relu);
}

/* y = a + b, both f32["n", 2]. */
static void open_model(void)
{
	static const int64_t dim[2] = { -1, 2 };
	static struct out g, m;
	FILE *f;

	cli_begin();
	g.n = 0;
	put_node(&g, "Add a b > y");
	put_str(&g, 2, "t");
	put_info(&g, 11, "a", ONNX_FLOAT, dim, 2);
	put_info(&g, 11, "b", ONNX_FLOAT, dim, 2);
	put_info(&g, 12, "y", ONNX_FLOAT, dim, 2);
	model_of(&m, &g, 17);
	f = fopen("add.onnx", "wb");
	CHECK(f && fwrite(m.b, 1, m.n, f) == m.n && !fclose(f));
}

static void write_npy(const char *path, const float *v, int64_t rows, int64_t cols)
{
	struct rlx_type t = rlx_type(RLX_F32, rows, cols);
	struct rlx_error err = { 0 };

	CHECKF(!rlx_npy_write(path, &t, v, &err), "%s", err.text);
}

static void read_npy_of(const char *path, struct rlx_type t, void *v)
{
	struct rlx_error err = { 0 };
	struct rlx_npy *f;

	CHECKF(!rlx_npy_open(path, &f, &err), "%s", err.text);
	CHECK(rlx_type_equal(rlx_npy_type(f), &t));
	memcpy(v, rlx_npy_data(f), (size_t)rlx_type_bytes(&t));
	rlx_npy_close(f);
}

static void read_npy(const char *path, float *v, int64_t rows, int64_t cols)
{
	read_npy_of(path, rlx_type(RLX_F32, rows, cols), v);
}

TEST(help)
{
	static const char *const commands[] = {
		"info", "doctor", "run", "compile", "embed", "bench", "data", "dump", "explain",
		"tune", "ops",
	};
	unsigned int i;

	cli_begin();
	ENDS(RLX("--version"), 0, out, "rlx ");
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		ENDS(RLX("--help"), 0, out, commands[i]);
		ENDS(RLX(commands[i], "--help"), 0, out, "usage: rlx ");
		ENDS(RLX("help", commands[i]), 0, out, "Exit status: ");
		ENDS(RLX(commands[i], "--no-such-option"), 2, err, "--no-such-option");
		ENDS(RLX(commands[i], "-x"), 2, err, "no option '-x'");
	}
	ENDS(rlx_cmd(NULL), 2, err, "usage: rlx");
	ENDS(RLX("ruin"), 2, err, "did you mean 'run'");
	ENDS(RLX("help", "xyz"), 2, err, "no command 'xyz'");
}

/* Those that there are, in the help of commands that compile. */
TEST(help_names_devices)
{
	static const char *const commands[] = { "run", "bench", "compile", "explain", "embed" };
	static const char *const devices[] = {
#define BACKEND(name)		#name,
#define LOADED(name, library)	#name,
#include "backends/backends.def"
#undef BACKEND
#undef LOADED
	};
	const char *at;
	size_t i, k;

	cli_begin();
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		at = strstr(RLX(commands[i], "--help")->out, "--device NAME");
		CHECKF(at, "%s", commands[i]);
		for (k = 0; k < sizeof(devices) / sizeof(devices[0]); k++)
			CHECKF(memmem(at, 150, devices[k], strlen(devices[k])), "%s: %s: %.150s",
			       commands[i], devices[k], at);
	}
}

/* What fails names where. */
TEST(no_server)
{
	char key[400];

	cli_begin();
	ENDS(RLX("load", "--to", "127.0.0.1:1"), 3, err, "127.0.0.1:1: connection 1: ");
	ENDS(RLX("load", "--to", "unix:none"), 3, err, "unix:none: connection 1: ");
	ENDS(RLX("load", "--path", "/x HTTP/1.0\r\nA: b"), 2, err, "--path begins with /");
	memset(key, 'k', sizeof(key));
	key[sizeof(key) - 1] = 0;
	cli_write("long", key);
	cli_write("blank", "\nkey\n");
	ENDS(RLX("top", "--key-file", "long"), 3, err, "long: no key of 1 to 254 bytes");
	ENDS(RLX("top", "--key-file", "blank"), 3, err, "blank: no key of 1 to 254 bytes");
	ENDS(RLX("top", "--key-file", "/dev/zero"), 3, err, "/dev/zero: no key of 1 to 254");
}

/* Of texts to train by what is no regular file is left out, a FIFO without waiting for a writer. */
TEST(train_leaves_fifos_out)
{
	cli_begin();
	CHECK(!mkfifo("fifo", 0600));
	cli_write("text.conf", "[model]\nkind = decoder\n[data]\ntext = fifo\n"
		  "[output]\nfolder = .\n");
	ENDS(RLX("train", "text.conf"), 3, err, "fifo");
}

/* Each tells what 1 means of it, once, or that it never ends so. */
TEST(help_tells_exit_statuses)
{
	static const struct {
		const char *command, *status;
	} t[] = {
		{ "run", "1 --expect or --nan found something" },
		{ "doctor", "1 something is missing" }, { "pick", "1 no device is chosen" },
		{ "load", "1 a request failed" }, { "data", "1 a file that was verified" },
		{ "train", "Exit status: 0 done, 2 wrong usage" },
		{ "bench", "Exit status: 0 done, 2 wrong usage" },
	};
	unsigned int i;
	const char *at;

	cli_begin();
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		ENDS(RLX(t[i].command, "--help"), 0, out, t[i].status);
		at = strstr(RLX(t[i].command, "--help")->out, "Exit status");
		CHECKF(at && !strstr(at + 1, "Exit status"), "%s: twice", t[i].command);
	}
}

/* What is printed and arrives nowhere is no success, nor does it go into a file that is opened. */
TEST(output_that_goes_nowhere)
{
	static const char *const where[] = { "/dev/full", "" };
	static char y[1 << 10];
	unsigned int i;

	relu_model();
	for (i = 0; i < 2; i++) {
		cli_out = where[i];
		ENDS(RLX("--help"), 3, err, "cannot write to standard output");
		ENDS(RLX("--version"), 3, err, "cannot write to standard output");
		ENDS(RLX("run", "--help"), 3, err, "cannot write to standard output");
		ENDS(RLX("train", "--keys"), 3, err, "cannot write to standard output");
		ENDS(RLX("run", "relu.rlx"), 3, err, "cannot write to standard output");
		ENDS(RLX("compile", "relu.rlx", "-o", "relu.rlxp"), 3, err, "cannot write");
		ENDS(RLX("dump", "relu.rlx"), 3, err, "cannot write");
		ENDS(RLX("bench", "relu.rlx", "--seconds", "0.05", "--profile"), 3, err, "cannot");
		ENDS(RLX("run", "relu.rlx", "--values", "9", "--output", "y=y.npy"), 3, err, "");
		CHECK_EQ(cli_read("y.npy", y, sizeof(y)), 128 + 4 * 12);
	}
	cli_out = NULL;
	ENDS(RLX("info", "relu.rlxp", "--verify"), 0, out, "weights are whole");
}

/* What fails while a graph is printed is told of where it goes, with why. */
TEST(long_output_that_goes_nowhere)
{
	static char text[1 << 17];
	size_t n = 0;
	int i;

	cli_begin();
	n += (size_t)sprintf(text, "graph \"t\" {\n  %%1 = input(name=\"x\", type=f32[4,3])\n");
	for (i = 2; i < 2000; i++)
		n += (size_t)sprintf(text + n, "  %%%d = relu(x=%%%d) : f32[4,3]\n", i, i - 1);
	sprintf(text + n, "  return \"y\"=%%%d\n}\n", i - 1);
	cli_write("long.rlx", text);
	cli_out = "/dev/full";
	ENDS(RLX("dump", "long.rlx", "--pass", "none"), 3, err,
	     "cannot write to standard output: No space left");
	ENDS(RLX("dump", "long.rlx", "--no-simplify", "--no-fuse"), 3, err,
	     "cannot write to standard output: No space left");
	cli_out = NULL;
}

TEST(wrong_usage)
{
	relu_model();
	ENDS(RLX("run"), 2, err, "usage: rlx run MODEL");
	ENDS(RLX("run", "relu.rlx", "again"), 2, err, "'again'");
	ENDS(RLX("run", "relu.rlx", "--seed"), 2, err, "a value is missing behind '--seed'");
	ENDS(RLX("run", "relu.rlx", "--seed", "-1"), 2, err, "--seed is '-1', want a whole number");
	ENDS(RLX("run", "relu.rlx", "--seed=99999999999999999999"), 2, err, "want a whole number");
	ENDS(RLX("run", "relu.rlx", "--rtol", "nan"), 2, err, "want a number");
	ENDS(RLX("run", "relu.rlx", "--json=yes"), 2, err, "no value belongs to");
	ENDS(RLX("run", "relu.rlx", "--precision", "f8"), 2, err, "want f32|bf16");
	ENDS(RLX("run", "relu.rlx", "--repeat", "0"), 2, err, "at least 1");
	ENDS(RLX("run", "relu.rlx", "--input", "z=zeros"), 2, err, "no such input; there are: x");
	ENDS(RLX("run", "relu.rlx", "--input", "x=const:y"), 2, err, "want const:NUMBER");
	ENDS(RLX("run", "relu.rlx", "--input", "x=random:2:1"), 2, err, "want random:LO:HI");
	ENDS(RLX("run", "relu.rlx", "--shape", "x=1,,2"), 2, err, "want up to 8 sizes");
	ENDS(RLX("run", "relu.rlx", "--output", "z=f"), 2, err, "no such output; there are: y");
	ENDS(RLX("bench", "relu.rlx", "--threads", "1,x"), 2, err, "numbers from 1");
	ENDS(RLX("bench", "relu.rlx", "--threads", ""), 2, err, "--threads is ''");
	ENDS(RLX("bench", "relu.rlx", "--threads", "1,"), 2, err, "--threads is '1,'");
	ENDS(RLX("bench", "relu.rlx", "--threads", "10000"), 2, err, "--threads is '10000'");
	CHECK(!RLX("bench", "relu.rlx", "--threads", "1,4097", "--seconds", "0.05")->n_out);
	ENDS(RLX("run", "relu.rlx", "--rtol", "-1"), 2, err, "0 or more");
	ENDS(RLX("run", "relu.rlx", "--output", "y="), 3, err, "is empty");
	ENDS(RLX("train", "--ranks", "0", "x.conf"), 2, err, "--ranks is 0, want 1 to 256");
	ENDS(RLX("train", "--ranks", "4294967297", "x.conf"), 2, err, "want 1 to 256");
	ENDS(RLX("load", "--to", "channel:/x", "--model", "m", "--size", "-5"), 2, err, "is '-5'");
	ENDS(RLX("load", "--to", "channel:/x", "--model", "m", "--size", ""), 2, err, "is ''");
	ENDS(RLX("pick", "relu.rlx", "--threads", "4294967297", "--measure", "1"), 1, out,
	     "at most 1024");
	ENDS(RLX("bench", "relu.rlx", "--seconds", "0"), 2, err, "above 0");
	ENDS(RLX("bench", "relu.rlx", "--peer", "tflite"), 2, err, "want onnxruntime");
	ENDS(RLX("dump", "relu.rlx", "--pass", "all", "--format", "svg"), 2, err, "name one pass");
	ENDS(RLX("embed", "--corpus", "x", "--query", "y"), 2, err, "--model is needed");
	ENDS(RLX("info", "--arena", "0"), 2, err, "at least 1 MiB");
	ENDS(RLX("info", "--verify"), 2, err, "--verify wants a PLAN-FILE");
	ENDS(RLX("info", "--arena", "64", "relu.plan"), 2, err, "--arena is for the machine");
}

TEST(what_cannot_be_read)
{
	relu_model();
	cli_write("rubbish", "no model at all");
	cli_write("cut.rlx", "graph \"t\" {\n  %1 = input(name=");
	ENDS(RLX("run", "nowhere.onnx"), 3, err, "nowhere.onnx: ");
	ENDS(RLX("run", "."), 3, err, "rlx run: ");
	ENDS(RLX("run", "rubbish"), 3, err, "rubbish");
	ENDS(RLX("dump", "cut.rlx"), 3, err, "rlx dump: cut.rlx: line 2, column ");
	ENDS(RLX("run", "relu.rlx", "--device", "abacus"), 3, err, "no device 'abacus'");
	ENDS(RLX("run", "relu.rlx", "--input", "x=nowhere.npy"), 3, err, "nowhere.npy");
	ENDS(RLX("run", "relu.rlx", "--input", "x=rubbish"), 3, err, "rubbish");
	ENDS(RLX("run", "relu.rlx", "--output", "y=no/such/folder.npy"), 3, err, "no/such");
	ENDS(RLX("run", "relu.rlx", "--shape", "x=9223372036854775807,9"), 3, err, "too large");
	ENDS(RLX("run", "relu.rlx", "--shape", "x=99999999999999"), 3, err, "too large");
	ENDS(RLX("ops", "no_such_op"), 3, err,
	     "there is no op 'no_such_op'; rlx ops lists them");
	ENDS(RLX("ops", "sofmax"), 3, err, "there is no op 'sofmax'; is it 'softmax'");
	ENDS(RLX("ops", "--fields", "softmax", "conv"), 0, out, "1, and for 0");
	ENDS(RLX("ops", "--fields", "softmax"), 0, out,
	     "refused: write -1 for the last dimension");
	ENDS(RLX("ops", "--fields"), 0, out, "linear_before_reset");
	ENDS(RLX("bench", "relu.rlx", "--peer", "onnxruntime=nowhere.so"), 3, err, "nowhere.so");
}

/* A device that is replaced is gone for the whole machine; a FIFO stands for it here. */
TEST(only_regular_files_are_replaced)
{
	static const float x[2] = { 1, 2 };
	struct stat sb;

	relu_model();
	CHECK(!mkfifo("fifo", 0666) && !symlink("fifo", "to-fifo"));
	write_npy("x.npy", x, 2, 1);
	ENDS(RLX("run", "relu.rlx", "--output", "y=fifo"), 3, err, "fifo: not a regular file");
	ENDS(RLX("run", "relu.rlx", "--output", "y=to-fifo"), 3, err, "to-fifo: not a regular");
	ENDS(RLX("run", "relu.rlx", "--output", "y=."), 3, err, ".: not a regular file");
	ENDS(RLX("compile", "relu.rlx", "-o", "fifo"), 3, err, "fifo: not a regular file");
	ENDS(RLX("data", "convert", "x.npy", "--output", "fifo"), 3, err, "fifo: not a regular");
	CHECK(!lstat("fifo", &sb) && S_ISFIFO(sb.st_mode));
	CHECK(!lstat("to-fifo", &sb) && S_ISLNK(sb.st_mode));
	cli_write("target", "");
	CHECK(!symlink("target", "link"));
	ENDS(RLX("compile", "relu.rlx", "-o", "link"), 0, out, "link");
	CHECK(!lstat("link", &sb) && S_ISLNK(sb.st_mode));
	ENDS(RLX("info", "target"), 0, out, "it loads");
	ENDS(RLX("data", "convert", "x.npy", "--output", "link"), 0, out, "2 records");
	CHECK(!lstat("link", &sb) && S_ISLNK(sb.st_mode));
	ENDS(RLX("data", "verify", "target"), 0, out, "whole");
}

TEST(info)
{
	struct rlx_json *j;
	uint32_t arena, cpu;
	int64_t v;

	cli_begin();
	j = cli_json(RLX("info", "--json", "--arena", "2"));
	arena = rlx_json_get(j, 0, "arena");
	CHECK(rlx_json_int(j, rlx_json_get(j, arena, "bytes"), &v) && v >= 2 << 20);
	CHECK(rlx_json_str_is(j, rlx_json_get(j, arena, "provider"), "memfd"));
	cpu = rlx_json_get(j, rlx_json_get(j, 0, "devices"), "cpu");
	CHECK(cpu && rlx_json_int(j, rlx_json_get(j, cpu, "numa_node"), &v) && v == -1);
	CHECK(rlx_json_get(j, rlx_json_get(j, 0, "module"), "loaded"));
	ENDS(RLX("info"), 0, out, "memlock limit");
}

TEST(run_computes_and_checks)
{
	float x[12], y[12];
	uint64_t seed = rlx_test_seed();
	int i;

	relu_model();
	for (i = 0; i < 12; i++)
		x[i] = (float)rlx_test_uniform(&seed, -2, 2);
	write_npy("x.npy", x, 4, 3);
	ENDS(RLX("run", "relu.rlx", "--input", "x=x.npy", "--output", "y=y.npy"), 0, out,
	     "f32[4,3]");
	read_npy("y.npy", y, 4, 3);
	for (i = 0; i < 12; i++)
		CHECK(y[i] == (x[i] > 0 ? x[i] : 0));
	ENDS(RLX("run", "relu.rlx", "--input", "x=x.npy", "--expect", "y=y.npy"), 0, out,
	     "as expected");
	ENDS(RLX("run", "relu.rlx", "--input", "x=x.npy", "--expect", "y=y.npy", "--device", "ref"),
	     0, out, "as expected");
	y[7] += 0.5f;
	write_npy("y.npy", y, 4, 3);
	ENDS(RLX("run", "relu.rlx", "--input", "x=x.npy", "--expect", "y=y.npy"), 1, out,
	     "1 elements differ; the worst is 7");
	ENDS(RLX("run", "relu.rlx", "--input", "x=x.npy", "--expect", "y=y.npy", "--atol", "1"), 0,
	     out, "as expected");
	write_npy("y.npy", y, 3, 4);
	ENDS(RLX("run", "relu.rlx", "--input", "x=x.npy", "--expect", "y=y.npy"), 1, out,
	     "is f32[4,3], expected f32[3,4]");
	write_npy("x.npy", x, 3, 4);
	ENDS(RLX("run", "relu.rlx", "--input", "x=x.npy"), 3, err, "f32[3,4]");
}

TEST(run_finds_nan)
{
	relu_model();
	ENDS(RLX("run", "relu.rlx", "--nan", "--values", "9", "--input", "x=const:2"), 0, out,
	     "all values are finite");
	ENDS(RLX("run", "relu.rlx", "--values", "9", "--input", "x=const:2"), 0, out,
	     "relu f32[4,3]  absmax 2  nonzero 12/12");
	cli_write("log.rlx", "graph \"log\" {\n  %1 = input(name=\"x\", type=f32[2])\n"
		  "  %2 = neg(x=%1) : f32[2]\n  %3 = log(x=%2) : f32[2]\n"
		  "  %4 = softmax(x=%3, axis=0) : f32[2]\n  return \"y\"=%4\n}\n");
	ENDS(RLX("run", "log.rlx", "--nan", "--no-fuse", "--input", "x=const:2"), 1, out,
	     "log f32[2]");
	ENDS(RLX("run", "log.rlx", "--nan", "--no-fuse", "--input", "x=const:2"), 1, out,
	     "2, the first is element 0");
	ENDS(RLX("run", "log.rlx", "--nan", "--input", "x=const:2", "--device", "ref"), 1, out,
	     "computed_of");
	ENDS(RLX("run", "log.rlx", "--nan", "--no-fuse", "--input", "x=const:2", "--json"), 1, out,
	     "\"values\": 1");
	ENDS(RLX("run", "log.rlx", "--nan", "--no-fuse", "--input", "x=const:2"), 1, out,
	     "softmax f32[2]");
	ENDS(RLX("run", "log.rlx", "--values", "2", "--at", "1", "--no-fuse", "--input",
		 "x=const:3"), 0, out, "%2[1]                  -3");
	ENDS(RLX("run", "log.rlx", "--at", "1"), 2, err, "give both");
	cli_write("loop.rlx", "graph \"loop\" { %1 = input(name=\"s\", type=f32[2]) "
		  "%2, %3 = scan(body_g=graph \"step\" { %1 = input(name=\"s\", type=f32[2]) "
		  "%2 = neg(x=%1) %3 = log(x=%2) return \"s\"=%2, \"y\"=%3 }, "
		  "n_carry=1, length=3, xs=[%1]) return \"y\"=%3 }");
	ENDS(RLX("run", "loop.rlx", "--nan", "--input", "s=const:-2"), 1, out, "inside_1");
	ENDS(RLX("run", "loop.rlx", "--nan", "--input", "s=const:-2"), 1, out, "log f32[2]");
	ENDS(RLX("run", "loop.rlx", "--nan", "--input", "s=const:-2", "--json"), 1, out,
	     "\"iteration\": 1");
}

/* A number that an input's dtype does not have is refused, not rounded or clamped to one it has. */
TEST(numbers_that_inputs_have_not)
{
	static const struct {
		const char *dtype, *have[3], *bad[6];
	} t[] = {
		{ "i8", { "const:-128", "random:-128:127" },
		  { "const:128", "const:1.5", "const:1e30", "random:0:300", "random:0:1.5" } },
		{ "u8", { "const:255", "random:0:255" },
		  { "const:-1", "const:256", "random:-1:1", "random:250:256" } },
		{ "bool", { "const:1", "random:0:1" }, { "const:2", "const:0.5", "random:0:3" } },
		{ "i64", { "const:-7", "random:-9:9" },
		  { "const:1e19", "const:0.1", "const:9223372036854775808",
		    "const:-9223372036854775809" } },
		{ "u64", { "const:18446744073709551615", "random:0:18446744073709551615" },
		  { "const:18446744073709551616", "const:-1", "random:-1:1" } },
		{ "f16", { "const:0.1", "random:-6e4:6e4" }, { "const:1e5", "random:0:1e30" } },
		{ "f32", { "const:1e-50", "random:-1e38:1e38" }, { "const:1e39" } },
	};
	char text[100], want[200];
	size_t i, k;

	cli_begin();
	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		snprintf(text, sizeof(text), "graph \"t\" {\n  %%1 = input(name=\"x\", "
			 "type=%s[4])\n  return \"y\"=%%1\n}\n", t[i].dtype);
		cli_write("t.rlx", text);
		for (k = 0; t[i].have[k]; k++) {
			snprintf(text, sizeof(text), "x=%s", t[i].have[k]);
			ENDS(RLX("run", "t.rlx", "--input", text), 0, out, "outputs");
		}
		for (k = 0; t[i].bad[k]; k++) {
			snprintf(text, sizeof(text), "x=%s", t[i].bad[k]);
			snprintf(want, sizeof(want), "%s: %s has no", text, t[i].dtype);
			ENDS(RLX("run", "t.rlx", "--input", text), 2, err, want);
		}
	}
}

/* Integers are filled as they are written, those that a double has not, too. */
TEST(integers_that_a_double_has_not)
{
	static const struct {
		const char *dtype, *text;
		uint64_t want;
	} t[] = {
		{ "i64", "9007199254740993", 9007199254740993 },
		{ "i64", "-9007199254740993", (uint64_t)-9007199254740993 },
		{ "i64", "9223372036854775807", INT64_MAX },
		{ "i64", "-9223372036854775808", (uint64_t)INT64_MIN },
		{ "u64", "18446744073709551615", UINT64_MAX },
		{ "u64", "9223372036854775809", 9223372036854775809u },
		{ "u64", "1e19", 10000000000000000000u },
	};
	char text[200];
	uint64_t got[2];
	size_t i, k;

	cli_begin();
	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		snprintf(text, sizeof(text), "graph \"t\" {\n  %%1 = input(name=\"x\", "
			 "type=%s[2])\n  return \"y\"=%%1\n}\n", t[i].dtype);
		cli_write("t.rlx", text);
		for (k = 0; k < 2; k++) {
			snprintf(text, sizeof(text), k ? "x=random:%s:%s" : "x=const:%s", t[i].text,
				 t[i].text);
			ENDS(RLX("run", "t.rlx", "--input", text, "--output", "y=y.npy"), 0, out,
			     "outputs");
			read_npy_of("y.npy", rlx_type(*t[i].dtype == 'i' ? RLX_I64 : RLX_U64, 2),
				    got);
			CHECKF(got[0] == t[i].want && got[1] == t[i].want, "%s: %llu", text,
			       (unsigned long long)got[0]);
		}
	}
	ENDS(RLX("run", "t.rlx", "--input", "x=random:9007199254740993:9007199254740992"), 2, err,
	     "LO not above HI");
}

TEST(random_inputs_have_a_seed)
{
	float a[12], b[12], c[12];
	int i;

	relu_model();
	CHECK(!RLX("run", "relu.rlx", "--output", "y=a.npy")->status);
	CHECK(!RLX("run", "relu.rlx", "--output", "y=b.npy", "--seed", "1")->status);
	CHECK(!RLX("run", "relu.rlx", "--output", "y=c.npy", "--seed", "2")->status);
	read_npy("a.npy", a, 4, 3);
	read_npy("b.npy", b, 4, 3);
	read_npy("c.npy", c, 4, 3);
	CHECK(!memcmp(a, b, sizeof(a)));
	CHECK(memcmp(a, c, sizeof(a)));
	CHECK(!RLX("run", "relu.rlx", "--input=x=random:3:4", "--output", "y=a.npy")->status);
	read_npy("a.npy", a, 4, 3);
	for (i = 0; i < 12; i++)
		CHECK(a[i] >= 3 && a[i] <= 4);
	CHECK(!RLX("run", "relu.rlx", "--input=x=const:2.5", "--output", "y=a.npy")->status);
	read_npy("a.npy", a, 4, 3);
	for (i = 0; i < 12; i++)
		CHECK(a[i] == 2.5f);
}

TEST(open_sizes)
{
	float a[6] = { 1, 2, 3, 4, 5, 6 }, y[6];
	int i;

	open_model();
	ENDS(RLX("run", "add.onnx"), 2, err, "sizes are missing: a[0] (--dim n=N)");
	ENDS(RLX("run", "add.onnx", "--dim", "m=3"), 2, err, "no such dimension; there are: n");
	ENDS(RLX("run", "add.onnx", "--dim", "n=3x"), 2, err, "want a whole number");
	ENDS(RLX("run", "add.onnx", "--dim", "n=5"), 0, out, "f32[5,2]");
	ENDS(RLX("run", "add.onnx", "--shape", "a=4,2", "--shape", "b=1,2"), 0, out, "f32[4,2]");
	write_npy("a.npy", a, 3, 2);
	CHECK(!RLX("run", "add.onnx", "--input", "a=a.npy", "--input", "b=const:1", "--output",
		   "y=y.npy")->status);
	read_npy("y.npy", y, 3, 2);
	for (i = 0; i < 6; i++)
		CHECK(y[i] == a[i] + 1);
}

/* The text form of a graph whose sizes have names. */
TEST(named_sizes)
{
	cli_begin();
	cli_write("names.rlx",
		  "graph \"n\" { dim b[1,64] dim s[1,8] %1 = input(name=\"x\", type=f32[b,s]) "
		  "%2 = reshape(x=%1, shape=[(b*s)]) return \"y\"=%2 }");
	ENDS(RLX("run", "names.rlx", "--dim", "b=3"), 2, err, "sizes are missing: (--dim s=N)");
	ENDS(RLX("run", "names.rlx", "--dim", "b=3", "--dim", "s=x"), 2, err,
	     "s=x is no whole number");
	ENDS(RLX("run", "names.rlx", "--dim", "q=3"), 2, err, "no such dimension; there are: b, s");
	ENDS(RLX("run", "names.rlx", "--dim", "b=3", "--dim", "s=9"), 3, err, "1 to 8 are right");
	ENDS(RLX("run", "names.rlx", "--dim", "b=3", "--dim", "s=5"), 0, out, "f32[15]");
	ENDS(RLX("dump", "names.rlx", "--dim", "b=3", "--dim", "s=5"), 0, out, "shape=[15]");
}

TEST(run_json)
{
	struct rlx_json *j;
	uint32_t y;
	double v;

	relu_model();
	j = cli_json(RLX("run", "relu.rlx", "--json", "--input", "x=const:2"));
	y = rlx_json_get(j, rlx_json_get(j, 0, "outputs"), "y");
	CHECK(rlx_json_double(j, rlx_json_get(j, y, "mean"), &v) && v == 2);
}

/* A product of params alone, and what reads it: with an input, or (@alone) without. */
static void product_model(bool alone)
{
	static const char head[] =
		"graph \"t\" {\n"
		"  %1 = param(name=\"a\", type=f32[64,64])\n"
		"  %2 = param(name=\"b\", type=f32[64,64])\n"
		"  %6 = input(name=\"x\", type=f32[64,64])\n"
		"  %3 = matmul(a=%1, b=%2) : f32[64,64]\n"
		"  %4 = softmax(x=%3, axis=-1) : f32[64,64]\n";
	char text[512];

	snprintf(text, sizeof(text), "%s  %%5 = %s : f32[64,64]\n  return \"y\"=%%5\n}\n", head,
		 alone ? "neg(x=%4)" : "add(a=%4, b=%6)");
	cli_write("product.rlx", text);
}

/* What later runs leave out is in no rate, and told. */
TEST(bench_left_out)
{
	static const char before[] = "of params and constants alone";
	static const char none[] = "no output depends on an input";
	int alone;

	cli_begin();
	for (alone = 0; alone < 2; alone++) {
		struct rlx_json *j;
		struct rlx_json_iter it;
		double left, gflops;
		const char *out;

		product_model(alone);
		out = RLX("bench", "product.rlx", "--seconds", "0.05")->out;
		CHECK(strstr(out, before));
		CHECK(!strstr(out, none) == !alone);
		j = cli_json(RLX("bench", "product.rlx", "--seconds", "0.05", "--format", "json"));
		it = rlx_json_iter(j, 0);
		CHECK(rlx_json_next(&it));
		CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "left_out"), &left) && left == 2);
		/* 4,096 sums or signs are no 64^3 products */
		CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "gflops"), &gflops));
		CHECK(gflops < 64);
	}
	cli_write("relu.rlx", relu);
	CHECK(!strstr(RLX("bench", "relu.rlx", "--seconds", "0.05")->out, before));
}

TEST(bench)
{
	struct rlx_json *j;
	struct rlx_json_iter it;
	double v;
	char *row;

	relu_model();
	ENDS(RLX("bench", "relu.rlx", "--seconds", "0.05"), 0, out, "p99_ms");
	row = strchr(RLX("bench", "relu.rlx", "--seconds", "0.05", "--format", "csv")->out, '\n');
	CHECK(row && !strncmp(row + 1, "1,rlx,", 6));
	j = cli_json(RLX("bench", "relu.rlx", "--seconds", "0.05", "--format", "json"));
	it = rlx_json_iter(j, 0);
	CHECK(rlx_json_next(&it));
	CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "runs"), &v) && v >= 1);
	CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "p50_ms"), &v) && v > 0);
	CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "peak_gflops"), &v) && v > 0);
	CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "peak_gbytes"), &v) && v > 0);
	/* a run at least, however short the time */
	j = cli_json(RLX("bench", "relu.rlx", "--seconds", "1e-9", "--format", "json"));
	it = rlx_json_iter(j, 0);
	CHECK(rlx_json_next(&it));
	CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "runs"), &v) && v >= 1);
	CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "p50_ms"), &v) && v > 0);
}

TEST(profile)
{
	struct rlx_json *j;
	struct rlx_json_iter it;
	static const char *const devices[] = { "cpu", "ref" };
	double ms, pct;
	unsigned int i;

	relu_model();
	for (i = 0; i < 2; i++) {
		j = cli_json(RLX("bench", "relu.rlx", "--profile", "--seconds", "0.05", "--format",
				 "json", "--device", devices[i]));
		it = rlx_json_iter(j, 0);
		CHECK(rlx_json_next(&it));
		CHECK(rlx_json_str_is(j, rlx_json_get(j, it.val, "op"), "relu"));
		CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "ms"), &ms) && ms > 0);
		CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "pct"), &pct));
		CHECK(fabs(pct - 100) < 1e-6);
	}
	ENDS(RLX("bench", "relu.rlx", "--profile", "--peer", "onnxruntime"), 2, err,
	     "without --peer");
}

TEST(dump_can_be_read_back)
{
	struct said *s;

	open_model();
	s = RLX("dump", "add.onnx", "--dim", "n=2", "--pass", "none", "--whole");
	ENDS(s, 0, out, "add(a=%1, b=%2)");
	cli_write("again.rlx", s->out);
	CHECK(!RLX("run", "add.onnx", "--dim", "n=2", "--output", "y=y.npy")->status);
	ENDS(RLX("run", "again.rlx", "--expect", "y=y.npy", "--rtol", "0", "--atol", "0"), 0, out,
	     "as expected");
}

TEST(dump_images_and_reports)
{
	struct said *s;

	relu_model();
	ENDS(RLX("dump", "relu.rlx", "--pass", "all"), 0, out, "# before all passes: ");
	ENDS(RLX("dump", "relu.rlx", "--passes"), 0, out, "none, ");
	ENDS(RLX("dump", "relu.rlx", "--pass", "nope"), 2, err, "no pass 'nope' ran");
	s = RLX("dump", "relu.rlx", "--format", "dot");
	ENDS(s, 0, out, "digraph");
	CHECK(strstr(s->out, "-> o0;\n}"));
	s = RLX("dump", "relu.rlx", "--format", "svg", "--output", "g.svg");
	ENDS(s, 0, out, "");
	cli_read("g.svg", s->out, sizeof(s->out));
	CHECK(!strncmp(s->out, "<svg ", 5) && strstr(s->out, ">x</text>") &&
	      strstr(s->out, "</svg>\n"));
	ENDS(RLX("dump", "relu.rlx", "--pass", "nope", "--output", "g.svg"), 2, err, "'nope'");
	CHECK(cli_read("g.svg", s->err, sizeof(s->err)) && !strncmp(s->err, "<svg ", 5));
	ENDS(RLX("dump", "relu.rlx", "--output", "no/such"), 3, err, "no/such");
	ENDS(RLX("dump", "relu.rlx", "--output", "."), 3, err, "not a regular file");
	ENDS(RLX("dump", "relu.rlx", "--plan", "svg"), 0, out, "<svg");
	ENDS(RLX("dump", "relu.rlx", "--plan", "text"), 0, out, "steps");
	ENDS(RLX("dump", "relu.rlx", "--report"), 0, out, "native");
}

/* What a plan file gives is what the model does; it is told what cannot be asked of it. */
TEST(compile_ahead)
{
	struct rlx_json *j;
	uint32_t file;
	int64_t v;

	open_model();
	cli_write("relu.rlx", relu);
	ENDS(RLX("compile", "add.onnx", "--dim", "n=3", "-o", "add.rlxp"), 0, out, "for ");
	ENDS(RLX("run", "add.onnx", "--dim", "n=3", "--seed", "7", "--output", "y=y.npy"), 0, out,
	     "f32[3,2]");
	ENDS(RLX("run", "add.rlxp", "--seed", "7", "--expect", "y=y.npy", "--rtol", "0", "--atol",
		 "0"), 0, out, "as expected");
	ENDS(RLX("bench", "add.rlxp", "--seconds", "0.1"), 0, out, "rlx");
	ENDS(RLX("dump", "add.rlxp", "--report"), 0, out, "native");
	ENDS(RLX("compile", "add.rlxp", "--output=again.rlxp"), 0, out, "again.rlxp");
	ENDS(RLX("compile", "relu.rlx", "-o", "relu.rlxp", "--json"), 0, out, "\"for\"");
	j = cli_json(RLX("info", "again.rlxp", "--verify", "--json"));
	file = rlx_json_get(j, 0, "again.rlxp");
	CHECK(rlx_json_int(j, rlx_json_get(j, file, "bytes"), &v) && v > 0);
	CHECK(rlx_json_str_is(j, rlx_json_get(j, file, "here"),
			      "it loads, and its weights are whole"));
	ENDS(RLX("compile", "add.onnx", "--dim", "n=3"), 2, err, "--output is needed");
	ENDS(RLX("compile", "add.onnx", "-o", "x.rlxp"), 2, err, "sizes are missing");
	ENDS(RLX("compile", "relu.rlx", "-o", "no/such/x.rlxp"), 3, err, "no/such/x.rlxp");
	ENDS(RLX("compile", "relu.rlx", "-o", "x.rlxp", "--device", "ref"), 3, err,
	     "programs of 'ref' cannot");
	ENDS(RLX("run", "add.rlxp", "--precision", "bf16"), 3, err, "is compiled already");
	ENDS(RLX("dump", "add.rlxp", "--pass", "fuse"), 2, err, "through the passes");
	ENDS(RLX("run", "add.rlxp", "--device", "ref"), 3, err, "made for cpu ");
	ENDS(RLX("info", "relu.rlx"), 3, err, "no plan file");
	CHECK(!truncate("add.rlxp", 700));
	ENDS(RLX("run", "add.rlxp"), 3, err, "rlx run: add.rlxp: the plan file has 700 bytes");
}

/*
 * What info says of a plan file is all of one file: between two times that it opens the
 * name, another may have been renamed over it. Events that are alike and follow each other
 * are told once, so ends are asked for, too.
 */
TEST(info_opens_a_plan_file_once)
{
	union {
		struct inotify_event e;
		char b[4096];
	} buf;
	int fd, opened = 0;
	ssize_t n, at;

	relu_model();
	ENDS(RLX("compile", "relu.rlx", "-o", "relu.rlxp"), 0, out, "for ");
	fd = inotify_init1(IN_NONBLOCK);
	CHECK(fd >= 0 && inotify_add_watch(fd, "relu.rlxp", IN_OPEN | IN_CLOSE) >= 0);
	ENDS(RLX("info", "relu.rlxp", "--verify"), 0, out, "weights are whole");
	n = read(fd, buf.b, sizeof(buf.b));
	CHECK(n > 0);
	for (at = 0; at < n; at += (ssize_t)sizeof(buf.e)) {	/* of a file, without a name */
		const struct inotify_event *e = (const void *)(buf.b + at);

		opened += !!(e->mask & IN_OPEN);
	}
	CHECK_EQ(opened, 1);
	close(fd);
}

TEST(ops_are_counted)
{
	struct rlx_json *j;
	struct rlx_json_iter it;
	uint32_t n = 0;
	double samples, native;

	cli_begin();
	ENDS(RLX("ops", "relu", "matmul"), 0, out, "matmul");
	j = cli_json(RLX("ops", "--json"));
	for (it = rlx_json_iter(j, 0); rlx_json_next(&it); n++) {
		uint32_t name = rlx_json_get(j, it.val, "op");

		CHECK(rlx_json_get(j, it.val, "doc") && name);
		CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "samples"), &samples));
		CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "native"), &native));
		if (rlx_json_str_is(j, name, "relu"))
			CHECK(samples > 0 && native == samples);
	}
	CHECK(n > 100);
	j = cli_json(RLX("ops", "relu", "--json", "--device", "null"));
}

TEST(pick_by_a_policy)
{
	relu_model();
	ENDS(RLX("pick", "relu.rlx", "--policy", "allow=cpu,ref prefer=ref pick=order"), 0, out,
	     "ref     chosen");
	ENDS(RLX("pick", "relu.rlx", "--measure", "2", "--format", "csv"), 0, out,
	     "cpu,chosen,1,0,");
	ENDS(RLX("pick", "relu.rlx", "--policy", "deny=cpu,gpu"), 1, err, "denies");
	ENDS(RLX("pick", "relu.rlx", "--policy", "pick=best"), 2, err, "best");
	ENDS(RLX("pick", "relu.rlx", "--device", "cpu"), 2, err, "--policy device=cpu");
}

TEST_MAIN()
