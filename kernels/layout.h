// SPDX-License-Identifier: Apache-2.0
// Definitions that host and kernels share; read by C11 and by OpenCL C 1.2,
// where this is the first string of the program. Every field has 32 bits.
//
// A batch is one launch per stage. The buffer `plan` begins with one struct
// hr__kernel_picture per picture (and per resample step of it); behind them
// lie lists of groups, and store tables. The buffer `axes` has the weights of
// the resample steps of many batches. A list has two words for each
// work-group of a launch: picture, and which group of that picture it is; so no
// group idles when pictures differ in size, and part of a list can be launched
// alone. Groups have HR__GROUP x 1 items and lie in rows.
//
//   hr_entropy_begin .. hr_entropy_dc: in: a scan -> work: coefficients
//                    as they are (entropy.h), in programs built with
//                    HR__ENTROPY
//   hr_index         in: coefficients      -> work: where each block begins
//   hr_reconstruct   in: coefficients, and -> work: planes of components
//                    work: where they begin; or
//                    work: coefficients as they are, if HR__DENSE
//   hr_planes        in: samples           -> work: planes of components
//   hr_color         work: those planes    -> work: planes of the window
//   hr_pixels        in: u8 pixels         -> work: planes of the window
//   hr_resample      work: those           -> work: rows, after one pass
//   hr_store         work: those rows      -> out: the tensor; or work:
//                    planes of bytes, of a picture that has codes
//   hr_augment       work: those           -> out: the tensor
//   hr_erase         plan: rectangles      -> out: the tensor, painted on
//   hr_.._gpu        the same from the same, in programs built with HR__GPU.
//                    hr_reconstruct_color_gpu does both in one, for pictures
//                    that hr__kernel_fusible() says so of; in hr_resize_gpu
//                    planes of the window become the tensor at once.
//
// Planes are stored column by column: then the weights of the horizontal pass
// are the same for all elements of a vector. It turns them to rows. If the
// vertical pass comes first (HR__TURNED), the two exchange their roles: the
// planes that resample reads are stored row by row, in what it and store read
// x is the axis of the first pass, and a row of theirs is a column of the
// picture. Planes that hr_color reads have columns in either case.
// Buffers of kernels that read vectors have HR__SLACK bytes in front of the
// first and behind the last plane. `in` ends with HR__PAYLOAD bytes of padding:
// even with damaged segments a block's payload is read from no later than the
// segment's end.
#ifndef HR__KERNELS_LAYOUT_H
#define HR__KERNELS_LAYOUT_H

#ifdef __OPENCL_VERSION__
typedef uint hr__u32;
typedef int hr__i32;
#else
#include <stdint.h>
typedef uint32_t hr__u32;
typedef int32_t hr__i32;
#endif

enum {
    HR__GROUP = 64,  // local size of every kernel
    // PoCL compiles a kernel once more for launches wider than 65535 items
    // (lib/CL/pocl_cl.h, grid_width_specialization_limit).
    HR__ROW_GROUPS = 1023,
    HR__LANES = 16,         // rows or columns that an item makes at once
    HR__COLOR_COLUMNS = 4,  // columns per item of hr_color, if not HR__TURNED
    HR__PIXEL_COLUMNS = 4,  // and of hr_pixels and hr_planes
    HR__TILE = 32,          // columns and rows of a group of hr_resize_gpu
    HR__SLACK = 64,
    HR__PAYLOAD = 256,  // more than 8 + 64 / 2 + 64 + 64 * 2
    // Taps of one output. Some drivers end the loops of an item, silently,
    // after 65535 rounds in all; hr_resample and hr_store go through 16
    // outputs.
    HR__MAX_TAPS = 4000,
    HR__MAX_ROUNDS = 65000,
    // Items of a group of hr_augment on a GPU, if it has groups of so many; on
    // a host's processor they are HR__GROUP.
    HR__AUGMENT_MOST = 512,
};

