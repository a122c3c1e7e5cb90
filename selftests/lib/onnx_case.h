/* SPDX-License-Identifier: MIT */
/* The ONNX backend test cases: a model and tensors in files, one folder each. */
#ifndef SELFTESTS_ONNX_CASE_H
#define SELFTESTS_ONNX_CASE_H

#include <stdbool.h>

struct onnx_tensor;
struct rlx_spec;

/* What a .pb file holds as an input's spec, while that is open; false: of a dtype that we lack. */
bool onnx_tensor_spec(const struct onnx_tensor *t, const char *name, struct rlx_spec *out);

/*
 * Is @got as good as @want: within @atol + @rtol |want| of a finite one, the same
 * infinity or NaN where it is none?
 */
bool onnx_value_matches(double got, double want, double rtol, double atol);

/*
 * Run every case on @device, each in a child with a time limit, and print TAP.
 * Arguments name cases (all if none): "node/test_abs". The folder is
 * RLX_ONNX_DATA, or where Debian's libonnx-testdata puts it.
 */
int onnx_cases_main(const char *device, int argc, char **argv);

#endif
