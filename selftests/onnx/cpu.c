// SPDX-License-Identifier: MIT
/* The ONNX backend test cases on the cpu backend. */
#include "selftests/lib/onnx_case.h"

int main(int argc, char **argv)
{
	return onnx_cases_main("cpu", argc, argv);
}
