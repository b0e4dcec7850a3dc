// SPDX-License-Identifier: Apache-2.0
// Sources: the samples of a data set by number, with names and labels. A source
// is opened without reading pictures.
//
//   hr_source source = hr_source_open("train/");
//   if (!source || hr_source_add(source, "more.hrp"))
//       puts(hr_last_error());
//   ...                       // hand it to a loader, see loader.h
//   hr_source_close(&source);
//
// Order and classes are those of torchvision's ImageFolder: the folders below
// the one that was named are the classes, whatever is in them, and their names
// are sorted as Python does; the pictures of a class are sorted by their
// folder, then by their name. A file that was named and is no sample is
// reported, see hr_source_skipped().
#ifndef HEADRACE_SOURCE_H
#define HEADRACE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <headrace/image.h>
#include <headrace/pack.h>
#include <headrace/status.h>

HR_BEGIN_DECLS

// The bytes of one sample, or the file that has them. Zero it before it is used
// first.
struct hr_encoded {
    const void *data;  // encoded bytes
    size_t size;
    const char *path;  // or a file, if data is NULL
    bool verified;     // see hr_sample.verified
    void *memory;      // for hr_source_read(): what data lies in, and its size;
    size_t capacity;   // it is used again, and freed by hr_encoded_finish()
    void *owner;       // for callbacks: the lender of the data
    // > 0: data is not encoded, but w x h pixels of c (1 or 3) bytes, with
    // nothing between them.
    int w, h, c;
    enum hr_layout layout;
    // Set by hr_source_read() for a picture of a pack file: whether data is
    // packed, and the size of the file that it was made of.
    bool packed;
    uint64_t source;
    // From callbacks: the class comes with the bytes, class_of is not asked.
    bool has_class;
    int64_t class_number;  // -1 = none
};

struct hr_source_read;

// Samples that the program itself gives: a data base, a generator. Its
// functions are called on any thread, also of the library, by several at a
// time, and no lock is held meanwhile.
struct hr_source_calls {
    uint64_t num;       // samples
    uint64_t identity;  // any number that differs for another data set, for
                        // hr_loader_save(); 0 = num tells
    int threads;        // that may be in read at a time; 0 = any number
    void *ctx;
    // Sets data and size, or path, of *to to what lives until done is called;
    // of pixels w, h, c and layout, too: the op decode leaves them as they are.
    // HR_OK, or the status of the failure, with its reason in message. It may
    // wait: nothing else does meanwhile.
    enum hr_status (*read)(void *ctx, uint64_t i, struct hr_encoded *to,
                           char message[256]);
    // Takes back what read has lent, as read set it. NULL: nothing is to be
    // done. It is called once for each sample that was lent with HR_OK.
    void (*done)(void *ctx, uint64_t i, const struct hr_encoded *from);
    // The number of the class; NULL: none has one, unless read says so.
    int64_t (*class_of)(void *ctx, uint64_t i);
    // Each thread of a loader that may have called read calls this before it
    // ends: what read keeps for a thread can go. NULL: nothing is to be done.
    void (*thread_ends)(void *ctx);
    // Reads many samples in one call, for sources where a call costs more than
    // a sample: a loader calls it with up to HR_SOURCE_MANY samples of a batch,
    // in any order. NULL: it calls read for each. Samples fail one by one: each
    // has a status, HR_OK to begin with, and room for a reason.
    void (*read_many)(void *ctx, int num, struct hr_source_read *samples);
};
enum { HR_SOURCE_MANY = 64 };

