/* libFuzzer: any bytes as a calibration, and as a network. */
#include "runtime/report/calibration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    iso_calibration *calibration = NULL;
    iso_network network;
    iso_text text = {0};
    if (iso_calibration_parse("file", (const char *)data, size, &calibration) == ISO_OK)
        iso_calibration_print(calibration, &text);
    iso_text_free(&text);
    iso_calibration_destroy(calibration);
    iso_network_parse("file", (const char *)data, size, &network);
    return 0;
}
