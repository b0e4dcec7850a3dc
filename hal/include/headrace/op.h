// SPDX-License-Identifier: Apache-2.0
// Ops: what the user asks for, as plain data. No handle, no hidden state.
//
//   const struct hr_op ops[] = {
//       hr_op_decode(0),
//       hr_op_resize(.short_side = 256),
//       hr_op_crop(.center = true, .w = 224, .h = 224),
//       hr_op_normalize(.mean = {.485f, .456f, .406f},
//                       .std = {.229f, .224f, .225f}),
//   };
//
// An op list reads as in torchvision: each op takes the picture that the one
// before it made. The order is: decode (only for encoded sources), any number
// of crop, resize, fit and flip, at most one normalize, and erase, which paints
// on the tensor. The library folds the list into geometry; nothing runs step by
// step unless it must.
//
// Random ops are ops like the others. The library draws them when it knows the
// size of the picture, so nothing has to be probed first:
//
//   const struct hr_op train[] = {
//       hr_op_decode(0),
//       hr_op_random_resized_crop(.w = 224, .h = 224),
//       hr_op_random_flip(.horizontal = .5),
//       hr_op_normalize(.mean = {.485f, .456f, .406f},
//                       .std = {.229f, .224f, .225f}),
//   };
//   struct hr_sample s = {.path = path, .ops = train, .num_ops = 4,
//                         .random = {.seed = 7, .epoch = 3, .index = i}};
//
// The reference for every pixel is libjpeg-turbo's default decode, Pillow's
// resize (src/libImaging/Resample.c) and torchvision v1's ToTensor + Normalize.
// reference.h has the releases of Pillow, and torch's resize.
#ifndef HEADRACE_OP_H
#define HEADRACE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/stage.h>
#include <headrace/status.h>

HR_BEGIN_DECLS

#define HR_MAX_OPS 32  // ops per sample
// Largest width or height of any picture made. A resize may name more, if a
// crop follows.
#define HR_MAX_SIDE 65535

// Every op, by its type and its name: hal/ops has a file for each. The numbers
// of types are their places here, from 1.
#define HR_OP_MAP(X)                              \
    X(DECODE, decode)                             \
    X(CROP, crop)                                 \
    X(RESIZE, resize)                             \
    X(FLIP, flip)                                 \
    X(NORMALIZE, normalize)                       \
    X(FIT, fit)                                   \
    X(RANDOM_CROP, random_crop)                   \
    X(RANDOM_RESIZED_CROP, random_resized_crop)   \
    X(RANDOM_FLIP, random_flip)                   \
    X(INVERT, invert)                             \
    X(ADJUST_BRIGHTNESS, adjust_brightness)       \
    X(ADJUST_CONTRAST, adjust_contrast)           \
    X(ADJUST_SATURATION, adjust_saturation)       \
    X(ADJUST_HUE, adjust_hue)                     \
    X(ADJUST_SHARPNESS, adjust_sharpness)         \
    X(GRAYSCALE, grayscale)                       \
    X(POSTERIZE, posterize)                       \
    X(SOLARIZE, solarize)                         \
    X(EQUALIZE, equalize)                         \
    X(AUTOCONTRAST, autocontrast)                 \
    X(GAUSSIAN_BLUR, gaussian_blur)               \
    X(LUT, lut)                                   \
    X(AFFINE, affine)                             \
    X(PERSPECTIVE, perspective)                   \
    X(ADJUST_GAMMA, adjust_gamma)                 \
    X(SOLARIZE_ADD, solarize_add)                 \
    X(KERNEL3, kernel3)                           \
    X(BOX_BLUR, box_blur)                         \
    X(PERMUTE_CHANNELS, permute_channels)         \
    X(ROTATE, rotate)                             \
    X(PAD, pad)                                   \
    X(RANDOM_APPLY, random_apply)                 \
    X(RANDOM_CHOICE, random_choice)               \
    X(COLOR_JITTER, color_jitter)                 \
    X(RANDOM_GRAYSCALE, random_grayscale)         \
    X(RANDOM_SOLARIZE, random_solarize)           \
    X(RANDOM_GAUSSIAN_BLUR, random_gaussian_blur) \
    X(ERASE, erase)                               \
    X(RANDOM_ERASING, random_erasing)             \
    X(RANDOM_ROTATION, random_rotation)           \
    X(RANDOM_AFFINE, random_affine)               \
    X(RANDOM_PERSPECTIVE, random_perspective)     \
    X(TRIVIAL_AUGMENT_WIDE, trivial_augment_wide) \
    X(RAND_AUGMENT, rand_augment)                 \
    X(AUTO_AUGMENT, auto_augment)