// A file that the program has opened for the library.
struct hr_opened {
    struct hr_source_calls calls;  // its samples, all that are in it
    // The label of a sample, as of a record; "" = none. NULL: none has one. It
    // is asked while the file is added, and lives until close is called.
    const char *(*label_of)(void *ctx, uint64_t i);
    bool names;  // labels are names, whatever they consist of
    // If there are any, labels are these names, and their places are the
    // numbers of the classes.
    const char *const *classes;
    size_t num_classes;
    void (*close)(void *ctx);  // the source goes; NULL: nothing is to be done
    // Where a sample lies in the file at path, behind the u64, little endian,
    // of its length, which counts in size; 0 bytes: a sample that fails. The
    // library reads it there, and the file is closed when it was added. NULL:
    // the calls read it.
    void (*range_of)(void *ctx, uint64_t i, uint64_t *offset, uint64_t *size);
};

// Opens files whose format the library knows by name and content and leaves to
// the program: Parquet, Arrow (also Feather), MindRecord. Without it they are
// HR_EUNSUPPORTED. path may be a URL of any kind; image and label are what
// hr_source_set_fields() has said, or NULL. Sets *to, or returns a status with
// the reason, which names the file. Threads: the library's, several at a time.
struct hr_opener {
    void *ctx;
    enum hr_status (*open)(void *ctx, const char *path, const char *image,
                           const char *label, struct hr_opened *to,
                           char message[256]);
};
// Names the opener of this process; NULL: there is none, as at first. The
// struct must stay as it is. Threads: any.
HR_API void hr_set_opener(const struct hr_opener *opener);

// One of them.
struct hr_source_read {
    uint64_t i;
    struct hr_encoded to;
    enum hr_status status;
    char message[256];
};

// Why what was named is no sample.
enum hr_skip {
    HR_SKIP_FILE,    // called like a picture, but no regular file; or a link
                     // that leads nowhere, whatever it is called
    HR_SKIP_BESIDE,  // a picture beside the folders of classes
    HR_SKIP_EMPTY,   // a folder of a class without pictures: torchvision raises
                     // an error, or with allow_empty counts it, as is done here
    HR_SKIP_LOOP,    // a link to a folder that it lies in
    HR_SKIP_NO_PICTURE,  // a sample of a tar, or a record, without a picture
    HR_SKIP_CLASS,       // its label is none of hr_source_set_classes()
    HR_SKIP_WORD  // the first sample whose label is a word, where others are
                  // numbers: such samples are there, and of no class
};

// One clause; static storage. Threads: any.
static inline const char *hr_skip_text(enum hr_skip why)
{
    static const char *const texts[] = {
        "not a regular file",
        "a picture beside the folders of classes",
        "a folder of a class without pictures",
        "a link to a folder that it lies in",
        "a sample without a picture",
        "a label that is none of the classes",
        "a word, where other labels are numbers, is of no class",
    };

    return (unsigned)why <= HR_SKIP_WORD ? texts[why] : "?";
}

// A source. All members are facts; they change while something is added.
// Threads: safe when nothing is added any more, but for hr_source_close().
typedef const struct hr_source_t {
    uint64_t num;  // samples
    // Folders and files that could not be read: what is behind them is missing.
    // faults has the first of them, as PATH: REASON.
    const char *const *faults;
    size_t num_faults, num_fault_texts;
    size_t skipped;  // what was named and is no sample: hr_source_skipped()
    size_t others;   // regular files of folders, not called like pictures
    const char *first_other;
} *hr_source;

// hr_source_create() makes one with nothing in it; hr_source_open() is that,
// and hr_source_add(); hr_source_of_calls() the program's own, to which nothing
// can be added. NULL with hr_last_error(). Threads: any.
static inline hr_source hr_source_open(const char *path);
HR_API hr_source hr_source_create(void);
HR_API hr_source hr_source_of_calls(const struct hr_source_calls *calls);

// Sets *source to NULL. Loaders and jobs that use it must have ended. NULL and
// pointers to NULL are fine.
HR_API void hr_source_close(hr_source *source);

