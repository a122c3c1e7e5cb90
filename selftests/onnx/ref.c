// SPDX-License-Identifier: MIT
/* The ONNX backend test cases on the ref backend. */
#include "selftests/lib/onnx_case.h"

int main(int argc, char **argv)
{
	return onnx_cases_main("ref", argc, argv);
}
