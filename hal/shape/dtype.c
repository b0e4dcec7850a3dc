// SPDX-License-Identifier: Apache-2.0
// Types of elements: how many bytes, which name.
#include <headrace/image.h>

size_t hr_dtype_size(enum hr_dtype dtype)
{
    return dtype == HR_F32 ? 4 : dtype == HR_F16 ? 2 : 1;
}

const char *hr_dtype_name(enum hr_dtype dtype)
{
    return dtype == HR_F32 ? "f32" : dtype == HR_F16 ? "f16" : "u8";
}