enum hr_op_type {
    HR_OP_NONE,
#define X(NAME, name) HR_OP_##NAME,
    HR_OP_MAP(X)
#undef X
};

enum hr_mode {
    HR_RGB,   // as Pillow's convert("RGB"), also for grey, CMYK and YCCK
    HR_GRAY,  // as Pillow's convert("L"): the luma of the RGB, ITU-R 601
};

// Decoding a JPEG ends where the window ends that the ops behind it keep. One
// that libjpeg-turbo refuses, or a damaged PNG, fails in any window.
struct hr_decode {
    enum hr_mode mode;
    bool apply_orientation;  // turn the picture as its EXIF says; the default
                             // ignores EXIF, as Pillow and torchvision v1 do
};

// Keep a rectangle, in pixels of the picture as it is at this op.
struct hr_crop {
    int x, y;     // left, top; ignored if center
    int w, h;     // size; > 0
    bool center;  // x = round_half_even((W - w) / 2), likewise y: torchvision
                  // functional.py center_crop
    bool pad;     // what lies outside is black, as in torchvision; false:
                  // a rectangle that leaves the picture is HR_EINVAL
    uint8_t fill[3];  // with pad: what lies outside has this colour; grey
                      // takes the first
    bool down;        // with center: halves are rounded down, as Hugging Face
                      // transformers' processors do
};

enum hr_filter {  // Pillow's six; antialiased when shrinking, except NEAREST
    HR_BILINEAR,
    HR_NEAREST,
    HR_BOX,
    HR_HAMMING,
    HR_BICUBIC,  // a = -0.5
    HR_LANCZOS,  // a = 3
    HR_NUM_FILTERS,
};

// Says which of the two passes of a resize comes first. Values are rounded to 8
// bits between them, so the order changes pixels, except with NEAREST and where
// one side stays as it is. The third value means torch's resize of bytes: its
// horizontal pass comes first, and its weights have fewer bits than Pillow's.
enum hr_order {
    HR_ORDER_REFERENCE,   // as the reference of the job does, see reference.h
    HR_ORDER_HORIZONTAL,  // Pillow's weights, in the picture as it is at this
    HR_ORDER_VERTICAL,    // op, whatever turned it before
    HR_ORDER_TORCH,  // interpolate(antialias=True), or of NEAREST "nearest".
                     // HR_EUNSUPPORTED with BOX, HAMMING, or a box
};

// Resize to w x h, or so that the short side becomes short_side and the long
// one int(long * short_side / short) (torchvision Resize(int)).
struct hr_resize {
    int w, h;        // > 0 unless short_side
    int short_side;  // > 0: w and h must be 0
    enum hr_filter filter;
    float box[4];  // x0 y0 x1 y1, Pillow's resize(box=...): taps may read
                   // outside of it, so it is not the same as crop, then
                   // resize. All 0 = whole picture
    enum hr_order order;
};

// Resize to the largest size within w x h that keeps the picture's shape. A
// picture that fits already stays as it is: Pillow's Image.thumbnail() with
// reducing_gap=None. With enlarge it becomes as large as w x h allows, and a
// half is rounded in another way: Pillow's ImageOps.contain().
struct hr_fit {
    int w, h;  // > 0
    enum hr_filter filter;
    bool enlarge;
    enum hr_order order;
};

