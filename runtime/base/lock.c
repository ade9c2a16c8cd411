#include "runtime/base/lock.h"

#include <pthread.h>

static pthread_mutex_t hdf5 = PTHREAD_MUTEX_INITIALIZER;

void iso_hdf5_lock(void)
{
    pthread_mutex_lock(&hdf5);
}

void iso_hdf5_unlock(void)
{
    pthread_mutex_unlock(&hdf5);
}
