// SPDX-License-Identifier: Apache-2.0
// Reads header facts without decoding, in microseconds, and defines the limits
// that every picture must keep before an engine sees a byte of it.
#ifndef HEADRACE_PROBE_H
#define HEADRACE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/status.h>

HR_BEGIN_DECLS

// PACKED: a JPEG's coefficients, packed to be read fast; see cache.h. OTHER: of
// a format that only hr_set_decoder()'s decodes.
enum hr_format {
    HR_FORMAT_UNKNOWN,
    HR_FORMAT_JPEG,
    HR_FORMAT_PNG,
    HR_FORMAT_PACKED,
    HR_FORMAT_WEBP,
    HR_FORMAT_BMP,
    HR_FORMAT_PNM,  // P1 .. P6
    HR_FORMAT_OTHER
};

enum hr_process {  // JPEG coding process (ITU-T T.81, SOF marker)
    HR_PROCESS_BASELINE,
    HR_PROCESS_EXTENDED,
    HR_PROCESS_PROGRESSIVE,
    HR_PROCESS_LOSSLESS,
};

enum hr_color {
    HR_COLOR_GRAY,
    HR_COLOR_YCC,
    HR_COLOR_RGB,
    HR_COLOR_CMYK,
    HR_COLOR_YCCK
};

// Says whether a file's scans hold all coefficients of all components, to the
// last bit. libjpeg-turbo guesses the ones a progressive file lacks, and
// guesses otherwise from 3.0.1 on. Data that is missing inside a scan, as in a
// file that is cut short, does not count here: see ends.
enum hr_scans {
    HR_SCANS_UNKNOWN,  // hr_probe_path() has not read that far, or no JPEG
    HR_SCANS_MISSING,
    HR_SCANS_ALL,
};

struct hr_info {
    enum hr_format format;
    int width, height;  // as stored, before any orientation
    int components;   // 1, 3 or 4 in JPEG; channels in PNG; 1 or 3 in BMP, PNM
    int precision;    // bits per sample
    int orientation;  // EXIF 1 .. 8; 1 if there is none
    bool ends;        // JPEG: the last bytes are an EOI marker;
                      // PNG: an IEND chunk; BMP, PNM: all rows are there, as
                      // far as the file's size tells; WebP, PACKED: as many
                      // bytes as the header says. false = cut short
    bool adam7;       // PNG: interlaced
    // JPEG and PACKED only
    enum hr_process process;
    enum hr_color color;      // by libjpeg's rules: Adobe, JFIF, ids
    bool arithmetic;          // arithmetic instead of Huffman coding
    bool interleaved;         // one scan holds all components
    int scans;                // SOS markers; 1 unless counted (progressive
                              // or several scans)
    uint8_t h[4], v[4];       // sampling factors per component
    int restart_interval;     // in MCUs, 0 = none
    size_t header_size;       // bytes before the first scan's data
    enum hr_scans all_scans;  // hr_probe() always knows it, hr_probe_path()
                              // for files of one scan or below 64 KB
};

// Every field 0 = its default.
struct hr_limits {
    uint64_t pixels;        // per picture; 100 million
    int side;               // width and height; 16384
    uint64_t block_visits;  // scans x 8x8 blocks; 50 million (about 1 s)
    int scans;              // 100
    size_t item_bytes;      // decode memory of one sample; 512 MiB
    size_t marker_bytes;    // in markers before the first scan; 16 MiB
    int segments;           // markers before the first scan; 4096
    size_t file_bytes;      // of an encoded picture; 256 MiB
    int item_ms;            // decode time of one sample on the CPU; 30000
};

// A row of the table of formats: its name, as in "jpeg", and how its files end,
// as in ".jpg .jpeg", by which folders are searched; "" where they are not.
struct hr_format_info {
    const char *name, *suffixes;
};
// The row of a format; NULL: there is none of this number. Threads: any.
HR_API const struct hr_format_info *hr_format_info(enum hr_format format);

// A decoder of the program's for formats that the library does not decode. Jobs
// pass it data of no known format, and apply the ops to its pixels. Threads of
// the library call it, several at once. The calls must return in time: no time
// limit ends them. text: a clause with the reason of a failure.
struct hr_decoder {
    void *ctx;
    // Sets width, height and orientation. HR_EFORMAT: it is no decoder for it.
    enum hr_status (*probe)(void *ctx, const void *data, size_t size,
                            struct hr_info *info, char text[128]);
    // Writes 3 (RGB) or 1 (grey) bytes of each pixel, row by row.
    enum hr_status (*decode)(void *ctx, const void *data, size_t size,
                             const struct hr_info *info, int channels,
                             void *pixels, char text[128]);
};
// Sets the decoder of this process; NULL: none, the default. The struct must
// stay as it is while jobs are in flight. Threads: any.
HR_API void hr_set_decoder(const struct hr_decoder *decoder);

// Reads header facts of size encoded bytes. limits may be NULL.
// HR_OK: *info is filled. HR_EFORMAT: the format is not supported. HR_ECORRUPT,
// HR_ETRUNCATED, HR_EUNSUPPORTED, HR_ELIMIT: as decoding would end, with offset
// and reason in hr_last_error(); *info holds what was read so far. Touches
// nothing but the bytes. Threads: any.
HR_API enum hr_status hr_probe(const void *data, size_t size,
                               const struct hr_limits *limits,
                               struct hr_info *info);

// Does the same for a file: reads its first 64 KB, and more only if the header
// is longer; also HR_EIO. It waits for the file system. Threads: any.
HR_API enum hr_status hr_probe_path(const char *path,
                                    const struct hr_limits *limits,
                                    struct hr_info *info);

HR_END_DECLS
#endif
