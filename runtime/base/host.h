/* The name of this machine. */
#ifndef ISO_BASE_HOST_H
#define ISO_BASE_HOST_H

enum { ISO_HOST_NAME = 65 }; /* bytes of the longest name, HOST_NAME_MAX, and a zero */

/* Fills in the name, with zeros after it; "?" if there is none. */
void iso_host_name(char name[ISO_HOST_NAME]);

#endif
