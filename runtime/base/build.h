/* The version of Isogrid, and what the library exports. */
#ifndef ISO_BASE_BUILD_H
#define ISO_BASE_BUILD_H

#define ISO_VERSION_MAJOR 0
#define ISO_VERSION_MINOR 1
#define ISO_VERSION_PATCH 0
/* "0.1.0" */
#define ISO_VERSION ISO_VERSION_TEXT_(ISO_VERSION_MAJOR, ISO_VERSION_MINOR, ISO_VERSION_PATCH)
#define ISO_VERSION_TEXT_(major, minor, patch) ISO_VERSION_JOIN_(major, minor, patch)
#define ISO_VERSION_JOIN_(major, minor, patch) #major "." #minor "." #patch

/* Precedes the declaration of every public function. The library is compiled with -fvisibility=hidden, so
 * it exports these functions and no others. */
#if !defined(__GNUC__)
#define ISO_API
#elif defined(ISO_BUILDING) /* calls within the library need no look-up */
#define ISO_API __attribute__((visibility("protected")))
#else
#define ISO_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that the program runs with, "0.1.0"; ISO_VERSION is that of the headers that it
 * was compiled with. Constant. Local. */
ISO_API const char *iso_version(void);
/* 16 hexadecimal digits that differ if the library's sources, compiler or flags do; the Makefile makes
 * them. Constant. Local. */
ISO_API const char *iso_build_id(void);

#ifdef __cplusplus
}
#endif
#endif