// How objects of the web are read. A field that is 0 or NULL has the value
// said.
struct hr_http_params {
    int connections;  // that are kept, up to 256: so many reads are in flight
                      // at most; 128, of which a loader uses 32 unless it is
                      // told, or tunes itself
    int retries;      // of a read that fails by what may pass; 5; -1 = none
    int backoff_ms;   // before the first of them; it doubles from one to the
                      // next, and is drawn between half of that and that; 100
    int deadline_ms;  // of a read with all its tries; 30000
    uint64_t max_bytes;          // of an object; 4 TiB
    const char *const *headers;  // "NAME: VALUE", and NULL; sent to the
                                 // hosts that the program names, not to hosts
                                 // from another host's list or a redirect
    const char *user_agent;      // "headrace"
    const char *ca_file;         // PEM, certificates to trust; the system's
    uint64_t seed;               // of the draws
    uint64_t unsized_bytes;      // of a picture whose size no answer gives: it
                                 // takes memory as it comes; 32 MiB
    uint64_t index_bytes;  // of a list, or of the index of a pack file; 1 GiB
    int add_ms;            // that adding one URL may take; 0 = any time
};
#define hr_http_params(...) (&(struct hr_http_params){__VA_ARGS__})

// Says how the source reads URLs, before one is added; *params is copied.
// HR_EINVAL, HR_ENOMEM, HR_EUNSUPPORTED (there is no libcurl). Threads: one at
// a time.
HR_API enum hr_status hr_source_set_http(hr_source source,
                                         const struct hr_http_params *params);

// Names the fields of records (features of tf.Example, columns of MDS and
// litData) that are the picture and its label, before anything is added; NULL:
// the first of the usual names that is there. A label that is a number stays
// one. HR_EINVAL, HR_ENOMEM. Threads: one at a time.
#define HR_SOURCE_IMAGE_FIELDS \
    "image/encoded image img jpg jpeg png webp image_raw image_bytes data bytes"
#define HR_SOURCE_LABEL_FIELDS                                      \
    "image/class/label label class cls labels fine_label target y " \
    "image/class/text"
HR_API enum hr_status hr_source_set_fields(hr_source source, const char *image,
                                           const char *label);

// Names all classes, before anything is added: numbers[i] is the class of label
// labels[i], or i if numbers is NULL; several labels may be of one class. An
// item with another label is no sample (HR_SKIP_CLASS); one without is of no
// class, as always. So parts of a data set agree, whatever is in each. Texts
// are copied. HR_EINVAL: an empty label, one that comes twice, no label, or
// something was added; HR_ENOMEM. Threads: one at a time.
HR_API enum hr_status hr_source_set_classes(hr_source source,
                                            const char *const *labels,
                                            const int64_t *numbers, size_t num);

