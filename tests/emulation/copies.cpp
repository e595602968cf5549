/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the emulated runtime. All are made by the thread that serves the streams. Directions,
 * devices and bounds are verified. */
#include "tests/emulation/runtime.hpp"

#include <memory>
#include <string.h>
#include <vector>

using namespace emulation;

namespace
{

/* `planes` planes of `rows` rows of `bytes`; rows and planes so many bytes apart. */
struct Box {
    size_t bytes, rows, planes, to_row, to_plane, from_row, from_plane;
};

size_t span(const Box &box, size_t row, size_t plane)
{
    return (box.planes - 1) * plane + (box.rows - 1) * row + box.bytes;
}

/* Where a copy goes and comes from: a device, PINNED or PAGEABLE. */
struct Ends {
    int to, from;
};

/* Whether a copy may be made; tells its ends. */
cudaError_t check(const void *to, const void *from, const Box &box, cudaMemcpyKind kind,
                  Ends *ends_p)
{
    bool to_fits, from_fits;
    const int there = place(to, span(box, box.to_row, box.to_plane), &to_fits);
    const int here = place(from, span(box, box.from_row, box.from_plane), &from_fits);
    *ends_p = {there, here};
    if (!to_fits || !from_fits)
        return refuse(cudaErrorInvalidValue, "a copy exceeds its %s",
                      to_fits ? "source" : "target");
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (to_device != (there >= 0) || from_device != (here >= 0)))
        return refuse(cudaErrorInvalidValue, "a copy's pointers and its direction do not agree");
    return cudaSuccess;
}

/* The bytes that a copy from pageable memory reads, which is at the call: CUDA puts them aside. A
 * node of a graph reads them when it runs. */
const char *put_aside(const void *from, const Box &box, const Ends &ends, cudaStream_t stream,
                      std::shared_ptr<std::vector<char>> &aside)
{
    const char *begin = (const char *)from;
    if (ends.from != PAGEABLE || is_captured(stream))
        return begin;
    aside =
        std::make_shared<std::vector<char>>(begin, begin + span(box, box.from_row, box.from_plane));
    return aside->data();
}

/* Whether the caller goes on before the copy is made: cudaMemcpy returns when pageable memory has
 * been read, and between places of devices at once. A copy on a stream from or to pageable memory
 * makes the caller wait, as it may. */
bool returns_before(const Ends &ends, bool synchronous)
{
    return synchronous ? ends.to >= 0 && ends.from != PINNED
                       : ends.to != PAGEABLE && ends.from != PAGEABLE;
}

cudaError_t copy(void *to, const void *from, const Box &box, cudaMemcpyKind kind,
                 cudaStream_t stream, bool synchronous)
{
    Ends ends;
    EMU_TRY(usable());
    if (box.bytes == 0 || box.rows == 0 || box.planes == 0)
        return cudaSuccess;
    EMU_TRY(check(to, from, box, kind, &ends));
    if (!synchronous && (ends.to == PAGEABLE || ends.from == PAGEABLE))
        count(PAGEABLE_COPIES);
    std::shared_ptr<std::vector<char>> aside;
    const char *source = put_aside(from, box, ends, stream, aside);
    const auto work = [to, source, box, aside] {
        for (size_t p = 0; p < box.planes; p++)
            for (size_t r = 0; r < box.rows; r++)
                memmove((char *)to + p * box.to_plane + r * box.to_row,
                        source + p * box.from_plane + r * box.from_row, box.bytes);
    };
    const bool goes_on = returns_before(ends, synchronous);
    EMU_TRY(enqueue(stream, work, synchronous && goes_on));
    if (synchronous || !goes_on)
        count(SYNCHRONOUS_CALLS);
    return goes_on ? cudaSuccess : result(wait_for_stream(stream));
}

Box line(size_t bytes)
{
    return {bytes, 1, 1, 0, 0, 0, 0};
}

/* What comes before a call on the default stream. */
cudaError_t begin_synchronous(const char *call)
{
    EMU_TRY(usable());
    EMU_TRY(outside_captures(call));
    wait_for_blocking_streams(device());
    return cudaSuccess;
}

cudaError_t check_peers(const void *to, int to_device, const void *from, int from_device)
{
    bool fits;
    if (place(to, 0, &fits) == to_device && place(from, 0, &fits) == from_device)
        return cudaSuccess;
    return refuse(cudaErrorInvalidValue, "a copy from device %d to %d: not their memory",
                  from_device, to_device);
}

char *corner(const cudaPitchedPtr &memory, const cudaPos &at)
{
    return (char *)memory.ptr + (at.z * memory.ysize + at.y) * memory.pitch + at.x;
}

cudaError_t copy_3d(const cudaMemcpy3DPeerParms *p, cudaStream_t stream, bool synchronous)
{
    const Box box = {p->extent.width,
                     p->extent.height,
                     p->extent.depth,
                     p->dstPtr.pitch,
                     p->dstPtr.pitch * p->dstPtr.ysize,
                     p->srcPtr.pitch,
                     p->srcPtr.pitch * p->srcPtr.ysize};
    if (p->srcArray || p->dstArray)
        return result(refuse(cudaErrorNotSupported, "copies of arrays"));
    EMU_TRY(check_peers(p->dstPtr.ptr, p->dstDevice, p->srcPtr.ptr, p->srcDevice));
    return copy(corner(p->dstPtr, p->dstPos), corner(p->srcPtr, p->srcPos), box,
                cudaMemcpyDeviceToDevice, stream, synchronous);
}

} // namespace

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return copy(to, from, line(bytes), kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    EMU_TRY(begin_synchronous("cudaMemcpy"));
    return copy(to, from, line(bytes), kind, nullptr, true);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_row, const void *from, size_t from_row,
                              size_t bytes, size_t rows, cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy(to, from, {bytes, rows, 1, to_row, 0, from_row, 0}, kind, stream, false);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_row, const void *from, size_t from_row, size_t bytes,
                         size_t rows, cudaMemcpyKind kind)
{
    EMU_TRY(begin_synchronous("cudaMemcpy2D"));
    return copy(to, from, {bytes, rows, 1, to_row, 0, from_row, 0}, kind, nullptr, true);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t bytes, cudaStream_t stream)
{
    EMU_TRY(check_peers(to, to_device, from, from_device));
    return copy(to, from, line(bytes), cudaMemcpyDeviceToDevice, stream, false);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    EMU_TRY(begin_synchronous("cudaMemcpyPeer"));
    EMU_TRY(check_peers(to, to_device, from, from_device));
    return copy(to, from, line(bytes), cudaMemcpyDeviceToDevice, nullptr, true);
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *parameters, cudaStream_t stream)
{
    return copy_3d(parameters, stream, false);
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *parameters)
{
    EMU_TRY(begin_synchronous("cudaMemcpy3DPeer"));
    return copy_3d(parameters, nullptr, true);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    bool fits;
    EMU_TRY(usable());
    if (bytes == 0)
        return cudaSuccess;
    if (place(to, bytes, &fits) == PAGEABLE || !fits)
        return result(refuse(cudaErrorInvalidValue, "cudaMemset beyond a device's memory"));
    return result(enqueue(
        stream, [=] { memset(to, value, bytes); }, !stream));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(begin_synchronous("cudaMemset"));
    return cudaMemsetAsync(to, value, bytes, nullptr);
}
