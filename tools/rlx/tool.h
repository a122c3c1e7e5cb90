/* SPDX-License-Identifier: MIT */
/* The subcommands, and the model with inputs that several of them share. */
#ifndef RLX_TOOLS_TOOL_H
#define RLX_TOOLS_TOOL_H

#include "rlx/model.h"
#include "tools/rlx/args.h"
#include "tools/rlx/out.h"

/* argv[0] is the subcommand's name; the result is an enum tool_exit. */
#define COMMAND(name, about) int cmd_##name(int argc, char **argv);
#include "tools/rlx/commands.def"
#undef COMMAND

/* What --device takes: the rows of backends/backends.def, and one of several */
#define DEVICE_WORDS "cpu (default), cuda, rocm, vulkan, pjrt, ref, null; cuda:1 is the second"

#define N_ELEM(a) ((unsigned int)(sizeof(a) / sizeof((a)[0])))

#endif