// Turn by one of the 8 orientations: transpose first (swap x and y), then
// mirror. Rotation by 90 degrees clockwise = transpose + horizontal.
struct hr_flip {
    bool horizontal;  // left <-> right
    bool vertical;    // top <-> bottom
    bool transpose;   // rows <-> columns, before the other two
};

// The key that random ops are drawn from. One key and one list make the same
// picture of a file on any engine, in any order, for any number of threads; two
// keys that differ anywhere, or two ops of one list, draw independently. All 0
// is a key like any other.
struct hr_random {
    uint64_t seed;   // of the run
    uint64_t index;  // of the picture
    uint32_t epoch;
};

// A border of a picture has these pixels.
enum hr_edges {
    HR_EDGES_FILL,       // one colour
    HR_EDGES_REPEAT,     // the outermost pixels
    HR_EDGES_REFLECT,    // mirrored at these
    HR_EDGES_SYMMETRIC,  // mirrored behind these
};

// A window of w x h at a random place, torchvision's RandomCrop. A picture that
// is smaller than the window is HR_EINVAL, unless it may be padded. Counts as
// three ops of HR_MAX_OPS.
struct hr_random_crop {
    int w, h;            // > 0
    int pad;             // pixels that are put around the picture first
    bool pad_if_needed;  // and as many more as are missing in a direction, on
                         // both of its sides
    enum hr_edges mode;  // of these pixels
    uint8_t fill[3];
};

// A window of random area and shape, resized to w x h: torchvision's
// RandomResizedCrop. Counts as two ops of HR_MAX_OPS.
struct hr_random_resized_crop {
    int w, h;  // > 0
    enum hr_filter filter;
    double scale[2];  // least and greatest share of the area; both 0 = .08, 1
    double ratio[2];  // least and greatest width / height; both 0 = 3/4, 4/3
    enum hr_order order;
};

// Mirror with these probabilities, 0 .. 1, independently of each other:
// torchvision's RandomHorizontalFlip, RandomVerticalFlip. Both 0 is HR_EINVAL:
// there is no default here, and the op would do nothing.
struct hr_random_flip {
    double horizontal, vertical;
};

// invert has no parameters. Each byte x becomes 255 - x, as by Pillow's
// ImageOps.invert() and torchvision's invert().

// The ops that follow change pixels as Pillow's ImageEnhance, ImageOps and
// ImageFilter do, and torchvision's functions of these names for Pillow's
// pictures. They may stand anywhere behind decode, in any order and number, for
// RGB and grey pictures. invert, adjust_brightness, posterize and solarize are
// tables, which the store applies at no cost. Two cases are different: one of
// the other ops is in the list, or a pad or a resize that mixes pixels follows.
// Then the tables are stage augment like the others, which the CPU does. Crops,
// pads, flips and resizes behind it go on with the changed pixels.

// factor: 0 gives black (brightness), the mean (contrast), grey (saturation),
// the smoothed picture (sharpness); 1 changes nothing; below 0 and above 1 it
// goes on, and is cut to 0 .. 255. adjust_hue: -.5 .. .5 of the circle.
struct hr_adjust {
    double factor;
};

// The `bits` highest bits of each byte stay, 1 .. 8.
struct hr_posterize {
    int bits;
};

// Bytes from the threshold on (0 .. 256) are inverted.
struct hr_solarize {
    double threshold;
};

// Pillow's GaussianBlur, which is three boxes; sigma in pixels. torchvision's
// gaussian_blur() is another function.
struct hr_gaussian_blur {
    double sigma[2];  // along x and y, 0 .. 10000
};

// Equal channels of luma. Ops behind it see such a picture, or, with single,
// one of a channel, as Pillow's convert("L") makes it.
struct hr_grayscale {
    bool single;
};

// equalize has no parameters.

// Each channel from 0 to 255: Pillow's ImageOps.autocontrast().
struct hr_autocontrast {
    double cutoff[2];  // percent of the pixels, of the darkest and of the
                       // brightest, that do not count: 0 .. 100
};