// Adds the samples of the file or folder at path, behind the existing ones. A
// file is taken whatever it is called, but for these, of which all pictures are
// taken, with their names and labels:
//   .hrp  pack files
//   .tar  in WebDataset form, not compressed: members that follow each other
//         and are called alike up to the first dot of their last part are one
//         sample; one of them is the picture, the text KEY.cls is the label.
//         Names are labels only, and must be relative paths. A sample whose
//         members are apart is HR_ECORRUPT. Without libarchive HR_EUNSUPPORTED
//   .rec  RecordIO of MXNet, with or without an .idx. Records with two labels
//         and no picture are the index of a data set of faces, and no samples
//   .tfrecord .tfrecords, and any file that begins like one
//         TFRecord of tf.Example, not compressed, with or without an index.
//         hr_source_set_fields() names the features of picture and label
//   index.json, and folders with one that begins as these do
//         MDS of MosaicML's streaming, and chunks of litData, not compressed:
//         the samples of all files that it names, which lie beside it. Columns
//         are fields, see hr_source_set_fields(): jpeg, png or bytes, and whole
//         numbers or texts
//   .mdb .lmdb, files that begin as these do, and folders with a data.mdb
//         LMDB of version 0.9 and 64 bits: the values of the main database, in
//         the order of their keys, are the pictures. A key is the name, in
//         hexadecimal digits if it is no relative path, and what stands before
//         its first slash the label. Keys that begin with two underscores are
//         no samples. The file must not be written meanwhile. liblmdb is not
//         needed
//   .parquet .arrow .feather .mindrecord, and files that begin as these do
//         what hr_set_opener() has named opens them
// Samples of TFRecord, MDS, litData and the last ones are called by their file
// and their number in it. Members, records and samples that cannot be used are
// faults.
// path may be a URL of http, https or s3, of such a file or of a picture, whose
// label is then the folder it lies in. s3://BUCKET/KEY is signed by libcurl
// 7.87 or later, with the key that the variables and files of Amazon's tools
// name; it is in no message. Tar, RecordIO and TFRecord files are gone through
// once; of pack files header and index are read, of LMDB files the pages of
// keys. The server must give ranges, and samples are read by them: each answer
// must be of the object that was opened, by length, ETag and Last-Modified. A
// failed read is HR_EIO or HR_ETIMEDOUT; HR_EUNSUPPORTED without libcurl or
// ranges. hr_last_error() names URL (without its query), stage, offset, status
// and reason.
// A folder gives its regular files that end in .jpg .jpeg .jpe .jfif .mpo .png
// .webp .bmp .pgm .ppm .tif or .tiff, as they are sorted above. ImageFolder
// takes all of these but .jpe .jfif .mpo. Links to files and folders are
// followed, however many there are in a row; a link to a folder that it lies in
// is not. HR_ELIMIT: links lead to the same folders more than 16 times on the
// average. A folder below that cannot be read is a fault. A folder in which
// there are no folders is a class of its own; where there are some, pictures
// beside them are no samples. A million files take about a second, most of it
// the file system's, and less than 200 bytes each.
// Compressed archives, and URLs of other kinds, are HR_EUNSUPPORTED.
// HR_EIO, HR_EINVAL, HR_ENOMEM, and those of hr_pack_open(); hr_last_error()
// names file and reason. After a failure nothing was added.
// num paths are added in their order. Shards (.hrp, .tar, .rec, ..) are opened
// in parallel, up to eight at a time. The first path in that order that fails
// decides the error, and then none of them was added. Threads: one at a time.
HR_API enum hr_status hr_source_add_all(hr_source source,
                                        const char *const *paths, size_t num);
static inline enum hr_status hr_source_add(hr_source source, const char *path)
{
    return hr_source_add_all(source, &path, 1);
}
static inline hr_source hr_source_open(const char *path)
{
    hr_source source = hr_source_create();

    if (source && hr_source_add(source, path))
        hr_source_close(&source);
    return source;
}

// Adds the files that a list names: PATH, or PATH, a tab and LABEL, a line
// each, or each ended by a zero byte. The last tab counts; empty lines do not.
// list "-" is standard input. Paths are relative to the folder of the list.
// The files are not looked at. The list may be at a URL, and entries may be
// URLs; all entries of a list of the web are, relative to its own.
HR_API enum hr_status hr_source_add_list(hr_source source, const char *list,
                                         bool zero);

// Binary files of the CIFAR data sets. Nothing in such a file says so: the
// caller does.
enum hr_cifar {
    HR_CIFAR10,          // data_batch_1.bin .., test_batch.bin: a label
    HR_CIFAR100,         // train.bin, test.bin: two, of which the fine one
    HR_CIFAR100_COARSE,  // .. or the coarse one is taken
};

// Adds all pictures of a CIFAR file: 32 x 32 RGB pixels each. They are not
// read, only their labels, about 10 ms for 10,000. Names are the numbers of
// records. Labels are the names in the file of the data set that lies in the
// same folder: batches.meta.txt, fine_label_names.txt or
// coarse_label_names.txt; without it they are the label's number. The class of
// a picture is its record's. HR_EIO, HR_ENOMEM. HR_EFORMAT: the file ends
// within a record, the first label does not exist, or there are not as many
// names as classes. Later records whose label does not exist are faults.
// hr_last_error() names file, offset and reason. After a failure nothing was
// added. Threads: one at a time.
HR_API enum hr_status hr_source_add_cifar(hr_source source, const char *path,
                                          enum hr_cifar kind);

