/* The backend's name, apart from the rest of the program: users' headers know nothing of backends. */
#ifndef ISO_LAUNCH_BACKEND_H
#define ISO_LAUNCH_BACKEND_H

/* "cpu: AVX-512, oneDNN 2.6, OpenBLAS 0.3.21" */
const char *iso_launch_backend(void);

#endif