// Each byte by a table: Pillow's Image.point() with a list. It is a table as
// invert is one.
struct hr_lut {
    const uint8_t *table;  // the caller's own; the job borrows it until it is
                           // done
    int entries;           // 256 for all channels, or 768: entry
                           // [c * 256 + byte], of which grey takes the first
};

// Pixels from other places: Pillow's Image.transform() with AFFINE. In pixels,
// whose centres are at .5, output (x, y) is input (a x + b y + c,
// d x + e y + f) of matrix a .. f, which hr_affine_matrix() makes. Pixels
// outside have the colour `fill`.
struct hr_affine {
    double matrix[6];
    int w, h;  // of the picture that it makes; both 0: as the one it takes
    enum hr_filter filter;  // NEAREST, BILINEAR or BICUBIC, as there: of 1, 4
                            // or 16 pixels, whatever the scale
    uint8_t fill[3];        // grey takes the first
    bool centered;  // c and f are translations by as many pixels, and the
                    // matrix is around the centre of the picture
};

// The same with PERSPECTIVE: both are divided by g x + h y + 1, of matrix
// a .. h.
struct hr_perspective {
    double matrix[8];
    int w, h;
    enum hr_filter filter;
    uint8_t fill[3];
};

// Two more tables. 255.999 * gain * (x / 255)^gamma, rounded down:
// torchvision's adjust_gamma() of Pillow's pictures.
struct hr_adjust_gamma {
    double gamma;  // >= 0
    double gain;   // 1 adds nothing
};

// Bytes below the threshold are increased, to 255 at most: timm's SolarizeAdd.
struct hr_solarize_add {
    int add;        // -255 .. 255
    int threshold;  // 0 .. 256; timm's is 128
};

// Pillow's ImageFilter.Kernel of 3 x 3: the sum of nine products, over the
// scale, and the offset. The outermost pixels stay.
struct hr_kernel3 {
    double kernel[9];  // its first row meets the lower neighbours, as there
    double scale;      // 0 = the sum of the kernel
    double offset;
};

// Pillow's BoxBlur, of pixels to both sides.
struct hr_box_blur {
    double radius[2];  // along x and y, 0 .. 10000
};

// Channel c of the picture is from[c] of the one before: torchvision v2's
// permute_channels(). Grey stays.
struct hr_permute_channels {
    uint8_t from[3];  // 0 .. 2
};

// Counter-clockwise by `angle` degrees: Pillow's Image.rotate(), which turns by
// quarters without a filter where it can.
struct hr_rotate {
    double angle;
    bool expand;  // the size becomes that of all that was turned
    bool around;  // the point `center`; false: the middle
    double center[2];
    enum hr_filter filter;  // as in hr_affine
    uint8_t fill[3];
};

// Adds pixels around the picture: torchvision's pad() of Pillow's pictures,
// with NumPy 2. Borders below 0 cut some away, before the others are added.
struct hr_pad {
    int left, top, right, bottom;
    enum hr_edges mode;
    uint8_t fill[3];
};

// Two random ops are groups: chance decides which of the items behind them run.
// An item is an op, or a group with its own items. A count in a flat list keeps
// a list what it is, an array that can be copied, compared, pickled and written
// as text; a second list would need a pointer and an owner.
//
//   hr_op_random_apply(.p = .8), hr_op_color_jitter(...),
//   hr_op_random_choice(.count = 2), hr_op_random_apply(.p = 1, .count = 2),
//       hr_op_grayscale(), hr_op_posterize(.bits = 4), hr_op_equalize(),
//
// jitters with 0.8, then either makes grey and posterizes, or equalizes. Items
// keep the size of any picture, so that all keys make one size; or a choice is
// one of ops that name the same size, as random_resized_crop does. Each draws
// by its own place in the list, whatever runs before it. They are torchvision's
// RandomApply and RandomChoice.
struct hr_random_apply {
    double p;   // of all items, or none: 0 .. 1
    int count;  // of items; 0 = 1
};
struct hr_random_choice {
    int count;          // of items, of which one runs; > 0
    double weights[8];  // of the items, of which there are 8 at most; all 0:
                        // they are equal, and as many as they like
};

