// SPDX-License-Identifier: Apache-2.0
// headrace pack, unpack, info: pack files made, taken apart and looked at.
//
//   pack.c     pack: the command line, the files, from start to end
//   shard.c    one file of them: what is there already, and the rest in order
//   work.c     threads that read and pack, a ring of pictures in order
//   unpack.c   unpack: pictures as PNG, other files as they were
//   png.c      a PNG of pixels
//   info.c     info: what is in a pack file, and whether it is sound
#ifndef HEADRACE_TOOLS_PACK_H
#define HEADRACE_TOOLS_PACK_H

// argv[0] = "headrace pack" and so on; each returns an exit code.
int cmd_pack(int argc, char **argv);
int cmd_unpack(int argc, char **argv);
int cmd_info(int argc, char **argv);

#endif
