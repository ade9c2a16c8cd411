#include "collectives/buffers.h"

/* Both find it at one address, as operands of either are written down. */
static iso_status attach(const iso_device *device, const iso_window *window, const char *what)
{
    void *memory = NULL;
    if (!device->gather || window->bytes == 0)
        return ISO_OK;
    iso_status status = device->attach(device, window->base, window->bytes, &memory);
    if (status != ISO_OK || memory == window->base)
        return status;
    device->detach(device, memory);
    return iso_error(ISO_FAILED, "%s: the device '%s' finds memory of the host at another address", what,
                     device->name);
}

iso_status iso_buffer_create(const iso_comm *host, const iso_device *device, size_t bytes, const char *what,
                             iso_window *window)
{
    iso_status status = iso_window_create(host, bytes, what, window);
    if (status != ISO_OK)
        return status;
    status = attach(device, window, what);
    if (status != ISO_OK)
        iso_window_destroy(window);
    return status;
}

void iso_buffer_destroy(const iso_device *device, iso_window *window)
{
    if (device->gather && window->bytes > 0)
        device->detach(device, window->base);
    iso_window_destroy(window);
}