// adjust_brightness, _contrast, _saturation and _hue in a random order, each
// with a factor between two: torchvision's ColorJitter. Both 0: not that one.
// Counts as four ops of HR_MAX_OPS.
struct hr_color_jitter {
    double brightness[2], contrast[2], saturation[2];  // 0 ..
    double hue[2];                                     // -.5 .. .5
};

// grayscale with probability p, 0 .. 1: torchvision's RandomGrayscale.
struct hr_random_grayscale {
    double p;
};

// solarize with probability p: torchvision's RandomSolarize.
struct hr_random_solarize {
    double p, threshold;  // threshold: 0 .. 256
};

// gaussian_blur with probability p and a sigma between two, which is how MoCo
// and DINO blur Pillow's pictures.
struct hr_random_gaussian_blur {
    double p;
    double sigma[2];  // both 0 = .1, 2
};

// Pixels from other places, with a filter and a colour as those of hr_affine;
// the size stays. torchvision's filter is HR_NEAREST unless one is named, but
// for perspective. It draws a matrix: an affine, a perspective, or where
// Pillow turns whole pixels, a flip.

// A turn by an angle between two, counter-clockwise around the centre:
// torchvision's RandomRotation without expand.
struct hr_random_rotation {
    double degrees[2];
    enum hr_filter filter;
    uint8_t fill[3];
    bool around;  // the point `center`; false: the middle
    double center[2];
};

// torchvision's RandomAffine.
struct hr_random_affine {
    double degrees[2];    // clockwise
    double translate[2];  // at most such a share of width and height, 0 .. 1,
                          // in either direction
    double scale[2];      // both 0 = 1, 1
    double shear[4];      // degrees: of x between the first two, of y
                          // between the others
    enum hr_filter filter;
    uint8_t fill[3];
    bool around;  // as in hr_random_rotation
    double center[2];
};

// Each corner moves inwards, by at most a share of half of each side:
// torchvision's RandomPerspective. A picture that has no four corners stays.
struct hr_random_perspective {
    double p, distortion;  // 0 .. 1
    enum hr_filter filter;
    uint8_t fill[3];
};

// One of 14 changes (none, shear, translate, rotate, adjust_brightness,
// _saturation, _contrast, _sharpness, posterize, solarize, autocontrast,
// equalize), of a random strength: torchvision's TrivialAugmentWide.
struct hr_trivial_augment_wide {
    int bins;  // strengths; 0 = 31
    enum hr_filter filter;
    uint8_t fill[3];
};

// num_ops of these, of the same strength: torchvision's RandAugment, by default
// 2 of magnitude 9. Counts as so many ops of HR_MAX_OPS.
struct hr_rand_augment {
    int num_ops;    // > 0
    int magnitude;  // 0 .. bins - 1
    int bins;       // 0 = 31
    enum hr_filter filter;
    uint8_t fill[3];
};

// Two changes of one of 25 rules, each with a probability: torchvision's
// AutoAugment. Counts as two ops of HR_MAX_OPS.
enum hr_policy {
    HR_POLICY_IMAGENET,
    HR_POLICY_CIFAR10,
    HR_POLICY_SVHN,
};
struct hr_auto_augment {
    enum hr_policy policy;
    enum hr_filter filter;
    uint8_t fill[3];
};

enum hr_arith {
    HR_ARITH_DIV,  // x / 255, - mean, / std, each rounded to float32:
                   // torchvision v1 ToTensor + Normalize
    HR_ARITH_MUL,  // x * (1 / 255), then the same: torchvision v2 ToDtype
};

