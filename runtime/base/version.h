/* Which Isogrid this is. */
#ifndef ISO_BASE_VERSION_H
#define ISO_BASE_VERSION_H

#define ISO_VERSION "0.1.0"

#endif