// Kernels, in the order of the stages: the name, and the stage that their time
// counts for. From RECONSTRUCT_GPU on they are forms for GPUs of earlier ones.
#define HR__KERNELS(X)                                    \
    X(BEGIN, "hr_entropy_begin", ENTROPY)                 \
    X(GUESS, "hr_entropy_guess", ENTROPY)                 \
    X(AGAIN, "hr_entropy_again", ENTROPY)                 \
    X(FAR, "hr_entropy_far", ENTROPY)                     \
    X(CHECK, "hr_entropy_check", ENTROPY)                 \
    X(WRITE, "hr_entropy_write", ENTROPY)                 \
    X(DC, "hr_entropy_dc", ENTROPY)                       \
    X(INDEX, "hr_index", RECONSTRUCT)                     \
    X(RECONSTRUCT, "hr_reconstruct", RECONSTRUCT)         \
    X(PLANES, "hr_planes", COLOR)                         \
    X(COLOR, "hr_color", COLOR)                           \
    X(PIXELS, "hr_pixels", COLOR)                         \
    X(RESAMPLE, "hr_resample", RESAMPLE)                  \
    X(AUGMENT, "hr_augment", AUGMENT)                     \
    X(ERASE, "hr_erase", STORE)                           \
    X(STORE, "hr_store", STORE)                           \
    X(RECONSTRUCT_GPU, "hr_reconstruct_gpu", RECONSTRUCT) \
    X(FUSED_GPU, "hr_reconstruct_color_gpu", RECONSTRUCT) \
    X(COLOR_GPU, "hr_color_gpu", COLOR)                   \
    X(RESIZE_GPU, "hr_resize_gpu", STORE)
enum {
#define X(name, text, stage) HR__KERNEL_##name,
    HR__KERNELS(X)
#undef X
        HR__NUM_KERNELS
};

// Arguments. LIST is the list's first word in plan. Not every kernel has all:
//   hr_entropy_..   plan list in work out: of out the flag only
//   hr_index, hr_reconstruct, hr_planes
//                   plan list in work
//   hr_color        plan list work
//   hr_pixels       plan list in work
//   hr_resample     plan list axes work
//   hr_store, hr_resize_gpu
//                   plan list axes work out
//   hr_augment      plan list work out
//   hr_erase        plan list out
enum { HR__ARG_PLAN, HR__ARG_LIST, HR__ARG_FIRST_BUFFER };

enum {                    // hr__kernel_picture.color
    HR__KERNEL_GRAY = 0,  // one component: hr_color has nothing to do
    HR__KERNEL_YCC,
    HR__KERNEL_RGB,
};

enum {  // hr__kernel_component.fancy
    HR__FANCY_X = 1,
    HR__FANCY_Y = 2,
};

enum {                   // hr__kernel_picture.flags
    HR__IDENTITY_X = 1,  // output x is source column src_x + x
    HR__IDENTITY_Y = 2,
    HR__TABLE_IDENTITY = 4,  // u8 as it is
    HR__NO_PIXELS = 8,       // all padding
    HR__TURNED = 16,         // the vertical pass comes first
    HR__OUT_TURNED = 32,     // a row of store is a column of the tensor
    HR__DENSE = 64,          // coefficients are as hr_entropy_dc leaves them
};

enum { HR__KERNEL_F32, HR__KERNEL_F16, HR__KERNEL_U8 };

struct hr__kernel_component {
    hr__u32 begin, end;  // its blocks, or items of hr_planes, among those
                         // of the picture
    hr__u32 segments;    // in: where they begin, from pic->packed on, and
                         // where the last one ends: u32 (multiple of 4)
    hr__u32 index;       // work: of each block two words (multiple of 8); of
                         // dense ones the coefficients (multiple of 16)
    hr__u32 quant;       // in: quant[64], u16 (multiple of 16)
    hr__u32 blocks_w, blocks_h;
    hr__u32 plane;           // work: its first sample
    hr__u32 stride;          // bytes from column to column, or row to row
    hr__i32 x, y;            // of that sample in the whole component
    hr__i32 width, height;   // of the whole component, unpadded
    hr__u32 step_x, step_y;  // pixels per sample
    hr__u32 fancy;
    // hr_planes: in: its first sample that is wanted, bytes to the next column
    // and row, and how many columns and rows are wanted.
    hr__u32 samples, samples_x, samples_y;
    hr__i32 cols, rows;
};

// One axis: words of axes.
struct hr__kernel_axis {
    hr__u32 lo, n, w;  // lo as src_x or src_y of the picture
    hr__u32 stride;    // weights from output to output
    hr__i32 out, pad;  // outputs that are pixels, and how many precede
};