// Turns bytes into numbers, by a table of 256 entries per channel. Without this
// op the tensor holds the bytes themselves (0 .. 255 in any element type). To
// u8 only a table goes: of numbers around 0 it would keep nothing, so any other
// normalize is HR_EINVAL there.
struct hr_normalize {
    enum hr_arith arith;
    float mean[3];       // in units of 0 .. 1: .485, not 123.7
    float std[3];        // all 0 = 1: only the scaling (ToTensor). One that is
                         // 0 beside others is HR_EINVAL
    const float *table;  // the caller's own: entry [c * 256 + byte], used
                         // instead of mean/std; the job borrows it until it
                         // is done. f16 rounds it half to even, u8 too,
                         // clamped to 0 .. 255
};

// Paints a rectangle of the tensor, behind normalize: torchvision's erase().
// The part that lies outside is ignored, and a side may be 0. The painted
// values are elements of the tensor as they are, not levels of a picture: f16
// rounds them half to even, u8 towards 0 and into 0 .. 255.
struct hr_erase {
    int x, y, w, h;       // in elements of the tensor; >= 0
    float value[3];       // of each channel, finite;
    const float *values;  // or the caller's own, entry [(c * h + y) * w + x];
                          // the job borrows it until it is done;
    int noise;  // or, if > 0, normal numbers with mean 0 and deviation
                // 1, the same for the same noise, w and h
};

// Paints a rectangle of random area, shape and place: torchvision's
// RandomErasing. Ten tries that do not fit leave the tensor as it is.
struct hr_random_erasing {
    double p;         // 0 .. 1; 0 is HR_EINVAL, as in random_flip
    double scale[2];  // least and greatest share of the area, at most 1;
                      // both 0 = .02, .33
    double ratio[2];  // least and greatest height / width; both 0 = .3, 3.3
    float value[3];
    bool noise;  // normal numbers instead
};

struct hr_op {
    enum hr_op_type type;
    union {
        struct hr_decode decode;
        struct hr_crop crop;
        struct hr_resize resize;
        struct hr_fit fit;
        struct hr_flip flip;
        struct hr_normalize normalize;
        struct hr_random_crop random_crop;
        struct hr_random_resized_crop random_resized_crop;
        struct hr_random_flip random_flip;
        struct hr_adjust adjust_brightness, adjust_contrast, adjust_saturation,
            adjust_hue, adjust_sharpness;
        struct hr_posterize posterize;
        struct hr_solarize solarize;
        struct hr_autocontrast autocontrast;
        struct hr_gaussian_blur gaussian_blur;
        struct hr_lut lut;
        struct hr_affine affine;
        struct hr_perspective perspective;
        struct hr_adjust_gamma adjust_gamma;
        struct hr_solarize_add solarize_add;
        struct hr_kernel3 kernel3;
        struct hr_box_blur box_blur;
        struct hr_permute_channels permute_channels;
        struct hr_rotate rotate;
        struct hr_pad pad;
        struct hr_random_apply random_apply;
        struct hr_random_choice random_choice;
        struct hr_color_jitter color_jitter;
        struct hr_grayscale grayscale;
        struct hr_random_grayscale random_grayscale;
        struct hr_random_solarize random_solarize;
        struct hr_random_gaussian_blur random_gaussian_blur;
        struct hr_erase erase;
        struct hr_random_erasing random_erasing;
        struct hr_random_rotation random_rotation;
        struct hr_random_affine random_affine;
        struct hr_random_perspective random_perspective;
        struct hr_trivial_augment_wide trivial_augment_wide;
        struct hr_rand_augment rand_augment;
        struct hr_auto_augment auto_augment;
    };
};

