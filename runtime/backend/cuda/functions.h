/* The table of functions of cuBLASLt, cuDNN and NCCL. Their headers give the types; the libraries are opened when
 * they are first needed, because opening cuBLASLt takes a quarter of a second.
 * Functions are local; any thread may call them. */
#ifndef ISO_BACKEND_CUDA_FUNCTIONS_H
#define ISO_BACKEND_CUDA_FUNCTIONS_H

#include <cublasLt.h>
#if ISO_WITH_CUDNN
#include <cudnn.h>
#endif
#if ISO_WITH_NCCL
#include <nccl.h>
#endif

#include "runtime/backend/cuda_library.h"

/* clang-format off */
#define ISO_CUBLASLT_FUNCTIONS(F) \
    F(cublasLtGetVersion) F(cublasLtGetStatusString) F(cublasLtCreate) F(cublasLtDestroy) F(cublasLtMatmul) \
    F(cublasLtMatmulDescInit_internal) F(cublasLtMatmulDescSetAttribute) \
    F(cublasLtMatrixLayoutInit_internal) F(cublasLtMatrixLayoutSetAttribute) \
    F(cublasLtMatmulPreferenceCreate) F(cublasLtMatmulPreferenceDestroy) F(cublasLtMatmulPreferenceSetAttribute) \
    F(cublasLtMatmulAlgoGetHeuristic) F(cublasLtMatmulAlgoConfigGetAttribute)
#if ISO_WITH_CUDNN
#define ISO_CUDNN_FUNCTIONS(F) \
    F(cudnnGetVersion) F(cudnnGetErrorString) F(cudnnCreate) F(cudnnDestroy) F(cudnnSetStream) \
    F(cudnnBackendCreateDescriptor) F(cudnnBackendDestroyDescriptor) F(cudnnBackendSetAttribute) \
    F(cudnnBackendGetAttribute) F(cudnnBackendFinalize) F(cudnnBackendExecute)
#else
#define ISO_CUDNN_FUNCTIONS(F)
#endif
#if ISO_WITH_NCCL
#define ISO_NCCL_FUNCTIONS(F) \
    F(ncclGetVersion) F(ncclGetErrorString) F(ncclGetLastError) F(ncclGetUniqueId) F(ncclCommInitRankConfig) \
    F(ncclCommSplit) F(ncclCommFinalize) F(ncclCommDestroy) F(ncclCommAbort) F(ncclCommGetAsyncError) \
    F(ncclGroupStart) F(ncclGroupEnd) F(ncclSend) F(ncclRecv) F(ncclReduceScatter) F(ncclAllReduce)
#else
#define ISO_NCCL_FUNCTIONS(F)
#endif
/* clang-format on */

typedef struct iso_cuda_functions {
#define ISO_CUDA_MEMBER(name) __typeof__(&name) name;
    ISO_CUBLASLT_FUNCTIONS(ISO_CUDA_MEMBER)
    ISO_CUDNN_FUNCTIONS(ISO_CUDA_MEMBER)
    ISO_NCCL_FUNCTIONS(ISO_CUDA_MEMBER)
#undef ISO_CUDA_MEMBER
} iso_cuda_functions;

/* The functions of a part may be called once iso_cuda_open_part has returned ISO_OK for it. */
extern iso_cuda_functions iso_cuda_call;

/* False: the variable of the environment that names its file is "none", the wish to do without. */
bool iso_cuda_wants_part(iso_cuda_part part);
/* Opens a library of NVIDIA's, once, and fills its part of the table. Tried are the file that the environment names
 * (ISOGRID_CUBLASLT_LIBRARY, ISOGRID_CUDNN_LIBRARY, ISOGRID_NCCL_LIBRARY), else the one that the system's loader
 * finds, else those of Python's packages (nvidia/.../lib, which PyTorch brings along): the first one that opens and
 * whose functions and version fit. ISO_FAILED: there is none; the message names the paths, the reason for each, and
 * says what to do. */
iso_status iso_cuda_open_part(iso_cuda_part part);
/* The same for `isogrid doctor` (iso_cuda_library.find_part). */
void iso_cuda_find_opened(iso_cuda_part part, iso_cuda_part_facts *facts);

/* A test that is linked to these files defines it: the function of that name instead of the library's, or NULL. A
 * part with functions from here is opened without its library. */
extern void *iso_cuda_substitute(const char *name) __attribute__((weak));

#endif
