/* Which Isogrid this is. */
#ifndef ISO_BASE_BUILD_H
#define ISO_BASE_BUILD_H

#define ISO_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* 16 hexadecimal digits that differ where the library's sources, compiler or flags do; the Makefile makes
 * them. */
const char *iso_build_id(void);

#ifdef __cplusplus
}
#endif
#endif