// An op with named arguments; what is not named is 0. hr_op_crop() is a value:
// for a variable, an argument, a list inside a function. HR_OP_CROP() is an
// initialiser: C asks for it where the list is static or stands outside of
// functions. (C only: C++ fills the struct.)
//
//   static const struct hr_op thumbnail[] = {
//       HR_OP_DECODE(.apply_orientation = true),
//       HR_OP_FIT(.w = 128, .h = 128, .filter = HR_BICUBIC),
//   };
//
// Without parentheses the upper-case names are those of enum hr_op_type.
// With nothing to name: HR_OP_DECODE(0).
// clang-format off
#define HR__OP(NAME, name, ...) {.type = HR_OP_##NAME, .name = {__VA_ARGS__}}
#define HR__VALUE(NAME, ...) ((struct hr_op)HR_OP_##NAME(__VA_ARGS__))
#define HR_OP_DECODE(...) HR__OP(DECODE, decode, __VA_ARGS__)
#define HR_OP_CROP(...) HR__OP(CROP, crop, __VA_ARGS__)
#define HR_OP_RESIZE(...) HR__OP(RESIZE, resize, __VA_ARGS__)
#define HR_OP_FIT(...) HR__OP(FIT, fit, __VA_ARGS__)
#define HR_OP_FLIP(...) HR__OP(FLIP, flip, __VA_ARGS__)
#define HR_OP_NORMALIZE(...) HR__OP(NORMALIZE, normalize, __VA_ARGS__)
#define HR_OP_RANDOM_CROP(...) HR__OP(RANDOM_CROP, random_crop, __VA_ARGS__)
#define HR_OP_RANDOM_RESIZED_CROP(...) \
    HR__OP(RANDOM_RESIZED_CROP, random_resized_crop, __VA_ARGS__)
#define HR_OP_RANDOM_FLIP(...) HR__OP(RANDOM_FLIP, random_flip, __VA_ARGS__)
#define HR_OP_RANDOM_APPLY(...) HR__OP(RANDOM_APPLY, random_apply, __VA_ARGS__)
#define HR_OP_RANDOM_CHOICE(...) \
    HR__OP(RANDOM_CHOICE, random_choice, __VA_ARGS__)
#define HR_OP_COLOR_JITTER(...) HR__OP(COLOR_JITTER, color_jitter, __VA_ARGS__)
#define HR_OP_RANDOM_GRAYSCALE(...) \
    HR__OP(RANDOM_GRAYSCALE, random_grayscale, __VA_ARGS__)
#define HR_OP_RANDOM_SOLARIZE(...) \
    HR__OP(RANDOM_SOLARIZE, random_solarize, __VA_ARGS__)
#define HR_OP_RANDOM_GAUSSIAN_BLUR(...) \
    HR__OP(RANDOM_GAUSSIAN_BLUR, random_gaussian_blur, __VA_ARGS__)
#define HR_OP_RANDOM_ROTATION(...) \
    HR__OP(RANDOM_ROTATION, random_rotation, __VA_ARGS__)
#define HR_OP_RANDOM_AFFINE(...) \
    HR__OP(RANDOM_AFFINE, random_affine, __VA_ARGS__)
#define HR_OP_RANDOM_PERSPECTIVE(...) \
    HR__OP(RANDOM_PERSPECTIVE, random_perspective, __VA_ARGS__)
#define HR_OP_TRIVIAL_AUGMENT_WIDE(...) \
    HR__OP(TRIVIAL_AUGMENT_WIDE, trivial_augment_wide, __VA_ARGS__)
#define HR_OP_RAND_AUGMENT(...) HR__OP(RAND_AUGMENT, rand_augment, __VA_ARGS__)
#define HR_OP_AUTO_AUGMENT(...) HR__OP(AUTO_AUGMENT, auto_augment, __VA_ARGS__)
#define hr_op_decode(...) HR__VALUE(DECODE, __VA_ARGS__)
#define hr_op_crop(...) HR__VALUE(CROP, __VA_ARGS__)
#define hr_op_resize(...) HR__VALUE(RESIZE, __VA_ARGS__)
#define hr_op_fit(...) HR__VALUE(FIT, __VA_ARGS__)
#define hr_op_flip(...) HR__VALUE(FLIP, __VA_ARGS__)
#define hr_op_normalize(...) HR__VALUE(NORMALIZE, __VA_ARGS__)
#define hr_op_random_crop(...) HR__VALUE(RANDOM_CROP, __VA_ARGS__)
#define hr_op_random_resized_crop(...) \
    HR__VALUE(RANDOM_RESIZED_CROP, __VA_ARGS__)