struct hr__kernel_picture {
    // entropy; all 0: nothing to do
    hr__u32 entropy;                  // in: struct hr__entropy
    hr__u32 num_subs, num_intervals, num_codes;  // of it
    hr__u32 coefs, num_coefs;         // work: blocks, of all components
                                      // (multiple of 16)
    // reconstruct, planes
    hr__u32 num_blocks;    // or items of hr_planes
    hr__u32 fused_blocks;  // of one component: hr_reconstruct_color_gpu makes
                           // them, and num_blocks is 0
    hr__u32 packed;        // in: the coefficients
    hr__u32 num_lines;     // of blocks, of all components: items of hr_index
    struct hr__kernel_component comp[3];
    // color, pixels: window -> planes; plane i is at rgb + i * rgb_plane
    hr__u32 color;
    hr__u32 planes;      // 3 or 1, also for resample
    hr__i32 x, y, w, h;  // window made; y is even
    hr__u32 rgb, rgb_plane, rgb_stride;
    // pixels: in
    hr__u32 pixels, pixels_x, pixels_y, pixels_c;  // bytes to the next
    // resample: plane i of the source is at src + i * src_plane
    hr__u32 src, src_plane;      // src: column src_x, row src_y
    hr__u32 src_stride;          // bytes to the next x; 1 to the next y
    hr__i32 src_x, src_y, rows;  // in what lo of ax and ay counts in; rows
                                 // that the second pass reads
    struct hr__kernel_axis ax, ay;
    hr__u32 flags;
    hr__i32 win_w, win_h;  // output, padding included, before it is turned
    hr__u32 tmp, tmp_plane, tmp_stride;  // work: rows after one pass
    // store
    hr__u32 out, out_x, out_y, out_c;  // bytes to the next
    hr__u32 channels;                  // > planes: grey is repeated
    hr__u32 type, table;  // plan: word of 3 x 256 entries of the type
    hr__u32 augment;      // plan: word of a struct hr__kernel_augment; 0: none
    hr__u32 cost;         // .. rounds of its loops
    hr__u32 erase;        // plan: word of a struct hr__kernel_erase
    hr__u32 erased;       // .. pixels of all its rectangles: items of hr_erase
};

// ---- Op erase ---------------------------------------------------------------

// The head of the rectangles that are painted on the tensor, which follow it. A
// later one covers earlier ones.
struct hr__kernel_erase {
    hr__u32 num;
    hr__u32 out, out_x, out_y, out_c, channels;  // of the tensor
    hr__u32 element;                             // its bytes: 1, 2 or 4
};

struct hr__kernel_rect {
    hr__i32 x, y, w, h;  // inside it, not empty
    hr__u32 values;  // plan: word of its elements, a plane for each channel;
    hr__u32 one;     // or of a single element for each
};

// ---- Stage augment: hal/engine/augment.h -----------------------------------

enum {  // hr__kernel_code.code
    HR__CODE_TABLE,
    HR__CODE_MIX_MEAN,
    HR__CODE_MIX_LUMA,
    HR__CODE_MIX_SMOOTH,
    HR__CODE_HUE,
    HR__CODE_LUMA,
    HR__CODE_EQUALIZE,
    HR__CODE_STRETCH,
    HR__CODE_WARP,
    HR__CODE_BOX,
    HR__CODE_KERNEL3,
    HR__CODE_PERMUTE,
};

enum {  // .. way
    HR__WAY_AXES,
    HR__WAY_FIXED,
    HR__WAY_AFFINE,
    HR__WAY_PERSPECTIVE,
};

struct hr__kernel_code {
    hr__u32 code;
    hr__i32 w, h;   // of the picture that it makes
    hr__u32 table;  // plan: word of TABLE's 3 x 256 bytes; of a WARP by axes
                    // the place of each column and row, < 0 outside
    hr__u32 way, taps, fill;  // WARP: 1, 2 or 4 taps; a byte for each channel
    hr__i32 v[6];   // MIX_*: bits of the factor; HUE: shift; LUMA: one channel
                    // is left; STRETCH: bytes at both ends that do not count;
                    // PERMUTE: a byte for each channel; BOX, one pass: reach,
                    // along y; WARP: fixed
    hr__u32 m[16];  // BOX: inner, outer; KERNEL3: bits of weights, offset;
                    // WARP: of doubles, the low half first
};

// The codes follow it.
struct hr__kernel_augment {
    hr__u32 num;
    hr__i32 w, h;  // of the picture that hr_store made
    hr__u32 channels;
    hr__u32 from, beside, plane;       // work: it, and as much room beside it
    hr__u32 out, out_x, out_y, out_c;  // as of hr__kernel_picture
    hr__u32 type, table;
};

#endif