// Adds the file at path, which is not looked at; label NULL = none.
HR_API enum hr_status hr_source_add_file(hr_source source, const char *path,
                                         const char *label);

// Ends what is added by another thread: reads of the web and lists end soon,
// with HR_ECANCELED, and nothing can be added any more. Samples that were added
// can be read. Threads: any.
HR_API void hr_source_stop(hr_source source);

// Path to open, or relative path, of sample i; of an object of the web its URL,
// without its query, which may be a password. The text is written to buffer;
// NULL if it does not fit, never with PATH_MAX bytes. Samples of a callback are
// named by their numbers.
HR_API const char *hr_source_path(hr_source source, uint64_t i, char *buffer,
                                  size_t size);
HR_API const char *hr_source_name(hr_source source, uint64_t i, char *buffer,
                                  size_t size);

// A source knows this of a sample without reading it.
struct hr_source_item {
    // "" = none. For a picture that was named itself, or for a folder without
    // pictures further down, it is the folder it lies in; for a list, the text
    // there; for a pack file, the packed one.
    const char *label;
    bool is_file;  // of its own, which hr_source_path() names. Others lie in a
                   // pack file, or are to be had by hr_source_read() alone
    hr_pack_file pack;  // that it lies in, or NULL
    size_t number;      // there
};
// Returns it, with label "" and all else 0 where there is no sample i.
HR_API struct hr_source_item hr_source_item(hr_source source, uint64_t i);
// The classes: *num labels. A class is meant by its index in them; -1 = none.
// Names of folders are sorted as ImageFolder does: as Python sorts the names of
// files, which is by bytes but where those are no UTF-8. So are other labels.
// A label of a tar, a RecordIO file or a list may be a whole number. It is then
// the class, as in WebDataset, MXNet and lists for other programs: "10", "+10",
// "010" and "10.0" are class 10, "-1" is -1, whatever else occurs. A word among
// numbers is of no class (HR_SKIP_WORD). Numbers 0 .. 4194303 are in
// the list, with "" in the place of absent ones. NULL: out of memory.
HR_API const char *const *hr_source_classes(hr_source source, size_t *num);
HR_API int64_t hr_source_class(hr_source source, uint64_t i);

// Tells a writer of a pack file all classes, also ones without a sample: a
// source of that file alone has the same classes, whichever samples were
// packed. HR_EINVAL, HR_ENOMEM. Threads: of the source any.
HR_API enum hr_status hr_source_pack_classes(hr_source source,
                                             hr_pack_writer writer);

// Returns the path of a file that was named and is no sample, i < skipped, in
// the order of the samples; *why is the reason, which hr_skip_text() says in
// words. The text is written to buffer; NULL: there is no such i, or it does
// not fit. Threads: any.
HR_API const char *hr_source_skipped(hr_source source, size_t i, char *buffer,
                                     size_t size, enum hr_skip *why);

// Reads sample i to memory: data and size of *to, until the next call with it.
// All bytes of a file are read, at most max_bytes (0 = 256 MiB). HR_EIO (also
// if it is no regular file), HR_ELIMIT, HR_ENOMEM, HR_EINVAL (there is no
// sample i), and the statuses of hr_pack_sample() and of a callback.
// hr_last_error() has file and reason. Samples of a callback are copied; of a
// CIFAR file they are pixels, see *to. Threads: any, each with its own *to.
HR_API enum hr_status hr_source_read(hr_source source, uint64_t i,
                                     size_t max_bytes, struct hr_encoded *to);
HR_API void hr_encoded_finish(struct hr_encoded *encoded);  // frees memory

// A number that differs for another list of samples: of names, labels and
// order. The folder's own place does not count. It is computed once, about
// 100 ns a sample.
HR_API uint64_t hr_source_identity(hr_source source);

HR_END_DECLS
#endif