#define hr_op_random_flip(...) HR__VALUE(RANDOM_FLIP, __VA_ARGS__)
#define hr_op_random_apply(...) HR__VALUE(RANDOM_APPLY, __VA_ARGS__)
#define hr_op_random_choice(...) HR__VALUE(RANDOM_CHOICE, __VA_ARGS__)
#define hr_op_color_jitter(...) HR__VALUE(COLOR_JITTER, __VA_ARGS__)
#define hr_op_random_grayscale(...) HR__VALUE(RANDOM_GRAYSCALE, __VA_ARGS__)
#define hr_op_random_solarize(...) HR__VALUE(RANDOM_SOLARIZE, __VA_ARGS__)
#define hr_op_random_gaussian_blur(...) \
    HR__VALUE(RANDOM_GAUSSIAN_BLUR, __VA_ARGS__)
#define hr_op_random_rotation(...) HR__VALUE(RANDOM_ROTATION, __VA_ARGS__)
#define hr_op_random_affine(...) HR__VALUE(RANDOM_AFFINE, __VA_ARGS__)
#define hr_op_random_perspective(...) HR__VALUE(RANDOM_PERSPECTIVE, __VA_ARGS__)
#define hr_op_trivial_augment_wide(...) \
    HR__VALUE(TRIVIAL_AUGMENT_WIDE, __VA_ARGS__)
#define hr_op_rand_augment(...) HR__VALUE(RAND_AUGMENT, __VA_ARGS__)
#define hr_op_auto_augment(...) HR__VALUE(AUTO_AUGMENT, __VA_ARGS__)
#define hr_op_invert() ((struct hr_op){.type = HR_OP_INVERT})
// clang-format on

// Computes the size of the picture that ops make of one of width x height
// pixels with that EXIF orientation (1 .. 8, 0 = 1), as the engines do. It is
// the same for all keys of random ops. HR_EINVAL with a text in hr_last_error()
// if the list is not valid for that size. Threads: any.
HR_API enum hr_status hr_ops_output_size(const struct hr_op *ops, int num_ops,
                                         int width, int height, int orientation,
                                         int *out_w, int *out_h);

// The channels of the picture that ops make of one with so many, 1 or 3; a list
// that begins with decode says it alone. ops NULL: there are none. Threads:
// any.
HR_API int hr_ops_channels(const struct hr_op *ops, int num_ops, int channels);

// Says whether ops make pictures of one size, whatever the picture is: *w x *h.
// It asks for the last op that names a size and what follows it. Threads: any.
HR_API bool hr_ops_fixed_size(const struct hr_op *ops, int num_ops, int *w,
                              int *h);

// Writes the list without random ops that the library runs for a sample with
// that key (NULL = all 0): to out[HR_MAX_OPS] and *num_out. Probes and results
// tell size and orientation of the picture. Use it to record or replay random
// parameters; hr_submit() does not need it. Errors as above.
// Threads: any.
HR_API enum hr_status hr_ops_draw(const struct hr_op *ops, int num_ops,
                                  const struct hr_random *key, int width,
                                  int height, int orientation,
                                  struct hr_op *out, int *num_out);

// Writes the matrix of hr_affine that turns clockwise by `angle`, moves, scales
// and shears: torchvision's affine() for Pillow's pictures, bit for bit with
// the same C library. Angles are in degrees; scale is not 0. center: the point
// that stays; NULL: the centre of the picture, for a `centered` op.
// Threads: any.
HR_API void hr_affine_matrix(double angle, const double translate[2],
                             double scale, const double shear[2],
                             const double center[2], double matrix[6]);

// Writes the matrix of hr_perspective that moves four corners of the picture, x
// and y each, from start to end: torchvision's perspective(), whose numbers are
// rounded to float32. false: no matrix does. Threads: any.
HR_API bool hr_perspective_matrix(const double start[8], const double end[8],
                                  double matrix[8]);

HR_END_DECLS
#endif
